import { CAPABILITIES, createAdapter } from '../../../src/adapters/discord/adapter.ts';
import { CURSOR } from '../../../src/adapters/discord/content.ts';
import { channelId } from '../../../src/adapters/discord/client.ts';
import { RECEIPTS } from '../../../src/turns/floor/react.ts';
import type { Receipt } from '../../../src/turns/floor/react.ts';
import { filledIn } from '../commanding.ts';
import { seeEqual } from '../program.ts';
import { SKEW_MS } from '../rig.ts';
import type { Author, Rig, Seen, SeenCard, Stage, Suffered, Ways, Writing } from '../rig.ts';
import type { Fault } from './faults.ts';
import { startDiscord } from './server.ts';
import type { DiscordServer } from './server.ts';

const WAYS: Ways = {
  threads: true,
  replies: true,
  files: true,
  bots: true,
  several: true,
  mentions: true,
  roles: true,
  typed: true,
  pings: true,
  remote: true,
};

/** A fake Discord on this machine with two people in one channel. */
export const rig: Rig = { name: 'Discord', capabilities: CAPABILITIES, ways: WAYS, open: openStage };

const SETTINGS = { webhooks: true, roles: true, streaming: true, cards: true, typing: true };
const POSTS = ['POST /webhooks/**', 'POST /channels/*/messages'];

type Shown = ReturnType<DiscordServer['read']>[number];

async function openStage(): Promise<Stage> {
  const server = await startDiscord({ clockSkewMs: -SKEW_MS });
  const { channel } = server;
  const ids = { ann: server.person('ann'), bob: server.person('bob') };
  const role = server.role('operators');
  const all = () => server.read(channel);
  const buttonsOn = (message: Shown): SeenCard => {
    const source = server.copy(message.id);
    return {
      text: message.text,
      buttons: message.buttons.map(({ label }) => label),
      async press(author, label) {
        const button = message.buttons.find((each) => each.label === label);
        return told(await server.press(ids[author], message.id, button?.customId ?? '', source));
      },
    };
  };
  const cardIn = () => all().findLast(({ buttons, authorId }) => authorId === server.botUser && buttons.length > 0);
  let twice = false;
  const write = (author: Author, text: string, how: Writing = {}) => {
    if (twice) server.duplicate();
    const { thread = channel, replyTo, file } = how;
    const reply = replyTo === undefined ? {} : { replyTo };
    const attachments = file === undefined ? [] : [{ name: file, content: 'a file' }];
    return server.write(ids[author], thread, text, { ...reply, attachments }).id;
  };
  return {
    channel: channelId(channel),
    env: { DISCORD_TOKEN: server.token },
    role,
    adapter(parts) {
      server.heal();
      server.unreachable(false);
      return createAdapter({ ...parts, token: server.token, apiUrl: server.apiUrl, settings: SETTINGS });
    },
    sever() {
      server.unreachable(true);
      server.fail('/**', { kind: 'reset-before' }, null);
    },
    idOf: (author) => ids[author],
    nameOf: (author) => author,
    write: async (author, text, how) => write(author, text, how),
    edit: async (_author, id, text) => void server.edit(id, text),
    remove: async (_author, id) => server.remove(id),
    mention: (agent) => `<@&${roleOf(server, agent)}>`,
    async thread(author, at) {
      const id = server.thread(channel, 'details', { by: ids[author], on: at });
      return { id, channel: channelId(id) };
    },
    bot: async (text) => server.bot('coinbot', channel, text).id,
    makeOperator: (author, on) => (on ? server.giveRole : server.takeRole)(ids[author], role),
    read: async (thread = channel) => server.read(thread).flatMap((message) => seen(server, message)),
    receipts: async (id, thread = channel) =>
      receiptsOn(
        server.read(thread).find((message) => message.id === id),
        server.botUser,
      ),
    async command(author, line) {
      await seeEqual(() => server.registered(channel).length > 0, true);
      const { path, values } = filledIn(line);
      return told(await server.command(ids[author], channel, path, values));
    },
    typed: async (author, line) => write(author, line),
    async card() {
      const card = cardIn();
      return card === undefined ? null : buttonsOn(card);
    },
    question(words) {
      const asked = all().findLast(({ text, buttons }) => text.includes(words) && buttons.length > 0);
      return asked === undefined ? null : buttonsOn(asked);
    },
    freezeCard() {
      const message = `/channels/${channel}/messages/${cardIn()?.id ?? '*'}`;
      for (const method of ['PATCH', 'DELETE'])
        server.fail(`${method} ${message}`, { kind: 'status', status: 503 }, null);
    },
    drafts: async (thread = channel) =>
      server
        .read(thread)
        .filter(isDraft)
        .map(({ author, text }) => ({ author, text })),
    asked: () => server.requests.flatMap(({ path }) => /^\/channels\/([^/]+)/u.exec(path)?.[1] ?? []),
    pings: () =>
      all()
        .filter(({ bot }) => bot)
        .flatMap(({ pings: { everyone, users, roles } }) => (everyone ? ['everyone'] : []).concat(users, roles)),
    loseAnswers: (count, words) => fail(server, { kind: 'reset-after' }, { count, words }),
    refuse: (count, words) => fail(server, { kind: 'status', status: 503 }, { count, words }),
    duplicate: () => void (twice = true),
    cutOff(missed) {
      server.unreachable(true);
      if (missed === 'forgotten') server.forgetSessions();
    },
    comeBack: () => server.unreachable(false),
    close: () => server.close(),
  };
}

function fail(
  server: DiscordServer,
  fault: Fault,
  { count, words }: { readonly count: number; readonly words: string },
): Suffered {
  const set = POSTS.map((path) => server.fail({ path, containing: words }, fault, count));
  return () => set.reduce((sum, { hits }) => sum + hits, 0);
}

function isDraft({ text, bot }: Shown): boolean {
  return bot && text.endsWith(CURSOR);
}

const ORDINARY = 0;
const REPLY = 19;

function seen(server: DiscordServer, message: Shown): readonly Seen[] {
  const { id, author, authorId, webhook, attachments, type } = message;
  const isOwn = authorId === server.botUser;
  if (isDraft(message) || (isOwn && message.buttons.length > 0) || ![ORDINARY, REPLY].includes(type)) return [];
  const text = [message.text, ...attachments.map((file) => file.text)].join('\n');
  return [{ id, author, kind: isOwn ? 'conch' : webhook ? 'agent' : 'person', text }];
}

function receiptsOn(message: Shown | undefined, bot: string): readonly Receipt[] {
  const names = Object.keys(RECEIPTS) as Receipt[];
  return Object.entries(message?.reactions ?? {}).flatMap(([emoji, users]) =>
    users.includes(bot) ? names.filter((name) => RECEIPTS[name] === emoji) : [],
  );
}

function roleOf(server: DiscordServer, agent: string): string {
  const [, id] = Object.entries(server.roles()).find(([name]) => name.toLowerCase() === agent) ?? [];
  if (id === undefined) throw new Error(`no role stands for ${agent}`);
  return id;
}

function told(answer: Awaited<ReturnType<DiscordServer['command']>>): string {
  if (!answer.ephemeral) throw new Error(`everybody sees the answer "${answer.text}" (${answer.state})`);
  return [answer.text, ...answer.followUps.map(({ text }) => text)].join('\n');
}
