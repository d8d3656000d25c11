import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { BackendError } from '../../../src/agents/backends/backend.ts';
import { CHANNEL, openStage, played, until } from './stage.ts';
import type { Answers, StageOptions } from './stage.ts';

let stage: Awaited<ReturnType<typeof openStage>> | null = null;

afterEach(async () => {
  await stage?.stop();
  stage = null;
});

async function open(options: StageOptions) {
  stage = await openStage(options);
  return stage;
}

/** Answers each turn with the next text. The last text repeats. */
function lines(...texts: readonly string[]): Answers {
  let turn = 0;
  return () => texts[Math.min(turn++, texts.length - 1)] ?? '';
}

function repository(): string {
  const folder = mkdtempSync(join(tmpdir(), 'conch-review-repository-'));
  execFileSync('git', ['init', '--quiet', folder]);
  return folder;
}

describe('a review in a channel', () => {
  test('passes in the second iteration, and posts one report, last', async () => {
    const room = await open({
      agents: { dev: lines('A first try.', 'Mended.\nF1: fixed'), qa: lines('[major] It breaks\nREVISE', 'PASS') },
    });
    expect(await room.command('/review start dev qa write the parser')).toMatchObject({ ok: true });
    const review = await room.settled();
    expect([review.outcome?.kind, review.iteration, review.outcome?.why]).toEqual(['passed', 2, '']);
    expect(room.posts.filter((post) => !post.startsWith('Conch'))).toEqual([
      'dev: A first try.',
      'qa: [major] It breaks\nREVISE',
      'dev: Mended.\nF1: fixed',
      'qa: PASS',
    ]);
    expect(room.posts.filter((post) => post.startsWith('Conch'))).toHaveLength(1);
    expect(room.posts.at(-1)).toMatch(/^Conch: ✅ Review passed after 2 iterations/);
  });

  test('shows the reviewer the work of a repository, but not the text of the other agent about it', async () => {
    const folder = repository();
    const prompts: Record<'dev' | 'qa', string[]> = { dev: [], qa: [] };
    const said = { dev: lines('Hello!', 'I had an idea.', 'F1: fixed'), qa: lines('[major] No\nREVISE', 'PASS') };
    const asked =
      (agent: 'dev' | 'qa'): Answers =>
      (turn, ...rest) => {
        prompts[agent].push(turn.text);
        if (agent === 'dev') writeFileSync(join(folder, 'a.txt'), `work ${prompts.dev.length}\n`);
        return said[agent](turn, ...rest);
      };
    const agents = { dev: asked('dev'), qa: asked('qa') };
    const room = await open({ folder, agents, channel: { order: 'mention' } });
    await room.write('@dev say hello');
    await until(() => room.posts.includes('dev: Hello!'));
    await room.command('/review start dev qa 7 write it');
    expect((await room.settled()).outcome?.kind).toBe('passed');
    const [first = '', second = ''] = prompts.qa.slice(-2);
    expect(first).toContain('Hello!');
    for (const prompt of [first, second]) {
      expect(prompt).not.toContain('I had an idea');
      expect(prompt).not.toMatch(/iteration|of 7/);
    }
    expect(second).toContain('    -work 2\n    +work 3');
    expect(prompts.dev.at(-1)).toContain('[major] No');
    rmSync(folder, { recursive: true });
  });

  test('says in the channel that a verdict is void, because the work changed', async () => {
    const folder = repository();
    let reviews = 0;
    let status: unknown;
    const room: Awaited<ReturnType<typeof open>> = await open({
      folder,
      agents: {
        dev: lines('One.'),
        qa: () => {
          if ((reviews += 1) === 1) writeFileSync(join(folder, 'late.txt'), 'late');
          else status = room.command('/review status');
          return 'PASS';
        },
      },
    });
    await room.command('/review start dev qa write it');
    expect([(await room.settled()).outcome?.kind, reviews]).toEqual(['passed', 2]);
    const words = "🔁 1 of 10 · qa reviews dev's work again: it changed during the review";
    expect(await status).toMatchObject({ text: expect.stringContaining(words) });
    expect(room.posts.at(-1)).toContain('1 verdict void, because the work changed during the review');
    rmSync(folder, { recursive: true });
  });

  test('fails when the repository is gone after a verdict: git cannot say that the work is the same', async () => {
    const folder = repository();
    const qa = () => (rmSync(join(folder, '.git'), { recursive: true }), 'PASS');
    const room = await open({ folder, agents: { dev: lines('One.'), qa } });
    await room.command('/review start dev qa write it');
    expect((await room.settled()).outcome).toMatchObject({
      kind: 'failed',
      why: 'dev: git could not read the work: its folder is in no git repository any more',
    });
    rmSync(folder, { recursive: true });
  });

  test('takes verdicts from the tools done and review', async () => {
    const room = await open({
      agents: {
        dev: (_turn, tools) => tools.apply('done', { reason: 'I wrote it.' }),
        qa: (_turn, tools) => tools.apply('review', { verdict: 'fail', reason: 'It cannot be done.' }),
      },
      channel: { review: { until: 'review' } },
    });
    await room.command('/review start dev qa write the parser');
    const review = await room.settled();
    expect([review.outcome?.kind, review.outcome?.why]).toEqual(['failed', 'It cannot be done.']);
  });

  test('reads a verdict that arrives in pieces, and ignores a longer word that begins with PASS', async () => {
    const pieces = [
      ['The parser is good.\n', 'PASS', 'WORDS are never stored.\n', 'REV', 'ISE'],
      ['Now it is.\n', 'PA', 'SS'],
    ];
    const room = await open({
      agents: {
        dev: () => `Here it is, with ${pieces.length} to go.`,
        qa: (_turn, tools) => {
          const [last = '', ...before] = (pieces.shift() ?? []).toReversed();
          for (const piece of before.toReversed()) tools.text(piece);
          return last;
        },
      },
      channel: { review: { until: 'review' } },
    });
    await room.command('/review start dev qa write the parser');
    const { outcome, iteration, iterations } = await room.over();
    expect([outcome?.kind, iteration, iterations.map(({ verdict }) => verdict)]).toEqual([
      'passed',
      2,
      ['revise', 'pass'],
    ]);
  });

  test('is opened by every message of a person when the order is "review"', async () => {
    const room = await open({
      agents: { dev: lines('I wrote it.'), qa: lines('PASS') },
      channel: { order: 'review', review: { primary: 'dev', reviewer: 'qa' } },
    });
    await room.write('Write the parser');
    const review = await room.settled();
    expect([review.task, review.by, review.outcome?.kind, review.usage.turns]).toEqual([
      'Write the parser',
      'ada',
      'passed',
      2,
    ]);
    await room.write('Now the printer');
    await until(() => room.review.id.endsWith('-2'));
    expect((await room.settled()).task).toBe('Now the printer');
  });

  test('waits for an agent that was disabled during a decision, and continues when it is enabled', async () => {
    const room = await open({ agents: { dev: lines('One.'), qa: lines('REVISE', 'REVISE', 'PASS') } });
    await room.command('/review start dev qa write the parser');
    expect((await room.settled()).waiting?.for).toBe('arbiter');
    await room.command('/agent disable dev');
    await room.command('/review uphold');
    await until(() => room.review.waiting?.for === 'agent');
    expect(room.review.waiting?.until).not.toBeNull();
    await room.command('/agent enable dev');
    await until(() => room.review.waiting === null);
    expect(room.review.turn?.agent).toBe('dev');
  });

  test('shows what changed since the reviewer looked last', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'conch-review-diff-'));
    const git = (...args: readonly string[]) => execFileSync('git', ['-C', folder, ...args], { encoding: 'utf8' });
    git('init', '--quiet');
    writeFileSync(join(folder, 'a.txt'), 'before\n');
    git('add', 'a.txt');
    git('-c', 'user.name=Ann', '-c', 'user.email=ann@example.org', 'commit', '--quiet', '-m', 'Begin');
    const shown: string[] = [];
    let turn = 0;
    const room: Awaited<ReturnType<typeof openStage>> = await open({
      folder,
      agents: {
        dev: () => {
          writeFileSync(join(folder, 'a.txt'), `work ${(turn += 1)}\n`);
          return 'F1: fixed';
        },
        qa: async () => {
          shown.push((await room.command('/review diff')).text);
          return shown.length === 1 ? '[major] One\nREVISE' : 'PASS';
        },
      },
    });
    await room.command('/review start dev qa write it');
    await room.settled();
    expect(shown.map((text) => text.split('\n').filter((line) => /^[-+]\w/.test(line)))).toEqual([
      ['-before', '+work 1'],
      ['-work 1', '+work 2'],
    ]);
    expect(await room.command('/review diff')).toMatchObject({
      text: 'Nothing changed since the reviewer looked last.',
    });
    rmSync(folder, { recursive: true });
  });

  test('shows before the first verdict what changed since the start, committed or not, and why git failed', async () => {
    const folder = repository();
    const git = (...args: readonly string[]) =>
      execFileSync('git', ['-C', folder, '-c', 'user.name=Ann', '-c', 'user.email=ann@example.org', ...args]);
    const shown: string[] = [];
    const look = async (): Promise<unknown> => shown.push((await room.command('/review diff')).text);
    const room: Awaited<ReturnType<typeof openStage>> = await open({
      folder,
      agents: {
        dev: () => {
          if (shown.length > 1) return 'Two.';
          writeFileSync(join(folder, 'a.txt'), 'work');
          if (shown.length === 1) git('add', '--all');
          if (shown.length === 1) git('commit', '--quiet', '-m', 'Work');
          return 'One.';
        },
        qa: async () => {
          await look();
          return 'FAIL';
        },
      },
      channel: { review: { onFail: 'stop' } },
    });
    git('commit', '--quiet', '--allow-empty', '-m', 'Begin');
    for (let review = 0; review < 3; review += 1) {
      await room.command('/review start dev qa write it');
      await room.settled();
    }
    rmSync(join(folder, '.git'), { recursive: true });
    await look();
    expect(shown).toEqual([
      expect.stringContaining('+work'),
      expect.stringContaining('+work'),
      'Nothing changed since the review started.',
      expect.stringMatching(/^git cannot show the work: /),
    ]);
    rmSync(folder, { recursive: true });
  });

  test('shows no secret that stands in the work', async () => {
    const folder = repository();
    let turn = 0;
    const agents = {
      dev: () => (writeFileSync(join(folder, 'a.txt'), `key = abc-secret-1 ${(turn += 1)}\n`), 'One.'),
      qa: lines('[major] One\nREVISE'),
    };
    const room = await open({ folder, agents, secrets: ['abc-secret-1'] });
    await room.command('/review start dev qa 2 write it');
    await room.settled();
    for (const line of ['/review diff', '/review export', '/review status --json'])
      expect((await room.command(line)).text).not.toContain('abc-secret-1');
    expect((await room.command('/review export')).text).toContain('a.txt');
    rmSync(folder, { recursive: true });
  });

  test('names the best work at its limit, and leaves the repository unchanged', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'conch-review-best-'));
    const git = (...args: readonly string[]) => execFileSync('git', ['-C', folder, ...args], { encoding: 'utf8' });
    git('init', '--quiet');
    writeFileSync(join(folder, 'a.txt'), 'first');
    git('add', 'a.txt');
    let turn = 0;
    const room = await open({
      folder,
      agents: {
        dev: () => {
          turn += 1;
          writeFileSync(join(folder, 'a.txt'), `work ${turn}`);
          return 'F1: fixed';
        },
        qa: lines(
          '[major] One\n[major] Two\nREVISE',
          'F2 [major] Two\nREVISE',
          '[major] Three\n[blocker] Four\nREVISE',
        ),
      },
    });
    await room.command('/review start dev qa 3 write it');
    const review = await room.settled();
    expect(review.iterations.map(({ blocking }) => blocking)).toEqual([2, 1, 2]);
    const commit = review.iterations[1]?.commit ?? '';
    expect(room.posts.at(-1)).toContain(`Best work: commit ${commit} of iteration 2.`);
    expect(git('show', `${commit}:a.txt`)).toBe('work 2');
    expect([git('diff', '--cached', '--name-only').trim(), git('branch', '--list').trim()]).toEqual(['a.txt', '']);
    expect(git('show', ':a.txt')).toBe('first');
    rmSync(folder, { recursive: true });
  });

  test('shows its state as JSON at every state, with the run state of the specification', async () => {
    const seen: string[] = [];
    const look = async (): Promise<void> => {
      const [status, exported] = [await room.command('/review status --json'), await room.command('/review export')];
      expect(status).toEqual(exported);
      const { state, runState, iteration } = JSON.parse(status.text) as Record<string, unknown>;
      seen.push(`${String(state)} ${String(runState)} ${String(iteration)}`);
    };
    const asked =
      (text: string): Answers =>
      async () => (await look(), text);
    const room: Awaited<ReturnType<typeof openStage>> = await open({
      agents: { dev: asked('One.'), qa: asked('FAIL') },
    });
    expect(await room.command('/review status --json')).toEqual({
      ok: false,
      text: 'No review is open here. To start one: /review start.',
    });
    await room.command('/agent disable qa');
    await room.command('/review start dev qa write the parser');
    await look();
    await room.command('/agent enable qa');
    await room.settled();
    await look();
    expect(seen).toEqual(['init submitted 0', 'working working 1', 'reviewing reviewing 1', 'failed failed 1']);
    await room.command('/review start dev qa write the parser');
    await until(() => room.review.status === 'working');
    await room.command('/review accept');
    await look();
    expect(seen.at(-1)).toBe('complete completed 1');
  });

  test('is cancelled by /stop', async () => {
    const room = await open({ agents: { dev: () => new Promise(() => {}), qa: lines('PASS') } });
    await room.command('/review start dev qa write the parser');
    expect(await room.command('/stop')).toMatchObject({ ok: true });
    expect((await room.settled()).outcome?.kind).toBe('cancelled');
  });
});

