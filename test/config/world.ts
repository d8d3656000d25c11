import { ConfigError, type Problem } from '../../src/config/error.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { World } from '../../src/config/world.ts';
import type { Config } from '../../src/config/config.ts';

/** A machine with these files (by their names in /work) and this environment. */
export const world = (files: Readonly<Record<string, string>>, env: World['env'] = {}, isPublic = false): World => ({
  env,
  cwd: '/work',
  readFile: (path) => {
    const text = files[path.replace('/work/', '')];
    return text === undefined ? null : { text, public: isPublic };
  },
});

export const load = (file: unknown, env: World['env'] = {}): Config =>
  loadConfig(world({ 'turnConfig.json': JSON.stringify(file, null, 2) }, env));

/** Returns the error of an invalid configuration. Throws when the configuration is valid. */
export const errorOf = (where: World): ConfigError => {
  try {
    loadConfig(where);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error('the configuration was accepted');
};

export const problemsOf = (file: unknown, env: World['env'] = {}): readonly Problem[] =>
  errorOf(world({ 'turnConfig.json': typeof file === 'string' ? file : JSON.stringify(file, null, 2) }, env)).problems;

/** Returns the problems of a file, each as "path: message". */
export const saidAbout = (file: unknown, env: World['env'] = {}): readonly string[] =>
  problemsOf(file, env).map((problem) => `${problem.path}: ${problem.message}`);
