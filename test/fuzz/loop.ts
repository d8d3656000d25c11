import { randomOf } from '../kill/random.ts';
import type { Input } from './bytes.ts';
import { DOORS } from './doors.ts';
import type { Door } from './doors.ts';
import { setStage } from './stage.ts';
import type { Stage } from './stage.ts';
import { fallSilent } from './wire.ts';

/** The plan of a run. It ends after `inputs` inputs or `limitMs` milliseconds, whichever is first. */
export type Plan = {
  readonly seed: number;
  /** The number of the first input. A later number repeats a finding alone. */
  readonly first?: number;
  readonly inputs: number;
  readonly limitMs: number;
  /** The names of the doors to try. Default: all. */
  readonly doors?: readonly string[];
};

/** A failure that no input may cause. */
export type CheckResult = {
  readonly kind: 'crash' | 'hang';
  readonly why: string;
  /** The last inputs before the failure, in order. One of them caused it. */
  readonly after: readonly Attempt[];
};

/** An input with its number. */
export type Attempt = { readonly number: number; readonly door: string; readonly bytes: string };

/** The result. `sent`: inputs that reached each door. `faults`: logged faults that the program survived. */
export type Report = {
  readonly sent: Readonly<Record<string, number>>;
  readonly findings: readonly CheckResult[];
  readonly faults: readonly string[];
};

/** The number of last inputs that are reported with a crash. */
const SUSPECTS = 6;
const CHECK_EVERY = 40;
const MOST_FINDINGS = 20;
/** The extra time that a busy machine gets to disconnect a silent caller. */
const LATE_MS = 5_000;
const LONGEST_SHOWN = 2_000;

/** Sends seeded inputs to the doors of the real program, one after the other, until the plan or `signal` ends it. */
export async function fuzz(
  { seed, first = 0, inputs, limitMs, doors: names }: Plan,
  signal?: AbortSignal,
): Promise<Report> {
  const doors = DOORS.filter(({ name }) => names?.includes(name) ?? true);
  const stage = await setStage();
  const run = new Run(stage, doors);
  try {
    const end = performance.now() + limitMs;
    const isOver = (): boolean => performance.now() >= end || run.isEnough || signal?.aborted === true;
    run.fallSilent();
    for (let number = first; number < first + inputs && !isOver(); number += 1) await run.attempt(number, seed);
    run.checkSilent();
    await run.check(doors);
    return { sent: Object.fromEntries(run.sent), findings: run.findings, faults: stage.faults() };
  } finally {
    await stage.stop();
  }
}

type Silent = { readonly name: string; readonly until: number; readonly isGone: () => boolean };

class Run {
  readonly sent: Map<string, number>;
  readonly findings: CheckResult[] = [];
  readonly #stage: Stage;
  readonly #doors: readonly Door[];
  readonly #silent: Silent[] = [];
  #recent: Attempt[] = [];

  constructor(stage: Stage, doors: readonly Door[]) {
    this.#stage = stage;
    this.#doors = doors;
    this.sent = new Map(doors.map(({ name }) => [name, 0]));
  }

  get isEnough(): boolean {
    return this.findings.length >= MOST_FINDINGS;
  }

  async attempt(number: number, seed: number): Promise<void> {
    const door = this.#doors[number % this.#doors.length]!;
    const random = randomOf(Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b));
    const input = door.input(random, this.#stage);
    this.#recent = [...this.#recent.slice(1 - SUSPECTS), { number, door: door.name, bytes: shown(input) }];
    const outcome = await door.send(this.#stage, input, random);
    if (outcome !== 'absent') this.sent.set(door.name, (this.sent.get(door.name) ?? 0) + 1);
    if (outcome === 'silent') this.#found('hang', `${door.name} neither answered nor closed`);
    await this.#revived();
    if (Math.floor(number / this.#doors.length) % CHECK_EVERY === CHECK_EVERY - 1) await this.check([door]);
  }

  /** Opens a silent caller at each door with a limit of silence. */
  fallSilent(): void {
    for (const { name, silence } of this.#doors) {
      const port = silence?.port(this.#stage) ?? null;
      if (silence === undefined || port === null) continue;
      this.#silent.push({ name, until: performance.now() + silence.ms, isGone: fallSilent(port) });
    }
  }

  /** Silent callers beyond their limit were disconnected. */
  checkSilent(): void {
    const now = performance.now();
    for (const { name, until, isGone } of this.#silent.splice(0)) {
      if (!isGone() && now > until + LATE_MS) this.#found('hang', `${name} keeps a caller that fell silent`);
    }
  }

  /** Every door answers a well-formed request. */
  async check(doors: readonly Door[]): Promise<void> {
    for (const door of doors) {
      if (!(await door.answers(this.#stage))) {
        const fell = await this.#revived();
        if (!fell) this.#found('hang', `${door.name} does not answer a well-formed request`);
      }
    }
    await this.#revived();
  }

  async #revived(): Promise<boolean> {
    const why = this.#stage.fallen();
    if (why === null) return false;
    this.#silent.length = 0;
    this.#found('crash', why);
    await this.#stage.revive();
    return true;
  }

  #found(kind: CheckResult['kind'], why: string): void {
    this.findings.push({ kind, why, after: this.#recent });
  }
}

/** Returns the bytes as readable text that can be copied. */
function shown({ pieces, end }: Input): string {
  const texts = pieces.map((piece) => JSON.stringify(piece.subarray(0, LONGEST_SHOWN).toString('latin1')));
  return `${texts.join(' + ')}, then ${end}`;
}
