import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { runReview } from '../../src/cli/review-command.ts';
import { until } from '../e2e/network.ts';
import { clearPlace, makePlace, runConch, startBot } from '../kill/bot.ts';

const CONCH = fileURLToPath(new URL('../../src/conch.js', import.meta.url));
const place = mkdtempSync(join(tmpdir(), 'conch-review-cli-'));
afterAll(() => rmSync(place, { recursive: true, force: true }));

/** The line that the command prints at its start. */
const RESUME = /^To go on after an interruption: conch review --resume (\S+)\n$/;

/** Given instead of a text: the agent does not answer. */
const HANGS = '(hangs)';

/** A command agent that answers with these texts, one for each turn. */
function agent(folder: string, id: string, ...texts: readonly string[]) {
  const [count, cases] = [
    join(folder, `${id}.count`),
    texts.map((text, at) => `${at + 1}) ${text === HANGS ? 'sleep 60' : `printf '${text}'`};;`),
  ];
  const script = `n=$(cat '${count}' 2>/dev/null || echo 0); n=$((n+1)); echo $n > '${count}'; case $n in ${cases.join(' ')} *) printf '${texts.at(-1)}';; esac`;
  return {
    id,
    backend: { kind: 'command', command: 'sh', args: ['-c', script], input: 'stdin', output: 'text', cwd: folder },
  };
}

function review(name: string, dev: readonly string[], qa: readonly string[], ...args: readonly string[]) {
  const folder = join(place, name);
  mkdirSync(folder, { recursive: true });
  configure(folder, dev, qa);
  return conch(folder, 'review', '--primary', 'dev', '--reviewer', 'qa', ...args);
}

function configure(folder: string, dev: readonly string[], qa: readonly string[]): void {
  const config = {
    agents: [agent(folder, 'dev', ...dev), agent(folder, 'qa', ...qa)],
    channels: [{ id: 'console:x', agents: ['dev'] }],
    // A review without a running Conch has a store of its own. Nobody answers at this address.
    store: { postgres: 'postgres://conch@127.0.0.1:1/conch' },
  };
  writeFileSync(join(folder, 'turnConfig.json'), JSON.stringify(config));
}

function conch(folder: string, ...words: readonly string[]) {
  const temporary = `${folder}-temporary`;
  mkdirSync(temporary, { recursive: true });
  const env = { ...process.env, CONCH_DATA_DIR: join(folder, 'data'), CONCH_PORT: '0', TMPDIR: temporary };
  const child = spawn(process.execPath, [CONCH, ...words], { cwd: folder, env });
  let [out, err] = ['', ''];
  child.stdout.on('data', (chunk) => (out += String(chunk)));
  child.stderr.on('data', (chunk) => (err += String(chunk)));
  const code = new Promise<number | null>((resolve) => child.once('exit', resolve));
  return { child, ended: async () => ({ code: await code, out, err }), out: () => out, err: () => err };
}

/** Returns how many turns an agent has had. */
function turns(folder: string, id: string): number {
  return Number(readFileSync(join(folder, `${id}.count`), 'utf8'));
}

