/**
 * Replaces hidden characters by their codes, such as `\u{200B}`, so that nobody approves a text they cannot see. Hidden
 * characters are invisible, unassigned or private, change the text direction, look like a space, or are marks without a
 * letter. Printable ASCII, line feeds, tabs, letters with up to four marks, numbers, punctuation and symbols stay.
 * Every third backtick of a run is replaced too, so that the text cannot end a code block.
 */
export function visible(text: string): string {
  return text.replaceAll(HIDDEN, spelled).replaceAll('```', `\`\`${spelled('`')}`);
}

/**
 * True when a text has a hidden character, such as an invisible one or one that changes the text direction. Unicode's
 * spaces, line ends and whole emoji do not count.
 */
export function hasHidden(text: string): boolean {
  const seen = text
    .replace(/\r\n?|[\u2028\u2029]/g, '\n')
    .replace(/\p{Zs}/gu, ' ')
    .replace(/\p{RGI_Emoji}/gv, '');
  return seen.search(HIDDEN) !== -1;
}

/**
 * Returns each word with a part that mixes Latin, Cyrillic, Greek or Armenian letters. `_`, `.` and digits separate
 * parts.
 */
export function mixedWords(text: string): readonly string[] {
  const words = new Set(text.match(/[\p{L}\p{M}\p{N}_.]+/gu));
  return [...words].filter((word) =>
    word.split(/[_.\p{N}]+/u).some((part) => ALIKE.filter((one) => one.test(part)).length > 1),
  );
}

/**
 * Returns the text in one line without white space at its ends. Each run of white space and of characters in the
 * Unicode category Other, such as control characters, becomes one space.
 */
export function oneLine(text: string): string {
  return text.replaceAll(/[\p{C}\s]+/gu, ' ').trim();
}

const ALIKE = [/\p{Script=Latin}/u, /\p{Script=Cyrillic}/u, /\p{Script=Greek}/u, /\p{Script=Armenian}/u];

const HIDDEN =
  /[^\n\t\u{20}-\u{7E}\p{L}\p{M}\p{N}\p{P}\p{S}]|\p{Default_Ignorable_Code_Point}|\u{2800}|\u{1D159}|(?<!\p{L}\p{M}{0,3})\p{M}/gu;

function spelled(hidden: string): string {
  return `\\u{${(hidden.codePointAt(0) ?? 0).toString(16).toUpperCase()}}`;
}
