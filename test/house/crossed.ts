import fs, { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { AgentBackend } from '../../src/agents/backends/backend.ts';
import type { Config } from '../../src/config/config.ts';
import { floorWithWork } from '../../src/work/floor-with-work.ts';
import { openFloorStore } from '../../src/turns/floor-store.ts';
import { systemClock, systemTimers } from '../../src/lib/time.ts';
import { createPlatforms } from '../../src/runtime/adapter-factory.ts';
import { App } from '../../src/runtime/app.ts';
import { createLog } from '../../src/runtime/log.ts';
import { lengthsOf } from '../../src/runtime/read-model.ts';
import { announcementText } from '../../src/turns/text/announcement-values.ts';
import { startSlack } from '../adapters/slack/server.ts';
import type { SlackServer } from '../adapters/slack/server.ts';
import { load } from '../config/world.ts';
import type { Crossed, Way } from './trace.ts';
import { completeTexts } from '../../src/config/announcements.ts';

const SOURCE = fileURLToPath(new URL('../../src/', import.meta.url));
const ANSWER = 'I am well.';
/** The time without calls of the source after which the program counts as idle, in milliseconds. */
const STILL_MS = 500;
const LOOKS = 40;
/** Files with functions that an idle program calls periodically: the watches for standstills and of the lock file. */
const PERIODIC: ReadonlySet<string> = new Set(['engine/lock.ts', 'lib/time.ts', 'runtime/process.ts']);
const ANSWER_MS = 60_000;

/** An agent that answers at once. */
const AT_ONCE: AgentBackend = {
  kind: 'at-once',
  needsSignal: false,
  promisesToAsk: true,
  open: async () => ({
    async prompt(_turn, report) {
      report.text(ANSWER);
      return { how: 'completed' };
    },
    inject: async () => 'next-prompt',
    interrupt: async () => {},
    ping: async () => {},
    close: async () => {},
  }),
};

/**
 * The program that `trace` starts: the whole of Conch on the loopback Slack, with one agent that answers at once.
 * Prints a `Way` as JSON. A first message shows the called functions, a second message their order. Code that runs when
 * a module loads does not count.
 */
console.log(JSON.stringify(await way()));
// The Slack library keeps a process alive for half a minute after its sockets close.
process.exit();

/** Turns syncs off. Slow and fast disks are synced by different functions, so the count would depend on the machine. */
function replaceSync(): void {
  fs.fdatasyncSync = () => {};
  syncBuiltinESMExports();
}

async function way(): Promise<Way> {
  replaceSync();
  const session = new Session();
  session.connect();
  const calls = await watchCalls(session);
  const slack = await startSlack();
  const program = await start(slack);
  try {
    await still(calls);
    slack.write(slack.ids.ann, slack.ids.channel, 'How are you?');
    await answered(slack, 1);
    const called = await calls();
    const crossed = [...Map.groupBy(called, ({ file }) => file)].map(([file, functions]) => ({
      file,
      functions: functions.map(({ name }) => name),
    }));
    await still(calls);
    await session.post('Profiler.stopPreciseCoverage');
    const order = await watchOrder(session, called);
    slack.write(slack.ids.ann, slack.ids.channel, 'And now?');
    await answered(slack, 2);
    return { crossed, inOrder: stepsOf(called, order) };
  } finally {
    await program.stop();
    await slack.close();
  }
}

/** A called function of the source. `from`, `to`: its beginning and end. */
type Called = { file: string; name: string; script: string; url: string; from: Position; to: Position };
type Position = { readonly lineNumber: number; readonly columnNumber: number };

/** Returns the functions called since the last look, sorted by file. */
type Calls = () => Promise<readonly Called[]>;

async function watchCalls(session: Session): Promise<Calls> {
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  return async () => {
    const { result } = await session.post('Profiler.takePreciseCoverage');
    const ours = result.filter(({ url }) => url.startsWith('file:') && fileURLToPath(url).startsWith(SOURCE));
    return ours
      .flatMap(({ url, scriptId, functions }) => {
        const path = fileURLToPath(url);
        const text = readFileSync(path, 'utf8');
        return functions.flatMap(({ functionName, ranges: [whole] }) => {
          if (whole === undefined || whole.count === 0 || whole.startOffset === 0) return [];
          const from = positionAt(text, whole.startOffset);
          const name = functionName === '' ? `line ${from.lineNumber + 1}` : functionName;
          const to = positionAt(text, whole.endOffset);
          return [{ file: relative(SOURCE, path), name, script: scriptId, url, from, to }];
        });
      })
      .toSorted((one, other) => (one.file === other.file ? 0 : one.file < other.file ? -1 : 1));
  };
}

function positionAt(text: string, offset: number): Position {
  const before = text.slice(0, offset).split('\n');
  return { lineNumber: before.length - 1, columnNumber: before.at(-1)?.length ?? 0 };
}

/**
 * Returns an array that gets the index of each of these functions at its calls. A breakpoint whose condition is false
 * records the call and stops nothing.
 */
async function watchOrder(session: Session, functions: readonly Called[]): Promise<readonly number[]> {
  const order: number[] = [];
  const taken = new Set<string>();
  Object.assign(globalThis, { recordCall: (index: number) => void order.push(index) });
  await session.post('Debugger.enable');
  for (const [index, { script: scriptId, url, from, to }] of functions.entries()) {
    const range = { start: { scriptId, ...from }, end: { scriptId, ...to }, restrictToFunction: false };
    const { locations } = await session.post('Debugger.getPossibleBreakpoints', range);
    const free = locations.find((one) => !taken.has(placeOf(url, one)));
    if (free === undefined) continue;
    taken.add(placeOf(url, free));
    const { lineNumber, columnNumber = 0 } = free;
    const condition = `recordCall(${index})`;
    await session.post('Debugger.setBreakpointByUrl', { url, lineNumber, columnNumber, condition });
  }
  return order;
}

function placeOf(
  url: string,
  { lineNumber, columnNumber = 0 }: { lineNumber: number; columnNumber?: number | undefined },
): string {
  return `${url}:${lineNumber}:${columnNumber}`;
}

/** The functions by their first call, one step per file. Functions that the second message did not call come last. */
function stepsOf(functions: readonly Called[], order: readonly number[]): readonly Crossed[] {
  const steps: { file: string; functions: string[] }[] = [];
  for (const index of new Set([...order, ...functions.keys()])) {
    const { file = '', name = '' } = functions[index] ?? {};
    const last = steps.at(-1);
    if (last?.file === file) last.functions.push(name);
    else steps.push({ file, functions: [name] });
  }
  return steps;
}

async function still(calls: Calls): Promise<void> {
  for (let look = 0; look < LOOKS; look += 1) {
    await pause(STILL_MS);
    if ((await calls()).every(({ file }) => PERIODIC.has(file))) return;
  }
  throw new Error('the program does not come to rest');
}

async function answered(slack: SlackServer, times: number): Promise<void> {
  const late = AbortSignal.timeout(ANSWER_MS);
  const isAnswer = ({ method, args }: SlackServer['requests'][number]): boolean =>
    method === 'chat.postMessage' &&
    JSON.stringify(args).includes(ANSWER) &&
    JSON.stringify(args).includes('conch_post');
  while (slack.requests.filter(isAnswer).length < times) {
    late.throwIfAborted();
    await nextTurn();
  }
}

async function start(slack: SlackServer): Promise<{ stop(): Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), 'conch-trace-'));
  const config = configFor(slack);
  const clock = systemClock();
  const log = createLog({ level: 'fatal', pretty: false, secrets: [], clock, destination: { write: () => {} } });
  const path = join(folder, 'conch.db');
  const store = openFloorStore({
    machine: floorWithWork,
    path,
    clock,
    textLimit: (channel) => lengthsOf(channel, platforms.adapters).textLimit,
    fileAbove: (channel) => lengthsOf(channel, platforms.adapters).fileAbove,
    words: (announcement, _channel, repeat) =>
      announcementText(announcement, completeTexts({}), (agent) => agent, repeat),
  });
  const parts = {
    config,
    clock,
    timers: systemTimers,
    log,
    store,
    database: () => 'ok' as const,
    current: () => config,
  };
  const service = { withoutWatchdog: <Result>(work: () => Promise<Result>) => work() };
  const platforms = await createPlatforms({ ...parts, service });
  const onBroken = (error: unknown): never => {
    throw error;
  };
  const app = new App({ ...parts, ...platforms, backendFor: () => AT_ONCE, onBroken });
  await app.start();
  await app.connect();
  return {
    async stop() {
      await app.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function configFor({ ids, botToken, appToken, apiUrl }: SlackServer): Config {
  const file = {
    agents: [{ id: 'dev', backend: { kind: 'scripted', script: 'dev' } }],
    channels: [{ id: `slack:${ids.channel}`, agents: ['dev'] }],
    adapters: { console: { enabled: false } },
  };
  return load(file, { SLACK_BOT_TOKEN: botToken, SLACK_APP_TOKEN: appToken, SLACK_API_URL: apiUrl });
}
