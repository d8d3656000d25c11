import type { Instant } from '../../lib/time.ts';
import { LABELS } from './run.ts';
import type { OpenCall, Run, RunError, RunState } from './run.ts';
import { RUN_GUARDS } from './run-table.ts';
import type { RequestedCall, RunCommand, RunFact, RunRefusal } from './run-events.ts';
import { evolveRun } from './run-evolve.ts';
import { defined } from '../../lib/defined.ts';

type Of<Type extends RunCommand['type']> = Extract<RunCommand, { type: Type }>;

/** A decision as it grows: every fact changes the state on which the next is decided. */
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

  /** Whoever asks has made sure that there is one. */
  get run(): Run {
    if (this.#state.run === null) throw new Error(`impossible: ${this.#state.key} has no run`);
    return this.#state.run;
  }

  record(fact: RunFact): void {
    this.#state = evolveRun(this.#state, fact, this.at);
    this.facts.push(fact);
  }
}

/** Calls that an agent asks for in the middle of a step. One that waits may come while people are asked about another. */
export function requestCalls(decision: RunDecision, command: Of<'REQUEST'>): RunRefusal | null {
  const { status } = decision.state;
  const { calls } = command;
  const isHeard = status === 'running' || (status === 'paused' && calls.every(isWaiting));
  if (!isHeard || !RUN_GUARDS.hasValidSession(decision.run, command)) return 'AGENT_NOT_RUNNING';
  const open = new Map(decision.run.calls.map((call) => [call.id, call]));
  for (const call of calls) {
    const before = open.get(call.id);
    // Only what waits comes once more, and does not wait then.
    if (before !== undefined && (isWaiting(call) || !isWaiting(before))) return 'CALL_REPEATED';
    open.set(call.id, { ...call, verdict: 'ask', status: 'pending', cleared: false, approved: false });
  }
  for (const call of calls) takeCall(decision, call);
  goOnWithRun(decision);
  return null;
}

/** The calls that wait for an answer of their own. */
export function behind({ calls, grants }: Pick<Run, 'calls' | 'grants'>): readonly OpenCall[] {
  const answered = new Set(grants.map(({ call }) => call));
  return calls.filter((call) => isWaiting(call) && call.verdict === 'ask' && !answered.has(call.id));
}

/** Whether a call stands behind others, and is no one's turn. */
export function isWaiting({ waits }: Pick<OpenCall, 'waits'>): boolean {
  return waits === true;
}

/** With what holds right before it starts: a call that was changed, or is forbidden by now, does not. */
export function claimCall(decision: RunDecision, command: Of<'CLAIM'>): RunRefusal | null {
  const { call: id, digest, verdict, brings = {} } = command;
  if (decision.state.status !== 'running') return 'AGENT_NOT_RUNNING';
  const call = decision.run.calls.find((each) => each.id === id);
  if (call === undefined) return 'CALL_UNKNOWN';
  if (call.status !== 'pending' || !call.cleared) return 'CALL_NOT_PENDING';
  if (digest === call.digest && RUN_GUARDS.isToolAllowed({ verdict })) {
    if (needsYes(decision, call, verdict)) ask(decision, call);
    else claim(decision, id, brings);
    return null;
  }
  const code = digest === call.digest ? 'AGENT_TOOL_NOT_ALLOWED' : 'CALL_CHANGED';
  endCall(decision, call, { code, outcome: 'known' });
  goOnWithRun(decision);
  return null;
}

/** A result, also of a run that is over by now. */
export function settleCall(decision: RunDecision, command: Of<'SETTLE'>): RunRefusal | null {
  const { call: id, status, output, duration, code } = command;
  const call = decision.state.run?.calls.find((each) => each.id === id);
  if (call === undefined) return 'CALL_UNKNOWN';
  if (call.status !== 'running') return 'CALL_NOT_PENDING';
  const outcome = code === UNKNOWN ? 'unknown' : 'known';
  const result = { status, output, duration, code, outcome, refused: false, ...approvalOf(call) } as const;
  decision.record({ type: 'callSettled', call: id, tool: call.tool, ...result });
  goOnWithRun(decision);
  return null;
}

