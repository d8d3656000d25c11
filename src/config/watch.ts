import { readFileSync } from 'node:fs';
import type { Timer, Timers } from '../lib/time.ts';
import { ConfigError, pathText } from './error.ts';
import type { Config } from './config.ts';

/** Returns the paths of changed, added and removed keys that take effect only at the next start. */
export const changedUntilRestart = (first: Config, next: Config): readonly string[] => {
  const [before, after] = [atStart(first), atStart(next)];
  return [...new Map([...after, ...before]).keys()].filter((path) => before.get(path) !== after.get(path));
};

const atStart = ({ adapters, log, remote, store, turnConfig }: Config): ReadonlyMap<string, string> => {
  const { heartbeatSeconds, heartbeatTimeoutSeconds, interruptGraceSeconds, reconnectGraceSeconds } = turnConfig;
  const times = { heartbeatSeconds, heartbeatTimeoutSeconds, interruptGraceSeconds, reconnectGraceSeconds };
  return new Map(leaves({ turnConfig: times, remote, adapters, log, store: store ?? {} }, []));
};

const leaves = (value: object, path: readonly string[]): readonly (readonly [string, string])[] =>
  Object.entries(value).flatMap(([key, part]: [string, unknown]) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? leaves(part, [...path, key])
      : [[pathText([...path, key]), JSON.stringify(part)] as const],
  );

type Watched = {
  /** Returns the text of the configuration file; `null` when it cannot be read. */
  readonly read: () => string | null;
  /** The text from which the present configuration was loaded. The file may have changed since. */
  readonly text: string | null;
  /** Reads the configuration file again. Throws a `ConfigError` when the file cannot be used. */
  readonly load: () => Config;
  /** Called with each new configuration. The next change waits until the promise resolves. Must not reject. */
  readonly onChange: (config: Config) => Promise<void>;
  /** Called when the changed file cannot be used. The old configuration stays. */
  readonly onInvalid: (error: ConfigError) => void;
  readonly timers: Timers;
};

/** Time between two reads of the configuration file, in milliseconds. */
const LOOK_MS = 400;

/**
 * Reads the configuration file at intervals until the returned timer is cancelled. Loads a changed text when two reads
 * in a row return it: the editor has probably finished saving. Events of the file system are not used: they miss links,
 * mounted files and replaced folders.
 */
export const watchConfig = ({ read, text, load, onChange, onInvalid, timers }: Watched): Timer => {
  let [loadedText, last] = [text, text];
  let isOver = false;
  const look = async (): Promise<void> => {
    const now = read();
    const isSettled = now === last;
    last = now;
    if (isSettled && now !== loadedText) {
      loadedText = now;
      await reload();
    }
    if (!isOver) timer = timers.after(LOOK_MS, () => void look());
  };
  const reload = async (): Promise<void> => {
    let config: Config;
    try {
      config = load();
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      onInvalid(error);
      return;
    }
    await onChange(config);
  };
  let timer = timers.after(LOOK_MS, () => void look());
  return {
    cancel() {
      isOver = true;
      timer.cancel();
    },
  };
};

/** Returns the text of a file; `null` when `path` is `null` or the file cannot be read. */
export const readText = (path: string | null): string | null => {
  try {
    return path === null ? null : readFileSync(path, 'utf8');
  } catch {
    return null;
  }
};
