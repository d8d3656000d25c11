import type Database from 'better-sqlite3';
import { App } from '../../src/runtime/app.ts';
import type { Config } from '../../src/config/config.ts';
import { createLog } from '../../src/runtime/log.ts';
import type { Command } from '../../src/turns/floor/command.ts';
import { nextDeadline } from '../../src/turns/floor/seats.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import type { HumanMessage } from '../../src/engine/port.ts';
import type { Applied, FloorMachine } from '../../src/turns/floor-store.ts';
import { STORE } from './settings.ts';
import { MEMORY } from '../../src/engine/sqlite/open.ts';
import { floorWithWork } from '../../src/work/floor-with-work.ts';
import { announcementText } from '../../src/turns/text/announcement-values.ts';
import type { Cast } from './cast.ts';
import type { Disk } from './disk.ts';
import type { Platform } from './platform.ts';
import type { Referee } from './referee.ts';
import type { Situations } from './situations.ts';
import type { Spotter } from './spotter.ts';
import { WatchedStore, openImage } from './store.ts';
import type { Life, Timeline } from './timeline.ts';
import { Violation, must } from './violation.ts';
import { completeTexts } from '../../src/config/announcements.ts';

/** The parts that every start of the bot uses. */
export type BotPorts = {
  readonly core: FloorMachine;
  readonly timeline: Timeline;
  readonly disk: Disk;
  readonly platform: Platform;
  readonly cast: Cast;
  readonly referee: Referee;
  readonly spotter: Spotter;
  readonly situations: Situations;
  readonly textLimit: number;
  /** Commands are committed in groups, as under load. */
  readonly grouped: boolean;
  /** The share of its timers that ring a millisecond early, from 0 to 1. */
  readonly early: number;
  readonly note: (what: string, detail: unknown) => void;
  readonly fail: (error: unknown) => void;
};

const WORLD: Life = { alive: true };
/** The time that the program has for its shutdown. */
const DRAIN_MS = 10_000;

/** The real bot in one process, which can be killed and restarted. Only committed data survives. */
export class Bot {
  config: Config;
  isReady = false;
  /** The time when the bot became ready. */
  readyAt = 0;
  isStopping = false;
  /** Ids of outbox entries that were reported as undelivered. */
  readonly surfaced = new Set<string>();
  /** The number of answers of the store after which the process dies; `null`: never. */
  fuse: number | null = null;
  readonly #ports: BotPorts;
  #life: Life = { alive: false };
  #app: App | null = null;
  #store: WatchedStore | null = null;
  #db: Database.Database | null = null;
  #image: Buffer | null = null;
  /** The number of keys given to questions, in all lives. */
  #keys = 0;
  #graves: Database.Database[] = [];
  /** Decisions that are not known to be durable, in order, including those caused by runs. */
  readonly #decided = new Map<string, Decided[]>();

  constructor(config: Config, ports: BotPorts) {
    this.config = config;
    this.#ports = ports;
  }

  get isAlive(): boolean {
    return this.#life.alive;
  }

  /** The store of the running process; `null` while none runs. */
  get store(): WatchedStore | null {
    return this.#life.alive ? this.#store : null;
  }

  get db(): Database.Database | null {
    return this.#life.alive ? this.#db : null;
  }

  get isBusy(): boolean {
    return this.#life.alive && (this.#store?.pending ?? 0) > 0;
  }

  floor(channel: string): Floor | null {
    return this.store?.floors.state(channel) ?? null;
  }

