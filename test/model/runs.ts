import { isDeepStrictEqual } from 'node:util';
import type { Instant } from '../../src/lib/time.ts';
import type { OpenCall, RunState } from '../../src/work/runs/run.ts';
import { ROWS_OF_RUNS } from '../work/runs/table.ts';
import type { RunEventName } from '../../src/work/runs/run-table.ts';
import type { RequestedCall, RunCommand, RunFact } from '../../src/work/runs/run-events.ts';
import type { runMachine } from '../../src/work/runs/run-machine.ts';
import type { Explored } from './search.ts';
import { isOnWay } from './ways.ts';
import type { Way } from './ways.ts';
import { Violation, must } from './violation.ts';

/** The run machine, or a copy of it with a bug. */
export type RunMachine = typeof runMachine;

/** A broken invariant, and the shortest path to it. */
export type FoundRun = {
  readonly invariant: string;
  readonly what: string;
  readonly trace: readonly { readonly at: Instant; readonly command: RunCommand }[];
};

const NOON: Instant = 43_200_000;
const WAIT_MS = 1_000;
const KEY = 'model dev';

/** The onlooker's notes of a call: the request, people's answers, and its outcome. */
type Ghost = {
  readonly digest: string;
  readonly verdict: RequestedCall['verdict'];
  readonly repeatable: boolean;
  /** The call stands behind others and cannot start yet. */
  readonly waits: boolean;
  readonly alone: boolean;
  /** The open question whose answer also counts for this call; `null`: none. */
  readonly asked: string | null;
  /** People allowed the call, or an equal call whose agent was gone. */
  readonly yes: boolean;
  readonly claims: number;
  /** Somebody is about to claim the call. */
  readonly armed: boolean;
};

type Said = {
  readonly digest: string;
  readonly choice: string;
  readonly until: Instant | null;
  /** The id of the only call that the answer decides. `null`: the answer decides any equal call. */
  readonly call: string | null;
};

/** A state with the onlooker's notes of its path. */
type Place = {
  readonly state: RunState;
  readonly at: Instant;
  readonly calls: number;
  readonly ghosts: Readonly<Record<string, Ghost>>;
  /** People's answers that wait for a call: answers to calls that were gone, once each, and those for equal calls. */
  readonly grants: readonly Said[];
  /** Digests of calls that were interrupted. */
  readonly doubtful: readonly string[];
  readonly trace: FoundRun['trace'];
};

/** Searches every order of commands to this depth, and checks each command in every state. */
export function searchRuns(
  core: RunMachine,
  { depth: deepest, first, along }: { readonly depth: number; readonly first: boolean; readonly along?: Way },
): Omit<Explored, 'found'> & {
  readonly found: readonly FoundRun[];
} {
  const beginning: Place = {
    state: core.empty(KEY),
    at: NOON,
    calls: 0,
    ghosts: {},
    grants: [],
    doubtful: [],
    trace: [],
  };
  const seen = new Set([keyOf(beginning)]);
  const found: FoundRun[] = [];
  let [frontier, transitions, depth]: [readonly Place[], number, number] = [[beginning], 0, 0];
  for (; frontier.length > 0 && depth < deepest; depth += 1) {
    const next: Place[] = [];
    for (const place of frontier) {
      for (const move of movesOf(place, core)) {
        if (!isOnWay(along, depth, { command: move.command, at: move.at })) continue;
        transitions += 1;
        const reached = take(core, place, move, found);
        if (first && found.length > 0) return told([seen.size, transitions, depth + 1], false, found);
        if (reached === null || seen.has(keyOf(reached))) continue;
        seen.add(keyOf(reached));
        next.push(reached);
      }
    }
    frontier = next;
  }
  return told([seen.size, transitions, depth], frontier.length === 0, found);
}

function told(counts: readonly [number, number, number], closed: boolean, found: readonly FoundRun[]) {
  const [states, transitions, diameter] = counts;
  return { channel: 'runs of a seat', states, transitions, diameter, closed, found };
}

type Move = { readonly command: RunCommand; readonly at: Instant };

