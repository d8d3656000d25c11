import { describe, expect, test } from 'vitest';
import type { OutgoingPost } from '../../../src/adapters/port.ts';
import { CHANNEL, DEV, QA, THREAD, fakePlatform, floorView, said } from './fake-client.ts';
import type { FakePlatform } from './fake-client.ts';

const CARD = 'card Conch: 🎤 Dev';
const RESTING = 'card Conch: 💤 nobody holds the floor';

async function drafted(platform: FakePlatform, text = 'half', sender = platform.sender, epoch = 1): Promise<void> {
  sender.draft(CHANNEL, DEV, epoch, text);
  await platform.time.advance(2_000);
}

describe('a post', () => {
  test('appears once, whole, and is found by its outbox entry', async () => {
    const platform = fakePlatform();
    const post = said('The tide turns.');
    const id = await platform.sender.post(CHANNEL, post);
    expect(platform.shown()).toEqual(['post Dev: The tide turns.']);
    expect(await platform.sender.find(CHANNEL, post)).toBe(id);
    expect(await platform.sender.find(CHANNEL, said('Another.'))).toBeNull();
  });

  test('without text is refused without a request', async () => {
    const platform = fakePlatform();
    await expect(platform.sender.post(CHANNEL, said(' \n'))).rejects.toMatchObject({ fault: 'refused' });
    expect(platform.calls).toEqual([]);
  });

  test('waits for the previous post', async () => {
    const platform = fakePlatform();
    await Promise.all(['one', 'two', 'three'].map((text) => platform.sender.post(CHANNEL, said(text))));
    expect(platform.shown()).toEqual(['post Dev: one', 'post Dev: two', 'post Dev: three']);
  });

  test('that was deleted is not posted again by an edit', async () => {
    const platform = fakePlatform();
    await expect(platform.sender.edit(CHANNEL, '7', 'again')).resolves.toBe('gone');
    expect(platform.shown()).toEqual([]);
  });
});

test('a card of a free floor that waits for an edit is drawn when the edit ends', async () => {
  const platform = fakePlatform();
  const id = await platform.sender.post(CHANNEL, said('A question.'));
  platform.sender.card(CHANNEL, floorView('open'));
  await platform.time.advance(5_000);
  expect(platform.shown().at(-1)).toContain(CARD);
  platform.edits.ways.push(9_000);
  const edited = platform.sender.edit(CHANNEL, id, 'A question. Answered.');
  platform.sender.card(CHANNEL, floorView('resting'));
  await platform.time.advance(8_000);
  expect(platform.shown().at(-1)).toContain(CARD);
  await platform.time.advance(5_000);
  expect([await edited, platform.shown().at(-1)]).toEqual(['changed', RESTING]);
});

describe('cards in more than 1,000 channels', () => {
  test('are remembered for 1,000 channels, and posted again where they were forgotten', async () => {
    const platform = fakePlatform();
    const draw = async (channel: string, condition: 'open' | 'resting'): Promise<void> => {
      platform.sender.card(channel, floorView(condition, { channel }));
      await platform.time.advance(5_000);
    };
    const channels = Array.from({ length: 1_002 }, (_, n) => `fake:${n}`);
    for (const channel of channels) platform.sender.card(channel, floorView('open', { channel }));
    await platform.time.advance(5_000);
    for (const channel of channels.slice(0, 600)) platform.sender.card(channel, floorView('resting', { channel }));
    await platform.time.advance(60_000);
    for (let n = 0; n < 600; n += 1) await draw(`fake:more-${n}`, 'open');
    const sent = (): number => platform.calls.filter((call) => call === 'send card').length;
    const before = sent();
    await draw('fake:0', 'open');
    // A forgotten card is posted again at the end: the number of messages below the old card is unknown.
    expect(sent() - before).toBe(1);
    await draw('fake:1001', 'resting');
    expect(sent() - before).toBe(1);
    expect(platform.shown('fake:0')).toEqual([CARD]);
    expect(platform.shown('fake:1001')).toEqual([RESTING]);
  });
});

