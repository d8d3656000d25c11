import { generateText } from 'ai';
import type { ModelMessage } from 'ai';
import { systemTimers } from '../../../lib/time.ts';
import type { Timers } from '../../../lib/time.ts';
import type { AgentId } from '../../../turns/floor/settings.ts';
import type { Line } from '../../../turns/view.ts';
import type { AgentBackend, AgentSession, Ending, InjectOutcome, Report, SeatContext, TurnPrompt } from '../backend.ts';
import { failureOf, modelOf, LlmCall, NO_USAGE } from './llm-models.ts';
import { sessionTools } from '../../mcp/session-tools.ts';
import type { ServerTools, SessionTools } from '../../mcp/session-tools.ts';
import { fenced } from '../../tools/toolbox.ts';
import type { ModelSettings, ModelPrices } from './llm-models.ts';
import { LlmGeneration, OVERHEAD, cached, sizeOf, sizeOfAll } from './llm-generation.ts';
import type { GenerationSettings } from './llm-generation.ts';
import { injectedPrompt, quotedLines } from '../../prompt/prompt.ts';

/** Settings of a model behind an API, with its prices and limits. */
export type LlmOptions = ModelSettings &
  ModelPrices & {
    /** Limit of output tokens for one step. Default: the provider's limit. */
    readonly maxOutputTokens?: number | undefined;
    /** Maximum number of the model's answers in a generation that calls no MCP server's tool. Default: 8. */
    readonly maxSteps?: number | undefined;
    /** The tools of MCP servers. Default: only the floor's tools. */
    readonly serverTools?: ServerTools | undefined;
    /** Whether the model accepts images returned by tools. Default: false. */
    readonly images?: boolean | undefined;
    /** Whether any tools are offered to the model. Default: true. */
    readonly tools?: boolean | undefined;
    /** Timeout of one step in milliseconds. */
    readonly stepTimeoutMs: number;
    readonly timers?: Timers;
  };

/** Runs agents that are a model behind an API. */
export function createLlmBackend(options: LlmOptions): AgentBackend {
  const tools = { offered: options.tools ?? true };
  return {
    kind: 'llm',
    needsSignal: false,
    promisesToAsk: true,
    settable: ['model', 'steps', 'tools'],
    open: async (seat) => {
      const { model = options.model } = seat;
      return new LlmSession(toolsOf(seat, options), seat, {
        model: modelOf({ ...options, model }),
        modelName: model,
        maxOutputTokens: options.maxOutputTokens,
        maxSteps: options.maxSteps ?? STEPS,
        tools,
        stepTimeoutMs: options.stepTimeoutMs,
        timers: options.timers ?? systemTimers,
        provider: options.provider,
        // Prices are known only for the configured model.
        prices: model === options.model ? options : {},
      });
    },
  };
}

class LlmSession implements AgentSession {
  readonly history = 'posted';
  readonly #seat: SeatContext;
  readonly #tools: SessionTools | null;
  readonly #settings: GenerationSettings;
  /** The conversation as messages of the model: the `parts` of all prompts, without those that were cut. */
  #history: readonly ModelMessage[] = [];
  #run: LlmGeneration | null = null;
  #callSummary = '';
  #definitions = 0;

  constructor(tools: SessionTools | null, seat: SeatContext, settings: GenerationSettings) {
    this.#tools = tools;
    this.#seat = seat;
    this.#settings = settings;
  }

  get overhead(): number {
    return OVERHEAD + this.#definitions;
  }

