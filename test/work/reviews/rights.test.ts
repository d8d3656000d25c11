import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import type { Report } from '../../../src/agents/backends/backend.ts';
import { CHANNEL, openStage, until } from './stage.ts';
import type { StageOptions } from './stage.ts';

let stage: Awaited<ReturnType<typeof openStage>> | null = null;

afterEach(async () => {
  await stage?.stop();
  stage = null;
});

async function open(options: StageOptions) {
  stage = await openStage({ tools: { allow: ['Edit', 'Bash'], default: 'deny' }, ...options });
  return stage;
}

const TOOLS = {
  Edit: { file_path: 'a.ts', old_string: 'a', new_string: 'b' },
  Bash: { command: 'npm test' },
} as const;

type Input = Readonly<Record<string, string>>;

/** Requests a tool call. Resolves with "go", or with the reason of the denial. */
async function use(report: Report, tool: string, id: string, input: Input = inputOf(tool)): Promise<string> {
  const call = { id, tool, input, definition: null, repeatable: false, detail: tool, caution: null };
  await report.gate.step({ text: '', checkpoint: null });
  const asked = await report.gate.ask(call, new AbortController().signal);
  if (asked.verdict === 'go')
    await report.gate.settled(call, { status: 'complete', output: 'done', code: null, durationMs: 1 });
  return asked.verdict === 'go' ? 'go' : asked.words;
}

function inputOf(tool: string): Input {
  return tool === 'Edit' ? TOOLS.Edit : TOOLS.Bash;
}

test('judges reads of the reviewer in its copy of the work as reads in its own folder', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'conch-review-read-'));
  execFileSync('git', ['init', '--quiet', folder]);
  writeFileSync(join(folder, 'a.txt'), 'first');
  const heard: string[] = [];
  const room: Awaited<ReturnType<typeof openStage>> = await open({
    folder,
    tools: { allow: ['Read(**)'], deny: ['Read(secret.txt)'], default: 'deny' },
    agents: {
      dev: () => {
        writeFileSync(join(folder, 'a.txt'), 'work');
        return 'I wrote it.';
      },
      qa: async (_turn, _tools, report) => {
        const shown = room.review.work?.folder ?? '';
        expect(readFileSync(join(shown, 'a.txt'), 'utf8')).toBe('work');
        for (const file of ['a.txt', 'secret.txt'])
          heard.push(await use(report, 'Read', `q ${file}`, { file_path: join(shown, file) }));
        return 'PASS';
      },
    },
  });
  await room.command('/review start dev qa write it');
  expect((await room.settled()).outcome?.kind).toBe('passed');
  expect(heard).toEqual(['go', expect.stringContaining('is denied by rule "Read(secret.txt)"')]);
  await until(() => !existsSync(join(room.dataDir, 'reviews', 'console-demo-1')));
  rmSync(folder, { recursive: true });
});

test('denies edits to the reviewer, and allows them to the worker', async () => {
  const heard: string[] = [];
  const room = await open({
    agents: {
      dev: async (_turn, _tools, report) => {
        heard.push(await use(report, 'Edit', 'd1'));
        return 'I wrote it.';
      },
      qa: async (_turn, _tools, report) => {
        heard.push(await use(report, 'Edit', 'q1'), await use(report, 'Bash', 'q2'));
        return 'PASS';
      },
    },
  });
  await room.command('/review start dev qa write it');
  await room.settled();
  expect(heard).toEqual(['go', expect.stringContaining('a reviewer may not change the work'), 'go']);
  expect(room.posts.filter((post) => post.includes('⛔'))).toEqual([
    'Conch: ⛔ qa may not run Edit: a reviewer may not change the work. /run log shows all denied calls.',
  ]);
  expect(await room.command('/run log qa')).toMatchObject({
    text: expect.stringContaining('· denied: a reviewer may not change the work →'),
  });
});

test("treats every turn of a review that a member opened as the member's", async () => {
  const bob = { id: 'bob', name: 'Bob' };
  let turn = 0;
  const heard: string[] = [];
  const room = await open({
    agents: {
      dev: async (_turn, _tools, report) => {
        turn += 1;
        heard.push(await use(report, 'Bash', `d${turn}`));
        return turn === 1 ? 'One.' : 'Two.';
      },
      qa: () => (turn === 1 ? 'REVISE' : 'PASS'),
    },
    tools: { allow: ['Bash'], members: 'deny', default: 'deny' },
    channel: { order: 'review', review: { primary: 'dev', reviewer: 'qa' } },
  });
  await room.write('Write it', bob);
  const review = await room.settled();
  const denied = expect.stringContaining('somebody who is not an operator');
  expect(room.posts.find((post) => post.includes('⛔'))).toContain(
    'dev may not run Bash: it was asked for by somebody who is not an operator, so it may only read.',
  );
  expect([review.by, review.iteration, heard]).toEqual(['bob', 2, [denied, denied]]);
  expect(room.store.floors.state(CHANNEL)?.task).toBeUndefined();
});
