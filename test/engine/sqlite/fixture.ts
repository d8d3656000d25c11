import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from '../../../src/turns/floor/command.ts';
import { PLAIN_SETTINGS } from '../../../src/turns/floor/floor.ts';
import { canonical } from '../../../src/engine/canonical.ts';
import type { DiskSync } from '../../../src/engine/sqlite/commits.ts';
import type { HumanMessage } from '../../../src/engine/port.ts';
import { floorWithWork } from '../../../src/work/floor-with-work.ts';
import { openFloorStore } from '../../../src/turns/floor-store.ts';
import type { FloorStore, FloorStoreOptions } from '../../../src/turns/floor-store.ts';

export const AT = 1_700_000_000_000;
export const AGENTS = ['pm', 'dev', 'qa'] as const;

/** A disk without delay, for tests that do not depend on syncs. */
const QUICK_DISK: DiskSync = { sync: () => null, close: () => undefined };

/** Options of a store whose posts have at most 40 characters, and whose announcements show only their kind. */
export function options(path: string, changes: Partial<FloorStoreOptions> = {}): FloorStoreOptions {
  return {
    path,
    machine: floorWithWork,
    clock: { now: () => AT },
    disk: QUICK_DISK,
    salts: () => 'salt',
    textLimit: () => 40,
    words: (announcement, _channel, repeat) => `${announcement.kind} ${repeat}`,
    ...changes,
  };
}

export function open(path = ':memory:', changes: Partial<FloorStoreOptions> = {}): FloorStore {
  return openFloorStore(options(path, changes));
}

/** Makes a folder. `dispose` deletes it. */
export function folder(): {
  readonly path: string;
  readonly file: (name?: string) => string;
  [Symbol.dispose](): void;
} {
  const path = mkdtempSync(join(tmpdir(), 'conch-store-'));
  return {
    path,
    file: (name = 'conch.db') => join(path, name),
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}

export function written(id: string, text = `text of ${id}`, channel = 'test:one'): HumanMessage {
  return {
    id,
    channel,
    author: { id: 'u1', name: 'Ada' },
    text,
    sentAt: AT,
    order: id.replace(/\D/gu, ''),
    addressed: [],
    attachments: [],
  };
}

/** The commands after which pm, dev and qa are QUEUED at a resting floor. */
export function seating(): readonly Command[] {
  const seats = AGENTS.map((agent) => ({ agent, priority: 5, timeoutMs: 60_000, rejoin: 'manual' as const }));
  const configure: Command = { type: 'configure', settings: PLAIN_SETTINGS, seats };
  return [configure, ...AGENTS.map((agent): Command => ({ type: 'join', agent }))];
}

export async function seat(store: FloorStore, channel = 'test:one'): Promise<void> {
  for (const command of seating()) await store.floors.apply(channel, command, AT);
}

/** Accepts a message of a person and gives it to its floor. */
export async function write(store: FloorStore, id: string, text?: string, channel = 'test:one'): Promise<void> {
  await store.accept(written(id, text, channel));
  await store.floors.apply(channel, { type: 'receive', id, addressed: [] }, AT);
}

/** Lets the holder say a text and ends its turn. */
export async function turn(store: FloorStore, text: string, channel = 'test:one'): Promise<void> {
  const held = store.floors.state(channel)?.turn;
  if (held === null || held === undefined) throw new Error('nobody holds the floor');
  const { agent, epoch } = held;
  await store.floors.apply(channel, { type: 'say', agent, epoch, text, mentions: [] }, AT);
  await store.floors.apply(channel, { type: 'end', agent, epoch, outcome: 'completed', signalled: true }, AT);
}

/** All data of a store as one text. */
export function everything(store: FloorStore, messages: readonly string[]): string {
  const channels = store.floors.keys().map((channel) => ({
    floor: store.floors.state(channel),
    journal: store.floors.journal(channel, 10_000),
    lines: store.lines(channel, 0, 10_000),
  }));
  const inbox = messages.map((id) => ({ row: store.message(id), why: store.why(id) }));
  return canonical({ channels, inbox });
}
