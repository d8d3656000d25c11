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

/** An outbox sender over a platform whose calls give these answers in order. Further calls succeed. */
function bench(
  answers: {
    post?: (string | ChatError)[];
    find?: (string | null | ChatError)[];
    edit?: ('changed' | 'gone' | ChatError)[];
    receipt?: (undefined | ChatError)[];
  },
  clock = { now: 1_000 },
) {
  const posted: OutgoingPost[] = [];
  const doubts: string[] = [];
  const receipts: string[] = [];
  const edits: string[] = [];
  const next = <T>(list: (T | ChatError)[] | undefined, otherwise: T): T => {
    const answer = list?.shift();
    if (answer instanceof ChatError) throw answer;
    return answer === undefined ? otherwise : answer;
  };
  const adapter: ChatAdapter = {
    name: 'test',
    capabilities: {
      textLimit: 100,
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
    async edit(_channel, id, text) {
      const answer = next<'changed' | 'gone'>(answers.edit, 'changed');
      edits.push(`${id} ${text}`);
      return answer;
    },
    async receipt(_channel, _message, receipt) {
      next(answers.receipt, undefined);
      receipts.push(receipt);
    },
    catchUp: async () => ({ messages: [], changes: [], gap: null }),
  };
  const carry = createOutboxSender({
    adapterOf: () => adapter,
    speakerOf: (id) => ({ id, name: id, avatar: null }),
    threadOf: () => null,
    now: () => clock.now,
    clean: (text) => text.replaceAll('hunter2', '[secret]'),
    reportDoubtfulPost: (_row, done) => doubts.push(done),
  });
  return { carry, posted, doubts, receipts, edits };
}

describe('an attempt to post', () => {
  test.each([
    ['refused', { state: 'failed', why: 'refused' }],
    ['limited', { state: 'retry', notBefore: 1_500 }],
    ['unreachable', { state: 'retry', notBefore: 1_500 }],
    ['unclear', { state: 'uncertain', notBefore: 1_500 }],
  ] as const)('becomes failed, retried or uncertain after the fault %s', async (fault, settlement) => {
    const { carry } = bench({ post: [chatError(fault)] });
    expect(await carry(row({ attempts: 0 }))).toEqual(settlement);
  });

  test('row 28: waits as long as the platform says', async () => {
    const { carry } = bench({ post: [chatError('limited', 7_000)] });
    expect(await carry(row())).toEqual({ state: 'retry', notBefore: 8_000 });
  });

  test('redacts secrets', async () => {
    const { carry, posted } = bench({});
    await carry(row({ text: 'the password is hunter2' }));
    expect(posted[0]?.text).toBe('the password is [secret]');
  });
});

describe('an announcement that edits an earlier message', () => {
  const answered = {
    kind: 'answered',
    agent: 'dev',
    question: 8,
    title: 'rm',
    choice: 'allow',
    by: 'ann',
    at: 0,
  } as const;
  const over = row({
    effect: { type: 'announce', announcement: answered, key: 'q:8', repeat: 2 },
    text: 'ann allowed it',
    editsId: 'p2',
    editsParts: ['p3', 'p4'],
  });

  test("T67 replaces a request's first message with the outcome, and the other messages say that it is closed", async () => {
    const { carry, edits } = bench({});
    expect(await carry(over)).toEqual({ state: 'confirmed', platformId: 'p2' });
    expect(edits).toEqual([
      'p2 ann allowed it',
      'p3 Part of the question above, which is closed.',
      'p4 Part of the question above, which is closed.',
    ]);
  });

  test('T67 is posted as a new message when the request to replace was deleted', async () => {
    const { carry, posted } = bench({ edit: ['gone'] });
    expect(await carry(over)).toEqual({ state: 'confirmed', platformId: 'p1' });
    expect(posted.map(({ text }) => text)).toEqual(['ann allowed it']);
  });

  test('T67 is searched before it is posted again when an earlier attempt may have succeeded', async () => {
    const { carry, posted } = bench({ edit: ['gone'], find: ['p9'] });
    expect(await carry({ ...over, uncertain: true })).toEqual({ state: 'confirmed', platformId: 'p9' });
    expect(posted).toEqual([]);
  });

  test('T67 is not posted again when it recurs after a person deleted it', async () => {
    const { carry, posted } = bench({ edit: ['gone'] });
    const announcement = { kind: 'floorPaused', by: 'ann', at: 0 } as never;
    const again = row({
      effect: { type: 'announce', announcement, key: 'p', repeat: 2 },
      text: 'paused',
      editsId: 'p2',
    });
    expect(await carry(again)).toEqual({ state: 'confirmed', platformId: 'p2' });
    expect(posted).toEqual([]);
  });

  test('T67 is retried with all its parts when the platform was unreachable for one part', async () => {
    const { carry, edits } = bench({ edit: ['changed', chatError('unreachable')] });
    expect(await carry(over)).toMatchObject({ state: 'retry' });
    expect(await carry(over)).toMatchObject({ state: 'confirmed' });
    expect(edits.length).toBe(4);
  });
});

describe('a post or receipt that a channel refuses for now', () => {
  const closed = (): ChatError => chatError('refused', 60_000);

  test('T6 is retried with growing waits of at most a minute', async () => {
    const { carry } = bench({ post: Array.from({ length: 9 }, closed) });
    const waits: unknown[] = [];
    for (let attempt = 1; attempt <= 9; attempt += 1) waits.push(await carry(row({ attempts: attempt })));
    expect(waits).toEqual(
      [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000].map((waitMs) => ({
        state: 'retry',
        notBefore: 1_000 + waitMs,
      })),
    );
  });

  test('T6 is posted late with its original time once the channel accepts it', async () => {
    const clock = { now: Date.parse('2026-03-01T14:02:30Z') };
    const { carry, posted } = bench({ post: Array.from({ length: 5 }, closed) }, clock);
    for (let attempt = 1; attempt <= 5; attempt += 1) await carry(row({ attempts: attempt }));
    clock.now += 3_600_000;
    expect(await carry(row())).toMatchObject({ state: 'confirmed' });
    expect(posted.at(-1)?.text).toBe('hello\n(said at 14:02 UTC, when this channel took no messages)');
  });

  test('T6 is posted unchanged when the channel accepts it soon', async () => {
    const { carry, posted } = bench({ post: [closed(), closed()] });
    for (let attempt = 1; attempt <= 3; attempt += 1) await carry(row({ attempts: attempt }));
    expect(posted.map(({ text }) => text)).toEqual(['hello', 'hello', 'hello']);
  });

  test('T6 is given up after a day', async () => {
    const clock = { now: 0 };
    const { carry } = bench({ post: [closed(), closed(), closed()] }, clock);
    await carry(row());
    clock.now = 86_399_999;
    expect(await carry(row())).toMatchObject({ state: 'retry' });
    clock.now = 86_400_000;
    expect(await carry(row())).toEqual({ state: 'failed', why: 'refused' });
  });

  test('T88 is retried when it is a receipt', async () => {
    const { carry, receipts } = bench({ receipt: [closed(), closed()] });
    const receipt = row({ lane: 'receipts', effect: { type: 'receipt', message: 'm1', receipt: 'held' }, text: null });
    const outcomes = [await carry(receipt), await carry(receipt), await carry(receipt)];
    expect(outcomes.map(({ state }) => state)).toEqual(['retry', 'retry', 'confirmed']);
    expect(receipts).toEqual(['held']);
  });

  test('T88 is given up in a deleted channel', async () => {
    const of = { method: 'find', channel: CHANNEL, fault: 'refused', channelIsGone: true } as const;
    // Slack's refusals of a thread that is gone also have a wait.
    for (const gone of [new ChatError('gone', of), new ChatError('gone', { ...of, retryAfterMs: 60_000 })]) {
      const { carry, posted, doubts } = bench({ find: [gone] });
      expect(await carry(row({ uncertain: true }))).toEqual({ state: 'failed', why: 'gone' });
      expect([posted, doubts]).toEqual([[], []]);
    }
  });

  test('T6 is searched again later, and not posted, while the history cannot be read', async () => {
    const { carry, posted } = bench({ find: [closed()] });
    expect(await carry(row({ uncertain: true }))).toMatchObject({ state: 'retry' });
    expect(posted).toEqual([]);
  });
});

describe('an answer that the platform refused for good', () => {
  const done = (epoch: number): OutboxRow =>
    row({ lane: 'after:posts', effect: { type: 'receipt', message: 'm1', receipt: 'done', epoch }, text: null });

  test('T6 leaves the messages of its turn without ✅, while the messages of later turns get ✅', async () => {
    const { carry, receipts } = bench({ post: [chatError('refused'), 'p2'] });
    await carry(row());
    expect(await carry(done(2))).toEqual({ state: 'confirmed', platformId: null });
    expect(receipts).toEqual([]);
    await carry(row({ effect: { type: 'post', agent: 'dev', epoch: 3, line: 2, text: 'hello' } }));
    await carry(done(3));
    expect(receipts).toEqual(['done']);
  });

  test('leaves them without ✅ also when the report of a background run is refused after it', async () => {
    const { carry, receipts } = bench({ post: [chatError('refused'), chatError('refused')] });
    await carry(row());
    await carry(row({ effect: { type: 'post', agent: 'qa', epoch: 0, line: 2, text: 'a report' } }));
    await carry(done(2));
    expect(receipts).toEqual([]);
  });
});

describe('a post whose outcome is unknown', () => {
  test('is not sent again when it is found', async () => {
    const { carry, posted } = bench({ find: ['p7'] });
    expect(await carry(row({ uncertain: true }))).toEqual({ state: 'confirmed', platformId: 'p7' });
    expect(posted).toEqual([]);
  });

  test('is searched twice, 3 s apart, before it is sent again', async () => {
    const { carry, posted } = bench({ find: [null, null] });
    expect(await carry(row({ uncertain: true }))).toEqual({ state: 'uncertain', notBefore: 4_000 });
    expect(posted).toEqual([]);
    expect(await carry(row({ uncertain: true }))).toEqual({ state: 'confirmed', platformId: 'p1' });
    expect(posted.map(({ text }) => text)).toEqual(['hello']);
  });

  test('is forgotten when its row ends, also without a confirmation', async () => {
    const gone = new ChatError('gone', { method: 'find', channel: CHANNEL, fault: 'refused', channelIsGone: true });
    const closed = Array.from({ length: 5 }, () => chatError('refused', 60_000));
    const { carry, posted } = bench({ find: [null, gone, null, null], post: [...closed, chatError('refused')] });
    for (const state of ['uncertain', 'failed', 'uncertain']) {
      expect(await carry(row({ uncertain: true }))).toMatchObject({ state });
    }
    for (let attempt = 0; attempt < closed.length; attempt += 1) await carry(row({ id: 'x-2' }));
    expect(await carry(row({ id: 'x-2' }))).toMatchObject({ state: 'failed' });
    posted.splice(0);
    await carry(row({ id: 'x-2' }));
    expect(posted[0]?.text).toBe('hello');
  });

  test('is searched later when the platform is too busy to answer', async () => {
    const { carry, posted } = bench({ find: [chatError('limited', 5_000)] });
    expect(await carry(row({ uncertain: true }))).toEqual({ state: 'retry', notBefore: 6_000 });
    expect(posted).toEqual([]);
  });

  test('is posted again as a "possible repeat" when the search fails, and the repeat is reported', async () => {
    const { carry, posted, doubts } = bench({ find: [chatError('refused')] });
    expect(await carry(row({ uncertain: true }))).toEqual({ state: 'confirmed', platformId: 'p1' });
    expect(posted.map(({ text }) => text)).toEqual(['hello\n(possible repeat)']);
    expect(doubts).toEqual(['posted again']);
  });

  test('is dropped when the search fails and the post is only an announcement', async () => {
    const { carry, posted, doubts } = bench({ find: [chatError('refused')] });
    expect(await carry(row({ ...ANNOUNCEMENT, uncertain: true }))).toMatchObject({ state: 'failed' });
    expect(posted).toEqual([]);
    expect(doubts).toEqual(['dropped']);
  });
});
