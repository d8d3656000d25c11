import { chromium } from 'playwright-core';
import type { DiscordServer } from '../adapters/discord/server.ts';
import { ROOT } from '../docs/documents.ts';
import { onDiscord } from './discord.ts';
import { until } from './network.ts';
import { channelPage } from './channel-page.ts';

// Makes docs/discord.png: node test/e2e/channel-picture.ts. Agents talk on the loopback Discord; channelPage draws it.

const CHROMIUM = process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium';
const AVATARS = { pm: '🧭', dev: '🛠️', qa: '🔎' };
const AGENTS = Object.entries(AVATARS).map(([id, avatar]) => ({
  id,
  avatar,
  backend: { kind: 'scripted', script: id, wordMs: 150 },
}));

await onDiscord(
  async ({ server, start }) => {
    await start().ready();
    await converse(server);
    await photograph(channelPage('lagoon', 'general', server.read(server.channel)));
  },
  { config: { agents: AGENTS, turnConfig: { coalesceMs: 20 } } },
);

/** Posts messages of two people. Resolves while dev, the holder, writes a text with code. */
async function converse(server: DiscordServer): Promise<void> {
  const { channel } = server;
  const [ann, ben] = [server.person('ann'), server.person('ben')];
  const draftOf = (agent: string): string =>
    server.read(channel).find(({ author, text }) => author.endsWith(agent) && text.endsWith('▌'))?.text ?? '';
  const card = (): string => server.read(channel).findLast(({ buttons }) => buttons.length > 0)?.text ?? '';
  server.write(ann, channel, 'Build a login page with email and password');
  await until(() => draftOf('dev') !== '', 'dev speaking', 60_000);
  server.write(ben, channel, 'Please add a link to reset the password');
  await until(() => /Noted[\s\S]*```[\s\S]*return/.test(draftOf('dev')) && card().startsWith('🎤 dev'), 'code', 60_000);
}

async function photograph(html: string): Promise<void> {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.setContent(html);
    await page.screenshot({ path: `${ROOT}docs/discord.png` });
  } finally {
    await browser.close();
  }
}
