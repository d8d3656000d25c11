import { randomUUID } from 'node:crypto';
import { jsonSchema, modelMessageSchema, streamText, tool } from 'ai';
import type { LanguageModel, ModelMessage, TextStreamPart, ToolSet, TypedToolCall } from 'ai';
import { z } from 'zod';
import { BackendError, retryWithinTurn } from '../backend.ts';
import type { Ending, InjectOutcome, Report, SeatContext, TurnPrompt } from '../backend.ts';
import type { Timers } from '../../../lib/time.ts';
import { excerpt } from '../../../turns/commands/clock-words.ts';
import { LlmCall, NO_USAGE, failureOf, stepTimedOut, takesNoTools } from './llm-models.ts';
import type { CallSize, LlmPrices } from './llm-models.ts';
import { FLOOR_TOOLS, FloorTools, isFloorTool, offeredFloorTools } from '../../tools/floor-tools.ts';
import type { TaskPart } from '../../tools/floor-tools.ts';
import { Toolbox } from '../../tools/toolbox.ts';
import type { SessionTools } from '../../mcp/session-tools.ts';
import type { ModelCall, ModelTool } from '../../tools/toolbox.ts';

/** Model and limits of a generation. */
export type GenerationSettings = LlmPrices & {
  readonly model: LanguageModel;
  readonly maxOutputTokens: number | undefined;
  /** Maximum number of the model's answers in a generation that calls no MCP server's tool. */
  readonly maxSteps: number;
  /** Whether any tools are offered. Set to false when the service answers that the model takes no tools. */
  readonly tools: { offered: boolean };
  readonly stepTimeoutMs: number;
  readonly timers: Timers;
};

type GenerationParts = {
  readonly settings: GenerationSettings;
  readonly seat: SeatContext;
  /** The tools of MCP servers. `null`: none. */
  readonly tools: SessionTools | null;
  readonly turn: TurnPrompt;
  readonly report: Report;
  readonly history: readonly ModelMessage[];
  /** True when the generation may continue a turn that a restart of Conch interrupted. */
  readonly resumes: boolean;
};

/** One generation of a model: rounds of text and tool calls until it ends or is stopped. */
export class LlmGeneration {
  readonly #parts: GenerationParts;
  readonly #floorTools: FloorTools;
  readonly #toolbox: Toolbox;
  readonly #abort = new AbortController();
  readonly #stopped = Promise.withResolvers<void>();
  readonly #over = Promise.withResolvers<void>();
  readonly #injected: { readonly text: string; readonly taken: (taken: boolean) => void }[] = [];
  /** Messages after the prompt: answers, tool results and injected messages. */
  #since: ModelMessage[] = [];
  /** How many entries at the start of `#since` are already stored with the run's steps. */
  #storedCount = 0;
  #isResumed = false;
  #roundText = '';
  #steps = 0;
  readonly #call: LlmCall;
  #finishReason = 'stop';

  constructor(parts: GenerationParts) {
    this.#parts = parts;
    const { settings, report, seat, turn, tools: session } = parts;
    this.#call = new LlmCall(settings, report);
    const text = (chunk: string) => {
      this.#roundText += chunk;
      report.text(chunk);
    };
    this.#floorTools = new FloorTools({ ...report, text }, seat.agent, turn);
    const { signal: stopped } = this.#abort;
    const since = () => this.#since.slice(this.#storedCount);
    this.#toolbox = new Toolbox({ session, floorTools: this.#floorTools, report, stopped, since });
  }

  /** Resolves when the generation has ended. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  /** A summary of the calls of MCP servers' tools and their results. Empty when no such tool was called. */
  get summary(): string {
    return this.#toolbox.summary;
  }

  /** Length of the definitions of MCP servers' tools in characters. */
  get definitions(): number {
    return this.#toolbox.size;
  }

