import { forEachChild, parse } from 'unbash';
import type { Command, PipelineNode, SyntaxNode, Word, AndOr } from 'unbash';
import { visible } from '../lib/visible.ts';
import { heedsOptions } from './safe-commands.ts';
import { programOf, startsOther } from './shell-programs.ts';
import type { Argv } from './safe-commands.ts';

type ShellReading = {
  /** The simple commands of the line; `null` when they are uncertain. Then no rule with words allows the call. */
  readonly parts: readonly Argv[] | null;
  /** The words of all commands of the line, and of commands that these may start. For rules that deny, ask or label. */
  readonly seen: readonly Argv[];
  /** Targets to which output of the line is redirected, as written: files, and streams such as `1` of `2>&1`. */
  readonly written: readonly string[];
};

/**
 * Parses a command line as Bash does. `parts` is certain for simple commands of a literal program name, literal words
 * and `*` or `?`, joined by `&&`, `||`, `;`, `|`, `|&`, `&` or line feeds, also with `!`, `time`, `2>&1` or
 * `>/dev/null`. `parts` is `null` for all other texts, such as substitutions, variables, braces, brackets,
 * here-documents, assignments, compound commands, redirection of files, invisible characters, syntax errors, empty and
 * long texts. `asWritten`: the text is of a rule, and this is all. For other texts, `parts` is also `null` for `eval`
 * and the like. It is also `null` for a pattern that may match a file named like an option, unless every option of the
 * program is safe.
 */
export function readShell(text: string, asWritten = false): ShellReading {
  const script = isSmall(text) ? parse(text) : null;
  const isClear = script?.errors === undefined && visible(text) === text;
  const commands = isClear ? (script?.commands ?? []) : [];
  const parts = commands.length > 0 ? commands.map(({ command }) => simple(command, asWritten)) : [null];
  const { lists, written } = script === null ? roughly(text) : wordsIn(script);
  return {
    parts: parts.includes(null) ? null : parts.flatMap((each) => each ?? []),
    seen: inner(lists, NESTED),
    written: [...written, ...lists.flatMap(scriptsIn).flatMap((each) => foundIn(each).written)],
  };
}

/**
 * Shell words that execute other words or change the meaning of later ones. Some execute the index of an array, which
 * is in the brackets of a variable's name.
 */
const EVALUATORS: ReadonlySet<string> = new Set(
  (
    'eval exec source . command builtin trap alias enable hash bind complete compgen fc jobs mapfile readarray ' +
    'let read getopts declare typeset local readonly export unset print vared zmodload autoload'
  ).split(' '),
);

/** Limits for commands inside a command: depth, words at which one may begin, and words of each. */
const NESTED = 3;
const SUFFIXES = 256;
const LONGEST_SUFFIX = 64;

/** Texts with more UTF-16 units, or with 500 or more opening brackets and backquotes, take too long to parse. */
const LONGEST_SCRIPT = 65_536;
const MOST_OPENED = 500;

