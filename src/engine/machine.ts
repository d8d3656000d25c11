import { hash } from 'node:crypto';
import type { Instant } from '../lib/time.ts';
import type { KnownMessage, LedgerEntry, MachineUses } from './machine-uses.ts';

/** Reads a stored value back; throws when it is not what was written. */
export type Schema<Value> = { parse(stored: unknown): Value };

/**
 * What a command does: facts, with the state after them if deciding has folded them already, or a refusal whose facts hold at
 * most a record of it.
 */
export type MachineDecision<Fact, Refusal, State = never> =
  | { readonly ok: true; readonly facts: readonly Fact[]; readonly state?: State }
  | { readonly ok: false; readonly refusal: Refusal; readonly facts: readonly Fact[] };

/** The answer to one command. Facts and effects are already durable when it arrives. */
export type CommandResult<State, Fact, Effect, Refusal> =
  | { readonly ok: true; readonly state: State; readonly facts: readonly Fact[]; readonly effects: readonly Effect[] }
  | { readonly ok: false; readonly state: State; readonly refusal: Refusal };

/** A command that a fact of one machine causes for another, or for another key. */
export type CommandFor = { readonly machine: string; readonly key: string; readonly command: unknown };

/**
 * A durable state machine with a key, as pure functions: the store runs them inside its transactions and knows nothing
 * else of it. States and facts are plain JSON.
 */
export type Machine<State, Command, Fact, Effect, Refusal extends string = string> = {
  /** One word, never used for another machine. */
  readonly name: string;
  /** The channel of a key: how long its journal is kept follows that channel's retention. */
  channelOf(key: string): string;
  /** Of states and facts as they are stored: one more whenever their shape changes. */
  readonly version: number;
  /** The state before anything happened. */
  empty(key: string): State;
  decide(state: State, command: Command, at: Instant): MachineDecision<Fact, Refusal, State>;
  /** The state after a fact; throws "impossible: …" when the two do not fit. */
  evolve(state: State, fact: Fact, at: Instant): State;
  /** What the world must learn of a fact; `state` is the state after the whole decision. */
  react(fact: Fact, state: State): readonly Effect[];
  /** What other machines must do because of a fact, in the same transaction; `state` as for `react`. */
  causes?(fact: Fact, state: State): readonly CommandFor[];
  /** The types of the facts that `causes` is asked about; all unless given. */
  readonly causing?: ReadonlySet<string>;
  /** When it changes by itself next; `null` is never. */
  nextDeadline(state: State): Instant | null;
  /**
   * A word for a state in which nothing is under way and nothing waits: a start leaves such a key alone if it is the word that it
   * should be. `null` when something is. Without it, every state is at rest.
   */
  rest?(state: State): string | null;
  readonly state: Schema<State>;
  readonly fact: Schema<Fact>;
  /**
   * Fields of facts, by the type of the fact, that hold what was said or who said it: stored apart, so that it can be erased; what is
   * no text, as JSON. `checkpoint`: fields of states that go with whoever asked for them.
   */
  readonly texts?: FactFields;
  /** What the ledger is to have of a fact: the call of a model that it tells of; `null` of all others. */
  ledger?(fact: Fact): LedgerEntry | null;
  /** Fields of states and facts that hold configuration: what many keys have in common is stored once. */
  readonly configs?: { readonly state: readonly string[]; readonly facts: FactFields };
  /** How commands of other machines are read; a machine without it takes none. */
  readonly command?: Schema<Command>;
  /** Given to every state of a restored backup: what happened since the copy was made is unknown to it. */
  readonly restored?: Command;
  /** Turns what an earlier version stored into what this one would have stored. */
  readonly upcast?: Upcast;
};

/** Both are given the version that wrote. */
export type Upcast = {
  state(stored: unknown, version: number): unknown;
  fact(stored: unknown, version: number): unknown;
};

/** Fields of facts, by the type of the fact; `a.b` is a field of a field, or of each in a list. */
export type FactFields = Readonly<Record<string, readonly string[]>>;

/** What of a machine reads what is stored. */
export type Reading<State, Fact> = Pick<Machine<State, never, Fact, never>, 'name' | 'version' | 'state' | 'fact'> &
  Pick<Machine<State, never, Fact, never>, 'upcast' | 'texts' | 'configs'>;

/** Configurations, each stored once under an id that is the same for equal ones. */
export type ConfigTable = {
  /** Stores it if it is new. */
  idOf(config: object): string;
  /** Throws when it is not there, or not what was stored. */
  find(id: string): unknown;
};

/**
 * Facts as they are stored: each text stands in `body` with a salt that goes with it, and the fact has a hash of both; in the place
 * of a configuration stands its id.
 */
