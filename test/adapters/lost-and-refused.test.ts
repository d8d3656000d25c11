import { afterEach, describe, expect, test } from 'vitest';
import { noticeButtons } from '../../src/adapters/delivery/card.ts';
import type { MessageSender } from '../../src/adapters/delivery/message-client.ts';
import type { OutgoingPost } from '../../src/adapters/port.ts';
import { sendingRig } from './discord/rig.ts';
import { speaking } from './slack/speaking.ts';
import { floorView } from './delivery/fake-client.ts';

/** A channel with Conch, and the failures that both platforms can have there. */
type Channel = {
  readonly sender: MessageSender;
  readonly channel: string;
  readonly say: (text: string) => OutgoingPost;
  readonly texts: () => readonly string[];
  readonly buttons: () => readonly string[];
  readonly write: (text: string) => void;
  /** Fails the next new message: its answer is lost, or status 500. `refused` fails all until `heal`. */
  readonly failPost: (what: 'answer lost' | 'error' | 'refused') => void;
  readonly failHistory: (times: number) => void;
  readonly heal: () => void;
  readonly until: (isSo: () => boolean) => Promise<void>;
};

const DEV = { id: 'dev', name: 'Dev', avatar: null };
const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

let posts = 0;
function say(text: string): OutgoingPost {
  posts += 1;
  return { outboxId: `both-${posts}`, speaker: DEV, text, afterId: null, epoch: 1 };
}

async function onSlack(): Promise<Channel> {
  const world = await speaking({ settings: { status: false, agentSessions: false } });
  const { slack, outgoing: sender, channel } = world;
  const faults = { 'answer lost': { kind: 'reset-after' }, error: { kind: 'status', status: 500 } } as const;
  const healing: (() => void)[] = [];
  return {
    sender,
    channel,
    say,
    texts: () => world.texts(),
    buttons: () =>
      slack.read(slack.ids.channel).flatMap((message) => message.buttons.map(({ text, value }) => `${text} ${value}`)),
    write: (text) => void slack.write(slack.ids.ann, slack.ids.channel, text),
    failPost(what) {
      const fault = what === 'refused' ? ({ kind: 'error', error: 'restricted_action' } as const) : faults[what];
      healing.push(slack.fail({ method: 'chat.postMessage', times: what === 'refused' ? null : 1 }, fault));
    },
    failHistory: (times) =>
      void slack.fail({ method: 'conversations.history', times }, { kind: 'ratelimited', retryAfterSeconds: 5 }),
    heal: () => healing.forEach((heal) => heal()),
    until: (isSo) => world.until(isSo, 'what the test waits for', 250),
  };
}

async function onDiscord(): Promise<Channel> {
  const rig = await sendingRig({ settings: { typing: false, roles: false, webhooks: false } });
  ends.push(async () => {
    await rig.outgoing.stop();
    await rig.server.close();
  });
  const faults = {
    'answer lost': { kind: 'reset-after' },
    error: { kind: 'status', status: 500 },
    refused: { kind: 'status', status: 403, code: 50_013, message: 'Missing Permissions' },
  } as const;
  return {
    sender: rig.outgoing,
    channel: rig.channel,
    say,
    texts: () => rig.server.read(rig.server.channel).map(({ text }) => text),
    buttons: () =>
      rig.server
        .read(rig.server.channel)
        .flatMap((message) => message.buttons.map(({ label, customId }) => `${label} ${customId}`)),
    write: (text) => void rig.server.write('ann', rig.server.channel, text),
    failPost: (what) => void rig.server.fail('POST /channels/*/messages', faults[what], what === 'refused' ? null : 1),
    failHistory: (times) => void rig.server.fail('GET /channels/*/messages', { kind: 'status', status: 502 }, times),
    heal: () => rig.server.heal(),
    async until(isSo) {
      for (let step = 0; step < 2_000 && !isSo(); step += 1) {
        rig.time.advance(250);
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
      if (!isSo()) throw new Error('it never came');
    },
  };
}

describe.each([
  ['Slack', onSlack],
  ['Discord', onDiscord],
])('on %s', (_name, open) => {
  test("T8 a draft is removed from above its post when the draft's answer was lost and reading the history failed", async () => {
    const { sender, channel, texts, failPost, failHistory, until } = await open();
    const half = (): boolean => texts().some((text) => text.includes('half'));
    failPost('answer lost');
    failHistory(7);
    sender.draft(channel, DEV, 1, 'half');
    await until(half);
    await until(() => true);
    const posting = sender.post(channel, say('whole'));
    await until(() => texts().length === 2);
    await posting;
    expect(half()).toBe(true);
    await until(() => !half());
    expect(texts()).toEqual([expect.stringContaining('whole')]);
  });

  test('T61 an announcement with buttons is not taken for a card and not deleted', async () => {
    const { sender, channel, texts, buttons, until } = await open();
    const announced = {
      type: 'announce',
      announcement: { kind: 'aside', agent: 'dev', what: 'failed', run: 3 },
    } as const;
    const effect = {
      ...announced,
      announcement: { ...announced.announcement, failed: true },
      key: 'k',
      repeat: 1,
    } as const;
    const post = {
      ...say('dev+ failed'),
      speaker: null,
      epoch: null,
      buttons: noticeButtons(effect, 'x', () => 'Dev'),
    };
    await sender.post(channel, post);
    expect(buttons()).toEqual([
      expect.stringMatching(/^Retry Dev\+ (?=.*tx\.3).*\/run retry dev\+/),
      expect.stringMatching(/^Discard Dev\+ (?=.*tx\.3).*\/run abort dev\+ discarded/),
    ]);
    sender.card(channel, floorView('open', { channel }));
    await until(() => texts().length === 2);
    await sender.tidy(channel);
    await until(() => true);
    expect(texts()[0]).toContain('dev+ failed');
    expect(await sender.find(channel, post)).not.toBeNull();
    expect(noticeButtons({ ...announced, key: 'k', repeat: 1 }, 'x', String)).toEqual([]);
  });

  test('T32 a channel always shows a card while the card moves', async () => {
    const { sender, channel, texts, write, failPost, until } = await open();
    const cards = (): readonly string[] => texts().filter((text) => text.includes('🎤') || text.includes('💤'));
    const least = { cards: Infinity };
    const watching = (isSo: () => boolean): Promise<void> =>
      until(() => {
        least.cards = Math.min(least.cards, cards().length);
        return isSo();
      });
    sender.card(channel, floorView('open', { channel }));
    await until(() => cards().length === 1);
    sender.card(channel, floorView('resting', { channel }));
    await watching(() => cards()[0]?.includes('💤') === true);
    write('hello');
    sender.countBelow(channel);
    failPost('error');
    sender.card(channel, floorView('open', { channel }));
    await watching(() => texts().at(-1)?.includes('🎤') === true && cards().length === 1);
    expect(least.cards).toBe(1);
    expect(texts()).toHaveLength(2);
  });

  test('T32 a refused card is posted once the channel accepts messages again', async () => {
    const { sender, channel, texts, failPost, heal, until } = await open();
    failPost('refused');
    sender.card(channel, floorView('open', { channel }));
    let steps = 0;
    await until(() => (steps += 1) > 40);
    expect(texts()).toEqual([]);
    heal();
    await until(() => texts().length === 1);
    expect(texts()[0]).toContain('🎤 Dev');
  });
});
