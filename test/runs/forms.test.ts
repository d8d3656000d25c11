import { describe, expect, test } from 'vitest';
import type { Bot } from '../kill/bot.ts';
import { calling } from './models.ts';
import { FAULTY, configOf, onStage, pageIn, question, rests, until } from './stage.ts';
import type { Stage } from './stage.ts';

const FORM = {
  message: 'Which colour?',
  requestedSchema: {
    type: 'object',
    properties: {
      colour: { type: 'string', enum: ['red', 'blue'], title: 'Colour' },
      coats: { type: 'integer', minimum: 1, maximum: 3, default: 2 },
      note: { type: 'string' },
    },
    required: ['colour', 'note'],
  },
};
const NOTE = 'first line\nsecond "line", coats=9';

/** A platform's channel with an open form. */
type Asking = {
  readonly channel: string;
  readonly page: Awaited<ReturnType<typeof pageIn>>;
  /** Presses Answer… as Ann or as Bob. Resolves with a function that submits the form and returns the answer. */
  readonly open: (user?: 'ann' | 'bob') => Promise<(filled: Readonly<Record<string, string>>) => Promise<string>>;
  /** The form that was opened last, in the platform's data. */
  readonly drawn: () => string;
  readonly say: (text: string) => void;
  /** All texts in the channel. */
  readonly shown: () => string;
};

type How = { readonly server?: object; readonly schema?: object };

/** A stage whose server asks a form. `asks`: lets the model call the tool once more. */
type FormStage = Stage & { readonly asks: () => void };

async function onForms(use: (stage: FormStage, bot: Bot) => Promise<void>, how: How = {}): Promise<void> {
  const server = { command: process.execPath, args: [FAULTY, 'tool=ask'], elicitation: true, ...how.server };
  const form = { ...FORM, requestedSchema: { ...FORM.requestedSchema, ...how.schema } };
  const tools = { allow: ['mcp__hub__ask'] };
  await onStage(
    { platforms: true, config: (parts) => configOf(parts, { mcp: { hub: server }, tools }) },
    async (stage) => {
      await use({ ...stage, asks: () => stage.models.play('dev', [calling('hub__ask', form)]) }, await stage.start());
    },
  );
}

async function onDiscord({ discord, parts }: Stage, bot: Bot): Promise<Asking> {
  const channel = parts.channels[1] ?? '';
  const find = () =>
    discord
      .read(discord.channel)
      .flatMap(({ id, buttons }) => buttons.map((button) => ({ id, ...button })))
      .findLast(({ label }) => label === 'Answer…');
  let drawn: unknown = null;
  return {
    drawn: () => JSON.stringify(drawn),
    channel,
    page: await pageIn(bot, channel),
    say: (text) => void discord.write('ann', discord.channel, text),
    shown: () =>
      discord
        .read(discord.channel)
        .map(({ text }) => text)
        .join('\n'),
    async open(user = 'ann') {
      await until(() => find() !== undefined, 'Answer…');
      const { id, customId } = find()!;
      const { modal, text } = await discord.press(user, id, customId ?? 'Answer…');
      if (modal === null) throw new Error(text);
      drawn = modal;
      return async (filled) => (await discord.submit(user, discord.channel, modal, filled)).text;
    },
  };
}

async function onSlack({ slack, parts }: Stage, bot: Bot): Promise<Asking> {
  const channel = parts.channels[2] ?? '';
  const { ids } = slack;
  const find = () =>
    slack
      .read(ids.channel)
      .flatMap(({ ts, buttons }) => buttons.map((button) => ({ ts, ...button })))
      .findLast(({ text }) => text === 'Answer…');
  let drawn: unknown = null;
  return {
    drawn: () => JSON.stringify(drawn),
    channel,
    page: await pageIn(bot, channel),
    say: (text) => void slack.write(ids.ann, ids.channel, text),
    shown: () =>
      slack
        .read(ids.channel)
        .map(({ text }) => text)
        .join('\n'),
    async open(user = 'ann') {
      await until(() => find() !== undefined, 'Answer…');
      const { ts, actionId } = find()!;
      const { view, answers } = await slack.press(ids[user], ids.channel, ts, actionId);
      if (view === null) throw new Error(answers.map(({ text }) => text).join('\n'));
      drawn = view.view;
      return async (filled) => {
        const heard = slack.world.ephemerals.length;
        const { errors } = await slack.submit(view.id, filled);
        if (errors !== null) return Object.values(errors).join('\n');
        await until(() => slack.world.ephemerals.length > heard, 'an answer');
        return slack.world.ephemerals[heard]?.text ?? '';
      };
    },
  };
}

