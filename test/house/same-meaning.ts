/** Names that several files have or export, and the reason why each means the same everywhere. */
export const SAME_MEANING: Readonly<Record<string, string>> = {
  'port.ts': 'what a room asks of whoever implements it',
};

const PLATFORM = /^adapters\/(?:delivery|discord|slack|console)\/(?<file>.+)$/;

/**
 * True when files with a shared name are the same part of several platforms: the platforms' folders hold the same files
 * with the same exported names.
 */
export function isOnePart(files: readonly string[]): boolean {
  const parts = files.map((file) => PLATFORM.exec(file)?.groups?.['file']);
  return parts.every((part) => part !== undefined && part === parts[0]);
}
