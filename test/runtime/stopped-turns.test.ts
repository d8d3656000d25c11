import { describe, expect, test } from 'vitest';
import type { GatedCall } from '../../src/agents/tools/tool-gate.ts';
import { runKeyOf } from '../../src/work/runs/floor-binding.ts';
import { CHANNEL, puppetry } from '../agents/bench.ts';
import type { Puppet } from '../agents/bench.ts';
import { createTime } from '../agents/time.ts';
import { load } from '../config/world.ts';
import { folder, open, written } from '../engine/sqlite/fixture.ts';
import { startApp } from './start-app.ts';

const ADA = { id: 'ada', name: 'Ada', roles: [] };
const TEXT = 'So far so good.';
const never = new AbortController().signal;

/** A configuration with dev and qa. Those of `seated` have seats in `channel`. The step limit of a run is 2. */
function configOf({ seated = ['dev', 'qa'], channel = CHANNEL, mode = 'inject' } = {}) {
  return load({
    turnConfig: { coalesceMs: 0, receipts: false, humanInterruptMode: mode },
    tools: { allow: ['Bash(npm test)'], default: 'ask', members: 'same' },
    runs: { conversational: 2 },
    agents: ['dev', 'qa'].map((id) => ({ id, backend: { kind: 'scripted', script: 'dev' } })),
    channels: [{ id: channel, agents: seated }],
  });
}

/** Starts the whole program on the database at `path`, with puppets as agents. */
async function program(path: string, mode?: string) {
  const { backend, sessions } = puppetry();
  const time = createTime();
  const store = open(path, { clock: time.clock, textLimit: () => 1_000 });
  const config = configOf(mode === undefined ? {} : { mode });
  const started = await startApp({ config, store, time, adapter: { name: 'console' }, backendFor: () => backend });
  const settled = async (ms = 0) => {
    await time.advance(ms);
    for (let look = 0; look < 20; look += 1) await time.settle();
  };
  await settled(1_000);
  return { ...started, time, store, sessions, settled };
}

type Program = Awaited<ReturnType<typeof program>>;

/** A call as coding agents request it: the agent may go on writing while the call waits. */
function call(command: string): GatedCall {
  const plain = { tool: 'Bash', definition: null, repeatable: false, caution: null };
  const accounts = [{ name: 'Bash', kind: 'execute', input: { command }, locations: [] }] as const;
  return { ...plain, id: command, input: { command }, detail: command, accounts };
}

/** The states of dev's turn, each with the steps that bring the turn into it. */
const STATES = {
  speaking: async () => {},
  'a tool running': async (dev: Puppet) => void (await dev.report?.gate?.ask(call('npm test'), never)),
  'people asked': async (dev: Puppet, { settled }: Program) => {
    void dev.report?.gate?.ask(call('npm publish'), never);
    await settled(100);
  },
  'its run at the limit': async (dev: Puppet, { settled }: Program) => {
    await dev.report?.gate?.step({ text: '', checkpoint: null });
    void dev.report?.gate?.step({ text: '', checkpoint: null });
    await settled(100);
  },
} as const;

type State = keyof typeof STATES;
type Way = (program: Program, dev: Puppet) => Promise<unknown>;

const typed =
  (line: string): Way =>
  ({ intake }) =>
    intake().command(CHANNEL, ADA, line);

/** Each way in which a turn may end or be cut off. */
const WAYS = {
  '/stop': typed('/stop'),
  '/floor skip': typed('/floor skip'),
  '/run abort': typed('/run abort dev'),
  '/run complete': typed('/run complete dev'),
  '/floor remove': typed('/floor remove dev'),
  '/agent disable': typed('/agent disable dev'),
  '/agent restart': typed('/agent restart dev'),
  '/floor grant qa': typed('/floor grant qa'),
  'a no': typed('/reject 1'),
  'its time over': ({ time }) => time.advance(1_000_000),
  'its agent failing': async (_, dev) => dev.ends(new Error('it fell over')),
  'its agent silent': async ({ time }, dev) => {
    dev.pings = 'silent';
    await time.advance(100_000);
  },
  'its agent ending': async (_, dev) => dev.ends({ how: 'completed' }),
  'a configuration without its seat': ({ app }) => app.reload(configOf({ seated: ['qa'] })),
  'a configuration without its channel': ({ app }) => app.reload(configOf({ channel: 'console:other' })),
  'its channel deleted': async ({ intake }) => intake().suspend(CHANNEL, 'deleted'),
  'the program ending': ({ app }) => app.stop(),
  'the program killed': ({ store }) => store.close(),
} as const satisfies Record<string, Way>;

