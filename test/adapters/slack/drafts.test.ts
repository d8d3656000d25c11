import { describe, expect, test } from 'vitest';
import { DEV, QA, deliver, said, speaking, viewOf } from './speaking.ts';

describe('a draft', () => {
  test("is one growing message under its agent's name", async () => {
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
});

test('a draft whose beginning is cut within a code block opens the block again, and closes it', async () => {
  const world = await speaking();
  world.outgoing.draft(world.channel, DEV, 7, `See:\n\`\`\`js\n${'let a = 1;\n'.repeat(400)}let end;`);
  await world.until(() => world.texts().length === 1);
  const [shown = ''] = world.texts();
  expect(shown).toMatch(/^…\n```js\nlet a/);
  expect(shown).toMatch(/let end;\n```$/);
});

describe('a draft whose turn posts', () => {
  test("becomes the post, with the post's outbox id", async () => {
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

  test('becomes the post while its own request is pending', async () => {
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

  test('stays the post after the card was posted below it', async () => {
    const world = await speaking({ settings: { status: false } });
    const { outgoing, channel } = world;
    outgoing.draft(channel, DEV, 7, 'half');
    await world.until(() => world.texts().length === 1);
    outgoing.card(channel, viewOf(channel));
    await world.until(() => world.texts().length === 2);
    await world.over(outgoing.post(channel, said('whole')));
    expect(world.texts()[0]).toBe('whole');
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

describe('drafts of an earlier run', () => {
  test('are removed at the catch-up, and posts stay', async () => {
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

  test('are also removed in a thread', async () => {
    const world = await speaking();
    const { channel, slack } = world;
    const root = slack.write(slack.ids.ann, slack.ids.channel, 'a thread');
    world.outgoing.draft(`${channel}/${root}`, DEV, 8, 'half');
    await world.until(() => slack.read(slack.ids.channel, root).length === 2);
    await world.again().tidy(`${channel}/${root}`);
    expect(slack.read(slack.ids.channel, root).map(({ text }) => text)).toEqual(['a thread']);
  });

  test('are removed although 80 messages follow them', async () => {
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

  test('are removed in a thread of 3,001 messages by one request, which begins at the last search', async () => {
    const world = await speaking();
    const { channel, slack, outgoing } = world;
    slack.events.drop(5_000);
    const root = slack.write(slack.ids.ann, slack.ids.channel, 'a thread');
    const thread = `${channel}/${root}`;
    for (let count = 0; count < 3_000; count += 1)
      slack.write(slack.ids.ann, slack.ids.channel, `word ${count}`, { thread: root });
    const post = said('said');
    const id = await outgoing.post(thread, post);
    expect(await outgoing.find(thread, post)).toBe(id);
    outgoing.draft(thread, DEV, 8, 'half');
    await world.until(() => slack.read(slack.ids.channel, root).at(-1)?.text === 'half');
    world.memories.set(`looked:${thread}`, id);
    const before = world.calls('conversations.replies').length;
    await world.again().tidy(thread);
    expect(slack.read(slack.ids.channel, root).at(-1)?.text).toBe('said');
    expect(world.calls('conversations.replies').length - before).toBe(1);
  });

  test('cause no error when the history cannot be read, and the log says why', async () => {
    const world = await speaking();
    world.outgoing.draft(world.channel, DEV, 8, 'half');
    await world.until(() => world.texts().length === 1);
    world.slack.fail('conversations.history', { kind: 'error', error: 'missing_scope' });
    await expect(world.again().tidy(world.channel)).resolves.toBeUndefined();
    expect(world.texts()).toEqual(['half']);
    expect(world.logged.join('')).toContain('missing_scope');
  });
});
