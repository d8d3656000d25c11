import type { Instant } from '../../lib/time.ts';
import { LABELS } from './run.ts';
import type { OpenCall, Run, RunError, RunState } from './run.ts';
import { RUN_GUARDS } from './run-table.ts';
import type { RequestedCall, RunCommand, RunFact, RunRefusal } from './run-events.ts';
import { evolveRun } from './run-evolve.ts';
import { defined } from '../../lib/defined.ts';

type Of<Type extends RunCommand['type']> = Extract<RunCommand, { type: Type }>;

/** A decision about a command, in progress: each recorded fact changes the state for the next fact. */
export class RunDecision {
  readonly at: Instant;
  readonly facts: RunFact[] = [];
  #state: RunState;

  constructor(state: RunState, at: Instant) {
    this.#state = state;
    this.at = at;
  }

  get state(): RunState {
    return this.#state;
  }

  /** The run. Throws when there is none. */
  get run(): Run {
    if (this.#state.run === null) throw new Error(`impossible: ${this.#state.key} has no run`);
    return this.#state.run;
  }

  record(fact: RunFact): void {
    this.#state = evolveRun(this.#state, fact, this.at);
    this.facts.push(fact);
  }
}

/** Requests tool calls in a step. While the run is paused, only waiting calls may be requested. */
export function requestCalls(decision: RunDecision, command: Of<'REQUEST'>): RunRefusal | null {
  const { status } = decision.state;
  const { calls } = command;
  const isHeard = status === 'running' || (status === 'paused' && calls.every(isWaiting));
  if (!isHeard || !RUN_GUARDS.hasValidSession(decision.run, command)) return 'AGENT_NOT_RUNNING';
  const open = new Map(decision.run.calls.map((call) => [call.id, call]));
  for (const call of calls) {
    const before = open.get(call.id);
    // Only a waiting call may be requested again, and it must not wait then.
    if (before !== undefined && (isWaiting(call) || !isWaiting(before))) return 'CALL_REPEATED';
    open.set(call.id, { ...call, verdict: 'ask', status: 'pending', cleared: false, approved: false });
  }
  for (const call of calls) addCall(decision, call);
  goOnWithRun(decision);
  return null;
}

/** Returns the waiting calls that need an approval, without those that a stored decision names. */
export function callsBehind(
  { calls, grants }: Pick<Run, 'calls' | 'grants'>,
  state: Pick<RunState, 'unknown'>,
): readonly OpenCall[] {
  const answered = new Set(grants.map(({ call }) => call));
  return calls.filter(
    (call) => isWaiting(call) && needsApproval({ state }, call, call.verdict) && !answered.has(call.id),
  );
}

/** True when a call waits until the calls before it are decided. */
export function isWaiting({ waits }: Pick<OpenCall, 'waits'>): boolean {
  return waits === true;
}

/** Claims a call under the rules in force. Ends a changed or denied call. Requests an approval if one is needed now. */
export function claimCall(decision: RunDecision, command: Of<'CLAIM'>): RunRefusal | null {
  const { call: id, digest, verdict, brings = {} } = command;
  if (decision.state.status !== 'running') return 'AGENT_NOT_RUNNING';
  const call = decision.run.calls.find((each) => each.id === id);
  if (call === undefined) return 'CALL_UNKNOWN';
  if (call.status !== 'pending' || !call.cleared) return 'CALL_NOT_PENDING';
  if (digest === call.digest && RUN_GUARDS.isToolAllowed({ verdict })) {
    if (needsApproval(decision, call, verdict)) requestApproval(decision, call);
    else claim(decision, id, brings);
    return null;
  }
  const code = digest === call.digest ? 'AGENT_TOOL_NOT_ALLOWED' : 'CALL_CHANGED';
  endCall(decision, call, { code, outcome: 'known' });
  goOnWithRun(decision);
  return null;
}

/** Records the outcome of a call, also after the end of its run. */
export function settleCall(decision: RunDecision, command: Of<'SETTLE'>): RunRefusal | null {
  const { call: id, status, output, duration, code } = command;
  const call = decision.state.run?.calls.find((each) => each.id === id);
  if (call === undefined) return 'CALL_UNKNOWN';
  if (call.status !== 'running') return 'CALL_NOT_PENDING';
  const outcome = code === UNKNOWN ? 'unknown' : 'known';
  const { approval } = call;
  const result = { status, output, duration, code, outcome, refused: false, ...defined({ approval }) } as const;
  decision.record({ type: 'callSettled', call: id, tool: call.tool, ...result });
  goOnWithRun(decision);
  return null;
}

/**
 * Records a call that an agent ran by itself, in any state of its run. The third equal call in a row pauses a running
 * run.
 */
export function reportCall(
  decision: RunDecision,
  { session, call, result, brings = {} }: Of<'REPORT'>,
): RunRefusal | null {
  const { run } = decision.state;
  if (run === null || !RUN_GUARDS.hasValidSession(run, { session })) return 'AGENT_NOT_RUNNING';
  if (run.calls.some(({ id }) => id === call.id)) return 'CALL_REPEATED';
  const { id, tool } = call;
  addCall(decision, call);
  decision.record({ type: 'callCleared', call: id });
  claim(decision, id, brings);
  const outcome = result.code === UNKNOWN ? 'unknown' : 'known';
  decision.record({ type: 'callSettled', call: id, tool, ...result, outcome, refused: false });
  if (decision.state.status === 'running' && isRepeated(decision))
    pauseRun(decision, 'confirmation', `the same call a third time: ${call.words?.title ?? tool}`);
  return null;
}

function claim(decision: RunDecision, call: string, brings: NonNullable<Of<'CLAIM'>['brings']>): void {
  decision.record({ type: 'callClaimed', call });
  for (const label of LABELS) markSession(decision, label, brings[label]);
}

/**
 * Marks the seat's session as having read text with this label, whatever the call's outcome: the agent may have read
 * it. `from`: the source of the text; `undefined`: there was none. Only the first mark of a label counts. Returns
 * whether the mark is new.
 */
export function markSession(decision: RunDecision, label: (typeof LABELS)[number], from: string | undefined): boolean {
  const { taint, secret } = decision.state;
  if (from === undefined || (label === 'private' ? secret : taint) !== undefined) return false;
  decision.record({ type: 'tainted', from, ...(label === 'private' ? { label } : {}) });
  return true;
}

/** Withdraws a call that has not started, and closes its request. */
export function withdrawCall(decision: RunDecision, { call: id }: Of<'WITHDRAW'>): RunRefusal | null {
  const call = decision.state.run?.calls.find((each) => each.id === id);
  if (call === undefined) return 'CALL_UNKNOWN';
  if (call.status !== 'pending') return 'CALL_NOT_PENDING';
  const { pause } = decision.run;
  const hasRequest = pause?.approval?.call === id;
  if (hasRequest) closeApproval(decision, 'void');
  endCall(decision, call, { code: LOST, outcome: 'known' });
  if (hasRequest) {
    const same = { feedback: null, input: null, maxTurns: decision.run.maxTurns };
    decision.record({ type: 'resumed', by: null, ...same });
  }
  goOnAfterPause(decision, hasRequest && pause?.muted === true);
  return null;
}

/** Applies a decision about a request for approval. */
export function decideApproval(decision: RunDecision, command: Of<'DECIDE'>): RunRefusal | null {
  const { state } = decision;
  const approval = state.run?.pause?.approval ?? null;
  if (approval?.id !== command.approval) {
    return state.closed.some(({ id }) => id === command.approval) ? 'APPROVAL_DECIDED' : 'APPROVAL_UNKNOWN';
  }
  if (approval.digest !== (command.digest ?? approval.digest)) return 'APPROVAL_CHANGED';
  if (decision.at >= (approval.expiresAt ?? Infinity)) return 'APPROVAL_EXPIRED';
  const { choice, by, via, reason = null } = command;
  // A call whose session was lost offers no always-allow rules.
  const always = approval.detached ? null : (command.always ?? null);
  if (always !== null && !offersOf(decision.run, approval.call).includes(always)) return 'RULE_NOT_OFFERED';
  const closed = choice === 'allow' ? 'allowed' : 'denied';
  const isMuted = state.run?.pause?.muted === true;
  const counts = approval.detached || (approval.others !== undefined && always === null);
  const until = counts ? { until: command.until ?? approval.expiresAt } : {};
  decision.record({ type: 'approvalClosed', id: approval.id, state: closed, by, via, reason, always, ...until });
  const { maxTurns } = decision.run;
  decision.record({ type: 'resumed', by, feedback: reason, input: null, maxTurns });
  const call = decision.run.calls.find(({ id }) => id === approval.call);
  if (closed === 'denied' && call !== undefined) endCall(decision, call, { code: 'DENIED', outcome: 'known' });
  goOnAfterPause(decision, isMuted);
  return null;
}

function offersOf({ calls }: Run, id: string): readonly string[] {
  return calls.find((call) => call.id === id)?.words?.offers?.map(({ rule }) => rule) ?? [];
}

/**
 * Clears pending calls that wait behind no others, so that they may start; calls that Conch runs one at a time, in
 * order. Requests approval for the first call that needs it, unless a stored decision covers that call. Pauses the run
 * instead when the newest call is at least the third equal one in a row, and no stored decision covers the next call.
 */
export function goOnWithRun(decision: RunDecision): void {
  const { state, run } = decision;
  if (state.status !== 'running') return;
  const isBusy = run.calls.some(
    ({ source, status, cleared }) => source === 'conch' && (status === 'running' || cleared),
  );
  const next = run.calls.find(
    (call) => call.status === 'pending' && !call.cleared && !isWaiting(call) && !(call.source === 'conch' && isBusy),
  );
  const grant = next === undefined ? undefined : grantFor(decision, next);
  if (grant === undefined && isRepeated(decision)) return pauseRun(decision, 'confirmation', null);
  if (next === undefined) return;
  if (needsApproval(decision, next, next.verdict)) {
    if (grant === undefined) return requestApproval(decision, next);
    const { approval, choice, by, reason } = grant;
    const decided = { approval, choice, by, reason };
    decision.record({ type: 'grantUsed', digest: next.digest, call: next.id, said: decided });
    if (choice === 'deny') {
      endCall(decision, next, { code: 'DENIED', outcome: 'known' });
      return goOnWithRun(decision);
    }
  }
  decision.record({ type: 'callCleared', call: next.id });
  goOnWithRun(decision);
}

function isRepeated({ run: { repeated } }: RunDecision): boolean {
  return repeated !== null && repeated.times >= EQUAL_CALLS;
}

function grantFor({ run, at }: RunDecision, { id, digest }: OpenCall): Run['grants'][number] | undefined {
  return run.grants.find((grant) => {
    const { call = id, until } = grant;
    return grant.digest === digest && call === id && at < (until ?? Infinity);
  });
}

/**
 * Pauses a run that a restart or a wait interrupted: nobody is asked until the run resumes. An open request stays open.
 * Changes nothing unless the run is running or paused.
 */
export function standStill(decision: RunDecision): void {
  const { status } = decision.state;
  const { pause } = decision.run;
  const approval = pause?.approval ?? null;
  const isPauseKept =
    pause !== null && (approval !== null || isForPeople(decision.run) || pause.reason === 'user_input');
  if (status !== 'running' && status !== 'paused') return;
  const { reason, context } = isPauseKept ? pause : { reason: 'user_input' as const, context: null };
  decision.record({ type: 'paused', reason, context, until: null, approval, muted: true });
}

/** Whether only people can continue the run: it is paused at its step limit or for a confirmation. False for tasks. */
export function isForPeople({ type, pause }: Run): boolean {
  return type !== 'task' && (pause?.reason === 'turn_limit' || pause?.reason === 'confirmation');
}

/**
 * Continues a run after a pause, or fails a run whose agent is lost. `isMuted`: pauses the run again without asking
 * people.
 */
export function goOnAfterPause(decision: RunDecision, isMuted = false): void {
  const { lastError } = decision.run;
  if (isMuted) return standStill(decision);
  if (decision.state.status !== 'running' || lastError === null) goOnWithRun(decision);
  else failRun(decision, lastError);
}

/** Adds a requested call. Ends a denied call at once; the run continues. */
export function addCall(decision: RunDecision, call: RequestedCall): void {
  const { taint } = decision.state;
  decision.record({ type: 'callRequested', call, ...(taint === undefined ? {} : { taint: taint.from }) });
  const open = decision.run.calls.find(({ id }) => id === call.id);
  if (open === undefined || RUN_GUARDS.isToolAllowed(call)) return;
  endCall(decision, open, { code: 'AGENT_TOOL_NOT_ALLOWED', outcome: 'known' });
}

/** Ends calls that have not started, and the agent's own running calls with an unknown outcome. Other calls go on. */
export function dropCalls(decision: RunDecision, code: string): void {
  for (const call of decision.run.calls) {
    if (call.status === 'pending') endCall(decision, call, { code, outcome: 'known' });
    else if (call.source === 'agent') endCall(decision, call, { code, outcome: 'unknown' });
  }
}

/**
 * Ends calls of a lost agent. Keeps calls that Conch runs. Outside of background runs, also keeps calls for Conch that
 * have not started, unless they wait until earlier calls are decided. An open request about an ended call stays open
 * for the next equal call.
 */
export function forgetAgent(decision: RunDecision): void {
  const approval = decision.run.pause?.approval ?? null;
  const { type, calls } = decision.run;
  // When the agent of a background run is lost, the model is prompted anew and requests its calls again.
  const isDropped = ({ source, status, waits }: OpenCall): boolean =>
    source === 'agent' || waits === true || (type === 'background' && status === 'pending');
  for (const call of calls.filter(isDropped)) {
    if (call.id === approval?.call) decision.record({ type: 'approvalDetached', id: approval.id });
    endCall(decision, call, { code: LOST, outcome: call.status === 'running' ? 'unknown' : 'known' });
  }
}

/** Closes the open request, if any, without a decision. */
export function closeApproval(decision: RunDecision, state: 'expired' | 'void'): void {
  const approval = decision.state.run?.pause?.approval ?? null;
  if (approval === null) return;
  const nobody = { by: null, via: null, reason: null, always: null };
  decision.record({ type: 'approvalClosed', id: approval.id, state, ...nobody });
}

/** Ends a call without a result. A lost agent gets no answer. */
export function endCall(
  decision: RunDecision,
  call: OpenCall,
  { code, outcome }: { readonly code: string; readonly outcome: 'known' | 'unknown' },
): void {
  const { id, tool, source, status, approval } = call;
  const refused = source === 'agent' && status === 'pending' && code !== LOST;
  const result = { status: 'error', output: null, duration: null, code, outcome, refused } as const;
  decision.record({ type: 'callSettled', call: id, tool, ...result, ...defined({ approval }) });
}

/**
 * Pauses the run, with the deadline for people's decision (row 6, and the end of row 5, of the specification's table).
 */
export function pauseRun(decision: RunDecision, reason: Of<'PAUSE'>['reason'], context: string | null): void {
  decision.record({ type: 'paused', reason, context, until: untilOf(decision), approval: null });
}

/** Fails the run. Ends its calls, except calls that Conch is running. */
export function failRun(decision: RunDecision, error: RunError): void {
  dropCalls(decision, LOST);
  decision.record({ type: 'errored', error, until: untilOf(decision) });
}

function untilOf({ at, run: { waitMs } }: RunDecision): Instant | null {
  return waitMs === null ? null : at + waitMs;
}

/** Code by which a result reports that the outcome of its call is unknown. */
const UNKNOWN = 'UNKNOWN';

/**
 * Code of a call that was withdrawn, or that ended because its agent was lost, its run failed, or a new run began. The
 * agent gets no refusal.
 */
export const LOST = 'LOST';

/** Number of equal calls in a row after which people are asked. */
const EQUAL_CALLS = 3;

/**
 * Returns whether a call needs an approval that it does not have. An allowed call needs approval when an equal call had
 * an unknown outcome, unless the call is repeatable.
 */
function needsApproval(
  { state }: { readonly state: Pick<RunState, 'unknown'> },
  { approved, digest, repeatable }: OpenCall,
  verdict: RequestedCall['verdict'],
): boolean {
  return !approved && (verdict === 'ask' || (state.unknown.includes(digest) && !repeatable));
}

function requestApproval(decision: RunDecision, { id: call, tool, digest, source, words, alone }: OpenCall): void {
  const { run, state, at } = decision;
  const [requestedAt, expiresAt] = [at, untilOf(decision)];
  // What survives a restart: the call itself (`true`), or only the decision, for an equal call (`answer`).
  const outlives = source === 'conch' && run.type !== 'background' ? (true as const) : ('answer' as const);
  const lasting = words?.about?.answer === undefined ? { lasting: outlives } : {};
  const request = { id: `${run.id}.${run.asked + 1}`, call, tool, digest, requestedAt, expiresAt };
  const same = callsBehind(run, state).filter((each) => each.digest === digest && each.verdict === 'ask');
  const others = alone === true ? [] : same.flatMap((each) => (each.alone === true ? [] : [each.id]));
  const approval = { ...request, detached: false, ...(others.length > 0 ? { others } : {}), ...lasting };
  decision.record({ type: 'paused', reason: 'approval_required', context: null, until: expiresAt, approval });
}
