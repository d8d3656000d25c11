import { writeFileSync } from 'node:fs';
import { NEW_SESSION, createSessionMachine, outlives } from '../../src/agents/session/session-machine.ts';
import type { SessionEvent } from '../../src/agents/session/session-machine.ts';
import { sessionJournal } from '../../src/agents/session/session-journal.ts';
import type { RecordedMove } from '../../src/agents/session/session-journal.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import { FACTS } from '../../src/turns/floor/fact.ts';
import { PLAIN_SETTINGS } from '../../src/turns/floor/floor.ts';
import type { Command } from '../../src/turns/floor/command.ts';
import { RESTORE_JUMP, floorMachine, openFloorStore } from '../../src/turns/floor-store.ts';
import { Random } from '../sim/random.ts';
import { runSeed } from '../sim/world.ts';
import { floorWithWork } from '../../src/work/floor-with-work.ts';
import { reviewOnFloor } from '../../src/work/reviews/review-binding.ts';
import type { ReviewCommand } from '../../src/work/reviews/review-events.ts';
import { runKeyOf, runOnFloor } from '../../src/work/runs/floor-binding.ts';
import { Bound, HALL, SEAT, by } from '../work/runs/bound.ts';
import { KEY, RunBench, asking, call, error, request, settle, start, step } from '../work/runs/fixture.ts';
import { goldenFiles, goldenJournals, kindsIn } from './journals.ts';
import type { GoldenJournal } from './journals.ts';

/**
 * Writes journals of this version: node test/golden/write.ts. Existing journals never change. A new journal is added
 * when it has a kind of fact that no existing one has. When old facts get another meaning, the machine needs a new
 * version with upcasters, and a new file.
 */
const MOST_SEEDS = 60;
const EVENTS = 260;

/** Channels of simulated worlds, until they have every kind of fact. */
async function floors(): Promise<readonly GoldenJournal[]> {
  const missing = new Set<string>(Object.keys(FACTS));
  const found: GoldenJournal[] = [];
  for (let seed = 1; seed <= MOST_SEEDS && missing.size > 0; seed += 1) {
    await runSeed(seed, EVENTS, floorMachine, (store) => {
      for (const key of store.floors.keys()) {
        const entries = store.floors.journal(key, Infinity);
        const fresh = new Set(entries.map(({ fact }) => fact.type).filter((type) => missing.has(type)));
        if (fresh.size === 0) continue;
        for (const type of fresh) missing.delete(type);
        const rows = entries.map(({ at, fact }) => ({ at, facts: [fact] }));
        found.push({ machine: 'floor', version: floorMachine.version, key, rows, state: store.floors.state(key) });
      }
    });
  }
  missing.delete('epochRaised');
  missing.delete('stoodStill');
  missing.delete('runBegun');
  missing.delete('runLeft');
  for (const type of missing)
    if (/^(?:aside|trust|task|reviewer)/.test(type) || type === 'reported') missing.delete(type);
  if (missing.size > 0) throw new Error(`no seed has ${[...missing].join(', ')}`);
  return found.map((each, index) => (index === 0 ? restored(each) : each));
}

