import { randomUUID } from 'node:crypto';
import { generateText } from 'ai';
import type { ModelMessage } from 'ai';
import { systemTimers } from '../../../lib/time.ts';
import type { Timers } from '../../../lib/time.ts';
import type { AgentId } from '../../../turns/floor/settings.ts';
import type { Line } from '../../../turns/view.ts';
import type { AgentBackend, AgentSession, Ending, InjectOutcome, Report, SeatContext, TurnPrompt } from '../backend.ts';
import { failureOf } from './llm-errors.ts';
import { modelOf } from './llm-models.ts';
import type { ModelSettings } from './llm-models.ts';
import { CACHED, LlmGeneration, OVERHEAD, sizeOf } from './llm-generation.ts';
import type { GenerationSettings } from './llm-generation.ts';
import { neutralised } from '../../prompt/prompt.ts';

/** A model behind an API, and what it may spend. */
export type LlmOptions = ModelSettings & {
  /** The longest answer of one step. Absent: the provider's own limit. */
  readonly maxOutputTokens?: number | undefined;
  /** How many times the model is asked in one turn, 8 unless given. */
  readonly maxSteps?: number | undefined;
  /** Whether the model is given the floor's tools as tools; true until its service says that it takes none. */
  readonly tools?: boolean | undefined;
  /** Prices, in US dollars for a million tokens; absent: the cost counts as nothing. */
  readonly inputUsdPerMTok?: number | undefined;
  readonly outputUsdPerMTok?: number | undefined;
  /** A step that takes longer counts as failed. */
  readonly stepTimeoutMs: number;
  readonly timers?: Timers;
};

/** Agents that are a model behind an API: its plain answer is the turn, the floor's tools are its tools. */
export function createLlmBackend(options: LlmOptions): AgentBackend {
  const { inputUsdPerMTok: input = 0, outputUsdPerMTok: output = 0 } = options;
  const tools = { offered: options.tools ?? true };
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
        tools,
        stepTimeoutMs: options.stepTimeoutMs,
        timers: options.timers ?? systemTimers,
        costOf: (inputTokens, outputTokens) => inputTokens * input + outputTokens * output,
      }),
  };
}

class LlmSession implements AgentSession {
  readonly history = 'posted';
  readonly overhead = OVERHEAD;
  readonly #seat: SeatContext;
  readonly #settings: GenerationSettings;
  /** What it was prompted with, and what was posted of its answers, by the parts of the prompts. */
  #history: readonly ModelMessage[] = [];
  #run: LlmGeneration | null = null;

  constructor(seat: SeatContext, settings: GenerationSettings) {
    this.#seat = seat;
    this.#settings = settings;
  }

  async prompt(turn: TurnPrompt, report: Report): Promise<Ending> {
    if (this.#run) throw new Error(`impossible: ${this.#seat.agent} is prompted twice at a time`);
    const { agent: self } = this.#seat;
    const before = this.#history.length;
    this.#history = bounded(this.#history, turn);
    const isGrown = before > 0 && this.#history.length === before + turn.parts.length;
    const history = isGrown ? cached(this.#history, before - 1) : this.#history;
    const run = new LlmGeneration({ settings: this.#settings, self, turn, report, history: cached(history, -1) });
    this.#run = run;
    try {
      return await run.perform();
    } finally {
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

/**
 * The conversation with what this prompt adds. One that is too long for a request is cut at once to half of what there is
 * room for, from the oldest on, so that for many prompts to come each begins as the one before.
 */
function bounded(before: readonly ModelMessage[], { parts, system, longest }: TurnPrompt): readonly ModelMessage[] {
  const added = parts.map(({ own, text }): ModelMessage => ({ role: own ? 'assistant' : 'user', content: text }));
  const size = (messages: readonly ModelMessage[]) => messages.reduce((sum, message) => sum + sizeOf(message), 0);
  // A conversation that the agent itself began: providers want a user's message first.
  if (before.length === 0) return [...(added[0]?.role === 'assistant' ? [HEAD] : []), ...added];
  const room = longest - system.length - OVERHEAD - size(added);
  if (size(before) <= room) return [...before, ...added];
  let kept = Math.floor(room / 2) - sizeOf(HEAD);
  const first = before.findLastIndex((message) => (kept -= sizeOf(message)) < 0);
  return [HEAD, ...before.slice(first + 1), ...added];
}

/** The conversation with a mark for providers that keep what they have read only up to a mark. */
function cached(messages: readonly ModelMessage[], at: number): readonly ModelMessage[] {
  const index = at < 0 ? messages.length + at : at;
  return messages.map((message, each) => (each === index ? { ...message, ...CACHED } : message));
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
const HEAD: ModelMessage = { role: 'user', content: '(what was written before this was cut)' };
