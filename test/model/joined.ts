import { checkKey } from './facts.ts';
import type { FactOf } from '../../src/turns/floor/fact.ts';
import type { Machine } from '../../src/engine/machine.ts';
import type { Instant } from '../../src/lib/time.ts';
import type { Command } from '../../src/turns/floor/command.ts';
import { PLAIN_SETTINGS } from '../../src/turns/floor/floor.ts';
import type { Floor, Turn } from '../../src/turns/floor/floor.ts';
import { findTurn, openQuestion, waitOf } from '../../src/turns/floor/seats.ts';
import type { floorWithWork } from '../../src/work/floor-with-work.ts';
import type { runOnFloor } from '../../src/work/runs/floor-binding.ts';
import type { RequestedCall, RunCommand } from '../../src/work/runs/run-events.ts';
import type { RunState } from '../../src/work/runs/run.ts';
import { Violation, must } from './violation.ts';
import { isOnWay } from './ways.ts';
import type { Way } from './ways.ts';
import { takenBy } from './step.ts';

/** The machines of floors and runs, or copies of them with a bug. */
export type Joined = { readonly floorWithWork: typeof floorWithWork; readonly runOnFloor: typeof runOnFloor };

/** A command from outside the two machines. */
export type JoinedMove =
  | { readonly of: 'floor'; readonly command: Command; readonly at: Instant }
  | { readonly of: 'run'; readonly command: RunCommand; readonly at: Instant };

/** A broken invariant, and the shortest path to it. */
export type FoundJoined = { readonly invariant: string; readonly what: string; readonly trace: readonly JoinedMove[] };

/** A floor and the run that the search follows. */
export type JoinedWorld = {
  readonly floor: Floor;
  readonly run: RunState;
  readonly at: Instant;
  readonly calls: number;
};

/** The beginning of a search, its moves, and its check after each move. */
export type JoinedScene = {
  /** The key of the run. */
  readonly key: string;
  readonly beginning: readonly (Command | RunCommand)[];
  readonly moves: (world: JoinedWorld, core: Joined) => readonly JoinedMove[];
  readonly check: (world: JoinedWorld, before: JoinedWorld, move: JoinedMove) => void;
};

type World = JoinedWorld;
type Place = { readonly world: World; readonly trace: readonly JoinedMove[] };

const NOON: Instant = 43_200_000;
const HALL = 'model';
const AGENT = 'pm';
const MOST_CAUSED = 50;
const STOPPED = { code: 'HTTP_401', recoverable: false } as const;

/**
 * Searches every order of moves of agents, people and time, for a floor and its holder's run. Checks in every state
 * that turn and run agree: neither goes on without the other.
 */
export function searchJoined(
  core: Joined,
  {
    depth: deepest,
    first,
    scene = TURN,
    along,
  }: { readonly depth: number; readonly first: boolean; readonly scene?: JoinedScene; readonly along?: Way },
): { readonly states: number; readonly transitions: number; readonly found: readonly FoundJoined[] } {
  const found: FoundJoined[] = [];
  const beginning: Place = { world: begin(core, scene), trace: [] };
  const seen = new Set([keyOf(beginning.world)]);
  let [frontier, transitions]: [readonly Place[], number] = [[beginning], 0];
  for (let depth = 0; depth < deepest && frontier.length > 0; depth += 1) {
    const next: Place[] = [];
    for (const { world, trace } of frontier) {
      for (const move of scene.moves(world, core)) {
        if (!isOnWay(along, depth, move)) continue;
        transitions += 1;
        const reached = attempt(core, { world, trace: [...trace, move] }, { move, scene, found });
        if (first && found.length > 0) return { states: seen.size, transitions, found };
        if (reached === null || seen.has(keyOf(reached.world))) continue;
        seen.add(keyOf(reached.world));
        next.push(reached);
      }
    }
    frontier = next;
  }
  return { states: seen.size, transitions, found };
}

