import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { idOf } from '../../src/agents/trust/folder-scan.ts';
import { FolderTrust } from '../../src/agents/trust/folder-trust.ts';
import type { TrustCommand } from '../../src/agents/trust/folder-trust.ts';
import { sessionJournal } from '../../src/agents/session/session-journal.ts';
import type { FactFields } from '../../src/engine/machine.ts';
import { floorMachine } from '../../src/turns/floor-store.ts';
import { loadConfig } from '../../src/config/load.ts';
import { thisWorld } from '../../src/config/world.ts';
import { carryOut } from '../../src/runtime/maintenance.ts';
import { PLAIN_SETTINGS } from '../../src/turns/floor/floor.ts';
import { crewOnFloor } from '../../src/work/crews/crew-binding.ts';
import { reviewOnFloor } from '../../src/work/reviews/review-binding.ts';
import { runKeyOf, runOnFloor } from '../../src/work/runs/floor-binding.ts';
import { unfinishedSteps } from '../../src/work/runs/call-outcomes.ts';
import { ChatError } from '../../src/adapters/port.ts';
import { Platform } from '../../src/adapters/console/platform.ts';
import { defined } from '../../src/lib/defined.ts';
import { CHANNEL, puppetry } from '../agents/bench.ts';
import { createTime } from '../agents/time.ts';
import { load } from '../config/world.ts';
import { folder, open, written } from '../engine/sqlite/fixture.ts';
import { startApp } from './start-app.ts';
import { seatOf } from '../turns/floor/stage.ts';
import { BESIDE, Bound, HALL, SEAT } from '../work/runs/bound.ts';
import { settle, start, step } from '../work/runs/fixture.ts';

/** Plays a tool call in pm's turn. The prompt, the step and the result contain `word`, which no other turn contains. */
async function uses(bound: Bound, word: string): Promise<void> {
  const { epoch = 0, agent } = bound.hall.turn ?? {};
  if (agent !== 'pm') throw new Error('pm does not have the floor');
  await bound.floor({ type: 'use', agent, epoch, prompt: `do ${word}`, output: `I do ${word}` });
  await bound.run({ type: 'KEEP', session: `${epoch}`, said: `["you said ${word}"]`, calls: `["${word}"]` });
  const id = `c${epoch}`;
  await bound.requests(id, { digest: `d-${epoch}`, verdict: 'allow' }, `${epoch}`);
  await bound.run({ type: 'CLAIM', call: id, digest: `d-${epoch}`, verdict: 'allow' });
  await bound.run({ ...settle(id), output: `found ${word}` } as Parameters<Bound['run']>[0]);
}

async function ends(bound: Bound): Promise<void> {
  const { epoch = 0, agent = '' } = bound.hall.turn ?? {};
  await bound.floor({ type: 'end', agent, epoch, outcome: 'completed', signalled: true });
}

/** Plays turns for ada, ben and ben, and a background run for ada. A message of ada is injected into turn 2. */
async function worked(path: string): Promise<Bound> {
  const bound = new Bound(path);
  await bound.floor(
    { type: 'configure', settings: PLAIN_SETTINGS, seats: [seatOf('pm')] },
    { type: 'join', agent: 'pm' },
  );
  await bound.hears('m1', 'ada');
  await uses(bound, 'word-ada-1');
  await ends(bound);
  await bound.hears('m2', 'ben');
  await uses(bound, 'word-ben-2');
  await bound.hears('m3', 'ada');
  await bound.floor({
    type: 'injected',
    agent: 'pm',
    epoch: bound.hall.turn?.epoch ?? 0,
    id: 'm3',
    outcome: 'injected',
  });
  await ends(bound);
  await bound.hears('m4', 'ben');
  await uses(bound, 'word-ben-4');
  await bound.beside(
    start({ runType: 'background', requestedBy: 'ada', session: '1', prompt: `${'Look. '.repeat(40)}word-ada-beside` }),
    step(1, [], '1'),
  );
  return bound;
}

const WORDS = ['word-ada-1', 'word-ben-2', 'word-ben-4', 'word-ada-beside'];

function left(file: (name?: string) => string): readonly string[] {
  const bytes = ['conch.db', 'conch.db-wal'].map((name) => readFileSync(file(name)));
  return WORDS.filter((word) => bytes.some((each) => each.includes(word)));
}

