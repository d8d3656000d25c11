import { randomUUID } from 'node:crypto';
import { generateText } from 'ai';
import type { ModelMessage } from 'ai';
import type { AgentId } from '../../../turns/floor/settings.ts';
import type { Line } from '../../../turns/view.ts';
import type { AgentBackend, AgentSession, Ending, InjectOutcome, Report, SeatContext, TurnPrompt } from '../backend.ts';
import { failureOf } from './llm-errors.ts';
import { modelOf } from './llm-models.ts';
import type { ModelSettings } from './llm-models.ts';
import { LlmGeneration, sizeOf } from './llm-generation.ts';
import type { GenerationSettings } from './llm-generation.ts';
import { neutralised } from '../../prompt/prompt.ts';

/** A model behind an API, and what it may spend. */
export type LlmOptions = ModelSettings & {
  /** The longest answer of one step. Absent: the provider's own limit. */
  readonly maxOutputTokens?: number | undefined;
  /** How many times the model is asked in one turn, 8 unless given. */
  readonly maxSteps?: number | undefined;
  /** Whether the model is given the floor's tools as tools, true unless given. Some small models take no tools. */
  readonly tools?: boolean | undefined;
  /** Prices, in US dollars for a million tokens; absent: the cost counts as nothing. */
  readonly inputUsdPerMTok?: number | undefined;
  readonly outputUsdPerMTok?: number | undefined;
  /** A step that takes longer counts as failed. */
  readonly stepTimeoutMs: number;
};

/** Agents that are a model behind an API: its plain answer is the turn, the floor's tools are its tools. */
export function createLlmBackend(options: LlmOptions): AgentBackend {
  const { inputUsdPerMTok: input = 0, outputUsdPerMTok: output = 0 } = options;
  return {
    kind: 'llm',
    needsSignal: false,
    promisesToAsk: true,
    open: async (seat) =>
      new LlmSession(seat, {
        model: modelOf(options),
        modelName: options.model,
        maxOutputTokens: options.maxOutputTokens,
        maxSteps: options.maxSteps ?? STEPS,
        tools: options.tools ?? true,
        stepTimeoutMs: options.stepTimeoutMs,
        costOf: (inputTokens, outputTokens) => inputTokens * input + outputTokens * output,
      }),
  };
}

class LlmSession implements AgentSession {
  readonly #seat: SeatContext;
  readonly #settings: GenerationSettings;
  /** What was prompted and said before, one entry for each prompt. */
  #history: readonly (readonly ModelMessage[])[] = [];
  #run: LlmGeneration | null = null;

  constructor(seat: SeatContext, settings: GenerationSettings) {
    this.#seat = seat;
    this.#settings = settings;
  }

  async prompt(turn: TurnPrompt, report: Report): Promise<Ending> {
    if (this.#run) throw new Error(`impossible: ${this.#seat.agent} is prompted twice at a time`);
    const { agent: self } = this.#seat;
    const run = new LlmGeneration({ settings: this.#settings, self, turn, report, history: this.#history.flat() });
    this.#run = run;
    try {
      return await run.perform();
    } finally {
      this.#history = bounded([...this.#history, run.messages]);
      this.#run = null;
    }
  }

  async inject(message: Line, observed: boolean): Promise<InjectOutcome> {
    return this.#run === null ? 'next-prompt' : await this.#run.inject(wordsFor(message, observed));
  }

  async interrupt(): Promise<void> {
    const run = this.#run;
    run?.stop();
    await run?.over;
  }

  async choose(candidates: readonly AgentId[], lines: readonly Line[]): Promise<AgentId | null> {
    const { model, modelName, stepTimeoutMs } = this.#settings;
    const boundary = randomUUID();
    const talk = lines.map(
      ({ author, text }) => `[from ${author.name} (${author.id})]\n${neutralised(text, boundary)}`,
    );
    const question = `Who should speak next? Answer with one id of these and nothing else: ${candidates.join(', ')}`;
    const prompt = [`=== ${boundary} ===`, ...talk, `=== end ${boundary} ===`, question].join('\n');
    const instructions = `You are ${this.#seat.name} and moderate a chat. ${this.#seat.persona}`.trim();
    try {
      const { text } = await generateText({ model, instructions, prompt, maxRetries: 0, timeout: stepTimeoutMs });
      return named(text, candidates);
    } catch (error) {
      throw failureOf(error, modelName);
    }
  }

  /** There is nothing between two steps that could be gone; a step that hangs has its own limit. */
  async ping(): Promise<void> {}

  async close(): Promise<void> {
    await this.interrupt();
  }
}

/** The newest exchanges whose sizes add up to no more than the limit; the last one is kept in any case. */
function bounded(history: readonly (readonly ModelMessage[])[]): readonly (readonly ModelMessage[])[] {
  let room = HISTORY_CHARACTERS;
  const sizes = history.map((exchange) => exchange.reduce((sum, message) => sum + sizeOf(message), 0));
  const first = sizes.findLastIndex((size) => (room -= size) < 0);
  return history.slice(Math.min(first + 1, history.length - 1));
}

/** A message in the middle of a turn, attributed by the host as in a prompt. */
function wordsFor(line: Line, observed: boolean): string {
  const { author, change, attachments } = line;
  const boundary = randomUUID();
  const body = change === 'deleted' ? '(deleted)' : neutralised(line.text, boundary);
  const files = attachments.map(({ name, url }) =>
    neutralised(`(attached: ${name}, ${url})`.replace(/\s+/g, ' '), boundary),
  );
  const what = change === null ? 'wrote' : { edited: 'edited a message', deleted: 'deleted a message' }[change];
  const name = author.name.replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ');
  const use = observed ? 'It is for you to know, not addressed to you.' : 'Take it into account now.';
  const head = `While you were working, ${name} (${author.id}) ${what}, between the two lines with the boundary. ${use}`;
  return [head, `=== ${boundary} ===`, body, ...files, `=== end ${boundary} ===`].join('\n');
}

/** The candidate that a text names; the one named first when it names several. */
function named(text: string, candidates: readonly AgentId[]): AgentId | null {
  const words = text.toLowerCase().match(/[\p{L}\p{N}_-]+/gu) ?? [];
  const found = words.map((word) => candidates.find((id) => id.toLowerCase() === word));
  return found.find((id) => id !== undefined) ?? null;
}

const STEPS = 8;
const HISTORY_CHARACTERS = 100_000;