describe("T37 a post in a thread that shares its channel's floor", () => {
  const inThread = (text: string, more: Partial<OutgoingPost> = {}) => said(text, { thread: THREAD, ...more });

  test('is posted and found in the thread', async () => {
    const platform = fakePlatform();
    const post = inThread('The tide turns.');
    const id = await platform.sender.post(CHANNEL, post);
    expect(platform.shown(THREAD)).toEqual(['post Dev: The tide turns.']);
    expect(platform.shown(CHANNEL)).toEqual([]);
    expect(await platform.sender.find(CHANNEL, post)).toBe(id);
    expect(await platform.sender.find(CHANNEL, inThread('Another.'))).toBeNull();
  });

  test('is shown as a draft in the thread, and the draft becomes the post', async () => {
    const platform = fakePlatform();
    platform.places.thread = THREAD;
    await drafted(platform, 'half');
    const [draft] = platform.ids('draft');
    expect(platform.shown(THREAD)).toEqual(['draft Dev: half']);
    expect(await platform.sender.post(CHANNEL, inThread('half and whole'))).toBe(draft);
    expect(platform.shown()).toEqual(['post Dev: half and whole']);
  });

  test('is a new message when its draft began in the channel, and the draft is removed', async () => {
    const platform = fakePlatform();
    await drafted(platform, 'half');
    await platform.sender.post(CHANNEL, inThread('whole'));
    expect(platform.shown(CHANNEL)).toEqual([]);
    expect(platform.shown(THREAD)).toEqual(['post Dev: whole']);
  });

  test('is posted and found in the channel when the thread refuses it', async () => {
    const platform = fakePlatform();
    platform.fail('send', { fault: 'refused', kind: 'post', channel: THREAD });
    platform.fail('send', { fault: 'unclear', done: true, kind: 'post', channel: CHANNEL });
    const post = inThread('whole');
    await expect(platform.sender.post(CHANNEL, post)).rejects.toMatchObject({ fault: 'unclear' });
    platform.fail('own', { fault: 'refused', channel: THREAD });
    expect(await platform.sender.find(CHANNEL, post)).not.toBeNull();
    expect(platform.shown()).toEqual(['post Dev: whole']);
  });

  test('is not taken as missing when the thread refuses the search, unless the thread is gone', async () => {
    for (const more of [{}, { retryAfterMs: 60_000 }]) {
      const platform = fakePlatform();
      const post = inThread('whole');
      await platform.sender.post(CHANNEL, post);
      platform.fail('own', { fault: 'refused', channel: THREAD, ...more });
      await expect(platform.sender.find(CHANNEL, post)).rejects.toMatchObject({ fault: 'refused', retryAfterMs: null });
      platform.fail('own', { fault: 'refused', channel: THREAD, channelIsGone: true });
      expect(await platform.sender.find(CHANNEL, post)).toBeNull();
    }
  });

  test("does not move the channel's card", async () => {
    const platform = fakePlatform();
    platform.sender.card(CHANNEL, floorView('open'));
    await platform.time.advance(5_000);
    for (let n = 0; n < 20; n += 1) await platform.sender.post(CHANNEL, inThread(`${n}`));
    await platform.time.advance(60_000);
    expect(platform.calls.filter((call) => call === 'send card')).toHaveLength(1);
  });

  test("removes an earlier run's draft from the thread, unless a catch-up removed the draft before", async () => {
    for (const isKnown of [true, false]) {
      const platform = fakePlatform();
      platform.places.thread = THREAD;
      await drafted(platform);
      const next = platform.run();
      platform.places.thread = isKnown ? THREAD : null;
      await next.tidy(CHANNEL);
      expect(platform.shown(THREAD)).toEqual(isKnown ? [] : ['draft Dev: half']);
      await next.post(CHANNEL, inThread('whole', { epoch: 2 }));
      await platform.time.settle();
      expect(platform.shown(THREAD)).toEqual(['post Dev: whole']);
    }
  });
});

