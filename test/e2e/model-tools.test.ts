import { LLMock } from '@copilotkit/aimock';
import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test, vi } from 'vitest';
import { CHANNEL, inPlace, readyPage } from './demo.ts';

const SERVER = fileURLToPath(new URL('../agents/mcp/fixtures/tools-server.ts', import.meta.url));

/** A model that calls a tool once after each message of a person, and then says what came of it. */
async function withModel(tool: string, use: (url: string) => Promise<void>): Promise<void> {
  const mock = new LLMock({ port: 0, host: '127.0.0.1' });
  let calls = 0;
  mock.on({ predicate: () => true }, ({ messages }) => {
    const last = messages.at(-1);
    if (last?.role !== 'tool') {
      calls += 1;
      return { content: '', toolCalls: [{ name: tool, arguments: '{"path":"notes.txt"}', id: `call-${calls}` }] };
    }
    const told = typeof last.content === 'string' ? last.content : '';
    const [, inside = told] = /=== [\w-]+ ===\n([\s\S]*)\n=== end /.exec(told) ?? [];
    return { content: `It says: ${inside}` };
  });
  await mock.start();
  try {
    await use(`${mock.url}/v1`);
  } finally {
    await mock.stop();
  }
}

/** By which the servers of these tests are told from all others. */
const MARK = randomUUID();

const configured = (baseUrl: string, tools: object, more: object = {}) => ({
  mcp: { files: { command: process.execPath, args: [SERVER, MARK], ...more } },
  agents: [{ id: 'writer', backend: { kind: 'llm', provider: 'openai-compatible', model: 'm', baseUrl }, tools }],
  channels: [{ id: CHANNEL, agents: ['writer'] }],
  log: { level: 'info', pretty: false },
});

/** The servers of tools that run on this machine. */
function servers(): readonly string[] {
  return readdirSync('/proc').filter((pid) => {
    const path = join('/proc', pid, 'cmdline');
    return /^\d+$/.test(pid) && existsSync(path) && readCommand(path).includes(MARK);
  });
}

function readCommand(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

describe('a model with tools, in a channel', () => {
  test.each([
    ['/allow 1', 'It says: wrote notes.txt'],
    ['/reject 1', 'It says: People said no about mcp__files__write: it was not run. Go on without it.'],
  ])('waits for the channel, and goes by %s', async (line, result) => {
    await withModel('files__write', async (url) => {
      await inPlace(configured(url, { ask: ['mcp__files__write'] }), async (_place, start) => {
        const bot = start();
        const page = await readyPage(bot);
        expect(servers()).toEqual([]);
        await page.say(CHANNEL, 'Please write it down');
        await page.until(() => page.view?.holder?.approval?.shown === true, 'a request for permission');
        expect(page.view?.holder).toMatchObject({ agent: 'writer', status: 'WAITING', waitingFor: 'approval' });
        expect(page.texts('system').join('\n')).toMatch(
          /✋ writer asks for a yes \(1\): mcp__files__write[\s\S]*path: notes\.txt/,
        );
        expect(await page.command(CHANNEL, line)).toMatchObject({ ok: true });
        await page.until(() => page.texts('agent').includes(result), result);
        await page.until(() => page.view?.condition === 'resting', 'the floor at rest');
        await bot.end('SIGTERM');
        await vi.waitFor(() => expect(servers()).toEqual([]), { timeout: 60_000 });
      });
    });
  });

  test('is asked once when it is allowed for always, by a rule that is shown before', async () => {
    await withModel('files__write', async (url) => {
      const config = configured(url, { ask: ['mcp__files__write'] }, { trusted: true });
      await inPlace(config, async (_place, start) => {
        const bot = start();
        const page = await readyPage(bot);
        await page.say(CHANNEL, 'Please write it down');
        await page.until(() => page.view?.holder?.approval?.shown === true, 'a request for permission');
        expect(await page.command(CHANNEL, '/allow 1 always')).toMatchObject({
          text: expect.stringContaining('from now on by the rule mcp__files__write(path=notes.txt)'),
        });
        await page.until(() => page.texts('agent').length === 1, 'the answer');
        await page.say(CHANNEL, 'And again');
        await page.until(() => page.texts('agent').length === 2, 'the second answer');
        expect(page.texts('system').filter((text) => text.includes('mcp__files__write'))).toHaveLength(1);
        await bot.end('SIGTERM');
      });
    });
  });

  test('is not asked about what a rule allows, and leaves nothing behind when its program is killed', async () => {
    await withModel('files__echo', async (url) => {
      await inPlace(configured(url, { allow: ['mcp__files__echo'] }), async (_place, start) => {
        const bot = start();
        const page = await readyPage(bot);
        await page.say(CHANNEL, 'Say it');
        await page.until(() => page.texts('agent').includes('It says: (nothing)'), 'the answer');
        expect(servers()).toHaveLength(1);
        await bot.end('SIGKILL');
        await vi.waitFor(() => expect(servers()).toEqual([]), { timeout: 60_000 });
      });
    });
  });
});
