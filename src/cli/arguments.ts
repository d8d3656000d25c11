import { Argument, Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { z } from 'zod';
import { VARIABLES } from '../config/environment.ts';
import { EXIT_CODES, EXIT_MEANINGS } from '../runtime/exit-codes.ts';

/** What the program was asked to do. */
export type CommandLine =
  | { readonly verb: 'help'; readonly text: string }
  | { readonly verb: 'version' }
  | ReturnType<(typeof ROWS)[number]['read']>;

/** A call that was understood, or a message that says what was wrong and how the command is used. */
export type Understood =
  | { readonly ok: true; readonly call: CommandLine }
  | { readonly ok: false; readonly message: string };

/** Reads the command line (without node and script); no words at all mean `start`. */
export function parseCall(argv: readonly string[]): Understood {
  let call: CommandLine = { verb: 'start' };
  if (argv.length === 0) return { ok: true, call };
  let printed = '';
  const program = programOf(
    (next) => (call = next),
    (text) => (printed += text),
  );
  try {
    program.parse(argv, { from: 'user' });
    return { ok: true, call };
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === 'commander.version') return { ok: true, call: { verb: 'version' } };
    if (error.exitCode === 0) return { ok: true, call: { verb: 'help', text: printed.trim() } };
    return { ok: false, message: printed.trim() };
  }
}

/** Joins the words of an operator's command into one line: a word with spaces is quoted, a single word and a word with quotes stay as they are. */
export function operatorLine(words: readonly string[]): string {
  const [only, second] = words;
  if (only !== undefined && second === undefined) return only;
  return words.map((word) => (/^[^"]*\s[^"]*$/.test(word) ? `"${word}"` : word)).join(' ');
}

/** What costs can be summed by. */
export const COST_GROUPS = ['agent', 'channel', 'person', 'model'] as const;
export type CostGroup = (typeof COST_GROUPS)[number];

const OPTIONS = {
  json: new Option('--json', 'print JSON'),
  csv: new Option('--csv', 'print CSV'),
  background: new Option('--background', 'skip the replay of journals, as the running bot does'),
  dryRun: new Option('--dry-run', 'count only'),
  channel: new Option('-c, --channel <id>', 'the channel'),
  from: new Option('--from <number>', 'the first entry to show; all are checked').argParser(entryNumber),
  since: new Option('--since <time>', 'a day or a duration: 2026-11-22, 7d, 2h'),
  by: new Option(`--by <${COST_GROUPS.join('|')}>`, 'what to sum by').choices(COST_GROUPS),
} as const;

const optionsSchema = z.object({
  json: z.boolean().default(false),
  csv: z.boolean().default(false),
  background: z.boolean().default(false),
  dryRun: z.boolean().default(false),
  help: z.boolean().default(false),
  channel: z.string().nullable().default(null),
  from: z.number().default(1),
  since: z.string().nullable().default(null),
  by: z.enum(COST_GROUPS).default('agent'),
});
type Options = z.output<typeof optionsSchema>;

/** A command: its words and arguments (`<a|b>` takes one of them), its options, and what it means. Required arguments are given when `read` is called. */
type Row<Call> = {
  readonly command: string;
  readonly summary: string;
  readonly options?: readonly (keyof typeof OPTIONS)[];
  readonly read: (words: readonly string[], options: Options) => Call;
};

/** Keeps the type of the call, so that `CommandLine` is made of the rows. */
function row<const Call>(command: Row<Call>): Row<Call> {
  return command;
}

