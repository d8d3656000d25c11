import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import type { Clock, Instant } from '../../lib/time.ts';

/**
 * The secret that a page or `conch ctl` shows to be let in. Kept in a file that only its owner can read,
 * so that a restart of the program does not lock an open page out.
 */
export function sessionToken(path: string): string {
  const known = readToken(path);
  if (known !== null) return known;
  const token = randomBytes(32).toString('base64url');
  writeFileSync(path, `${token}\n`, { mode: 0o600 });
  chmodSync(path, 0o600);
  return token;
}

/** Whether two secrets are the same, in a time that tells nothing about them. */
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

/** How long a link lets a browser in that has not used it. */
const KEY_MS = 3_600_000;
/** How long a browser is let in after it used a link. */
const SESSION_MS = 30 * 86_400_000;
/** The most unused keys; the oldest goes. */
const MOST_KEYS = 32;

/**
 * What a browser shows to be let in. Browsers send a cookie to every server of the same host name, whatever its port: a server that an
 * agent starts on 127.0.0.1 may read it. Storage of a page belongs to one port alone, but scripts can read it. So both are needed.
 */
type PageSession = {
  /** The value of the cookie that scripts cannot read. */
  readonly cookie: string;
  /** What the page keeps in its storage and sends with each request. */
  readonly part: string;
};

/** What a request shows; `null` is absent. */
type ShownSession = { readonly [Key in keyof PageSession]: string | null };

/** Who may use the page: browsers that used a link, which works once. */
export type PageAccess = {
  /** A new key; it lets one browser in, within an hour. */
  newKey(): string;
  /** Uses a key up; `null` when it is unknown, used or too old. */
  exchange(key: string): PageSession | null;
  isLetIn(shown: ShownSession): boolean;
};

/** Sessions outlast a restart: they are signed with the token, and nothing of them is kept. Keys end with the program. */
export function createPageAccess(token: string, clock: Clock): PageAccess {
  const keys = new Map<string, Instant>();
  return {
    newKey() {
      const key = randomBytes(32).toString('base64url');
      keys.set(key, clock.now() + KEY_MS);
      const [oldest] = keys.keys();
      if (keys.size > MOST_KEYS && oldest !== undefined) keys.delete(oldest);
      return key;
    },
    exchange(key) {
      const until = keys.get(key);
      keys.delete(key);
      return until !== undefined && clock.now() < until ? pageSession(token, clock.now()) : null;
    },
    isLetIn({ cookie, part }) {
      const since = Number.parseInt(cookie?.split('.')[0] ?? '', 36);
      if (cookie === null || part === null || Number.isNaN(since)) return false;
      const right = pageSession(token, since);
      const isRight = sameSecret(cookie, right.cookie) && sameSecret(part, right.part);
      return isRight && clock.now() - since < SESSION_MS;
    },
  };
}

/** How long a session counts, in seconds. */
export const SESSION_SECONDS = SESSION_MS / 1_000;

/** The session of a browser that was let in at an instant. */
export function pageSession(token: string, at: Instant): PageSession {
  const since = at.toString(36);
  return { cookie: `${since}.${signed(token, `cookie ${since}`)}`, part: signed(token, 'part') };
}

function signed(token: string, text: string): string {
  return createHmac('sha256', token).update(text).digest('base64url');
}

/** Why a request may not use the console as the page does; `null` when it may. */
export function reasonToRefuse(request: IncomingMessage, access: PageAccess): string | null {
  if (!isForLoopback(request)) return NOT_LOOPBACK;
  if (!isOwnPage(request)) return FOREIGN;
  return access.isLetIn({ cookie: cookieOf(request), part: partOf(request) }) ? null : NO_ACCESS;
}

/** Why a request is refused: it names another machine, comes from another site, or from a browser that used no link. */
export const NOT_LOOPBACK = 'This console answers only to this machine';
export const FOREIGN = 'Another site may not talk to this console';
export const NO_ACCESS = 'This browser is not let in: run "conch open" and open the link that it prints';

/** Whether a request shows the console's token, as programs on this machine do that may read it. */
export function hasToken({ headers }: IncomingMessage, token: string): boolean {
  const shown = /^Bearer (\S+)$/.exec(headers.authorization ?? '')?.[1];
  return shown !== undefined && sameSecret(shown, token);
}

/** Whether a request names this machine. Another name is a sign of DNS rebinding. */
export function isForLoopback({ headers: { host } }: IncomingMessage): boolean {
  return host !== undefined && LOOPBACK.has(host.replace(/:\d+$/, '').toLowerCase());
}

const LOOPBACK = new Set(['127.0.0.1', 'localhost', '[::1]']);

/** Whether a request comes from a page of this server. */
export function isOwnPage({ headers, method }: IncomingMessage): boolean {
  const { host, origin, 'sec-fetch-site': site, upgrade } = headers;
  // Browsers leave the origin out when a page only reads from its own server.
  if (origin === undefined) return method === 'GET' && site === 'same-origin' && upgrade === undefined;
  return origin === `http://${host}`;
}

/** The name of the cookie: each port has its own, because browsers send a cookie to all ports of a host. */
export function cookieName({ socket }: IncomingMessage): string {
  return `conch_${socket.localPort}`;
}

function cookieOf(request: IncomingMessage): string | null {
  const pairs = (request.headers.cookie ?? '').split(';').map((pair) => pair.trim().split('='));
  return pairs.find(([key]) => key === cookieName(request))?.[1] ?? null;
}

/** The session's part that the page keeps: a header of requests; of sockets, for which a page sets no headers, the second protocol. */
function partOf({ headers }: IncomingMessage): string | null {
  const shown = headers['conch-page'] ?? headers['sec-websocket-protocol']?.split(',')[1];
  return typeof shown === 'string' ? shown.trim() : null;
}
