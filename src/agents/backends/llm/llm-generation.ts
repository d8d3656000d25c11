import { experimental_createSteering as createSteering, isStepCount, streamText, tool } from 'ai';
import type { LanguageModel, LanguageModelUsage, ModelMessage, TextStreamPart, ToolSet } from 'ai';
import { z } from 'zod';
import type { AgentId } from '../../../turns/floor/settings.ts';
import { BackendError } from '../backend.ts';
import type { Ending, InjectOutcome, Report, TurnPrompt } from '../backend.ts';
import { failureOf, stepTimedOut } from './llm-errors.ts';
import { FLOOR_TOOLS, FloorTools } from '../../tools/floor-tools.ts';
import type { FloorToolName } from '../../tools/floor-tools.ts';

/** How a model is asked. */
export type GenerationSettings = {
  readonly model: LanguageModel;
  /** As the configuration names it. */
  readonly modelName: string;
  readonly maxOutputTokens: number | undefined;
  readonly maxSteps: number;
  /** Whether it may use the tools of the floor. */
  readonly tools: boolean;
  readonly stepTimeoutMs: number;
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
  readonly #steering = createSteering();
  readonly #abort = new AbortController();
  readonly #stopped = Promise.withResolvers<void>();
  readonly #over = Promise.withResolvers<void>();
  /** The characters of all requests' beginning: the conversation, and what came in the middle of it. */
  #asked: number;
  #stepWritten = 0;
  #inStep = true;
  #finishReason = 'stop';

  constructor(parts: GenerationParts) {
    this.#parts = parts;
    const { history, report, self, turn } = parts;
    this.#asked = history.reduce((sum, message) => sum + sizeOf(message), turn.system.length);
    this.#floorTools = new FloorTools(report, self, turn.roster);
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
      await Promise.race([this.#listen(), this.#stopped.promise]);
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

  async #listen(): Promise<void> {
    const { settings, history, turn } = this.#parts;
    const { model, maxOutputTokens, maxSteps, tools, stepTimeoutMs } = settings;
    const answer = streamText({
      model,
      instructions: { role: 'system', content: instructionsFor(turn.system, tools), ...CACHED },
      messages: [...history],
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
        this.#asked += sizeOf(part.message);
        return;
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
    this.#tell(Math.ceil(this.#asked / 4), Math.ceil(this.#stepWritten / 4));
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
const ON_TOOLS =
  'Use the tools only for what they say: several messages (say), a question to people (wait_for), giving the floor to another ' +
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
