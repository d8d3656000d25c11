import type { LanguageModelUsage } from 'ai';
import type { Instant } from '../../../lib/time.ts';
import type { Report, Usage } from '../backend.ts';

/** What calls are told under, and what they cost. */
export type LlmPrices = {
  readonly provider: string;
  /** As the configuration names the model. */
  readonly modelName: string;
  readonly prices: ModelPrices;
};

/** In US dollars for a million tokens: of input, of what of it the provider had kept, of what of it the provider keeps anew, and of output. */
export type ModelPrices = {
  readonly inputUsdPerMTok?: number | undefined;
  readonly outputUsdPerMTok?: number | undefined;
  /** As all input unless told. */
  readonly cachedInputUsdPerMTok?: number | undefined;
  /** As all input unless told. */
  readonly cacheWriteUsdPerMTok?: number | undefined;
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
    const { provider, modelName: model, prices } = this.#prices;
    const isCounted = counted?.inputTokens !== undefined && counted.outputTokens !== undefined;
    const input = (isCounted ? counted.inputTokens : undefined) ?? Math.ceil(asked / 4);
    const output = (isCounted ? counted.outputTokens : undefined) ?? Math.ceil(written / 4);
    const { cacheReadTokens: cached = null, cacheWriteTokens: kept } = counted?.inputTokenDetails ?? {};
    const ofCache = isCounted ? { read: cached ?? 0, kept: kept ?? 0 } : { read: 0, kept: 0 };
    const cost = costOf({ input, output, ...ofCache }, prices);
    const source = cost === null ? 'unpriced' : isCounted ? 'computed' : 'estimated';
    const use = { backend: `llm/${provider}`, model, input, output, cached, source, outcome, ms } as const;
    this.#report.usage({ tokens: input + output, costMicros: Math.round(cost ?? 0), use });
  }
}

type Counted = { readonly input: number; readonly output: number; readonly read: number; readonly kept: number };

/** In micro-dollars; `null`: the model has no price. */
function costOf({ input, output, read, kept }: Counted, prices: ModelPrices): number | null {
  const { inputUsdPerMTok: plain, outputUsdPerMTok: written } = prices;
  if (plain === undefined || written === undefined) return null;
  const { cachedInputUsdPerMTok = plain, cacheWriteUsdPerMTok = plain } = prices;
  const rest = Math.max(0, input - read - kept);
  return rest * plain + read * cachedInputUsdPerMTok + kept * cacheWriteUsdPerMTok + output * written;
}
