import type { Instant } from '../../lib/time.ts';
import type { OpenCall, Run, RunApproval, RunState, RunStatus } from './run.ts';
import type { RunFact } from './run-events.ts';
import { defined } from '../../lib/defined.ts';

type Of<Type extends RunFact['type']> = Extract<RunFact, { type: Type }>;

/** Number of closed approvals, always-allow rules, unknown outcomes and causes that the state keeps, of each. */
const MOST_ENTRIES = 100;

/** Lifetime of an always-allow rule: 30 days, in milliseconds. */
const REMEMBERED_MS = 30 * 86_400_000;

/** The state after a fact. Throws "impossible: …" when the fact does not fit the state. */
export function evolveRun(state: RunState, fact: RunFact, at: Instant): RunState {
  if (fact.type === 'runStarted') return started(state, fact);
  if (fact.type === 'ruleRevoked') return { ...state, remembered: state.remembered.filter(({ id }) => id !== fact.id) };
  if (fact.type === 'tainted')
    return { ...state, [fact.label === 'private' ? 'secret' : 'taint']: { since: at, from: fact.from } };
  if (fact.type === 'cleansed') return cleansed(state, at);
  if (fact.type === 'numbersSkipped') return { ...state, skipped: (state.skipped ?? 0) + fact.by };
  if (fact.type === 'causeNoted') return { ...state, causes: withNewest(state.causes, fact.cause) };
  const { run } = state;
  if (run === null) throw new Error(`impossible: ${fact.type} for ${state.key}, which has no run`);
  switch (fact.type) {
    case 'stepped':
      return stepped(expecting(state, ['starting', 'running'], fact), run, fact);
    case 'paused':
      // A paused run may pause again, for example when another session takes over.
      return paused(expecting(state, ['running', 'paused'], fact), run, fact);
    case 'resumed':
      return resumed(expecting(state, ['paused', 'error'], fact), run, fact);
    case 'stepKept':
      expecting(state, ['running', 'paused'], fact);
      return state;
    case 'delayed':
      return { ...state, run: delayed(run, fact.ms) };
    case 'attached':
      return { ...state, run: { ...run, session: fact.session } };
    case 'lost':
      return { ...expecting(state, ['paused'], fact), run: { ...run, lastError: fact.error } };
    case 'errored':
      return errored(expecting(state, ['starting', 'running'], fact), run, fact);
    case 'runCompleted':
      return ended(expecting(state, ['running'], fact), run, 'completed');
    case 'aborted':
      return ended(expecting(state, ['starting', 'running', 'paused', 'error'], fact), run, 'idle');
    case 'callRequested':
    case 'callCleared':
    case 'callClaimed':
    case 'callSettled':
      return evolveCall(state, run, fact);
    case 'approvalClosed':
    case 'approvalDetached':
    case 'grantUsed':
      return evolveApproval(state, run, fact, at);
  }
}

/**
 * Clears the labels of what the session read. Labels of text that it wrote stay, as time spans in `wrote`. The state
 * may lack labels from before the run: `RunFeeds` builds its states only from the facts since the start of a run.
 */
function cleansed({ taint, secret, wrote = [], ...state }: RunState, at: Instant): RunState {
  const spans = [
    ...(taint === undefined ? [] : [{ ...taint, until: at }]),
    ...(secret === undefined ? [] : [{ ...secret, until: at, private: true as const }]),
  ];
  return { ...state, wrote: spans.reduce(withSpan, wrote) };
}

type Spans = NonNullable<RunState['wrote']>;

function withSpan(wrote: Spans, span: Spans[number]): Spans {
  const alike = wrote.filter((each) => each.private === span.private);
  const [first, second] = alike;
  if (alike.length < MOST_SPANS || first === undefined || second === undefined) return [...wrote, span];
  const joined = wrote.flatMap((each) =>
    each === first ? [{ ...first, until: second.until }] : each === second ? [] : [each],
  );
  return [...joined, span];
}

/**
 * The most time spans that `wrote` holds for untrusted text, and for private data. Before a further span is added, the
 * two oldest spans of its label are joined.
 */
const MOST_SPANS = 20;

function delayed(run: Run, ms: number): Run {
  const later = (at: Instant | null): Instant | null => (at === null ? null : at + ms);
  const { pause, errorUntil } = run;
  if (pause === null) return { ...run, errorUntil: later(errorUntil) };
  const { until, approval } = pause;
  const moved = approval === null ? null : { ...approval, expiresAt: later(approval.expiresAt) };
  return { ...run, errorUntil: later(errorUntil), pause: { ...pause, until: later(until), approval: moved } };
}

