import type { FloorStore } from '../../turns/floor-store.ts';
import type { QuotedMessage } from '../../work/crews/crews.ts';

/** What messages are read from. `link`: a link to a message; `null` where its platform has none. */
type MessagePorts = {
  readonly store: Pick<FloorStore, 'message' | 'lastLines'>;
  readonly clean: (text: string) => string;
  readonly link: (channel: string, message: string) => string | null;
};

/** The most lines of a thread that are read. */
const LINES_READ = 200;

/** Returns a message with its thread, for a ticket. Returns why no ticket can be made of it, in words. */
export function messageAt(id: string, { store, clean, link }: MessagePorts): QuotedMessage | string {
  const found = store.message(id);
  if (found === null)
    return `No message with the id ${id} is known here. It may be older than this floor, or not of a person.`;
  const { channel, author, sentAt, text, deleted, bot, ignore } = found;
  if (deleted) return 'This message was deleted, so no ticket is made of it.';
  if (bot === true || ignore !== undefined)
    return 'A program wrote this message. Tickets are made of messages of people.';
  // The id of a thread ends with the id of its first message.
  const thread = `${channel.slice(0, channel.indexOf(':'))}:${id}`;
  const after = store
    .lastLines(thread, LINES_READ)
    .filter(({ message, change }) => message !== id && change === null)
    .map((line) => ({ author: line.author.name, at: line.at, text: clean(line.text) }));
  const first = { author: author.name, at: sentAt, text: clean(text) };
  const where = link(channel, id) ?? `message ${id} of ${channel}`;
  return { first, after, where, message: id, channel, asker: author.name };
}
