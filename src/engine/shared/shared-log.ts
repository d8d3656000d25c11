/** A row of a table of the store as text; `null` for a deleted row. `id` names the row among those of its table. */
export type SharedRow = { readonly table: string; readonly id: string; readonly row: string | null };

/**
 * A row to write. `known` is the position of the newest change of this row that the writer has: 0 when it has none,
 * `null` when the row is written whatever another process wrote.
 */
export type RowChange = SharedRow & { readonly known: number | null };

/** A row that the writer does not change. The group is written only if `known` is the position of its newest change. */
export type RowCheck = Pick<SharedRow, 'table' | 'id'> & { readonly known: number };

/** All rows that one transaction of a process writes, and those that it checks. */
export type Group = {
  readonly worker: string;
  /** Counts the groups of the worker. A group that is sent again has the same number and is written once. */
  readonly number: number;
  readonly changes: readonly RowChange[];
  readonly checks: readonly RowCheck[];
};

/**
 * The outcome of a group. `taken`: all its rows are durable, at this position. `overtaken`: another process changed a
 * row first, and nothing was written. `buried`: the worker was declared dead or has left, and nothing was written.
 */
export type GroupVerdict =
  | { readonly state: 'taken'; readonly position: number }
  | { readonly state: 'overtaken' }
  | { readonly state: 'buried' };

/** The rows that changed after a position, each in its newest form, oldest change first; and the position reached. */
export type Changes = {
  readonly rows: readonly (SharedRow & { readonly position: number })[];
  readonly position: number;
  /** True when the log had no later changes; false when it may have had some. */
  readonly isAll: boolean;
};

/** A process among those that share a log. Every start is a worker of its own. */
export type Member = {
  readonly worker: string;
  /** Unique among living workers, at least 0 and below `SLOTS`. */
  readonly slot: number;
  /** The name of the log, part of the ids of posts. */
  readonly logId: string;
};

/** The most processes that can share a log. */
export const SLOTS = 1_024;

/**
 * A log of rows that several processes share. It writes one group after the other and gives each group with changes the
 * next position. Each method except `close` rejects when the log cannot be reached. The group of a rejected `commit`
 * may be written: send it again.
 */
export type SharedLog = {
  join(): Promise<Member>;
  commit(group: Group): Promise<GroupVerdict>;
  pull(after: number): Promise<Changes>;
  /** Declares a worker dead: none of its later groups is written. */
  bury(worker: string): Promise<void>;
  /** Stores that a worker is alive now. Resolves with `false` when it was declared dead or has left. */
  beat(worker: string): Promise<boolean>;
  /**
   * Declares dead each worker whose last `beat` is older than `deadMs`, by the log's clock. Does nothing when the last
   * beat of `worker` itself is older than `freshMs`.
   */
  burySilent(worker: string, limits: { readonly deadMs: number; readonly freshMs: number }): Promise<void>;
  /** Makes this worker the leader. Resolves with `false` when another living worker leads, or when this one is dead. */
  lead(worker: string): Promise<boolean>;
  living(): Promise<readonly string[]>;
  /** Ends a worker in good order. Nothing of the worker may be in flight. */
  leave(worker: string): Promise<void>;
  close(): Promise<void>;
};
