import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Fault } from '../adapters/discord/faults.ts';
import type { Witnesses } from './answers.ts';
import { clearPlace, configure, makePlace, startBot } from './bot.ts';
import type { Bot, Place } from './bot.ts';
import { DiscordCrowd } from './discord-crowd.ts';
import { spawnDiscord } from './discord-server.ts';
import type { SpawnedDiscord } from './discord-server.ts';
import { noFaults, verifyDiscord } from './discord-verify.ts';
import type { DiscordFaults } from './discord-verify.ts';
import { isResting, rows } from './journal.ts';
import { Page } from './page.ts';
import { randomOf } from './random.ts';
import type { Random } from './random.ts';
import { WITNESS_DIR, completedPrompts } from './witness.ts';

/** The plan of a run. The same seed makes the same plan. */
export type DiscordPlan = {
  readonly cycles: number;
  readonly seed: number;
  readonly tell?: (line: string) => void;
  /** Keeps the databases when the run found a fault. */
  readonly keep?: boolean;
};

/** Kills by the first that applies: during a pending post, an uncertain post, a start, or anything else. */
type Kills = { midPost: number; uncertain: number; starting: number; other: number };

/** The result of a run. */
export type DiscordReport = {
  readonly cycles: number;
  readonly kills: Readonly<Kills>;
  readonly messages: number;
  /** Counts only starts without a fault on the way to Discord. */
  readonly recoveryMsP99: number;
  readonly faults: DiscordFaults;
  readonly dir: string | null;
};

/** The agents of the channels. */
export const DISCORD_AGENTS = ['pm', 'dev', 'qa', 'long', 'drip'];
const PEOPLE = ['ann', 'bob'];
/** Shares of lives: killed before ready; killed while an answer is on its way; killed during shutdown. */
const EARLY = 0.2;
const WITHIN = 0.9;
const LATE = 0.1;
/** Shares of kills: right at the fault, else later; at any request, not only at a post. */
const AT_ONCE = 0.8;
const DRAFTS = 0.15;
/** The share of kills before which the run waits until no post has an unknown outcome. */
const SETTLED = 0.7;
/** Limits for a fault to occur and for posts to be settled. An uncertain post is searched twice, 3 s apart. */
const HIT_LIMIT_MS = 9_000;
const SETTLED_LIMIT_MS = 9_000;
const ENDING = 'while it ended';
/** The share of lives whose faults stay for the next life. */
const LASTING = 0.3;
/** The most cycles of a run whose kills met no post, as a multiple of its planned cycles. */
const MORE = 4;
const QUIET_MS = 1_500;
/** The shortest last life. Conch searches channels for stale drafts until 20 s after its start. */
const SEARCHED_MS = 21_000;
const QUIET_LIMIT_MS = 120_000;

const PATHS = [
  'POST /webhooks/**',
  'POST /webhooks/**',
  'POST /webhooks/**',
  'PATCH /webhooks/**',
  'PATCH /webhooks/**',
  'POST /channels/*/messages',
  'POST /channels/*/messages',
  'POST /channels/*/messages',
  'PATCH /channels/*/messages/*',
  'DELETE /**',
];
const TROUBLES: readonly Fault[] = [
  { kind: 'late', ms: 300 },
  { kind: 'late', ms: 300 },
  { kind: 'late', ms: 800 },
  { kind: 'late', ms: 1_500 },
  { kind: 'reset-after' },
  { kind: 'hang-after' },
  { kind: 'hang-after' },
  { kind: 'reset-before' },
  { kind: 'hang-before' },
  { kind: 'status', status: 502, executed: true },
  { kind: 'status', status: 502 },
];

type Run = DiscordRoom & {
  readonly plan: DiscordPlan;
  readonly place: Place;
  readonly random: Random;
  readonly faults: DiscordFaults;
  readonly recoveriesMs: number[];
  readonly kills: Kills;
  /** True when no fault is set up. */
  isHealthy: boolean;
};

/** Starts the real program on a loopback Discord repeatedly, kills it while it posts, and checks the channels. */
export async function runDiscordKillLoop(plan: DiscordPlan): Promise<DiscordReport> {
  const run = await prepare(plan);
  const { place, server, channels, crowd, faults } = run;
  let keep = plan.keep === true;
  try {
    let cycle = 0;
    while (cycle < plan.cycles || (hasMissed(run) && cycle < plan.cycles * MORE)) await live(run, (cycle += 1));
    await heal(run);
    const { written } = crowd;
    const witnesses = discordWitnesses(place.dir);
    const agents = DISCORD_AGENTS;
    await verifyDiscord({ dataDir: place.dataDir, server, channels, agents, written, witnesses }, faults);
    keep &&= Object.values(faults).some((found) => found.length > 0);
    const sorted = run.recoveriesMs.toSorted((one, other) => one - other);
    return {
      cycles: cycle,
      kills: run.kills,
      messages: crowd.written.length,
      recoveryMsP99: Math.round(sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0),
      faults,
      dir: keep ? place.dir : null,
    };
  } finally {
    await server.close();
    if (!keep) clearPlace(place);
  }
}

