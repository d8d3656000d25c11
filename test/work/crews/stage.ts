import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect } from 'vitest';
import type { AgentConfig, Config } from '../../../src/config/config.ts';
import type { Principal } from '../../../src/adapters/port.ts';
import type { AgentBackend } from '../../../src/agents/backends/backend.ts';
import { systemClock, systemTimers } from '../../../src/lib/time.ts';
import type { Timers } from '../../../src/lib/time.ts';
import { openFloorStore } from '../../../src/turns/floor-store.ts';
import { floorWithWork } from '../../../src/work/floor-with-work.ts';
import { completeTexts } from '../../../src/config/announcements.ts';
import { announcementText } from '../../../src/turns/text/announcement-values.ts';
import { load } from '../../config/world.ts';
import { startApp } from '../../runtime/start-app.ts';
import type { Start } from '../../runtime/start-app.ts';
import { until } from '../reviews/stage.ts';
import { keptCopy } from './git/kept-copy.ts';
import { played } from './played.ts';
import type { Work } from './played.ts';

export const CHANNEL = 'console:web';

export const opened: { stop(): Promise<void> }[] = [];
/** The folder of each session that ended, and whether the folder had a file "tested" at this time. */
export const closed: { readonly folder: string; readonly isTested: boolean }[] = [];
afterEach(async () => {
  for (const room of opened.splice(0)) await room.stop();
});

/** Runs git in a folder. Throws without a folder: git would run in the repository of the tests. */
export function git(folder: string, ...args: readonly string[]): string {
  if (folder === '') throw new Error('git needs a folder');
  return execFileSync('git', ['-C', folder, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
}

export function ticketText(
  id: string,
  { deps = [], text = '' }: { readonly deps?: readonly string[]; readonly text?: string } = {},
): string {
  return `---\nid: ${id}\nstatus: open\ndeps: [${deps.join(', ')}]\npriority: 2\n---\n# Title of ${id}\n\n${text}\n`;
}

/** A copy of the first repository before its first commit. Later repositories are copies of it. */
let begun: string | null = null;

/** Makes a repository with tickets and `list.txt`. The default tests fail when `list.txt` contains "broken". */
export function repository(tickets: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'conch-crew-repo-'));
  if (begun === null) {
    git(folder, 'init', '-q', '-b', 'main');
    git(folder, 'config', 'user.name', 'Ann');
    git(folder, 'config', 'user.email', 'ann@example.org');
    begun = keptCopy(folder);
  } else cpSync(begun, folder, { recursive: true });
  mkdirSync(join(folder, '.tickets'));
  for (const [id, text] of Object.entries(tickets)) writeFileSync(join(folder, `.tickets/${id}.md`), text);
  writeFileSync(join(folder, 'list.txt'), 'first\n');
  git(folder, 'add', '.');
  git(folder, 'commit', '-q', '-m', 'Begin');
  return folder;
}

/** The whole program with one crew, whose workers are played by a function. */
export async function stage(repo: string, work: Work, crew: object = {}, path = ':memory:', timers = systemTimers) {
  return stageOf({ repo, crew, path, timers, backends: playedBy(work) });
}

/** Backends that play all agents by a function. */
export function playedBy(work: Work): StageOptions['backends'] {
  return () => (agent) =>
    played(agent, work, (folder) => void closed.push({ folder, isTested: existsSync(join(folder, 'tested')) }));
}

/** Methods and capabilities of the platform that replace the defaults. */
type Platform = Partial<Pick<Start['adapter'], 'capabilities' | 'catchUp' | 'edit' | 'openThread'>>;

type StageOptions = {
  readonly repo: string;
  readonly crew: object;
  readonly path?: string;
  readonly timers?: Timers;
  readonly platform?: Platform;
  /** More keys of the configuration. */
  readonly config?: object;
  /** Crews beside "web". */
  readonly others?: readonly object[];
  readonly backends: (config: Config) => BackendFor | Promise<BackendFor>;
};

type BackendFor = (agent: AgentConfig) => AgentBackend;