/** One line with the outcome: text, calls, run, request, and the holder of the floor. */
function outcomeOf({ app, store, queries }: Program): string {
  const facts = store.floors.journal(CHANNEL, 1_000).map(({ fact }) => fact);
  const said = facts.flatMap((fact) => (fact.type === 'said' ? [fact.text] : []));
  const words: Readonly<Record<string, string>> = { [TEXT]: 'whole', [`${TEXT} … (cut off)`]: 'cut' };
  const calls = app.runs.audit.calls({});
  const rows: string[] = [];
  for (let next = calls.next(); next.done !== true; next = calls.next())
    if (typeof next.value !== 'number')
      rows.push(next.value.outcome === 'unknown' ? 'unknown' : `${next.value.decision} ${next.value.status}`);
  const run = app.runs.store.state(runKeyOf({ channel: CHANNEL, agent: 'dev' }))?.status;
  const told = facts.flatMap((fact) => (fact.type === 'announced' ? [fact.announcement] : []));
  const last = told.findLast(({ kind }) => kind === 'approval' || kind === 'answered');
  const question = last?.kind === 'answered' ? (last.choice ?? 'taken back') : last === undefined ? null : 'asked';
  const holder = queries().view(CHANNEL)?.holder?.agent ?? 'nobody';
  return [said.map((text) => words[text] ?? text).join('+') || 'shown', ...rows, run, question, holder]
    .filter((each) => typeof each === 'string')
    .join(', ');
}

/** Brings a turn into a state, ends it in a way, and returns the outcome. Restarts a program that has ended. */
async function tried(state: State, way: Way): Promise<string> {
  using place = folder();
  const first = await program(place.file());
  await first.intake().message(written('m1', 'dev: hello', CHANNEL));
  await first.settled(1_000);
  const dev = first.sessions.find(({ turn, seat }) => turn !== null && seat?.agent === 'dev');
  if (dev === undefined) throw new Error('dev has no turn');
  await STATES[state](dev, first);
  dev.report?.text(TEXT);
  await first.settled(1_500);
  await way(first, dev);
  await first.settled();
  const isOver = way === WAYS['the program ending'] || way === WAYS['the program killed'];
  const last = isOver ? await program(place.file()) : first;
  await last.settled();
  const outcome = outcomeOf(last);
  await last.app.stop();
  expect([...first.broken, ...last.broken]).toEqual([]);
  return outcome;
}