  /**
   * Queues a message for the next request. Resolves with `injected` when the message joins a request, or with
   * `next-prompt` when the generation ends before.
   */
  async inject(text: string): Promise<InjectOutcome> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#injected.push({ text, taken: resolve });
    const delivered = await Promise.race([promise, this.over.then(() => false)]);
    return delivered ? 'injected' : 'next-prompt';
  }

  /** Ends the generation at once. Later output is dropped. */
  stop(): void {
    this.#abort.abort();
    this.#stopped.resolve();
  }

  /** Runs the generation. Rejects with a `BackendError` when the model failed. */
  async perform(): Promise<Ending> {
    try {
      await Promise.race([this.#retryWithinTurn(), this.#stopped.promise]);
      if (this.#abort.signal.aborted) return this.#interrupted();
      return this.#ending();
    } catch (error) {
      if (this.#abort.signal.aborted) return this.#interrupted();
      this.#endFailedCall('failed');
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

  async #retryWithinTurn(): Promise<void> {
    const { report, settings } = this.#parts;
    await retryWithinTurn(() => this.#rounds(), {
      report,
      timers: settings.timers,
      signal: this.#abort.signal,
      failureOf: (error) => failureOf(error, settings.modelName),
      failed: () => this.#prepareRetry(),
    });
  }

  async #rounds(): Promise<void> {
    const { maxSteps } = this.#parts.settings;
    await this.#resumeStep();
    for (;;) {
      if (this.#abort.signal.aborted || this.#floorTools.over) return;
      for (const { text, taken } of this.#injected.splice(0)) {
        this.#since.push({ role: 'user', content: text });
        taken(true);
      }
      const { text, calls } = await this.#askWithFallback();
      if (this.#abort.signal.aborted) return;
      this.#steps += 1;
      const decided = await this.#toolbox.step(text, calls);
      const isLast = !this.#toolbox.isStepping && this.#steps >= maxSteps;
      if (this.#toolbox.isStepping) this.#storedCount = this.#since.length;
      const own = decided === 'stop' || isLast ? calls.filter(({ name }) => isFloorTool(name)) : calls;
      this.#since.push(...(await this.#toolbox.run(own)));
      if (own.length < calls.length && isLast)
        this.#note(`I stopped after ${maxSteps} steps, the most that one turn may take.`);
      if (calls.length === 0 && text.trim() !== '') this.#noteCut();
      if (this.#abort.signal.aborted || decided === 'stop' || isLast || this.#floorTools.over) return;
      if (calls.length === 0 && this.#injected.length === 0) return;
    }
  }

  async #resumeStep(): Promise<void> {
    const { resumes, turn } = this.#parts;
    if (!resumes || this.#isResumed) return;
    this.#isResumed = true;
    const left = await this.#toolbox.unfinished();
    if (left === null) return;
    const said = z.array(modelMessageSchema).parse(left.said);
    this.#steps = left.steps;
    const lost = callsIfBroken(said);
    if (lost !== null) {
      this.#since.push({ role: 'user', content: `${CUT_APART}\n${lost.join('\n')}` });
      return;
    }
    this.#since.push(...said);
    this.#storedCount = this.#since.length;
    this.#since.push(...(await this.#toolbox.resume(left, turn.saidSoFar)));
  }

  #note(text: string): void {
    this.#floorTools.apart();
    this.#floorTools.text(`(${text})`);
  }

  #noteCut(): void {
    const { maxOutputTokens } = this.#parts.settings;
    if (this.#finishReason === 'content-filter')
      this.#note('My answer is cut off: the content filter of the model’s provider stopped it.');
    if (this.#finishReason !== 'length') return;
    const limit = maxOutputTokens === undefined ? 'the model’s longest answer' : `maxOutputTokens (${maxOutputTokens})`;
    this.#note(`My answer is cut off: it reached ${limit}.`);
  }

  async #askWithFallback(): Promise<Round> {
    const { tools } = this.#parts.settings;
    try {
      return await this.#ask();
    } catch (error) {
      if (!tools.offered || !takesNoTools(error)) throw error;
      tools.offered = false;
      this.#prepareRetry();
      return await this.#ask();
    }
  }

  /**
   * Prepares a retry after a failed model call. Text of that call is posted, so the model is told to continue from it.
   */
  #prepareRetry(): void {
    this.#endFailedCall('retried');
    this.#floorTools.apart();
    const content = this.#roundText.trim();
    this.#roundText = '';
    if (content !== '') this.#since.push({ role: 'assistant', content }, { role: 'user', content: BROKEN_OFF });
  }

  async #ask(): Promise<Round> {
    const { settings, history, turn } = this.#parts;
    const { model, maxOutputTokens, stepTimeoutMs } = settings;
    const tools = settings.tools.offered ? await this.#toolbox.offer() : null;
    const notes = tools === null ? '' : this.#toolbox.notes;
    const system = [instructionsFor(turn.system, tools !== null), notes].filter((text) => text !== '').join('\n\n');
    const room = turn.longest - system.length - sizeOfTools(turn.task) - this.#toolbox.size - sizeOfAll(history);
    this.#since = trimmed(this.#since, room);
    this.#roundText = '';
    this.#call.begin();
    this.#floorTools.apart();
    const answer = streamText({
      model,
      instructions: { role: 'system', content: system, ...CACHED },
      messages: [...history, ...cached(this.#since, -1)],
      ...(tools !== null && { tools: toolSetOf(tools) }),
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
    const text = this.#roundText;
    this.#roundText = '';
    this.#since.push(...messages.filter(({ role }) => role === 'assistant').map(withObjects));
    return { text, calls };
  }

  #hear(part: TextStreamPart<ToolSet>, calls: readonly ModelCall[]): void {
    switch (part.type) {
      case 'text-delta':
        this.#floorTools.text(part.text);
        return;
      case 'finish-step':
        if (part.finishReason === 'interrupted') throw new BackendError(NO_END, { retryAfterMs: 0 });
        this.#finishReason = part.finishReason;
        this.#call.end(this.#isPass(calls) ? 'passed' : 'answered', part.usage, this.#size);
        return;
      case 'start':
      case 'start-step':
        return; // Sent by the library before the model answers: no sign of work.
      case 'abort':
        throw stepTimedOut(this.#parts.settings.stepTimeoutMs);
      case 'error':
        throw isTimeout(part.error) ? stepTimedOut(this.#parts.settings.stepTimeoutMs) : part.error;
      default:
        this.#parts.report.work(0);
    }
  }

  #isPass(calls: readonly ModelCall[]): boolean {
    return calls.length === 0 ? this.#roundText.trim() === '' : calls.some(({ name }) => name === 'pass');
  }

  #endFailedCall(outcome: 'failed' | 'retried'): void {
    this.#call.end(outcome, null, this.#roundText === '' ? NO_USAGE : this.#size);
  }

  get #size(): CallSize {
    const { history, turn } = this.#parts;
    return { request: turn.system.length + sizeOfAll([...history, ...this.#since]), answer: this.#roundText.length };
  }
}

type Round = { readonly text: string; readonly calls: readonly ModelCall[] };

/**
 * Marks the message at an index as the end of the cached prefix, for providers that cache only up to a mark. A
 * negative index counts from the end.
 */
export function cached(messages: readonly ModelMessage[], at: number): readonly ModelMessage[] {
  const index = at < 0 ? messages.length + at : at;
  return messages.map((message, each) => (each === index ? { ...message, ...CACHED } : message));
}

/** Returns a message's length in characters, with 32 for its role and frame. */
export function sizeOf({ content }: ModelMessage): number {
  return FRAME + (typeof content === 'string' ? content.length : JSON.stringify(content).length);
}

const FRAME = 32;

/** Returns the length of all these messages in characters, by `sizeOf`. */
export function sizeOfAll(messages: readonly ModelMessage[]): number {
  return messages.reduce((sum, message) => sum + sizeOf(message), 0);
}

/**
 * Returns the tools in the form of the `ai` library. The tools have no `execute` function: Conch runs each call itself.
 */
function toolSetOf(offered: Readonly<Record<string, ModelTool>>): ToolSet {
  return Object.fromEntries(Object.entries(offered).map(([name, each]) => [name, toolOf(each)]));
}

function toolOf({ description, ...offered }: ModelTool): ToolSet[string] {
  if ('input' in offered) return tool({ description, inputSchema: offered.input });
  return tool({ description, inputSchema: jsonSchema(offered.schema) });
}

function callOf({ toolCallId: id, toolName: name, input }: TypedToolCall<ToolSet>): ModelCall {
  return { id, key: randomUUID(), name, input };
}

/** Replaces tool inputs that are no objects by `{}`: some providers reject a history with any other input. */
function withObjects(message: ModelMessage): ModelMessage {
  if (message.role !== 'assistant' || typeof message.content === 'string') return message;
  const content = message.content.map((part) =>
    part.type === 'tool-call' && (typeof part.input !== 'object' || part.input === null)
      ? { ...part, input: {} }
      : part,
  );
  return { ...message, content };
}

/**
 * Returns the calls in the messages, one line each, when a tool result lacks its call; else `null`. Some providers
 * refuse such messages.
 */
function callsIfBroken(messages: readonly ModelMessage[]): readonly string[] | null {
  const calls = new Map<string, string>();
  let isBroken = false;
  for (const { content } of messages)
    for (const part of typeof content === 'string' ? [] : content) {
      if (part.type === 'tool-call')
        calls.set(part.toolCallId, `- ${part.toolName} ${excerpt(JSON.stringify(part.input), 200)}`);
      if (part.type !== 'tool-result' || calls.has(part.toolCallId)) continue;
      isBroken = true;
      calls.set(part.toolCallId, `- ${part.toolName}`);
    }
  return isBroken ? [...calls.values()] : null;
}

const CUT_APART =
  'Conch was restarted in this turn, and the conversation about these calls of yours is lost. Check what a call did before you repeat it:';

/**
 * Shortens tool results, oldest first, so that the messages fit into `room` characters if possible. Keeps at least 200
 * characters of each result, and its closing boundary.
 */
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
const NO_END = 'the connection to the model broke: its answer has no end';
const ON_TOOLS =
  'Use the tools only for what they say: several messages (say), a question to people (wait_for) or to another agent (ask), giving the floor to another ' +
  'agent (hand_to), nothing to add (pass).';

/** Asks Anthropic to cache the prompt up to this point. */
const CACHED = { providerOptions: { anthropic: { cacheControl: { type: 'ephemeral' } } } } as const;

/**
 * Maximum number of characters that a request needs for the instructions and the floor tools' definitions. The offered
 * floor tools depend on the turn, so the longest definitions count.
 */
export const OVERHEAD =
  instructionsFor('', true).length +
  Math.max(sizeOfTools(undefined), sizeOfTools({ role: 'primary', isTicket: true }), sizeOfTools({ role: 'reviewer' }));

function sizeOfTools(task: TaskPart): number {
  const shapes = offeredFloorTools(task).map((name) => {
    const { description, input } = FLOOR_TOOLS[name];
    return { type: 'function', function: { name, description, parameters: z.toJSONSchema(input) } };
  });
  return JSON.stringify(shapes).length;
}
