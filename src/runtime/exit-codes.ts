import type { StoreFault } from '../engine/errors.ts';

/** Exit codes of Conch, for scripts and service managers. */
export const EXIT_CODES = {
  ok: 0,
  unexpected: 1,
  usage: 2,
  configuration: 3,
  databaseLocked: 4,
  databaseUnreadable: 5,
  portTaken: 6,
  oldNode: 7,
  diskFull: 8,
  notRunning: 9,
  refused: 10,
  platformRefused: 11,
  mustBeMended: 12,
  lockLost: 13,
  databaseUnreached: 14,
  reviewFailed: 20,
  personNeeded: 21,
  cancelled: 130,
} as const;

/** An exit code of Conch. */
export type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES];

/** Returns each exit code with its meaning, in the order of `EXIT_CODES`. */
export const exitMeanings = (): readonly (readonly [code: number, meaning: string])[] =>
  Object.entries(EXIT_CODES).map(([name, code]) => [code, MEANINGS[name as keyof typeof EXIT_CODES]]);

const MEANINGS: Readonly<Record<keyof typeof EXIT_CODES, string>> = {
  ok: 'done',
  unexpected: 'a bug in Conch; the lines before say what happened',
  usage: 'the command line was not understood',
  configuration: 'the configuration has problems; all are listed',
  databaseLocked: 'another process uses the database',
  databaseUnreadable: 'the database is damaged, was moved, or is of another version',
  portTaken: 'the port is taken; set CONCH_PORT',
  oldNode: 'Node is too old; 22.18 or newer is needed',
  diskFull: 'the disk is full, read-only, or belongs to another user',
  notRunning: 'no running Conch could be reached',
  refused: 'the command was refused; the answer says why',
  platformRefused: 'a chat platform refused this bot; the lines before say why',
  mustBeMended: 'a check (doctor, agent check) found a problem',
  lockLost: 'conch.lock was deleted or replaced, or another Conch took over',
  databaseUnreached: 'PostgreSQL could not be reached, or did not answer in time',
  reviewFailed: 'a review failed, stalled or reached its limit',
  personNeeded: 'a review waits for a person',
  cancelled: 'a review was cancelled',
};

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
