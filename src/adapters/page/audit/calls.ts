import { batch, computed, signal } from '@preact/signals';
import { isWanted } from '../../../turns/tool-calls.ts';
import type { AuditStanding, AuditWanted } from '../../../turns/tool-calls.ts';
import type { ServerFrame, ShownCall } from '../../console/protocol.ts';

/** The most calls that the page keeps and draws. */
const MOST_KEPT = 2_000;

/** Which tool calls the reader wants to see. */
export const wanted = signal<AuditWanted>({});
/** Those that were sent, the newest first. */
export const calls = signal<readonly ShownCall[]>([]);
/** Earlier ones may exist. */
export const hasEarlierCalls = signal(false);
/** How far the reading has come; `null`: to the end, or it found nothing to go by. */
export const readUpTo = signal<number | null>(null);
/** The server has not answered yet. */
export const isReading = signal(false);
/** What is asked and what is remembered; `null` until the server has told. */
export const standing = signal<AuditStanding | null>(null);
/** No more calls are drawn. */
export const isFull = computed(() => calls.value.length >= MOST_KEPT);

const names = signal<Readonly<Record<string, string>>>({});

/** What a person is called, as far as the server said. */
export function personName(id: string): string {
  return names.value[id] ?? id;
}

/** A call by its seat and its place. */
export function keyOfCall({ channel, agent, aside, seq }: ShownCall): string {
  return `${channel} ${agent}${aside === true ? '+' : ''} ${seq}`;
}

/** Takes what the server tells of tool calls. */
export function takeCalls(frame: Extract<ServerFrame, { readonly type: 'audit' }>): void {
  const { part, rows, asked, remembered } = frame;
  batch(() => {
    names.value = { ...names.value, ...frame.names };
    if (asked !== undefined && remembered !== undefined) standing.value = { asked, remembered };
    if (part === 'changed') {
      calls.value = renewed(calls.value, rows);
      return;
    }
    isReading.value = false;
    calls.value = part === 'newest' ? rows : [...calls.value, ...rows].slice(0, MOST_KEPT);
    hasEarlierCalls.value = frame.more;
    readUpTo.value = frame.upto;
  });
}

/** Each changed call in its place; a new one where it belongs, and none that is not wanted any more. */
function renewed(known: readonly ShownCall[], changed: readonly ShownCall[]): readonly ShownCall[] {
  const news = new Map(changed.map((call) => [keyOfCall(call), call]));
  const kept = known.filter((call) => !news.has(keyOfCall(call)));
  const oldest = hasEarlierCalls.value ? (known.at(-1)?.askedAt ?? -Infinity) : -Infinity;
  const fresh = [...news.values()].filter((call) => call.askedAt >= oldest && isWanted(call, wanted.value));
  return [...kept, ...fresh].toSorted((a, b) => b.askedAt - a.askedAt || b.seq - a.seq).slice(0, MOST_KEPT);
}