describe('conch review without a running Conch', () => {
  test('prints the conversation and ends with 0 when the work passes', async () => {
    const { ended } = review(
      'passes',
      ['I wrote it.', 'F1: fixed'],
      ['[major] It breaks\\nREVISE\\n', 'PASS'],
      'write it',
    );
    const { code, out, err } = await ended();
    expect([code, err]).toEqual([0, expect.stringMatching(RESUME)]);
    expect(out).toBe('dev: I wrote it.\nqa: [major] It breaks\nREVISE\ndev: F1: fixed\nqa: PASS\nThe review passed\n');
  });

  test('ends with 20 at the limit and prints one JSON object', async () => {
    const { ended } = review('limit', ['One.'], ['REVISE'], '--max-iterations', '1', '--json', 'write it');
    const { code, out } = await ended();
    const said: unknown = JSON.parse(out);
    expect([code, said]).toMatchObject([20, { state: 'failed', runState: 'failed', outcome: { kind: 'limit' } }]);
  });

  test.each([
    [['uphold'], 0, 'dev: Two.\nqa: PASS\nThe review passed\n'],
    [['cancel', 'no', 'longer', 'needed'], 130, 'The review cancelled: no longer needed\n'],
    [['merge'], 2, ''],
  ])('ends with 21 when a person is needed, and takes the decision: %j', async (words, code, end) => {
    const name = `needed-${words[0]}`;
    const needed = await review(name, ['One.', 'One.', 'One.', 'Two.'], ['REVISE', 'PASS'], 'write it').ended();
    const [, resume = ''] =
      /A person is needed: .*\nTo decide.*: conch review --resume (\S+) accept/.exec(needed.err) ?? [];
    expect([needed.code, resume]).toEqual([21, expect.stringContaining('conch-review-')]);
    const decided = await conch(join(place, name), 'review', '--resume', resume, ...words).ended();
    expect(decided.code).toBe(code);
    expect(decided.out.endsWith(end)).toBe(true);
  });

  test('deletes its data and refs when the work passes, and keeps them when it does not', async () => {
    const left = async (name: string, verdict: string) => {
      const folder = join(place, name);
      execFileSync('git', ['init', '--quiet', folder]);
      writeFileSync(join(folder, '.gitignore'), '*.count\n');
      const { err } = await review(name, ['One.'], [verdict], '--max-iterations', '1', 'write it').ended();
      const [, data = ''] = RESUME.exec(err) ?? [];
      const git = (...args: readonly string[]) => execFileSync('git', ['-C', folder, ...args], { encoding: 'utf8' });
      const refs = git('for-each-ref', 'refs/conch').split('\n').length - 1;
      return [existsSync(data), refs, git('worktree', 'list').split('\n').length - 1];
    };
    expect(await left('clean', 'PASS')).toEqual([false, 0, 1]);
    expect(await left('kept', 'REVISE')).toEqual([true, 2, 1]);
  });

  test('cancels the review at Ctrl+C and ends with 130', async () => {
    const running = review('cancelled', ['One.'], [HANGS], 'write it');
    await until(() => running.out() !== '', 'a first line');
    running.child.kill('SIGINT');
    expect((await running.ended()).code).toBe(130);
  });

  test('resumes a killed review by its folder: same iteration, same findings, one turn repeated', async () => {
    const killed = review(
      'killed',
      ['One.', HANGS, 'Two.\\nF1: fixed'],
      ['[major] It breaks\\nREVISE\\n', 'PASS'],
      '3 bugs',
    );
    const folder = join(place, 'killed');
    await until(() => existsSync(join(folder, 'dev.count')) && turns(folder, 'dev') === 2, 'a second turn of dev');
    killed.child.kill('SIGKILL');
    const [, resume = ''] = RESUME.exec((await killed.ended()).err) ?? [];
    // Resumes in another folder. The private Conch of the killed program may still be ending.
    const other = join(folder, 'other');
    mkdirSync(other);
    const { code, out, err } = await conch(other, 'review', '--resume', resume, '--json').ended();
    expect([code, err]).toEqual([0, '']);
    expect(JSON.parse(out)).toMatchObject({
      state: 'complete',
      runState: 'completed',
      task: '3 bugs',
      settings: { maxIterations: 10 },
      iteration: 2,
      iterations: [{ verdict: 'revise', opened: 1 }, { verdict: 'pass' }],
      findings: [{ id: 'F1', status: 'fixed' }],
    });
    expect([turns(folder, 'dev'), turns(folder, 'qa')]).toEqual([3, 2]);
  });

  test('refuses to resume an unknown id', async () => {
    const folder = join(place, 'unknown');
    mkdirSync(folder);
    configure(folder, ['One.'], ['PASS']);
    const { code, err } = await conch(folder, 'review', '--resume', 'console:x-1').ended();
    expect([code, err]).toEqual([
      9,
      'No running Conch has the review console:x-1, and no folder with this path is the data folder of a review.\n',
    ]);
  });

  test('refuses to resume the data folder of a Conch that ran no private review', async () => {
    const folder = join(place, 'foreign');
    mkdirSync(folder);
    configure(folder, ['One.'], ['PASS']);
    writeFileSync(join(folder, 'conch.db'), '');
    const { code, err } = await conch(folder, 'review', '--resume', folder).ended();
    expect([code, err]).toEqual([9, expect.stringMatching(/^No running Conch has the review .*\n$/)]);
  });

  test('passes on the problems with which the private Conch cannot start, its exit code, and leaves no folder', async () => {
    const folder = join(place, 'refused');
    mkdirSync(folder);
    configure(folder, ['One.'], ['PASS']);
    const words = ['review', '--primary', 'dev', '--reviewer', 'nobody', 'write it'];
    const { code, err } = await conch(folder, ...words).ended();
    expect(code).toBe(3);
    expect(err).toContain('"nobody" is not the id of an agent');
    expect(err).toMatch(/The review did not begin: the lines before say why\.\n$/);
    expect(readdirSync(`${folder}-temporary`).filter((name) => name.startsWith('conch-review-'))).toEqual([]);
  });

  test('ends when the private Conch is killed before it answers', async () => {
    const folder = join(place, 'unborn');
    mkdirSync(folder);
    configure(folder, ['One.'], ['PASS']);
    // The private Conch loads this file, too, and kills itself.
    writeFileSync(join(folder, 'die.mjs'), `if (process.argv[2] === 'start') process.kill(process.pid, 'SIGKILL');`);
    vi.stubEnv('NODE_OPTIONS', `--import=${join(folder, 'die.mjs')}`);
    onTestFinished(() => void vi.unstubAllEnvs());
    const words = ['review', '--primary', 'dev', '--reviewer', 'qa', 'write it'];
    const { code, err } = await conch(folder, ...words).ended();
    expect([code, err]).toEqual([1, expect.stringMatching(/The review did not begin/)]);
  });

  test('prints its usage when the task is missing', async () => {
    const { code, err } = await review('missing', ['One.'], ['PASS'], '--max-iterations', '3').ended();
    expect([code, err]).toEqual([2, expect.stringContaining('conch review --primary dev --reviewer qa')]);
  });
});