export function recordOf(
  { texts, configs }: Pick<Reading<unknown, unknown>, 'texts' | 'configs'>,
  facts: readonly unknown[],
  { newSalt, configs: table }: { readonly newSalt: () => string; readonly configs: ConfigTable },
): { readonly facts: string; readonly body: string | null } {
  const bodies: Body[] = [];
  const bodyOf = (text: unknown): unknown => {
    const isText = typeof text === 'string';
    if (!isText && !(text instanceof Object)) return text;
    const said = isText ? text : JSON.stringify(text);
    const salt = newSalt();
    bodies.push([salt, said]);
    return {
      body: bodies.length - 1,
      hash: textHash(salt, said),
      ...(isText ? {} : { empty: Array.isArray(text) ? '[]' : '{}' }),
    };
  };
  const placeOf = (config: unknown): unknown => configPlaceOf(config, table);
  const stored = facts.map((fact) =>
    mapFields(fieldsOf(texts, fact), mapFields(fieldsOf(configs?.facts, fact), fact, placeOf), bodyOf),
  );
  return { facts: JSON.stringify(stored), body: bodies.length === 0 ? null : JSON.stringify(bodies) };
}

/** A state as it is stored: in the place of a configuration stands its id. */
export function stateText(
  { configs }: Pick<Reading<unknown, unknown>, 'configs'>,
  state: unknown,
  table: ConfigTable,
): string {
  return JSON.stringify(mapFields(configs?.state, state, (config) => configPlaceOf(config, table)));
}

/** The hash that a fact has of a text. */
export function textHash(salt: string, text: string): string {
  return hash('sha256', salt + text, 'base64url');
}

const isCausing = ({ causing }: { readonly causing?: ReadonlySet<string> }, fact: unknown): boolean =>
  causing === undefined || (fact instanceof Object && 'type' in fact && causing.has(String(fact.type)));

/** A text with what is hashed with it. */
export type Body = readonly [salt: string, text: string];

/** The fields of this kind that a fact has. */
export function fieldsOf(fields: FactFields | undefined, fact: unknown): readonly string[] | undefined {
  return fields !== undefined && fact instanceof Object && 'type' in fact ? fields[String(fact.type)] : undefined;
}

/** A value with each of these fields as `map` makes it. */
export function mapFields(
  fields: readonly string[] | undefined,
  value: unknown,
  map: (field: unknown) => unknown,
): unknown {
  if (fields === undefined) return value;
  return fields.reduce((mapped, field) => mapAt(mapped, field.split('.'), map), value);
}

function mapAt(value: unknown, path: readonly string[], map: (field: unknown) => unknown): unknown {
  const [name, ...inner] = path;
  if (name === undefined) return map(value);
  if (Array.isArray(value)) return value.map((each: unknown) => mapAt(each, path, map));
  if (typeof value !== 'object' || value === null || !(name in value)) return value;
  return { ...value, [name]: mapAt(Reflect.get(value, name), inner, map) };
}

function configPlaceOf(config: unknown, table: ConfigTable): unknown {
  return config instanceof Object ? { config: table.idOf(config) } : config;
}

