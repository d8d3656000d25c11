import type { Effect } from '../../turns/floor/react.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { Instant } from '../../lib/time.ts';
import { deliveryBackoffMs } from '../../engine/outbox-delivery.ts';
import type { Carrier } from '../../engine/outbox-delivery.ts';
import type { Settlement } from '../../engine/port.ts';
import type { OutboxRow } from '../../turns/floor-machine.ts';
import type { ChatAdapter, OutgoingPost, Speaker } from '../port.ts';
import { ChatError } from '../port.ts';

/** What it takes to bring rows of the outbox to a platform. */
export type OutboxSenderPorts = {
  readonly adapterOf: (channel: ChannelId) => ChatAdapter | null;
  readonly speakerOf: (agent: AgentId) => Speaker;
  readonly now: () => Instant;
  /** Takes out what must never be shown. */
  readonly clean: (text: string) => string;
  /** A text may stand in the channel twice, or not at all, for its history cannot be read. */
  readonly doubtful: (row: OutboxRow, done: 'posted again' | 'dropped', why: string) => void;
};

/** A post whose outcome is not known is looked for this often, this far apart, before it is sent again. */
const SCANS = 2;
const SCAN_GAP_MS = 3_000;

/** Ends a text that was posted again without knowing whether the first attempt got through. */
const DOUBT = '\n(possible repeat)';

/** Carries posts, announcements and receipts to their channel's platform. Each attempt ends in a settlement; nothing is retried here. */
export function createOutboxSender(ports: OutboxSenderPorts): Carrier<Effect> {
  const scans = new Map<string, number>();
  return async (row) => {
    const adapter = ports.adapterOf(row.channel);
    if (adapter === null) return { state: 'failed', why: `no adapter serves ${row.channel}` };
    try {
      const settlement = await attempt(row, { adapter, ports, scans });
      if (settlement.state !== 'uncertain') scans.delete(row.id);
      return settlement;
    } catch (error) {
      if (error instanceof ChatError) return settlementOf(error, row, ports.now());
      throw error;
    }
  };
}

type Attempt = {
  readonly adapter: ChatAdapter;
  readonly ports: OutboxSenderPorts;
  readonly scans: Map<string, number>;
};

async function attempt(row: OutboxRow, at: Attempt): Promise<Settlement> {
  const { adapter, ports } = at;
  if (row.effect.type === 'receipt') {
    await adapter.receipt?.(row.channel, row.effect.message, row.effect.receipt);
    return { state: 'confirmed', platformId: null };
  }
  if (row.editsId !== null && adapter.edit !== undefined) {
    await adapter.edit(row.channel, row.editsId, ports.clean(row.text ?? ''));
    return { state: 'confirmed', platformId: row.editsId };
  }
  const post = postOf(row, ports);
  if (row.uncertain && !adapter.capabilities.idempotentPosts) {
    const found = await lookFor(adapter, post, row.channel);
    if ('blind' in found) return blind(row, post, { ...at, why: found.blind });
    if (found.id !== null) return { state: 'confirmed', platformId: found.id };
    const scanned = (at.scans.get(row.id) ?? 0) + 1;
    at.scans.set(row.id, scanned);
    if (scanned < SCANS) return { state: 'uncertain', notBefore: ports.now() + SCAN_GAP_MS };
    at.scans.delete(row.id);
  }
  return { state: 'confirmed', platformId: await adapter.post(row.channel, post) };
}

type Found = { readonly id: string | null } | { readonly blind: string };

async function lookFor(adapter: ChatAdapter, post: OutgoingPost, channel: ChannelId): Promise<Found> {
  try {
    return { id: await adapter.find(channel, post) };
  } catch (error) {
    if (error instanceof ChatError && error.fault === 'refused') return { blind: error.message };
    throw error;
  }
}

/** Nobody can say whether it is there: what an agent said is said again with a mark, anything else is let go. */
async function blind(row: OutboxRow, post: OutgoingPost, at: Attempt & { readonly why: string }): Promise<Settlement> {
  if (post.speaker === null) {
    at.ports.doubtful(row, 'dropped', at.why);
    return { state: 'failed', why: `it may have been posted, and the history cannot be read: ${at.why}` };
  }
  at.ports.doubtful(row, 'posted again', at.why);
  const platformId = await at.adapter.post(row.channel, { ...post, text: `${post.text}${DOUBT}` });
  return { state: 'confirmed', platformId };
}

function postOf(row: OutboxRow, ports: OutboxSenderPorts): OutgoingPost {
  const { effect } = row;
  const isSpeech = effect.type === 'post';
  return {
    outboxId: row.id,
    speaker: isSpeech ? ports.speakerOf(effect.agent) : null,
    text: ports.clean(row.text ?? ''),
    afterId: row.afterId,
    epoch: isSpeech ? effect.epoch : null,
  };
}

function settlementOf(error: ChatError, row: OutboxRow, now: Instant): Settlement {
  const later = now + (error.retryAfterMs ?? deliveryBackoffMs(row.attempts));
  switch (error.fault) {
    case 'refused':
      return { state: 'failed', why: error.message };
    case 'limited':
    case 'unreachable':
      return { state: 'retry', notBefore: later };
    case 'unclear':
      return { state: 'uncertain', notBefore: later };
  }
}
