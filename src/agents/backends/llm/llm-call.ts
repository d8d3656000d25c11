import type { LanguageModelUsage } from 'ai';
import type { Instant } from '../../../lib/time.ts';
import type { Report, Usage } from '../backend.ts';

/** What calls are told under, and what they cost. */
export type LlmPrices = {
  readonly provider: string;
  /** As the configuration names the model. */
  readonly modelName: string;
  /** In micro-dollars for a number of tokens; `null`: the model has no price. */
  readonly costOf: (inputTokens: number, outputTokens: number) => number | null;
};

/** How much was asked and written, in characters, where nobody has counted tokens. */
export type CallSize = { readonly asked: number; readonly written: number };

/** Of a request that was refused. */
export const NOTHING: CallSize = { asked: 0, written: 0 };

/** Tells of each call of a model once, however it ended. */
export class LlmCall {
  readonly #prices: LlmPrices;
  readonly #report: Pick<Report, 'usage' | 'now'>;
  /** `null`: the model is not at it. */
  #beganAt: Instant | null = null;

  constructor(prices: LlmPrices, report: Pick<Report, 'usage' | 'now'>) {
    this.#prices = prices;
    this.#report = report;
  }

  begin(): void {
    this.#beganAt = this.#report.now();
  }

  /** It is over, if it was not before. What its provider does not count is estimated: four characters a token. */
  end(outcome: Usage['use']['outcome'], counted: LanguageModelUsage | null, { asked, written }: CallSize): void {
    if (this.#beganAt === null) return;
    const ms = this.#report.now() - this.#beganAt;
    this.#beganAt = null;
    const { provider, modelName: model, costOf } = this.#prices;
    const isCounted = counted?.inputTokens !== undefined && counted.outputTokens !== undefined;
    const input = (isCounted ? counted.inputTokens : undefined) ?? Math.ceil(asked / 4);
    const output = (isCounted ? counted.outputTokens : undefined) ?? Math.ceil(written / 4);
    const cached = counted?.inputTokenDetails.cacheReadTokens ?? null;
    const cost = costOf(input, output);
    const source = cost === null ? 'unpriced' : isCounted ? 'computed' : 'estimated';
    const use = { backend: `llm/${provider}`, model, input, output, cached, source, outcome, ms } as const;
    this.#report.usage({ tokens: input + output, costMicros: Math.round(cost ?? 0), use });
  }
}
