import type { Instant } from '../lib/time.ts';
import type { CommandFor, KnownMessage, Machine, MachineUses } from './machine.ts';
import type { CommandResult } from './port.ts';

/** A command and all that it causes, decided and not yet written. */
export type Chain = {
  readonly at: Instant;
  /** Machines that have something to write. */
  readonly touched: Set<Deciding>;
  /** Commands that are still to be decided, with an id by which each is carried out once. */
  readonly open: { readonly command: CommandFor; readonly id: string }[];
};

/** A machine as far as a chain needs it, whatever its types. */
export type Deciding = {
  take(next: Chain['open'][number], chain: Chain): void;
  /** Takes back what was decided and not written. */
  drop(): void;
};

/** What a store knows of one machine's keys. */
export type KnownStates<State> = {
  /** The newest state of a key, and the number of its last fact. */
  state(key: string): { readonly state: State; readonly seq: number };
  /** Whether a command with this id was carried out for a key. */
  isDone(key: string, id: string): boolean;
  message(id: string): KnownMessage | null;
};

/** What one key is to become. */
export type DecidedRow<State, Fact, Effect> = {
  readonly key: string;
  readonly state: State;
  readonly facts: readonly Fact[];
  readonly effects: readonly Effect[];
  /** The id of the command, if it has one. */
  readonly cause: string | null;
};

/** A chain of commands longer than this is a bug. */
const LONGEST_CHAIN = 50;

/** Decides on a command and then on everything that it causes, until nothing is left; what was decided is taken back when one throws. */
export function decideChain<T>(
  at: Instant,
  decide: (chain: Chain) => T,
  machineOf: (name: string) => Deciding | null,
): { readonly result: T; readonly touched: ReadonlySet<Deciding> } {
  const chain: Chain = { at, touched: new Set(), open: [] };
  try {
    const result = decide(chain);
    for (let length = 1, next = chain.open.shift(); next !== undefined; next = chain.open.shift(), length += 1) {
      if (length > LONGEST_CHAIN) throw new Error(`impossible: more than ${LONGEST_CHAIN} commands follow from one`);
      const { machine } = next.command;
      const deciding = machineOf(machine);
      if (deciding === null) throw new Error(`impossible: no machine ${machine} is hosted`);
      deciding.take(next, chain);
    }
    return { result, touched: chain.touched };
  } catch (error) {
    for (const machine of chain.touched) machine.drop();
    throw error;
  }
}

/** What one machine's commands in a chain have come to: each is decided on the state that those before it left. */
export class Decided<State, Command, Fact, Effect, Refusal extends string> {
  readonly #machine: Machine<State, Command, Fact, Effect, Refusal>;
  readonly #uses: MachineUses<Command, Fact, Effect, Refusal>;
  readonly #known: KnownStates<State>;
  readonly #drafts = new Map<string, DecidedRow<State, Fact, Effect>>();

  constructor(
    machine: Machine<State, Command, Fact, Effect, Refusal>,
    uses: MachineUses<Command, Fact, Effect, Refusal>,
    known: KnownStates<State>,
  ) {
    this.#machine = machine;
    this.#uses = uses;
    this.#known = known;
  }

  /** Decides on a command; `owner` is whoever writes these drafts. */
  decide(
    key: string,
    command: Command,
    { chain, owner, cause = null }: { readonly chain: Chain; readonly owner: Deciding; readonly cause?: string | null },
  ): CommandResult<State, Fact, Effect, Refusal> {
    const machine = this.#machine;
    const known = this.#known.state(key);
    const before = this.#drafts.get(key) ?? { state: known.state, facts: [], effects: [], cause };
    const refusal = this.#uses.inbox?.refusal(key, command, (id) => this.#known.message(id)) ?? null;
    if (refusal !== null) return { ok: false, state: before.state, refusal };
    const decision = machine.decide(before.state, command, chain.at);
    const { facts, ok } = decision;
    const state = facts.reduce((each, fact) => machine.evolve(each, fact, chain.at), before.state);
    const effects = ok ? facts.flatMap((fact) => machine.react(fact, state)) : [];
    const all = { facts: [...before.facts, ...facts], effects: [...before.effects, ...effects] };
    if (facts.length > 0) {
      this.#drafts.set(key, { key, state, cause: before.cause ?? cause, ...all });
      chain.touched.add(owner);
    }
    if (!ok) return { ok, state, refusal: decision.refusal };
    const number = known.seq + all.facts.length;
    const caused = facts.flatMap((fact) => machine.causes?.(fact, state) ?? []);
    for (const [index, next] of caused.entries())
      chain.open.push({ command: next, id: `${machine.name} ${key} ${number}.${index}` });
    return { ok, state, facts, effects };
  }

  /** Decides on a command with an id; `false` when one with this id was carried out before. */
  decideOnce(
    id: string,
    key: string,
    command: Command,
    by: { readonly chain: Chain; readonly owner: Deciding },
  ): boolean {
    if (this.#drafts.get(key)?.cause === id || this.#known.isDone(key, id)) return false;
    this.decide(key, command, { ...by, cause: id });
    return true;
  }

  /** Decides on a command of another machine. */
  take(
    { command: { key, command }, id }: Chain['open'][number],
    by: { readonly chain: Chain; readonly owner: Deciding },
  ): void {
    const { command: schema, name } = this.#machine;
    if (schema === undefined) throw new Error(`impossible: ${name} takes no commands of other machines`);
    this.decideOnce(id, key, schema.parse(command), by);
  }

  /** What was decided, to be written; nothing is left of it here. */
  takeAll(): readonly DecidedRow<State, Fact, Effect>[] {
    const drafts = [...this.#drafts.values()];
    this.#drafts.clear();
    return drafts;
  }
}
