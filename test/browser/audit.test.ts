import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { auditRow } from '../adapters/console/fakes.ts';
import { hasBrowser, openBrowser } from './chromium.ts';
import { openStage } from './stage.ts';
import type { Stage } from './stage.ts';

const WITHIN = { timeout: 60_000, interval: 20 };

describe.runIf(hasBrowser)("the page's view of tool calls", () => {
  let browser: Browser;
  let page: Page;
  let stage: Stage;

  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(async () => browser?.close());
  beforeEach(async () => {
    stage = await openStage({ channels: 2 });
    page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    await page.goto(stage.link());
    await page.getByTestId('composer').waitFor();
  });
  afterEach(async () => {
    await page.close();
    await stage.close();
  });

  const shown = (): Promise<readonly (string | null)[]> =>
    page.getByTestId('call').evaluateAll((calls) => calls.map((call) => call.getAttribute('data-seq')));
  const open = async (): Promise<void> => {
    await page.getByTestId('audit').click();
    await page.locator('[data-testid="calls"][data-reading="false"]').waitFor({ state: 'attached' });
  };

  test('loads the newest 100 of 10,000 calls, and 100 more on request', async () => {
    for (let seq = 1; seq <= 10_000; seq += 1) stage.audit.rows.push(auditRow(seq));
    await open();
    await expect.poll(async () => (await shown()).length, WITHIN).toBe(100);
    expect((await shown())[0]).toBe('10000');
    await page.getByTestId('earlier-calls').click();
    await expect.poll(async () => (await shown()).length, WITHIN).toBe(200);
    expect((await shown()).at(-1)).toBe('9801');
    expect(stage.audit.read).toBe(200);
  });

  test('reports that its script cannot be loaded, and closes again', async () => {
    await page.route('**/assets/views-*.js', async (route) => await route.abort());
    await page.getByTestId('audit').click();
    const said = page.getByRole('alert').filter({ hasText: 'load the page again' });
    await said.waitFor();
    await page.getByTestId('audit').click();
    await page.getByTestId('composer').waitFor();
    expect(await said.count()).toBe(0);
  });

  test('adds and updates calls without a reload, and shows only calls that match the filter', async () => {
    stage.audit.rows.push(auditRow(1));
    await open();
    await expect.poll(shown, WITHIN).toEqual(['1']);
    await page.getByTestId('filter-agent').selectOption('dev');
    stage.audit.change(auditRow(2, { decision: 'open', status: 'pending' }), auditRow(3, { agent: 'qa' }));
    await expect.poll(shown, WITHIN).toEqual(['2', '1']);
    const first = async (): Promise<string> => await page.getByTestId('call').first().innerText();
    await expect.poll(first, WITHIN).toContain('waiting for a decision');
    stage.audit.change(auditRow(2));
    await expect.poll(first, WITHIN).toContain('allowed once');
    await page.getByTestId('filter-agent').selectOption('');
    await expect.poll(shown, WITHIN).toEqual(['3', '2', '1']);
  });

  test('applies the chosen filters, and exports the same calls', async () => {
    stage.audit.rows.push(
      auditRow(1, { tool: 'Bash', decision: 'rule', rule: 'execute(ls)' }),
      auditRow(2, { decision: 'denied-person', status: 'error', code: 'DENIED' }),
      auditRow(3, { tool: 'bash_output', decision: 'rule' }),
    );
    await open();
    await page.getByTestId('filter-decision').selectOption('rule');
    await expect.poll(shown, WITHIN).toEqual(['3', '1']);
    await page.getByTestId('filter-tool').fill('BASH_');
    await page.getByTestId('filter-tool').press('Enter');
    await expect.poll(shown, WITHIN).toEqual(['3']);
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Export' }).click();
    const stream = await (await download).createReadStream();
    const lines = (await stream.toArray()).join('').trimEnd().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as { seq: number }).seq)).toEqual([3]);
    await page.getByTestId('filter-outcome').selectOption('open');
    await page.getByText('No matching call').waitFor();
  });

  test('shows the whole record of a call, escapes invisible characters, and renders no HTML', async () => {
    const row = auditRow(1, {
      tool: '<img src=x onerror=document.title="bad">',
      input: { path: 'a\u202Eb', html: '<b>bold</b>' },
      output: 'done\u200B <script>document.title="bad"</script>',
      decision: 'denied-person',
      reason: 'use b.txt',
      rule: 'edit(**)',
      taint: 'example.org',
      code: 'DENIED',
    });
    stage.audit.rows.push(row);
    await open();
    await page.getByTestId('call').locator('summary').press('Enter');
    const record = page.locator('.record');
    await record.waitFor();
    const text = (await record.innerText()).replaceAll(/\s+/g, ' ');
    for (const part of [
      '"a\\u{202E}b"',
      '<b>bold</b>',
      'done\\u{200B} <script>',
      'denied by Ann, ',
      '“use b.txt”',
      'edit(**)',
      'Requested by Ann',
      'run dev#1, step 1',
      'Untrusted input example.org',
      'waited 4 s for a person',
      'took 2.1 s',
      'DENIED',
      'd1',
    ])
      expect(text).toContain(part);
    expect([await page.locator('.call img, .call b, .call script').count(), await page.title()]).toEqual([0, 'Conch']);
  });

  test.each([
    ['is unknown', ''],
    ['was not recorded', null],
  ])('says that nobody known asked for a call whose requester %s', async (_, requestedBy) => {
    stage.audit.rows.push(auditRow(1, { requestedBy }));
    await open();
    await page.getByTestId('call').locator('summary').press('Enter');
    await expect
      .poll(async () => await page.locator('.record').innerText(), WITHIN)
      .toMatch(/Requested by\s+nobody known/);
  });

  test("revokes a rule in the rule's channel, after a second press", async () => {
    const there = stage.channels[1] ?? '';
    const yes = { channel: there, agent: 'dev', by: 'u1', at: 1, until: Date.now() + 9e9, uses: 2, usedAt: 2 };
    stage.audit.remembered = [{ ...yes, rule: 'execute(npm test)', revoke: '/run revoke dev #1.1' }];
    await open();
    await page.getByTestId('revoke').click();
    expect(stage.intake.commands).toEqual([]);
    await page.getByTestId('revoke-sure').click();
    await page.getByTestId('toast').waitFor();
    expect(stage.intake.commands.map(({ channel, line }) => [channel, line])).toEqual([
      [there, '/run revoke dev #1.1'],
    ]);
    stage.audit.remembered = [];
    stage.audit.change();
    await page.getByText('There are no always-allow rules.').waitFor();
  });

  test('leads from an open request to its question in another channel', async () => {
    const there = stage.channels[1] ?? '';
    stage.hold(there, 'dev', {
      waitingFor: 'approval',
      approval: { question: 3, title: 'run it', detail: 'npm test', shown: true },
    });
    stage.audit.asked = [{ channel: there, agent: 'dev', tool: 'Bash', askedAt: 1, until: null, question: 3 }];
    await open();
    await page.getByTestId('asked').getByRole('button', { name: 'Show' }).click();
    await page.locator('[data-testid="reject"]:focus').waitFor();
    expect(await page.getByTestId('calls').count()).toBe(0);
  });

  test('keeps the button of an open request readable on a phone', async () => {
    const small = await openStage({ channels: 1 });
    const phone = await browser.newPage({ viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });
    await phone.goto(small.link());
    await phone.getByTestId('composer').waitFor();
    const approval = { question: 3, title: 'run it', detail: 'npm test', shown: true };
    small.hold(small.channels[0] ?? '', 'dev', { waitingFor: 'approval', approval });
    await phone.getByTestId('audit').click();
    await phone.getByTestId('waiting').waitFor();
    const ends = await phone
      .locator('.top-bar > *')
      .evaluateAll((parts) => parts.map((part) => part.getBoundingClientRect().right));
    expect(Math.max(...ends)).toBeLessThanOrEqual(360);
    expect(await phone.getByTestId('waiting').evaluate((button) => button.clientWidth)).toBeGreaterThan(60);
    await phone.close();
    await small.close();
  });

  test('opens by the key 4, closes by Escape, and stays open over a reload', async () => {
    stage.audit.rows.push(auditRow(1));
    await page.locator('body').press('4');
    await expect.poll(shown, WITHIN).toEqual(['1']);
    await page.reload();
    await expect.poll(shown, WITHIN).toEqual(['1']);
    await page.locator('body').press('Escape');
    await page.getByTestId('composer').waitFor();
    expect(await page.evaluate(() => location.hash)).toBe(`#${encodeURIComponent(stage.channels[0] ?? '')}`);
  });
});
