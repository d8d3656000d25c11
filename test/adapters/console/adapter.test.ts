import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ChatMessage, PageFrame, ServerFrame } from '../../../src/adapters/console/protocol.ts';
import { ChatError } from '../../../src/adapters/port.ts';
import type { ChatAdapter, OutgoingPost } from '../../../src/adapters/port.ts';
import { CHANNEL, openPage, OTHER, restingView, stand } from './fakes.ts';
import type { Page, Stand } from './fakes.ts';

const HOLDER = { agent: 'dev', epoch: 2, startedAt: 0, deadlineAt: null, working: false };

let here: Stand;
let page: Page;

beforeEach(async () => {
  here = await stand();
  page = await openPage(here.adapter.accessLink());
});
afterEach(async () => {
  page.close();
  await here.adapter.stop();
});

async function opened(channel = CHANNEL): Promise<Extract<ServerFrame, { type: 'state' }>> {
  page.send({ type: 'open', channel });
  return page.frame('state');
}

function saying(text: string, change: Partial<Extract<PageFrame, { type: 'say' }>> = {}): PageFrame & { key: string } {
  return { type: 'say', channel: CHANNEL, key: crypto.randomUUID(), text, ...change };
}

function posting(outboxId: string, text = 'hello', agent: string | null = 'dev'): OutgoingPost {
  const speaker = agent === null ? null : { id: agent, name: agent, avatar: null };
  return { outboxId, speaker, text, afterId: null, epoch: agent === null ? null : 2 };
}

async function batched(): Promise<readonly ChatMessage[]> {
  return (await page.frame('batch', (frame) => frame.messages.length > 0)).messages;
}

test('a message has no link, as each link to the page gives access', () => {
  // A ticket made of a message stores the message's link in a commit, where others can read it.
  const link = (here.adapter as ChatAdapter).link?.(CHANNEL, '1') ?? null;
  expect([link, here.adapter.accessLink()]).toEqual([null, expect.stringContaining('?key=')]);
});

