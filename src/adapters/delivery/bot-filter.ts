import type { Place } from '../port.ts';

/** Who wrote a message, as far as the platform vouches for it. A webhook can call itself anything. */
export type Author = 'person' | 'bot' | 'webhook';

/**
 * The rule by which agents do not get a message, or `null` when they do. People are always heard; programs only as far as
 * the channel allows, and none of them is ever taken for an agent or an operator, whatever its name.
 */
export function ignoreRule(
  author: Author,
  place: Pick<Place, 'allowBots'>,
  addressed: readonly string[],
): string | null {
  if (author === 'person' || place.allowBots === 'all') return null;
  const who = author === 'bot' ? 'bots' : 'webhooks';
  if (place.allowBots === 'off') return `${who} are not heard here`;
  return addressed.length > 0 ? null : `${who} are heard only when they mention an agent`;
}
