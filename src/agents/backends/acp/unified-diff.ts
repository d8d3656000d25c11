import { OMIT_HEADERS, formatPatch, structuredPatch } from 'diff';
import type { StructuredPatch } from 'diff';

/**
 * Returns what changes in a file: a line with its path and the number of lines added and removed, then a unified diff with
 * three lines of context. `before` is `null` for a new file.
 */
export function unifiedDiff(path: string, before: string | null, after: string): string {
  const patch = structuredPatch(path, path, before ?? '', after, '', '', LIMITS) ?? replaced(path, before ?? '', after);
  const lines = patch.hunks.flatMap((hunk) => hunk.lines);
  const count = (mark: '+' | '-'): number => lines.filter((line) => line.startsWith(mark)).length;
  const about = `${path} (${before === null ? 'a new file, ' : ''}+${count('+')} -${count('-')})`;
  return patch.hunks.length === 0 ? about : `${about}\n${formatPatch(patch, OMIT_HEADERS).replace(/\n$/, '')}`;
}

/** The time of a comparison grows with the square of `maxEditLength`, the most lines that may change. */
const LIMITS = { context: 3, maxEditLength: 1_500 };

/** The patch of two texts that differ in too many lines to be compared: removes all old lines and adds all new ones. */
function replaced(path: string, before: string, after: string): StructuredPatch {
  const [removal, addition] = [structuredPatch(path, path, before, ''), structuredPatch(path, path, '', after)];
  const [old, fresh] = [removal.hunks[0], addition.hunks[0]];
  if (old === undefined || fresh === undefined) return old === undefined ? addition : removal;
  const lines = [...old.lines, ...fresh.lines];
  return { ...removal, hunks: [{ ...old, newStart: fresh.newStart, newLines: fresh.newLines, lines }] };
}