const ROWS = [
  row({
    command: 'start',
    summary: 'run the bot and its console page (the default)',
    read: () => ({ verb: 'start' }),
  }),
  row({
    command: 'open',
    summary: 'print a one-time link to the page of the running bot',
    read: () => ({ verb: 'open' }),
  }),
  row({
    command: 'ctl [command...]',
    summary: 'give the running bot a command: "conch ctl floor skip"',
    options: ['channel', 'json'],
    read: (words, { channel, json, help }) =>
      help || words.length === 0
        ? { verb: 'ctl', line: 'help', channel: null, json }
        : { verb: 'ctl', line: operatorLine(words), channel, json },
  }),
  row({
    command: 'replay [floor|session] [key]',
    summary: 'replay and check the journal of a channel or session',
    options: ['from'],
    read: ([first, second], { from }) => {
      const isMachine = first === 'floor' || first === 'session';
      const key = (isMachine ? second : first) ?? null;
      return { verb: 'replay', machine: isMachine ? first : 'floor', key, from };
    },
  }),
  row({
    command: 'backup <file>',
    summary: 'write a consistent copy of the database',
    read: ([file = '']) => ({ verb: 'backup', file }),
  }),
  row({
    command: 'restore <file>',
    summary: 'replace the database by a backup; the old one is kept',
    read: ([file = '']) => ({ verb: 'restore', file }),
  }),
  row({
    command: 'verify [file]',
    summary: 'check the database or a backup, even while Conch runs',
    options: ['json', 'background'],
    read: ([file = null], { json, background }) => ({ verb: 'verify', file, json, background }),
  }),
  row({
    command: 'prune',
    summary: 'delete what is older than retention.days',
    options: ['dryRun'],
    read: (_, { dryRun: isDryRun }) => ({ verb: 'prune', isDryRun }),
  }),
  row({
    command: 'erase <person|message> <id>',
    summary: "erase a person's texts, or one message, for good",
    read: ([what, id = '']) => ({ verb: 'erase', what: what === 'person' ? what : 'message', id }),
  }),
  row({
    command: 'audit',
    summary: 'print all tool calls: who allowed them, their outcome',
    options: ['since', 'json'],
    read: (_, { since, json }) => ({ verb: 'audit', since, json }),
  }),
  row({
    command: 'cost',
    summary: 'print tokens and cost of model calls',
    options: ['by', 'since', 'json', 'csv'],
    read: (_, { by, since, csv, json }) => ({ verb: 'cost', by, since, format: csv ? 'csv' : json ? 'json' : 'text' }),
  }),
  row({
    command: 'agent add <id>',
    summary: 'make a token for a remote agent',
    read: ([agent = '']) => ({ verb: 'agent', what: 'add', agent }),
  }),
  row({
    command: 'agent rotate <id>',
    summary: "replace an agent's token",
    read: ([agent = '']) => ({ verb: 'agent', what: 'rotate', agent }),
  }),
  row({
    command: 'agent revoke <id>',
    summary: "revoke an agent's token",
    read: ([agent = '']) => ({ verb: 'agent', what: 'revoke', agent }),
  }),
  row({ command: 'agent list', summary: 'list the agents that have a token', read: () => ({ verb: 'agent list' }) }),
  row({
    command: 'agent check <id>',
    summary: 'check that a coding agent asks before it acts',
    options: ['json'],
    read: ([agent = ''], { json }) => ({ verb: 'agent check', agent, json }),
  }),
  row({
    command: 'agent trust list',
    summary: "list which files of agents' folders are trusted",
    options: ['json'],
    read: (_, { json }) => ({ verb: 'agent trust', what: 'list', json }),
  }),
  row({
    command: 'agent trust revoke <id>',
    summary: "revoke the trust in the files of an agent's folder",
    read: ([agent = '']) => ({ verb: 'agent trust', what: 'revoke', agent }),
  }),
  row({
    command: 'mcp login <server>',
    summary: 'sign Conch in to an MCP server',
    read: ([server = '']) => ({ verb: 'mcp login', server }),
  }),
  row({
    command: 'mcp logout <server>',
    summary: 'sign Conch out of an MCP server',
    read: ([server = '']) => ({ verb: 'mcp logout', server }),
  }),
  row({
    command: 'mcp list',
    summary: 'list the MCP servers and their logins',
    options: ['json'],
    read: (_, { json }) => ({ verb: 'mcp list', json }),
  }),
  row({
    command: 'doctor',
    summary: 'test agents, tokens, permissions, ports, database',
    options: ['json'],
    read: (_, { json }) => ({ verb: 'doctor', json }),
  }),
  row({
    command: 'discord invite',
    summary: 'print the link that invites the bot to a Discord server',
    read: () => ({ verb: 'discord invite' }),
  }),
  row({
    command: 'slack manifest',
    summary: 'print the manifest from which Slack creates the app',
    read: () => ({ verb: 'slack manifest' }),
  }),
  row({
    command: 'config check',
    summary: 'check turnConfig.json and the environment',
    read: () => ({ verb: 'config check' }),
  }),
  row({
    command: 'tools test <agent> <tool> <input>',
    summary: 'say which rule decides about a tool call (input as JSON)',
    options: ['channel', 'json'],
    read: ([agent = '', tool = '', input = ''], { channel, json }) => ({
      verb: 'tools test',
      agent,
      tool,
      input,
      channel,
      json,
    }),
  }),
  row({
    command: 'run watch <agent>',
    summary: 'follow what an agent does with its tools',
    options: ['channel', 'json'],
    read: ([agent = ''], { channel, json }) => ({ verb: 'run watch', agent, channel, json }),
  }),
  row({
    command: 'schema',
    summary: 'print the JSON Schema of turnConfig.json for editors',
    read: () => ({ verb: 'schema' }),
  }),
] as const;

