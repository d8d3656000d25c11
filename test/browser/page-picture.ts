import { setTimeout as pause } from 'node:timers/promises';
import { Bot } from './bot.ts';
import { openBrowser } from './chromium.ts';

// Makes docs/console.png: node test/browser/page-picture.ts [folder]. The folder gets a screenshot of a phone.

const AVATARS = { pm: '🧭', dev: '🛠️', qa: '🔎' };
const AGENTS = Object.entries(AVATARS).map(([id, avatar]) => ({
  id,
  avatar,
  backend: { kind: 'scripted', script: id, wordMs: 150 },
}));
const CHANNELS = [{ id: 'console:demo', name: 'demo', agents: Object.keys(AVATARS) }];

const folder = process.argv[2];
const bot = new Bot({ agents: AGENTS, channels: CHANNELS });
const browser = await openBrowser();
try {
  await bot.start();
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(await bot.link());
  const say = async (text: string): Promise<void> => {
    const box = page.locator('textarea');
    await box.fill(text);
    await box.press('Enter');
  };
  await say('Build a login page with email and password');
  await page.getByText('Done:').waitFor();
  await say('Please add a link to reset the password');
  await page.getByText('throw new').first().waitFor();
  await page.screenshot({ path: 'docs/console.png' });
  if (folder !== undefined) {
    await page.setViewportSize({ width: 390, height: 844 });
    await pause(500);
    await page.screenshot({ path: `${folder}/console-phone.png` });
  }
} finally {
  await browser.close();
  await bot.kill();
}
