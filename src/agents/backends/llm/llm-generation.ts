import { randomUUID } from 'node:crypto';
import { streamText } from 'ai';
import type { LanguageModel, ModelMessage, TextStreamPart, ToolSet, TypedToolCall } from 'ai';
import { z } from 'zod';
import { BackendError, insist } from '../backend.ts';
import type { Ending, InjectOutcome, Report, SeatContext, TurnPrompt } from '../backend.ts';
import type { Timers } from '../../../lib/time.ts';
import { LlmCall, NOTHING, failureOf, stepTimedOut, takesNoTools } from './llm-models.ts';
import type { CallSize, LlmPrices } from './llm-models.ts';
import { FLOOR_TOOLS, FloorTools, isFloorTool } from '../../tools/floor-tools.ts';
import { Toolbox } from '../../tools/toolbox.ts';
import type { SessionTools } from '../../mcp/session-tools.ts';
import type { ModelCall } from '../../tools/toolbox.ts';

/** How a model is asked. */
export type GenerationSettings = LlmPrices & {
  readonly model: LanguageModel;
  readonly maxOutputTokens: number | undefined;
  /** How often it is asked in one turn at most, unless the turn has a run: that knows how many steps it may take. */
  readonly maxSteps: number;
  /** Whether it may use the tools of the floor; set to false once its service has said that it takes none. */
  readonly tools: { offered: boolean };
  readonly stepTimeoutMs: number;
  readonly timers: Timers;
};

/** What one generation is about. */
type GenerationParts = {
  readonly settings: GenerationSettings;
  readonly seat: SeatContext;
  /** The tools of servers; `null`: there are none. */
  readonly tools: SessionTools | null;
  readonly turn: TurnPrompt;
  readonly report: Report;
  /** The conversation, with this prompt. */
  readonly history: readonly ModelMessage[];
  /** It may go on with what a restart has cut. */
  readonly resumes: boolean;
};

/** One generation of a model: rounds of text and tools, until it ends or is stopped. */
export class LlmGeneration {
  readonly #parts: GenerationParts;
  readonly #floorTools: FloorTools;
  readonly #toolbox: Toolbox;
  readonly #abort = new AbortController();
  readonly #stopped = Promise.withResolvers<void>();
  readonly #over = Promise.withResolvers<void>();
  /** What was handed in and no request holds yet. */
  readonly #handedIn: { readonly text: string; readonly taken: (taken: boolean) => void }[] = [];
  /** What came after the prompt. */
  #since: ModelMessage[] = [];
  /** How much of that stands in steps that are kept. */
  #kept = 0;
  #isPickedUp = false;
  /** Written in this round. */
  #written = '';
  #steps = 0;
  readonly #call: LlmCall;
  #finishReason = 'stop';

  constructor(parts: GenerationParts) {
    this.#parts = parts;
    const { settings, report, seat, turn, tools: session } = parts;
    this.#call = new LlmCall(settings, report);
    const text = (chunk: string) => {
      this.#written += chunk;
      report.text(chunk);
    };
    this.#floorTools = new FloorTools({ ...report, text }, seat.agent, turn.roster);
    const { signal: stopped } = this.#abort;
    const since = () => this.#since.slice(this.#kept);
    this.#toolbox = new Toolbox({ session, floorTools: this.#floorTools, report, stopped, since });
  }

  /** Resolves when the generation is over. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  /** What its tools were called for and returned, in short; empty when none was called. */
  get summary(): string {
    return this.#toolbox.summary;
  }

  /** How many characters the definitions of the servers' tools are. */
  get definitions(): number {
    return this.#toolbox.size;
  }

