import type { ChannelId } from '../turns/floor/settings.ts';
import type { TurnManager } from '../turns/manager.ts';
import type { Settlement } from '../engine/port.ts';
import type { OutboxRow } from '../turns/records.ts';

type Floors = Pick<TurnManager, 'apply'>;

/** Lets people answer a question. Its text came before this in the same lane; if it was refused, the question is over already. */
export async function offer(floors: Floors, channel: ChannelId, question: number): Promise<Settlement> {
  await floors.apply(channel, { type: 'shown', question });
  return { state: 'confirmed', platformId: null };
}

/** Tells a floor of a text that its platform will never show: what an agent said, or a question. It need not know of others. */
export async function tellUnposted(floors: Floors, { channel, effect }: OutboxRow, why: string): Promise<void> {
  if (effect.type === 'post') await floors.apply(channel, { type: 'undelivered', agent: effect.agent, why });
  if (effect.type !== 'announce' || effect.announcement.kind !== 'approval') return;
  await floors.apply(channel, { type: 'shown', question: effect.announcement.question, why });
}
