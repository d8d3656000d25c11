import { BoundedMap } from '../../lib/keyed.ts';
import type { Clock, Timer } from '../../lib/time.ts';
import type { Receipt } from '../../turns/floor/react.ts';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import { ChatError } from '../port.ts';
import type { AdapterParts, FloorQueries, OutgoingPost, Speaker } from '../port.ts';
import { isAfter } from './message-client.ts';
import type { Content, MessageClient, MessageRef, OwnMessage } from './message-client.ts';
import { createThrottle } from './rate-limits.ts';
import type { RateLimits, Throttle } from './rate-limits.ts';
import { delay, retry } from '../../lib/retry.ts';
import type { FloorCards } from './floor-cards.ts';

/** What drafts need. */
type DraftsPorts = Pick<AdapterParts, 'clock' | 'timers' | 'log'> & {
  readonly client: MessageClient;
  readonly rates: RateLimits;
  readonly queries: Pick<FloorQueries, 'thread'>;
  /** A draft may stand in the channel that should not: it is to be looked for. */
  readonly doubt: (channel: ChannelId) => void;
};

const INTERVAL_MS = 1_500;
/** What is said at once needs no draft. */
const FIRST_AFTER_MS = 500;
/** How long a draft without further text waits for its post. */
const LINGER_MS = 3_000;
const STOP_MS = 2_000;
const IDS_KEPT = 2_000;

type Draft = {
  /** The channel, or the thread in which it stands. */
  readonly place: ChannelId;
  readonly speaker: NonNullable<Speaker>;
  readonly epoch: number;
  readonly throttle: Throttle;
  text: string;
  shown: string | null;
  id: MessageId | null;
  /** It cannot be shown any more; its turn goes on without. */
  isBroken: boolean;
  linger: Timer | null;
};

/**
 * Text that is still being generated, shown as one message a channel that is edited, and that becomes the post in the end. No
 * error of it surfaces, and nothing is retried: the newest text is shown when the platform takes it.
 */
export class Drafts {
  readonly #ports: DraftsPorts;
  readonly #open = new Map<ChannelId, Draft>();
  readonly #ending = new Set<Promise<unknown>>();
  /** Messages that this run began as drafts and did not give up. */
  readonly #kept = new BoundedMap<MessageId, true>(IDS_KEPT);
  #isStopped = false;

  constructor(ports: DraftsPorts) {
    this.#ports = ports;
  }

