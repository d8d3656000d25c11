import { hash } from 'node:crypto';
import type { Instant } from '../lib/time.ts';
import type { KnownMessages, LedgerEntry, MachineUses } from './machine-uses.ts';

/** Parses a stored value. Throws when the value does not fit. */
export type Schema<Value> = { parse(stored: unknown): Value };

/**
 * The result of a command: facts, with the state after them if deciding has computed it; or a refusal. The facts of a
 * refusal only record the refusal.
 */
export type MachineDecision<Fact, Refusal, State = never> =
  | { readonly ok: true; readonly facts: readonly Fact[]; readonly state?: State }
  | { readonly ok: false; readonly refusal: Refusal; readonly facts: readonly Fact[] };

/** The answer to one command. The facts, and the effects that are stored, are durable when the answer arrives. */
export type CommandResult<State, Fact, Effect, Refusal> =
  | { readonly ok: true; readonly state: State; readonly facts: readonly Fact[]; readonly effects: readonly Effect[] }
  | { readonly ok: false; readonly state: State; readonly refusal: Refusal };

/** A command that a fact of one machine causes in another machine, or under another key. */
export type CommandFor = { readonly machine: string; readonly key: string; readonly command: unknown };

/** A durable state machine, one instance per key, as pure functions. States and facts are plain JSON. */
export type Machine<State, Command, Fact, Effect, Refusal extends string = string> = {
  /** One word, unique among all machines. */
  readonly name: string;
  /**
   * The channel of a key. That channel's retention decides how long the key's journal is kept. `stateOf` reads the
   * state of the key; `null` when it has none.
   */
  channelOf(key: string, stateOf: () => State | null): string;
  /** Version of the stored states and facts. Raise it whenever their shape changes. */
  readonly version: number;
  /** The state before the first fact. */
  empty(key: string): State;
  decide(state: State, command: Command, at: Instant): MachineDecision<Fact, Refusal, State>;
  evolve(state: State, fact: Fact, at: Instant): State;
  /** The effects of a fact, for the outbox and for listeners of changes. `state`: after the whole decision. */
  react?(fact: Fact, state: State): readonly Effect[];
  /** The commands that a fact causes, in the same transaction. `state`: after the whole decision. */
  causes?(fact: Fact, state: State): readonly CommandFor[];
  /** Types of the facts for which `causes` is called; all types by default. */
  readonly causing?: ReadonlySet<string>;
  /** When the machine needs its next command only because time has passed; `null` for never. */
  nextDeadline(state: State): Instant | null;
  /**
   * A word for a state at rest: nothing is in progress and nothing waits. `null` when the key is not at rest. Without
   * this function, every state is at rest.
   */
  rest?(state: State): string | null;
  readonly state: Schema<State>;
  readonly fact: Schema<Fact>;
  /**
   * Fields of facts that hold texts or names, by fact type. They are stored apart so that they can be erased; objects
   * and lists are stored as JSON. `checkpoint`: fields of a checkpoint's state that are erased when any of its texts
   * is erased.
   */
  readonly texts?: FactFields;
  /** The ledger row of a fact that reports a model call; `null` for other facts. */
  ledger?(fact: Fact): LedgerEntry | null;
  /** Fields of states and facts that hold configuration. Equal configurations are stored once. */
  readonly configs?: { readonly state: readonly string[]; readonly facts: FactFields };
  /**
   * Returns whether a value is a command of this machine. Without this function, facts cannot cause commands of this
   * machine.
   */
  readonly isCommand?: (command: unknown) => command is Command;
  /** Command given to every state when the store may have lost its last commits, as after a restore. */
  readonly restored?: Command;
  readonly upcast?: Upcast;
};

/** Converts stored values to the machine's present version. `version`: the version that wrote the value. */
export type Upcast = {
  state(stored: unknown, version: number): unknown;
  fact(stored: unknown, version: number): unknown;
};

/** Fields of facts, by fact type. `a.b` names a field of a field, or of each element of a list. */
export type FactFields = Readonly<Record<string, readonly string[]>>;

/** The parts of a machine that are needed to read stored values. */
export type Reading<State, Fact> = Pick<Machine<State, never, Fact, never>, 'name' | 'version' | 'state' | 'fact'> &
  Pick<Machine<State, never, Fact, never>, 'upcast' | 'texts' | 'configs'>;

/** Stored configurations. Equal configurations have the same id. */
export type ConfigTable = {
  /** Returns the id; stores the configuration if it is new. */
  idOf(config: object): string;
  /** Throws when the configuration is missing or damaged. */
  find(id: string): unknown;
};

/**
 * Facts in their stored form. Each string, list and object in a field of `texts` is moved into `body`, with a salt. The
 * fact holds the place in `body` and the hash of both instead, with `empty` for a list or an object. `''` and other
 * values stay in the fact. Configurations are replaced by `{"config": id}`.
 */