/** A call that the agent ran without asking. */
const UNASKED = { source: 'agent', digest: 'u', repeatable: true, rule: 'unasked' } as const;
const DONE = { status: 'complete', output: null, duration: null, code: null } as const;

function movesOf({ state, at, calls }: Place, core: RunMachine): readonly Move[] {
  const { run } = state;
  const now = (commands: readonly RunCommand[]): readonly Move[] => commands.map((command) => ({ command, at }));
  const deadline = core.nextDeadline(state);
  const late: readonly Move[] = deadline === null ? [] : [{ command: { type: 'TICK' }, at: Math.max(at, deadline) }];
  const error = (recoverable: boolean) => ({ code: 'AGENT_EXECUTION_ERROR', message: 'x', recoverable });
  const session = run?.session ?? 's1';
  const turn = (run?.turn ?? 0) + 1;
  const id = (nth: number): string => `c${calls + nth}`;
  const plain = { tool: 't', input: {}, digest: 'a', source: 'conch', verdict: 'allow', repeatable: false } as const;
  const one = (nth: number, more: Partial<RequestedCall>): RequestedCall => ({
    id: id(nth),
    rule: null,
    ...plain,
    ...more,
  });
  const steps: readonly (readonly RequestedCall[])[] = [
    [],
    [one(0, {})],
    [one(0, { digest: 'b', verdict: 'ask' }), one(1, {})],
    [one(0, { verdict: 'deny' })],
    [one(0, { digest: 'r', repeatable: true })],
  ];
  const asking = { source: 'agent', digest: 'b', verdict: 'ask' } as const;
  const waiting = { ...asking, waits: true } as const;
  const first = run?.calls.find(({ waits }) => waits === true);
  const requests = [
    [one(0, { source: 'agent' })],
    [one(0, asking), one(1, waiting)],
    [one(0, { ...asking, alone: true }), one(1, { ...waiting, source: 'conch' })],
    [one(0, { ...waiting, alone: true })],
    // A waiting call comes to the front, and the rules decide it as they are now.
    ...(first === undefined
      ? []
      : [[{ ...one(0, asking), id: first.id }], [one(0, { ...asking, id: first.id, verdict: 'deny' })]]),
  ];
  const started = { runType: 'task', prompt: 'p', by: null, waitMs: WAIT_MS, allowedTools: null, maxTurns: 2 } as const;
  const approvals = [run?.pause?.approval, ...state.closed.slice(-1)].flatMap((each) => (each ? [each] : []));
  const grants = (run?.grants ?? []).flatMap((grant) => (typeof grant === 'string' ? [] : [grant]));
  const lapsed = grants.flatMap(({ digest, until }): readonly Move[] => {
    const again = one(0, { source: 'agent', digest, verdict: 'ask' });
    return until === null ? [] : [{ command: { type: 'REQUEST', session, calls: [again] }, at: Math.max(at, until) }];
  });
  return [
    ...lapsed,
    ...now([
      { type: 'START', ...started, session: 's1', task: { id: 't', column: 'backlog' } },
      { type: 'START', ...started, session: 's1', task: { id: 't', column: 'backlog' }, cause: 'f1' },
      { type: 'START', ...started, session: 's1', task: { id: 't', column: 'done' } },
      ...steps.map((toolCalls): RunCommand => ({ type: 'STEP', session, turn, toolCalls: [...toolCalls] })),
      { type: 'STEP', session: 's0', turn, toolCalls: [] },
      { type: 'STEP', session, turn: turn - 1, toolCalls: [] },
      { type: 'PAUSE', reason: 'user_input' },
      { type: 'RESUME', by: 'ann' },
      { type: 'RESUME', by: 'ann', more: 500 },
      { type: 'ERROR', session, error: error(true) },
      { type: 'ERROR', session, error: error(false) },
      { type: 'COMPLETE', session, result: 'r' },
      { type: 'ABORT', reason: 'x', by: null },
      { type: 'ATTACH', session: 's2' },
      { type: 'LOST', session, error: error(true) },
      { type: 'RECOVER' },
      { type: 'TICK' },
      { type: 'CLEANSE' },
      ...requests.map((all): RunCommand => ({ type: 'REQUEST', session, calls: [...all] })),
      ...(first === undefined ? [] : [{ type: 'WITHDRAW', call: first.id } as const]),
      { type: 'REPORT', session, call: one(0, UNASKED), result: DONE },
      { type: 'REPORT', session: 's0', call: one(0, UNASKED), result: DONE },
      ...(run?.calls ?? []).flatMap(({ id: call, digest }): readonly RunCommand[] => [
        { type: 'CLAIM', call, digest, verdict: 'allow', ...(digest === 'b' ? { brings: { untrusted: 'b' } } : {}) },
        { type: 'CLAIM', call, digest, verdict: 'ask' },
        { type: 'CLAIM', call, digest, verdict: 'deny' },
        { type: 'CLAIM', call, digest: 'z', verdict: 'allow' },
        { type: 'SETTLE', call, status: 'complete', output: null, duration: null, code: null },
      ]),
      ...approvals.flatMap((approval): readonly RunCommand[] => {
        const digest = 'digest' in approval ? approval.digest : 'b';
        const decide = { type: 'DECIDE', approval: approval.id, digest, by: 'ann', via: 'console' } as const;
        return [
          { ...decide, choice: 'allow' },
          { ...decide, choice: 'deny' },
          { ...decide, choice: 'allow', digest: 'z' },
        ];
      }),
    ]),
    ...late,
    ...(deadline === null || run?.pause?.approval == null
      ? []
      : [{ command: decideLate(run.pause.approval), at: Math.max(at, deadline) }]),
  ];
}

