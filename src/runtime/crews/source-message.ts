import type { FloorStore } from '../../turns/floor-store.ts';
import type { Quotation } from '../../work/crews/tickets/message-ticket.ts';

/** What messages are read from. `link`: a link to a message; `null` where its platform has none. */
export type MessagePorts = {
  readonly store: Pick<FloorStore, 'message' | 'floors' | 'lines'>;
  readonly clean: (text: string) => string;
  readonly link: (channel: string, message: string) => string | null;
};

/** A message that a ticket can be made of. `asker`: the name of its author. */
export type FoundMessage = Quotation & { readonly message: string; readonly channel: string; readonly asker: string };

/** Lines of a thread that are read. */
const LINES_READ = 200;

/** A message with the messages of the thread that begins at it; why no ticket can be made of it, in words. */
export function messageAt(id: string, { store, clean, link }: MessagePorts): FoundMessage | string {
  const found = store.message(id);
  if (found === null)
    return `No message with the id ${id} is known here. It may be older than this floor, or not of a person.`;
  const { channel, author, sentAt, text, deleted, bot, ignore } = found;
  if (deleted) return 'This message was deleted, so no ticket is made of it.';
  if (bot === true || ignore !== undefined)
    return 'A program wrote this message. Tickets are made of messages of people.';
  // Platforms name a thread by the message at its begin.
  const thread = `${channel.slice(0, channel.indexOf(':'))}:${id}`;
  const last = store.floors.state(thread)?.lines ?? 0;
  const after = store
    .lines(thread, Math.max(0, last - LINES_READ), last)
    .filter(({ message, change }) => message !== id && change !== 'deleted')
    .map((line) => ({ author: line.author.name, at: line.at, text: clean(line.text) }));
  const first = { author: author.name, at: sentAt, text: clean(text) };
  const where = link(channel, id) ?? `message ${id} of ${channel}`;
  return { first, after, where, message: id, channel, asker: author.name };
}
