import { describe, expect, test } from 'vitest';
import { DEV, QA, deliver, said, speaking, viewOf } from './speaking.ts';

describe('text that is still being generated', () => {
  test('stands in the channel as one message that grows, under the name of its agent', async () => {
    const world = await speaking();
    const { outgoing, channel, slack } = world;
    outgoing.draft(channel, DEV, 7, 'one');
    await world.until(() => world.texts()[0] === 'one');
    outgoing.draft(channel, DEV, 7, 'one two');
    await world.until(() => world.texts()[0] === 'one two');
    expect(slack.read(slack.ids.channel)).toMatchObject([
      { author: 'Dev', metadata: { event_type: 'conch_draft' }, edited: false },
    ]);
  });

  test('is edited at most every 1.5 seconds, with the newest text only', async () => {
    const world = await speaking();
    const { outgoing, channel, time } = world;
    outgoing.draft(channel, DEV, 7, '0');
    await world.until(() => world.texts()[0] === '0');
    const start = time.clock.now();
    for (let n = 1; n <= 100; n += 1) {
      outgoing.draft(channel, DEV, 7, String(n));
      await time.advance(150);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await world.until(() => world.texts()[0] === '100');
    const seconds = (time.clock.now() - start) / 1_000;
    expect(world.calls('chat.update').length).toBeLessThanOrEqual(Math.ceil(seconds / 1.5));
  });

  test('is not shown at all when the answer comes at once', async () => {
    const world = await speaking();
    const { outgoing, channel } = world;
    outgoing.draft(channel, DEV, 7, 'quick');
    await outgoing.post(channel, said('quick'));
    outgoing.draft(channel, DEV, 7, null);
    await world.pass(10_000);
    expect(world.texts()).toEqual(['quick']);
    expect(world.calls('chat.update')).toEqual([]);
  });

  test('shows its end when it is long', async () => {
    const world = await speaking();
    const text = `${'a line of text\n'.repeat(1_000)}the end`;
    world.outgoing.draft(world.channel, DEV, 7, text);
    await world.until(() => world.texts().length === 1);
    const [shown = ''] = world.texts();
    expect(shown.length).toBeLessThanOrEqual(3_600);
    expect(shown).toMatch(/^…\na line of text\n/);
    expect(shown.endsWith('the end')).toBe(true);
  });

  test('is not shown when the configuration says so', async () => {
    const world = await speaking({ settings: { streaming: false } });
    world.outgoing.draft(world.channel, DEV, 7, 'one');
    await world.pass(10_000);
    expect(world.slack.requests).toEqual([]);
  });

  test('waits as long as Slack says, and then shows the newest', async () => {
    const world = await speaking();
    const { outgoing, channel, slack, time } = world;
    outgoing.draft(channel, DEV, 7, 'one');
    await world.until(() => world.texts()[0] === 'one');
    slack.fail('chat.update', { kind: 'ratelimited', retryAfterSeconds: 20 });
    outgoing.draft(channel, DEV, 7, 'one two');
    await world.until(() => world.calls('chat.update').length === 1);
    const limitedAt = time.clock.now();
    await time.settle();
    outgoing.draft(channel, DEV, 7, 'one two three');
    await world.until(() => world.texts()[0] === 'one two three');
    expect(time.clock.now() - limitedAt).toBeGreaterThanOrEqual(19_000);
    expect(world.calls('chat.update')).toHaveLength(2);
  });
});

describe('a draft whose turn has spoken', () => {
  test('becomes the post, with the mark of the post', async () => {
    const world = await speaking();
    const { outgoing, channel, slack } = world;
    outgoing.draft(channel, DEV, 7, 'half');
    await world.until(() => world.texts().length === 1);
    const [draft] = slack.read(slack.ids.channel);
    const id = await world.over(outgoing.post(channel, said('half and whole', { outboxId: 'box-d' })));
    outgoing.draft(channel, DEV, 7, null);
    await world.pass(10_000);
    expect(id).toBe(`${slack.ids.channel}/${draft?.ts}`);
    expect(slack.read(slack.ids.channel)).toMatchObject([
      { text: 'half and whole', metadata: { event_type: 'conch_post', event_payload: { outbox_id: 'box-d' } } },
    ]);
  });

  test('becomes the post when it was taken away a moment before', async () => {
    const world = await speaking();
    const { outgoing, channel } = world;
    outgoing.draft(channel, DEV, 7, 'half');
    await world.until(() => world.texts().length === 1);
    outgoing.draft(channel, DEV, 7, null);
    await world.pass(1_000);
    await world.over(outgoing.post(channel, said('whole')));
    expect(world.texts()).toEqual(['whole']);
    expect(world.calls('chat.postMessage')).toHaveLength(1);
  });

  test('becomes the post while it is only on its way to Slack', async () => {
    const world = await speaking();
    const { outgoing, channel, slack } = world;
    slack.fail('chat.postMessage', { kind: 'late', ms: 100 });
    outgoing.draft(channel, DEV, 7, 'half');
    await world.until(() => world.calls('chat.postMessage').length === 1);
    await world.over(outgoing.post(channel, said('whole')));
    await world.pass(10_000);
    expect(world.texts()).toEqual(['whole']);
    expect(world.calls('chat.postMessage')).toHaveLength(1);
  });

  test('goes when another post stands below it; the text comes after that', async () => {
    const world = await speaking();
    const { outgoing, channel } = world;
    outgoing.draft(channel, DEV, 7, 'half');
    await world.until(() => world.texts().length === 1);
    await world.over(outgoing.post(channel, said('⚠️ qa disconnected', { speaker: null, epoch: null })));
    await world.over(outgoing.post(channel, said('whole')));
    expect(world.texts()).toEqual(['⚠️ qa disconnected', 'whole']);
  });

  test('stays the post after the card was drawn below it', async () => {
    const world = await speaking({ settings: { status: false } });
    const { outgoing, channel } = world;
    outgoing.draft(channel, DEV, 7, 'half');
    await world.until(() => world.texts().length === 1);
    outgoing.card(channel, viewOf(channel));
    await world.until(() => world.texts().length === 2);
    await world.over(outgoing.post(channel, said('whole')));
    expect(world.texts()[0]).toBe('whole');
  });

  test('goes when its turn passes', async () => {
    const world = await speaking();
    const { outgoing, channel } = world;
    outgoing.draft(channel, DEV, 7, 'hm');
    await world.until(() => world.texts().length === 1);
    outgoing.draft(channel, DEV, 7, null);
    await world.until(() => world.texts().length === 0);
    expect(world.calls('chat.delete')).toHaveLength(1);
  });

  test('goes when the next turn begins to speak', async () => {
    const world = await speaking();
    const { outgoing, channel } = world;
    outgoing.draft(channel, DEV, 7, 'mine');
    await world.until(() => world.texts().length === 1);
    outgoing.draft(channel, QA, 8, 'yours');
    outgoing.draft(channel, DEV, 7, 'mine again');
    await world.until(() => world.texts().length === 1 && world.texts()[0] === 'yours');
    await world.pass(5_000);
    expect(world.texts()).toEqual(['yours']);
  });

  test('is replaced by a new post when a moderator deleted it', async () => {
    const world = await speaking();
    const { outgoing, channel, slack } = world;
    outgoing.draft(channel, DEV, 7, 'half');
    await world.until(() => world.texts().length === 1);
    slack.remove(slack.ids.channel, slack.read(slack.ids.channel)[0]?.ts ?? '');
    await world.over(outgoing.post(channel, said('whole')));
    expect(world.texts()).toEqual(['whole']);
  });

  test.each([
    ['the answer is lost', { kind: 'reset-after' }],
    ['the call is lost', { kind: 'reset-before' }],
    ['Slack wants it later', { kind: 'ratelimited', retryAfterSeconds: 3 }],
    ['Slack answers 503', { kind: 'status', status: 503 }],
  ] as const)('rows 24 to 28: becomes the post once when %s', async (_title, fault) => {
    const world = await speaking();
    const { outgoing, channel, slack } = world;
    outgoing.draft(channel, DEV, 7, 'half');
    await world.until(() => world.texts().length === 1);
    slack.fail('chat.update', fault);
    expect((await deliver(world, { channel, text: 'whole' })).at(-1)).toMatchObject({ state: 'confirmed' });
    outgoing.draft(channel, DEV, 7, null);
    await world.pass(10_000);
    expect(world.texts()).toEqual(['whole']);
  });
});

describe('drafts that nobody owns', () => {
  test('of a former run are taken away with the catch-up; posts stay', async () => {
    const world = await speaking();
    const { outgoing, channel } = world;
    await outgoing.post(channel, said('said'));
    outgoing.draft(channel, DEV, 8, 'half');
    await world.until(() => world.texts().length === 2);
    const next = world.again();
    next.draft(channel, QA, 9, 'of this run');
    await world.until(() => world.texts().length === 3);
    await next.tidy(channel);
    expect(world.texts()).toEqual(['said', 'of this run']);
  });

  test('of a former run in a thread are taken away as well', async () => {
    const world = await speaking();
    const { channel, slack } = world;
    const root = slack.write(slack.ids.ann, slack.ids.channel, 'a thread');
    world.outgoing.draft(`${channel}/${root}`, DEV, 8, 'half');
    await world.until(() => slack.read(slack.ids.channel, root).length === 2);
    await world.again().tidy(`${channel}/${root}`);
    expect(slack.read(slack.ids.channel, root).map(({ text }) => text)).toEqual(['a thread']);
  });

  test('row 25: is looked for when the answer to it was lost, so that no text stands twice', async () => {
    const world = await speaking();
    const { outgoing, channel, slack } = world;
    slack.fail('chat.postMessage', { kind: 'reset-after' });
    outgoing.draft(channel, DEV, 7, 'half');
    await world.until(() => world.texts().length === 1);
    outgoing.draft(channel, DEV, 7, 'half and half');
    await world.over(outgoing.post(channel, said('whole')));
    await world.until(() => world.texts().length === 1);
    expect(world.texts()).toEqual(['whole']);
  });

  test('are found however much was written after them, since a former run looked', async () => {
    const world = await speaking();
    const { outgoing, channel, slack } = world;
    await outgoing.post(channel, said('said'));
    await outgoing.tidy(channel);
    outgoing.draft(channel, DEV, 8, 'half');
    await world.until(() => world.texts().length === 2);
    for (let count = 0; count < 80; count += 1) slack.write(slack.ids.ann, slack.ids.channel, `word ${count}`);
    await world.again().tidy(channel);
    expect(world.texts()).not.toContain('half');
  });

  test('are looked for again when Slack did not answer', async () => {
    const world = await speaking();
    const { outgoing, channel, slack } = world;
    outgoing.draft(channel, DEV, 8, 'half');
    await world.until(() => world.texts().length === 1);
    slack.fail('conversations.history', { kind: 'status', status: 503 });
    await world.again().tidy(channel);
    expect(world.texts()).toEqual(['half']);
    await world.until(() => world.texts().length === 0);
    expect(world.texts()).toEqual([]);
  });

  test('are left alone when the history cannot be read', async () => {
    const world = await speaking();
    world.slack.fail('conversations.history', { kind: 'error', error: 'missing_scope' });
    await expect(world.outgoing.tidy(world.channel)).resolves.toBeUndefined();
    expect(world.logged.join('')).toContain('missing_scope');
  });

  test('go with the end of the program', async () => {
    const world = await speaking();
    world.outgoing.draft(world.channel, DEV, 7, 'half');
    await world.until(() => world.texts().length === 1);
    await world.outgoing.stop();
    expect(world.texts()).toEqual([]);
  });

  test('is tried again when Slack does not take it away at once', async () => {
    const world = await speaking();
    const { outgoing, channel, slack } = world;
    outgoing.draft(channel, DEV, 7, 'hm');
    await world.until(() => world.texts().length === 1);
    slack.fail('chat.delete', { kind: 'status', status: 502 });
    outgoing.draft(channel, DEV, 7, null);
    await world.until(() => world.texts().length === 0);
    expect(world.calls('chat.delete')).toHaveLength(2);
  });
});
