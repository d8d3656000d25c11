import type { InterruptMode } from '../../src/turns/floor/policies.ts';
import { INTERRUPT_MODES } from '../../src/turns/floor/policies.ts';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startBot, clearPlace, makePlace } from './bot.ts';
import type { Bot, Place } from './bot.ts';
import { TOOLS_CHANNEL, Typist } from './crowd.ts';
import { isResting } from './journal.ts';
import { Ledger } from './ledger.ts';
import type { Faults } from './ledger.ts';
import { countedTools } from './tools.ts';
import { randomOf } from './random.ts';
import type { Random } from './random.ts';
import { verify } from './verify.ts';
import { WITNESS, completedPrompts } from './witness.ts';

/** The plan of a run. The same seed makes the same plan. The machine's timing decides which messages a kill meets. */
export type Plan = {
  readonly cycles: number;
  readonly seed: number;
  /** The interrupt modes of the channels. Default: all modes. */
  readonly modes?: readonly InterruptMode[];
  /** The number of messages in a burst: held at once and released together. */
  readonly burst?: number;
  /** Called with one line of progress. */
  readonly tell?: (line: string) => void;
  /** Keeps the folder of the databases when the run found a fault. */
  readonly keep?: boolean;
};

/** The result of a run. */
export type Report = {
  readonly cycles: number;
  readonly messages: number;
  readonly recoveriesMs: readonly number[];
  readonly recoveryMsP99: number;
  /** The p99 of starts after a kill, as a multiple of the slower of two starts on an empty folder. */
  readonly recoveryTimes: number;
  /** Posts that a kill interrupted between Conch and the console. */
  readonly cutShort: number;
  /** Messages answered completely by agents that keep their prompts: all, and the most in one turn. */
  readonly witnessed: number;
  readonly mostAtOnce: number;
  /** Tool calls that reached their servers. */
  readonly calls: number;
  /** Filled forms that reached the servers that asked them. */
  readonly forms: number;
  /** Reports of background runs that were said. */
  readonly reports: number;
  readonly faults: Faults;
  readonly dir: string | null;
};

/** The share of lives that are killed before the program is ready. */
const EARLY = 0.2;
/** The share of kills that wait for a log line: right after a line, a commit is done and its effects are under way. */
const AT_WORK = 0.7;
const AT_WORK_LIMIT_MS = 300;
/** The time in which a commit's effects are usually done after its log line. */
const DONE_MS = 8;
/** The share of kills that come during a shutdown. */
const LATE = 0.15;
const QUIET_MS = 800;
const QUIET_LIMIT_MS = 120_000;
/** The share of lives with a burst in the witnesses' channels, and the longest time added to such a life. */
const BURST = 0.4;
const BURST_MS = 2_000;
/** Agents that keep every prompt, with their time to answer in seconds. */
const WITNESSES = { eye: 0.1, ear: 0.4 } as const;
/** The wait of people between two acts: where agents answer at once, and where they are slow. */
const QUICKLY_MS = [4, 60] as const;
const SLOWLY_MS = [100, 900] as const;
/** The wait of people in the channel of tools, where agents ask for approvals. */
const ANSWERING_MS = [30, 160] as const;
/** The share of lives that only use tools, and the longest time added to such a life: tool servers start slowly. */
const WITH_TOOLS = 0.5;
const WITH_TOOLS_MS = 2_000;

/** Returns a configuration with short time limits, so that deadlines pass within a life of the program. */
export function configOf(modes: readonly InterruptMode[], witnessDir: string): object {
  const channel = (name: string, mode: InterruptMode, agents: readonly string[]): object => ({
    id: `console:${name}`,
    agents,
    humanInterruptMode: mode,
    waitPolicy: mode === 'queue' ? 'release' : 'hold',
    onRestart: mode === 'parallel' ? 'forfeit' : 'resume',
  });
  const scripted = ['pm', 'dev', 'qa'].map((id) => ({ id, backend: { kind: 'scripted', script: id, wordMs: 1 } }));
  const witnesses = Object.entries(WITNESSES).map(([id, seconds]) => ({
    id,
    backend: { kind: 'command', command: '/bin/sh', args: ['-c', WITNESS, 'sh', join(witnessDir, id), `${seconds}`] },
  }));
  return {
    turnConfig: {
      defaultTimeoutSeconds: 1,
      maxTurnSeconds: 5,
      waitTimeoutSeconds: 1,
      interruptGraceSeconds: 0.5,
      coalesceMs: 20,
      maxTurns: 200,
      contextTokens: 8_000,
    },
    agents: [...scripted, ...witnesses],
    channels: [
      ...modes.map((mode) => channel(mode, mode, ['pm', 'dev', 'qa'])),
      ...modes.map((mode) => channel(seen(mode), mode, Object.keys(WITNESSES))),
      { ...channel(TOOLS, 'queue', ['dev']), onRestart: 'resume', waitPolicy: 'hold' },
    ],
    ...countedTools(effectsIn(witnessDir)),
    log: { level: 'info', pretty: false },
  };
}

