import type { Fact } from '../../src/turns/floor/fact.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import type { Move } from './referee.ts';
import type { Situations } from './situations.ts';
import { waitOf } from '../../src/turns/floor/seats.ts';
import { flatOrNull } from '../turns/floor/flat-turn.ts';

type Of<Type extends Fact['type']> = Extract<Fact, { readonly type: Type }>;

/** Finds the situations that a sequence of commands meets. */
export class Spotter {
  readonly #situations: Situations;
  readonly #prompted: ReadonlySet<string>;
  /** Edits of each held message. */
  readonly #edits = new Map<string, number>();
  readonly #isFresh = new Map<string, 'waitOver' | 'outage' | 'stopped'>();
  /** Channels whose platform is disconnected. */
  readonly #lost = new Set<string>();
  #former: { readonly at: number; readonly what: string } = { at: -1, what: '' };

  /** `prompted`: "channel epoch" of each prompt that reached a session. */
  constructor(situations: Situations, prompted: ReadonlySet<string>) {
    this.#situations = situations;
    this.#prompted = prompted;
  }

  see(move: Move): void {
    this.#refused(move);
    if (move.refusal === null) {
      this.#commanded(move);
      this.#touched(move);
      if (move.command.type === 'receive' && move.command.fromProgram === true) this.#programWrote(move);
      for (const fact of move.facts) this.#happened(fact, move);
    }
    const { command, channel, at } = move;
    const epoch = 'epoch' in command ? command.epoch : move.before.turn?.epoch;
    this.#former = { at, what: `${command.type} ${channel} ${epoch}` };
  }

  /** Called before the program crashes. */
  crash(floors: Iterable<Floor>): void {
    const s = this.#situations;
    if (this.#lost.size > 0) s.reach('a crash while the platform is out of touch');
    this.#lost.clear();
    for (const { turn, parked, held, facilitation } of floors) {
      if (turn !== null && waitOf(turn) === null) s.reach('a crash while an agent is ACTIVE');
      if ([turn, ...parked].some((each) => waitOf(each)?.reason === 'answer'))
        s.reach('a crash while an agent waits for an answer');
      const wait = flatOrNull(turn)?.wait ?? null;
      if (wait !== null && wait.graceEndAt !== null) s.reach('a crash during an interrupt');
      if (held.length > 0) s.reach('a crash with messages held');
      if (facilitation !== null) s.reach('a crash while the facilitator is asked');
    }
  }

  /** Finds situations while the platform is disconnected, and after it. */
  #touched({ command, channel, before, after, facts, at }: Move): void {
    const s = this.#situations;
    const wait = waitOf(before.turn) ?? null;
    if (command.type === 'disconnect') {
      this.#lost.add(channel);
      if (before.turn !== null) s.reach('the platform is out of touch in the middle of a turn');
    }
    if (command.type === 'restart') this.#lost.delete(channel);
    if (!this.#lost.has(channel)) return;
    if (command.type === 'receive') s.reach('a message comes while the platform is out of touch');
    if (command.type === 'choose') s.reach('the facilitator answers while the platform is out of touch');
    if (wait?.reason === 'human' && facts.some(({ type }) => type === 'turnStopped'))
      s.reach('an interrupted agent stops while the platform is out of touch');
    for (const fact of facts) {
      if (fact.type !== 'turnEnded') continue;
      s.reach('a turn ends while the platform is out of touch');
      if (fact.outcome === 'expired') s.reach('a turn times out while the platform is out of touch');
    }
    if (command.type !== 'catchUp') return;
    this.#lost.delete(channel);
    if ([before.turn, ...before.parked].some((turn) => (waitOf(turn)?.deadlineAt ?? at) < at))
      s.reach('a wait outlasts its limit while the platform is out of touch');
    if (before.turn === null && after.turn !== null) s.reach('the floor goes on when the platform is heard again');
  }

  /** Finds situations of another program's message. */
  #programWrote({ before, after, facts }: Move): void {
    const s = this.#situations;
    const fate = facts.findLast((fact) => fact.type === 'messageRouted')?.fate;
    if (fate?.state === 'delivered' && fate.via === 'interrupt') s.reach('a program interrupts a turn');
    if (fate?.state === 'delivered' && fate.via === 'inject')
      s.reach('a program reaches the holder in the middle of a turn');
    if (fate?.state === 'held' && before.limit !== null) s.reach('a limit keeps a program’s message back');
    if (before.stopped && after.stopped) s.reach('a program writes to a floor that was stopped');
    if (before.limit === null && after.limit !== null) s.reach('a program reaches the limit of turns');
  }

