import { TOOL_ALIASES, TOOL_KINDS, hostOf, mcpToolOf } from './rule.ts';
import type { McpTool, ToolKind } from './rule.ts';
import { isThere, namedPath } from './paths.ts';
import type { NamedPath, WorkPlace } from './paths.ts';
import { changesFolder, onlyReads, programOf } from './shell-programs.ts';
import type { Argv } from './safe-commands.ts';
import { readShell } from './shell.ts';
import {
  foldersOfPatterns,
  isOutside,
  patchedPaths,
  pathWords,
  pathsMeant,
  restOfPaths,
  usedPath,
  usedPaths,
  within,
} from './used-paths.ts';
import type { UsedPath } from './used-paths.ts';

/** A tool call as an agent requests it. */
export type ToolRequest = {
  /** The tool's own name, never its title: `Bash`, `mcp__github__create_issue`; `null` when only the kind is known. */
  readonly name: string | null;
  readonly kind: ToolKind | null;
  readonly input: unknown;
  readonly locations: readonly string[];
};

/** One thing that a call does. Rules decide each part by itself. */
export type UsePart = {
  readonly kind: ToolKind;
  readonly mcp: McpTool | null;
  readonly about: About;
  /** Paths that the part may name. The first part of a command line holds the paths of the whole line. */
  readonly paths: readonly UsedPath[];
};

/** The object of a part: a command, a path, a host, an input, or nothing that is known. */
export type About =
  /**
   * `words` is `null` when they are uncertain. `seen`: all commands that may run; only in the first part of a command
   * line. `outside`: the line names a path outside the folder.
   */
  | { readonly of: 'words'; readonly words: Argv | null; readonly seen: readonly Argv[]; readonly outside: boolean }
  | ({ readonly of: 'path' } & NamedPath)
  /** `plain`: the address has no characters that programs read differently. */
  | { readonly of: 'host'; readonly host: string | null; readonly plain: boolean }
  | { readonly of: 'input'; readonly values: Readonly<Record<string, string>>; readonly keys: readonly string[] }
  | { readonly of: 'nothing' };

/** A tool call as rules see it. */
export type ToolUse = {
  /** The call in words for people and models. */
  readonly title: string;
  readonly parts: readonly [UsePart, ...UsePart[]];
};

/**
 * Splits a tool call into parts. A call of a server's tool is one part. A call of another tool has a part for each
 * command in the input; a tool for paths or addresses also has a part for each of them. Without a place (an agent on
 * another machine), paths are not resolved.
 */
export function toolUse(request: ToolRequest, place: WorkPlace | null): ToolUse {
  const { name } = request;
  const mcp = name === null ? null : mcpToolOf(name);
  if (mcp !== null && name !== null) {
    const about = inputOf(request.input);
    const changed = !READING_NAME.test(mcp.name) || WRITING_NAME.test(mcp.name);
    const paths = usedPaths(textsIn(request.input), changed, place);
    return { title: name, parts: [{ kind: 'other', mcp, about, paths }] };
  }
  const kind = kindOf(request);
  const input = kind === 'execute' && typeof request.input === 'string' ? { command: request.input } : request.input;
  const commands = commandsIn(input);
  const elsewhere = folderOf(input, place);
  const asked = commands.flatMap((command) => commandParts(command, { place, elsewhere }));
  const others = kind === 'execute' ? [] : partsOf(kind, request, place);
  const [first = { kind, mcp: null, about: NO_COMMAND, paths: [] }, ...rest] = [...others, ...asked];
  const [command] = commands;
  return { title: command === undefined ? kind : `${kind}(${shortened(command)})`, parts: [first, ...rest] };
}

const NO_COMMAND: About = { of: 'words', words: null, seen: [], outside: false };

const LONGEST_TITLE = 80;

