import type { AgentCommand } from '../../turns/floor/command.ts';
import type { AgentId, ChannelId, MessageId } from '../../turns/floor/settings.ts';
import type { Applied } from '../../turns/floor-store.ts';
import type { Line, FloorView } from '../../turns/view.ts';

/** What agents read from floors and change in them. */
export type FloorPort = {
  /**
   * Applies a command. Resolves once the command's facts are durable, and also when the floor refuses the command. A
   * sign of work that only moves a deadline resolves at once and is stored within 5 s. Rejects when nothing was
   * written.
   */
  apply(channel: ChannelId, command: AgentCommand): Promise<Applied>;
  /** Returns the lines after number `after` up to and including number `upto`, oldest first. */
  linesBetween(channel: ChannelId, after: number, upto: number): readonly Line[];
  /** The newest lines, at most `limit`, oldest first. */
  lines(channel: ChannelId, limit: number): readonly Line[];
  /** A person's or program's message in its latest wording: empty if it was deleted. `null` for an unknown id. */
  message(id: MessageId): Line | null;
  view(channel: ChannelId): FloorView | null;
  /** Returns the open review's instructions for an agent's turn; empty when it is not the agent's turn. */
  briefOf(channel: ChannelId, agent: AgentId): string;
  /** The agents with an enabled seat in a channel, from the configuration or from an operator. */
  seatedIn(channel: ChannelId): readonly AgentId[];
  /** The agents of `seatedIn` that the floor does not count as connected. */
  missingIn(channel: ChannelId): readonly AgentId[];
  /** The channels in which an agent has a seat, also a disabled one. */
  seatsOf(agent: AgentId): readonly ChannelId[];
  /** The holder, as in the view; `null` when the floor is free, `undefined` when there is no floor. */
  holder(channel: ChannelId): FloorView['holder'] | undefined;
  /**
   * Shows the holder's draft: text that is generated and not yet posted. `null` removes the draft. A shown draft is
   * stored within a second, so that a crash does not lose it.
   */
  draft(channel: ChannelId, agent: AgentId, epoch: number, text: string | null): void;
};

/** Sends one agent's commands to its floor. */
export type CommandSender = {
  /**
   * Sends a command. Resolves when the command was applied or refused, or with `null` when the last attempt to write it
   * failed. Never rejects.
   */
  send(command: AgentCommand): Promise<Applied | null>;
  /** Stops all retries after one more attempt. Resolves when every command sent so far has an outcome. */
  close(): Promise<void>;
};

/** A structured logger with the methods of pino. */
export type AgentLog = Record<'debug' | 'info' | 'warn' | 'error', (fields: object, message: string) => void>;

/** The taint of one seat: whether its session has read untrusted or private text. Stored with the seat's runs. */
export type SeatTaint = {
  /** Called before the session reads these lines and messages. Lines that tainted sessions wrote taint the seat. */
  read(lines: readonly Line[]): void;
  /**
   * Called when the session's memory is lost: clears the taint that came from reading. Messages that the session wrote
   * stay tainted. `after`: the next session reads lines after the line with this number.
   */
  forget(after: number): void;
};
