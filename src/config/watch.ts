import { readFileSync, watch } from 'node:fs';
import { dirname } from 'node:path';
import { ConfigError } from './error.ts';
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

/** Watches one file by its directory, because editors replace files. `settleMs` lets a save come to its end first. */
export type Watched = Reload & {
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
