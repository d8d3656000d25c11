import { existsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import Database from 'better-sqlite3';
import { openPlatform } from '../../../src/adapters/console/platform.ts';
import type { NewMessage, Platform } from '../../../src/adapters/console/platform.ts';
import { CHANNEL, newFolder, OTHER } from './fakes.ts';

const START = 1_700_000_000_000;

function open(folder: string, at = START): Platform {
  return openPlatform({ path: join(folder, 'console.db'), clock: { now: () => at } });
}

function written(nonce: string, change: Partial<NewMessage> = {}): NewMessage {
  const speaker = { id: 'console:you', name: 'You', avatar: null };
  return {
    channel: CHANNEL,
    kind: 'person',
    speaker,
    text: `text of ${nonce}`,
    epoch: null,
    replyTo: null,
    nonce,
    ...change,
  };
}

function said(nonce: string): NewMessage {
  return written(nonce, { kind: 'agent', speaker: { id: 'dev', name: 'dev', avatar: null }, epoch: 3 });
}

describe('an empty store', () => {
  test('a message is stored with the time of the clock and read back as it was', async () => {
    const platform = open(newFolder());
    const { message, fresh } = await platform.add(written('a', { replyTo: '7' }));
    expect(fresh).toBe(true);
    expect(platform.message(CHANNEL, message.id)).toEqual(message);
    expect(message).toMatchObject({
      text: 'text of a',
      sentAt: START,
      edited: false,
      receipts: [],
      replyTo: '7',
      key: 'a',
    });
    platform.close();
  });

  test('ids begin at the present instant, so a lost file never gives an id again', async () => {
    const platform = open(newFolder());
    const { message } = await platform.add(written('a'));
    expect(Number(message.id)).toBeGreaterThan(START);
    platform.close();
  });

  test('it syncs every commit', async () => {
    const folder = newFolder();
    const platform = open(folder);
    await platform.add(written('a'));
    expect(existsSync(join(folder, 'console.db-wal'))).toBe(true);
    expect(statSync(join(folder, 'console.db-wal')).size).toBeGreaterThan(0);
    platform.close();
  });
});

describe('a store with messages', () => {
  test('a second post with the same outbox id is the first one', async () => {
    const platform = open(newFolder());
    const first = await platform.add(said('outbox 1'));
    const second = await platform.add({ ...said('outbox 1'), text: 'another text' });
    expect(second).toEqual({ message: first.message, fresh: false });
    expect(platform.before(CHANNEL, 10)).toHaveLength(1);
    expect(platform.byNonce('outbox 1')?.id).toBe(first.message.id);
    expect(platform.byNonce('outbox 2')).toBeNull();
    platform.close();
  });

  test('two with the same key at the same moment are one', async () => {
    const platform = open(newFolder());
    const both = await Promise.all([platform.add(written('a')), platform.add(written('a'))]);
    expect(both.map((one) => one.fresh)).toEqual([true, false]);
    expect(both[0].message.id).toBe(both[1].message.id);
    platform.close();
  });

  test('a restart keeps everything, also what was waiting for its commit', async () => {
    const folder = newFolder();
    const platform = open(folder);
    const first = platform.add(written('a'));
    const second = platform.add(said('b'));
    platform.close();
    await Promise.all([first, second]);
    const again = open(folder);
    expect(again.before(CHANNEL, 10).map((message) => message.text)).toEqual(['text of a', 'text of b']);
    expect((await again.add(written('a'))).fresh).toBe(false);
    again.close();
  });

  test('pages go back from a message and on from one, oldest first', async () => {
    const platform = open(newFolder());
    const seqs: number[] = [];
    for (const nonce of ['a', 'b', 'c', 'd']) seqs.push((await platform.add(written(nonce))).message.seq);
    await platform.add(written('elsewhere', { channel: OTHER }));
    const keys = (messages: readonly { key: string | null }[]) => messages.map((message) => message.key);
    expect(keys(platform.before(CHANNEL, 2))).toEqual(['c', 'd']);
    expect(keys(platform.before(CHANNEL, 2, seqs[2]))).toEqual(['a', 'b']);
    expect(keys(platform.after(CHANNEL, 2, seqs[0] ?? 0))).toEqual(['b', 'c']);
    platform.close();
  });

  test('what people wrote after a message leaves out agents and what was taken back', async () => {
    const platform = open(newFolder());
    const { message: first } = await platform.add(written('a'));
    await platform.add(said('b'));
    const { message: gone } = await platform.add(written('c'));
    await platform.add(written('d'));
    await platform.remove(CHANNEL, gone.id);
    expect(platform.written(CHANNEL, 10, first.seq).map((message) => message.key)).toEqual(['d']);
    platform.close();
  });

  test('an edited text is marked when a person edits, not when an announcement recurs', async () => {
    const platform = open(newFolder());
    const { message } = await platform.add(written('a'));
    const { message: notice } = await platform.add(written('b', { kind: 'system' }));
    expect(await platform.edit(CHANNEL, message.id, 'new')).toMatchObject({ text: 'new', edited: true });
    expect(await platform.edit(CHANNEL, notice.id, 'again (×2)')).toMatchObject({ text: 'again (×2)', edited: false });
    expect(await platform.edit(OTHER, message.id, 'new')).toBeNull();
    platform.close();
  });

  test('a receipt is kept once, in the order in which they came', async () => {
    const platform = open(newFolder());
    const { message } = await platform.add(written('a'));
    await platform.receipt(CHANNEL, message.id, 'held');
    await platform.receipt(CHANNEL, message.id, 'done');
    expect((await platform.receipt(CHANNEL, message.id, 'held'))?.receipts).toEqual(['held', 'done']);
    platform.close();
  });

  test('one that cannot be stored fails alone with its commit and the store goes on', async () => {
    const platform = open(newFolder());
    const broken = { ...written('a'), text: null } as unknown as NewMessage;
    await expect(platform.add(broken)).rejects.toThrow('NOT NULL');
    expect((await platform.add(written('b'))).fresh).toBe(true);
    platform.close();
  });
});

describe('a file that cannot be read', () => {
  test('a damaged one is refused in one line that names it', () => {
    const folder = newFolder();
    writeFileSync(join(folder, 'console.db'), 'this is no database at all, whatever its name says'.repeat(100));
    expect(() => open(folder)).toThrow(/console\.db cannot be read: .*Move the file away or restore a copy\.$/);
  });

  test('one of a newer Conch is refused', () => {
    const folder = newFolder();
    open(folder).close();
    const database = new Database(join(folder, 'console.db'));
    database.pragma('user_version = 99');
    database.close();
    expect(() => open(folder)).toThrow('newer Conch');
  });
});
