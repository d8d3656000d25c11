import { batch, computed, signal } from '@preact/signals';
import type { AuditStanding } from '../../../turns/tool-calls.ts';
import type { ServerFrame, ShownCall } from '../../console/protocol.ts';

/** The most tool calls that the page keeps and draws. */
const MOST_KEPT = 2_000;

/** The tool calls that the server sent, the newest first. */
export const calls = signal<readonly ShownCall[]>([]);
/** Whether the server may have older tool calls. */
export const hasEarlierCalls = signal(false);
/**
 * The time of the oldest tool call that the server read for the last `newest` or `earlier` frame, shown or not. `null`
 * when no older calls are left, or the server read no call for this frame.
 */
export const readUpTo = signal<number | null>(null);
/** Whether the page waits for tool calls from the server. */
export const isReading = signal(false);
/** Open requests and always-allow rules; `null` until the server has sent them. */
export const standing = signal<AuditStanding | null>(null);
/** Whether the page has as many tool calls as it keeps at most. */
export const isFull = computed(() => calls.value.length >= MOST_KEPT);

/** Takes a frame of tool calls. */
export function takeCalls(frame: Extract<ServerFrame, { readonly type: 'audit' }>): void {
  const { part, rows, asked, remembered } = frame;
  batch(() => {
    if (asked !== undefined && remembered !== undefined) standing.value = { asked, remembered };
    if (part === 'changed') {
      calls.value = renewed(rows, frame.removed);
      return;
    }
    isReading.value = false;
    calls.value = part === 'newest' ? rows : [...calls.value, ...rows].slice(0, MOST_KEPT);
    hasEarlierCalls.value = frame.more;
    readUpTo.value = frame.upto;
  });
}

/**
 * Returns the page's tool calls after a change. Leaves out changed calls that are older than the page's oldest call,
 * while the server may have calls between them.
 */
function renewed(changed: readonly ShownCall[], removed: readonly string[]): readonly ShownCall[] {
  const replaced = new Set([...removed, ...changed.map(({ key }) => key)]);
  const unchanged = calls.value.filter(({ key }) => !replaced.has(key));
  const oldest = hasEarlierCalls.value ? (calls.value.at(-1)?.askedAt ?? -Infinity) : -Infinity;
  return [...unchanged, ...changed.filter(({ askedAt }) => askedAt >= oldest)]
    .toSorted((a, b) => b.askedAt - a.askedAt || b.seq - a.seq)
    .slice(0, MOST_KEPT);
}
