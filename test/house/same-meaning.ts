/** Why a name that stands in several files means the same in all of them. */
export const SAME_MEANING: Readonly<Record<string, string>> = {};

const PLATFORM = /^adapters\/(?:discord|slack|console)\/(?<file>[^/]+)$/;

/**
 * Whether the files that share a name are the same part of several platforms: the folders hold the same files with the same
 * exported names, so that one is guessed from the other.
 */
export function isOnePart(files: readonly string[]): boolean {
  const parts = files.map((file) => PLATFORM.exec(file)?.groups?.['file']);
  return parts.every((part) => part !== undefined && part === parts[0]);
}
