import type { lead as leadWith } from '../../src/engine/shared/lead.ts';
import type { StoreError } from '../../src/engine/errors.ts';
import type { Led } from '../../src/engine/shared/lead.ts';
import type { Group, SharedLog } from '../../src/engine/shared/shared-log.ts';
import type { SqliteStore } from '../../src/engine/sqlite/sqlite.ts';
import type { OutboxEntry } from '../../src/engine/port.ts';
import { Random } from '../sim/random.ts';
import { MemoryLog } from './memory-log.ts';
import type { LogBug } from './memory-log.ts';
import { written } from './sqlite/fixture.ts';
import { board, boardUses, counter } from './toy.ts';

/** The code under test: the program's, or a copy with a planted bug. */
export type Leading = {
  readonly lead: typeof leadWith;
  readonly SqliteStore: typeof SqliteStore;
};

const TICK_MS = 50;
const PROCESSES = 3;
const FAULTS_FOR_MS = 90_000;
/** The time without faults at the end. In its last part nobody sends commands. */
const QUIET_FOR_MS = 60_000;
const ASK_FOR_MS = FAULTS_FOR_MS + 15_000;
/** The longest time from sending a request to the platform until its arrival. */
const LONGEST_WAY_MS = 1_000;
/** A replaced leader ends within this time. Until then its agents can run beside those of the next leader. */
const BESIDE_MS = 4_000;
const FROM = 1_700_000_000_000;
const KEYS = ['test:one a', 'test:one b'] as const;
const CHANNELS = ['test:one', 'test:two'] as const;
const NOTES = ['note one', 'note two', 'note three'] as const;

type Waiting = { readonly at: number; readonly go: () => void };

/** One start of a program with its timers and requests. None of them runs while it is frozen, or after its end. */
class Life {
  waiting: Waiting[] = [];
  frozenUntil = 0;
  /** Its requests to the database wait until this time. Those of other programs do not wait. */
  cutUntil = 0;
  /** Answers of the database reach it late until this time. */
  slowUntil = 0;
  /** The time for which it ran beside a later leader, in milliseconds. */
  besideMs = 0;
  /** The time since which it may be declared dead: its last long freeze or loss of connection. */
  lostAt: number | null = null;
  isOver = false;
  readonly stopping = new AbortController();
  readonly posting: Promise<void>[] = [];
  /** Sends a command. Called just before the program ends in good order. */
  lastAsk: (() => void) | null = null;
  led: Led<SqliteStore> | null = null;
  /** Returns the value of a counter, and whether a message is there, as the page would show them. */
  shown: { readonly count: (key: string) => number; readonly has: (id: string) => boolean } | null = null;
  /** Resolves at this time. */
  readonly until = (at: number): Promise<void> =>
    new Promise((resolve) => void this.waiting.push({ at, go: () => resolve() }));
}

/**
 * Simulates three programs that share one log, and the platform they post to. Time moves in steps of `TICK_MS`. `wrong`
 * collects one sentence for each violated invariant.
 */
class World {
  readonly #random: Random;
  readonly #log: MemoryLog;
  readonly #code: Leading;
  readonly wrong: string[] = [];
  #now = FROM;
  #lives: Life[] = [];
  /** Groups that are under way to the database, also after the end of their program. */
  #late: Waiting[] = [];
  /** The time until which requests to the database wait. */
  #databaseAt = 0;
  /** Posts by the ids of their outbox entries, with the times of their arrival. */
  readonly #posts: { readonly id: string; readonly channel: string; readonly text: string; readonly at: number }[] = [];
  #added = 0;
  #sent = 0;
  #done = 0;
  readonly #pinned: string[] = [];
  /** The newest messages, by id. */
  #heard: readonly string[] = [];
  #messages = 0;
  readonly #accepted: string[] = [];
  /** The highest value of each counter that any leader showed, and 1 for each message. No later one may be lower. */
  readonly #seen = new Map<string, number>();