const answersOf = (stage: Stage) => stage.facts().filter(({ type }) => type === 'approvalClosed');

const PLATFORMS = [
  ['Discord', onDiscord],
  ['Slack', onSlack],
] as const;

/** Runs a check on each platform, in the same program. */
async function onEach(
  check: (asking: Asking, stage: FormStage, epoch: number) => Promise<void>,
  how: How = {},
): Promise<void> {
  await onForms(async (stage, bot) => {
    for (const [, on] of PLATFORMS) {
      const asking = await on(stage, bot);
      const epoch = asking.page.view?.epoch ?? 0;
      stage.asks();
      asking.say('Paint it');
      await check(asking, stage, epoch);
    }
  }, how);
}

describe('a form that a tool server asks on Discord, and then on Slack', () => {
  test('stays open until an allowed person fills it correctly, and its server gets the exact answer', async () => {
    await onEach(async ({ open, page, shown, channel: own }, stage, epoch) => {
      const asked = await question(page);
      const send = await open();
      expect(await send({ colour: 'blue', note: NOTE, coats: '9' })).toContain('Too big');
      expect(page.view?.holder?.approval?.question).toBe(asked);
      await expect(open('bob')).rejects.toThrow('Only operators');
      expect(await (await open())({ colour: 'blue', note: NOTE, coats: '3' })).toContain('Answered.');
      await rests(page, epoch);
      const content = JSON.stringify({ colour: 'blue', coats: 3, note: NOTE });
      expect(stage.rows().findLast(({ channel }) => channel === own)).toMatchObject({
        output: content,
        decision: 'once',
      });
      expect(stage.models.requests.at(-1)?.results.join('')).toContain(content);
      await until(() => /✅ .* answered dev: hub asks: Which colour\?/.test(shown()), 'the answer');
      expect(shown()).not.toContain('colour=blue');
    });
  });

  test.each<[string, How, boolean]>([
    ['does not show', {}, false],
    ['shows, by the configuration,', { server: { showAnswers: true } }, true],
    ["shows, by the server's schema,", { schema: { 'x-public': true } }, true],
  ])('T66 %s the channel the filled form, and says so before the form is sent', async (_what, how, isShown) => {
    await onEach(async ({ open, page, shown, drawn }, _stage, epoch) => {
      await question(page);
      const note = `The channel will ${isShown ? '' : 'not '}show your answer`;
      expect(shown()).toContain(note);
      const send = await open();
      expect(drawn()).toContain(note);
      expect(await send({ colour: 'blue', note: 'mine', coats: '3' })).toContain('Answered.');
      await rests(page, epoch);
      await until(() => /✅ .* answered dev:/.test(shown()), 'the answer');
      expect(shown().includes('colour=blue')).toBe(isShown);
    }, how);
  });

  test('counts one of many simultaneous answers, and tells the other people who answered', async () => {
    await onEach(async ({ open, page, channel }, stage, epoch) => {
      const before = answersOf(stage).length;
      const asked = await question(page);
      const forms = [await open(), await open(), await open()];
      const words = await Promise.all([
        ...forms.map((send, index) => send({ colour: 'red', note: `form ${index}` })),
        ...[0, 1, 2].map(async (each) => {
          const line = each === 2 ? `/reject ${asked}` : `/answer ${asked} colour=blue note=${each}`;
          return (await page.command(channel, line)).text;
        }),
      ]);
      await rests(page, epoch);
      expect(answersOf(stage)).toHaveLength(before + 1);
      expect(words.filter((text) => /already|closed/.test(text))).toHaveLength(words.length - 1);
    });
  });
});

test.each(PLATFORMS)(
  'a form on %s closes at a restart: its buttons and dialogs say so, and the call has an unknown outcome',
  async (_name, on) => {
    await onForms(async (stage, bot) => {
      const before = await on(stage, bot);
      stage.asks();
      before.say('Paint it');
      await question(before.page);
      const send = await before.open();
      await bot.end('SIGKILL');
      const { page, shown } = await on(stage, await stage.start());
      await page.until(() => page.view?.condition === 'resting', 'the end');
      expect(await send({ colour: 'blue', note: 'late' })).toMatch(/closed|already/i);
      expect(answersOf(stage).filter((fact) => 'state' in fact && fact.state === 'allowed')).toEqual([]);
      const over = '⌛ No longer needed: an answer to dev: hub asks: Which colour?';
      await until(() => shown().includes(over), over);
      expect(stage.models.requests.at(-1)?.text).toContain('The outcome of the call is unknown');
    });
  },
);
