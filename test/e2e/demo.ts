import { clearPlace, makePlace, startBot } from '../kill/bot.ts';
import type { Bot, Place, Start } from '../kill/bot.ts';
import { Page } from '../kill/page.ts';

/** The channel of `DEMO`. */
export const CHANNEL = 'console:demo';

/** A configuration with one channel and the three demo agents, 25 times as fast as by default. */
export const DEMO = {
  turnConfig: { coalesceMs: 20, interruptGraceSeconds: 0.5 },
  agents: ['pm', 'dev', 'qa'].map((id) => ({ id, backend: { kind: 'scripted', script: id, wordMs: 3 } })),
  channels: [{ id: CHANNEL, agents: ['pm', 'dev', 'qa'] }],
  log: { level: 'info', pretty: false },
};

/** Returns `DEMO` with changes to `turnConfig`. */
export function demoWith(turnConfig: object): object {
  return { ...DEMO, turnConfig: { ...DEMO.turnConfig, ...turnConfig } };
}

/** Runs `use` in a new place. Afterwards kills every program that `start` started, and removes the place. */
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

/** Waits until a started program is ready, and opens a page in its channel. */
export async function readyPage(bot: Bot): Promise<Page> {
  await bot.ready();
  return openPage(bot);
}

/** Opens a page in the channel, and waits until the page has the channel's view. */
export async function openPage(bot: Bot): Promise<Page> {
  const page = await Page.open(bot, CHANNEL);
  await page.until(() => page.view !== null, 'the first picture');
  return page;
}

/** Returns the texts of all agents' messages on a page, in order. */
export function spokenIn(page: Page): string {
  const said = [...page.messages.values()].filter(({ kind }) => kind === 'agent');
  return said.map(({ text }) => text).join(' ');
}

/** Returns the log's JSON lines, parsed. */
export function logLines(bot: Bot): readonly Readonly<Record<string, unknown>>[] {
  return bot
    .out()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Returns whether a program ended before its work did, because the time limit of its end had passed. */
export function wasCutShort(bot: Bot): boolean {
  return logLines(bot).some(({ message }) => String(message).startsWith('some work was still under way'));
}

/** Matches a stack trace. No mistake of a user may show one. */
export const STACK = /^\s+at .+:\d+:\d+/m;
