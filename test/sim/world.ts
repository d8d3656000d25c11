import { isDeepStrictEqual } from 'node:util';
import { createHash } from 'node:crypto';
import { nextDeadline } from '../../src/turns/floor/seats.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import { floorMachine } from '../../src/turns/floor-store.ts';
import type { FloorMachine, FloorStore } from '../../src/turns/floor-store.ts';
import { audit, mayStayHeld } from './audit.ts';
import { Bot } from './bot.ts';
import { Cast } from './cast.ts';
import { Disk } from './disk.ts';
import { Driver } from './driver.ts';
import { NO_FAULTS, Platform } from './platform.ts';
import type { Faults } from './platform.ts';
import { Random } from './random.ts';
import { Referee, checkFloor, checkPresence } from './referee.ts';
import { drawConfig, drawScope } from './settings.ts';
import type { Scope } from './settings.ts';
import { Situations } from './situations.ts';
import type { Situation } from './situations.ts';
import { Spotter } from './spotter.ts';
import { Timeline } from './timeline.ts';
import type { Life } from './timeline.ts';
import { Violation, must } from './violation.ts';

/** The result of a seed. */
export type Outcome = {
  readonly seed: number;
  readonly events: number;
  /** A digest. Equal for the same seed and number of events. */
  readonly trace: string;
  /** Posts shown twice because their request was lost for too long. The design allows these. */
  readonly repeats: number;
  readonly counts: readonly (readonly [Situation, number])[];
  readonly broken: Broken | null;
};

/** The first broken rule, with the events before it. */
export type Broken = {
  readonly rule: string;
  readonly text: string;
  readonly event: number;
  readonly trail: readonly string[];
};

const WORLD: Life = { alive: true };
const HOUR_MS = 3_600_000;
const TRAIL = 30;
const MOST_HEALING = 60_000;
/** The time in which every absent agent is noticed. */
const SLOWEST_HEARTBEAT_MS = 500_000;
/** The most milliseconds by which a deadline may be late while the program is not held up. */
const LATEST_MS = 250;
/** The delay in milliseconds from which the program counts as held up. */
const HELD_UP_MS = 100;
/** Separates the disk's random stream from the seed's. */
const OF_THE_DISK = 0x5d_15_c0_de;

/**
 * Runs one seed: `events` events under faults, then a time without faults. Everything must come to rest then, and all
 * data must agree. `core`: a copy with a planted bug. `look`: called with the store at rest.
 */
export async function runSeed(
  seed: number,
  events: number,
  core: FloorMachine = floorMachine,
  look: (store: FloorStore) => void = () => {},
): Promise<Outcome> {
  const world = new World(seed, core, look);
  const onRejection = (error: unknown): void => world.fail(error);
  process.on('unhandledRejection', onRejection);
  try {
    await world.run(events);
  } catch (error) {
    world.fail(error);
  } finally {
    process.off('unhandledRejection', onRejection);
    world.dispose();
  }
  return world.outcome();
}

class World {
  readonly #seed: number;
  readonly #look: (store: FloorStore) => void;
  readonly #timeline: Timeline;
  readonly #situations = new Situations();
  readonly #scope: Scope;
  readonly #disk: Disk;
  readonly #platform: Platform;
  readonly #cast: Cast;
  readonly #referee = new Referee();
  readonly #bot: Bot;
  readonly #driver: Driver;
  readonly #textLimit: number;
  readonly #hash = createHash('sha256');
  readonly #trail: (readonly [number, number, string, unknown])[] = [];
  readonly #acting: Life = { alive: true };
  /** Passed deadlines that have not fired, with the time since when, by channel. */
  readonly #overdue = new Map<string, { readonly deadline: number; readonly since: number }>();
  #events = 0;
  #broken: Broken | null = null;