describe('the session of the reviewer', () => {
  test.each([
    ['fresh', ['dev', 'qa', 'qa', 'qa']],
    ['resume', ['dev', 'qa']],
  ])('is new for each verdict with "fresh" and kept with "resume": "%s"', async (session, expected) => {
    const opened: string[] = [];
    const forgotten: string[] = [];
    const answers = { dev: lines('One.', 'Two.\nF1: fixed'), qa: lines('[major] No\nREVISE', 'PASS') };
    const room = await open({
      agents: answers,
      channel: { review: { session } },
      backendFor: (id) => {
        const backend = played(id, answers[id as 'dev' | 'qa']);
        return {
          ...backend,
          open: (seat) => (opened.push(id), backend.open(seat)),
          forget: ({ channel, agent }) => void forgotten.push(`${channel} ${agent}`),
        };
      },
    });
    await room.command('/review start dev qa write the parser');
    expect((await room.settled()).outcome?.kind).toBe('passed');
    expect(opened.toSorted()).toEqual(expected);
    expect(new Set(forgotten)).toEqual(new Set(session === 'fresh' ? [`${CHANNEL} qa`] : []));
  });

  test('stays for the prompt that asks for a usable verdict', async () => {
    const opened: string[] = [];
    const answers = { dev: lines('One.'), qa: lines('It looks good.', 'PASS') };
    const room = await open({
      agents: answers,
      backendFor: (id) => {
        const backend = played(id, answers[id as 'dev' | 'qa']);
        return { ...backend, open: (seat) => (opened.push(id), backend.open(seat)) };
      },
    });
    await room.command('/review start dev qa write the parser');
    expect((await room.settled()).outcome?.kind).toBe('passed');
    expect(opened.toSorted()).toEqual(['dev', 'qa', 'qa']);
  });
});