/** Returns the simulated people of a kill loop: one for each channel, two for the channels of the first two modes. */
export function crowdOf(
  modes: readonly InterruptMode[],
  parts: { readonly ledger: Ledger; readonly random: Random },
): readonly Typist[] {
  const names = [...modes, ...modes.slice(0, 2), ...modes.map(seen), TOOLS];
  return names.map((name, index) => {
    const gapMs = name === TOOLS ? ANSWERING_MS : name.startsWith(SEEN) ? SLOWLY_MS : QUICKLY_MS;
    return new Typist(`page ${index}`, `console:${name}`, { ...parts, gapMs });
  });
}

/** The file in which tool calls are counted. */
export function effectsIn(witnessDir: string): string {
  return join(witnessDir, 'effects');
}

/** Makes a folder in which witnesses keep their prompts. */
export function witnessFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'conch-witness-'));
  for (const id of Object.keys(WITNESSES)) mkdirSync(join(folder, id));
  return folder;
}

/** The completed prompts of each witness. */
export function witnessesIn(folder: string): ReadonlyMap<string, readonly string[]> {
  return new Map(Object.keys(WITNESSES).map((id) => [id, completedPrompts(join(folder, id))]));
}

const TOOLS = TOOLS_CHANNEL.slice('console:'.length);

/** The name of the channel with this mode in which only witnesses sit. */
function seen(mode: InterruptMode): string {
  return `${SEEN}${mode}`;
}

const SEEN = 'seen-';

function isWitnessed({ channel }: Typist): boolean {
  return channel.startsWith(`console:${SEEN}`);
}

/** Starts the real program again and again, loads it and kills it. Then lets it come to rest and checks its data. */
export async function runKillLoop(plan: Plan): Promise<Report> {
  const random = randomOf(plan.seed);
  const modes = plan.modes ?? INTERRUPT_MODES;
  const witnessDir = witnessFolder();
  const config = configOf(modes, witnessDir);
  const place = await makePlace(config);
  const ledger = new Ledger();
  const crowd = crowdOf(modes, { ledger, random });
  const run: Run = {
    place,
    random,
    ledger,
    crowd,
    burst: plan.burst ?? 0,
    recoveriesMs: [],
    tell: plan.tell ?? (() => {}),
  };
  let keep = plan.keep === true;
  try {
    const beforeMs = await freshStart(config);
    for (let cycle = 1; cycle <= plan.cycles; cycle += 1) await live(run, cycle);
    await heal(run);
    const freshMs = Math.max(beforeMs, await freshStart(config));
    await verify({
      database: `${place.dataDir}/conch.db`,
      effects: effectsIn(witnessDir),
      ledger,
      witnesses: witnessesIn(witnessDir),
    });
    keep &&= Object.values(ledger.faults).some((found) => found.length > 0);
    const sorted = run.recoveriesMs.toSorted((one, other) => one - other);
    const recoveryMsP99 = Math.round(sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0);
    return {
      cycles: plan.cycles,
      cutShort: ledger.cutShort,
      messages: ledger.sent.length,
      recoveriesMs: sorted,
      recoveryMsP99,
      recoveryTimes: Math.round((10 * recoveryMsP99) / freshMs) / 10,
      witnessed: ledger.witnessed,
      mostAtOnce: ledger.mostAtOnce,
      calls: ledger.calls,
      forms: ledger.forms,
      reports: ledger.reports,
      faults: ledger.faults,
      dir: keep ? place.dir : null,
    };
  } finally {
    for (const typist of crowd) typist.disconnect();
    rmSync(witnessDir, { recursive: true, force: true });
    if (!keep) clearPlace(place);
  }
}

/** The parts that all lives of a program share. */
export type Run = {
  readonly place: Place;
  readonly random: Random;
  readonly ledger: Ledger;
  readonly crowd: readonly Typist[];
  readonly burst: number;
  readonly recoveriesMs: number[];
  readonly tell: (line: string) => void;
};

/** Measures a start on an empty folder, in milliseconds. Starts after a kill are compared with it. */
async function freshStart(config: object): Promise<number> {
  const place = await makePlace(config);
  const bot = startBot(place);
  try {
    return await bot.ready();
  } finally {
    await bot.end('SIGTERM');
    clearPlace(place);
  }
}

