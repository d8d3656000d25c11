import { execFile } from 'node:child_process';
import { setPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { Clock, Instant, Timer, Timers } from '../lib/time.ts';
import type { FloorStore, StoredTexts } from '../turns/floor-store.ts';
import type { Log } from './log.ts';

/** A check of the database that runs in another process. */
export type CheckUnderWay = {
  /** The problems, one sentence each. Rejects when the check itself failed. */
  readonly problems: Promise<readonly string[]>;
  readonly stop: () => void;
};

/** Dependencies of checks of the database. */
export type BackgroundCheckParts = {
  readonly path: string;
  readonly store: Pick<FloorStore, 'endedWell'> & { readonly keyValues: Pick<StoredTexts, 'recall' | 'remember'> };
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  /** Starts a check; default: in a process of its own. */
  readonly examine?: (path: string) => CheckUnderWay;
};

type LastCheck = { readonly at: Instant; readonly problems: readonly string[] };

const lastCheck = z.object({ at: z.number(), problems: z.array(z.string()) });

/** The owner and the name under which the result of the last check of the database is stored. */
export const CHECKED = { owner: 'conch', name: 'checked' } as const;

/** The shortest time from the start of Conch to the first check, and the time between two checks, in milliseconds. */
const FIRST_MS = 10_000;
const EVERY_MS = 7 * 86_400_000;

/** The most problems that are stored and logged. */
const MOST_PROBLEMS = 20;

/**
 * Checks the rows of the whole database while Conch runs, a week after each check. Checks soon after a start when Conch
 * had crashed, when the last check found problems, or when there was none. Logs up to `MOST_PROBLEMS` problems as
 * errors.
 */
export class BackgroundCheck {
  readonly #parts: BackgroundCheckParts;
  #timer: Timer | null = null;
  #isOver = false;
  #running: CheckUnderWay | null = null;
  #isDamaged: boolean;

  constructor(parts: BackgroundCheckParts) {
    this.#parts = parts;
    this.#isDamaged = (readLastCheck(parts.store.keyValues)?.problems.length ?? 0) > 0;
  }

  /** Whether the last check found problems. */
  get isDamaged(): boolean {
    return this.#isDamaged;
  }

  start(): void {
    const { store, clock } = this.#parts;
    const last = readLastCheck(store.keyValues);
    const isDue = !store.endedWell || this.#isDamaged || last === null;
    const holdsMs = isDue ? 0 : last.at + EVERY_MS - clock.now();
    this.#after(Math.max(FIRST_MS, holdsMs));
  }

  stop(): void {
    this.#isOver = true;
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
    const all = await running.problems;
    if (this.#running !== running) return;
    this.#running = null;
    const problems = all.slice(0, MOST_PROBLEMS);
    this.#isDamaged = problems.length > 0;
    for (const problem of problems) log.error({ file: path, problem }, DAMAGED);
    if (problems.length === 0) log.info({ file: path }, 'the database was checked and is whole');
    await store.keyValues.remember(CHECKED.owner, CHECKED.name, JSON.stringify({ at: clock.now(), problems }));
    if (!this.#isOver) this.#after(EVERY_MS);
  }

  #failed(error: unknown): void {
    if (this.#running === null && this.#timer === null) return;
    this.#running = null;
    this.#parts.log.warn({ file: this.#parts.path, err: error }, 'the database could not be checked');
    this.#after(EVERY_MS);
  }
}

/** The result of the last check of the database; `null` when there was none. */
export function readLastCheck(texts: Pick<StoredTexts, 'recall'>): LastCheck | null {
  const storedCheck = texts.recall(CHECKED.owner, CHECKED.name);
  return storedCheck === null ? null : lastCheck.parse(JSON.parse(storedCheck));
}

const DAMAGED =
  'the database is damaged: end Conch and restore the last backup (conch restore), or ask for help with this line';

const LAUNCHER = fileURLToPath(new URL('../conch.js', import.meta.url));

const verdict = z.object({ problems: z.array(z.string()) });

/** The lowest priority of a process. */
const LEAST_URGENT = 19;

function examineApart(path: string): CheckUnderWay {
  const { promise, resolve, reject } = Promise.withResolvers<readonly string[]>();
  const args = [LAUNCHER, 'verify', path, '--json', '--background'];
  const child = execFile(process.execPath, args, { encoding: 'utf8', maxBuffer: 2 ** 26 }, (error, out) => {
    try {
      resolve(verdict.parse(JSON.parse(out)).problems);
    } catch {
      reject(error ?? new Error('conch verify gave no result that can be read'));
    }
  });
  if (child.pid !== undefined) setPriority(child.pid, LEAST_URGENT);
  return { problems: promise, stop: () => void child.kill('SIGKILL') };
}
