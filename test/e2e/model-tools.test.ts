import { LLMock } from '@copilotkit/aimock';
import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test, vi } from 'vitest';
import { CHANNEL, inPlace, readyPage } from './demo.ts';

const SERVER = fileURLToPath(new URL('../agents/mcp/fixtures/tools-server.ts', import.meta.url));

const NOTES = { path: 'notes.txt' };

/** Runs a model service: its model calls `tool` after each message of a person, then posts the tool's answer. */
async function withModel(tool: string, use: (url: string) => Promise<void>, input: object = NOTES): Promise<void> {
  const mock = new LLMock({ port: 0, host: '127.0.0.1' });
  let calls = 0;
  mock.on({ predicate: () => true }, ({ messages }) => {
    const last = messages.at(-1);
    if (last?.role !== 'tool') {
      calls += 1;
      return { content: '', toolCalls: [{ name: tool, arguments: JSON.stringify(input), id: `call-${calls}` }] };
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

/** An argument of the tool servers that tells them from other processes. */
const MARK = randomUUID();

const configured = (baseUrl: string, tools: object, more: object = {}) => ({
  mcp: { files: { command: process.execPath, args: [SERVER, MARK], ...more } },
  agents: [{ id: 'writer', backend: { kind: 'llm', provider: 'openai-compatible', model: 'm', baseUrl }, tools }],
  channels: [{ id: CHANNEL, agents: ['writer'] }],
  log: { level: 'info', pretty: false },
});

/** Returns the process ids of these tests' tool servers that run now. */
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

describe('a model with tools in a channel', () => {
  test.each([
    ['/allow 1', 'It says: wrote notes.txt'],
    ['/reject 1', 'It says: mcp__files__write did not run. People denied it. Continue without it.'],
  ])('waits for a decision in the channel, and follows %s', async (line, result) => {
    await withModel('files__write', async (url) => {
      await inPlace(configured(url, { ask: ['mcp__files__write'] }), async (_place, start) => {
        const bot = start();
        const page = await readyPage(bot);
        expect(servers()).toEqual([]);
        await page.say(CHANNEL, 'Please write it down');
        await page.until(() => page.view?.holder?.approval?.shown === true, 'a request for permission');
        expect(page.view?.holder).toMatchObject({ agent: 'writer', status: 'WAITING', waitingFor: 'approval' });
        expect(page.texts('system').join('\n')).toMatch(
          /✋ writer wants to run write notes\.txt \(files\)[\s\S]*path: notes\.txt/,
        );
        expect(await page.command(CHANNEL, '/answer 1 no')).toMatchObject({
          ok: false,
          text: expect.stringContaining('Request 1 takes no answer in words. Use /allow 1 or /reject 1'),
        });
        expect(await page.command(CHANNEL, line)).toMatchObject({ ok: true });
        await page.until(() => page.texts('agent').includes(result), result);
        await page.until(() => page.view?.condition === 'resting', 'the floor at rest');
        await bot.end('SIGTERM');
        await vi.waitFor(() => expect(servers()).toEqual([]), { timeout: 60_000 });
      });
    });
  });

  test('calls a tool without a second request once people always allow the call, and the answer shows the rule', async () => {
    await withModel('files__write', async (url) => {
      const config = configured(url, { ask: ['mcp__files__write'] }, { trusted: true });
      await inPlace(config, async (_place, start) => {
        const bot = start();
        const page = await readyPage(bot);
        await page.say(CHANNEL, 'Please write it down');
        await page.until(() => page.view?.holder?.approval?.shown === true, 'a request for permission');
        expect(await page.command(CHANNEL, '/allow 1 always')).toMatchObject({
          text: expect.stringContaining('Always allowed: mcp__files__write(path=notes.txt)'),
        });
        await page.until(() => page.texts('agent').length === 1, 'the answer');
        await page.say(CHANNEL, 'And again');
        await page.until(() => page.texts('agent').length === 2, 'the second answer');
        expect(page.texts('system').filter((text) => text.includes('mcp__files__write'))).toHaveLength(1);
        await bot.end('SIGTERM');
      });
    });
  });

  test('needs approval for an allowed tool whose description changed over a restart, once', async () => {
    await withModel('files__echo', async (url) => {
      const config = configured(url, { allow: ['mcp__files__echo'] });
      await inPlace(config, async ({ configFile }, start) => {
        const bot = start();
        const page = await readyPage(bot);
        await page.say(CHANNEL, 'Say it');
        await page.until(() => page.texts('agent').length === 1, 'the answer, unasked');
        await bot.end('SIGTERM');
        const another = { command: process.execPath, args: [SERVER, MARK, 'another'] };
        writeFileSync(configFile, JSON.stringify({ ...config, mcp: { files: another } }));
        const again = start();
        const later = await readyPage(again);
        await later.say(CHANNEL, 'And again');
        await later.until(() => later.view?.holder?.approval?.shown === true, 'a question');
        const told = later.texts('system').join('\n');
        expect(told).toContain('description is: Says it again, and keeps it');
        await later.command(CHANNEL, '/allow 1');
        await later.until(() => later.texts('agent').length === 2, 'the second answer');
        await later.say(CHANNEL, 'Once more');
        await later.until(() => later.texts('agent').length === 3, 'the third answer, unasked');
        await again.end('SIGTERM');
      });
    });
  });

  test('calls a tool that a rule allows without a request; SIGKILL of Conch ends the tool server too', async () => {
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

describe('a tool server that asks people a question', () => {
  const form = {
    message: 'Which colour?',
    requestedSchema: {
      type: 'object',
      properties: { colour: { type: 'string', enum: ['red', 'blue'] } },
      required: ['colour'],
    },
  };
  const config = (url: string) => {
    const server = { command: process.execPath, args: [SERVER, MARK, 'tool=ask'], elicitation: true };
    return { ...configured(url, { allow: ['mcp__files__ask'] }), mcp: { files: server } };
  };
  const isAsked = (page: Awaited<ReturnType<typeof readyPage>>, question: number) =>
    page.until(() => {
      const approval = page.view?.holder?.approval;
      return approval?.question === question && approval.shown;
    }, `question ${question}`);

  test('has the question shown in the channel, and gets the first valid answer', async () => {
    const use = async (url: string) =>
      await inPlace(config(url), async (_place, start) => {
        const bot = start();
        const page = await readyPage(bot);
        await page.say(CHANNEL, 'Paint it');
        await isAsked(page, 1);
        const told = page.texts('system').join('\n');
        expect(told).toContain('✋ writer asks (1): files asks: Which colour?');
        expect(told).toContain('colour (required, one of red, blue)');
        expect(told).toContain(
          'Answer in the form, or with /answer 1 <colour>. The channel will not show your answer.',
        );
        expect(await page.command(CHANNEL, '/answer 1 green')).toMatchObject({
          ok: false,
          text: expect.stringContaining('colour: Invalid option'),
        });
        expect(await page.command(CHANNEL, '/answer 1 Blue')).toMatchObject({ ok: true });
        const result = 'It says: {"action":"accept","content":{"colour":"blue"}}';
        await page.until(() => page.texts('agent').includes(result), result);
        await page.until(
          () => page.texts('system').join('\n').includes('✅ You answered writer: files asks: Which colour? · '),
          'the answer in place of the question',
        );
        const log = await page.command(CHANNEL, '/run log writer');
        expect(log.text.split('\n').map((line) => line.replace(/.* · /, ''))).toEqual([
          expect.stringMatching(/^allowed by rule "mcp__files__ask" → complete/),
          expect.stringMatching(/^allowed once "mcp__files__ask" by You → complete/),
        ]);
        await bot.end('SIGTERM');
      });
    await withModel('files__ask', use, form);
  });

  test('gets "decline" when people deny the request', async () => {
    const use = async (url: string) =>
      await inPlace(config(url), async (_place, start) => {
        const bot = start();
        const page = await readyPage(bot);
        await page.say(CHANNEL, 'Paint it');
        await isAsked(page, 1);
        expect(await page.command(CHANNEL, '/reject 1')).toMatchObject({ ok: true });
        const result = 'It says: {"action":"decline"}';
        await page.until(() => page.texts('agent').includes(result), result);
        await bot.end('SIGTERM');
      });
    await withModel('files__ask', use, form);
  });

  test('has its question withdrawn by a restart, and the outcome of the call is unknown', async () => {
    const use = async (url: string) =>
      await inPlace(config(url), async (_place, start) => {
        const bot = start();
        const page = await readyPage(bot);
        await page.say(CHANNEL, 'Paint it');
        await isAsked(page, 1);
        await bot.end('SIGKILL');
        const again = start();
        const later = await readyPage(again);
        await later.until(
          () => later.texts('agent').some((text) => text.includes('outcome of the call is unknown')),
          'the end of the call',
        );
        expect(await later.command(CHANNEL, '/answer 1 blue')).toMatchObject({ ok: false });
        const over = '⌛ No longer needed: an answer to writer: files asks: Which colour?';
        await later.until(() => later.texts('system').join('\n').includes(over), over);
        await again.end('SIGTERM');
      });
    await withModel('files__ask', use, form);
  });
});