describe('a person at an open page', () => {
  test('gets the whole state on opening', async () => {
    await here.adapter.post(CHANNEL, posting('1'));
    const state = await opened();
    expect(state.messages.map((message) => message.text)).toEqual(['hello']);
    expect(state).toMatchObject({ channel: CHANNEL, more: false, view: restingView(), turns: [], drafts: [] });
    expect(state.channels).toEqual([
      { id: CHANNEL, name: 'demo', writable: true, holder: null, question: null },
      { id: OTHER, name: 'reviews', writable: false, holder: null, question: null },
    ]);
  });

  test('T45 learns that a request has ended, also one that was open only while the page opened', async () => {
    const isTold = (one: Extract<ServerFrame, { type: 'channels' }>): boolean => one.channels[0]?.question === null;
    await page.frame('channels', isTold);
    const asked = { question: 3, title: 'run the tests', detail: '', shown: true };
    const holder = { ...HOLDER, status: 'WAITING', waitingFor: 'approval', approval: asked } as const;
    here.queries.views.set(CHANNEL, { ...restingView(), holder });
    expect((await opened()).channels[0]?.question).toEqual({ agent: 'dev', id: 'approval:3', title: 'run the tests' });
    here.queries.views.set(CHANNEL, restingView());
    await page.frame('channels', isTold);
  });

  test('gets updates only of other channels whose floor has a holder', async () => {
    await opened();
    await page.frame('channels');
    here.queries.views.set(OTHER, {
      ...restingView(OTHER),
      holder: { ...HOLDER, status: 'ACTIVE', waitingFor: null, approval: null },
    });
    const { channels } = await page.frame('holders');
    expect(channels).toEqual([{ id: OTHER, name: 'reviews', writable: false, holder: 'dev', question: null }]);
  });

  test('a message reaches Conch once and in full, and is confirmed after it is shown', async () => {
    await opened();
    const frame = saying('hello there');
    page.send(frame);
    const [shown] = await batched();
    const { id } = await page.frame('accepted', (one) => one.key === frame.key);
    expect(page.types.slice(-2)).toEqual(['batch', 'accepted']);
    expect(shown).toMatchObject({ id, text: 'hello there', kind: 'person', key: frame.key });
    expect(here.intake.messages).toEqual([
      {
        id,
        channel: CHANNEL,
        author: { id: 'console:you', name: 'You' },
        text: 'hello there',
        sentAt: shown?.sentAt,
        order: id.padStart(16, '0'),
        addressed: [],
        attachments: [],
      },
    ]);
  });

  test('a message that is sent again after a lost connection reaches Conch once', async () => {
    await opened();
    const frame = saying('only once');
    page.send(frame);
    const first = await page.frame('accepted');
    page.close();
    page = await openPage(here.adapter.accessLink());
    await opened();
    page.send(frame);
    const second = await page.frame('accepted');
    expect(second.id).toBe(first.id);
    expect(here.intake.messages).toHaveLength(1);
  });

  test('a reply to an agent addresses it', async () => {
    await opened();
    const replyTo = await here.adapter.post(CHANNEL, posting('1', 'Postgres or SQLite?'));
    page.send(saying('SQLite', { replyTo }));
    await page.frame('accepted');
    expect(here.intake.messages[0]?.addressed).toEqual(['dev']);
  });

  test('messages of one page reach Conch in their order', async () => {
    await opened();
    const texts = Array.from({ length: 50 }, (_, place) => `message ${place}`);
    for (const text of texts) page.send(saying(text));
    for (const _ of texts) await page.frame('accepted');
    expect(here.intake.messages.map((message) => message.text)).toEqual(texts);
    const orders = here.intake.messages.map((message) => message.order);
    expect(orders).toEqual([...orders].sort());
  });

  test('a message that Conch cannot store yet is kept, reported and retried', async () => {
    await opened();
    here.intake.failure = new Error('the disk is full');
    page.send(saying('kept'));
    expect((await page.frame('notice')).text).toContain('the disk is full');
    page.send(saying('after it'));
    await expect.poll(() => here.intake.messages.map((message) => message.text)).toEqual(['kept', 'after it']);
  });

  test('T49 gets a refusal while 500 messages are pending, and loses none of the 500', async () => {
    await opened();
    Object.assign(here.intake, { message: () => new Promise<void>(() => undefined) });
    const texts = Array.from({ length: 500 }, (_, place) => `message ${place}`);
    for (const text of texts) page.send(saying(text));
    for (const _ of texts) await page.frame('accepted');
    const late = saying('one too many');
    page.send(late);
    expect(await page.frame('refused')).toMatchObject({
      key: late.key,
      text: expect.stringContaining('cannot keep up'),
    });
    const { messages } = await opened();
    expect(messages.at(-1)?.text).toBe('message 499');
  });

  test('edits and deletions of own messages reach Conch and the page', async () => {
    await opened();
    page.send(saying('helo'));
    const { id } = await page.frame('accepted');
    page.send({ type: 'edit', channel: CHANNEL, key: crypto.randomUUID(), id, text: 'hello' });
    const edited = await page.frame('batch', (frame) => frame.changed.length > 0);
    expect(edited.changed[0]).toMatchObject({ id, text: 'hello', edited: true });
    page.send({ type: 'delete', channel: CHANNEL, key: crypto.randomUUID(), id });
    const deleted = await page.frame('batch', (frame) => frame.changed[0]?.deleted === true);
    expect(deleted.changed[0]).toMatchObject({ id, text: '' });
    await expect.poll(() => here.intake.changes.map((change) => change.change)).toEqual(['edited', 'deleted']);
  });

  test('a repeated deletion gets the same answer and is done once', async () => {
    await opened();
    page.send(saying('hello'));
    const { id } = await page.frame('accepted');
    for (const key of [crypto.randomUUID(), crypto.randomUUID()]) {
      page.send({ type: 'delete', channel: CHANNEL, key, id });
      expect(await page.frame('accepted', (frame) => frame.key === key)).toMatchObject({ id });
    }
    page.send({ type: 'edit', channel: CHANNEL, key: crypto.randomUUID(), id, text: 'back' });
    expect((await page.frame('refused')).text).toContain('still there');
    expect(here.intake.changes.map((change) => change.change)).toEqual(['deleted']);
  });

  test("an agent's message cannot be changed", async () => {
    await opened();
    const id = await here.adapter.post(CHANNEL, posting('1'));
    page.send({ type: 'edit', channel: CHANNEL, key: crypto.randomUUID(), id, text: 'lies' });
    expect((await page.frame('refused')).text).toContain('your own');
    expect((await opened()).messages[0]?.text).toBe('hello');
  });

  test('a command is answered to this page, with the turn that its button was drawn for', async () => {
    await opened();
    page.send({ type: 'command', channel: CHANNEL, key: crypto.randomUUID(), line: '/floor skip', drawnFor: 'tx.4' });
    expect(await page.frame('answer')).toMatchObject({ ok: true, text: 'Done.' });
    expect(here.intake.commands).toEqual([{ channel: CHANNEL, line: '/floor skip', drawnFor: 'tx.4' }]);
  });
});

