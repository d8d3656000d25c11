import { createHmac, randomBytes } from 'node:crypto';
import type { Clock, Instant } from '../../lib/time.ts';
import { sameSecret } from './token.ts';

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