function decideLate({ id, digest }: { readonly id: string; readonly digest: string }): RunCommand {
  return { type: 'DECIDE', approval: id, digest, choice: 'allow', by: 'ann', via: 'console' };
}

function take(core: RunMachine, place: Place, move: Move, found: FoundRun[]): Place | null {
  const { at, command } = move;
  const trace = [...place.trace, move];
  try {
    return reach(core, { ...place, at, trace }, command);
  } catch (error) {
    const invariant = error instanceof Violation ? error.invariant : 'total';
    found.push({ invariant, what: error instanceof Error ? error.message : String(error), trace });
    return null;
  }
}

function reach(core: RunMachine, place: Place, command: RunCommand): Place | null {
  const { at } = place;
  const decision = core.decide(place.state, command, at);
  checkDecision(place, command, decision);
  if (!decision.ok) return null;
  let { state, ghosts, grants, doubtful } = place;
  const facts = decision.facts.map((fact) => core.fact.parse(JSON.parse(JSON.stringify(fact))));
  for (const fact of facts) {
    const after = core.evolve(state, fact, at);
    checkMove(state, fact, after, command.type);
    checkRead(state, after, command, at);
    ({ ghosts, grants, doubtful } = follow({ ghosts, grants, doubtful, at }, fact, state, command));
    state = after;
  }
  const stored: unknown = core.state.parse(JSON.parse(JSON.stringify(state)));
  must(isDeepStrictEqual(stored, state), 'R1', 'a state is not read back as it was written');
  checkState(state, core.nextDeadline(state));
  checkKnown(state, { ghosts, grants, doubtful, at });
  const brought = command.type === 'CLAIM' && facts.some(({ type }) => type === 'callClaimed') ? command.brings : {};
  must(brought?.untrusted === undefined || state.taint !== undefined, 'R15', 'what a call brings in leaves no mark');
  const isGone = command.type === 'RECOVER' || command.type === 'LOST' || facts.some(({ type }) => type === 'errored');
  must(!isGone || !state.run?.calls.some(({ waits }) => waits), 'R8', 'a call waits whose agent is gone');
  const calls = place.calls + facts.filter(({ type }) => type === 'callRequested').length;
  return {
    state,
    at,
    calls,
    ghosts: still(ghosts, state),
    grants: state.status === 'idle' || state.status === 'completed' ? [] : grants,
    doubtful,
    trace: place.trace,
  };
}

const SEEDS: ReadonlySet<string> = new Set(ROWS_OF_RUNS.map(([, , event]) => event));

