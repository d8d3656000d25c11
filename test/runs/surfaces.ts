import type { Bot } from '../kill/bot.ts';
import { Page } from '../kill/page.ts';
import { CHANNEL, pageIn } from './stage.ts';
import type { Stage } from './stage.ts';

/** A person's answer to a request. */
export type Press = 'once' | 'always' | 'no';

/** A channel as people see it, on one of the three platforms. */
export type Surface = {
  readonly name: 'console' | 'Discord' | 'Slack';
  readonly channel: string;
  /** Ann's id on the platform. */
  readonly ann: string;
  /** A page with the channel open. */
  readonly page: Page;
  /** Writes as Ann. */
  say(text: string): Promise<void>;
  /** All texts that Conch shows there: messages, files and texts around buttons. */
  shown(): string;
  /** Ann presses a button, or gives the same answer in another way. Resolves with the answer that she gets. */
  click(choice: Press): Promise<string>;
  /** True when the channel offers this answer now. */
  hasButton(choice: Press): boolean;
};

/** The channels of a stage, each with an open page. */
export async function surfacesOf(stage: Stage, bot: Bot): Promise<readonly Surface[]> {
  const [console = CHANNEL, discord, slack] = stage.parts.channels;
  let you = '';
  const page = await Page.open(bot, console, (frame) => {
    if (frame.type === 'state') you = frame.person.id;
  });
  await page.until(() => page.view !== null, 'the first picture');
  return [
    onConsole(page, you),
    ...(discord === undefined ? [] : [onDiscord(stage, await pageIn(bot, discord), discord)]),
    ...(slack === undefined ? [] : [onSlack(stage, await pageIn(bot, slack), slack)]),
  ];
}

/** Answers the open question. Presses again when the button was redrawn meanwhile. */
export async function press(surface: Surface, choice: Press): Promise<void> {
  const { page } = surface;
  const question = asked(page);
  const isOver = () => asked(page) !== question;
  for (let time = 0; time < MOST_PRESSES && !isOver(); time += 1) {
    await surface.click(choice);
    await page.until(isOver, `an answer on ${surface.name}`, 2_000).catch(() => undefined);
  }
}

const MOST_PRESSES = 10;

const LABELS: Readonly<Record<Press, RegExp>> = {
  once: /^(?:allow|once)/i,
  always: /^always/i,
  no: /^deny$/i,
};

const asked = (page: Page): number => page.view?.holder?.approval?.question ?? 0;

function onConsole(page: Page, ann: string): Surface {
  const lines = { once: '/allow N', always: '/allow N always', no: '/reject N' };
  return {
    name: 'console',
    channel: CHANNEL,
    ann,
    page,
    say: async (text) => void (await page.say(CHANNEL, text)),
    shown: () => page.texts('system').join('\n'),
    click: async (choice) => (await page.command(CHANNEL, lines[choice].replace('N', `${asked(page)}`))).text,
    hasButton: (choice) => choice !== 'always' || (page.view?.holder?.approval?.always ?? []).length > 0,
  };
}

function onDiscord({ discord, parts }: Stage, page: Page, channel: string): Surface {
  const own = () => discord.read(discord.channel).filter(({ authorId }) => authorId === discord.botUser);
  const find = (choice: Press) =>
    own()
      .toReversed()
      .flatMap(({ id, buttons }) => buttons.map((button) => ({ id, ...button })))
      .find(({ label, disabled }) => !disabled && LABELS[choice].test(label));
  return {
    name: 'Discord',
    channel,
    ann: parts.operators[0] ?? '',
    page,
    say: async (text) => void discord.write('ann', discord.channel, text),
    shown: () =>
      own()
        .map(({ text, embeds, components, attachments }) =>
          [text, ...wordsIn([embeds, components]), ...attachments.map((file) => file.text)].join('\n'),
        )
        .join('\n'),
    async click(choice) {
      const button = await seen(() => find(choice), page, `a button for ${choice} on Discord`);
      return (await discord.press('ann', button.id, button.customId ?? button.label)).text;
    },
    hasButton: (choice) => find(choice) !== undefined,
  };
}

function onSlack({ slack, parts }: Stage, page: Page, channel: string): Surface {
  const { ids } = slack;
  const own = () => slack.read(ids.channel).filter((message) => message.own);
  const find = (choice: Press) =>
    own()
      .toReversed()
      .flatMap(({ ts, buttons }) => buttons.map((button) => ({ ts, ...button })))
      .find(({ text }) => LABELS[choice].test(text));
  return {
    name: 'Slack',
    channel,
    ann: parts.operators[1] ?? '',
    page,
    say: async (text) => void slack.write(ids.ann, ids.channel, text),
    shown: () =>
      own()
        .map(({ text, plain, blocks, files }) =>
          [text, plain, ...wordsIn(blocks), ...files.map(({ content }) => content)].join('\n'),
        )
        .join('\n'),
    async click(choice) {
      const button = await seen(() => find(choice), page, `a button for ${choice} on Slack`);
      const { answers } = await slack.press(ids.ann, ids.channel, button.ts, button.actionId);
      return answers.map(({ text }) => text).join('\n');
    },
    hasButton: (choice) => find(choice) !== undefined,
  };
}

async function seen<T>(look: () => T | undefined, page: Page, what: string): Promise<T> {
  await page.until(() => look() !== undefined, what, 20_000);
  return look()!;
}

/** All texts in a value, at any depth. */
function wordsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(wordsIn) : [];
}