function kindOf({ name, kind }: ToolRequest): ToolKind {
  const named = TOOL_KINDS.find((each) => each === name);
  return (
    named ??
    (name !== null && Object.hasOwn(TOOL_ALIASES, name) ? TOOL_ALIASES[name]?.[0] : null) ??
    (name !== null && kind !== 'execute' && WEB_NAME.test(name) ? 'fetch' : null) ??
    kind ??
    'other'
  );
}

const WEB_NAME = /web[-_ ]?(?:search|fetch|page|get|read)|google|browse|^fetch(?:[-_]|$)|[-_]fetch$/i;

/**
 * Returns the parts of a command line. `elsewhere`: another working folder, which makes the words uncertain, or `null`.
 */
function commandParts(
  command: string,
  { place, elsewhere }: { readonly place: WorkPlace | null; readonly elsewhere: string | null },
): readonly UsePart[] {
  const { parts, seen, written } = readShell(command);
  const whole = parts === null || elsewhere !== null ? [null] : inFolder(parts, place);
  const [changing, reading] = [seen.filter((words) => !onlyReads(words)), seen.filter(onlyReads)];
  const folder = elsewhere === null ? [] : [elsewhere];
  const paths = [
    ...usedPaths([...written, ...changing.flatMap(pathWords), ...(changing.length > 0 ? folder : [])], true, place),
    ...usedPaths([...reading.flatMap(pathWords), ...folder], false, place),
  ];
  const begun = usedPaths(foldersOfPatterns(seen.flatMap(pathWords)), false, place);
  const outside = [...paths, ...begun].some(isOutside);
  return whole.map((words, at) => ({
    kind: 'execute',
    mcp: null,
    about: { of: 'words', words, seen: at === 0 ? seen : [], outside },
    paths: at === 0 ? paths : [],
  }));
}

/**
 * Returns the commands, with `null` for each that may run in another folder, because a command before it changes the
 * folder. Also `null` for `git` in a folder that git takes for a bare repository, because its configuration starts
 * programs.
 */
function inFolder(parts: readonly Argv[], place: WorkPlace | null): readonly (Argv | null)[] {
  const change = parts.findIndex((words) => changesFolder(words) && !staysIn(words, place));
  const isBare = place !== null && isThere('HEAD', place) && !isThere('.git', place);
  return parts.map((words, at) => {
    const isMoved = change !== -1 && at > change;
    return isMoved || (isBare && programOf(words[0] ?? '') === 'git') ? null : words;
  });
}

/**
 * True for a `cd` to exactly the agent's own folder, by an absolute path or ".". False for other relative paths: the
 * shell may resolve them from another folder.
 */
function staysIn([program, folder = '', more]: Argv, place: WorkPlace | null): boolean {
  return (
    program === 'cd' && more === undefined && /^(?:\/|\.$)/.test(folder) && place !== null && isFolderOf(place, folder)
  );
}

function partsOf(kind: ToolKind, request: ToolRequest, place: WorkPlace | null): readonly UsePart[] {
  const changed = !READING_KINDS.has(kind);
  return aboutOf(kind, request, place).map((about, at) => {
    const texts = at === 0 && about.of !== 'host' ? [...textsIn(request.input), ...request.locations] : [];
    const others = changed || about.of !== 'path' ? usedPaths(texts, changed, place) : [];
    const own = about.of === 'path' && place !== null ? [usedPath(about, place, { known: true, changed })] : [];
    // After the first part, a part about nothing stands for all paths beyond the limit of paths.
    const rest = about.of === 'nothing' && at > 0 ? [restOfPaths(changed)] : [];
    return { kind, mcp: null, about, paths: [...own, ...others, ...rest] };
  });
}

const READING_KINDS: ReadonlySet<ToolKind> = new Set(['read', 'search', 'fetch', 'think']);
const READING_NAME = /^(?:read|get|list|search|find|view|show|stat|describe|query|glob|grep|directory)(?:[_-]|$)/i;
/** Words that mean writing in the name of a tool that seems to read: `search_and_replace`. */
const WRITING_NAME =
  /writ|replac|creat|delet|updat|edit|mov|remov|insert|append|patch|put|set|save|renam|cop(?:y|ies)|exec|run|appl/i;
