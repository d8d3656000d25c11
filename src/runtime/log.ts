import { pino } from 'pino';
import type { Logger } from 'pino';
import pretty from 'pino-pretty';
import { redactor } from './redact.ts';
import type { Instant } from '../lib/time.ts';

/** Where lines go, each with its line feed. */
export type LogDestination = {
  write(line: string): unknown;
  on?(event: 'error', listener: (error: Error) => void): unknown;
};

/** What one log goes by. */
export type LogOptions = {
  /** The least important lines that are written. From `debug` on, errors carry their stack. */
  readonly level: 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace';
  /** Lines for people in place of JSON; "auto" when standard output is a terminal. */
  readonly pretty: boolean | 'auto';
  /** Values that no line may hold, in any of the forms in which they get into one. */
  readonly secrets: readonly string[];
  /** Standard output unless another is named. */
  readonly destination?: LogDestination;
  readonly clock?: { now(): Instant };
};

/** A log of JSON lines, each with `level` and an ISO 8601 `timestamp`, or of lines for people. */
export type Log = Logger;

/**
 * Opens a log. Secrets are taken out of the finished line, so that none gets past. A destination that fails (a full disk,
 * a closed pipe) loses lines, never the program.
 */
export function createLog(options: LogOptions): Log {
  const { level, secrets, clock = Date } = options;
  const destination = options.destination ?? standardOutput();
  destination.on?.('error', () => undefined);
  const redacted = redactor(secrets);
  const shaped = isPretty(options.pretty) ? forPeople() : String;
  const errors = withErrors(level === 'debug' || level === 'trace');
  return pino(
    {
      level,
      base: null,
      timestamp: false,
      messageKey: 'message',
      mixin: () => ({ timestamp: new Date(clock.now()).toISOString() }),
      serializers: { err: (value: unknown) => value },
      formatters: { level: (label) => ({ level: label }), log: errors },
    },
    { write: (line: string) => writeTo(destination, shaped(redacted(line))) },
  );
}

/** What is kept of lines that could not be written, in bytes, to be tried again with the next; further ones are lost. */
const MOST_KEPT = 1_024 * 1_024;
const CAUSES = 5;

function standardOutput(): LogDestination {
  return pino.destination({ fd: 1, sync: true, maxLength: MOST_KEPT, retryEAGAIN: () => false });
}

function isPretty(wanted: boolean | 'auto'): boolean {
  return wanted === 'auto' ? process.stdout.isTTY : wanted;
}

function writeTo(destination: LogDestination, line: string): void {
  try {
    destination.write(line);
  } catch {
    // A log that cannot be written must not stop a floor, and there is nowhere left to say so.
  }
}

function forPeople(): (line: string) => string {
  return pretty.prettyFactory({
    colorize: pretty.isColorSupported && process.stdout.isTTY,
    messageKey: 'message',
    timestampKey: 'timestamp',
    translateTime: 'SYS:HH:MM:ss.l',
    ignore: 'event,from,to,trigger',
    singleLine: true,
    messageFormat: (line, key) => (line['event'] === 'state_transition' ? transitionWords(line) : text(line[key])),
  });
}

function transitionWords(line: Readonly<Record<string, unknown>>): string {
  const [agent, from, to, trigger] = ['agentId', 'from', 'to', 'trigger'].map((key) => text(line[key]));
  return `${agent} ${from} → ${to} (${trigger})`;
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function withErrors(withStack: boolean): (line: Record<string, unknown>) => Record<string, unknown> {
  return (line) =>
    Object.fromEntries(
      Object.entries(line).map(([key, value]) => [key, value instanceof Error ? described(value, withStack) : value]),
    );
}

/** An error as a line holds it: never the whole object, which may hold a request with its headers. */
function described(error: Error, withStack: boolean, depth = 0): Readonly<Record<string, unknown>> {
  const { cause } = error;
  const isDeep = depth === CAUSES;
  return {
    type: error.name,
    message: error.message,
    ...('code' in error && typeof error.code === 'string' ? { code: error.code } : {}),
    ...(withStack ? { stack: error.stack } : {}),
    ...(cause instanceof Error && !isDeep ? { cause: described(cause, withStack, depth + 1) } : {}),
    ...(typeof cause === 'string' ? { cause } : {}),
  };
}
