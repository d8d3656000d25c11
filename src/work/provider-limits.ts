import { waitIn } from '../lib/retry.ts';
import { instantOf } from '../lib/time.ts';
import type { Instant } from '../lib/time.ts';

/**
 * Matches words about limits, credit and logins, and the statuses 401, 402 and 429 where a status stands: at the start,
 * after `(`, `[`, `failed: `, `error`, `code` and other such words. "line 429" does not match.
 */
const LIMIT =
  /(?:usage|rate|token|request)[\s_-]*limit|limit reached|too many requests|(?<!disk )quota|insufficient (?:credit|balance|funds)|credit balance|billing[\s_]+(?:account|details|error|hard|issue|limit|problem)|payment required|not (?:logged|signed) in|please (?:log|sign) ?in|(?:run|use) \/login|unauthori[sz]ed|invalid api key|(?:^|[([]|failed: |(?:\bhttp(?:\/[\d.]+)?|\bapi|\bstatus|error|(?<!de|en)code)[\s_:=(["']*)(?:40[12]|429)\b(?![,:]\d)/i;
const SECOND = 1_000;
const FIRST_MS = 15 * 60 * SECOND;
const LONGEST_MS = 4 * 60 * 60 * SECOND;

/**
 * Returns the instant until which a provider takes no work: the instant that `why` states, if at most 7 days ahead.
 * Otherwise 15 minutes after `at`, doubled for each of the `limits` earlier pauses, at most 4 hours. Returns `null`
 * when `why` does not match `LIMIT`.
 */
export function limitIn(
  why: string,
  { at, limits }: { readonly at: Instant; readonly limits: number },
): Instant | null {
  if (!LIMIT.test(why)) return null;
  const stated = statedIn(why, at);
  if (stated !== null && stated > at && stated <= at + 7 * 24 * 3_600 * SECOND) return stated;
  return at + Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(limits, 10));
}

function statedIn(why: string, at: Instant): Instant | null {
  const [, epoch] = /\b(1[5-9]\d{8}|[2-9]\d{9})\b/.exec(why) ?? [];
  if (epoch !== undefined) return Number(epoch) * SECOND;
  const [iso] = /\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})/.exec(why) ?? [];
  if (iso !== undefined) return instantOf(iso);
  const wait = waitIn(why);
  return wait === null ? null : at + wait;
}
