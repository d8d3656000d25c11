import { describe, expect, test } from 'vitest';
import { BOT_EVENTS, BOT_SCOPES } from '../../src/adapters/slack/setup.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import type { Fault } from '../adapters/slack/faults.ts';
import { ALL_SCOPES } from '../adapters/slack/server.ts';
import type { SlackServer } from '../adapters/slack/server.ts';
import { freePort, runConch } from '../kill/bot.ts';
import type { Bot } from '../kill/bot.ts';
import { CHANNEL, STACK, inPlace, logLines, openPage, wasCutShort } from './demo.ts';
import { letThrough, until } from './network.ts';
import { configOn, onSlack, speakersIn, speechesIn } from './slack.ts';
import type { OnSlack } from './slack.ts';

describe.concurrent('a Conch on Slack', () => {
  test('starts, answers under the names of its agents, sets the receipt of a message, and ends', () =>
    onSlack(async ({ slack, start }) => {
      const { ann, botUser, channel } = slack.ids;
      const bot = start();
      await bot.ready();
      expect(slack.connections.count()).toBe(2);
      const ts = slack.write(ann, channel, 'Build a login page with email and password');
      await until(() => speakersIn(slack).length >= 3, 'an answer of every agent');
      const reactions = () => slack.read(channel).find((message) => message.ts === ts)?.reactions ?? {};
      await until(() => reactions()['white_check_mark']?.includes(botUser) === true, 'the receipt');
      expect(speakersIn(slack)).toEqual(['pm', 'dev', 'qa']);
      for (const secret of [slack.botToken, slack.appToken]) expect(bot.out()).not.toContain(secret);
      expect(bot.out()).not.toMatch(/"level":"(error|fatal)"/);
      expect(await bot.end('SIGTERM')).toMatchObject({ code: EXIT_CODES.ok });
      expect(bot.err()).toBe('');
    }));

  test('accepts signed requests in place of sockets, and refuses a wrong signature', async () => {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}/slack/events`;
    const config = { adapters: { slack: { mode: 'http', port } } };
    await onSlack(
      async ({ slack, start }) => {
        const { ann, channel } = slack.ids;
        const bot = start({ SLACK_APP_TOKEN: '' });
        await bot.ready();
        const forged = await fetch(url, { method: 'POST', headers: forgedNow(), body: '{"type":"event_callback"}' });
        expect(forged.status).toBe(401);
        slack.write(ann, channel, 'pm: Hello!');
        await until(() => speakersIn(slack).length > 0, 'an answer');
        expect(slack.attempts.every(({ attempt, connection }) => attempt === 0 && connection === null)).toBe(true);
        expect(await bot.end('SIGTERM')).toMatchObject({ code: EXIT_CODES.ok });
        expect(slack.connections.opened()).toBe(0);
      },
      { slack: { requestUrl: url }, config },
    );
  });

  test('row 30: logs that Slack cannot be reached, serves its page meanwhile, and connects later', () =>
    onSlack(async ({ slack, start }) => {
      const { ann, channel } = slack.ids;
      const port = await freePort();
      const bot = start({ SLACK_API_URL: `http://127.0.0.1:${port}/api/` });
      const trying = () =>
        logLines(bot).find(({ message }) => String(message).startsWith('connecting to Slack failed'));
      await until(() => trying() !== undefined, 'a line of the log');
      expect(trying()).toMatchObject({ level: 'warn', why: expect.stringContaining('ECONNREFUSED') });
      const page = await openPage(bot);
      await page.say(CHANNEL, 'Hello everybody!');
      await page.until(() => page.texts('agent').length > 0, 'an answer on the page');

      const close = await letThrough(port, slack.port);
      await bot.ready();
      slack.write(ann, channel, 'pm: Hello!');
      await until(() => speakersIn(slack).length > 0, 'an answer on Slack');
      await bot.end('SIGTERM');
      await close();
    }));

  const revoked: readonly (readonly [string, (slack: SlackServer) => void, RegExp])[] = [
    [
      'whose tokens are revoked',
      (slack) => slack.revokeTokens({ announce: true }),
      /^The bot token of the app was revoked\. Install the app again/,
    ],
    [
      'that is removed from the workspace',
      (slack) => slack.revokeTokens({ uninstall: true, error: 'account_inactive' }),
      /^The app was removed from the workspace\. Install the app again/,
    ],
    [
      'whose Socket Mode is switched off',
      (slack) => slack.connections.disable(),
      /^Socket Mode is switched off for the Slack app\. Switch it on/,
    ],
  ];
  test.each(revoked)('row 37: %s while it runs ends with its exit code and says what to do', (_what, revoke, says) =>
    onSlack(async ({ slack, start }) => {
      const bot = start();
      await bot.ready();
      revoke(slack);
      expect(await bot.ended).toMatchObject({ code: EXIT_CODES.platformRefused });
      expect(bot.err()).toMatch(says);
      expect(bot.err()).not.toMatch(STACK);
    }),
  );

  test.each([
    ['SLACK_BOT_TOKEN', `xoxb-wrong-${process.pid}`],
    ['SLACK_APP_TOKEN', `xapp-wrong-${process.pid}`],
  ])('with a wrong %s ends with the same code and names it', (name, value) =>
    onSlack(async ({ place, env }) => {
      const { code, err } = await runConch(place, { env: { ...env, [name]: value } });
      expect(code).toBe(EXIT_CODES.platformRefused);
      expect(err).toContain(`Slack refuses ${name} (invalid_auth). `);
      expect(err).not.toMatch(STACK);
    }),
  );

  test('refuses to start while another Conch uses the same app, and says why', () =>
    onSlack(async ({ slack, env, start }) => {
      const first = start();
      await first.ready();
      await inPlace(configOn(slack), async (other) => {
        const { code, err } = await runConch(other, { env });
        expect(code).toBe(EXIT_CODES.platformRefused);
        expect(err).toContain('Another Conch on this machine uses the same Slack app');
        expect(err).not.toMatch(STACK);
      });
      expect(slack.connections.opened()).toBe(2);
      expect(first.child.exitCode).toBe(null);
    }));
});