  constructor(seed: number, core: FloorMachine, look: (store: FloorStore) => void) {
    this.#seed = seed;
    this.#look = look;
    const random = new Random(seed);
    const start = Date.UTC(2030, 0, 1) + random.between(0, 24 * HOUR_MS);
    const timeline = new Timeline(start, random);
    this.#timeline = timeline;
    this.#disk = new Disk(timeline, new Random(seed ^ OF_THE_DISK));
    const fail = (error: unknown): void => this.fail(error);
    const situations = this.#situations;
    this.#textLimit = random.pick([120, 120, 2_000]);
    this.#scope = drawScope(random);
    const common = { timeline, random, fail, situations, textLimit: this.#textLimit };
    const chatty = random.pick([0, 0, 0.2, 1]);
    this.#platform = new Platform({ ...common, idempotent: random.chance(0.35), chatty });
    this.#platform.faults = drawFaults(random);
    this.#cast = new Cast(common);
    this.#cast.temper.trouble = random.pick([0.2, 1, 1]);
    const { prompted } = this.#cast;
    this.#bot = new Bot(drawConfig(random, this.#scope), {
      ...common,
      core,
      disk: this.#disk,
      platform: this.#platform,
      cast: this.#cast,
      referee: this.#referee,
      spotter: new Spotter(situations, prompted),
      grouped: random.chance(0.25),
      early: random.pick([0, 0.02]),
      note: (what, detail) => this.#note(what, detail),
    });
    this.#driver = new Driver({
      ...common,
      scope: this.#scope,
      bot: this.#bot,
      platform: this.#platform,
      cast: this.#cast,
      stoodStill: (ms) => this.#referee.stoodStill(ms),
    });
  }

  /** Records the first error. */
  fail(error: unknown): void {
    if (this.#broken !== null) return;
    const rule = error instanceof Violation ? error.rule : 'none';
    const text =
      error instanceof Error
        ? error instanceof Violation
          ? error.message
          : (error.stack ?? error.message)
        : String(error);
    this.#broken = { rule, text, event: this.#events, trail: this.#trail.slice(-TRAIL).map(shown) };
  }

  async run(events: number): Promise<void> {
    this.#bot.start();
    this.#actLater();
    while (this.#events < events && this.#broken === null) await this.#step();
    if (this.#broken !== null) return;
    await this.#heal();
    const { store, db } = this.#bot;
    must('I23', store !== null && db !== null, () => 'the bot does not run');
    audit({
      store,
      db,
      platform: this.#platform,
      cast: this.#cast,
      channels: this.#scope.channels,
      surfaced: this.#bot.surfaced,
      textLimit: this.#textLimit,
    });
    this.#look(store);
    this.#hash.update(
      JSON.stringify(db.prepare('SELECT machine, seq, hex(hash) FROM journal ORDER BY row').raw().all()),
    );
  }

  outcome(): Outcome {
    return {
      seed: this.#seed,
      events: this.#events,
      trace: this.#hash.digest('hex'),
      repeats: this.#platform.repeats,
      counts: [...this.#situations.counts],
      broken: this.#broken,
    };
  }

  dispose(): void {
    this.#bot.dispose();
  }

  async #step(): Promise<void> {
    const entry = this.#timeline.next();
    if (entry === null) throw new Violation('I23', 'nothing will ever happen again');
    this.#events += 1;
    this.#note(entry.what, null);
    this.#hash.update(`${entry.what} ${this.#timeline.now}\n`);
    const { spentMs } = this.#disk;
    entry.run();
    await this.#settle();
    this.#check(this.#disk.spentMs - spentMs);
  }

  /** Lets the program do everything that it can do at this instant. */
  async #settle(): Promise<void> {
    for (let round = 0; round < 10_000; round += 1) {
      await new Promise<void>((resolve) => void setImmediate(resolve));
      if (!this.#bot.isBusy) {
        this.#bot.bury();
        return;
      }
    }
    throw new Violation('I23', 'the program does not come to rest at one instant');
  }

  /** `spentMs`: the duration of the last event's commits. */
  #check(spentMs: number): void {
    const { store, isReady, isStopping } = this.#bot;
    if (store === null) return this.#overdue.clear();
    const isBehind = this.#timeline.isBehind || !isReady || isStopping;
    for (const [channel, mirrored] of this.#referee.floors) {
      const floor = store.floors.state(channel);
      // A floor that did not change for a while was read from the file again.
      const isSame = floor === mirrored || isDeepStrictEqual(floor, mirrored);
      must('I16', isSame, () => `the floor of ${channel} changed without a command`);
      checkFloor(mirrored);
      if (isReady && !isStopping) this.#checkLateness(mirrored, spentMs);
      if (isBehind) continue;
      if (this.#timeline.now > this.#bot.readyAt + SLOWEST_HEARTBEAT_MS)
        checkPresence(mirrored, (...seat) => this.#cast.isHung(...seat));
      const overdue = nextDeadline(mirrored);
      must(
        'I14',
        overdue === null || overdue >= this.#timeline.now,
        () => `a deadline of ${channel} passed ${this.#timeline.now - (overdue ?? 0)} ms ago`,
      );
    }
  }

  /** A deadline fires in time, however busy the program is, unless it is held up. */
  #checkLateness(floor: Floor, spentMs: number): void {
    const { channel } = floor;
    const { now, lagMs } = this.#timeline;
    const deadline = nextDeadline(floor) ?? Infinity;
    if (deadline > now) return void this.#overdue.delete(channel);
    const known = this.#overdue.get(channel);
    if (known?.deadline !== deadline) return void this.#overdue.set(channel, { deadline, since: now });
    const isHeldUp = lagMs > HELD_UP_MS || spentMs > HELD_UP_MS;
    const isInTime = now - known.since <= LATEST_MS;
    must('I14', isInTime || isHeldUp, () => `a deadline of ${channel} is held for ${now - known.since} ms`);
  }

  #actLater(): void {
    this.#timeline.after(this.#driver.gap(), 'act', this.#acting, () => {
      this.#note('act', this.#driver.act());
      this.#actLater();
    });
  }

  /** Stops all faults, lets operators free the floors, and lets time pass. Everything must be answered. */
  async #heal(): Promise<void> {
    this.#acting.alive = false;
    this.#platform.faults = NO_FAULTS;
    this.#platform.deafUntil = 0;
    this.#platform.downUntil = 0;
    this.#platform.isQuiet = true;
    this.#cast.temper.trouble = 0;
    this.#cast.goneUntil.clear();
    this.#cast.hangUntil = 0;
    for (const session of this.#cast.sessions) session.recover();
    this.#bot.fuse = null;
    this.#disk.isSlow = false;
    await this.#until('the bot to run', () => this.#bot.isReady && !this.#bot.isStopping);
    await this.#until('the platform to be heard', () => this.#platform.isHeard);
    await this.#pass(SLOWEST_HEARTBEAT_MS);
    for (let round = 0; round < 3; round += 1) {
      for (const channel of this.#scope.channels) {
        const floor = this.#bot.floor(channel);
        if (floor !== null) this.#driver.mend(channel, floor, round < 2);
      }
      this.#platform.sweep();
      await this.#pass(3_000);
    }
    await this.#until('all to rest', () => this.#unrest() === null);
    for (const channel of this.#scope.channels) {
      const [first = 'pm'] = this.#bot.floor(channel)?.queue ?? [];
      this.#driver.write(channel, `@${first} is everybody well?`);
    }
    await this.#pass(5_000);
    await this.#until('the last message to be answered', () => this.#unrest() === null);
  }

  /** Describes what is not at rest; `null`: nothing. */
  #unrest(): string | null {
    const { db } = this.#bot;
    if (db === null) return 'the bot is down';
    const owed = db
      .prepare<[], number>("SELECT count(*) FROM outbox WHERE state IN ('owed', 'uncertain')")
      .pluck()
      .get();
    if (owed !== 0) return `${owed} effects are owed`;
    for (const channel of this.#scope.channels) {
      const floor = this.#bot.floor(channel);
      if (floor === null) return `${channel} has no floor`;
      if (floor.turn !== null) return `${floor.turn.agent} has the floor of ${channel}`;
      if (floor.parked.length > 0) return `${floor.parked.length} turns wait in ${channel}`;
      if (floor.catchingUp) return `${channel} is not caught up`;
      const held = floor.held.filter((message) => !mayStayHeld(floor, message));
      if (held.length > 0 && !floor.stopped) return `${held.length} messages are held in ${channel}`;
      if (floor.condition !== 'resting') return `${channel} is ${floor.condition}`;
    }
    return null;
  }

  async #until(what: string, isSo: () => boolean): Promise<void> {
    const end = this.#timeline.now + 26 * HOUR_MS;
    for (let steps = 0; !isSo(); steps += 1) {
      if (this.#broken !== null) return;
      const isOver = steps > MOST_HEALING || this.#timeline.now > end;
      must('I23', !isOver, () => `waited in vain for ${what}: ${this.#unrest()}`);
      await this.#step();
    }
  }

  async #pass(ms: number): Promise<void> {
    const end = this.#timeline.now + ms;
    this.#timeline.after(ms, 'time passes', WORLD, () => {});
    while (this.#timeline.now < end && this.#broken === null) await this.#step();
  }

  #note(what: string, detail: unknown): void {
    if (this.#trail.at(-1)?.[3] === null) this.#trail.pop();
    this.#trail.push([this.#events, this.#timeline.now, what, detail]);
    if (this.#trail.length > 4 * TRAIL) this.#trail.splice(0, 3 * TRAIL);
  }
}

