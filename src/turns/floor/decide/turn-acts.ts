import type { CommandOf, Refusal } from '../command.ts';
import type { DecisionBuilder } from './decision-builder.ts';
import { finish, goOn, prioritise, resume } from './turns.ts';
import { afterInterrupt, dispatch } from './messages.ts';
import type { Floor, Turn } from '../floor.ts';
import { gate } from '../gate.ts';
import { findSeat, findTurn, openQuestion, seatOf, turnOf, waitOf } from '../seats.ts';
import type { AgentId, Choice } from '../settings.ts';

/** How often a turn goes on for messages that could not be injected. */
const MAX_REPROMPTS = 3;

type Act = CommandOf<'say' | 'work' | 'end' | 'wait' | 'request' | 'injected'>;

/** An act that counts only when it comes from the holder, under its epoch. */
export function byHolder<A extends Act>(
  act: (decision: DecisionBuilder, command: A, turn: Turn) => Refusal | null,
): (decision: DecisionBuilder, command: A) => Refusal | null {
  return (decision, command) => {
    const { turn } = decision.floor;
    const refusal = notHolder(turn, command);
    return refusal !== null || turn === null ? refusal : act(decision, command, turn);
  };
}

/** While a turn waits its generation stands still or is over; what it took in before that may be told later. */
function notHolder(turn: Turn | null, { type, agent, epoch }: Act): Refusal | null {
  if (turn === null || turn.agent !== agent) return 'not-holder';
  if (turn.epoch !== epoch) return 'stale-epoch';
  return turn.status === 'active' || (turn.status === 'waiting' && type === 'injected') ? null : 'not-holder';
}

/** The holder says something: it is posted. */
export function say(decision: DecisionBuilder, { agent, epoch, text, mentions }: CommandOf<'say'>): null {
  const line = decision.floor.lines + 1;
  decision.record({ type: 'said', agent, epoch, line, text, mentions: seated(decision.floor, mentions) });
  return null;
}

/** The holder gives a sign of work. */
export function work(decision: DecisionBuilder, { agent, epoch, open }: CommandOf<'work'>): null {
  decision.record({ type: 'worked', agent, epoch, open });
  return null;
}

/** The truth about a message on its way into the holder's generation. */
export function injected(decision: DecisionBuilder, command: CommandOf<'injected'>, turn: Turn): Refusal | null {
  if (!isBeingGiven(turn, command)) return 'unknown-message';
  const { agent, epoch, id, outcome } = command;
  decision.record({ type: 'injectReported', agent, epoch, id, outcome });
  return null;
}

/** On its way into the generation, or in its prompt. An injection that is reported late may be in the next prompt already. */
function isBeingGiven(turn: Turn, { id, outcome }: CommandOf<'injected'>): boolean {
  const messages = outcome === 'no-room' ? turn.given : turn.injecting;
  return messages.some((message) => message.id === id);
}

