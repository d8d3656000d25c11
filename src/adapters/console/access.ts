import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { chmodSync, readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { writePrivately } from '../../lib/private-file.ts';
import type { Clock, Instant } from '../../lib/time.ts';

/**
 * Returns the console's token, which signs page sessions and authorises `conch ctl`. Writes a new token to the file
 * at `path` (mode 0600) if it reads no valid token there. Throws the file system's error.
 */
export function sessionToken(path: string): string {
  const known = readToken(path);
  if (known !== null) return known;
  const token = randomBytes(32).toString('base64url');
  writePrivately(path, `${token}\n`);
  return token;
}

/** Compares two secrets in constant time. */
function sameSecret(one: string, other: string): boolean {
  return timingSafeEqual(digest(one), digest(other));
}

function readToken(path: string): string | null {
  try {
    const token = readFileSync(path, 'utf8').trim();
    if (!/^[\w-]{43}$/.test(token)) return null;
    chmodSync(path, 0o600);
    return token;
  } catch {
    return null;
  }
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** How long an unused link is valid at most, in milliseconds. */
const KEY_MS = 3_600_000;
const SESSION_MS = 30 * 86_400_000;
/** The number of unused link keys that are kept. A further key replaces the oldest. */
const MOST_KEYS = 32;

/**
 * The two secrets of a browser's session; one alone gives no access. Browsers send a cookie to all ports of a host, so
 * a server that an agent starts on 127.0.0.1 may read the cookie. The storage of a page belongs to one port, but
 * scripts can read the storage.
 */
type PageSession = {
  /** Value of the HttpOnly cookie. */
  readonly cookie: string;
  /** The session secret in the page's storage. All sessions have the same one. */
  readonly part: string;
};

type PresentedSession = { readonly [Key in keyof PageSession]: string | null };

/**
 * Gives browsers access to the page after they used a link; a link works once. Sessions are signed with the token and
 * not stored, so they outlast a restart. Keys of links do not outlast a restart.
 */
export class PageAccess {
  readonly #token: string;
  readonly #clock: Clock;
  readonly #keys = new Map<string, Instant>();

  constructor(token: string, clock: Clock) {
    this.#token = token;
    this.#clock = clock;
  }

  /** Returns a key for a link. The key works at most once, within one hour. */
  newKey(): string {
    const key = randomBytes(32).toString('base64url');
    this.#keys.set(key, this.#clock.now() + KEY_MS);
    const [oldest] = this.#keys.keys();
    if (this.#keys.size > MOST_KEYS && oldest !== undefined) this.#keys.delete(oldest);
    return key;
  }

  /** Exchanges the key of a link for a session; `null` if the key is unknown, used or expired. */
  exchange(key: string): PageSession | null {
    const expiresAt = this.#keys.get(key);
    this.#keys.delete(key);
    const now = this.#clock.now();
    return expiresAt !== undefined && now < expiresAt ? pageSession(this.#token, now) : null;
  }

  isLetIn({ cookie, part }: PresentedSession): boolean {
    const since = Number.parseInt(cookie?.split('.')[0] ?? '', 36);
    if (cookie === null || part === null || Number.isNaN(since)) return false;
    const expected = pageSession(this.#token, since);
    const isRight = sameSecret(cookie, expected.cookie) && sameSecret(part, expected.part);
    return isRight && this.#clock.now() - since < SESSION_MS;
  }
}

/** How long a page session is valid, in seconds. */
export const SESSION_SECONDS = SESSION_MS / 1_000;

/** Derives the session of a browser that used its link at an instant. */
export function pageSession(token: string, at: Instant): PageSession {
  const since = at.toString(36);
  return { cookie: `${since}.${signed(token, `cookie ${since}`)}`, part: signed(token, 'part') };
}

function signed(token: string, text: string): string {
  return createHmac('sha256', token).update(text).digest('base64url');
}

/** Returns why a request does not get the access of the page; `null` if it gets access. */
export function reasonToRefuse(request: IncomingMessage, access: PageAccess): string | null {
  if (!isForLoopback(request)) return NOT_LOOPBACK;
  if (!isOwnPage(request)) return FOREIGN;
  return access.isLetIn({ cookie: cookieOf(request), part: partOf(request) }) ? null : NO_ACCESS;
}

/** Three reasons to refuse a request: another host name, another site, a browser without a session. */
export const NOT_LOOPBACK = 'This console answers only to this machine';
export const FOREIGN = 'Another site may not talk to this console';
export const NO_ACCESS = 'This browser has no access: run "conch open" and open the link that it prints';

/** Whether a request carries the console's token. */
export function hasToken({ headers }: IncomingMessage, token: string): boolean {
  const presentedToken = /^Bearer (\S+)$/.exec(headers.authorization ?? '')?.[1];
  return presentedToken !== undefined && sameSecret(presentedToken, token);
}

/**
 * Whether the Host header of a request is 127.0.0.1, localhost or [::1], with or without a port. Another name is a sign
 * of DNS rebinding.
 */
export function isForLoopback({ headers: { host } }: IncomingMessage): boolean {
  return host !== undefined && LOOPBACK.has(host.replace(/:\d+$/, '').toLowerCase());
}

const LOOPBACK = new Set(['127.0.0.1', 'localhost', '[::1]']);

/** Whether a request has the headers that a page of this server sends. */
export function isOwnPage({ headers, method }: IncomingMessage): boolean {
  const { host, origin, 'sec-fetch-site': site, upgrade } = headers;
  // Browsers omit the origin when a page reads from its own server.
  if (origin === undefined) return method === 'GET' && site === 'same-origin' && upgrade === undefined;
  return origin === `http://${host}`;
}

/** Name of the session cookie. It contains the port, because browsers send a cookie to all ports of a host. */
export function cookieName({ socket }: IncomingMessage): string {
  return `conch_${socket.localPort}`;
}

function cookieOf(request: IncomingMessage): string | null {
  const pairs = (request.headers.cookie ?? '').split(';').map((pair) => pair.trim().split('='));
  return pairs.find(([key]) => key === cookieName(request))?.[1] ?? null;
}

/** Returns the page's session secret. It is in a header, or is the second protocol of a WebSocket; `null` for none. */
function partOf({ headers }: IncomingMessage): string | null {
  const presentedPart = headers['conch-page'] ?? headers['sec-websocket-protocol']?.split(',')[1];
  return typeof presentedPart === 'string' ? presentedPart.trim() : null;
}
