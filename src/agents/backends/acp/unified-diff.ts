/**
 * What changes in a file, as a unified diff under a line with its path and how many lines come and go. `before` is `null`
 * for a file that is not there yet. Lines that stay are shown next to those that change and left out elsewhere.
 */
export function unifiedDiff(path: string, before: string | null, after: string): string {
  const lines = compared(linesOf(before ?? ''), linesOf(after));
  const count = (mark: Line['mark']): number => lines.filter((line) => line.mark === mark).length;
  const about = `${path} (${before === null ? 'a new file, ' : ''}+${count('+')} -${count('-')})`;
  return [about, ...hunksOf(lines).map(hunkText)].join('\n');
}

type Line = { readonly mark: '+' | '-' | ' '; readonly text: string };
/** Lines that belong together, and how many lines of each file stand before them. */
type Hunk = { readonly lines: readonly Line[]; readonly before: number; readonly after: number };

const CONTEXT = 3;
/** More pairs of lines are not compared: then all old lines go and all new ones come, which is as true. */
const MOST_PAIRS = 4_000_000;

/** A text that does not end in a line feed is marked, for that is a difference. */
function linesOf(text: string): readonly string[] {
  if (text === '') return [];
  return text.endsWith('\n') ? text.slice(0, -1).split('\n') : [...text.split('\n').slice(0, -1), lastLine(text)];
}

function lastLine(text: string): string {
  return `${text.slice(text.lastIndexOf('\n') + 1)}\n\\ No newline at end of file`;
}

function compared(old: readonly string[], new_: readonly string[]): readonly Line[] {
  const shorter = Math.min(old.length, new_.length);
  let head = 0;
  while (head < shorter && old[head] === new_[head]) head += 1;
  let tail = 0;
  while (tail < shorter - head && old.at(-1 - tail) === new_.at(-1 - tail)) tail += 1;
  return [
    ...old.slice(0, head).map((text): Line => ({ mark: ' ', text })),
    ...middle(old.slice(head, old.length - tail), new_.slice(head, new_.length - tail)),
    ...old.slice(old.length - tail).map((text): Line => ({ mark: ' ', text })),
  ];
}

/** By the longest common subsequence of lines. */
function middle(old: readonly string[], new_: readonly string[]): readonly Line[] {
  if (old.length * new_.length > MOST_PAIRS) return [...marked('-', old), ...marked('+', new_)];
  const width = new_.length + 1;
  const lengths = new Uint32Array((old.length + 1) * width);
  const at = (row: number, column: number): number => lengths[row * width + column] ?? 0;
  for (let row = old.length - 1; row >= 0; row -= 1) {
    for (let column = new_.length - 1; column >= 0; column -= 1) {
      lengths[row * width + column] =
        old[row] === new_[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const found: Line[] = [];
  let [row, column] = [0, 0];
  while (row < old.length && column < new_.length) {
    if (old[row] === new_[column]) {
      found.push({ mark: ' ', text: old[row] ?? '' });
      [row, column] = [row + 1, column + 1];
    } else if (at(row + 1, column) >= at(row, column + 1)) {
      found.push({ mark: '-', text: old[row] ?? '' });
      row += 1;
    } else {
      found.push({ mark: '+', text: new_[column] ?? '' });
      column += 1;
    }
  }
  return [...found, ...marked('-', old.slice(row)), ...marked('+', new_.slice(column))];
}

function marked(mark: Line['mark'], texts: readonly string[]): readonly Line[] {
  return texts.map((text) => ({ mark, text }));
}

function hunksOf(lines: readonly Line[]): readonly Hunk[] {
  const shown = new Set<number>();
  for (const [index, { mark }] of lines.entries()) {
    if (mark !== ' ') for (let near = index - CONTEXT; near <= index + CONTEXT; near += 1) shown.add(near);
  }
  const hunks: { lines: Line[]; before: number; after: number }[] = [];
  let [before, after] = [0, 0];
  for (const [index, line] of lines.entries()) {
    if (shown.has(index)) {
      if (!shown.has(index - 1) || index === 0) hunks.push({ lines: [], before, after });
      hunks.at(-1)?.lines.push(line);
    }
    if (line.mark !== '+') before += 1;
    if (line.mark !== '-') after += 1;
  }
  return hunks;
}

function hunkText({ lines, before, after }: Hunk): string {
  const old = lines.filter(({ mark }) => mark !== '+').length;
  const new_ = lines.filter(({ mark }) => mark !== '-').length;
  const from = old === 0 ? before : before + 1;
  const to = new_ === 0 ? after : after + 1;
  return [`@@ -${from},${old} +${to},${new_} @@`, ...lines.map(({ mark, text }) => mark + text)].join('\n');
}