describe('a reviewer whose provider is at its limit', () => {
  const atLimit = () => {
    throw new BackendError('usage limit reached, try again in 20 s', { code: 'HTTP_429' });
  };

  test('is replaced by the fallback, and the iteration goes on', async () => {
    const room = await open({
      agents: { dev: lines('One.'), qa: atLimit, ops: lines('PASS') },
      channel: { review: { fallback: 'ops' } },
    });
    await room.command('/review start dev qa write the parser');
    const review = await room.settled();
    expect([review.outcome?.kind, review.iteration, review.reviewer]).toEqual(['passed', 1, 'ops']);
    expect(room.posts).toContain('ops: PASS');
  });

  test('is asked again when the stated time has come, and its session is not used before', async () => {
    let asked = 0;
    const room = await open({
      agents: {
        dev: lines('One.'),
        qa: () => {
          if ((asked += 1) === 1) throw new BackendError('usage limit reached, try again in 2 s');
          return 'PASS';
        },
      },
    });
    await room.command('/review start dev qa write the parser');
    const review = await room.over();
    const waited = (review.outcome?.at ?? 0) - review.startedAt;
    expect([review.outcome?.kind, review.iteration, asked]).toEqual(['passed', 1, 2]);
    expect(waited).toBeGreaterThanOrEqual(2_000);
  });

  test('without a fallback is waited for until the stated time, and the review does not fail', async () => {
    const room = await open({ agents: { dev: lines('One.'), qa: atLimit } });
    const before = Date.now();
    await room.command('/review start dev qa write the parser');
    await until(() => room.review.waiting?.for === 'provider');
    expect(room.review).toMatchObject({ status: 'reviewing', iteration: 1, turn: { agent: 'qa' } });
    const left = (room.review.waiting?.until ?? 0) - before;
    expect(left).toBeGreaterThanOrEqual(20_000);
    expect(left).toBeLessThan(40_000);
  });
});
