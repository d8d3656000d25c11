import assert from 'node:assert/strict';
import { decide } from '../../../src/turns/floor/decide.ts';
import { evolve } from '../../../src/turns/floor/evolve.ts';
import { nextDeadline } from '../../../src/turns/floor/seats.ts';
import { react } from '../../../src/turns/floor/react.ts';
import type { AgentCommand, Command, OperatorCommand } from '../../../src/turns/floor/command.ts';
import type { Refusal } from '../../../src/turns/floor/refusals.ts';
import type { Effect, Receipt } from '../../../src/turns/floor/react.ts';
import type { Fact, Fate } from '../../../src/turns/floor/fact.ts';
import type { Announcement } from '../../../src/turns/floor/announcement.ts';
import { emptyFloor, floorSchema, PLAIN_SETTINGS } from '../../../src/turns/floor/floor.ts';
import type { Floor, Turn, Status } from '../../../src/turns/floor/floor.ts';
import type { AgentId, FloorSettings, MessageId, SeatSettings } from '../../../src/turns/floor/settings.ts';
import type { Instant } from '../../../src/lib/time.ts';
import { checkEffect, checkFact, checkFloor } from './invariants.ts';

/** The time at which every play begins. */
export const DAWN: Instant = 1_700_000_000_000;

/** The facts and effects of one command or of a time span. */
export type Act = { readonly facts: readonly Fact[]; readonly effects: readonly Effect[] };

export type Casting = {
  readonly agents?: readonly (AgentId | (Partial<SeatSettings> & { readonly agent: AgentId }))[];
  readonly settings?: Partial<FloorSettings>;
};

/** A channel with its agents, all QUEUED, and a resting floor: the start of the specification's examples. */
export function stage(casting: Casting = {}): Stage {
  const agents = casting.agents ?? ['pm', 'dev', 'qa'];
  const play = new Stage();
  play.configure({ ...PLAIN_SETTINGS, ...casting.settings }, agents.map(seatOf));
  for (const seat of agents.map(seatOf)) play.joins(seat.agent);
  play.effects.length = 0;
  return play;
}

export function seatOf(seat: AgentId | (Partial<SeatSettings> & { readonly agent: AgentId })): SeatSettings {
  const plain = { priority: 10, timeoutMs: 60_000, rejoin: 'manual' as const };
  return typeof seat === 'string' ? { agent: seat, ...plain } : { ...plain, ...seat };
}

/**
 * One floor with its clock, driven by a script. After each command the facts are folded and must give the floor that
 * `decide` returned. The floor must survive JSON and its schema, and the invariants must hold. A scripted command must
 * be accepted; `refused` and `attempt` allow refusals.
 */
export class Stage {
  at: Instant = DAWN;
  floor: Floor = deepFreeze(emptyFloor('console:demo'));
  readonly journal: { readonly at: Instant; readonly fact: Fact }[] = [];
  readonly effects: Effect[] = [];
  last: Act = { facts: [], effects: [] };

  attempt(command: Command): { readonly refusal: Refusal | null } & Act {
    const decision = decide(this.floor, command, this.at);
    let floor = this.floor;
    for (const fact of decision.facts) {
      checkFact(floor, fact, this.at);
      floor = deepFreeze(evolve(floor, fact, this.at));
      this.journal.push({ at: this.at, fact });
    }
    const context = `after ${JSON.stringify(command)}`;
    assert.deepStrictEqual(floor, decision.ok ? decision.floor : this.floor, `fold = floor ${context}`);
    assert.deepStrictEqual(floorSchema.parse(JSON.parse(JSON.stringify(floor))), floor, `round trip ${context}`);
    checkFloor(floor, context);
    this.floor = floor;
    const effects = decision.facts.flatMap((fact) => react(fact, floor));
    effects.forEach((effect) => checkEffect(effect));
    this.effects.push(...effects);
    this.last = { facts: decision.facts, effects };
    return { refusal: decision.ok ? null : decision.refusal, ...this.last };
  }

