import { clearPlace, makePlace, startBot } from '../kill/bot.ts';
import type { Bot, Place, Start } from '../kill/bot.ts';
import { Page } from '../kill/page.ts';

/** The channel of `DEMO`. */
export const CHANNEL = 'console:demo';

/** One channel with the three demo agents, who are 25 times as fast as people. */
export const DEMO = {
  turnConfig: { coalesceMs: 20, interruptGraceSeconds: 0.5 },
  agents: ['pm', 'dev', 'qa'].map((id) => ({ id, backend: { kind: 'scripted', script: id, wordMs: 3 } })),
  channels: [{ id: CHANNEL, agents: ['pm', 'dev', 'qa'] }],
  log: { level: 'info', pretty: false },
};

/** `DEMO` with other turn settings. */
export function demoWith(turnConfig: object): object {
  return { ...DEMO, turnConfig: { ...DEMO.turnConfig, ...turnConfig } };
}

/** Runs `use` in a place of its own, ends what `start` started there, and takes the place away. */
export async function inPlace(
  config: object | string,
  use: (place: Place, start: (how?: Start) => Bot) => Promise<void>,
): Promise<void> {
  const place = await makePlace(config);
  const bots: Bot[] = [];
  try {
    await use(place, (how) => {
      const bot = startBot(place, how);
      bots.push(bot);
      return bot;
    });
  } finally {
    for (const bot of bots) bot.child.kill('SIGCONT');
    await Promise.all(bots.map((bot) => bot.end('SIGKILL')));
    clearPlace(place);
  }
}

/** A started and ready program, and a page in its channel. */
export async function readyPage(bot: Bot): Promise<Page> {
  await bot.ready();
  return openPage(bot);
}

/** A page in the channel that has its first picture. */
export async function openPage(bot: Bot): Promise<Page> {
  const page = await Page.open(bot, CHANNEL);
  await page.until(() => page.view !== null, 'the first picture');
  return page;
}

/** All that agents have said on a page, in order. */
export function spokenIn(page: Page): string {
  const said = [...page.messages.values()].filter(({ kind }) => kind === 'agent');
  return said.map(({ text }) => text).join(' ');
}

/** The JSON lines of the log. */
export function logLines(bot: Bot): readonly Readonly<Record<string, unknown>>[] {
  return bot
    .out()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Whether a program that ended gave up on work that was still under way, for its time to end in good order was over. */
export function wasCutShort(bot: Bot): boolean {
  return logLines(bot).some(({ message }) => String(message).startsWith('some work was still under way'));
}

/** A stack trace: what no user's mistake may show. */
export const STACK = /^\s+at .+:\d+:\d+/m;
