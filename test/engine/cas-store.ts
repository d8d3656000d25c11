import { Decided, decideChain } from '../../src/engine/machine.ts';
import type { Chain, CommandFor, CommandResult, DecidedRow, Deciding, Machine } from '../../src/engine/machine.ts';
import type { MachineUses } from '../../src/engine/machine-uses.ts';
import { isNewerEdit, isStale } from '../../src/engine/port.ts';
import type {
  HumanMessage,
  Lease,
  MachineStore,
  MessageChange,
  OutboxEntry,
  Settlement,
  StateChange,
  Store,
  StoredFact,
  StoredMessage,
} from '../../src/engine/port.ts';
import type { Due, Instant } from '../../src/lib/time.ts';

type Cell = { readonly version: number; readonly value: string };

/** Cells with texts that stores share. The only write is one compare-and-set over many cells. */
export class Cells {
  readonly #cells = new Map<string, Cell>();

  read(name: string): Cell {
    return this.#cells.get(name) ?? { version: 0, value: '' };
  }

  names(prefix: string): readonly string[] {
    return [...this.#cells.keys()].filter((name) => name.startsWith(prefix)).toSorted();
  }

  /** Writes all cells; or none, and returns false, when a cell has changed since it was read. */
  swap(read: ReadonlyMap<string, number>, written: ReadonlyMap<string, string>): boolean {
    for (const [name, version] of read) if (this.read(name).version !== version) return false;
    for (const [name, value] of written) this.#cells.set(name, { version: this.read(name).version + 1, value });
    return true;
  }
}

/** The cells that one attempt has read, and those that it will write. */
class Attempt {
  readonly read = new Map<string, number>();
  readonly written = new Map<string, string>();
  readonly #cells: Cells;

  constructor(cells: Cells) {
    this.#cells = cells;
  }

  get<Value>(name: string, otherwise: Value): Value {
    const own = this.written.get(name);
    const { version, value } = this.#cells.read(name);
    if (own === undefined && !this.read.has(name)) this.read.set(name, version);
    const text = own ?? value;
    return text === '' ? otherwise : (JSON.parse(text) as Value);
  }

  set(name: string, value: unknown): void {
    this.get(name, null);
    this.written.set(name, JSON.stringify(value));
  }
}

type StoredAt = { readonly at: Instant; readonly fact: unknown };
type Kept = { readonly state: unknown; readonly seq: number; readonly deadline: Instant | null };
type Owed = Omit<OutboxEntry<unknown>, 'afterId' | 'editsId'> & {
  readonly key: string | null;
  readonly lasting: boolean;
  readonly takenBy: string | null;
  readonly notBefore: Instant;
};
type Writer = Deciding & {
  begin(attempt: Attempt): void;
  write(attempt: Attempt, at: Instant): readonly (() => void)[];
};

/** `pause`: awaited between a decision and its write, so that another store can write first. */
export type CasPorts = { readonly id: string; readonly pause: () => Promise<void> };

/** A store with compare-and-set only: it decides on what it read, and again when another store wrote first. */
export class CasStore implements Store {
  /** Decisions that another store overtook. */
  losses = 0;
  readonly #cells: Cells;
  readonly #ports: CasPorts;
  readonly #hosted = new Map<string, Writer>();
  #last: Promise<unknown> = Promise.resolve();

  get owner(): string {
    return this.#ports.id;
  }

  constructor(cells: Cells, ports: CasPorts) {
    this.#cells = cells;
    this.#ports = ports;
  }

  host<State, Command, Fact, Effect, Refusal extends string>(
    machine: Machine<State, Command, Fact, Effect, Refusal>,
    uses: MachineUses<Command, Fact, Effect, Refusal> = {},
  ): MachineStore<State, Command, Fact, Effect, Refusal> {
    const hosted = new CasMachine(machine, uses, {
      cells: this.#cells,
      commit: (at, decide) => this.#commit(at, decide),
    });
    this.#hosted.set(machine.name, hosted);
    return hosted;
  }

