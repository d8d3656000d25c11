import { advance, call, chosen, finish, resume, wake } from './grant.ts';
import type { AgentCommand, Refusal } from '../command.ts';
import { Deliberation, refuse } from './decision-builder.ts';
import type { Decision, Refused } from './decision-builder.ts';
import type { Floor, Turn } from '../floor.ts';
import { gate } from '../gate.ts';
import { afterInterrupt } from './messages.ts';
import { request, withdraw } from './questions.ts';
import { findSeat, seatOf } from '../seats.ts';
import type { AgentId } from '../settings.ts';
import { findTurn, turnOf, waitOf } from '../turn.ts';
import type { Instant } from '../../../lib/time.ts';

/** How often a turn goes on for messages that could not be injected. */
const MAX_REPROMPTS = 3;

/** What an agent's report does. An act without the floor, or with an older epoch, is refused and kept as a record. */
export function decideAgent(floor: Floor, command: AgentCommand, at: Instant): Decision {
  const d = new Deliberation(floor, at);
  const refusal = carryOut(d, command);
  return refusal === null ? d.accept() : refused(command, refusal);
}

function carryOut(d: Deliberation, command: AgentCommand): Refusal | null {
  switch (command.type) {
    case 'join':
      return join(d, command.agent);
    case 'leave':
      return leave(d, command.agent, command.cause);
    case 'choose':
      return choose(d, command);
    case 'interrupted':
      return interrupted(d, command);
    case 'spend':
      return spend(d, command);
    case 'withdraw':
      return withdraw(d, command);
    case 'say':
    case 'work':
    case 'end':
    case 'wait':
    case 'request':
    case 'injected': {
      const turn = d.floor.turn;
      const refusal = notHolder(turn, command);
      return refusal !== null || turn === null ? refusal : perform(d, turn, command);
    }
  }
}

type Act = Extract<AgentCommand, { type: 'say' | 'work' | 'end' | 'wait' | 'request' | 'injected' }>;

/** While a turn waits its generation stands still or is over; what it took in before that may be told later. */
function notHolder(turn: Turn | null, { type, agent, epoch }: Act): Refusal | null {
  if (turn === null || turn.agent !== agent) return 'not-holder';
  if (turn.epoch !== epoch) return 'stale-epoch';
  return turn.status === 'active' || (turn.status === 'waiting' && type === 'injected') ? null : 'not-holder';
}

function perform(d: Deliberation, turn: Turn, command: Act): Refusal | null {
  const { agent, epoch } = turn;
  switch (command.type) {
    case 'say':
      d.record({
        type: 'said',
        agent,
        epoch,
        line: d.floor.lines + 1,
        text: command.text,
        mentions: seated(d.floor, command.mentions),
      });
      return null;
    case 'work':
      d.record({ type: 'worked', agent, epoch, open: command.open });
      return null;
    case 'end':
      end(d, turn, command);
      return null;
    case 'wait':
      pause(d, turn);
      return null;
    case 'request':
      request(d, turn, command);
      return null;
    case 'injected':
      if (!isBeingGiven(turn, command)) return 'unknown-message';
      d.record({ type: 'injectReported', agent, epoch, id: command.id, outcome: command.outcome });
      return null;
  }
}

/** On its way into the generation, or in its prompt. An injection that is reported late may be in the next prompt already. */
function isBeingGiven(turn: Turn, { id, outcome }: Extract<AgentCommand, { type: 'injected' }>): boolean {
  const messages = outcome === 'no-room' ? turn.given : turn.injecting;
  return messages.some((message) => message.id === id);
}

function end(d: Deliberation, turn: Turn, command: Extract<AgentCommand, { type: 'end' }>): void {
  const missed = [...turn.unseen, ...turn.injecting].map(({ id }) => id);
  const { agent, epoch } = turn;
  if (missed.length > 0 && turn.reprompts < MAX_REPROMPTS) {
    const { lines } = d.floor;
    const { seenLine } = seatOf(d.floor, agent);
    d.record({ type: 'turnContinued', agent, epoch, afterLine: seenLine, uptoLine: lines, messages: missed });
    return;
  }
  const { outcome, signalled } = command;
  finish(d, turn, { outcome, signalled, trigger: 'TURN_COMPLETE', to: isAlone(d.floor, agent) ? 'IDLE' : 'QUEUED' });
  const nextOnes = command.handTo === undefined ? turn.mentions : [command.handTo, ...turn.mentions];
  for (const other of new Set(nextOnes)) if (other !== agent) call(d, other, 'agent');
  goOn(d);
}

/** Nobody else is online in the channel, and the exchange owes this agent no further turn. */
function isAlone(floor: Floor, agent: AgentId): boolean {
  const { rounds } = floor.settings;
  const isDone = rounds !== 0 && seatOf(floor, agent).taken >= rounds;
  const others = floor.seats.filter((seat) => seat.agent !== agent);
  return isDone && others.every((seat) => seat.status === 'OFFLINE' || seat.status === 'IDLE');
}

/** The floor is free: serves held messages first, then goes on. */
export function goOn(d: Deliberation): void {
  if (!d.floor.stopped) wake(d);
  advance(d);
}