/** R2: the specification's matrix and guards decide what is accepted. A refusal changes nothing. */
function checkDecision({ state, at }: Place, command: RunCommand, decision: ReturnType<RunMachine['decide']>): void {
  const { run, status } = state;
  if (!decision.ok) must(decision.facts.length === 0, 'R2', `a refused ${command.type} changes something`);
  const isListed = ROWS_OF_RUNS.some(([, from, event]) => from === status && event === command.type);
  if (SEEDS.has(command.type) && !isListed) must(!decision.ok, 'R2', `${command.type} is taken while ${status}`);
  if (command.cause !== undefined && state.causes.includes(command.cause))
    must(!decision.ok, 'R3', 'a cause counts twice');
  if (
    'session' in command &&
    run !== null &&
    command.type !== 'START' &&
    command.type !== 'ATTACH' &&
    command.session !== run.session
  ) {
    must(!decision.ok, 'R4', `an earlier session is heard: ${command.type}`);
  }
  if (command.type === 'START' && command.task?.column === 'done')
    must(!decision.ok, 'R2', 'a task that is done begins');
  if (command.type === 'STEP' && run !== null) {
    if (command.turn !== run.turn + 1) must(!decision.ok, 'R5', `step ${command.turn} follows step ${run.turn}`);
    if (run.calls.some(({ waits }) => waits === undefined))
      must(!decision.ok, 'R5', 'a step begins while a call has no result');
  }
  if (command.type === 'RESUME') {
    if (run?.pause?.approval) must(!decision.ok, 'R6', 'a run goes on while a question is open');
    if ((command.more ?? 1) > 200) must(!decision.ok, 'R7', 'more steps than there may be are added');
  }
  if (command.type === 'REPORT' && run !== null && command.session === run.session)
    must(decision.ok, 'R10', 'what an agent did by itself is not on record');
  if (command.type === 'COMPLETE' && run?.calls.some((call) => call.status === 'running')) {
    must(!decision.ok, 'R8', 'a run completes while a call is running');
  }
  if (command.type === 'DECIDE') {
    const open = run?.pause?.approval ?? null;
    const isGood =
      open !== null &&
      open.id === command.approval &&
      open.digest === command.digest &&
      at < (open.expiresAt ?? Infinity);
    must(decision.ok === isGood, 'R6', `a click ${isGood ? 'is refused' : 'counts that must not'}`);
  }
  if (command.type === 'ABORT' && isListed) must(decision.ok, 'R9', `nobody can abort what is ${status}`);
  if (command.type === 'TICK') {
    const due = run?.pause?.until ?? run?.errorUntil ?? Infinity;
    must(decision.ok === at >= due, 'R9', at >= due ? 'time passes and nothing happens' : 'it happens too early');
  }
}

const EVENT_OF: Readonly<Partial<Record<RunFact['type'], RunEventName>>> = {
  runStarted: 'START',
  stepped: 'STEP',
  paused: 'PAUSE',
  resumed: 'RESUME',
  errored: 'ERROR',
  runCompleted: 'COMPLETE',
  aborted: 'ABORT',
};

/** R2: every change of the status is a row of the specification. R7: a step adds one, up to the limit. */
function checkMove(before: RunState, fact: RunFact, after: RunState, by: RunCommand['type']): void {
  const event = EVENT_OF[fact.type];
  if (event === undefined) return must(before.status === after.status, 'R2', `${fact.type} makes it ${after.status}`);
  const isRow = ROWS_OF_RUNS.some(
    ([, from, name, to]) => from === before.status && name === event && to === after.status,
  );
  must(isRow, 'R2', `${before.status} becomes ${after.status} by ${event}`);
  if (fact.type === 'errored' && before.status === 'running') {
    must(after.status === (fact.error.recoverable ? 'error' : 'idle'), 'R2', `an error leaves it ${after.status}`);
  }
  if (fact.type === 'stepped')
    must(fact.turn <= (before.run?.maxTurns ?? 0), 'R7', `step ${fact.turn} is beyond the limit`);
  if (fact.type === 'resumed' && by === 'DECIDE') {
    must(after.run?.maxTurns === before.run?.maxTurns, 'R7', 'a yes raises the limit');
  }
}

