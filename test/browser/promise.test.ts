import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { FloorSettings } from '../../src/turns/floor/settings.ts';
import { deliveryPreviewOf, viewOf } from '../../src/turns/view.ts';
import { stage as play } from '../turns/floor/stage.ts';
import type { Stage as Play } from '../turns/floor/stage.ts';
import { hasBrowser, openBrowser } from './chromium.ts';
import { openStage } from './stage.ts';
import type { Stage } from './stage.ts';

const WITHIN = { timeout: 60_000, interval: 20 };

describe.runIf(hasBrowser)('the page and its delivery preview', () => {
  let browser: Browser;
  let page: Page;
  let stage: Stage;
  let channel: string;

  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(async () => browser?.close());
  beforeEach(async () => {
    stage = await openStage();
    channel = stage.channels[0] ?? '';
    page = await browser.newPage();
    await page.goto(stage.link());
    await page.locator('[data-testid="connection"][data-state="open"]').waitFor();
  });
  afterEach(async () => {
    await page.close();
    await stage.close();
  });

  /** Shows a real floor and its delivery preview, after `bring` has put the floor into a state. */
  const show = (settings: Partial<FloorSettings>, bring: (floor: Play) => void): void => {
    const real = play({ settings });
    bring(real);
    stage.show(channel, viewOf(real.floor, real.at, 'x'), deliveryPreviewOf(real.floor, real.at));
  };
  const promise = (): Promise<string> => page.getByTestId('fate').innerText();

  test('an address with a malformed channel opens the first channel', async () => {
    await page.goto(`${stage.link()}#console%3`);
    await page.locator('[data-testid="connection"][data-state="open"]').waitFor();
    expect(await page.getByTestId('composer').getAttribute('placeholder')).toContain('#demo');
  });

  test('a command whose answer is lost with the connection is reported', async () => {
    stage.intake.command = async (where, _by, line, drawnFor) => {
      stage.intake.commands.push({ channel: where, line, drawnFor });
      return new Promise(() => {});
    };
    await page.getByTestId('pause').click();
    await expect.poll(() => stage.intake.commands.length, WITHIN).toBe(1);
    await stage.adapter.stop();
    const toast = page.getByTestId('toast');
    await toast.waitFor();
    expect(await toast.innerText()).toBe('The connection was lost before the answer.');
  });

  test('a connection that opens and stays silent is closed after 40 s, and replaced', async () => {
    let opened = 0;
    await page.routeWebSocket(/\/socket$/, () => void (opened += 1));
    await page.clock.install();
    await page.reload();
    await expect.poll(() => opened, WITHIN).toBe(1);
    await page.clock.fastForward(39_000);
    expect(opened).toBe(1);
    await page.clock.fastForward(2_000);
    await expect.poll(() => opened, { timeout: 10_000 }).toBe(2);
  });

  test('an edit that cannot be sent stays in the editor', async () => {
    await page.getByTestId('composer').fill('Mine');
    await page.getByTestId('composer').press('Enter');
    const own = page.locator('[data-kind="person"]');
    await own.hover();
    await own.getByRole('button', { name: 'Edit' }).click();
    await own.getByRole('textbox').fill('Mine, and much more');
    await stage.adapter.stop();
    await page.locator('[data-testid="connection"][data-state="lost"]').waitFor();
    await own.getByRole('button', { name: 'Save' }).click();
    await page.getByTestId('toast').waitFor();
    expect(await own.getByRole('textbox').inputValue()).toBe('Mine, and much more');
  });

  test('Alt and a letter runs no command while typing on a Mac, and runs it outside of the composer', async () => {
    await page.addInitScript("Object.defineProperty(navigator, 'platform', { value: 'MacIntel' })");
    await page.reload();
    await page.locator('[data-testid="connection"][data-state="open"]').waitFor();
    await page.getByTestId('composer').press('Alt+x');
    await page.getByTestId('composer').blur();
    await page.keyboard.press('Alt+p');
    await expect.poll(() => stage.intake.commands.map(({ line }) => line), WITHIN).toEqual(['/floor pause']);
  });

  test('T44 the preview during an approval says that the message is delivered after it', async () => {
    show({}, (floor) => {
      floor.person('m1');
      floor.act({ type: 'request', agent: 'pm', epoch: 1, approval: { title: 'run it', detail: 'npm test' } });
    });
    await expect.poll(promise, WITHIN).toBe('pm is waiting for an approval; your message is delivered after it.');
  });

  test.each([
    ['inject', 'Will be delivered to pm mid-turn'],
    ['queue', 'Will be held until the turn ends'],
    ['interrupt', 'Will be delivered to pm by interrupting the turn'],
    ['parallel', 'Will be held for all agents’ next prompts'],
  ] as const)('T44 the preview in the mode %s says when the message is delivered', async (mode, words) => {
    show({ mode }, (floor) => void floor.person('m1'));
    await expect.poll(promise, WITHIN).toBe(words);
  });

  test('T44 the preview says that a message reaches nobody, until it names an agent, where agents need mentions', async () => {
    show({ order: 'mention' }, () => {});
    await expect.poll(promise, WITHIN).toMatch(/^Will reach nobody: nobody addressed$/);
    await page.getByTestId('composer').fill('@dev can you?');
    await expect.poll(promise, WITHIN).toMatch(/^Will be delivered to dev with its prompt$/);
  });

  test('T44 the preview gives a paused floor, or no available agents, as the reason', async () => {
    show({}, (floor) => void floor.operator({ type: 'pause' }));
    await expect.poll(promise, WITHIN).toMatch(/^Will be held until an agent is prompted\. ⏸ The floor is paused/);
    show({}, (floor) => ['pm', 'dev', 'qa'].forEach((agent) => void floor.leaves(agent)));
    await expect.poll(promise, WITHIN).toMatch(/^Will reach nobody: .*\. No agents are available/);
  });

  test('T44 the preview without a connection says that the message is sent later', async () => {
    await stage.adapter.stop();
    await expect.poll(promise, WITHIN).toMatch(/^Will be sent when Conch is back$/);
  });
});
