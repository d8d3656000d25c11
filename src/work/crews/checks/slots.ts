import { createServer } from 'node:net';
import { lockInstance } from '../../../engine/lock.ts';
import type { FileLock } from '../../../engine/lock.ts';
import { shortDigest } from '../../../lib/digest.ts';
import { RUN_MARK } from '../../../lib/marked-processes.ts';
import type { Assigned } from '../crew.ts';

const PORTS = 20;
/** The ports of all slots are in this range. Outgoing connections use higher ports: by default from 32,768 on Linux. */
const FIRST_PORT = 12_000;
const LAST_PORT = 32_767;
const BLOCKS = Math.floor((LAST_PORT - FIRST_PORT) / PORTS);
/** The first slot in which main is tested. The slots of workers are lower. */
export const FIRST_BASE_SLOT = 1_000;
/** The number of slots in which main can be tested. */
export const BASE_SLOTS = 10;

/** Where a command runs: its slot, and the session's id in the `CONCH_RUN` variable of its processes. */
export type RunPlace = Pick<Assigned, 'slot' | 'session'>;

/** Replaces the session's id in the `CONCH_RUN` variable of processes that test main. */
export const BASE_RUN = 'main';

/**
 * Returns the environment variables for a command: those of its slot, and `CONCH_RUN`, by which Conch finds its
 * processes. `marks`: the prefix of `CONCH_RUN` for all processes of the crew.
 */
export function runEnvironment(crew: { readonly id: string; readonly marks: string }, { slot, session }: RunPlace) {
  return { ...slotEnvironment(crew.id, slot), [RUN_MARK]: `${crew.marks}${session}` };
}

/** The environment variables of a slot, which keep ports, databases and containers of different slots apart. */
export function slotEnvironment(crew: string, slot: number) {
  const name = `${crew.toLowerCase().replaceAll(/[^a-z0-9]+/g, '_')}_${shortDigest(crew).slice(0, 4)}_${slot}`;
  return {
    CONCH_SLOT: String(slot),
    CONCH_PORT_BASE: String(portBase(crew, slot)),
    CONCH_DB_SUFFIX: `_${name}`,
    COMPOSE_PROJECT_NAME: `conch_${name}`,
  };
}

function portBase(crew: string, slot: number): number {
  const first = Number.parseInt(shortDigest(crew).slice(0, 8), 16) % BLOCKS;
  return FIRST_PORT + ((first + slot) % BLOCKS) * PORTS;
}

/** The slots that a crew has taken. Lock files in the temporary folder keep other crews from the slots' ports. */
export class TakenSlots {
  readonly #crew: string;
  readonly #locks = new Map<number, FileLock>();

  constructor(crew: string) {
    this.#crew = crew;
  }

  /** Takes a slot. Resolves with false when its ports cannot be locked, or a program uses one of them. */
  async take(slot: number): Promise<boolean> {
    if (!this.keep(slot)) return false;
    if ((await portsInUse(this.#crew, slot)).length === 0) return true;
    this.giveBack(slot);
    return false;
  }

  /**
   * Takes a slot, also when programs such as its worker's use the ports. Returns false when the ports cannot be locked.
   */
  keep(slot: number): boolean {
    const lock = this.#locks.get(slot) ?? lockPorts(portBase(this.#crew, slot));
    if (lock !== null) this.#locks.set(slot, lock);
    return lock !== null;
  }

  giveBack(slot: number): void {
    this.#locks.get(slot)?.release();
    this.#locks.delete(slot);
  }

  giveAllBack(): void {
    for (const slot of this.#locks.keys()) this.giveBack(slot);
  }
}

function lockPorts(first: number): FileLock | null {
  try {
    return lockInstance(`ports from ${first}`);
  } catch {
    return null;
  }
}

/** The ports of a slot that cannot be opened on 127.0.0.1 now. */
export async function portsInUse(crew: string, slot: number): Promise<readonly number[]> {
  const base = portBase(crew, slot);
  const ports = Array.from({ length: PORTS }, (_, index) => base + index);
  const free = await Promise.all(ports.map(isFree));
  return ports.filter((_, index) => free[index] === false);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}