/** R15: a session's reading taint ends only with CLEANSE. The taint of what it wrote stays. */
function checkRead({ taint }: RunState, after: RunState, command: RunCommand, at: Instant): void {
  if (taint === undefined || isDeepStrictEqual(taint, after.taint)) return;
  must(command.type === 'CLEANSE', 'R15', `what a session has read is forgotten by ${command.type}`);
  must(
    after.wrote?.some(({ since, until }) => since <= taint.since && until >= at) === true,
    'R15',
    'what a session wrote is forgotten with it',
  );
}

type Known = Pick<Place, 'ghosts' | 'grants' | 'doubtful' | 'at'>;

/** R10 to R12: keeps the onlooker's notes of calls, and checks each claim. */
function follow(known: Known, fact: RunFact, state: RunState, command: RunCommand): Known {
  const { ghosts, grants, doubtful, at } = known;
  const change = (id: string, more: Partial<Ghost>): Known => {
    const ghost = ghosts[id];
    if (ghost === undefined) throw new Violation('R10', `nobody asked for ${id}`);
    return { ...known, ghosts: { ...ghosts, [id]: { ...ghost, ...more } } };
  };
  switch (fact.type) {
    case 'callRequested': {
      const { id, digest, verdict, repeatable, waits = false, alone = false } = fact.call;
      must(ghosts[id]?.waits !== false, 'R10', 'a call is asked for twice');
      const ghost = { digest, verdict, repeatable, waits, alone, asked: null, yes: false, claims: 0, armed: false };
      return { ...known, ghosts: { ...ghosts, [id]: ghost } };
    }
    case 'callCleared':
      must(ghosts[fact.call]?.waits !== true, 'R10', 'a call that waits is let through');
      return change(fact.call, { armed: true });
    case 'paused': {
      // A claim that comes meanwhile is refused and not repeated.
      const disarmed = mapped(ghosts, (ghost) => ({ ...ghost, armed: false }));
      const { approval } = fact;
      if (approval === null || approval.id === state.run?.pause?.approval?.id) return { ...known, ghosts: disarmed };
      const front = ghosts[approval.call];
      const isSame = ({ waits, alone, verdict, digest }: Ghost): boolean =>
        waits && !alone && front?.alone === false && verdict === 'ask' && digest === approval.digest;
      const isAnswered = (id: string): boolean => grants.some(({ call }) => call === id);
      const counted = Object.entries(disarmed).map(([id, ghost]) => {
        return [id, isSame(ghost) && !isAnswered(id) ? { ...ghost, asked: approval.id } : ghost] as const;
      });
      return { ...known, ghosts: Object.fromEntries(counted) };
    }
    case 'approvalClosed': {
      const open = state.run?.pause?.approval;
      must(open?.id === fact.id, 'R6', 'a question is closed that is not open');
      if (fact.state === 'allowed')
        must(command.type === 'DECIDE' && command.choice === 'allow', 'R11', 'nobody said yes');
      if (fact.state !== 'allowed' && fact.state !== 'denied') return known;
      const choice = fact.state === 'allowed' ? 'allow' : 'deny';
      const said = { digest: open.digest, choice, until: open.expiresAt, call: null };
      if (open.detached) return { ...known, grants: [...grants, said] };
      const same = Object.entries(ghosts).filter(([, { asked: by }]) => by === fact.id);
      const others = same.map(([call]) => ({ ...said, call }));
      const { ghosts: asked } = fact.state === 'denied' ? known : change(open.call, { yes: true });
      return { ...known, ghosts: asked, grants: [...grants, ...others] };
    }
    case 'grantUsed': {
      const { digest, choice } = { choice: fact.said?.choice, ...ghosts[fact.call] };
      const isMeant = ({ call, ...said }: Said): boolean =>
        said.digest === digest && said.choice === choice && (call ?? fact.call) === fact.call;
      must(grants.some(isMeant), 'R11', 'an answer is used that nobody gave to such a call');
      const place = grants.findIndex((said) => isMeant(said) && at < (said.until ?? Infinity));
      must(place !== -1, 'R11', 'an answer is used after its time');
      return { ...change(fact.call, { yes: choice === 'allow' }), grants: grants.toSpliced(place, 1) };
    }
    case 'callClaimed': {
      const ghost = ghosts[fact.call];
      const running = state.run?.calls.filter(({ source, status }) => source === 'conch' && status === 'running') ?? [];
      const isOwn = state.run?.calls.some(({ id, source }) => id === fact.call && source === 'conch') === true;
      const isTold = command.type === 'REPORT';
      must(isTold || state.status === 'running', 'R10', `a call is claimed while it is ${state.status}`);
      must(ghost !== undefined && ghost.claims === 0, 'R10', 'a call is claimed twice');
      must(ghost.verdict !== 'deny', 'R11', 'a call that is denied starts');
      must(ghost.verdict === 'allow' || ghost.yes, 'R11', 'a call starts that nobody said yes to');
      must(
        ghost.yes || ghost.repeatable || !doubtful.includes(ghost.digest),
        'R12',
        'a call is repeated whose outcome is unknown',
      );
      must(!isOwn || running.length === 0, 'R10', 'two calls run at once');
      if (isTold) return change(fact.call, { claims: 1 });
      must(
        command.type === 'CLAIM' && command.digest === ghost.digest,
        'R11',
        'another call starts than the one that was asked for',
      );
      must(command.verdict !== 'deny', 'R11', 'a call starts that is denied by now');
      must(command.verdict === 'allow' || ghost.yes, 'R11', 'a call starts that asks by now');
      return change(fact.call, { claims: 1 });
    }
    case 'callSettled': {
      const { [fact.call]: ghost, ...others } = ghosts;
      must(ghost !== undefined, 'R10', 'a call is settled twice');
      const wasRunning = ghost.claims > 0;
      const isCut = wasRunning && command.type !== 'SETTLE' && command.type !== 'REPORT';
      must(
        (fact.outcome === 'unknown') === isCut,
        'R12',
        isCut ? 'a call that is cut short has a known outcome' : 'a known outcome is called unknown',
      );
      const isForbidden = ghost.verdict === 'deny' || (command.type === 'CLAIM' && command.verdict === 'deny');
      if (fact.code === 'AGENT_TOOL_NOT_ALLOWED')
        must(isForbidden && !ghost.waits, 'R11', 'a call is refused that is allowed');
      const isAgents = state.run?.calls.some(({ id, source }) => id === fact.call && source === 'agent') === true;
      const waits = isAgents && !wasRunning && fact.code !== 'LOST';
      must(fact.refused === waits, 'R14', 'an agent that waits for an answer is not answered');
      const rest = doubtful.filter((digest) => digest !== ghost.digest);
      const over = { ...known, ghosts: others, grants: grants.filter(({ call }) => call !== fact.call) };
      if (isCut && !ghost.repeatable) return { ...over, doubtful: [...rest, ghost.digest] };
      return { ...over, doubtful: fact.status === 'complete' ? rest : doubtful };
    }
    case 'runStarted':
      return { ...known, grants: [] };
    case 'stepped':
    case 'resumed':
    case 'attached':
    case 'stepKept':
    case 'tainted':
    case 'cleansed':
    case 'numbersSkipped':
    case 'delayed':
    case 'errored':
    case 'lost':
    case 'runCompleted':
    case 'aborted':
    case 'approvalDetached':
    case 'ruleRevoked':
    case 'causeNoted':
      return known;
  }
}

