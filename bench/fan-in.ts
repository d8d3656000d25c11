import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { atOnce, configOf, personSays, startProgram } from './app.ts';
import { channelsNamed } from './floors.ts';

/** What many messages at once do to a program whose disk is slow. */
export type FanIn = {
  /** The share of the messages that was taken in within a second after the last. */
  readonly taken: number;
  readonly p99LateMs: number;
  readonly loopP99Ms: number;
};

const PACE = 200;
const SECONDS = 5;
const TICK_MS = 50;

/** 200 messages a second, spread over so many channels of three agents each; a timer of 50 ms says how late timers are. */
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
