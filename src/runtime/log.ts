import { createRequire } from 'node:module';
import { pino } from 'pino';
import type PinoPretty from 'pino-pretty';
import type { Logger } from 'pino';
import { secretForms } from '../agents/tools/known-secrets.ts';
import type { Config } from '../config/config.ts';
import type { Instant } from '../lib/time.ts';
import type { AgentCommand, TurnDraft } from '../turns/floor/command.ts';
import type { Fact, Outcome } from '../turns/floor/fact.ts';
import type { Trigger } from '../turns/floor/seats.ts';
import type { Change } from '../turns/manager.ts';
import { defined } from '../lib/defined.ts';

/** The destination of lines. Each line ends with a line feed. */
type LogDestination = {
  write(line: string): unknown;
  on?(event: 'error', listener: (error: Error) => void): unknown;
};

/** The options of a log. */
export type LogOptions = {
  /** The lowest level that is written. At `debug` and below, errors have their stack. */
  readonly level: 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace';
  /** Prints lines for people in place of JSON; "auto" when standard output is a terminal. */
  readonly pretty: boolean | 'auto';
  /** Secrets to redact, also in escaped, URL-encoded and base64 form; a function when the set can change. */
  readonly secrets: readonly string[] | (() => readonly string[]);
  /** Default: standard output. */
  readonly destination?: LogDestination;
  readonly clock?: { now(): Instant };
};

/** A log of JSON lines, each with `level` and an ISO 8601 `timestamp`, or of lines for people. */
export type Log = Logger;

/**
 * Opens a log. Secrets are redacted in the finished line of JSON. A destination that fails (a full disk, a closed pipe)
 * loses lines and never stops Conch.
 */
