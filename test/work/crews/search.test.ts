import { expect, test } from 'vitest';
import { decideCrew } from '../../../src/work/crews/crew-decide.ts';
import type { CrewCommand } from '../../../src/work/crews/crew-events.ts';
import { crewSchema, emptyCrew, isStepping, isTransition, jobOf } from '../../../src/work/crews/crew.ts';
import type { Crew, CrewSettings, Worker, WorktreeState } from '../../../src/work/crews/crew.ts';

/** Equal seeds give equal numbers from 0 to 1. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296;
    return state / 4_294_967_296;
  };
}

const SETTINGS: CrewSettings = {
  channel: 'console:crew',
  maxWorkers: 2,
  maxSteps: 4,
  patience: 2,
  meetingTurns: 2,
  merge: 'auto',
  ticketCostMicros: null,
  main: 'main',
};
/** The same crew with reviews and budgets. */
const REVIEWED: CrewSettings = {
  ...SETTINGS,
  merge: 'ask',
  ticketCostMicros: 60,
  costMicros: 200,
  dayCostMicros: 100,
  review: {
    reviewer: 'qa',
    settings: {
      maxIterations: 3,
      until: 'review',
      onFail: 'stop',
      signals: { done: 'DONE', pass: 'PASS', fail: 'FAIL' },
      patience: 2,
      waitMs: 60_000,
    },
  },
};
/** The same crew with pull requests. */
const PULLED: CrewSettings = { ...SETTINGS, merge: 'pr' };
const WORKERS = ['A', 'B', 'C'];
const TICKETS = Array.from({ length: 60 }, (_, index) => `c-${index}`);

/** The state outside the machine: the crew with clock, epoch and next commit, and what was tested and reviewed. */
type World = {
  crew: Crew;
  at: number;
  epoch: number;
  green: Map<string, string>;
  /** Trees that passed a review, and commits that people merge without a review. */
  reviewed: Set<string>;
  /** Commits with weaker tests that no person has accepted. */
  weaker: Set<string>;
  tip: number;
};