  /** Shows the newest text of a turn, soon; `null` takes it away, unless its post comes. */
  show(channel: ChannelId, speaker: NonNullable<Speaker>, epoch: number, text: string | null): void {
    if (this.#isStopped) return;
    const open = this.#open.get(channel);
    const isSame = open?.speaker.id === speaker.id && open.epoch === epoch;
    if (text === null || text.trim() === '') {
      if (isSame) open.linger ??= this.#ports.timers.after(LINGER_MS, () => this.#endSoon(channel, open));
      return;
    }
    if (open !== undefined && !isSame) {
      if (epoch < open.epoch) return;
      this.#endSoon(channel, open);
    }
    const draft = isSame ? open : this.#begin(channel, { speaker, epoch });
    draft.linger?.cancel();
    draft.linger = null;
    draft.text = text;
    draft.throttle.kick();
  }

  /**
   * Ends the draft of the turn that a post belongs to, and every older one. Resolves, when nothing of it is under way any
   * more, with the message that the post may take over; `null` when there is none.
   */
  async take(channel: ChannelId, { speaker, epoch }: OutgoingPost): Promise<MessageRef | null> {
    const open = this.#open.get(channel);
    if (open === undefined || speaker === null || epoch === null || epoch < open.epoch) return null;
    if (open.epoch === epoch && open.speaker.id === speaker.id) return this.#close(channel, open);
    await this.#end(channel, open);
    return null;
  }

  /** Takes away a draft that its post could not take over. */
  async drop(draft: MessageRef): Promise<void> {
    const { client, log, doubt } = this.#ports;
    this.#kept.delete(draft.id);
    try {
      await client.remove(draft);
    } catch (error) {
      log.debug({ channel: draft.channel, err: error }, 'a draft could not be taken away');
      doubt(draft.channel);
    }
  }

  /** Whether a draft that stands in a channel is nobody's: of a former run, given up, or sent without an answer. */
  isStale(id: MessageId): boolean {
    return !this.#kept.has(id);
  }

  /** Takes every draft away, as far as that works within two seconds. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const [channel, draft] of this.#open) this.#endSoon(channel, draft);
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = this.#ports.timers.after(STOP_MS, resolve);
    await Promise.race([Promise.allSettled(this.#ending), promise]);
    timer.cancel();
  }

  #begin(channel: ChannelId, of: Pick<Draft, 'speaker' | 'epoch'>): Draft {
    const { clock, timers, queries } = this.#ports;
    const pace = { clock, timers, gapMs: INTERVAL_MS, delayMs: FIRST_AFTER_MS };
    const throttle = createThrottle(pace, () => this.#draw(draft));
    const place = queries.thread(channel) ?? channel;
    const draft: Draft = { ...of, place, throttle, text: '', shown: null, id: null, isBroken: false, linger: null };
    this.#open.set(channel, draft);
    return draft;
  }

  #endSoon(channel: ChannelId, draft: Draft): void {
    const work = this.#end(channel, draft).finally(() => this.#ending.delete(work));
    this.#ending.add(work);
  }

  async #end(channel: ChannelId, draft: Draft): Promise<void> {
    const left = await this.#close(channel, draft);
    if (left !== null) await this.drop(left);
  }

  async #close(channel: ChannelId, draft: Draft): Promise<MessageRef | null> {
    if (this.#open.get(channel) === draft) this.#open.delete(channel);
    draft.linger?.cancel();
    await draft.throttle.stop();
    return draft.id === null ? null : { channel: draft.place, id: draft.id };
  }

  async #draw(draft: Draft): Promise<number | null> {
    const { rates } = this.#ports;
    if (draft.isBroken || draft.text === draft.shown) return null;
    const waitMs = draft.id === null ? rates.wait(draft.place) : 0;
    if (waitMs > 0) return waitMs;
    if (draft.id !== null && !rates.takeEdit()) return INTERVAL_MS;
    try {
      await this.#write(draft);
      return null;
    } catch (error) {
      return this.#failed(draft, error);
    }
  }

  async #write(draft: Draft): Promise<void> {
    const { rates } = this.#ports;
    const { place: channel, id, text, speaker, epoch } = draft;
    const content: Content = { kind: 'draft', speaker, text, buttons: [], epoch, outboxId: null };
    if (id === null) {
      draft.id = await rates.send(channel, content);
      this.#kept.set(draft.id, true);
    } else if ((await rates.change({ channel, id }, content)) === 'gone') {
      draft.isBroken = true;
      draft.id = null;
    }
    draft.shown = text;
  }

  #failed(draft: Draft, error: unknown): number | null {
    const { log, doubt } = this.#ports;
    const fault = error instanceof ChatError ? error.fault : 'refused';
    if (error instanceof ChatError && fault === 'limited') return error.retryAfterMs ?? INTERVAL_MS;
    log.debug({ channel: draft.place, err: error }, 'a draft could not be shown');
    if (fault === 'unreachable') return null;
    if (draft.id === null && fault === 'unclear') doubt(draft.place);
    if (draft.id === null || fault === 'refused') draft.isBroken = true;
    return null;
  }
}

/** What posting needs. */
type PostsPorts = Pick<DraftsPorts, 'client' | 'rates' | 'log'> & {
  readonly drafts: Drafts;
  /** Something is said in a thread. */
  readonly begins: (thread: ChannelId) => void;
};

const ADOPTED_KEPT = 1_000;
const PLACES_KEPT = 10_000;

/** What is said for good. A post takes the draft of its turn over where it can; a second call for it changes the same message. */
export class Posts {
  readonly #ports: PostsPorts;
  /** The newest post of each channel and thread. */
  readonly #newest = new BoundedMap<ChannelId, MessageId>(PLACES_KEPT);
  /** Drafts that a post was written into without an answer, by outbox id: it is written there again. */
  readonly #adopted = new BoundedMap<string, MessageRef>(ADOPTED_KEPT);

  /** Channels in which one is being posted, or will be tried again. */
  readonly #underWay = new Set<ChannelId>();

  constructor(ports: PostsPorts) {
    this.#ports = ports;
  }

  /** Whether a post is on its way to a channel. */
  isUnderWay(channel: ChannelId): boolean {
    return this.#underWay.has(channel);
  }

  /** Resolves with where it stands: what its thread does not take is said in the channel. */
  async publish(channel: ChannelId, post: OutgoingPost): Promise<MessageRef> {
    if (post.text.trim() === '') {
      throw new ChatError('There is nothing to post', { method: 'post', channel, fault: 'refused' });
    }
    this.#underWay.add(channel);
    if (post.thread !== undefined) this.#ports.begins(post.thread);
    try {
      const standing = await this.#publish(channel, post);
      this.#underWay.delete(channel);
      return standing;
    } catch (error) {
      if (!(error instanceof ChatError) || error.fault === 'refused') this.#underWay.delete(channel);
      throw error;
    }
  }

  async #publish(channel: ChannelId, post: OutgoingPost): Promise<MessageRef> {
    const draft = this.#adopted.get(post.outboxId) ?? (await this.#takeOver(channel, post));
    if (draft !== null && (await this.#intoDraft(draft, post))) return this.#stands(draft);
    if (post.thread !== undefined) {
      try {
        return await this.#send(post.thread, post);
      } catch (error) {
        if (!(error instanceof ChatError) || error.fault !== 'refused') throw error;
        this.#ports.log.warn(
          { channel, thread: post.thread, err: error },
          'a thread takes no message: its channel does',
        );
      }
    }
    return this.#send(channel, post);
  }

  async #send(place: ChannelId, post: OutgoingPost): Promise<MessageRef> {
    return this.#stands({ channel: place, id: await this.#ports.rates.send(place, contentOf(post)) });
  }

  async find(channel: ChannelId, post: OutgoingPost): Promise<MessageId | null> {
    const inThread = post.thread === undefined ? null : await this.#findIn(post.thread, post).catch(unlessRefused);
    const found = inThread ?? (await this.#findIn(channel, post));
    if (found !== null) this.#underWay.delete(channel);
    return found;
  }

  async #findIn(place: ChannelId, post: OutgoingPost): Promise<MessageId | null> {
    const own = await this.#ports.client.own(place, { after: post.afterId, newest: null });
    const content = contentOf(post);
    const found = own.find((message) => message.kind === 'post' && message.is(content));
    if (found === undefined) return null;
    this.#adopted.delete(post.outboxId);
    return this.#stands({ channel: place, id: found.id }).id;
  }

  #stands(message: MessageRef): MessageRef {
    this.#newest.set(message.channel, message.id);
    return message;
  }

