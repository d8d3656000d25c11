import type { Tell } from '../error.ts';
import { missingPackages, missingText, neededParts } from '../parts.ts';
import type { ConfigFile } from '../schema.ts';
import type { World } from '../world.ts';

/**
 * Checks that the packages of all configured parts are installed. Checks nothing when `machine` cannot look for
 * packages.
 */
export const checkParts = (file: ConfigFile, { machine }: Pick<World, 'machine'>, tell: Tell): void => {
  const { isInstalled } = machine ?? {};
  if (isInstalled === undefined) return;
  for (const { part, path } of neededParts(file)) {
    const missing = missingPackages(part, isInstalled);
    if (missing.length > 0) tell(path, missingText(part, missing));
  }
};
