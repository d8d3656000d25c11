import { setTimeout as pause } from 'node:timers/promises';
import type { OutboxRow } from '../src/turns/floor-store.ts';
import { personSays } from './app.ts';
import { channelsNamed, openManaged } from './floors.ts';
import { Meter, inLanes } from './steady.ts';
import type { Measured, Span } from './steady.ts';

/** Messages per second at the steady pace. No message waits for the one before. */
export const PACE = 300;

const TEXT = 'Please add a link that resets the password, and say where it leads.';

/** Stores one message of a lane durably and delivers it. */
type Deliver = (lane: number) => Promise<void>;

/** Measures a message to a holder in the middle of its turn, until the message is durable and the agent has it. */
export async function inbound(path: string, channels: number, span: Span): Promise<Measured> {
  return await withHolders(path, channels, (deliver) => inLanes(channels, span, deliver));
}

/** Measures the same messages at the steady pace. */
export async function pacedInbound(path: string, channels: number, span: Span): Promise<Measured> {
  return await withHolders(path, channels, (deliver) => atPace(channels, span, deliver));
}

/** The factor of the measured time: at `PACE`, one second has too few messages for a 99th percentile. */
const LONGER = 3;

/** The time in which a program comes to rest after full load, in milliseconds. */
const REST_MS = 300;

/**
 * Delivers `PACE` messages per second, whether or not earlier deliveries are done. Warms up with all lanes at once,
 * like the other measurements: at this pace, most of the code would stay uncompiled.
 */
export async function atPace(lanes: number, { warmUpMs, measuredMs }: Span, deliver: Deliver): Promise<Measured> {
  await inLanes(lanes, { warmUpMs: 0, measuredMs: warmUpMs }, deliver);
  const meter = new Meter({ warmUpMs: REST_MS, measuredMs: LONGER * measuredMs });
  const begun = performance.now();
  const broken: unknown[] = [];
  const flying = new Set<Promise<unknown>>();
  for (let sent = 0; !meter.isOver && broken.length === 0; sent += 1) {
    const dueAt = begun + (sent * 1_000) / PACE;
    await pause(Math.max(0, dueAt - performance.now()));
    const begunAt = performance.now();
    const flight = deliver(sent % lanes)
      .then(() => meter.did(begunAt))
      .catch((error: unknown) => broken.push(error))
      .finally(() => flying.delete(flight));
    flying.add(flight);
  }
  await Promise.all(flying);
  return meter.result;
}

async function withHolders(
  path: string,
  channels: number,
  measured: (deliver: Deliver) => Promise<Measured>,
): Promise<Measured> {
  const injected = new Map<string, () => void>();
  const broken = (error: unknown): void => {
    throw error;
  };
  const reached = ({ effect, channel }: OutboxRow): void => {
    if (effect.type !== 'inject') return;
    const { agent, epoch, message } = effect;
    const told = manager.apply(channel, { type: 'injected', agent, epoch, id: message, outcome: 'injected' });
    told.then(injected.get(message), broken);
  };
  const { manager, stop } = await openManaged(path, channels, { reached, broken });
  const ids = channelsNamed(channels);
  await Promise.all(ids.map((id) => manager.apply(id, { type: 'start', by: 'bench' })));
  let count = 0;
  const found = await measured(async (lane) => {
    count += 1;
    const message = personSays(ids[lane] ?? '', count, TEXT);
    const there = new Promise<void>((resolve) => injected.set(message.id, resolve));
    await Promise.all([manager.receive(message), there]);
    injected.delete(message.id);
  });
  await stop();
  return found;
}
