import { BoundedMap } from '../../lib/keyed.ts';
import type { Timer } from '../../lib/time.ts';
import type { Receipt } from '../../turns/floor/react.ts';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import { fenceAfter } from '../../turns/text/split.ts';
import type { Fence } from '../../turns/text/split.ts';
import { ChatError } from '../port.ts';
import type { AdapterParts, FloorQueries, OutgoingPost, Speaker } from '../port.ts';
import { isAfter } from './message-client.ts';
import type { Content, MessageClient, MessageRef, OwnMessage } from './message-client.ts';
import { createThrottle } from './rate-limits.ts';
import type { RateLimits, Throttle } from './rate-limits.ts';
import { delay, retry, withinMs } from '../../lib/retry.ts';
import type { FloorCards } from './floor-cards.ts';

type DraftsPorts = Pick<AdapterParts, 'clock' | 'timers' | 'log'> & {
  readonly client: MessageClient;
  readonly rates: RateLimits;
  readonly queries: Pick<FloorQueries, 'thread'>;
  readonly requestSearch: (channel: ChannelId) => void;
};

const INTERVAL_MS = 1_500;
/** How long to wait before a draft is shown. A text that is posted within this time needs no draft. */
const FIRST_AFTER_MS = 500;
/**
 * How long a draft stays after its text became blank or `null`, in milliseconds. More text within this time keeps the
 * draft.
 */
const LINGER_MS = 3_000;
const STOP_MS = 2_000;
const IDS_KEPT = 2_000;

type Draft = {
  readonly place: ChannelId;
  readonly speaker: NonNullable<Speaker>;
  readonly epoch: number;
  readonly throttle: Throttle;
  text: string;
  shownText: string | null;
  id: MessageId | null;
  isBroken: boolean;
  lingerTimer: Timer | null;
};

/**
 * Shows text that is still being generated as one message per channel. The message is edited as the text grows and
 * becomes the post where possible. Errors are never thrown.
 */
export class Drafts {
  readonly #ports: DraftsPorts;
  readonly #open = new Map<ChannelId, Draft>();
  readonly #endingDrafts = new Set<Promise<unknown>>();
  readonly #ownDrafts = new BoundedMap<MessageId, true>(IDS_KEPT);
  #isStopped = false;

  constructor(ports: DraftsPorts) {
    this.#ports = ports;
  }