  start(): void {
    if (this.#life.alive) return;
    const { timeline, platform, cast, note, fail, early } = this.#ports;
    const life: Life = { alive: true };
    this.#life = life;
    const db = openImage(this.#image);
    const { clock, timers } = timeline.worldOf(life, early);
    const store = this.#openStore(db, life);
    this.#db = db;
    this.#store = store;
    this.#remember(store);
    const app = new App({
      config: this.config,
      store,
      clock,
      timers,
      log: createLog({
        level: 'error',
        pretty: false,
        secrets: [],
        clock,
        destination: { write: (line) => this.#logged(line) },
      }),
      adapters: [platform.adapterFor(life)],
      backendFor: (agent) => cast.backendFor(agent, life),
      localOperators: [],
      onBroken: (error) => life.alive && fail(new Violation('I15', `the program broke: ${text(error)}`)),
    });
    this.#app = app;
    note('start', null);
    this.#run(app, life).catch((error: unknown) => life.alive && this.#notStarted(store, error));
  }

  /** Kills the process at once, and starts it again `afterMs` later. */
  crash(why: string, afterMs: number): void {
    if (!this.#life.alive || this.#db === null) return;
    const { platform, spotter, situations, note } = this.#ports;
    note('crash', why);
    if (platform.isPosting) situations.reach('a crash with a post under way');
    if (!this.isReady) situations.reach('a crash during a start');
    if (isBetweenParts(this.#db)) situations.reach('a crash between two parts of one text');
    spotter.crash(this.#floors());
    this.#image = this.#db.serialize();
    this.#die(afterMs);
  }

  /** Ends the process in good order. Cuts work short that takes too long, as the program does. */
  stop(afterMs: number): void {
    const { timeline, situations, note, fail } = this.#ports;
    const life = this.#life;
    const app = this.#app;
    if (!life.alive || app === null || !this.isReady || this.isStopping) return;
    note('stop', null);
    if (this.#floors().some(({ turn }) => turn !== null)) situations.reach('a restart in good order with a turn open');
    this.isStopping = true;
    app.stop().then(
      () => life.alive && this.#die(afterMs),
      (error: unknown) => life.alive && fail(error),
    );
    timeline.after(DRAIN_MS, 'drain is over', WORLD, () => {
      if (!life.alive) return;
      situations.reach('a shutdown that is cut short');
      this.crash('shutdown cut short', afterMs);
    });
  }

  reload(next: Config): void {
    const life = this.#life;
    if (!life.alive || !this.isReady || this.isStopping) return;
    this.config = next;
    this.#ports.note('reload', null);
    this.#ports.cast.startAfresh();
    this.#app?.reload(next).catch((error: unknown) => life.alive && this.#ports.fail(error));
  }

  /** Closes the databases of dead processes. Called when no work of them is left. */
  bury(): void {
    for (const db of this.#graves.splice(0)) db.close();
  }

  /** Ends the bot for good and closes its databases. */
  dispose(): void {
    this.#life.alive = false;
    if (this.#db?.open === true) this.#db.close();
    this.bury();
  }

  async #run(app: App, life: Life): Promise<void> {
    await app.start();
    this.isReady = this.#life === life && life.alive;
    this.readyAt = this.#ports.timeline.now;
    await app.connect();
  }

  #openStore(db: Database.Database, life: Life): WatchedStore {
    const { timeline, textLimit, grouped, core } = this.#ports;
    const decide: FloorMachine['decide'] = (floor, command, at) => {
      must('I14', at <= timeline.now, () => `${command.type} is dated ${at - timeline.now} ms ahead`);
      this.#commit(floor.channel, command);
      const decision = core.decide(floor, command, at);
      const state = decision.facts.reduce((each, fact) => core.evolve(each, fact, at), floor);
      const applied: Applied = decision.ok
        ? { ok: true, state, facts: decision.facts, effects: [] }
        : { ...decision, state };
      const entry = { command, at, applied, facts: decision.facts.length };
      this.#decided.set(floor.channel, [...(this.#decided.get(floor.channel) ?? []), entry]);
      return decision;
    };
    this.#decided.clear();
    const store = new WatchedStore(
      db,
      {
        path: grouped ? 'simulation' : MEMORY,
        machine: { ...floorWithWork, ...core, decide },
        clock: { now: () => timeline.now },
        textLimit: () => textLimit,
        salts: () => 'salt',
        words: (announcement, _channel, repeat) => announcementText(announcement, completeTexts({}), String, repeat),
        ids: () => STORE,
        questionKeys: () => `K${(this.#keys += 1)}`,
      },
      {
        life,
        applied: (channel, command, at, applied) => this.#answered({ channel, command, at, applied }),
        accepted: (message, outcome) => this.#accepted(message, outcome),
        broke: (what, error) =>
          this.#ports.fail(error instanceof Violation ? error : new Violation('I15', `${what}: ${text(error)}`)),
        answering: () => this.#answering(),
        closing: (image) => void (this.#image = image),
      },
    );
    store.floors.onChange(({ key, facts, state }) => {
      if (life.alive) this.#durable(key, facts.length, state);
    });
    return store;
  }

  /** Called when `facts` facts of a floor are on the disk. Checks the decisions up to them. */
  #durable(channel: string, facts: number, state: Floor | null): void {
    const decided = this.#decided.get(channel) ?? [];
    try {
      for (let left = facts; left > 0 || decided[0]?.facts === 0;) {
        const next = decided.shift();
        must('I15', next !== undefined, () => `${channel} has ${left} facts that nobody decided`);
        left -= next.facts;
        const { command, at, applied } = next;
        this.#applied({ channel, command, at, applied: left > 0 || state === null ? applied : { ...applied, state } });
      }
    } catch (error) {
      this.#ports.fail(error instanceof Violation ? error : new Violation('I15', text(error)));
    }
  }

  /** Checks a command that changed nothing as soon as it is answered, including refusals by the store itself. */
  #answered(answer: Answered): void {
    const { applied, channel } = answer;
    this.#durable(channel, 0, null);
    if (!applied.ok && STORE_REFUSES.has(applied.refusal)) this.#applied(answer);
  }

  /** Lets time pass inside a commit. A deadline of another channel that passes meanwhile must not be lost. */
  #commit(channel: string, { type }: Command): void {
    const { timeline, disk, referee, situations } = this.#ports;
    const before = timeline.now;
    disk.commit();
    if (type !== 'tick' || timeline.now === before) return;
    for (const floor of referee.floors.values()) {
      const deadline = floor.channel === channel ? null : nextDeadline(floor);
      if (deadline !== null && deadline > before && deadline <= timeline.now)
        situations.reach('a deadline that fell due inside a commit');
    }
  }

  #applied({ channel, command, at, applied }: Answered): void {
    const { note, referee, spotter, cast } = this.#ports;
    note(channel, { command, applied });
    const move = referee.judge(channel, command, at, applied);
    cast.answers.judge(channel, move.after, move.facts);
    for (const fact of move.facts) if (fact.type === 'turnEnded') cast.turnEnded(channel, fact);
    spotter.see(move);
  }

  #accepted(message: HumanMessage, outcome: 'new' | 'duplicate'): void {
    if (outcome === 'duplicate') this.#ports.note('duplicate', message.id);
  }

  #answering(): void {
    if (this.fuse === null) return;
    this.fuse -= 1;
    if (this.fuse > 0) return;
    this.fuse = null;
    this.#ports.situations.reach('a crash between a commit and its answer');
    this.crash('between a commit and its answer', 700);
  }

  #notStarted(store: WatchedStore, error: unknown): void {
    this.#ports.note('not started', text(error));
    const life = this.#life;
    store.close().then(
      () => life.alive && this.#die(5_000),
      (failed: unknown) => life.alive && this.#ports.fail(failed),
    );
  }

  #die(afterMs: number): void {
    const { timeline, platform, cast } = this.#ports;
    this.#life.alive = false;
    this.isReady = false;
    this.isStopping = false;
    this.fuse = null;
    if (this.#db?.open === true) this.#graves.push(this.#db);
    this.#db = null;
    this.#store = null;
    this.#app = null;
    platform.cutOff();
    cast.cutOff();
    timeline.after(afterMs, 'restart', WORLD, () => this.start());
  }

  #remember(store: WatchedStore): void {
    const floors = new Map<string, Floor>();
    for (const channel of store.floors.keys()) {
      const floor = store.floors.state(channel);
      if (floor !== null) floors.set(channel, floor);
    }
    this.#ports.referee.begin(floors);
    for (const floor of floors.values()) this.#ports.cast.answers.begin(floor);
  }

  #floors(): readonly Floor[] {
    const { store } = this;
    return store === null ? [] : store.floors.keys().flatMap((channel) => store.floors.state(channel) ?? []);
  }