/** A command and all that it causes, decided and not yet written. */
export type Chain = {
  readonly at: Instant;
  /** Machines that have something to write. */
  readonly touched: Deciding[];
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
type KnownStates<State> = {
  /** The newest state of a key, and the number of its last fact. */
  state(key: string): { readonly state: State; readonly seq: number };
  /** Whether a command with this id was carried out for a key. */
  isDone(key: string, id: string): boolean;
  message(id: string): KnownMessage | null;
};

/** What one key is to become by commands of the same instant. */
export type DecidedRow<State, Fact, Effect> = {
  readonly key: string;
  readonly at: Instant;
  /** The number of its last fact. */
  readonly seq: number;
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
): { readonly result: T; readonly touched: readonly Deciding[] } {
  const chain: Chain = { at, touched: [], open: [] };
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

/**
 * What one machine's commands have come to until it is written: each is decided on the state that those before it left, and those
 * for one key and of one instant share a row.
 */
export class Decided<State, Command, Fact, Effect, Refusal extends string> {
  readonly #machine: Machine<State, Command, Fact, Effect, Refusal>;
  readonly #uses: MachineUses<Command, Fact, Effect, Refusal>;
  readonly #known: KnownStates<State>;
  /** Of the chain that is being decided, by key. */
  #own: Drafts<State, Fact, Effect> = new Map();
  /** Of the chains before it, in order; and the last of each key. */
  #kept: Draft<State, Fact, Effect>[] = [];
  #last: Drafts<State, Fact, Effect> = new Map();

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
    given: Command,
    { chain, owner, cause = null }: By & { readonly cause?: string | null },
  ): CommandResult<State, Fact, Effect, Refusal> {
    const machine = this.#machine;
    const { at } = chain;
    const command = this.#uses.stamp?.(given) ?? given;
    const before = this.#own.get(key)?.row ?? this.#last.get(key)?.row ?? this.#known.state(key);
    const refusal = this.#uses.inbox?.refusal(key, command, (id) => this.#known.message(id)) ?? null;
    if (refusal !== null) return { ok: false, state: before.state, refusal };
    const decision = machine.decide(before.state, command, at);
    const { facts, ok } = decision;
    const folded = ok ? decision.state : undefined;
    const state = folded ?? facts.reduce((each, fact) => machine.evolve(each, fact, at), before.state);
    const effects: Effect[] = [];
    if (ok) for (const fact of facts) effects.push(...machine.react(fact, state));
    const seq = before.seq + facts.length;
    if (facts.length > 0) {
      const own = this.#own.get(key);
      const row = { key, at, seq, state, facts, effects, cause };
      this.#own.set(key, { row: own === undefined ? row : together(own.row, row) });
      if (!chain.touched.includes(owner)) chain.touched.push(owner);
    }
    if (!ok) return { ok, state, refusal: decision.refusal };
    if (machine.causes !== undefined) this.#cause(key, { seq, facts, state }, chain);
    return { ok, state, facts, effects };
  }

  #cause(
    key: string,
    { seq, facts, state }: Pick<DecidedRow<State, Fact, Effect>, 'seq' | 'facts' | 'state'>,
    chain: Chain,
  ): void {
    const machine = this.#machine;
    let index = 0;
    for (const fact of facts) {
      if (!isCausing(machine, fact)) continue;
      for (const command of machine.causes?.(fact, state) ?? []) {
        chain.open.push({ command, id: `${machine.name} ${key} ${seq}.${index}` });
        index += 1;
      }
    }
  }

  /** Decides on a command with an id; `false` when one with this id was carried out before. */
  decideOnce(id: string, key: string, command: Command, by: By): boolean {
    const isDecided =
      this.#own.get(key)?.row.cause === id || this.#kept.some(({ row }) => row.key === key && row.cause === id);
    if (isDecided || this.#known.isDone(key, id)) return false;
    this.decide(key, command, { ...by, cause: id });
    return true;
  }

  /** Decides on a command of another machine. */
  take({ command: { key, command }, id }: Chain['open'][number], by: By): void {
    const { command: schema, name } = this.#machine;
    if (schema === undefined) throw new Error(`impossible: ${name} takes no commands of other machines`);
    this.decideOnce(id, key, schema.parse(command), by);
  }

  /** Takes back what was decided in this chain. */
  drop(): void {
    this.#own = new Map();
  }

  /** The chain is whole: what was decided in it is to be written. Returns the facts of it. */
  keep(): readonly Fact[] {
    const fresh: Fact[] = [];
    for (const [key, draft] of this.#own) {
      const last = this.#last.get(key);
      const { at, cause, facts } = draft.row;
      fresh.push(...facts);
      // A row has one instant, and the id of one command.
      const isSame = last?.row.at === at && (last.row.cause === null || cause === null);
      if (isSame) last.row = together(last.row, draft.row);
      else {
        this.#kept.push(draft);
        this.#last.set(key, draft);
      }
    }
    this.#own = new Map();
    return fresh;
  }

  /** What was decided, to be written in this order; nothing is left of it here. */
  takeAll(): readonly DecidedRow<State, Fact, Effect>[] {
    this.keep();
    const rows = this.#kept.map(({ row }) => row);
    this.#kept = [];
    this.#last = new Map();
    return rows;
  }
}

/** In which chain something is decided, and who writes it. */
type By = { readonly chain: Chain; readonly owner: Deciding };

type Draft<State, Fact, Effect> = { row: DecidedRow<State, Fact, Effect> };

/** By key. Made anew instead of emptied: what V8 empties keeps its former entries alive until it collects all of its memory. */
type Drafts<State, Fact, Effect> = Map<string, Draft<State, Fact, Effect>>;

function together<State, Fact, Effect>(
  one: DecidedRow<State, Fact, Effect>,
  other: DecidedRow<State, Fact, Effect>,
): DecidedRow<State, Fact, Effect> {
  const { key, at, seq, state } = other;
  const facts = [...one.facts, ...other.facts];
  const effects = [...one.effects, ...other.effects];
  return { key, at, seq, state, facts, effects, cause: one.cause ?? other.cause };
}
