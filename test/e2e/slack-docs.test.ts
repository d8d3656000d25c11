import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fileSchema } from '../../src/config/schema.ts';
import { startSlack } from '../adapters/slack/server.ts';
import type { SlackServer } from '../adapters/slack/server.ts';
import { freePort } from '../kill/bot.ts';
import { Page } from '../kill/page.ts';
import { Guide } from './guide.ts';
import { until } from './network.ts';
import { speakersIn, speechesIn } from './slack.ts';

const guide = new Guide('docs/slack.md');
let slack: SlackServer;
let startLine = '';

/** The default address at which Conch receives Slack's requests. */
const { host, port: usualPort, path } = fileSchema.parse({}).adapters.slack;
const DEFAULTS = { host, port: usualPort, path };

type Manifest = {
  readonly display_information: { readonly name: string };
  readonly features: { readonly slash_commands: readonly { readonly command: string; readonly url?: string }[] };
  readonly oauth_config: { readonly scopes: { readonly bot: readonly string[] } };
  readonly settings: { readonly socket_mode_enabled: boolean };
};

beforeAll(async () => {
  slack = await startSlack({ botScopes: [], retryDelaysMs: [0, 500, 2_000] });
  slack.kickBot(slack.ids.channel);
  await guide.prepare({ SLACK_API_URL: slack.apiUrl });
});

afterAll(async () => {
  await guide.close();
  await slack.close();
});

const read = (thread?: string) => slack.read(slack.ids.channel, thread);
const write = (text: string, thread?: string) =>
  slack.write(slack.ids.ann, slack.ids.channel, text, thread === undefined ? {} : { thread });
const reactions = (ts: string) => read().find((message) => message.ts === ts)?.reactions ?? {};
const isDraft = ({ metadata }: ReturnType<typeof read>[number]) => metadata?.['event_type'] === 'conch_draft';
const card = () => read().findLast(({ own, buttons }) => own && buttons.length > 0);
const rests = () => until(() => card()?.text.includes('nobody holds the floor') === true, 'rest');
const command = async (user: string, line: string) => {
  const { answers } = await slack.command(user, slack.ids.channel, line);
  return answers.map(({ text }) => text).join('\n');
};

describe('the steps of docs/slack.md', () => {
  test('print a manifest that creates the app', async () => {
    const printed = await guide.run(guide.next('sh', 'slack manifest'));
    const { display_information: names, features, oauth_config: oauth, settings } = JSON.parse(printed) as Manifest;
    expect(names.name).toBe('Conch');
    expect(features.slash_commands.map((one) => one.command)).toEqual(['/conch']);
    expect(settings.socket_mode_enabled).toBe(true);
    slack.setScopes(oauth.scopes.bot);
  });

  test('store the tokens in a file that only its owner can read', async () => {
    const { botToken, appToken } = slack;
    const placeholders = { 'xoxb-the-one-that-you-copied': botToken, 'xapp-the-one-that-you-made': appToken };
    await guide.run(guide.filled(guide.next('sh', 'SLACK_BOT_TOKEN'), placeholders));
    expect(statSync(join(guide.dir, '.env')).mode & 0o077).toBe(0);
  });

  test('invite the app, and give a configuration with which doctor says that Conch can start', async () => {
    expect(guide.text).toContain('write `/invite @Conch`');
    slack.inviteBot(slack.ids.channel);
    const { channel, ann } = slack.ids;
    const json = guide.filled(guide.next('json', '"channels"'), { C0123456789: channel, U0123456789: ann });
    writeFileSync(join(guide.dir, 'turnConfig.json'), json);
    const report = await guide.run(guide.next('sh', 'doctor'));
    expect(report).toContain('Conch can start.');
    expect(report).not.toMatch(/^[✗!]/m);
  });

  test('start Conch, and the three agents answer a person under their own names and pictures', async () => {
    startLine = guide.next('sh', 'npm start');
    await guide.begin(startLine);
    expect(slack.connections.count()).toBe(2);
    write('Build a clock');
    await until(() => new Set(speakersIn(slack)).size >= 3, 'the answers', 40_000);
    expect([...new Set(speakersIn(slack))]).toEqual(['pm', 'dev', 'qa']);
    expect(new Set(speechesIn(slack).map(({ icon }) => icon)).size).toBe(3);
    expect(speechesIn(slack).every(({ icon }) => icon !== null)).toBe(true);
  });

  test('open a page that shows the floor of the channel and can pause and resume it', async () => {
    await rests();
    const channel = `slack:${slack.ids.channel}`;
    expect(guide.text).toContain('npm run conch -- open');
    const page = await Page.open(guide, channel);
    await page.until(() => page.view?.seats.length === 3, 'the floor');
    expect(await page.command(channel, '/floor pause')).toMatchObject({ ok: true });
    await until(() => /paused/i.test(card()?.text ?? ''), 'a paused floor on Slack');
    expect(await page.command(channel, '/floor resume')).toMatchObject({ ok: true });
    page.close();
  });
});