/** R2, R3, R6 to R9, R13: what holds in every state. */
function checkState({ status, run, causes }: RunState, deadline: Instant | null): void {
  must(new Set(causes).size === causes.length, 'R3', 'a cause is noted twice');
  if (run === null) return must(status === 'idle', 'R2', `it is ${status} without a run`);
  const { calls, pause } = run;
  const isOpen = (call: OpenCall): boolean => call.status === 'pending';
  must(
    (status === 'paused') === (pause !== null),
    'R6',
    `it is ${status} and ${pause === null ? 'does not wait' : 'waits'}`,
  );
  must((deadline !== null) === (status === 'paused' || status === 'error'), 'R9', `nobody ends what is ${status}`);
  const asked = pause?.approval ?? null;
  if (asked !== null && !asked.detached)
    must(
      calls.some((call) => call.id === asked.call && isOpen(call)),
      'R6',
      'a question has no call',
    );
  if (status === 'idle' || status === 'completed' || status === 'error') {
    must(!calls.some(isOpen), 'R8', 'a call is open in a run that does not go on');
    must(
      calls.every(({ source }) => source === 'conch'),
      'R8',
      'a call of an agent is open that is gone',
    );
  }
  if (status !== 'running') return;
  const isBusy = calls.some(({ cleared, status: each }) => cleared || each === 'running');
  const isFront = (call: OpenCall): boolean => isOpen(call) && call.waits === undefined;
  must(isBusy || !calls.some(isFront), 'R13', 'a call waits and nobody starts it');
  must(run.turn <= run.maxTurns, 'R7', 'it runs beyond its limit');
}

