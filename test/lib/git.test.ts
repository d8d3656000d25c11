import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { processes } from './processes.ts';
import { GitError, gitIn, zeroSeparated } from '../../src/lib/git.ts';

let home = '';
let root = '';
const env = (): Record<string, string | undefined> => ({ PATH: process.env['PATH'], HOME: home });
const raw = (...args: readonly string[]): string =>
  execFileSync('git', ['-C', root, ...args], { encoding: 'utf8', env: env(), stdio: ['ignore', 'pipe', 'ignore'] });
/** Writes a program that creates a file when it runs. `ran` checks for that file. */
function trap(name: string): { readonly program: string; readonly ran: () => boolean } {
  const program = join(home, name);
  writeFileSync(program, `#!/bin/sh\ntouch '${program}.ran'\ncat\n`);
  chmodSync(program, 0o755);
  return { program, ran: () => existsSync(`${program}.ran`) };
}
const failure = async (running: Promise<string>): Promise<GitError> => {
  const error = await running.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof GitError)) throw new Error(`no error of git: ${String(error)}`);
  return error;
};

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'conch-git-'));
  root = join(home, 'repo');
  mkdirSync(root);
  raw('init', '--quiet', '--initial-branch', 'main');
  raw('config', 'user.name', 'Ann');
  raw('config', 'user.email', 'ann@localhost');
  raw('commit', '--quiet', '--allow-empty', '-m', 'Begin');
});

afterEach(() => rmSync(home, { recursive: true, force: true }));

describe('a command of git', () => {
  test('returns its output, and reads its input', async () => {
    const git = gitIn(root, env());
    expect(await git(['rev-parse', '--abbrev-ref', 'HEAD'])).toBe('main\n');
    expect(await git(['hash-object', '--stdin'], { input: 'ü' })).toBe('99fe40df261f7d4afd1391fe2739b2c7466fe968\n');
    expect(zeroSeparated('a\0b c\0')).toEqual(['a', 'b c']);
  });

  test('that fails throws its exit code and reason', async () => {
    const error = await failure(gitIn(root, env())(['rev-parse', '--verify', 'refs/heads/none']));
    expect(error).toMatchObject({
      exitCode: 128,
      isMissing: false,
    });
    expect(error.message).toBe('git rev-parse failed: fatal: Needed a single revision');
  });

  test('says what to do when git is missing', async () => {
    const error = await failure(gitIn(root, { PATH: home })(['status']));
    expect([error.isMissing, error.message]).toEqual([
      true,
      'git config failed: git was not found. Install git 2.30 or newer.',
    ]);
  });

  test('ends at its time limit, with all processes that it started', async () => {
    const started = join(home, 'started');
    writeFileSync(join(root, '.git/hooks/pre-commit'), `#!/bin/sh\necho $$ > '${started}'\nexec sleep 600\n`);
    chmodSync(join(root, '.git/hooks/pre-commit'), 0o755);
    const running = gitIn(root, env())(['commit', '--allow-empty', '-m', 'x'], { hooks: true, limitMs: 400 });
    expect((await failure(running)).message).toBe('git commit failed: no end within 0.4 s');
    const pid = Number(execFileSync('cat', [started], { encoding: 'utf8' }));
    expect(processes().map((one) => one.pid)).not.toContain(pid);
  });

  test('ends at its time limit a hook that ignores SIGTERM', async () => {
    const started = join(home, 'started');
    const hook = `#!/bin/sh\ntrap '' TERM\necho $$ > '${started}'\nwhile :; do sleep 1; done\n`;
    writeFileSync(join(root, '.git/hooks/pre-commit'), hook);
    chmodSync(join(root, '.git/hooks/pre-commit'), 0o755);
    const running = gitIn(root, env())(['commit', '--allow-empty', '-m', 'x'], { hooks: true, limitMs: 400 });
    expect((await failure(running)).message).toBe('git commit failed: no end within 0.4 s');
    const pid = Number(readFileSync(started, 'utf8'));
    await vi.waitFor(() => expect(processes().map((one) => one.pid)).not.toContain(pid), 3_000);
  });

  test('answers although a process that a hook left behind keeps the output open', async () => {
    const left = join(home, 'left');
    const hook = `#!/bin/sh\nsetsid sh -c 'echo $$ > "${left}"; exec sleep 600' &\n`;
    writeFileSync(join(root, '.git/hooks/post-commit'), hook);
    chmodSync(join(root, '.git/hooks/post-commit'), 0o755);
    const running = gitIn(root, env())(['commit', '--allow-empty', '-m', 'x'], { hooks: true, limitMs: 60_000 });
    expect(await running).toContain('x');
    process.kill(Number(readFileSync(left, 'utf8')));
  });

  test('ends at its output limit', async () => {
    const error = await failure(gitIn(root, env())(['log'], { mostOutput: 10 }));
    expect(error.message).toBe('git log failed: more than 10 bytes of output');
  });

  test('ignores environment variables that change git', async () => {
    const git = gitIn(root, { ...env(), GIT_DIR: '/nowhere', GIT_CONFIG_COUNT: '1', GIT_INDEX_FILE: '/nowhere/index' });
    expect(await git(['rev-parse', '--show-toplevel'])).toBe(`${root}\n`);
  });
});

