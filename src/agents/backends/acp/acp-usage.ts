import type { Instant } from '../../../lib/time.ts';
import type { Report, Usage } from '../backend.ts';
import type { NewSession, PromptUsage, Update } from './acp-wire.ts';

/**
 * What one session has used, as its agent tells it: the tokens of a turn at its end, or how full the session is, and what the whole
 * session has cost.
 */
export class AcpUsage {
  readonly #backend: string;
  #model: string | null;
  #counted: PromptUsage | null = null;
  /** In US dollars; `null`: never told. */
  #cost: number | null = null;
  #costBefore = 0;
  #used = 0;
  #usedBefore = 0;
  #beganAt: Instant = 0;

  constructor(backend: string, { models, configOptions }: Pick<NewSession, 'models' | 'configOptions'>) {
    this.#backend = backend;
    this.#model = models?.currentModelId ?? modelIn(configOptions);
  }

  begin(report: Pick<Report, 'now'>): void {
    this.#beganAt = report.now();
    this.#counted = null;
  }

  /** What an update says of it. */
  update(update: Update): void {
    if (update.sessionUpdate === 'config_option_update' && 'configOptions' in update)
      this.#model = modelIn(update.configOptions) ?? this.#model;
    if (update.sessionUpdate !== 'usage_update' || !('used' in update)) return;
    this.#used = update.used;
    if (update.cost?.currency === 'USD') this.#cost = update.cost.amount;
  }

  /** What the answer to a prompt says; a turn may take several. */
  count(usage: PromptUsage | null | undefined): void {
    if (usage === null || usage === undefined) return;
    const before = this.#counted;
    const sum = (one: number | null | undefined, other: number | null | undefined): number | null =>
      one == null && other == null ? null : (one ?? 0) + (other ?? 0);
    this.#counted = {
      totalTokens: usage.totalTokens + (before?.totalTokens ?? 0),
      inputTokens: sum(usage.inputTokens, before?.inputTokens),
      outputTokens: sum(usage.outputTokens, before?.outputTokens),
      cachedReadTokens: sum(usage.cachedReadTokens, before?.cachedReadTokens),
    };
  }

  /** Tells of the turn that is over, if its agent did. */
  tell(report: Pick<Report, 'usage' | 'now'>, outcome: Usage['use']['outcome']): void {
    const told = this.#counted?.totalTokens ?? 0;
    const tokens = Math.round(told > 0 ? told : Math.max(0, this.#used - this.#usedBefore));
    const costMicros = Math.max(0, Math.round(((this.#cost ?? 0) - this.#costBefore) * 1_000_000));
    this.#usedBefore = this.#used;
    this.#costBefore = this.#cost ?? 0;
    if (tokens === 0 && costMicros === 0) return;
    const {
      inputTokens: input = null,
      outputTokens: output = null,
      cachedReadTokens: cached = null,
    } = this.#counted ?? {};
    const source = this.#cost === null ? 'unpriced' : 'reported';
    const ms = report.now() - this.#beganAt;
    const use = { backend: this.#backend, model: this.#model, input, output, cached, source, outcome, ms } as const;
    report.usage({ tokens, costMicros, use });
  }
}

function modelIn(options: NewSession['configOptions']): string | null {
  return options.find(({ category }) => category === 'model')?.currentValue ?? null;
}
