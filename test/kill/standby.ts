import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { DEAD_MS } from '../../src/engine/shared/heartbeat.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { INTERRUPT_MODES } from '../../src/turns/floor/policies.ts';
import type { TestServer } from '../engine/postgres/server.ts';
import { clearPlace, isReady, makePlace } from './bot.ts';
import type { Bot } from './bot.ts';
import { Fleet, copyTo } from './fleet.ts';
import { Ledger } from './ledger.ts';
import { configOf, crowdOf, effectsIn, lastLife, load, witnessFolder, witnessesIn } from './loop.ts';
import { randomOf } from './random.ts';
import { verify } from './verify.ts';
import { CUTS, wireTo } from './wire.ts';
import type { Wire } from './wire.ts';

/** Options of a kill loop. `processes`: how many programs share one store. `cycles`: how many faults are caused. */
export type StandbyPlan = {
  readonly server: TestServer;
  readonly processes: number;
  readonly cycles: number;
  readonly seed: number;
  readonly tell: (line: string) => void;
};

/** The faults, with the relative frequency of each. */
const FAULTS = {
  kill: 5,
  killTwo: 2,
  freeze: 3,
  cutLeader: 3,
  end: 2,
  killInTakeOver: 2,
  killDatabase: 2,
  freezeDatabase: 2,
  cut: 3,
} as const;
type Fault = keyof typeof FAULTS;

/**
 * The result of a run. `goingOnMs`: milliseconds until a program serves people again, sorted. They count from the
 * fault, from the second of two kills, from the end of a freeze that is no death, or from the return of the database.
 */
export type StandbyReport = {
  readonly ledger: Ledger;
  readonly faults: Readonly<Record<Fault, number>>;
  readonly goingOnMs: readonly number[];
  /** Leaders that were frozen or cut off, and ended because another one led. */
  readonly replaced: number;
  /** Those of the replaced leaders whose first write was refused. */
  readonly staleRefused: number;
  /** Connections to the database that were cut. */
  readonly cuts: number;
};

