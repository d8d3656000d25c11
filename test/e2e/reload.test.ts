import { mkdirSync, renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clearPlace, configure, makePlace, startBot } from '../kill/bot.ts';
import type { Bot, Place } from '../kill/bot.ts';
import type { Page } from '../kill/page.ts';
import { CHANNEL, DEMO, demoWith, logLines, openPage } from './demo.ts';

let place: Place;
let bot: Bot;
let page: Page;

beforeAll(async () => {
  place = await makePlace(DEMO);
  // The configuration file is a symbolic link to a file in another folder. Conch must notice changes of that file.
  const folder = join(place.dir, 'settings');
  mkdirSync(folder);
  renameSync(place.configFile, join(folder, 'conch.json'));
  symlinkSync(join(folder, 'conch.json'), place.configFile);
  bot = startBot(place);
  await bot.ready();
  page = await openPage(bot);
});

afterAll(async () => {
  page.close();
  await bot.end('SIGKILL');
  clearPlace(place);
});

const speakers = (): readonly string[] => [...page.messages.values()].map(({ speaker }) => speaker.id);
const reloads = (): number => logLines(bot).filter(({ message }) => message === 'configuration reloaded').length;

describe('a configuration that is changed while Conch runs', () => {
  test('changes the mode for new messages, and does not affect the turn in progress', async () => {
    await page.say(CHANNEL, 'dev: slow');
    await page.until(() => page.view?.holder?.agent === 'dev', 'dev at work');
    const turn = page.view?.holder;
    configure(place, demoWith({ humanInterruptMode: 'queue' }));
    await page.until(() => page.view?.mode === 'queue', 'the new mode');
    expect(page.view?.holder).toMatchObject({ agent: 'dev', epoch: turn?.epoch, startedAt: turn?.startedAt });
    const id = await page.say(CHANNEL, 'And now?');
    await page.until(() => page.view?.held.includes(id) === true, 'a held message');
    expect(await page.command(CHANNEL, '/stop')).toMatchObject({ ok: true });
  });

  test('seats a new agent, and the agent answers', async () => {
    const ops = { id: 'ops', backend: { kind: 'scripted', script: 'pm', wordMs: 3 } };
    configure(place, {
      ...DEMO,
      agents: [...DEMO.agents, ops],
      channels: [{ id: CHANNEL, agents: ['pm', 'dev', 'qa', 'ops'] }],
    });
    await page.until(
      () => page.view?.seats.at(-1)?.agent === 'ops' && page.view.seats.at(-1)?.status === 'QUEUED',
      'a seat for ops',
    );
    await page.say(CHANNEL, 'ops: Hello!');
    await page.until(() => speakers().includes('ops'), 'an answer of ops');
    expect(page.view?.seats.map(({ agent }) => agent)).toEqual(['pm', 'dev', 'qa', 'ops']);
  });

  test('T41 logs which keys need a restart', async () => {
    const told = () => logLines(bot).find(({ atStart }) => atStart !== undefined);
    configure(place, { ...DEMO, log: { ...DEMO.log, level: 'debug' } });
    await page.until(() => told() !== undefined, 'the words');
    expect(told()).toMatchObject({
      level: 'warn',
      atStart: ['log.level'],
      message: 'configuration reloaded, except log.level: restart Conch to apply the rest',
    });
  });

  test('removes the seat of an agent that is no longer in the channel', async () => {
    configure(place, { ...DEMO, channels: [{ id: CHANNEL, agents: ['pm', 'dev'] }] });
    await page.until(() => page.view?.seats.length === 2, 'two seats');
    expect(page.view?.seats.map(({ agent }) => agent)).toEqual(['pm', 'dev']);
  });

  test('changes nothing while it is invalid, and the log says why', async () => {
    await page.until(() => reloads() === 3, 'the end of the reloads before');
    configure(place, { ...DEMO, turnConfig: { humanInterruptMode: 'sideways' } });
    const refusal = (): string | undefined =>
      logLines(bot)
        .map(({ message }) => String(message))
        .find((message) => message.endsWith('Nothing was changed.'));
    await page.until(() => refusal() !== undefined, 'a line in the log');
    expect(refusal()).toContain('turnConfig.humanInterruptMode: Expected');
    expect(reloads()).toBe(3);
    expect(page.view?.seats.map(({ agent }) => agent)).toEqual(['pm', 'dev']);
    configure(place, demoWith({ humanInterruptMode: 'parallel' }));
    await page.until(() => page.view?.mode === 'parallel', 'the mode of the corrected file');
  });

  test('adds a secret, which is redacted in the log', async () => {
    const args = ['-c', 'echo lost $0 >&2; exit 1', '--api-key=d0nt-sh0w-this'];
    const leaky = { id: 'leaky', backend: { kind: 'command', command: 'sh', args } };
    const channels = [{ id: CHANNEL, agents: ['pm', 'leaky'] }];
    configure(place, { ...DEMO, agents: [...DEMO.agents, leaky], channels });
    const isQueued = () =>
      page.view?.seats.some(({ agent, status }) => agent === 'leaky' && status === 'QUEUED') === true;
    await page.until(isQueued, 'a seat for leaky');
    await page.say(CHANNEL, 'leaky: Hello!');
    const told = () => logLines(bot).find(({ stderr }) => stderr !== undefined);
    await page.until(() => told() !== undefined, 'the standard error of leaky', 20_000);
    expect(told()).toMatchObject({ stderr: expect.stringContaining('lost --api-key=[secret]') });
  });
});