/** A call that is over when it is heard of, whatever has become of its run. The third equal one in a row asks about the next. */
export function reportCall(
  decision: RunDecision,
  { session, call, result, brings = {} }: Of<'REPORT'>,
): RunRefusal | null {
  const { run } = decision.state;
  if (run === null || !RUN_GUARDS.hasValidSession(run, { session })) return 'AGENT_NOT_RUNNING';
  if (run.calls.some(({ id }) => id === call.id)) return 'CALL_REPEATED';
  const { id, tool } = call;
  takeCall(decision, call);
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
 * Its session counts as having read it from now on, whatever comes of the call: its agent may have by the time that anybody hears
 * of it. The first time counts. Returns whether it is news.
 */
export function markSession(decision: RunDecision, label: (typeof LABELS)[number], from: string | undefined): boolean {
  const { taint, secret } = decision.state;
  if (from === undefined || (label === 'private' ? secret : taint) !== undefined) return false;
  decision.record({ type: 'tainted', from, ...(label === 'private' ? { label } : {}) });
  return true;
}

/** A call that has not begun is not wanted any more, and with it the question about it. */
export function withdrawCall(decision: RunDecision, { call: id }: Of<'WITHDRAW'>): RunRefusal | null {
  const call = decision.state.run?.calls.find((each) => each.id === id);
  if (call === undefined) return 'CALL_UNKNOWN';
  if (call.status !== 'pending') return 'CALL_NOT_PENDING';
  const { pause } = decision.run;
  const isAsked = pause?.approval?.call === id;
  if (isAsked) closeApproval(decision, 'void');
  endCall(decision, call, { code: LOST, outcome: 'known' });
  if (isAsked) {
    const same = { feedback: null, input: null, maxTurns: decision.run.maxTurns };
    decision.record({ type: 'resumed', by: null, ...same });
  }
  goOnAfterPause(decision, isAsked && pause?.muted === true);
  return null;
}

/** One atomic change: whoever comes later is told who decided. */
export function decideApproval(decision: RunDecision, command: Of<'DECIDE'>): RunRefusal | null {
  const { state } = decision;
  const approval = state.run?.pause?.approval ?? null;
  if (approval?.id !== command.approval) {
    return state.closed.some(({ id }) => id === command.approval) ? 'APPROVAL_DECIDED' : 'APPROVAL_UNKNOWN';
  }
  if (approval.digest !== (command.digest ?? approval.digest)) return 'APPROVAL_CHANGED';
  if (decision.at >= (approval.expiresAt ?? Infinity)) return 'APPROVAL_EXPIRED';
  const { choice, by, via, reason = null } = command;
  // Of a call that is gone nothing can be remembered, and nothing is offered.
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

/** The next call that waits is cleared, or asked for; calls of Conch run one at a time, in order. */
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
  if (needsYes(decision, next, next.verdict)) {
    if (grant === undefined) return ask(decision, next);
    decision.record({ type: 'grantUsed', digest: next.digest, call: next.id, ...saidBy(grant) });
    if (isNo(grant)) {
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

/** What people said of the very same call before that counts for this one, too; `undefined`: nothing that still does. */
function grantFor({ run, at }: RunDecision, { id, digest }: OpenCall): Run['grants'][number] | undefined {
  return run.grants.find((grant) => {
    const { call = id, until } = grant;
    return grant.digest === digest && call === id && at < (until ?? Infinity);
  });
}

function isNo(grant: Run['grants'][number]): boolean {
  return grant.choice === 'deny';
}

function saidBy(grant: Run['grants'][number]): Pick<Extract<RunFact, { type: 'grantUsed' }>, 'said'> {
  const { approval, choice, by, reason } = grant;
  return { said: { approval, choice, by, reason } };
}

/**
 * Until its turn goes on, nobody can ask a run for anything; what it asks people, they are asked then. A question that outlasts
 * that stays open.
 */
export function standStill(decision: RunDecision): void {
  const { status } = decision.state;
  const { pause } = decision.run;
  const approval = pause?.approval ?? null;
  const isKept = pause !== null && (approval !== null || isForPeople(decision.run) || pause.reason === 'user_input');
  if (status !== 'running' && status !== 'paused') return;
  const { reason, context } = isKept ? pause : { reason: 'user_input' as const, context: null };
  decision.record({ type: 'paused', reason, context, until: null, approval, muted: true });
}

/** Whether a run stands still until somebody says that it may go on; what asked them is gone with a session. */
export function isForPeople({ type, pause }: Run): boolean {
  return type !== 'task' && (pause?.reason === 'turn_limit' || pause?.reason === 'confirmation');
}

/** What was told while the run was paused counts now; one whose turn has not come back goes on with that. */
export function goOnAfterPause(decision: RunDecision, isMuted = false): void {
  const { lastError } = decision.run;
  if (isMuted) return standStill(decision);
  if (decision.state.status !== 'running' || lastError === null) goOnWithRun(decision);
  else failRun(decision, lastError);
}

/** Takes a call in; one that is not allowed is answered at once, and the run goes on. */
export function takeCall(decision: RunDecision, call: RequestedCall): void {
  const { taint } = decision.state;
  decision.record({ type: 'callRequested', call, ...(taint === undefined ? {} : { taint: taint.from }) });
  const open = decision.run.calls.find(({ id }) => id === call.id);
  if (open === undefined || RUN_GUARDS.isToolAllowed(call)) return;
  endCall(decision, open, { code: 'AGENT_TOOL_NOT_ALLOWED', outcome: 'known' });
}

/** No call that has not begun will, and nobody knows what those of an agent that is gone have done. */
export function dropCalls(decision: RunDecision, code: string): void {
  for (const call of decision.run.calls) {
    if (call.status === 'pending') endCall(decision, call, { code, outcome: 'known' });
    else if (call.source === 'agent') endCall(decision, call, { code, outcome: 'unknown' });
  }
}

/** An agent's own calls are gone with it; the question about one of them stays, for the same call the next time. */
export function forgetAgent(decision: RunDecision): void {
  const approval = decision.run.pause?.approval ?? null;
  const { type, calls } = decision.run;
  // Beside a floor the model, too, is prompted anew, and asks again.
  const isGone = ({ source, status, waits }: OpenCall): boolean =>
    source === 'agent' || waits === true || (type === 'background' && status === 'pending');
  for (const call of calls.filter(isGone)) {
    if (call.id === approval?.call) decision.record({ type: 'approvalDetached', id: approval.id });
    endCall(decision, call, { code: LOST, outcome: call.status === 'running' ? 'unknown' : 'known' });
  }
}

/** Ends the question that is open, if there is one, without an answer. */
export function closeApproval(decision: RunDecision, state: 'expired' | 'void'): void {
  const approval = decision.state.run?.pause?.approval ?? null;
  if (approval === null) return;
  const nobody = { by: null, via: null, reason: null, always: null };
  decision.record({ type: 'approvalClosed', id: approval.id, state, ...nobody });
}

/** A call ends without a result. An agent that is gone is not answered. */
export function endCall(
  decision: RunDecision,
  call: OpenCall,
  { code, outcome }: { readonly code: string; readonly outcome: 'known' | 'unknown' },
): void {
  const { id, tool, source, status } = call;
  const refused = source === 'agent' && status === 'pending' && code !== LOST;
  const result = { status: 'error', output: null, duration: null, code, outcome, refused } as const;
  decision.record({ type: 'callSettled', call: id, tool, ...result, ...approvalOf(call) });
}

function approvalOf({ approval }: OpenCall): Pick<OpenCall, 'approval'> {
  return defined({ approval });
}

/** Row 6, and the end of row 5: until somebody decides, or nobody did in time. */
export function pauseRun(decision: RunDecision, reason: Of<'PAUSE'>['reason'], context: string | null): void {
  decision.record({ type: 'paused', reason, context, until: untilOf(decision), approval: null });
}

/** The run has failed; what of it has not begun is dropped. */
export function failRun(decision: RunDecision, error: RunError): void {
  dropCalls(decision, LOST);
  decision.record({ type: 'errored', error, until: untilOf(decision) });
}

/** Until when people may answer. */
function untilOf({ at, run: { waitMs } }: RunDecision): Instant | null {
  return waitMs === null ? null : at + waitMs;
}

/** The code of a call of which nobody knows what it did. */
const UNKNOWN = 'UNKNOWN';

/** The code of a call whose agent is gone. */
const LOST = 'LOST';

/** How often the same call may be asked for in a row before people are asked whether that is meant. */
const EQUAL_CALLS = 3;

/** Also what is allowed, when an equal call was cut short: the first try may have worked. */
function needsYes(
  { state }: RunDecision,
  { approved, digest, repeatable }: OpenCall,
  verdict: RequestedCall['verdict'],
): boolean {
  return !approved && (verdict === 'ask' || (state.unknown.includes(digest) && !repeatable));
}

function ask(decision: RunDecision, { id: call, tool, digest, source, words, alone }: OpenCall): void {
  const { run, at } = decision;
  const [requestedAt, expiresAt] = [at, untilOf(decision)];
  // Beside a floor the model, too, is prompted anew, and asks again; what a server asks in a call is gone with that.
  const outlives = source === 'conch' && run.type !== 'background' ? (true as const) : ('answer' as const);
  const lasting = words?.about?.answer === undefined ? { lasting: outlives } : {};
  const asked = { id: `${run.id}.${run.asked + 1}`, call, tool, digest, requestedAt, expiresAt };
  const same = behind(run).filter((each) => each.digest === digest);
  const others = alone === true ? [] : same.flatMap((each) => (each.alone === true ? [] : [each.id]));
  const approval = { ...asked, detached: false, ...(others.length > 0 ? { others } : {}), ...lasting };
  decision.record({ type: 'paused', reason: 'approval_required', context: null, until: expiresAt, approval });
}
