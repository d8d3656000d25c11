import type { Instant } from '../lib/time.ts';
import type { Attachment, CommandResult, OwedEffect, StoredFact, StoredMessage } from '../engine/port.ts';
import type { Refusal } from './floor/command.ts';
import type { Effect } from './floor/react.ts';
import type { Fact, Fate } from './floor/fact.ts';
import type { Floor } from './floor/floor.ts';
import type { ChannelId, MessageId } from './floor/settings.ts';

/** The answer to one command for a floor. */
export type Applied = CommandResult<Floor, Fact, Effect, Refusal>;

/** A message of a person with what became of it. */
export type InboxRow = StoredMessage<Fate>;

/** One fact of a channel's journal; its key is the channel. */
export type JournalEntry = StoredFact<Fact>;

/** Something that a floor owes to its platform or to an agent: in the lane `posts`, `receipts`, `agent:<id>`, or `interrupt:<id>`, which overtakes what its agent is owed. */
export type OutboxRow = OwedEffect<Effect>;

/** One line of a conversation as agents are given it. */
export type Line = {
  readonly line: number;
  readonly at: Instant;
  readonly author: { readonly kind: 'person' | 'agent'; readonly id: string; readonly name: string };
  readonly text: string;
  readonly attachments: readonly Attachment[];
  /** Set on lines of people. */
  readonly message: MessageId | null;
  readonly change: 'edited' | 'deleted' | null;
};

/** Reading, for prompts, operators and the console; never waits for writers. */
export type FloorReader = {
  floor(channel: ChannelId): Floor | null;
  channels(): readonly ChannelId[];
  /** Lines after one and up to another, oldest first. */
  lines(channel: ChannelId, after: number, upto: number): readonly Line[];
  message(id: MessageId): InboxRow | null;
  /** The newest entries before `before` (or the newest of all), oldest first. */
  journal(channel: ChannelId, limit: number, before?: number): readonly JournalEntry[];
  /** The entries that name this message, oldest first. */
  why(message: MessageId): readonly JournalEntry[];
};

/**
 * The lines after one and up to another that a journal holds, with the latest wording of people's messages; `newest` is read only
 * as far back as they reach. A deleted message has no text any more. The name of an agent is its id: names belong to the configuration.
 */
export function linesOf(
  newest: Iterable<JournalEntry>,
  { after, upto }: { readonly after: number; readonly upto: number },
  messageOf: (id: MessageId) => InboxRow | null,
): readonly Line[] {
  const found: Line[] = [];
  for (const entry of newest) {
    const { fact } = entry;
    const number = 'line' in fact ? fact.line : null;
    if (number !== null && number <= after) break;
    const line = number === null || number > upto ? null : lineOf(entry, messageOf);
    if (line !== null) found.push(line);
    if (number === after + 1) break;
  }
  return found.toReversed();
}

function lineOf({ fact, at }: JournalEntry, messageOf: (id: MessageId) => InboxRow | null): Line | null {
  if (fact.type === 'said') {
    const author = { kind: 'agent', id: fact.agent, name: fact.agent } as const;
    return { line: fact.line, at, author, text: fact.text, attachments: [], message: null, change: null };
  }
  if (fact.type !== 'messageRouted' && fact.type !== 'messageAmended') return null;
  const message = messageOf(fact.id);
  if (message === null || fact.line === null) return null;
  const { author, deleted, text, attachments } = message;
  return {
    line: fact.line,
    at: fact.type === 'messageRouted' ? message.sentAt : at,
    author: { kind: 'person', ...author },
    text: deleted ? '' : text,
    attachments: deleted ? [] : attachments,
    message: fact.id,
    change: deleted ? 'deleted' : fact.type === 'messageAmended' ? fact.change : null,
  };
}
