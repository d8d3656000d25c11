import type { AcpPromise } from './acp-profiles.ts';
import type { ToolCall } from './acp-wire.ts';

type Call = {
  kind: string;
  title: string;
  input: unknown;
  /** The commands that were told of it before it was asked about, and with that. */
  readonly commands: Set<string>;
  asked: boolean;
  allowed: boolean;
  ended: boolean;
};

/** Notices a tool that ran without the yes that its agent promised to ask for, or ran another command. Looks at all that one session sends. */
export class Tripwire {
  readonly #asks: AcpPromise;
  readonly #calls = new Map<string, Call>();

  constructor(asks: AcpPromise) {
    this.#asks = asks;
  }

  /** People are asked about this call: what is told of it from now on they are not shown. */
  asked({ toolCallId, rawInput }: Pick<ToolCall, 'toolCallId' | 'rawInput'>): void {
    const call = this.#call(toolCallId);
    for (const command of commandsIn(rawInput)) call.commands.add(command);
    call.asked = true;
  }

  /** A yes was given for this call, as it was asked about. */
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
    if (update === 'tool_call' && call.ended) {
      Object.assign(call, { asked: false, allowed: false, ended: false, input: null });
      call.commands.clear();
    }
    call.kind = kind ?? call.kind;
    call.title = title ?? call.title;
    call.input = rawInput ?? call.input;
    call.ended ||= status === 'completed' || status === 'failed';
    const commands = commandsIn(call.input);
    if (!call.asked) for (const command of commands) call.commands.add(command);
    const other = commands.find((command) => call.allowed && call.commands.size > 0 && !call.commands.has(command));
    if (other !== undefined && this.#isPromised(call)) return other;
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
    const call: Call = {
      kind: '',
      title: '',
      input: null,
      commands: new Set(),
      asked: false,
      allowed: false,
      ended: false,
    };
    this.#calls.set(id, call);
    const [oldest] = this.#calls.keys();
    if (this.#calls.size > MOST_CALLS && oldest !== undefined) this.#calls.delete(oldest);
    return call;
  }
}

const MOST_CALLS = 1_000;

/** What an input says is run, with single spaces: agents lay out what they tell twice. */
function commandsIn(input: unknown): readonly string[] {
  if (typeof input !== 'object' || input === null || !('command' in input)) return [];
  const { command } = input;
  const text = Array.isArray(command) ? command.join(' ') : typeof command === 'string' ? command : '';
  return text.trim() === '' ? [] : [text.trim().replaceAll(/\s+/g, ' ')];
}
