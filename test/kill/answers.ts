import type { Fact } from '../../src/turns/floor/fact.ts';

/** The prompts of completed generations, by agent. Agents without a process of their own have no entry. */
export type Witnesses = ReadonlyMap<string, readonly string[]>;

/**
 * A message of a person. `text`: words that each edit of the message keeps, and that a prompt must hold. `null`: the
 * words of the prompts are not checked.
 */
export type Asked = { readonly id: string; readonly text: string | null };

/** `witnessed`: messages that witnesses answered completely. `mostAtOnce`: the most of them in one turn. */
export type Found = { readonly witnessed: number; readonly mostAtOnce: number; readonly faults: readonly string[] };

type Book = { open: ReadonlySet<string>; done: ReadonlySet<string> };

/**
 * I25: finds messages of a channel that are marked as done without an answer. By the journal, a prompt or an injection
 * of the turn had the message, and the generation ended by itself. If the agent keeps its prompts, a completed prompt
 * must have the message, marked as one to answer now.
 */
export function doneUnseen(
  channel: string,
  facts: readonly Fact[],
  { asked, witnesses }: { readonly asked: readonly Asked[]; readonly witnesses: Witnesses },
): Found {
  const texts = new Map(asked.map(({ id, text }) => [id, text]));
  const books = new Map<string, Book>();
  const counts: number[] = [];
  const faults = facts.flatMap((fact) => {
    if (fact.type !== 'turnEnded') {
      keep(books, fact);
      return [];
    }
    const { open, done } = books.get(fact.agent) ?? NOTHING;
    const { agent, epoch, outcome } = fact;
    const isWhole = outcome === 'completed' || outcome === 'passed' || outcome === 'lapsed';
    const prompts = witnesses.get(agent);
    if (prompts !== undefined) counts.push(fact.answered.length);
    return fact.answered.flatMap((id) => {
      const text = texts.get(id) ?? null;
      const isTold = done.has(id) || (isWhole && open.has(id));
      const isSeen = prompts === undefined || text === null || prompts.some((prompt) => isAsked(prompt, text));
      const what = `message ${id} of ${channel} is done by ${agent} #${epoch} (${outcome})`;
      if (!isTold) return [`${what}, which was not prompted with it to its end`];
      return isSeen ? [] : [`${what}, and stood in no prompt that ${agent} completed: ${JSON.stringify(text)}`];
    });
  });
  return { witnessed: counts.reduce((sum, count) => sum + count, 0), mostAtOnce: Math.max(0, ...counts), faults };
}

const NOTHING: Book = { open: new Set(), done: new Set() };

function keep(books: Map<string, Book>, fact: Fact): void {
  if (!('agent' in fact) || typeof fact.agent !== 'string') return;
  const { open, done } = books.get(fact.agent) ?? NOTHING;
  switch (fact.type) {
    case 'turnGranted':
      books.set(fact.agent, { open: new Set(fact.messages), done: new Set() });
      return;
    case 'turnResumed':
      books.set(fact.agent, { open: new Set(fact.messages), done });
      return;
    case 'turnContinued':
      books.set(fact.agent, { open: new Set(fact.messages), done: new Set([...done, ...open]) });
      return;
    case 'injectReported': {
      const others = [...open].filter((id) => id !== fact.id);
      books.set(fact.agent, { open: new Set(fact.outcome === 'injected' ? [...others, fact.id] : others), done });
      return;
    }
    default:
  }
}

/** True when a prompt has the whole text below a line that asks for an answer to it. */
function isAsked(prompt: string, text: string): boolean {
  return MARKS.some((mark) => prompt.includes(`${mark}]\n${text}`));
}

const MARKS = ['to answer now', 'still open'];