/** A floor whose holder uses tools, with its run; and a run without a floor. */
async function runs(): Promise<{ readonly floor: GoldenJournal; readonly runs: readonly GoldenJournal[] }> {
  const bound = await new Bound().begins(3);
  const { store } = bound;
  const offers = [{ rule: 'execute(npm test)', words: 'exactly this command' }];
  await bound.requests('a', { words: { title: 'run the tests', detail: 'npm test', offers } });
  await bound.answers('allow', { always: 'execute(npm test)' });
  await bound.run({ type: 'CLAIM', call: 'a', digest: 'd-a', verdict: 'allow' });
  await bound.run({ type: 'KEEP', session: '1', said: 'Then the other file.', calls: '[]' });
  await bound.run({ type: 'TAINT', from: 'mcp__web__get' });
  await bound.run({ type: 'CLEANSE' });
  await bound.run({ type: 'SKIP_NUMBERS', by: RESTORE_JUMP });
  await bound.run(settle('a'));
  const [yes] = bound.state.remembered;
  await bound.run({ type: 'REVOKE', id: yes?.id ?? '', by, name: 'Ann' });
  await bound.run({ type: 'STEP', session: '1', turn: 2, toolCalls: [call('b', { verdict: 'ask' })] });
  await bound.answers('reject', { reason: 'use b.txt' });
  await bound.run({ type: 'STEP', session: '1', turn: 3, toolCalls: [] });
  await bound.answers('allow');
  await bound.floor({ type: 'wait', agent: 'pm', epoch: 1, reason: 'answer' }, { type: 'grant', by, agent: 'pm' });
  await bound.floor({ type: 'end', agent: 'pm', epoch: 2, outcome: 'completed', signalled: true });
  const beside = new RunBench()
    .do(
      start({ cause: 'grant 1' }),
      step(1),
      request(asking('c')),
      { type: 'STANDSTILL', ms: 1_000 },
      error(true, 'LOST'),
    )
    .do({ type: 'DECIDE', approval: `${KEY}#1.1`, choice: 'allow', by, via: 'console' });
  beside.do({ type: 'RESUME', by }, { type: 'ATTACH', session: 's2' });
  beside.do({ type: 'REQUEST', session: 's2', calls: [{ ...asking('d'), digest: 'd-c', source: 'agent' }] });
  beside.do({ type: 'ABORT', reason: 'not needed', by });
  const rowsOf = (entries: readonly { readonly at: number; readonly fact: unknown }[]) =>
    entries.map(({ at, fact }) => ({ at, facts: [fact] }));
  const run = { machine: 'run', version: runOnFloor.version };
  const key = runKeyOf(SEAT);
  return {
    floor: {
      machine: 'floor',
      version: floorMachine.version,
      key: HALL,
      rows: rowsOf(store.floors.journal(HALL, Infinity)),
      state: bound.hall,
    },
    runs: [
      { ...run, key, rows: rowsOf(bound.runs.journal(key, Infinity)), state: bound.state },
      { ...run, key: KEY, rows: rowsOf(beside.journal), state: beside.state },
    ],
  };
}

/** A floor and its holder's run, whose agent asks for itself. Restarts cut it. People's answers count once. */
async function cuts(): Promise<{ readonly floor: GoldenJournal; readonly run: GoldenJournal }> {
  const bound = await new Bound().begins();
  for (const [epoch, choice] of (['allow', 'reject', 'allow'] as const).entries()) {
    const session = `${epoch + 1}`;
    await bound.requests(
      `a${session}`,
      { digest: `d-${choice}`, words: { title: 'tidy up', detail: 'rm -r build' } },
      session,
    );
    await bound.floor({ type: 'restart' });
    await bound.answers(choice, choice === 'reject' ? { reason: 'use make clean' } : {});
    await bound.floor({ type: 'catchUp' }, { type: 'join', agent: 'pm' });
    const again = { digest: epoch === 2 ? 'd-other' : `d-${choice}` };
    await bound.requests(`b${session}`, again, `${epoch + 2}`);
    if (epoch > 0) continue;
    await bound.run({ type: 'CLAIM', call: 'b1', digest: 'd-allow', verdict: 'ask' });
    await bound.run(settle('b1'));
  }
  const rowsOf = (entries: readonly { readonly at: number; readonly fact: unknown }[]) =>
    entries.map(({ at, fact }) => ({ at, facts: [fact] }));
  const [key, { store, runs: hosted }] = [runKeyOf(SEAT), bound];
  const [ofFloor, ofRun] = [rowsOf(store.floors.journal(HALL, Infinity)), rowsOf(hosted.journal(key, Infinity))];
  return {
    floor: { machine: 'floor', version: floorMachine.version, key: HALL, rows: ofFloor, state: bound.hall },
    run: { machine: 'run', version: runOnFloor.version, key, rows: ofRun, state: bound.state },
  };
}

