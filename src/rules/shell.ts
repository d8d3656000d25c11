import { forEachChild, parse } from 'unbash';
import type { Command, PipelineNode, SyntaxNode, Word, AndOr } from 'unbash';
import { visible } from '../lib/visible.ts';

/** The words of one command, the program first. */
export type Argv = readonly string[];

/** A command line taken apart. */
export type ShellReading = {
  /** Its simple commands; `null` when they are not known with certainty: nothing that allows by words may pass it. */
  readonly parts: readonly Argv[] | null;
  /** Every list of words that stands anywhere in it, and what programs that start others would start: for what forbids. */
  readonly seen: readonly Argv[];
  /** The files that its output goes to, as they are written. */
  readonly written: readonly string[];
};

/**
 * Takes a command line apart as Bash reads it. Known with certainty are simple commands of literal words, joined by `&&`,
 * `||`, `;`, `|`, `|&`, `&` or line feeds. Substitution, variables, braces, here-documents, assignments, compound commands,
 * redirection to a file, `eval` and the like, what cannot be seen and what is no Bash are not.
 */
export function readShell(text: string): ShellReading {
  const script = parse(text);
  const isClear = script.errors === undefined && script.commands.length > 0 && visible(text) === text;
  const parts = isClear ? script.commands.map(({ command }) => simple(command)) : [null];
  const { lists, written } = wordsIn(script);
  return {
    parts: parts.includes(null) ? null : parts.flatMap((each) => each ?? []),
    seen: inner(lists, NESTED),
    written: [
      ...written,
      ...lists.flatMap((words) => scriptsIn(words)).flatMap((each) => wordsIn(parse(each)).written),
    ],
  };
}

/** Programs that run what they are given: code, a command, or a script of somebody's. */
export const RUNNERS: ReadonlySet<string> = new Set(
  (
    'sh bash zsh dash ksh fish csh tcsh pwsh powershell cmd busybox ' +
    'python python2 python3 pypy node deno bun perl ruby php lua tclsh osascript awk gawk mawk sed ed vi vim nvim emacs ' +
    'npx pnpx bunx uvx uv pipx env xargs find fd sudo su doas ssh docker podman kubectl make gmake just task ' +
    'timeout nice ionice nohup time stdbuf setsid watch parallel strace ltrace script expect screen tmux flock chroot unshare nsenter at batch'
  ).split(' '),
);

/** Programs that take away what was there. */
export const DELETERS: ReadonlySet<string> = new Set('rm rmdir unlink shred srm dd mkfs truncate wipefs'.split(' '));

/**
 * The place of the last word by which a program starts another one (`git -c`, `find -exec`, `npm run`), from 0; -1 for none.
 * A rule that allows "anything more" does not allow such a word: it must be named.
 */
export function startsOther(words: Argv): number {
  const name = programOf(words[0] ?? '');
  const starting = STARTING[name];
  if (starting === undefined) return RUNNERS.has(name) ? 0 : -1;
  const { option = NEVER, verb = NEVER } = starting;
  const first = words.findIndex((word, at) => at > 0 && !word.startsWith('-'));
  const isVerb = first !== -1 && verb.test(words[first] ?? '');
  const last = words.findLastIndex((word, at) => at > 0 && option.test(word));
  return Math.max(last, isVerb ? first : -1);
}

/** Whether a command leaves the files that it names as they are, as far as its words tell. */
export function onlyReads(words: Argv): boolean {
  const [name, verb = ''] = [programOf(words[0] ?? ''), words.slice(1).find((word) => !word.startsWith('-'))];
  return startsOther(words) === -1 && (READERS.has(name) || (name === 'git' && GIT_READS.has(verb)));
}

/** Programs that only look at the files that they are given; `cd` is none, for it changes what the words behind it mean. */
const READERS: ReadonlySet<string> = new Set(
  'cat ls head tail more wc stat file grep egrep fgrep rg find diff cmp cut du df pwd echo printf test [ realpath readlink basename dirname md5sum sha1sum sha256sum strings jq which type'.split(
    ' ',
  ),
);
const GIT_READS: ReadonlySet<string> = new Set(
  'add blame commit diff grep log ls-files rev-parse show status'.split(' '),
);

/** A program without the folder that it lies in. */
export function programOf(program: string): string {
  return program.slice(program.lastIndexOf('/') + 1);
}

const NEVER = /^\b$/;
const SCRIPTS = {
  option: /^(?:--(?:prefix|dir|cwd|node-options|script-shell|eval|filter)(?:=.*)?|-C.*|-e|-F|-p|-w)$/,
  verb: /^(?:run|run-script|rum|urn|exec|x|dlx|create|init|innit|start|restart|stop|explore|rebuild|node|workspaces?)$/,
};

