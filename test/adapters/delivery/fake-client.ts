import { pino } from 'pino';
import type {
  ClientLimits,
  Content,
  MessageClient,
  OwnMessage,
} from '../../../src/adapters/delivery/message-client.ts';
import { createMessageSender } from '../../../src/adapters/delivery/chat-adapter.ts';
import type { MessageSender } from '../../../src/adapters/delivery/message-client.ts';
import { ChatError } from '../../../src/adapters/port.ts';
import type { Memory, OutgoingPost, Speaker } from '../../../src/adapters/port.ts';
import type { Receipt } from '../../../src/turns/floor/react.ts';
import type { CrewView } from '../../../src/turns/crew-view.ts';
import type { FloorView, ReviewView } from '../../../src/turns/view.ts';
import { createTime } from '../../agents/time.ts';

export const CHANNEL = 'fake:general';
export const THREAD = 'fake:general/thread';
export const DEV: NonNullable<Speaker> = { id: 'dev', name: 'Dev', avatar: null };
export const QA: NonNullable<Speaker> = { id: 'qa', name: 'QA', avatar: null };

type Method = 'send' | 'change' | 'remove' | 'own' | 'react' | 'receipts';
type Message = { readonly id: string; readonly channel: string; content: Content | string };

/** Fails the next `times` calls of a method; default: 1. `done`: the call takes effect although it fails. */
export type Fault = {
  readonly fault: ChatError['fault'];
  readonly done?: boolean;
  readonly retryAfterMs?: number;
  readonly channelIsGone?: boolean;
  readonly kind?: Content['kind'];
  readonly channel?: string;
  readonly times?: number;
};

