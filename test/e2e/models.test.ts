import { LLMock } from '@copilotkit/aimock';
import { describe, expect, test } from 'vitest';
import { CHANNEL, inPlace, readyPage } from './demo.ts';

/** Runs a model service whose answer names the role in the prompt. Any `status` but 200: answers with an error. */
async function withService(use: (mock: LLMock) => Promise<void>, status = 200): Promise<void> {
  const mock = new LLMock({ port: 0, host: '127.0.0.1' });
  mock.on({ predicate: () => true }, (request) => {
    const text = request.messages
      .map(({ content }) => (typeof content === 'string' ? content : JSON.stringify(content)))
      .join('\n');
    const who = /product manager|developer|tester/.exec(text)?.[0] ?? 'nobody';
    if (status !== 200) return { error: { message: 'invalid x-api-key', type: 'authentication_error' }, status };
    return { content: `The ${who} has read it.` };
  });
  await mock.start();
  try {
    await use(mock);
  } finally {
    await mock.stop();
  }
}

describe('the demo with a model in the environment', () => {
  test.each([
    ['OPENAI_BASE_URL', (url: string) => ({ OPENAI_BASE_URL: `${url}/v1`, CONCH_MODEL: 'small' })],
    ['OPENAI_API_KEY', (url: string) => ({ OPENAI_API_KEY: 'sk-test-0123456789', OPENAI_BASE_URL: `${url}/v1` })],
    [
      'ANTHROPIC_API_KEY',
      (url: string) => ({ ANTHROPIC_API_KEY: 'sk-ant-0123456789', ANTHROPIC_BASE_URL: `${url}/v1` }),
    ],
  ])('lets its agents answer by the model when %s is set, and prints that in one line', async (_name, env) => {
    await withService(async (mock) => {
      await inPlace('{}', async (_place, start) => {
        const bot = start({ env: env(mock.url) });
        const page = await readyPage(bot);
        expect(bot.out()).toMatch(/^The demo's agents speak through \S+ \(.+\)\.$/m);
        await page.say(CHANNEL, 'Please build a clock');
        await page.until(() => page.texts('agent').length === 3, 'an answer of each agent');
        expect(page.texts('agent')).toEqual([
          'The product manager has read it.',
          'The developer has read it.',
          'The tester has read it.',
        ]);
        await bot.end('SIGTERM');
      });
    });
  });

  test('T23 announces once in the channel which agents are unavailable, when their API key is rejected', async () => {
    await withService(async (mock) => {
      await inPlace('{}', async (_place, start) => {
        const bot = start({ env: { OPENAI_API_KEY: 'sk-test-0123456789', OPENAI_BASE_URL: `${mock.url}/v1` } });
        const page = await readyPage(bot);
        await page.say(CHANNEL, 'Please build a clock');
        await page.until(() => page.texts('system').some((text) => text.includes('No agents available')), 'the outage');
        expect(page.texts('system')).toEqual([
          '⚠️ No agents available in this channel: pm, dev, qa: API key rejected (401)',
        ]);
        expect(bot.out()).not.toContain('sk-test-0123456789');
        await bot.end('SIGTERM');
      });
    }, 401);
  });
});
