import { describe, expect, test } from 'vitest';
import { CHANNEL, inPlace, readyPage } from './demo.ts';

const AGENT = new URL('fixtures/careful-agent.ts', import.meta.url).pathname;
const CONFIG = {
  agents: [{ id: 'coder', backend: { kind: 'acp', command: process.execPath, args: [AGENT] } }],
  channels: [{ id: CHANNEL, agents: ['coder'] }],
  log: { level: 'info', pretty: false },
};

describe('a coding agent that asks before it acts', () => {
  test.each([
    ['/allow 1', 'It is wiped.'],
    ['/reject 1', 'I left it alone.'],
  ])('waits for a decision in the channel, and follows %s', async (line, result) => {
    await inPlace(CONFIG, async (_place, start) => {
      const bot = start();
      const page = await readyPage(bot);
      await page.say(CHANNEL, 'Please tidy up');
      await page.until(() => page.view?.holder?.approval?.shown === true, 'a request for permission');
      expect(page.view?.holder).toMatchObject({ agent: 'coder', status: 'WAITING', waitingFor: 'approval' });
      await page.until(
        () => /✋ coder wants to run wipe the disk[\s\S]*rm -r build/.test(page.texts('system').join('\n')),
        'the words for it',
      );
      expect(await page.command(CHANNEL, line)).toMatchObject({ ok: true });
      await page.until(() => page.texts('agent').includes(result), result);
      await page.until(() => page.view?.condition === 'resting', 'the floor at rest');
      expect(await page.command(CHANNEL, line)).toMatchObject({ ok: false });
      await bot.end('SIGTERM');
    });
  });

  test.each([
    ['allowed', { allow: ['Bash(rm -r build)'] }, 'It is wiped.'],
    ['refused', { deny: ['Bash(rm *)'], default: 'allow' }, 'I left it alone.'],
  ])('is %s by a rule, without a request to people', async (_what, tools, result) => {
    await inPlace({ ...CONFIG, tools }, async (_place, start) => {
      const bot = start();
      const page = await readyPage(bot);
      await page.say(CHANNEL, 'Please tidy up');
      await page.until(() => page.texts('agent').includes(result), result);
      expect(page.texts('system').join('\n')).not.toContain('wants to run');
      await bot.end('SIGTERM');
    });
  });

  test('that was killed while its request was open acts on a decision after the restart, in a new epoch', async () => {
    await inPlace(CONFIG, async (_place, start) => {
      const first = start();
      const page = await readyPage(first);
      await page.say(CHANNEL, 'Please tidy up');
      await page.until(() => page.view?.holder?.approval != null, 'a request for permission');
      await first.end('SIGKILL');
      const again = await readyPage(start());
      const counts = 'Your decision counts once, for the same request';
      await again.until(() => again.texts('system').join('\n').includes(counts), counts);
      await again.until(() => again.view?.holder?.approval?.shown === true, 'the question');
      expect(await again.command(CHANNEL, '/allow 1')).toMatchObject({ ok: true });
      await again.until(() => again.texts('agent').includes('It is wiped.'), 'the result');
      expect(again.view?.epoch).toBe(2);
    });
  });
});
