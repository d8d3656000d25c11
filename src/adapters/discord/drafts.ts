import type { Logger } from 'pino';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Clock, Timer, Timers } from '../../lib/time.ts';
import { ChatError } from '../port.ts';
import type { OutgoingPost, Speaker } from '../port.ts';
import { draftOf } from './body.ts';
import { isUnknownMessage, wordsOf } from './errors.ts';
import { createPace } from './pace.ts';
import type { Pace } from './pace.ts';
import type { Standing, Voice } from './voice.ts';

/** Text that is still being generated, shown as a message that is edited and ends with a cursor. No error of it surfaces. */
export type Drafts = {
  draft(channel: ChannelId, speaker: NonNullable<Speaker>, epoch: number, text: string | null): void;
  /**
   * Ends the draft of the turn that a post belongs to, and every older one. Resolves, when nothing of it is under way any
   * more, with the message that the post may take over; `null` when there is none.
   */
  take(channel: ChannelId, post: OutgoingPost): Promise<Standing | null>;
  /** Takes away a draft that its post could not take over. */
  drop(channel: ChannelId, standing: Standing): Promise<void>;
  /** Takes every draft away, as far as that works within two seconds. */
  stop(): Promise<void>;
};

export type DraftsPorts = {
  readonly voice: Voice;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
  readonly enabled: boolean;
  /** A draft stands in this channel that should not, or may stand there under an id that nobody learnt (`null`). */
  readonly strayed: (channel: ChannelId, messageId: string | null) => void;
};

const GAP_MS = 1_500;
/** What is said at once needs no draft. */
const FIRST_AFTER_MS = 500;
/** How long a draft without further text waits for its post. */
const LINGER_MS = 3_000;
const STOP_MS = 2_000;

type Draft = {
  readonly speaker: NonNullable<Speaker>;
  readonly epoch: number;
  readonly pace: Pace;
  text: string;
  shown: string | null;
  standing: Standing | null;
  /** It cannot be shown any more; its turn goes on without. */
  broken: boolean;
  linger: Timer | null;
};

/** The drafts of one bot, one for each channel. */
export function createDrafts(ports: DraftsPorts): Drafts {
  return new BotDrafts(ports);
}

class BotDrafts implements Drafts {
  readonly #ports: DraftsPorts;
  readonly #drafts = new Map<ChannelId, Draft>();
  readonly #ending = new Set<Promise<unknown>>();
  #stopped = false;

  constructor(ports: DraftsPorts) {
    this.#ports = ports;
  }

  draft(channel: ChannelId, speaker: NonNullable<Speaker>, epoch: number, text: string | null): void {
    if (!this.#ports.enabled || this.#stopped) return;
    const open = this.#drafts.get(channel);
    const isSame = open?.speaker.id === speaker.id && open.epoch === epoch;
    if (text === null || text.trim() === '') {
      if (isSame) open.linger ??= this.#ports.timers.after(LINGER_MS, () => this.#endSoon(channel, open));
      return;
    }
    if (open !== undefined && !isSame) {
      if (epoch < open.epoch) return;
      this.#endSoon(channel, open);
    }
    const draft = isSame ? open : begin(this.#ports, channel, { speaker, epoch });
    this.#drafts.set(channel, draft);
    draft.linger?.cancel();
    draft.linger = null;
    draft.text = text;
    draft.pace.kick();
  }

  async take(channel: ChannelId, post: OutgoingPost): Promise<Standing | null> {
    const { speaker, epoch } = post;
    const open = this.#drafts.get(channel);
    if (open === undefined || speaker === null || epoch === null || epoch < open.epoch) return null;
    if (open.epoch === epoch && open.speaker.id === speaker.id) return this.#close(channel, open);
    await this.#end(channel, open);
    return null;
  }

  async drop(channel: ChannelId, standing: Standing): Promise<void> {
    try {
      await this.#ports.voice.remove(channel, standing);
    } catch (error) {
      this.#ports.log.debug({ channel, why: wordsOf(error) }, 'a draft could not be taken away');
      this.#ports.strayed(channel, standing.id);
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    for (const [channel, draft] of this.#drafts) this.#endSoon(channel, draft);
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = this.#ports.timers.after(STOP_MS, resolve);
    await Promise.race([Promise.allSettled(this.#ending), promise]);
    timer.cancel();
  }

  #endSoon(channel: ChannelId, draft: Draft): void {
    const work = this.#end(channel, draft).finally(() => this.#ending.delete(work));
    this.#ending.add(work);
  }

  async #end(channel: ChannelId, draft: Draft): Promise<void> {
    const standing = await this.#close(channel, draft);
    if (standing !== null) await this.drop(channel, standing);
  }

  async #close(channel: ChannelId, draft: Draft): Promise<Standing | null> {
    if (this.#drafts.get(channel) === draft) this.#drafts.delete(channel);
    draft.linger?.cancel();
    await draft.pace.stop();
    return draft.standing;
  }
}

function begin(
  ports: DraftsPorts,
  channel: ChannelId,
  of: { readonly speaker: NonNullable<Speaker>; readonly epoch: number },
): Draft {
  const pace = { clock: ports.clock, timers: ports.timers, gapMs: GAP_MS, delayMs: FIRST_AFTER_MS };
  const draft: Draft = {
    ...of,
    pace: createPace(pace, () => show(ports, channel, draft)),
    text: '',
    shown: null,
    standing: null,
    broken: false,
    linger: null,
  };
  return draft;
}

/** Shows the newest text; after a limit it tries again when that is over. */
async function show(ports: DraftsPorts, channel: ChannelId, draft: Draft): Promise<number | null> {
  const { speaker, text, standing } = draft;
  if (draft.broken || text === draft.shown) return null;
  const write = (isWebhook: boolean): string => draftOf(speaker, text, isWebhook);
  try {
    if (standing === null) {
      draft.standing = await ports.voice.say(channel, { what: 'draft', speaker, write, files: [], nonce: null });
    } else await ports.voice.change(channel, standing, write);
    draft.shown = text;
    return null;
  } catch (error) {
    const fault = error instanceof ChatError ? error.fault : 'refused';
    if (fault === 'limited' && error instanceof ChatError) return error.retryAfterMs;
    ports.log.debug({ channel, why: wordsOf(error) }, 'a draft could not be shown');
    if (fault === 'unreachable') return null;
    if (standing === null && fault === 'unclear') ports.strayed(channel, null);
    if (standing === null || fault === 'refused') draft.broken = true;
    if (isUnknownMessage(error)) draft.standing = null;
    return null;
  }
}