  async prompt(turn: TurnPrompt, report: Report): Promise<Ending> {
    if (this.#run) throw new Error(`impossible: ${this.#seat.agent} is prompted twice at a time`);
    const before = this.#history.length;
    this.#history = bounded(this.#history, turn, this.overhead);
    const isGrown = before > 0 && this.#history.length === before + turn.parts.length;
    const history = isGrown ? cached(this.#history, before - 1) : this.#history;
    if (turn.reason === 'grant') this.#callSummary = '';
    const run = new LlmGeneration({
      settings: this.#settings,
      seat: this.#seat,
      tools: this.#tools,
      turn,
      report,
      history: cached([...history.slice(0, -1), ...this.#recalled(), ...history.slice(-1)], -1),
      resumes: before === 0 && turn.reason === 'resume',
    });
    this.#run = run;
    try {
      return await run.perform();
    } finally {
      this.#run = null;
      this.#definitions = run.definitions;
      this.#callSummary = [this.#callSummary, run.summary]
        .filter((text) => text !== '')
        .join('\n')
        .slice(-LONGEST_RECALL);
    }
  }

  #recalled(): readonly ModelMessage[] {
    if (this.#callSummary === '') return [];
    return [
      { role: 'user', content: fenced('Your tool calls earlier in this turn, with their results', this.#callSummary) },
    ];
  }

  async inject(message: Line, observed: boolean): Promise<InjectOutcome> {
    return this.#run === null ? 'next-prompt' : await this.#run.inject(injectedPrompt(message, observed));
  }

  async interrupt(): Promise<void> {
    const run = this.#run;
    run?.stop();
    await run?.over;
  }

  async choose(
    candidates: readonly AgentId[],
    lines: readonly Line[],
    report: Pick<Report, 'usage' | 'now'>,
  ): Promise<AgentId | null> {
    const { model, modelName, stepTimeoutMs } = this.#settings;
    const question = `Who should speak next? Answer with one id of these and nothing else: ${candidates.join(', ')}`;
    const prompt = `${quotedLines(lines)}\n${question}`;
    const instructions = `You are ${this.#seat.name} and moderate a chat. ${this.#seat.persona}`.trim();
    const call = new LlmCall(this.#settings, report);
    call.begin();
    try {
      const { text, usage } = await generateText({
        model,
        instructions,
        prompt,
        maxRetries: 0,
        timeout: stepTimeoutMs,
      });
      call.end('answered', usage, { request: prompt.length, answer: text.length });
      return firstNamed(text, candidates);
    } catch (error) {
      call.end('failed', null, NO_USAGE);
      throw failureOf(error, modelName);
    }
  }

  /** Always resolves: no connection is open between steps, and each step has a timeout. */
  async ping(): Promise<void> {}

  async close(): Promise<void> {
    await this.interrupt();
    await this.#tools?.servers.close();
  }
}

/**
 * Returns the conversation with the new parts. When the earlier messages do not fit, the oldest are dropped until the
 * others fill at most half of their room. Dropping this many at once keeps the start the same over many prompts, so
 * provider caches stay valid.
 */
function bounded(
  before: readonly ModelMessage[],
  { parts, system, longest }: TurnPrompt,
  overhead: number,
): readonly ModelMessage[] {
  const added = parts.map(({ own, text }): ModelMessage => ({ role: own ? 'assistant' : 'user', content: text }));
  // Some providers require that a user's message comes first.
  if (before.length === 0) return [...(added[0]?.role === 'assistant' ? [HEAD] : []), ...added];
  const room = longest - system.length - overhead - sizeOfAll(added);
  if (sizeOfAll(before) <= room) return [...before, ...added];
  let kept = Math.floor(room / 2) - sizeOf(HEAD);
  const first = before.findLastIndex((message) => (kept -= sizeOf(message)) < 0);
  return [HEAD, ...before.slice(first + 1), ...added];
}

function firstNamed(text: string, candidates: readonly AgentId[]): AgentId | null {
  const words = text.toLowerCase().match(/[\p{L}\p{N}_-]+/gu) ?? [];
  const found = words.map((word) => candidates.find((id) => id.toLowerCase() === word));
  return found.find((id) => id !== undefined) ?? null;
}

function toolsOf(seat: SeatContext, options: LlmOptions): SessionTools | null {
  const { serverTools, images = false, tools = true } = options;
  return serverTools === undefined || !tools ? null : sessionTools(seat, serverTools, images);
}

const STEPS = 8;
const LONGEST_RECALL = 8_000;
const HEAD: ModelMessage = { role: 'user', content: '(what was written before this was cut)' };
