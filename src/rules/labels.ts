import { parseRule } from './rule.ts';
import type { ToolRule } from './rule.ts';
import { isSafe } from './safe-commands.ts';
import { programOf } from './shell-programs.ts';
import type { Argv } from './safe-commands.ts';
import type { ToolUse, UsePart } from './tool-use.ts';
import { PRIVATE_NAMES, isOutside } from './used-paths.ts';
import { isAbout, isNamed } from './verdict.ts';
import type { LabelRules } from './verdict.ts';

/**
 * `untrusted` and `private` name the first source of untrusted or private text that the call may read; `null` for none.
 * `outward`: the call may send data away.
 */
export type CallLabels = {
  readonly untrusted: string | null;
  readonly private: string | null;
  readonly outward: boolean;
  /** True when the call needs approval in a session that has read untrusted text. */
  readonly acts: boolean;
};

/** Facts about a tool of an MCP server, besides its name. */
export type ServerFacts = {
  /** True when the tool may reach more than its own server. */
  readonly open: boolean;
  /** True when the server says that the tool changes nothing, and an operator vouches for the server. */
  readonly isHarmless: boolean;
};

/** Joins the labels of all parts of a call. A part that a `trusted` rule covers adds only its `private` label. */
export function labelsOf(use: ToolUse, rules: LabelRules, server: ServerFacts): CallLabels {
  return joinedLabels(use.parts.map((part) => labelsOfPart(part, rules, server)));
}

/**
 * Joins labels: the first source of each label counts. `outward` and `acts` are true if they are true for one of them.
 */
export function joinedLabels(all: readonly CallLabels[]): CallLabels {
  return {
    untrusted: all.find(({ untrusted }) => untrusted !== null)?.untrusted ?? null,
    private: all.find((each) => each.private !== null)?.private ?? null,
    outward: all.some(({ outward }) => outward),
    acts: all.some(({ acts }) => acts),
  };
}

function labelsOfPart(part: UsePart, rules: LabelRules, server: ServerFacts): CallLabels {
  const isWritten = (list: readonly ToolRule[]): boolean => list.some((rule) => isAbout(rule, part, true));
  const secret = isWritten(rules.private) || holdsPrivate(part) ? sourceOf(part) : null;
  if (rules.trusted.some((rule) => isAbout(rule, part, false))) {
    return { untrusted: null, private: secret, outward: false, acts: false };
  }
  const outward = isWritten(rules.outward) || leaves(part, server);
  return {
    untrusted: isWritten(rules.untrusted) || comesFromElsewhere(part, server) ? sourceOf(part) : null,
    private: secret,
    outward,
    acts: outward || !(server.isHarmless || LOOKING.has(part.kind)),
  };
}

const LOOKING: ReadonlySet<UsePart['kind']> = new Set(['read', 'search', 'think']);

function sourceOf(part: UsePart): string {
  const { kind, mcp, about } = part;
  if (mcp !== null) return `mcp__${mcp.server}__${mcp.name}`;
  if (about.of === 'host') return about.host ?? kind;
  if (about.of === 'path') return about.written.folder || `/${about.written.disk}`;
  const commands = commandsOf(part);
  const [words] = [...commands.filter(usesNetwork), ...commands];
  return words?.slice(0, 2).join(' ') ?? kind;
}

function commandsOf({ about }: UsePart): readonly Argv[] {
  if (about.of !== 'words') return [];
  return about.words === null ? about.seen : [about.words, ...about.seen];
}

function comesFromElsewhere(part: UsePart, server: ServerFacts): boolean {
  const { kind, mcp, about, paths } = part;
  switch (kind) {
    case 'fetch':
      return true;
    case 'read':
    case 'search':
      return paths.some(({ real, known }) => known && real.some(({ folder }) => folder === null));
    case 'execute':
      return commandsOf(part).some(usesNetwork) || paths.some(isOutside);
    case 'other':
      return mcp === null ? !isOwnList(about) : server.open;
    default:
      return false;
  }
}

