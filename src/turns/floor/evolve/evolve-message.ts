import type { Evolution, FactOf } from '../fact.ts';
import type { Floor, Held, Turn } from '../floor.ts';
import { showLine } from '../seats.ts';

/** Why a message was not routed when nobody is online: the one reason for which it is kept for whoever comes back. */
export const NOBODY = 'no agent available';

/** The part of `evolve` about human messages. */
export const MESSAGES = {
  messageRouted: routed,
  injectReported: reported,
  messageAmended: amended,
} as const satisfies Partial<Evolution>;

type Routed = FactOf<'messageRouted'>;
type Reported = FactOf<'injectReported'>;

/** Whether a message is a person's word that no agent was given yet: only such a word renews what agents may use. */
export function isNewFromPerson({ fromProgram, line }: Held): boolean {
  return fromProgram !== true && line === null;
}

/** Orders two of a platform's sort keys: numbers of any length, and texts of equal length. */
export function compareOrder(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function routed(before: Floor, fact: Routed): Floor {
  const known = before.held.find((held) => held.id === fact.id);
  const floor = {
    ...before,
    lines: fact.line ?? before.lines,
    notice: fact.line === null ? before.notice : null,
    held: before.held.filter((held) => held.id !== fact.id),
  };
  const { fate } = fact;
  switch (fate.state) {
    case 'held':
      return hold(floor, {
        id: fact.id,
        addressed: fact.addressed,
        order: fact.order,
        until: fate.until,
        line: known?.line ?? fact.line,
        ...written(fact),
      });
    case 'unrouted':
      return fate.why === NOBODY
        ? hold(floor, {
            id: fact.id,
            addressed: fact.addressed,
            order: fact.order,
            until: 'agent',
            line: known?.line ?? null,
            ...written(fact),
          })
        : withoutMessage(floor, fact.id);
    case 'ignored':
      return withoutMessage(floor, fact.id);
    case 'delivered':
      return delivered(floor, fact, fate.via);
  }
}

function delivered(floor: Floor, fact: Routed, via: 'prompt' | 'inject' | 'interrupt' | 'observe'): Floor {
  const { turn } = floor;
  const line = fact.line ?? floor.lines;
  const message = { id: fact.id, line, addressed: fact.addressed, ...written(fact) };
  if (via === 'prompt' || turn === null) return floor;
  if (via === 'interrupt') {
    if (turn.status !== 'waiting') return floor;
    return { ...floor, turn: { ...turn, wait: { ...turn.wait, answers: [...turn.wait.answers, message] } } };
  }
  if (turn.status !== 'active' || fact.line === null) return floor;
  const seen = showLine(floor, turn.agent, fact.line);
  return via === 'observe' ? seen : { ...seen, turn: { ...turn, injecting: [...turn.injecting, message] } };
}

function written({ fromProgram }: Routed): { readonly fromProgram?: true } {
  return fromProgram === true ? { fromProgram } : {};
}

function hold(floor: Floor, message: Held): Floor {
  const index = floor.held.findIndex((other) => compareOrder(message.order, other.order) < 0);
  const place = index === -1 ? floor.held.length : index;
  return { ...floor, held: [...floor.held.slice(0, place), message, ...floor.held.slice(place)] };
}

function reported(floor: Floor, fact: Reported): Floor {
  const { turn } = floor;
  const message = turn === null ? undefined : beingGiven(floor, turn, fact);
  if (turn === null || message === undefined) {
    throw new Error(`impossible: ${fact.id} is not being given to ${fact.agent} in ${floor.channel}`);
  }
  const injecting = turn.injecting.filter((candidate) => candidate.id !== fact.id);
  const given = turn.given.filter((candidate) => candidate.id !== fact.id);
  return fact.outcome === 'injected'
    ? { ...floor, turn: { ...turn, injecting, given: [...given, { id: fact.id, begun: false }] } }
    : { ...floor, turn: { ...turn, injecting, given, unseen: [...turn.unseen, message] } };
}

/** A message on its way into the generation; one of the prompt that did not fit into it is taken back. */
function beingGiven(floor: Floor, turn: Turn, { id, outcome }: Reported): Turn['unseen'][number] | undefined {
  if (outcome !== 'no-room') return turn.injecting.find((message) => message.id === id);
  return turn.given.some((message) => message.id === id) ? { id, line: floor.lines, addressed: [] } : undefined;
}

function amended(before: Floor, fact: FactOf<'messageAmended'>): Floor {
  const floor = fact.change === 'deleted' ? withoutMessage(before, fact.id) : before;
  if (fact.line === null) return floor;
  const next = { ...floor, lines: fact.line, notice: null };
  return fact.holder === null ? next : showLine(next, fact.holder, fact.line);
}

/** Nobody waits for a message any more that is not for agents, or that its author took back. */
function withoutMessage(floor: Floor, id: Held['id']): Floor {
  return {
    ...floor,
    held: floor.held.filter((message) => message.id !== id),
    prioritised: floor.prioritised.map((call) => ({
      ...call,
      messages: call.messages.filter((message) => message !== id),
    })),
  };
}
