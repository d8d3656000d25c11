import { setTimeout as wait } from 'node:timers/promises';
import { randomUUID } from 'node:crypto';
import { eventCallback } from './events.ts';
import { postSigned } from './events-http.ts';
import { createSockets } from './sockets.ts';
import type { Connection, Sockets } from './sockets.ts';
import { isObject, words } from './state-text.ts';
import type { Json, World } from './state.ts';

export type Kind = 'events_api' | 'slash_commands' | 'interactive';

export type Pace = {
  /** How long Slack waits for an acknowledgement, in milliseconds. */
  readonly ackMs: number;
  /** The delays of an event's first, second and third repetition, in milliseconds. */
  readonly retryDelaysMs: readonly number[];
};

/** One attempt to deliver a payload. */
export type Attempt = {
  readonly envelopeId: string;
  readonly kind: Kind;
  /** The type of the event; `null` for commands and interactions. */
  readonly event: string | null;
  readonly eventId: string | null;
  /** 0 for the first attempt. */
  readonly attempt: number;
  /** The number of the connection; `null`: no open connection, or HTTP. */
  readonly connection: number | null;
  readonly at: number;
  acked: boolean;
};

export type Outcome = { readonly acked: boolean; readonly payload: unknown };

export type Delivery = {
  readonly sockets: Sockets;
  readonly attempts: readonly Attempt[];
  /** Events that were dropped after all attempts, or by a fault. */
  readonly lost: readonly Json[];
  /** Delivers an inner event, with repetitions. Resolves when it is acknowledged or dropped. */
  event(event: Json): Promise<Outcome>;
  /** Delivers a payload unchanged. */
  raw(kind: Kind, payload: Json): Promise<Outcome>;
  /** Sets the URL of signed requests; `null`: Socket Mode. */
  useHttp(url: string | null): void;
  /** Delivers the next `times` events twice: over the same connection, or over another one. */
  duplicate(how?: 'same' | 'other', times?: number): void;
  /** Never delivers the next `times` events. */
  drop(times?: number): void;
  /** Delivers the next event after the one that follows it. */
  reorder(): void;
  /** Resolves when no delivery waits for an answer or a repetition. */
  settled(): Promise<void>;
  close(): void;
};

/** `last`: the connection of the last attempt. A repetition uses another one if there is one. */
type Parcel = { readonly id: string; readonly kind: Kind; readonly payload: Json; last?: Connection };
type Odds = { duplicates: ('same' | 'other')[]; drops: number; reorder: boolean; held: (() => void) | null };

