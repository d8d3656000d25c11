import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hasBrowser, openBrowser } from './chromium.ts';
import { forTurn, reviewQuestion } from '../../src/turns/drawn-for.ts';
import { openStage } from './stage.ts';
import { reviewed } from './views.ts';

describe.runIf(hasBrowser)('a review on the page', () => {
  let browser: Browser;
  let page: Page;

  beforeAll(async () => {
    browser = await openBrowser();
    page = await browser.newPage({ reducedMotion: 'reduce' });
  });
  afterAll(async () => browser?.close());

  test.each([1440, 390])('shows findings, takes a decision and folds when it ends (%i px)', async (width) => {
    const stage = await openStage();
    const [channel = ''] = stage.channels;
    try {
      reviewed(stage);
      await page.setViewportSize({ width, height: 800 });
      await page.goto(stage.link());
      await page.locator('[data-testid="connection"][data-state="open"]').waitFor();
      const bar = page.getByRole('region', { name: 'The floor' });
      expect(await bar.innerText()).toContain('The review waits for you\n');
      expect(await bar.innerText()).toContain(`Review: ${stage.agents[0]} works, ${stage.agents[1]} reviews`);
      await bar.getByRole('button', { name: 'Decide' }).click();
      const review = page.getByRole('region', { name: 'Review' });
      await review.getByText('F1 was disputed twice.').waitFor();
      const seen = await review.innerText();
      for (const words of [
        'Iteration 2 of 10',
        '1 revise',
        '2 running',
        '2 opened, 1 disputed',
        'F1 major',
        'src/a.ts:12',
        'It breaks',
        'It is meant so',
      ])
        expect(seen).toContain(words);
      const picture = process.env['REVIEW_PICTURES'];
      if (picture !== undefined) await page.screenshot({ path: `${picture}/review-${width}.png` });
      const isWide = await review.evaluate((element) => element.scrollWidth > element.clientWidth);
      expect(isWide).toBe(false);
      await review.getByRole('button', { name: 'Reviewer is right' }).click();
      await expect.poll(() => stage.intake.commands.at(-1)?.line).toBe('/review uphold');
      const store = stage.queries.view(channel)?.store ?? '';
      expect(stage.intake.commands.at(-1)?.drawnFor).toBe(
        forTurn(store, reviewQuestion({ id: 'review-1', iteration: 2 })),
      );

      reviewed(stage, { waiting: null, agent: stage.agents[1] ?? '' });
      await review.getByText('reviews now.').waitFor();
      expect(await review.getByRole('button').allInnerTexts()).toEqual(['Cancel', 'Show changes']);
      await review.getByRole('button', { name: 'Show changes' }).click();
      await expect.poll(() => stage.intake.commands.at(-1)?.line).toBe('/review diff');
      await review.getByRole('button', { name: 'Cancel (review)' }).click();
      await expect.poll(() => stage.intake.commands.at(-1)?.line).toBe('/review cancel');
      expect(stage.intake.commands.at(-1)?.drawnFor).toBe(
        forTurn(store, reviewQuestion({ id: 'review-1', iteration: 2 })),
      );

      reviewed(stage, { waiting: null, outcome: { kind: 'passed', why: 'The reviewer passed the work.' } });
      await review.getByText('Ended: passed').waitFor();
      expect(await bar.innerText()).not.toContain('Review:');
      expect(await review.getByTestId('findings').isVisible()).toBe(false);
      await review.getByText('Ended: passed').click();
      expect(await review.getByRole('button').allInnerTexts()).toEqual(['Show changes']);
    } finally {
      await stage.close();
    }
  });
});