describe('a draft', () => {
  test('is shown 0.5 s after its first text, then updated every 1.5 s', async () => {
    const platform = fakePlatform();
    platform.sender.draft(CHANNEL, DEV, 1, '0');
    await platform.time.advance(499);
    expect(platform.shown()).toEqual([]);
    for (let n = 1; n <= 20; n += 1) {
      platform.sender.draft(CHANNEL, DEV, 1, `${n}`);
      await platform.time.advance(100);
    }
    await platform.time.advance(1_500);
    expect(platform.shown()).toEqual(['draft Dev: 20']);
    expect(platform.calls).toEqual(['send draft', 'change draft', 'change draft']);
  });

  test('becomes its post, and the next post appears below', async () => {
    const platform = fakePlatform();
    await drafted(platform);
    await platform.sender.post(CHANNEL, said('half and whole'));
    await platform.sender.post(CHANNEL, said('and more'));
    expect(platform.shown()).toEqual(['post Dev: half and whole', 'post Dev: and more']);
  });

  test('is removed 3 s after its end without a post, and not earlier', async () => {
    const platform = fakePlatform();
    await drafted(platform);
    platform.sender.draft(CHANNEL, DEV, 1, null);
    await platform.time.advance(2_999);
    expect(platform.shown()).toEqual(['draft Dev: half']);
    await platform.time.advance(1);
    expect(platform.shown()).toEqual([]);
  });

  test('is removed when the next turn generates text, and late text of the old turn changes nothing', async () => {
    const platform = fakePlatform();
    await drafted(platform);
    platform.sender.draft(CHANNEL, QA, 2, 'mine');
    platform.sender.draft(CHANNEL, DEV, 1, 'still me');
    await platform.time.advance(2_000);
    expect(platform.shown()).toEqual(['draft QA: mine']);
  });

  test('is removed when a message follows it, and its post appears below that message', async () => {
    const platform = fakePlatform();
    await drafted(platform);
    await platform.sender.post(CHANNEL, said('⚠️ qa is gone', { speaker: null, epoch: null }));
    await platform.sender.post(CHANNEL, said('whole'));
    expect(platform.shown()).toEqual(['post Conch: ⚠️ qa is gone', 'post Dev: whole']);
  });

  test('is removed when its post is a file', async () => {
    const platform = fakePlatform({ fileAbove: 10 });
    await drafted(platform);
    await platform.sender.post(CHANNEL, said('more than ten letters'));
    expect(platform.calls).toEqual(['send draft', 'remove', 'send post']);
  });

  test('that a person deleted is followed by its post as a new message', async () => {
    const platform = fakePlatform();
    await drafted(platform);
    platform.remove(platform.ids('draft')[0] ?? '');
    await platform.sender.post(CHANNEL, said('whole'));
    expect(platform.shown()).toEqual(['post Dev: whole']);
  });

  test('becomes its post by a second edit when the outcome of the first edit is unknown', async () => {
    const platform = fakePlatform();
    await drafted(platform);
    platform.fail('change', { fault: 'unclear' });
    const post = said('whole');
    await expect(platform.sender.post(CHANNEL, post)).rejects.toMatchObject({ fault: 'unclear' });
    await platform.sender.tidy(CHANNEL);
    expect(await platform.sender.find(CHANNEL, post)).toBeNull();
    await platform.sender.post(CHANNEL, post);
    expect(platform.shown()).toEqual(['post Dev: whole']);
    expect(platform.calls.filter((call) => call === 'send post')).toEqual([]);
  });

  test('is edited again after the wait that the platform asks for', async () => {
    const platform = fakePlatform();
    await drafted(platform, 'one');
    platform.fail('change', { fault: 'limited', retryAfterMs: 20_000 });
    await drafted(platform, 'two');
    platform.sender.draft(CHANNEL, DEV, 1, 'three');
    await platform.time.advance(17_000);
    expect(platform.shown()).toEqual(['draft Dev: one']);
    await platform.time.advance(2_000);
    expect(platform.shown()).toEqual(['draft Dev: three']);
  });

  test('is not shown where the settings switch drafts off', async () => {
    const platform = fakePlatform();
    const quiet = platform.run({ streaming: false });
    await drafted(platform, 'half', quiet);
    expect(platform.calls).toEqual([]);
  });

  test('is removed when the program stops', async () => {
    const platform = fakePlatform();
    await drafted(platform);
    await platform.sender.stop();
    expect(platform.shown()).toEqual([]);
  });
});