/** Starts the program and kills it. */
async function live(run: Run, cycle: number): Promise<void> {
  const { place, random, crowd, ledger } = run;
  const bot = startBot(place);
  const early = random.chance(EARLY);
  const lifeMs = early ? random.between(0, 700) : random.between(150, 1_500);
  const late = random.chance(LATE) ? random.between(0, 60) : null;
  try {
    if (early) await pause(lifeMs);
    else {
      run.recoveriesMs.push(await bot.ready());
      await load(run, bot, lifeMs);
    }
    if (bot.child.exitCode !== null)
      ledger.faults.other.push(`cycle ${cycle}: the program ended by itself: ${bot.lastWords()}`);
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

/** Lets people write and answer for `lifeMs`, longer with a burst or tools. */
export async function load(run: Pick<Run, 'crowd' | 'random' | 'burst'>, bot: Bot, lifeMs: number): Promise<void> {
  await Promise.all(run.crowd.map((typist) => typist.connect(bot)));
  const hasBurst = run.burst > 0 && run.random.chance(BURST);
  const isOfTools = run.random.chance(WITH_TOOLS);
  const longer = isOfTools ? run.random.between(0, WITH_TOOLS_MS) : 0;
  const lasting = lifeMs + longer + (hasBurst ? run.random.between(0, BURST_MS) : 0);
  if (hasBurst) for (const typist of run.crowd) if (isWitnessed(typist)) typist.burst(run.burst);
  const until = AbortSignal.timeout(lasting);
  const acting = run.crowd.filter(({ channel }) => !isOfTools || channel === TOOLS_CHANNEL);
  void Promise.all(acting.map((typist) => typist.act(until, bot)));
  await pause(lasting);
}

async function heal(run: Run): Promise<void> {
  const bot = startBot(run.place);
  run.recoveriesMs.push(await bot.ready());
  await lastLife(run, bot, `${run.place.dataDir}/conch.db`);
}

/** Sends everything, brings all agents back and waits until nothing moves. Then ends the program with SIGTERM. */
export async function lastLife(
  run: Pick<Run, 'crowd' | 'ledger' | 'burst'>,
  bot: Bot,
  database: string,
): Promise<void> {
  const { crowd, ledger } = run;
  try {
    await Promise.all(crowd.map((typist) => typist.connect(bot)));
    for (const agent of ['pm', 'dev', 'qa', ...Object.keys(WITNESSES)]) {
      crowd[0]?.command(`/agent enable ${agent}`);
      crowd[0]?.command(`/agent restart ${agent}`);
    }
    for (const typist of crowd) typist.command('/floor resume');
    for (const typist of crowd.filter(isWitnessed)) typist.command('/floor order round-robin');
    // A running turn would take in the beginning of the burst.
    await quiet(run, database);
    if (run.burst > 0) for (const typist of crowd.filter(isWitnessed)) typist.burst(run.burst);
    for (const typist of crowd) typist.say(`That is all from ${typist.name}.`, true);
    if (!(await quiet(run, database)))
      ledger.faults.lost.push(`no rest after ${QUIET_LIMIT_MS} ms: ${crowd.map(stateOf).join(', ')}`);
    const { code, afterMs } = await bot.end('SIGTERM');
    if (code !== 0)
      ledger.faults.other.push(`the program ended with ${code} after ${Math.round(afterMs)} ms: ${bot.lastWords()}`);
  } finally {
    await bot.end('SIGKILL');
  }
}

async function quiet({ crowd }: Pick<Run, 'crowd'>, database: string): Promise<boolean> {
  const limit = performance.now() + QUIET_LIMIT_MS;
  let since = performance.now();
  while (performance.now() < limit) {
    if (!crowd.every((typist) => isAtRest(typist, database))) since = performance.now();
    if (performance.now() - since >= QUIET_MS) return true;
    await pause(50);
  }
  return false;
}

function isAtRest({ page, isDone }: Typist, database: string): boolean {
  const view = page?.view ?? null;
  const isFree = view?.seats.every(({ status }) => status !== 'ACTIVE' && status !== 'WAITING') === true;
  return isDone && isFree && view.asides === undefined && isResting(view, database);
}

function stateOf({ name, page, isDone }: Typist): string {
  const { condition, holder, held } = page?.view ?? {};
  return `${name} ${isDone ? '' : 'waits for an answer, '}${condition} ${holder?.agent ?? ''} ${held?.length ?? 0} held`;
}
