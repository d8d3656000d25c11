import { createOutboxSender } from '../adapters/delivery/outbox-sender.ts';
import type { OutboxSenderPorts } from '../adapters/delivery/outbox-sender.ts';
import { Delivery } from '../engine/outbox-delivery.ts';
import type { Settlement } from '../engine/port.ts';
import type { Clock, Timers } from '../lib/time.ts';
import type { Effect } from '../turns/floor/react.ts';
import type { ChannelId } from '../turns/floor/settings.ts';
import type { FloorStore } from '../turns/floor-store.ts';
import type { TurnManager } from '../turns/manager.ts';
import type { OutboxRow } from '../turns/floor-machine.ts';
import type { Log } from './log.ts';
import { retryOnFullDisk } from './retry-on-full-disk.ts';

/** What bringing owed effects to where they are done needs of the program. */
export type OutboxPorts = Pick<OutboxSenderPorts, 'adapterOf' | 'speakerOf' | 'clean'> & {
  readonly store: FloorStore;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  readonly manager: Pick<TurnManager, 'apply'>;
  readonly toAgent: (row: OutboxRow) => Promise<Settlement>;
  readonly isSuspended: (channel: ChannelId) => boolean;
  /** The store itself failed. */
  readonly broken: (error: unknown) => void;
};

/** Brings what the floors owe to platforms and agents, and tells a floor what its platform refused for good. */
export function createOutbox(ports: OutboxPorts): Delivery<Effect> {
  const { store, clock, timers, log, manager, broken } = ports;
  const toPlatform = createOutboxSender({
    ...ports,
    now: () => clock.now(),
    doubtful: ({ channel, id }, done, why) => log.warn({ channel, outboxId: id, done, why }, 'possible duplicate'),
  });
  return new Delivery({
    store: {
      owed: (limit, at) => retryOnFullDisk(() => store.owed(limit, at), ports),
      settle: (row, settlement) => retryOnFullDisk(() => store.settle(row, settlement), ports),
    },
    clock,
    timers,
    broken,
    carry(row) {
      if (row.effect.type === 'offer') return openToAnswers(manager, row.channel, row.effect.question);
      return row.lane === 'posts' || row.lane === 'receipts' ? toPlatform(row) : ports.toAgent(row);
    },
    failed(row, why, settled) {
      const { channel, id, effect, attempts } = row;
      log.error({ channel, outboxId: id, effect: effect.type, attempts, why }, 'not delivered');
      if (!settled || (effect.type === 'post' && ports.isSuspended(channel))) return;
      reportUnposted(manager, row, why).catch((error: unknown) =>
        log.error({ channel, err: error }, 'the channel was not told'),
      );
    },
  });
}

type Manager = OutboxPorts['manager'];

/** Lets people answer a question. Its text came before this in the same lane; if it was refused, the question is over already. */
export async function openToAnswers(manager: Manager, channel: ChannelId, question: number): Promise<Settlement> {
  await manager.apply(channel, { type: 'shown', question });
  return { state: 'confirmed', platformId: null };
}

/** Tells a floor of a text that its platform will never show: what an agent said, or a question. It need not know of others. */
export async function reportUnposted(manager: Manager, { channel, effect }: OutboxRow, why: string): Promise<void> {
  if (effect.type === 'post') await manager.apply(channel, { type: 'undelivered', agent: effect.agent, why });
  if (effect.type !== 'announce' || effect.announcement.kind !== 'approval') return;
  await manager.apply(channel, { type: 'shown', question: effect.announcement.question, why });
}
