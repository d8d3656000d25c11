import { setTimeout as pause } from 'node:timers/promises';
import { startBot, clearPlace, makePlace } from './bot.ts';
import type { Bot, Place } from './bot.ts';
import { Typist } from './crowd.ts';
import { Ledger } from './ledger.ts';
import type { Faults } from './ledger.ts';
import { randomOf } from './random.ts';
import type { Random } from './random.ts';
import { verify } from './verify.ts';

/** What to run. The same seed makes the same plan; when a message meets a kill is up to the machine. */
export type Plan = {
  readonly cycles: number;
  readonly seed: number;
  /** Told in one line what happens. */
  readonly tell?: (line: string) => void;
  /** Leaves the folder with the databases in place when something was found. */
  readonly keep?: boolean;
};

/** What came of a run. */
export type Report = {
  readonly cycles: number;
  readonly messages: number;
  readonly recoveriesMs: readonly number[];
  readonly recoveryMsP99: number;
  /** Posts that a kill left between here and the console. */
  readonly cutShort: number;
  readonly faults: Faults;
  readonly dir: string | null;
};

/** A start is killed before it is ready this often. */
const EARLY = 0.2;
/** A kill waits for a line of the log this often: right after one, a commit is done and what follows from it is under way. */
const AT_WORK = 0.7;
const AT_WORK_LIMIT_MS = 300;
/** Within this time after a line, what follows from it is usually done. */
const DONE_MS = 8;
/** A shutdown is cut short this often. */
const LATE = 0.15;
const QUIET_MS = 800;
const QUIET_LIMIT_MS = 45_000;
const MODES = ['inject', 'queue', 'interrupt', 'parallel'] as const;

/** Short limits, so that every deadline is met within a life of the program. */
export const KILL_CONFIG = {
  turnConfig: {
    defaultTimeoutSeconds: 1,
    maxTurnSeconds: 5,
    waitTimeoutSeconds: 1,
    interruptGraceSeconds: 0.5,
    coalesceMs: 20,
    maxTurns: 200,
  },
  agents: ['pm', 'dev', 'qa'].map((id) => ({ id, backend: { kind: 'scripted', script: id, wordMs: 1 } })),
  channels: MODES.map((mode) => ({
    id: `console:${mode}`,
    agents: ['pm', 'dev', 'qa'],
    humanInterruptMode: mode,
    waitPolicy: mode === 'queue' ? 'release' : 'hold',
    onRestart: mode === 'parallel' ? 'forfeit' : 'resume',
  })),
  log: { level: 'info', pretty: false },
};

/** Starts the real program again and again, loads it and kills it; then lets it come to rest and checks what it left. */
export async function runKillLoop(plan: Plan): Promise<Report> {
  const random = randomOf(plan.seed);
  const place = await makePlace(KILL_CONFIG);
  const ledger = new Ledger();
  const names = [...MODES, ...MODES.slice(0, 2)];
  const crowd = names.map((mode, index) => new Typist(`page ${index}`, `console:${mode}`, { ledger, random }));
  const run: Run = { place, random, ledger, crowd, recoveriesMs: [], tell: plan.tell ?? (() => {}) };
  let keep = plan.keep === true;
  try {
    for (let cycle = 1; cycle <= plan.cycles; cycle += 1) await live(run, cycle);
    await heal(run);
    await verify(place.dataDir, ledger);
    keep &&= Object.values(ledger.faults).some((found) => found.length > 0);
    const sorted = run.recoveriesMs.toSorted((one, other) => one - other);
    const recoveryMsP99 = Math.round(sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0);
    return {
      cycles: plan.cycles,
      cutShort: ledger.cutShort,
      messages: ledger.sent.length,
      recoveriesMs: sorted,
      recoveryMsP99,
      faults: ledger.faults,
      dir: keep ? place.dir : null,
    };
  } finally {
    for (const typist of crowd) typist.disconnect();
    if (!keep) clearPlace(place);
  }
}

