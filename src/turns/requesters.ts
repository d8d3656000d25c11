import type { Fact } from './floor/fact.ts';
import type { Floor } from './floor/floor.ts';
import { findTurn } from './floor/seats.ts';
import type { AgentId, MessageId } from './floor/settings.ts';
import { givenBy } from './view.ts';

/** Somebody who asked for what an agent does; `bot`: a program. */
export type Requester = { readonly id: string; readonly name: string; readonly bot?: boolean };

/** Where it is looked for who asked. */
export type RequesterSources = {
  /** What happened at the floor, the newest first, as far back as is asked. */
  readonly newest: () => Iterable<{ readonly fact: Fact }>;
  /** `null`: nothing is known of the message. */
  readonly authorOf: (message: MessageId) => Requester | null;
};

/** Nobody knows who asked: nobody vouches for it. */
const SOMEBODY: Requester = { id: '', name: 'somebody' };

/**
 * Who asked for what an agent does in its turn: everybody whose message the turn was given. A turn that another turn called, by a
 * hand-over or a question, or that was its due, was asked for by those who were before it; nobody when an operator had it granted.
 */
export function requestersOf(floor: Floor | null, agent: AgentId, sources: RequesterSources): readonly Requester[] {
  const turn = floor === null ? null : findTurn(floor, agent);
  const given = turn === null ? [] : [...turn.answered, ...[...turn.given, ...turn.injecting].map(({ id }) => id)];
  if (given.length > 0) return authorsOf(given, sources);
  for (const { fact } of sources.newest()) {
    const isOperators = fact.type === 'usageReset' && (fact.why === 'operator' || fact.why === 'more');
    const isGranted = fact.type === 'prioritised' && fact.by === 'operator' && fact.agent === agent;
    if (isOperators || isGranted) return [];
    const messages = givenBy(fact);
    if (messages.length > 0) return authorsOf(messages, sources);
  }
  return [SOMEBODY];
}

/** The turns that were given one of these messages, as `agent epoch`; `newest` is what happened at their floor, the newest first. */
export function turnsGiven(
  newest: Iterable<{ readonly fact: Fact }>,
  isMeant: (message: MessageId) => boolean,
): ReadonlySet<string> {
  const found = new Set<string>();
  /** Given to them in the middle of a turn, of which the grant stands before. */
  const given = new Set<AgentId>();
  for (const { fact } of newest) {
    const isGiven = givenBy(fact).some(isMeant);
    if (fact.type === 'messageRouted' && fact.fate.state === 'delivered' && isGiven)
      for (const agent of fact.fate.to) given.add(agent);
    if (fact.type !== 'turnGranted' && fact.type !== 'turnResumed' && fact.type !== 'turnContinued') continue;
    if (given.delete(fact.agent) || isGiven) found.add(`${fact.agent} ${fact.epoch}`);
  }
  return found;
}

function authorsOf(messages: readonly MessageId[], { authorOf }: RequesterSources): readonly Requester[] {
  const authors = messages.map((id) => authorOf(id) ?? SOMEBODY);
  return [...new Map(authors.map((author) => [author.id, author])).values()];
}
