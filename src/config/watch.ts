import { readFileSync, watch } from 'node:fs';
import { dirname } from 'node:path';
import { ConfigError, pathText } from './error.ts';
import type { Config } from './config.ts';

/** Runs something once, later; what it returns takes that back. */
export type After = (ms: number, run: () => void) => { cancel(): void };

/** What a reload needs: how to load, and whom to tell. */
export type Reload = {
  /** Reads everything anew, from this file (`loadConfigFrom`); throws a `ConfigError` when it cannot be used. */
  readonly load: () => Config;
  readonly onChange: (config: Config) => void;
  /** The file changed and cannot be used: nothing else changes. */
  readonly onInvalid: (error: ConfigError) => void;
};

/** The keys that a running Conch takes over only when it starts: those of them that changed since, by their paths. */
export const changedUntilRestart = (first: Config, next: Config): readonly string[] => {
  const before = atStart(first);
  return [...atStart(next)].flatMap(([path, value]) => (before.get(path) === value ? [] : [path]));
};

const atStart = ({ adapters, log, remote, turnConfig }: Config): ReadonlyMap<string, string> => {
  const { heartbeatSeconds, heartbeatTimeoutSeconds, interruptGraceSeconds, reconnectGraceSeconds } = turnConfig;
  const times = { heartbeatSeconds, heartbeatTimeoutSeconds, interruptGraceSeconds, reconnectGraceSeconds };
  return new Map(leaves({ turnConfig: times, remote, adapters, log }, []));
};

const leaves = (value: object, path: readonly string[]): readonly (readonly [string, string])[] =>
  Object.entries(value).flatMap(([key, part]: [string, unknown]) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? leaves(part, [...path, key])
      : [[pathText([...path, key]), JSON.stringify(part)] as const],
  );

/** Watches one file by its directory, because editors replace files. `settleMs` lets a save come to its end first. */
type Watched = Reload & {
  readonly path: string;
  readonly after: After;
  readonly settleMs?: number;
};

/** Decides about each text of the file: the same text again does nothing, a new one is loaded and passed on or refused. */
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

/** Reloads whenever the file's text changes, until `close`. */
export const watchConfig = (watched: Watched): { close(): void } => {
  const { path, after, settleMs = 200 } = watched;
  const reload = createReload(readText(path), watched);
  let waiting: ReturnType<After> | null = null;
  const settle = () => {
    waiting?.cancel();
    waiting = after(settleMs, () => reload.consider(readText(path)));
  };
  const watcher = watch(dirname(path), { persistent: false }, settle);
  watcher.on('error', () => watcher.close());
  return {
    close() {
      waiting?.cancel();
      watcher.close();
    },
  };
};

const readText = (path: string): string | null => {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
};
