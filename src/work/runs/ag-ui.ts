import { isoTime } from '../../lib/time.ts';
import type { FeedItem, RunMessage } from './run-feed.ts';
import type { RunState } from './run.ts';

/** An event of the Agent User Interaction protocol 1.0 with the fields that runs use. */
export type AgUiEvent = { readonly type: string; readonly timestamp?: number; readonly [field: string]: unknown };

/**
 * Translates the runs of one seat into events of the Agent User Interaction protocol. A pause is an interrupt of the
 * protocol, which finishes the protocol's run. The rest of the run is another run of the protocol (`…#1.2`).
 */
export class AgUiStream {
  #run: { readonly id: string; readonly times: number } | null = null;
  #isOpen = false;
  #isInterrupted = false;
  /** The event that ends the run, sent after its last state. */
  #last: AgUiEvent | null = null;
  readonly #calls = new Set<string>();
  #step: string | null = null;
  #text: string | null = null;
  #texts = 0;

  /**
   * Returns the present state as an event. For a new reader (`isNew`) of an open run, the start of the run comes before
   * that event, and the start of the open step after it.
   */
  snapshot(
    now: { readonly at: number; readonly channel: string; readonly payload: object },
    isNew: boolean,
  ): readonly AgUiEvent[] {
    const snapshot = { type: 'STATE_SNAPSHOT', snapshot: now.payload, timestamp: now.at };
    if (!isNew || !this.#isOpen) return [snapshot];
    const begun = { type: 'RUN_STARTED', threadId: now.channel, runId: this.#runId, timestamp: now.at };
    const stepName = this.#step;
    return [begun, snapshot, ...(stepName === null ? [] : [{ type: 'STEP_STARTED', stepName, timestamp: now.at }])];
  }

  /**
   * Returns the events of one message. Callers also pass messages that a reader already has, and drop the events, so
   * that this object follows the runs from their beginning.
   */
  tell({ message, state }: FeedItem): readonly AgUiEvent[] {
    // Calls that an agent reports while its run is paused, failed or over belong to no run of the protocol.
    const isLate = message.type === 'tool:result' || (message.type === 'tool:start' && state.status !== 'running');
    if (!this.#isOpen && isLate) return [];
    const events = [...this.#closeText(message), ...this.#goOn(message, state), ...this.#events(message, state)];
    return events.map((event) => ({ ...event, timestamp: message.at }));
  }

  /** Returns the events of a piece of text while it is generated; none outside of a run. */
  token(message: RunMessage): readonly AgUiEvent[] {
    if (message.type !== 'stream:token' || !this.#isOpen) return [];
    const begin = this.#text === null;
    if (begin) this.#texts += 1;
    this.#text ??= `${message.run} text ${this.#texts}`;
    const messageId = this.#text;
    const piece = { type: 'TEXT_MESSAGE_CONTENT', messageId, delta: message.text, timestamp: message.at };
    return begin
      ? [{ type: 'TEXT_MESSAGE_START', messageId, role: 'assistant', timestamp: message.at }, piece]
      : [piece];
  }

  #goOn({ run, channel }: RunMessage, { status }: RunState): readonly AgUiEvent[] {
    const goesOn = !this.#isOpen && this.#isInterrupted && status === 'running' && this.#run?.id === run;
    return goesOn ? this.#begin(run, channel) : [];
  }

  #begin(run: string, channel: string): readonly AgUiEvent[] {
    this.#run = { id: run, times: this.#run?.id === run ? this.#run.times + 1 : 1 };
    this.#isOpen = true;
    this.#isInterrupted = false;
    // A pause or an error during a pause sets `#last`, although the protocol's run has already ended. Drops that event.
    this.#last = null;
    return [{ type: 'RUN_STARTED', threadId: channel, runId: this.#runId }];
  }

  #events(message: RunMessage, state: RunState): readonly AgUiEvent[] {
    const run = { threadId: message.channel, runId: this.#runId };
    switch (message.type) {
      case 'agent:starting':
        return this.#begin(message.run, message.channel);
      case 'state:update':
        return this.#updated(message.payload, run);
      case 'agent:step': {
        const ended = this.#endStep();
        this.#step = `step ${message.payload.turn}`;
        return [...ended, { type: 'STEP_STARTED', stepName: this.#step }];
      }
      case 'agent:paused': {
        const interrupts = [interruptOf(message, state)];
        this.#last = { type: 'RUN_FINISHED', ...run, outcome: { type: 'interrupt', interrupts } };
        return [];
      }
      case 'agent:completed':
        this.#last = { type: 'RUN_FINISHED', ...run, outcome: { type: 'success' }, result: message.payload.result };
        return [];
      case 'agent:error':
        this.#last = { type: 'RUN_ERROR', message: message.payload.error, code: message.payload.code };
        return [];
      case 'tool:start':
        return this.#called(message.callId, message.tool, JSON.stringify(message.input));
      case 'tool:result': {
        const { callId, tool, output } = message;
        // A refused call never began: its start is sent now, before its result.
        const begun = this.#calls.has(callId) ? [] : this.#called(callId, tool, '{}');
        this.#calls.delete(callId);
        const result = { type: 'TOOL_CALL_RESULT', messageId: `${callId} result`, toolCallId: callId };
        return [...begun, { ...result, content: output, role: 'tool' }];
      }
      case 'agent:cleanup':
      case 'stream:token':
        return [];
    }
  }

  /** Returns nothing while no run is open, because in the protocol nothing follows the end of a run. */
  #updated(payload: { readonly status: RunState['status'] }, run: object): readonly AgUiEvent[] {
    if (!this.#isOpen) return [];
    const delta = Object.entries(payload).map(([key, value]) => ({ op: 'add', path: `/${key}`, value }));
    const cancelled = { type: 'RUN_FINISHED', ...run, outcome: { type: 'cancelled' } };
    const last = this.#last ?? (payload.status === 'idle' ? cancelled : null);
    if (last === null) return [{ type: 'STATE_DELTA', delta }];
    this.#last = null;
    this.#isOpen = false;
    this.#isInterrupted = payload.status === 'paused' || payload.status === 'error';
    return [{ type: 'STATE_DELTA', delta }, ...this.#endStep(), last];
  }

  #called(toolCallId: string, toolCallName: string, delta: string): readonly AgUiEvent[] {
    this.#calls.add(toolCallId);
    return [
      { type: 'TOOL_CALL_START', toolCallId, toolCallName },
      { type: 'TOOL_CALL_ARGS', toolCallId, delta },
      { type: 'TOOL_CALL_END', toolCallId },
    ];
  }

  #endStep(): readonly AgUiEvent[] {
    const stepName = this.#step;
    this.#step = null;
    return stepName === null ? [] : [{ type: 'STEP_FINISHED', stepName }];
  }

  #closeText({ type }: RunMessage): readonly AgUiEvent[] {
    const messageId = this.#text;
    if (messageId === null || type === 'stream:token') return [];
    this.#text = null;
    return [{ type: 'TEXT_MESSAGE_END', messageId }];
  }

  get #runId(): string {
    const { id = '', times = 1 } = this.#run ?? {};
    return times === 1 ? id : `${id}.${times}`;
  }
}

function interruptOf(message: Extract<RunMessage, { readonly type: 'agent:paused' }>, { run }: RunState): object {
  const { reason } = message.payload;
  const pause = run?.pause ?? null;
  const approval = pause?.approval ?? null;
  const words = run?.calls.find(({ id }) => id === approval?.call)?.words;
  const until = approval?.expiresAt ?? pause?.until ?? null;
  return {
    id: approval?.id ?? `${message.run} paused ${message.seq}`,
    reason,
    ...(words === undefined ? {} : { message: words.title }),
    ...(approval === null ? {} : { toolCallId: approval.call, responseSchema: CHOICES }),
    ...(until === null ? {} : { expiresAt: isoTime(until) }),
  };
}

const CHOICES = {
  type: 'object',
  properties: { choice: { enum: ['allow', 'reject'] }, reason: { type: 'string' } },
  required: ['choice'],
};
