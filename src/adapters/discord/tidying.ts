import { Routes } from 'discord.js';
import type { Logger } from 'pino';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Timer, Timers } from '../../lib/time.ts';
import { endsWithCursor } from './body.ts';
import type { Memory } from '../port.ts';
import type { Calls } from './calls.ts';
import type { Cards } from './card.ts';
import { wordsOf } from './errors.ts';
import { platformChannel } from './ids.ts';
import { newest } from './search.ts';
import type { SeenMessage } from './search.ts';
import type { Voice } from './voice.ts';
import type { Webhooks } from './webhooks.ts';

/** Takes away what Conch left half said: drafts and cards of a former run, or of an answer that was lost. */
export type Tidying = {
  /** Never rejects: what could not be taken away is tried again by itself. */
  tidy(channel: ChannelId): Promise<void>;
  /** This message is of no use any more, or one may have been left behind whose id nobody learnt. */
  soon(channel: ChannelId, messageId: string | null): void;
  stop(): void;
};

export type TidyingPorts = {
  readonly calls: Calls;
  readonly cards: Pick<Cards, 'isStray'>;
  readonly voice: Pick<Voice, 'remove' | 'isOfThisRun' | 'disown' | 'quiet'>;
  readonly webhooks: Pick<Webhooks, 'of' | 'isOwn'>;
  readonly userId: () => string;
  readonly memory: Memory;
  readonly timers: Timers;
  readonly log: Logger;
};

/** So far back a run looks for what it left itself. */
const OWN = 50;
/** And for what former runs left, since the first of them that looked. */
const FORMER = 2_000;
const SOON_MS = 5_000;
const ATTEMPTS = 5;

/** The tidying of one bot's channels. */
export function createTidying(ports: TidyingPorts): Tidying {
  const { timers, log } = ports;
  const planned = new Map<ChannelId, Timer>();
  /** Where what a former run left has been looked for. */
  const tidiedOnce = new Set<ChannelId>();
  let stopped = false;
  const tidied = async (channel: ChannelId): Promise<boolean> => {
    try {
      const key = `tidied:${channel}`;
      const back = tidiedOnce.has(channel) ? { limit: OWN } : { limit: FORMER, after: ports.memory.get(key) };
      const messages = await newest(ports.calls, channel, back);
      await ports.voice.quiet();
      for (const message of messages.filter((each) => isLeftOver(ports, channel, each))) {
        await takeAway(ports, channel, message);
      }
      if (!tidiedOnce.has(channel)) await markTidied(ports, key, messages);
      tidiedOnce.add(channel);
      return true;
    } catch (error) {
      log.debug({ channel, why: wordsOf(error) }, 'what was left half said could not be taken away');
      return false;
    }
  };
  const plan = (channel: ChannelId, attempt: number): void => {
    const run = async (): Promise<void> => {
      planned.delete(channel);
      if (!(await tidied(channel)) && attempt < ATTEMPTS) plan(channel, attempt + 1);
    };
    if (stopped || planned.has(channel)) return;
    planned.set(
      channel,
      timers.after(SOON_MS * attempt, () => void run()),
    );
  };
  return {
    async tidy(channel) {
      if (!(await tidied(channel))) plan(channel, 1);
    },
    soon(channel, messageId) {
      if (messageId !== null) ports.voice.disown(messageId);
      plan(channel, 1);
    },
    stop() {
      stopped = true;
      for (const timer of planned.values()) timer.cancel();
      planned.clear();
    },
  };
}

/** What a former run left stands before this; what this one leaves comes after it. */
async function markTidied({ memory, voice }: TidyingPorts, key: string, seen: readonly SeenMessage[]): Promise<void> {
  const last = seen.findLast(({ id }) => !voice.isOfThisRun(id));
  if (last !== undefined) await memory.set(key, last.id);
}

function isLeftOver(ports: TidyingPorts, channel: ChannelId, message: SeenMessage): boolean {
  const { webhook_id: webhook, author, content, id } = message;
  const isOwn = typeof webhook === 'string' ? ports.webhooks.isOwn(webhook) : author.id === ports.userId();
  if (!isOwn) return false;
  return ports.cards.isStray(channel, message) || (endsWithCursor(content) && !ports.voice.isOfThisRun(id));
}

async function takeAway(ports: TidyingPorts, channel: ChannelId, message: SeenMessage): Promise<void> {
  const { id, webhook_id: by } = message;
  const webhook = typeof by === 'string' ? await ports.webhooks.of(channel) : null;
  if (webhook === null || webhook.id === by) return ports.voice.remove(channel, { id, webhook });
  const route = Routes.channelMessage(platformChannel(channel), id);
  await ports.calls.tell({ method: 'delete', route, channel, what: 'delete for a former webhook' });
}
