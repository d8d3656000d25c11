import type { AboutCall } from '../../turns/floor/settings.ts';
import { runWords } from '../../turns/text/words.ts';
import { callsBehind } from './run-calls.ts';
import type { OpenCall, Run, RunApproval, RunState } from './run.ts';
import type { RunFact } from './run-events.ts';

/** Events of runs for people and programs: the specification's union without `stream:token`, which is not stored. */
export type RunEvent =
  | {
      readonly type: 'state:update';
      readonly payload: {
        readonly status: RunState['status'];
        readonly sessionId?: string;
        readonly taskId?: string;
        readonly turn?: number;
        /** Used share of the step limit, from 0 to 1. */
        readonly progress?: number;
        /** The running tool; `null` for none. */
        readonly currentTool?: string | null;
        readonly diff?: string;
        readonly feedback?: string;
        readonly lastError?: string;
      };
    }
  /** The run is over. */
  | { readonly type: 'agent:cleanup'; readonly payload: { readonly status: 'idle' | 'completed' } }
  | { readonly type: 'agent:step'; readonly payload: { readonly turn: number; readonly progress: number } }
  | { readonly type: 'agent:starting'; readonly payload: { readonly taskId: string; readonly sessionId: string } }
  | {
      readonly type: 'agent:paused';
      readonly payload: { readonly reason: string; readonly turn: number };
      readonly approvalId?: string;
    }
  | {
      readonly type: 'agent:error';
      readonly payload: { readonly error: string; readonly code: string; readonly recoverable: boolean };
    }
  | { readonly type: 'agent:completed'; readonly payload: { readonly turnCount: number; readonly result: string } }
  | { readonly type: 'tool:start'; readonly tool: string; readonly input: unknown; readonly callId: string }
  | {
      readonly type: 'tool:result';
      readonly tool: string;
      readonly callId: string;
      readonly output: string;
      readonly duration?: number;
    };

/** Names of all events, also of `stream:token`, which is not stored. */
export const RUN_EVENT_NAMES = [
  'state:update',
  'agent:step',
  'agent:starting',
  'agent:paused',
  'agent:error',
  'agent:completed',
  'agent:cleanup',
  'tool:start',
  'tool:result',
  'stream:token',
] as const satisfies readonly (RunEvent['type'] | 'stream:token')[];

/** The events of a fact. `state`: the state after the fact, or after the whole decision. */
export function publishedOf(fact: RunFact, { status, run }: RunState): readonly RunEvent[] {
  switch (fact.type) {
    case 'runStarted': {
      const ids = { taskId: fact.task, sessionId: fact.session };
      return [{ type: 'agent:starting', payload: ids }, update('starting', ids)];
    }
    case 'stepped': {
      const progress = fact.turn / (run?.maxTurns ?? fact.turn);
      return [
        { type: 'agent:step', payload: { turn: fact.turn, progress } },
        update('running', { turn: fact.turn, progress }),
      ];
    }
    case 'paused': {
      const request = fact.approval === null ? {} : { approvalId: fact.approval.id };
      return [
        { type: 'agent:paused', payload: { reason: fact.reason, turn: run?.turn ?? 0 }, ...request },
        update('paused'),
      ];
    }
    case 'resumed':
      return [update('running', fact.feedback === null ? {} : { feedback: fact.feedback })];
    case 'errored':
      return failureEvents(fact, status);
    case 'runCompleted':
      return completionEvents(fact);
    case 'aborted':
      return [update('idle'), cleanup('idle')];
    case 'callClaimed':
    case 'callSettled':
      return [...toolEvents(fact, run), ...toolUpdate(fact, { status, run })];
    default:
      return [];
  }
}

function failureEvents(
  { error }: Extract<RunFact, { type: 'errored' }>,
  status: RunState['status'],
): readonly RunEvent[] {
  const { message, code, recoverable } = error;
  const failed: RunEvent = { type: 'agent:error', payload: { error: message, code, recoverable } };
  return [failed, update(status, { lastError: message }), ...(status === 'idle' ? [cleanup('idle')] : [])];
}

function completionEvents({
  turnCount,
  result,
  diff,
}: Extract<RunFact, { type: 'runCompleted' }>): readonly RunEvent[] {
  const changed = diff === null ? {} : { diff };
  const completed: RunEvent = { type: 'agent:completed', payload: { turnCount, result } };
  return [completed, update('completed', changed), cleanup('completed')];
}

