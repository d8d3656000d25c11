import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { completeTexts } from '../../src/config/announcements.ts';
import { systemClock, systemTimers } from '../../src/lib/time.ts';
import { createBackends } from '../../src/runtime/agent-factory.ts';
import { createLog } from '../../src/runtime/log.ts';
import { openFloorStore } from '../../src/turns/floor-store.ts';
import { announcementText } from '../../src/turns/text/announcement-values.ts';
import { floorWithWork } from '../../src/work/floor-with-work.ts';
import type { CrewFact } from '../../src/work/crews/crew-events.ts';
import type { Crew, Worker } from '../../src/work/crews/crew.ts';
import { load } from '../config/world.ts';
import { compiledCode } from '../lib/compiled.ts';
import { startApp } from '../runtime/start-app.ts';
import { ANSWER, HALF, QUESTION } from './acts.ts';
import type { Script } from './courses.ts';
import { CREW } from '../../examples/crew/repository.ts';

/** One start of a trial's program: its task, and the time of its kill. */
export type TrialCall = {
  readonly repo: string;
  readonly dataDir: string;
  readonly workers: number;
  /** How workers are run: a program for each prompt, or an agent over ACP. */
  readonly kind: 'command' | 'acp';
  /** The file in this folder that acts as the workers. */
  readonly worker: string;
  /** Commands that prepare a worktree. */
  readonly prepare: readonly string[];
  readonly stepMs: number;
  readonly script: Script;
  readonly test: string;
  /**
   * `vote` and `hold`: people make a ticket of a message, and two vote for each merge, or one holds each merge for a
   * moment. `meeting`: people do nothing; workers meet about conflicts.
   */
  readonly people: 'vote' | 'hold' | 'meeting' | null;
  /** The number of finished tickets that ends the program. */
  readonly tickets: number;
  /** Kills itself after this many facts of the crew in this start; 0 for never. */
  readonly killAt: number;
};

const CHANNEL = 'console:crew';
const ADA = { id: 'ada', name: 'Ada', roles: [] };
const BOB = { id: 'bob', name: 'Bob', roles: [] };
/** The time limit of a scripted worker's step, in seconds. */
const STEP_SECONDS = 20;

/** A line of `events.jsonl`: one for every fact of the crew. */
export type TrialEvent = {
  readonly at: number;
  readonly fact: { readonly type: string; readonly worker?: string; readonly [field: string]: unknown };
  /** True when the worktree of a leaving worker has work that main lacks. */
  readonly isDirty?: boolean;
};

/** Runs the whole program with one crew of scripted workers until all tickets are finished. */
async function run(call: TrialCall): Promise<void> {
  const { dataDir, killAt, tickets } = call;
  const clock = systemClock();
  const time = { clock, timers: systemTimers };
  const log = (name: string, value: unknown): void => appendFileSync(join(dataDir, name), `${JSON.stringify(value)}\n`);
  const logged = (line: string): void => appendFileSync(join(dataDir, 'log.jsonl'), line);
  const config = load(configOf(call), { CONCH_DATA_DIR: dataDir });
  const backends = await createBackends({
    config,
    ...time,
    log: createLog({ level: 'warn', pretty: false, secrets: [], clock, destination: { write: logged } }),
  });
  const questions = new Set<string>();
  const { app, broken, intake } = await startApp({
    config,
    store: openFloorStore({
      path: join(dataDir, 'conch.db'),
      machine: floorWithWork,
      clock,
      textLimit: () => 4_000,
      words: (announcement, _channel, repeat) => announcementText(announcement, completeTexts({}), (id) => id, repeat),
    }),
    time,
    adapter: {
      name: 'console',
      capabilities: { textLimit: 4_000, idempotentPosts: true },
      openThread: async (channel, name, key) => ({ id: `${channel}/${key}`, parent: channel, name }),
      post: async (channel, { outboxId, speaker, text }) => {
        log('posts.jsonl', { channel, speaker: speaker?.name ?? null, text });
        if (text.includes(QUESTION)) questions.add(channel);
        return outboxId;
      },
    },
    backendFor: (agent) => backends.backendFor(agent),
    logged,
  });
  const state = (): Crew | null => app.crews.state(CREW);
  const done = Promise.withResolvers<void>();
  const look = (): void => {
    const crew = state();
    const isOver = crew?.workers.every(({ status, left }) => status === 'idle' && left === undefined) === true;
    if (crew?.finished.length === tickets && isOver) done.resolve();
  };
  let facts = 0;
  app.crews.onFacts((all) => {
    for (const fact of all) log('events.jsonl', { at: clock.now(), fact, ...dirtOf(fact, state()) });
    facts += all.length;
    if (killAt > 0 && facts >= killAt) process.kill(process.pid, 'SIGKILL');
    look();
  });
  look();
  const command = (line: string, by = ADA): Promise<unknown> => intake().command(CHANNEL, by, line);
  await command('/crew run');
  if (call.people === 'vote' || call.people === 'hold') {
    await intake().message({ ...messageIn(CHANNEL, 0), id: 'talk', author: BOB, text: 'List the talk, after t-01' });
    await command('/crew admit talk');
  }
  const held = new Set<string>();
  const people = setInterval(() => {
    for (const worker of state()?.workers ?? []) {
      for (const line of answersTo(worker, call)) {
        void command(line);
        if (call.people === 'vote') void command(line, BOB);
      }
      const { name, ticket, landsAt } = worker;
      if (landsAt === undefined || ticket === null || held.has(ticket.id)) continue;
      held.add(ticket.id);
      void command(`/crew hold ${name}`, BOB);
    }
    // Worktrees of killed workers that got no other ticket.
    if (state()?.finished.length === tickets)
      for (const { name, left } of state()?.workers ?? [])
        if (left !== undefined && left.due === undefined) void command(`/crew cleanup ${name}`);
    for (const channel of questions) void intake().message(messageIn(channel, clock.now()));
    questions.clear();
  }, 200);
  await done.promise;
  clearInterval(people);
  log('end.jsonl', { state: state(), broken: broken.map(String) });
  await app.stop();
  await backends.stop();
}