describe('conch review with a running Conch', () => {
  test('asks again when the answer is no review', async () => {
    const printed: string[] = [];
    const passed = {
      id: 'console:x-1',
      state: 'complete',
      iteration: 1,
      settings: { maxIterations: 10 },
      outcome: { kind: 'passed', why: '' },
      waiting: null,
      lines: [],
    };
    const exports = ['no JSON', '{}', JSON.stringify(passed)];
    const world = {
      dataDir: place,
      port: 1,
      readFile: async () => 'token',
      fetch: async (_url: string, { body }: RequestInit) =>
        Response.json({ ok: true, text: JSON.stringify(body).includes('review export') ? exports.shift() : '' }),
      out: (text: string) => void printed.push(text),
      err: (text: string) => void printed.push(text),
      file: null,
      signal: new AbortController().signal,
      sleep: async () => undefined,
    };
    const call = { task: 'write it', primary: 'dev', reviewer: 'qa', iterations: null, channel: null, json: false };
    expect([await runReview({ ...call, resume: null }, world), printed]).toEqual([0, ['The review passed\n']]);
  });

  test('gives the review to Conch, ends with 21 when a person is needed, and resumes by the id', async () => {
    const folder = join(place, 'running');
    mkdirSync(folder);
    const of = [agent(folder, 'dev', 'One.', 'One.', 'One.', 'Two.'), agent(folder, 'qa', 'REVISE', 'PASS')];
    const at = await makePlace({ agents: of, channels: [{ id: 'console:x', agents: ['dev', 'qa'] }] });
    const bot = startBot(at);
    const run = (...argv: readonly string[]) => runConch(at, { argv });
    try {
      await bot.ready();
      const roles = ['--primary', 'dev', '--reviewer', 'qa'];
      const refused = await run('review', '--primary', 'dev', '--reviewer', 'nobody', 'write it');
      expect([refused.code, refused.err]).toEqual([10, expect.stringContaining('There is no agent "nobody"')]);
      const needed = await run('review', ...roles, 'write it');
      expect([needed.code, needed.err]).toEqual([
        21,
        expect.stringContaining('To decide and go on: conch review --resume console:x-1 accept'),
      ]);
      const other = await run('review', '--resume', 'console:x-7');
      expect([other.code, other.err]).toEqual([
        10,
        'console:x-7 is not the last review of console:x. To resume the last one: conch review --resume console:x-1\n',
      ]);
      const none = await run('review', '--resume', 'console:y-1');
      expect([none.code, none.err]).toEqual([10, expect.stringContaining('console:y')]);
      const status = await run('ctl', 'review', 'status', '--json');
      expect(JSON.parse(status.out)).toMatchObject({ runState: 'reviewing', waiting: { for: 'arbiter' } });
      const passed = await run('review', '--resume', 'console:x-1', 'uphold', '--json');
      expect([passed.code, JSON.parse(passed.out)]).toMatchObject([0, { runState: 'completed', iteration: 4 }]);
    } finally {
      await bot.end('SIGTERM');
      clearPlace(at);
    }
  });
});
