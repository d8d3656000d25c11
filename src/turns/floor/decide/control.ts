import type { CommandOf, Refusal } from '../command.ts';
import type { Deliberation } from './decision-builder.ts';
import { openExchange, pending, recall } from './exchange.ts';
import { advance, prioritise, facilitatorAnswered, goOn, grant, wake } from './grant.ts';
import { finish, resume } from './turns.ts';
import { gate } from '../gate.ts';
import { isGrantable } from '../order.ts';
import { findSeat } from '../seats.ts';
import type { AgentId } from '../settings.ts';
import { turnsOf, waitOf } from '../turn.ts';

/** A person stops everything: turns end, the exchange closes, held messages stay. */
export function stop(d: Deliberation): Refusal | null {
  const { turn, exchange } = d.floor;
  const turns = turnsOf(d.floor);
  if (turns.length === 0 && exchange === null) return 'nothing-to-stop';
  for (const running of turns) finish(d, running, { outcome: 'revoked', trigger: 'STOPPED', to: 'QUEUED' });
  d.record({ type: 'exchangeClosed', reason: 'stopped' });
  d.announce({ kind: 'stopped', agent: turn?.agent ?? turns[0]?.agent ?? null, kept: d.floor.held.length });
  return null;
}

/** An operator opens an exchange without a message. */
export function start(d: Deliberation): Refusal | null {
  const { exchange, turn } = d.floor;
  const closed = gate(d.floor, d.at, exchange === null && turn === null ? 'start' : 'grant');
  if (closed !== null) return closed.why;
  if (exchange !== null || turn !== null) return 'already';
  recall(d);
  openExchange(d, 'operator');
  wake(d, true);
  advance(d);
  return null;
}

/** An operator gives an agent the floor, or the next turn. */
export function grantTo(d: Deliberation, { agent }: CommandOf<'grant'>): Refusal | null {
  const seat = findSeat(d.floor, agent);
  if (seat === undefined) return 'not-seated';
  const closed = gate(d.floor, d.at, 'grant');
  if (closed !== null) return closed.why;
  if (seat.disabled) return 'disabled';
  if (seat.status === 'OFFLINE') return 'offline';
  if (seat.status === 'ACTIVE') return 'already';
  if (seat.status === 'WAITING') return seat.present ? overrideWait(d, agent) : 'offline';
  recall(d);
  if (!isGrantable(d.floor, agent)) return 'not-queued';
  return giveTo(d, agent);
}

/** The operator resumes a turn that waits; without the floor it goes on as soon as the floor is free. */
function overrideWait(d: Deliberation, agent: AgentId): Refusal | null {
  const { turn } = d.floor;
  if (turn?.agent === agent) {
    const wait = waitOf(turn);
    if (wait?.reason === 'human' && wait.graceEndAt !== null) return 'still-stopping';
    if (wait?.reason === 'approval') return 'needs-decision';
    resume(d, turn, 'operator', 'HUMAN_OVERRIDE');
    return null;
  }
  const parked = d.floor.parked.find((other) => other.agent === agent);
  if (parked === undefined) throw new Error(`impossible: ${agent} waits in ${d.floor.channel} without a turn`);
  if (turn === null) resume(d, parked, 'operator', 'HUMAN_OVERRIDE');
  else d.record({ type: 'waitAnswered', agent, messages: waitOf(parked)?.answers ?? [], ready: true });
  return null;
}

function giveTo(d: Deliberation, agent: AgentId): Refusal | null {
  const { turn } = d.floor;
  if (turn !== null && turn.status !== 'waiting') {
    prioritise(d, agent, 'operator');
    return null;
  }
  if (turn !== null) finish(d, turn, { outcome: 'revoked', trigger: 'HUMAN_OVERRIDE', to: 'QUEUED' });
  if (d.floor.facilitation !== null) d.record({ type: 'facilitatorAnswered', next: agent, why: 'overtaken' });
  if (d.floor.exchange === null || pending(d).length > 0) openExchange(d, 'operator');
  grant(d, agent);
  return null;
}

/** Nothing further is granted until the floor is resumed. */
export function pause(d: Deliberation, { by }: CommandOf<'pause'>): Refusal | null {
  if (d.floor.condition === 'paused') return 'already';
  if (d.floor.facilitation !== null) d.record({ type: 'facilitatorAnswered', next: null, why: 'overtaken' });
  d.record({ type: 'floorPaused', on: true, by });
  return null;
}

/** Goes on after a pause or a limit. */
export function resumeFloor(d: Deliberation, { by }: CommandOf<'resume'>): Refusal | null {
  const { condition, limit, exchange } = d.floor;
  if (condition === 'paused') d.record({ type: 'floorPaused', on: false, by });
  else if (limit !== null && exchange === null) {
    d.record({ type: 'usageReset', why: 'more', by });
    d.record({ type: 'exchangeOpened' });
  } else if (exchange !== null || d.floor.held.length === 0) return 'nothing-to-resume';
  recall(d);
  const isLater = gate(d.floor, d.at, 'holder') !== null && d.floor.exchange === null && d.floor.held.length > 0;
  if (isLater) openExchange(d, 'operator');
  wake(d, true);
  advance(d);
  return null;
}

/** Changes what a message does to a turn under way. */
export function mode(d: Deliberation, command: CommandOf<'mode'>): Refusal | null {
  if (d.floor.settings.mode === command.mode) return 'already';
  d.record({ type: 'settingsChanged', settings: { ...d.floor.settings, mode: command.mode }, by: command.by });
  return null;
}

/** Changes who is next, and the queue if agents are named. */
export function order(d: Deliberation, command: CommandOf<'order'>): Refusal | null {
  const { queue } = d.floor;
  const wanted = command.queue ?? [];
  const isOdd = wanted.some((agent) => !queue.includes(agent)) || new Set(wanted).size !== wanted.length;
  if (isOdd) return 'bad-queue';
  if (d.floor.settings.order === command.order && wanted.length === 0) return 'already';
  const ordered = [...wanted, ...queue.filter((agent) => !wanted.includes(agent))];
  d.record({
    type: 'settingsChanged',
    settings: { ...d.floor.settings, order: command.order },
    ...(wanted.length === 0 ? {} : { queue: ordered }),
    by: command.by,
  });
  if (d.floor.facilitation !== null) d.record({ type: 'facilitatorAnswered', next: null, why: 'overtaken' });
  goOn(d);
  return null;
}

/** The facilitator names the next speaker. */
export function choose(d: Deliberation, command: CommandOf<'choose'>): Refusal | null {
  const { facilitation } = d.floor;
  if (facilitation === null || facilitation.facilitator !== command.agent || facilitation.ask !== command.ask)
    return 'not-asked';
  facilitatorAnswered(d, command.next, command.next === null ? 'no answer' : 'answered');
  return null;
}
