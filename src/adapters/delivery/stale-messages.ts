import { delay, retry } from '../../lib/retry.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { ChatError } from '../port.ts';
import type { AdapterParts, FloorQueries } from '../port.ts';
import type { Drafts } from './posts.ts';
import type { FloorCards } from './floor-cards.ts';
import type { MessageClient, OwnMessage } from './message-client.ts';
import type { RateLimits } from './rate-limits.ts';

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
