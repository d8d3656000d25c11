import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { hasBrowser, openBrowser } from './chromium.ts';
import { openStage } from './stage.ts';
import type { Stage } from './stage.ts';

const WITHIN = { timeout: 60_000, interval: 20 };

const EVERYTHING = [
  '# Plan\n\nFirst, **bold**, *thin*, ~~gone~~ and `code`.\nA second line, see [the docs](https://example.org/a) or https://example.org/b.',
  '1. one\n2. two\n   - below\n\n- [x] done\n- [ ] open',
  '> quoted\n\n---',
  '| name | n |\n|---|--:|\n| a | 1 |',
  '```ts\nconst word = "text"; // why\n```',
  'For @dev, not for dev@example.org.',
].join('\n\n');

const LONG_CODE = `\`\`\`\n${'const a_very_long_name_without_any_place_to_break = '.repeat(20)}\n\`\`\``;

/** Texts that a manipulated agent might post: scripts, unsafe links, remote files, input that is slow to parse. */
const HOSTILE = [
  '<script>window.hit = 1</script>',
  '<img src=x onerror="window.hit = 1">',
  '![seen](https://attacker.example/pixel.png)',
  '![seen](data:image/svg+xml,<svg onload="window.hit=1">)',
  '[click](javascript:window.hit=1)',
  '[click](JaVaScRiPt:window.hit=1)',
  '[click](&#106;avascript:window.hit=1)',
  '[click](data:text/html,<script>window.hit=1</script>)',
  '[click](vbscript:window.hit=1)',
  '<javascript:window.hit=1>',
  '[a]: javascript:window.hit=1\n\n[a]',
  '<a href="javascript:window.hit=1">x</a>',
  '<iframe src="https://attacker.example"></iframe>',
  '<svg><script>window.hit = 1</script></svg>',
  '<style>body { display: none }</style>',
  '<link rel="stylesheet" href="https://attacker.example/a.css">',
  '<base href="https://attacker.example/">',
  '<form action="https://attacker.example"><button>Send</button></form>',
  '<div style="position:fixed;inset:0">over everything</div>',
  '[x](https://example.org" onmouseover="window.hit=1)',
  '```<script>window.hit=1</script>\nx\n```',
  '```html\n<script>window.hit = 1</script>\n```',
  '| <img src=x onerror=window.hit=1> |\n|---|\n| <script>window.hit=1</script> |',
  '# <b onclick="window.hit=1">x</b>',
  `${'>'.repeat(3000)} deep`,
  `${'- '.repeat(2000)}deep`,
  Array.from({ length: 400 }, (_, depth) => `${'  '.repeat(depth)}- deep`)
    .join('\n')
    .slice(0, 16_000),
  `${'['.repeat(5000)}x`,
  '*a '.repeat(4000),
  '`'.repeat(4001),
  '<'.repeat(8000),
  `|${'a|'.repeat(3000)}\n|${'-|'.repeat(3000)}`,
  '\u202Egnp.exe\u202C &lt;b&gt; \u0000',
];