describe('a draft that was left behind', () => {
  test.each(['unclear', 'limited', 'unreachable'] as const)(
    'T8 is searched until it is found, also when reading the history fails 12 times as %s',
    async (fault) => {
      const platform = fakePlatform();
      platform.fail('send', { fault: 'unclear', done: true });
      await drafted(platform);
      await platform.sender.post(CHANNEL, said('whole'));
      expect(platform.shown()).toEqual(['draft Dev: half', 'post Dev: whole']);
      platform.fail('own', { fault, times: 12 });
      await platform.time.advance(400_000);
      expect(platform.shown()).toEqual(['draft Dev: half', 'post Dev: whole']);
      await platform.time.advance(200_000);
      expect(platform.shown()).toEqual(['post Dev: whole']);
    },
  );

  test('T8 is searched twice after an unknown outcome, because it may appear late', async () => {
    const platform = fakePlatform();
    await platform.sender.tidy(CHANNEL);
    await platform.time.advance(60_000);
    const before = platform.calls.length;
    platform.fail('send', { fault: 'unclear' });
    await drafted(platform);
    await platform.time.advance(60_000);
    expect(platform.calls.slice(before)).toEqual(['send draft', 'own', 'own']);
  });

  test('is removed by the next run, which keeps posts', async () => {
    const platform = fakePlatform();
    await platform.sender.post(CHANNEL, said('said'));
    await drafted(platform);
    const next = platform.run();
    await drafted(platform, 'of this run', next, 2);
    await next.tidy(CHANNEL);
    expect(platform.shown()).toEqual(['post Dev: said', 'draft Dev: of this run']);
  });

  test('is found by the next run above 900 posts', async () => {
    const platform = fakePlatform();
    await platform.sender.post(CHANNEL, said('said'));
    await platform.sender.tidy(CHANNEL);
    await drafted(platform);
    for (let count = 0; count < 900; count += 1) await platform.sender.post(CHANNEL, said(`${count}`, { epoch: 0 }));
    await platform.run().tidy(CHANNEL);
    expect(platform.ids('draft')).toEqual([]);
  });

  test('that could not be removed is removed later', async () => {
    const platform = fakePlatform();
    await drafted(platform);
    platform.fail('remove', { fault: 'unclear', times: 3 });
    platform.sender.draft(CHANNEL, DEV, 1, null);
    await platform.time.advance(60_000);
    expect(platform.shown()).toEqual([]);
  });

  test('stays while the history is hidden, and is removed at the next catch-up', async () => {
    const platform = fakePlatform();
    await drafted(platform);
    const next = platform.run();
    platform.fail('own', { fault: 'refused' });
    await next.tidy(CHANNEL);
    expect(platform.shown()).toEqual(['draft Dev: half']);
    expect(platform.logged.join('')).toContain('own went wrong');
    await next.tidy(CHANNEL);
    expect(platform.shown()).toEqual([]);
  });

  test('is not searched at every repeated catch-up', async () => {
    const platform = fakePlatform();
    for (let times = 0; times < 20; times += 1) {
      await platform.sender.tidy(CHANNEL);
      await platform.time.advance(300_000);
    }
    expect(platform.calls).toEqual(['own', 'own']);
  });
});