  #refused({ command, refusal, before, channel, at }: Move): void {
    const s = this.#situations;
    if (command.type === 'receive' && refusal === 'duplicate') s.reach('a message comes twice');
    if (command.type === 'skip' && refusal === 'stale-epoch') {
      s.reach('a skip for a turn that is over');
      const { what } = this.#former;
      if (this.#former.at === at && what === `skip ${channel} ${command.epoch}`)
        s.reach('two operators skip the same turn at once');
      if (this.#former.at === at && what.startsWith(`end ${channel}`))
        s.reach('a skip and the end of the turn at the same moment');
    }
    if (
      command.type === 'end' &&
      refusal !== null &&
      this.#former.at === at &&
      this.#former.what.startsWith(`skip ${channel}`)
    ) {
      s.reach('a skip and the end of the turn at the same moment');
    }
    if (refusal === 'stale-epoch' || refusal === 'not-holder') {
      if (command.type === 'say' || command.type === 'end' || command.type === 'work')
        s.reach('late output is refused');
    }
    if (command.type === 'receive' && refusal === null && before.condition === 'paused')
      s.reach('a message while the floor is paused');
  }

  #commanded({ command, before, after, channel, facts }: Move): void {
    const s = this.#situations;
    const { turn, held } = before;
    switch (command.type) {
      case 'stop':
        if (turn !== null && waitOf(turn) === null && !this.#prompted.has(`${channel} ${turn.epoch}`))
          s.reach('a stop while the prompt was still owed');
        if (held.length > 0) s.reach('a stop with messages held');
        if (waitOf(turn)?.reason === 'human') s.reach('a stop during an interrupt');
        return;
      case 'mode':
        if (held.some(({ until }) => until === 'turn')) s.reach('a message held across a change of mode');
        return;
      case 'pause':
        if (turn !== null) s.reach('a pause in the middle of a turn');
        return;
      case 'disable':
        if (turn?.agent === command.agent) s.reach('an agent is disabled in its turn');
        return;
      case 'remove':
        if (turn?.agent === command.agent) s.reach('an agent is removed in its turn');
        return;
      case 'configure':
        if (turn !== null) s.reach('a configuration is applied during a turn');
        if (turn !== null && after.seats.every(({ agent }) => agent !== turn.agent))
          s.reach('an agent is taken out by the configuration in its turn');
        return;
      case 'choose':
        if (facts.some((fact) => fact.type === 'facilitatorAnswered' && fact.next !== null))
          s.reach('the facilitator chooses');
        return;
      case 'edit': {
        if (!held.some(({ id }) => id === command.id)) return;
        const edits = (this.#edits.get(command.id) ?? 0) + 1;
        this.#edits.set(command.id, edits);
        s.reach(edits === 1 ? 'an edit of a held message' : 'two edits of one held message');
        return;
      }
      case 'delete':
        if (held.some(({ id }) => id === command.id)) s.reach('a held message is deleted');
        return;
      case 'receive':
        if (this.#isFresh.get(channel) === 'waitOver') s.reach('an answer after the wait ran out');
        if (before.stopped && held.length > 0 && after.held.length === 0)
          s.reach('a message after a stop releases what was held');
        this.#isFresh.delete(channel);
        return;
      default:
    }
  }

  #happened(fact: Fact, move: Move): void {
    switch (fact.type) {
      case 'turnGranted':
      case 'turnResumed':
      case 'turnContinued':
      case 'turnStopped':
      case 'turnEnded':
        return this.#turned(fact, move);
      case 'messageRouted':
        return this.#routed(fact, move);
      case 'announced':
        return this.#announced(fact, move);
      case 'seatMoved':
        return this.#moved(fact, move);
      default:
        return this.#otherwise(fact, move);
    }
  }

  #turned(fact: Of<'turnGranted' | 'turnResumed' | 'turnContinued' | 'turnStopped' | 'turnEnded'>, move: Move): void {
    const s = this.#situations;
    const { before, at } = move;
    switch (fact.type) {
      case 'turnGranted':
        if (before.held.some(({ id }) => fact.messages.includes(id))) s.reach('held messages come with a grant');
        if (fact.keepsPlace) s.reach('another agent answers for an interrupted one');
        if (before.parked.length > 0) s.reach('an agent waits while another has the floor');
        if (this.#isFresh.get(move.channel) === 'outage') s.reach('an agent comes back after an outage');
        if (this.#isFresh.get(move.channel) === 'outage') this.#isFresh.delete(move.channel);
        return;
      case 'turnResumed': {
        const isParked = before.parked.some(({ agent }) => agent === fact.agent);
        if (isParked) s.reach('a lent floor is given back');
        if (fact.asked !== undefined) s.reach('an agent asks another and goes on');
        if (isParked && fact.why === 'interrupt') s.reach('an interrupted turn goes on after another answered');
        if (fact.why === 'restart') s.reach('a turn continues after a restart');
        if (fact.why === 'answered' && fact.fromProgram === true) s.reach('a program answers an agent that waits');
        if (fact.why === 'answered') s.reach('an answer resolves a wait');
        if (fact.why === 'operator') s.reach('an operator resumes a wait');
        return;
      }
      case 'turnContinued':
        return s.reach('a message that could not be injected prompts again');
      case 'turnStopped':
        return s.reach(
          fact.forced ? 'a turn is interrupted and stopped by force' : 'a turn is interrupted and stops by itself',
        );
      case 'turnEnded': {
        const turn = flatOrNull([before.turn, ...before.parked].find((each) => each?.agent === fact.agent));
        if (fact.outcome === 'passed') s.reach('an agent passes');
        if (fact.outcome === 'lapsed') s.reach('a silence ends a turn');
        if (fact.outcome === 'expired' && turn?.wait === null) {
          s.reach('a turn times out');
          const isHard =
            turn.hardEndAt !== null &&
            turn.hardEndAt <= at &&
            (turn.deadlineAt === null || turn.deadlineAt > turn.hardEndAt);
          if (isHard) s.reach('a turn reaches its hard end');
        }
        if (move.command.type === 'grant' && turn?.wait) s.reach('an operator takes the floor from one who waits');
      }
    }
  }

  #routed({ fate }: Of<'messageRouted'>, { before }: Move): void {
    const s = this.#situations;
    if (fate.state === 'ignored' && fate.rule === 'bot') s.reach('a message is ignored by a rule');
    if (fate.state === 'held' && fate.until === 'turn') s.reach('a message is held until the turn ends');
    if (fate.state === 'held' && fate.until === 'start') s.reach('a message is held before the history is read');
    if (fate.state === 'unrouted' && fate.why === 'too many held messages')
      s.reach('more messages are held than allowed');
    if (fate.state !== 'delivered') return;
    if (fate.via === 'observe') s.reach('a message is observed');
    if (fate.via === 'interrupt' && waitOf(before.turn)?.reason === 'human')
      s.reach('a second message joins an interrupt');
  }

  #announced({ announcement }: Of<'announced'>, { channel }: Move): void {
    const s = this.#situations;
    if (announcement.kind === 'gap') s.reach('a gap in the history is announced');
    if (announcement.kind === 'nobody') {
      s.reach('nobody is available');
      this.#isFresh.set(channel, 'outage');
    }
    if (announcement.kind === 'waitTimeout') {
      s.reach('a wait runs out');
      this.#isFresh.set(channel, 'waitOver');
    }
    if (announcement.kind !== 'limit') return;
    if (announcement.budget === 'turns') s.reach('the limit of turns is reached');
    else if (announcement.budget.endsWith('a day')) s.reach('a budget of the day is used up');
    else if (announcement.budget !== 'held messages') s.reach('a budget of the exchange is used up');
  }

  #moved({ from, trigger, cause }: Of<'seatMoved'>, _move: Move): void {
    const s = this.#situations;
    if (trigger === 'RECALLED') s.reach('an agent that was alone is recalled');
    if (trigger === 'CRASHED')
      s.reach(cause === 'the bot restarted' ? 'a turn is forfeited by a restart' : 'an agent crashes in its turn');
    if (trigger === 'DISCONNECTED' && from === 'WAITING') s.reach('a waiting agent disconnects');
    if (cause?.startsWith('no heartbeat') === true) s.reach('an agent misses its heartbeats');
  }

