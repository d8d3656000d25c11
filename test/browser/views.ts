import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import type { Question } from '../../src/turns/floor/settings.ts';
import type { Browser, Page } from 'playwright-core';
import type { ReviewView } from '../../src/turns/view.ts';
import type { AuditRow } from '../../src/turns/tool-calls.ts';
import { auditRow } from '../adapters/console/fakes.ts';
import { crewOf, openCrew } from './crews.ts';
import { openStage } from './stage.ts';
import type { Scenery, Stage } from './stage.ts';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const WIDTHS = [1440, 1024, 390] as const;
export const THEMES = ['light', 'dark'] as const;
/** A small, a medium and a large Conch. */
const SIZES = [
  { agents: 1, channels: 1 },
  { agents: 5, channels: 8, discord: true },
  { agents: 30, channels: 40, discord: true, longNames: true },
] as const satisfies readonly Scenery[];

/** A view of the page. */
export type ViewName = (typeof VIEWS)[number];
export const VIEWS = [
  'empty',
  'busy',
  'asking',
  'filling',
  'beside',
  'elsewhere',
  'limit',
  'turns',
  'journal',
  'review',
  'seat',
  'help',
  'choices',
  'editing',
  'deleting',
  'toast',
  'lost',
  'window',
  'calls',
  'call',
  'no-calls',
  'crew',
  'crew-empty',
  'crew-asked',
  'crew-panel',
] as const;

/** Returns the sizes in which axe checks a view: all if the view depends on the size, else the medium one. */
export function sizesFor(view: ViewName): readonly Scenery[] {
  return ['empty', 'busy', 'asking', 'filling', 'beside', 'calls'].includes(view) ? SIZES : SIZES.slice(1, 2);
}

/** An accessibility rule that axe found violated, with the element and the reason. */
export type Violation = { readonly view: string; readonly rule: string; readonly where: string; readonly why: string };

const LONG_TEXT = [
  '# Plan\n\nFirst **this**, then `that`, see [the docs](https://example.org).\n\n1. one\n2. two\n\n- [x] done\n\n> quoted',
  `| name | value |\n|---|---|\n| ${'long '.repeat(60)} | ${'longer '.repeat(60)} |`,
  '```ts\n/* why */ const word: string = `text`; return { word, n: 1 };\n```',
  `\`\`\`\n${'const a_name_without_a_place_to_break = '.repeat(12)}\n\`\`\``,
].join('\n\n');

/** Opens one view of the page, runs `look` on it and closes it. */
export async function withView<T>(
  browser: Browser,
  how: { readonly view: ViewName; readonly size: Scenery; readonly width: number; readonly theme: 'light' | 'dark' },
  look: (page: Page) => Promise<T>,
): Promise<T> {
  const stage = await openStage(how.size);
  const page = await browser.newPage({
    viewport: { width: how.width, height: 800 },
    colorScheme: how.theme,
    reducedMotion: 'reduce',
  });
  try {
    if (how.view !== 'empty') await furnish(stage);
    await page.goto(stage.link());
    await page.locator('[data-testid="connection"][data-state="open"]').waitFor();
    await PREPARE[how.view](stage, page);
    return await look(page);
  } finally {
    await page.close();
    await stage.close();
  }
}

/** Returns the violations that axe finds in the page as it is now. */
export async function violations(page: Page, view: string): Promise<readonly Violation[]> {
  await page.evaluate(AXE);
  const found = await page.evaluate('axe.run(document, { resultTypes: ["violations"] })');
  return (found as AxeResults).violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary = '' }) => ({
      view,
      rule: id,
      where: target.join(' '),
      why: failureSummary.replaceAll(/\s+/g, ' ').slice(0, 300),
    })),
  );
}

async function furnish(stage: Stage): Promise<void> {
  const [channel = ''] = stage.channels;
  for (const [place, agent] of stage.agents.slice(0, 8).entries()) {
    await stage.post(
      channel,
      agent,
      place === 1 ? LONG_TEXT : `@${stage.agents[0] ?? ''} what about \`part ${place}\`?`,
    );
  }
  await stage.post(channel, null, '⏱️ pm turn timed out');
  stage.hold(channel, stage.agents[0] ?? '');
  const turns = stage.agents.slice(0, 8).map((agent, place) => ({
    epoch: place + 1,
    agent,
    startedAt: Date.now() - 600_000 + place * 60_000,
    endedAt: Date.now() - 560_000 + place * 60_000,
    outcome: (['completed', 'passed', 'expired', 'revoked'] as const)[place % 4] ?? null,
    said: 1,
    waits: [],
  }));
  stage.queries.turnsOf.set(channel, turns);
}