type Run = {
  readonly place: Place;
  readonly random: Random;
  readonly ledger: Ledger;
  readonly crowd: readonly Typist[];
  readonly recoveriesMs: number[];
  readonly tell: (line: string) => void;
};

/** One life of the program, and its violent end. */
async function live(run: Run, cycle: number): Promise<void> {
  const { place, random, crowd, ledger } = run;
  const bot = startBot(place);
  const early = random.chance(EARLY);
  const lifeMs = early ? random.between(0, 700) : random.between(150, 1_500);
  const late = random.chance(LATE) ? random.between(0, 60) : null;
  try {
    if (early) await pause(lifeMs);
    else await load(run, bot, lifeMs);
    if (bot.child.exitCode !== null)
      ledger.faults.other.push(`cycle ${cycle}: the program ended by itself: ${bot.err()}`);
    if (!early && random.chance(AT_WORK)) {
      await bot.line(AT_WORK_LIMIT_MS);
      await pause(random.between(0, DONE_MS));
    }
    if (late !== null) {
      bot.child.kill('SIGTERM');
      await pause(late);
    }
  } finally {
    await bot.end('SIGKILL');
  }
  for (const typist of crowd) typist.disconnect();
  run.tell(
    `cycle ${cycle}: ${early ? 'killed during the start' : late === null ? 'killed' : 'killed while ending'} after ${lifeMs} ms, ${ledger.sent.length} messages so far`,
  );
}

async function load(run: Run, bot: Bot, lifeMs: number): Promise<void> {
  run.recoveriesMs.push(await bot.ready());
  await Promise.all(run.crowd.map((typist) => typist.connect(bot.port)));
  const until = AbortSignal.timeout(lifeMs);
  void Promise.all(run.crowd.map((typist) => typist.act(until, bot.port)));
  await pause(lifeMs);
}

/** The last life: everything is sent, every agent is back, and nothing moves any more. Then it ends in good order. */
async function heal(run: Run): Promise<void> {
  const { place, crowd, ledger } = run;
  const bot = startBot(place);
  try {
    run.recoveriesMs.push(await bot.ready());
    await Promise.all(crowd.map((typist) => typist.connect(bot.port)));
    for (const agent of ['pm', 'dev', 'qa']) {
      crowd[0]?.command(`/agent enable ${agent}`);
      crowd[0]?.command(`/agent restart ${agent}`);
    }
    for (const typist of crowd) typist.command('/floor resume');
    await pause(QUIET_MS);
    for (const typist of crowd) typist.say(`That is all from ${typist.name}.`, true);
    if (!(await quiet(crowd)))
      ledger.faults.lost.push(`no rest after ${QUIET_LIMIT_MS} ms: ${crowd.map(stateOf).join(', ')}`);
    const { code, afterMs } = await bot.end('SIGTERM');
    if (code !== 0)
      ledger.faults.other.push(`the program ended with ${code} after ${Math.round(afterMs)} ms: ${bot.err()}`);
  } finally {
    await bot.end('SIGKILL');
  }
}

async function quiet(crowd: readonly Typist[]): Promise<boolean> {
  const limit = performance.now() + QUIET_LIMIT_MS;
  let since = performance.now();
  while (performance.now() < limit) {
    if (!crowd.every(isAtRest)) since = performance.now();
    if (performance.now() - since >= QUIET_MS) return true;
    await pause(50);
  }
  return false;
}

function isAtRest({ page, isDone }: Typist): boolean {
  const view = page?.view ?? null;
  const isFree = view?.seats.every(({ status }) => status !== 'ACTIVE' && status !== 'WAITING') === true;
  return isDone && isFree && view.condition === 'resting' && view.held.length === 0;
}

function stateOf({ name, page, isDone }: Typist): string {
  const { condition, holder, held } = page?.view ?? {};
  return `${name} ${isDone ? '' : 'waits for an answer, '}${condition} ${holder?.agent ?? ''} ${held?.length ?? 0} held`;
}
