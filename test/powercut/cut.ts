import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { open } from '../engine/sqlite/fixture.ts';
import type { Random } from '../sim/random.ts';
import type { DiskEvent } from './recording.ts';

type Change = Extract<DiskEvent, { did: 'write' | 'truncate' }>;
type File = { readonly durable: Content; pending: Change[]; isNamed: boolean; isGone: boolean };

/** The size of a disk sector in bytes. A disk writes a sector completely or not at all. */
const SECTOR = 512;

/** The files of a folder on a disk: their synced contents, and writes that may be lost. */
export class Disk {
  readonly #files = new Map<string, File>();

  take(event: DiskEvent): void {
    switch (event.did) {
      case 'tell':
        return;
      case 'create':
        this.#file(event.file).isGone = false;
        return;
      case 'unlink':
        this.#file(event.file).isGone = true;
        return;
      case 'write':
      case 'truncate':
        this.#file(event.file).pending.push(event);
        return;
      case 'sync':
        return this.#sync(event.file);
    }
  }

  /** The files after a power cut. Any unsynced write may be lost. */
  left(random: Random): ReadonlyMap<string, Buffer> {
    const fate = random.pick([0, 0.5, 0.5, 0.9, 1]);
    const found = new Map<string, Buffer>();
    for (const [path, { durable, pending, isNamed, isGone }] of this.#files) {
      const isThere = isGone ? random.chance(0.5) : isNamed || random.chance(fate);
      if (!isThere) continue;
      const content = new Content(durable.bytes);
      for (const change of pending) if (random.chance(fate)) content.take(torn(change, random));
      found.set(path, content.bytes);
    }
    return found;
  }

  #sync(path: string): void {
    for (const [name, file] of this.#files) {
      if (dirname(name) === path) file.isNamed = true;
      if (dirname(name) === path && file.isGone) this.#files.delete(name);
      if (name === path) for (const change of file.pending.splice(0)) file.durable.take(change);
    }
  }

  #file(path: string): File {
    const known = this.#files.get(path);
    if (known !== undefined) return known;
    const file = { durable: new Content(), pending: [], isNamed: false, isGone: false };
    this.#files.set(path, file);
    return file;
  }
}

/** The bytes of a file. */
class Content {
  #room: Buffer;
  #size: number;

  constructor(bytes: Buffer = Buffer.alloc(0)) {
    this.#room = Buffer.from(bytes);
    this.#size = bytes.length;
  }

  get bytes(): Buffer {
    return this.#room.subarray(0, this.#size);
  }

  take(change: Change): void {
    const end = change.did === 'truncate' ? change.size : change.offset + change.bytes.length;
    if (end > this.#room.length) this.#room = Buffer.concat([this.bytes, Buffer.alloc(2 * end - this.#size)]);
    if (end > this.#size) this.#room.fill(0, this.#size, end);
    this.#size = change.did === 'truncate' ? end : Math.max(this.#size, end);
    if (change.did === 'write') change.bytes.copy(this.#room, change.offset);
  }
}

/** In one of five writes, only some sectors reach the disk. Sectors count from the start of the file. */
function torn(change: Change, random: Random): Change {
  if (change.did === 'truncate' || !random.chance(0.2)) return change;
  const end = change.offset + change.bytes.length;
  const first = Math.floor(change.offset / SECTOR);
  const sectors = Math.ceil(end / SECTOR) - first;
  const cut = Math.max(change.offset, Math.min(end, (first + random.between(0, sectors)) * SECTOR));
  if (random.chance(0.5)) return { ...change, bytes: change.bytes.subarray(0, cut - change.offset) };
  return { ...change, offset: cut, bytes: change.bytes.subarray(cut - change.offset) };
}

/** Opens the files after a power cut as a new start does. Returns faults. `told`: the answers before the cut. */
export async function problemsAfter(
  left: ReadonlyMap<string, Buffer>,
  told: readonly string[],
  folder: string,
): Promise<readonly string[]> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const [path, bytes] of left) writeFileSync(join(folder, basename(path)), bytes);
  try {
    return await problemsIn(join(folder, 'conch.db'), told);
  } catch (error) {
    return [`it cannot be opened: ${error instanceof Error ? error.message : String(error)}`];
  }
}

async function problemsIn(path: string, told: readonly string[]): Promise<readonly string[]> {
  const store = open(path);
  await store.recover();
  const lost = told.flatMap((line) => {
    const [, what, key = '', count] = line.split(' ');
    if (what === 'message') return store.message(key)?.fate == null ? [`lost: ${line}`] : [];
    return (store.floors.state(key)?.lines ?? 0) < Number(count) ? [`lost: ${line}`] : [];
  });
  const found = [...lost, ...store.verify()];
  await store.close();
  return found;
}
