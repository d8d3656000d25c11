import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { until } from '../e2e/network.ts';

const CONCH = fileURLToPath(new URL('../../src/conch.js', import.meta.url));
const place = mkdtempSync(join(tmpdir(), 'conch-review-cli-'));
afterAll(() => rmSync(place, { recursive: true, force: true }));

/** In place of a text: the agent does not answer. */
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
  mkdirSync(folder);
  const config = {
    agents: [agent(folder, 'dev', ...dev), agent(folder, 'qa', ...qa)],
    channels: [{ id: 'console:x', agents: ['dev'] }],
  };
  writeFileSync(join(folder, 'turnConfig.json'), JSON.stringify(config));
  const env = { ...process.env, CONCH_DATA_DIR: join(folder, 'data'), TMPDIR: folder };
  const words = ['review', '--primary', 'dev', '--reviewer', 'qa', ...args];
  const child = spawn(process.execPath, [CONCH, ...words], { cwd: folder, env });
  let [out, err] = ['', ''];
  child.stdout.on('data', (chunk) => (out += String(chunk)));
  child.stderr.on('data', (chunk) => (err += String(chunk)));
  const code = new Promise<number | null>((resolve) => child.once('exit', resolve));
  return { child, ended: async () => ({ code: await code, out, err }), out: () => out };
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
    expect([code, err]).toEqual([0, '']);
    expect(out).toBe('dev: I wrote it.\nqa: [major] It breaks\nREVISE\ndev: F1: fixed\nqa: PASS\nThe review passed\n');
  });

  test('ends with 20 at the limit and prints one JSON object', async () => {
    const { ended } = review('limit', ['One.'], ['REVISE'], '--max-iterations', '1', '--json', 'write it');
    const { code, out } = await ended();
    const said: unknown = JSON.parse(out);
    expect([code, said]).toMatchObject([20, { state: 'failed', runState: 'failed', outcome: { kind: 'limit' } }]);
  });

  test('ends with 21 when a person is needed, and says how to go on', async () => {
    const { code, err } = await review('needed', ['One.'], ['REVISE'], 'write it').ended();
    expect([code, err]).toEqual([
      21,
      expect.stringMatching(/A person is needed: .*\nTo follow it again: conch review --resume \S+\n/),
    ]);
  });

  test('cancels the review at Ctrl+C and ends with 130', async () => {
    const running = review('cancelled', ['One.'], [HANGS], 'write it');
    await until(() => running.out() !== '', 'a first line');
    running.child.kill('SIGINT');
    expect((await running.ended()).code).toBe(130);
  });

  test('says what is missing', async () => {
    const { code, err } = await review('missing', ['One.'], ['PASS'], '--max-iterations', '3').ended();
    expect([code, err]).toEqual([2, expect.stringContaining('conch review --primary dev --reviewer qa')]);
  });
});