  act(command: Command): Act {
    const { refusal, ...act } = this.attempt(command);
    assert.equal(refusal, null, `${JSON.stringify(command)} was refused`);
    return act;
  }

  /** Returns the refusal of a command, which must change nothing. */
  refused(command: Command): Refusal {
    const before = this.floor;
    const { refusal, facts, effects } = this.attempt(command);
    assert(refusal !== null, `${JSON.stringify(command)} was accepted`);
    assert.deepStrictEqual(this.floor, before);
    assert.deepStrictEqual(effects, []);
    assert(facts.every((fact) => fact.type === 'actRefused'));
    return refusal;
  }

  configure(settings: FloorSettings, seats: readonly SeatSettings[]): Act {
    return this.act({ type: 'configure', settings, seats });
  }

  person(id: MessageId, ...addressed: readonly AgentId[]): Act {
    return this.act({ type: 'receive', id, addressed });
  }

  /** Another program sends a message. */
  program(id: MessageId, ...addressed: readonly AgentId[]): Act {
    return this.act({ type: 'receive', id, addressed, fromProgram: true });
  }

  losesTouch(): Act {
    return this.act({ type: 'disconnect' });
  }

  catchesUp(): Act {
    return this.act({ type: 'catchUp' });
  }

  says(agent: AgentId, text = `${agent} says something`, mentions: readonly AgentId[] = []): Act {
    return this.act({ type: 'say', agent, epoch: this.epochOf(agent), text, mentions });
  }

  completes(agent: AgentId, handTo?: AgentId): Act {
    return this.act(this.ending(agent, handTo));
  }

  passes(agent: AgentId): Act {
    return this.act({ type: 'end', agent, epoch: this.epochOf(agent), outcome: 'passed', signalled: true });
  }

  /** Posts a text and completes the turn. */
  speaks(agent: AgentId, handTo?: AgentId): Act {
    const said = this.says(agent);
    const done = this.completes(agent, handTo);
    return { facts: [...said.facts, ...done.facts], effects: [...said.effects, ...done.effects] };
  }

  waits(agent: AgentId): Act {
    return this.act({ type: 'wait', agent, epoch: this.epochOf(agent), reason: 'answer' });
  }

  works(agent: AgentId, open: number): Act {
    return this.act({ type: 'work', agent, epoch: this.epochOf(agent), open });
  }

  spends(agent: AgentId, tokens: number, costMicros = 0): Act {
    return this.act({ type: 'spend', agent, epoch: this.epochOf(agent), tokens, costMicros });
  }

  reports(agent: AgentId, id: MessageId, outcome: 'injected' | 'next-prompt' | 'refused' | 'no-room'): Act {
    return this.act({ type: 'injected', agent, epoch: this.epochOf(agent), id, outcome });
  }

  stopsGenerating(agent: AgentId): Act {
    return this.act({ type: 'interrupted', agent, epoch: this.epochOf(agent) });
  }

  joins(agent: AgentId): Act {
    return this.act({ type: 'join', agent });
  }

  leaves(agent: AgentId, cause = 'connection closed'): Act {
    return this.act({ type: 'leave', agent, cause });
  }

  operator(command: OmitBy<OperatorCommand>): Act {
    return this.act({ ...command, by: 'ada' });
  }

  tick(): Act & { readonly refusal: Refusal | null } {
    const result = this.attempt({ type: 'tick' });
    const next = nextDeadline(this.floor);
    assert(next === null || next > this.at, `a tick leaves no deadline behind: ${next} at ${this.at}`);
    return result;
  }

