import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { createCommandBackend } from '../../src/agents/backends/command/command-backend.ts';
import { systemClock, systemTimers } from '../../src/lib/time.ts';
import { openFloorStore } from '../../src/turns/floor-store.ts';
import { floorWithWork } from '../../src/work/floor-with-work.ts';
import { completeTexts } from '../../src/config/announcements.ts';
import { announcementText } from '../../src/turns/text/announcement-words.ts';
import { load } from '../config/world.ts';
import { compiledCode } from '../lib/compiled.ts';
import { startApp } from '../runtime/start-app.ts';

/** One start of the program of a trial: what it works on, and when it is killed. */
export type TrialCall = {
  readonly repo: string;
  readonly dataDir: string;
  readonly workers: number;
  readonly stepMs: number;
  readonly script: Readonly<Record<string, string>>;
  readonly test: string;
  /** How many tickets end it. */
  readonly tickets: number;
  /** Kills itself after this many facts of the crew in this start; 0 for never. */
  readonly killAt: number;
};

const CHANNEL = 'console:crew';
const WORKER = new URL('worker.ts', import.meta.url).pathname;
/** How long a scripted worker may take for one step, in seconds. */
const STEP_SECONDS = 20;

/** What the trial reads of a run: a line of `events.jsonl` for every fact of the crew. */
export type TrialEvent = { readonly at: number; readonly fact: { readonly type: string; readonly worker?: string } };

/** Runs the whole program with one crew of scripted workers until all tickets are finished. */
async function run(call: TrialCall): Promise<void> {
  const { repo, dataDir, workers, stepMs, script, test, tickets, killAt } = call;
  const clock = systemClock();
  const store = openFloorStore({
    path: join(dataDir, 'conch.db'),
    machine: floorWithWork,
    clock,
    textLimit: () => 4_000,
    words: (announcement, _channel, repeat) => announcementText(announcement, completeTexts({}), (id) => id, repeat),
  });
  const log = (name: string, value: unknown): void => appendFileSync(join(dataDir, name), `${JSON.stringify(value)}\n`);
  const done = Promise.withResolvers<void>();
  const set = {
    ...compiledCode(),
    CREW_SCRIPT: JSON.stringify(script),
    CREW_STATE: join(dataDir, 'calls'),
    CREW_STEP_MS: `${stepMs}`,
  };
  const backend = {
    kind: 'command',
    command: process.execPath,
    args: [WORKER, '{session}'],
    set,
    timeoutSeconds: STEP_SECONDS,
  };
  const crew = {
    id: 'shop',
    repo,
    channel: CHANNEL,
    workers,
    backend,
    test,
    stepTimeoutSeconds: 60,
    quietSeconds: 60,
  };
  const { app, broken, intake } = await startApp({
    config: load(
      {
        turnConfig: { coalesceMs: 0, receipts: false },
        agents: [{ id: 'pm', backend: { kind: 'scripted', script: 'pm' } }],
        channels: [{ id: CHANNEL, agents: ['pm'] }],
        crews: [crew],
      },
      { CONCH_DATA_DIR: dataDir },
    ),
    store,
    time: { clock, timers: systemTimers },
    adapter: {
      name: 'console',
      capabilities: { textLimit: 4_000, edits: true, drafts: false, idempotentPosts: true },
      openThread: async (channel, name, key) => ({ id: `${channel}/${key}`, parent: channel, name }),
      post: async (channel, { outboxId, speaker, text }) => {
        log('posts.jsonl', { channel, speaker: speaker?.name ?? null, text });
        return outboxId;
      },
    },
    backendFor: (agent) => {
      const { backend: own } = agent;
      if (own.kind !== 'command') return createCommandBackend({ ...COMMAND, cwd: dataDir, gate: OPEN });
      const { sandbox: _sandbox, ...options } = own;
      return createCommandBackend({ ...options, timeoutMs: own.timeoutSeconds * 1_000, gate: OPEN });
    },
    logged: (line) => appendFileSync(join(dataDir, 'log.jsonl'), line),
  });
  let facts = 0;
  app.crews.onFacts((all) => {
    for (const fact of all) log('events.jsonl', { at: clock.now(), fact });
    facts += all.length;
    if (killAt > 0 && facts >= killAt) process.kill(process.pid, 'SIGKILL');
    const state = app.crews.state('shop');
    if (state?.finished.length === tickets && state.workers.every(({ status }) => status === 'idle')) done.resolve();
  });
  const state = app.crews.state('shop');
  if (state?.finished.length === tickets && state.workers.every(({ status }) => status === 'idle')) done.resolve();
  await intake().command(CHANNEL, { id: 'ada', name: 'Ada', roles: [] }, '/crew run');
  const settling = answerAll(
    () => app.crews.state('shop')?.workers ?? [],
    (line) => intake().command(CHANNEL, { id: 'ada', name: 'Ada', roles: [] }, line),
  );
  await done.promise;
  settling.cancel();
  log('end.jsonl', { state: app.crews.state('shop'), broken: broken.map(String) });
  await app.stop();
}

/** Answers every question of a worker as a person would: merges what waits, and lets stuck workers try again. */
function answerAll(
  workers: () => readonly {
    readonly name: string;
    readonly status: string;
    readonly waiting: { readonly for: string } | null;
  }[],
  command: (line: string) => Promise<unknown>,
): { cancel(): void } {
  const timer = setInterval(() => {
    for (const { name, status, waiting } of workers()) {
      if (waiting !== null) void command(`/crew answer ${name} ${ANSWERS[waiting.for] ?? 'continue'}`);
      else if (status === 'stuck') void command(`/crew retry ${name} look at the tree again`);
    }
  }, 200);
  return { cancel: () => clearInterval(timer) };
}

const ANSWERS: Readonly<Record<string, string>> = {
  merge: 'merge',
  weakened: 'merge',
  untested: 'merge',
  unfinished: 'continue',
};
const COMMAND = {
  command: 'unused',
  args: [],
  input: 'stdin',
  output: 'text',
  timeoutMs: 1_000,
  maxOutputBytes: 1_000_000,
} as const;
/** The files of the repository are the trial's own. */
const OPEN = { admit: async () => {}, glance: async () => {} };

await run(JSON.parse(process.argv[2] ?? '{}') as TrialCall);
process.exit(0);
