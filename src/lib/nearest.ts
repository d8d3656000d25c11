/**
 * Returns the word of a list that a mistyped word most likely means, or `null`. Case does not matter. First choice: the
 * shortest word that begins with the mistyped word, if the mistyped word has at least 2 letters. Second choice: the
 * word with the fewest differences. Allowed is one difference per 3 letters of the mistyped word, and at least one.
 */
export function nearest(word: string, known: readonly string[]): string | null {
  const meant = word.toLowerCase().slice(0, MAX_LETTERS);
  if (meant === '') return null;
  const started = known.filter((each) => meant.length > 1 && each.toLowerCase().startsWith(meant));
  const shortest = started.toSorted((a, b) => a.length - b.length)[0];
  if (shortest !== undefined) return shortest;
  const ranked = known
    .map((each) => ({ each, differs: distance(meant, each.toLowerCase()) }))
    .sort((a, b) => a.differs - b.differs);
  const best = ranked[0];
  return best !== undefined && best.differs <= Math.max(1, Math.floor(meant.length / 3)) ? best.each : null;
}

/** A sentence for the end of an error: ` Did you mean "…"?`, or nothing. */
export function didYouMean(word: string, known: readonly string[]): string {
  const meant = nearest(word, known);
  return meant === null ? '' : ` Did you mean "${meant}"?`;
}

const MAX_LETTERS = 40;

/** The edit distance: letters changed, added, left out or swapped with their neighbour. */
function distance(from: string, to: string): number {
  let before: readonly number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row += 1) {
    const line = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const same = from[row - 1] === to[column - 1] ? 0 : 1;
      const swapped = row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      line.push(
        Math.min(
          at(last, column) + 1,
          at(line, column - 1) + 1,
          at(last, column - 1) + same,
          swapped ? at(before, column - 2) + 1 : Number.POSITIVE_INFINITY,
        ),
      );
    }
    before = last;
    last = line;
  }
  return at(last, to.length);
}

function at(line: readonly number[], column: number): number {
  return line[column] ?? Number.POSITIVE_INFINITY;
}