export function recordOf(
  { texts, configs }: Pick<Reading<unknown, unknown>, 'texts' | 'configs'>,
  facts: readonly unknown[],
  { newSalt, configs: table }: { readonly newSalt: () => string; readonly configs: ConfigTable },
): { readonly facts: string; readonly body: string | null } {
  const bodies: Body[] = [];
  const bodyOf = (text: unknown): unknown => {
    if (text === '') return text;
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

/** A state in its stored form: configurations are replaced by `{"config": id}`. */
export function stateText(
  { configs }: Pick<Reading<unknown, unknown>, 'configs'>,
  state: unknown,
  table: ConfigTable,
): string {
  return JSON.stringify(mapFields(configs?.state, state, (config) => configPlaceOf(config, table)));
}

/** The hash that a fact holds in place of a text. */
export function textHash(salt: string, text: string): string {
  return hash('sha256', salt + text, 'base64url');
}

/** Commands that facts of a machine cause. */
export type Causes<State, Fact> = {
  readonly types: readonly string[];
  /** The causes count only for states that have this field. Default: all states. */
  readonly within?: keyof State;
  readonly commands: (fact: Fact, state: State) => readonly CommandFor[];
};

/** Returns the machine with further commands that its facts cause, after those that `machine.causes` returns. */
export function withCauses<
  State,
  Command,
  Fact,
  Effect,
  Refusal extends string,
  M extends Machine<State, Command, Fact, Effect, Refusal>,
>(machine: M & Machine<State, Command, Fact, Effect, Refusal>, all: readonly Causes<State, Fact>[]) {
  const own = machine.causes === undefined ? [] : machine.causing;
  const quick = all.map((causes) => ({ ...causes, types: new Set(causes.types) }));
  return {
    ...machine,
    ...(own === undefined ? {} : { causing: new Set([...own, ...all.flatMap(({ types }) => types)]) }),
    causes(fact: Fact, state: State): readonly CommandFor[] {
      const commands: CommandFor[] = [...(isCausing(machine, fact) ? (machine.causes?.(fact, state) ?? []) : [])];
      const type = String((fact as { readonly type?: unknown }).type);
      for (const { types, within, commands: caused } of quick)
        if ((within === undefined || state[within] !== undefined) && types.has(type))
          commands.push(...caused(fact, state));
      return commands;
    },
  };
}

const isCausing = ({ causing }: { readonly causing?: ReadonlySet<string> }, fact: unknown): boolean =>
  causing === undefined || (fact instanceof Object && 'type' in fact && causing.has(String(fact.type)));

/** A text and the salt that is hashed with it. */
export type Body = readonly [salt: string, text: string];

/** The fields that `fields` lists for the type of a fact; `undefined` for none. */
export function fieldsOf(fields: FactFields | undefined, fact: unknown): readonly string[] | undefined {
  return fields !== undefined && fact instanceof Object && 'type' in fact ? fields[String(fact.type)] : undefined;
}

/** Returns the value with `map` applied to each of these fields. */
export function mapFields(
  fields: readonly string[] | undefined,
  value: unknown,
  map: (field: unknown) => unknown,
): unknown {
  if (fields === undefined) return value;
  let mapped = value;
  for (const field of fields) mapped = mapAt(mapped, field, map);
  return mapped;
}

function mapAt(value: unknown, path: string, map: (field: unknown) => unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 ? value : value.map((each: unknown) => mapAt(each, path, map));
  const dot = path.indexOf('.');
  const name = dot === -1 ? path : path.slice(0, dot);
  if (typeof value !== 'object' || value === null || !(name in value)) return value;
  const field: unknown = Reflect.get(value, name);
  const mapped = dot === -1 ? map(field) : mapAt(field, path.slice(dot + 1), map);
  return mapped === field ? value : { ...value, [name]: mapped };
}

function configPlaceOf(config: unknown, table: ConfigTable): unknown {
  return config instanceof Object ? { config: table.idOf(config) } : config;
}

/** A command and everything that it causes, while they are decided. Nothing of them is written yet. */
export type Chain = {
  readonly at: Instant;
  readonly touched: Deciding[];
  readonly open: CommandFor[];
};

/** The part of a machine's store that decides commands, without the machine's types, for `decideChain`. */
export type Deciding = {
  take(next: CommandFor, chain: Chain): void;
  drop(): void;
};

type KnownStates<State> = {
  state(key: string): { readonly state: State; readonly seq: number };
  isDone(key: string, id: string): boolean;
  readonly inbox: KnownMessages;
};

/** The facts and the state of one key from commands of the same instant. */
export type DecidedRow<State, Fact, Effect> = {
  readonly key: string;
  readonly at: Instant;
  /** The number of the last fact. */
  readonly seq: number;
  readonly state: State;
  readonly facts: readonly Fact[];
  readonly effects: readonly Effect[];
  /** The id of the command, if it has one. */
  readonly cause: string | null;
};

const LONGEST_CHAIN = 1_000;

/** Calls `decide`, then decides all commands that follow. A decision that throws discards all facts of the chain. */
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
      const deciding = machineOf(next.machine);
      if (deciding === null) throw new Error(`impossible: no machine ${next.machine} is hosted`);
      deciding.take(next, chain);
    }
    return { result, touched: chain.touched };
  } catch (error) {
    for (const machine of chain.touched) machine.drop();
    throw error;
  }
}

