import { experimental_createSteering as createSteering, isStepCount, streamText, tool } from 'ai';
import type { LanguageModel, LanguageModelUsage, ModelMessage, TextStreamPart, ToolSet } from 'ai';
import { z } from 'zod';
import type { AgentId } from '../../../turns/floor/settings.ts';
import { BackendError } from '../backend.ts';
import type { Ending, InjectOutcome, Report, TurnPrompt } from '../backend.ts';
import type { Timers } from '../../../lib/time.ts';
import { insist } from '../insist.ts';
import { failureOf, stepTimedOut, takesNoTools } from './llm-errors.ts';
import { FLOOR_TOOLS, FloorTools } from '../../tools/floor-tools.ts';
import type { FloorToolName } from '../../tools/floor-tools.ts';

/** How a model is asked. */
export type GenerationSettings = {
  readonly model: LanguageModel;
  /** As the configuration names it. */
  readonly modelName: string;
  readonly maxOutputTokens: number | undefined;
  readonly maxSteps: number;
  /** Whether it may use the tools of the floor; set to false once its service has said that it takes none. */
  readonly tools: { offered: boolean };
  readonly stepTimeoutMs: number;
  readonly timers: Timers;
  /** In micro-dollars for a number of tokens. */
  readonly costOf: (inputTokens: number, outputTokens: number) => number;
};

/** What one generation is about. */
export type GenerationParts = {
  readonly settings: GenerationSettings;
  readonly self: AgentId;
  readonly turn: TurnPrompt;
  readonly report: Report;
  /** The conversation, with this prompt. */
  readonly history: readonly ModelMessage[];
};

/** One generation of a model: steps of text and floor tools, until it ends or is stopped. */
export class LlmGeneration {
  readonly #parts: GenerationParts;
  readonly #floorTools: FloorTools;
  #steering = createSteering();
  readonly #abort = new AbortController();
  readonly #stopped = Promise.withResolvers<void>();
  readonly #over = Promise.withResolvers<void>();
  /** What came after the prompt and is to stand in a request that begins anew. */
  readonly #since: ModelMessage[] = [];
  /** Written since then. */
  #written = '';
  #stepWritten = 0;
  #inStep = true;
  #finishReason = 'stop';

  constructor(parts: GenerationParts) {
    this.#parts = parts;
    const { report, self, turn } = parts;
    const text = (chunk: string) => {
      this.#written += chunk;
      report.text(chunk);
    };
    this.#floorTools = new FloorTools({ ...report, text }, self, turn.roster);
  }

  /** Resolves when the generation is over. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  /** Resolves with what the model truly saw. */
  async inject(text: string): Promise<InjectOutcome> {
    const steered = this.#steering.steer(text).then(({ type }) => type === 'delivered');
    const delivered = await Promise.race([steered, this.over.then(() => false)]);
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
      if (this.#abort.signal.aborted) {
        if (this.#inStep) this.#spendEstimate();
        return { how: 'interrupted' };
      }
      return this.#ending();
    } catch (error) {
      if (this.#abort.signal.aborted) return { how: 'interrupted' };
      this.#abort.abort();
      throw failureOf(error, this.#parts.settings.modelName);
    } finally {
      this.#over.resolve();
    }
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
    await insist(() => this.#listenAsTaken(), {
      report,
      timers: settings.timers,
      signal: this.#abort.signal,
      failureOf: (error) => failureOf(error, settings.modelName),
      failed: () => this.#breakOff(),
    });
  }

  /** A model that takes no tools is asked once more, and from now on, without them. */
  async #listenAsTaken(): Promise<void> {
    const { tools } = this.#parts.settings;
    try {
      await this.#listen();
    } catch (error) {
      if (!tools.offered || !takesNoTools(error)) throw error;
      tools.offered = false;
      this.#breakOff();
      await this.#listen();
    }
  }

  /** The model is asked anew; it goes on from what it has written, which is said. */
  #breakOff(): void {
    if (this.#inStep && this.#stepWritten > 0) this.#spendEstimate();
    this.#steering = createSteering();
    this.#floorTools.apart();
    this.#keepWritten();
    if (this.#since.at(-1)?.role === 'assistant') this.#since.push({ role: 'user', content: BROKEN_OFF });
  }

  #keepWritten(): void {
    const content = this.#written.trim();
    this.#written = '';
    if (content !== '') this.#since.push({ role: 'assistant', content });
  }

