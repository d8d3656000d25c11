import { CAPABILITIES, createAdapter } from '../../../src/adapters/slack/adapter.ts';
import { emojiName } from '../../../src/adapters/slack/content.ts';
import { channelId, messageId, platformMessage } from '../../../src/adapters/slack/client.ts';
import { RECEIPTS } from '../../../src/turns/floor/react.ts';
import type { Receipt } from '../../../src/turns/floor/react.ts';
import type { AgentId } from '../../../src/turns/floor/settings.ts';
import { AGENTS } from '../program.ts';
import { SKEW_MS } from '../rig.ts';
import type { Author, Rig, SeenCard, Stage, Suffered, Ways, Writing } from '../rig.ts';
import type { Fault } from './faults.ts';
import { startSlack } from './server.ts';
import type { SlackServer } from './server.ts';

const WAYS: Ways = {
  threads: true,
  replies: false,
  files: true,
  bots: true,
  several: true,
  mentions: true,
  roles: true,
  typed: true,
  pings: true,
  remote: true,
};

/** The rig of Slack for the contract tests: Ann and Bob in a channel of a fake Slack. */
export const rig: Rig = { name: 'Slack', capabilities: CAPABILITIES, ways: WAYS, open: openStage };

const SETTINGS = { streaming: true, cards: true, status: true, agentSessions: false };
const CONNECTION = { mode: 'socket', connections: 2 } as const;
const POST = 'chat.postMessage';
const EVER = 1_000;

type Shown = ReturnType<SlackServer['read']>[number];

async function openStage(): Promise<Stage> {
  const server = await startSlack({ retryDelaysMs: [0, 300, 1_000], now: () => Date.now() - SKEW_MS });
  const { ids, botToken, appToken, apiUrl } = server;
  const { channel } = ids;
  const role = server.group('operators', []);
  const groups = Object.fromEntries(AGENTS.map(({ id }): [AgentId, string] => [id, server.group(id, [])]));
  const userGroups = Object.fromEntries(Object.entries(groups).map(([agent, group]) => [group, agent]));
  const all = () => server.read(channel);
  const buttonsOn = (message: Shown): SeenCard => {
    const on = server.copy(channel, message.ts);
    return {
      text: message.text,
      buttons: message.buttons.map(({ text }) => text),
      async press(author, label) {
        const button = message.buttons.find(({ text }) => text === label)?.actionId ?? label;
        const { answers } = await server.press(ids[author], channel, message.ts, { button, on });
        return answers.map(({ text }) => text).join('\n');
      },
    };
  };
  const cardIn = () => all().findLast((message) => markOf(message) === 'conch_card');
  let back: (() => void) | null = null;
  let twice = false;
  const write = (author: Author, text: string, { thread, file }: Writing = {}): string => {
    if (twice) server.events.duplicate('other');
    const files = file === undefined ? [] : [{ name: file, content: 'a file' }];
    const where = thread === undefined ? {} : { thread };
    return messageId(channel, server.write(ids[author], channel, text, { ...where, files }));
  };
  return {
    channel: channelId(channel),
    env: { SLACK_BOT_TOKEN: botToken, SLACK_APP_TOKEN: appToken },
    role,
    adapter(parts) {
      server.heal();
      const secrets = { botToken, appToken, signingSecret: null };
      return createAdapter({ ...parts, ...secrets, apiUrl, connection: CONNECTION, settings: SETTINGS, userGroups });
    },
    sever() {
      server.fail({ times: null }, { kind: 'reset-before' });
      server.connections.drop();
    },
    idOf: (author) => ids[author],
    nameOf: (author) => (author === 'ann' ? 'Ann' : 'Bob'),
    write: async (author, text, how) => write(author, text, how),
    edit: async (_author, id, text) => server.edit(channel, platformMessage(id).ts, text),
    remove: async (_author, id) => server.remove(channel, platformMessage(id).ts),
    mention: (agent) => `<!subteam^${groups[agent] ?? ''}>`,
    async thread(_author, at) {
      const { ts } = platformMessage(at);
      return { id: ts, channel: channelId(channel, ts) };
    },
    bot: async (text) => messageId(channel, server.bot(channel, text)),
    makeOperator: (author, on) => server.setGroup(role, on ? [ids[author]] : []),
    read: async (thread) =>
      server
        .read(channel, thread)
        .filter((message) => !isDraft(message) && markOf(message) !== 'conch_card')
        .map((message) => ({
          id: messageId(channel, message.ts),
          author: message.author,
          kind: !message.own ? 'person' : message.author === 'Conch' ? 'conch' : 'agent',
          text: message.text,
        })),
    receipts: async (id, thread) =>
      receiptsOn(
        server.read(channel, thread).find(({ ts }) => messageId(channel, ts) === id),
        ids.botUser,
      ),
    async command(author, line) {
      const { answers, acked, error } = await server.command(ids[author], channel, line.slice(1));
      if (!acked) throw new Error(`Slack shows ${error ?? 'an error'}`);
      return answers.map(({ text }) => text).join('\n');
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
    freezeCard: () =>
      void server.fail(
        { method: 'chat.update', containing: 'conch_card', times: null },
        { kind: 'status', status: 503, when: 'before' },
      ),
    drafts: async (thread) =>
      server
        .read(channel, thread)
        .filter(isDraft)
        .map(({ author, text }) => ({ author, text })),
    asked: () => server.requests.flatMap(({ args }) => (typeof args['channel'] === 'string' ? [args['channel']] : [])),
    pings: () =>
      all()
        .filter(({ own }) => own)
        .flatMap(({ pings }) => pings),
    loseAnswers: (count, words) => fail(server, { kind: 'reset-after' }, { count, words }),
    refuse: (count, words) => fail(server, { kind: 'status', status: 503, when: 'before' }, { count, words }),
    duplicate: () => void (twice = true),
    cutOff(missed) {
      back = server.fail({ method: 'apps.connections.open', times: null }, { kind: 'reset-before' });
      if (missed === 'forgotten') server.events.drop(EVER);
      server.connections.drop();
    },
    comeBack() {
      server.events.drop(-EVER);
      back?.();
    },
    close: () => server.close(),
  };
}

/** Sets a fault for the next `count` posts with `words`. Returns a function that counts the posts it has hit. */
function fail(
  server: SlackServer,
  fault: Fault,
  { count, words }: { readonly count: number; readonly words: string },
): Suffered {
  const before = server.requests.length;
  server.fail({ method: POST, containing: words, times: count }, fault);
  const fits = ({ method, args }: SlackServer['requests'][number]) =>
    method === POST && JSON.stringify(args).includes(words);
  return () => Math.min(count, server.requests.slice(before).filter(fits).length);
}

function markOf({ metadata }: Shown): unknown {
  return metadata?.['event_type'];
}

function isDraft(message: Shown): boolean {
  return markOf(message) === 'conch_draft' || message.streaming === 'in_progress';
}

function receiptsOn(message: Shown | undefined, bot: string): readonly Receipt[] {
  const names = Object.keys(RECEIPTS) as Receipt[];
  return Object.entries(message?.reactions ?? {}).flatMap(([emoji, users]) =>
    users.includes(bot) ? names.filter((name) => emojiName(RECEIPTS[name]) === emoji) : [],
  );
}