function started(state: RunState, fact: Of<'runStarted'>): RunState {
  const { totals } = expecting(state, ['idle', 'completed'], fact);
  const { run: id, runType, task, requestedBy, session, allowedTools, model, maxTurns, waitMs } = fact;
  const fresh = {
    turn: 0,
    pause: null,
    lastError: null,
    errorUntil: null,
    calls: [],
    repeated: null,
    grants: [],
    asked: 0,
  };
  const requester = defined({ requestedBy });
  const run = {
    id,
    type: runType,
    task,
    ...requester,
    session,
    allowedTools,
    ...defined({ model }),
    maxTurns,
    turnsAtOnce: maxTurns,
    waitMs,
    ...fresh,
  };
  return { ...state, status: 'starting', run, totals: { ...totals, runs: totals.runs + 1 } };
}

function stepped(state: RunState, run: Run, { turn }: Of<'stepped'>): RunState {
  if (turn !== run.turn + 1) throw new Error(`impossible: step ${turn} of ${run.id} after step ${run.turn}`);
  const { totals } = state;
  return { ...state, status: 'running', run: { ...run, turn }, totals: { ...totals, steps: totals.steps + 1 } };
}

function paused(state: RunState, run: Run, { reason, context, until, approval, muted }: Of<'paused'>): RunState {
  if (approval !== null && !approval.detached) callOf(run, approval.call);
  const before = run.pause?.approval ?? null;
  const isSame = before?.id === approval?.id;
  if (before !== null && !isSame) throw new Error(`impossible: ${run.id} pauses while ${before.id} is open`);
  // Pending calls are cleared anew when the run resumes.
  const calls = run.calls.map((call) => (call.status === 'pending' ? { ...call, cleared: false } : call));
  const requests = run.asked + (approval === null || isSame ? 0 : 1);
  const pause = { reason, context, until, approval, ...defined({ muted }) };
  return { ...state, status: 'paused', run: { ...run, calls, asked: requests, pause } };
}

function resumed(state: RunState, run: Run, { maxTurns }: Of<'resumed'>): RunState {
  if (run.pause?.approval) throw new Error(`impossible: ${run.id} goes on while ${run.pause.approval.id} is open`);
  const repeated = run.pause?.reason === 'confirmation' ? null : run.repeated;
  // Keeps a failure that was stored during the pause: `goOnAfterPause` handles it next.
  const lastError = state.status === 'paused' ? run.lastError : null;
  const on = { ...run, maxTurns, repeated, lastError, pause: null, errorUntil: null };
  return { ...state, status: 'running', run: on };
}

function errored(state: RunState, run: Run, { error, until }: Of<'errored'>): RunState {
  const status = state.status === 'starting' || error.recoverable ? 'error' : 'idle';
  return { ...state, status, run: { ...run, lastError: error, errorUntil: status === 'error' ? until : null } };
}

function ended(state: RunState, run: Run, status: RunStatus): RunState {
  if (run.pause?.approval) throw new Error(`impossible: ${run.id} ends while ${run.pause.approval.id} is open`);
  const { totals } = state;
  const completed = totals.completed + (status === 'completed' ? 1 : 0);
  const over = { ...run, pause: null, errorUntil: null, grants: [] };
  return { ...state, status, run: over, totals: { ...totals, completed } };
}

function evolveCall(
  state: RunState,
  run: Run,
  fact: Of<'callRequested' | 'callCleared' | 'callClaimed' | 'callSettled'>,
): RunState {
  const { totals } = state;
  // Calls that an agent ran by itself are reported when they are done, also for a paused run or after its end.
  const isAgents = fact.type !== 'callRequested' && callOf(run, fact.call).source === 'agent';
  switch (fact.type) {
    case 'callRequested':
      return requested(state, run, fact);
    case 'callCleared':
      if (!isAgents) expecting(state, ['running'], fact);
      return { ...state, run: { ...run, calls: changed(run, fact.call, { cleared: true }) } };
    case 'callClaimed': {
      if (!isAgents) expecting(state, ['running'], fact);
      const { status, cleared } = callOf(run, fact.call);
      if (status !== 'pending' || !cleared) throw new Error(`impossible: call ${fact.call} is claimed while ${status}`);
      const calls = changed(run, fact.call, { status: 'running' });
      return { ...state, run: { ...run, calls }, totals: { ...totals, tools: totals.tools + 1 } };
    }
    case 'callSettled': {
      const { digest, repeatable } = callOf(run, fact.call);
      const others = state.unknown.filter((each) => each !== digest);
      const isUnknown = fact.outcome === 'unknown' && !repeatable;
      const unknown = isUnknown ? withNewest(others, digest) : fact.status === 'complete' ? others : state.unknown;
      const calls = run.calls.filter(({ id }) => id !== fact.call);
      const grants = run.grants.filter(({ call }) => call !== fact.call);
      return { ...state, unknown, run: { ...run, calls, grants } };
    }
  }
}

