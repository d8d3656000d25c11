import { setTimeout as pause } from 'node:timers/promises';
import type { OutboxRow } from '../src/turns/floor-store.ts';
import { personSays } from './app.ts';
import { channelsNamed, openManaged } from './floors.ts';
import { Meter, inLanes } from './steady.ts';
import type { Measured, Span } from './steady.ts';

/** How many messages a second come when nobody waits for the one before. */
export const PACE = 300;

const TEXT = 'Please add a link that resets the password, and say where it leads.';

/** Makes one message of one lane durable and delivers it. */
type Deliver = (lane: number) => Promise<void>;

/** People's messages to so many holders in the middle of their turns: durable, and in the hands of the agent. */
export async function inbound(path: string, channels: number, span: Span): Promise<Measured> {
  return await withHolders(path, channels, (deliver) => inLanes(channels, span, deliver));
}

/** The same at a steady pace. */
export async function pacedInbound(path: string, channels: number, span: Span): Promise<Measured> {
  return await withHolders(path, channels, (deliver) => atPace(channels, span, deliver));
}

/** At so few a second, a second has too few to tell the one in a hundred that takes longest. */
const LONGER = 3;

/** What a program that just had all hands full needs to come to rest, in milliseconds. */
const REST_MS = 300;

/**
 * Begins so many things a second, whether or not those before are done. It runs hot as all others do, with all lanes at once: at this
 * pace a second would leave most of it uncompiled.
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