  /**
   * Shows a turn's newest text: first after 0.5 s at the earliest, then at most every 1.5 s. A blank text or `null`
   * removes the turn's draft, unless its post or more text follows within 3 s. Ignores a text of an earlier turn than
   * the open draft's.
   */
  show(channel: ChannelId, speaker: NonNullable<Speaker>, epoch: number, text: string | null): void {
    if (this.#isStopped) return;
    const open = this.#open.get(channel);
    const isSame = open?.speaker.id === speaker.id && open.epoch === epoch;
    if (text === null || text.trim() === '') {
      if (isSame) open.lingerTimer ??= this.#ports.timers.after(LINGER_MS, () => this.#endSoon(channel, open));
      return;
    }
    if (open !== undefined && !isSame) {
      if (epoch < open.epoch) return;
      this.#endSoon(channel, open);
    }
    const draft = isSame ? open : this.#begin(channel, { speaker, epoch });
    draft.lingerTimer?.cancel();
    draft.lingerTimer = null;
    draft.text = text;
    draft.throttle.kick();
  }

  /**
   * Ends the draft of the post's turn, and waits until its running write has ended. Resolves with the draft's message,
   * which the post can replace; `null`: none. Removes the draft of an earlier turn.
   */
  async take(channel: ChannelId, { speaker, epoch }: OutgoingPost): Promise<MessageRef | null> {
    const open = this.#open.get(channel);
    if (open === undefined || speaker === null || epoch === null || epoch < open.epoch) return null;
    if (open.epoch === epoch && open.speaker.id === speaker.id) return this.#close(channel, open);
    await this.#end(channel, open);
    return null;
  }

  /** Deletes a draft's message. If that fails, requests a search for stale drafts in the channel. Never rejects. */
  async drop(draft: MessageRef): Promise<void> {
    const { client, log, requestSearch } = this.#ports;
    this.#ownDrafts.delete(draft.id);
    try {
      await client.remove(draft);
    } catch (error) {
      log.debug({ channel: draft.channel, err: error }, 'a draft could not be removed');
      requestSearch(draft.channel);
    }
  }

  /** Returns whether a draft is stale: none of the last 2,000 drafts that this process sent and did not drop. */
  isStale(id: MessageId): boolean {
    return !this.#ownDrafts.has(id);
  }

  /** Removes all drafts. Gives up after 2 s. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const [channel, draft] of this.#open) this.#endSoon(channel, draft);
    await withinMs(STOP_MS, Promise.allSettled(this.#endingDrafts), this.#ports.timers);
  }

  #begin(channel: ChannelId, turn: Pick<Draft, 'speaker' | 'epoch'>): Draft {
    const { clock, timers, queries } = this.#ports;
    const throttlePorts = { clock, timers, gapMs: () => INTERVAL_MS, delayMs: FIRST_AFTER_MS };
    const throttle = createThrottle(throttlePorts, () => this.#draw(draft));
    const place = queries.thread(channel) ?? channel;
    const draft: Draft = {
      ...turn,
      place,
      throttle,
      text: '',
      shownText: null,
      id: null,
      isBroken: false,
      lingerTimer: null,
    };
    this.#open.set(channel, draft);
    return draft;
  }

  #endSoon(channel: ChannelId, draft: Draft): void {
    const work = this.#end(channel, draft).finally(() => this.#endingDrafts.delete(work));
    this.#endingDrafts.add(work);
  }

  async #end(channel: ChannelId, draft: Draft): Promise<void> {
    const message = await this.#close(channel, draft);
    if (message !== null) await this.drop(message);
  }

  async #close(channel: ChannelId, draft: Draft): Promise<MessageRef | null> {
    if (this.#open.get(channel) === draft) this.#open.delete(channel);
    draft.lingerTimer?.cancel();
    await draft.throttle.stop();
    return draft.id === null ? null : { channel: draft.place, id: draft.id };
  }

  async #draw(draft: Draft): Promise<number | null> {
    const { rates } = this.#ports;
    if (draft.isBroken || draft.text === draft.shownText) return null;
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
      this.#ownDrafts.set(draft.id, true);
    } else if ((await rates.change({ channel, id }, content)) === 'gone') {
      draft.isBroken = true;
      draft.id = null;
    }
    draft.shownText = text;
  }

  #failed(draft: Draft, error: unknown): number | null {
    const { log, requestSearch } = this.#ports;
    const fault = error instanceof ChatError ? error.fault : 'refused';
    if (error instanceof ChatError && fault === 'limited') return error.retryAfterMs ?? INTERVAL_MS;
    log.debug({ channel: draft.place, err: error }, 'a draft could not be shown');
    if (fault === 'unreachable') return null;
    if (draft.id === null && fault === 'unclear') requestSearch(draft.place);
    if (draft.id === null || fault === 'refused') draft.isBroken = true;
    return null;
  }
}

/** The longest line that `draftText` adds to open or to close a code block, in UTF-16 units. */
const FRAME_LENGTH = 40;
/** The most that `draftText` adds to open and close code blocks, in UTF-16 units. */
export const MOST_FRAME = 2 * FRAME_LENGTH;

/**
 * Returns the text of a draft. Of a text with more than `limit` UTF-16 units, returns only the end, after "…". Opens
 * the code block in which the end begins, and closes the code block in which it ends.
 */
export function draftText(text: string, limit: number): string {
  const trimmed = text.trimEnd();
  return closeCode(trimmed.length > limit ? tailOf(trimmed, limit) : trimmed);
}

function tailOf(text: string, limit: number): string {
  const from = text.length - limit;
  const newline = text.indexOf('\n', from);
  const isWithinLine = newline === -1 || newline > from + limit / 2;
  const start = isWithinLine ? from : newline + 1;
  const fence = openAt(text.slice(0, start));
  const head = fence === null ? '' : `${fence.mark}${fence.language}\n`.slice(0, FRAME_LENGTH);
  return `…${isWithinLine && fence === null ? '' : '\n'}${head}${text.slice(start).toWellFormed()}`;
}

function closeCode(text: string): string {
  const fence = openAt(text);
  return fence === null || fence.mark.length > FRAME_LENGTH ? text : `${text}\n${fence.mark}`;
}

function openAt(text: string): Fence | null {
  let fence: Fence | null = null;
  for (const line of text.split('\n')) fence = fenceAfter(fence, line);
  return fence !== null && fence.block ? fence : null;
}

type PostsPorts = Pick<DraftsPorts, 'client' | 'rates' | 'log'> & {
  readonly drafts: Drafts;
  /** Called before a post is sent to a thread. */
  readonly beginThread: (thread: ChannelId) => void;
};

const ADOPTED_KEPT = 1_000;
const PLACES_KEPT = 10_000;

/**
 * Sends posts. A post replaces the draft of its turn where possible. If the edit of the draft fails without a refusal,
 * the retry edits the same message.
 */
export class Posts {
  readonly #ports: PostsPorts;
  readonly #newest = new BoundedMap<ChannelId, MessageId>(PLACES_KEPT);
  /** Drafts whose edit into a post failed with a `ChatError` other than a refusal, by the post's outbox id. */
  readonly #adopted = new BoundedMap<string, MessageRef>(ADOPTED_KEPT);

  readonly #sending = new Set<ChannelId>();

  constructor(ports: PostsPorts) {
    this.#ports = ports;
  }

  /**
   * Returns whether the channel's last post is being sent, or failed with a `ChatError` other than a refusal. After
   * such a failure, a search that finds the post or is refused makes the answer false.
   */
  isSending(channel: ChannelId): boolean {
    return this.#sending.has(channel);
  }

  /**
   * Sends a post and resolves with its message. Posts to the channel if the post's thread refuses the post. Rejects a
   * blank text as `refused`.
   */
  async publish(channel: ChannelId, post: OutgoingPost): Promise<MessageRef> {
    if (post.text.trim() === '') {
      throw new ChatError('There is nothing to post', { method: 'post', channel, fault: 'refused' });
    }
    this.#sending.add(channel);
    if (post.thread !== undefined) this.#ports.beginThread(post.thread);
    return this.#untilSettled(channel, () => this.#publish(channel, post));
  }

  async #untilSettled<T extends MessageRef | null>(channel: ChannelId, work: () => Promise<T>): Promise<T> {
    try {
      const message = await work();
      if (message !== null) this.#sending.delete(channel);
      return message;
    } catch (error) {
      if (!(error instanceof ChatError) || error.fault === 'refused') this.#sending.delete(channel);
      throw error;
    }
  }

  async #publish(channel: ChannelId, post: OutgoingPost): Promise<MessageRef> {
    const draft = this.#adopted.get(post.outboxId) ?? (await this.#takeOver(channel, post));
    if (draft !== null && (await this.#intoDraft(draft, post))) return this.#remember(draft);
    if (post.thread !== undefined) {
      try {
        return await this.#send(post.thread, post);
      } catch (error) {
        if (!(error instanceof ChatError) || error.fault !== 'refused') throw error;
        this.#ports.log.warn(
          { channel, thread: post.thread, err: error },
          'a thread refused a post: posted to its channel',
        );
      }
    }
    return this.#send(channel, post);
  }

  async #send(place: ChannelId, post: OutgoingPost): Promise<MessageRef> {
    return this.#remember({ channel: place, id: await this.#ports.rates.send(place, contentOf(post)) });
  }