function configOf({ repo, workers, kind, worker, prepare, stepMs, script, test, dataDir, people }: TrialCall): object {
  const set = {
    ...compiledCode(),
    CREW_SCRIPT: JSON.stringify(script),
    CREW_STATE: join(dataDir, 'calls'),
    CREW_STEP_MS: `${stepMs}`,
  };
  const program = new URL(worker, import.meta.url).pathname;
  const ways = kind === 'acp' ? {} : { output: 'json', timeoutSeconds: STEP_SECONDS };
  const backend = { kind, command: process.execPath, args: [program], set, ...ways };
  const limits = { stepTimeoutSeconds: 60, quietSeconds: STEP_SECONDS };
  return {
    turnConfig: { coalesceMs: 0, receipts: false },
    agents: [{ id: 'pm', backend: { kind: 'scripted', script: 'pm' } }],
    channels: [{ id: CHANNEL, agents: ['pm'] }],
    operators: { users: [ADA.id, BOB.id] },
    // The files of the repository are the trial's own.
    crews: [
      {
        id: CREW,
        repo,
        channel: CHANNEL,
        workers,
        backend,
        prepare,
        test,
        trusted: true,
        ...limits,
        meetingTurns: people === 'meeting' ? 4 : 0,
        ...mergesOf(people),
      },
    ],
  };
}

/** The merge settings for the people of a trial. */
function mergesOf(people: TrialCall['people']): object {
  if (people === 'vote') return { merge: 'ask', votes: 2 };
  return people === 'hold' ? { mergeWindow: { seconds: 1 } } : {};
}

/** Commands that a person types now: answers, retries of stuck workers, and resets that a script wants. */
function answersTo({ name, status, waiting, ticket, leaving, stepCount }: Worker, { script }: TrialCall): string[] {
  if (waiting !== null) return [`/crew answer ${name} ${ANSWERS[waiting.for] ?? 'continue'}`];
  if (status === 'stuck') return [`/crew retry ${name} look at the tree again`];
  if (ticket === null || leaving !== null || script[ticket.id] !== 'killed' || stepCount > 1) return [];
  return existsSync(join(ticket.worktree, HALF)) ? [`/crew kill ${name}`] : [];
}

const ANSWERS: Readonly<Record<string, string>> = {
  merge: 'merge',
  held: 'merge',
  weakened: 'merge',
  untested: 'merge',
};

let written = 0;

function messageIn(channel: string, sentAt: number) {
  written += 1;
  const order = `${sentAt}-${String(written).padStart(6, '0')}`;
  const place = { id: `m${order}`, channel, author: ADA, text: ANSWER, addressed: [], attachments: [] };
  return { ...place, sentAt, order };
}

/** For the fact of a leaving worker: whether its worktree has changes, or commits that main lacks. */
function dirtOf(fact: CrewFact, crew: Crew | null): Pick<TrialEvent, 'isDirty'> {
  if (fact.type !== 'leaving') return {};
  const ticket = crew?.workers.find(({ name }) => name === fact.worker)?.ticket;
  if (ticket == null || !existsSync(ticket.worktree)) return { isDirty: false };
  const git = (...args: readonly string[]): string =>
    execFileSync('git', ['-C', ticket.worktree, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  const isAhead = fact.why !== 'merged' && git('rev-list', 'HEAD', '^main').trim() !== '';
  return { isDirty: isAhead || git('status', '--porcelain').trim() !== '' };
}

await run(JSON.parse(process.argv[2] ?? '{}') as TrialCall);
process.exit(0);
