import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as soon, setTimeout as pause } from 'node:timers/promises';
import type { Fault, Match } from '../adapters/slack/faults.ts';
import { startSlack } from '../adapters/slack/server.ts';
import type { SlackServer } from '../adapters/slack/server.ts';
import type { LoggedCall } from '../adapters/slack/web.ts';
import { clearPlace, configure, makePlace, startBot } from './bot.ts';
import type { Bot, Place } from './bot.ts';
import { Page } from './page.ts';
import { randomOf } from './random.ts';
import { isResting } from './journal.ts';
import type { Random } from './random.ts';
import { SlackCrowd } from './slack-crowd.ts';
import type { Spot } from './slack-crowd.ts';
import { inboxOf, openPosts, verifySlack } from './slack-verify.ts';
import type { SlackFaults } from './slack-verify.ts';
import { WITNESS_DIR, completedPrompts } from './witness.ts';

/** The plan of a run. The same seed makes the same plan. The machine's timing decides what a kill meets. */
export type SlackPlan = {
  /** The number of kills of each kind. */
  readonly cycles: number;
  readonly seed: number;
  /** Called with one line of progress. */
  readonly tell?: (line: string) => void;
  /** Keeps the folder of the database when the run found a fault. */
  readonly keep?: boolean;
};

/** The result of a run. */
export type SlackReport = {
  /** Kills right after the acknowledgement of an event. */
  readonly atAcknowledgement: number;
  /** Kills during a call that posts, edits or deletes, or right after it. */
  readonly atPosting: number;
  readonly duringStart: number;
  readonly messages: number;
  /** Posts that a kill interrupted between Conch and Slack. */
  readonly cutShort: number;
  readonly recoveryMsP99: number;
  readonly faults: SlackFaults;
  readonly dir: string | null;
};

/** The share of lives that are killed before the program is ready. */
const EARLY = 0.2;
/** The share of lives before which people write while no program runs. */
const AWAY = 0.5;
const ACKNOWLEDGED_WITHIN_MS = 3_000;
/** The time after an acknowledgement in which the event's effects are usually under way. */
const HANDLED_MS = 12;
const CALLED_WITHIN_MS = 8_000;
/** The wait for the chosen, perhaps rare call. After it, any call counts. */
const PATIENCE_MS = 3_000;
const ANSWERED_MS = 40;
const LATEST_MS = 1_500;
const QUIET_MS = 4_000;
const QUIET_LIMIT_MS = 400_000;
const HEALINGS = 4;
const AGENT = new URL('slack-agent.ts', import.meta.url).pathname;

/** Starts the real program on a Slack that outlives it, kills it at critical moments, and checks the result. */
export async function runSlackKills(plan: SlackPlan): Promise<SlackReport> {
  const random = randomOf(plan.seed);
  const room = await slackRoom(random);
  const { slack, crowd } = room;
  const place = await makePlace({});
  const witnessDir = join(place.dir, 'witness');
  mkdirSync(witnessDir);
  configure(place, room.configIn(witnessDir));
  const run: Run = { ...room, place, random, faults: noFaults(), recoveriesMs: [], tell: plan.tell ?? (() => {}) };
  let keep = plan.keep === true;
  try {
    await firstLife(run);
    const early = { count: 0 };
    const counted = { atAcknowledgement: 0, atPosting: 0 };
    for (const kind of ['atAcknowledgement', 'atPosting'] as const) {
      for (let life = 1; counted[kind] < plan.cycles && life <= plan.cycles * 3; life += 1) {
        if (random.chance(AWAY)) crowd.speak(1);
        if (random.chance(EARLY)) early.count += await killDuringStart(run);
        counted[kind] += kind === 'atPosting' ? await killAtPosting(run) : await killAtAcknowledgement(run);
      }
    }
    await heal(run);
    const witnesses = new Map([['qa', completedPrompts(witnessDir)]]);
    const { cutShort } = await verifySlack(place.dataDir, { ...run, witnesses });
    keep &&= Object.values(run.faults).some((found) => found.length > 0);
    const sorted = run.recoveriesMs.toSorted((one, other) => one - other);
    const recoveryMsP99 = Math.round(sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0);
    const { faults } = run;
    const messages = crowd.written.length;
    const dir = keep ? place.dir : null;
    return { ...counted, duringStart: early.count, messages, cutShort, recoveryMsP99, faults, dir };
  } finally {
    await slack.close();
    if (!keep) clearPlace(place);
  }
}

/** A loopback Slack with three channels and people who write in them. */
export type SlackRoom = {
  readonly slack: SlackServer;
  readonly crowd: SlackCrowd;
  /** The environment of a program that connects to this Slack. */
  readonly env: Readonly<Record<string, string>>;
  /** The configuration of such a program. One agent keeps its prompts in `witnessDir`. */
  configIn(witnessDir: string): SlackConfig;
};

type SlackConfig = ReturnType<typeof configOf>;