  /**
   * Searches for a post in its thread, then in its channel. Resolves with `null` when neither has the post; a thread
   * that is gone has none. Rejects as `refused` when the thread refuses the search and the channel lacks the post.
   */
  find(channel: ChannelId, post: OutgoingPost): Promise<MessageRef | null> {
    return this.#untilSettled(channel, async () => {
      if (post.thread === undefined) return this.#findIn(channel, post);
      const inThread = this.#findIn(post.thread, post).catch(nullIfGone);
      return (await inThread.catch(nullIfRefused)) ?? (await this.#findIn(channel, post)) ?? inThread;
    });
  }

  async #findIn(place: ChannelId, post: OutgoingPost): Promise<MessageRef | null> {
    const ownMessages = await this.#ports.client.readOwn(place, { after: post.afterId, newest: null });
    const content = contentOf(post);
    const found = ownMessages.find((message) => message.kind === 'post' && message.matches(content));
    if (found === undefined) return null;
    this.#adopted.delete(post.outboxId);
    return this.#remember({ channel: place, id: found.id });
  }

  #remember(message: MessageRef): MessageRef {
    this.#newest.set(message.channel, message.id);
    return message;
  }

  /**
   * Returns the draft of the post's turn if the post can replace it. Otherwise removes the draft and returns `null`.
   */
  async #takeOver(channel: ChannelId, post: OutgoingPost): Promise<MessageRef | null> {
    const { client, drafts } = this.#ports;
    const place = post.thread ?? channel;
    const draft = await drafts.take(channel, post);
    if (draft === null) return null;
    const { fileAbove } = client.limits;
    const canReplace = draft.channel === place && post.text.length <= (fileAbove ?? Infinity);
    const earlierIds = [this.#newest.get(place), post.afterId].filter((each) => typeof each === 'string');
    if (canReplace && earlierIds.every((each) => isAfter(draft.id, each))) return draft;
    await drafts.drop(draft);
    return null;
  }

  async #intoDraft(draft: MessageRef, post: OutgoingPost): Promise<boolean> {
    const { rates, drafts } = this.#ports;
    this.#adopted.delete(post.outboxId);
    try {
      return (await rates.change(draft, contentOf(post))) === 'changed';
    } catch (error) {
      if (error instanceof ChatError && error.fault !== 'refused') {
        this.#adopted.set(post.outboxId, draft);
        throw error;
      }
      await drafts.drop(draft);
      return false;
    }
  }
}

