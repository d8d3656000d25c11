import { INTERRUPT_MODES, MODES, ORDERS, POLICIES } from '../floor/policies.ts';
import type { MessageId } from '../floor/settings.ts';
import { lineWords, rowOf } from './parse.ts';
import type { CommandTable } from './parse.ts';
import { COMMANDS } from './command-table.ts';
import type { Argument } from './command-table.ts';

/** A completion of a line: the completed word, the whole line with it, and its meaning. */
export type Completion = { readonly value: string; readonly line: string; readonly summary: string };

/** The values that arguments can be completed with. */
export type Completable = {
  readonly agents: readonly { readonly id: string; readonly name: string }[];
  /** Newest first. */
  readonly messages?: readonly { readonly id: MessageId; readonly summary: string }[];
  readonly requests?: readonly { readonly question: { readonly question: number; readonly title: string } }[];
};

/** The most completions of a line. */
export const MAX_COMPLETIONS = 25;

/**
 * Returns completions of a line's last word, at most 25. The line may begin with "/" or "!", which completed lines
 * keep. After a trailing space the next word is completed.
 */
export function completions(
  partialLine: string,
  completable: Completable,
  table: CommandTable = COMMANDS,
): readonly Completion[] {
  const [, lead = '', body = ''] = /^\s*([/!]?)(.*)$/s.exec(partialLine) ?? [];
  const words = lineWords(body);
  const last = /\s$/.test(body) || words.length === 0 ? '' : (words.pop() ?? '');
  const typed = last.toLowerCase().replace(/^@/, '');
  const front = lead + body.slice(0, body.length - (body.endsWith(last) ? last.length : 0)).replace(/"$/, '');
  return choices(words, completable, table)
    .filter((choice) => choice.value.toLowerCase().startsWith(typed) || choice.also?.toLowerCase().startsWith(typed))
    .slice(0, MAX_COMPLETIONS)
    .map(({ value, summary }) => ({ value, summary, line: `${front}${/\s/.test(value) ? `"${value}"` : value}` }));
}

type Choice = { readonly value: string; readonly summary: string; readonly also?: string };

function choices(words: readonly string[], completable: Completable, table: CommandTable): readonly Choice[] {
  const [first, second] = words.map((word) => word.toLowerCase());
  if (first === undefined) return firstWords(table);
  const group = table.filter((row) => row.path.startsWith(`${first} `));
  if (second === undefined && group.length > 0) {
    return group.map((row) => ({ value: row.path.slice(first.length + 1), summary: row.summary }));
  }
  const row = rowOf(words, table);
  if (row === null) return [];
  const argumentWords = words.slice(row.path.split(' ').length);
  const arguments_: readonly Argument[] = row.arguments;
  const argument = arguments_[argumentWords.length] ?? arguments_.find((each) => each.rest === true);
  return argument === undefined ? [] : CHOICES[argument.kind]({ argumentWords, completable, table });
}

function firstWords(table: CommandTable): readonly Choice[] {
  const seen = new Map<string, Choice>();
  for (const row of table) {
    const [word = '', verb] = row.path.split(' ');
    const verbs = seen.get(word)?.summary;
    const summary = verb === undefined ? row.summary : verbs === undefined ? verb : `${verbs}, ${verb}`;
    seen.set(word, { value: word, summary });
  }
  return [...seen.values()];
}

type CompletionContext = {
  readonly argumentWords: readonly string[];
  readonly completable: Completable;
  readonly table: CommandTable;
};

function agentChoices({ argumentWords, completable }: CompletionContext): readonly Choice[] {
  return completable.agents
    .filter((agent) => !argumentWords.includes(agent.id))
    .map((agent) => ({ value: agent.id, summary: agent.name, also: agent.name }));
}

const CHOICES: Readonly<Record<Argument['kind'], (context: CompletionContext) => readonly Choice[]>> = {
  agent: agentChoices,
  reviewer: agentChoices,
  worker: () => [],
  mode: () => INTERRUPT_MODES.map((mode) => ({ value: mode, summary: MODES[mode].summary })),
  order: () => ORDERS.map((order) => ({ value: order, summary: POLICIES[order].summary })),
  question: ({ completable: { requests = [] } }) =>
    requests.map(({ question: { question, title } }) => ({ value: `${question}`, summary: title })),
  message: ({ completable }) => (completable.messages ?? []).map(({ id, summary }) => ({ value: id, summary })),
  seconds: () => ['30', '60', '120', '300'].map((value) => ({ value, summary: `${value} seconds` })),
  count: () => ['5', '10', '25', '50'].map((value) => ({ value, summary: value })),
  scope: () => [
    { value: 'once', summary: 'this call only' },
    { value: 'always', summary: 'every call under the offered rule, for 30 days' },
  ],
  words: () => [],
  command: ({ argumentWords, completable, table }) =>
    argumentWords.length < 2 ? choices(argumentWords, completable, table) : [],
};
