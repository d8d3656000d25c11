import type { AcpPromise } from './acp-profiles.ts';
import type { ToolCall } from './acp-wire.ts';

type Call = { kind: string; title: string; input: unknown; allowed: boolean; ended: boolean };

/** Notices a tool that ran without the yes that its agent promised to ask for. Looks at all that one session sends. */
export class Tripwire {
  readonly #asks: AcpPromise;
  readonly #calls = new Map<string, Call>();

  constructor(asks: AcpPromise) {
    this.#asks = asks;
  }

  /** A yes was given for this call. */
  allow(id: string): void {
    const call = this.#call(id);
    call.allowed = true;
    call.ended = false;
  }

  /** Takes an update in; the title of the call if it ran unasked. */
  seen(
    { toolCallId, kind, title, status, rawInput }: ToolCall,
    update: 'tool_call' | 'tool_call_update',
  ): string | null {
    const call = this.#call(toolCallId);
    // Ids come again: a call that begins after another has ended does not have that one's yes.
    if (update === 'tool_call' && call.ended) Object.assign(call, { allowed: false, ended: false });
    call.kind = kind ?? call.kind;
    call.title = title ?? call.title;
    call.input = rawInput ?? call.input;
    call.ended ||= status === 'completed' || status === 'failed';
    const ran = status === 'completed' || (status === 'in_progress' && this.#asks.ranWhen === 'in_progress');
    if (!ran || call.allowed || !this.#isPromised(call)) return null;
    return call.title === '' ? call.kind : call.title;
  }

  #isPromised({ kind, input }: Call): boolean {
    const { kinds, commandKey } = this.#asks;
    if (!kinds.includes(kind)) return false;
    const isBare = typeof input === 'object' && input !== null && commandKey !== undefined && !(commandKey in input);
    return kind !== 'execute' || !isBare;
  }

  #call(id: string): Call {
    const known = this.#calls.get(id);
    if (known !== undefined) return known;
    const call = { kind: '', title: '', input: null, allowed: false, ended: false };
    this.#calls.set(id, call);
    const [oldest] = this.#calls.keys();
    if (this.#calls.size > MOST_CALLS && oldest !== undefined) this.#calls.delete(oldest);
    return call;
  }
}

const MOST_CALLS = 1_000;