describe('the behaviour that docs/slack.md describes', () => {
  beforeAll(async () => {
    const file = join(guide.dir, 'turnConfig.json');
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll('"script":', '"wordMs": 20, "script":'));
    await until(() => guide.log.includes('configuration reloaded'), 'agents who speak faster');
  });

  test('a reaction shows the receipt of a message, and a card with buttons shows the holder', async () => {
    await rests();
    const first = write('dev: slow');
    await until(() => card()?.text.includes('🎤 dev') === true, 'the holder on the card');
    expect(card()?.buttons.map(({ text }) => text)).toEqual(expect.arrayContaining(['Skip', 'Stop']));
    await until(() => read().some(isDraft), 'a text that grows');
    const second = write('Mind the umlauts');
    await until(() => Object.hasOwn(reactions(second), 'arrow_right_hook'), 'a receipt');
    expect(await command(slack.ids.ann, 'stop')).not.toBe('');
    await rests();
    expect([first, second].filter((ts) => Object.hasOwn(reactions(ts), 'white_check_mark'))).toEqual([]);
    const third = write('dev: build a clock');
    await until(() => Object.hasOwn(reactions(third), 'white_check_mark'), 'another receipt');
    await rests();
  });

  test('everybody may run commands that only read, and only operators the others; answers are ephemeral', async () => {
    const before = read().length;
    expect(await command(slack.ids.bob, 'agent list')).toMatch(/qa/);
    expect(await command(slack.ids.bob, 'help')).toMatch(/floor skip/);
    expect(await command(slack.ids.bob, 'floor skip')).toMatch(/operator/i);
    const { view } = await slack.command(slack.ids.ann, slack.ids.channel, 'settings');
    expect(view?.open).toBe(true);
    expect(read()).toHaveLength(before);
  });

  test('a message addresses an agent by @ or name, and a thread has its own floor and commands', async () => {
    const before = speakersIn(slack).length;
    const root = write('@qa Thanks!');
    await until(() => speakersIn(slack).length > before, 'an answer');
    expect(speakersIn(slack)[before]).toBe('qa');
    await rests();
    write('dev: slow', root);
    const status = ({ method }: SlackServer['requests'][number]) => method === 'assistant.threads.setStatus';
    await until(() => slack.requests.some(status), 'a status line');
    await until(() => read(root).some(isDraft), 'a text that grows');
    write('!stop', root);
    await until(() => speakersIn(slack, root).length > 0, 'what was said until then');
    expect(new Set(speakersIn(slack, root))).toEqual(new Set(['dev']));
    await until(() => slack.ephemerals(slack.ids.ann).at(-1)?.threadTs === root, 'the answer to the command');
  });

  test('agents ignore another app, and answer a message that a person wrote while Conch was stopped', async () => {
    await guide.end();
    await slack.events.settled();
    const before = speakersIn(slack).length;
    slack.bot(slack.ids.channel, 'pm: Hello!');
    write('qa: Thanks!');
    await guide.begin(startLine);
    await until(() => speakersIn(slack).length > before, 'an answer');
    expect(speakersIn(slack)[before]).toBe('qa');
  });

  test("a mention of an agent's user group addresses the agent", async () => {
    await guide.end();
    const group = slack.group('developers', []);
    const placeholders = { S0123456789: group, C0123456789: slack.ids.channel };
    writeFileSync(join(guide.dir, 'turnConfig.json'), guide.filled(guide.next('json', '"userGroups"'), placeholders));
    await guide.begin(startLine);
    const before = speakersIn(slack).length;
    write(`<!subteam^${group}> Thanks!`);
    await until(() => speakersIn(slack).length > before, 'an answer');
    expect(speakersIn(slack)[before]).toBe('dev');
    await guide.end();
  });

  test('Conch receives signed requests at the address that the manifest names', async () => {
    const { adapters } = JSON.parse(guide.next('json', '"http"')) as { adapters: { slack: { port: number } } };
    expect(adapters.slack).toEqual({ mode: 'http', ...DEFAULTS });
    const port = await freePort();
    const agents = [{ id: 'dev', backend: { kind: 'scripted', script: 'dev' } }];
    const channels = [{ id: `slack:${slack.ids.channel}`, agents: ['dev'] }];
    const settings = { slack: { ...adapters.slack, port } };
    writeFileSync(join(guide.dir, 'turnConfig.json'), JSON.stringify({ adapters: settings, agents, channels }));
    const { features } = JSON.parse(await guide.run(guide.blocks[0]?.text ?? '')) as Manifest;
    expect(features.slash_commands[0]?.url).toMatch(/\/slack\/events$/);
    writeFileSync(
      join(guide.dir, '.env'),
      `SLACK_BOT_TOKEN=${slack.botToken}\nSLACK_SIGNING_SECRET=${slack.signingSecret}\n`,
    );
    slack.events.useHttp(`http://127.0.0.1:${port}/slack/events`);
    await guide.begin(startLine);
    const before = speakersIn(slack).length;
    write('Thanks!');
    await until(() => speakersIn(slack).length > before, 'an answer');
    expect(await command(slack.ids.ann, 'floor status')).not.toBe('');
    expect(guide.isDone).toBe(true);
  });

  test("the app posts with the agent's name before the text without the scope for names", async () => {
    await guide.end();
    slack.setScopes(slack.world.app.botScopes.filter((scope) => scope !== 'chat:write.customize'));
    await guide.begin(startLine);
    const before = speechesIn(slack).length;
    write('Hello!');
    const asItself = () => read().filter(({ author, text }) => author === 'Conch' && /^\W*dev\W*:/.test(text));
    await until(() => asItself().length > 0, 'an answer of the app');
    expect(speechesIn(slack)).toHaveLength(before);
  });

  test('no message of Conch notifies anybody', () => {
    expect(read().flatMap(({ own, pings }) => (own ? pings : []))).toEqual([]);
  });
});
