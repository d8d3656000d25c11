import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { CHANNEL, puppetry } from '../agents/bench.ts';
import { createTime } from '../agents/time.ts';
import { load } from '../config/world.ts';
import { folder, open, written } from '../engine/sqlite/fixture.ts';
import { startApp } from './start-app.ts';
import { openToAnswers, reportUnposted } from '../../src/runtime/app.ts';
import type { Command } from '../../src/turns/floor/command.ts';
import type { Effect } from '../../src/turns/floor/react.ts';
import { emptyFloor } from '../../src/turns/floor/floor.ts';

const ROW = { id: '1', channel: 'slack:C1', lane: 'posts', part: 0, text: '', attempts: 1 } as const;
const REST = { uncertain: false, afterId: null, editsId: null };

function floors() {
  const told: Command[] = [];
  const apply = async (_channel: string, command: Command) => {
    told.push(command);
    return { ok: true, state: emptyFloor('slack:C1'), facts: [], effects: [] } as const;
  };
  return { told, apply };
}

test('T53 opens a question to answers once its text is posted', async () => {
  const { told, apply } = floors();
  const offer = { type: 'offer', question: 8 } as const;
  expect(await openToAnswers({ apply }, 'slack:C1', offer)).toEqual({ state: 'confirmed', platformId: null });
  expect(told).toEqual([{ type: 'shown', question: 8 }]);
});

test.each<[string, Effect, Command[]]>([
  [
    'T53 closes a question that the platform refuses',
    {
      type: 'announce',
      announcement: { kind: 'approval', agent: 'pm', question: 8, title: 'rm', detail: 'rm' },
      key: 'approval:8',
      repeat: 1,
    },
    [{ type: 'shown', question: 8, why: 'not_in_channel' }],
  ],
  [
    'announces a post of an agent that the platform refuses',
    { type: 'post', agent: 'pm', epoch: 1, line: 1, text: 'Done.' },
    [{ type: 'undelivered', agent: 'pm', why: 'not_in_channel' }],
  ],
  [
    'ignores the refusal of any other announcement',
    { type: 'announce', announcement: { kind: 'nobody' }, key: 'nobody', repeat: 1 },
    [],
  ],
])('%s', async (_what, effect, wanted) => {
  const { told, apply } = floors();
  await reportUnposted({ apply }, { ...ROW, ...REST, effect }, 'not_in_channel');
  expect(told).toEqual(wanted);
});

test('T50 logs no failed delivery to an agent when the program ends with undelivered messages', async () => {
  const { backend } = puppetry();
  const time = createTime();
  const logged: string[] = [];
  const { app, intake, broken } = await startApp({
    config: load({
      agents: [{ id: 'dev', backend: { kind: 'scripted', script: 'dev' } }],
      channels: [{ id: CHANNEL, agents: ['dev'] }],
    }),
    store: open(':memory:', { clock: time.clock }),
    time,
    adapter: { name: 'console' },
    backendFor: () => backend,
    logged: (line) => logged.push(line),
  });
  const write = (id: string) => intake().message(written(id, `text of ${id}`, CHANNEL));
  await write('m1');
  await time.advance(1_000);
  await Promise.all([...['m2', 'm3', 'm4'].map(write), app.stop()]);
  expect(logged).toEqual([]);
  expect(broken).toEqual([]);
});

test('T30 stores no secret that an agent says or that its error holds', async () => {
  using place = folder();
  const SECRET = 'xoxb-1234567890-abcdefghij';
  const { backend, sessions } = puppetry();
  const time = createTime();
  const store = open(place.file(), { clock: time.clock });
  const { app, intake, broken } = await startApp({
    config: load({
      agents: [{ id: 'dev', backend: { kind: 'scripted', script: 'dev' } }],
      channels: [{ id: CHANNEL, agents: ['dev'] }],
    }),
    store,
    time,
    adapter: { name: 'console' },
    backendFor: () => backend,
  });
  await intake().message(written('m1', 'what is the token?', CHANNEL));
  await time.advance(1_000);
  sessions[0]?.report?.text(`it is ${SECRET}, keep it`);
  sessions[0]?.ends({ how: 'completed' });
  await time.advance(1_000);
  await intake().message(written('m2', 'and again', CHANNEL));
  await time.advance(1_000);
  sessions[0]?.ends(new Error(`refused: ${SECRET}`));
  await time.advance(1_000);
  await app.stop();
  expect(broken).toEqual([]);
  const kept = open(place.file());
  expect(kept.lines(CHANNEL, 0, 9).map(({ text }) => text)).toContain('it is [secret], keep it');
  await kept.close();
  expect(readFileSync(place.file()).includes(SECRET)).toBe(false);
  expect(readFileSync(place.file()).includes('refused: [secret]')).toBe(true);
});