describe('a receipt', () => {
  test('replaces the previous receipt', async () => {
    const platform = fakePlatform();
    await platform.sender.receipt(CHANNEL, '7', 'held');
    await platform.sender.receipt(CHANNEL, '7', 'done');
    await platform.sender.receipt(CHANNEL, '7', 'done');
    expect([...(platform.reactions.get('7') ?? [])]).toEqual(['done']);
    expect(platform.calls).toEqual(['react', 'react', 'react']);
  });

  test("replaces an earlier run's receipt on a message that is older than this run", async () => {
    const platform = fakePlatform();
    const message = '7@900000';
    await platform.sender.receipt(CHANNEL, message, 'held');
    await platform.time.advance(1_000);
    await platform.run().receipt(CHANNEL, message, 'done');
    expect([...(platform.reactions.get(message) ?? [])]).toEqual(['done']);
  });

  test('is shown also when earlier receipts cannot be read', async () => {
    const platform = fakePlatform();
    platform.fail('receipts', { fault: 'refused' });
    await platform.sender.receipt(CHANNEL, '7@900000', 'done');
    expect([...(platform.reactions.get('7@900000') ?? [])]).toEqual(['done']);
  });

  test('that failed half way is completed by the next attempt', async () => {
    const platform = fakePlatform();
    await platform.sender.receipt(CHANNEL, '7', 'held');
    await platform.sender.receipt(CHANNEL, '8', 'held');
    platform.fail('react', { fault: 'limited' });
    await expect(platform.sender.receipt(CHANNEL, '7', 'done')).rejects.toMatchObject({ fault: 'limited' });
    await platform.sender.receipt(CHANNEL, '7', 'done');
    expect([...(platform.reactions.get('7') ?? [])]).toEqual(['done']);
  });
});

describe('a platform with limits', () => {
  test('gets one new message a second for a channel and its threads; other channels do not wait', async () => {
    const platform = fakePlatform({ postGapMs: 1_000 });
    const { sender, time } = platform;
    const all = [`${CHANNEL}/1`, CHANNEL, 'fake:other'].map((channel) => sender.post(channel, said(channel)));
    await time.advance(999);
    expect(platform.shown()).toHaveLength(2);
    await time.advance(1);
    await Promise.all(all);
    expect(platform.shown().at(-1)).toBe(`post Dev: ${CHANNEL}`);
  });

  test('that limits a channel gets no draft and no card there meanwhile', async () => {
    const platform = fakePlatform({ postGapMs: 1_000 });
    platform.fail('send', { fault: 'limited', retryAfterMs: 30_000, kind: 'post' });
    await expect(platform.sender.post(CHANNEL, said('x'))).rejects.toMatchObject({ retryAfterMs: 30_000 });
    platform.sender.card(CHANNEL, floorView('open'));
    await drafted(platform);
    await platform.time.advance(27_000);
    expect(platform.shown()).toEqual([]);
    await platform.time.advance(5_000);
    expect(platform.shown().toSorted()).toEqual([CARD, 'draft Dev: half']);
  });

  test('gets no more edits of drafts a minute than its limit, and posts do not wait', async () => {
    const platform = fakePlatform({ editsPerMinute: 8 });
    await drafted(platform, '0');
    for (let n = 1; n <= 80; n += 1) await drafted(platform, `${n}`);
    expect(platform.calls.filter((call) => call === 'change draft').length).toBeLessThanOrEqual(2 + 8 * 3);
    await platform.sender.post(CHANNEL, said('whole'));
    expect(platform.shown()).toEqual(['post Dev: whole']);
  });
});

describe('a message that was answered', () => {
  test('T37 keeps the receipt "done" when an earlier receipt arrives late', async () => {
    const platform = fakePlatform();
    for (const receipt of ['done', 'injected'] as const) await platform.sender.receipt(CHANNEL, 'm1', receipt);
    expect([...(platform.reactions.get('m1') ?? [])]).toEqual(['done']);
  });
});