/** A floor and its review, with every kind of the review's facts. */
async function reviews(): Promise<{ readonly floor: GoldenJournal; readonly review: GoldenJournal }> {
  const store = openFloorStore({
    path: ':memory:',
    machine: floorWithWork,
    clock: { now: () => 0 },
    textLimit: () => 4_000,
    words: () => null,
  });
  const hosted = store.host(reviewOnFloor);
  let at = 1_000;
  const floor = (command: Command) => store.floors.apply(HALL, command, (at += 1_000));
  const give = (command: ReviewCommand) => hosted.apply(HALL, command, (at += 1_000));
  const seats = ['pm', 'dev'].map((agent) => ({ agent, priority: 10, timeoutMs: 60_000, rejoin: 'auto' as const }));
  await floor({ type: 'configure', settings: PLAIN_SETTINGS, seats });
  await floor({ type: 'join', agent: 'pm' });
  await floor({ type: 'join', agent: 'dev' });
  const signals = { done: 'DONE', pass: 'PASS', fail: 'FAIL' };
  const settings = {
    maxIterations: 3,
    until: 'review',
    onFail: 'stop',
    signals,
    patience: 1,
    waitMs: 600_000,
  } as const;
  await give({ type: 'START', id: `${HALL}-1`, primary: 'pm', reviewer: 'dev', task: 'Write it', by, settings });
  const turn = async (agent: string, text: string, tree: string) => {
    const epoch = store.floors.state(HALL)?.turn?.epoch ?? 0;
    await floor({ type: 'say', agent, epoch, text, mentions: [] });
    await floor({ type: 'spend', agent, epoch, tokens: 10, costMicros: 5 });
    await floor({ type: 'end', agent, epoch, outcome: 'completed', signalled: true });
    await give({ type: 'MEASURED', epoch, work: { tree, commit: null } });
  };
  await turn('pm', 'One.\nDONE', 'a');
  await turn('dev', '[major] It breaks\nREVISE', 'b');
  await turn('dev', '[major] It breaks\nREVISE', 'b');
  await turn('pm', 'It is meant so.', 'b');
  await give({ type: 'MORE', by, iterations: 1 });
  await turn('pm', 'F1: disputed: it is meant so', 'c');
  await turn('dev', 'PASS', 'c');
  // A second review, whose reviewer is replaced.
  await floor({ type: 'configure', settings: PLAIN_SETTINGS, seats: [...seats, { ...seats[0]!, agent: 'ops' }] });
  await floor({ type: 'join', agent: 'ops' });
  const replaced = { ...settings, session: 'fresh', fallback: 'ops' } as const;
  await give({
    type: 'START',
    id: `${HALL}-2`,
    primary: 'pm',
    reviewer: 'dev',
    task: 'Mend it',
    by,
    settings: replaced,
  });
  await turn('pm', 'Mended.\nPASS', 'd');
  await floor({ type: 'leave', agent: 'dev', cause: 'usage limit reached' });
  await turn('ops', 'PASS', 'd');
  const rowsOf = (entries: readonly { readonly at: number; readonly fact: unknown }[]) =>
    entries.map((entry) => ({ at: entry.at, facts: [entry.fact] }));
  const journals = {
    floor: {
      machine: 'floor',
      version: floorMachine.version,
      key: HALL,
      rows: rowsOf(store.floors.journal(HALL, Infinity)),
      state: store.floors.state(HALL),
    },
    review: {
      machine: 'review',
      version: reviewOnFloor.version,
      key: HALL,
      rows: rowsOf(hosted.journal(HALL, Infinity)),
      state: hosted.state(HALL),
    },
  };
  await store.close();
  return journals;
}

/** A floor whose agent starts only after somebody trusts its folder. */
async function trust(): Promise<GoldenJournal> {
  const bound = await new Bound().granted();
  const about = { agent: 'dev', folder: '/work/site', detail: '.mcp.json (12 bytes)' };
  await bound.floor({ type: 'askTrust', id: 'a1', ...about }, { type: 'trustShown', agent: 'dev', id: 'a1' });
  await bound.floor({ type: 'askTrust', id: 'b2', ...about });
  await bound.floor({ type: 'answerTrust', agent: 'dev', id: 'b2', choice: 'trusted', by: 'Ann' });
  await bound.floor({ type: 'askTrust', id: 'c3', ...about });
  const rows = bound.store.floors.journal(HALL, Infinity).map(({ at, fact }) => ({ at, facts: [fact] }));
  return { machine: 'floor', version: floorMachine.version, key: HALL, rows, state: bound.hall };
}

