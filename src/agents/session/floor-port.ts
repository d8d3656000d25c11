import type { AgentCommand } from '../../turns/floor/command.ts';
import type { AgentId, ChannelId, MessageId } from '../../turns/floor/settings.ts';
import type { Applied } from '../../turns/floor-store.ts';
import type { Line, FloorView } from '../../turns/view.ts';

/** What agents see of the floors. */
export type FloorPort = {
  /** Resolves once what follows is durable; a refusal is a value. A rejection means that nothing was written. */
  apply(channel: ChannelId, command: AgentCommand): Promise<Applied>;
  /** Lines after one and up to another, oldest first. */
  linesBetween(channel: ChannelId, after: number, upto: number): readonly Line[];
  /** The newest lines, oldest first. */
  lines(channel: ChannelId, limit: number): readonly Line[];
  /** A person's message in its latest wording; `null` when it is not known. */
  message(id: MessageId): Line | null;
  view(channel: ChannelId): FloorView | null;
  /** The agents with a seat in a channel, by the configuration or by an operator, that nobody disabled. */
  seatedIn(channel: ChannelId): readonly AgentId[];
  /** Those of them that are not there, as far as the floor was told. */
  missingIn(channel: ChannelId): readonly AgentId[];
  /** The channels in which an agent has a seat. */
  seatsOf(agent: AgentId): readonly ChannelId[];
  /** Who has the floor now, as in the view; `null` when nobody has it, `undefined` when there is no floor. */
  holder(channel: ChannelId): FloorView['holder'] | undefined;
  /** The text that the holder has generated and not yet said; `null` takes it away. Never durable. */
  draft(channel: ChannelId, agent: AgentId, epoch: number, text: string | null): void;
};

/** How one agent tells its floor what it does. */
export type CommandSender = {
  /** Resolves when the command was applied, refused or given up (`null`). Never rejects. */
  send(command: AgentCommand): Promise<Applied | null>;
  /** Resolves when everything sent so far is done; nothing is tried again from now on. */
  close(): Promise<void>;
};

/** Structured logging, as pino does it. */
export type AgentLog = Record<'debug' | 'info' | 'warn' | 'error', (fields: object, message: string) => void>;

/** Is told what a seat's session reads, so that it is known what nobody vouches for; on record beside its runs. */
export type SeatTaint = {
  /** It is about to read these lines: what was written by sessions that had read such text is such text, too. */
  read(lines: readonly Line[]): void;
  /** It is over, and what it has read is forgotten; what it wrote stays what it is. */
  forget(): void;
};