describe.runIf(hasBrowser)('a text of an agent or a person', () => {
  let browser: Browser;
  let page: Page;
  let stage: Stage;
  let channel: string;

  beforeAll(async () => {
    browser = await openBrowser();
    stage = await openStage();
    channel = stage.channels[0] ?? '';
    const context = await browser.newContext({ viewport: { width: 1000, height: 800 } });
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    page = await context.newPage();
    await page.goto(stage.link());
  });
  afterAll(async () => {
    await browser?.close();
    await stage.close();
  });
  beforeEach(() => page.getByTestId('connection').waitFor());

  /** Posts a text and returns its message on the page. */
  const said = async (text: string, agent = 'dev'): Promise<Locator> => {
    const id = await stage.post(channel, agent, text);
    const shown = page.locator(`[data-id="${id}"]`);
    await shown.waitFor();
    return shown;
  };
  const count = (shown: Locator, selector: string): Promise<number> => shown.locator(selector).count();

  test('T43 Markdown is drawn: headings, lists, quotes, tables, links, emphasis, code', async () => {
    const shown = await said(EVERYTHING);
    const found = await Promise.all(
      ['[role=heading]', 'strong', 'em', 'del', 'ol > li', 'ul > li', 'li.task', 'blockquote', 'hr', 'td', 'pre'].map(
        async (selector) => [selector, await count(shown, `.text ${selector}`)] as const,
      ),
    );
    expect(Object.fromEntries(found)).toEqual({
      '[role=heading]': 1,
      strong: 1,
      em: 1,
      del: 1,
      'ol > li': 2,
      'ul > li': 3,
      'li.task': 2,
      blockquote: 1,
      hr: 1,
      td: 2,
      pre: 1,
    });
    const links = await shown.locator('.text a').evaluateAll((all) => all.map((link) => link.getAttribute('href')));
    expect(links.slice(0, 2)).toEqual(['https://example.org/a', 'https://example.org/b']);
    expect(await shown.locator('.text p', { hasText: 'A second line' }).locator('br').count()).toBe(1);
    expect(await shown.locator('.mention').allInnerTexts()).toEqual(['@dev']);
  });

  test('T43 code has colours, and a button copies it whole', async () => {
    const shown = await said(EVERYTHING);
    await expect.poll(() => count(shown, 'pre .is-keyword'), WITHIN).toBe(1);
    expect(await count(shown, 'pre .is-string')).toBe(1);
    expect(await count(shown, 'pre .is-comment')).toBe(1);
    await shown.getByRole('button', { name: 'Copy the code' }).click();
    await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe('const word = "text"; // why');
  });

  test('T43 long code of a person stays within the conversation and can be scrolled with the keyboard', async () => {
    for (const width of [390, 1000]) {
      await page.setViewportSize({ width, height: 800 });
      await page.getByTestId('composer').fill(LONG_CODE);
      await page.getByTestId('send').click();
      const own = page.locator('[data-kind="person"]').last();
      await own.locator('pre').waitFor();
      const room = await page.getByTestId('conversation').boundingBox();
      const bubble = await own.locator('.text').boundingBox();
      expect(bubble?.x).toBeGreaterThanOrEqual(room?.x ?? Infinity);
      expect((bubble?.x ?? 0) + (bubble?.width ?? Infinity)).toBeLessThanOrEqual((room?.x ?? 0) + (room?.width ?? 0));
      await expect.poll(() => own.locator('pre').getAttribute('tabindex'), WITHIN).toBe('0');
    }
    await page.setViewportSize({ width: 1000, height: 800 });
  });

  test('T43 markup that Markdown would hide is shown as it was typed', async () => {
    const shown = await said(
      '[todo]: later\n\n<!-- aside -->\n\n<b>bold</b> &amp; ![picture](x.png) [a](javascript:b)',
    );
    const words = await shown.locator('.text').innerText();
    for (const typed of ['[todo]: later', '<!-- aside -->', '<b>bold</b>', '![picture](x.png)', '[a](javascript:b)']) {
      expect(words).toContain(typed);
    }
  });

  test('T43 an unclosed code fence is shown as code while its draft grows', async () => {
    stage.hold(channel, 'qa');
    stage.adapter.draft?.(channel, { id: 'qa', name: 'qa', avatar: null }, 7, 'So:\n\n```ts\nconst a = 1;\ncon');
    const draft = page.getByTestId('draft');
    await expect
      .poll(
        () =>
          draft
            .locator('pre')
            .innerText()
            .catch(() => ''),
        WITHIN,
      )
      .toBe('const a = 1;\ncon');
    expect(await draft.innerText()).not.toContain('```');
  });

  test('T43 a finished block is not redrawn while its draft grows', async () => {
    const speaker = { id: 'qa', name: 'qa', avatar: null };
    const pieces = `${EVERYTHING}\n\n${EVERYTHING}`;
    const first = pieces.slice(0, 300);
    stage.hold(channel, 'qa');
    stage.adapter.draft?.(channel, speaker, 7, first);
    const draft = page.getByTestId('draft');
    await draft.locator('ol > li').first().waitFor();
    await draft.locator('[role=heading]').evaluate((heading) => {
      const changes = new MutationObserver((list) => {
        heading.setAttribute('data-changes', String(list.length));
      });
      changes.observe(heading, { childList: true, characterData: true, subtree: true });
      heading.setAttribute('data-mine', '');
    });
    for (let end = 340; end < pieces.length; end += 80) {
      stage.adapter.draft?.(channel, speaker, 7, pieces.slice(0, end));
      const shown = pieces.slice(0, end).split('\n\n').length;
      await expect.poll(() => draft.locator('.text > *').count(), WITHIN).toBeGreaterThan(shown / 3);
    }
    stage.adapter.draft?.(channel, speaker, 7, `${pieces}\n\nThe end.`);
    await draft.getByText('The end.').waitFor();
    expect(await draft.locator('[data-mine]').count()).toBe(1);
    expect(await draft.locator('[data-changes]').count()).toBe(0);
    expect(await draft.locator('[role=heading]').count()).toBe(2);
    stage.show(channel, { holder: null, condition: 'resting' });
    stage.adapter.draft?.(channel, speaker, 7, null);
  });

  test.each(HOSTILE.map((text) => ({ text, name: JSON.stringify(text.slice(0, 40)) })))(
    'T43 nothing runs and nothing is fetched for $name',
    async ({ text }) => {
      const asked: string[] = [];
      const note = (request: { url(): string }): void => void asked.push(request.url());
      page.on('request', note);
      const shown = await said(text);
      const risky =
        'script, img, iframe, style, link, base, form, svg:not(.icon), [onerror], [onload], [onclick], [style]';
      expect(await count(shown, `.text :is(${risky})`)).toBe(0);
      const hrefs = await shown
        .locator('.text a')
        .evaluateAll((all) => all.map((link) => link.getAttribute('href') ?? ''));
      expect(hrefs.filter((href) => !/^(https?:|mailto:)/.test(href))).toEqual([]);
      expect(await page.evaluate(() => 'hit' in window)).toBe(false);
      page.off('request', note);
      expect(asked.filter((url) => !url.startsWith(stage.url))).toEqual([]);
    },
  );
});
