import type { Instant } from '../../lib/time.ts';
import type { CrewSettings } from './crew.ts';

type Window = NonNullable<CrewSettings['window']>;

const MINUTE_MS = 60_000;
const DAY_MINUTES = 1_440;

/**
 * Returns `at`, or the end of the quiet hours if `at` is in them: the next time that the clocks of the zone show `to`.
 * If a clock change leaves out `to`, returns the end that the hours have without the change. `quiet`: `undefined` for
 * no quiet hours.
 */
export function afterQuiet(at: Instant, quiet: Window['quiet']): Instant {
  if (quiet === undefined) return at;
  const { from, to, zone } = quiet;
  const now = minuteOfDay(at, zone);
  const isQuiet = from < to ? from <= now && now < to : from <= now || now < to;
  if (!isQuiet) return at;
  const left = (to - now + DAY_MINUTES) % DAY_MINUTES;
  const end = Math.floor(at / MINUTE_MS) * MINUTE_MS + left * MINUTE_MS;
  const shift = ((to - minuteOfDay(end, zone) + DAY_MINUTES * 1.5) % DAY_MINUTES) - DAY_MINUTES / 2;
  const shifted = end + shift * MINUTE_MS;
  return minuteOfDay(shifted, zone) === to ? shifted : end;
}

/** Returns when a merge announced at `at` may begin; `null` for at once. */
export function landingOf(at: Instant, window: CrewSettings['window']): Instant | null {
  return window === undefined ? null : afterQuiet(at + window.ms, window.quiet);
}

function minuteOfDay(at: Instant, zone: string): number {
  const parts = new Intl.DateTimeFormat('en-GB', {
    timeZone: zone,
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  }).formatToParts(at);
  const of = (type: 'hour' | 'minute') => Number(parts.find((part) => part.type === type)?.value);
  return of('hour') * 60 + of('minute');
}
