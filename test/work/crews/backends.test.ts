import { LLMock } from '@copilotkit/aimock';
import type { ChatCompletionRequest, FixtureResponse } from '@copilotkit/aimock';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { addAgentToken } from '../../../src/agents/backends/remote/tokens.ts';
import type { Config } from '../../../src/config/config.ts';
import { systemClock, systemTimers } from '../../../src/lib/time.ts';
import { createBackends } from '../../../src/runtime/agent-factory.ts';
import { createLog } from '../../../src/runtime/log.ts';
import { finished, git, mainTickets, repository, stageOf, ticketText } from './stage.ts';

const WORKER = fileURLToPath(new URL('fixtures/worker.ts', import.meta.url));

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** Starts the real backends of a configuration. `started`: called when they accept agents. */
async function realBackends(config: Config, started: (config: Config) => void) {
  const log = createLog({ level: 'fatal', pretty: false, secrets: [] });
  const backends = await createBackends({ config, clock: systemClock(), timers: systemTimers, log });
  closing.push(() => backends.stop());
  await backends.start();
  started(config);
  return backends.backendFor;
}

/** Expects that a worker with this backend turns a ticket into a merged commit in two steps. */
async function merges(backend: object, config: object = {}, started: (config: Config) => void = () => {}) {
  const room = await stageOf({
    repo: repository({ 'c-1': ticketText('c-1') }),
    crew: { backend, trusted: true },
    config: { agents: [{ id: 'pm', backend: { kind: 'scripted', script: 'pm' } }], ...config },
    backends: (loaded) => realBackends(loaded, started),
  });
  await room.command('/crew run');
  // Each backend starts programs, which takes long on a busy machine.
  await expect.poll(() => room.app.crews.state('web')?.finished.length, { timeout: 90_000 }).toBe(1);
  await finished(room, 1);
  expect(mainTickets(room.repo)).toEqual(['c-1']);
  expect(room.app.crews.state('web')?.usage.steps).toBe(2);
  return { one: git(room.repo, 'show', 'main:one.txt'), usage: room.app.crews.state('web') };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

describe('a worker finishes a ticket', () => {
  test('that is a program, which gets a session id in its first step and resumes this session in the next one', async () => {
    const seen = join(mkdtempSync(join(tmpdir(), 'conch-worker-')), 'args');
    const { one } = await merges({
      kind: 'command',
      command: process.execPath,
      args: [WORKER, 'command', seen, '{session}'],
    });
    expect(one).toBe('command');
    const [first = '', second = ''] = readFileSync(seen, 'utf8').split('\n');
    expect(first).toMatch(/^--session-id [\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
    expect(second).toBe(first.replace('--session-id', '--resume'));
  });

  test('that speaks the Agent Client Protocol', async () => {
    const { one } = await merges({
      kind: 'acp',
      profile: 'generic',
      command: process.execPath,
      args: [WORKER, 'acp'],
    });
    expect(one).toBe('acp');
  });

  test('that speaks ACP; orphaned processes of its step are killed, child processes of the agent are not', async () => {
    const seen = join(mkdtempSync(join(tmpdir(), 'conch-worker-')), 'seen');
    const args = [WORKER, 'acp', seen];
    await merges({ kind: 'acp', profile: 'generic', command: process.execPath, args });
    expect(readFileSync(seen, 'utf8')).toBe('held true, left false');
  });

  test('that connects to Conch, and reads its folder in the prompt', async () => {
    const port = await freePort();
    const { one } = await merges({ kind: 'remote' }, { remote: { port } }, ({ dataDir }) => {
      const token = addAgentToken(dataDir, 'web-a', { at: 0 });
      const program = spawn(process.execPath, [WORKER, 'remote', `ws://127.0.0.1:${port}/agent`], {
        env: { ...process.env, CONCH_AGENT_TOKEN: token },
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      closing.push(() => program.kill());
    });
    expect(one).toBe('remote');
  });

  test('that is a model with tools of a server, and marks usage without a known price', async () => {
    const mock = new LLMock({ port: 0, host: '127.0.0.1' });
    mock.on({ predicate: () => true }, async (request: ChatCompletionRequest) => answerOf(request));
    await mock.start();
    closing.push(() => mock.stop());
    const model = { provider: 'openai-compatible', model: 'test-model', apiKey: 'k', baseUrl: `${mock.url}/v1` };
    const { one, usage } = await merges(
      { kind: 'llm', ...model },
      {
        mcp: { files: { command: process.execPath, args: [WORKER, 'mcp'] } },
        tools: { allow: ['mcp__files__*'] },
      },
    );
    expect(one).toBe('mcp');
    expect(usage?.usage.input).toBeGreaterThan(0);
    expect(usage?.unpriced).toBe(true);
  });
});

/** The model commits by its tool in the first step, and says DONE in the second one. */
function answerOf({ messages }: ChatCompletionRequest): FixtureResponse {
  const last = JSON.stringify(messages.at(-1));
  if (messages.at(-1)?.role === 'tool') return { content: 'One step.' };
  if (last.includes('Go on with ticket')) return { content: 'It is finished.\nDONE' };
  const folder = /worktree of your own, (\S+), on the branch/.exec(last)?.[1] ?? '';
  return {
    content: '',
    toolCalls: [{ id: 'call-1', name: 'files__commit', arguments: JSON.stringify({ folder }) }],
  };
}
