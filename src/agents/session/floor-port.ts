import type { AgentCommand } from '../../turns/floor/command.ts';
import type { AgentId, ChannelId, MessageId } from '../../turns/floor/settings.ts';
import type { Applied } from '../../turns/floor-machine.ts';
import type { Line, FloorView } from '../../turns/view.ts';

/** What agents see of the floors. */
export type FloorPort = {
  /** Resolves once what follows is durable; a refusal is a value. A rejection means that nothing was written. */
  apply(channel: ChannelId, command: AgentCommand): Promise<Applied>;
  /** Lines after one and up to another, oldest first. */
  lines(channel: ChannelId, after: number, upto: number): readonly Line[];
  /** The newest lines, oldest first. */
  recent(channel: ChannelId, limit: number): readonly Line[];
  /** A person's message in its latest wording; `null` when it is not known. */
  message(id: MessageId): Line | null;
  view(channel: ChannelId): FloorView | null;
  /** The text that the holder has generated and not yet said; `null` takes it away. Never durable. */
  draft(channel: ChannelId, agent: AgentId, epoch: number, text: string | null): void;
};

/** Structured logging, as pino does it. */
export type AgentLog = Record<'debug' | 'info' | 'warn' | 'error', (fields: object, message: string) => void>;