  async #listen(): Promise<void> {
    const { settings, history, turn } = this.#parts;
    const { model, maxOutputTokens, maxSteps, stepTimeoutMs } = settings;
    const tools = settings.tools.offered;
    const answer = streamText({
      model,
      instructions: { role: 'system', content: instructionsFor(turn.system, tools), ...CACHED },
      messages: [...history, ...this.#since],
      ...(tools && { tools: this.#tools() }),
      toolCallConcurrency: 1,
      stopWhen: [isStepCount(maxSteps), () => this.#floorTools.over],
      maxRetries: 0,
      abortSignal: this.#abort.signal,
      timeout: { stepMs: stepTimeoutMs },
      experimental_steering: this.#steering,
      onError: () => {},
      ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    });
    for await (const part of answer.stream) {
      if (this.#abort.signal.aborted) return;
      this.#hear(part);
    }
  }

  #hear(part: TextStreamPart<ToolSet>): void {
    switch (part.type) {
      case 'text-delta':
        this.#stepWritten += part.text.length;
        this.#floorTools.text(part.text);
        return;
      case 'start-step':
        this.#inStep = true;
        this.#stepWritten = 0;
        this.#floorTools.apart();
        return;
      case 'finish-step':
        this.#inStep = false;
        this.#finishReason = part.finishReason;
        this.#spend(part.usage);
        return;
      case 'steering-message':
        this.#keepWritten();
        this.#since.push(part.message);
        return;
      case 'start':
        return; // Of the library, before the model has answered.
      case 'abort':
        throw stepTimedOut(this.#parts.settings.stepTimeoutMs);
      case 'error':
        throw isTimeout(part.error) ? stepTimedOut(this.#parts.settings.stepTimeoutMs) : part.error;
      default:
        this.#parts.report.work(0);
    }
  }

  #tools(): ToolSet {
    const names = Object.keys(FLOOR_TOOLS) as FloorToolName[];
    const execute = (name: FloorToolName, input: unknown) =>
      this.#abort.signal.aborted ? 'Your turn was interrupted.' : this.#floorTools.apply(name, input);
    return Object.fromEntries(
      names.map((name) => [
        name,
        tool({
          description: FLOOR_TOOLS[name].description,
          inputSchema: FLOOR_TOOLS[name].input,
          execute: (input: unknown) => execute(name, input),
        }),
      ]),
    );
  }

  #spend({ inputTokens, outputTokens }: LanguageModelUsage): void {
    if (inputTokens === undefined || outputTokens === undefined) this.#spendEstimate();
    else this.#tell(inputTokens, outputTokens);
  }

  /** A step that was cut, or a provider that does not count: four characters a token. */
  #spendEstimate(): void {
    const { history, turn } = this.#parts;
    const asked = [...history, ...this.#since].reduce((sum, message) => sum + sizeOf(message), turn.system.length);
    this.#tell(Math.ceil(asked / 4), Math.ceil(this.#stepWritten / 4));
  }

  #tell(inputTokens: number, outputTokens: number): void {
    const costMicros = Math.round(this.#parts.settings.costOf(inputTokens, outputTokens));
    this.#parts.report.usage({ tokens: inputTokens + outputTokens, costMicros });
  }
}

/** How many characters a message has, with what says whose it is. */
export function sizeOf({ content }: ModelMessage): number {
  return FRAME + (typeof content === 'string' ? content.length : JSON.stringify(content).length);
}

const FRAME = 32;

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
export const CACHED = { providerOptions: { anthropic: { cacheControl: { type: 'ephemeral' } } } } as const;

/** How many characters a request has besides its prompt and the conversation: the instructions and the tools. */
export const OVERHEAD = instructionsFor('', true).length + sizeOfTools();

function sizeOfTools(): number {
  const shapes = Object.entries(FLOOR_TOOLS).map(([name, { description, input }]) => {
    return { type: 'function', function: { name, description, parameters: z.toJSONSchema(input) } };
  });
  return JSON.stringify(shapes).length;
}