/** Every command as it is typed, with a summary, for `--help` and the docs. */
export const PROGRAM_COMMANDS: readonly { readonly usage: string; readonly summary: string }[] = ROWS.map((each) => ({
  usage: usageOf(each),
  summary: each.summary,
}));

function usageOf({ command, options = [] }: Row<unknown>): string {
  return [command, ...options.map((name) => `[${OPTIONS[name].flags.replace(/^-\w, /, '')}]`)].join(' ');
}

/** Sets up commander: it writes errors and help by `write`, and calls `onCall` with what was understood, or throws. */
function programOf(onCall: (call: CommandLine) => void, write: (text: string) => void): Command {
  const program = new Command('conch')
    .version('', '-v, --version')
    .configureOutput({ writeOut: write, writeErr: write })
    .configureHelp({ helpWidth: 100 })
    .showHelpAfterError('See conch --help.')
    .exitOverride();
  program.helpInformation = usageText;
  for (const each of ROWS) {
    const [names, parameters] = wordsOf(each);
    let command = program;
    for (const name of names)
      command = command.commands.find((known) => known.name() === name) ?? command.command(name);
    command.description(each.summary).showHelpAfterError(`Usage: conch ${usageOf(each)}`);
    for (const parameter of parameters) command.addArgument(parameter);
    for (const name of each.options ?? []) command.addOption(OPTIONS[name]);
    command.action(() => onCall(each.read(command.args, optionsSchema.parse(command.opts()))));
    // Its help is the running bot's list of commands.
    if (each.command.startsWith('ctl')) command.helpOption(false).option('-h, --help');
  }
  return program;
}

function wordsOf({ command }: Row<unknown>): readonly [readonly string[], readonly Argument[]] {
  const words = command.split(' ');
  const isParameter = (word: string) => /^[<[]/.test(word);
  const parameters = words.filter(isParameter).map((word) => {
    const choices = /^<(.+\|.+)>$/.exec(word)?.[1]?.split('|');
    return choices === undefined ? new Argument(word) : new Argument(word).choices(choices);
  });
  return [words.filter((word) => !isParameter(word)), parameters];
}

function entryNumber(text: string): number {
  const number = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(number)) return number;
  throw new InvalidArgumentError('Expected a number.');
}

const LEFT_WIDTH = 30;
const TEXT_WIDTH = 66;

/** What `conch --help` prints. */
export function usageText(): string {
  const codes = Object.entries(EXIT_CODES).map(([name, code]) => [String(code), meaningOf(name)] as const);
  return [
    'Conch: AI agents and people share one chat channel, and whoever holds the conch may speak.',
    '',
    'Usage: conch [command]',
    '',
    ...columns(PROGRAM_COMMANDS.map(({ usage, summary }) => [usage, summary])),
    ...columns([
      ['<command> --help', 'show the options of a command'],
      ['--version', 'show the version'],
    ]),
    '',
    'Environment (also read from .env):',
    ...columns(ENVIRONMENT),
    '',
    'Exit codes:',
    ...columns(codes),
    '',
    'Commands for the running bot: conch ctl help',
  ].join('\n');
}

/** A variable's meaning, with its default if the line has room for it. */
const ENVIRONMENT = VARIABLES.map(({ name, byDefault, meaning }) => {
  const whole = byDefault === '' ? meaning : `${meaning} (${byDefault})`;
  return [name, whole.length > TEXT_WIDTH ? meaning : whole] as const;
});

function columns(rows: readonly (readonly [string, string])[]): readonly string[] {
  return rows.map(([left, right]) =>
    left.length > LEFT_WIDTH
      ? `  ${left}\n  ${' '.repeat(LEFT_WIDTH)}  ${right}`
      : `  ${left.padEnd(LEFT_WIDTH)}  ${right}`,
  );
}

function meaningOf(name: string): string {
  return Object.entries(EXIT_MEANINGS).find(([each]) => each === name)?.[1] ?? '';
}