describe('the process that starts git', () => {
  const isAlive = (id: number): boolean => processes().some(({ pid }) => pid === id);
  const gone = (id: number) => vi.waitFor(() => expect(isAlive(id)).toBe(false), { timeout: 30_000 });
  /** Puts a script before git in PATH that records process ids. `notes`: the ids of [parent, git] for each command. */
  function noting(script = '') {
    const notes = join(home, 'notes');
    const real = execFileSync('which', ['git'], { encoding: 'utf8' }).trim();
    mkdirSync(join(home, 'bin'));
    const lines = ['#!/bin/sh', `echo $PPID $$ >> '${notes}'`, `cd '${home}'`, script, `exec '${real}' "$@"`, ''];
    writeFileSync(join(home, 'bin/git'), lines.join('\n'), { mode: 0o755 });
    return {
      env: { ...env(), PATH: `${join(home, 'bin')}:${process.env['PATH']}` },
      notes: () =>
        readFileSync(notes, 'utf8')
          .trim()
          .split('\n')
          .map((line) => line.split(' ').map(Number)),
    };
  }
  /** A script that makes git wait for as long as the home folder has a file named "block". */
  const BLOCK = 'if [ -e block ]; then touch blocked; while [ -e block ]; do sleep 0.05; done; fi';
  const blocked = () => vi.waitFor(() => expect(existsSync(join(home, 'blocked'))).toBe(true), { timeout: 30_000 });
  const program = (path: Record<string, string | undefined>, ...more: readonly string[]) =>
    spawn(process.execPath, [join(import.meta.dirname, 'fixtures/use-git.ts'), root, ...more], {
      env: { ...process.env, ...path },
      stdio: ['ignore', 'pipe', 'inherit'],
    });

  test('is a child process of Conch, the same for all commands, and no signal to stop Conch ends it', async () => {
    const noted = noting();
    const git = gitIn(root, noted.env);
    await git(['rev-parse', 'HEAD']);
    const [[runner = 0] = []] = noted.notes();
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(runner, signal);
    await Promise.all([git(['rev-parse', 'HEAD']), git(['status'])]);
    expect(new Set(noted.notes().map(([parent]) => parent))).toEqual(new Set([runner]));
    expect(processes().find(({ pid }) => pid === runner)?.parent).toBe(process.pid);
  });

  test('ends after a minute without a command', async () => {
    const noted = noting();
    const git = gitIn(root, noted.env);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    await git(['rev-parse', 'HEAD']);
    vi.advanceTimersByTime(59_999);
    await git(['rev-parse', 'HEAD']);
    vi.advanceTimersByTime(59_999);
    const [runner = 0] = noted.notes().at(-1) ?? [];
    expect([isAlive(runner), new Set(noted.notes().map(([parent]) => parent)).size]).toEqual([true, 1]);
    vi.advanceTimersByTime(1);
    vi.useRealTimers();
    await gone(runner);
    await git(['rev-parse', 'HEAD']);
    expect(noted.notes().at(-1)?.[0]).not.toBe(runner);
  });

  test('is started anew after it was killed, and the commands under way fail', async () => {
    const noted = noting(BLOCK);
    writeFileSync(join(home, 'block'), '');
    const git = gitIn(root, noted.env);
    const running = [failure(git(['rev-parse', 'HEAD'])), failure(git(['status']))];
    await blocked();
    const [[runner = 0] = []] = noted.notes();
    process.kill(runner, 'SIGKILL');
    for (const { message, exitCode, isMissing } of await Promise.all(running)) {
      expect([message, exitCode, isMissing]).toEqual([
        'git config failed: the process that runs git was ended. It is unknown whether the command was done. Try again.',
        null,
        false,
      ]);
    }
    rmSync(join(home, 'block'));
    expect(await git(['rev-parse', '--abbrev-ref', 'HEAD'])).toBe('main\n');
    expect(noted.notes().at(-1)?.[0]).not.toBe(runner);
    for (const [, pid = 0] of noted.notes()) await gone(pid);
  });

  test('says what to do when it cannot be started', async () => {
    const noted = noting();
    const git = gitIn(root, noted.env);
    await git(['rev-parse', 'HEAD']);
    const [[runner = 0] = []] = noted.notes();
    process.kill(runner, 'SIGKILL');
    await gone(runner);
    const { execPath } = process;
    process.execPath = join(home, 'none');
    try {
      await vi.waitFor(async () =>
        // Conch runs `git config` first, unless it has read the settings of git already.
        expect((await failure(git(['status']))).message.replace('git config', 'git status')).toBe(
          `git status failed: the process that runs git could not be started. Restart Conch, or raise its limits (ulimit): spawn ${home}/none ENOENT`,
        ),
      );
    } finally {
      process.execPath = execPath;
    }
    expect(await git(['rev-parse', '--abbrev-ref', 'HEAD'])).toBe('main\n');
  });

  test('fails only the command that the system cannot start', async () => {
    const git = gitIn(root, env());
    const [failed, output] = await Promise.all([
      failure(git(['log', 'x'.repeat(3_000_000)])),
      git(['rev-parse', '--abbrev-ref', 'HEAD']),
    ]);
    expect([failed.message, output]).toEqual(['git log failed: spawn E2BIG', 'main\n']);
  });

  test('keeps a program running while a command is under way, and ends with the program', async () => {
    const noted = noting();
    const child = program(noted.env);
    const [output] = await Promise.all([child.stdout.setEncoding('utf8').toArray(), once(child, 'exit')]);
    expect([output.join(''), child.exitCode]).toEqual(['Begin\n', 0]);
    const [[runner = 0] = []] = noted.notes();
    await gone(runner);
  });

  test('ends when Conch is killed, and lets the command under way finish', async () => {
    const noted = noting(`${BLOCK}; echo more; touch finished`);
    writeFileSync(join(home, 'block'), '');
    const child = program(noted.env, 'goes on');
    await blocked();
    const [[runner = 0, command = 0] = []] = noted.notes();
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect([isAlive(runner), isAlive(command)]).toEqual([true, true]);
    rmSync(join(home, 'block'));
    await vi.waitFor(() => expect(existsSync(join(home, 'finished'))).toBe(true), { timeout: 30_000 });
    await gone(runner);
    expect(isAlive(command)).toBe(false);
  });

  test('ends at once when Conch is killed while no command is under way', async () => {
    const noted = noting();
    const child = program(noted.env, 'goes on');
    await once(child.stdout, 'data');
    const [[runner = 0] = []] = noted.notes();
    child.kill('SIGKILL');
    await gone(runner);
    expect(child.exitCode).toBe(null);
  });
});

