/**
 * Checks every view of the page, or one, with axe: `npm run axe -- [--json] [--view busy] [--shots folder]`.
 * The last line of the output is one JSON object. The exit code is 1 when axe found a violation.
 */
import { mkdirSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { openBrowser } from './chromium.ts';
import { sizesFor, THEMES, VIEWS, violations, WIDTHS, withView } from './views.ts';
import type { Violation } from './views.ts';

const { values } = parseArgs({
  options: { json: { type: 'boolean' }, view: { type: 'string' }, shots: { type: 'string' } },
});
const views = VIEWS.filter((view) => values.view === undefined || view === values.view);
if (values.shots !== undefined) mkdirSync(values.shots, { recursive: true });
const found: Violation[] = [];
let looked = 0;
const browser = await openBrowser();
for (const view of views) {
  for (const size of sizesFor(view)) {
    for (const width of WIDTHS) {
      for (const theme of THEMES) {
        const name = `${view} ${size.agents}x${size.channels} ${width} ${theme}`;
        await withView(browser, { view, size, width, theme }, async (page) => {
          const here = await violations(page, name);
          if (values.shots !== undefined)
            await page.screenshot({ path: `${values.shots}/${name.replaceAll(' ', '-')}.png` });
          if (values.json !== true)
            for (const { rule, where, why } of here) say(`${name}: ${rule} at ${where}: ${why}`);
          found.push(...here);
        });
        looked += 1;
      }
    }
  }
}
await browser.close();
const byRule = Map.groupBy(found, ({ rule }) => rule);
const rules = Object.fromEntries([...byRule].map(([rule, all]) => [rule, all.length]));
say(JSON.stringify({ views: looked, violations: found.length, rules }));
process.exitCode = found.length === 0 ? 0 : 1;

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
