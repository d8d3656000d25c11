import type { AgentId, ChannelId } from './floor/settings.ts';

/** One agent as operators list it. `state` is its session's, the worst one first when it sits in several channels. */
export type RosterEntry = {
  readonly id: AgentId;
  readonly name: string;
  /** The kind of its backend: "scripted", say, with a warning when it may change things unasked. */
  readonly backend: string;
  readonly state: string;
  readonly channels: readonly ChannelId[];
};

/** The agents of this program, for operators. Whoever runs agents implements it. */
export type Roster = {
  list(): readonly RosterEntry[];
  /** What is known of one agent, a line of text for each matter; `null` when there is no such agent. */
  status(agent: AgentId): readonly string[] | null;
  /** Closes an agent's sessions and opens them anew, with its error counters at zero. Resolves after the first attempt. */
  restart(agent: AgentId): Promise<{ readonly ok: boolean; readonly text: string }>;
};
