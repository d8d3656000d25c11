import type { CommandOf, Refusal } from '../command.ts';
import type { Deliberation } from './decision-builder.ts';
import { prioritise, goOn } from './grant.ts';
import { afterInterrupt } from './messages.ts';
import { finish, resume } from './turns.ts';
import type { Floor, Turn } from '../floor.ts';
import { gate } from '../gate.ts';
import { findSeat, seatOf } from '../seats.ts';
import type { AgentId } from '../settings.ts';
import { findTurn, turnOf, waitOf } from '../turn.ts';

/** How often a turn goes on for messages that could not be injected. */
const MAX_REPROMPTS = 3;

type Act = CommandOf<'say' | 'work' | 'end' | 'wait' | 'request' | 'injected'>;

/** An act that counts only when it comes from the holder, under its epoch. */
export function byHolder<A extends Act>(
  act: (d: Deliberation, command: A, turn: Turn) => Refusal | null,
): (d: Deliberation, command: A) => Refusal | null {
  return (d, command) => {
    const { turn } = d.floor;
    const refusal = notHolder(turn, command);
    return refusal !== null || turn === null ? refusal : act(d, command, turn);
  };
}

/** While a turn waits its generation stands still or is over; what it took in before that may be told later. */
function notHolder(turn: Turn | null, { type, agent, epoch }: Act): Refusal | null {
  if (turn === null || turn.agent !== agent) return 'not-holder';
  if (turn.epoch !== epoch) return 'stale-epoch';
  return turn.status === 'active' || (turn.status === 'waiting' && type === 'injected') ? null : 'not-holder';
}

/** The holder says something: it is posted. */
export function say(d: Deliberation, { agent, epoch, text, mentions }: CommandOf<'say'>): null {
  const line = d.floor.lines + 1;
  d.record({ type: 'said', agent, epoch, line, text, mentions: seated(d.floor, mentions) });
  return null;
}

/** The holder gives a sign of work. */
export function work(d: Deliberation, { agent, epoch, open }: CommandOf<'work'>): null {
  d.record({ type: 'worked', agent, epoch, open });
  return null;
}

/** The truth about a message on its way into the holder's generation. */
export function injected(d: Deliberation, command: CommandOf<'injected'>, turn: Turn): Refusal | null {
  if (!isBeingGiven(turn, command)) return 'unknown-message';
  const { agent, epoch, id, outcome } = command;
  d.record({ type: 'injectReported', agent, epoch, id, outcome });
  return null;
}

/** On its way into the generation, or in its prompt. An injection that is reported late may be in the next prompt already. */
function isBeingGiven(turn: Turn, { id, outcome }: CommandOf<'injected'>): boolean {
  const messages = outcome === 'no-room' ? turn.given : turn.injecting;
  return messages.some((message) => message.id === id);
}

/** The holder is done; it goes on if there is a message that it could not take. */
export function end(d: Deliberation, command: CommandOf<'end'>, turn: Turn): null {
  const missed = [...turn.unseen, ...turn.injecting].map(({ id }) => id);
  const { agent, epoch } = turn;
  if (missed.length > 0 && turn.reprompts < MAX_REPROMPTS) {
    const { lines } = d.floor;
    const { seenLine } = seatOf(d.floor, agent);
    d.record({ type: 'turnContinued', agent, epoch, afterLine: seenLine, uptoLine: lines, messages: missed });
    return null;
  }
  const { outcome, signalled } = command;
  finish(d, turn, { outcome, signalled, trigger: 'TURN_COMPLETE', to: isAlone(d.floor, agent) ? 'IDLE' : 'QUEUED' });
  const nextOnes = command.handTo === undefined ? turn.mentions : [command.handTo, ...turn.mentions];
  for (const other of new Set(nextOnes)) if (other !== agent) prioritise(d, other, 'agent');
  goOn(d);
  return null;
}

/** Nobody else is online in the channel, and the exchange owes this agent no further turn. */
function isAlone(floor: Floor, agent: AgentId): boolean {
  const { rounds } = floor.settings;
  const isDone = rounds !== 0 && seatOf(floor, agent).taken >= rounds;
  const others = floor.seats.filter((seat) => seat.agent !== agent);
  return isDone && others.every((seat) => seat.status === 'OFFLINE' || seat.status === 'IDLE');
}

/** The turn stands still until it is answered; a message that its agent could not take may be that answer already. */
export function wait(d: Deliberation, _command: CommandOf<'wait'>, turn: Turn): null {
  const { agent, epoch } = turn;
  const { waitTimeoutMs, waitPolicy } = d.floor.settings;
  const isAnswered = turn.unseen.length > 0;
  const goesOn = isAnswered && gate(d.floor, d.at, 'holder') === null;
  const parked = waitPolicy === 'release' && !goesOn ? { parked: true as const } : {};
  const until = { reason: 'answer', deadlineAt: d.at + waitTimeoutMs } as const;
  d.record({ type: 'turnWaited', agent, epoch, wait: until, ...parked });
  d.record({ type: 'seatMoved', agent, from: 'ACTIVE', to: 'WAITING', trigger: 'WAIT_REQUESTED' });
  if (goesOn) resume(d, turnOf(d.floor, agent), 'answered');
  else if (isAnswered) d.record({ type: 'waitAnswered', agent, messages: [], ready: true });
  if (d.floor.turn === null) goOn(d);
  return null;
}

/** What was used counts, also when the turn is over. */
export function spend(d: Deliberation, command: CommandOf<'spend'>): Refusal | null {
  if (findSeat(d.floor, command.agent) === undefined) return 'not-seated';
  const { agent, epoch, tokens, costMicros } = command;
  d.record({ type: 'spent', agent, epoch, tokens, costMicros });
  return null;
}

/** The generation that was interrupted has stopped. */
export function interrupted(d: Deliberation, command: CommandOf<'interrupted'>): Refusal | null {
  const { turn } = d.floor;
  if (turn === null || turn.agent !== command.agent) return 'not-holder';
  if (turn.epoch !== command.epoch) return 'stale-epoch';
  const stopping = waitOf(turn);
  if (stopping?.reason !== 'human' || stopping.graceEndAt === null) return 'not-waiting';
  d.record({ type: 'turnStopped', agent: turn.agent, epoch: turn.epoch, forced: false });
  afterInterrupt(d, turn);
  return null;
}

/** An operator ends a turn; the next is granted. */
export function skip(d: Deliberation, command: CommandOf<'skip'>): Refusal | null {
  const turn = command.agent === undefined ? d.floor.turn : findTurn(d.floor, command.agent);
  if (turn === null) return command.epoch === undefined ? 'nothing-to-stop' : 'stale-epoch';
  if (command.epoch !== undefined && command.epoch !== turn.epoch) return 'stale-epoch';
  finish(d, turn, { outcome: 'revoked', trigger: 'SKIPPED', to: 'QUEUED' });
  goOn(d);
  return null;
}

/** An operator gives more time, to work or to wait. */
export function extend(d: Deliberation, command: CommandOf<'extend'>): Refusal | null {
  const turn = d.floor.turn ?? d.floor.parked[0];
  if (turn === undefined) return 'nothing-to-stop';
  const { by, ms } = command;
  d.record({ type: 'turnExtended', agent: turn.agent, ms, by });
  return null;
}

function seated(floor: Floor, agents: readonly AgentId[]): readonly AgentId[] {
  return agents.filter((agent) => findSeat(floor, agent) !== undefined);
}
