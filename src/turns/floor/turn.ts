import type { ActiveTurn, Floor, Turn, Wait } from './floor.ts';
import type { AgentId } from './settings.ts';

/** Every turn of a floor, the holder's first. */
export function turnsOf({ turn, parked }: Floor): readonly Turn[] {
  return turn === null ? parked : [turn, ...parked];
}

/** The turn of an agent, with or without the floor; `null` if there is none. */
export function findTurn(floor: Floor, agent: AgentId): Turn | null {
  return turnsOf(floor).find((turn) => turn.agent === agent) ?? null;
}

/** The turn of an agent, with or without the floor; it is a bug if there is none. */
export function turnOf(floor: Floor, agent: AgentId): Turn {
  const turn = findTurn(floor, agent);
  if (turn === null) throw new Error(`impossible: ${agent} has no turn in ${floor.channel}`);
  return turn;
}

/** What a turn waits for, if it does. */
export function waitOf(turn: Turn | null | undefined): Wait | null {
  return turn?.status === 'waiting' ? turn.wait : null;
}

/** The turn that speaks now, if one does: it neither waits nor was cut by a restart. */
export function speaking({ turn }: Floor): ActiveTurn | null {
  return turn?.status === 'active' ? turn : null;
}

/** What a turn was to be told and was not: messages that its agent could not take, and the answers to its wait. */
export function missedBy(turn: Turn): Turn['unseen'] {
  return [...turn.unseen, ...turn.injecting, ...(waitOf(turn)?.answers ?? [])];
}

/** The floor with the turn of an agent changed. */
export function changeTurn(floor: Floor, agent: AgentId, change: (turn: Turn) => Turn): Floor {
  const turn = change(turnOf(floor, agent));
  return floor.turn?.agent === agent
    ? { ...floor, turn }
    : { ...floor, parked: floor.parked.map((parked) => (parked.agent === agent ? turn : parked)) };
}
