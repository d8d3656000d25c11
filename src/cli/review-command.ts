import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve as absolute } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'jsonc-parser';
import { z } from 'zod';
import { lockFile, lockOf } from '../engine/lock.ts';
import { loadConfigFrom } from '../config/load.ts';
import { thisWorld } from '../config/world.ts';
import { parsedJson } from '../lib/defined.ts';
import { systemClock } from '../lib/time.ts';
import { pruneReviews } from '../runtime/channel-reviews.ts';
import { databaseIn, openDataFolder } from '../runtime/data-folder.ts';
import { MACHINES_BESIDE_FLOORS } from '../runtime/machines.ts';
import { EXIT_CODES } from '../runtime/exit-codes.ts';
import type { ExitCode } from '../runtime/exit-codes.ts';
import { askBot, failed, harmless, readToken } from './ctl.ts';
import type { CtlWorld } from './ctl.ts';

/** A review from the command line. */
export type ReviewCall = {
  /** The task; for a review that is resumed, a decision: "accept", "uphold", "more 5" or "cancel". */
  readonly task: string | null;
  readonly primary: string | null;
  readonly reviewer: string | null;
  readonly iterations: number | null;
  readonly channel: string | null;
  readonly json: boolean;
  /** The id of a review to follow, or the data folder of a private Conch; `null` for a new review. */
  readonly resume: string | null;
};

type ReviewWorld = CtlWorld & {
  /** The configuration file; `null` for the demo. */
  readonly file: string | null;
  readonly signal: AbortSignal;
  sleep(ms: number): Promise<void>;
};

const manifestSchema = z.looseObject({
  id: z.string(),
  state: z.string(),
  iteration: z.number(),
  settings: z.looseObject({ maxIterations: z.number() }),
  outcome: z.looseObject({ kind: z.string(), why: z.string() }).nullable(),
  waiting: z.looseObject({ for: z.string(), why: z.string() }).nullable(),
  lines: z.array(z.object({ line: z.number(), author: z.string(), text: z.string() })),
});

type Manifest = z.output<typeof manifestSchema>;

const PRIVATE_CHANNEL = 'console:review';

/**
 * Runs a review, prints its conversation and its outcome, and resolves with the exit code: 0 passed, 20 failed, stalled
 * or at a limit, 21 a person is needed, 130 cancelled, another code when the review could not be followed. The running
 * Conch runs the review. A private Conch, in a data folder of its own, runs a new review without a running Conch, and a
 * review whose data folder `resume` names.
 */
export async function runReview(call: ReviewCall, world: ReviewWorld): Promise<ExitCode> {
  const isFolder = call.resume !== null && existsSync(join(call.resume, STARTED_IN));
  if (call.resume === null && (call.task === null || call.primary === null || call.reviewer === null))
    return failed(USAGE, EXIT_CODES.usage, world);
  if (call.resume !== null && call.task !== null && !DECISION.test(call.task)) {
    const text = `Expected accept, uphold, more or cancel after --resume, got "${call.task}".`;
    return failed(text, EXIT_CODES.usage, world);
  }
  if (!isFolder && (await isRunning(world))) {
    const { code, id } = await followed({ ...call, channel: channelOf(call) }, world);
    return hinted(code, id, world);
  }
  if (call.resume !== null && !isFolder) {
    const text = `No running Conch has the review ${call.resume}, and no folder with this path is the data folder of a review.`;
    return failed(text, EXIT_CODES.notRunning, world);
  }
  return inPrivate(call, world);
}

const USAGE = 'Expected --primary, --reviewer and a task: conch review --primary dev --reviewer qa "write the parser"';

/** Matches decisions of a person about a review that is resumed. */
const DECISION = /^(?:accept|uphold|more|cancel)(?: |$)/;

function channelOf({ resume, channel }: ReviewCall): string | null {
  return resume === null ? channel : resume.replace(/-\d+$/, '');
}

async function isRunning(world: ReviewWorld): Promise<boolean> {
  return (await readToken(world)) !== null && (await ask('whoami', null, world)).reached;
}

function ask(line: string, channel: string | null, world: CtlWorld): ReturnType<typeof askBot> {
  return askBot({ line, channel, json: false }, world);
}

async function followed(call: ReviewCall, world: ReviewWorld): Promise<Ended> {
  const { channel, task, primary, reviewer, iterations } = call;
  if (call.resume === null || task !== null) {
    const count = iterations === null ? '' : ` ${iterations}`;
    // Without quotes, a number at the beginning of the task would be the number of iterations.
    const quotedTask = count === '' && /^\d+(?:\s|$)/.test(task ?? '') ? `"${task?.replaceAll('"', "'")}"` : task;
    const line = call.resume === null ? `review start ${primary} ${reviewer}${count} ${quotedTask}` : `review ${task}`;
    const started = await ask(line, channel, world);
    if (!started.reached) return { code: failed(started.why, EXIT_CODES.notRunning, world), id: '' };
    if (!started.ok) return { code: failed(started.text, EXIT_CODES.refused, world), id: '' };
  }
  const follower = new Follower(call, world);
  return { code: await follower.end(), id: follower.id };
}