  /** Resolves with what the model truly saw. */
  async inject(text: string): Promise<InjectOutcome> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#handedIn.push({ text, taken: resolve });
    const delivered = await Promise.race([promise, this.over.then(() => false)]);
    return delivered ? 'injected' : 'next-prompt';
  }

  /** Ends the generation at once; what comes later is not heard. */
  stop(): void {
    this.#abort.abort();
    this.#stopped.resolve();
  }

  /** Rejects with a `BackendError` when the model failed. */
  async perform(): Promise<Ending> {
    try {
      await Promise.race([this.#insist(), this.#stopped.promise]);
      if (this.#abort.signal.aborted) return this.#interrupted();
      return this.#ending();
    } catch (error) {
      if (this.#abort.signal.aborted) return this.#interrupted();
      this.#cut('failed');
      this.#abort.abort();
      throw failureOf(error, this.#parts.settings.modelName);
    } finally {
      this.#over.resolve();
    }
  }

  #interrupted(): Ending {
    this.#call.end('stopped', null, this.#size);
    return { how: 'interrupted' };
  }

  #ending(): Ending {
    const { ending, over } = this.#floorTools;
    if (ending.how === 'passed' && !over && this.#finishReason !== 'stop' && this.#finishReason !== 'tool-calls') {
      throw new BackendError(`the model stopped without an answer (${this.#finishReason})`);
    }
    return ending;
  }

  async #insist(): Promise<void> {
    const { report, settings } = this.#parts;
    await insist(() => this.#rounds(), {
      report,
      timers: settings.timers,
      signal: this.#abort.signal,
      failureOf: (error) => failureOf(error, settings.modelName),
      failed: () => this.#breakOff(),
    });
  }

  /** Asks the model, does what it asks for, and asks again, until it asks for nothing more. */
  async #rounds(): Promise<void> {
    const { maxSteps } = this.#parts.settings;
    await this.#pickUp();
    for (;;) {
      if (this.#abort.signal.aborted || this.#floorTools.over) return;
      for (const { text, taken } of this.#handedIn.splice(0)) {
        this.#since.push({ role: 'user', content: text });
        taken(true);
      }
      const { text, calls } = await this.#askAsTaken();
      if (this.#abort.signal.aborted) return;
      this.#steps += 1;
      const decided = await this.#toolbox.step(text, calls);
      const isLast = !this.#toolbox.isStepping && this.#steps >= maxSteps;
      this.#kept = this.#since.length;
      const own = decided === 'stop' || isLast ? calls.filter(({ name }) => isFloorTool(name)) : calls;
      this.#since.push(...(await this.#toolbox.run(own)));
      if (own.length < calls.length && isLast) this.#sayLimit(maxSteps);
      if (this.#abort.signal.aborted || decided === 'stop' || isLast || this.#floorTools.over) return;
      if (calls.length === 0 && this.#handedIn.length === 0) return;
    }
  }

  /** A turn that a restart has cut goes on where it was: with the calls of its last step that have no result. */
  async #pickUp(): Promise<void> {
    const { resumes, turn } = this.#parts;
    if (!resumes || this.#isPickedUp) return;
    this.#isPickedUp = true;
    const left = await this.#toolbox.left();
    if (left === null) return;
    this.#steps = left.steps;
    this.#since.push(...left.said);
    this.#kept = this.#since.length;
    this.#since.push(...(await this.#toolbox.resume(left, turn.saidSoFar)));
  }

  /** What it still wanted to do is not done: people should know why it stops there. */
  #sayLimit(maxSteps: number): void {
    this.#floorTools.apart();
    this.#floorTools.text(`(I stopped after ${maxSteps} steps, the most that one turn may take.)`);
  }

  /** A model that takes no tools is asked once more, and from now on, without them. */
  async #askAsTaken(): Promise<Round> {
    const { tools } = this.#parts.settings;
    try {
      return await this.#ask();
    } catch (error) {
      if (!tools.offered || !takesNoTools(error)) throw error;
      tools.offered = false;
      this.#breakOff();
      return await this.#ask();
    }
  }

  /** The model is asked anew; it goes on from what it has written, which is said. */
  #breakOff(): void {
    this.#cut('retried');
    this.#floorTools.apart();
    const content = this.#written.trim();
    this.#written = '';
    if (content !== '') this.#since.push({ role: 'assistant', content }, { role: 'user', content: BROKEN_OFF });
  }

  async #ask(): Promise<Round> {
    const { settings, history, turn } = this.#parts;
    const { model, maxOutputTokens, stepTimeoutMs } = settings;
    const tools = settings.tools.offered ? await this.#toolbox.offer() : null;
    const notes = tools === null ? '' : this.#toolbox.notes;
    const system = [instructionsFor(turn.system, tools !== null), notes].filter((text) => text !== '').join('\n\n');
    const room = turn.longest - system.length - sizeOfTools() - this.#toolbox.size - sizeOfAll(history);
    this.#since = trimmed(this.#since, room);
    this.#written = '';
    this.#call.begin();
    this.#floorTools.apart();
    const answer = streamText({
      model,
      instructions: { role: 'system', content: system, ...CACHED },
      messages: [...history, ...cached(this.#since, -1)],
      ...(tools !== null && { tools }),
      maxRetries: 0,
      abortSignal: this.#abort.signal,
      timeout: { stepMs: stepTimeoutMs },
      onError: () => {},
      ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    });
    const calls: ModelCall[] = [];
    for await (const part of answer.stream) {
      if (this.#abort.signal.aborted) return { text: '', calls: [] };
      if (part.type === 'tool-call' && part.providerExecuted !== true) calls.push(callOf(part));
      this.#hear(part, calls);
    }
    const { messages } = await answer.response;
    const text = this.#written;
    this.#written = '';
    this.#since.push(...messages.filter(({ role }) => role === 'assistant').map(withObjects));
    return { text, calls };
  }

  #hear(part: TextStreamPart<ToolSet>, calls: readonly ModelCall[]): void {
    switch (part.type) {
      case 'text-delta':
        this.#floorTools.text(part.text);
        return;
      case 'finish-step':
        this.#finishReason = part.finishReason;
        this.#call.end(this.#isPass(calls) ? 'passed' : 'answered', part.usage, this.#size);
        return;
      case 'start':
      case 'start-step':
        return; // Of the library, before the model has answered.
      case 'abort':
        throw stepTimedOut(this.#parts.settings.stepTimeoutMs);
      case 'error':
        throw isTimeout(part.error) ? stepTimedOut(this.#parts.settings.stepTimeoutMs) : part.error;
      default:
        this.#parts.report.work(0);
    }
  }

  #isPass(calls: readonly ModelCall[]): boolean {
    return calls.length === 0 ? this.#written.trim() === '' : calls.some(({ name }) => name === 'pass');
  }

  /** What was refused has used nothing. */
  #cut(outcome: 'failed' | 'retried'): void {
    this.#call.end(outcome, null, this.#written === '' ? NOTHING : this.#size);
  }

  get #size(): CallSize {
    const { history, turn } = this.#parts;
    return { asked: turn.system.length + sizeOfAll([...history, ...this.#since]), written: this.#written.length };
  }
}

/** What a model answered. */
type Round = { readonly text: string; readonly calls: readonly ModelCall[] };

/** The conversation with a mark for providers that keep what they have read only up to a mark. */
export function cached(messages: readonly ModelMessage[], at: number): readonly ModelMessage[] {
  const index = at < 0 ? messages.length + at : at;
  return messages.map((message, each) => (each === index ? { ...message, ...CACHED } : message));
}

/** How many characters a message has, with what says whose it is. */
export function sizeOf({ content }: ModelMessage): number {
  return FRAME + (typeof content === 'string' ? content.length : JSON.stringify(content).length);
}

const FRAME = 32;

function sizeOfAll(messages: readonly ModelMessage[]): number {
  return messages.reduce((sum, message) => sum + sizeOf(message), 0);
}

function callOf({ toolCallId: id, toolName: name, input }: TypedToolCall<ToolSet>): ModelCall {
  return { id, key: randomUUID(), name, input };
}

/** Providers take nothing but objects as the input of a call, also of one that could not be read. */
function withObjects(message: ModelMessage): ModelMessage {
  if (message.role !== 'assistant' || typeof message.content === 'string') return message;
  const content = message.content.map((part) =>
    part.type === 'tool-call' && (typeof part.input !== 'object' || part.input === null)
      ? { ...part, input: {} }
      : part,
  );
  return { ...message, content };
}

/** As much of what came after the prompt as there is room for: what tools returned first goes first. */
function trimmed(messages: readonly ModelMessage[], room: number): ModelMessage[] {
  let over = sizeOfAll(messages) - room;
  return messages.map((message) => {
    if (over <= 0 || message.role !== 'tool') return message;
    const content = message.content.map((part) => {
      if (over <= 0 || part.type !== 'tool-result' || part.output.type !== 'text') return part;
      const { value } = part.output;
      const [end = ''] = /\n=== end [^\n]*$/.exec(value) ?? [];
      const kept = Math.max(value.length - over - TAKEN_OUT.length - end.length, LEAST_KEPT);
      const cut = `${value.slice(0, kept)}${TAKEN_OUT}${end}`;
      if (cut.length >= value.length) return part;
      over -= value.length - cut.length;
      return { ...part, output: { type: 'text' as const, value: cut } };
    });
    return { ...message, content };
  });
}

const TAKEN_OUT = '… (the rest is taken out to make room)';
const LEAST_KEPT = 200;

function instructionsFor(system: string, tools: boolean): string {
  return [system, INSTRUCTIONS, ...(tools ? [ON_TOOLS] : [])].filter((text) => text !== '').join('\n\n');
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && /^(?:AbortError|TimeoutError)$/.test(error.name);
}

const INSTRUCTIONS =
  'You take part in a chat. Write what you want to post as your plain answer; it is posted as it stands. ' +
  'Messages that arrive while you work are marked as such: take them into account.';
const BROKEN_OFF =
  'The connection broke off there. What you have written is posted: go on from there and do not repeat it.';
const ON_TOOLS =
  'Use the tools only for what they say: several messages (say), a question to people (wait_for) or to another agent (ask), giving the floor to another ' +
  'agent (hand_to), nothing to add (pass).';

/** Asks Anthropic to keep what it has read up to here; the others keep it unasked. */
const CACHED = { providerOptions: { anthropic: { cacheControl: { type: 'ephemeral' } } } } as const;

/** How many characters a request has besides its prompt and the conversation: the instructions and the tools. */
export const OVERHEAD = instructionsFor('', true).length + sizeOfTools();

function sizeOfTools(): number {
  const shapes = Object.entries(FLOOR_TOOLS).map(([name, { description, input }]) => {
    return { type: 'function', function: { name, description, parameters: z.toJSONSchema(input) } };
  });
  return JSON.stringify(shapes).length;
}
