import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hasBrowser, openBrowser } from './chromium.ts';
import { openStage } from './stage.ts';

const WIDTHS = [320, 360, 390, 560, 768, 899, 900, 1024, 1280, 1440, 1920, 2560];
/** The least number of characters of the headline, which begins with the holder's name, that must be visible. */
const LEAST_CHARACTERS = 24;

/** Runs in the page: returns why a text is not fully visible: too narrow, outside the window or covered. */
function unseen(id: string): readonly string[] {
  const element = document.querySelector<HTMLElement>(`[data-testid="${id}"]`);
  if (element === null) return [`${id} is not there`];
  const line = element.closest<HTMLElement>('.floor-headline') ?? element;
  const { left, right, top, bottom, width } = line.getBoundingClientRect();
  const found: string[] = [];
  if (width < 8) found.push(`${id} is ${width} px wide`);
  if (left < 0 || right > innerWidth || top < 0 || bottom > innerHeight) found.push(`${id} is outside of the window`);
  for (const x of [left + 2, (left + right) / 2, right - 2]) {
    const seen = document.elementFromPoint(x, (top + bottom) / 2);
    if (seen === null || !(line.contains(seen) || seen.contains(line)))
      found.push(`${id} is under ${seen?.outerHTML.slice(0, 60)}`);
  }
  return found;
}

/** Runs in the page: returns how many characters of the headline fit (Infinity: all), and if the clock is cut. */
function room(): { readonly name: number; readonly clockIsCut: boolean } {
  const line = document.querySelector<HTMLElement>('.floor-headline');
  const clock = document.querySelector<HTMLElement>('[data-testid="holder-clock"]');
  if (line === null || clock === null) return { name: 0, clockIsCut: true };
  const text = document.createRange();
  text.selectNodeContents(line);
  const whole = text.toString();
  const letters = document.createRange();
  const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
  let count = 0;
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const own = (node.parentElement ?? line).getBoundingClientRect();
    const right = Math.min(own.right, line.getBoundingClientRect().right);
    const { bottom } = line.getBoundingClientRect();
    for (let place = 0; place < (node.textContent ?? '').length; place += 1) {
      letters.setStart(node, place);
      letters.setEnd(node, place + 1);
      const box = letters.getBoundingClientRect();
      if (box.right <= right + 1 && box.bottom <= bottom + 1) count += 1;
    }
  }
  return { name: count === whole.length ? Infinity : count, clockIsCut: clock.scrollWidth > clock.clientWidth + 1 };
}

describe.runIf(hasBrowser)('the floor bar', () => {
  let browser: Browser;
  let page: Page;

  beforeAll(async () => {
    browser = await openBrowser();
    page = await browser.newPage({ reducedMotion: 'reduce' });
  });
  afterAll(async () => browser?.close());

  describe.each([1, 3, 5, 12, 30])('with %i agents', (agents) => {
    test.each([
      { channels: 1, longNames: false },
      { channels: 8, longNames: true },
    ])(
      'T42 shows the holder and the time left at every width ($channels channels, long names: $longNames)',
      async (how) => {
        const stage = await openStage({ agents, ...how });
        const [channel = ''] = stage.channels;
        const holder = stage.agents.at(-1) ?? '';
        stage.show(channel, { held: ['1', '2'] });
        stage.hold(channel, holder);
        await page.goto(stage.link());
        await page.getByTestId('holder-clock').waitFor();
        for (const waitingFor of [null, 'approval'] as const) {
          stage.hold(channel, holder, { waitingFor });
          await page.locator(`[data-state="${waitingFor === null ? 'ACTIVE' : 'WAITING'}"]`).waitFor();
          for (const width of WIDTHS) {
            await page.setViewportSize({ width, height: 800 });
            const troubles = [
              ...(await page.evaluate(unseen, 'holder')),
              ...(await page.evaluate(unseen, 'holder-clock')),
            ];
            const { name, clockIsCut } = await page.evaluate(room);
            expect({ width, troubles, clockIsCut, isReadable: name >= LEAST_CHARACTERS }).toEqual({
              width,
              troubles: [],
              clockIsCut: false,
              isReadable: true,
            });
          }
        }
        await stage.close();
      },
    );
  });

  test.each([
    [[{ why: 'stopped' }], ['resume']],
    [[{ why: 'limit', budget: 'turns' }], ['resume']],
    [[{ why: 'resting', after: 'rounds' }], ['start', 'pause']],
  ] as const)('offers the buttons that fit why the floor rests: %j', async (obstacles, buttons) => {
    const stage = await openStage({ agents: 1, channels: 1 });
    stage.show(stage.channels[0] ?? '', { holder: null, condition: 'resting', obstacles });
    await page.goto(stage.link());
    const shown = page.locator('.floor-bar .actions [data-testid]');
    await expect.poll(() => shown.evaluateAll((all) => all.map((each) => each.dataset['testid']))).toEqual(buttons);
    await stage.close();
  });
});
