/** The words of one command, the program first. */
export type Argv = readonly string[];

/** A program without the folder that it lies in. */
export function programOf(program: string): string {
  return program.slice(program.lastIndexOf('/') + 1);
}

/** Whether a program runs what it is given: code, a command, or a script of somebody's; also as `python3.12` or `node.exe`. */
export function isRunner(program: string): boolean {
  const name = programOf(program).toLowerCase();
  return RUNNERS.has(name) || RUNNERS.has(name.replace(/\.(?:exe|cmd|bat)$/, '').replace(/-?[\d.]+$/, ''));
}

const RUNNERS: ReadonlySet<string> = new Set(
  (
    'sh bash zsh dash ksh mksh ash fish csh tcsh pwsh powershell cmd busybox toybox ' +
    'python pypy ipython node nodejs deno bun ts-node tsx perl ruby irb php lua luajit tclsh osascript awk gawk mawk nawk sed gsed ed ex vi vim nvim view vimdiff emacs emacsclient nano gdb lldb sqlite psql mysql ' +
    'npx pnpx bunx uvx uv pipx poetry pdm hatch tox nox conda mamba nix nix-shell direnv mise asdf rustup volta corepack turbo nx lerna bundle rake concurrently nodemon ' +
    'env xargs gxargs find gfind fd fdfind sudo su doas pkexec runuser setpriv sg newgrp ssh docker podman nerdctl kubectl systemd-run make gmake cmake ninja just task ' +
    'timeout gtimeout nice ionice chrt taskset prlimit setarch linux32 linux64 nohup time stdbuf unbuffer setsid watch parallel strace ltrace valgrind perf hyperfine entr rlwrap faketime fakeroot proot chronic ifne pee cpulimit ' +
    'script expect screen tmux flock chroot unshare nsenter bwrap firejail xvfb-run dbus-run-session at batch crontab socat ccache distcc ld.so ld-linux-x86-64.so ld-linux-aarch64.so ' +
    'noglob nocorrect repeat coproc'
  ).split(' '),
);

/** Programs that take away what was there. */
export const DELETERS: ReadonlySet<string> = new Set('rm rmdir unlink shred srm dd mkfs truncate wipefs'.split(' '));

/**
 * The place of the last word by which a program starts another one (`git -c`, `find -exec`, `npm run`), from 0; -1 for none.
 * A rule that allows "anything more" does not allow such a word: it must be named.
 */
export function startsOther(words: Argv): number {
  const [program = '', ...given] = words;
  const starting = startingOf(program);
  if (starting === undefined) return isRunner(program) ? 0 : -1;
  const { bundle = false, words: isStarting = NEVER } = starting;
  const verb = verbIn(given, starting);
  const verbWord = given[verb] ?? '';
  const isVerb = verb !== -1 && starting.otherThan?.has(verbWord) === false;
  const letters = `${starting.letters ?? ''}${starting.lettersOf?.[verbWord] ?? ''}`;
  const starts = (word: string, at: number): boolean =>
    isStarting.test(word) ||
    (starting.before !== undefined && (verb === -1 || at < verb) && /^-./.test(word) && !starting.before.has(word)) ||
    isShortOf(bundle && at === 0 && !word.startsWith('-') ? `-${word}` : word, letters) ||
    isLongOf(word, starting.long ?? []);
  const last = Math.max(given.findLastIndex(starts), isVerb ? verb : -1);
  return last === -1 ? -1 : last + 1;
}

