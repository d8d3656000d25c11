import { createOutboxSender } from '../../../src/adapters/delivery/chat-adapter.ts';
import type { ChatAdapter } from '../../../src/adapters/port.ts';
import { FILE_ABOVE, TEXT_LIMIT } from '../../../src/adapters/discord/content.ts';
import type { Sender } from '../../../src/adapters/discord/adapter.ts';
import { Delivery } from '../../../src/engine/outbox-delivery.ts';
import type { OutboxRow } from '../../../src/turns/floor-store.ts';
import { DEV, until } from './rig.ts';
import type { SendingRig } from './rig.ts';

type Owed = { row: OutboxRow; notBefore: number; state: 'owed' | 'inflight' | 'confirmed' | 'failed' };

/** A pending post of the channel: an agent's text, or an announcement. */
export type Said = { readonly by: 'dev' | null; readonly text: string };

let rows = 0;

/** Sends posts of one channel with the real delivery and outbox sender. The outbox is in memory. */
export function lane(rig: SendingRig, said: readonly Said[], outgoing: Sender = rig.outgoing) {
  const owed: Owed[] = said.map(({ by, text }, line) => ({
    row: rowOf(rig.channel, { by, text, line }),
    notBefore: 0,
    state: 'owed',
  }));
  const waits: number[] = [];
  const platform = adapterOf(outgoing);
  const delivery = new Delivery({
    clock: rig.time,
    timers: rig.time,
    carry: createOutboxSender({
      adapterOf: () => platform,
      speakerOf: () => DEV,
      threadOf: () => null,
      now: () => rig.time.now(),
      clean: (text) => text,
      reportDoubtfulPost: () => undefined,
    }),
    failed: () => undefined,
    broken: (error) => {
      throw error;
    },
    store: {
      async lease(_limit, at) {
        const first = owed.find(({ state }) => state !== 'confirmed' && state !== 'failed');
        if (first === undefined || first.state === 'inflight') return { rows: [], next: null };
        if (first.notBefore > at) return { rows: [], next: first.notBefore };
        first.state = 'inflight';
        const confirmed = owed.findLast(({ state }) => state === 'confirmed')?.row.afterId ?? null;
        first.row = { ...first.row, afterId: confirmed, attempts: first.row.attempts + 1 };
        return { rows: [first.row], next: null };
      },
      async settle(row, settlement) {
        if ('notBefore' in settlement) waits.push(settlement.notBefore - rig.time.now());
        const entry = owed.find((each) => each.row.id === row.id)!;
        if (settlement.state === 'confirmed') {
          entry.state = 'confirmed';
          entry.row = { ...entry.row, afterId: settlement.platformId };
        } else if (settlement.state === 'failed') entry.state = 'failed';
        else {
          entry.state = 'owed';
          entry.notBefore = settlement.notBefore;
          entry.row = { ...entry.row, uncertain: entry.row.uncertain || settlement.state === 'uncertain' };
        }
      },
    },
  });
  return {
    /** The delays before retries, in milliseconds, in order. */
    waits,
    start: () => delivery.start(),
    stop: () => delivery.stop(),
    /** The number of delivered entries. */
    done: () => owed.filter(({ state }) => state === 'confirmed').length,
    /** The number of entries that are given up. */
    failed: () => owed.filter(({ state }) => state === 'failed').length,
    /** Advances time, faster than real time, until every entry is delivered or given up. */
    async finish(): Promise<void> {
      delivery.start();
      await until(() => {
        rig.time.advance(500);
        return owed.every(({ state }) => state === 'confirmed' || state === 'failed');
      }, 'the lane to be empty');
      await delivery.stop();
    },
  };
}

function adapterOf(outgoing: Sender): ChatAdapter {
  return {
    name: 'discord',
    capabilities: {
      textLimit: TEXT_LIMIT,
      idempotentPosts: false,
      fileAbove: FILE_ABOVE,
    },
    start: async () => undefined,
    stop: async () => undefined,
    post: (channel, post) => outgoing.post(channel, post),
    find: (channel, post) => outgoing.find(channel, post),
    catchUp: async () => ({ messages: [], changes: [], gap: null }),
  };
}

function rowOf(channel: string, said: Said & { readonly line: number }): OutboxRow {
  rows += 1;
  const { by, text, line } = said;
  return {
    id: `row-${rows}`,
    channel,
    lane: 'posts',
    effect:
      by === null
        ? { type: 'announce', announcement: { kind: 'nobody' }, key: `k${rows}`, repeat: 1 }
        : { type: 'post', agent: by, epoch: 1, line, text },
    part: 0,
    text,
    attempts: 0,
    uncertain: false,
    afterId: null,
    editsId: null,
  };
}
