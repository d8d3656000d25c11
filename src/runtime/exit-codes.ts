import type { StoreFault } from '../engine/errors.ts';

/** The exit codes of Conch, for scripts and service managers, each with its meaning. */
const EXITS = {
  ok: [0, 'done'],
  unexpected: [1, 'a bug in Conch; the lines before say what happened'],
  usage: [2, 'the command line was not understood'],
  configuration: [3, 'the configuration has problems; all are listed'],
  databaseLocked: [4, 'another process uses the database'],
  databaseUnreadable: [5, 'the database is damaged, was moved, or is of another version'],
  portTaken: [6, 'the port is taken; set CONCH_PORT'],
  oldNode: [7, 'Node is too old; 22.18 or newer is needed'],
  diskFull: [8, 'the disk is full, read-only, or belongs to another user'],
  notRunning: [9, 'no running Conch could be reached'],
  refused: [10, 'the command was refused; the answer says why'],
  platformRefused: [11, 'a chat platform refused this bot; the lines before say why'],
  mustBeMended: [12, 'a check (doctor, agent check) found a problem'],
  lockLost: [13, 'conch.lock was deleted or replaced, or another Conch took over'],
  databaseUnreached: [14, 'PostgreSQL could not be reached, or did not answer in time'],
  reviewFailed: [20, 'a review failed, stalled or reached its limit'],
  personNeeded: [21, 'a review waits for a person'],
  cancelled: [130, 'a review was cancelled'],
} as const;

/** The exit codes of Conch by name. */
export const EXIT_CODES = Object.fromEntries(Object.entries(EXITS).map(([name, [code]]) => [name, code])) as {
  readonly [Name in keyof typeof EXITS]: (typeof EXITS)[Name][0];
};

/** An exit code of Conch. */
export type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES];

/** Returns each exit code with its meaning, lowest code first. */
export const exitMeanings = (): readonly (readonly [code: number, meaning: string])[] => Object.values(EXITS);

/** Exit codes after which a service manager must not start Conch again: a person has to change something first. */
export const RESTART_CANNOT_HELP: readonly ExitCode[] = [
  EXIT_CODES.usage,
  EXIT_CODES.configuration,
  EXIT_CODES.databaseUnreadable,
  EXIT_CODES.oldNode,
  EXIT_CODES.platformRefused,
];

/** The exit code for each fault of a database. */
export const STORE_CODES = {
  locked: EXIT_CODES.databaseLocked,
  'newer-schema': EXIT_CODES.databaseUnreadable,
  'older-schema': EXIT_CODES.databaseUnreadable,
  corrupt: EXIT_CODES.databaseUnreadable,
  'gone-back': EXIT_CODES.databaseUnreadable,
  'read-only': EXIT_CODES.diskFull,
  full: EXIT_CODES.diskFull,
  shared: EXIT_CODES.lockLost,
  buried: EXIT_CODES.lockLost,
  unavailable: EXIT_CODES.databaseUnreadable,
  unreached: EXIT_CODES.databaseUnreached,
} as const satisfies Record<StoreFault, ExitCode>;