/** True while no kill met a post: the run has shown nothing yet. The machine's timing decides what a kill meets. */
function hasMissed({ kills }: Run): boolean {
  return kills.midPost + kills.uncertain === 0;
}

async function prepare(plan: DiscordPlan): Promise<Run> {
  const random = randomOf(plan.seed);
  const room = await discordRoom(random);
  const place = await makePlace({});
  configure(place, room.configIn(place.dir));
  const kills = { midPost: 0, uncertain: 0, starting: 0, other: 0 };
  return { ...room, plan, place, random, faults: noFaults(), recoveriesMs: [], kills, isHealthy: true };
}

/** A loopback Discord with three channels and people who write in them. */
export type DiscordRoom = {
  readonly server: SpawnedDiscord;
  readonly channels: readonly string[];
  readonly crowd: DiscordCrowd;
  /** The environment of a program that connects to this Discord. */
  readonly env: Readonly<Record<string, string>>;
  /** The configuration of such a program. Its agents keep their prompts below `dir`. */
  configIn(dir: string): object;
};

/** Starts a Discord with its channels and people. */
export async function discordRoom(random: Random): Promise<DiscordRoom> {
  const server = await spawnDiscord();
  const { remote, channel, token, apiUrl } = server;
  const channels = [channel, await remote.addChannel('bare'), await remote.addChannel('streams')];
  await remote.permit(channels[1] ?? '', 'ManageWebhooks', 'deny');
  const people = await Promise.all(PEOPLE.map((name) => remote.person(name)));
  const role = await remote.role('everybody', { mentionable: true });
  const crowd = new DiscordCrowd({ remote, channels, random, people });
  const env = { DISCORD_TOKEN: token, DISCORD_API_URL: apiUrl };
  const configIn = (dir: string): object =>
    configOf(channels, { person: people[0] ?? '', role, operators: people, dir });
  return { server, channels, crowd, env, configIn };
}

type Known = {
  readonly person: string;
  readonly role: string;
  readonly operators: readonly string[];
  /** Where agents keep their prompts. */
  readonly dir: string;
};

/** Agents that keep every prompt. */
const WITNESSES = ['long', 'drip'];

/** The prompts that these agents kept below a folder. */
export function discordWitnesses(dir: string): Witnesses {
  return new Map(WITNESSES.map((id) => [id, completedPrompts(join(dir, id))]));
}

function configOf([hooks, bare, streams]: readonly string[], known: Known): object {
  const script = (id: string) => ({ id, backend: { kind: 'scripted', script: id, wordMs: 1 } });
  const speaker = (id: string, gapMs: number) => ({
    id,
    backend: {
      kind: 'command',
      command: process.execPath,
      args: [new URL('discord-speaker.ts', import.meta.url).pathname, String(gapMs)],
      set: { PERSON_ID: known.person, ROLE_ID: known.role, [WITNESS_DIR]: join(known.dir, id) },
    },
  });
  const channel = (id: string | undefined, agents: readonly string[], humanInterruptMode: string) => ({
    id: `discord:${id}`,
    agents,
    humanInterruptMode,
  });
  return {
    turnConfig: {
      defaultTimeoutSeconds: 5,
      maxTurnSeconds: 20,
      waitTimeoutSeconds: 1,
      interruptGraceSeconds: 0.5,
      coalesceMs: 20,
      maxTurns: 500,
    },
    agents: [script('pm'), script('dev'), script('qa'), speaker('long', 0), speaker('drip', 120)],
    channels: [
      channel(hooks, ['pm', 'dev', 'long'], 'inject'),
      channel(bare, ['qa', 'long'], 'queue'),
      channel(streams, ['drip', 'dev'], 'interrupt'),
    ],
    operators: { users: known.operators },
    log: { level: 'info', pretty: false },
  };
}

/** Starts the program and kills it. */
async function live(run: Run, cycle: number): Promise<void> {
  const { place, random, server, faults } = run;
  // The first life must get ready: Conch ignores messages from before its first start.
  const early = cycle > 1 && random.chance(EARLY);
  const bot = begin(run);
  let how = 'while it started';
  try {
    if (early) await pause(random.between(0, 1_200));
    else how = await busy(run, bot);
    if (bot.child.exitCode !== null && how !== ENDING)
      faults.other.push(`cycle ${cycle}: the program ended by itself: ${bot.lastWords()}`);
  } finally {
    await bot.end('SIGKILL');
  }
  const states = new Set(owedIn(place.dataDir).map(({ state }) => state));
  const open = states.has('owed') ? 'midPost' : states.has('uncertain') ? 'uncertain' : null;
  run.kills[open ?? (early ? 'starting' : 'other')] += 1;
  run.isHealthy = !random.chance(LASTING);
  if (run.isHealthy) await server.remote.heal();
  for (let left = random.between(0, 2); left > 0; left -= 1) await run.crowd.write();
  run.plan.tell?.(`cycle ${cycle}: killed ${how}${open === null ? '' : ` (${open})`}`);
}

