/**
 * The text with everything spelled by its number that cannot be seen, turns text round or looks like a space, so that nobody
 * says yes to what they do not see: only printable ASCII, line feeds, tabs, letters with the marks that belong to them,
 * numbers, punctuation and symbols stand for themselves. Every third backtick of a run is spelled too: whatever the text
 * says, it ends no block of code that it is shown in (Discord knows no longer fence than three).
 */
export function visible(text: string): string {
  return text.replaceAll(HIDDEN, spelled).replaceAll('```', `\`\`${spelled('`')}`);
}

/** Whether anything in a text cannot be seen or turns text round; other spaces, ends of lines and whole emoji are seen. */
export function hasHidden(text: string): boolean {
  const seen = text
    .replace(/\r\n?|[\u2028\u2029]/g, '\n')
    .replace(/\p{Zs}/gu, ' ')
    .replace(/\p{RGI_Emoji}/gv, '');
  return seen.search(HIDDEN) !== -1;
}

/** The words, hosts and parts of paths in a text whose letters are of more than one of the alphabets that look alike. */
export function mixedWords(text: string): readonly string[] {
  const words = new Set(text.match(/[\p{L}\p{M}\p{N}_.]+/gu));
  return [...words].filter((word) =>
    word.split(/[_.\p{N}]+/u).some((part) => ALIKE.filter((one) => one.test(part)).length > 1),
  );
}

const ALIKE = [/\p{Script=Latin}/u, /\p{Script=Cyrillic}/u, /\p{Script=Greek}/u, /\p{Script=Armenian}/u];

const HIDDEN =
  /[^\n\t\u{20}-\u{7E}\p{L}\p{M}\p{N}\p{P}\p{S}]|\p{Default_Ignorable_Code_Point}|\u{2800}|\u{1D159}|(?<!\p{L}\p{M}{0,3})\p{M}/gu;

function spelled(hidden: string): string {
  return `\\u{${(hidden.codePointAt(0) ?? 0).toString(16).toUpperCase()}}`;
}