describe('bad input', () => {
  test.each([
    ['text over the limit', saying('x'.repeat(16_001)), 'longer than 16,000 characters'],
    ['a megabyte', saying('x'.repeat(1_000_000)), 'longer than 16,000 characters'],
    ['nothing but space', saying(' \n '), 'empty'],
    ['an unknown channel', saying('hi', { channel: 'console:nowhere' }), 'no channel console:nowhere'],
    ['a channel of another platform', saying('hi', { channel: OTHER }), 'is on another platform'],
    ['a frame of no kind', '{"type":"shout"}', 'Reload the page'],
    ['no JSON', 'hello?', 'Reload the page'],
    ['null', 'null', 'Reload the page'],
    ['a key that is no UUID', { ...saying('hi'), key: 'mine' }, 'Reload the page'],
  ])('%s is refused with the reason and not stored, and the connection stays open', async (_name, frame, words) => {
    await opened();
    page.send(frame);
    expect((await page.frame('refused')).text).toContain(words);
    expect(here.intake.messages).toEqual([]);
    expect((await opened()).messages).toEqual([]);
  });

  test('half characters and NULs become replacement characters', async () => {
    await opened();
    page.send(
      String.raw`{"type":"say","channel":"${CHANNEL}","key":"${crypto.randomUUID()}","text":"a\ud800b\u0000c"}`,
    );
    await page.frame('accepted');
    expect(here.intake.messages[0]?.text).toBe('a\uFFFDb\uFFFDc');
  });

  test('a frame over one mebibyte ends only this connection', async () => {
    page.send(saying('x'.repeat(1_100_000)));
    expect(await page.closed).toBe(1009);
    page = await openPage(here.adapter.accessLink());
    expect((await opened()).channel).toBe(CHANNEL);
  });
});

describe('what Conch posts', () => {
  test('a second post with the same outbox id is the first one, and is not shown twice', async () => {
    await opened();
    const first = await here.adapter.post(CHANNEL, posting('1', 'once'));
    expect(await here.adapter.post(CHANNEL, posting('1', 'once'))).toBe(first);
    await here.adapter.post(CHANNEL, posting('2', 'twice'));
    const shown = await batched();
    expect([
      ...shown.map((message) => message.text),
      ...(shown.length < 2 ? (await batched()).map((m) => m.text) : []),
    ]).toEqual(['once', 'twice']);
  });

  test('a post is found by its outbox id, and an unknown outbox id finds none', async () => {
    const id = await here.adapter.post(CHANNEL, posting('1'));
    expect(await here.adapter.find(CHANNEL, posting('1'))).toBe(id);
    expect(await here.adapter.find(CHANNEL, posting('2'))).toBeNull();
  });

  test('300 posts of one moment reach the page in fewer than 20 frames', async () => {
    await opened();
    await Promise.all(Array.from({ length: 300 }, (_, place) => here.adapter.post(CHANNEL, posting(`p${place}`))));
    let frames = 0;
    let shown = 0;
    while (shown < 300) {
      shown += (await batched()).length;
      frames += 1;
    }
    expect(frames).toBeLessThan(20);
  });

  test('receipts and edits reach the page', async () => {
    await opened();
    const id = await here.adapter.post(CHANNEL, posting('1', '⏱️ dev turn timed out', null));
    await here.adapter.edit?.(CHANNEL, id, '⏱️ dev turn timed out (×2)');
    await here.adapter.receipt?.(CHANNEL, id, 'held');
    const { changed } = await page.frame('batch', (frame) => frame.changed[0]?.receipts.length === 1);
    expect(changed[0]).toMatchObject({ kind: 'system', text: '⏱️ dev turn timed out (×2)', receipts: ['held'] });
  });

  test('a change of an unknown message is refused', async () => {
    await expect(here.adapter.edit?.(CHANNEL, '1', 'x')).rejects.toMatchObject({ fault: 'refused' });
    await expect(here.adapter.receipt?.(CHANNEL, '1', 'done')).rejects.toBeInstanceOf(ChatError);
  });

  test('a draft is shown, also to pages that open later, and removed', async () => {
    await opened();
    const dev = { id: 'dev', name: 'dev', avatar: null };
    here.adapter.draft?.(CHANNEL, dev, 2, 'Two tab');
    expect((await page.frame('batch')).drafts).toEqual([{ agent: 'dev', epoch: 2, text: 'Two tab' }]);
    expect((await opened()).drafts).toHaveLength(1);
    here.adapter.draft?.(CHANNEL, dev, 2, null);
    expect((await page.frame('batch', ({ drafts }) => drafts !== undefined)).drafts).toEqual([]);
    expect((await opened()).drafts).toEqual([]);
  });

  test('a changed floor reaches the page once', async () => {
    await opened();
    here.queries.views.set(CHANNEL, { ...restingView(), condition: 'paused' });
    here.adapter.card?.(CHANNEL, restingView());
    const frame = await page.frame('batch', (one) => one.view?.condition === 'paused');
    expect(frame.turns).toEqual([]);
    here.adapter.card?.(CHANNEL, restingView());
    await here.adapter.post(CHANNEL, posting('1'));
    expect(await page.frame('batch')).not.toHaveProperty('view');
  });

  test('after a stop a post is not executed', async () => {
    await here.adapter.stop();
    await expect(here.adapter.post(CHANNEL, posting('1'))).rejects.toMatchObject({ fault: 'unreachable' });
    here = await stand(here.dataDir, here.platform);
  });
});