type Prepare = (stage: Stage, page: Page) => Promise<void>;

const nothing: Prepare = async () => {};

const PREPARE: Readonly<Record<ViewName, Prepare>> = {
  empty: nothing,
  busy: async (stage, page) => {
    await say(page, `Mine\n\n${LONG_TEXT}`);
    const [message] = stage.intake.messages;
    if (message === undefined) return;
    await stage.adapter.receipt?.(message.channel, message.id, 'held');
    stage.show(message.channel, { held: [message.id] });
    stage.adapter.draft?.(message.channel, speakerOf(stage), 7, 'I am **still** writing\n\n```ts\nconst');
    await page.getByTestId('draft').locator('pre').waitFor();
    await page.locator('.receipt').waitFor();
  },
  asking: async (stage, page) => {
    asks(stage, stage.channels[0] ?? '');
    await page.getByTestId('approval').waitFor();
  },
  filling: async (stage, page) => {
    const [channel = ''] = stage.channels;
    asks(stage, channel, FORM);
    await page.getByLabel('Title').fill('ab');
    const text = 'title: Too small: expected text to have at least 3 characters';
    stage.intake.answer = { ok: false, text, fields: { title: text, labels: 'Too big' } };
    await page.getByTestId('send-answer').click();
    await page.locator('.field-error').nth(1).waitFor();
  },
  beside: async (stage, page) => {
    const [channel = ''] = stage.channels;
    const [agent = '', other = agent, third = other] = stage.agents;
    asks(stage, channel);
    const beside = { ...QUESTION, question: 4, detail: 'npm publish', title: 'run "npm publish"' };
    const limit = {
      question: 5,
      title: 'used 200 of 200 steps',
      detail: '',
      shown: true,
      pause: 'turn_limit',
    } as const;
    stage.show(channel, {
      asides: [
        { agent: 'ops', run: 1 },
        { agent: other, run: 2, question: beside, until: Date.now() + 300_000 },
        { agent: third === other ? 'lab' : third, run: 3, question: limit, until: Date.now() + 300_000 },
      ],
    });
    await page.locator('[data-testid="approval"]').nth(2).waitFor();
  },
  elsewhere: async (stage, page) => {
    if (stage.channels.length < 2) return;
    asks(stage, stage.channels[1] ?? '');
    await page.getByTestId('waiting').waitFor();
  },
  limit: async (stage, page) => {
    const obstacles = [
      { why: 'limit', budget: 'turns' },
      { why: 'resting', after: 'rounds' },
    ] as const;
    stage.show(stage.channels[0] ?? '', { holder: null, condition: 'resting', obstacles });
    await page.getByTestId('resume').waitFor();
  },
  turns: (_stage, page) => openTab(page, 'Turns'),
  journal: async (stage, page) => {
    const channel = stage.channels[0] ?? '';
    const fact = { type: 'seatMoved', agent: 'pm', from: 'QUEUED', to: 'ACTIVE', trigger: 'TURN_GRANTED' } as const;
    for (let seq = 1; seq < 40; seq += 1)
      stage.queries.entries.push({ key: channel, seq, at: Date.now(), fact, hash: '' });
    await openTab(page, 'Journal');
    await page.locator('.entry summary').first().click();
  },
  review: async (stage, page) => {
    reviewed(stage);
    await openTab(page, 'Floor');
    await page.getByTestId('findings').waitFor();
  },
  seat: async (stage, page) => {
    await openTab(page, 'Floor');
    await page
      .getByTestId(`seat-${stage.agents[0] ?? ''}`)
      .locator('.seat-row')
      .click();
  },
  help: async (_stage, page) => {
    await page.locator('body').press('?');
    await page.locator('dialog[open]').waitFor();
  },
  choices: async (_stage, page) => {
    await page.getByTestId('composer').fill('/floor');
    await page.locator('.choices').waitFor();
  },
  editing: async (_stage, page) => {
    await say(page, 'Mine');
    await page.locator('[data-kind="person"]').last().hover();
    await page.getByRole('button', { name: 'Edit' }).last().click();
    await page.locator('.editor').waitFor();
  },
  deleting: async (_stage, page) => {
    await say(page, 'Mine');
    await page.locator('[data-kind="person"]').last().hover();
    await page.getByRole('button', { name: 'Delete' }).last().click();
    await page.getByRole('button', { name: 'Undo' }).waitFor();
  },
  toast: async (_stage, page) => {
    await page.getByTestId('pause').click();
    await page.getByTestId('toast').waitFor();
    await say(page, '/floor status');
    await page.getByTestId('answer').waitFor();
  },
  lost: async (stage, page) => {
    await stage.close();
    await page.locator('[data-testid="connection"][data-state="lost"]').waitFor();
  },
  window: async (stage, page) => {
    const there = stage.channels.at(-1) ?? '';
    if (!there.startsWith('discord:')) return;
    const author = { kind: 'person', id: 'discord:1', name: 'Anna' } as const;
    const said = { line: 1, author, text: 'From Discord', at: Date.now(), message: 'm1' };
    stage.queries.spoken.push({ ...said, attachments: [], change: null });
    await page.getByTestId('channel').last().click();
    await page.getByText('read only').waitFor();
  },
  calls: async (stage, page) => {
    called(stage);
    await openCalls(page);
  },
  call: async (stage, page) => {
    called(stage);
    await openCalls(page);
    await page.locator('[data-testid="call"][data-seq="116"] summary').click();
    await page.locator('[data-testid="call"][data-seq="118"] summary').click();
    await page.getByTestId('revoke').first().click();
    await page.locator('[data-testid="call"][data-seq="118"] .record').scrollIntoViewIfNeeded();
  },
  'no-calls': async (_stage, page) => openCalls(page),
  crew: (stage, page) => openCrew(stage, page, crewOf(stage, 12)),
  'crew-empty': (stage, page) => openCrew(stage, page, crewOf(stage, 0)),
  'crew-panel': async (stage, page) => {
    stage.queries.crews.set(stage.channels[0] ?? '', crewOf(stage, 12));
    await page.getByTestId('crew').waitFor();
    await openTab(page, 'Floor');
    await page.getByTestId('crew-block').waitFor();
  },
  'crew-asked': async (stage, page) => {
    await openCrew(stage, page, crewOf(stage, 100));
    await page.getByRole('button', { name: 'Kill… B', exact: true }).click();
    await page.getByRole('button', { name: /^merged/ }).click();
  },
};

