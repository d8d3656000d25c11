import { experimental_createSteering as createSteering, isStepCount, streamText, tool } from 'ai';
import type { LanguageModel, LanguageModelUsage, ModelMessage, TextStreamPart, ToolSet } from 'ai';
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
  /** The conversation before this prompt. */
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
  readonly #messages: ModelMessage[];
  /** Written since the last message of somebody else. */
  #written = '';
  #stepWritten = 0;
  #inStep = true;
  #finishReason = 'stop';

  constructor(parts: GenerationParts) {
    this.#parts = parts;
    this.#messages = [{ role: 'user', content: parts.turn.text }];
    const { report } = parts;
    this.#floorTools = new FloorTools(
      {
        ...report,
        text: (chunk) => {
          this.#written += chunk;
          report.text(chunk);
        },
        flush: () => {
          this.#written += '\n\n';
          report.flush();
        },
      },
      parts.self,
      parts.turn.roster,
    );
  }

  /** Resolves when the generation is over. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  /** What was said in this generation, by whom, as far as it came; plain text only, so that any provider takes it back. */
  get messages(): readonly ModelMessage[] {
    const written = this.#written.trim();
    return written === '' ? this.#messages : [...this.#messages, { role: 'assistant', content: written }];
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
    const { settings, history } = this.#parts;
    const { model, maxOutputTokens, maxSteps, tools, stepTimeoutMs } = settings;
    const answer = streamText({
      model,
      instructions: tools ? `${INSTRUCTIONS} ${ON_TOOLS}` : INSTRUCTIONS,
      messages: [...history, ...this.#messages],
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
        this.#messages.splice(0, Infinity, ...this.messages, part.message);
        this.#written = '';
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
    const asked = [...this.#parts.history, ...this.#messages].reduce((sum, message) => sum + sizeOf(message), 0);
    this.#tell(Math.ceil(asked / 4), Math.ceil(this.#stepWritten / 4));
  }

  #tell(inputTokens: number, outputTokens: number): void {
    const costMicros = Math.round(this.#parts.settings.costOf(inputTokens, outputTokens));
    this.#parts.report.usage({ tokens: inputTokens + outputTokens, costMicros });
  }
}

/** How many characters a message has. */
export function sizeOf({ content }: ModelMessage): number {
  return typeof content === 'string' ? content.length : JSON.stringify(content).length;
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