  /** A draft is taken over only where the post belongs, and when no post stands below it; else it goes. */
  async #takeOver(channel: ChannelId, post: OutgoingPost): Promise<MessageRef | null> {
    const { client, drafts } = this.#ports;
    const place = post.thread ?? channel;
    const draft = await drafts.take(channel, post);
    if (draft === null) return null;
    const { fileAbove } = client.limits;
    const fits = draft.channel === place && post.text.length <= (fileAbove ?? Infinity);
    const above = [this.#newest.get(place), post.afterId].filter((each) => typeof each === 'string');
    if (fits && above.every((each) => isAfter(draft.id, each))) return draft;
    await drafts.drop(draft);
    return null;
  }

  /** Writes a post into its draft; `false` when that draft cannot be written to any more. */
  async #intoDraft(draft: MessageRef, post: OutgoingPost): Promise<boolean> {
    const { rates, drafts } = this.#ports;
    try {
      const outcome = await rates.change(draft, contentOf(post));
      this.#adopted.delete(post.outboxId);
      return outcome === 'changed';
    } catch (error) {
      if (error instanceof ChatError && error.fault !== 'refused') {
        this.#adopted.set(post.outboxId, draft);
        throw error;
      }
      this.#adopted.delete(post.outboxId);
      await drafts.drop(draft);
      return false;
    }
  }
}

/** A thread that is gone has nothing. */
function unlessRefused(error: unknown): null {
  if (error instanceof ChatError && error.fault === 'refused') return null;
  throw error;
}

function contentOf({ speaker, text, epoch, outboxId, buttons = [] }: OutgoingPost): Content {
  return { kind: 'post', speaker, text, buttons, epoch, outboxId };
}

/** Shows one receipt under a message: a new one takes the place of those before it. Rejects with a `ChatError`. */
type ShowReceipt = (message: MessageRef, receipt: Receipt) => Promise<void>;

const MESSAGES_KEPT = 2_000;

/** The receipts of one adapter. Messages from before it began are looked at first, for what a former run left there. */
export function createReceipts({
  client,
  clock,
}: {
  readonly client: MessageClient;
  readonly clock: Clock;
}): ShowReceipt {
  const bornAt = clock.now();
  const shown = new BoundedMap<MessageId, ReadonlySet<Receipt>>(MESSAGES_KEPT);
  return async (message, receipt) => {
    const isOlder = client.sentAt(message.id) < bornAt;
    const left = new Set(shown.get(message.id) ?? (isOlder ? await seen(client, message) : []));
    if (left.has('done') && receipt !== 'done') return;
    if (!left.has(receipt)) await client.react(message, receipt, true);
    shown.set(message.id, left.add(receipt));
    for (const old of [...left].filter((one) => one !== receipt)) {
      await client.react(message, old, false);
      left.delete(old);
    }
  };
}

/** None when that cannot be seen. */
async function seen(client: MessageClient, message: MessageRef): Promise<readonly Receipt[]> {
  try {
    return await client.receipts(message);
  } catch {
    return [];
  }
}

/** What looking for stale messages needs. */
type StaleMessagesPorts = Pick<AdapterParts, 'memory' | 'timers' | 'log'> & {
  readonly client: MessageClient;
  readonly rates: Pick<RateLimits, 'quiet'>;
  readonly drafts: Pick<Drafts, 'isStale'>;
  readonly cards: Pick<FloorCards, 'settle'>;
  readonly queries: Pick<FloorQueries, 'thread'>;
};

