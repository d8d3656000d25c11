import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { atOnce, configOf, personSays, startProgram } from './app.ts';
import { channelsNamed } from './floors.ts';

/** The effect of many messages at once on a program with a slow disk. */
export type FanIn = {
  /** The share of the messages that the program accepted within one second after the last message. */
  readonly taken: number;
  readonly p99LateMs: number;
  readonly loopP99Ms: number;
};

const PACE = 200;
const SECONDS = 5;
const TICK_MS = 50;

/** Sends 200 messages a second to channels with three agents each. A timer of 50 ms shows how late timers fire. */
export async function fanIn(path: string, channels: number): Promise<FanIn> {
  const config = configOf(channels, { rounds: 1 });
  const program = await startProgram({ config, path, backend: atOnce(() => {}) });
  const ids = channelsNamed(channels);
  const lateMs: number[] = [];
  let dueAt = performance.now() + TICK_MS;
  const ticker = setInterval(() => {
    lateMs.push(performance.now() - dueAt);
    dueAt = performance.now() + TICK_MS;
  }, TICK_MS);
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  const begun = performance.now();
  let taken = 0;
  for (let sent = 0; sent < PACE * SECONDS; sent += 1) {
    await pause(Math.max(0, begun + (sent * 1_000) / PACE - performance.now()));
    void program.intake.message(personSays(ids[sent % channels] ?? '', sent)).then(() => (taken += 1));
  }
  await pause(1_000);
  clearInterval(ticker);
  delay.disable();
  const sorted = lateMs.toSorted((one, other) => one - other);
  return {
    taken: taken / (PACE * SECONDS),
    p99LateMs: sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN,
    loopP99Ms: delay.percentile(99) / 1e6,
  };
}