/** Returns `null` for a `ChatError` with the fault `refused`. Throws any other error. */
export function nullIfRefused(error: unknown): null {
  if (error instanceof ChatError && error.fault === 'refused') return null;
  throw error;
}

/**
 * Returns `null` for a thread that is gone. Throws any other error. A refusal is thrown without its cause, because the
 * cause would count as a refusal by the channel.
 */
function nullIfGone(error: unknown): null {
  if (!(error instanceof ChatError) || error.fault !== 'refused') throw error;
  if (error.channelIsGone) return null;
  throw new ChatError(error.message, { method: error.method, channel: error.channel, fault: 'refused' });
}

function contentOf({ speaker, text, epoch, outboxId, buttons = [] }: OutgoingPost): Content {
  return { kind: 'post', speaker, text, buttons, epoch, outboxId };
}

/**
 * Shows one receipt under a message and removes earlier receipts. After `done`, shows no other receipt. Rejects with a
 * `ChatError`.
 */
type ShowReceipt = (message: MessageRef, receipt: Receipt) => Promise<void>;

const MESSAGES_KEPT = 2_000;

/**
 * Creates the function that shows receipts. For a message from before this call, it first reads which receipts are
 * shown.
 */
export function createReceipts({ client, clock }: Pick<DraftsPorts, 'client' | 'clock'>): ShowReceipt {
  const startedAt = clock.now();
  const shownReceipts = new BoundedMap<MessageId, ReadonlySet<Receipt>>(MESSAGES_KEPT);
  return async (message, receipt) => {
    const isOlder = client.sentAt(message.id) < startedAt;
    const receipts = new Set(
      shownReceipts.get(message.id) ?? (isOlder ? await client.receipts(message).catch(() => []) : []),
    );
    if (receipts.has('done') && receipt !== 'done') return;
    if (!receipts.has(receipt)) await client.react(message, receipt, true);
    shownReceipts.set(message.id, receipts.add(receipt));
    for (const outdated of [...receipts].filter((each) => each !== receipt)) {
      await client.react(message, outdated, false);
      receipts.delete(outdated);
    }
  };
}

type StaleMessagesPorts = Pick<AdapterParts, 'memory' | 'timers' | 'log'> & {
  readonly client: MessageClient;
  readonly rates: Pick<RateLimits, 'waitForSends'>;
  readonly drafts: Pick<Drafts, 'isStale'>;
  readonly cards: Pick<FloorCards, 'settle'>;
  readonly queries: Pick<FloorQueries, 'thread'>;
};

/**
 * The waits before the two searches that a request causes, in milliseconds. The second one finds messages that appear
 * late.
 */
const GAPS_MS = [5_000, 15_000];
const AGAIN = { firstMs: 5_000, longestMs: 60_000 };
/** The most messages that a search reads after the stored mark of the last search. */
const NEWEST = 1_000;
const NEWEST_AT_FIRST = 200;

/**
 * Finds drafts and cards that an earlier process sent, or whose send got no answer, and drafts that were not removed.
 * Removes the drafts and reports the cards to `FloorCards`.
 */
export class StaleMessages {
  readonly #ports: StaleMessagesPorts;
  readonly #stopping = new AbortController();
  readonly #searchedChannels = new Set<ChannelId>();
  readonly #pendingSearches = new Map<ChannelId, number>();
  readonly #followedChannels = new Set<ChannelId>();