  accept(message: HumanMessage): Promise<'new' | 'duplicate'> {
    return this.#try((attempt) => {
      const name = `message ${message.id}`;
      if (attempt.get(name, null) !== null) return 'duplicate';
      attempt.set(name, { ...message, fate: null, edited: false, deleted: false, since: 0 });
      return 'new';
    });
  }

  amend(change: MessageChange): Promise<'changed' | 'unchanged' | 'unknown'> {
    return this.#try((attempt) => {
      const name = `message ${change.id}`;
      const known = attempt.get<StoredMessage | null>(name, null);
      if (known?.channel !== change.channel) return 'unknown';
      if (!isNewerEdit(change, known)) {
        if (change.change === 'edited' && !known.deleted && !isStale(change, known))
          attempt.set(name, { ...known, ...(change.version === undefined ? {} : { version: change.version }) });
        return 'unchanged';
      }
      const { text = known.text, version = known.version } = change.change === 'edited' ? change : {};
      const kept = { ...known, text, ...(version === undefined ? {} : { version }) };
      attempt.set(name, change.change === 'edited' ? { ...kept, edited: true } : { ...kept, deleted: true });
      return 'changed';
    });
  }

  message(id: string): StoredMessage | null {
    return new Attempt(this.#cells).get<StoredMessage | null>(`message ${id}`, null);
  }

  announcementAt(channel: string, platformId: string, prefix: string): string | null {
    const key = new Attempt(this.#cells).get<string | null>(`shown ${channel} ${platformId}`, null);
    return key?.startsWith(prefix) === true ? key : null;
  }

  lastSeen(channel: string): HumanMessage | null {
    return this.#messages(channel).at(-1) ?? null;
  }

  lease(limit: number, at: Instant): Promise<Lease<unknown>> {
    return this.#try((attempt) => {
      const rows: OutboxEntry<unknown>[] = [];
      let next: Instant | null = null;
      for (const name of this.#cells.names('lane ')) {
        const [first, ...rest] = attempt.get<readonly Owed[]>(name, []);
        if (first === undefined || first.takenBy !== null || rows.length === limit) continue;
        if (first.notBefore > at) next = Math.min(next ?? Infinity, first.notBefore);
        if (first.notBefore > at) continue;
        const { key: _key, lasting: _lasting, takenBy: _takenBy, notBefore: _notBefore, ...row } = first;
        const afterId = attempt.get<string | null>(`posted ${first.channel}`, null);
        rows.push({ ...row, afterId, editsId: null });
        attempt.set(name, [{ ...first, takenBy: this.#ports.id, attempts: first.attempts + 1 }, ...rest]);
      }
      return { rows, next };
    });
  }

  settle(row: OutboxEntry<unknown>, settlement: Settlement): Promise<void> {
    return this.#try((attempt) => {
      const name = `lane ${row.channel} ${row.lane}`;
      const [first, ...rest] = attempt.get<readonly Owed[]>(name, []);
      if (first?.id !== row.id || first.takenBy !== this.#ports.id) return;
      const isOver = settlement.state === 'confirmed' || settlement.state === 'failed';
      if (settlement.state === 'confirmed' && settlement.platformId !== null)
        attempt.set(`posted ${row.channel}`, settlement.platformId);
      if (settlement.state === 'confirmed' && first.key !== null)
        attempt.set(`shown ${row.channel} ${settlement.platformId}`, first.key);
      if (isOver) return attempt.set(name, rest);
      const uncertain = first.uncertain || settlement.state === 'uncertain';
      attempt.set(name, [{ ...first, takenBy: null, uncertain, notBefore: settlement.notBefore }, ...rest]);
    });
  }

  recover(dead?: string): Promise<readonly HumanMessage[]> {
    const isDead = (owner: string | null): boolean =>
      dead === undefined ? owner !== this.owner : owner === null || owner === dead;
    return this.#try((attempt) => {
      for (const name of this.#cells.names('lane ')) {
        const left = attempt
          .get<readonly Owed[]>(name, [])
          .filter(({ lasting, takenBy }) => lasting || !isDead(takenBy));
        attempt.set(
          name,
          left.map((row) =>
            row.takenBy !== null && isDead(row.takenBy) ? { ...row, takenBy: null, uncertain: true } : row,
          ),
        );
      }
      return this.#messages().filter(({ fate }) => fate === null);
    });
  }

  async close(): Promise<void> {
    await this.#last;
  }

  #messages(channel?: string): readonly StoredMessage[] {
    const attempt = new Attempt(this.#cells);
    const all = this.#cells.names('message ').flatMap((name) => attempt.get<StoredMessage | null>(name, null) ?? []);
    const wanted = all.filter((message) => channel === undefined || message.channel === channel);
    return wanted.toSorted((a, b) => a.channel.localeCompare(b.channel) || Number(a.order) - Number(b.order));
  }

  async #commit<T>(at: Instant, decide: (chain: Chain) => T): Promise<T> {
    const { result, told } = await this.#try((attempt) => {
      for (const hosted of this.#hosted.values()) hosted.begin(attempt);
      const one = decideChain(at, decide, (name) => this.#hosted.get(name) ?? null);
      const writers = [...this.#hosted.values()].filter((hosted) => one.touched.includes(hosted));
      return { result: one.result, told: writers.flatMap((hosted) => hosted.write(attempt, at)) };
    });
    for (const tell of told) tell();
    return result;
  }

  /** Runs work one after the other, as a process does. Runs it again when another store wrote meanwhile. */
  #try<T>(work: (attempt: Attempt) => T): Promise<T> {
    const done = this.#last.then(async () => {
      for (let times = 0; times < MOST_LOSSES; times += 1) {
        const attempt = new Attempt(this.#cells);
        const result = work(attempt);
        await this.#ports.pause();
        if (this.#cells.swap(attempt.read, attempt.written)) return result;
        this.losses += 1;
      }
      throw new Error('impossible: overtaken again and again');
    });
    this.#last = done.catch(() => undefined);
    return done;
  }
}