describe('a floor card', () => {
  test('is posted when a turn begins, then edited at most every 3 s', async () => {
    const platform = fakePlatform();
    platform.sender.card(CHANNEL, floorView('resting'));
    await platform.time.advance(10_000);
    expect(platform.shown()).toEqual([]);
    for (let n = 0; n < 60; n += 1) {
      platform.sender.card(CHANNEL, floorView('open', { held: Array.from({ length: n }, String) }));
      await platform.time.advance(100);
    }
    await platform.time.advance(3_000);
    expect(platform.shown()).toEqual([`${CARD} · 59 messages held`]);
    expect(platform.calls).toEqual(['send card', 'change card', 'change card']);
  });

  test('is posted also after an exchange that ended at once', async () => {
    const platform = fakePlatform();
    for (const condition of ['resting', 'open', 'resting'] as const) {
      platform.sender.card(CHANNEL, floorView(condition));
      await platform.time.advance(500);
    }
    await platform.time.advance(3_000);
    expect(platform.shown()).toEqual([RESTING]);
  });

  test('is not edited without a change', async () => {
    const platform = fakePlatform();
    for (let n = 0; n < 20; n += 1) {
      platform.sender.card(CHANNEL, floorView('open'));
      await platform.time.advance(3_000);
    }
    expect(platform.calls).toEqual(['send card']);
  });

  test('has its time left updated every 30 s where the platform shows no countdown', async () => {
    const platform = fakePlatform({ timeLeftEveryMs: 30_000 });
    const view = floorView('open');
    const deadlineAt = platform.time.clock.now() + 100_000;
    platform.sender.card(CHANNEL, { ...view, holder: view.holder && { ...view.holder, deadlineAt } });
    await platform.time.advance(61_000);
    expect(platform.shown()).toEqual([`${CARD} · 40 s left`]);
    expect(platform.calls).toEqual(['send card', 'change card', 'change card']);
  });

  test('stays above 10 messages and moves to the end after 11', async () => {
    const platform = fakePlatform();
    platform.sender.card(CHANNEL, floorView('open'));
    const passes = async (text: string): Promise<void> => {
      platform.write(text);
      platform.sender.countBelow(CHANNEL);
      await platform.time.advance(3_000);
    };
    for (let n = 1; n <= 10; n += 1) await passes(`ann: ${n}`);
    expect(platform.shown()[0]).toBe(CARD);
    await passes('ann: 11');
    expect(platform.shown().indexOf(CARD)).toBe(11);
    expect(platform.ids('card')).toHaveLength(1);
  });

  test('moves to the end when an exchange begins', async () => {
    const platform = fakePlatform();
    platform.sender.card(CHANNEL, floorView('open'));
    await platform.time.advance(3_000);
    platform.sender.card(CHANNEL, floorView('resting'));
    await platform.time.advance(3_000);
    platform.write('ann: hello');
    platform.sender.countBelow(CHANNEL);
    platform.sender.card(CHANNEL, floorView('open'));
    await platform.time.advance(3_000);
    expect(platform.shown()).toEqual(['ann: hello', CARD]);
  });

  test('moves below a request once the request is posted', async () => {
    const platform = fakePlatform();
    const view = floorView('open');
    const asks = (shown: boolean): void => {
      const approval = { question: 8, title: 'npm test', detail: '', shown };
      platform.sender.card(CHANNEL, { ...view, holder: view.holder && { ...view.holder, approval } });
    };
    platform.sender.card(CHANNEL, view);
    await platform.time.advance(3_000);
    asks(false);
    platform.write('conch: dev waits for approval (8): npm test');
    platform.sender.countBelow(CHANNEL);
    await platform.time.advance(3_000);
    expect(platform.shown()[0]).toBe(CARD);
    asks(true);
    await platform.time.advance(3_000);
    expect(platform.shown()).toEqual(['conch: dev waits for approval (8): npm test', CARD]);
  });

  test('that a person deleted is posted again at the next change', async () => {
    const platform = fakePlatform();
    platform.sender.card(CHANNEL, floorView('open'));
    await platform.time.advance(3_000);
    platform.remove(platform.ids('card')[0] ?? '');
    platform.sender.card(CHANNEL, floorView('resting'));
    await platform.time.advance(3_000);
    expect(platform.shown()).toEqual([RESTING]);
  });

  test('is not shown where the settings switch cards off', async () => {
    const platform = fakePlatform();
    platform.run({ cards: false }).card(CHANNEL, floorView('open'));
    await platform.time.advance(10_000);
    expect(platform.calls).toEqual([]);
  });
});

