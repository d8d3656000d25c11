/** A row of a table of the store as text; `null` for a deleted row. `id` names the row among those of its table. */
export type SharedRow = { readonly table: string; readonly id: string; readonly row: string | null };

/** All rows that one transaction of the leader wrote or deleted. */
export type Group = {
  readonly worker: string;
  /** Counts the groups of the worker. A group that is sent again has the same number and is written once. */
  readonly number: number;
  readonly rows: readonly SharedRow[];
};

/** Rows that changed after a position, each in its newest form, oldest change first; and the position reached. */
export type Changes = {
  readonly rows: readonly SharedRow[];
  readonly position: number;
  /** True when the log had no later changes; false when it may have had some. */
  readonly isAll: boolean;
};

/** A process among those that share a log. Every start is a worker of its own. */
export type Member = {
  readonly worker: string;
  /** The name of the log, part of the ids of posts. */
  readonly logId: string;
};

/**
 * A log of rows that several processes share. Only its leader writes. Each method except `close` rejects when the log
 * cannot be reached. When `commit` rejects, the group may have been written: send it again.
 */
export type SharedLog = {
  join(): Promise<Member>;
  /**
   * Writes a group, all or nothing. Resolves with `false`, and writes nothing, when the worker does not lead, and when
   * a later group of the worker was written. Otherwise resolves with `true` for a group that an earlier attempt wrote.
   * Resolves with `false` for a new group of a worker that was declared dead or has left.
   */
  commit(group: Group): Promise<boolean>;
  /** `reader`: the worker whose copy has the changes up to `after`. The log keeps later deletions until it has them. */
  pull(after: number, reader?: string): Promise<Changes>;
  /**
   * Removes rows that were deleted, at most 1,000, when the copies of all other living workers have their deletion.
   * Does nothing when the worker does not lead.
   */
  forgetDeleted(worker: string): Promise<void>;
  /** Stores that a worker is alive now. Resolves with `false` when it was declared dead or has left. */
  beat(worker: string): Promise<boolean>;
  /**
   * Declares dead each worker whose last `beat` is older than `deadMs`, by the log's clock. Does nothing when the last
   * beat of `worker` itself is older than `freshMs`.
   */
  burySilent(worker: string, limits: { readonly deadMs: number; readonly freshMs: number }): Promise<void>;
  /**
   * Makes this worker the leader. Resolves with `false` when another living worker leads, or when this one was declared
   * dead or has left.
   */
  lead(worker: string): Promise<boolean>;
  /** Ends a worker: none of its later groups is written. */
  leave(worker: string): Promise<void>;
  close(): Promise<void>;
};
