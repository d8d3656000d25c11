import { randomUUID } from 'node:crypto';
import type { WebClient } from '@slack/web-api';
import type { Logger } from 'pino';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { Clock, Timers } from '../../lib/time.ts';
import type { Memory, Observatory, OutgoingPost, Speaker } from '../port.ts';
import type { Speaking } from '../delivery/speaking.ts';
import type { Self } from './client.ts';
import { createCards } from './card.ts';
import type { Cards } from './card.ts';
import { createDrafts } from './drafts.ts';
import type { Drafts } from './drafts.ts';
import { messageId, platformChannel, platformMessage } from './ids.ts';
import { createVoice, isGone } from './voice.ts';
import type { Message, Voice } from './voice.ts';
import { ownMessages } from './search.ts';
import type { OwnMessage, Range } from './search.ts';
import { createBudget, createPace } from './pace.ts';
import type { Pace } from './pace.ts';
import { createReceipts } from './receipts.ts';
import type { Receipts } from './receipts.ts';
import { createStatuses } from './status.ts';
import type { Statuses } from './status.ts';

/** What of Slack is used, as the configuration says. */
export type SlackSettings = {
  readonly streaming: boolean;
  readonly cards: boolean;
  readonly status: boolean;
  readonly agentSessions: boolean;
};

/** What speaking on Slack needs. `web` is a client from `createClient`. */
export type OutgoingPorts = {
  readonly web: WebClient;
  readonly self: () => Self;
  readonly observatory: Observatory;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
  readonly memory: Memory;
  readonly settings: SlackSettings;
};

/** Everything that Conch says and shows on Slack. */
export type Outgoing = Speaking;

/** Slack takes about 50 edits a minute; the rest is for posts that were drafts, and for announcements. */
const UPDATES_PER_MINUTE = 40;
const TIDY_AFTER_MS = 5_000;
const TIDY_ATTEMPTS = 5;
const TIDY_NEWEST = 50;

/** Speaks on Slack. */
export function createOutgoing(ports: OutgoingPorts): Outgoing {
  const parts = partsOf(ports);
  const { voice, drafts, cards, statuses, receipts, pace } = parts;
  const { settings, web, self } = ports;
  return {
    start: () => learn(ports, voice),
    post: (channel, post) => publish(parts, channel, post),
    async find(channel, post) {
      const range = { after: post.afterId === null ? null : platformMessage(post.afterId).ts, newest: null };
      const own = await ownMessages(web, self(), { channel, ...range });
      const found = own.find(({ payload }) => payload['outbox_id'] === post.outboxId);
      return found === undefined ? null : messageId(platformChannel(channel).channel, found.ts);
    },
    async edit(channel, platformId, text) {
      try {
        await voice.update(channel, platformMessage(platformId).ts, { speaker: null, text, mark: null });
      } catch (error) {
        if (!isGone(error)) throw error;
      }
    },
    receipt(channel, message, receipt) {
      statuses.anchor(channel, platformMessage(message).ts);
      return receipts.show(channel, message, receipt);
    },
    draft(channel, speaker, epoch, text) {
      if (settings.streaming) drafts.write(channel, speaker, epoch, text);
    },
    card(channel, view) {
      if (settings.cards) cards.draw(channel, view);
      if (settings.status || settings.agentSessions) statuses.show(channel, view);
    },
    tidy: (channel) => tidyOnce(ports, parts, channel),
    seen: (channel) => cards.seen(channel),
    async stop() {
      parts.isRunning = false;
      pace.stop();
      await Promise.all([drafts.stop(), cards.stop(), statuses.stop()]);
    },
  };
}

type Parts = {
  readonly voice: Voice;
  readonly drafts: Drafts;
  readonly cards: Cards;
  readonly statuses: Statuses;
  readonly receipts: Receipts;
  readonly pace: Pace;
  /** Messages that are being made the posts with these outbox ids. */
  readonly adopted: Map<string, string>;
  /** Where what a former run left has been looked for. */
  readonly tidied: Set<ChannelId>;
  isRunning: boolean;
};

