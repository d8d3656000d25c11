import { pino } from 'pino';
import type { Logger } from 'pino';
import pretty from 'pino-pretty';
import { redactor } from './redact.ts';
import type { Instant } from '../lib/time.ts';
import type { Fact, Outcome } from '../turns/floor/fact.ts';
import type { Change } from '../turns/manager.ts';

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

/** The owner's words for a turn that an agent spoke in and that neither its signal nor an end of its protocol ended. */
export const NO_SIGNAL = 'Agent completed response without TURN_COMPLETE';

/** One line of the owner's log format: a seat's change of state. */
export type TransitionLine = {
  readonly timestamp: string;
  readonly event: 'state_transition';
  readonly agentId: string;
  readonly from: string;
  readonly to: string;
  readonly trigger: string;
  readonly channel: string;
  readonly cause?: string;
};

/** Logs what a command changed: one line for each change of a seat's state, a warning or an error for what people should look into. */
export function logChange(log: Log, change: Change, channel: string): void {
  for (const fact of change.facts) logFact(log, fact, { at: change.at, channel });
}

/** The line of a transition that happened `at` in the channel of this name (without its adapter). */
export function transitionLine(
  fact: Extract<Fact, { readonly type: 'seatMoved' }>,
  at: Instant,
  channel: string,
): TransitionLine {
  const { agent, from, to, trigger, cause } = fact;
  return {
    timestamp: new Date(at).toISOString(),
    event: 'state_transition',
    agentId: agent,
    from,
    to,
    trigger,
    channel,
    ...(cause === undefined ? {} : { cause }),
  };
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

function logFact(log: Log, fact: Fact, where: { readonly at: number; readonly channel: string }): void {
  const { channel } = where;
  switch (fact.type) {
    case 'seatMoved':
      log[fact.trigger === 'CRASHED' ? 'error' : 'info'](transitionLine(fact, where.at, channel));
      return;
    case 'turnEnded':
      if (UNSIGNALLED.has(fact.outcome) && fact.said && !fact.signalled) {
        log.warn({ channel, agentId: fact.agent, epoch: fact.epoch, outcome: fact.outcome }, NO_SIGNAL);
      }
      return;
    case 'actRefused':
      log.warn(
        { channel, agentId: fact.agent, act: fact.act, epoch: fact.epoch, refusal: fact.refusal },
        'act refused',
      );
      return;
    case 'messageRouted':
      if (fact.fate.state === 'unrouted')
        log.warn({ channel, message: fact.id, why: fact.fate.why }, 'message not routed');
      return;
    case 'announced':
      log.info({ channel, announcement: fact.announcement, repeat: fact.repeat, shown: fact.shown }, 'announced');
      return;
    default:
      log.debug({ channel, fact }, 'fact');
  }
}

const UNSIGNALLED: ReadonlySet<Outcome> = new Set(['completed', 'expired', 'lapsed']);
