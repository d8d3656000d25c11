import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { AgentBackend } from '../../src/agents/backends/backend.ts';
import type { Config } from '../../src/config/config.ts';
import { floorWithRuns } from '../../src/work/runs/floor-binding.ts';
import { openFloorStore } from '../../src/turns/floor-store.ts';
import { systemClock, systemTimers } from '../../src/lib/time.ts';
import { createPlatforms } from '../../src/runtime/adapter-factory.ts';
import { App } from '../../src/runtime/app.ts';
import { createLog } from '../../src/runtime/log.ts';
import { lengthsOf } from '../../src/runtime/read-model.ts';
import { announcementText } from '../../src/turns/text/words.ts';
import { startSlack } from '../adapters/slack/server.ts';
import type { SlackServer } from '../adapters/slack/server.ts';
import { load } from '../config/world.ts';
import type { Crossed } from './trace.ts';
import { completeTexts } from '../../src/config/announcements.ts';

const SOURCE = fileURLToPath(new URL('../../src/', import.meta.url));
const ANSWER = 'I am well.';
/** Nothing of the source was called for so long: the program stands still. */
const STILL_MS = 500;
const LOOKS = 40;
/** Files with functions that a resting program calls at intervals: the watch for standstills and the watch of the lock file. */
const PERIODIC: ReadonlySet<string> = new Set(['engine/sqlite/lock.ts', 'lib/time.ts', 'runtime/process.ts']);
const ANSWER_MS = 60_000;

/** An agent that answers everything at once. */
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
 * The program that `trace` starts: the whole of Conch over the loopback Slack, with one agent that answers at once. Prints
 * as JSON what one message crosses until the answer to it is posted. What runs when a module is loaded does not count.
 */
console.log(JSON.stringify(await crossed()));
// The Slack library holds a process up for half a minute after its sockets were closed.
process.exit();

async function crossed(): Promise<readonly Crossed[]> {
  const calls = await watchCalls();
  const slack = await startSlack();
  const program = await start(slack);
  try {
    await still(calls);
    slack.write(slack.ids.ann, slack.ids.channel, 'How are you?');
    await answered(slack);
    return await calls();
  } finally {
    await program.stop();
    await slack.close();
  }
}

/** What is called from now on; every look takes what was called since the last one. */
type Calls = () => Promise<readonly Crossed[]>;

async function watchCalls(): Promise<Calls> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  return async () => {
    const { result } = await session.post('Profiler.takePreciseCoverage');
    const ours = result.filter(({ url }) => url.startsWith('file:') && fileURLToPath(url).startsWith(SOURCE));
    return ours
      .map(({ url, functions }) => {
        const path = fileURLToPath(url);
        const text = readFileSync(path, 'utf8');
        const called = functions.filter(({ ranges: [whole] }) => (whole?.count ?? 0) > 0 && whole?.startOffset !== 0);
        const names = called.map(({ functionName, ranges: [whole] }) =>
          functionName === '' ? `line ${lineAt(text, whole?.startOffset ?? 0)}` : functionName,
        );
        return { file: relative(SOURCE, path), functions: names };
      })
      .filter(({ functions }) => functions.length > 0)
      .toSorted((one, other) => (one.file < other.file ? -1 : 1));
  };
}

function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length;
}

async function still(calls: Calls): Promise<void> {
  for (let look = 0; look < LOOKS; look += 1) {
    await pause(STILL_MS);
    if ((await calls()).every(({ file }) => PERIODIC.has(file))) return;
  }
  throw new Error('the program does not come to rest');
}

async function answered(slack: SlackServer): Promise<void> {
  const late = AbortSignal.timeout(ANSWER_MS);
  const isAnswer = ({ method, args }: SlackServer['requests'][number]): boolean =>
    method === 'chat.postMessage' &&
    JSON.stringify(args).includes(ANSWER) &&
    JSON.stringify(args).includes('conch_post');
  while (!slack.requests.some(isAnswer)) {
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
    machine: floorWithRuns,
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
  const platforms = await createPlatforms(parts);
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
