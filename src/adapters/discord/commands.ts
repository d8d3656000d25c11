import { INTERRUPT_MODES, MODES, ORDERS, POLICIES } from '../../turns/floor/policies.ts';
import { ApplicationCommandOptionType, Routes } from 'discord.js';
import { z } from 'zod';
import { completions, MAX_COMPLETIONS } from '../../turns/commands/completions.ts';
import type { Completable } from '../../turns/commands/completions.ts';
import { COMMANDS, MAX_COUNT } from '../../turns/commands/command-table.ts';
import type { Argument, CommandRow } from '../../turns/commands/command-table.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Calls } from './client.ts';
import { cutTo } from './content.ts';

type OptionChoice = { readonly name: string; readonly value: string };

/** A slash command, subcommand or option in Discord's own form, with the fields that Conch sets. */
export type Option = z.infer<typeof optionSchema>;

/** A command and its options as an interaction delivers them: the values that the person filled in. */
export type CommandData = z.infer<typeof commandDataSchema>;

/** Parses the values of an interaction, with options nested at any depth. */
export const commandDataSchema = z.object({
  name: z.string(),
  type: z.int().optional(),
  value: z.union([z.string(), z.number(), z.boolean()]).nullish().catch(null),
  focused: z.boolean().optional().catch(undefined),
  get options(): z.ZodCatch<z.ZodOptional<z.ZodArray<typeof commandDataSchema>>> {
    return z.array(commandDataSchema).optional().catch(undefined);
  },
});

/**
 * Converts the command table to slash commands. A command's first word becomes a slash command, its second word a
 * subcommand.
 */
export function commandSet(): readonly Option[] {
  const groups = Map.groupBy<string, CommandRow>(COMMANDS, (row) => row.path.split(' ')[0] ?? '');
  return [...groups].map(([word, rows]) => {
    const [only] = rows;
    if (only !== undefined && only.path === word) return commandOption(CHAT_INPUT, only, word);
    const options = rows.map((row) => commandOption(SUBCOMMAND, row, row.path.slice(word.length + 1)));
    const verbs = options.map(({ name }) => name).join(', ');
    return { type: CHAT_INPUT, name: word, description: cut(`${GROUPS[word] ?? word}: ${verbs}`), options };
  });
}

/** Returns the command line of a filled-in slash command. */
export function lineOf(data: CommandData): string {
  const { path, row, values } = parseCommandData(data);
  const valueOf = (optionName: string) => values.find(({ name }) => name === optionName)?.value ?? null;
  const options = (row?.options ?? []).flatMap(({ name, flag }) => {
    const value = valueOf(name);
    if (flag === true) return value === true ? [`--${name}`] : [];
    return value === null ? [] : [`--${name} ${quoted(String(value))}`];
  });
  const words = (row?.arguments ?? []).flatMap((argument) => {
    const value = valueOf(argument.name);
    const text = value === null ? null : argument.rest === true ? toOneLine(String(value)) : quoted(String(value));
    if (argument.rest !== true) return text ?? [];
    // Ends the options, so that a text that begins with "--" is not read as an option.
    const end = row?.options !== undefined && text?.startsWith('--') === true ? ['--'] : [];
    return [...options, ...end, ...(text === null ? [] : [isCountLeftOut(row, valueOf) ? notCounted(text) : text])];
  });
  const hasRest = row?.arguments.some(({ rest }) => rest === true) === true;
  return withMessageIds([`/${path}`, ...words, ...(hasRest ? [] : options)].join(' '));
}

function isCountLeftOut(row: CommandRow | null, valueOf: (name: string) => unknown): boolean {
  return (row?.arguments ?? []).some(({ kind, name }) => kind === 'count' && valueOf(name) === null);
}

/** Quotes a text that begins with a number, so that the number is not read as the argument before the text. */
function notCounted(text: string): string {
  return /^\d+(?:\s|$)/.test(text) ? `"${text.replaceAll('"', "'")}"` : text;
}

/** Replaces links to messages by the messages' ids. */
export function withMessageIds(line: string): string {
  return line.replaceAll(MESSAGE_LINK, '$1');
}

const MESSAGE_LINK = /<?https?:\/\/(?:\w+\.)?discord(?:app)?\.com\/channels\/(?:\d{1,20}|@me)\/\d{1,20}\/(\d{1,20})>?/g;

/** Returns the completions for the option that has the focus: at most 25, each value of at most 100 UTF-16 units. */
export function choicesFor(data: CommandData, completable: Completable): readonly OptionChoice[] {
  const { path, row, values } = parseCommandData(data);
  const focused = values.find((value) => value.focused === true);
  const argument = row?.arguments.find(({ name }) => name === focused?.name);
  if (focused === undefined || argument === undefined || row === null) return [];
  const typed = toOneLine(String(focused.value ?? '')).slice(0, TYPED_LENGTH);
  const before = typed.slice(0, typed.lastIndexOf(' ') + 1);
  const prefix = argument.rest === true ? before : '';
  const earlier = earlierWords(row, argument, values);
  return completions(
    [`/${path}`, ...earlier, argument.rest === true ? typed : quotedStart(typed)].join(' '),
    completable,
  )
    .map(({ value, summary }) => ({ value: `${prefix}${value}`, name: cut(`${prefix}${value} · ${summary}`) }))
    .filter(({ value }) => value.length <= VALUE_LENGTH)
    .slice(0, MAX_COMPLETIONS);
}

/**
 * Registers the commands in a guild. Resolves with false when the same commands were registered already. Rejects with a
 * `ChatError`.
 */