/** A floor whose process stood still while its agent worked, and while the agent waited. */
async function standstill(): Promise<GoldenJournal> {
  const bound = await new Bound().granted();
  await bound.floor({ type: 'standstill', ms: 40_000 }, { type: 'wait', agent: 'pm', epoch: 1, reason: 'answer' });
  await bound.floor({ type: 'standstill', ms: 5_000 });
  const rows = bound.store.floors.journal(HALL, Infinity).map(({ at, fact }) => ({ at, facts: [fact] }));
  return { machine: 'floor', version: floorMachine.version, key: HALL, rows, state: bound.hall };
}

/** A floor with a background run. */
async function asides(): Promise<GoldenJournal> {
  const bound = await (await new Bound().granted()).besideAsking();
  await bound.floor({ type: 'shown', question: 1 }, { type: 'decide', by, choice: 'reject', question: 1 });
  await bound.beside({ type: 'COMPLETE', session: '1', result: 'Two links are dead.' });
  await bound.floor({ type: 'end', agent: 'pm', epoch: 1, outcome: 'completed', signalled: true });
  await bound.besideAsking();
  await bound.floor({ type: 'stop', by });
  await bound.besideAsking();
  await bound.floor({ type: 'remove', agent: 'pm', by });
  await bound.besideAsking();
  const rows = bound.store.floors.journal(HALL, Infinity).map(({ at, fact }) => ({ at, facts: [fact] }));
  return { machine: 'floor', version: floorMachine.version, key: HALL, rows, state: bound.hall };
}

/** A floor with usage of model calls: once with all known fields, once only with tokens. */
async function spending(): Promise<GoldenJournal> {
  const bound = await new Bound().granted();
  const use = {
    backend: 'llm/openai',
    model: 'gpt-5-mini',
    input: 1_000,
    output: 100,
    cached: 900,
    ms: 1_500,
  } as const;
  const spent = { type: 'spend', agent: 'pm', epoch: 1, tokens: 1_100, costMicros: 3_500 } as const;
  const asked = { requestedBy: 'ann', run: 'console:hall pm#1' };
  await bound.floor(
    { ...spent, use: { ...use, ...asked, source: 'computed', outcome: 'answered' } },
    { ...spent, costMicros: 0, use: { ...use, model: null, source: 'unpriced', outcome: 'passed' } },
    { ...spent, use: { ...use, input: null, output: null, cached: null, source: 'reported', outcome: 'stopped' } },
    { ...spent, tokens: 0, costMicros: 0, use: { ...use, source: 'estimated', outcome: 'retried' } },
    { ...spent, tokens: 0, costMicros: 0, use: { ...use, source: 'estimated', outcome: 'failed' } },
    spent,
    { type: 'end', agent: 'pm', epoch: 1, outcome: 'completed', signalled: true },
  );
  const rows = bound.store.floors.journal(HALL, Infinity).map(({ at, fact }) => ({ at, facts: [fact] }));
  return { machine: 'floor', version: floorMachine.version, key: HALL, rows, state: bound.hall };
}

/** Fields that facts got later: about model calls and background runs. */
const HELD_LATER = [
  ['spent', 'use'],
  ['asideStopped', 'why'],
  ['turnResumed', 'decided'],
  ['grantUsed', 'said'],
] as const;

/** True when a journal has one of these fields and no kept journal has it. */
function tellsMore({ rows }: GoldenJournal, kept: readonly GoldenJournal[]): boolean {
  return HELD_LATER.some(([type, field]) => {
    const has = (each: GoldenJournal['rows']): boolean =>
      each.some(({ facts }) => facts.some((fact) => fact instanceof Object && isOf(fact, type) && field in fact));
    return has(rows) && !kept.some((each) => has(each.rows));
  });
}

function isOf(fact: object, type: string): boolean {
  return Reflect.get(fact, 'type') === type;
}