/** True when the input has keys, and none but `todos` and `plan`: the agent's own list of tasks. */
function isOwnList(about: UsePart['about']): boolean {
  return about.of === 'input' && about.keys.length > 0 && about.keys.every((key) => /^(?:todos|plan)$/.test(key));
}

function holdsPrivate(part: UsePart): boolean {
  return commandsOf(part).some(showsEnvironment) || part.paths.some((path) => isNamed(PRIVATE_FILES, path));
}

function showsEnvironment(words: Argv): boolean {
  const name = programOf(words[0] ?? '');
  if (name === 'printenv' || (name === 'jq' && words.some((word) => /\benv\b|\$ENV/.test(word)))) return true;
  return words.slice(1).every((word) => word.startsWith('-')) && /^(?:env|set|export|declare|typeset)$/.test(name);
}

function leaves(part: UsePart, server: ServerFacts): boolean {
  const { kind, mcp, about } = part;
  if (kind === 'fetch') return true;
  if (kind === 'other') return mcp === null ? !isOwnList(about) : server.open && !server.isHarmless;
  const isOpaque = about.of === 'words' && about.words === null;
  return isOpaque || commandsOf(part).some((words) => !isSafe(words));
}

function usesNetwork(words: Argv): boolean {
  const [program = '', ...rest] = words;
  const name = programOf(program);
  return NETWORK_PROGRAMS.has(name) || verbsIn(rest).some((verb) => NETWORK_VERBS[name]?.test(verb) === true);
}

/**
 * The words that may be the verb of a command: the first word that is no option and follows none, and the words before
 * it that are no options.
 */
function verbsIn(words: Argv): Argv {
  const end = words.findIndex((word, at) => !word.startsWith('-') && words[at - 1]?.startsWith('-') !== true);
  return words.slice(0, end === -1 ? words.length : end + 1).filter((word) => !word.startsWith('-'));
}

const NETWORK_PROGRAMS: ReadonlySet<string> = new Set(
  'curl wget aria2c http https xh nc ncat netcat socat telnet ssh scp sftp ftp rsync rclone lynx w3m links elinks dig nslookup host ping gh glab hub aws gcloud az mail sendmail openssl uvx pipx brew apt apt-get'.split(
    ' ',
  ),
);

const INSTALLS = /^(?:install|i|dlx|add|ci|update|up|upgrade|publish|unpublish|view|info|search|audit|login|dist-tag)$/;
const NETWORK_VERBS: Readonly<Record<string, RegExp>> = {
  git: /^(?:clone|fetch|pull|push|remote|ls-remote|submodule|request-pull|lfs|archive|svn|p4)$/,
  npm: INSTALLS,
  pnpm: INSTALLS,
  yarn: INSTALLS,
  pip: /^(?:install|download|search|index)$/,
  pip3: /^(?:install|download|search|index)$/,
  cargo: /^(?:install|publish|fetch|update|search|add)$/,
  go: /^(?:get|install|mod)$/,
  docker: /^(?:pull|push|login|search)$/,
};

/** One rule with a line per pattern: files with keys and secrets, anywhere on the disk. */
const PRIVATE_FILES = ruleOf('read', [
  ...PRIVATE_NAMES.map((name) => `/**/${name}`),
  ...'/**/.env.* /**/.docker/config.json /**/.config/gh /**/.config/gcloud /**/*.pem /**/*.key /**/*.p12 /**/*.pfx /**/*.kdbx /proc/*/environ /run/secrets'.split(
    ' ',
  ),
]);

function ruleOf(tool: string, patterns: readonly string[]): ToolRule {
  const read = parseRule(`${tool}(/${patterns.join('\n')})`);
  if (!read.ok) throw new Error(`impossible: a built-in rule cannot be read: ${read.message}`);
  return read.rule;
}
