import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CHANNEL, inPlace, readyPage } from './demo.ts';
import type { Page } from '../kill/page.ts';

/** Waits until an agent has posted a text that matches. */
const said = (page: Page, text: RegExp) =>
  page.until(() => page.texts('agent').some((each) => text.test(each)), text.source);

describe('the demo without a configuration', () => {
  test('has a tool that is allowed, one that needs approval, one that is denied and one with unknown outcome', async () => {
    await inPlace('{}', async (place, start) => {
      const bot = start();
      const page = await readyPage(bot);
      await page.say(CHANNEL, 'dev: read the note');
      await said(page, /^scratch__read_file: There is no such note\.$/);
      await page.say(CHANNEL, 'dev: write a note');
      await page.until(() => page.view?.holder?.approval?.shown === true, 'a question');
      const { question } = page.view?.holder?.approval ?? {};
      expect(page.texts('system').join('\n')).toMatch(
        /dev wants to run write_file note\.txt \(scratch\)[\s\S]*text: One at a time has the floor\./,
      );
      expect(await page.command(CHANNEL, `/allow ${question} always`)).toMatchObject({ ok: true });
      await said(page, /^scratch__write_file: note\.txt is written\.$/);
      expect(readFileSync(join(place.dataDir, 'scratch', 'note.txt'), 'utf8')).toBe('One at a time has the floor.');
      await page.say(CHANNEL, 'dev: delete the note');
      await said(
        page,
        /^scratch__delete_file: AGENT_TOOL_NOT_ALLOWED: .* is denied by rule "mcp__scratch__delete_file"/,
      );
      expect(existsSync(join(place.dataDir, 'scratch', 'note.txt'))).toBe(true);
      await page.say(CHANNEL, 'dev: break off');
      await page.until(() => page.view?.holder?.approval?.shown === true, 'another question');
      await page.command(CHANNEL, `/allow ${page.view?.holder?.approval?.question}`);
      await said(page, /^scratch__break_off: .*Nobody knows what the call has done/);
      await bot.end('SIGTERM');
    });
  });
});
