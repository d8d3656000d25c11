import { spawn } from 'node:child_process';
import { openBrowser } from './chromium.ts';

// Makes docs/crew.png: a screenshot of the page during the demo of a crew. To run it: node test/browser/crew-picture.ts

const demo = spawn(process.execPath, ['examples/crew/main.ts'], { stdio: ['ignore', 'pipe', 'inherit'] });
const link = await new Promise<string>((resolve) => {
  let out = '';
  demo.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
    const [found] = /http:\S+/.exec(out) ?? [];
    if (found !== undefined) resolve(found);
  });
});
const browser = await openBrowser();
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(link);
  await page.getByTestId('crew').click();
  await page.getByRole('button', { name: 'Hold B' }).click({ timeout: 60_000 });
  // When t-08 is at work, the page no longer shows the answer to the hold.
  await page.getByTestId('at-work').getByText('t-08').waitFor({ timeout: 60_000 });
  await page.getByText('is merged in').first().waitFor({ timeout: 60_000 });
  await page.mouse.move(640, 2);
  await page.screenshot({ path: 'docs/crew.png' });
} finally {
  await browser.close();
  demo.kill('SIGINT');
}