describe('a floor card of an ended turn', () => {
  test('T37 shows the floor as free only after the last text was posted', async () => {
    const platform = fakePlatform({ postGapMs: 20_000 });
    const { sender, time } = platform;
    sender.card(CHANNEL, floorView('open'));
    await time.advance(3_000);
    const posting = sender.post(CHANNEL, said('one'));
    sender.card(CHANNEL, floorView('resting'));
    await time.advance(16_000);
    expect(platform.shown()).toEqual([CARD]);
    await time.advance(1_000);
    await posting;
    await time.advance(3_000);
    expect(platform.shown()).toEqual([RESTING, 'post Dev: one']);
  });

  test('T37 waits while the text is retried, and not for a refused text', async () => {
    const platform = fakePlatform();
    const { sender, time } = platform;
    sender.card(CHANNEL, floorView('open'));
    await time.advance(3_000);
    platform.fail('send', { kind: 'post', fault: 'unreachable' });
    const post = said('one');
    await expect(sender.post(CHANNEL, post)).rejects.toMatchObject({ fault: 'unreachable' });
    sender.card(CHANNEL, floorView('resting'));
    await time.advance(30_000);
    expect(platform.shown()).toEqual([CARD]);
    platform.fail('send', { kind: 'post', fault: 'refused' });
    await expect(sender.post(CHANNEL, post)).rejects.toMatchObject({ fault: 'refused' });
    sender.card(CHANNEL, floorView('resting'));
    await time.advance(3_000);
    expect(platform.shown()).toEqual([RESTING]);
  });
});

describe('a floor card beside a post of unknown outcome', () => {
  test.each([
    ['is found', null, [RESTING, 'post Dev: one']],
    ['cannot be searched', { fault: 'refused' }, [RESTING, 'post Dev: one']],
    ['was refused after all', { fault: 'refused', post: true }, [RESTING]],
  ] as const)('shows the floor as free as soon as the post %s', async (_, how, shown) => {
    const platform = fakePlatform();
    const { sender, time } = platform;
    sender.card(CHANNEL, floorView('open'));
    await time.advance(3_000);
    const isRefused = how !== null && 'post' in how;
    platform.fail('send', { kind: 'post', fault: 'unclear', done: !isRefused });
    const post = said('one');
    await expect(sender.post(CHANNEL, post)).rejects.toMatchObject({ fault: 'unclear' });
    sender.card(CHANNEL, floorView('resting'));
    await time.advance(30_000);
    expect(platform.shown()[0]).toBe(CARD);
    if (how !== null)
      platform.fail(isRefused ? 'send' : 'own', { fault: 'refused', ...(isRefused && { kind: 'post' }) });
    await (isRefused ? sender.post(CHANNEL, post) : sender.find(CHANNEL, post)).catch(() => undefined);
    await time.advance(3_000);
    expect(platform.shown()).toEqual(shown);
  });
});

describe('a floor card at the end of an exchange', () => {
  test("T38 moves below the agents' posts", async () => {
    const platform = fakePlatform();
    const { sender, time } = platform;
    sender.card(CHANNEL, floorView('open'));
    await time.advance(3_000);
    for (const text of ['one', 'two']) await sender.post(CHANNEL, said(text));
    sender.card(CHANNEL, floorView('resting'));
    await time.advance(7_000);
    expect(platform.shown()).toEqual(['post Dev: one', 'post Dev: two', RESTING]);
  });
});