  constructor(ports: StaleMessagesPorts) {
    this.#ports = ports;
  }

  /**
   * Searches a channel and its current thread for stale drafts and cards. Skips a channel or thread that this process
   * has searched before, unless a search of it is pending. Never rejects.
   */
  async tidy(channel: ChannelId): Promise<void> {
    await this.#tidy(channel);
    const thread = this.#ports.queries.thread(channel);
    if (thread !== null) await this.#tidy(thread);
  }

  /**
   * Called before a post goes to a thread. Searches the thread for stale drafts and cards, if this process has not
   * searched it before.
   */
  begin(channel: ChannelId): void {
    if (!this.#searchedChannels.has(channel)) void this.#tidy(channel);
  }

  async #tidy(channel: ChannelId): Promise<void> {
    if (!this.#searchedChannels.has(channel)) this.#pendingSearches.set(channel, GAPS_MS.length);
    this.#searchedChannels.add(channel);
    if (!this.#pendingSearches.has(channel)) return;
    await this.#search(channel).catch((error: unknown) => this.#failed(channel, error));
    this.#follow(channel);
  }

  /**
   * Requests two searches of a channel that may hold a draft or card of unknown id, or a draft that was not removed.
   */
  requestSearch(channel: ChannelId): void {
    this.#pendingSearches.set(channel, GAPS_MS.length);
    this.#follow(channel);
  }

  stop(): void {
    this.#stopping.abort();
  }

  #follow(channel: ChannelId): void {
    if (this.#followedChannels.has(channel)) return;
    this.#followedChannels.add(channel);
    this.#searchPending(channel)
      .catch(() => undefined)
      .finally(() => this.#followedChannels.delete(channel));
  }

  async #searchPending(channel: ChannelId): Promise<void> {
    const waiting = { timers: this.#ports.timers, signal: this.#stopping.signal };
    for (
      let searchesLeft = this.#pendingSearches.get(channel);
      searchesLeft !== undefined;
      searchesLeft = this.#pendingSearches.get(channel)
    ) {
      await delay(GAPS_MS.at(-searchesLeft) ?? 0, waiting);
      await retry(() => this.#search(channel), AGAIN, {
        ...waiting,
        judge: ({ error }) => {
          const notBeforeMs = error instanceof ChatError ? (error.retryAfterMs ?? 0) : 0;
          return this.#failed(channel, error) ? 'give-up' : { notBeforeMs };
        },
      });
    }
  }

  #failed(channel: ChannelId, error: unknown): boolean {
    const { log, cards } = this.#ports;
    const isRefused = !(error instanceof ChatError) || error.fault === 'refused';
    log[isRefused ? 'warn' : 'debug']({ channel, err: error }, 'the search for stale drafts and cards failed');
    if (isRefused) cards.settle(channel, []);
    return isRefused;
  }

  async #search(channel: ChannelId): Promise<void> {
    const { client, rates, drafts, cards, memory } = this.#ports;
    const key = `looked:${channel}`;
    const after = memory.get(key);
    const ownMessages = await client.readOwn(channel, { after, newest: after === null ? NEWEST_AT_FIRST : NEWEST });
    await rates.waitForSends(channel);
    const isStale = ({ kind, id }: OwnMessage): boolean => kind === 'draft' && drafts.isStale(id);
    for (const { id } of ownMessages.filter(isStale)) await client.remove({ channel, id });
    cards.settle(
      channel,
      ownMessages.filter(({ kind }) => kind === 'card').map(({ id }) => id),
    );
    await this.#storeMark(key, ownMessages);
    const searchesLeft = (this.#pendingSearches.get(channel) ?? 1) - 1;
    if (searchesLeft === 0) this.#pendingSearches.delete(channel);
    else this.#pendingSearches.set(channel, searchesLeft);
  }

  /**
   * Stores the id of the last of Conch's messages before the first draft or card, or of the last one if all are posts.
   * The next search starts after that message.
   */
  async #storeMark(key: string, ownMessages: readonly OwnMessage[]): Promise<void> {
    const firstNonPost = ownMessages.findIndex(({ kind }) => kind !== 'post');
    const lastPost = (firstNonPost === -1 ? ownMessages : ownMessages.slice(0, firstNonPost)).at(-1);
    if (lastPost !== undefined) await this.#ports.memory.set(key, lastPost.id).catch(() => undefined);
  }
}
