import { excerpt } from '../../../turns/commands/clock-words.ts';
import { isoTime } from '../../../lib/time.ts';
import type { Instant } from '../../../lib/time.ts';

type Quoted = { readonly author: string; readonly at: Instant; readonly text: string };

/** A message from which a ticket is made. `after`: messages of its thread. `where`: a link, or the id in words. */
export type Quotation = { readonly first: Quoted; readonly after: readonly Quoted[]; readonly where: string };

const LONGEST_TITLE = 100;
/** The most characters of a message, and the most messages of a thread, that a ticket quotes. */
const LONGEST_QUOTE = 4_000;
const MOST_QUOTES = 20;

/** Returns the title and text of a ticket made of a message. The text quotes the message and its thread. */
export function ticketOf({ first, after, where }: Quotation): { readonly title: string; readonly text: string } {
  const line = first.text.split('\n').find((each) => /[\p{L}\p{N}]/u.test(each)) ?? '';
  const title = excerpt(line.replace(/^[\s#>*-]+/, '').trim(), LONGEST_TITLE);
  const left = after.length - MOST_QUOTES;
  const quotes = [first, ...after.slice(0, MOST_QUOTES)].map(quoteOf);
  const more = left > 0 ? [`and ${left} more messages of the thread`] : [];
  return {
    title: title === '' ? `What ${first.author} wrote` : title,
    text: [...quotes, ...more, `From ${where}.`].join('\n\n'),
  };
}

function quoteOf({ author, at, text }: Quoted): string {
  const lines = text.slice(0, LONGEST_QUOTE).trimEnd().split('\n');
  return [`${author}, ${isoTime(at)}:`, ...lines.map((line) => `> ${line}`)].join('\n');
}

/** The words after "after" that can be ids of tickets, such as in "after c-12 and gh-7". */
export function wantedDeps(texts: readonly string[]): readonly string[] {
  const found = texts.flatMap((text) =>
    [...text.matchAll(/\bafter\s+((?:[A-Za-z][\w.]*-[\w.]*\w(?:\s*(?:,|and)\s*)?)+)/gi)].flatMap(([, ids = '']) =>
      ids.split(/\s*(?:,|\band\b)\s*|\s+/).filter((id) => id !== ''),
    ),
  );
  return [...new Set(found)];
}