function commandsOf({ crew, epoch, tip }: World, pick: <Value>(all: readonly Value[]) => Value): CrewCommand {
  const name = pick(WORKERS);
  const worker = crew.workers.find((each) => each.name === name);
  const held = worker?.step?.epoch ?? epoch;
  const late = pick([held, held, held, held - 1]);
  const id = worker?.ticket?.id ?? pick(TICKETS);
  const slot = pick([0, 1, 2]);
  const place = { worktree: `/r/${name}-${id}`, branch: `agent/${name}-${id}`, base: 'b', thread: `t/${id}` };
  const work: WorktreeState = {
    tree: pick(['1', '2', `x${tip}`]),
    tip: `tip-${tip}`,
    ahead: pick([0, 1, 1, 1]),
    dirty: pick([false, false, true]),
    unmerged: pick([[], [], ['a.ts']]),
  };
  const verdict = pick(['green', 'green', 'flaky', 'red', 'none'] as const);
  const result = { worker: name, tip: pick([worker?.work?.tip ?? '', 'other']), main: 'b' };
  const pull = { worker: name, number: pick([worker?.pull?.number ?? 1, 3]) };
  const all: readonly CrewCommand[] = [
    { type: 'RUN', by: 'ann' },
    { type: 'STOP', by: 'ann' },
    { type: 'BASE', since: crew.base?.tip ?? null, tip: 'b', verdict: pick(['green', 'green', 'red']), why: '' },
    { type: 'ACCEPT_BASE', by: 'ann' },
    { type: 'ASK', about: 'setup', digest: pick(['d1', 'd2']), what: 'x' },
    { type: 'APPROVE', about: 'setup', digest: pick(['d1', 'd2']), allowed: pick([true, false]), by: 'ann' },
    { type: 'ASSIGN', worker: name, ticket: { id: pick(TICKETS), title: '', text: '', session: 's', slot, ...place } },
    { type: 'PREPARED', worker: name, ticket: id },
    { type: 'SEATED', worker: name, ticket: id },
    { type: 'UNSTARTED', worker: name, ticket: id, why: 'no' },
    { type: 'GRANTED', worker: name, epoch },
    { type: 'SAID', worker: name, epoch: late, text: pick(['DONE', 'DONE', 'I am DONE', 'no', 'AGREED: so']) },
    {
      type: 'ENDED',
      worker: name,
      epoch: late,
      how: pick(['completed', 'completed', 'failed', 'timedOut', 'stopped']),
      why: 'x',
    },
    { type: 'CAUSE', worker: name, why: pick(['crash', 'usage limit', 'session is already in use']) },
    { type: 'MEASURED', worker: name, epoch: late, work },
    { type: 'MEASURED', worker: name, epoch: null, work },
    {
      type: 'REVIEWING',
      worker: name,
      review: `r${(worker?.review?.number ?? 0) + 1}`,
      tip: result.tip,
      work: { tree: work.tree, commit: 'c' },
    },
    {
      type: 'REVIEWED',
      worker: name,
      review: pick([worker?.review?.id ?? '', 'r0']),
      passed: pick([true, false]),
      why: 'x',
      tree: worker?.work?.tree ?? null,
    },
    { type: 'SPENT', worker: name, input: 1, output: 1, costMicros: pick([0, 1, 5]) },
    { type: 'TESTED', worker: name, tip: result.tip, verdict, output: '', weakened: pick(['', '', 'less']) },
    { type: 'MERGE_STARTED', ...result },
    { type: 'MERGED', worker: name, ticket: id, commit: `m${tip}` },
    {
      type: 'CONFLICT',
      worker: name,
      tip: result.tip,
      files: ['a'],
      landed: [],
      sides: crew.finished.map((each) => ({ ticket: each.id, about: '' })),
    },
    { type: 'NOTED', worker: name, ticket: id },
    { type: 'MERGED_RED', worker: name, output: '', landed: [] },
    { type: 'REFUSED', worker: name, why: 'no' },
    { type: 'MOVED', worker: name },
    { type: 'PULLED', worker: name, tip: result.tip, head: `h${tip}`, number: pick([1, 2]), url: 'u' },
    { type: 'PULL_RETURNED', ...pull, kind: pick(['step', 'conflict']), told: [`r${tip}`], about: 'x' },
    { type: 'PULL_MERGED', ...pull, ticket: id, commit: `m${tip}` },
    { type: 'PULL_CLOSED', ...pull, why: 'closed' },
    { type: 'CLEARED', worker: name, ticket: pick([id, worker?.left?.id ?? id]), kept: null },
    { type: 'CLEARED', worker: name, ticket: id, kept: null, branch: place.branch },
    { type: 'CLEANUP', worker: name, by: 'ann' },
    { type: 'LOST', worker: name, why: 'gone' },
    { type: 'KILL', worker: name, by: 'ann' },
    { type: 'RETRY', worker: name, by: 'ann', words: '' },
    { type: 'MERGE', worker: name, by: 'ann' },
    { type: 'ANSWER', worker: name, by: 'ann', choice: pick(['merge', 'continue', 'keep', 'unchanged']) },
    { type: 'TICK' },
  ];
  if (worker === undefined || pick([true, false, false, false])) return pick(all);
  const likely = likelyTypes(worker, crew);
  return pick(all.filter(({ type }) => likely.includes(type)));
}