async function erase(bound: Bound, what: 'person' | 'message', id: string, dataDir?: string): Promise<string> {
  const config = { ...loadConfig({ ...thisWorld(), env: {}, cwd: '/' }, 'look'), ...defined({ dataDir }) };
  const parts = { store: bound.store, config: () => config, clock: { now: () => bound.at } };
  const { text } = await carryOut({ act: 'erase', what, id }, parts);
  return text;
}

describe('an erasure', () => {
  test('names the former databases in the data folder, which still hold the texts', async () => {
    using place = folder();
    const bound = await worked(place.file());
    const names = [
      'conch.db.before-restore',
      'conch.db.before-restore-2',
      'conch.db.restoring',
      'conch.db.schema-3',
      'conch.db.schema-3-wal',
    ];
    for (const name of names) writeFileSync(place.file(name), '');
    const told = await erase(bound, 'message', 'm1', dirname(place.file()));
    const files = names.map((name) => place.file(name)).join(', ');
    expect(told).toContain(`these former databases, until you delete them: ${files}.`);
    await bound.store.close();
  });

  test.each([
    ['person', 'ada', ['word-ben-4']],
    ['person', 'ben', ['word-ada-1', 'word-ada-beside']],
    ['message', 'm1', ['word-ben-2', 'word-ben-4', 'word-ada-beside']],
    ['message', 'm3', ['word-ada-1', 'word-ben-4', 'word-ada-beside']],
    ['message', 'm9', WORDS],
  ] as const)('of %s %s clears the steps and outputs made for it, and no others', async (what, id, kept) => {
    using place = folder();
    const bound = await worked(place.file());
    expect(left(place.file)).toEqual(WORDS);
    await erase(bound, what, id);
    expect(left(place.file)).toEqual(kept);
    expect(bound.store.verify()).toEqual([]);
    for (const seat of [SEAT, BESIDE])
      expect(bound.runs.replay(runKeyOf(seat))).toMatchObject({ brokenAt: null, stoppedBy: null, equal: true });
    const { state } = bound;
    await bound.dies();
    expect([bound.store.verify(), bound.state.totals]).toEqual([[], state.totals]);
    await bound.store.close();
  });

  test('removes why the agent of a run was lost, from the floor too', async () => {
    using place = folder();
    const bound = new Bound(place.file());
    await bound.floor(
      { type: 'configure', settings: PLAIN_SETTINGS, seats: [seatOf('pm')] },
      { type: 'join', agent: 'pm' },
    );
    await bound.hears('m1', 'ada');
    await uses(bound, 'the work');
    await bound.floor({ type: 'leave', agent: 'pm', cause: 'the server answered: cannot do word-ada-1' });
    expect(left(place.file)).toEqual(['word-ada-1']);
    await erase(bound, 'message', 'm1');
    expect([left(place.file), bound.store.verify()]).toEqual([[], []]);
    await bound.store.close();
  });

  test('leaves a turn no steps to continue from when it cleared the steps of this turn', async () => {
    using place = folder();
    const bound = await worked(place.file());
    expect(unfinishedSteps(bound.runs.newest(runKeyOf(SEAT)))).toMatchObject({ steps: [{ calls: '["word-ben-4"]' }] });
    await erase(bound, 'message', 'm4');
    expect(unfinishedSteps(bound.runs.newest(runKeyOf(SEAT)))).toBeNull();
    expect(bound.store.floors.journal(HALL, 1)).toHaveLength(1);
    await bound.store.close();
  });

  test('T72 removes the person who trusted a folder, and the folder stays trusted', async () => {
    using place = folder();
    const bound = await new Bound(place.file()).granted();
    const work = dirname(place.file());
    writeFileSync(join(work, '.mcp.json'), '{}');
    const files = [{ path: '.mcp.json', searched: 'folder', can: ['run'], note: 'starts tool servers' }] as const;
    const trust = new FolderTrust({
      store: bound.store.keyValues,
      clock: { now: () => bound.at },
      timers: createTime().timers,
    });
    const told: Promise<unknown>[] = [];
    const tell = (_: string, command: TrustCommand) => void told.push(bound.floor(command).catch(() => undefined));
    trust.connect({ tell, channelsOf: () => [HALL], clean: (text) => text });
    const gate = trust.gateFor('dev', { cwd: work, files, home: '/nowhere' });
    const seat = { agent: 'dev', channel: HALL };
    await expect(gate.admit(seat)).rejects.toThrow('not trusted');
    const ids = await trust.standing('dev');
    const person = { id: 'U-trusting', name: 'Trusting, Ann', roles: [] };
    await bound.store.keyValues.remember('names', person.id, person.name);
    const id = idOf(ids?.scan.digest ?? '');
    expect(await trust.trust('dev', id, { channel: HALL, person })).toMatchObject({ ok: true });
    await Promise.all(told);
    const traces = () => ['conch.db', 'conch.db-wal'].map((name) => readFileSync(place.file(name), 'latin1')).join('');
    expect([traces().includes('U-trusting'), traces().includes('Trusting, Ann')]).toEqual([true, true]);
    expect(await erase(bound, 'person', person.id)).toContain('Erased the texts of');
    expect([traces().includes('U-trusting'), traces().includes('Trusting, Ann')]).toEqual([false, false]);
    await gate.admit(seat);
    expect(trust.book.of('dev')).toMatchObject([{ choice: 'trusted', by: '[erased]' }]);
    await bound.store.close();
  });

  test('makes the check fail when somebody writes a text in place of an erased one', async () => {
    using place = folder();
    const bound = await worked(place.file());
    await erase(bound, 'person', 'ada');
    await bound.store.close();
    const db = new Database(place.file());
    db.exec(`UPDATE journal SET body = '[["salt","evil"]]' WHERE facts LIKE '%callSettled%' AND body IS NULL`);
    db.close();
    await bound.dies().catch(() => {});
    expect(bound.store.verify()).not.toEqual([]);
    await bound.store.close();
  });
});