/** Way, state, outcome. "shown": the turn goes on, and people see its text as a draft. */
const CELLS: readonly (readonly [keyof typeof WAYS, State, string])[] = [
  ['/stop', 'speaking', 'cut, nobody'],
  ['/stop', 'a tool running', 'cut, unknown, idle, nobody'],
  ['/stop', 'people asked', 'cut, void error, idle, taken back, nobody'],
  ['/stop', 'its run at the limit', 'cut, idle, taken back, nobody'],
  ['/floor skip', 'speaking', 'cut, qa'],
  ['/floor skip', 'a tool running', 'cut, unknown, idle, qa'],
  ['/floor skip', 'people asked', 'cut, void error, idle, taken back, qa'],
  ['/floor skip', 'its run at the limit', 'cut, idle, taken back, qa'],
  ['/run abort', 'speaking', 'shown, dev'],
  ['/run abort', 'a tool running', 'cut, unknown, idle, qa'],
  ['/run abort', 'people asked', 'cut, void error, idle, taken back, qa'],
  ['/run abort', 'its run at the limit', 'cut, idle, taken back, qa'],
  ['/run complete', 'speaking', 'shown, dev'],
  ['/run complete', 'a tool running', 'shown, rule running, running, dev'],
  ['/run complete', 'people asked', 'shown, open pending, paused, asked, dev'],
  ['/run complete', 'its run at the limit', 'whole, completed, allow, qa'],
  ['/floor remove', 'speaking', 'cut, qa'],
  ['/floor remove', 'a tool running', 'cut, unknown, idle, qa'],
  ['/floor remove', 'people asked', 'cut, void error, idle, taken back, qa'],
  ['/floor remove', 'its run at the limit', 'cut, idle, taken back, qa'],
  ['/agent disable', 'speaking', 'cut, qa'],
  ['/agent disable', 'a tool running', 'cut, unknown, idle, qa'],
  ['/agent disable', 'people asked', 'cut, void error, idle, taken back, qa'],
  ['/agent disable', 'its run at the limit', 'cut, idle, taken back, qa'],
  ['/agent restart', 'speaking', 'cut, qa'],
  ['/agent restart', 'a tool running', 'cut, unknown, error, qa'],
  ['/agent restart', 'people asked', 'cut, void error, error, taken back, qa'],
  ['/agent restart', 'its run at the limit', 'cut, idle, taken back, qa'],
  ['/floor grant qa', 'speaking', 'shown, dev'],
  ['/floor grant qa', 'a tool running', 'shown, rule running, running, dev'],
  ['/floor grant qa', 'people asked', 'cut, void error, idle, taken back, qa'],
  ['/floor grant qa', 'its run at the limit', 'cut, idle, taken back, qa'],
  ['a no', 'speaking', 'shown, dev'],
  ['a no', 'a tool running', 'shown, rule running, running, dev'],
  ['a no', 'people asked', 'shown, denied-person error, running, reject, dev'],
  ['a no', 'its run at the limit', 'cut, idle, reject, qa'],
  ['its time over', 'speaking', 'whole, nobody'],
  ['its time over', 'a tool running', 'whole, unknown, idle, nobody'],
  ['its time over', 'people asked', 'cut, void error, idle, taken back, nobody'],
  ['its time over', 'its run at the limit', 'cut, idle, taken back, nobody'],
  ['its agent failing', 'speaking', 'cut, qa'],
  ['its agent failing', 'a tool running', 'cut, unknown, error, qa'],
  ['its agent failing', 'people asked', 'cut, void error, error, taken back, qa'],
  ['its agent failing', 'its run at the limit', 'cut, idle, taken back, qa'],
  ['its agent silent', 'speaking', 'whole, qa'],
  ['its agent silent', 'a tool running', 'whole, unknown, error, qa'],
  ['its agent silent', 'people asked', 'cut, void error, error, taken back, qa'],
  ['its agent silent', 'its run at the limit', 'cut, idle, taken back, qa'],
  ['its agent ending', 'speaking', 'whole, qa'],
  ['its agent ending', 'a tool running', 'whole, unknown, completed, qa'],
  ['its agent ending', 'people asked', 'whole, void error, completed, taken back, qa'],
  ['its agent ending', 'its run at the limit', 'shown, paused, asked, dev'],
  ['a configuration without its seat', 'speaking', 'cut, qa'],
  ['a configuration without its seat', 'a tool running', 'cut, unknown, idle, qa'],
  ['a configuration without its seat', 'people asked', 'cut, void error, idle, taken back, qa'],
  ['a configuration without its seat', 'its run at the limit', 'cut, idle, taken back, qa'],
  ['a configuration without its channel', 'speaking', 'cut, nobody'],
  ['a configuration without its channel', 'a tool running', 'cut, unknown, idle, nobody'],
  ['a configuration without its channel', 'people asked', 'cut, void error, idle, taken back, nobody'],
  ['a configuration without its channel', 'its run at the limit', 'cut, idle, taken back, nobody'],
  ['its channel deleted', 'speaking', 'cut, nobody'],
  ['its channel deleted', 'a tool running', 'cut, unknown, idle, nobody'],
  ['its channel deleted', 'people asked', 'cut, void error, idle, taken back, nobody'],
  ['its channel deleted', 'its run at the limit', 'cut, idle, taken back, nobody'],
  ['the program ending', 'speaking', 'whole, dev'],
  ['the program ending', 'a tool running', 'whole, unknown, running, dev'],
  ['the program ending', 'people asked', 'whole, open error, paused, asked, dev'],
  ['the program ending', 'its run at the limit', 'whole, paused, asked, dev'],
  ['the program killed', 'speaking', 'whole, dev'],
  ['the program killed', 'a tool running', 'whole, unknown, running, dev'],
  ['the program killed', 'people asked', 'whole, open error, paused, asked, dev'],
  ['the program killed', 'its run at the limit', 'whole, paused, asked, dev'],
];

