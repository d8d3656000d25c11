import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Bot } from './bot.ts';
import { hasBrowser, openBrowser } from './chromium.ts';

const WITHIN = { timeout: 60_000, interval: 50 };

describe.runIf(hasBrowser)('the page in a browser', () => {
  const bot = new Bot();
  let browser: Browser;
  let page: Page;

  beforeAll(async () => {
    await bot.start();
    browser = await openBrowser();
    page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    await page.goto(await bot.link());
  });

  afterAll(async () => {
    await browser?.close();
    await bot.remove();
  });

  const say = async (text: string): Promise<void> => {
    await page.getByTestId('composer').fill(text);
    await page.getByTestId('composer').press('Enter');
  };
  const holder = (): Promise<string | null> => page.getByTestId('holder').getAttribute('data-agent');
  const holds = (agent: string): Promise<void> => vi(async () => expect(await holder()).toBe(agent));
  const rests = (): Promise<void> => holds('');
  const speaks = (agent: string): Promise<void> =>
    vi(async () => expect(await page.getByTestId('draft').getAttribute('data-speaker')).toBe(agent));
  /** Waits until the agent's draft matches `words`: its answer has begun, so a stop after this cuts the answer. */
  const says = (agent: string, words: RegExp): Promise<void> =>
    vi(async () => {
      await speaks(agent);
      expect(await page.getByTestId('draft').innerText()).toMatch(words);
    });
  const seat = (agent: string): Promise<string | null> => page.getByTestId(`seat-${agent}`).getAttribute('data-status');
  const said = (text: string | RegExp): Locator => page.getByTestId('message').filter({ hasText: text });
  const saidBy = (agent: string, text: string | RegExp): Locator =>
    page.locator(`[data-testid=message][data-speaker=${agent}]`).filter({ hasText: text });

  test('one typed message leads to an exchange of the three agents', async () => {
    await shows(page.getByTestId('connection'), /connected/i);
    await say('Please write a tool that counts words');
    await shows(page.getByTestId('holder'), /pm/);
    await vi(async () => expect(await seat('pm')).toBe('ACTIVE'));
    for (const agent of ['pm', 'dev', 'qa']) await vi(async () => expect(await speakers()).toContain(agent));
    await rests();
    expect(await speakers()).toEqual(['pm', 'dev', 'qa']);
  });

  test('a message sent mid-turn reaches the holder, and its receipt shows that', async () => {
    await say('pm: slow');
    await speaks('pm');
    await say('pm, mind the umlauts');
    await shows(said('mind the umlauts'), /↪️/);
    await vi(async () => expect(await page.getByTestId('draft').innerText()).toMatch(/umlauts/));
  });

  test('skip gives the floor to the next agent', async () => {
    expect(await holder()).toBe('pm');
    await page.getByTestId('skip').click();
    await holds('dev');
    await vi(async () => expect(await seat('pm')).toBe('QUEUED'));
  });

  test('stop ends the exchange and announces which agent it stopped', async () => {
    await say('dev: slow');
    await says('dev', /slow|take my time/);
    await page.getByTestId('stop').click();
    await rests();
    await shows(said(/⏹ Stopped/).first(), /Stopped (dev|qa)/);
  });

  test('a message in the mode interrupt pauses the turn, which answers it and continues', async () => {
    await say('/floor mode interrupt');
    await shows(page.getByTestId('answer').last(), /interrupt/);
    await say('qa: slow');
    await says('qa', /take my time/);
    await say('qa: which browsers did you try?');
    await shows(said('which browsers'), /⚡/);
    await shows(saidBy('qa', /browsers/), /first/i);
    await shows(saidBy('qa', 'That was all of it'), /all of it/);
    await rests();
  });

  test('an agent whose process dies is announced with the cause, and the floor goes on', async () => {
    await say('/floor mode inject');
    await say('dev: crash');
    await shows(said(/dev disconnected, skipping turn: exited with code 137/).first(), /⚠️/);
    await vi(async () => expect(await seat('dev')).toBe('QUEUED'));
    await rests();
  });

  test('the open page shows the same turn continuing after the bot was killed and restarted', async () => {
    await say('qa: slow');
    await speaks('qa');
    const before = await page.getByTestId('message').count();
    const asked = await said('qa: slow').count();
    await bot.kill();
    await vi(async () => expect(await page.getByTestId('connection').getAttribute('data-state')).not.toBe('open'));
    await bot.start();
    await shows(page.getByTestId('connection'), /^connected/i);
    await holds('qa');
    await vi(async () => expect(await seat('qa')).toBe('ACTIVE'));
    await speaks('qa');
    await shows(said(/qa continues after a restart/).first(), /restart/);
    expect(await page.getByTestId('message').count()).toBeGreaterThanOrEqual(before);
    expect(await said('qa: slow').count()).toBe(asked);
    await page.getByTestId('stop').click();
    await rests();
  });

  test('the conversation, the holder and the composer fit the width of a phone', async () => {
    const phone = await browser.newPage({ viewport: { width: 390, height: 844 } });
    await phone.goto(await bot.link());
    for (const id of ['composer', 'holder', 'conversation', 'send']) {
      const box = await phone.getByTestId(id).boundingBox();
      const { x, width } = box ?? { x: -1, width: 0 };
      expect({ id, isWithin: x >= 0 && width > 0 && x + width <= 390 }).toEqual({ id, isWithin: true });
    }
    await phone.close();
  });

  test.each([390, 320])(
    'the page is never wider than a phone of %i pixels, while it connects or without a connection',
    async (width) => {
      const phone = await browser.newPage({ viewport: { width, height: 844 } });
      // Records, in each frame, the state of the connection with the width of the document.
      await phone.addInitScript(() => {
        const seen = new Set<string>();
        Object.assign(window, { seen });
        const look = (): void => {
          const state = document.querySelector('[data-testid=connection]')?.getAttribute('data-state');
          if (state !== undefined) seen.add(`${state} ${document.documentElement.scrollWidth}`);
          requestAnimationFrame(look);
        };
        requestAnimationFrame(look);
      });
      const seen = (): Promise<string[]> => phone.evaluate('[...seen]');
      await phone.goto(await bot.link());
      await vi(async () => expect(await seen()).toContain(`open ${width}`));
      await bot.kill();
      await vi(async () => expect(await seen()).toContain(`lost ${width}`));
      await bot.start();
      expect((await seen()).filter((each) => !each.endsWith(` ${width}`))).toEqual([]);
      await phone.close();
    },
  );

  async function speakers(): Promise<readonly string[]> {
    const all = await page
      .getByTestId('message')
      .evaluateAll((items) => items.map((item) => item.getAttribute('data-speaker')));
    return [...new Set(all.filter((speaker) => speaker !== null))].filter((id) => ['pm', 'dev', 'qa'].includes(id));
  }
});

function vi(check: () => Promise<void>): Promise<void> {
  return expect
    .poll(
      () =>
        check().then(
          () => null,
          (error: unknown) => String(error),
        ),
      WITHIN,
    )
    .toBeNull();
}

function shows(place: Locator, text: RegExp): Promise<void> {
  return expect.poll(() => place.innerText().catch(() => ''), WITHIN).toMatch(text);
}