/** pm holds the floor, dev is next, and pm has used a tool. */
export const TURN: JoinedScene = {
  key: `${HALL} ${AGENT}`,
  beginning: [
    {
      type: 'configure',
      settings: { ...PLAIN_SETTINGS, mode: 'interrupt', rounds: 0 },
      seats: [AGENT, 'dev'].map((agent) => ({ agent, priority: 1, timeoutMs: 60_000, rejoin: 'auto' as const })),
    },
    { type: 'join', agent: AGENT },
    { type: 'join', agent: 'dev' },
    { type: 'start', by: 'ann' },
    { type: 'use', agent: AGENT, epoch: 1, maxTurns: 2 },
  ],
  moves: movesOf,
  check,
};

/** As `TURN`. The program died while pm, which asks for itself, waited for an approval. */
export const CUT: JoinedScene = {
  ...TURN,
  beginning: [
    ...TURN.beginning,
    {
      type: 'REQUEST',
      session: '1',
      calls: [
        {
          id: 'c',
          tool: 't',
          input: {},
          rule: null,
          repeatable: false,
          verdict: 'ask',
          source: 'agent',
          digest: 'a',
        },
      ],
    },
    { type: 'shown', question: 1 },
    { type: 'restart' },
  ],
};

function begin(core: Joined, { key, beginning: commands }: JoinedScene): World {
  const empty: World = {
    floor: core.floorWithWork.empty(HALL),
    run: core.runOnFloor.empty(key),
    at: NOON,
    calls: 0,
  };
  return commands.reduce((world, command) => take(core, world, { ...placed(command), at: NOON }) ?? world, empty);
}

/** Adds the machine that takes a command. Commands of runs have names in capitals. */
function placed(command: Command | RunCommand) {
  return isForRun(command) ? ({ of: 'run', command } as const) : ({ of: 'floor', command } as const);
}

function isForRun(command: Command | RunCommand): command is RunCommand {
  return command.type === command.type.toUpperCase();
}

type Attempt = { readonly move: JoinedMove; readonly scene: JoinedScene; readonly found: FoundJoined[] };

function attempt(core: Joined, { world, trace }: Place, { move, scene, found }: Attempt): Place | null {
  try {
    const reached = take(core, world, move);
    if (reached === null) return null;
    scene.check(reached, world, move);
    return { world: reached, trace };
  } catch (error) {
    const invariant = error instanceof Violation ? error.invariant : 'throws';
    found.push({ invariant, what: error instanceof Error ? error.message : String(error), trace });
    return null;
  }
}

/** The world after a command with all its consequences; `null` when it is refused. */
function take({ floorWithWork: floors, runOnFloor: runs }: Joined, world: World, move: JoinedMove): World | null {
  const { at } = move;
  const first =
    move.of === 'floor'
      ? step(floors, world.floor, { command: move.command, at })
      : step(runs, world.run, { command: move.command, at });
  if (!first.ok) return null;
  let after = changed({ ...world, at }, first.state);
  const open = [...first.caused];
  for (let done = 0, next = open.shift(); next !== undefined; next = open.shift(), done += 1) {
    must(done < MOST_CAUSED, 'J0', 'a command causes others without end');
    must(
      next.machine !== 'floor' || !isSkip(next.command) || after.run.status !== 'completed',
      'I27',
      'a run that people completed skips its turn',
    );
    const taken =
      next.machine === 'floor'
        ? step(floors, after.floor, { command: takenBy(floors, next.command), at })
        : step(runs, after.run, { command: takenBy(runs, next.command), at });
    after = changed(after, taken.state);
    open.push(...taken.caused);
  }
  const isAsked = move.of === 'run' && move.command.type === 'REQUEST';
  return isAsked ? { ...after, calls: after.calls + 1 } : after;
}

function changed(world: World, state: Floor | RunState): World {
  return 'channel' in state ? { ...world, floor: state } : { ...world, run: state };
}

function isSkip(command: unknown): boolean {
  return typeof command === 'object' && command !== null && Reflect.get(command, 'type') === 'skip';
}

function isAnnounced(fact: { readonly type: string }): fact is FactOf<'announced'> {
  return fact.type === 'announced';
}

