import { z } from 'zod';
import { ERASED_TEXT } from '../../engine/reading.ts';
import type { AgentId } from '../../turns/floor/settings.ts';
import { parsedJson } from '../../lib/defined.ts';

const decisionSchema = z.strictObject({
  digest: z.string(),
  choice: z.enum(['trusted', 'left']),
  /** The id of the person who decided. */
  by: z.string(),
  at: z.number(),
  folder: z.string(),
  files: z.array(z.string()).readonly(),
});

/**
 * An operator's decision about the files of a folder, for one agent or all workers of a crew. `left`: not trusted, and
 * not asked again.
 */
export type TrustDecision = Readonly<z.infer<typeof decisionSchema>>;

/** Where decisions are stored. */
export type TrustStore = {
  recall(owner: string, name: string): string | null;
  remember(owner: string, name: string, text: string): Promise<void>;
};

/** The decisions about agents' folders, one for each digest. `agent`: the agent's id, or for a worker its crew's id. */
export class TrustBook {
  readonly #store: TrustStore;

  constructor(store: TrustStore) {
    this.#store = store;
  }

  /** The decisions for an agent, oldest first. An entry that cannot be parsed counts as empty. */
  of(agent: AgentId): readonly TrustDecision[] {
    const stored = this.#store.recall(OWNER, agent);
    return stored === null ? [] : readDecisions(stored);
  }

  find(agent: AgentId, digest: string): TrustDecision | null {
    return this.of(agent).find((decision) => decision.digest === digest) ?? null;
  }

  /** Stores a decision, in place of an earlier one about the same digest. Resolves once the decision is durable. */
  async record(agent: AgentId, decision: TrustDecision): Promise<void> {
    const others = this.of(agent).filter(({ digest }) => digest !== decision.digest);
    await this.#keep(agent, [...others, decision].slice(-MOST_KEPT));
  }

  /** Deletes the decisions for an agent. Resolves with the number of deleted decisions. */
  async forget(agent: AgentId): Promise<number> {
    const { length } = this.of(agent);
    if (length > 0) await this.#keep(agent, []);
    return length;
  }

  async #keep(agent: AgentId, decisions: readonly TrustDecision[]): Promise<void> {
    await this.#store.remember(OWNER, agent, JSON.stringify(decisions));
  }
}

/**
 * Erases a person's id from the decisions for all agents. The decisions stay. Resolves with the number of changed
 * decisions.
 */
export async function eraseDecider(
  store: TrustStore & { remembered(owner: string): ReadonlyMap<string, string> },
  person: string,
): Promise<number> {
  let count = 0;
  for (const [agent, text] of store.remembered(OWNER)) {
    const decisions = readDecisions(text);
    const named = decisions.filter(({ by }) => by === person).length;
    if (named === 0) continue;
    count += named;
    const erased = decisions.map((decision) => (decision.by === person ? { ...decision, by: ERASED_TEXT } : decision));
    await store.remember(OWNER, agent, JSON.stringify(erased));
  }
  return count;
}

/**
 * The owner under which the database stores the decisions. Each agent has one entry, and each crew one for its workers.
 */
export const OWNER = 'trust';
/** Most decisions that are kept for one agent. Older ones are deleted: people are asked again about their files. */
const MOST_KEPT = 100;

function readDecisions(text: string): readonly TrustDecision[] {
  return parsedJson(text, z.array(decisionSchema)) ?? [];
}