describe('programs that the configuration of git names', () => {
  test('do not run: hooks, filters, monitors, merge drivers', async () => {
    const { program, ran } = trap('program');
    for (const hook of ['pre-commit', 'post-checkout', 'reference-transaction', 'post-merge']) {
      writeFileSync(join(root, '.git/hooks', hook), `#!/bin/sh\nexec '${program}'\n`);
      chmodSync(join(root, '.git/hooks', hook), 0o755);
    }
    raw('config', 'core.fsmonitor', program);
    raw('config', 'filter.one.clean', program);
    raw('config', 'filter.one.process', program);
    raw('config', 'filter.one.required', 'true');
    raw('config', 'merge.two.driver', `${program} %A`);
    rmSync(`${program}.ran`, { force: true });
    const git = gitIn(root, env());
    const commit = async (file: string, text: string): Promise<void> => {
      writeFileSync(join(root, file), text);
      await git(['add', '--all']);
      await git(['commit', '--quiet', '-m', file]);
    };
    await commit('.gitattributes', '* filter=one\n*.txt merge=two\n');
    await commit('a.txt', '1\n2\n3\n4\n5\n6\n7\n');
    await git(['checkout', '--quiet', '-b', 'other']);
    await commit('a.txt', 'one\n2\n3\n4\n5\n6\n7\n');
    await git(['checkout', '--quiet', 'main']);
    await commit('a.txt', '1\n2\n3\n4\n5\n6\nseven\n');
    await git(['merge', '--quiet', 'other']);
    expect(await git(['show', 'HEAD:a.txt'])).toBe('one\n2\n3\n4\n5\n6\nseven\n');
    expect(ran()).toBe(false);
  });

  test('run as hooks when the command asks for hooks', async () => {
    const { program, ran } = trap('hook');
    writeFileSync(join(root, '.git/hooks/pre-commit'), `#!/bin/sh\nexec '${program}' < /dev/null\n`);
    chmodSync(join(root, '.git/hooks/pre-commit'), 0o755);
    await gitIn(root, env())(['commit', '--quiet', '--allow-empty', '-m', 'x'], { hooks: true });
    expect(ran()).toBe(true);
  });

  test('for a remote run only if the user’s own configuration names them', async () => {
    const own = trap('own-ssh');
    const planted = trap('planted-ssh');
    for (const { program } of [own, planted]) writeFileSync(program, `#!/bin/sh\ntouch '${program}.ran'\nexit 1\n`);
    raw('config', '--global', 'core.sshCommand', own.program);
    raw('config', 'core.sshCommand', planted.program);
    raw('remote', 'add', 'origin', 'ssh://localhost/none');
    await failure(gitIn(root, env())(['fetch', 'origin']));
    expect([own.ran(), planted.ran()]).toEqual([true, false]);
    raw('remote', 'set-url', 'origin', `ext::${planted.program}`);
    raw('config', 'protocol.ext.allow', 'always');
    await failure(gitIn(root, env())(['fetch', 'origin']));
    expect(planted.ran()).toBe(false);
  });

  test('do not run if they are configured after Conch read the configuration', async () => {
    const { program, ran } = trap('late');
    writeFileSync(join(root, 'late.txt'), '1\n');
    const log = join(home, 'calls');
    const real = execFileSync('which', ['git'], { encoding: 'utf8' }).trim();
    mkdirSync(join(home, 'bin'));
    writeFileSync(join(home, 'bin/git'), `#!/bin/sh\necho "$*" >> '${log}'\nexec '${real}' "$@"\n`, { mode: 0o755 });
    const git = gitIn(root, { ...env(), PATH: `${join(home, 'bin')}:${process.env['PATH']}` });
    for (let times = 0; times < 5; times += 1) await git(['rev-parse', 'HEAD']);
    // The configuration is read once, and once more when its files are older than a second.
    expect(readFileSync(log, 'utf8').match(/show-scope/g)?.length).toBeLessThanOrEqual(2);
    writeFileSync(join(root, '.gitattributes'), '* filter=late\n');
    raw('config', 'filter.late.clean', program);
    await git(['add', '--all']);
    expect(ran()).toBe(false);
  });

  test('do not run if they are configured in ~/.config later, with an empty XDG_CONFIG_HOME', async () => {
    const { program, ran } = trap('late');
    vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 60_000);
    onTestFinished(() => void vi.restoreAllMocks());
    writeFileSync(join(root, 'late.txt'), '1\n');
    writeFileSync(join(root, '.gitattributes'), '* filter=late\n');
    const git = gitIn(root, { ...env(), XDG_CONFIG_HOME: '' });
    await git(['status']);
    mkdirSync(join(home, '.config/git'), { recursive: true });
    writeFileSync(join(home, '.config/git/config'), `[filter "late"]\n\tclean = '${program}'\n`);
    await git(['add', '--all']);
    expect(ran()).toBe(false);
  });

  test('do not check the signature of a commit', async () => {
    const { program, ran } = trap('gpg');
    raw('config', 'gpg.program', program);
    raw('config', 'log.showSignature', 'true');
    const [head, message] = raw('cat-file', 'commit', 'HEAD').split('\n\n');
    writeFileSync(join(home, 'signed'), `${head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n\n${message}`);
    raw('update-ref', 'HEAD', raw('hash-object', '-w', '-t', 'commit', join(home, 'signed')).trim());
    expect(await gitIn(root, env())(['log', '-1', '--format=%s'])).toBe('Begin\n');
    expect(ran()).toBe(false);
    raw('log', '-1');
    expect(ran()).toBe(true);
  });

  test('make the command fail if their name cannot be overridden', async () => {
    raw('config', 'filter.a=b.clean', 'true');
    await expect(gitIn(root, env())(['status'])).rejects.toThrow('The configuration of git names "filter.a=b.clean"');
  });
});