/** The types of commands that this worker waits for. */
function likelyTypes(worker: Worker, crew: Crew): readonly CrewCommand['type'][] {
  const { status, ticket, prepared, step, waiting, retryAt, next, name, review, pull } = worker;
  if (jobOf(crew, worker) === 'clear') return ['CLEARED'];
  if (waiting !== null) return ['ANSWER'];
  if (retryAt !== null) return ['TICK', 'CAUSE'];
  if (ticket === null) return ['ASSIGN', 'ASSIGN', 'BASE', 'ACCEPT_BASE', 'RUN'];
  if (status === 'stuck') return ['RETRY', 'RETRY', 'KILL'];
  if (status === 'ready' && step === null) return prepared ? ['SEATED'] : ['PREPARED'];
  if (jobOf(crew, worker) === 'seat') return ['SEATED'];
  if (jobOf(crew, worker) === 'note') return ['NOTED'];
  if (step?.queued === true) return ['RUN', 'TICK'];
  if (step?.over === true) return ['MEASURED'];
  if (step?.epoch === null) return ['GRANTED'];
  if (step !== null) return ['SAID', 'SAID', 'ENDED'];
  if (next === 'test') return ['TESTED', 'TESTED', 'CONFLICT'];
  if (next === 'review') return review?.id == null ? ['REVIEWING'] : ['REVIEWED', 'REVIEWED', 'MERGE'];
  if (next === 'recheck') return ['MEASURED'];
  if (crew.settings?.merge === 'pr')
    return pull === undefined ? ['PULLED'] : ['PULLED', 'PULL_RETURNED', 'PULL_RETURNED', 'PULL_MERGED', 'PULL_CLOSED'];
  return crew.merging?.worker === name ? ['MERGED', 'CONFLICT', 'MERGED_RED', 'REFUSED', 'MOVED'] : ['MERGE_STARTED'];
}

/** Returns the first invariant that the command broke, or `null`. */
function broken(before: Crew, after: Crew, command: CrewCommand, { green, reviewed, weaker }: World): string | null {
  const held = after.workers.flatMap(({ ticket }) => ticket?.id ?? []);
  if (new Set(held).size !== held.length) return 'two workers have one ticket';
  const done = after.finished.map(({ id }) => id);
  if (new Set(done).size !== done.length) return 'a ticket is finished twice';
  if (
    command.type === 'ASSIGN' &&
    held.some((id) => done.includes(id) && !before.workers.some(({ ticket }) => ticket?.id === id))
  )
    return 'a finished ticket starts again';
  if (before.merging !== null && after.merging !== null && before.merging.worker !== after.merging.worker)
    return 'two merges at once';
  if (after.workers.filter(isStepping).length > SETTINGS.maxWorkers) return 'more steps at once than allowed';
  if (command.type === 'MERGED' && after.finished.length > before.finished.length) {
    const tip = before.merging?.tip ?? '';
    if (green.get(tip) === undefined) return `${tip} was merged, and nobody tested or accepted it`;
    if (weaker.has(tip)) return `${tip} was merged, and nobody saw that its tests are weaker`;
  }
  if (command.type === 'PULL_MERGED' && after.finished.length > before.finished.length) {
    const { work, pull } = before.workers.find(({ name }) => name === command.worker) ?? {};
    if (pull?.number !== command.number || green.get(work?.tip ?? '') === undefined)
      return `${work?.tip} was merged by pull request ${command.number}, which nobody opened or tested`;
  }
  if (command.type === 'MERGED' && after.finished.length > before.finished.length && before.settings?.review) {
    const merged = before.workers.find(({ name }) => name === before.merging?.worker);
    if (!reviewed.has(merged?.work?.tree ?? '') && !reviewed.has(before.merging?.tip ?? ''))
      return `${merged?.work?.tree} was merged, and nobody reviewed it`;
  }
  const ids = (after.branches ?? []).map(({ id }) => id);
  if (new Set(ids).size !== ids.length) return 'two branches are kept for one ticket';
  if (before.branches?.some(({ id }) => !ids.includes(id)) && command.type !== 'PREPARED')
    return 'a branch is forgotten before its ticket goes on';
  for (const worker of after.workers) {
    const was = before.workers.find(({ name }) => name === worker.name);
    const why = brokenBy(was, worker, { crew: after, command });
    if (why !== null) return `${worker.name}: ${why}`;
  }
  return null;
}

