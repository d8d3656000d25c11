import type { StoredFact } from '../../engine/port.ts';
import { ERASED_TEXT } from '../../engine/reading.ts';
import type { RunFact } from './run-events.ts';

/**
 * Returns the steps that a run stored, oldest first, and the outcomes of their calls, by the ids that the agent gave.
 * Begins at the start of the run, or at the last wait of its turn if that is later. Such a wait is for an answer, or
 * begins when a person interrupts the turn. `newest`: the facts of the journal, newest first. `null` when no step was
 * stored, when the last step was not stored, or when a step was erased.
 */
export function unfinishedSteps(newest: Iterable<Pick<StoredFact<RunFact>, 'fact'>>): UnfinishedSteps | null {
  const facts: RunFact[] = [];
  for (const { fact } of newest) {
    // Facts before a wait of the turn, such as for an answer, belong to an earlier generation.
    const isBefore = fact.type === 'paused' && fact.reason === 'user_input' && fact.muted === undefined;
    if (isBefore || fact.type === 'runStarted') break;
    facts.push(fact);
  }
  const steps: Step[] = [];
  const results = new Map<string, Result>();
  const calls = new Map<string, string>();
  let [isStored, decided]: [boolean, Decided] = [false, { by: null, reason: null }];
  for (const fact of facts.toReversed()) {
    if (fact.type === 'stepKept' && fact.calls === ERASED_TEXT) return null;
    if (fact.type === 'stepped') isStored = false;
    if (fact.type === 'stepKept') isStored = steps.push({ said: fact.said, calls: fact.calls }) > 0;
    if (fact.type === 'callRequested') calls.set(fact.call.id, fact.call.agentCall ?? '');
    decided = peopleSaid(fact) ?? decided;
    if (fact.type === 'callSettled') results.set(calls.get(fact.call) ?? '', resultOf(fact, decided));
  }
  return isStored ? { steps, results } : null;
}

function peopleSaid(fact: RunFact): Decided | null {
  const said = fact.type === 'grantUsed' ? fact.said : fact.type === 'approvalClosed' ? fact : undefined;
  return said === undefined ? null : { by: said.by, reason: said.reason };
}

type Result = { readonly words: string; readonly failed: boolean; readonly isOutput: boolean };
type Step = { readonly said: string; readonly calls: string };
type UnfinishedSteps = { readonly steps: readonly Step[]; readonly results: ReadonlyMap<string, Result> };
type Decided = { readonly by: string | null; readonly reason: string | null };
type Ended = Decided & { readonly code: string | null };

function deniedWords(tool: string, { by, reason }: Decided): string {
  const why = reason === null ? '' : ` These are their words: ${reason}`;
  const who = by === null ? 'Nobody could be asked' : 'People denied it';
  return `${tool} did not run. ${who}.${why} Continue without it.`;
}

/** The answer to the agent about a call that nobody decided. */
export const UNDECIDED = 'Nobody decided about this call: it was not run.';

function resultOf(
  { tool, status, output, code, outcome }: Extract<RunFact, { type: 'callSettled' }>,
  decided: Decided,
): Result {
  if (outcome === 'unknown') return { words: CUT_SHORT, failed: true, isOutput: false };
  if (output !== null) return { words: output, failed: status === 'error', isOutput: true };
  if (code === 'DENIED') return { words: deniedWords(tool, decided), failed: true, isOutput: false };
  const words = code === 'AGENT_TOOL_NOT_ALLOWED' ? `${code}: the rules deny ${tool}.` : UNDECIDED;
  return { words, failed: true, isOutput: false };
}

const CUT_SHORT =
  'The outcome of the call is unknown: it may have done all, a part or nothing. Check before you repeat it; Conch does not.';

/**
 * Follows one call in the facts of its run. `next` resolves with `cleared` each time the call may be claimed, and
 * with the call's code and decision when the call ends.
 */
export class CallFollower {
  readonly #call: string;
  readonly #heard: ('cleared' | Ended)[] = [];
  #wake: (() => void) | null = null;
  /** The newest decision among the facts given to `hear`; `by` is `null` when no person decided. */
  said: Decided = { by: null, reason: null };

  constructor(call: string) {
    this.#call = call;
  }

  hear(facts: readonly RunFact[]): void {
    for (const fact of facts) {
      this.said = peopleSaid(fact) ?? this.said;
      if (fact.type === 'callCleared' && fact.call === this.#call) this.#heard.push('cleared');
      if (fact.type === 'callSettled' && fact.call === this.#call) this.#heard.push({ code: fact.code, ...this.said });
    }
    this.#wake?.();
  }

  async next(): Promise<'cleared' | Ended> {
    for (;;) {
      const next = this.#heard.shift();
      if (next !== undefined) return next;
      await new Promise<void>((resolve) => void (this.#wake = resolve));
    }
  }
}

/** Returns the reply to the agent for a call that ended before it ran. `words`: the reply if the rules denied it. */
export function refusedBy(
  { code, by, reason }: Ended,
  tool: string,
  words: string,
): { readonly code: 'AGENT_TOOL_NOT_ALLOWED' | 'CANCELLED' | 'DENIED'; readonly words: string } {
  if (code === 'AGENT_TOOL_NOT_ALLOWED') return { code, words };
  return code === 'DENIED'
    ? { code, words: deniedWords(tool, { by, reason }) }
    : { code: 'CANCELLED', words: UNDECIDED };
}
