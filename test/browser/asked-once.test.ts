import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { announcementText } from '../../src/turns/text/announcement-values.ts';
import { completeTexts } from '../../src/config/announcements.ts';
import { requestPostId } from '../../src/turns/floor/seats.ts';
import type { Announcement } from '../../src/turns/floor/announcement.ts';
import type { Question } from '../../src/turns/floor/settings.ts';
import { Bot } from './bot.ts';
import { hasBrowser, openBrowser } from './chromium.ts';
import { openStage } from './stage.ts';
import type { Stage } from './stage.ts';
import { FORM } from './views.ts';

const WITHIN = { timeout: 60_000, interval: 20 };
const DESK = { width: 1280, height: 820 };
const PHONE = { width: 390, height: 844 };
const TEXTS = completeTexts({});
const about = {
  step: 3,
  steps: 100,
  tool: 'edit',
  folder: '/srv/app',
  why: 'no rule covers it',
  says: 'I mend it',
} as const;
const plain = { shown: true, about };
const LONG = Array.from({ length: 80 }, (_, line) => `+line ${line} of the long file`).join('\n');

/** Questions of each kind: the kind, the question, and a text that appears only in this question. */
const KINDS: readonly (readonly [string, Omit<Question, 'question'>, string])[] = [
  ['an approval', { ...plain, key: 'K', title: 'scratch: write_file a.txt', detail: 'text: the tide' }, 'the tide'],
  [
    'a long approval',
    { ...plain, key: 'K', title: 'edit a.txt', detail: `a.txt (+80)\n@@ -0,0 +1,80 @@\n${LONG}` },
    'line 79 of',
  ],
  [
    'a step limit',
    { key: 'K', title: 'used 9 of 9 steps', detail: 'A yes lets it go on', shown: true, pause: 'turn_limit' },
    'used 9 of 9 steps',
  ],
  ['a form', { ...FORM, key: 'K' }, 'at least 3 characters'],
  [
    'a link',
    {
      ...plain,
      key: 'K',
      title: 'hub asks: Sign in',
      detail: 'https://hub.example/login',
      about: { ...about, answer: 'done' },
    },
    'https://hub.example/login',
  ],
];

/** Runs in the page: returns how many times a text is visible. */
function timesSeen(words: string): number {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let times = 0;
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const parent = node.parentElement;
    const isSeen = parent?.closest('.unseen') === null && parent.checkVisibility();
    if (isSeen) times += (node.textContent ?? '').split(words).length - 1;
  }
  return times;
}

/** Runs in the page: returns the labels of a question's buttons that are outside the window or covered; `null`: none. */
function outOfSight(id: string): readonly string[] | null {
  const buttons = [...document.querySelectorAll<HTMLElement>(`[data-asked="${id}"] [role="group"] button`)];
  if (buttons.length === 0) return null;
  return buttons
    .filter((button) => {
      const { left, top, right, bottom } = button.getBoundingClientRect();
      const there = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
      return top < 0 || bottom > innerHeight || left < 0 || right > innerWidth || there?.closest('button') !== button;
    })
    .map((button) => button.innerText);
}

