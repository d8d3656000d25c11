import { statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { NewMessage, Platform } from '../../../src/adapters/console/platform.ts';
import { CHANNEL, newFolder, OTHER, ownMessages } from './fakes.ts';

const START = 1_700_000_000_000;

function open(): Platform {
  return ownMessages(':memory:', { now: () => START }).platform;
}

function inFile(folder: string, at = START) {
  return ownMessages(join(folder, 'conch.db'), { now: () => at });
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
    const platform = open();
    const { message, isNew } = await platform.add(written('a', { replyTo: '7' }));
    expect(isNew).toBe(true);
    expect(platform.message(CHANNEL, message.id)).toEqual(message);
    expect(message).toMatchObject({
      text: 'text of a',
      sentAt: START,
      edited: false,
      receipts: [],
      replyTo: '7',
      key: 'a',
    });
  });

  test('ids begin at the current time, so a new file after a loss repeats no id', async () => {
    const platform = open();
    const { message } = await platform.add(written('a'));
    expect(Number(message.id)).toBeGreaterThan(START);
  });
});

describe('a store with messages', () => {
  test('a second post with the same outbox id is the first one', async () => {
    const platform = open();
    const first = await platform.add(said('outbox 1'));
    const second = await platform.add({ ...said('outbox 1'), text: 'another text' });
    expect(second).toEqual({ message: first.message, isNew: false });
    expect(platform.before(CHANNEL, 10)).toHaveLength(1);
    expect(platform.byNonce('outbox 1')?.id).toBe(first.message.id);
    expect(platform.byNonce('outbox 2')).toBeNull();
  });

  test('two messages with the same key at the same moment are stored once', async () => {
    const platform = open();
    const both = await Promise.all([platform.add(written('a')), platform.add(written('a'))]);
    expect(both.map((one) => one.isNew)).toEqual([true, false]);
    expect(both[0].message.id).toBe(both[1].message.id);
  });

  test('a restart keeps all messages, also those that waited for their commit, and repeats no id', async () => {
    const folder = newFolder();
    const { platform, store } = inFile(folder);
    const both = [platform.add(written('a')), platform.add(said('b'))];
    await store.close();
    const [, second] = await Promise.all(both);
    const again = inFile(folder, START - 60_000);
    expect(again.platform.before(CHANNEL, 10).map((message) => message.text)).toEqual(['text of a', 'text of b']);
    expect((await again.platform.add(written('a'))).isNew).toBe(false);
    expect((await again.platform.add(written('c'))).message.seq).toBeGreaterThan(second?.message.seq ?? 0);
    await again.store.close();
  });

  test('pages before and after a message are read, each oldest first', async () => {
    const platform = open();
    const seqs: number[] = [];
    for (const nonce of ['a', 'b', 'c', 'd']) seqs.push((await platform.add(written(nonce))).message.seq);
    await platform.add(written('elsewhere', { channel: OTHER }));
    const keys = (messages: readonly { key: string | null }[]) => messages.map((message) => message.key);
    expect(keys(platform.before(CHANNEL, 2))).toEqual(['c', 'd']);
    expect(keys(platform.before(CHANNEL, 2, seqs[2]))).toEqual(['a', 'b']);
    expect(keys(platform.after(CHANNEL, 2, seqs[0] ?? 0))).toEqual(['b', 'c']);
  });

  test("people's messages after a position exclude agents' and deleted messages", async () => {
    const platform = open();
    const { message: first } = await platform.add(written('a'));
    await platform.add(said('b'));
    const { message: gone } = await platform.add(written('c'));
    await platform.add(written('d'));
    await platform.remove(CHANNEL, gone.id);
    expect(platform.personMessages(CHANNEL, 10, first.seq).map((message) => message.key)).toEqual(['d']);
    await platform.add(written('e'));
    expect(platform.personMessages(CHANNEL, 2, 0).map((message) => message.key)).toEqual(['d', 'e']);
  });

  test("an edit marks a person's message as edited, but not an announcement", async () => {
    const platform = open();
    const { message } = await platform.add(written('a'));
    const { message: notice } = await platform.add(written('b', { kind: 'system' }));
    expect(await platform.edit(CHANNEL, message.id, 'new')).toMatchObject({ text: 'new', edited: true });
    expect(await platform.edit(CHANNEL, notice.id, 'again (×2)')).toMatchObject({ text: 'again (×2)', edited: false });
    expect(await platform.edit(OTHER, message.id, 'new')).toBeNull();
  });

  test('each receipt is stored once, in order', async () => {
    const platform = open();
    const { message } = await platform.add(written('a'));
    await platform.receipt(CHANNEL, message.id, 'held');
    await platform.receipt(CHANNEL, message.id, 'done');
    expect((await platform.receipt(CHANNEL, message.id, 'held'))?.receipts).toEqual(['held', 'done']);
  });

  test('a message that cannot be stored fails alone, and the store continues', async () => {
    const platform = open();
    const broken = { ...written('a'), text: null } as unknown as NewMessage;
    await expect(platform.add(broken)).rejects.toThrow('NOT NULL');
    expect((await platform.add(written('b'))).isNew).toBe(true);
  });
});

describe('a file with messages', () => {
  test('is readable by its owner only, and verify detects a message changed from outside', async () => {
    const folder = newFolder();
    const { platform, store } = inFile(folder);
    const { message } = await platform.add(written('a'));
    await platform.edit(CHANNEL, message.id, 'better');
    await platform.receipt(CHANNEL, message.id, 'held');
    await platform.remove(CHANNEL, (await platform.add(said('b'))).message.id);
    expect(store.verify()).toEqual([]);
    expect(statSync(join(folder, 'conch.db')).mode & 0o777).toBe(0o600);
    store.tables.db.exec("UPDATE conversation SET text = 'forged' WHERE nonce = 'a'");
    expect(store.verify()).toEqual(['conversation: a row does not match its checksum']);
    await store.close();
  });
});