function isSmall(text: string): boolean {
  return text.length <= LONGEST_SCRIPT && text.split(/[({`[]/, MOST_OPENED + 1).length <= MOST_OPENED;
}

function roughly(text: string): Found {
  const lines = text.replaceAll(/["'\\]/g, '').split(/[;&|()`{}<>\n$]+/);
  const lists = lines.map((line) => line.trim().split(/\s+/)).filter(([program]) => program !== '');
  return { lists, written: [] };
}

function foundIn(text: string): Found {
  return isSmall(text) ? wordsIn(parse(text)) : roughly(text);
}

function simple(node: PipelineNode | AndOr, asWritten: boolean): readonly Argv[] | null {
  if (node.type === 'Command') {
    const words = literalWords(node, asWritten);
    return words === null ? null : [words];
  }
  if (node.type !== 'AndOr' && node.type !== 'Pipeline') return null;
  const parts = node.commands.map((each) => simple(each, asWritten));
  return parts.includes(null) ? null : parts.flatMap((each) => each ?? []);
}

function literalWords(command: Command, asWritten: boolean): Argv | null {
  const { name, prefix, args, redirects } = command;
  if (name === undefined || name.parts?.some(({ type }) => type === 'Glob') === true) return null;
  if ((!asWritten && EVALUATORS.has(programOf(name.value))) || prefix.some(({ type }) => type === 'Assignment'))
    return null;
  if (!redirects.every(isHarmless)) return null;
  const isHeeded = !asWritten && heedsOptions(name.value);
  const words: string[] = [];
  for (const word of [name, ...args]) {
    if (word.type !== 'Word' || !isLiteral(word) || (isHeeded && mayBeOption(word))) return null;
    words.push(word.value);
  }
  return words;
}

/**
 * True when a pattern may match a file whose name begins like an option. Somebody may have created such a file. Empty
 * quotes before the pattern (`''*`) add no letter.
 */
function mayBeOption({ value, parts = [] }: Word): boolean {
  return /^[-*?]/.test(value) && parts.some(({ type }) => type === 'Glob');
}

function isLiteral({ parts = [] }: Word): boolean {
  return parts.every(
    (part) =>
      part.type === 'Literal' ||
      part.type === 'SingleQuoted' ||
      (part.type === 'Glob' && part.kind !== 'bracket') ||
      (part.type === 'DoubleQuoted' && part.parts.every(({ type }) => type === 'Literal')),
  );
}

/** True for a redirection that joins or closes a stream, or that names `/dev/null`: `2>&1`, `2>&-`, `>/dev/null`. */
function isHarmless(redirection: Command['redirects'][number]): boolean {
  if (redirection.type !== 'Redirect' || redirection.descriptor?.type === 'FileDescriptorVariable') return false;
  const { operator, target } = redirection;
  if (target === undefined || !isLiteral(target)) return false;
  return target.value === '/dev/null' || (/^[<>]&$/.test(operator) && /^(?:\d+|-)$/.test(target.value));
}

type Found = { readonly lists: readonly Argv[]; readonly written: readonly string[] };

/**
 * Returns the words of all commands in a script, and the targets of its output. A word that is computed at run time is
 * taken as written.
 */
function wordsIn(script: SyntaxNode): Found {
  const lists: Argv[] = [];
  const written: string[] = [];
  const visit = (node: SyntaxNode): void => {
    if (node.type === 'Command' && node.name !== undefined) {
      const args = node.args.map((word) => (word.type === 'Word' ? word.value : word.text));
      lists.push([node.name.value, ...args], ...alternatives(node.name, args));
    }
    const redirects = node.type === 'Command' || node.type === 'Redirected' ? node.redirects : [];
    for (const each of redirects) {
      if (each.type === 'Redirect' && each.operator.includes('>') && each.target !== undefined) {
        written.push(each.target.value);
      }
    }
    forEachChild(node, visit);
  };
  visit(script);
  return { lists, written };
}

/** Returns the command that braces in a name expand to (`{rm,-r}`); none without braces. */
function alternatives({ text, parts = [] }: Word, args: Argv): readonly Argv[] {
  if (!parts.some(({ type }) => type === 'BraceExpansion')) return [];
  return [[...text.replaceAll(/[{}"'\\]/g, '').split(','), ...args]];
}

function scriptsIn(words: Argv): readonly string[] {
  return words
    .slice(1, SUFFIXES)
    .flatMap(meantBy)
    .filter((text) => /\s/.test(text));
}

/** Returns a word, the text after its first `=`, and the text after an option letter, each without a leading `!`. */
function meantBy(word: string): readonly string[] {
  const joined = /^-[^-]/.test(word) ? [word.slice(2)] : [];
  const meant = new Set([word, word.slice(word.indexOf('=') + 1), ...joined]);
  return [...meant].map((text) => text.replace(/^!/, ''));
}

/**
 * Adds the commands that the given commands may start: any word after the program may begin a command or be a script.
 */
function inner(lists: readonly Argv[], depth: number): readonly Argv[] {
  if (depth === 0) return lists;
  return lists.flatMap((words) => {
    const [program = ''] = words;
    if (!startsOther(words) && !EVALUATORS.has(programOf(program))) return [words];
    const given = words.slice(1, SUFFIXES);
    const rest = given.map((_, at) => words.slice(at + 1, at + 1 + LONGEST_SUFFIX));
    const values = given.flatMap((word) => meantBy(word).flatMap((text) => (text === word ? [] : [[text]])));
    const scripts = scriptsIn(words).flatMap((word) => foundIn(word).lists);
    return [words, ...rest, ...values, ...inner(scripts, depth - 1)];
  });
}
