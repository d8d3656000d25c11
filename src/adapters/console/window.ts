import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Line } from '../../turns/view.ts';
import type { FloorQueries } from '../port.ts';
import type { ChatMessage } from './protocol.ts';

const LINES_SHOWN = 200;

/** What is new and what is different since the last look. */
type Glimpse = { readonly messages: readonly ChatMessage[]; readonly changed: readonly ChatMessage[] };

/** A look through the console into a channel of another platform: its conversation, read only. */
export type Window = {
  tail(channel: ChannelId): readonly ChatMessage[];
  look(channel: ChannelId): Glimpse;
};

/** Opens the window; what it shows comes from the floor's own record of the conversation. */
export function createWindow(queries: FloorQueries): Window {
  const seen = new Map<ChannelId, Map<number, string>>();
  const read = (channel: ChannelId): readonly ChatMessage[] => {
    const avatars = new Map(queries.agents().map((agent) => [agent.id, agent.avatar]));
    return queries.lines(channel, LINES_SHOWN).map((line) => toMessage(line, avatars.get(line.author.id) ?? null));
  };
  const remember = (channel: ChannelId, messages: readonly ChatMessage[]): void => {
    seen.set(channel, new Map(messages.map((message) => [message.seq, JSON.stringify(message)])));
  };
  return {
    tail(channel) {
      const messages = read(channel);
      if (!seen.has(channel)) remember(channel, messages);
      return messages;
    },
    look(channel) {
      const messages = read(channel);
      const known = seen.get(channel) ?? new Map<number, string>();
      remember(channel, messages);
      return {
        messages: messages.filter((message) => !known.has(message.seq)),
        changed: messages.filter(
          (message) => known.has(message.seq) && known.get(message.seq) !== JSON.stringify(message),
        ),
      };
    },
  };
}

function toMessage(line: Line, avatar: string | null): ChatMessage {
  return {
    id: line.message ?? `line ${line.line}`,
    seq: line.line,
    kind: line.author.kind,
    speaker: { id: line.author.id, name: line.author.name, avatar },
    text: line.text,
    epoch: null,
    sentAt: line.at,
    edited: line.change === 'edited',
    deleted: line.change === 'deleted',
    receipts: [],
    replyTo: null,
    asks: null,
    key: null,
  };
}