const MARKED = { id: 'mark-id', name: 'Mark-Name', roles: [] };
const never = new AbortController().signal;

/** Starts the whole program with dev as a puppet and a console that stores its messages. */
async function program(path: string) {
  const { backend, sessions } = puppetry();
  const time = createTime();
  const store = open(path, { clock: time.clock, words: (told) => JSON.stringify(told) });
  const console = new Platform(store.tables, time.clock);
  const config = load({
    agents: [{ id: 'dev', backend: { kind: 'scripted', script: 'dev' } }],
    channels: [{ id: CHANNEL, agents: ['dev'] }],
    operators: { users: [MARKED.id] },
    tools: { allow: ['Bash(npm test)'], default: 'ask' },
  });
  const platform = { isDown: false };
  const { app, intake } = await startApp({
    config,
    store,
    time,
    adapter: {
      name: 'console',
      post: async (channel, { outboxId: nonce, text }) => {
        if (platform.isDown) throw new ChatError('down', { method: 'post', channel, fault: 'unreachable' });
        const speaker = { id: 'conch', name: 'Conch', avatar: null };
        const said = { channel, kind: 'system', speaker, text, epoch: null, replyTo: null, nonce } as const;
        return (await console.add(said)).message.id;
      },
    },
    backendFor: () => backend,
  });
  await time.advance(1_000);
  const type = async (line: string, by = MARKED) => {
    const { text } = await intake().command(CHANNEL, by, line);
    await time.advance(1_000);
    return text;
  };
  const says = async (id: string, text: string, author: Pick<typeof MARKED, 'id' | 'name'> = MARKED) => {
    const person = { id: author.id, name: author.name, avatar: null };
    const shown = { channel: CHANNEL, kind: 'person', speaker: person, epoch: null, replyTo: null } as const;
    await console.add({ ...shown, text, nonce: `n-${id}` });
    const isMarked = author === MARKED;
    const file = { name: 'mark-word.txt', url: 'https://example.org/mark-word', contentType: null, bytes: 1 };
    const attachments = isMarked ? [file] : [];
    await intake().message({ ...written(id, text, CHANNEL), author: person, attachments });
    await time.advance(1_000);
  };
  const gateOf = (beside: boolean) =>
    sessions.findLast(({ turn }) => turn !== null && (turn.channel !== CHANNEL) === beside)?.report?.gate ?? null;
  const end = async (beside: boolean) => {
    sessions.findLast(({ turn }) => turn !== null && (turn.channel !== CHANNEL) === beside)?.ends({ how: 'completed' });
    await time.advance(1_000);
  };
  /** dev requests a call whose title, input and result contain `word`. */
  const asks = async (word: string, beside = false) => {
    const input = { command: `echo ${word}` };
    const plain = { tool: 'Bash', definition: null, repeatable: false, caution: null };
    const call = { ...plain, id: `c${word.length}`, title: `print ${word}`, input, detail: input.command };
    const asked = gateOf(beside)?.ask(call, never);
    // A database on disk answers later, so the request is shown later.
    const isShown = () => JSON.stringify(store.floors.state(CHANNEL)).includes('"shown":true');
    for (let look = 0; look < 1_000 && !isShown(); look += 1) await time.advance(10);
    const answer = async () => {
      const { verdict } = (await asked) ?? {};
      const done = { status: 'complete', output: `${word} came out`, code: null, durationMs: 1 } as const;
      if (verdict === 'go') await gateOf(beside)?.settled(call, done);
      return verdict;
    };
    return { answer };
  };
  const question = () => store.floors.state(CHANNEL)?.questions ?? 0;
  const found = () => files().flatMap((bytes) => bytes.match(/[ -~]{0,60}mark-(id|name|word)[ -~]{0,60}/giu) ?? []);
  const files = () => readdirSync(dirname(path)).map((name) => readFileSync(join(dirname(path), name), 'latin1'));
  return { app, store, config, time, type, says, asks, end, question, files, found, gateOf, platform };
}

