import type { AgentId } from '../floor/settings.ts';
import type { RosterEntry } from '../roster.ts';
import { list } from './fact-words.ts';
import { didYouMean } from '../../lib/nearest.ts';
import { quoted } from './parse.ts';

/** The agent that a person meant, or one sentence that says whom they could have meant. */
export type Lookup = { readonly ok: true; readonly agent: AgentId } | { readonly ok: false; readonly message: string };

/** Finds an agent by its id, in any case, or by its display name if only one has it. */
export function findAgent(word: string, agents: readonly RosterEntry[]): Lookup {
  const wanted = word.toLowerCase();
  const exact = agents.find((agent) => agent.id === word) ?? agents.find((agent) => agent.id.toLowerCase() === wanted);
  if (exact !== undefined) return { ok: true, agent: exact.id };
  const named = agents.filter((agent) => agent.name.toLowerCase() === wanted);
  const [one, other] = named;
  if (one !== undefined && other === undefined) return { ok: true, agent: one.id };
  const ids = agents.map((agent) => agent.id);
  if (one !== undefined) {
    const same = list(
      named.map((agent) => agent.id),
      String,
    );
    return { ok: false, message: `More than one agent is called ${quoted(word)}: write ${same} instead.` };
  }
  const meant =
    didYouMean(word, ids) ||
    didYouMean(
      word,
      agents.map((agent) => agent.name),
    );
  return { ok: false, message: `There is no agent ${quoted(word)}.${meant} Agents: ${list(ids, String)}.` };
}