/** Shows a review in the first channel. By default it has open findings and waits for people. */
export function reviewed(stage: Stage, change: Partial<ReviewView> = {}): void {
  const [channel = ''] = stage.channels;
  const [primary = '', reviewer = primary] = stage.agents;
  const counts = { opened: 2, fixed: 0, disputed: 1, reappeared: 0 };
  const finding = { id: 'F1', severity: 'major', place: 'src/a.ts:12', title: 'It breaks', status: 'disputed' };
  const long = {
    ...finding,
    id: 'F2',
    place: 'src/'.repeat(30),
    title: 'word '.repeat(40),
    status: 'new',
    reason: null,
  };
  stage.queries.reviews.set(channel, {
    id: 'review-1',
    primary,
    reviewer,
    iteration: 2,
    allowed: 10,
    iterations: [
      { verdict: 'revise', ...counts, hasEnded: true },
      { verdict: null, ...counts, fixed: 1, hasEnded: false },
    ],
    agent: null,
    purpose: null,
    voided: false,
    waiting: { why: 'F1 was disputed twice.', asksPeople: true, until: null },
    findings: [{ ...finding, reason: 'It is meant so' }, long],
    outcome: null,
    ...change,
  });
  stage.show(channel, {});
}

/** Adds 120 tool calls of seven kinds, some with hostile or long texts, an open request and two rules. */
function called({ audit, agents, channels }: Stage): void {
  const [channel = '', other = channel] = channels;
  const told = (seq: number): Partial<AuditRow> => {
    const of = { agent: agents[seq % agents.length] ?? '', channel: seq % 3 === 0 ? other : channel };
    switch (seq % 7) {
      case 0:
        return { ...of, tool: 'Bash', input: { command: LONG_COMMAND }, decision: 'rule', rule: 'execute(npm *)' };
      case 1:
        return { ...of, decision: 'denied-person', reason: 'use b.txt', status: 'error', code: 'DENIED', output: null };
      case 2:
        return { ...of, status: 'error', outcome: 'unknown', code: 'UNKNOWN', taint: 'example.org', output: null };
      case 3:
        return {
          ...of,
          decision: 'open',
          status: 'pending',
          decidedBy: null,
          waitMs: 0,
          durationMs: null,
          output: null,
        };
      case 4:
        return { ...of, tool: '<img src=x onerror=alert(1)>', input: { path: 'a\u202Eb<b>', note: '\u200B' } };
      case 5:
        return { ...of, aside: true, output: 'a line of what it printed\n'.repeat(200) };
      default:
        return of;
    }
  };
  for (let seq = 1; seq <= 120; seq += 1) audit.rows.push(auditRow(seq, told(seq)));
  const seat = { channel, agent: agents[0] ?? '' };
  audit.asked = [{ ...seat, tool: 'mcp__files__write', askedAt: Date.now(), until: Date.now() + 600_000, question: 3 }];
  const yes = { ...seat, by: 'u1', at: Date.now() - 86_400_000, until: Date.now() + 29 * 86_400_000 };
  audit.remembered = [
    { ...yes, rule: 'execute(npm test)', uses: 12, usedAt: Date.now() - 60_000, revoke: '/run revoke pm #1.1' },
    {
      ...yes,
      rule: `mcp__files__write(path=${'src/'.repeat(30)}*)`,
      uses: 0,
      usedAt: null,
      until: 1,
      revoke: '/run revoke pm #2.1',
    },
  ];
}