/** R11 and R13: the machine agrees with the onlooker's notes. */
function checkKnown({ status, run }: RunState, { ghosts, grants }: Known): void {
  if (run === null || status === 'idle' || status === 'completed' || status === 'error') return;
  must(isDeepStrictEqual(saidIn(run.grants), [...grants]), 'R11', 'a yes is lost, or counts twice');
  const isForgotten = ({ id, status: each }: OpenCall): boolean => each === 'pending' && ghosts[id]?.armed === false;
  const waiting = run.calls.filter(({ cleared }) => cleared);
  must(status !== 'running' || !waiting.some(isForgotten), 'R13', 'a call waits for somebody who was sent away');
}

function saidIn(grants: NonNullable<RunState['run']>['grants']): readonly Said[] {
  return grants.flatMap((grant) => {
    if (typeof grant === 'string') throw new Violation('R11', 'a yes has no end');
    const { digest, choice, until, call = null } = grant;
    return [{ digest, choice, until, call }];
  });
}

function mapped(ghosts: Place['ghosts'], change: (ghost: Ghost) => Ghost): Place['ghosts'] {
  return Object.fromEntries(Object.entries(ghosts).map(([id, ghost]) => [id, change(ghost)]));
}

/** The notes that still matter: those of open calls, in their order. */
function still(ghosts: Place['ghosts'], { run }: RunState): Place['ghosts'] {
  const open = new Set((run?.calls ?? []).map(({ id }) => id));
  return Object.fromEntries(Object.entries(ghosts).filter(([id]) => open.has(id)));
}

/** The key of a place: ids by their order, instants from now on, no totals. */
function keyOf({ state, at, ghosts, grants, doubtful }: Place): string {
  const { run, status, closed, unknown, causes, taint } = state;
  const names = new Map((run?.calls ?? []).map(({ id }, index) => [id, `#${index}`]));
  const calls = (run?.calls ?? []).map((call) => ({ ...call, id: names.get(call.id) }));
  const asked = run?.pause?.approval ?? null;
  const from = (instant: Instant | null | undefined): number | null => (instant == null ? null : instant - at);
  const approval =
    asked === null ? null : { call: names.get(asked.call), digest: asked.digest, detached: asked.detached };
  const pause = run?.pause == null ? null : { reason: run.pause.reason, until: from(run.pause.until), approval };
  const relative = ({ until, call, ...each }: Said) => ({
    ...each,
    until: Math.max(0, from(until) ?? 0),
    call: call === null ? null : names.get(call),
  });
  const said = [grants, saidIn(run?.grants ?? [])].map((all) => all.map(relative));
  const rest =
    run === null ? null : { ...run, id: '', calls, pause, errorUntil: from(run.errorUntil), asked: 0, grants: [] };
  const known = [...names].map(([id]) => {
    const ghost = ghosts[id];
    return ghost === undefined ? null : { ...ghost, asked: ghost.asked === asked?.id };
  });
  const read = taint !== undefined;
  return JSON.stringify([status, rest, closed.length > 0, unknown, causes, known, said, doubtful, read]);
}