describe.concurrent('an outdated event', () => {
  test('that the app left a channel is ignored when the app is a member', () =>
    onSlack(async ({ slack, start }) => {
      const { ann, channel } = slack.ids;
      const bot = start();
      await bot.ready();
      const asked = () => slack.requests.filter(({ method }) => method === 'conversations.info').length;
      const before = asked();
      slack.events.emit({ type: 'channel_left', channel, actor_id: ann });
      await until(() => asked() > before, 'a question');
      slack.write(ann, channel, 'pm: Hello!');
      await until(() => speakersIn(slack).length > 0, 'an answer');
      expect(bot.out()).not.toContain('channel suspended');
    }));
});

describe.concurrent('row 3: SIGTERM during the request of a post', () => {
  /** Switches drafts off, because an edit turns a draft into its post. */
  const withoutDrafts = { config: { adapters: { slack: { streaming: false } } } };
  const endIn = async (fault: Fault, { slack, start }: OnSlack): Promise<Bot> => {
    const first = start();
    await first.ready();
    slack.fail({ method: 'chat.postMessage', containing: 'conch_post' }, fault);
    slack.write(slack.ids.ann, slack.ids.channel, 'pm: Hello!');
    const isOnItsWay = ({ method, args }: SlackServer['requests'][number]): boolean =>
      method === 'chat.postMessage' && JSON.stringify(args).includes('conch_post');
    await until(() => slack.requests.some(isOnItsWay), 'a post');
    const { code } = await first.end('SIGTERM');
    expect([code, first.err()]).toEqual([EXIT_CODES.ok, '']);
    return first;
  };

  test('waits for the answer, and the next start does not repeat the post', () =>
    onSlack(async (at) => {
      expect(wasCutShort(await endIn({ kind: 'late', ms: 1_500 }, at))).toBe(false);
      const { slack, start } = at;
      const second = start();
      await second.ready();
      slack.write(slack.ids.ann, slack.ids.channel, 'dev: Hello!');
      await until(() => speakersIn(slack).includes('dev'), 'an answer of the next life');
      const speakers = speakersIn(slack);
      expect(speakers.filter((name) => name === 'pm')).toHaveLength(1);
      const texts = speechesIn(slack).map(({ text }) => text);
      expect(new Set(texts).size).toBe(texts.length);
    }, withoutDrafts));
});