/** Options, wherever they stand, and verbs by which a program starts another or works elsewhere. */
const STARTING: Readonly<Record<string, { readonly option?: RegExp; readonly verb?: RegExp }>> = {
  git: {
    option:
      /^(?:-[cC].*|--(?:exec-path|config-env|git-dir|work-tree|upload-pack|receive-pack|open-files-in-pager|exec|template|output)(?:=.*)?|--ext-diff|--textconv|-O.*|-x|foreach)$/,
    verb: /^(?:config|bisect|difftool|mergetool|filter-branch|daemon|send-email|instaweb|hook)$/,
  },
  find: { option: /^-(?:exec|execdir|ok|okdir|delete|fprint0?|fprintf|fls)$/ },
  fd: { option: /^(?:-x.*|-X.*|--exec(?:-batch)?(?:=.*)?)$/ },
  npm: SCRIPTS,
  pnpm: SCRIPTS,
  yarn: SCRIPTS,
  tar: {
    option:
      /^(?:-\w*[IF].*|--(?:to-command|use-compress-program|checkpoint-action|info-script|new-volume-script|rsh-command)(?:=.*)?)$/,
  },
  rsync: { option: /^(?:-\w*e.*|--rsh(?:=.*)?|--rsync-path(?:=.*)?)$/ },
  sort: { option: /^--compress-program(?:=.*)?$/ },
  rg: { option: /^--(?:pre|hostname-bin)(?:=.*)?$/ },
  man: { option: /^(?:-[PH].*|--(?:pager|html)(?:=.*)?)$/ },
  go: { option: /^--?(?:exec|toolexec)(?:=.*)?$/, verb: /^(?:run|generate|tool)$/ },
  cargo: { option: /^--config(?:=.*)?$/, verb: /^(?:run|r|install)$/ },
};

/** Words that carry out others in the shell itself. */
const EVALUATORS: ReadonlySet<string> = new Set('eval exec source . command builtin trap alias enable'.split(' '));

/** How deep commands in the words of commands are looked for, and how many of a command's words may begin one. */
const NESTED = 3;
const SUFFIXES = 32;

function simple(node: PipelineNode | AndOr): readonly Argv[] | null {
  if (node.type === 'Command') {
    const words = literalWords(node);
    return words === null ? null : [words];
  }
  if (node.type !== 'AndOr' && node.type !== 'Pipeline') return null;
  const parts = node.commands.map(simple);
  return parts.includes(null) ? null : parts.flatMap((each) => each ?? []);
}

function literalWords(command: Command): Argv | null {
  const { name, prefix, args, redirects } = command;
  if (name === undefined || name.parts?.some(({ type }) => type === 'Glob') === true) return null;
  if (EVALUATORS.has(programOf(name.value)) || prefix.some(({ type }) => type === 'Assignment')) return null;
  if (!redirects.every(isHarmless)) return null;
  const words: string[] = [];
  for (const word of [name, ...args]) {
    if (word.type !== 'Word' || !isLiteral(word)) return null;
    words.push(word.value);
  }
  return words;
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

/** Streams joined with each other, or thrown away. */
function isHarmless(redirection: Command['redirects'][number]): boolean {
  if (redirection.type !== 'Redirect' || redirection.descriptor?.type === 'FileDescriptorVariable') return false;
  const { operator, target } = redirection;
  if (target === undefined || !isLiteral(target)) return false;
  return target.value === '/dev/null' || (/^[<>]&$/.test(operator) && /^(?:\d+|-)$/.test(target.value));
}

type Found = { readonly lists: readonly Argv[]; readonly written: readonly string[] };

/** The words of every command in a tree, however deep, and what it writes to; of a word that is made when it runs, as it is written. */
function wordsIn(script: SyntaxNode): Found {
  const lists: Argv[] = [];
  const written: string[] = [];
  const visit = (node: SyntaxNode): void => {
    if (node.type === 'Command' && node.name !== undefined) {
      lists.push([node.name.value, ...node.args.map((word) => (word.type === 'Word' ? word.value : word.text))]);
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

/** The words that may be scripts of their own. */
function scriptsIn(words: Argv): readonly string[] {
  return words.slice(1, SUFFIXES).filter((word) => /\s/.test(word));
}

/** With what programs that start others would start: any of their words may be the first of it, or hold a script. */
function inner(lists: readonly Argv[], depth: number): readonly Argv[] {
  if (depth === 0) return lists;
  return lists.flatMap((words) => {
    const [program = ''] = words;
    if (startsOther(words) === -1 && !EVALUATORS.has(programOf(program))) return [words];
    const rest = words.slice(1, SUFFIXES);
    const scripts = scriptsIn(words).flatMap((word) => wordsIn(parse(word)).lists);
    return [words, ...rest.map((_, at) => words.slice(at + 1)), ...inner(scripts, depth - 1)];
  });
}