export function createLog(options: LogOptions): Log {
  const { level, secrets, clock = Date } = options;
  const destination = options.destination ?? standardOutput();
  destination.on?.('error', () => undefined);
  const redacted = typeof secrets === 'function' ? currentRedactor(secrets, redactor) : redactor(secrets);
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

/**
 * The specification's words for a turn whose agent spoke, but neither gave the signal of its end nor ended it by
 * protocol.
 */
export const NO_SIGNAL = 'Agent completed response without TURN_COMPLETE';

/**
 * Logs the facts of floors: one line for each transition of a seat, and warnings or errors for what operators should
 * look at. While Conch starts, the agents that connect share one line for each channel.
 */
export class ChangeLog {
  readonly #log: Log;
  /** Agents that connected while Conch starts, by channel; `null` after that. */
  #arrivals: Map<string, Set<string>> | null = new Map();

  constructor(log: Log) {
    this.#log = log;
  }

  add({ facts, at }: Change, channel: string): void {
    for (const fact of facts) {
      const isArrival = fact.type === 'seatMoved' && ARRIVALS.has(fact.trigger);
      if (this.#arrivals === null || !isArrival) logFact(this.#log, fact, { at, channel });
      else {
        const arrived = this.#arrivals.get(channel) ?? new Set();
        this.#arrivals.set(channel, arrived.add(fact.agent));
        this.#log.debug(transitionLine(fact, at, channel));
      }
    }
  }

  /** Called when Conch has started: agents that connect get lines of their own from now on. */
  started(): void {
    for (const [channel, agents] of this.#arrivals ?? []) this.#log.info({ channel, agents: [...agents] }, 'seated');
    this.#arrivals = null;
  }
}

const ARRIVALS: ReadonlySet<Trigger> = new Set(['AGENT_STARTED', 'ASSIGNED']);

/** The line of a transition, in the specification's log format. `at`: its instant. `channel`: the channel's name. */
export function transitionLine(fact: Extract<Fact, { readonly type: 'seatMoved' }>, at: Instant, channel: string) {
  const { agent, from, to, trigger, cause } = fact;
  return {
    timestamp: new Date(at).toISOString(),
    event: 'state_transition',
    agentId: agent,
    from,
    to,
    trigger,
    channel,
    ...defined({ cause }),
  };
}

/**
 * Returns a function that redacts a line of JSON: the given secrets of at least six characters, in plain, escaped,
 * URL-encoded and base64 form. Each long line of a secret with several lines, such as a key, is redacted alone, too.
 * Also redacts tokens and passwords in known forms. The line stays JSON.
 */
export function redactor(secrets: readonly string[]): (line: string) => string {
  const redact = textRedactor(secrets);
  const hasNumbers = secrets.some((secret) => secret.length >= SHORTEST && isNumber(secret));
  return hasNumbers ? (line) => redactValues(line, redact) : redact;
}

/** Returns a function that redacts a text, with the secrets as they are at each call. */
export function textCleaner({ config, secrets }: CleanerParts): (text: string) => string {
  const own = config.secrets.map((secret) => secret.reveal());
  return currentRedactor(secrets ?? (() => own), textRedactor);
}

type CleanerParts = { readonly config: Pick<Config, 'secrets'>; readonly secrets?: () => readonly string[] };

/** Returns a redactor that is made anew when `secrets` returns another array. */
function currentRedactor(
  secrets: () => readonly string[],
  make: (secrets: readonly string[]) => (text: string) => string,
): (text: string) => string {
  let currentSecrets = secrets();
  let redact = make(currentSecrets);
  return (text) => {
    const now = secrets();
    if (now !== currentSecrets) [currentSecrets, redact] = [now, make(now)];
    return redact(text);
  };
}

function textRedactor(secrets: readonly string[]): (text: string) => string {
  const values = [...new Set(secrets)].filter((secret) => secret.length >= SHORTEST);
  const forms = [...new Set(values.flatMap(secretForms))].sort((a, b) => b.length - a.length);
  const secretPattern = forms.length === 0 ? null : new RegExp(forms.join('|'), 'g');
  return (text) => {
    const rest = secretPattern === null ? text : text.replaceAll(secretPattern, SHOWN);
    if (!HINT.test(rest)) return rest;
    return PATTERNS.reduce((redacted, { token }) => redacted.replaceAll(token, `$1${SHOWN}`), rest);
  };
}

/**
 * Redacts secrets in the text of an agent's `say`, `leave` or `tellTools`, so that it can be stored. Returns other
 * commands as they are.
 */
export function redactedReport(report: AgentCommand, redact: (text: string) => string): AgentCommand {
  if (report.type === 'say') return { ...report, text: redact(report.text) };
  if (report.type === 'leave') return { ...report, cause: redact(report.cause) };
  if (report.type === 'tellTools' && report.why !== null) return { ...report, why: redact(report.why) };
  return report;
}

/** A draft with its secrets redacted. */
export function redactedDraft(draft: TurnDraft | null, redact: (text: string) => string): TurnDraft | null {
  return draft === null ? null : { ...draft, text: redact(draft.text) };
}

/** Bytes of unwritten lines that are kept to be written with the next. Further lines are lost. */
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
    // A failing log must not stop a floor, and there is no other place for its error.
  }
}

const require = createRequire(import.meta.url);

/** Loads `pino-pretty` here, because JSON logs do not need it. */
function forPeople(): (line: string) => string {
  const pretty = require('pino-pretty') as typeof PinoPretty;
  return pretty.prettyFactory({
    colorize: pretty.isColorSupported && process.stdout.isTTY,
    messageKey: 'message',
    timestampKey: 'timestamp',
    translateTime: 'SYS:HH:MM:ss.l',
    ignore: 'event,from,to,trigger',
    singleLine: true,
    messageFormat: (line, key) => (line['event'] === 'state_transition' ? transitionWords(line) : textOf(line[key])),
  });
}

function transitionWords(line: Readonly<Record<string, unknown>>): string {
  const [agent, from, to, trigger] = ['agentId', 'from', 'to', 'trigger'].map((key) => textOf(line[key]));
  return `${agent} ${from} → ${to} (${trigger})`;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function withErrors(withStack: boolean): (line: Record<string, unknown>) => Record<string, unknown> {
  return (line) =>
    Object.fromEntries(
      Object.entries(line).map(([key, value]) => [key, value instanceof Error ? described(value, withStack) : value]),
    );
}

/** An error's fields for a line. Other fields are left out, because they may hold a request with its headers. */
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
    case 'seatMoved': {
      const level = fact.trigger === 'CRASHED' ? 'error' : 'info';
      if (log.isLevelEnabled(level)) log[level](transitionLine(fact, where.at, channel));
      return;
    }
    case 'turnEnded':
      if (UNSIGNALLED.has(fact.outcome) && fact.said && !fact.signalled) {
        log.warn({ channel, agentId: fact.agent, epoch: fact.epoch, outcome: fact.outcome }, NO_SIGNAL);
      }
      return;
    case 'actRefused':
      log.warn(
        { channel, agentId: fact.agent, act: fact.act, epoch: fact.epoch, refusal: fact.refusal },
        'action refused',
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

const SHOWN = '[secret]';
/** Shorter values are not redacted, because they would match plain words. */
const SHORTEST = 6;

/** Start of a word: not after a letter, digit, `_` or `-`, unless a letter there ends a JSON escape ("\n"). */
const START = String.raw`(?<=^|[^\w-]|\\[bfnrt])`;

/**
 * Patterns of tokens, and of passwords in addresses. The first group stays in the text. `hint`: a part of every text
 * with such a token or password, in any letter case.
 */
const PATTERNS = [
  { hint: 'xox|xapp-|sk-', token: new RegExp(`()${START}(?:xox[a-z]-|xapp-|sk-)[\\w-]{10,}`, 'g') },
  { hint: '[mno][\\w-]{22}', token: new RegExp(`()${START}[MNO][\\w-]{22,28}\\.[\\w-]{6,7}\\.[\\w-]{27,}`, 'g') },
  { hint: 'webhooks', token: /(webhooks(?:\/|%2F)\d{5,}(?:\/|%2F))[\w-]{10,}/gi },
  { hint: 'hooks\\.slack', token: /(hooks\.slack\.com(?:\/|%2F)services(?:\/|%2F))[\w/%]{10,}/gi },
  { hint: 'bearer', token: /(\bBearer(?:\s|%20|\+)+)[\w.~+/=-]{8,}/gi },
  { hint: '://', token: /(:\/\/[^\s/:@"\\]{0,64}:)[^\s/@"\\]{1,256}(?=@)/g },
] as const;

/** A text without a hint is not searched for tokens. */
const HINT = new RegExp(PATTERNS.map(({ hint }) => hint).join('|'), 'i');

function isNumber(secret: string): boolean {
  return !Number.isNaN(Number(secret));
}

/** Redacts a secret that is a number without breaking the JSON. */
function redactValues(line: string, redact: (text: string) => string): string {
  const parsed: unknown = JSON.parse(line, (_, value: unknown) => {
    if (typeof value !== 'number') return value;
    const redacted = redact(String(value));
    return redacted === String(value) ? value : redacted;
  });
  return `${redact(JSON.stringify(parsed))}\n`;
}