describe.concurrent('conch doctor', () => {
  const good = [
    /✓ Slack app: no other Conch on this machine uses it/,
    /✓ Slack bot token: it is the token of @\w+ in the workspace Loopback/,
    /✓ Slack scopes: the app has all scopes it needs/,
    /✓ Slack app token: it can open sockets/,
    /✓ #general: @\w+ is in it/,
    /^Conch can start\.$/m,
  ];
  test('reports a good setup, and writes nothing to Slack', () =>
    onSlack(async ({ slack, place, env }) => {
      const { code, out, err } = await runConch(place, { env, argv: ['doctor'] });
      expect([code, err]).toEqual([EXIT_CODES.ok, '']);
      for (const line of good) expect(out).toMatch(line);
      for (const secret of [slack.botToken, slack.appToken]) expect(out).not.toContain(secret);
      expect(slack.requests.filter(({ method }) => /^(?:chat|reactions|files)\./.test(method))).toEqual([]);
    }));

  const bad: readonly (readonly [string, (slack: SlackServer) => Readonly<Record<string, string>>, RegExp])[] = [
    [
      'a scope is missing',
      (slack) => {
        slack.setScopes(ALL_SCOPES.filter((scope) => scope !== 'channels:history'));
        return {};
      },
      /✗ Slack scope channels:history: it is missing: Conch cannot read .*\n {4}→ Add it .* install the app again/,
    ],
    [
      'the app is not in the channel',
      (slack) => {
        slack.kickBot(slack.ids.channel);
        return {};
      },
      /✗ #general: @\w+ is not in it\n {4}→ Invite the app: write "\/invite @\w+" in #general/,
    ],
    [
      'the bot token is wrong',
      () => ({ SLACK_BOT_TOKEN: 'xoxb-wrong-too' }),
      /✗ Slack bot token: Slack refused \(invalid_auth\)\n {4}→ Copy the Bot User OAuth Token/,
    ],
    [
      'the app token is wrong',
      () => ({ SLACK_APP_TOKEN: 'xapp-wrong-too' }),
      /✗ Slack app token: Slack refused \(invalid_auth\)\n {4}→ Make an app-level token with the scope connections:write/,
    ],
  ];
  test('says what to do when Slack cannot be reached', () =>
    onSlack(async ({ place, env }) => {
      const nowhere = { SLACK_API_URL: `http://127.0.0.1:${await freePort()}/api/` };
      const { code, out } = await runConch(place, { env: { ...env, ...nowhere }, argv: ['doctor'] });
      expect(code).toBe(EXIT_CODES.mustBeMended);
      expect(out).toMatch(/✗ Slack bot token: Slack could not be reached .*ECONNREFUSED\n {4}→ Check the network/);
    }));

  test.each(bad)('says what to do when %s', (_what, change, says) =>
    onSlack(async ({ slack, place, env }) => {
      const { code, out, err } = await runConch(place, { env: { ...env, ...change(slack) }, argv: ['doctor'] });
      expect([code, err]).toEqual([EXIT_CODES.mustBeMended, '']);
      expect(out).toMatch(says);
      expect(out).not.toContain('Conch can start.');
    }),
  );
});

describe.concurrent('conch slack manifest', () => {
  test('prints a JSON manifest with every scope and event that Conch uses', () =>
    onSlack(async ({ slack, place, env }) => {
      const { code, out, err } = await runConch(place, { env, argv: ['slack', 'manifest'] });
      expect([code, err]).toEqual([EXIT_CODES.ok, '']);
      const { oauth_config: oauth, settings } = JSON.parse(out) as Manifest;
      expect(oauth.scopes.bot).toEqual(BOT_SCOPES.map(({ scope }) => scope).toSorted());
      expect(settings.event_subscriptions.bot_events).toEqual(BOT_EVENTS.toSorted());
      for (const scope of SCOPES) expect(oauth.scopes.bot).toContain(scope);
      for (const event of EVENTS) expect(settings.event_subscriptions.bot_events).toContain(event);
      expect(settings).toMatchObject({ socket_mode_enabled: true, interactivity: { is_enabled: true } });
      expect(slack.requests).toEqual([]);
    }));

  test('prints placeholders for the request URLs in the mode http', () =>
    onSlack(
      async ({ place, env }) => {
        const { out } = await runConch(place, { env, argv: ['slack', 'manifest'] });
        const { settings } = JSON.parse(out) as Manifest;
        expect(settings.socket_mode_enabled).toBe(false);
        expect(settings.event_subscriptions.request_url).toBe('https://YOUR-ADDRESS.example/here');
        expect(out.match(/YOUR-ADDRESS\.example\/here/g)).toHaveLength(3);
      },
      { config: { adapters: { slack: { mode: 'http', path: '/here' } } } },
    ));
});

type Manifest = {
  readonly oauth_config: { readonly scopes: { readonly bot: readonly string[] } };
  readonly settings: {
    readonly event_subscriptions: { readonly bot_events: readonly string[]; readonly request_url?: string };
    readonly socket_mode_enabled: boolean;
  };
};

/** The scopes that Conch needs on Slack; `EVENTS`: the events. */
const SCOPES = [
  ...'app_mentions:read channels:history groups:history im:history channels:read groups:read chat:write'.split(' '),
  ...'chat:write.customize commands reactions:read reactions:write files:read users:read'.split(' '),
  'usergroups:read',
];
const EVENTS = [
  ...'app_mention message.channels message.groups message.im member_joined_channel member_left_channel'.split(' '),
  ...'channel_archive app_uninstalled tokens_revoked'.split(' '),
];

/** Returns the headers of a request with a present time and a wrong signature. */
function forgedNow(): Record<string, string> {
  return {
    'content-type': 'application/json',
    'x-slack-request-timestamp': String(Math.floor(Date.now() / 1_000)),
    'x-slack-signature': `v0=${'0'.repeat(64)}`,
  };
}
