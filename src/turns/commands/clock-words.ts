import type { Instant } from '../../lib/time.ts';
import { defined } from '../../lib/defined.ts';

/** Formats instants of one moment's report: the time of day, with the date when it is not today. */
export type TimeWords = (at: Instant, now: Instant) => string;

/** Times as a clock in this time zone shows them ("21:00:05"); this machine's zone unless another is named. */
export function timeWords(timeZone?: string): TimeWords {
  const zone = defined({ timeZone });
  const time = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium', ...zone });
  const date = new Intl.DateTimeFormat('en-CA', { dateStyle: 'short', ...zone });
  return (at, now) =>
    date.format(at) === date.format(now) ? time.format(at) : `${date.format(at)} ${time.format(at)}`;
}

/** A duration in milliseconds as a running clock shows it, rounded up: "1:12", "0:00", "1:02:03". */
export function clockWords(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1_000));
  const two = (value: number): string => String(value).padStart(2, '0');
  const minutes = Math.floor(seconds / 60);
  return minutes < 60
    ? `${minutes}:${two(seconds % 60)}`
    : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(seconds % 60)}`;
}

/** A number with its noun: "1 message", "2 messages". */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** A text as one short line of at most so many letters, for lists; no letter is cut in two, nothing controls a terminal. */
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