/** The present state as an event, for a new reader. */
export function standingOf({ status, run }: RunState): Extract<RunEvent, { type: 'state:update' }> {
  if (run === null) return update(status);
  const failed = run.lastError === null ? {} : { lastError: run.lastError.message };
  const at = { turn: run.turn, progress: run.turn / run.maxTurns, currentTool: toolOf(run) };
  return update(status, { taskId: run.task, sessionId: run.session, ...at, ...failed });
}

function toolOf({ calls }: Run): string | null {
  return calls.find((call) => call.status === 'running')?.tool ?? null;
}

function toolUpdate(
  fact: Extract<RunFact, { type: 'callClaimed' | 'callSettled' }>,
  { status, run }: Pick<RunState, 'status' | 'run'>,
): readonly RunEvent[] {
  if (run === null || status !== 'running' || (fact.type === 'callSettled' && fact.refused)) return [];
  return [update(status, { currentTool: toolOf(run) })];
}

function cleanup(status: 'idle' | 'completed'): RunEvent {
  return { type: 'agent:cleanup', payload: { status } };
}

function update(
  status: RunState['status'],
  more: Omit<Extract<RunEvent, { type: 'state:update' }>['payload'], 'status'> = {},
): Extract<RunEvent, { type: 'state:update' }> {
  return { type: 'state:update', payload: { status, ...more } };
}

function toolEvents(
  fact: Extract<RunFact, { type: 'callClaimed' | 'callSettled' }>,
  run: RunState['run'],
): readonly RunEvent[] {
  if (fact.type === 'callClaimed') {
    const call = run?.calls.find(({ id }) => id === fact.call);
    return call === undefined ? [] : [{ type: 'tool:start', tool: call.tool, input: call.input, callId: call.id }];
  }
  const duration = fact.duration === null ? {} : { duration: fact.duration };
  return [
    { type: 'tool:result', tool: fact.tool, callId: fact.call, output: fact.output ?? fact.code ?? '', ...duration },
  ];
}

/** The request for a call in words for people. */
export function requestWords({ words, tool, input }: OpenCall): NonNullable<OpenCall['words']> {
  return words ?? { title: tool, detail: JSON.stringify(input, null, 1) };
}

/**
 * Further facts about a call for people: step, folder, reason, number of requests. None for a call recorded without
 * them.
 */
export function aboutOf(
  { words, verdict, digest, source }: OpenCall,
  { others }: RunApproval,
  { run, unknown }: { readonly run: Run; readonly unknown: RunState['unknown'] },
): { readonly about?: AboutCall } {
  if (words?.about === undefined) return {};
  const allowed = unknown.includes(digest) ? CUT_SHORT : CHANGED;
  const why = verdict === 'allow' ? allowed : words.about.why;
  const denyOnly = source === 'agent' && words.about.answer === undefined ? ({ denyOnly: true } as const) : {};
  const more = { ...denyOnly, ...countsOf(run, { unknown }, others) };
  return { about: { ...words.about, why, run: run.id, step: run.turn, steps: run.maxTurns, ...more } };
}

const CUT_SHORT = 'an identical call has an unknown outcome and may have worked';
const CHANGED = 'the rules for it changed after the request';

function countsOf(
  run: Run,
  state: Pick<RunState, 'unknown'>,
  same: NonNullable<RunApproval['others']> = [],
): Pick<AboutCall, 'questions' | 'times'> {
  const next = callsBehind(run, state).filter(({ id }) => !same.includes(id));
  const questions = 1 + new Set(next.map(({ id, digest, alone }) => (alone === true ? id : digest))).size;
  return { ...(questions > 1 ? { questions } : {}), ...(same.length > 0 ? { times: 1 + same.length } : {}) };
}

/** The request of a paused run in words. `ends`: what a denial ends, and the command that completes it. */
export function pauseWords(
  { reason, context }: Pick<Extract<RunFact, { type: 'paused' }>, 'reason' | 'context'>,
  { id, turn, maxTurns, turnsAtOnce, calls }: Run,
  ends: string,
): Pick<NonNullable<OpenCall['words']>, 'title' | 'detail'> {
  const more = reason === 'turn_limit' ? ` with ${turnsAtOnce} more` : '';
  const HOW = `Continue (/allow): ${runWords(id)} continues${more}. Abort (/reject): ends ${ends} ends it with the result so far.`;
  if (reason === 'turn_limit') return { title: context ?? `used ${turn} of ${maxTurns} steps`, detail: HOW };
  const call = calls.findLast(({ waits }) => waits === undefined);
  if (context !== null || call === undefined) return { title: context ?? 'paused by a person', detail: HOW };
  const { title, detail } = requestWords(call);
  return { title: `the same call a third time: ${title}`, detail: `${detail}\n\n${HOW}` };
}
