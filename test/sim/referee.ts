import type { Command } from '../../src/turns/floor/command.ts';
import { askOf, missedBy, nextDeadline, turnsOf, waitOf, openQuestion } from '../../src/turns/floor/seats.ts';
import { messagesGivenBy } from '../../src/turns/view.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import { emptyFloor } from '../../src/turns/floor/floor.ts';
import type { Floor, Held, Turn } from '../../src/turns/floor/floor.ts';
import type { Applied } from '../../src/turns/floor-store.ts';
import { canonical } from '../../src/engine/canonical.ts';
import { must } from './violation.ts';
import { flat, flatOrNull } from '../turns/floor/flat-turn.ts';

/** A command, with the floor before and after it. */
export type Move = {
  readonly channel: string;
  readonly command: Command;
  readonly at: number;
  readonly before: Floor;
  readonly after: Floor;
  readonly facts: readonly Fact[];
  readonly refusal: string | null;
};

type Of<Type extends Command['type']> = Extract<Command, { readonly type: Type }>;

/** Checks every command against its own version of the rules. Throws a `Violation`. */
export class Referee {
  readonly floors = new Map<string, Floor>();
  /** Agent turns since a person or an operator last spoke, counted only from grants. */
  readonly #turns = new Map<string, Turns>();
  /** Ids of messages that programs wrote. */
  readonly #programs = new Set<string>();
  readonly #epochs = new Map<string, number>();
  /** Ids of messages whose deletion the floor recorded. */
  readonly #deleted = new Set<string>();
  /** Turns that a standstill met, with the time before which they must not expire. */
  readonly #unhurried = new Map<string, { readonly epoch: number; readonly until: number }>();

  /** Called when a program starts. Takes over the stored floors. */
  begin(floors: ReadonlyMap<string, Floor>): void {
    this.floors.clear();
    for (const [channel, floor] of floors) {
      const { turns, failed: failures = 0 } = floor.usageSincePerson;
      this.floors.set(channel, floor);
      this.#turns.set(channel, { turns, failures });
    }
  }

  judge(channel: string, command: Command, at: number, applied: Applied): Move {
    const before = this.floors.get(channel) ?? emptyFloor(channel);
    const after = applied.state;
    const facts = applied.ok ? applied.facts : [];
    const move: Move = { channel, command, at, before, after, facts, refusal: applied.ok ? null : applied.refusal };
    this.floors.set(channel, after);
    if (!applied.ok) {
      const isSame = before === after || canonical(before) === canonical(after);
      must('I2', isSame, () => `${command.type} was refused (${applied.refusal}) and changed the floor of ${channel}`);
      return move;
    }
    checkActor(move);
    checkAllowance(move);
    this.#checkUnattended(move);
    this.#checkEpochs(move);
    checkTime(move);
    this.#checkStandstill(move);
    if (command.type === 'receive') checkRoute(move, command);
    this.#checkDeleted(move);
    checkFloor(after);
    return move;
  }