describe('a person who spoke, started work, allowed, denied with a reason, answered and stopped', () => {
  test('is nowhere in the data folder after an erasure, and every journal still folds', async () => {
    using place = folder();
    const { app, store, config, time, type, says, asks, end, question, files, found, gateOf } = await program(
      place.file(),
    );
    await says('1', 'mark-word-said');
    await gateOf(false)?.step({ text: 'mark-word-step', checkpoint: { said: '["mark-word-kept"]', calls: '[]' } });
    const allowed = await asks('mark-word-allowed');
    await type(`/allow ${question()}`);
    expect(await allowed.answer()).toBe('go');
    const refused = await asks('mark-word-refused');
    await type(`/reject ${question()} mark-word-reason`);
    expect(await refused.answer()).toBe('refused');
    await type('/run pause dev');
    await type('/run resume dev');
    await end(false);
    await type('/run start dev look for mark-word-work');
    const beside = await asks('mark-word-beside', true);
    await type(`/reject ${question()} mark-word-answer`);
    await beside.answer();
    await type('/run abort dev+ mark-word-stopped');
    await type('/floor pause');
    await type('/floor resume');
    const ada = { id: 'ada', name: 'Ada', roles: [] };
    await says('2', 'hello from ada', ada);
    const others = await asks('word-of-ada');
    await type(`/reject ${question()} mark-word-no`);
    await others.answer();
    const waiting = await asks('word-of-ada-open');
    expect(found().length).toBeGreaterThan(30);
    const parts = { store, config: () => config, clock: time.clock };
    const order = { act: 'erase', what: 'person', id: MARKED.id } as const;
    expect(await carryOut(order, parts)).toMatchObject({ ok: true, text: expect.stringContaining('1 messages') });
    expect(found()).toEqual([]);
    expect(store.verify()).toEqual([]);
    expect(files().some((bytes) => bytes.includes('word-of-ada-open'))).toBe(true);
    await type(`/allow ${question()}`, ada);
    expect(await waiting.answer()).toBe('go');
    await app.stop();
    expect(found()).toEqual([]);
  });
});

test('removes an erased member from memory, so that later calls store neither name nor id', async () => {
  using place = folder();
  const { app, store, config, time, type, says, asks, question, found } = await program(place.file());
  const member = { id: 'mark-id-2', name: 'Mark-Name-2' };
  await says('1', 'Do it', member);
  const calls = async (word: string) => {
    const call = await asks(word);
    await type(`/allow ${question()}`);
    expect(await call.answer()).toBe('go');
  };
  await calls('first');
  expect(found().join()).toContain('what Mark-Name-2 wrote, who is not an operator');
  const parts = { store, config: () => config, clock: time.clock };
  await carryOut({ act: 'erase', what: 'person', id: member.id }, parts);
  await calls('second');
  expect(found().filter((text) => /mark-(?:id|name)-2/i.test(text))).toEqual([]);
  expect(app.runs.people.nameOf(member.id)).toBe(member.id);
  await app.stop();
});

