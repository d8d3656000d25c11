import type { InterruptMode, OrderPolicy } from '../floor/policies.ts';
import { INTERRUPT_MODES, MODES, ORDERS } from '../floor/policies.ts';
import { didYouMean } from '../../lib/nearest.ts';
import { isStopWord } from '../text/recognition.ts';
import { COMMANDS, MAX_COUNT } from './command-table.ts';
import type { Argument, CommandOption, CommandPath, CommandRow } from './command-table.ts';

/**
 * The values of a command's arguments, by kind, and of its options, by name. Agents are not resolved yet: ids or names
 * as written, without "@".
 */
export type Values = {
  readonly agent?: string;
  readonly reviewer?: string;
  readonly worker?: string;
  readonly agents?: readonly string[];
  readonly mode?: InterruptMode;
  readonly order?: OrderPolicy;
  readonly seconds?: number;
  readonly count?: number;
  readonly message?: string;
  readonly command?: string;
  readonly question?: number;
  readonly scope?: 'once' | 'always';
  readonly words?: string;
  readonly model?: string;
  readonly steps?: number;
  readonly tools?: string;
  readonly json?: true;
};

/** A parsed command line. */
export type Invocation = {
  readonly path: CommandPath;
  readonly needs: 'read' | 'operate';
  readonly values: Values;
};

/** The parsed line, or a sentence that says what was expected. */
export type Parsed =
  | { readonly ok: true; readonly invocation: Invocation }
  | { readonly ok: false; readonly message: string };

/** A command table whose paths are known commands. */
export type CommandTable = readonly (CommandRow & { readonly path: CommandPath })[];

/**
 * Parses a command line: "/floor skip", "!floor skip" or "floor skip". Commands, modes and orders are case-insensitive.
 * An argument with spaces needs double quotes, unless it takes all remaining words. "stop" ignores everything after it.
 */
export function parseLine(line: string, table: CommandTable = COMMANDS): Parsed {
  const plain = line.trim().replace(/^[/!]\s*/, '');
  const words = lineWords(plain);
  const stop = isStopWord(words[0] ?? '') ? table.find(({ path }) => path === 'stop') : undefined;
  if (stop !== undefined) return { ok: true, invocation: { path: stop.path, needs: stop.needs, values: {} } };
  if (line.length > MAX_LINE)
    return { ok: false, message: `That line is too long: a command has at most ${MAX_LINE} characters.` };
  if (words.length === 0) return { ok: false, message: 'Expected a command. /help shows them all.' };
  const row = rowOf(words, table);
  if (row === null) return { ok: false, message: unknownCommand(words, table) };
  const argumentWords = words.slice(row.path.split(' ').length);
  const values = valuesOf(row, argumentWords, (wordsLeft) => endOf(plain, words.length - wordsLeft));
  if (typeof values === 'string') return { ok: false, message: values };
  const needs = argumentWords.length === 0 && row.withoutArguments !== undefined ? row.withoutArguments : row.needs;
  return { ok: true, invocation: { path: row.path, needs, values } };
}

/** Returns a command's syntax: "/floor grant <agent>", "/floor order [policy] [agents…]". */
export function usage(row: CommandRow): string {
  const parts = row.arguments.map((argument) => {
    const name = argument.rest === true ? `${argument.name}…` : argument.name;
    return argument.required ? `<${name}>` : `[${name}]`;
  });
  const options = (row.options ?? []).map((option) => `[--${option.name}${optionValue(option)}]`);
  const [first, ...rest] = [`/${row.path}`, ...parts];
  // Options come before the last argument, which may take all remaining words.
  return [first, ...rest.slice(0, -1), ...options, ...rest.slice(-1)].join(' ');
}

function optionValue({ flag, most }: CommandOption): string {
  if (flag === true) return '';
  return most === undefined ? ' words' : ' n';
}

/** Splits a line into words. Double quotes keep spaces together. A quote that is not closed ends with the line. */
export function lineWords(line: string): string[] {
  return [...line.matchAll(WORD)].map((match) => match[1] ?? match[0]);
}

/**
 * Returns a word for error messages: in quotes, cut to 40 characters, on one line, without characters that could
 * mention somebody.
 */