/** People write until an answer of Discord is late or lost. Resolves with a description of what the kill meets. */
async function busy(run: Run, bot: Bot): Promise<string> {
  const { random, server, crowd, place } = run;
  const readyMs = await bot.ready();
  if (run.isHealthy) run.recoveriesMs.push(readyMs);
  run.plan.tell?.(`ready after ${Math.round(readyMs)} ms${run.isHealthy ? '' : ', with faults on the way'}`);
  const over = new AbortController();
  const acting = crowd.act(over.signal);
  try {
    await pause(random.between(200, 1_800));
    if (random.chance(LATE)) {
      bot.child.kill('SIGTERM');
      await pause(random.between(0, 150));
      return ENDING;
    }
    if (!random.chance(WITHIN)) return 'at any moment';
    if (random.chance(SETTLED)) await settled(place);
    for (let count = random.between(1, 3); count > 0; count -= 1)
      await server.remote.fail(random.pick(PATHS), random.pick(TROUBLES), random.between(1, 4));
    const hit = await server.hit(random.chance(DRAFTS) ? '' : 'post', HIT_LIMIT_MS);
    await pause(random.chance(AT_ONCE) ? random.between(0, 60) : random.between(60, 1_800));
    return hit === null ? 'after a wait' : `at ${hit}`;
  } finally {
    over.abort();
    await acting;
  }
}

/** Runs the program without faults until all floors rest and no post is pending. Then ends it with SIGTERM. */
async function heal(run: Run): Promise<void> {
  const { server, crowd, channels, faults } = run;
  await server.remote.heal();
  for (const channel of channels) await crowd.write(channel);
  const bot = begin(run);
  try {
    run.recoveriesMs.push(await bot.ready());
    if (!(await isDiscordQuiet(run, bot, 'conch.db'))) faults.lost.push(`no rest within ${QUIET_LIMIT_MS} ms`);
    const { code, afterMs } = await bot.end('SIGTERM');
    if (code !== 0)
      faults.other.push(`the program ended with ${code} after ${Math.round(afterMs)} ms: ${bot.lastWords()}`);
  } finally {
    await bot.end('SIGKILL');
  }
}

/** Resolves when no post has an unknown outcome, or after the limit. */
async function settled(place: Place): Promise<void> {
  const limit = performance.now() + SETTLED_LIMIT_MS;
  while (performance.now() < limit && owedIn(place.dataDir).some(({ state }) => state === 'uncertain'))
    await pause(200);
}

function begin({ place, env }: Run): Bot {
  return startBot(place, { env });
}

/**
 * True when every floor rests, no channel changes and no post is pending, after the searches for drafts. `database`:
 * the name of the store in the program's data folder.
 */
export async function isDiscordQuiet(
  { channels, server }: Pick<DiscordRoom, 'channels' | 'server'>,
  bot: Bot,
  database: string,
): Promise<boolean> {
  const pages = await Promise.all(channels.map((channel) => Page.open(bot, `discord:${channel}`)));
  const searched = performance.now() + SEARCHED_MS;
  const limit = performance.now() + QUIET_LIMIT_MS;
  let since = performance.now();
  let before = '';
  try {
    while (performance.now() < limit) {
      const now = JSON.stringify(await Promise.all(channels.map((channel) => server.remote.read(channel))));
      const atRest = pages.every(({ view }) => isResting(view, `${bot.dataDir}/${database}`));
      if (now !== before || !atRest) since = performance.now();
      const from = Math.max(since + QUIET_MS, searched);
      if (performance.now() >= from && owedIn(bot.dataDir, database).length === 0) return true;
      before = now;
      await pause(100);
    }
    return false;
  } finally {
    for (const page of pages) page.close();
  }
}

/** Posts that are not confirmed, read from a copy: the program must find its database unchanged. */
function owedIn(dataDir: string, database = 'conch.db'): readonly { readonly state: string }[] {
  const copy = mkdtempSync(join(tmpdir(), 'conch-copy-'));
  try {
    cpSync(dataDir, copy, { recursive: true });
    const open = "SELECT state FROM outbox WHERE lane = 'posts' AND state IN ('owed', 'uncertain')";
    return rows(`${copy}/${database}`, open) as { readonly state: string }[];
  } catch {
    // The program was killed before it made a database.
    return [];
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}