  #logged(line: string): void {
    const { message, outboxId, why } = JSON.parse(line) as { message?: string; outboxId?: string; why?: unknown };
    this.#ports.note('log', line.trim());
    if (message === 'not delivered' && outboxId !== undefined) this.surfaced.add(outboxId);
    if (message === 'agent stopped' && String(why).includes('errors'))
      this.#ports.situations.reach('an agent is given up after its errors');
    if (message === 'floor could not be written') this.#ports.fail(new Violation('I15', line));
  }
}

/** Refusals that the store gives from its inbox, before it asks a floor. */
const STORE_REFUSES: ReadonlySet<string> = new Set(['duplicate', 'unknown-message']);

type Decided = Pick<Answered, 'command' | 'at' | 'applied'> & { readonly facts: number };
type Answered = {
  readonly channel: string;
  readonly command: Command;
  readonly at: number;
  readonly applied: Applied;
};

function isBetweenParts(db: Database.Database): boolean {
  const count = db
    .prepare<[], number>(
      `SELECT count(*) FROM outbox o JOIN outbox p ON p.n = o.n - 1
       WHERE o.lane = 'posts' AND o.part > 0 AND o.state IN ('owed', 'uncertain') AND p.state = 'confirmed'`,
    )
    .pluck()
    .get();
  return (count ?? 0) > 0;
}

function text(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
