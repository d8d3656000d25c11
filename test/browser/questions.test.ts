import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Question } from '../../src/turns/floor/settings.ts';
import type { JournalEntry } from '../../src/turns/view.ts';
import { hasBrowser, openBrowser } from './chromium.ts';
import { openStage } from './stage.ts';
import type { Stage } from './stage.ts';

const WITHIN = { timeout: 10_000, interval: 20 };
const PUBLISH = { question: 3, title: 'run "npm publish"', detail: 'npm publish --access public', shown: true };

/** Runs in the page, before it: notes what the system would be told to show. */
function noteNotifications(): void {
  const shown: { title: string; body: string; click: () => void }[] = [];
  class Noted extends EventTarget {
    static permission = 'granted';
    static requestPermission = async (): Promise<string> => 'granted';
    constructor(title: string, { body = '' }: { body?: string }) {
      super();
      shown.push({ title, body, click: () => this.dispatchEvent(new Event('click')) });
    }
    close(): void {}
  }
  Object.assign(window, { Notification: Noted, shown });
}

describe.runIf(hasBrowser)('a request for permission', () => {
  let browser: Browser;
  let page: Page;
  let stage: Stage;
  let here: string;
  let there: string;

  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(async () => browser?.close());
  beforeEach(async () => {
    stage = await openStage({ channels: 30, discord: true });
    [here = ''] = stage.channels;
    there = stage.channels[20] ?? '';
    page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    await page.addInitScript(noteNotifications);
    await page.goto(stage.url);
    await page.getByTestId('composer').focus();
  });
  afterEach(async () => {
    await page.close();
    await stage.close();
  });

  const asks = (channel: string, asked: Partial<Question> = {}): void =>
    stage.hold(channel, 'dev', { waitingFor: 'approval', approval: { ...PUBLISH, ...asked } });
  const lines = (): readonly string[] => stage.intake.commands.map(({ channel, line }) => `${channel} ${line}`);
  const settled = (): Promise<void> => page.locator('[data-testid="approval"][data-settled="true"]').waitFor();
  /** Goes to what is asked here, and waits until the keys go there. */
  const goThere = async (): Promise<void> => {
    await page.keyboard.press('Alt+a');
    await page.locator('[data-testid="reject"]:focus').waitFor();
  };

  test('T45 of another channel stands in the list, the title and the top bar, and is gone once it is answered', async () => {
    asks(there);
    const entry = page.locator(`[data-testid="channel"][data-channel="${there}"]`);
    await expect.poll(() => entry.innerText(), WITHIN).toContain('asks for a yes');
    await expect.poll(() => page.title(), WITHIN).toBe('✋ dev asks in #channel-21 · Conch');
    expect(await page.getByTestId('asks-elsewhere').innerText()).toContain('dev asks in #channel-21');
    expect(await page.getByTestId('approval').count()).toBe(0);
    stage.hold(there, 'dev');
    await expect.poll(() => page.getByTestId('asks-elsewhere').count(), WITHIN).toBe(0);
    expect(await page.title()).toBe('Conch');
    expect(await entry.innerText()).not.toContain('asks for a yes');
  });

  test('T45 is two keys away from the composer, in whichever channel it is', async () => {
    asks(there);
    await page.getByTestId('asks-elsewhere').waitFor();
    await page.keyboard.press('Alt+a');
    await settled();
    expect(await page.getByTestId('reject').evaluate((no) => no === document.activeElement)).toBe(true);
    await page.keyboard.press('a');
    await expect.poll(lines, WITHIN).toEqual([`${there} /allow 3`]);
  });

  test('T45 is rejected by r, and by no other key', async () => {
    asks(here);
    await settled();
    await goThere();
    for (const key of ['y', 'x', 'r']) await page.keyboard.press(key);
    await expect.poll(lines, WITHIN).toEqual([`${here} /reject 3`]);
  });

  test('T45 has its no chosen before: Enter rejects', async () => {
    asks(here);
    await settled();
    await goThere();
    await page.keyboard.press('Enter');
    await expect.poll(lines, WITHIN).toEqual([`${here} /reject 3`]);
  });

  test('says what a call is part of, why it is asked and what each answer does, with changes in colours', async () => {
    const about = {
      step: 3,
      steps: 100,
      tool: 'edit',
      folder: '/srv/app',
      why: 'no rule names it',
      says: 'I mend the typo',
    };
    const detail = 'a.txt (+1 -1)\n@@ -1 +1 @@\n-one\n+two';
    asks(here, { about, detail, always: [{ rule: 'edit(/a.txt)', words: 'edit exactly a.txt' }] });
    const box = page.getByTestId('approval');
    await expect.poll(() => box.innerText(), WITHIN).toContain('Step 3 of 100 · edit · in /srv/app');
    const text = await box.innerText();
    expect(text).toContain('Asked because no rule names it');
    expect(text).toContain('dev says: “I mend the typo”');
    expect(text).toContain('Always: edit exactly a.txt');
    await box.locator('.is-addition', { hasText: '+two' }).waitFor();
    expect(await box.locator('.is-deletion').innerText()).toBe('-one');
  });

  test('T45 is not answered by keys that were meant for the one before it', async () => {
    asks(here);
    await settled();
    await goThere();
    await page.evaluate(() => {
      const watch = new MutationObserver(() => {
        const next = document.querySelector('[data-testid="approval"][data-settled="false"]');
        next?.dispatchEvent(new KeyboardEvent('keydown', { key: 'a', bubbles: true }));
      });
      watch.observe(document.body, { childList: true, subtree: true });
    });
    asks(here, { question: 4, title: 'run "rm -rf build"' });
    await page.getByText('rm -rf build').first().waitFor();
    await settled();
    expect(lines()).toEqual([]);
  });

  test('T45 that does not yet stand whole in the channel cannot be allowed by its key', async () => {
    stage.hold(here, 'dev');
    await page.getByTestId('approval').waitFor({ state: 'detached' });
    asks(here, { shown: false });
    await settled();
    await goThere();
    await page.keyboard.press('a');
    await page.keyboard.press('r');
    await expect.poll(lines, WITHIN).toEqual([`${here} /reject 3`]);
  });

  const limit = { question: 5, title: 'used 200 of 200 steps', detail: '', shown: true, pause: 'turn_limit' } as const;

  test('of work beside the floor has its own answers, for its own run, and its limit has others', async () => {
    stage.hold(here, 'pm');
    const offered = [{ rule: 'execute(npm publish)', words: 'run exactly npm publish' }];
    stage.show(here, {
      asides: [
        { agent: 'dev', run: 2, question: { ...PUBLISH, question: 4, always: offered } },
        { agent: 'qa', run: 7, question: limit },
      ],
    });
    const card = (number: number) => page.getByLabel(`A request for permission (${number})`);
    await expect.poll(() => card(4).innerText(), WITHIN).toContain('dev, beside the floor, asks for a yes (4)');
    await card(4).getByTestId('always').click();
    await card(4).getByTestId('why').fill('not on a Friday');
    await card(4).getByTestId('reject').click();
    for (const id of ['allow', 'complete', 'reject']) await card(5).getByTestId(id).click();
    const given = [
      '/allow 4 always 1 of 2',
      '/reject 4 not on a Friday of 2',
      '/allow 5 of 7',
      '/run complete qa+ of 7',
      '/reject 5 of 7',
    ];
    const sent = () => stage.intake.commands.map(({ line, epoch }) => `${line} of ${epoch}`);
    await expect.poll(sent, WITHIN).toEqual(given);
  });

  test('of work beside the floor in another channel is heard of like any other', async () => {
    stage.show(there, { asides: [{ agent: 'dev', run: 2, question: PUBLISH }] });
    await expect.poll(() => page.title(), WITHIN).toBe('✋ dev asks in #channel-21 · Conch');
    await page.keyboard.press('Alt+a');
    await settled();
    await page.keyboard.press('a');
    await expect.poll(lines, WITHIN).toEqual([`${there} /allow 3`]);
  });

  test('work beside the floor stands in the panel, and is stopped there unless it stands still', async () => {
    stage.show(here, {
      asides: [
        { agent: 'dev', run: 2 },
        { agent: 'qa', run: 7, question: limit },
      ],
    });
    await page.getByTestId('aside-dev').getByRole('button', { name: 'Stop dev+' }).click();
    await expect.poll(lines, WITHIN).toEqual([`${here} /run abort dev+`]);
    const other = page.getByTestId('aside-qa');
    expect(await other.innerText()).toContain('stands still: used 200 of 200 steps');
    expect(await other.getByRole('button').allInnerTexts()).toEqual(['Answer', 'Status']);
    await other.getByRole('button', { name: 'Answer' }).click();
    await page.locator('[data-testid="reject"]:focus').waitFor();
    stage.show(here, { asides: [] });
    await page.getByTestId('asides').waitFor({ state: 'detached' });
  });

  test('T46 of another platform that was answered stands as its outcome, with the name of whoever answered', async () => {
    const at = Date.now();
    const elsewhere = stage.channels.find((id) => id.startsWith('discord:')) ?? '';
    const [, agent = ''] = stage.agents;
    const answered = { kind: 'answered', agent, question: 3, title: 'run "npm publish"', choice: 'allow' } as const;
    const told = (seq: number, more: object): JournalEntry => ({
      key: elsewhere,
      seq,
      at: at + seq,
      fact: {
        type: 'announced',
        announcement: { ...answered, by: 'Ada', at, ...more },
        key: 'approval:3',
        repeat: 2,
        shown: true,
      },
      hash: '',
    });
    const author = { kind: 'person', id: 'discord:1', name: 'Anna' } as const;
    const line = { line: 1, at: at - 9, author, text: 'Publish', attachments: [], message: 'm1', change: null };
    stage.queries.spoken.push(line);
    await page.locator(`[data-testid="channel"][data-channel="${elsewhere}"]`).click();
    stage.queries.entries.push(told(1, {}), told(2, { came: { status: 'complete', ms: 2_100 } }));
    stage.hold(elsewhere, agent);
    await expect
      .poll(() => page.getByTestId('answered').allInnerTexts(), WITHIN)
      .toEqual([expect.stringMatching(/^✅ Ada allowed once what dev asked: run "npm publish" .* → complete, 2\.1 s/)]);
  });

  test('T45 is notified only to whom it was asked for, once, and a click goes there', async () => {
    const shown = (): Promise<readonly string[]> =>
      page.evaluate(() =>
        (window as unknown as { shown: { title: string; body: string }[] }).shown.map(
          ({ title, body }) => `${title}: ${body}`,
        ),
      );
    asks(there);
    await page.getByTestId('asks-elsewhere').waitFor();
    expect(await shown()).toEqual([]);
    stage.hold(there, 'dev');
    await page.getByTestId('asks-elsewhere').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Notify me when an agent asks' }).click();
    asks(there, { question: 5 });
    await expect.poll(shown, WITHIN).toEqual(['dev asks in #channel-21: run "npm publish"']);
    asks(here, { question: 6 });
    await page.getByTestId('approval').waitFor();
    expect(await shown()).toHaveLength(1);
    await page.evaluate(() => (window as unknown as { shown: { click(): void }[] }).shown[0]?.click());
    await expect.poll(() => page.evaluate(() => location.hash), WITHIN).toBe(`#${encodeURIComponent(there)}`);
  });
});