/** The journal continued after its file was restored from a backup. */
function restored({ rows, state, ...journal }: GoldenJournal): GoldenJournal {
  const at = rows.at(-1)?.at ?? 0;
  const before: Floor = floorMachine.state.parse(state);
  const { facts } = floorMachine.decide(before, { type: 'raiseEpoch', by: RESTORE_JUMP }, at);
  const after = facts.reduce((floor, fact) => floorMachine.evolve(floor, fact, at), before);
  return { ...journal, rows: [...rows, { at, facts }], state: after };
}

/** Sessions with random events. */
function sessions(): readonly GoldenJournal[] {
  return [1, 2, 3, 4, 5].map((seed) => {
    const random = new Random(seed);
    const machine = createSessionMachine();
    const rows: { at: number; facts: readonly RecordedMove[] }[] = [];
    let [live, kept] = [NEW_SESSION, sessionJournal.empty()];
    for (let at = 1_000; at < 200_000; at += 1_000) {
      const decision = machine.decide(
        live,
        random.pick(random.chance(0.03) ? DISRUPTIONS : EVERYDAY)(live.sessionSeq),
        at,
      );
      for (const { effect, ...move } of decision.facts) {
        if (outlives(live, { effect, ...move })) {
          const fact = { ...move, cause: `what happened at ${at}` };
          rows.push({ at, facts: [fact] });
          kept = sessionJournal.evolve(kept, fact);
        }
        live = machine.evolve(live, { effect, ...move }, at);
      }
    }
    return { machine: 'session', version: sessionJournal.version, key: `test:${seed} dev`, rows, state: kept };
  });
}

type MakeEvent = (seq: number) => SessionEvent;

const EVERYDAY: readonly MakeEvent[] = [
  () => ({ type: 'WorktreeReady' }),
  () => ({ type: 'SessionOpening' }),
  () => ({ type: 'SessionOpened' }),
  (seq) => ({ type: 'SessionStarted', seq }),
  () => ({ type: 'SessionExited', exit: { how: 'Success' } }),
  () => ({ type: 'SessionExited', exit: { how: 'Error', message: 'exited with code 1' } }),
  () => ({ type: 'SessionExited', exit: { how: 'Timeout' } }),
  () => ({ type: 'UrgentMessage', graceMs: 5_000 }),
  () => ({ type: 'GraceExceeded' }),
  () => ({ type: 'BackoffElapsed' }),
  () => ({
    type: 'PromptReady',
    prompt: {
      channel: 'test:one',
      epoch: 1,
      reason: 'grant',
      lines: [],
      messages: [],
      open: [],
      saidSoFar: [],
      roster: [],
      system: '',
      parts: [],
      longest: 1_000,
      text: 'go on',
    },
  }),
];

const DISRUPTIONS: readonly MakeEvent[] = [
  () => ({ type: 'OperatorRestart' }),
  () => ({ type: 'FatalError', message: 'no such binary' }),
  () => ({ type: 'OperatorStop' }),
];

const usingTools = await runs();
const reviewed = await reviews();
const cut = await cuts();
for (const [name, journals, kind] of [
  [
    `floor-${floorMachine.version}.jsonl`,
    [
      usingTools.floor,
      cut.floor,
      await asides(),
      reviewed.floor,
      await trust(),
      await standstill(),
      await spending(),
      ...(await floors()),
    ],
    'type',
  ],
  [`run-${runOnFloor.version}.jsonl`, [...usingTools.runs, cut.run], 'type'],
  [`review-${reviewOnFloor.version}.jsonl`, [reviewed.review], 'type'],
  [`session-${sessionJournal.version}.jsonl`, sessions(), 'trigger'],
] as const) {
  const kept: GoldenJournal[] = goldenFiles().includes(name) ? [...goldenJournals(name)] : [];
  for (const journal of journals) {
    const known = new Set(kept.flatMap((each) => kindsIn(each, kind)));
    if (kindsIn(journal, kind).some((each) => !known.has(each)) || tellsMore(journal, kept)) kept.push(journal);
  }
  writeFileSync(new URL(name, import.meta.url), kept.map((each) => `${JSON.stringify(each)}\n`).join(''));
}