/** Starts the program as `stage` does, with all options. */
export async function stageOf({
  repo,
  crew,
  path = ':memory:',
  timers = systemTimers,
  platform = {},
  config = {},
  others = [],
  backends,
}: StageOptions) {
  const clock = systemClock();
  const dataDir = mkdtempSync(join(tmpdir(), 'conch-crew-data-'));
  const posts: string[] = [];
  const shown: string[] = [];
  const store = openFloorStore({
    path,
    machine: floorWithWork,
    clock,
    textLimit: () => 4_000,
    words: (announcement, _channel, repeat) => announcementText(announcement, completeTexts({}), (id) => id, repeat),
  });
  const configOf = (changed: object, beside = others) =>
    load(
      {
        turnConfig: { coalesceMs: 0, receipts: false },
        agents: [{ id: 'pm', backend: { kind: 'command', command: 'unused' } }],
        channels: [{ id: CHANNEL, agents: ['pm'] }],
        operators: { users: ['ada', 'bob'] },
        ...config,
        crews: [
          {
            id: 'web',
            repo,
            channel: CHANNEL,
            backend: { kind: 'command', command: 'unused' },
            workers: 1,
            test: '! grep -q broken list.txt',
            ...changed,
          },
          ...beside,
        ],
      },
      { CONCH_DATA_DIR: dataDir },
    );
  const first = configOf(crew);
  const { app, broken, intake } = await startApp({
    config: first,
    store,
    time: { clock, timers },
    adapter: {
      name: 'console',
      capabilities: { textLimit: 4_000 },
      openThread: async (channel, name, key) => ({ id: `${channel}/${key}`, parent: channel, name }),
      card: (channel) => void shown.push(channel),
      post: async (channel, { speaker, text }) => String(posts.push(`${channel} ${speaker?.name ?? 'Conch'}: ${text}`)),
      ...platform,
    },
    backendFor: await backends(first),
    logged: () => {},
  });
  const ann = { id: 'ada', name: 'Ada', roles: [] };
  const made = {
    app,
    store,
    posts,
    /** Channels whose card was drawn again, in this order. */
    shown,
    broken,
    repo,
    /** Changes the configuration of the crew, and the crews beside it, while the program runs. */
    reload: (changed: object, beside = others) => app.reload(configOf({ ...crew, ...changed }, beside)),
    command: (line: string, channel = CHANNEL, drawnFor?: string, by = ann) =>
      intake().command(channel, by, line, drawnFor),
    amend: (id: string) => intake().amend({ change: 'deleted', id, channel: CHANNEL }),
    /** Writes a message of a person. Resolves with its id. */
    async write(channel: string, text: string, { by = ann, ...more }: Writing = {}): Promise<string> {
      const id = `w${(written += 1)}`;
      const message = { id, channel, author: by, text, sentAt: clock.now(), addressed: [], attachments: [] };
      await intake().message({ ...message, ...more, order: String(written).padStart(6, '0') });
      return id;
    },
    async stop(): Promise<void> {
      await app.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
  opened.push(made);
  return made;
}

/** Options of a message. `id`: the id of an earlier message that is delivered again. */
type Writing = { readonly bot?: true; readonly replyTo?: string; readonly id?: string; readonly by?: Principal };

let written = 0;

export function add(folder: string, file: string, line: string): void {
  const path = join(folder, file);
  writeFileSync(path, `${existsSync(path) ? readFileSync(path, 'utf8') : ''}${line}\n`);
  git(folder, 'add', '.');
  git(folder, 'commit', '-q', '-m', `Add ${line}`);
}

/** Resolves when this many tickets are finished and all workers are idle. */
export async function finished(room: Awaited<ReturnType<typeof stage>>, tickets: number): Promise<void> {
  const state = () => room.app.crews.state('web');
  await until(() => state()?.finished.length === tickets);
  await until(() => state()?.workers.every(({ status }) => status === 'idle') === true);
  expect(room.broken).toEqual([]);
}

export function mainTickets(repo: string): readonly string[] {
  const log = git(
    repo,
    'log',
    '--first-parent',
    '--reverse',
    '--format=%(trailers:key=Conch-Ticket,valueonly)',
    'main',
  );
  return log.split('\n').filter((line) => line !== '');
}