export function createDelivery(world: World, pace: Pace): Delivery {
  const waiting = new Map<string, (payload: unknown) => void>();
  const sockets = createSockets(world, (id, payload) => waiting.get(id)?.(payload));
  const odds: Odds = { duplicates: [], drops: 0, reorder: false, held: null };
  const attempts: Attempt[] = [];
  const lost: Json[] = [];
  const running = new Set<Promise<Outcome>>();
  const end = new AbortController();
  let http: string | null = null;

  async function attempt(parcel: Parcel, number: number, last: string): Promise<Outcome> {
    const entry = record(parcel, number);
    const reason = number === 0 ? null : last;
    const outcome = http === null ? await bySocket(parcel, entry, reason) : await byHttp(http, parcel, entry, reason);
    entry.acked = outcome.acked;
    return outcome;
  }

  function record({ id, kind, payload }: Parcel, number: number): Attempt {
    const event = isObject(payload['event']) ? payload['event'] : null;
    const subtype = event === null || event['subtype'] === undefined ? '' : `:${words(event['subtype'])}`;
    const type = event === null ? null : `${words(event['type'])}${subtype}`;
    const eventId = typeof payload['event_id'] === 'string' ? payload['event_id'] : null;
    const entry = {
      envelopeId: id,
      kind,
      event: type,
      eventId,
      attempt: number,
      connection: null,
      at: world.now(),
      acked: false,
    };
    attempts.push(entry);
    return entry;
  }

  async function bySocket(parcel: Parcel, entry: Attempt, reason: string | null): Promise<Outcome> {
    const retry = reason === null ? {} : { retry_attempt: entry.attempt, retry_reason: 'timeout' };
    const events = parcel.kind === 'events_api' ? { retry_attempt: 0, retry_reason: '' } : {};
    const accepts = parcel.kind !== 'events_api';
    const common = {
      envelope_id: parcel.id,
      payload: parcel.payload,
      type: parcel.kind,
      accepts_response_payload: accepts,
    };
    const frame = { ...common, ...events, ...retry };
    const answer = new Promise<unknown>((resolve) => void waiting.set(parcel.id, resolve));
    const connection = sockets.send(frame, parcel.last);
    if (connection === null) return { acked: false, payload: null };
    parcel.last = connection;
    Object.assign(entry, { connection: connection.id });
    if (parcel.kind === 'events_api') twice(frame, connection);
    return raced(answer);
  }

  function twice(frame: Json, connection: Connection): void {
    const how = odds.duplicates.shift();
    if (how === 'other') sockets.send(frame, connection);
    if (how === 'same') connection.socket.send(JSON.stringify(frame));
  }

  async function raced(answer: Promise<unknown>): Promise<Outcome> {
    const timer = new AbortController();
    const late = wait(pace.ackMs, null, { signal: AbortSignal.any([timer.signal, end.signal]) }).catch(() => null);
    const outcome = await Promise.race([
      answer.then((payload) => ({ acked: true, payload })),
      late.then(() => ({ acked: false, payload: null })),
    ]);
    timer.abort();
    return outcome;
  }

  async function byHttp(url: string, parcel: Parcel, entry: Attempt, reason: string | null): Promise<Outcome> {
    const retry = reason === null ? null : { number: entry.attempt, reason };
    const send = () => postSigned(world, { url, kind: parcel.kind, payload: parcel.payload, retry, ackMs: pace.ackMs });
    if (parcel.kind === 'events_api' && odds.duplicates.shift() !== undefined) void send();
    return send();
  }

  async function handOver(parcel: Parcel): Promise<Outcome> {
    const delays = parcel.kind === 'events_api' ? pace.retryDelaysMs : [];
    let reason = '';
    for (let number = 0; number <= delays.length && !end.signal.aborted; number += 1) {
      if (number > 0) await wait(delays[number - 1], null, { signal: end.signal }).catch(() => null);
      if (end.signal.aborted) break;
      const outcome = await attempt(parcel, number, reason);
      if (outcome.acked) return outcome;
      reason = words(outcome.payload);
      if (reason === 'no_retry') break;
    }
    if (parcel.kind === 'events_api') lost.push(parcel.payload);
    return { acked: false, payload: null };
  }

  function start(parcel: Parcel): Promise<Outcome> {
    const run = handOver(parcel).finally(() => {
      running.delete(run);
      waiting.delete(parcel.id);
    });
    running.add(run);
    return run;
  }

  function odd(parcel: Parcel): Promise<Outcome> {
    if (odds.drops > 0) {
      odds.drops -= 1;
      lost.push(parcel.payload);
      return Promise.resolve({ acked: false, payload: null });
    }
    if (odds.reorder) {
      odds.reorder = false;
      return new Promise((resolve) => {
        odds.held = () => void start(parcel).then(resolve);
      });
    }
    const run = start(parcel);
    const { held } = odds;
    odds.held = null;
    if (held !== null) setImmediate(held);
    return run;
  }

  return {
    sockets,
    attempts,
    lost,
    event: (event) => odd({ id: randomUUID(), kind: 'events_api', payload: eventCallback(world, event) }),
    raw: (kind, payload) => start({ id: randomUUID(), kind, payload }),
    useHttp(url) {
      http = url;
    },
    duplicate(how = 'same', times = 1) {
      for (let left = times; left > 0; left -= 1) odds.duplicates.push(how);
    },
    drop(times = 1) {
      odds.drops += times;
    },
    reorder() {
      odds.reorder = true;
    },
    async settled() {
      while (running.size > 0) await Promise.allSettled(running);
    },
    close() {
      end.abort();
      sockets.close();
    },
  };
}
