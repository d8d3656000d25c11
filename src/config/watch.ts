import { readFileSync, watch } from 'node:fs';
import { dirname } from 'node:path';
import { ConfigError, pathText } from './error.ts';
import type { Config } from './config.ts';

/** Calls a function once after a delay. `cancel` of the result prevents the call. */
export type After = (ms: number, run: () => void) => { cancel(): void };

/** Callbacks of a reload. */
export type Reload = {
  /** Reads the file again (`loadConfigFrom`). Throws a `ConfigError` when it cannot be used. */
  readonly load: () => Config;
  readonly onChange: (config: Config) => void;
  /** The changed file cannot be used; the old configuration stays. */
  readonly onInvalid: (error: ConfigError) => void;
};

/** Paths of changed keys that take effect only at the next start. */
export const changedUntilRestart = (first: Config, next: Config): readonly string[] => {
  const before = atStart(first);
  return [...atStart(next)].flatMap(([path, value]) => (before.get(path) === value ? [] : [path]));
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

/**
 * Watches a file through its folder, because editors replace files. `text`: the text whose configuration is known; the file
 * may have changed since. `settleMs`: the wait after a change, for the save to end.
 */
type Watched = Reload & {
  readonly path: string;
  readonly text: string | null;
  readonly after: After;
  readonly settleMs?: number;
};

/** Loads each new text of the file, and reports the configuration or the error. An unchanged text does nothing. */
export const createReload = (initial: string | null, reload: Reload): { consider(text: string | null): void } => {
  let known = initial;
  return {
    consider(text) {
      if (text === known) return;
      known = text;
      try {
        reload.onChange(reload.load());
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error;
        reload.onInvalid(error);
      }
    },
  };
};

/** Reloads whenever the file's text changes, until `close` is called. */
export const watchConfig = (watched: Watched): { close(): void } => {
  const { path, text, after, settleMs = 200 } = watched;
  const reload = createReload(text, watched);
  let waiting: ReturnType<After> | null = null;
  const settle = () => {
    waiting?.cancel();
    waiting = after(settleMs, () => reload.consider(readText(path)));
  };
  const watcher = watch(dirname(path), { persistent: false }, settle);
  watcher.on('error', () => watcher.close());
  settle();
  return {
    close() {
      waiting?.cancel();
      watcher.close();
    },
  };
};

/** Returns the text of a file; `null` without a file, and for one that cannot be read. */
export const readText = (path: string | null): string | null => {
  try {
    return path === null ? null : readFileSync(path, 'utf8');
  } catch {
    return null;
  }
};