/** Whether a program takes words by which it starts others, so that it matters which words it is given. */
export function heedsWords(program: string): boolean {
  return startingOf(program) !== undefined;
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

/** By what a program starts another one, or works elsewhere. */
type Starting = {
  /** Words of which any, wherever it stands, is one. */
  readonly words?: RegExp;
  /** Long options without their dashes; any beginning of one is as good as the whole to most programs. */
  readonly long?: readonly string[];
  /** Options of one letter, also behind others (`-xI`), and those that only some verbs have. */
  readonly letters?: string;
  readonly lettersOf?: Readonly<Record<string, string>>;
  /** Whether letters stand without a dash in the first word (`tar xf`). */
  readonly bundle?: boolean;
  /** The verbs that do not: any other is an alias, a script or a program of somebody's. */
  readonly otherThan?: ReadonlySet<string>;
  /** The only options that may stand before the verb, and those before it whose value is a word of its own. */
  readonly before?: ReadonlySet<string>;
  readonly valued?: ReadonlySet<string>;
};

const NEVER = /^\b$/;

function setOf(words: string): ReadonlySet<string> {
  return new Set(words.split(' '));
}

const SCRIPTS: Starting = {
  words: /^(?:-C.*|-e|-F|-p|-w)$/,
  long: 'prefix dir cwd node-options script-shell shell eval filter userconfig globalconfig config editor viewer browser git call package workspaces'.split(
    ' ',
  ),
  otherThan: setOf(
    'test t tst install i in ins add ci clean-install ls list ll la outdated audit view info show v why explain licenses prune dedupe ddp fund search help ping root prefix bin version versions pack publish update up upgrade uninstall remove rm un unlink link ln login logout whoami cache',
  ),
};

const STARTING: Readonly<Record<string, Starting>> = {
  git: {
    words: /^(?:-[cC].*|-x.*|-O.*|foreach)$/,
    long: 'exec-path config-env git-dir work-tree upload-pack receive-pack open-files-in-pager exec template output ext-diff textconv config separate-git-dir'.split(
      ' ',
    ),
    lettersOf: { grep: 'O', rebase: 'x', clone: 'cu' },
    otherThan: setOf(
      'add am apply archive blame branch bundle cat-file check-attr check-ignore checkout cherry cherry-pick clean clone commit count-objects describe diff diff-files diff-index diff-tree fetch for-each-ref format-patch fsck gc grep hash-object init log ls-files ls-remote ls-tree merge merge-base mv name-rev notes prune pull push range-diff rebase reflog remote repack reset restore rev-list rev-parse revert rm shortlog show show-branch show-ref stash status submodule switch symbolic-ref tag update-index update-ref verify-commit verify-tag version whatchanged worktree write-tree',
    ),
    before: setOf(
      '-P -p -h -v --no-pager --paginate --no-optional-locks --no-replace-objects --no-lazy-fetch --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs --version --help',
    ),
    valued: setOf('-c -C --git-dir --work-tree --namespace --attr-source --super-prefix --config-env'),
  },
  find: { words: /^-(?:exec|execdir|ok|okdir|delete|fprint0?|fprintf|fls)$/ },
  fd: { letters: 'xX', long: ['exec', 'exec-batch'] },
  npm: SCRIPTS,
  pnpm: SCRIPTS,
  yarn: SCRIPTS,
  tar: {
    letters: 'IF',
    bundle: true,
    long: 'to-command use-compress-program checkpoint-action info-script new-volume-script rsh-command'.split(' '),
  },
  rsync: { letters: 'eM', long: ['rsh', 'rsync-path', 'remote-option'] },
  sort: { long: ['compress-program'] },
  rg: { long: ['pre', 'hostname-bin'] },
  man: { letters: 'PH', long: ['pager', 'html'] },
  go: {
    words: /^(?:--?(?:exec|toolexec|vettool)(?:=.*)?|-C.*)$/,
    otherThan: setOf('build test vet fmt doc list mod get install version clean fix work'),
  },
  cargo: {
    words: /^-C.*$/,
    long: ['config'],
    otherThan: setOf(
      'build b check c clippy fmt test t bench doc d add remove rm update search publish tree metadata fetch new init clean version login logout owner vendor fix generate-lockfile locate-project pkgid package report yank',
    ),
  },
  // What stands in the brackets of a variable's name is carried out.
  printf: { words: /^-v|\[.*[$`]/s },
  test: { words: /^-[vR]$|\[.*[$`]/s },
  '[': { words: /^-[vR]$|\[.*[$`]/s },
  wait: { letters: 'p' },
};

function startingOf(program: string): Starting | undefined {
  const name = programOf(program);
  return Object.hasOwn(STARTING, name) ? STARTING[name] : undefined;
}

/** The place of the first word that is neither an option nor the value of one; -1 for none. */
function verbIn(given: Argv, { valued }: Starting): number {
  return given.findIndex((word, at) => !word.startsWith('-') && valued?.has(given[at - 1] ?? '') !== true);
}

function isShortOf(word: string, letters: string): boolean {
  const given = /^-(\w+)/.exec(word)?.[1] ?? '';
  return letters !== '' && new RegExp(`[${letters}]`).test(given);
}

function isLongOf(word: string, names: readonly string[]): boolean {
  const name = /^--([\w-]+)/.exec(word)?.[1];
  return name !== undefined && names.some((each) => each.startsWith(name));
}
