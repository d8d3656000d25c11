import type { AboutCall } from '../../turns/floor/settings.ts';
import { runWords } from '../../turns/text/words.ts';
import { behind } from './run-calls.ts';
import type { OpenCall, Run, RunApproval, RunState } from './run.ts';
import type { RunFact } from './run-events.ts';

/** What people and programs see of a run as it happens: the specification's union, but for `stream:token`, which is kept nowhere. */
export type RunEvent =
  | {
      readonly type: 'state:update';
      readonly payload: {
        readonly status: RunState['status'];
        readonly sessionId?: string;
        readonly taskId?: string;
        readonly turn?: number;
        /** Steps so far of those that it may take, from 0 to 1. */
        readonly progress?: number;
        /** The tool that runs; `null`: none does any more. */
        readonly currentTool?: string | null;
        readonly diff?: string;
        readonly feedback?: string;
        /** The words of the last failure. */
        readonly lastError?: string;
      };
    }
  /** The run is over, and what it used is free. */
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

/** What the events of runs are called, those that stand in no journal as well. */
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

/** What is published of a fact; `state` is the state right after it, or after the whole decision. */
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
      const asked = fact.approval === null ? {} : { approvalId: fact.approval.id };
      return [
        { type: 'agent:paused', payload: { reason: fact.reason, turn: run?.turn ?? 0 }, ...asked },
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
    case 'attached':
    case 'lost':
    case 'callRequested':
    case 'callCleared':
    case 'approvalClosed':
    case 'approvalDetached':
    case 'stepKept':
    case 'grantUsed':
    case 'tainted':
    case 'cleansed':
    case 'numbersSkipped':
    case 'delayed':
    case 'yesRevoked':
    case 'causeNoted':
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

/** The state as it is, for whoever begins to read. */
export function standingOf({ status, run }: RunState): Extract<RunEvent, { type: 'state:update' }> {
  if (run === null) return update(status);
  const failed = run.lastError === null ? {} : { lastError: run.lastError.message };
  const at = { turn: run.turn, progress: run.turn / run.maxTurns, currentTool: toolOf(run) };
  return update(status, { taskId: run.task, sessionId: run.session, ...at, ...failed });
}

/** The tool that a run is at; `null`: at none. */
function toolOf({ calls }: Run): string | null {
  return calls.find((call) => call.status === 'running')?.tool ?? null;
}

/** What runs now, of a run that goes on: a call that is refused never ran. */
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
    {
      type: 'tool:result',
      tool: fact.tool,
      callId: fact.call,
      output: fact.output ?? fact.code ?? '',
      ...duration,
    },
  ];
}

/** What people are shown of a call when they are asked about it. */
export function wordsAsked({ words, tool, input }: OpenCall): NonNullable<OpenCall['words']> {
  return words ?? { title: tool, detail: JSON.stringify(input, null, 1) };
}

/** What people must know of a call beside that, as its run stands. */
export function aboutOf(
  { words, verdict, digest, source }: OpenCall,
  { others }: RunApproval,
  { run, unknown }: { readonly run: Run; readonly unknown: RunState['unknown'] },
): { readonly about?: AboutCall } {
  if (words?.about === undefined) return {};
  const allowed = unknown.includes(digest) ? CUT_SHORT : CHANGED;
  const why = verdict === 'allow' ? allowed : words.about.why;
  const bare = source === 'agent' && words.about.answer === undefined ? ({ bare: true } as const) : {};
  const more = { ...bare, ...countsOf(run, others) };
  return { about: { ...words.about, why, run: run.id, step: run.turn, steps: run.maxTurns, ...more } };
}

const CUT_SHORT = 'an identical call has an unknown outcome and may have worked';
const CHANGED = 'the rules for it changed after the request';

/** How many questions there are with this one, what is the very same being one; and for how many calls it is. */
function countsOf(run: Run, others: RunApproval['others']): Pick<AboutCall, 'questions' | 'times'> {
  const same = Array.isArray(others) ? others : [];
  const next = behind(run).filter(({ id }) => !same.includes(id));
  const questions = 1 + new Set(next.map(({ id, digest, alone }) => (alone === true ? id : digest))).size;
  return {
    ...(questions > 1 ? { questions } : {}),
    ...(same.length > 0 ? { times: 1 + same.length } : {}),
  };
}

/** What people are asked of a run that stands still by itself; `ends`: what a no ends, and how it ends with what is there. */
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
  const { title, detail } = wordsAsked(call);
  return { title: `the same call a third time: ${title}`, detail: `${detail}\n\n${HOW}` };
}
