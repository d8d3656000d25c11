import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Browser, Page } from 'playwright-core';
import { hasBrowser, openBrowser } from './chromium.ts';
import { openStage } from './stage.ts';
import type { Stage } from './stage.ts';

const OPEN = '[data-testid="connection"][data-state="open"]';
const REFUSED = '[data-testid="no-access"]';

describe.skipIf(!hasBrowser)('access to the page in a browser', () => {
  let browser: Browser;
  let stage: Stage;
  beforeEach(async () => {
    [browser, stage] = [await openBrowser(), await openStage()];
  });
  afterEach(async () => {
    await browser.close();
    await stage.close();
  });

  test('T78 a browser without a link is told how to get one, and sees nothing else', async () => {
    const page = await browser.newPage();
    const sockets: string[] = [];
    page.on('websocket', (socket) => void sockets.push(socket.url()));
    await page.goto(stage.url);
    await page.locator(REFUSED).waitFor();
    expect(await page.locator('main').innerText()).toContain('npm run conch -- open');
    expect(sockets).toEqual([]);
    expect(await page.context().cookies()).toEqual([]);
  });

  test('T78 a link gives one browser access, works once, and its key leaves the address bar', async () => {
    const link = stage.link();
    const [first, second] = [await browser.newContext(), await browser.newContext()];
    const page = await first.newPage();
    await page.goto(link);
    await page.locator(OPEN).waitFor();
    expect(page.url()).not.toContain('key=');
    const [cookie] = await first.cookies();
    expect(cookie).toMatchObject({ name: `conch_${new URL(link).port}`, httpOnly: true, sameSite: 'Strict' });
    await page.reload();
    await page.locator(OPEN).waitFor();
    // Opens the used link again, as from the terminal's history: this browser keeps its session.
    await page.goto(link);
    await page.locator(OPEN).waitFor();
    const other = await second.newPage();
    await other.goto(link);
    await other.locator(REFUSED).getByText('was used already').waitFor();
  });

  test('T78 fetching a link, as a link preview does, leaves it valid', async () => {
    const link = stage.link();
    const bot = await browser.newContext({ javaScriptEnabled: false });
    await (await bot.newPage()).goto(link);
    await bot.request.get(link);
    await fetch(link);
    const page = await browser.newPage();
    await page.goto(link);
    await page.locator(OPEN).waitFor();
    expect(await page.locator(REFUSED).count()).toBe(0);
  });

  /** Opens a link in another tab, waits until `waiting` connects, too, and counts the refusals that it still shows. */
  async function refusalsAfterLink(waiting: Page): Promise<number> {
    const page = await waiting.context().newPage();
    await page.goto(stage.link());
    await page.locator(OPEN).waitFor();
    await waiting.locator(OPEN).waitFor();
    return waiting.locator(REFUSED).count();
  }

  test('T78 a tab without access connects when another tab opens a link', async () => {
    const context = await browser.newContext();
    const waiting = await context.newPage();
    await waiting.goto(stage.url);
    await waiting.locator(REFUSED).waitFor();
    expect(await refusalsAfterLink(waiting)).toBe(0);
  });

  test('T78 a tab whose access ended connects when another tab opens a link', async () => {
    const context = await browser.newContext();
    const waiting = await context.newPage();
    await waiting.goto(stage.link());
    await waiting.locator(OPEN).waitFor();
    await context.clearCookies();
    await waiting.reload();
    await waiting.locator(REFUSED).waitFor();
    expect(await refusalsAfterLink(waiting)).toBe(0);
  });

  test('T78 the cookie alone, as a server on another port can read it, gives no access', async () => {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(stage.link());
    await page.locator(OPEN).waitFor();
    const [cookie] = await context.cookies();
    const headers = { cookie: `${cookie?.name}=${cookie?.value}`, origin: stage.url.replace(/\/$/, '') };
    expect((await fetch(`${stage.url}session`, { headers })).status).toBe(401);
    expect((await fetch(`${stage.url}runs/audit`, { headers })).status).toBe(403);
  });
});