test('posts a request for an erased person as [erased] when it was still pending', async () => {
  using place = folder();
  const { app, store, config, time, says, gateOf, found, platform } = await program(place.file());
  await says('1', 'mark-word-said');
  platform.isDown = true;
  const call = { tool: 'Bash', definition: null, repeatable: false, caution: null, id: 'c1' };
  const asked = gateOf(false)?.ask({ ...call, input: { command: 'mark-word' }, detail: 'mark-word' }, never);
  const owed = () => store.tables.db.prepare<[], string>("SELECT text FROM outbox WHERE state = 'owed'").pluck().all();
  for (let look = 0; look < 1_000 && owed().length === 0; look += 1) await time.advance(10);
  const parts = { store, config: () => config, clock: time.clock };
  await carryOut({ act: 'erase', what: 'person', id: MARKED.id }, parts);
  expect([found(), store.verify()]).toEqual([[], []]);
  platform.isDown = false;
  for (let look = 0; look < 1_000 && owed().length > 0; look += 1) await time.advance(100);
  const shown = store.tables.db
    .prepare<[], string>("SELECT text FROM conversation WHERE kind = 'system'")
    .pluck()
    .all();
  expect(shown.length).toBeGreaterThan(0);
  expect(new Set(shown)).toEqual(new Set(['[erased]']));
  await app.stop();
  await asked;
  expect(found()).toEqual([]);
});

/** Names of fields that hold no words or ids of people: Conch's own ids, agents, tools, rules, faults, settings. */
const NOBODYS = new Set(
  `act addressed agent agentCall allowedTools also always answered approval askedBy away backend call candidates cause code configuration
   cut definition digest example facilitator folder gap holder agents next via id key message messages mentions model named of open order origin others
   crew fallback from review sameModel within about base branch channel files kept main thread ticket tip unmerged worker worktree
   commit deps done fail file head left otherWorker pass primary program prompts proposal queue ref remembered reviewer returned rule run seats server session settings signal task told to tool touches tree trigger unaskable url why zone`.split(
    /\s+/u,
  ),
);

/** Yields the path, such as `a.b`, of each field in which the schema allows text. */
function* textsIn(schema: unknown, path = ''): Generator<string> {
  const node = Object(schema) as Readonly<Record<string, unknown>>;
  for (const each of [node['anyOf'], node['oneOf'], node['allOf']].flatMap((list) => (Array.isArray(list) ? list : [])))
    yield* textsIn(each, path);
  const { properties } = node;
  for (const [name, each] of Object.entries(Object(properties) as Record<string, unknown>))
    yield* textsIn(each, path === '' ? name : `${path}.${name}`);
  if (node['items'] !== undefined) yield* textsIn(node['items'], path);
  const isAnything = Object.keys(node).length === 0 || (node['type'] === 'object' && properties === undefined);
  const isText = [node['type']].flat().includes('string') && node['const'] === undefined && node['enum'] === undefined;
  if (isText || isAnything) yield path;
}

test.each([floorMachine, runOnFloor, reviewOnFloor, crewOnFloor, sessionJournal])(
  'every text in the facts of a $name can be erased, or holds nothing of a person',
  (machine) => {
    const schema = z.toJSONSchema(machine.fact, { unrepresentable: 'any', io: 'input' });
    const kinds = schema.oneOf ?? schema.anyOf ?? [schema];
    const texts: FactFields = 'texts' in machine ? machine.texts : {};
    const found = kinds.flatMap((kind) => {
      const type = String(Object(Object(Object(kind).properties).type).const);
      const erasable = texts[type] ?? [];
      const others = [...textsIn(kind)].filter(
        (path) => !erasable.some((each) => path === each || path.startsWith(`${each}.`)),
      );
      return others.filter((path) => !NOBODYS.has(path.split('.').at(-1) ?? '')).map((path) => `${type} ${path}`);
    });
    expect([kinds.length > 0, found]).toEqual([true, []]);
  },
);