/** Starts a loopback Slack with three channels and people who write in them. */
export async function slackRoom(random: Random): Promise<SlackRoom> {
  const slack = await startSlack({ ackMs: 1_000, retryDelaysMs: [0, 400, 2_000] });
  const spots: readonly Spot[] = [
    { channel: slack.ids.channel, threads: 'own' },
    { channel: slack.ids.other, threads: 'parent' },
    { channel: slack.channel('design'), threads: 'ignore' },
  ];
  const { botToken, appToken, apiUrl } = slack;
  const env = { SLACK_BOT_TOKEN: botToken, SLACK_APP_TOKEN: appToken, SLACK_API_URL: apiUrl };
  const configIn = (witnessDir: string): SlackConfig => configOf(spots, witnessDir);
  return { slack, crowd: new SlackCrowd(slack, random, spots), env, configIn };
}

type Run = SlackRoom & {
  readonly place: Place;
  readonly random: Random;
  readonly faults: SlackFaults;
  readonly recoveriesMs: number[];
  readonly tell: (line: string) => void;
};

function configOf(spots: readonly Spot[], witnessDir: string) {
  const set = { [WITNESS_DIR]: witnessDir };
  const command = { kind: 'command', command: process.execPath, args: [AGENT], set };
  const modes = ['inject', 'queue', 'interrupt'];
  return {
    turnConfig: {
      defaultTimeoutSeconds: 5,
      maxTurnSeconds: 20,
      waitTimeoutSeconds: 1,
      interruptGraceSeconds: 0.5,
      coalesceMs: 20,
      maxTurns: 500,
    },
    agents: [
      { id: 'pm', backend: { kind: 'scripted', script: 'pm', wordMs: 1 } },
      { id: 'dev', backend: { kind: 'scripted', script: 'dev', wordMs: 25 } },
      { id: 'qa', backend: command },
    ],
    channels: spots.map(({ channel, threads }, index) => ({
      id: `slack:${channel}`,
      agents: ['pm', 'dev', 'qa'],
      threads,
      humanInterruptMode: modes[index],
      onRestart: index === 1 ? 'forfeit' : 'resume',
    })),
    log: { level: 'info', pretty: false },
  };
}

function start({ place, env }: Run): Bot {
  return startBot(place, { env });
}

async function ready(run: Run, bot: Bot): Promise<void> {
  const readyMs = await bot.ready();
  run.recoveriesMs.push(readyMs);
  run.tell(`ready after ${Math.round(readyMs)} ms`);
}

/** Starts and ends the program once: Conch ignores messages from before its first start. */
async function firstLife(run: Run): Promise<void> {
  const bot = start(run);
  await ready(run, bot);
  await bot.end('SIGTERM');
}

async function killDuringStart(run: Run): Promise<1> {
  const bot = start(run);
  await pause(run.random.between(0, 700));
  await bot.end('SIGKILL');
  return 1;
}

/** Kills the program when Slack receives an acknowledgement: the message must be on the disk by then. */
async function killAtAcknowledgement(run: Run): Promise<0 | 1> {
  const { slack, crowd, random, faults, place } = run;
  const bot = start(run);
  await ready(run, bot);
  await pause(random.between(0, 400));
  const from = slack.attempts.length;
  const written = crowd.speak(random.between(1, 2));
  const acknowledged = (): ReadonlySet<string> =>
    new Set(slack.attempts.slice(from).flatMap(({ acked, envelopeId }) => (acked ? [envelopeId] : [])));
  const isThere = (): boolean => written.some(({ envelopes }) => envelopes.some((one) => acknowledged().has(one)));
  const limit = performance.now() + ACKNOWLEDGED_WITHIN_MS;
  while (!isThere() && performance.now() < limit) await soon();
  const isMet = isThere();
  if (random.chance(0.5)) await pause(random.between(0, HANDLED_MS));
  await bot.end('SIGKILL');
  const kept = inboxOf(place.dataDir);
  for (const { id, text, envelopes } of written) {
    if (envelopes.some((one) => acknowledged().has(one)) && !kept.has(id))
      faults.lost.push(`"${text}" (${id}) was acknowledged and is not on the disk`);
  }
  run.tell(
    `${isMet ? 'killed at an acknowledgement' : 'nothing was acknowledged'}, ${crowd.written.length} messages so far`,
  );
  return isMet ? 1 : 0;
}

const POST = 'chat.postMessage';
const UPDATE = 'chat.update';
const CALLS: readonly Required<Pick<Match, 'method' | 'containing'>>[] = [
  ...Array.from({ length: 5 }, () => ({ method: POST, containing: 'conch_post' })),
  ...Array.from({ length: 2 }, () => ({ method: UPDATE, containing: 'conch_post' })),
  { method: POST, containing: 'conch_draft' },
  { method: UPDATE, containing: 'conch_draft' },
  { method: POST, containing: 'conch_card' },
  { method: 'chat.delete', containing: '' },
];

