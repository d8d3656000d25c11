import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { forTurn } from '../../src/turns/drawn-for.ts';
import { hasBrowser, openBrowser } from './chromium.ts';
import { crewOf, openCrew } from './crews.ts';
import { openStage } from './stage.ts';
import type { Stage } from './stage.ts';

describe.runIf(hasBrowser)('the view of a crew', () => {
  let browser: Browser;
  let page: Page;

  beforeAll(async () => {
    browser = await openBrowser();
    page = await browser.newPage({ reducedMotion: 'reduce' });
  });
  afterAll(async () => browser?.close());

  async function opened<T>(workers: number, look: (stage: Stage) => Promise<T>, width = 1440): Promise<T> {
    const stage = await openStage();
    try {
      stage.queries.crews.set(stage.channels[0] ?? '', crewOf(stage, workers));
      await page.setViewportSize({ width, height: 900 });
      await page.goto(stage.link());
      await page.locator('[data-testid="connection"][data-state="open"]').waitFor();
      await openCrew(stage, page, crewOf(stage, workers));
      return await look(stage);
    } finally {
      await stage.close();
    }
  }

  test.each([1440, 390])('lists workers that wait for people first, with their commands (%i px)', async (width) => {
    await opened(
      12,
      async (stage) => {
        const asking = page.getByTestId('asking');
        const names = await asking
          .getByTestId('worker')
          .evaluateAll((rows) => rows.map((row) => row.dataset['worker']));
        expect(names).toEqual(['H', 'F', 'D', 'C']);
        const numbers = await page.getByTestId('crew-numbers').innerText();
        for (const words of ['green, 4 flaky, 17 red', 'abandoned: 5, conflicts: 3', '$41.23'])
          expect(numbers).toContain(words);
        await asking.getByRole('button', { name: 'Merge D', exact: true }).click();
        await expect.poll(() => stage.intake.commands.at(-1)?.line).toBe('/crew answer D merge');
        const view = stage.queries.crews.get(stage.channels[0] ?? '');
        const mark = view?.workers.find(({ name }) => name === 'D')?.buttons[0]?.mark ?? 0;
        expect(stage.intake.commands.at(-1)?.drawnFor).toBe(forTurn(view?.store ?? '', mark));
        const before = stage.intake.commands.length;
        await asking.getByRole('button', { name: 'Kill… C', exact: true }).click();
        expect(stage.intake.commands).toHaveLength(before);
        await asking.getByText('Kill C, to store its work and open the ticket again, for a worker that').waitFor();
        await asking.getByRole('button', { name: 'Kill C', exact: true }).click();
        await expect.poll(() => stage.intake.commands.at(-1)?.line).toBe('/crew kill C');
        expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
      },
      width,
    );
  });

  test('updates by itself, and lists tickets by state', async () => {
    await opened(12, async (stage) => {
      const [channel = ''] = stage.channels;
      await page.getByRole('button', { name: /^merged/ }).click();
      const tickets = page.getByTestId('tickets').getByRole('listitem');
      await expect.poll(() => tickets.count()).toBe(20);
      await page.getByRole('button', { name: 'Show more' }).click();
      await expect.poll(() => tickets.count()).toBe(120);
      stage.queries.crews.set(channel, crewOf(stage, 0));
      await page.getByText('Nothing waits for you.').waitFor();
      await page.getByRole('button', { name: 'Back' }).click();
      await page.getByTestId('composer').waitFor();
    });
  });

  test("shows waiting workers in the channel's panel, and a ticket's worker in the panel of its thread", async () => {
    await opened(12, async (stage) => {
      await page.getByRole('button', { name: 'Back' }).click();
      const block = page.getByTestId('crew-block');
      expect(await page.getByTestId('crew').innerText()).toBe('4');
      await expect.poll(() => block.getByTestId('worker').count()).toBe(4);
      await block.getByRole('button', { name: 'Continue work D', exact: true }).click();
      await expect.poll(() => stage.intake.commands.at(-1)?.line).toBe('/crew answer D continue');
      const known = stage.queries.agents();
      const added = (id: string, fixed: boolean) => ({ id, name: id, avatar: null, description: '', fixed });
      stage.queries.agents = () => [...known, added('web-b', true), added('legal', false)];
      const thread = stage.addChannel('demo/4');
      const controls = { pm: [['/floor skip pm', 'Skip']], '': [['/floor extend 60', 'One more minute']] } as const;
      stage.queries.outlooks.set(thread, { unaddressed: { state: 'held', until: 'turn' }, addressed: {}, controls });
      stage.queries.crews.set(thread, crewOf(stage, 12));
      await page.locator(`[data-channel="${thread}"]`).click();
      await expect.poll(() => block.getByTestId('worker').allInnerTexts()).toEqual([expect.stringContaining('E done')]);
      const headline = page.getByTestId('holder');
      expect(await headline.innerText()).toBe('The floor is resting');
      const asking = stage.addChannel('demo/3');
      stage.queries.crews.set(asking, crewOf(stage, 12));
      await page.locator(`[data-channel="${asking}"]`).click();
      await expect.poll(() => headline.innerText()).toBe('D waits for you');
      await page.getByRole('tab', { name: 'Turns' }).click();
      expect(await headline.innerText()).toBe('D waits for you');
      await page.getByRole('tab', { name: 'Floor' }).click();
      await page.locator(`[data-channel="${thread}"]`).click();
      await expect.poll(() => headline.innerText()).toBe('The floor is resting');
      await expect.poll(() => block.getByTestId('worker').allInnerTexts()).toEqual([expect.stringContaining('E done')]);
      // The seats offer the floor's commands and `Add legal`, but not web-b, another worker of the crew.
      await page.getByTestId('seat-pm').locator('.seat-row').click();
      const seats = page.getByRole('tabpanel').locator('.seat-actions .buttons, .unseated');
      expect(await seats.getByRole('button').allInnerTexts()).toEqual(['Skip', 'Restart', 'Add legal']);
      expect(await page.getByRole('button', { name: 'One more minute' }).locator('.icon').count()).toBe(1);
      expect(await page.getByRole('button', { name: 'Start an exchange' }).count()).toBe(0);
      await block.getByRole('button', { name: 'Show the whole crew' }).click();
      await page.getByTestId('crew-numbers').waitFor();
      await page.getByRole('button', { name: 'Open thread of E' }).click();
      await page.getByTestId('composer').waitFor();
    });
  });

  test.each([1440, 390])(
    'opens the thread of a merged ticket for reading, although it is no channel any more (%i px)',
    async (width) => {
      await opened(
        12,
        async (stage) => {
          const thread = 'console:demo/c-1238';
          await stage.post(thread, null, '⚔ A on c-1238 and B on c-1237 meet here about the conflict.');
          await stage.post(thread, 'dev', 'AGREED: both lines stay');
          const panel = page.getByRole('button', { name: 'Floor, turns and journal' });
          stage.queries.crews.set(thread, crewOf(stage, 12));
          if (width < 560) {
            // The drawer stays open behind the crew.
            await panel.click();
            await page.getByRole('button', { name: 'Show the whole crew' }).click();
          }
          await page.getByRole('button', { name: /^merged/ }).click();
          await page.getByRole('button', { name: 'Thread of c-1238', exact: true }).click();
          await page.getByText('AGREED: both lines stay').waitFor();
          await page.getByText('This ticket is finished: its thread can only be read.').waitFor();
          expect(await page.getByTestId('composer').count()).toBe(0);
          // The thread has no panel: the key 1 opens none, and does not darken the page.
          await page.keyboard.press('1');
          expect([await panel.count(), await page.locator('.panel, .drawer-open').count()]).toEqual([0, 0]);
          const { x = 0, width: used = 0 } = (await page.locator('main').boundingBox()) ?? {};
          expect(x + used).toBeGreaterThan(width - 2);
          // The crew button leads from the thread back to the crew.
          await page.getByTestId('crew').click();
          await page.getByTestId('crew-numbers').waitFor();
          await page.getByRole('button', { name: 'Back' }).click();
          await page.getByText('AGREED: both lines stay').waitFor();
          // The page gets a new list of channels, and keeps the thread open.
          stage.addChannel('more');
          await expect.poll(() => page.locator('[data-channel="console:more"]').count()).toBe(1);
          expect(await page.locator(`[data-channel="${thread}"]`).getAttribute('aria-current')).toBe('page');
          await page.reload();
          await page.locator('[data-testid="connection"][data-state="open"]').waitFor();
          await page.locator('[data-channel="console:more"]').click();
          await page.getByTestId('composer').waitFor();
          await expect.poll(() => page.locator(`[data-channel="${thread}"]`).count()).toBe(0);
          const author = { kind: 'person', id: 'ann', name: 'Ann' } as const;
          const spoken = { line: 1, at: Date.now(), author, attachments: [], message: 'm1', change: null };
          stage.queries.spoken.push({ ...spoken, text: 'Said on Discord' });
          await page.locator(`[data-channel="${stage.channels[0] ?? ''}"]`).click();
          await page.getByTestId('crew').click();
          await page.getByRole('button', { name: /^merged/ }).click();
          await page.getByRole('button', { name: 'Thread of c-1237', exact: true }).click();
          await page.getByText('Said on Discord').waitFor();
          expect(stage.intake.messages).toEqual([]);
        },
        width,
      );
    },
  );

  test("scrolls the composer's list of commands to the selected command", async () => {
    await opened(2, async () => {
      await page.getByRole('button', { name: 'Back' }).click();
      const composer = page.getByTestId('composer');
      await composer.fill('/');
      await page.getByRole('option', { name: /^help / }).waitFor();
      await composer.fill('/crew ');
      const why = page.getByRole('option', { name: /^why Show which ticket and which message asked/ });
      for (let place = 0; place < 30 && (await why.getAttribute('aria-selected')) !== 'true'; place++)
        await composer.press('ArrowDown');
      const [row, list] = [await why.boundingBox(), await page.locator('.choices').boundingBox()];
      expect(row?.y).toBeGreaterThanOrEqual(list?.y ?? Infinity);
      expect((row?.y ?? Infinity) + (row?.height ?? 0)).toBeLessThanOrEqual((list?.y ?? 0) + (list?.height ?? 0));
      await composer.press('Enter');
      expect(await composer.inputValue()).toBe('/crew why ');
    });
  });

  test('keeps the open thread of a ticket open when the ticket is finished', async () => {
    await opened(2, async (stage) => {
      const thread = stage.addChannel('demo/c-1008');
      await stage.post(thread, 'dev', 'I commit.');
      await page.locator(`[data-channel="${thread}"]`).click();
      await page.getByText('I commit.').waitFor();
      stage.removeChannel(thread);
      await page.getByText('This ticket is finished: its thread can only be read.').waitFor();
      await page.getByText('I commit.').waitFor();
      await page.locator(`[data-channel="${stage.channels[0] ?? ''}"]`).click();
      await page.getByTestId('crew').click();
      await page.getByRole('button', { name: /^merged/ }).click();
      await expect.poll(() => page.getByTestId('tickets').innerText()).toContain('Mend the reset link · ');
    });
  });

  test('shows a decided request once in the thread of a finished ticket', async () => {
    await opened(12, async (stage) => {
      const thread = 'console:demo/c-1238';
      await stage.post(thread, null, '✅ dev ran run "npm publish"', 'approval:3');
      const [at, asked] = [Date.now() + 1_000, { agent: 'dev', question: 3, title: 'run "npm publish"' }];
      const announcement = { kind: 'answered', ...asked, choice: 'allow', by: 'Ada', at } as const;
      const fact = { type: 'announced', announcement, key: 'approval:3', repeat: 1, shown: true } as const;
      stage.queries.entries.push({ key: thread, seq: 1, at, fact, hash: '' });
      stage.show(thread, {});
      await page.getByRole('button', { name: /^merged/ }).click();
      await page.getByRole('button', { name: 'Thread of c-1238', exact: true }).click();
      await page.getByText('This ticket is finished: its thread can only be read.').waitFor();
      await page.getByText('npm publish').first().waitFor();
      expect(await page.getByText('npm publish').count()).toBe(1);
    });
  });

  test('makes a ticket of a message in a channel with a crew, and offers none without a crew', async () => {
    await opened(2, async (stage) => {
      const [channel = ''] = stage.channels;
      await page.getByRole('button', { name: 'Back' }).click();
      await page.getByTestId('composer').fill('The list lacks a header');
      await page.getByTestId('composer').press('Enter');
      const message = page.getByTestId('message').filter({ hasText: 'The list lacks a header' });
      await message.hover();
      await message.getByRole('button', { name: 'Make a ticket of it' }).click();
      await expect.poll(() => stage.intake.commands.at(-1)?.line).toMatch(/^\/crew admit \S+$/);
      expect(stage.intake.commands.at(-1)?.channel).toBe(channel);
      stage.queries.crews.clear();
      await page.reload();
      await message.waitFor();
      await message.hover();
      expect(await message.getByRole('button', { name: 'Make a ticket of it' }).count()).toBe(0);
    });
  });

  test('redraws 100 workers and 2,000 tickets in tasks under 500 ms', async () => {
    await opened(100, async (stage) => {
      const nodes = await page.evaluate(() => document.querySelectorAll('*').length);
      expect(nodes).toBeLessThan(4_000);
      const view = crewOf(stage, 100);
      expect(view.groups.reduce((sum, { count }) => sum + count, 0)).toBeGreaterThan(2_000);
      // Records the duration of each long task while the view is redrawn, in milliseconds.
      await page.evaluate(() => {
        const seen: number[] = [];
        Object.assign(globalThis, { seen });
        new PerformanceObserver((list) => seen.push(...list.getEntries().map(({ duration }) => duration))).observe({
          type: 'longtask',
        });
      });
      stage.queries.crews.set(stage.channels[0] ?? '', { ...view, steps: 99_999 });
      await page.getByText('100K steps').waitFor();
      const longest = await page.evaluate(() => Math.max(0, ...(globalThis as unknown as { seen: number[] }).seen));
      if (process.env['CREW_FRAMES'] !== undefined)
        process.stdout.write(`${nodes} nodes, longest task ${longest} ms\n`);
      expect(longest).toBeLessThan(500);
    });
  });
});
