import { randomUUID } from 'node:crypto';
import { readFileSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import type { Bot } from '../kill/bot.ts';
import { DONE, calling } from './models.ts';
import type { Reply } from './models.ts';
import { cards } from './calling.ts';
import { outcome, rounded } from './scenario.ts';
import type { Outcome, Scenario, Size } from './scenario.ts';
import {
  CHANNEL,
  FAULTY,
  RULES,
  configOf,
  converse,
  fixture,
  onStage,
  pageIn,
  questionOrRest,
  rests,
  until,
} from './stage.ts';
import type { Parts } from './stage.ts';

/** Rows 12 to 14: servers that change, servers that fail, and the number of running servers. */
export const SERVING: readonly Scenario[] = [
  { id: 12, name: 'grow (list_changed), rug (changed annotation)', run: changing },
  { id: 13, name: '32 MB result, 5 MB image, endless call, server killed, TERM ignored with grandchild', run: failing },
  { id: 14, name: '20 seats, 3 servers', run: sharing },
];

const raw = (...flags: readonly string[]) => ({ command: process.execPath, args: [FAULTY, ...flags], trusted: true });

async function changing(): Promise<Outcome> {
  const config = (parts: Parts) =>
    configOf(parts, {
      mcp: { raw: raw() },
      tools: { allow: ['mcp__raw__grow', 'mcp__raw__rug'], ask: ['mcp__raw__echo'], default: 'deny' },
    });
  return await onStage({ config }, async (stage) => {
    const { models } = stage;
    const page = await pageIn(await stage.start());
    const CHANGED = 'changed the definition of the tool';
    let told = 0;
    /** Answers all questions of one turn. Returns their number. */
    const turn = async (replies: readonly Reply[], answer: string): Promise<number> => {
      models.play('dev', replies);
      const [before, epoch] = [cards(stage), page.view?.epoch ?? 0];
      await page.say(CHANNEL, 'Go on.');
      await page.until(() => (page.view?.epoch ?? 0) > epoch, 'a turn');
      for (let asked = await questionOrRest(page); asked !== null; asked = await questionOrRest(page)) {
        const number = asked;
        if (page.texts('system').some((text) => text.includes(`Request ${number}:`) && text.includes(CHANGED)))
          told += 1;
        await page.command(CHANNEL, answer.replace('N', `${number}`));
        await page.until(() => page.view?.holder?.approval?.question !== number, 'the end of the question');
      }
      return cards(stage) - before;
    };
    await turn([calling('raw__grow', {}), calling('raw__grown', {}), DONE], '/reject N');
    const grown = stage.rows().find(({ tool }) => tool === 'mcp__raw__grown');
    const echo = calling('raw__echo', { text: 'again' });
    const first = await turn([echo], '/allow N always');
    const silent = await turn([echo], '/reject N');
    const pulled = await turn([calling('raw__rug', { claims: { readOnlyHint: false } }), echo], '/allow N');
    const after = await turn([echo], '/allow N');
    const measured = {
      newToolOffered: models.requests.some(({ tools }) => tools.includes('raw__grown')),
      newToolDecision: grown?.decision ?? null,
      newToolRule: grown?.rule ?? null,
      cards: [first, silent, pulled, after].join(', '),
      told,
    };
    return outcome(measured, {
      newToolOffered: false,
      newToolDecision: 'denied-rule',
      cards: '1, 0, 1, 1',
      told: 1,
    });
  });
}

const MB = 1_000_000;
/** The number of turns after which a program has loaded everything and has its full size. */
const WARM_UP = 4;

/** Faults, each in its own server. */
const FAULTS: readonly {
  readonly id: string;
  readonly tool: string;
  readonly input: object;
  readonly flags: readonly string[];
}[] = [
  { id: 'large', tool: 'big', input: { bytes: 32 * MB }, flags: ['tool=big'] },
  { id: 'image', tool: 'image', input: { bytes: 5 * MB }, flags: ['tool=image'] },
  { id: 'endless', tool: 'hang', input: {}, flags: ['tool=hang'] },
  { id: 'killed', tool: 'crash', input: {}, flags: ['tool=crash'] },
  { id: 'stubborn', tool: 'child', input: {}, flags: ['tool=child', 'ignores-term', 'ignores-end'] },
];

async function failing(): Promise<Outcome> {
  const mark = randomUUID();
  const config = (parts: Parts) =>
    configOf(parts, {
      mcp: Object.fromEntries(FAULTS.map(({ id, flags }) => [id, { ...raw(mark, ...flags), timeoutSeconds: 3 }])),
      tools: { allow: FAULTS.map(({ id }) => `mcp__${id}__*`), default: 'deny' },
    });
  return await onStage({ config }, async (stage) => {
    const { models, place } = stage;
    const file = join(place.dir, 'loop-delay');
    const bot = await stage.start({
      env: { NODE_OPTIONS: `--import=${pathToFileURL(fixture('loop-delay.ts')).href}`, LOOP_DELAY_FILE: file },
    });
    const page = await pageIn(bot);
    // Starts the servers by a first call of each.
    const say = (id: string) => calling(`${id}__echo`, { text: 'hello' });
    for (let time = 0; time < WARM_UP; time += 1) {
      models.play(
        'dev',
        FAULTS.map(({ id }) => say(id)),
      );
      await converse(page, 'Say hello to all of them.');
    }
    await loopDelay(bot, file);
    const before = residentMb(bot);
    const peak = watchPeak(bot);
    const from = models.requests.length;
    models.play(
      'dev',
      FAULTS.map(({ id, tool, input }) => calling(`${id}__${tool}`, input)),
    );
    const epoch = page.view?.epoch ?? 0;
    await page.say(CHANNEL, 'Now do your worst.');
    await page.until(() => (page.view?.epoch ?? 0) > epoch, 'a turn');
    for (let asked = await questionOrRest(page); asked !== null; asked = await questionOrRest(page)) {
      const number = asked;
      await page.command(CHANNEL, `/allow ${number}`);
      await page.until(() => page.view?.holder?.approval?.question !== number, 'the end of the question');
    }
    const grownMb = peak() - before;
    const { p99Ms, maxMs } = await loopDelay(bot, file);
    const results = models.requests.slice(from).flatMap(({ results: all }) => all);
    const isError = (index: number) => results[index]?.startsWith('Error of ') === true;
    await bot.end('SIGTERM');
    await until(() => processesWith(mark) === 0, 'the end of all servers', 20_000).catch(() => undefined);
    const measured = {
      results: results.length,
      largeIsError: isError(0),
      imageNotShown: results[1]?.includes('not shown') === true,
      endlessIsError: isError(2),
      killedIsError: isError(3),
      residentGrownMb: rounded(grownMb),
      loopP99Ms: rounded(p99Ms),
      loopMaxMs: rounded(maxMs),
      processesLeft: processesWith(mark),
    };
    return outcome(measured, {
      results: FAULTS.length,
      largeIsError: true,
      imageNotShown: true,
      endlessIsError: true,
      killedIsError: true,
      residentGrownMb: { below: 40 },
      loopP99Ms: { below: 100 },
      processesLeft: 0,
    });
  });
}

const AGENTS = ['dev', 'qa', 'pm', 'ops'] as const;
const ROOMS = [CHANNEL, ...['one', 'two', 'three', 'four'].map((name) => `console:${name}`)];
/** The time after which an idle server ends, and the time that its end may take, in milliseconds. */
const IDLE_MS = 600_000;
const END_MS = 30_000;

async function sharing(size: Size, waits: () => void): Promise<Outcome> {
  const config = (parts: Parts) =>
    configOf(
      { ...parts, channels: ROOMS },
      { agents: AGENTS, tools: { ...RULES, allow: [...RULES.allow, 'mcp__everything__echo'] } },
    );
  return await onStage({ config }, async (stage) => {
    const { models, parts } = stage;
    const bot = await stage.start();
    const beforeUse = childrenOf(bot).length;
    let most = { servers: 0, guards: 0 };
    const uses = [
      calling('filesystem__read_text_file', { path: join(parts.folder, 'a.txt') }),
      calling('memory__search_nodes', { query: 'floor' }),
      calling('everything__echo', { message: 'hello' }),
    ];
    for (const room of ROOMS) {
      for (const agent of AGENTS) models.play(agent, uses);
      const page = await pageIn(bot, room);
      const epoch = page.view?.epoch ?? 0;
      await page.say(room, 'All of you: read, search and say hello.');
      await rests(page, epoch + AGENTS.length - 1, 120_000);
      const children = childrenOf(bot);
      const servers = children.filter((pid) => commandOf(pid).includes('server-')).length;
      if (servers > most.servers) most = { servers, guards: children.length - servers };
      page.close();
    }
    const rows = stage.rows().filter(({ status }) => status === 'complete').length;
    const measured = {
      seats: AGENTS.length * ROOMS.length,
      rows,
      beforeUse,
      mostServers: most.servers,
      shellsThatGuardThem: most.guards,
    };
    const wanted = { rows: measured.seats * uses.length, beforeUse: 0, mostServers: { atMost: 3 * AGENTS.length } };
    if (size === 'short') return outcome(measured, wanted);
    waits();
    await pause(IDLE_MS);
    const gone = until(() => childrenOf(bot).length === 0, 'the end of idle servers', END_MS);
    await gone.catch(() => undefined);
    return outcome({ ...measured, afterIdle: childrenOf(bot).length }, { ...wanted, afterIdle: 0 });
  });
}

/** The running child processes of a program, without the one that runs git. */
function childrenOf({ child }: Bot): readonly string[] {
  const path = `/proc/${child.pid}/task/${child.pid}/children`;
  const children = readFileSync(path, 'utf8').split(' ').filter(Boolean);
  return children.filter((pid) => !commandOf(pid).includes('git-runner'));
}

function processesWith(mark: string): number {
  return readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && commandOf(pid).includes(mark)).length;
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

function residentMb({ child }: Bot): number {
  const [, kb = '0'] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8')) ?? [];
  return Number(kb) / 1_024;
}

/** Samples the memory of a program. The returned function ends that and returns the peak. */
function watchPeak(bot: Bot): () => number {
  let most = residentMb(bot);
  const timer = setInterval(() => (most = Math.max(most, residentMb(bot))), 10);
  return () => (clearInterval(timer), Math.max(most, residentMb(bot)));
}

/** The event loop's delay since the last call. */
async function loopDelay({ child }: Bot, file: string): Promise<{ readonly p99Ms: number; readonly maxMs: number }> {
  rmSync(file, { force: true });
  child.kill('SIGUSR2');
  let found: { readonly p99Ms: number; readonly maxMs: number } | null = null;
  await until(() => (found = readDelay(file)) !== null, 'how long the event loop was held up');
  return found ?? { p99Ms: NaN, maxMs: NaN };
}

function readDelay(file: string): { readonly p99Ms: number; readonly maxMs: number } | null {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as { p99Ms: number; maxMs: number };
  } catch {
    return null;
  }
}
