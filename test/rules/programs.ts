import { spawnSync } from 'node:child_process';

/** Real programs: those known to read, and those that write. The folder shows what they do. */
const LOOKING =
  'cat ls head tail wc stat file grep egrep fgrep find diff cmp comm cut sort uniq tr nl tac du df pwd basename dirname realpath readlink md5sum sha1sum sha256sum sha512sum strings jq which date uname whoami id git'.split(
    ' ',
  );
const WRITING = 'cp mv install ln tee tar dd touch'.split(' ');

/** The real programs with their helpers, and one that sends. */
export const REAL_PROGRAMS: readonly string[] = [...LOOKING, ...WRITING, 'sh', 'gzip', 'pr', 'curl', 'git-upload-pack'];

/** Programs whose fakes only log their start: runners, package managers, compilers, and programs that send. */
export const FAKE_PROGRAMS: readonly string[] =
  'npm npx pnpm yarn bun deno node python python3 pip pip3 pipx poetry uv uvx ruby gem bundle rake irb perl cpan php composer lua luajit tclsh awk gawk mawk sed ed vi vim nvim nano emacs make gmake cmake ninja just task mvn gradle ant java javac kotlin scala sbt go cargo rustc rustup gcc cc g++ clang ld ar strip objdump gdb lldb strace ltrace valgrind perf docker podman kubectl helm terraform ansible vagrant ssh scp sftp rsync rclone wget aria2c http nc ncat netcat socat telnet ftp lynx w3m dig nslookup host ping openssl gpg gpg2 gpgsm gh glab hub aws gcloud az heroku mail sendmail mutt env xargs sudo su doas pkexec timeout nice ionice nohup setsid stdbuf watch parallel flock chroot unshare script expect screen tmux at batch crontab systemctl systemd-run service split csplit zip unzip 7z xz bzip2 zstd lz4 cpio pax less more man info tree rg fd ag ack fzf bat delta diffstat patch shred truncate mkdir rmdir unlink chmod chown chgrp mkfifo mknod mount umount losetup sqlite3 psql mysql mongo redis-cli tsc eslint prettier vitest jest mocha pytest tox nox flake8 mypy ruff black isort rubocop rspec phpunit bazel buck meson scons direnv asdf mise nix brew apt apt-get dpkg dnf yum pacman snap flatpak ps kill top htop lsof netstat ss ip ifconfig printenv xxd od hexdump base64 rev seq shuf paste join column fold expand yes'.split(
    ' ',
  );

/** By reading program: what its fake does with options that start or write something. */
export const FAKE_DEEDS: Readonly<Record<string, string>> = {
  rg: `case $w in --pre=*|--hostname-bin=*) $(echo "\${w#*=}");; esac; case $last in --pre|--hostname-bin) $w;; esac`,
  tree: `case $last in -[a-zA-Z]*) case $last in *o*) echo x > "$w";; esac;; esac; case $w in --output=*) echo x > out;; esac`,
};

/** Programs for rules that allow any further words. */
export const PROGRAMS: readonly string[] = [...LOOKING, ...WRITING, ...FAKE_PROGRAMS];

export const GIT_VERBS: readonly string[] =
  'status diff log show blame ls-files rev-parse branch remote commit archive bundle format-patch grep fetch config stash tag x'.split(
    ' ',
  );

/** Options that make programs start, write or send something, in all spellings. */
export const KNOWN_OPTIONS: readonly string[] = [
  '-script-shell=./evil.sh',
  '---prefix=bare',
  '-dC bare',
  '--filter=./evil.sh',
  '-S ./evil.sh',
  '--use-askpass=./evil.sh',
  '-wrapper ./evil.sh',
  '--strip-program=./evil.sh',
  '-TT ./evil.sh',
  '--python=./evil.sh',
  '--compress-program=./evil.sh',
  '--compress-prog=./evil.sh',
  '-I ./evil.sh',
  '-I./evil.sh',
  '--to-command=./evil.sh',
  '--checkpoint=1',
  '--checkpoint-action=exec=./evil.sh',
  '-o out',
  '-oout',
  '-uoout',
  '-o.git/hooks/x',
  '-t -- -oout',
  '-k -- -oout',
  '-T -- -oout',
  '--output=out',
  '--outp=out',
  '--output=.git/hooks/x',
  '-exec ./evil.sh {} +',
  "-exec ./evil.sh ';'",
  "-ok ./evil.sh ';'",
  '-execdir ./evil.sh {} +',
  '-delete',
  '-fprint out',
  '-fprintf out x',
  '-fls out',
  '-c core.fsmonitor=./evil.sh',
  '-c diff.external=./evil.sh',
  '-ccore.fsmonitor=./evil.sh',
  '--config-env=core.fsmonitor=X',
  '--exec-path=.',
  '--git-dir=bare',
  '-C bare',
  '-Cbare',
  '--ext-diff',
  '--textconv',
  '--show-signature',
  '--format=%G?',
  '--pretty=%+GG',
  "'--format=% GK'",
  '--open-files-in-pager=./evil.sh',
  '-nO./evil.sh',
  '-O./evil.sh',
  '--upload-pack=./evil.sh',
  '--exec=./evil.sh',
  '-x ./evil.sh',
  '-e ./evil.sh',
  '-l',
  '--paginate',
  '-C',
  '-z',
  '-m out',
  '-vt.git/hooks',
  '-t.git/hooks',
  '-vt@k',
  '-t @k',
  '--target-directory=kept',
  '-vtkept',
  'of=.git/hooks/x',
  'of=kept/x',
  'of=@k/x',
  '-vfC.git/hooks',
  '-xvC.git/hooks',
  '--directory=kept',
  '--pre=./evil.sh',
  '--pre ./evil.sh',
  '--hostname-bin=./evil.sh',
  '-Io out x',
];

/** Words that are no options. */
export const OPERANDS: readonly string[] =
  'a b src src/a evil.sh . HEAD x out kept/x @k/x @k kep*/x src/out/x .git/hooks/x .git/config bare * src/* 1 -- - :/ {} ./evil.sh'.split(
    ' ',
  );

/** The options of a real program, from its own help. */
export function optionsIn(program: string, verb: string | null): readonly string[] {
  const args = verb === null ? ['--help'] : [verb, '-h'];
  const { stdout, stderr } = spawnSync(program, args, { encoding: 'utf8', timeout: 5_000, input: '' });
  const found = `${stdout}${stderr}`.match(/(?<![\w-])--?[A-Za-z][\w-]*(?:=|\[=)?/g) ?? [];
  const [first, second] = ['./evil.sh', 'out'];
  return [...new Set(found)]
    .filter((option) => !/^(?:--help|--follow|-f|-F|--pid)/.test(option))
    .flatMap((option) =>
      option.endsWith('=')
        ? [`${option.replace('[', '')}${first}`, `${option.replace('[', '')}${second}`]
        : [option, `${option} ${second}`],
    );
}