/** Starts programs on one store, loads the serving one and causes faults. Then checks the result. */
export async function runStandbyLoop({ server, processes, cycles, seed, tell }: StandbyPlan): Promise<StandbyReport> {
  const random = randomOf(seed);
  const witnessDir = witnessFolder();
  const schema = `kill_${seed}`;
  const wires = await Promise.all(
    Array.from({ length: processes }, (_, which) => wireTo(server.url, randomOf(seed + 1 + which))),
  );
  const config = (url: string): object => ({
    ...configOf(INTERRUPT_MODES, witnessDir),
    store: { postgres: url, schema },
  });
  const places = await Promise.all(wires.map(({ url }) => makePlace(config(url))));
  const fleet = new Fleet(places);
  const wireOf = (bot: Bot): Wire => wires[places.findIndex(({ port }) => port === bot.port)] as Wire;
  const ledger = new Ledger();
  const run = { crowd: crowdOf(INTERRUPT_MODES, { ledger, random }), random, ledger, burst: 0 };
  const counts = mapped(FAULTS, () => 0);
  const report = { ledger, faults: counts, goingOnMs: [] as number[], replaced: 0, staleRefused: 0 };
  const audit = join(witnessDir, 'audit');
  try {
    fleet.fill();
    for (let cycle = 1; cycle <= cycles; cycle += 1) {
      const leader = await fleet.leader();
      await load(run, leader, random.between(300, 2_500));
      const fault = drawn(random.between(0, 1e6) / 1e6);
      counts[fault] += 1;
      const { from, served } = await strike(fault, leader);
      for (const typist of run.crowd) typist.disconnect();
      const next = await fleet.leader();
      report.goingOnMs.push(Math.round((served ?? performance.now()) - from));
      tell(
        `cycle ${cycle}: ${fault}, ${next === leader ? 'the same' : 'another'} leads after ${report.goingOnMs.at(-1)} ms`,
      );
      fleet.fill();
    }
    const leader = await fleet.leader();
    for (const bot of fleet.bots) if (bot !== leader) await bot.end('SIGTERM');
    await lastLife(run, leader, `${leader.dataDir}/shared.db`);
    mkdirSync(audit);
    await copyTo(`${audit}/conch.db`, { url: server.url, schema });
    const witnesses = witnessesIn(witnessDir);
    await verify({ database: `${audit}/conch.db`, effects: effectsIn(witnessDir), ledger, witnesses });
    return {
      ...report,
      cuts: wires.reduce((sum, { cuts }) => sum + cuts, 0),
      goingOnMs: report.goingOnMs.toSorted((one, other) => one - other),
    };
  } finally {
    for (const typist of run.crowd) typist.disconnect();
    await fleet.endAll();
    await Promise.all(wires.map((wire) => wire.close()));
    for (const place of places) clearPlace(place);
    rmSync(witnessDir, { recursive: true, force: true });
  }

  /** Causes a fault. `from`: the start of the outage. `served`: when another program served before the fault ended. */
  async function strike(fault: Fault, leader: Bot): Promise<{ readonly from: number; readonly served?: number }> {
    const others = fleet.bots.filter((bot) => bot !== leader);
    let from = performance.now();
    switch (fault) {
      case 'kill':
        await leader.end('SIGKILL');
        break;
      case 'killTwo':
        await Promise.all([leader, ...others.slice(0, 1)].map((bot) => bot.end('SIGKILL')));
        break;
      case 'end':
        await leader.end('SIGTERM');
        break;
      case 'killInTakeOver':
        await leader.end('SIGKILL');
        await pause(random.between(5_000, 8_000));
        from = performance.now();
        await others[0]?.end('SIGKILL');
        break;
      case 'killDatabase':
        await server.kill();
        await pause(random.between(0, 4_000));
        await server.start();
        from = performance.now();
        break;
      case 'freezeDatabase':
        await server.freeze(random.between(500, 10_000));
        from = performance.now();
        break;
      case 'cut': {
        const moment = random.pick(CUTS);
        for (const wire of wires) wire.cut = moment;
        await load(run, leader, 1_500);
        for (const wire of wires) wire.cut = null;
        from = performance.now();
        break;
      }
      case 'freeze':
      case 'cutLeader': {
        const ms = random.between(500, 20_000);
        const served = fault === 'freeze' ? await froze(leader, ms) : await parted(leader, ms);
        // A leader that is away for less than `DEAD_MS` is not declared dead, so its outage counts from its return.
        if (ms < DEAD_MS) from = performance.now();
        return { from, ...(served === null ? {} : { served }) };
      }
    }
    return { from };
  }

  async function froze(leader: Bot, ms: number): Promise<number | null> {
    leader.child.kill('SIGSTOP');
    return replaced(leader, ms, () => leader.child.kill('SIGCONT'));
  }

  async function parted(leader: Bot, ms: number): Promise<number | null> {
    const wire = wireOf(leader);
    wire.part(random.chance(0.5));
    return replaced(leader, ms, () => wire.join());
  }

  /**
   * Waits while the leader is away, then lets it come back. A leader that was replaced meanwhile ends by itself.
   * Resolves with the time when another program served; `null` when none did.
   */
  async function replaced(leader: Bot, ms: number, back: () => void): Promise<number | null> {
    const others = fleet.bots.filter((bot) => bot !== leader);
    const until = performance.now() + ms;
    let served: number | null = null;
    while (performance.now() < until) {
      const isServed = (await Promise.all(others.map((bot) => isReady(bot.port)))).includes(true);
      if (isServed) served ??= performance.now();
      await pause(20);
    }
    back();
    if (served === null) return null;
    const ended = await Promise.race([leader.ended, pause(15_000, null)]);
    report.staleRefused += Number(leader.out().includes('PostgreSQL refused the last write of this Conch'));
    const { lockLost, databaseUnreached } = EXIT_CODES;
    if (ended?.code === lockLost || ended?.code === databaseUnreached) report.replaced += 1;
    else ledger.faults.other.push(`a replaced leader ended with ${ended?.code ?? 'nothing'}: ${leader.lastWords()}`);
    return served;
  }
}

function mapped<Key extends string, From, To>(
  all: Readonly<Record<Key, From>>,
  to: (value: From) => To,
): Record<Key, To> {
  const entries = Object.entries<From>(all).map(([key, value]) => [key, to(value)]);
  return Object.fromEntries(entries) as Record<Key, To>;
}

function drawn(chance: number): Fault {
  const all = Object.entries(FAULTS) as [Fault, number][];
  let left = chance * all.reduce((sum, [, weight]) => sum + weight, 0);
  for (const [fault, weight] of all) {
    left -= weight;
    if (left < 0) return fault;
  }
  return 'kill';
}
