import { CARRIED_OUT, isSafe } from './safe-commands.ts';
import type { Argv } from './safe-commands.ts';

/** The name of a program without its folder. */
export function programOf(program: string): string {
  return program.slice(program.lastIndexOf('/') + 1);
}

/**
 * True when a program is known to run code, a command or a script from its words; also `python3.12` and `node.exe`.
 * The list is incomplete: use it to deny, to ask and to withhold offers, never to allow.
 */
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

/** Programs that delete or overwrite data. */
export const DELETERS: ReadonlySet<string> = new Set('rm rmdir unlink shred srm dd mkfs truncate wipefs'.split(' '));

/**
 * True when a command may start a program that its words name. Use it to deny, to ask and to withhold offers; `isSafe`
 * decides what is allowed.
 */
export function startsOther(words: Argv): boolean {
  const [program = '', ...given] = words;
  if (isSafe(words)) return false;
  const name = programOf(program);
  const starting = Object.hasOwn(STARTING, name) ? STARTING[name] : undefined;
  return isRunner(program) || (starting !== undefined && given.some((word) => starting.test(word)));
}

const SCRIPTS =
  /^(?:run|run-script|rum|urn|exec|x|dlx|create|start|stop|restart|explore|config|set|init)$|^-+(?:c$|call|script-shell|node-options|prefix)/;

const STARTING: Readonly<Record<string, RegExp>> = {
  git: /^-[cC]|^-\w*[xO]|^--(?:exec|config|upload|receive|open|ext|textconv|git-dir|work-tree|template)|^(?:foreach|bisect|config|difftool|mergetool|filter-branch)$/,
  npm: SCRIPTS,
  pnpm: SCRIPTS,
  yarn: SCRIPTS,
  tar: /^-?\w*[IF]|^--(?:to-c|use-c|checkpoint-a|info-s|new-v|rsh)/,
  rsync: /^-\w*e|^--rs/,
  sort: /^--com/,
  rg: /^--(?:pre|hostname)/,
  go: /^(?:run|tool|generate)$|^--?(?:exec|toolexec|vettool)/,
  cargo: /^(?:run|r)$|^--config/,
  printf: CARRIED_OUT,
  test: CARRIED_OUT,
  '[': CARRIED_OUT,
};

/** Returns the index of the last word that sets another working folder (`git -C`); -1 for none or a safe command. */
export function elsewhereAt(words: Argv): number {
  return isSafe(words) ? -1 : words.findLastIndex((word, at) => at > 0 && ELSEWHERE.test(word));
}

const ELSEWHERE = /^-+\w*C|^-+(?:directory|chdir|cwd|dir|prefix|git-dir|work-tree|manifest-path)(?:=|$)/;

/** True when a command changes the working folder of the commands after it. */
export function changesFolder(words: Argv): boolean {
  return FOLDER_CHANGERS.has(programOf(words[0] ?? ''));
}

const FOLDER_CHANGERS: ReadonlySet<string> = new Set(['cd', 'chdir', 'pushd', 'popd']);

/**
 * True for commands that change no file of the work: `git add`, `git commit`, and every safe command that does not
 * change the working folder.
 */
export function onlyReads(words: Argv): boolean {
  const [program = '', verb = ''] = words;
  return (isSafe(words) && !changesFolder(words)) || (program === 'git' && /^(?:add|commit)$/.test(verb));
}
