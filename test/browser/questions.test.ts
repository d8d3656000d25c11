import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { BackgroundRun } from '../../src/turns/floor/floor.ts';
import type { Question } from '../../src/turns/floor/settings.ts';
import type { JournalEntry } from '../../src/turns/view.ts';
import { hasBrowser, openBrowser } from './chromium.ts';
import { openStage } from './stage.ts';
import { FORM } from './views.ts';
import type { Stage } from './stage.ts';

const WITHIN = { timeout: 60_000, interval: 20 };
const PUBLISH = {
  question: 3,
  key: 'K3',
  title: 'run "npm publish"',
  detail: 'npm publish --access public',
  shown: true,
};

/** Runs in the page before its scripts: records the notifications that the system would show. */
function noteNotifications(): void {
  const shown: { title: string; body: string; click: () => void }[] = [];
  class Noted extends EventTarget {
    static permission = 'granted';
    static requestPermission = async (): Promise<string> => 'granted';
    constructor(title: string, { body = '' }: { body?: string }) {
      super();
      shown.push({ title, body, click: () => this.dispatchEvent(new Event('click')) });
    }
    close(): void {}
  }
  Object.assign(window, { Notification: Noted, shown });
}

describe.runIf(hasBrowser)('a request for permission', () => {
  let browser: Browser;
  let page: Page;
  let stage: Stage;
  let here: string;
  let there: string;

  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(async () => browser?.close());
  beforeEach(async () => {
    stage = await openStage({ channels: 30, discord: true });
    [here = ''] = stage.channels;
    there = stage.channels[20] ?? '';
    page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    await page.addInitScript(noteNotifications);
    await page.goto(stage.link());
    await page.getByTestId('composer').focus();
  });
  afterEach(async () => {
    await page.close();
    await stage.close();
  });

  const asks = (channel: string, asked: Partial<Question> = {}): void =>
    stage.hold(channel, 'dev', { waitingFor: 'approval', approval: { ...PUBLISH, ...asked } });
  const lines = (): readonly string[] => stage.intake.commands.map(({ channel, line }) => `${channel} ${line}`);
  const settled = (): Promise<void> => page.locator('[data-testid="approval"][data-settled="true"]').waitFor();
  /** Goes to the open request of the channel, and waits until its Reject button has the focus. */
  const goThere = async (): Promise<void> => {
    await page.keyboard.press('Alt+a');
    await page.locator('[data-testid="reject"]:focus').waitFor();
  };

  test('T45 of another channel is shown in the channel list, the title and the top bar until it is answered', async () => {
    asks(there);
    const entry = page.locator(`[data-testid="channel"][data-channel="${there}"]`);
    await expect.poll(() => entry.innerText(), WITHIN).toContain('waits for an answer');
    await expect.poll(() => page.title(), WITHIN).toBe('✋ dev asks in #channel-21 · Conch');
    expect(await page.getByTestId('waiting').innerText()).toContain('dev asks in #channel-21');
    expect(await page.getByTestId('approval').count()).toBe(0);
    stage.hold(there, 'dev');
    await expect.poll(() => page.getByTestId('waiting').count(), WITHIN).toBe(0);
    expect(await page.title()).toBe('Conch');
    expect(await entry.innerText()).not.toContain('waits for an answer');
  });

  test('T45 of another channel is opened from the composer by Alt+A, and allowed by A', async () => {
    asks(there);
    await page.getByTestId('waiting').waitFor();
    await page.keyboard.press('Alt+a');
    await settled();
    expect(await page.getByTestId('reject').evaluate((no) => no === document.activeElement)).toBe(true);
    await page.keyboard.press('a');
    await expect.poll(lines, WITHIN).toEqual([`${there} /allow 3`]);
  });

  test('T45 is denied by R, and not by other letters', async () => {
    asks(here);
    await settled();
    await goThere();
    for (const key of ['y', 'x', 'r']) await page.keyboard.press(key);
    await expect.poll(lines, WITHIN).toEqual([`${here} /reject 3`]);
  });

  test('T45 puts the focus on Reject, so Enter denies it', async () => {
    asks(here);
    await settled();
    await goThere();
    await page.keyboard.press('Enter');
    await expect.poll(lines, WITHIN).toEqual([`${here} /reject 3`]);
  });

  test('shows the step, the tool, the folder, the reason and the rules of a call, with changes in colour', async () => {
    const about = {
      step: 3,
      steps: 100,
      tool: 'edit',
      folder: '/srv/app',
      why: 'no rule covers it',
      says: 'I mend the typo',
    };
    const detail = 'a.txt (+1 -1)\n@@ -1 +1 @@\n-one\n+two';
    asks(here, { about, detail, always: [{ rule: 'edit(/a.txt)', words: 'edit a.txt, any content' }] });
    const box = page.getByTestId('approval');
    await expect.poll(() => box.innerText(), WITHIN).toContain('Step 3 of 100 · edit · in /srv/app');
    const text = await box.innerText();
    expect(text).toContain('Reason: no rule covers it');
    expect(text).toContain('dev says: “I mend the typo”');
    expect(text).toContain('Always allow: edit a.txt, any content');
    await box.locator('.is-addition', { hasText: '+two' }).waitFor();
    expect(await box.locator('.is-deletion').innerText()).toBe('-one');
  });

  test('shows ten changed lines above its buttons on a phone, with three always-allow rules', async () => {
    await page.setViewportSize({ width: 390, height: 800 });
    const changes = Array.from({ length: 20 }, (_, line) => `-old ${line}\n+new ${line}`);
    const path = 'src/adapters/page/floor/approval.tsx';
    const always = ['edit exactly', 'edit what lies beside', 'edit all files above'].map((words) => ({
      rule: `edit(${words})`,
      words: `${words} ${path}`,
    }));
    asks(here, { detail: `${path} (+20 -20)\n@@ -1,20 +1,20 @@\n${changes.join('\n')}`, always });
    await settled();
    const box = page.getByTestId('approval');
    const top = (await box.getByTestId('allow').boundingBox())?.y ?? 0;
    const shown = await box
      .locator('.is-addition, .is-deletion')
      .evaluateAll((all, limit) => all.filter((line) => line.getBoundingClientRect().bottom <= limit).length, top);
    expect(shown).toBeGreaterThanOrEqual(10);
    await box.getByTestId('always').last().click();
    expect(lines()).toEqual([`${here} /allow 3 always 3`]);
    // The rules come after the buttons, and the Allow button stays in view.
    const yes = await box.getByTestId('allow').boundingBox();
    expect((yes?.y ?? 0) + (yes?.height ?? 0)).toBeLessThanOrEqual(800);
  });

  test('T45 ignores a key that was pressed for the request before it', async () => {
    asks(here);
    await settled();
    await goThere();
    await page.evaluate(() => {
      const watch = new MutationObserver(() => {
        const next = document.querySelector('[data-testid="approval"][data-settled="false"]');
        next?.dispatchEvent(new KeyboardEvent('keydown', { key: 'a', bubbles: true }));
      });
      watch.observe(document.body, { childList: true, subtree: true });
    });
    asks(here, { question: 4, title: 'run "rm -rf build"' });
    await page.getByText('rm -rf build').first().waitFor();
    await settled();
    expect(lines()).toEqual([]);
  });

  test('T45 that is not yet whole in the channel cannot be allowed by a key', async () => {
    stage.hold(here, 'dev');
    await page.getByTestId('approval').waitFor({ state: 'detached' });
    asks(here, { shown: false });
    await settled();
    await goThere();
    await page.keyboard.press('a');
    await page.keyboard.press('r');
    await expect.poll(lines, WITHIN).toEqual([`${here} /reject 3`]);
  });

  const limit = {
    question: 5,
    key: 'K5',
    title: 'used 200 of 200 steps',
    detail: '',
    shown: true,
    pause: 'turn_limit',
  } as const;

  test('of a background run has answers for this run only, and a step limit has other answers', async () => {
    stage.hold(here, 'pm');
    const offered = [{ rule: 'execute(npm publish)', words: 'run exactly npm publish' }];
    stage.show(here, {
      asides: [
        { agent: 'dev', run: 2, question: { ...PUBLISH, question: 4, key: 'K4', always: offered } },
        { agent: 'qa', run: 7, question: limit },
      ],
    });
    const card = (number: number) => page.getByLabel(`Question ${number}`);
    await expect.poll(() => card(4).innerText(), WITHIN).toMatch(/dev’s background run wants to run .*\(4\)/);
    await card(4).getByTestId('always').click();
    await card(4).getByTestId('why').fill('not on a Friday');
    await card(4).getByTestId('reject').click();
    const given = [
      '/allow 4 always 1 of qK4',
      '/reject 4 not on a Friday of qK4',
      '/allow 5 of qK5',
      '/run complete qa+ of qK5',
      '/reject 5 of qK5',
    ];
    const sent = () => stage.intake.commands.map(({ line, drawnFor }) => `${line} of ${drawnFor}`);
    for (const [index, id] of ['allow', 'complete', 'reject'].entries()) {
      await expect.poll(sent, WITHIN).toEqual(given.slice(0, index + 2));
      await card(5).getByTestId(id).click();
      // An update by the server can move the button from under the pointer: presses again, as a person does.
      const isSent = () => sent().length > index + 2;
      if (!(await until(isSent, 3_000))) await card(5).getByTestId(id).click();
    }
    await expect.poll(sent, WITHIN).toEqual(given);
  });

  test('of a background run in another channel is shown in the title, and allowed by keys', async () => {
    stage.show(there, { asides: [{ agent: 'dev', run: 2, question: PUBLISH }] });
    await expect.poll(() => page.title(), WITHIN).toBe('✋ dev asks in #channel-21 · Conch');
    await page.keyboard.press('Alt+a');
    await settled();
    await page.keyboard.press('a');
    await expect.poll(lines, WITHIN).toEqual([`${there} /allow 3`]);
  });

  test('at a step limit replaces the Stop button of its background run in the panel by Answer', async () => {
    stage.show(here, {
      asides: [
        { agent: 'dev', run: 2 },
        { agent: 'qa', run: 7, question: limit },
      ],
    });
    await page.getByTestId('aside-dev').getByRole('button', { name: 'Stop dev+' }).click();
    await expect.poll(lines, WITHIN).toEqual([`${here} /run abort dev+`]);
    const other = page.getByTestId('aside-qa');
    expect(await other.innerText()).toContain('waits for an answer (5)');
    expect(await other.getByRole('button').allInnerTexts()).toEqual(['Answer', 'Status']);
    await other.getByRole('button', { name: 'Answer' }).click();
    await page.locator('[data-testid="reject"]:focus').waitFor();
    stage.show(here, { asides: [] });
    await page.getByTestId('asides').waitFor({ state: 'detached' });
  });

  test('T56 of a background run: the row shows the state of the run and the buttons for this state', async () => {
    const row = page.getByTestId('aside-dev');
    const words = async (): Promise<readonly string[]> => [
      ...(await row.locator('p').allInnerTexts()),
      ...(await row.getByRole('button').allInnerTexts()),
    ];
    const states: readonly (readonly [Partial<BackgroundRun>, readonly string[]])[] = [
      [{}, ['dev is working', 'Status', 'Stop']],
      [{ question: PUBLISH }, ['dev waits for an answer (3)', 'Answer', 'Status', 'Stop']],
      [{ failed: true }, ['dev failed', 'Status', 'Retry', 'Discard']],
    ];
    for (const [aside, shown] of states) {
      stage.show(here, { asides: [{ agent: 'dev', run: 2, ...aside }] });
      await expect.poll(words, WITHIN).toEqual(shown);
    }
    await page.getByRole('button', { name: 'Retry dev+' }).click();
    await page.getByRole('button', { name: 'Discard dev+' }).click();
    const discarded = `${here} /run abort dev+ discarded`;
    await expect.poll(lines, WITHIN).toEqual([`${here} /run retry dev+`, discarded]);
    stage.show(here, { asides: [] });
    await page.getByTestId('asides').waitFor({ state: 'detached' });
  });

  test('T46 answered on another platform is shown with its outcome and the name of the person who answered', async () => {
    const at = Date.now();
    const elsewhere = stage.channels.find((id) => id.startsWith('discord:')) ?? '';
    const [, agent = ''] = stage.agents;
    const answered = { kind: 'answered', agent, question: 3, title: 'run "npm publish"', choice: 'allow' } as const;
    const told = (seq: number, more: object): JournalEntry => ({
      key: elsewhere,
      seq,
      at: at + seq,
      fact: {
        type: 'announced',
        announcement: { ...answered, by: 'Ada', at, ...more },
        key: 'approval:3',
        repeat: 2,
        shown: true,
      },
      hash: '',
    });
    const author = { kind: 'person', id: 'discord:1', name: 'Anna' } as const;
    const line = { line: 1, at: at - 9, author, text: 'Publish', attachments: [], message: 'm1', change: null };
    stage.queries.spoken.push(line);
    await page.locator(`[data-testid="channel"][data-channel="${elsewhere}"]`).click();
    stage.queries.entries.push(told(1, {}), told(2, { callOutcome: { status: 'complete', ms: 2_100 } }));
    stage.hold(elsewhere, agent);
    await expect
      .poll(() => page.getByTestId('answered').allInnerTexts(), WITHIN)
      .toEqual([expect.stringMatching(/^✅ dev ran run "npm publish" in 2\.1 s · allowed once by Ada/)]);
  });

  test('T72 about trust in a folder shows its files, and two buttons that decide on these files only', async () => {
    const trust = { agent: 'dev', id: 'a1b2', folder: '/work/site', detail: '.mcp.json (12 bytes)', shown: true };
    stage.show(here, { trust: [trust] });
    const box = page.getByTestId('trust');
    await expect.poll(() => box.innerText(), WITHIN).toContain('.mcp.json (12 bytes)');
    await box.getByTestId('trust-folder').click();
    await box.getByTestId('leave-folder').click();
    await expect
      .poll(() => lines(), WITHIN)
      .toEqual([`${here} /agent trust dev a1b2`, `${here} /agent distrust dev a1b2`]);
  });

  /** Returns whether a condition becomes true within `ms`. */
  async function until(holds: () => boolean, ms: number): Promise<boolean> {
    const end = performance.now() + ms;
    while (!holds() && performance.now() < end) await new Promise((done) => setTimeout(done, 20));
    return holds();
  }

  describe('that has a form', () => {
    const filled = async (): Promise<void> => {
      asks(here, FORM);
      await page.getByLabel('Title').fill('The page is "red"\nvotes=9');
    };
    const send = (): Promise<void> => page.getByTestId('send-answer').click();

    test('is answered with all values in one command, and takes the letter A as text', async () => {
      await filled();
      await page.getByLabel('Title').press('a');
      await page.getByLabel('BUG', { exact: true }).check();
      await page.getByLabel('Urgent?').selectOption('no');
      await page.getByLabel('Mail').fill('ann@example.org');
      expect(lines()).toEqual([]);
      await send();
      const words = String.raw`title="The page is \"red\"\nvotes=9a" kind=idea labels=bug urgent=no votes=2 mail=ann@example.org`;
      await expect.poll(lines, WITHIN).toEqual([`${here} /answer 3 ${words}`]);
      expect(stage.intake.commands[0]?.drawnFor).toBe('qK3');
    });

    test.each([1280, 390])(
      'shows errors beside their fields, focuses the first such field, and keeps the values at %s px',
      async (width) => {
        await page.setViewportSize({ width, height: 800 });
        stage.intake.answer = { ok: false, text: 'all of it', fields: { votes: 'Too big', mail: 'Invalid email' } };
        await filled();
        await page.getByLabel('Mail').fill('ann');
        await page.getByLabel('Mail').press('Enter');
        const votes = page.getByLabel('Votes');
        await expect.poll(() => votes.getAttribute('aria-invalid'), WITHIN).toBe('true');
        expect(await votes.evaluate((field) => field === document.activeElement)).toBe(true);
        const isSeen = (): Promise<boolean> =>
          page
            .getByText('Too big')
            .evaluate(
              (told) =>
                document.elementFromPoint(told.getBoundingClientRect().x + 1, told.getBoundingClientRect().y + 1) ===
                told,
            );
        await expect.poll(isSeen, WITHIN).toBe(true);
        const described = (await votes.getAttribute('aria-describedby'))?.split(' ') ?? [];
        const told = await Promise.all(described.map((id) => page.locator(`[id="${id}"]`).innerText()));
        expect(told).toEqual(['a whole number, at least 1', 'Too big']);
        expect(await page.getByLabel('Title').inputValue()).toContain('votes=9');
        expect(await page.getByTestId('toast').count()).toBe(0);
        stage.intake.answer = { ok: false, text: 'Bo answered that before.' };
        await send();
        await expect.poll(() => page.getByRole('alert').allInnerTexts(), WITHIN).toContain('Bo answered that before.');
        expect(await votes.getAttribute('aria-invalid')).toBe('false');
      },
    );

    test('keeps its values while another channel is open', async () => {
      await filled();
      await page.locator(`[data-testid="channel"][data-channel="${there}"]`).click();
      await page.getByTestId('answer-form').waitFor({ state: 'detached' });
      await page.locator(`[data-testid="channel"][data-channel="${here}"]`).click();
      await expect.poll(() => page.getByLabel('Title').inputValue(), WITHIN).toContain('The page is');
    });

    test('is declined by R outside of its fields, and has a Decline button', async () => {
      asks(here, FORM);
      await settled();
      await goThere();
      await page.keyboard.press('a');
      await page.keyboard.press('r');
      await expect.poll(lines, WITHIN).toEqual([`${here} /reject 3`]);
      expect(await page.getByTestId('reject').innerText()).toMatch(/^Decline/);
    });

    test('cannot be sent before the channel shows it whole', async () => {
      asks(here, { ...FORM, shown: false });
      await page.getByTestId('answer-form').waitFor();
      expect(await page.getByTestId('send-answer').isDisabled()).toBe(true);
    });
  });

  test('with a link is answered by a button, and the page neither links nor fetches the address', async () => {
    const url = 'https://evil.example/login?a=1';
    const about = { step: 1, steps: 9, tool: 'ask of hub', folder: null, why: 'hub asks', says: null, answer: 'done' };
    const fetched: string[] = [];
    page.on('request', (request) => void fetched.push(request.url()));
    asks(here, {
      title: 'hub asks: Sign in',
      detail: `Sign in\n\nThe server wants you to do that at evil.example:\n${url}`,
      about,
    });
    await expect.poll(() => page.getByTestId('approval').innerText(), WITHIN).toContain(url);
    expect(await page.locator(`a[href^="https://evil"]`).count()).toBe(0);
    await settled();
    await page.getByTestId('done').click();
    await expect.poll(lines, WITHIN).toEqual([`${here} /answer 3 done`]);
    expect(fetched.filter((each) => each.includes('evil'))).toEqual([]);
  });

  test('T45 of another channel is notified once, to people who turned it on, and a click opens the channel', async () => {
    const shown = (): Promise<readonly string[]> =>
      page.evaluate(() =>
        (window as unknown as { shown: { title: string; body: string }[] }).shown.map(
          ({ title, body }) => `${title}: ${body}`,
        ),
      );
    asks(there);
    await page.getByTestId('waiting').waitFor();
    expect(await shown()).toEqual([]);
    stage.hold(there, 'dev');
    await page.getByTestId('waiting').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Notify me when an agent asks' }).click();
    asks(there, { question: 5 });
    await expect.poll(shown, WITHIN).toEqual(['dev asks in #channel-21: run "npm publish"']);
    asks(here, { question: 6 });
    await page.getByTestId('approval').waitFor();
    expect(await shown()).toHaveLength(1);
    await page.evaluate(() => (window as unknown as { shown: { click(): void }[] }).shown[0]?.click());
    await expect.poll(() => page.evaluate(() => location.hash), WITHIN).toBe(`#${encodeURIComponent(there)}`);
  });
});
