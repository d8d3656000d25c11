import { Argument, Command, CommanderError } from 'commander';
import { VARIABLES } from '../config/environment.ts';
import { readManifest, versionIn } from '../lib/installation.ts';
import { exitMeanings } from '../runtime/exit-codes.ts';
import { OPTIONS, ROWS, optionsSchema } from './program-commands.ts';
import type { Options, Row } from './program-commands.ts';

/** A typed command of `conch` with its arguments and options. */
export type ProgramCall = { readonly row: Row; readonly words: readonly string[]; readonly options: Options };

/** A parsed command line, a text to print (help, version), or a message with the error and the command's usage. */
type Understood =
  | { readonly ok: true; readonly call: ProgramCall }
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly message: string };

/** Reads the command line (without node and script); no words at all mean `start`. */
export function parseCall(argv: readonly string[]): Understood {
  let understood: ProgramCall | null = null;
  let printed = '';
  const program = programOf(
    (call) => (understood = call),
    (text) => (printed += text),
  );
  try {
    program.parse(argv.length === 0 ? ['start'] : argv, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    const text = printed.trim();
    return error.exitCode === 0 ? { ok: true, text } : { ok: false, message: text };
  }
  if (understood === null) throw new Error('impossible: commander called no command');
  return { ok: true, call: understood };
}

/** A usage line with more characters shows `[options]` in place of the options. */
const LONGEST_USAGE = 90;

/** Every command as it is typed, with a summary, for `--help` and the docs. */
export const PROGRAM_COMMANDS: readonly { readonly usage: string; readonly summary: string }[] = ROWS.map((each) => ({
  usage: usageOf(each),
  summary: each.summary,
}));

function usageOf({ command, options = [] }: Row): string {
  const whole = [command, ...options.map((name) => `[${OPTIONS[name][0].flags.replace(/^-\w, /, '')}]`)].join(' ');
  return whole.length > LONGEST_USAGE ? `${command} [options]` : whole;
}

function programOf(onCall: (call: ProgramCall) => void, write: (text: string) => void): Command {
  const program = new Command('conch')
    .version(versionIn(readManifest()), '-v, --version')
    .configureOutput({ writeOut: write, writeErr: write })
    .configureHelp({ helpWidth: 100 })
    .showHelpAfterError('See conch --help.')
    .exitOverride();
  program.helpInformation = usageText;
  for (const row of ROWS) {
    const [names, parameters] = wordsOf(row);
    let command = program;
    for (const name of names)
      command = command.commands.find((subcommand) => subcommand.name() === name) ?? command.command(name);
    command.description(row.summary).showHelpAfterError(`Usage: conch ${usageOf(row)}`);
    for (const parameter of parameters) command.addArgument(parameter);
    for (const name of row.options ?? []) command.addOption(OPTIONS[name][0]);
    command.action(() => onCall({ row, words: command.args, options: optionsSchema.parse(command.opts()) }));
    // The help of `conch ctl` is the running bot's list of commands.
    if (row.command.startsWith('ctl')) command.helpOption(false).option('-h, --help');
  }
  return program;
}

function wordsOf({ command }: Row): readonly [readonly string[], readonly Argument[]] {
  const words = command.split(' ');
  const isParameter = (word: string) => /^[<[]/.test(word);
  const parameters = words.filter(isParameter).map((word) => {
    const choices = /^<(.+\|.+)>$/.exec(word)?.[1]?.split('|');
    return choices === undefined ? new Argument(word) : new Argument(word).choices(choices);
  });
  return [words.filter((word) => !isParameter(word)), parameters];
}

const LEFT_WIDTH = 30;
const TEXT_WIDTH = 66;

/** Returns the text of `conch --help`. */
export function usageText(): string {
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
    ...columns(exitMeanings().map(([code, meaning]) => [String(code), meaning])),
    '',
    'Commands for the running bot: conch ctl help',
  ].join('\n');
}

/** The meaning of each variable, with the default if the line has room for it. */
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