export function quoted(word: string): string {
  const plain = word.replaceAll(/[\p{C}@<>`]+/gu, ' ').trim();
  return `"${plain.length > MAX_QUOTED ? `${plain.slice(0, MAX_QUOTED)}…` : plain}"`;
}

function endOf(line: string, words: number): string {
  return line.slice([...line.matchAll(WORD)][words]?.index ?? line.length);
}

const WORD = /"([^"]*)"?|[^\s"]+/gu;
const MAX_LINE = 2_000;
const MAX_QUOTED = 40;
const MAX_SECONDS = 86_400;

type ParsedValues = Values | string;

/** Returns the command that a line's words begin with, by its path or alias; `null` when there is none. */
export function rowOf(words: readonly string[], table: CommandTable): CommandTable[number] | null {
  const [first = '', second = ''] = words.map((word) => word.toLowerCase());
  const both = `${first} ${second}`;
  return table.find(({ path, alias }) => path === both || alias === both || path === first) ?? null;
}

function unknownCommand(words: readonly string[], table: CommandTable): string {
  const [first = '', second] = words;
  const group = table.filter((row) => row.path.startsWith(`${first.toLowerCase()} `));
  if (group.length === 0) {
    const firstWords = [...new Set(table.map((row) => row.path.split(' ')[0] ?? ''))];
    const seconds = table.map((row) => row.path);
    const suggestion = didYouMean(first, firstWords) || didYouMean(`${first} ${second ?? ''}`.trim(), seconds);
    return `There is no command ${quoted(first)}.${suggestion || inGroup(first, table)} /help shows them all.`;
  }
  const verbs = group.map((row) => row.path.split(' ')[1] ?? '');
  const expected = `Expected one of ${verbs.join(', ')} after /${first.toLowerCase()}`;
  return second === undefined ? `${expected}.` : `${expected}, got ${quoted(second)}.${didYouMean(second, verbs)}`;
}

function inGroup(word: string, table: CommandTable): string {
  const row = table.find((each) => each.path.endsWith(` ${word.toLowerCase()}`));
  return row === undefined ? '' : ` Did you mean "${row.path}"?`;
}

function valuesOf(row: CommandRow, argumentWords: readonly string[], end: (left: number) => string): ParsedValues {
  const values: Values = {};
  let wordsLeft = argumentWords;
  for (const [place, argument] of row.arguments.entries()) {
    const read = readOptions(row, wordsLeft);
    if (typeof read === 'string') return read;
    Object.assign(values, read.values);
    wordsLeft = read.wordsLeft;
    const [word] = wordsLeft;
    if (word !== undefined && isLeftOut(argument, row.arguments[place + 1], word)) continue;
    if (word === undefined) {
      if (argument.required) return `Expected ${article(argument)}: ${usage(row)}, for example ${row.example}`;
      continue;
    }
    const value = argument.rest === true ? readRest(argument, wordsLeft, end) : READERS[argument.kind](word, argument);
    if (typeof value === 'string') return value;
    Object.assign(values, value);
    wordsLeft = argument.rest === true ? [] : wordsLeft.slice(1);
  }
  const trailing = readOptions(row, wordsLeft);
  if (typeof trailing === 'string') return trailing;
  Object.assign(values, trailing.values);
  const [extra] = trailing.wordsLeft;
  return extra === undefined ? values : `Expected nothing after ${quoted(extra)}: ${usage(row)}`;
}

function readOptions(
  { options = [] }: CommandRow,
  argumentWords: readonly string[],
): { readonly values: Values; readonly wordsLeft: readonly string[] } | string {
  const values: Values = {};
  let wordsLeft = argumentWords;
  for (let word = wordsLeft[0]; options.length > 0 && word?.startsWith('--') === true; word = wordsLeft[0]) {
    if (word === '--') return { values, wordsLeft: wordsLeft.slice(1) };
    const [, name = '', inline] = /^--([^=]*)(?:=(.*))?$/s.exec(word) ?? [];
    const option = options.find((each) => each.name === name.toLowerCase());
    const names = options.map((each) => `--${each.name}`);
    if (option === undefined)
      return `There is no option ${quoted(word)}.${didYouMean(`--${name}`, names)} Options: ${names.join(', ')}; after "--" come the words.`;
    if (option.flag === true) {
      if (inline !== undefined) return `Expected nothing after --${name}.`;
      Object.assign(values, { [option.name]: true });
      wordsLeft = wordsLeft.slice(1);
      continue;
    }
    // After "=", a value in quotes is a separate word.
    const isInline = inline !== undefined && inline !== '';
    const read = readOption(option, isInline ? inline : wordsLeft[1]);
    if (typeof read === 'string') return read;
    Object.assign(values, read);
    wordsLeft = wordsLeft.slice(isInline ? 1 : 2);
  }
  return { values, wordsLeft };
}

function readOption({ name, most }: CommandOption, value: string | undefined): ParsedValues {
  if (value === undefined || value.trim() === '' || value.startsWith('--'))
    return `Expected ${most === undefined ? 'words' : 'a number'} after --${name}.`;
  if (most === undefined) return { [name]: value };
  const count = countIn(value, most);
  return count === null
    ? `Expected a number from 1 to ${most} after --${name}, got ${quoted(value)}.`
    : { [name]: count };
}

function countIn(word: string, most: number): number | null {
  const count = Number(word);
  return /^\d+$/.test(word) && count >= 1 && count <= most ? count : null;
}

function isLeftOut({ kind, required }: Argument, next: Argument | undefined, word: string): boolean {
  if (required || next === undefined) return false;
  const isNumber = /^\d+$/.test(word);
  return kind === 'count'
    ? (next.kind === 'agent' || next.kind === 'words') && !isNumber
    : kind === 'agent' && next.kind === 'count' && isNumber;
}

function readRest({ kind }: Argument, wordsLeft: readonly string[], end: (left: number) => string): Values {
  const [only = ''] = wordsLeft;
  if (kind === 'words') return { words: wordsLeft.length === 1 ? only : end(wordsLeft.length) };
  if (kind !== 'command') return { agents: wordsLeft.map(plainAgent) };
  return { command: wordsLeft.join(' ').replace(/^[/!]/, '').toLowerCase() };
}

const READERS: Readonly<Record<Argument['kind'], (word: string, argument: Argument) => ParsedValues>> = {
  agent: (word) => ({ agent: plainAgent(word) }),
  reviewer: (word) => ({ reviewer: plainAgent(word) }),
  worker: (word) => ({ worker: word }),
  message: (word) => ({ message: word }),
  command: (word) => ({ command: word.toLowerCase() }),
  words: (word) => ({ words: word }),
  order(word) {
    const order = ORDERS.find((each) => each === word.toLowerCase());
    if (order !== undefined) return { order };
    return `Expected one of ${ORDERS.join(', ')}, got ${quoted(word)}.${didYouMean(word, ORDERS)}`;
  },
  mode(word) {
    const wanted = word.toLowerCase();
    const mode = INTERRUPT_MODES.find((each) => each === wanted || MODES[each].aliases.includes(wanted));
    if (mode !== undefined) return { mode };
    const known = INTERRUPT_MODES.flatMap((each) => [each, ...MODES[each].aliases]);
    return `Expected one of ${INTERRUPT_MODES.join(', ')}, got ${quoted(word)}.${didYouMean(word, known)}`;
  },
  seconds(word) {
    const [, digits, unit] = /^(\d{1,9})(s|m)?$/.exec(word) ?? [];
    const seconds = Number(digits) * (unit === 'm' ? 60 : 1);
    if (seconds >= 1 && seconds <= MAX_SECONDS) return { seconds };
    return `Expected seconds from 1 to ${MAX_SECONDS} (120, 120s or 2m), got ${quoted(word)}.`;
  },
  count(word, { most = MAX_COUNT }) {
    const count = countIn(word, most);
    return count === null ? `Expected a number from 1 to ${most}, got ${quoted(word)}.` : { count };
  },
  question(word) {
    const [, digits] = /^#?(\d{1,15})$/.exec(word) ?? [];
    if (digits !== undefined) return { question: Number(digits) };
    return `Expected the number shown with the request, got ${quoted(word)}.`;
  },
  scope(word) {
    const scope = (['once', 'always'] as const).find((each) => each === word.toLowerCase());
    return scope === undefined ? `Expected once or always, got ${quoted(word)}.` : { scope };
  },
};

function plainAgent(word: string): string {
  return word.replace(/^@/, '');
}

function article(argument: Argument): string {
  return argument.kind === 'agent' ? 'an agent' : `a ${argument.name}`;
}