/** The holder is done; it goes on if there is a message that it could not take. */
export function end(decision: DecisionBuilder, command: CommandOf<'end'>, turn: Turn): null {
  const missed = [...turn.unseen, ...turn.injecting].map(({ id }) => id);
  const { agent, epoch } = turn;
  if (missed.length > 0 && turn.reprompts < MAX_REPROMPTS) {
    const { lines } = decision.floor;
    const { seenLine } = seatOf(decision.floor, agent);
    decision.record({ type: 'turnContinued', agent, epoch, afterLine: seenLine, uptoLine: lines, messages: missed });
    return null;
  }
  const { outcome, signalled } = command;
  finish(decision, turn, {
    outcome,
    signalled,
    trigger: 'TURN_COMPLETE',
    to: isAlone(decision.floor, agent) ? 'IDLE' : 'QUEUED',
  });
  const nextOnes = command.handTo === undefined ? turn.mentions : [command.handTo, ...turn.mentions];
  for (const other of new Set(nextOnes)) if (other !== agent) prioritise(decision, other, 'agent');
  goOn(decision);
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
export function wait(decision: DecisionBuilder, _command: CommandOf<'wait'>, turn: Turn): null {
  const { agent, epoch } = turn;
  const { waitTimeoutMs, waitPolicy } = decision.floor.settings;
  const isAnswered = turn.unseen.length > 0;
  const goesOn = isAnswered && gate(decision.floor, decision.at, 'holder') === null;
  const parked = waitPolicy === 'release' && !goesOn ? { parked: true as const } : {};
  const until = { reason: 'answer', deadlineAt: decision.at + waitTimeoutMs } as const;
  decision.record({ type: 'turnWaited', agent, epoch, wait: until, ...parked });
  decision.record({ type: 'seatMoved', agent, from: 'ACTIVE', to: 'WAITING', trigger: 'WAIT_REQUESTED' });
  if (goesOn) resume(decision, turnOf(decision.floor, agent), 'answered');
  else if (isAnswered) decision.record({ type: 'waitAnswered', agent, messages: [], ready: true });
  if (decision.floor.turn === null) goOn(decision);
  return null;
}

/** What was used counts, also when the turn is over. */
export function spend(decision: DecisionBuilder, command: CommandOf<'spend'>): Refusal | null {
  if (findSeat(decision.floor, command.agent) === undefined) return 'not-seated';
  const { agent, epoch, tokens, costMicros } = command;
  decision.record({ type: 'spent', agent, epoch, tokens, costMicros });
  return null;
}

/** The generation that was interrupted has stopped. */
export function interrupted(decision: DecisionBuilder, command: CommandOf<'interrupted'>): Refusal | null {
  const { turn } = decision.floor;
  if (turn === null || turn.agent !== command.agent) return 'not-holder';
  if (turn.epoch !== command.epoch) return 'stale-epoch';
  const stopping = waitOf(turn);
  if (stopping?.reason !== 'human' || stopping.graceEndAt === null) return 'not-waiting';
  decision.record({ type: 'turnStopped', agent: turn.agent, epoch: turn.epoch, forced: false });
  afterInterrupt(decision, turn);
  return null;
}

/** An operator ends a turn; the next is granted. */
export function skip(decision: DecisionBuilder, command: CommandOf<'skip'>): Refusal | null {
  const turn = command.agent === undefined ? decision.floor.turn : findTurn(decision.floor, command.agent);
  if (turn === null) return command.epoch === undefined ? 'nothing-to-stop' : 'stale-epoch';
  if (command.epoch !== undefined && command.epoch !== turn.epoch) return 'stale-epoch';
  finish(decision, turn, { outcome: 'revoked', trigger: 'SKIPPED', to: 'QUEUED' });
  goOn(decision);
  return null;
}

/** An operator gives more time, to work or to wait. */
export function extend(decision: DecisionBuilder, command: CommandOf<'extend'>): Refusal | null {
  const turn = decision.floor.turn ?? decision.floor.parked[0];
  if (turn === undefined) return 'nothing-to-stop';
  const { by, ms } = command;
  decision.record({ type: 'turnExtended', agent: turn.agent, ms, by });
  return null;
}

function seated(floor: Floor, agents: readonly AgentId[]): readonly AgentId[] {
  return agents.filter((agent) => findSeat(floor, agent) !== undefined);
}

/**
 * The holder asks for a yes. Whatever the channel's wait policy: the floor is kept, for the generation goes on in place
 * once somebody decides. What nobody can be asked is rejected in the same breath, and its text is not kept.
 */
export function request(decision: DecisionBuilder, command: CommandOf<'request'>, turn: Turn): null {
  const { agent, epoch } = turn;
  const { title, detail } = command.approval;
  const { unaskable } = command;
  const question = decision.floor.questions + 1;
  const deadlineAt = decision.at + decision.floor.settings.waitTimeoutMs;
  const asked = { question, title, detail: unaskable === undefined ? detail : '', shown: false };
  decision.record({ type: 'turnWaited', agent, epoch, wait: { reason: 'approval', deadlineAt, question: asked } });
  decision.record({ type: 'seatMoved', agent, from: 'ACTIVE', to: 'WAITING', trigger: 'WAIT_REQUESTED' });
  if (unaskable === undefined) decision.announce({ kind: 'approval', agent, question, title, detail });
  else rejectUnasked(decision, unaskable);
  return null;
}

/** The holder takes its question back. */
export function withdraw(decision: DecisionBuilder, command: CommandOf<'withdraw'>): Refusal | null {
  const { turn } = decision.floor;
  if (turn?.agent !== command.agent) return 'not-holder';
  if (turn.epoch !== command.epoch) return 'stale-epoch';
  const { agent, epoch, question } = command;
  if (openQuestion(decision.floor)?.question !== question) return 'stale-question';
  decision.record({ type: 'questionClosed', agent, epoch, question, choice: null, by: agent });
  goOnAfter(decision, agent);
  return null;
}

/** All of a question stands in the channel, or never will: then nobody can know what a yes would allow. */
export function shown(decision: DecisionBuilder, command: CommandOf<'shown'>): Refusal | null {
  const { turn } = decision.floor;
  const asked = openQuestion(decision.floor);
  if (turn === null || asked?.question !== command.question) return 'stale-question';
  if (command.why !== undefined) rejectUnasked(decision, command.why);
  else if (asked.shown) return 'already';
  else decision.record({ type: 'questionShown', agent: turn.agent, epoch: turn.epoch, question: asked.question });
  return null;
}

/** An operator answers the question with this number, and no other. */
export function decideRequest(decision: DecisionBuilder, command: CommandOf<'decide'>): Refusal | null {
  const asked = openQuestion(decision.floor);
  if (asked?.question !== command.question) return 'stale-question';
  if (command.choice === 'allow' && !asked.shown) return 'not-shown';
  decideQuestion(decision, { choice: command.choice, by: command.by });
  return null;
}

/** Gives the open question its answer; its generation goes on, and takes up what people wrote meanwhile. */
function decideQuestion(
  decision: DecisionBuilder,
  answer: { readonly choice: Choice; readonly by: string | null },
): void {
  const { turn } = decision.floor;
  const asked = openQuestion(decision.floor);
  if (turn === null || asked === null) throw new Error(`impossible: nothing is asked in ${decision.floor.channel}`);
  const { agent, epoch } = turn;
  decision.record({ type: 'questionClosed', agent, epoch, question: asked.question, ...answer });
  goOnAfter(decision, agent);
}

function rejectUnasked(decision: DecisionBuilder, why: string): void {
  const agent = decision.floor.turn?.agent;
  const title = openQuestion(decision.floor)?.title ?? '';
  if (agent !== undefined) decision.announce({ kind: 'unasked', agent, title, why });
  decideQuestion(decision, { choice: 'reject', by: null });
}

function goOnAfter(decision: DecisionBuilder, agent: AgentId): void {
  decision.record({ type: 'seatMoved', agent, from: 'WAITING', to: 'ACTIVE', trigger: 'WAIT_RESOLVED' });
  for (const message of decision.floor.held.filter(({ until }) => until === 'prompt')) dispatch(decision, message);
}