  /**
   * I20: without a person, agents get only the allowed number of turns, even when programs write. A turn that failed
   * before its agent said something does not count, up to the allowed number of such turns.
   */
  #checkUnattended({ channel, command, facts, after }: Move): void {
    if (command.type === 'receive' && command.fromProgram === true) this.#programs.add(command.id);
    const { usageSincePerson, settings } = after;
    const isPerson = command.type === 'receive' && command.fromProgram !== true && command.ignore === undefined;
    const isOperator = command.type === 'grant' || command.type === 'start' || command.type === 'resume';
    let count = isPerson || isOperator ? NO_TURNS : (this.#turns.get(channel) ?? NO_TURNS);
    for (const fact of facts) {
      if (fact.type === 'turnGranted' && command.type !== 'grant') count = grantedOnce(count);
      if (fact.type === 'turnEnded' && fact.outcome === 'forfeited' && !fact.said) count = failedOnce(count, settings);
      if (fact.type !== 'messageRouted' || this.#programs.has(fact.id)) continue;
      if (fact.line !== null) count = NO_TURNS;
    }
    this.#turns.set(channel, count);
    const { turns } = count;
    const isGranted = facts.some(({ type }) => type === 'turnGranted');
    const isWithin = !isGranted || turns <= Math.max(settings.maxTurns, usageSincePerson.turns);
    must('I20', isWithin, () => `${channel} had ${turns} turns without a person, of ${settings.maxTurns}`);
  }

  /** I7: a deleted message is given to no agent and kept for none. */
  #checkDeleted({ channel, facts, after }: Move): void {
    for (const fact of facts) {
      for (const id of [...messagesGivenBy(fact), ...(fact.type === 'turnEnded' ? fact.returned : [])])
        must('I7', !this.#deleted.has(id), () => `${id} was deleted in ${channel}, and is given by ${fact.type}`);
      if (fact.type === 'messageAmended' && fact.change === 'deleted') this.#deleted.add(fact.id);
    }
    const kept = [...after.held, ...turnsOf(after).flatMap((turn) => [...turn.given, ...missedBy(turn)])];
    const stale = kept.filter(({ id }) => this.#deleted.has(id)).map(({ id }) => id);
    must('I7', stale.length === 0, () => `${stale.join()} was deleted in ${channel}, and is kept to be answered`);
  }

  /** Called when the program stood still. The time counts against no holder. */
  stoodStill(ms: number): void {
    for (const [channel, { turn }] of this.floors) {
      if (turn?.status !== 'active' || turn.deadlineAt === null) continue;
      const until = Math.min(turn.deadlineAt, turn.hardEndAt) + ms;
      this.#unhurried.set(channel, { epoch: turn.epoch, until });
    }
  }

  #checkStandstill({ channel, command, facts, at }: Move): void {
    const known = this.#unhurried.get(channel);
    if (known === undefined) return;
    // Forgets the noted end of the turn: these facts give the turn another end.
    const isOther = facts.some(({ type }) => OTHER_TIMES.has(type));
    if (isOther || at >= known.until) this.#unhurried.delete(channel);
    else if (command.type === 'tick')
      for (const fact of facts) {
        const isExpired = fact.type === 'turnEnded' && fact.epoch === known.epoch && fact.outcome === 'expired';
        must('I14', !isExpired, () => `a standstill of the program ended a turn in ${channel}`);
      }
  }

  #checkEpochs({ channel, before, facts, command }: Move): void {
    for (const fact of facts) {
      if (fact.type === 'epochRaised') this.#epochs.set(channel, (this.#epochs.get(channel) ?? 0) + fact.by);
      if (fact.type !== 'turnGranted' && fact.type !== 'turnResumed') continue;
      const highest = Math.max(this.#epochs.get(channel) ?? 0, before.epoch);
      must('I2', fact.epoch > highest, () => `epoch ${fact.epoch} in ${channel} after ${highest}`);
      must(
        'I10',
        !before.catchingUp || command.type === 'catchUp',
        () => `a grant in ${channel} before its history was read`,
      );
      this.#epochs.set(channel, fact.epoch);
    }
  }
}

/** Checks what holds of every floor at any time. */
export function checkFloor(floor: Floor): void {
  const { channel, seats, turn, parked, queue } = floor;
  const active = seats.filter(({ status }) => status === 'ACTIVE').map(({ agent }) => agent);
  const waiting = seats.filter(({ status }) => status === 'WAITING').map(({ agent }) => agent);
  const queued = seats.filter(({ status }) => status === 'QUEUED').map(({ agent }) => agent);
  const holder = turn !== null && waitOf(turn) === null ? [turn.agent] : [];
  const resting = [turn, ...parked]
    .filter((each): each is Turn => each !== null && waitOf(each) !== null)
    .map(({ agent }) => agent);
  must(
    'I1',
    active.length <= 1 && same(active, holder),
    () => `ACTIVE in ${channel}: ${active.join()}, holder: ${holder.join()}`,
  );
  must(
    'I1',
    same(waiting, resting),
    () => `WAITING in ${channel}: ${waiting.join()}, turns that wait: ${resting.join()}`,
  );
  must(
    'I6',
    same(queued, queue) && new Set(queue).size === queue.length,
    () => `queue of ${channel}: ${queue.join()}, QUEUED: ${queued.join()}`,
  );
  must(
    'I9',
    new Set(floor.held.map(({ id }) => id)).size === floor.held.length,
    () => `a message is held twice in ${channel}`,
  );
  must(
    'I7',
    seats.every(({ agent }) => seats.filter((seat) => seat.agent === agent).length === 1),
    () => `two seats of one agent in ${channel}`,
  );
  checkConserving(floor);
}

/** Long after a start, an absent agent neither queues nor holds. `isHung`: its session is being reopened. */
export function checkPresence({ channel, seats }: Floor, isHung: (channel: string, agent: string) => boolean): void {
  const ghosts = seats.filter(
    ({ agent, present, status }) => !present && status !== 'OFFLINE' && !isHung(channel, agent),
  );
  must(
    'I6',
    ghosts.length === 0,
    () => `${ghosts.map(({ agent, status }) => `${agent} is ${status}`).join()} in ${channel}, and not there`,
  );
}

/** I4 and I9: a free floor neither idles while an agent is due nor keeps a message waiting. */
function checkConserving(floor: Floor): void {
  const { channel, settings, turn, facilitation, catchingUp, condition, stopped, limit } = floor;
  const isBarred = limit !== null && limit.until !== null;
  if (turn !== null || facilitation !== null || catchingUp || condition === 'paused') return;
  if (floor.parked.some((parked) => isToCome(floor, askOf(parked)?.agent))) return;
  const present = floor.seats.filter(({ status, present: isHere }) => status === 'QUEUED' && isHere);
  if (condition === 'open' && settings.order !== 'manual' && settings.order !== 'mention') {
    const due = present.filter(({ taken }) => settings.rounds === 0 || taken < settings.rounds);
    must(
      'I4',
      due.length === 0,
      () => `${channel} is open and free, and ${due.map(({ agent }) => agent).join()} waits for it`,
    );
  }
  if (stopped || isBarred || settings.order === 'manual') return;
  const isFor = (addressed: readonly string[]): boolean =>
    settings.order === 'mention' ? present.some(({ agent }) => addressed.includes(agent)) : present.length > 0;
  // A visible message waits for agents later in the exchange. If none comes, the end of the exchange opens another.
  const mayOpen = ({ until, fromProgram, line }: Held): boolean =>
    until !== 'next' &&
    !(until === 'exchange' && condition === 'open') &&
    ((fromProgram !== true && line === null) || limit === null);
  const stuck = floor.held.filter((held) => mayOpen(held) && isFor(held.addressed)).map(({ id }) => id);
  must('I9', stuck.length === 0, () => `${channel} is free and ${stuck.join()} is held`);
}

/** True while the floor waits for an asked agent whose session is still opening. */
function isToCome({ seats }: Floor, asked: string | undefined): boolean {
  return seats.some(({ agent, status, present }) => agent === asked && status === 'QUEUED' && !present);
}

const OPERATORS: ReadonlySet<string> = new Set(['ada']);
/** Types of facts that change when a turn ends, so that the time noted at a standstill no longer counts. */
const OTHER_TIMES: ReadonlySet<string> = new Set(['worked', 'turnWaited', 'configured', 'disconnected']);

function checkActor({ command, before, channel }: Move): void {
  if ('by' in command && typeof command.by === 'string') {
    must('I18', OPERATORS.has(command.by), () => `${command.by} changed ${channel} by ${command.type}`);
  }
  switch (command.type) {
    case 'say':
    case 'end':
    case 'wait':
    case 'work':
    case 'request':
    case 'injected': {
      const { turn } = before;
      const mayAct = turn !== null && (waitOf(turn) === null || command.type === 'injected');
      const isHolder = mayAct && turn.agent === command.agent && turn.epoch === command.epoch;
      must(
        'I2',
        isHolder,
        () => `${command.type} of ${command.agent} #${command.epoch} counted in ${channel} without the floor`,
      );
      return;
    }
    case 'withdraw':
      must('I18', openQuestion(before) !== null, () => `a withdrawal counted in ${channel}, where nothing is asked`);
      return;
    case 'decide':
    case 'shown': {
      const asked = openQuestion(before);
      must(
        'I18',
        asked?.question === command.question,
        () => `${command.type} of question ${command.question} counted in ${channel} for ${asked?.question}`,
      );
      return;
    }
    default:
  }
}

type Turns = { readonly turns: number; readonly failures: number };

const NO_TURNS: Turns = { turns: 0, failures: 0 };

function grantedOnce({ turns, failures }: Turns): Turns {
  return { turns: turns + 1, failures };
}

function failedOnce({ turns, failures }: Turns, { maxTurns }: Floor['settings']): Turns {
  return failures < maxTurns ? { turns: Math.max(0, turns - 1), failures: failures + 1 } : { turns, failures };
}

/** I20: without a person, agents take no more turns than allowed. An operator may grant more. */
function checkAllowance({ command, facts, after, channel }: Move): void {
  if (command.type === 'grant' || facts.every(({ type }) => type !== 'turnGranted')) return;
  const { turns } = after.usageSincePerson;
  const { maxTurns } = after.settings;
  must('I20', turns <= maxTurns, () => `${channel} had ${turns} turns of ${maxTurns}`);
}

/** I14: no deadline fires early. */
function checkTime({ command, before, facts, at, channel }: Move): void {
  if (command.type !== 'tick') return;
  const deadline = nextDeadline(before);
  must('I14', deadline !== null && deadline <= at, () => `a deadline of ${channel} fired at ${at}, before ${deadline}`);
  for (const fact of facts) {
    if (fact.type !== 'turnEnded') continue;
    const turn = [before.turn, ...before.parked].find(
      (each) => each?.agent === fact.agent && each.epoch === fact.epoch,
    );
    if (turn === undefined || turn === null) continue;
    const { wait, deadlineAt, hardEndAt, silenceAt } = flat(turn);
    const ends = wait === null ? [deadlineAt, hardEndAt, silenceAt] : [wait.deadlineAt];
    must(
      'I14',
      ends.some((end) => end !== null && end <= at),
      () => `the turn of ${fact.agent} in ${channel} ended early: ${ends.join()}`,
    );
  }
}

/** The fate of a message follows only from the mode and the floor's state. */
function checkRoute(move: Move, command: Of<'receive'>): void {
  const { before, after, facts, channel } = move;
  const routed = facts.filter((fact) => fact.type === 'messageRouted').filter(({ id }) => id === command.id);
  must('I7', routed.length > 0, () => `${command.id} was received in ${channel} and has no fate`);
  const fate = routed.at(-1)?.fate;
  const say = (): string => `${command.id} in ${channel}, mode ${before.settings.mode}: ${JSON.stringify(fate)}`;
  if (command.ignore !== undefined) return must('I8', fate?.state === 'ignored', say);
  const isFull = before.held.length >= before.settings.maxHeld;
  if (isFull && fate?.state === 'unrouted') return;
  if (before.catchingUp) return must('I8', fate?.state === 'held' && fate.until === 'start', say);
  if (command.fromProgram === true && isOutOfTurns(before)) {
    const isForNobody = before.condition === 'resting' && fate?.state === 'unrouted';
    return must('I20', fate?.state === 'held' || isForNobody, say);
  }
  if (command.fromProgram === true && hasBudget(before) && fate?.state === 'held') return;
  const { turn } = before;
  const answersParked = before.parked.some(
    (parked) => waitOf(parked)?.reason === 'answer' && command.addressed.includes(parked.agent),
  );
  if (turn === null || waitOf(turn) !== null || turn.status === 'suspended' || answersParked) return;
  const delivered = fate?.state === 'delivered' ? fate : null;
  const isKept = after.turn?.agent === turn.agent && after.turn.epoch === turn.epoch;
  must('I8', isKept, () => `${command.id} ended the turn of ${turn.agent} in ${channel}`);
  const { mode, maxHeld } = before.settings;
  const isTurnFull = missedBy(turn).length + turn.given.length >= 2 * maxHeld;
  if (isTurnFull && (mode === 'inject' || mode === 'interrupt'))
    return must('I8', fate?.state === 'held' && fate.until === 'prompt', say);
  switch (mode) {
    case 'queue':
      return must('I8', fate?.state === 'held' && fate.until === 'turn' && waitOf(after.turn) === null, say);
    case 'inject':
      return must(
        'I8',
        delivered?.via === 'inject' && same(delivered.to, [turn.agent]) && waitOf(after.turn) === null,
        say,
      );
    case 'interrupt':
      return must('I8', delivered?.via === 'interrupt' && waitOf(after.turn)?.reason === 'human', say);
    case 'parallel': {
      const { deadlineAt, hardEndAt } = flat(turn);
      const next = flatOrNull(after.turn);
      const isUntouched = next?.deadlineAt === deadlineAt && next.hardEndAt === hardEndAt;
      return must('I8', fate?.state === 'held' && fate.until === 'exchange' && isUntouched, say);
    }
  }
}

function isOutOfTurns({ usageSincePerson, settings }: Floor): boolean {
  return usageSincePerson.turns >= settings.maxTurns;
}

function hasBudget({ settings }: Floor): boolean {
  const budgets = [...Object.values(settings.exchangeBudget), ...Object.values(settings.dayBudget)];
  return budgets.some((budget) => budget !== null);
}

function same(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((item) => other.includes(item));
}