  /** Advances the clock: a tick at each deadline, and one at the end. */
  later(ms: number): Act {
    const until = this.at + ms;
    const facts: Fact[] = [];
    const effects: Effect[] = [];
    for (let rings = 0; ; rings += 1) {
      assert(rings < 1000, 'the alarm rings for ever');
      const deadline = nextDeadline(this.floor);
      const isDue = deadline !== null && deadline <= until;
      this.at = isDue ? Math.max(this.at, deadline) : until;
      const result = this.tick();
      assert.equal(result.refusal, isDue ? null : 'nothing-due');
      facts.push(...result.facts);
      effects.push(...result.effects);
      if (!isDue) break;
    }
    this.last = { facts, effects };
    return this.last;
  }

  /** Returns the command by which an agent completes its turn. */
  ending(agent: AgentId, handTo?: AgentId): AgentCommand {
    const plain = { type: 'end', agent, epoch: this.epochOf(agent), outcome: 'completed', signalled: true } as const;
    return handTo === undefined ? plain : { ...plain, handTo };
  }

  epochOf(agent: AgentId): number {
    return this.turnOf(agent)?.epoch ?? this.floor.epoch;
  }

  turnOf(agent: AgentId): Turn | null {
    return [this.floor.turn, ...this.floor.parked].find((turn) => turn?.agent === agent) ?? null;
  }

  status(agent: AgentId): Status | undefined {
    return this.floor.seats.find((seat) => seat.agent === agent)?.status;
  }

  /** Returns each seat's state, in the order of the seats: 'pm ACTIVE, dev QUEUED'. */
  get seats(): string {
    return this.floor.seats.map((seat) => `${seat.agent} ${seat.status}`).join(', ');
  }

  /** Returns the ACTIVE agent with its epoch: 'dev #2'. `null`: none. */
  get holder(): string | null {
    const active = this.floor.seats.find((seat) => seat.status === 'ACTIVE');
    return active === undefined ? null : `${active.agent} #${this.floor.turn?.epoch}`;
  }

  /** Returns all seat moves so far, of one agent or of all. */
  moves(agent?: AgentId): readonly string[] {
    return movesIn(this.journal.map((entry) => entry.fact)).filter(
      (move) => agent === undefined || move.startsWith(`${agent} `),
    );
  }

  fate(id: MessageId): Fate | null {
    const facts = this.journal.map((entry) => entry.fact);
    const fact = facts.findLast((one) => one.type === 'messageRouted' && one.id === id);
    return fact?.type === 'messageRouted' ? fact.fate : null;
  }

  receipts(id: MessageId): readonly Receipt[] {
    return this.effects.flatMap((effect) =>
      effect.type === 'receipt' && effect.message === id ? [effect.receipt] : [],
    );
  }

  get announced(): readonly Announcement[] {
    return announcementsIn(this.effects);
  }

  /** Folds the whole journal again. */
  replay(): Floor {
    return this.journal.reduce((floor, { fact, at }) => evolve(floor, fact, at), emptyFloor('console:demo'));
  }
}

export function movesIn(facts: readonly Fact[]): readonly string[] {
  return facts.flatMap((fact) =>
    fact.type === 'seatMoved' ? [`${fact.agent} ${fact.from}>${fact.to} ${fact.trigger}`] : [],
  );
}

export function announcementsIn(effects: readonly Effect[]): readonly Announcement[] {
  return effects.flatMap((effect) => (effect.type === 'announce' ? [effect.announcement] : []));
}

/** Returns the effects of one type, in order. */
export function effectsOf<T extends Effect['type']>(type: T, act: Act): readonly Extract<Effect, { type: T }>[] {
  return act.effects.filter((effect): effect is Extract<Effect, { type: T }> => effect.type === type);
}

/** Returns the facts of one type, in order. */
export function factsOf<T extends Fact['type']>(type: T, act: Act): readonly Extract<Fact, { type: T }>[] {
  return act.facts.filter((fact): fact is Extract<Fact, { type: T }> => fact.type === type);
}

type OmitBy<T> = T extends { readonly by: string } ? Omit<T, 'by'> : never;

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(deepFreeze);
  }
  return value;
}