describe('a floor card that moves', () => {
  async function moving(fault: Parameters<FakePlatform['fail']>[1] | null): Promise<FakePlatform> {
    const platform = fakePlatform();
    platform.sender.card(CHANNEL, floorView('open'));
    await platform.time.advance(3_000);
    platform.sender.card(CHANNEL, floorView('resting'));
    await platform.time.advance(7_000);
    platform.write('ann: hello');
    platform.sender.countBelow(CHANNEL);
    if (fault !== null) platform.fail('send', fault);
    platform.sender.card(CHANNEL, floorView('open'));
    return platform;
  }

  test('T32 is posted before the old card is removed, and the ids of both are stored until then', async () => {
    const platform = await moving(null);
    const [old = ''] = platform.ids('card');
    platform.fail('remove', { fault: 'unreachable' });
    await platform.time.advance(0);
    const [, fresh = ''] = platform.ids('card');
    expect(platform.kept.get(`floor-card:${CHANNEL}`)).toBe(`${fresh} ${old}`);
    await platform.time.advance(10_000);
    expect(platform.ids('card')).toEqual([fresh]);
    expect(platform.kept.get(`floor-card:${CHANNEL}`)).toBe(fresh);
  });

  test.each(['unclear', 'refused', 'limited', 'unreachable'] as const)(
    'T32 keeps the old card when posting the new card fails as %s, and moves once posting succeeds',
    async (fault) => {
      const platform = await moving({ fault });
      await platform.time.advance(4_000);
      expect(platform.shown()).toEqual([RESTING, 'ann: hello']);
      await platform.time.advance(60_000);
      expect(platform.shown()).toEqual(['ann: hello', CARD]);
    },
  );

  test("appears once when the platform's answer to its post was lost", async () => {
    const platform = await moving({ fault: 'unclear', done: true });
    await platform.time.advance(40_000);
    expect(platform.shown()).toEqual(['ann: hello', CARD]);
    expect(platform.calls.filter((call) => call === 'send card')).toHaveLength(2);
  });

  test.each(['before its id was remembered', 'before the old one went'])(
    'is shown once after a kill %s',
    async (when) => {
      const platform = await moving(null);
      const before = platform.kept.get(`floor-card:${CHANNEL}`) ?? '';
      platform.fail('remove', { fault: 'unreachable', times: 100 });
      await platform.time.advance(0);
      expect(platform.ids('card')).toHaveLength(2);
      await platform.sender.stop();
      platform.heal();
      if (when.startsWith('before its')) platform.kept.set(`floor-card:${CHANNEL}`, before);
      const next = platform.run();
      next.card(CHANNEL, floorView('open'));
      await next.tidy(CHANNEL);
      await platform.time.advance(10_000);
      expect(platform.ids('card')).toHaveLength(1);
      expect(platform.shown().at(-1)).toBe(CARD);
    },
  );

  test('is found by a run without a stored card id', async () => {
    const platform = await moving(null);
    await platform.time.advance(3_000);
    platform.kept.clear();
    const next = platform.run();
    await next.tidy(CHANNEL);
    next.card(CHANNEL, floorView('resting'));
    await platform.time.advance(3_000);
    expect(platform.shown()).toEqual(['ann: hello', RESTING]);
  });
});

describe('a channel that refuses the card', () => {
  async function refusing(): Promise<FakePlatform> {
    const platform = fakePlatform();
    platform.fail('send', { fault: 'refused', kind: 'card', times: Infinity });
    platform.sender.card(CHANNEL, floorView('open'));
    await platform.time.advance(10_000);
    return platform;
  }

  test('T32 gets the card again after a minute and not before, and the refusal is logged once', async () => {
    const platform = await refusing();
    platform.sender.card(CHANNEL, floorView('open', { held: ['1'] }));
    await platform.time.advance(49_999);
    expect(platform.calls).toEqual(['send card']);
    await platform.time.advance(1);
    expect(platform.calls).toHaveLength(2);
    platform.heal();
    await platform.time.advance(60_000);
    expect(platform.shown()).toEqual([`${CARD} · 1 message held`]);
    expect(platform.logged.filter((line) => line.includes('refuses the floor card'))).toHaveLength(1);
  });

  test('T32 gets the card again at once when it accepts a post or is restored', async () => {
    const posting = await refusing();
    posting.heal();
    await posting.sender.post(CHANNEL, said('hello'));
    await posting.time.advance(0);
    expect(posting.shown()).toEqual(['post Dev: hello', CARD]);
    const reopened = await refusing();
    reopened.heal();
    reopened.sender.reopened(CHANNEL);
    await reopened.time.advance(0);
    expect(reopened.shown()).toEqual([CARD]);
  });

  test('gets its card within a minute after an outage of an hour', async () => {
    const platform = fakePlatform();
    platform.fail('send', { fault: 'unreachable', kind: 'card', times: Infinity });
    platform.sender.card(CHANNEL, floorView('open'));
    await platform.time.advance(3_600_000);
    platform.heal();
    await platform.time.advance(60_000);
    expect(platform.shown()).toEqual([CARD]);
  });
});