/** Keys whose values are file contents, not paths. */
const CONTENT_KEYS: ReadonlySet<string> = new Set(
  'content contents text body data message oldText newText old_text new_text old_string new_string oldString newString'.split(
    ' ',
  ),
);
function textsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  if (Array.isArray(value)) return value.flatMap((each: unknown) => textsIn(each));
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([key, each]) => (CONTENT_KEYS.has(key) ? [] : [...textsIn(each)]));
}

function aboutOf(kind: ToolKind, { name, input, locations }: ToolRequest, place: WorkPlace | null): readonly About[] {
  switch (kind) {
    case 'read':
    case 'search':
    case 'edit':
    case 'delete':
    case 'move': {
      if (place === null) return [{ of: 'nothing' }];
      const named = [...new Set([...pathsIn(input), ...locations].flatMap(pathsMeant))];
      const searched =
        kind === 'search' ? [...(named.length === 0 ? [place.folder] : []), ...patternsIn(input, name)] : [];
      const paths = [...named, ...searched];
      if (paths.length === 0) return [{ of: 'nothing' }];
      const looked = within(paths).map((path): About => ({ of: 'path', ...namedPath(path, place) }));
      return looked.length < paths.length ? [...looked, { of: 'nothing' }] : looked;
    }
    case 'fetch': {
      const addresses = stringsAt(input, ADDRESS_KEY);
      return addresses.length === 0
        ? [{ of: 'nothing' }]
        : addresses.map((each) => ({ of: 'host', host: hostOf(each), plain: !NOT_PLAIN.test(each) }));
    }
    case 'execute':
    case 'think':
    case 'switch_mode':
    case 'other':
      return [inputOf(input)];
  }
}

/** Characters in an address that browsers drop or replace and other programs do not. */
const NOT_PLAIN = /[\\\s\p{Cc}]/u;

/** Keys under which tools give paths, in small letters without `_` and `-`. */
const PATH_KEY = /(?:path|file|filename|dir|directory|folder)s?$|^(?:source|destination|src|dst|dest|from|to|target)$/;
const ADDRESS_KEY = /^(?:url|uri|urls|uris|address|link|href)$/;
const PATTERN_KEY = /^(?:pattern|glob|globpattern|include)$/;
const PATCH_KEY = /patch|diff/;

/**
 * Returns the texts of an input that name paths, with the files of patches. Codex names the files of a patch as the
 * keys of `changes`.
 */
function pathsIn(input: unknown): readonly string[] {
  const changes = isRecord(input) ? input['changes'] : null;
  const files = stringsAt(input, ADDRESS_KEY).filter((each) => /^file:/i.test(each));
  const patches = [
    ...stringsAt(input, PATCH_KEY),
    ...stringsAt(input, /^input$/),
    ...(typeof input === 'string' ? [input] : []),
  ];
  const changed = isRecord(changes) ? Object.keys(changes) : [];
  return [...stringsAt(input, PATH_KEY), ...files, ...changed, ...patches.flatMap(patchedPaths)];
}

/**
 * Returns `..` for each file pattern that contains it, and the beginning of each absolute pattern. The `pattern`
 * of `Grep` matches contents, not files.
 */