function requested(state: RunState, run: Run, fact: Of<'callRequested'>): RunState {
  const { rule: _rule, why: _why, remembered: _yes, verdict, ...call } = fact.call;
  if (call.source !== 'agent') expecting(state, call.waits === true ? ['running', 'paused'] : ['running'], fact);
  const others = run.calls.filter(({ id }) => id !== call.id);
  if (run.calls.some(({ id, waits }) => id === call.id && waits === undefined))
    throw new Error(`impossible: call ${call.id} is there twice`);
  const open: OpenCall = {
    ...call,
    verdict: verdict === 'deny' ? 'ask' : verdict,
    status: 'pending',
    cleared: false,
    approved: false,
  };
  const calls = [...others, open];
  if (call.waits === true) return { ...state, run: { ...run, calls } };
  const times = run.repeated?.digest === call.digest ? run.repeated.times + 1 : 1;
  const refused = run.refused === undefined && verdict === 'deny' ? { refused: call.id } : {};
  return { ...state, run: { ...run, calls, repeated: { digest: call.digest, times }, ...refused } };
}

function evolveApproval(
  state: RunState,
  run: Run,
  fact: Of<'approvalClosed' | 'approvalDetached' | 'grantUsed'>,
  at: Instant,
): RunState {
  if (fact.type === 'grantUsed') return granted(state, run, fact);
  const approval = run.pause?.approval ?? null;
  if (run.pause === null || approval?.id !== fact.id) throw new Error(`impossible: ${fact.id} is not open at ${at}`);
  if (fact.type === 'approvalDetached') {
    return { ...state, run: { ...run, pause: { ...run.pause, approval: { ...approval, detached: true } } } };
  }
  const closed = withNewest(state.closed, { id: fact.id, state: fact.state, by: fact.by });
  const over = { ...run, pause: { ...run.pause, approval: null } };
  const grants = [...run.grants, ...grantsBy(run, fact, approval)];
  if (fact.state !== 'allowed' || approval.detached) return { ...state, closed, run: { ...over, grants } };
  const calls = changed(run, approval.call, { approved: true, approval: fact.id });
  return { ...state, closed, remembered: remembered(state, run, fact, at), run: { ...over, calls, grants } };
}

function grantsBy(
  run: Run,
  { state, by, reason, until }: Of<'approvalClosed'>,
  { id, tool, digest, detached, others = [] }: RunApproval,
): Run['grants'] {
  if (state !== 'allowed' && state !== 'denied') return [];
  const choice = state === 'allowed' ? ('allow' as const) : ('deny' as const);
  if (until === undefined) return [];
  const grant = { approval: id, tool, digest, choice, by, reason, until };
  if (detached) return [grant];
  return others.filter((call) => run.calls.some((each) => each.id === call)).map((call) => ({ ...grant, call }));
}

/** Applies a decision to an equal call. Such a call does not count as repeated. */
function granted(state: RunState, run: Run, { call, digest, said }: Of<'grantUsed'>): RunState {
  const place = run.grants.findIndex((grant) => grant.approval === said.approval && (grant.call ?? call) === call);
  if (place === -1) throw new Error(`impossible: nobody has said in ${run.id} what counts for ${digest}`);
  const grants = run.grants.toSpliced(place, 1);
  const calls = said.choice === 'deny' ? run.calls : changed(run, call, { approved: true, approval: said.approval });
  const { repeated } = run;
  const once = repeated === null ? null : { ...repeated, times: Math.max(1, repeated.times - 1) };
  return { ...state, run: { ...run, calls, grants, repeated: once } };
}

function remembered(
  state: RunState,
  run: Run,
  { id, always, by }: Of<'approvalClosed'>,
  at: Instant,
): RunState['remembered'] {
  const { call } = run.pause?.approval ?? {};
  if (always === null || by === null || call === undefined) return state.remembered;
  const { definition = null } = callOf(run, call);
  return withNewest(state.remembered, { id, rule: always, definition, by, at, until: at + REMEMBERED_MS });
}

function changed(run: Run, id: string, change: Partial<OpenCall>): OpenCall[] {
  callOf(run, id);
  return run.calls.map((call) => (call.id === id ? { ...call, ...change } : call));
}

function callOf(run: Run, id: string): OpenCall {
  const call = run.calls.find((each) => each.id === id);
  if (call === undefined) throw new Error(`impossible: ${run.id} has no call ${id}`);
  return call;
}

function expecting(state: RunState, from: readonly RunStatus[], { type }: RunFact): RunState {
  if (!from.includes(state.status)) throw new Error(`impossible: ${type} while ${state.key} is ${state.status}`);
  return state;
}

function withNewest<Value>(list: readonly Value[], value: Value): Value[] {
  return [...list, value].slice(-MOST_ENTRIES);
}