const MOST_LOSSES = 100;

type CasShared = {
  readonly cells: Cells;
  readonly commit: <T>(at: Instant, decide: (chain: Chain) => T) => Promise<T>;
};

class CasMachine<State, Command, Fact, Effect, Refusal extends string>
  implements MachineStore<State, Command, Fact, Effect, Refusal>, Writer
{
  readonly #machine: Machine<State, Command, Fact, Effect, Refusal>;
  readonly #uses: MachineUses<Command, Fact, Effect, Refusal>;
  readonly #shared: CasShared;
  readonly #drafts: Decided<State, Command, Fact, Effect, Refusal>;
  readonly #listeners: ((change: StateChange<State, Fact, Effect>) => void)[] = [];
  #attempt: Attempt;

  constructor(
    machine: Machine<State, Command, Fact, Effect, Refusal>,
    uses: MachineUses<Command, Fact, Effect, Refusal>,
    shared: CasShared,
  ) {
    this.#machine = machine;
    this.#uses = uses;
    this.#shared = shared;
    this.#attempt = new Attempt(shared.cells);
    this.#drafts = new Decided(machine, uses, {
      state: (key) => this.#read(this.#attempt, key),
      isDone: (key, id) => this.#attempt.get(`done ${machine.name} ${key} ${id}`, false),
      inbox: { read: (id) => this.#attempt.get<StoredMessage | null>(`message ${id}`, null) },
    });
  }

  apply(key: string, command: Command, at: Instant): Promise<CommandResult<State, Fact, Effect, Refusal>> {
    return this.#shared.commit(at, (chain) => this.#drafts.decide(key, command, { chain, owner: this }));
  }

  applyAll(
    key: string,
    commands: readonly Command[],
    at: Instant,
  ): Promise<readonly CommandResult<State, Fact, Effect, Refusal>[]> {
    return this.#shared.commit(at, (chain) =>
      commands.map((command) => this.#drafts.decide(key, command, { chain, owner: this })),
    );
  }

  applyOnce(id: string, key: string, command: Command, at: Instant): Promise<boolean> {
    return this.#shared.commit(at, (chain) => this.#drafts.decideOnce(id, key, command, { chain, owner: this }));
  }

  async due(before: Instant): Promise<Due> {
    const set = this.keys()
      .map((key) => ({ key, at: this.#kept(new Attempt(this.#shared.cells), key)?.deadline ?? Infinity }))
      .toSorted((a, b) => a.at - b.at);
    const due = set.filter(({ at }) => at <= before);
    const next = set[due.length]?.at ?? Infinity;
    return { keys: due.map(({ key }) => key), next: next === Infinity ? null : next };
  }

  onChange(listener: (change: StateChange<State, Fact, Effect>) => void): void {
    this.#listeners.push(listener);
  }

  state(key: string): State | null {
    const kept = this.#kept(new Attempt(this.#shared.cells), key);
    return kept === null ? null : this.#machine.state.parse(kept.state);
  }

  keys(): readonly string[] {
    const prefix = `state ${this.#machine.name} `;
    return this.#shared.cells.names(prefix).map((name) => name.slice(prefix.length));
  }

  awake(): readonly string[] {
    return this.keys().filter((key) => this.#rest(key) === null);
  }

  resting(): ReadonlyMap<string, string> {
    const found = new Map<string, string>();
    for (const key of this.keys()) {
      const rest = this.#rest(key);
      if (rest !== null) found.set(key, rest);
    }
    return found;
  }

  *newest(key: string): Generator<StoredFact<Fact>> {
    const attempt = new Attempt(this.#shared.cells);
    for (let seq = this.#kept(attempt, key)?.seq ?? 0; seq > 0; seq -= 1) {
      const { at, fact } = attempt.get<StoredAt>(`fact ${this.#machine.name} ${key} ${seq}`, { at: 0, fact: null });
      yield { key, seq, at, fact: this.#machine.fact.parse(fact), hash: '' };
    }
  }

  journal(key: string, limit: number, before = Infinity): readonly StoredFact<Fact>[] {
    const found = [...this.newest(key)].filter(({ seq }) => seq < before);
    return found.slice(0, limit).toReversed();
  }

  begin(attempt: Attempt): void {
    this.#attempt = attempt;
  }

  take(next: CommandFor, chain: Chain): void {
    this.#drafts.take(next, { chain, owner: this });
  }

  drop(): void {
    this.#drafts.takeAll();
  }

  write(attempt: Attempt, at: Instant): readonly (() => void)[] {
    return this.#drafts.takeAll().map(({ row }) => this.#writeOne(attempt, row, at));
  }

  #writeOne(attempt: Attempt, draft: DecidedRow<State, Fact, Effect>, at: Instant): () => void {
    const { name } = this.#machine;
    const deadline = this.#machine.nextDeadline(draft.state);
    const { key, state, facts, effects, cause } = draft;
    const { seq } = this.#read(attempt, key);
    attempt.set(`state ${name} ${key}`, { state, seq: seq + facts.length, deadline });
    for (const [index, fact] of facts.entries()) {
      attempt.set(`fact ${name} ${key} ${seq + index + 1}`, { at, fact });
      const decided = this.#uses.inbox?.fate(fact) ?? null;
      const message = decided === null ? null : `message ${decided.message}`;
      if (message !== null) attempt.set(message, { ...attempt.get(message, {}), fate: decided?.fate });
    }
    if (cause !== null) attempt.set(`done ${name} ${key} ${cause}`, true);
    this.#add(attempt, draft, `${name}-${key}-${seq}`);
    return () => {
      for (const listener of this.#listeners) listener({ key, at, facts, state, effects, deadline });
    };
  }

  #add(attempt: Attempt, { key, effects }: DecidedRow<State, Fact, Effect>, id: string): void {
    let index = 0;
    for (const owed of effects.flatMap((effect) => this.#uses.outbox?.entries(key, effect) ?? [])) {
      if (owed.type === 'cancel') throw new Error('impossible: no machine of the contract takes anything back');
      const { channel, lane, effect, texts, lasting, key: announced } = owed;
      const name = `lane ${channel} ${lane}`;
      const fresh = { attempts: 0, uncertain: false, takenBy: null, notBefore: 0, lasting, key: announced };
      for (const [part, text] of texts.entries()) {
        const before = attempt.get<readonly Owed[]>(name, []);
        attempt.set(name, [...before, { id: `${id}-${index}`, channel, lane, effect, part, text, ...fresh }]);
        index += 1;
      }
    }
  }

  #read(attempt: Attempt, key: string): { readonly state: State; readonly seq: number } {
    const kept = this.#kept(attempt, key);
    if (kept === null) return { state: this.#machine.empty(key), seq: 0 };
    return { state: this.#machine.state.parse(kept.state), seq: kept.seq };
  }

  #rest(key: string): string | null {
    const state = this.state(key);
    return state === null || this.#machine.rest === undefined ? '' : this.#machine.rest(state);
  }

  #kept(attempt: Attempt, key: string): Kept | null {
    return attempt.get<Kept | null>(`state ${this.#machine.name} ${key}`, null);
  }
}