export async function registerCommands(at: {
  readonly calls: Calls;
  readonly applicationId: string;
  readonly guild: string;
  readonly channel: ChannelId;
}): Promise<boolean> {
  const commands = commandSet();
  const route = Routes.applicationGuildCommands(at.applicationId, at.guild);
  const call = { route, channel: at.channel, what: 'commands' } as const;
  const registered = await at.calls.ask({ method: 'get', ...call }, z.array(optionSchema));
  if (sameSet(registered, commands)) return false;
  await at.calls.tell({ method: 'put', ...call, body: commands });
  return true;
}

const CHAT_INPUT = 1;
const { Subcommand: SUBCOMMAND, String: STRING, Integer: INTEGER, Boolean: BOOLEAN } = ApplicationCommandOptionType;
const DESCRIPTION_LENGTH = 100;
const VALUE_LENGTH = 100;
const TYPED_LENGTH = 500;
/** The largest value of `/floor extend`, in seconds. */
const LONGEST = 86_400;
const SCOPES = [
  ['once', 'this call only'],
  ['always', 'every call under the offered rule, for 30 days'],
] as const;
const GROUPS: Readonly<Record<string, string>> = {
  floor: 'The floor of this channel',
  agent: 'The agents',
  run: 'The runs of agents',
  review: 'Reviews of an agent’s work by another',
  crew: 'The crew that works on tickets',
};

const optionSchema = z.object({
  type: z.int(),
  name: z.string(),
  description: z.string(),
  required: z.boolean().exactOptional(),
  autocomplete: z.boolean().exactOptional(),
  min_value: z.number().exactOptional(),
  max_value: z.number().exactOptional(),
  choices: z.array(z.object({ name: z.string(), value: z.string() })).exactOptional(),
  get options(): z.ZodExactOptional<z.ZodArray<typeof optionSchema>> {
    return z.array(optionSchema).exactOptional();
  },
});

function commandOption(type: number, row: CommandRow, name: string): Option {
  const namedOptions = (row.options ?? []).map(({ name: option, summary, most, flag }) =>
    flag === true
      ? { type: BOOLEAN, name: option, description: cut(summary), required: false }
      : optionOf({
          name: option,
          kind: most === undefined ? 'words' : 'count',
          required: false,
          summary,
          ...(most && { most }),
        }),
  );
  const options = [...row.arguments.map(optionOf), ...namedOptions];
  // Discord wants required options first.
  const [required, optional] = [true, false].map((each) =>
    options.filter((option) => (option.required === true) === each),
  );
  return { type, name, description: cut(row.summary), options: [...(required ?? []), ...(optional ?? [])] };
}

function optionOf(argument: Argument): Option {
  const { name, kind, required, summary, most = MAX_COUNT } = argument;
  const common = { name, description: cut(summary), required };
  switch (kind) {
    case 'agent':
    case 'reviewer':
    case 'message':
    case 'command':
    case 'question':
      return { type: STRING, ...common, autocomplete: true };
    case 'words':
    case 'worker':
      return { type: STRING, ...common };
    case 'scope':
      return { type: STRING, ...common, choices: SCOPES.map(([each, words]) => choice(each, words)) };
    case 'mode':
      return { type: STRING, ...common, choices: INTERRUPT_MODES.map((each) => choice(each, MODES[each].summary)) };
    case 'order':
      return { type: STRING, ...common, choices: ORDERS.map((each) => choice(each, POLICIES[each].summary)) };
    case 'seconds':
    case 'count':
      return { type: INTEGER, ...common, min_value: 1, max_value: kind === 'count' ? most : LONGEST };
  }
}

function choice(value: string, summary: string): OptionChoice {
  return { value, name: cut(`${value}: ${summary}`) };
}

type ParsedCommand = {
  readonly path: string;
  readonly row: CommandRow | null;
  readonly values: readonly CommandData[];
};

function parseCommandData(data: CommandData): ParsedCommand {
  const [first] = data.options ?? [];
  const inner = first?.type === SUBCOMMAND ? first : null;
  const path = inner === null ? data.name : `${data.name} ${inner.name}`;
  const rows: readonly CommandRow[] = COMMANDS;
  return {
    path,
    row: rows.find((row) => row.path === path) ?? null,
    values: (inner === null ? data.options : inner.options) ?? [],
  };
}

function earlierWords(row: CommandRow, argument: Argument, values: readonly CommandData[]): readonly string[] {
  return row.arguments.slice(0, row.arguments.indexOf(argument)).flatMap(({ name }) => {
    const value = values.find((each) => each.name === name)?.value ?? null;
    return value === null ? [] : [quoted(String(value))];
  });
}

function toOneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ');
}

function quoted(text: string): string {
  const plain = toOneLine(text).replaceAll('"', '').trim();
  return plain === '' || plain.includes(' ') ? `"${plain}"` : plain;
}

function quotedStart(text: string): string {
  const plain = text.replaceAll('"', '').trimStart();
  return plain.includes(' ') ? `"${plain}` : plain;
}

const cut = (text: string): string => cutTo(text, DESCRIPTION_LENGTH);

function sameSet(registered: readonly Option[], commands: readonly Option[]): boolean {
  const sorted = (set: readonly Option[]): readonly string[] => set.map(canonical).toSorted();
  return JSON.stringify(sorted(registered)) === JSON.stringify(sorted(commands));
}

/**
 * Returns an option as a text to compare. Fields that Discord adds or omits when they have their default make no
 * difference.
 */
function canonical(option: Option): string {
  const { type, name, description, choices = [], options = [], min_value = null, max_value = null } = option;
  const flags = [option.required === true, option.autocomplete === true];
  const pairs = choices.map((each) => [each.name, each.value]);
  return JSON.stringify([type, name, description, flags, min_value, max_value, pairs, options.map(canonical)]);
}
