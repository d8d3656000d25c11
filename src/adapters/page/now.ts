import { effect, signal } from '@preact/signals';
import { HALF_DAY_MS, clockWords } from '../../turns/commands/clock-words.ts';
import { clockOffset, connection, view } from './state.ts';

/**
 * The server's clock, in milliseconds since 1970. Advances twice a second while an agent holds the floor, otherwise
 * only with frames of the server. Stops while the connection is lost.
 */
export const now = signal(Date.now());

/** Starts the updates of `now`. */
export function startClock(): void {
  effect(() => {
    const offset = clockOffset.value;
    const running = view.value?.holder != null && connection.value === 'open';
    if (connection.value === 'lost') return;
    now.value = Date.now() + offset;
    if (!running) return;
    const timer = setInterval(() => (now.value = Date.now() + offset), 500);
    return () => clearInterval(timer);
  });
}

/** A duration as on a clock: 0:07, 1:12, 1:02:05; from 48 hours on in days and hours. */
export function clockText(ms: number): string {
  const hours = Math.floor(Math.ceil(ms / 1000) / 3600);
  return hours < 48 ? clockWords(ms) : `${Math.floor(hours / 24)} days ${hours % 24} h`;
}

/** A duration in words: "7 s", "1 min 12 s". */
export function durationText(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  return seconds % 60 === 0 ? `${minutes} min` : `${minutes} min ${seconds % 60} s`;
}

/** The time of day, to the minute. */
export const timeOfDay = formatFor({ hour: '2-digit', minute: '2-digit' });
/** The time of day, to the second. */
export const timeToTheSecond = formatFor({ hour: '2-digit', minute: '2-digit', second: '2-digit' });
/** Day and time, to the minute. */
export const shortTime = formatFor({ month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' });
/** Day and time, to the second. */
export const exactTime = formatFor({ dateStyle: 'medium', timeStyle: 'medium' });

const dayOfThisYear = formatFor({ weekday: 'long', day: 'numeric', month: 'long' });
const dayOfAnotherYear = formatFor({ dateStyle: 'full' });

/** A day in words: "Friday, November 21", with the year if it is not the current one. */
export function dayText(at: number): string {
  const isThisYear = new Date(at).getFullYear() === new Date(now.peek()).getFullYear();
  return (isThisYear ? dayOfThisYear : dayOfAnotherYear)(at);
}

function formatFor(options: Intl.DateTimeFormatOptions): (at: number) => string {
  const format = new Intl.DateTimeFormat(undefined, options);
  return (at) => format.format(at);
}

/** Whether two instants lie on the same day in the reader's time zone. */
export function isSameDay(a: number, b: number): boolean {
  return new Date(a).toDateString() === new Date(b).toDateString();
}

/**
 * Matches times as Conch writes them: "14:05 UTC", "14:05:09 UTC", "2026-11-29 14:05:09 UTC". Also matches code as a
 * whole, so that times in code stay unchanged.
 */
const IN_UTC = /```[^]*?```|`[^`]*`|(?:\b(\d{4}-\d\d-\d\d) )?\b((?:[01]\d|2[0-3]):[0-5]\d)(:[0-5]\d)? UTC\b/g;

/** Replaces times in UTC by the reader's local times. A time without a date is taken as the one nearest to `near`. */
export function inLocalTime(text: string, near: number): string {
  return text.replaceAll(IN_UTC, (written, date?: string, minute?: string, second?: string) => {
    const start = near - HALF_DAY_MS;
    let at = Date.parse(`${date ?? new Date(start).toISOString().slice(0, 10)}T${minute}${second ?? ''}Z`);
    if (Number.isNaN(at)) return written;
    if (date === undefined && at < start) at += 2 * HALF_DAY_MS;
    // Without seconds a time may be more than half a day away, so its date is unknown.
    if (second === undefined) return timeOfDay(at);
    return isSameDay(at, near) ? timeToTheSecond(at) : exactTime(at);
  });
}
