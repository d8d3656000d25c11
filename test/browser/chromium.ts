import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';
import type { Browser } from 'playwright-core';

const PATH = process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium';

/** Whether Chromium is installed. With CONCH_REQUIRE_BROWSER=1 always true: tests fail without Chromium. */
export const hasBrowser = existsSync(PATH) || process.env['CONCH_REQUIRE_BROWSER'] === '1';

if (!hasBrowser) {
  process.stderr.write(
    `The test of the page is skipped: there is no browser at ${PATH}. Set CHROMIUM_PATH to run it.\n`,
  );
}

/** Starts Chromium without a window. */
export async function openBrowser(): Promise<Browser> {
  const args = ['--no-sandbox', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
  return chromium.launch({ executablePath: PATH, args });
}