/** A platform in memory, with any number of runs of the program. Time moves only when tests advance it. */
export function fakePlatform(limits: Partial<ClientLimits> = {}) {
  const time = createTime();
  const messages: Message[] = [];
  const reactions = new Map<string, Set<Receipt>>();
  const faults: { method: Method; fault: Fault; left: number }[] = [];
  const calls: string[] = [];
  const kept = new Map<string, string>();
  const logged: string[] = [];
  const crews = new Map<string, CrewView>();
  const past = new Map<string, string>();
  const reviews = new Map<string, ReviewView>();
  let ids = 100;
  const places: { thread: string | null } = { thread: null };
  /** `ways`: the delays of the next edits, in milliseconds. `at`: the times at which edits arrived. */
  const edits: { ways: number[]; readonly at: number[] } = { ways: [], at: [] };

  function suffer(method: Method, channel: string, content: Content | null, act: () => void): void {
    calls.push(content === null ? method : `${method} ${content.kind}`);
    const found = faults.find(
      ({ method: of, fault }) =>
        of === method && (fault.kind ?? content?.kind) === content?.kind && (fault.channel ?? channel) === channel,
    );
    if (found === undefined) return act();
    found.left -= 1;
    if (found.left === 0) faults.splice(faults.indexOf(found), 1);
    const { fault, done = false, retryAfterMs, channelIsGone = false } = found.fault;
    if (done) act();
    const more = { channelIsGone, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
    throw new ChatError(`${method} went wrong`, { method, channel, fault, ...more });
  }
  const at = (id: string): Message | undefined => messages.find((message) => message.id === id);
  const without = (id: string): void => {
    const index = messages.findIndex((message) => message.id === id);
    if (index !== -1) messages.splice(index, 1);
  };

  const client: MessageClient = {
    limits: { postGapMs: 0, editsPerMinute: null, fileAbove: null, timeLeftEveryMs: null, ...limits },
    async send(channel, content) {
      const id = String((ids += 1));
      suffer('send', channel, content, () => messages.push({ id, channel, content }));
      return id;
    },
    async change({ channel, id }, content) {
      const wayMs = edits.ways.shift() ?? 0;
      if (wayMs > 0) await new Promise<void>((resolve) => void time.timers.after(wayMs, resolve));
      edits.at.push(time.clock.now());
      const message = at(id);
      suffer('change', channel, content, () => message && (message.content = content));
      return message === undefined ? 'gone' : 'changed';
    },
    async remove({ channel, id }) {
      suffer('remove', channel, null, () => without(id));
    },
    async readOwn(channel, { after, newest }) {
      suffer('own', channel, null, () => undefined);
      const own = messages.flatMap((message): OwnMessage[] => {
        const { id, content } = message;
        if (message.channel !== channel || typeof content === 'string') return [];
        return [{ id, kind: content.kind, matches: (post) => post.outboxId === content.outboxId }];
      });
      return own.filter(({ id }) => after === null || id > after).slice(newest === null ? 0 : -newest);
    },
    async react({ channel, id }, receipt, on) {
      suffer('react', channel, null, () => {
        const shown = reactions.get(id) ?? new Set();
        reactions.set(id, shown);
        if (on) shown.add(receipt);
        else shown.delete(receipt);
      });
    },
    async receipts({ channel, id }) {
      suffer('receipts', channel, null, () => undefined);
      return [...(reactions.get(id) ?? [])];
    },
    sentAt: (id) => Number(id.split('@')[1] ?? time.clock.now()),
    timeLeft: (endsAt) => `${Math.round((endsAt - time.clock.now()) / 1_000)} s left`,
  };
  const memory: Memory = {
    get: (key) => kept.get(key) ?? null,
    set: async (key, value) => void kept.set(key, value),
  };
  const run = (settings: { streaming?: boolean; cards?: boolean } = {}): MessageSender =>
    createMessageSender({
      client,
      queries: {
        agents: () => [DEV, QA].map((agent) => ({ ...agent, description: '' })),
        thread: () => places.thread,
        crew: (channel) => crews.get(channel) ?? null,
        pastThread: (channel) => past.get(channel) ?? null,
        review: (channel) => reviews.get(channel) ?? null,
      },
      clock: time.clock,
      timers: time.timers,
      log: pino({ level: 'debug' }, { write: (line: string) => void logged.push(line) }),
      memory,
      settings: { streaming: true, cards: true, ...settings },
    });
  return {
    time,
    sender: run(),
    /** Starts another run of the program on the same memory and messages. Does not stop the earlier run. */
    run,
    kept,
    /** Crews by channel. */
    crews,
    /** Ids of finished tickets by thread. */
    past,
    reviews,
    edits,
    /** The thread for the holder's text; `null`: the channel itself. */
    places,
    logged,
    calls,
    reactions,
    fail: (method: Method, fault: Fault): void => void faults.push({ method, fault, left: fault.times ?? 1 }),
    heal: (): void => void faults.splice(0),
    /** Writes a message as a person; returns its id. */
    write: (text: string): string => {
      const id = String((ids += 1));
      messages.push({ id, channel: CHANNEL, content: text });
      return id;
    },
    remove: without,
    ids: (kind: Content['kind']): readonly string[] =>
      messages.filter(({ content }) => typeof content !== 'string' && content.kind === kind).map(({ id }) => id),
    /** Returns the messages, oldest first: "draft Dev: hal", "card Conch: 💤 …", "ann: hello". */
    shown: (channel?: string): readonly string[] =>
      messages
        .filter((message) => message.channel === (channel ?? message.channel))
        .map(({ content }) =>
          typeof content === 'string'
            ? content
            : `${content.kind} ${content.speaker?.name ?? 'Conch'}: ${content.text}`,
        ),
  };
}

export type FakePlatform = ReturnType<typeof fakePlatform>;

let posts = 0;

export function said(text: string, more: Partial<OutgoingPost> = {}): OutgoingPost {
  posts += 1;
  return { outboxId: `box-${posts}`, speaker: DEV, text, afterId: null, epoch: 1, ...more };
}

/** Returns the view of a floor. Only an open floor has a holder. */
export function floorView(condition: FloorView['condition'], more: Partial<FloorView> = {}): FloorView {
  const holder: FloorView['holder'] = {
    agent: 'dev',
    epoch: 1,
    status: 'ACTIVE',
    startedAt: 0,
    deadlineAt: null,
    waitingFor: null,
    working: false,
    approval: null,
  };
  return {
    channel: CHANNEL,
    store: 'x',
    condition,
    mode: 'inject',
    order: 'round-robin',
    epoch: 1,
    holder: condition === 'open' ? holder : null,
    seats: [],
    next: [],
    held: [],
    turns: null,
    obstacles: [],
    ...more,
  };
}
