/** What cannot be seen, or turns text round, is shown by its number: nobody says yes to what they do not see. */
export function visible(text: string): string {
  return text.replace(
    /[\p{Cf}\p{Zl}\p{Zp}\u{FE00}-\u{FE0F}]|(?!\n)\p{Cc}/gu,
    (hidden) => `\\u{${hidden.codePointAt(0)?.toString(16).toUpperCase() ?? ''}}`,
  );
}