/** What may stand in a channel is looked for twice, for it may come to stand there late: so long after, one after the other. */
const GAPS_MS = [5_000, 15_000];
const AGAIN = { firstMs: 5_000, longestMs: 60_000 };
/** So far back, and no farther than where a former look began. */
const NEWEST = 1_000;
const NEWEST_AT_FIRST = 200;

/**
 * Drafts and cards that nobody knows of: a former run left them, or the answer to them was lost. A look takes the drafts away
 * and tells which cards there are; one that fails is repeated until it works, or is refused.
 */
export class StaleMessages {
  readonly #ports: StaleMessagesPorts;
  readonly #ending = new AbortController();
  /** Channels that were looked at since the start. */
  readonly #begun = new Set<ChannelId>();
  /** How many looks at a channel are owed. */
  readonly #owed = new Map<ChannelId, number>();
  readonly #following = new Set<ChannelId>();

  constructor(ports: StaleMessagesPorts) {
    this.#ports = ports;
  }

  /** Looks at a channel and the thread in use there, if it was not looked at in this run or something may stand there. Never rejects. */
  async tidy(channel: ChannelId): Promise<void> {
    await this.#tidy(channel);
    const thread = this.#ports.queries.thread(channel);
    if (thread !== null) await this.#tidy(thread);
  }

  /** Something is said there: what a former run left stands above it. */
  begin(channel: ChannelId): void {
    if (!this.#begun.has(channel)) void this.#tidy(channel);
  }

  async #tidy(channel: ChannelId): Promise<void> {
    if (!this.#begun.has(channel)) this.#owed.set(channel, GAPS_MS.length);
    this.#begun.add(channel);
    if (!this.#owed.has(channel)) return;
    await this.#look(channel).catch((error: unknown) => this.#failed(channel, error));
    this.#follow(channel);
  }

  /** Something may stand there that nobody knows the id of, or that could not be taken away. */
  doubt(channel: ChannelId): void {
    this.#owed.set(channel, GAPS_MS.length);
    this.#follow(channel);
  }

  stop(): void {
    this.#ending.abort();
  }

  #follow(channel: ChannelId): void {
    if (this.#following.has(channel)) return;
    this.#following.add(channel);
    this.#untilKnown(channel)
      .catch(() => undefined)
      .finally(() => this.#following.delete(channel));
  }

  async #untilKnown(channel: ChannelId): Promise<void> {
    const waiting = { timers: this.#ports.timers, signal: this.#ending.signal };
    for (let left = this.#owed.get(channel); left !== undefined; left = this.#owed.get(channel)) {
      await delay(GAPS_MS.at(-left) ?? 0, waiting);
      await retry(() => this.#look(channel), AGAIN, {
        ...waiting,
        judge: ({ error }) => (this.#failed(channel, error) ? 'give-up' : { notBeforeMs: retryAfterMs(error) }),
      });
    }
  }

  /** Whether it will not be known: then the channel is looked at again when it is caught up again. */
  #failed(channel: ChannelId, error: unknown): boolean {
    const { log, cards } = this.#ports;
    const isRefused = !(error instanceof ChatError) || error.fault === 'refused';
    log[isRefused ? 'warn' : 'debug']({ channel, err: error }, 'what was left half said could not be looked for');
    if (isRefused) cards.settle(channel, []);
    return isRefused;
  }

  async #look(channel: ChannelId): Promise<void> {
    const { client, rates, drafts, cards, memory } = this.#ports;
    const key = `looked:${channel}`;
    const after = memory.get(key);
    const own = await client.own(channel, { after, newest: after === null ? NEWEST_AT_FIRST : NEWEST });
    await rates.quiet(channel);
    const isStale = ({ kind, id }: OwnMessage): boolean => kind === 'draft' && drafts.isStale(id);
    for (const { id } of own.filter(isStale)) await client.remove({ channel, id });
    cards.settle(
      channel,
      own.filter(({ kind }) => kind === 'card').map(({ id }) => id),
    );
    await this.#mark(key, own);
    const left = (this.#owed.get(channel) ?? 1) - 1;
    if (left === 0) this.#owed.delete(channel);
    else this.#owed.set(channel, left);
  }

  /** What stands before the first draft or card need not be read again. Without the mark the next run looks further back. */
  async #mark(key: string, own: readonly OwnMessage[]): Promise<void> {
    const first = own.findIndex(({ kind }) => kind !== 'post');
    const last = (first === -1 ? own : own.slice(0, first)).at(-1);
    if (last !== undefined) await this.#ports.memory.set(key, last.id).catch(() => undefined);
  }
}

function retryAfterMs(error: unknown): number {
  return error instanceof ChatError ? (error.retryAfterMs ?? 0) : 0;
}