function brokenBy(
  was: Worker | undefined,
  worker: Worker,
  { crew, command }: { readonly crew: Crew; readonly command: CrewCommand },
): string | null {
  const { status, step, waiting, leaving, ticket, retryAt, next, errors } = worker;
  if (was !== undefined && was.status !== status && !isTransition(was.status, status)) {
    // One command may lead to a status by way of "working".
    const isThrough = isTransition(was.status, 'working') && isTransition('working', status);
    if (!isThrough) return `it moved from ${was.status} to ${status}`;
  }
  if (was?.left !== undefined && worker.left === undefined && command.type !== 'CLEARED')
    return 'the worktree that a kill left is forgotten';
  if (was?.leaving?.why === 'killed' && leaving === null && worker.left === undefined)
    return 'its worktree is gone with the kill';
  if (worker.left !== undefined && worker.prepared) return 'its ticket begins before its last worktree is removed';
  if (status === 'idle') return ticket === null && step === null && waiting === null ? null : 'idle with a ticket';
  if (ticket === null) return `${status} without a ticket`;
  if (step !== null && (waiting !== null || leaving !== null || status === 'done' || status === 'stuck'))
    return `a step is asked while it is ${status}${waiting === null ? '' : ' and waits'}`;
  if (worker.meeting !== undefined && (status !== 'working' || waiting !== null || leaving !== null))
    return `a meeting goes on while it is ${status}`;
  if ((worker.meeting?.turns ?? 0) > 2) return 'a meeting never ends';
  if (status === 'stuck') return leaving !== null || errors > 0 || worker.conflicts > 3 ? null : 'stuck for nothing';
  const isAwaited = step !== null || waiting !== null || retryAt !== null || jobOf(crew, worker) !== null;
  const isReviewed = next === 'review' && worker.review?.id != null;
  const isMerging = status === 'done' && next === 'merge' && crew.merging !== null;
  return isAwaited || isMerging || isReviewed ? null : `${status}, and nothing would ever happen`;
}

test.each(Array.from({ length: 40 }, (_, index) => index * 7_919 + 1))(
  'a crew keeps every invariant in any order of commands (seed %i)',
  (seed) => {
    const random = randomOf(seed);
    const pick = <Value>(all: readonly Value[]): Value => all[Math.floor(random() * all.length)] as Value;
    const world: World = {
      crew: emptyCrew('web'),
      at: 0,
      epoch: 0,
      green: new Map(),
      reviewed: new Set(),
      weaker: new Set(),
      tip: 0,
    };
    const give = (command: CrewCommand): void => {
      world.at += Math.floor(random() * 40_000);
      const decided = decideCrew(world.crew, command, world.at);
      if (!decided.ok) return;
      const before = world.crew;
      world.crew = decided.state ?? before;
      for (const fact of decided.facts) {
        if (fact.type === 'tested' && fact.verdict !== 'red') world.green.set(fact.tip, fact.worker);
        const asked = before.workers.find(({ name }) => 'worker' in fact && name === fact.worker);
        if (fact.type === 'waitOver' && fact.choice === 'merge' && asked?.work != null)
          world.green.set(asked.work.tip, fact.worker);
        const { accepted = null, work = null } = world.crew.workers.find(({ name }) => name === asked?.name) ?? {};
        if (fact.type === 'waitOver' && work !== null) world.reviewed.add(work.tip);
        if (accepted !== (asked?.accepted ?? null) && accepted !== null && asked?.waiting?.for !== 'weakened')
          throw new Error(`weaker tests are accepted by an answer to ${asked?.waiting?.for}`);
        // MERGE by an operator accepts the work without its review.
        if (command.type === 'MERGE' && work !== null) world.reviewed.add(work.tip);
        if (fact.type === 'tested' && command.type === 'TESTED')
          world.weaker[command.weakened === '' ? 'delete' : 'add'](command.tip);
        if (fact.type === 'waitOver' && work !== null && asked?.waiting?.why.includes('less'))
          world.weaker.delete(work.tip);
        if (fact.type === 'reviewOver' && fact.passed && fact.tree !== null) world.reviewed.add(fact.tree);
      }
      const why = broken(before, world.crew, command, world);
      if (why !== null) throw new Error(`${why}, after ${JSON.stringify(command)}`);
    };
    give({ type: 'CONFIGURE', settings: [SETTINGS, REVIEWED, PULLED][seed % 3] ?? SETTINGS });
    give({ type: 'SPAWN', workers: WORKERS.map((name) => ({ name, agent: `web-${name.toLowerCase()}` })) });
    for (let count = 0; count < 1_500; count += 1) {
      if (random() < 0.3) world.epoch += 1;
      if (random() < 0.3) world.tip += 1;
      give(commandsOf(world, pick));
    }
    expect(crewSchema.parse(world.crew)).toEqual(world.crew);
  },
);