describe('catching up', () => {
  test("gives people's messages after the given one, also after a restart", async () => {
    await opened();
    const ids: string[] = [];
    for (const text of ['one', 'two', 'three']) {
      page.send(saying(text));
      ids.push((await page.frame('accepted')).id);
    }
    await here.adapter.post(CHANNEL, posting('1'));
    await here.adapter.stop();
    here = await stand(here.dataDir, here.platform);
    const id = ids[0] ?? '';
    const { messages, gap } = await here.adapter.catchUp(CHANNEL, { id, order: id.padStart(16, '0') });
    expect(messages.map((message) => message.text)).toEqual(['two', 'three']);
    expect(gap).toBeNull();
    expect((await here.adapter.catchUp(CHANNEL, null)).messages).toHaveLength(3);
    expect((await here.adapter.catchUp(OTHER, null)).messages).toEqual([]);
  });

  test('of a channel that was never read gives the newest 500 messages', async () => {
    await opened();
    const speaker = { id: 'console:you', name: 'You', avatar: null };
    const message = { channel: CHANNEL, kind: 'person', speaker, epoch: null, replyTo: null } as const;
    const add = (text: string) => here.platform.add({ ...message, text, nonce: text });
    await Promise.all(Array.from({ length: 501 }, (_, place) => add(`${place}`)));
    const { messages, gap } = await here.adapter.catchUp(CHANNEL, null);
    expect([messages.length, messages[0]?.text, messages.at(-1)?.text]).toEqual([500, '1', '500']);
    expect(gap).toBe("only the newest 500 messages of the console's history were read");
  });
});

describe("the view of another platform's channel", () => {
  test('shows its messages and takes commands, not messages', async () => {
    const author = { kind: 'person', id: 'u1', name: 'Ada' } as const;
    const line = { line: 1, at: 5, author, text: 'hi', attachments: [], message: 'm1', change: null };
    here.queries.spoken.push(line);
    const state = await opened(OTHER);
    expect(state.messages).toMatchObject([{ id: 'm1', text: 'hi', kind: 'person', speaker: { name: 'Ada' } }]);
    here.queries.spoken.push({ ...line, line: 2, message: 'm2', text: 'again' });
    expect(await batched()).toMatchObject([{ id: 'm2', text: 'again' }]);
    page.send({ type: 'command', channel: OTHER, key: crypto.randomUUID(), line: '/stop' });
    expect((await page.frame('answer')).ok).toBe(true);
  });
});

describe('the journal', () => {
  test('comes as its newest page, then as earlier pages on request and new entries while watched', async () => {
    const fact = { type: 'disconnected', restart: true } as const;
    for (let seq = 1; seq <= 150; seq += 1) {
      here.queries.entries.push({ key: CHANNEL, seq, at: seq, fact, hash: '' });
    }
    await opened();
    page.send({ type: 'watch', channel: CHANNEL, on: true });
    const newest = await page.frame('journal');
    expect([newest.part, newest.entries[0]?.seq, newest.entries.at(-1)?.seq, newest.more]).toEqual([
      'newest',
      51,
      150,
      true,
    ]);
    page.send({ type: 'journal', channel: CHANNEL, before: 51 });
    const earlier = await page.frame('journal');
    expect([earlier.part, earlier.entries.length, earlier.more]).toEqual(['earlier', 50, false]);
    here.queries.entries.push({ key: CHANNEL, seq: 151, at: 151, fact, hash: '' });
    here.queries.views.set(CHANNEL, { ...restingView(), epoch: 1 });
    here.adapter.card?.(CHANNEL, restingView());
    const later = await page.frame('journal');
    expect([later.part, later.entries.map((entry) => entry.seq)]).toEqual(['later', [151]]);
  });
});