function step<State, Action, Fact extends { readonly type: string }, Owed, Refused extends string>(
  machine: Machine<State, Action, Fact, Owed, Refused>,
  state: State,
  { command, at }: { readonly command: Action; readonly at: Instant },
) {
  const decision = machine.decide(state, command, at);
  const after = decision.facts.reduce((each, fact) => machine.evolve(each, fact, at), state);
  for (const fact of decision.facts) if (isAnnounced(fact)) checkKey(fact);
  const causing = decision.facts.filter(({ type }) => machine.causing?.has(type) !== false);
  const caused = decision.ok ? causing.flatMap((fact) => machine.causes?.(fact, after) ?? []) : [];
  return { ok: decision.ok, state: after, caused };
}

function movesOf({ floor, run, at, calls }: World, core: Joined): readonly JoinedMove[] {
  const { turn } = floor;
  const agent = turn?.agent ?? AGENT;
  const epoch = turn?.epoch ?? 0;
  const onFloor = (command: Command): JoinedMove => ({ of: 'floor', command, at });
  const deadline = core.floorWithWork.nextDeadline(floor);
  const question = openQuestion(floor);
  const asked: readonly Command[] =
    question === null
      ? []
      : [
          ...(question.shown ? [] : [{ type: 'shown', question: question.question } as const]),
          { type: 'decide', by: 'ann', choice: 'allow', question: question.question },
          { type: 'decide', by: 'ann', choice: 'reject', question: question.question },
          ...(question.shown ? [] : [{ type: 'shown', question: question.question, why: 'no access' } as const]),
        ];
  const floors: readonly Command[] = [
    { type: 'receive', id: `m${floor.lines + 1}`, addressed: [] },
    { type: 'stop', by: 'ann' },
    { type: 'skip', by: 'ann' },
    { type: 'grant', by: 'ann', agent: AGENT },
    ...(agent === AGENT ? [{ type: 'use', agent, epoch, maxTurns: 2 } as const] : []),
    { type: 'end', agent, epoch, outcome: 'completed', signalled: true },
    { type: 'wait', agent, epoch, reason: 'answer' },
    { type: 'interrupted', agent, epoch },
    { type: 'leave', agent: AGENT, cause: 'exited' },
    { type: 'leave', agent: AGENT, cause: 'API key rejected (401)', error: STOPPED },
    { type: 'join', agent: AGENT },
    { type: 'restart' },
    { type: 'catchUp' },
    ...asked,
  ];
  const late: readonly JoinedMove[] =
    deadline === null ? [] : [{ of: 'floor', command: { type: 'tick' }, at: Math.max(at, deadline) }];
  return [...floors.map(onFloor), ...late, ...runMoves(run, { at, calls }), ...runTick(run, core, at)];
}

function runTick(run: RunState, core: Joined, at: Instant): readonly JoinedMove[] {
  const deadline = core.runOnFloor.nextDeadline(run);
  return deadline === null ? [] : [{ of: 'run', command: { type: 'TICK' }, at: Math.max(at, deadline) }];
}

function runMoves(
  { run }: RunState,
  { at, calls }: { readonly at: Instant; readonly calls: number },
): readonly JoinedMove[] {
  if (run === null) return [];
  const session = run.session;
  const plain = { tool: 't', input: {}, rule: null, repeatable: false } as const;
  const call = (
    more: Pick<RequestedCall, 'verdict' | 'source' | 'digest'> & Pick<Partial<RequestedCall>, 'words'>,
  ): RequestedCall => ({
    id: `c${calls}`,
    ...plain,
    ...more,
  });
  const words = { title: 't', detail: '', unaskable: 'too long' };
  const requests = [
    call({ verdict: 'ask', source: 'agent', digest: 'a' }),
    call({ verdict: 'allow', source: 'agent', digest: 'b' }),
    call({ verdict: 'allow', source: 'conch', digest: 'b' }),
    call({ verdict: 'deny', source: 'agent', digest: 'd' }),
    call({ verdict: 'ask', source: 'conch', digest: 'e', words }),
    call({ verdict: 'ask', source: 'conch', digest: 'f' }),
  ];
  const [open] = run.calls;
  const ofCall: readonly RunCommand[] =
    open === undefined
      ? []
      : [
          { type: 'CLAIM', call: open.id, digest: open.digest, verdict: 'allow' },
          { type: 'CLAIM', call: open.id, digest: open.digest, verdict: 'ask' },
          { type: 'SETTLE', call: open.id, status: 'complete', output: null, duration: null, code: null },
          { type: 'WITHDRAW', call: open.id },
        ];
  const commands: readonly RunCommand[] = [
    ...requests.map((one): RunCommand => ({ type: 'REQUEST', session, calls: [one] })),
    ...ofCall,
    { type: 'STEP', session, turn: run.turn + 1, toolCalls: [] },
    { type: 'PAUSE', reason: 'confirmation', context: 'ann paused it' },
    { type: 'RESUME', by: 'ann' },
    { type: 'ABORT', reason: 'x', by: 'ann' },
    { type: 'COMPLETE', session, result: '', by: 'ann' },
  ];
  return commands.map((command) => ({ of: 'run', command, at }));
}