/** Kills the program during a call or right after its answer, whether or not Slack carried out the call. */
async function killAtPosting(run: Run): Promise<0 | 1> {
  const { slack, crowd, random } = run;
  const bot = start(run);
  await ready(run, bot);
  const wanted = random.pick(CALLS);
  const fault = faultOf(random);
  if (fault !== null) slack.fail({ ...wanted, times: null }, fault);
  const from = slack.requests.length;
  crowd.speak(1);
  const isWanted = ({ method, args }: LoggedCall): boolean =>
    method === wanted.method && JSON.stringify(args).includes(wanted.containing);
  const isMet =
    (await comes(slack, isWanted, { from, withinMs: PATIENCE_MS })) ||
    (await comes(slack, isAny, { from: slack.requests.length, withinMs: CALLED_WITHIN_MS }));
  await pause(random.between(0, ANSWERED_MS));
  await bot.end('SIGKILL');
  slack.heal();
  run.tell(
    `${isMet ? 'killed at' : 'nothing was posted:'} ${slack.requests.at(-1)?.method} for ${wanted.method} ${wanted.containing} (${fault?.kind ?? 'no fault'}), ${crowd.written.length} messages so far`,
  );
  return isMet ? 1 : 0;
}

function isAny({ method }: LoggedCall): boolean {
  return [POST, UPDATE, 'chat.delete'].includes(method);
}

/** True when such a call comes in time. `from`: the number of the first call that counts. */
async function comes(
  { requests }: SlackServer,
  isIt: (call: LoggedCall) => boolean,
  { from, withinMs }: { readonly from: number; readonly withinMs: number },
): Promise<boolean> {
  const limit = performance.now() + withinMs;
  while (!requests.slice(from).some(isIt)) {
    if (performance.now() > limit) return false;
    await pause(1);
  }
  return true;
}

function faultOf(random: Random): Fault | null {
  const ms = random.between(20, LATEST_MS);
  return random.pick<Fault | null>([
    null,
    { kind: 'late', ms, execute: 'first' },
    { kind: 'late', ms, execute: 'last' },
    { kind: 'hang-after' },
    { kind: 'hang-before' },
    { kind: 'reset-after' },
    { kind: 'reset-before' },
    { kind: 'status', status: 502, when: 'after' },
    { kind: 'status', status: 503, when: 'before' },
    { kind: 'ratelimited', retryAfterSeconds: 1 },
  ]);
}

/** Runs the program without faults until all posts are done and nothing moves. */
async function heal(run: Run): Promise<void> {
  const { slack, crowd, faults, place } = run;
  await pause(LATEST_MS);
  slack.heal();
  for (let life = 1; life <= HEALINGS; life += 1) {
    const bot = start(run);
    try {
      await ready(run, bot);
      if (life === 1) crowd.speak(1);
      const unrest = await unrestOnSlack(run, bot, 'conch.db');
      if (unrest !== null) faults.lost.push(`no rest after ${QUIET_LIMIT_MS} ms: ${unrest}`);
      const { code, afterMs } = await bot.end('SIGTERM');
      if (code !== 0)
        faults.other.push(`the program ended with ${code} after ${Math.round(afterMs)} ms: ${bot.lastWords()}`);
    } finally {
      await bot.end('SIGKILL');
    }
    if (openPosts(place.dataDir) === 0) return;
  }
}

/**
 * Resolves with `null` when every floor is at rest and no more calls reach Slack. After the limit, resolves with what
 * still moves. `database`: the name of the store in the program's data folder.
 */
export async function unrestOnSlack(
  { slack, crowd }: Pick<SlackRoom, 'slack' | 'crowd'>,
  bot: Bot,
  database: string,
): Promise<string | null> {
  const isDone = (page: Page): boolean => isAtRest(page, `${bot.dataDir}/${database}`);
  const pages = new Map<string, Page>();
  const limit = performance.now() + QUIET_LIMIT_MS;
  let since = performance.now();
  let seen = 0;
  try {
    while (performance.now() < limit) {
      for (const { floor } of crowd.places()) {
        if (!pages.has(floor)) pages.set(floor, await Page.open(bot, floor));
      }
      const calls = slack.requests.filter(({ method }) => /^(?:chat|conversations)\./.test(method)).length;
      if (calls > seen || ![...pages.values()].every(isDone)) since = performance.now();
      seen = calls;
      if (performance.now() - since >= QUIET_MS) return null;
      await pause(50);
    }
    const moving = [...pages].filter(([, page]) => !isDone(page)).map(([floor, page]) => `${floor} ${stateOf(page)}`);
    return moving.join(', ') || `${seen} calls`;
  } finally {
    for (const page of pages.values()) page.close();
  }
}

function isAtRest({ view }: Page, database: string): boolean {
  const isFree = view?.seats.every(({ status }) => status !== 'ACTIVE' && status !== 'WAITING') === true;
  return isFree && isResting(view, database);
}

function stateOf({ view }: Page): string {
  return `${view?.condition} ${view?.holder?.agent ?? ''} ${view?.holder?.status ?? ''} ${view?.held.length} held`;
}

/** Returns no faults, to be filled. */
export function noFaults(): SlackFaults {
  return { lost: [], twice: [], disordered: [], pings: [], drafts: [], doubleHolders: [], doneUnseen: [], other: [] };
}
