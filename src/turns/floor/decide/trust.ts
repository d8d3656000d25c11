import type { CommandOf } from '../command.ts';
import type { Refusal } from '../refusals.ts';
import type { TrustQuestion } from '../floor.ts';
import type { DecisionBuilder } from './decision-builder.ts';

/**
 * Asks people whether to trust the files in an agent's folder. Refuses while the same question is open. Withdraws
 * questions about other files of the agent.
 */
export function askTrust(decision: DecisionBuilder, command: CommandOf<'askTrust'>): Refusal | null {
  const { agent, id, folder, detail } = command;
  if (findTrustQuestion(decision, agent, id) !== undefined) return 'already';
  dropTrust(decision, { type: 'dropTrust', agent, keeps: id });
  const question = { agent, id, folder, detail };
  decision.record({ type: 'trustAsked', ...question });
  decision.announce({ kind: 'trust', ...question });
  return null;
}

/** Marks the question about an agent's files as shown in the channel. */
export function trustShown(decision: DecisionBuilder, { agent, id }: CommandOf<'trustShown'>): Refusal | null {
  const question = findTrustQuestion(decision, agent, id);
  if (question === undefined) return 'stale-question';
  if (question.shown) return 'already';
  decision.record({ type: 'trustShown', agent, id });
  return null;
}

/** Applies an operator's decision whether to trust an agent's files, made in this channel or another. */
export function answerTrust(decision: DecisionBuilder, command: CommandOf<'answerTrust'>): Refusal | null {
  const { agent, id, choice, by } = command;
  if (findTrustQuestion(decision, agent, id) === undefined) return 'stale-question';
  close(decision, { agent, id }, { choice, by });
  return null;
}

/** Withdraws the questions about an agent's files, except the question with the id `keeps`. */
export function dropTrust(decision: DecisionBuilder, { agent, keeps }: CommandOf<'dropTrust'>): Refusal | null {
  const old = (decision.floor.trust ?? []).filter((each) => each.agent === agent && each.id !== keeps);
  for (const question of old) close(decision, question, { choice: null, by: null });
  return old.length === 0 ? 'stale-question' : null;
}

function findTrustQuestion({ floor }: DecisionBuilder, agent: string, id: string): TrustQuestion | undefined {
  return floor.trust?.find((each) => each.agent === agent && each.id === id);
}

function close(
  decision: DecisionBuilder,
  { agent, id }: Pick<TrustQuestion, 'agent' | 'id'>,
  answer: { readonly choice: 'trusted' | 'left' | null; readonly by: string | null },
): void {
  decision.record({ type: 'trustAnswered', agent, id, ...answer });
  decision.announce({ kind: 'trustAnswered', agent, id, ...answer, at: decision.at });
}