function partsOf(ports: OutgoingPorts): Parts {
  const { web, clock, timers, log, memory, observatory, settings } = ports;
  const pace = createPace({ clock, timers });
  const updates = createBudget(clock, UPDATES_PER_MINUTE);
  const posted = (channel: ChannelId): void => parts.statuses.posted(channel);
  const voice = createVoice({ web, log, pace, updates, posted });
  const speakerOf = (agent: AgentId): NonNullable<Speaker> =>
    observatory.agents().find(({ id }) => id === agent) ?? { id: agent, name: agent, avatar: null };
  const lost = (channel: ChannelId): void => {
    timers.after(
      TIDY_AFTER_MS,
      () => void (parts.isRunning && tidy(ports, parts, { channel, after: null, newest: TIDY_NEWEST })),
    );
  };
  const shared = { voice, clock, timers, log, updates, lost };
  const parts: Parts = {
    voice,
    pace,
    drafts: createDrafts({ ...shared, pace, run: randomUUID() }),
    cards: createCards({ ...shared, memory, nameOf: (agent) => speakerOf(agent).name }),
    statuses: createStatuses({ web, timers, log, speakerOf, ...settings }),
    receipts: createReceipts(ports),
    adopted: new Map(),
    tidied: new Set(),
    isRunning: true,
  };
  return parts;
}

/** The scopes stand in every answer's head. */
async function learn({ web, log }: OutgoingPorts, voice: Voice): Promise<void> {
  try {
    const { response_metadata: about } = await web.auth.test();
    if (about?.scopes !== undefined && !about.scopes.includes('chat:write.customize')) voice.speakAsOneself();
  } catch {
    log.debug('the scopes of the bot token are not known');
  }
}

async function publish(parts: Parts, channel: ChannelId, post: OutgoingPost): Promise<string> {
  const message = messageOf(post);
  const ts = (await adopt(parts, channel, { post, message })) ?? (await say(parts, channel, message));
  parts.adopted.delete(post.outboxId);
  return messageId(platformChannel(channel).channel, ts);
}

/** Makes the turn's draft the post; `null` when there is none that can be. Until it is known that it was, it stays the post's. */
async function adopt(
  { drafts, adopted, voice }: Parts,
  channel: ChannelId,
  { post, message }: { readonly post: OutgoingPost; readonly message: Message },
): Promise<string | null> {
  const { speaker, epoch, outboxId } = post;
  if (speaker === null || epoch === null) return null;
  const ts = adopted.get(outboxId) ?? (await drafts.claim(channel, speaker.id, epoch));
  if (ts === null) return null;
  adopted.set(outboxId, ts);
  try {
    await voice.update(channel, ts, message);
    return ts;
  } catch (error) {
    if (!isGone(error)) throw error;
    adopted.delete(outboxId);
    return null;
  }
}

async function say({ voice, drafts, cards }: Parts, channel: ChannelId, message: Message): Promise<string> {
  const ts = await voice.post(channel, message);
  drafts.posted(channel, ts);
  cards.seen(channel);
  return ts;
}

function messageOf({ speaker, text, outboxId, epoch }: OutgoingPost): Message {
  const agent = speaker === null ? {} : { agent: speaker.id };
  const turn = epoch === null ? {} : { epoch };
  const mark = { event_type: 'conch_post', event_payload: { outbox_id: outboxId, ...agent, ...turn } } as const;
  return { speaker, text, mark };
}

/** Looks for what a former run left, once, and a few times more while that fails. Never rejects. */
async function tidyOnce(ports: OutgoingPorts, parts: Parts, channel: ChannelId, attempt = 1): Promise<void> {
  if (parts.tidied.has(channel)) return;
  const key = `tidied:${channel}`;
  const after = ports.memory.get(key);
  const newest = await tidy(ports, parts, { channel, after, newest: after === null ? TIDY_NEWEST : null });
  if (newest === null) {
    if (attempt === TIDY_ATTEMPTS) return;
    const again = (): unknown => parts.isRunning && tidyOnce(ports, parts, channel, attempt + 1);
    ports.timers.after(TIDY_AFTER_MS * attempt, () => void again());
    return;
  }
  parts.tidied.add(channel);
  // Without the mark the next run looks further back.
  if (newest !== '') await ports.memory.set(key, newest).catch(() => undefined);
}

/** Takes away what Conch left half said in a stretch; resolves with its newest own message that is no draft (`''` without one), `null` when that failed. */
async function tidy({ web, self, log }: OutgoingPorts, parts: Parts, range: Range): Promise<string | null> {
  const { drafts, cards, voice } = parts;
  const { channel } = range;
  try {
    const own = await ownMessages(web, self(), range);
    const card = await cards.current(channel);
    const isLeftOver = ({ type, ts, payload }: OwnMessage): boolean =>
      (type === 'conch_draft' && drafts.isLeftOver(payload)) || (type === 'conch_card' && ts !== card);
    for (const { ts } of own.filter(isLeftOver)) await voice.remove(channel, ts);
    return own.findLast(({ type }) => type !== 'conch_draft')?.ts ?? '';
  } catch (error) {
    log.warn({ channel, err: error }, 'leftovers of a former run could not be taken away');
    return null;
  }
}