function patternsIn(input: unknown, name: string | null): readonly string[] {
  const patterns = stringsAt(input, PATTERN_KEY).filter(
    (each) => name !== 'Grep' || !stringsAt(input, PATTERN).includes(each),
  );
  return patterns.flatMap((each) =>
    ASIDE.test(each) ? ['..'] : ABSOLUTE.test(each) ? [each.replace(/[*?[{].*$/s, '')] : [],
  );
}

const PATTERN = /^pattern$/;
const ABSOLUTE = /^[~/]/;
const ASIDE = /(?:^|[/{,])\.\.(?:[/},]|$)/;

function commandsIn(input: unknown): readonly string[] {
  if (!isRecord(input)) return [];
  const given = Object.entries(input).flatMap(([key, each]) => {
    const plain = plainKey(key);
    if (plain === 'commands' && Array.isArray(each)) return [...each];
    return COMMAND_KEY.test(plain) && each !== undefined ? [each] : [];
  });
  const args = [input['args'], input['arguments'], input['argv']].flatMap((each) =>
    isRecord(each) ? [] : argsIn(each),
  );
  return given.map((each) => [commandOf(each), ...args].join(' '));
}

const COMMAND_KEY = /^(?:command|cmd|commandline|(?:shell|bash)command|script)$/;

function argsIn(given: unknown): readonly string[] {
  if (Array.isArray(given)) return given.map((each: unknown) => shellQuoted(String(each)));
  return typeof given === 'string' && given !== '' ? [given] : [];
}

/** Returns a command as a shell line. For `sh -c` or `bash -c` with one script, returns the script. */
function commandOf(given: unknown): string {
  if (typeof given === 'string') return given;
  if (!Array.isArray(given)) return '';
  const words = given.map(String);
  const [shell = '', option = '', script, more] = words;
  if (/^(?:\/bin\/)?(?:ba)?sh$/.test(shell) && /^-l?c$/.test(option) && script !== undefined && more === undefined) {
    return script;
  }
  return words.map(shellQuoted).join(' ');
}

/** Quotes a word for a shell. */
export function shellQuoted(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

const FOLDER_KEYS = ['workdir', 'cwd', 'working_directory', 'workingDirectory', 'directory', 'dir', 'dir_path'];
const OWN_SHELL = /^(?:\/(?:usr\/(?:local\/)?)?bin\/)?(?:ba|z|da|k)?sh$/;

/**
 * Returns the folder in which a command runs, unless that is the agent's folder. A custom shell, variables or standard
 * input count as another folder, `.`. `null`: the agent's folder, or no folder is named. Without a place, named folders
 * are ignored.
 */
function folderOf(input: unknown, place: WorkPlace | null): string | null {
  if (!isRecord(input)) return null;
  const { env, environment, shell, stdin } = input;
  const isOwn = typeof shell !== 'string' || shell === '' || OWN_SHELL.test(shell);
  const isBare = [env, environment, stdin].every((each) => !each || (isRecord(each) && Object.keys(each).length === 0));
  const folders = FOLDER_KEYS.map((key) => input[key]).filter(
    (each): each is string => typeof each === 'string' && each !== '',
  );
  const other = place === null ? undefined : folders.find((each) => !isFolderOf(place, each));
  return other ?? (isOwn && isBare ? null : '.');
}

function isFolderOf(place: WorkPlace, folder: string): boolean {
  return namedPath(folder, place).real.every((path) => path.folder === '');
}

function stringsAt(value: unknown, keys: RegExp, isMeant = false): readonly string[] {
  if (typeof value === 'string') return isMeant && value !== '' ? [value] : [];
  if (Array.isArray(value)) return value.flatMap((each: unknown) => stringsAt(each, keys, isMeant));
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([key, each]) => stringsAt(each, keys, keys.test(plainKey(key))));
}

function plainKey(key: string): string {
  return key.replaceAll(/[-_]/g, '').toLowerCase();
}

function inputOf(input: unknown): Extract<About, { of: 'input' }> {
  return { of: 'input', values: scalarsIn(input), keys: isRecord(input) ? Object.keys(input) : [] };
}

function scalarsIn(input: unknown): Readonly<Record<string, string>> {
  if (!isRecord(input)) return {};
  const scalars = Object.entries(input).filter(([, each]) => ['string', 'number', 'boolean'].includes(typeof each));
  return Object.fromEntries(scalars.map(([key, each]) => [key, String(each)]));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function shortened(text: string): string {
  const [line = ''] = text.split('\n', 1);
  return line.length === text.length && line.length <= LONGEST_TITLE ? line : `${line.slice(0, LONGEST_TITLE - 1)}…`;
}