/** The exit code of a review, and its id; the id is '' when it is not known. */
type Ended = { readonly code: ExitCode; readonly id: string };

/** Prints how to go on with a review when `code` says that a person is needed. Returns `code`. */
function hinted(code: ExitCode, id: string, world: ReviewWorld): ExitCode {
  if (code !== EXIT_CODES.personNeeded) return code;
  return failed(`To decide and go on: conch review --resume ${id} accept (or uphold, more 5, cancel)`, code, world);
}

const POLL_MS = 500;
/** Most tries in a row, 0.5 s apart, to read from a silent Conch, or to wait for the end of a Conch. */
const MOST_SILENT = 25;

/**
 * Prints what is said in a review until the review ends or waits for people; with `json`, prints only the last state.
 * Cancels the review when `signal` aborts.
 */
class Follower {
  readonly #call: ReviewCall;
  readonly #world: ReviewWorld;
  /** The id of the review; '' before it is known. */
  id = '';
  #line = 0;
  #isCancelled = false;

  constructor(call: ReviewCall, world: ReviewWorld) {
    this.#call = call;
    this.#world = world;
  }

  async end(): Promise<ExitCode> {
    for (let silent = 0; silent < MOST_SILENT; silent += 1) {
      const manifest = await this.#read();
      if (typeof manifest === 'string' && this.id === '') return failed(manifest, EXIT_CODES.refused, this.#world);
      if (manifest === null || typeof manifest === 'string') {
        await this.#world.sleep(POLL_MS);
        continue;
      }
      silent = 0;
      const { resume, channel } = this.#call;
      if (resume !== null && channel !== PRIVATE_CHANNEL && manifest.id !== resume) {
        const text = `${resume} is not the last review of ${channel}. To resume the last one: conch review --resume ${manifest.id}`;
        return failed(text, EXIT_CODES.refused, this.#world);
      }
      this.id = manifest.id;
      this.#print(manifest);
      const code = codeOf(manifest);
      if (code !== null) return this.#over(manifest, code);
      if (this.#world.signal.aborted && !this.#isCancelled) await this.#cancel();
      await this.#world.sleep(POLL_MS);
    }
    const text = 'Conch does not answer any more. The review goes on when it runs again.';
    return failed(text, EXIT_CODES.notRunning, this.#world);
  }

  /**
   * Reads the review. Returns a text, the reason, when Conch refuses to show the review. Returns `null` when Conch does
   * not answer, or the answer is no review.
   */
  async #read(): Promise<Manifest | string | null> {
    const after = this.#line === 0 ? '' : ` ${this.#line}`;
    const answer = await ask(`review export${after}`, this.#call.channel, this.#world);
    if (!answer.reached) return null;
    if (!answer.ok) return answer.text;
    return parsedJson(answer.text, manifestSchema);
  }

  async #cancel(): Promise<void> {
    this.#isCancelled = true;
    await ask('review cancel', this.#call.channel, this.#world);
  }

  #print({ lines }: Manifest): void {
    this.#line = lines.at(-1)?.line ?? this.#line;
    if (this.#call.json) return;
    for (const { author, text } of lines) this.#world.out(`${harmless(author)}: ${harmless(text)}\n`);
  }

  #over(manifest: Manifest, code: ExitCode): ExitCode {
    const { outcome, waiting } = manifest;
    if (this.#call.json) this.#world.out(`${JSON.stringify(manifest)}\n`);
    else if (outcome === null) this.#world.err(`A person is needed: ${harmless(waiting?.why ?? '')}\n`);
    else this.#world.out(`The review ${outcome.kind}${outcome.why === '' ? '' : `: ${harmless(outcome.why)}`}\n`);
    return code;
  }
}

function codeOf({ outcome, waiting }: Manifest): ExitCode | null {
  if (outcome === null) return waiting !== null && PEOPLE.has(waiting.for) ? EXIT_CODES.personNeeded : null;
  if (outcome.kind === 'cancelled') return EXIT_CODES.cancelled;
  return outcome.kind.startsWith('passed') ? EXIT_CODES.ok : EXIT_CODES.reviewFailed;
}

/** Reasons for which a review waits for a decision of people. */
const PEOPLE: ReadonlySet<string> = new Set(['arbiter', 'fail', 'budget']);

/**
 * Name of the file that stores the folder in which a private Conch first started. A resumed private Conch starts there.
 */
const STARTED_IN = 'started-in';

async function inPrivate(call: ReviewCall, world: ReviewWorld): Promise<ExitCode> {
  const dataDir = absolute(call.resume ?? mkdtempSync(join(tmpdir(), 'conch-review-')));
  const config = join(dataDir, 'review.json');
  if (call.resume === null) {
    writeFileSync(config, JSON.stringify(privateConfig(call, world.file), null, 2));
    writeFileSync(join(dataDir, STARTED_IN), process.cwd());
    world.err(`To go on after an interruption: conch review --resume ${dataDir}\n`);
  } else if (!(await untilFree(dataDir, world)))
    return failed(`Another Conch works in ${dataDir}. End it, then try again.`, EXIT_CODES.databaseLocked, world);
  const port = await freePort();
  const bot = spawn(process.execPath, [fileURLToPath(new URL('../conch.js', import.meta.url)), 'start'], {
    env: {
      ...process.env,
      CONCH_CONFIG: config,
      CONCH_DATA_DIR: dataDir,
      CONCH_PORT: `${port}`,
      CONCH_LOG_LEVEL: 'fatal',
    },
    cwd: readFileSync(join(dataDir, STARTED_IN), 'utf8'),
    // The private Conch ends when its IPC channel closes, also when `conch review` is killed.
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    // Ctrl+C must not reach the private Conch: `conch review` cancels the review first.
    detached: true,
  });
  const ended = new Promise<void>((resolve) => bot.once('exit', () => resolve()));
  const own: ReviewWorld = { ...world, dataDir, port };
  let isPassed = false;
  try {
    if (!(await untilRunning(own, bot))) {
      if (call.resume === null) rmSync(dataDir, { recursive: true, force: true });
      const code =
        Object.values(EXIT_CODES).find((each) => each === bot.exitCode && each !== EXIT_CODES.ok) ??
        EXIT_CODES.unexpected;
      return failed('The review did not begin: the lines before say why.', code, world);
    }
    const { code } = await followed({ ...call, channel: PRIVATE_CHANNEL }, own);
    isPassed = code === EXIT_CODES.ok;
    return hinted(code, dataDir, world);
  } finally {
    bot.kill('SIGTERM');
    await ended;
    if (isPassed) await forget(dataDir, config);
  }
}

/**
 * Deletes all that a private Conch stored. Called only after a review passed: otherwise, people may need the stored
 * work.
 */
async function forget(dataDir: string, file: string): Promise<void> {
  process.chdir(readFileSync(join(dataDir, STARTED_IN), 'utf8'));
  const config = { ...loadConfigFrom(thisWorld(), file), dataDir };
  const nothing = { textLimit: () => 0, words: () => null, say: () => undefined };
  const store = openDataFolder({ dataDir, clock: systemClock(), ...nothing });
  for (const machine of MACHINES_BESIDE_FLOORS) machine.hostIn(store);
  await pruneReviews({ store, config, failed: () => undefined }, () => Infinity, false);
  await store.close();
  rmSync(dataDir, { recursive: true, force: true });
}

/**
 * Waits until no Conch uses a data folder, because a private Conch outlives its killed `conch review` for a moment.
 * Returns false after 12.5 s.
 */
async function untilFree(dataDir: string, world: ReviewWorld): Promise<boolean> {
  for (let tries = 0; tries < MOST_SILENT; tries += 1) {
    const lock = lockFile(lockOf(databaseIn({ dataDir })));
    lock?.release();
    if (lock !== null) return true;
    await world.sleep(POLL_MS);
  }
  return false;
}

/** Waits until a private Conch answers. Returns false when it ended before. */
async function untilRunning(world: ReviewWorld, bot: Pick<ChildProcess, 'exitCode' | 'signalCode'>): Promise<boolean> {
  while (!(await isRunning(world))) {
    if (bot.exitCode !== null || bot.signalCode !== null) return false;
    await world.sleep(POLL_MS);
  }
  return true;
}

/** Settings that a private Conch does not take over, because it serves one channel, with a store of its own. */
const LEFT_OUT: ReadonlySet<string> = new Set(['channels', 'adapters', 'crews', 'store', '$schema']);

function privateConfig({ primary, reviewer }: ReviewCall, file: string | null): object {
  const fileValue: unknown = file === null ? {} : parse(readFileSync(file, 'utf8'));
  const settings = Object.entries(z.looseObject({}).parse(fileValue)).filter(([key]) => !LEFT_OUT.has(key));
  return { ...Object.fromEntries(settings), channels: [{ id: PRIVATE_CHANNEL, agents: [primary, reviewer] }] };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return typeof address === 'object' && address !== null ? address.port : 0;
}
