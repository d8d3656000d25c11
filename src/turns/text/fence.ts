/** Code that a line has opened and not closed. `block` is a fence of its own lines, else backticks inside a line. */
export type Fence = {
  readonly mark: string;
  readonly block: boolean;
  /** The first word after a block's opening mark: its language. */
  readonly language: string;
  readonly indent: number;
};

/** What is open after a line (without its line feed), given what was open before it; the rules are CommonMark's. */
export function fenceAfter(fence: Fence | null, line: string): Fence | null {
  if (!line.includes('```') && !line.includes('~~~')) return fence;
  if (fence?.block === true) return closes(fence, line) ? null : fence;
  if (fence === null) {
    if (isQuote(line)) return null;
    const block = opened(line);
    if (block !== null) return block;
  }
  return afterRuns(fence, line);
}

/** Whether a line outside code is a block quote. */
export function isQuote(line: string): boolean {
  return /^\s*>/.test(line);
}

function opened(line: string): Fence | null {
  const [, space = '', mark = '', rest = ''] = /^(\s*)(`{3,}|~{3,})(.*)$/s.exec(line) ?? [];
  if (mark === '' || (mark.startsWith('`') && rest.includes('`'))) return null;
  const [language = ''] = rest.trim().split(/\s/, 1);
  return { mark, block: true, language, indent: space.length };
}

function closes(fence: Fence, line: string): boolean {
  const [, space = '', mark = ''] = /^(\s*)(`{3,}|~{3,})\s*$/.exec(line) ?? [];
  return mark.startsWith(fence.mark) && space.length <= fence.indent + 3;
}

function afterRuns(fence: Fence | null, line: string): Fence | null {
  let open = fence;
  for (const [mark] of line.matchAll(/`{3,}/g)) {
    if (open === null) open = { mark, block: false, language: '', indent: 0 };
    else if (open.mark === mark) open = null;
  }
  return open;
}
