import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { hasBrowser, openBrowser } from './chromium.ts';
import { openStage } from './stage.ts';
import type { Stage } from './stage.ts';
import { sizesFor, THEMES, violations, withView } from './views.ts';

const WITHIN = { timeout: 60_000, interval: 20 };
const DAY_MS = 86_400_000;
/** Hues closer than this angle (degrees) look alike. A colour below this chroma looks grey. */
const HUE_APART = 30;
const LEAST_CHROMA = 0.06;

describe.runIf(hasBrowser)('the page of a conversation', () => {
  let browser: Browser;
  let page: Page;
  let stage: Stage;
  let here: string;

  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(async () => browser?.close());
  beforeEach(async () => {
    stage = await openStage({ channels: 20, discord: true });
    [here = ''] = stage.channels;
    page = await browser.newPage({ viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce' });
    await page.goto(stage.link());
    await page.locator('[data-testid="connection"][data-state="open"]').waitFor();
  });
  afterEach(async () => {
    await page.close();
    await stage.close();
  });

  const say = async (text: string): Promise<Locator> => {
    await page.getByTestId('composer').fill(text);
    await page.getByTestId('send').click();
    const own = page.locator('[data-testid="message"][data-kind="person"]').filter({ hasText: text });
    await own.waitFor();
    return own;
  };
  const act = async (own: Locator, name: string): Promise<void> => {
    await own.hover();
    await own.getByRole('button', { name }).click();
  };
  const open = (channel: string): Promise<void> =>
    page.locator(`[data-testid="channel"][data-channel="${channel}"]`).click();
  const opened = (channel: string): Promise<void> =>
    page.locator(`[data-testid="channel"][data-channel="${channel}"][aria-current="page"]`).waitFor();
  const shown = (locator: Locator): Promise<boolean> =>
    locator.evaluate((element) => {
      const { left, right, top, bottom } = element.getBoundingClientRect();
      const seen = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
      return left >= 0 && right <= innerWidth && (element.contains(seen) || seen?.contains(element) === true);
    });

  test('T46 the list of 21 channels shows the open channel on a phone', async () => {
    const last = stage.channels.at(-2) ?? '';
    await page.setViewportSize({ width: 390, height: 800 });
    await page.goto(`${stage.link()}#${encodeURIComponent(last)}`);
    await page.reload();
    await opened(last);
    await expect.poll(() => shown(page.locator('[aria-current="page"]')), WITHIN).toBe(true);
  });

  test("T46 own messages name their author in the accessibility tree, other people's messages show the name", async () => {
    const own = await say('Mine');
    expect(await own.ariaSnapshot()).toContain('You');
    expect(await shown(own.locator('.text'))).toBe(true);
    const there = stage.channels.at(-1) ?? '';
    const author = { kind: 'person', id: 'discord:1', name: 'Anna' } as const;
    const line = { line: 1, at: Date.now(), author, text: 'Hello', attachments: [], message: 'm1', change: null };
    stage.queries.spoken.push(line);
    await open(there);
    const others = page.locator('[data-speaker="discord:1"]');
    await others.waitFor();
    expect(await shown(others.getByText('Anna'))).toBe(true);
  });

  test('T46 the editor of a message takes the focus; Escape cancels the edit, Enter saves it', async () => {
    const own = await say('First words');
    await act(own, 'Edit');
    const field = page.getByRole('textbox', { name: 'Your message' });
    const isFocused = (locator: Locator): Promise<boolean> =>
      locator.evaluate((each) => each === document.activeElement);
    await expect.poll(() => isFocused(field), WITHIN).toBe(true);
    await field.fill('Other words');
    await field.press('Escape');
    await field.waitFor({ state: 'detached' });
    await expect.poll(() => isFocused(own.getByRole('button', { name: 'Edit' })), WITHIN).toBe(true);
    expect(await own.locator('.text').innerText()).toBe('First words');
    await act(own, 'Edit');
    await expect.poll(() => isFocused(field), WITHIN).toBe(true);
    await field.fill('Last words');
    await field.press('Enter');
    await page.getByText('Last words').waitFor();
    await expect.poll(() => stage.intake.changes, WITHIN).toMatchObject([{ change: 'edited', text: 'Last words' }]);
  });

  test('T46 a deletion that is undone never reaches Conch', async () => {
    const own = await say('A mistake');
    await act(own, 'Delete');
    await page.getByText('Deleted.').waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByText('A mistake').waitFor();
    expect(stage.intake.changes).toEqual([]);
  });

  test('T46 a deletion reaches Conch after the time for its undo, or at once when the page is left', async () => {
    await act(await say('One'), 'Delete');
    await page.getByText('This message was deleted.').waitFor();
    await expect.poll(() => stage.intake.changes.length, WITHIN).toBe(1);
    await act(await say('Two'), 'Delete');
    await page.getByRole('button', { name: 'Undo' }).waitFor();
    await page.goto('about:blank');
    await expect.poll(() => stage.intake.changes.map(({ change }) => change), WITHIN).toEqual(['deleted', 'deleted']);
  });

  test('T46 the page adds and removes channels when a reload of the configuration does', async () => {
    const added = stage.addChannel('brand-new');
    await page.getByText('#brand-new').waitFor();
    await open(added);
    await opened(added);
    stage.removeChannel(added);
    await opened(here);
    expect(await page.getByText('#brand-new').count()).toBe(0);
  });

  test('T40 a floor without available agents says so; a press on Why? explains the floor or a seat', async () => {
    const seats = stage.agents.map(
      (agent) => ({ agent, status: 'OFFLINE', disabled: false, waitUntil: null }) as const,
    );
    stage.show(here, {
      seats,
      next: [],
      obstacles: [{ why: 'nobody-available' }, { why: 'resting', after: 'rounds' }],
    });
    const bar = page.locator('.floor-bar');
    await expect.poll(() => bar.innerText(), WITHIN).toContain('No agents are available');
    await bar.getByRole('button', { name: 'Why?' }).click();
    const [agent = ''] = stage.agents;
    const seat = page.getByTestId(`seat-${agent}`);
    expect(await seat.innerText()).toContain('cannot take a turn');
    await seat.locator('.seat-row').click();
    await seat.getByRole('button', { name: 'Why?' }).click();
    await expect.poll(() => page.getByTestId('answer').count(), WITHIN).toBe(2);
    expect(stage.intake.commands.map(({ line }) => line)).toEqual(['/agent list', `/agent status ${agent}`]);
  });

  test('T17 a resting floor shows the reason and how to continue', async () => {
    const why = page.locator('.floor-why');
    for (const [obstacle, words] of [
      [
        { why: 'limit', budget: 'turns' },
        'The limit of turns is reached. To continue: write a message, or /floor resume.',
      ],
      [{ why: 'stopped' }, 'To continue: write a message, or /floor resume.'],
      [{ why: 'paused' }, 'The floor is paused. To continue: /floor resume.'],
      [{ why: 'catching-up' }, 'reads the channel’s history'],
      [{ why: 'resting', after: 'rounds' }, 'To continue: write a message, or /floor'],
    ] as const) {
      stage.show(here, { obstacles: [obstacle, { why: 'resting', after: 'rounds' }] });
      await expect.poll(() => why.innerText(), WITHIN).toContain(words);
    }
  });

  test('T5 the receipt of a held message shows the present reason', async () => {
    const own = await say('Wait for it');
    const id = (await own.getAttribute('data-id')) ?? '';
    await stage.adapter.receipt?.(here, id, 'held');
    const words = own.locator('.receipt-words');
    for (const [change, wanted] of [
      [
        { held: [id], obstacles: [{ why: 'paused' }, { why: 'resting', after: 'rounds' }] },
        'held: ⏸ The floor is paused. To continue: /floor resume.',
      ],
      [{ held: [id], obstacles: [{ why: 'taken', agent: 'dev' }] }, 'holds the floor'],
      [{ held: [id], obstacles: [{ why: 'limit', budget: 'turns' }] }, 'The limit of turns is reached'],
      [{ held: [], obstacles: [] }, 'received'],
    ] as const) {
      stage.show(here, change);
      await expect.poll(() => words.textContent(), WITHIN).toContain(wanted);
    }
  });

  test('a flood of 2,000 messages keeps the typed text, draws at most 400 messages, and ends at the newest', async () => {
    await page.getByTestId('composer').focus();
    for (let sent = 0; sent < 2_000; sent += 200) {
      await Promise.all(
        Array.from({ length: 200 }, (_, place) => stage.post(here, 'dev', `**Flood** ${sent + place}\n\n- \`a\``)),
      );
      await page.keyboard.type('typed ');
    }
    await expect.poll(() => page.getByTestId('message').last().innerText(), WITHIN).toContain('Flood 1999');
    expect(await page.getByTestId('message').count()).toBeLessThanOrEqual(400);
    expect(await page.getByTestId('composer').inputValue()).toBe('typed '.repeat(10));
    expect(await shown(page.getByTestId('message').last())).toBe(true);
  });

  test('T46 each channel keeps its unsent text and reply, also over a reload', async () => {
    const [, there = ''] = stage.channels;
    const field = page.getByTestId('composer');
    const own = await say('Said before');
    await act(own, 'Reply');
    await field.fill('Begun here');
    await open(there);
    await opened(there);
    expect(await field.inputValue()).toBe('');
    expect(await page.locator('.replying').count()).toBe(0);
    await field.fill('Begun\nthere');
    await page.reload();
    await opened(there);
    await expect.poll(() => field.inputValue(), WITHIN).toBe('Begun\nthere');
    expect(await page.locator(`[data-channel="${here}"]`).innerText()).toContain('✎');
    await open(here);
    await opened(here);
    await expect.poll(() => field.inputValue(), WITHIN).toBe('Begun here');
    expect(await page.locator('.replying').innerText()).toContain('Said before');
    expect(stage.intake.messages.map(({ text }) => text)).toEqual(['Said before']);
  });

  test('T46 a line separates the messages of different days', async () => {
    await stage.post(here, 'dev', 'On the first day');
    await stage.post(here, 'dev', 'Still on the first day');
    stage.pass(DAY_MS);
    await stage.post(here, 'dev', 'On the second day');
    await page.getByText('On the second day').waitFor();
    const order = await page.locator('.messages > li').evaluateAll((all) => all.map((li) => li.dataset['testid']));
    expect(order).toEqual(['day', 'message', 'message', 'day', 'message']);
    const [first, second] = await page.getByTestId('day').allInnerTexts();
    expect(first).not.toBe(second);
  });

  test('T46 Home shows the first of 2,000 messages, and End the newest', async () => {
    await Promise.all(Array.from({ length: 2_000 }, (_, place) => stage.post(here, 'dev', `Message ${place}.`)));
    await page.getByText('Message 1999.').waitFor();
    await page.getByTestId('conversation').focus();
    await page.keyboard.press('Home');
    await expect.poll(() => page.getByTestId('message').first().innerText(), WITHIN).toContain('Message 0.');
    await expect.poll(() => shown(page.getByText('Message 0.')), WITHIN).toBe(true);
    await stage.post(here, 'dev', 'Meanwhile.');
    expect(await shown(page.getByText('Message 0.'))).toBe(true);
    await page.keyboard.press('End');
    const newest = page.getByTestId('conversation').getByText('Meanwhile.');
    await expect.poll(() => newest.count(), WITHIN).toBe(1);
    await expect.poll(() => shown(newest), WITHIN).toBe(true);
  });

  test("times in Conch's own texts are shown in the reader's time zone; code and agents' texts stay unchanged", async () => {
    const reader = await browser.newPage({ timezoneId: 'Asia/Kathmandu', locale: 'en-GB' });
    try {
      await reader.goto(stage.link());
      await stage.post(here, null, 'Denied at 12:10 UTC if nobody answers.\n```\nrun at 12:10 UTC\n```');
      await stage.post(here, 'dev', 'We meet at 12:10 UTC.');
      const [first, second] = [reader.getByTestId('message').first(), reader.getByTestId('message').last()];
      await second.filter({ hasText: 'We meet at 12:10 UTC.' }).waitFor();
      expect(await first.locator('p').first().innerText()).toBe('Denied at 17:55 if nobody answers.');
      expect(await first.locator('pre').innerText()).toBe('run at 12:10 UTC');
      const [now] = new Date().toISOString().split('T');
      stage.intake.answer = { ok: true, text: `2020-01-01 23:59:09 UTC  a\n${now} 12:10:05 UTC  b` };
      await reader.getByTestId('composer').fill('/floor log');
      await reader.getByTestId('composer').press('Enter');
      const answer = await reader.locator('.answer-text').innerText();
      expect(answer).toMatch(/^2 Jan 2020, 05:44:09 {2}a\n(?:.+, )?17:55:05 {2}b$/);
    } finally {
      await reader.close();
    }
  });

  test('a report of Conch fits the width of a phone', async () => {
    await page.setViewportSize({ width: 390, height: 800 });
    await stage.post(
      here,
      null,
      '🏁 Review passed\n```\n1: revise, findings 1 opened, 0 fixed, 2 disputed, 1 reappeared\n```',
    );
    const report = page.locator('.is-system pre');
    await report.waitFor();
    expect(await report.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)).toBeLessThanOrEqual(0);
    expect(await shown(page.locator('.is-system time'))).toBe(true);
  });

  test('T46 a toast covers neither the bar nor the composer nor the newest message', async () => {
    stage.hold(here, 'dev');
    for (const width of [390, 1280]) {
      await page.setViewportSize({ width, height: 800 });
      await page.getByTestId('pause').click();
      const newest = await stage.post(here, 'dev', 'long '.repeat(1_000));
      await page.locator(`[data-id="${newest}"]`).waitFor();
      await page.evaluate(() => document.querySelector('.messages')?.lastElementChild?.scrollIntoView(false));
      const { bottom } = await page
        .locator(`[data-id="${newest}"]`)
        .evaluate((element) => element.getBoundingClientRect());
      const covered = await page.getByTestId('toast').last().boundingBox();
      expect((covered?.y ?? Infinity) + (covered?.height ?? 0)).toBeLessThan(bottom - 40);
      const toast = await page.getByTestId('toast').last().boundingBox();
      const bar = await page.locator('.floor-bar').boundingBox();
      const composer = await page.locator('.composer').boundingBox();
      expect(toast?.y).toBeGreaterThanOrEqual((bar?.y ?? Infinity) + (bar?.height ?? 0));
      expect((toast?.y ?? Infinity) + (toast?.height ?? 0)).toBeLessThanOrEqual(composer?.y ?? 0);
    }
  });

  test('T46 no agent has a colour like that of Stop, in either theme', async () => {
    for (const colorScheme of THEMES) {
      await page.emulateMedia({ colorScheme });
      const [stop = [], ...tones] = await page.evaluate(() =>
        ['coral', ...Array.from({ length: 8 }, (_, place) => `tone-${place}`)].map((name) => {
          const probe = document.body.appendChild(document.createElement('i'));
          probe.className = name;
          probe.style.color = `oklch(from var(--${name === 'coral' ? name : 'tone'}) l c h)`;
          const found = getComputedStyle(probe).color.match(/[\d.]+/g) ?? [];
          probe.remove();
          return found.map(Number);
        }),
      );
      const near = tones.filter(([, chroma = 0, hue = 0]) => {
        const apart = Math.abs(((hue - (stop[2] ?? 0) + 540) % 360) - 180);
        return chroma > LEAST_CHROMA && apart < HUE_APART;
      });
      expect({ colorScheme, tones: tones.length, near }).toEqual({ colorScheme, tones: 8, near: [] });
    }
  });

  test('T46 the floor bar without a connection says so, and shows no clock or animation', async () => {
    await page.emulateMedia({ reducedMotion: 'no-preference' });
    stage.hold(here, 'dev');
    await page.getByTestId('holder-clock').waitFor();
    await stage.adapter.stop();
    await page.locator('[data-testid="connection"][data-state="lost"]').waitFor();
    expect(await page.locator('.floor-bar').innerText()).toMatch(/Not connected since .*: this may have changed/);
    expect(await page.getByTestId('holder-clock').count()).toBe(0);
    expect(await page.getByTestId('stop').isDisabled()).toBe(true);
    const running = await page.evaluate(() =>
      document
        .getAnimations()
        .filter(({ playState, effect }) => playState === 'running' && effect?.getTiming().iterations === Infinity)
        .map((animation) => (animation instanceof CSSAnimation ? animation.animationName : 'other')),
    );
    expect(running).toEqual([]);
  });
});

describe.runIf(hasBrowser)('axe', () => {
  let browser: Browser;

  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(async () => browser?.close());

  test.each([
    { view: 'busy', width: 390 },
    { view: 'asking', width: 1024 },
    { view: 'editing', width: 1440 },
    { view: 'lost', width: 1440 },
  ] as const)('T46 axe finds nothing in the view "$view" at $width px, light and dark', async ({ view, width }) => {
    const [size = {}] = sizesFor('help');
    for (const theme of THEMES) {
      const found = await withView(browser, { view, size, width, theme }, (page) => violations(page, view));
      expect(found).toEqual([]);
    }
  });
});