/** J1 to J11: what holds of a floor and its run in every state. */
function check({ floor, run: { status, run } }: World, before: World, move: JoinedMove): void {
  const isStopped = move.of === 'floor' && move.command.type === 'leave' && move.command.error === STOPPED;
  must(
    !isStopped || before.run.status === 'error' || status !== 'error',
    'J11',
    'a run waits for a retry that cannot come',
  );
  const turn = findTurn(floor, AGENT);
  const isOpen = status === 'starting' || status === 'running' || status === 'paused';
  const approval = run?.pause?.approval ?? null;
  must(!isOpen || turn?.run === true, 'J1', `the run is ${status} and its agent has no turn that uses tools`);
  must(isOpen || turn?.run !== true, 'J2', `the turn uses tools and its run is ${status}`);
  if (turn?.run === true && isOpen) checkPair(floor, turn, { status, run });
  const question = openQuestion(floor);
  const isPms = floor.turn?.agent === AGENT;
  if (approval !== null) must(isPms && question?.approval === approval.id, 'J6', 'a run asks what its floor does not');
  if (isPms && question !== null && question.approval !== undefined)
    must(approval?.id === question.approval, 'J7', 'a floor asks what its run does not');
  const isGone = isPms && question?.restarted === true;
  must(
    isGone === (approval?.detached === true),
    'J10',
    'a floor does not know that whoever asks is gone, or only it does',
  );
  if (status === 'idle' || status === 'completed')
    must(
      (run?.calls ?? []).every(({ source, status: at }) => source === 'conch' && at === 'running'),
      'J8',
      'a call outlives its run',
    );
}

function checkPair(floor: Floor, turn: Turn, { status, run }: Pick<RunState, 'status' | 'run'>): void {
  const wait = waitOf(turn);
  const reason = run?.pause?.reason ?? null;
  if (turn.status === 'active') {
    const isThere = floor.seats.some(({ agent, present }) => agent === turn.agent && present);
    must(isThere, 'J9', 'a turn is at work and its agent is not there');
    must(status === 'running', 'J3', `the turn is at work and its run is ${status} (${reason})`);
    must(run?.session === `${turn.epoch}`, 'J4', `the turn is #${turn.epoch}, its run goes by ${run?.session}`);
  }
  if (wait === null) return;
  if (wait.ready) return;
  must(status === 'paused', 'J5', `the turn waits and its run is ${status}`);
  if (wait.reason === 'approval' && !wait.ready) {
    const wanted = wait.question.pause ?? 'approval_required';
    must(reason === wanted, 'J5', `the floor asks about ${wanted}, the run stands still for ${reason}`);
  } else if (wait.reason !== 'approval')
    must(reason !== 'approval_required', 'J5', 'a run asks while its turn waits for something else');
}

/** The key of a world. Worlds with equal keys have the same continuations. */
function keyOf({ floor, run, at }: World): string {
  const { totals: _, closed: _closed, causes: _causes, unknown, ...rest } = run;
  const near = (key: string, value: unknown): unknown => {
    if (key === 'words') return undefined;
    if (typeof value !== 'number' || value < NOON) return key === 'lines' || key === 'seenLine' ? 0 : value;
    return value <= at ? 'past' : value - at;
  };
  return JSON.stringify([floor, rest, [...unknown].sort()], near);
}