describe.runIf(hasBrowser)('T69 a question', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(async () => browser?.close());

  const withStage = async (size: typeof DESK, look: (stage: Stage, page: Page, here: string) => Promise<void>) => {
    const stage = await openStage();
    const page = await browser.newPage({ viewport: size });
    try {
      await page.goto(stage.link());
      await page.locator('[data-testid="connection"][data-state="open"]').waitFor();
      const here = stage.channels[0] ?? '';
      for (let place = 0; place < 12; place += 1) await stage.post(here, 'pm', `Point ${place}\n\nof the plan`);
      await look(stage, page, here);
    } finally {
      await page.close();
      await stage.close();
    }
  };
  const post = (stage: Stage, here: string, asked: Question): Promise<string> => {
    const { shown: _shown, key: _key, ...said } = asked;
    const announcement = { kind: 'approval', agent: 'dev', ...said } as Announcement;
    return stage.post(here, null, announcementText(announcement, TEXTS, (id) => id, 1) ?? '', requestPostId(asked));
  };
  const seenOnce = async (page: Page, words: string): Promise<void> => {
    await expect.poll(() => page.evaluate(timesSeen, words), WITHIN).toBe(1);
  };
  const shot = (page: Page, name: string) =>
    process.env['SHOTS'] === undefined
      ? null
      : page.screenshot({ path: `${process.env['SHOTS']}/${name.replaceAll(' ', '-')}.png` });

  for (const size of [DESK, PHONE]) {
    test.each(KINDS)(`T69 as %s is shown once at ${size.width} px, with buttons in view`, async (name, kind, words) => {
      await withStage(size, async (stage, page, here) => {
        const asked: Question = { ...kind, question: 3 };
        await post(stage, here, asked);
        stage.hold(here, 'dev', { waitingFor: 'approval', approval: asked });
        await page.getByTestId('approval').waitFor();
        await seenOnce(page, words);
        await seenOnce(page, asked.title);
        await expect.poll(() => page.evaluate(outOfSight, 'approval:3'), WITHIN).toEqual([]);
        await shot(page, `${name} ${size.width}`);
        stage.hold(here, 'dev');
        await page.getByTestId('approval').waitFor({ state: 'detached' });
      });
    });

    test(`T69 about trust in a folder is shown once at ${size.width} px, with buttons in view`, async () => {
      await withStage(size, async (stage, page, here) => {
        const trust = { agent: 'qa', id: 'a1b2', folder: '/work/site', detail: '.mcp.json (12 bytes)', shown: true };
        const { shown: _shown, ...said } = trust;
        const text = announcementText({ kind: 'trust', ...said }, TEXTS, (id) => id, 1) ?? '';
        await stage.post(here, null, text, requestPostId(trust));
        stage.show(here, { trust: [trust] });
        await seenOnce(page, '.mcp.json (12 bytes)');
        await expect.poll(() => page.evaluate(outOfSight, 'trust:qa a1b2'), WITHIN).toEqual([]);
        expect(await page.getByTestId('waiting').innerText()).toContain('qa asks');
        await shot(page, `trust ${size.width}`);
      });
    });

    test(`T69 among several gets the focus in its turn by a button of the top bar at ${size.width} px`, async () => {
      await withStage(size, async (stage, page, here) => {
        const asked = [3, 4, 5].map((question) => ({
          ...plain,
          question,
          key: `K${question}`,
          title: `do ${question}`,
          detail: `thing ${question}`,
        }));
        for (const one of asked) {
          await post(stage, here, one);
          for (let place = 0; place < 8; place += 1) await stage.post(here, 'pm', `Between ${place}`);
        }
        const [own, ...others] = asked;
        stage.hold(here, 'dev', { waitingFor: 'approval', approval: own ?? null });
        stage.show(here, {
          asides: others.map((question, run) => ({ agent: run === 0 ? 'qa' : 'pm', run, question })),
        });
        await page.getByTestId('approval').nth(2).waitFor();
        expect((await page.getByTestId('waiting').innerText()).replaceAll(/\s+/g, ' ')).toContain('dev asks +2');
        for (const number of [3, 4, 5, 3]) {
          await page.getByTestId('waiting').click();
          await page.locator(`[data-asked="approval:${number}"] [data-testid="reject"]:focus`).waitFor();
          await expect.poll(() => page.evaluate(outOfSight, `approval:${number}`), WITHIN).toEqual([]);
          await seenOnce(page, `thing ${number}`);
        }
        await shot(page, `several ${size.width}`);
      });
    });
  }

  test('T67 disappears within 500 ms after it ended without an answer on this page', async () => {
    await withStage(DESK, async (stage, page, here) => {
      const asked: Question = { ...plain, question: 3, key: 'K', title: 'do it', detail: 'a thing' };
      stage.hold(here, 'dev', { waitingFor: 'approval', approval: asked });
      await page.getByTestId('allow').waitFor();
      stage.hold(here, 'dev');
      await page.getByTestId('allow').waitFor({ state: 'detached', timeout: 500 });
      expect(await page.locator('[data-asked]').count()).toBe(0);
      expect(await page.getByTestId('waiting').count()).toBe(0);
    });
  });

  test('T69 of a running agent is shown once, before and after a reload, and its outcome is shown once', async () => {
    const bot = new Bot({ log: { level: 'fatal' } });
    const page = await browser.newPage({ viewport: PHONE });
    try {
      await bot.start();
      await page.goto(await bot.link());
      await page.locator('[data-testid="connection"][data-state="open"]').waitFor();
      await page.getByTestId('composer').fill('dev: write a note');
      await page.getByTestId('send').click();
      await page.getByTestId('approval').waitFor();
      const title = await page.locator('.asked-title strong').innerText();
      expect(title).toBe('write_file note.txt (scratch)');
      await seenOnce(page, title);
      const id = await idOf(page);
      await expect.poll(() => page.evaluate(outOfSight, id), WITHIN).toEqual([]);
      await shot(page, 'real');
      await page.reload();
      await page.getByTestId('approval').waitFor();
      await seenOnce(page, title);
      await page.getByTestId('allow').click();
      await page.getByTestId('approval').waitFor({ state: 'detached' });
      await page.getByText('✅').first().waitFor();
      await seenOnce(page, 'write_file note.txt');
    } finally {
      await page.close();
      await bot.remove();
    }
  });
});

async function idOf(page: Page): Promise<string> {
  return (await page.locator('[data-asked]').getAttribute('data-asked')) ?? '';
}