  constructor(seed: number, code: Leading, bug: LogBug | null) {
    this.#random = new Random(seed);
    this.#code = code;
    this.#log = new MemoryLog(bug, () => this.#now);
  }

  async run(): Promise<void> {
    const end = this.#now + FAULTS_FOR_MS;
    while (this.#now < end) {
      if (this.#random.chance(TICK_MS / 6_000)) this.#fail();
      await this.#tick();
    }
    for (const life of this.#lives) life.frozenUntil = 0;
    while (this.#now < end + QUIET_FOR_MS) await this.#tick();
    this.#judge();
  }

  #fail(): void {
    const living = this.#lives.filter((life) => !life.isOver);
    if (living.length === 0) return;
    const leader = living.find(({ led }) => led?.mayAct() === true);
    const life = this.#random.chance(0.7) && leader !== undefined ? leader : this.#random.pick(living);
    const ms = this.#random.between(200, 12_000);
    switch (this.#random.weighted({ freeze: 4, kill: 3, end: 2, database: 2, cut: 3, slow: 2 })) {
      case 'freeze':
        life.frozenUntil = this.#now + ms;
        if (ms > 2_000) life.lostAt = life.frozenUntil;
        return;
      case 'kill':
        life.isOver = true;
        return;
      case 'end':
        void this.#end(life);
        return;
      case 'slow':
        life.slowUntil = life.lostAt = this.#now + 2 * ms;
        return;
      case 'cut':
        life.cutUntil = this.#now + 2 * ms;
        if (ms > 1_000) life.lostAt = life.cutUntil;
        return;
      case 'database':
        this.#databaseAt = Math.max(this.#databaseAt, this.#now + ms);
    }
  }

  /** Ends a program in good order: its posts under way arrive first. */
  async #end(life: Life): Promise<void> {
    life.stopping.abort();
    life.shown = null;
    await Promise.all(life.posting);
    life.lastAsk?.();
    await life.led?.store.close().catch(() => undefined);
    life.isOver = true;
  }

  async #tick(): Promise<void> {
    this.#now += TICK_MS;
    for (const { go } of this.#late.filter(({ at }) => at <= this.#now)) go();
    this.#late = this.#late.filter(({ at }) => at > this.#now);
    this.#lives = this.#lives.filter((life) => !life.isOver);
    while (this.#lives.length < PROCESSES) this.#begin();
    this.#look();
    this.#countBeside();
    for (const life of this.#random.shuffled(this.#lives)) {
      const due = life.waiting.filter(({ at }) => at <= this.#now);
      life.waiting = life.waiting.filter((each) => !due.includes(each));
      for (const each of this.#random.shuffled(due)) {
        if (life.isOver || life.frozenUntil > this.#now) life.waiting.push(each);
        else {
          each.go();
          await new Promise((resolve) => void setImmediate(resolve));
          this.#look();
        }
      }
    }
  }

  #runs({ isOver, frozenUntil }: Life): boolean {
    return !isOver && frozenUntil <= this.#now;
  }

  #countBeside(): void {
    const leaders = this.#lives.filter(
      (life) => life.led !== null && this.#runs(life) && !life.stopping.signal.aborted,
    );
    const replaced = leaders.filter(({ led }) => led?.store.owner !== this.#log.leader);
    if (replaced.length === leaders.length) return;
    for (const life of replaced) {
      life.besideMs += TICK_MS;
      if (life.besideMs > BESIDE_MS) this.wrong.push('a leader that was replaced went on');
    }
  }

  #look(): void {
    const acting = this.#lives.filter((life) => this.#runs(life) && life.led?.mayAct() === true);
    if (acting.length > 1) this.wrong.push('two programs may act at the same time');
    for (const { shown } of acting) {
      if (shown === null) continue;
      for (const key of KEYS) this.#see(key, shown.count(key));
      for (const id of this.#heard) this.#see(id, Number(shown.has(id)));
    }
  }

  #see(key: string, count: number): void {
    const seen = this.#seen.get(key) ?? 0;
    if (count < seen) this.wrong.push('people were shown what was not stored, and is gone');
    this.#seen.set(key, Math.max(seen, count));
  }

  #begin(): void {
    const life = new Life();
    this.#lives.push(life);
    this.#live(life).catch((error: unknown) => {
      life.isOver = true;
      if (!String(error).includes('declared this one dead')) this.wrong.push(String(error));
    });
  }

  /** The log as one program sees it. Answers to beats and groups can be lost. A lost group can arrive late. */
  #seenBy(life: Life): SharedLog {
    const pause = (): Promise<void> =>
      life.until(Math.max(this.#now, this.#databaseAt, life.cutUntil) + this.#random.between(0, 3) * TICK_MS);
    const answered = (): Promise<void> =>
      this.#now < life.slowUntil ? life.until(this.#now + this.#random.between(3_000, 9_000)) : pause();
    const seen = this.#log.seenBy(pause, answered);
    const lossy = async <T>(answer: Promise<T>): Promise<T> => {
      const given = await answer;
      if (this.#random.chance(0.03)) throw new Error('the connection broke');
      return given;
    };
    const beat = (worker: string): Promise<boolean> => lossy(seen.beat(worker));
    const commit = async (group: Group): Promise<boolean> => {
      if (!this.#random.chance(0.03)) return lossy(seen.commit(group));
      this.#late.push({
        at: this.#now + this.#random.between(0, 3_000),
        go: () => void this.#log.seenBy().commit(group),
      });
      throw new Error('the connection broke');
    };
    return { ...seen, beat, commit };
  }

  async #live(life: Life): Promise<void> {
    const { SqliteStore: Store, lead } = this.#code;
    const clock = { now: () => this.#now };
    const log = this.#seenBy(life);
    const timers = {
      after: (ms: number, run: () => void) => {
        const waiting = { at: this.#now + ms, go: run };
        life.waiting.push(waiting);
        return { cancel: () => void (life.waiting = life.waiting.filter((each) => each !== waiting)) };
      },
    };
    const lost = ({ code }: StoreError): void => {
      if (code === 'buried' && life.lostAt === null)
        this.wrong.push('a program that stood still for no time was declared dead');
      if (life.led?.mayAct() === true) this.wrong.push('a program that may act ended');
      life.isOver = true;
    };
    const [onState, unreached] = [() => undefined, () => undefined];
    const options = { path: ':memory:', clock, salts: () => 'salt', lost };
    const led = await lead(options, log, (db, all) => new Store(db, all), {
      clock,
      timers,
      lost,
      onState,
      unreached,
      stopping: life.stopping.signal,
    });
    if (led === null) return void (life.isOver = true);
    life.led = led;
    const { store } = led;
    const [counters, boards] = [store.host(counter), store.host(board, boardUses)];
    await store.recover();
    life.shown = {
      count: (key) => counters.state(key)?.value ?? 0,
      has: (id) => store.message(id) !== null,
    };
    const hear = async (): Promise<void> => {
      this.#messages += 1;
      const message = written(`m${this.#messages}`);
      this.#heard = [...this.#heard.slice(-4), message.id];
      await store.accept(message);
      this.#accepted.push(message.id);
    };
    const add = async (): Promise<void> => {
      this.#added += 1;
      const { ok } = await counters.apply(this.#random.pick(KEYS), { type: 'add', by: 1 }, FROM);
      this.#done += Number(ok);
    };
    const pin = async (): Promise<void> => {
      this.#sent += 1;
      const [channel, text] = [this.#random.pick(CHANNELS), `text ${this.#sent}`];
      const { ok } = await boards.apply(channel, { type: 'pin', text }, FROM);
      if (ok) this.#pinned.push(text);
    };
    const note = async (): Promise<void> => {
      const name = this.#random.pick(NOTES);
      const { keyValues } = store;
      await (keyValues.recall('model', name) === null
        ? keyValues.remember('model', name, 'kept')
        : keyValues.forget('model', name));
    };
    const work = async (): Promise<void> => {
      for (const row of (await store.lease(9, this.#now)).rows)
        life.posting.push(this.#deliver(life, { store, led, row }).catch(() => undefined));
    };
    life.lastAsk = () => void add().catch(() => undefined);
    for (;;) {
      await life.until(this.#now + 10 * TICK_MS);
      if (!led.mayAct() || life.stopping.signal.aborted) continue;
      if (this.#now < FROM + ASK_FOR_MS)
        this.#random
          .pick([add, pin, hear, note])()
          .catch(() => undefined);
      work().catch(() => undefined);
    }
  }

  async #deliver(
    life: Life,
    {
      store,
      led,
      row,
    }: { readonly store: SqliteStore; readonly led: Led<SqliteStore>; readonly row: OutboxEntry<unknown> },
  ): Promise<void> {
    const isThere = this.#posts.some(({ id, at }) => id === row.id && at <= this.#now);
    if (!row.uncertain || !isThere) {
      if (!led.mayAct()) return store.settle(row, { state: 'retry', notBefore: this.#now });
      const at = this.#now + this.#random.between(0, LONGEST_WAY_MS);
      this.#posts.push({ id: row.id, channel: row.channel, text: row.text ?? '', at });
      await life.until(at + TICK_MS);
    }
    await store.settle(row, { state: 'confirmed', platformId: row.id });
  }

  /** Checks the end after the quiet time: everything that was answered is stored, once and in order. */
  #judge(): void {
    const leader = this.#lives.find(({ led }) => led?.mayAct() === true)?.led?.store;
    if (leader === undefined) return void this.wrong.push('nobody leads after a quiet time');
    const counted = [...leader.journals(counter)].reduce((sum, [, facts]) => sum + [...facts].length, 0);
    if (counted < this.#done || counted > this.#added)
      this.wrong.push(`${this.#done} of ${this.#added} commands were done, ${counted} are in the journal`);
    const ids = this.#posts.map(({ id }) => id);
    if (new Set(ids).size < ids.length) this.wrong.push('an entry was posted twice');
    const recorded: string[] = [];
    for (const [channel, facts] of leader.journals(board)) {
      const pins = [...facts].toReversed().flatMap(({ fact }) => (fact.type === 'pinned' ? [fact.text] : []));
      recorded.push(...pins);
      const posted = this.#posts.filter((post) => post.channel === channel);
      const inOrder = posted.toSorted((one, other) => one.at - other.at).map(({ text }) => text);
      if (inOrder.join() !== pins.join()) this.wrong.push(`posts of ${channel} are missing or out of order`);
    }
    const unheard = this.#accepted.filter((id) => leader.message(id) === null);
    if (unheard.length > 0) this.wrong.push(`${unheard.join(', ')}: accepted, and gone`);
    for (const name of NOTES)
      if ((leader.keyValues.recall('model', name) !== null) !== this.#log.holds('memory', name))
        this.wrong.push(`${name} of the leader's copy is not as in the log`);
    const lost = this.#pinned.filter((text) => !recorded.includes(text));
    if (lost.length > 0) this.wrong.push(`${lost.join(', ')}: done, and gone`);
    this.wrong.push(...leader.verify());
  }
}

/** Lets three programs lead in turn. Returns faults, one sentence each. The same seed gives the same faults. */
export async function wrongInLead(seed: number, code: Leading, bug: LogBug | null = null): Promise<readonly string[]> {
  const world = new World(seed, code, bug);
  await world.run().catch((error: unknown) => world.wrong.push(String(error)));
  return [...new Set(world.wrong)];
}
