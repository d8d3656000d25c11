import { mkdirSync } from 'node:fs';
import { openBrowser } from '../browser/chromium.ts';
import { ASKS } from '../work/crews/played.ts';
import { ANSWER, QUESTION, performStep } from './acts.ts';
import { measureRoom } from './rooms.ts';

// Makes pictures of a crew's channel and threads whenever they change:
// node test/crews/room-picture.ts slack /tmp/pictures

const [room = 'slack', folder = '/tmp/pictures'] = process.argv.slice(2);
if (room !== 'slack' && room !== 'discord') throw new Error(`Expected "slack" or "discord", got "${room}"`);
mkdirSync(folder, { recursive: true });
const browser = await openBrowser();
const page = await browser.newPage({ viewport: { width: 1_000, height: 700 } });
const shown = new Map<string, string>();
let [count, answered] = [0, false];

await measureRoom(room, {
  workers: 3,
  tickets: ['t-01', 't-05', 't-06'],
  stepMs: 0,
  crew: { mergeWindow: { seconds: 20 } },
  async work(cwd, turn) {
    const [, ticket = ''] = /-([tx]-\w+)$/u.exec(cwd) ?? [];
    if (ticket === '') return 'Noted.';
    const isAsking = ticket === 't-01' && !turn.text.includes(ANSWER);
    if (isAsking) return `${ASKS}${QUESTION}`;
    const act = performStep({ folder: cwd, ticket, course: 'works', call: 1, prompt: turn.text });
    return act.do === 'say'
      ? `NOTE: \`src/list.js\` has *one* entry a line, see <https://example.org>\n${act.text}`
      : '';
  },
  async look({ pages, say }) {
    for (const [name, html] of Object.entries(pages())) {
      if (shown.get(name) === html) continue;
      shown.set(name, html);
      await page.setContent(html);
      await page.screenshot({
        path: `${folder}/${room}-${name}-${String((count += 1)).padStart(3, '0')}.png`,
        fullPage: true,
      });
      if (answered || count < 12 || !html.includes(`asks: ${QUESTION}`) || /#general/.test(html)) continue;
      answered = true;
      say(name, ANSWER);
    }
  },
});
await browser.close();