/**
 * Collects the decisions of one machine until they are written. Each command sees the state after the earlier ones.
 * Successive decisions for one key and instant share a journal row, unless both have a command id.
 */
export class Decided<State, Command, Fact, Effect, Refusal extends string> {
  readonly #machine: Machine<State, Command, Fact, Effect, Refusal>;
  readonly #uses: MachineUses<Command, Fact, Effect, Refusal>;
  readonly #known: KnownStates<State>;
  #own: Drafts<State, Fact, Effect> = new Map();
  /** Decisions of earlier chains, in order. `#last`: the last one of each key. */
  #drafts: Draft<State, Fact, Effect>[] = [];
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

  decide(
    key: string,
    given: Command,
    { chain, owner, cause = null }: By & { readonly cause?: string | null },
  ): CommandResult<State, Fact, Effect, Refusal> {
    const machine = this.#machine;
    const { at } = chain;
    const command = this.#uses.stamp?.(given) ?? given;
    const before = this.#own.get(key)?.row ?? this.#last.get(key)?.row ?? this.#known.state(key);
    const refusal = this.#uses.inbox?.refusal(key, command, this.#known.inbox) ?? null;
    if (refusal !== null) return { ok: false, state: before.state, refusal };
    const decision = machine.decide(before.state, command, at);
    const { facts, ok } = decision;
    const folded = ok ? decision.state : undefined;
    const state = folded ?? facts.reduce((each, fact) => machine.evolve(each, fact, at), before.state);
    const effects: Effect[] = [];
    if (ok && machine.react !== undefined) for (const fact of facts) effects.push(...machine.react(fact, state));
    const seq = before.seq + facts.length;
    if (facts.length > 0) {
      const own = this.#own.get(key);
      const row = { key, at, seq, state, facts, effects, cause };
      this.#own.set(key, { row: own === undefined ? row : together(own.row, row) });
      if (!chain.touched.includes(owner)) chain.touched.push(owner);
    }
    if (!ok) return { ok, state, refusal: decision.refusal };
    if (machine.causes !== undefined)
      for (const fact of facts) if (isCausing(machine, fact)) chain.open.push(...machine.causes(fact, state));
    return { ok, state, facts, effects };
  }

  /** Decides a command with an id. Returns `false` when that id was already carried out for the key. */
  decideOnce(id: string, key: string, command: Command, by: By): boolean {
    const isDecided =
      this.#own.get(key)?.row.cause === id || this.#drafts.some(({ row }) => row.key === key && row.cause === id);
    if (isDecided || this.#known.isDone(key, id)) return false;
    this.decide(key, command, { ...by, cause: id });
    return true;
  }

  /** Decides a command that a fact of a machine caused. Throws when `isCommand` does not accept the command. */
  take({ key, command }: CommandFor, by: By): void {
    const { isCommand, name } = this.#machine;
    if (isCommand?.(command) !== true) throw new Error(`impossible: ${name} is given a command that it does not take`);
    this.decide(key, command, by);
  }

  drop(): void {
    this.#own = new Map();
  }

  keep(): readonly Fact[] {
    const fresh: Fact[] = [];
    for (const [key, draft] of this.#own) {
      const last = this.#last.get(key);
      const { at, cause, facts } = draft.row;
      fresh.push(...facts);
      // A journal row has one instant and at most one command id.
      const isSame = last?.row.at === at && (last.row.cause === null || cause === null);
      if (isSame) last.row = together(last.row, draft.row);
      else {
        this.#drafts.push(draft);
        this.#last.set(key, draft);
      }
    }
    this.#own = new Map();
    return fresh;
  }

  takeAll(): readonly { readonly row: DecidedRow<State, Fact, Effect> }[] {
    this.keep();
    const drafts = this.#drafts;
    this.#drafts = [];
    this.#last = new Map();
    return drafts;
  }
}

type By = { readonly chain: Chain; readonly owner: Deciding };

type Draft<State, Fact, Effect> = { row: DecidedRow<State, Fact, Effect> };

/**
 * Decisions by key. The map is replaced, never cleared: V8 keeps entries of a cleared map alive until a full
 * collection.
 */
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