/** The turn stands still until it is answered; a message that its agent could not take may be that answer already. */
function pause(d: Deliberation, turn: Turn): void {
  const { agent, epoch } = turn;
  const { waitTimeoutMs, waitPolicy } = d.floor.settings;
  const isAnswered = turn.unseen.length > 0;
  const goesOn = isAnswered && gate(d.floor, d.at, 'holder') === null;
  const parked = waitPolicy === 'release' && !goesOn ? { parked: true as const } : {};
  const wait = { reason: 'answer', deadlineAt: d.at + waitTimeoutMs } as const;
  d.record({ type: 'turnWaited', agent, epoch, wait, ...parked });
  d.record({ type: 'seatMoved', agent, from: 'ACTIVE', to: 'WAITING', trigger: 'WAIT_REQUESTED' });
  if (goesOn) resume(d, turnOf(d.floor, agent), 'answered');
  else if (isAnswered) d.record({ type: 'waitAnswered', agent, messages: [], ready: true });
  if (d.floor.turn === null) goOn(d);
}

function spend(d: Deliberation, command: Extract<AgentCommand, { type: 'spend' }>): Refusal | null {
  if (findSeat(d.floor, command.agent) === undefined) return 'not-seated';
  const { agent, epoch, tokens, costMicros } = command;
  d.record({ type: 'spent', agent, epoch, tokens, costMicros });
  return null;
}

function interrupted(d: Deliberation, command: Extract<AgentCommand, { type: 'interrupted' }>): Refusal | null {
  const { turn } = d.floor;
  if (turn === null || turn.agent !== command.agent) return 'not-holder';
  if (turn.epoch !== command.epoch) return 'stale-epoch';
  const wait = waitOf(turn);
  if (wait?.reason !== 'human' || wait.graceEndAt === null) return 'not-waiting';
  d.record({ type: 'turnStopped', agent: turn.agent, epoch: turn.epoch, forced: false });
  afterInterrupt(d, turn);
  return null;
}

function choose(d: Deliberation, command: Extract<AgentCommand, { type: 'choose' }>): Refusal | null {
  const { choosing } = d.floor;
  if (choosing === null || choosing.facilitator !== command.agent || choosing.ask !== command.ask) return 'not-asked';
  chosen(d, command.next, command.next === null ? 'no answer' : 'answered');
  return null;
}

function join(d: Deliberation, agent: AgentId): Refusal | null {
  const seat = findSeat(d.floor, agent);
  if (seat === undefined) return 'not-seated';
  if (seat.present) return 'already';
  d.record({ type: 'seatMarked', agent, mark: 'present', on: true });
  if (seat.disabled) return null;
  if (seat.status === 'OFFLINE') {
    d.record({ type: 'seatMoved', agent, from: 'OFFLINE', to: 'IDLE', trigger: 'AGENT_STARTED' });
    if (seat.assigned) enqueue(d, agent);
  }
  comeBack(d, agent);
  goOn(d);
  return null;
}

/** The turn that this agent left open goes on, if it was being generated or what it waited for has come. */
export function comeBack(d: Deliberation, agent: AgentId): void {
  const { turn } = d.floor;
  if (turn?.agent !== agent || gate(d.floor, d.at, 'holder') !== null) return;
  const wait = waitOf(turn);
  if (turn.status === 'suspended') {
    d.announce({ kind: 'recovered', agent });
    resume(d, turn, 'restart');
  } else if (wait?.reason === 'human' && wait.graceEndAt === null) afterInterrupt(d, turn);
  else if (wait?.ready === true) resume(d, turn, 'answered');
}

/** Puts an idle agent into the queue. */
export function enqueue(d: Deliberation, agent: AgentId): void {
  d.record({ type: 'seatMoved', agent, from: 'IDLE', to: 'QUEUED', trigger: 'ASSIGNED' });
}

function leave(d: Deliberation, agent: AgentId, cause: string): Refusal | null {
  const seat = findSeat(d.floor, agent);
  if (seat === undefined) return 'not-seated';
  if (!seat.present && seat.status === 'OFFLINE') return 'already';
  d.record({ type: 'seatMarked', agent, mark: 'present', on: false });
  const turn = findTurn(d.floor, agent);
  switch (seat.status) {
    case 'ACTIVE':
    case 'WAITING':
      if (turn === null) throw new Error(`impossible: ${agent} is ${seat.status} in ${d.floor.channel} without a turn`);
      finish(d, turn, {
        outcome: 'forfeited',
        trigger: seat.status === 'ACTIVE' ? 'CRASHED' : 'DISCONNECTED',
        to: 'OFFLINE',
        cause,
      });
      d.announce({ kind: 'disconnect', agent, cause });
      break;
    case 'QUEUED':
      d.record({ type: 'seatMoved', agent, from: 'QUEUED', to: 'OFFLINE', trigger: 'DISCONNECTED', cause });
      break;
    case 'IDLE':
      d.record({ type: 'seatMoved', agent, from: 'IDLE', to: 'OFFLINE', trigger: 'AGENT_STOPPED', cause });
      break;
    case 'OFFLINE':
  }
  if (seat.rejoin === 'manual' && seat.assigned) d.record({ type: 'seatMarked', agent, mark: 'assigned', on: false });
  if (d.floor.choosing?.facilitator === agent) chosen(d, null, 'left');
  goOn(d);
  return null;
}

function seated(floor: Floor, agents: readonly AgentId[]): readonly AgentId[] {
  return agents.filter((agent) => findSeat(floor, agent) !== undefined);
}

function refused(command: AgentCommand, refusal: Refusal): Refused {
  if (command.type === 'join' || command.type === 'leave') return refuse(refusal);
  const { type, agent } = command;
  const epoch = 'epoch' in command ? command.epoch : null;
  const text = command.type === 'say' ? { text: command.text } : {};
  return { ok: false, refusal, facts: [{ type: 'actRefused', act: type, agent, epoch, refusal, ...text }] };
}