const LONG_COMMAND = `npm run ${'very-'.repeat(40)}long -- --all`;

async function openCalls(page: Page): Promise<void> {
  await page.getByTestId('audit').click();
  await page.locator('[data-testid="calls"][data-reading="false"]').waitFor({ state: 'attached' });
}

async function say(page: Page, text: string): Promise<void> {
  await page.getByTestId('composer').fill(text);
  await page.getByTestId('send').click();
  if (!text.startsWith('/')) await page.locator('[data-kind="person"]').last().waitFor();
}

async function openTab(page: Page, name: string): Promise<void> {
  const drawer = page.getByRole('button', { name: 'Floor, turns and journal' });
  if (await drawer.isVisible()) await drawer.click();
  await page.getByRole('tab', { name }).click();
}

const QUESTION = {
  question: 3,
  title: 'edit src/config.ts',
  detail: 'src/config.ts (+1 -1)\n@@ -1 +1 @@\n-const port = 80;\n+const port = 8080;',
  shown: true,
  about: {
    step: 3,
    steps: 100,
    tool: 'edit',
    folder: '/home/ann/project',
    why: 'rule "Edit(src/**)" says so',
    says: 'I move it to a port that needs no root',
  },
  always: [{ rule: 'edit(/src/config.ts)', words: 'edit src/config.ts, any content' }],
};

const { always: _always, ...WITHOUT_RULES } = QUESTION;
const plain = { hint: '', required: false, options: [] } as const;
const KINDS = ['bug', 'idea', `one-with-a-name-${'that-does-not-end'.repeat(6)}`].map((value) => ({
  value,
  label: value.toUpperCase(),
}));

/** A question with a form of every kind of field. */
export const FORM: Question = {
  ...WITHOUT_RULES,
  title: 'hub asks: Which issue is it?',
  detail: 'Which issue is it?\n\ntitle (required, text, at least 3 characters): What is wrong?',
  about: {
    ...QUESTION.about,
    tool: 'issue of hub',
    why: 'hub asks this question while the call runs',
    answer: 'title=… kind=bug labels=bug urgent=yes votes=… mail=…',
    form: [
      { ...plain, name: 'title', label: 'Title', hint: 'What is wrong?', kind: 'text', required: true, least: 3 },
      { ...plain, name: 'kind', label: 'Kind', kind: 'one', required: true, options: KINDS, initial: 'idea' },
      { ...plain, name: 'labels', label: 'Labels', kind: 'some', options: KINDS, most: 1 },
      { ...plain, name: 'urgent', label: 'Urgent?', kind: 'boolean' },
      { ...plain, name: 'votes', label: 'Votes', kind: 'integer', least: 1, initial: '2' },
      { ...plain, name: 'mail', label: 'Mail', kind: 'text', format: 'email' },
    ],
  },
};

function asks(stage: Stage, channel: string, approval: Question = QUESTION): void {
  stage.hold(channel, stage.agents[0] ?? '', { waitingFor: 'approval', approval });
}

function speakerOf(stage: Stage): { readonly id: string; readonly name: string; readonly avatar: null } {
  const [id = ''] = stage.agents;
  return { id, name: id, avatar: null };
}
