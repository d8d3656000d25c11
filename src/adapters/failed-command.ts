import { storeWords } from '../engine/errors.ts';

/** The answer to a person whose message or command failed; `undone` says what was not done. Causes and paths stand in the log alone. */
export function failedText(error: unknown, undone: 'Nothing was sent.' | 'Nothing was changed.'): string {
  return `That did not work. ${storeWords(error) ?? 'Conch could not carry it out; the log says why.'} ${undone}`;
}
