import type { Inbox } from './inbox.ts';
import type { JournalEntry, Line } from '../port.ts';

/**
 * The lines that journal entries stand for, with the latest wording of people's messages.
 * A deleted message has no text any more. The name of an agent is its id: names belong to the configuration.
 */
export function linesOf(entries: readonly JournalEntry[], inbox: Inbox): readonly Line[] {
  return entries.flatMap((entry) => {
    const line = lineOf(entry, inbox);
    return line === null ? [] : [line];
  });
}

function lineOf({ fact, at }: JournalEntry, inbox: Inbox): Line | null {
  if (fact.type === 'said') {
    const author = { kind: 'agent', id: fact.agent, name: fact.agent } as const;
    return { line: fact.line, at, author, text: fact.text, attachments: [], message: null, change: null };
  }
  if (fact.type !== 'messageRouted' && fact.type !== 'messageAmended') return null;
  const message = inbox.read(fact.id);
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
