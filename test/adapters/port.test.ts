import { describe, expect, test } from 'vitest';
import { createOutboxSender } from '../../src/adapters/delivery/chat-adapter.ts';
import { ChatError } from '../../src/adapters/port.ts';
import type { ChatAdapter, OutgoingPost } from '../../src/adapters/port.ts';
import type { OutboxRow } from '../../src/turns/floor-store.ts';

const CHANNEL = 'test:one';

function row(changes: Partial<OutboxRow> = {}): OutboxRow {
  return {
    id: 'x-1',
    channel: CHANNEL,
    lane: 'posts',
    effect: { type: 'post', agent: 'dev', epoch: 2, line: 1, text: 'hello' },
    part: 0,
    text: 'hello',
    attempts: 1,
    uncertain: false,
    afterId: 'p0',
    editsId: null,
    ...changes,
  };
}

const ANNOUNCEMENT: Partial<OutboxRow> = {
  effect: { type: 'announce', announcement: { kind: 'nobody' }, key: 'nobody', repeat: 1 },
  text: 'nobody',
};

function chatError(fault: ChatError['fault'], retryAfterMs?: number): ChatError {
  return new ChatError(fault, { method: 'post', channel: CHANNEL, fault, ...(retryAfterMs ? { retryAfterMs } : {}) });
}

/** A carrier over a platform that answers each call with the next of these. */
function bench(answers: { post?: (string | ChatError)[]; find?: (string | null | ChatError)[] }) {
  const posted: OutgoingPost[] = [];
  const doubts: string[] = [];
  const next = <T>(list: (T | ChatError)[] | undefined, otherwise: T): T => {
    const answer = list?.shift();
    if (answer instanceof ChatError) throw answer;
    return answer === undefined ? otherwise : answer;
  };
  const adapter: ChatAdapter = {
    name: 'test',
    capabilities: {
      textLimit: 100,
      edits: false,
      receipts: false,
      cards: false,
      drafts: false,
      idempotentPosts: false,
      fileAbove: null,
    },
    start: async () => {},
    stop: async () => {},
    post: async (_channel, post) => {
      posted.push(post);
      return next(answers.post, 'p1');
    },
    find: async () => next(answers.find, null),
    catchUp: async () => ({ messages: [], changes: [], gap: null }),
  };
  const carry = createOutboxSender({
    adapterOf: () => adapter,
    speakerOf: (id) => ({ id, name: id, avatar: null }),
    now: () => 1_000,
    clean: (text) => text.replaceAll('hunter2', '[secret]'),
    doubtful: (_row, done) => doubts.push(done),
  });
  return { carry, posted, doubts };
}

describe('an attempt to post', () => {
  test.each([
    ['refused', { state: 'failed', why: 'refused' }],
    ['limited', { state: 'retry', notBefore: 1_500 }],
    ['unreachable', { state: 'retry', notBefore: 1_500 }],
    ['unclear', { state: 'uncertain', notBefore: 1_500 }],
  ] as const)('that is %s is settled as such', async (fault, settlement) => {
    const { carry } = bench({ post: [chatError(fault)] });
    expect(await carry(row())).toEqual(settlement);
  });

  test('row 28: waits as long as the platform says', async () => {
    const { carry } = bench({ post: [chatError('limited', 7_000)] });
    expect(await carry(row())).toEqual({ state: 'retry', notBefore: 8_000 });
  });

  test('never shows a secret', async () => {
    const { carry, posted } = bench({});
    await carry(row({ text: 'the password is hunter2' }));
    expect(posted[0]?.text).toBe('the password is [secret]');
  });
});

describe('a post whose outcome is not known', () => {
  test('is not sent again when it is found', async () => {
    const { carry, posted } = bench({ find: ['p7'] });
    expect(await carry(row({ uncertain: true }))).toEqual({ state: 'confirmed', platformId: 'p7' });
    expect(posted).toEqual([]);
  });

  test('is looked for twice, 3 seconds apart, before it is sent again', async () => {
    const { carry, posted } = bench({ find: [null, null] });
    expect(await carry(row({ uncertain: true }))).toEqual({ state: 'uncertain', notBefore: 4_000 });
    expect(posted).toEqual([]);
    expect(await carry(row({ uncertain: true }))).toEqual({ state: 'confirmed', platformId: 'p1' });
    expect(posted.map(({ text }) => text)).toEqual(['hello']);
  });

  test('is looked for later when the platform is too busy to say', async () => {
    const { carry, posted } = bench({ find: [chatError('limited', 5_000)] });
    expect(await carry(row({ uncertain: true }))).toEqual({ state: 'retry', notBefore: 6_000 });
    expect(posted).toEqual([]);
  });

  test('is said again with a mark when nobody can look, and that is told', async () => {
    const { carry, posted, doubts } = bench({ find: [chatError('refused')] });
    expect(await carry(row({ uncertain: true }))).toEqual({ state: 'confirmed', platformId: 'p1' });
    expect(posted.map(({ text }) => text)).toEqual(['hello\n(possible repeat)']);
    expect(doubts).toEqual(['posted again']);
  });

  test('is let go of when nobody can look and it was only an announcement', async () => {
    const { carry, posted, doubts } = bench({ find: [chatError('refused')] });
    expect(await carry(row({ ...ANNOUNCEMENT, uncertain: true }))).toMatchObject({ state: 'failed' });
    expect(posted).toEqual([]);
    expect(doubts).toEqual(['dropped']);
  });
});
