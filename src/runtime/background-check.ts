import { execFile } from 'node:child_process';
import { setPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { Clock, Instant, Timer, Timers } from '../lib/time.ts';
import type { FloorStore, KeptTexts } from '../turns/floor-store.ts';
import type { Log } from './log.ts';

/** A check under way in another process. */
export type CheckUnderWay = {
  /** What is wrong, one sentence per problem. Rejects when the check itself failed. */
  readonly found: Promise<readonly string[]>;
  /** Ends it at once. */
  readonly stop: () => void;
};

/** What checks of the whole database need. */
export type BackgroundCheckParts = {
  readonly path: string;
  readonly store: Pick<FloorStore, 'endedWell'> & { readonly keyValues: Pick<KeptTexts, 'recall' | 'remember'> };
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  /** Starts a check; by a process of its own unless told. */
  readonly examine?: (path: string) => CheckUnderWay;
};

/** What the last check of a database found, as it is kept in it. */
type LastCheck = { readonly at: Instant; readonly problems: readonly string[] };

const lastCheck = z.object({ at: z.number(), problems: z.array(z.string()) });

/** Under which names it is kept. */
export const CHECKED = { owner: 'conch', name: 'checked' } as const;

/** How long after the start a check begins, so that a start has the machine to itself, and how long one holds. */
const FIRST_MS = 10_000;
const EVERY_MS = 7 * 86_400_000;

/** The most problems that are kept and logged one by one. */
const MOST_PROBLEMS = 20;

/**
 * Checks the whole database beside the running program: soon after a start that followed no end in good order, or a check that
 * found something, and else once a week. What it finds is an error in the log, and stands until a check finds nothing.
 */
export class BackgroundCheck {
  readonly #parts: BackgroundCheckParts;
  #timer: Timer | null = null;
  #running: CheckUnderWay | null = null;
  #isDamaged: boolean;

  constructor(parts: BackgroundCheckParts) {
    this.#parts = parts;
    this.#isDamaged = (this.#last()?.problems.length ?? 0) > 0;
  }

  /** Whether the last check found something. */
  get isDamaged(): boolean {
    return this.#isDamaged;
  }

  start(): void {
    const { store, clock } = this.#parts;
    const last = this.#last();
    const isDue = !store.endedWell || this.#isDamaged || last === null;
    const holdsMs = isDue ? 0 : last.at + EVERY_MS - clock.now();
    this.#after(Math.max(FIRST_MS, holdsMs));
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
    const running = this.#running;
    this.#running = null;
    running?.stop();
  }

  #after(ms: number): void {
    this.#timer = this.#parts.timers.after(ms, () => {
      this.#check().catch((error: unknown) => this.#failed(error));
    });
  }

  async #check(): Promise<void> {
    const { path, examine = examineApart, store, clock, log } = this.#parts;
    const running = examine(path);
    this.#running = running;
    const all = await running.found;
    if (this.#running !== running) return;
    this.#running = null;
    const problems = all.slice(0, MOST_PROBLEMS);
    this.#isDamaged = problems.length > 0;
    for (const problem of problems) log.error({ file: path, problem }, DAMAGED);
    if (problems.length === 0) log.info({ file: path }, 'the database was checked and is whole');
    await store.keyValues.remember(CHECKED.owner, CHECKED.name, JSON.stringify({ at: clock.now(), problems }));
    this.#after(EVERY_MS);
  }

  #failed(error: unknown): void {
    if (this.#running === null && this.#timer === null) return;
    this.#running = null;
    this.#parts.log.warn({ file: this.#parts.path, err: error }, 'the database could not be checked');
    this.#after(EVERY_MS);
  }

  #last(): LastCheck | null {
    return readLastCheck(this.#parts.store.keyValues);
  }
}

/** What the last check found; `null` when there was none. */
export function readLastCheck(texts: Pick<KeptTexts, 'recall'>): LastCheck | null {
  const kept = texts.recall(CHECKED.owner, CHECKED.name);
  return kept === null ? null : lastCheck.parse(JSON.parse(kept));
}

const DAMAGED =
  'the database is damaged: end Conch and restore the last backup (conch restore), or ask for help with this line';

const LAUNCHER = fileURLToPath(new URL('../conch.js', import.meta.url));

const verdict = z.object({ problems: z.array(z.string()) });

/** The least urgent work of this machine. */
const LEAST_URGENT = 19;

function examineApart(path: string): CheckUnderWay {
  const { promise, resolve, reject } = Promise.withResolvers<readonly string[]>();
  const args = [LAUNCHER, 'verify', path, '--json', '--background'];
  const child = execFile(process.execPath, args, { encoding: 'utf8', maxBuffer: 2 ** 26 }, (error, out) => {
    try {
      resolve(verdict.parse(JSON.parse(out)).problems);
    } catch {
      reject(error ?? new Error('the check was not understood'));
    }
  });
  if (child.pid !== undefined) setPriority(child.pid, LEAST_URGENT);
  return { found: promise, stop: () => void child.kill('SIGKILL') };
}
