import type { Instant } from '../../lib/time.ts';

/** Formats an instant in UTC: "21:00:05 UTC", with its date when the instant is 12 hours or more from `now`. */
export function timeWords(at: Instant, now: Instant): string {
  const [date = '', time = ''] = new Date(at).toISOString().split(/[T.]/);
  return `${Math.abs(now - at) < HALF_DAY_MS ? '' : `${date} `}${time} UTC`;
}

/** Milliseconds from now below which a time is written without its date. Such a time is unambiguous. */
export const HALF_DAY_MS = 12 * 3_600_000;

/** Formats a duration in milliseconds like a clock, rounded up to seconds: "1:12", "0:00", "1:02:03". */
export function clockWords(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1_000));
  const two = (value: number): string => String(value).padStart(2, '0');
  const minutes = Math.floor(seconds / 60);
  return minutes < 60
    ? `${minutes}:${two(seconds % 60)}`
    : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(seconds % 60)}`;
}

/** Returns a number with its noun: "1 message", "2 messages". */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/**
 * Returns a text as one line of at most `limit` characters, with "…" when cut. Never cuts inside a character. Replaces
 * control characters, which could change a terminal, by spaces.
 */
export function excerpt(text: string, limit = 60): string {
  const line = text
    .slice(0, limit * MAX_UNITS_PER_LETTER)
    .replaceAll(/[\s\p{Cc}\p{Bidi_Control}]+/gu, ' ')
    .trim();
  const letters: string[] = [];
  for (const { segment } of new Intl.Segmenter('en').segment(line)) {
    if (letters.length === limit) return `${letters.slice(0, -1).join('')}…`;
    letters.push(segment);
  }
  return text.length > limit * MAX_UNITS_PER_LETTER ? `${letters.slice(0, -1).join('')}…` : line;
}

const MAX_UNITS_PER_LETTER = 20;
