/** Names that several files have or export, and why each means the same in all of them. */
export const SAME_MEANING: Readonly<Record<string, string>> = {
  'port.ts': 'what a room asks of whoever implements it',
};

const PLATFORM = /^adapters\/(?:delivery|discord|slack|console)\/(?<file>.+)$/;

/**
 * Whether the files that share a name are the same part of several platforms, and what they share of it: the folders hold
 * the same files with the same exported names, so that one is guessed from the other.
 */
export function isOnePart(files: readonly string[]): boolean {
  const parts = files.map((file) => PLATFORM.exec(file)?.groups?.['file']);
  return parts.every((part) => part !== undefined && part === parts[0]);
}