function drawFaults(random: Random): Faults {
  const scale = random.pick([0.1, 1, 1, 2]);
  return {
    drop: 0.02 * scale,
    double: 0.06 * scale,
    delay: 0.15 * scale,
    refuse: 0.002 * scale,
    limit: 0.02 * scale,
    unreachable: 0.03 * scale,
    unclear: 0.05 * scale,
    slow: 0.05 * scale,
    late: 0.003 * scale,
    blind: 0.08 * scale,
  };
}

function shown([event, at, what, detail]: readonly [number, number, string, unknown]): string {
  const text = typeof detail === 'string' ? detail : detail === null ? '' : brief(detail);
  return `${String(event).padStart(6)} ${new Date(at).toISOString().slice(8, 23)} ${what} ${text}`;
}

function brief(detail: unknown): string {
  const { command, applied } = detail as {
    command: object;
    applied: { ok: boolean; refusal?: string; facts?: readonly { type: string }[] };
  };
  const given = JSON.stringify(command);
  const result = applied.ok ? (applied.facts ?? []).map(factLine).join(' · ') : `refused: ${applied.refusal}`;
  return `${given.length > 200 ? `${given.slice(0, 200)}…` : given} → ${result}`;
}

function factLine(fact: { readonly type: string }): string {
  const line = JSON.stringify(fact);
  return line.length > 220 ? `${line.slice(0, 220)}…` : line;
}