  #otherwise(fact: Fact, { command, before, facts }: Move): void {
    const s = this.#situations;
    if (fact.type === 'exchangeOpened' && facts.every(({ type }) => type !== 'usageReset')) {
      if (before.exchange !== null) s.reach('a program starts the rounds anew');
      else if (command.type === 'receive') s.reach('a program opens an exchange');
    }
    if (fact.type === 'usageReset' && fact.why === 'more') s.reach('a limit is lifted by an operator');
    if (fact.type === 'exchangeClosed' && fact.reason === 'silent') s.reach('a round passes with nothing said');
    if (fact.type === 'prioritised' && fact.by === 'agent') s.reach('an agent hands over');
    if (fact.type === 'usageReset' && fact.why === 'midnight') s.reach('a new day lifts the budget');
    if (fact.type === 'seatCreated') s.reach('an agent is let in by an operator');
    if (fact.type === 'messageAmended' && fact.holder !== null) s.reach('an edit reaches the holder');
    if (fact.type === 'injectReported' && fact.outcome === 'injected') s.reach('a message is injected and taken');
    if (fact.type !== 'facilitatorAnswered') return;
    if (fact.why === 'named nobody queued') s.reach('the facilitator names nobody who is queued');
    if (fact.why === 'no answer' && command.type === 'tick') s.reach('the facilitator does not answer in time');
    if (fact.why === 'left') s.reach('the facilitator leaves while it is asked');
  }
}