describe('the outcome of a turn, its text, its call, its run and its question', () => {
  test('is listed for every way to end and every state of the turn', () => {
    expect(CELLS.map(([way, state]) => `${way}, ${state}`).toSorted()).toEqual(
      Object.keys(WAYS)
        .flatMap((way) => Object.keys(STATES).map((state) => `${way}, ${state}`))
        .toSorted(),
    );
  });

  test.each(CELLS)('by %s, %s: %s', async (way, state, outcome) => {
    expect(await tried(state, WAYS[way])).toBe(outcome);
  });
});

describe('T57 a turn paused at its limit over a restart of the program', () => {
  test.each(['ending', 'killed'] as const)(
    'is completed with its text, and its message counts as answered: the program %s',
    async (end) => {
      using place = folder();
      const first = await program(place.file());
      await first.intake().message(written('m1', 'dev: hello', CHANNEL));
      await first.settled(1_000);
      const dev = first.sessions.find(({ turn, seat }) => turn !== null && seat?.agent === 'dev');
      if (dev === undefined) throw new Error('dev has no turn');
      dev.report?.text(TEXT);
      await STATES['its run at the limit'](dev, first);
      await WAYS[`the program ${end}`](first);
      const next = await program(place.file());
      await next.settled();
      expect(await next.intake().command(CHANNEL, ADA, '/run complete dev')).toMatchObject({ ok: true });
      await next.settled();
      const facts = next.store.floors.journal(CHANNEL, 1_000).map(({ fact }) => fact);
      const ended = facts.find((fact) => fact.type === 'turnEnded');
      expect(ended).toMatchObject({ agent: 'dev', outcome: 'completed', answered: ['m1'], returned: [], by: 'ada' });
      const given = facts.flatMap((fact) => (fact.type === 'turnGranted' ? [[fact.agent, fact.messages]] : []));
      expect(given).toEqual([
        ['dev', ['m1']],
        ['qa', []],
      ]);
      const results = [...next.app.runs.store.newest(runKeyOf({ channel: CHANNEL, agent: 'dev' }))].flatMap(
        ({ fact }) => (fact.type === 'runCompleted' ? [fact.result] : []),
      );
      expect(results).toEqual([TEXT]);
      await next.app.stop();
      expect([...first.broken, ...next.broken]).toEqual([]);
    },
  );
});

describe('a paused run whose agent is lost', () => {
  const pauses: readonly (readonly [string, Way])[] = [
    ['by /run pause', typed('/run pause dev')],
    ['as its turn waits', ({ intake }) => intake().message(written('m2', 'wait', CHANNEL))],
  ];
  test.each(pauses)('%s is aborted, because a paused run cannot fail', async (_, pause) => {
    const started = await program(':memory:', 'interrupt');
    const { app, intake, sessions, settled } = started;
    await intake().message(written('m1', 'dev: hello', CHANNEL));
    await settled(1_000);
    const dev = sessions.find(({ turn, seat }) => turn !== null && seat?.agent === 'dev');
    if (dev === undefined) throw new Error('dev has no turn');
    await dev.report?.gate?.step({ text: '', checkpoint: null });
    dev.stopsWhenInterrupted = false;
    await pause(started, dev);
    await settled(100);
    const status = () => app.runs.store.state(runKeyOf({ channel: CHANNEL, agent: 'dev' }))?.status;
    expect(status()).toBe('paused');
    await intake().command(CHANNEL, ADA, '/agent restart dev');
    await settled(100);
    expect(status()).toBe('idle');
    await app.stop();
  });
});
