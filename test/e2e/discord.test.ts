import { describe, expect, test } from 'vitest';
import { inviteUrl } from '../../src/adapters/discord/setup.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import type { Fault } from '../adapters/discord/faults.ts';
import type { DiscordServer } from '../adapters/discord/server.ts';
import { freePort, runConch } from '../kill/bot.ts';
import type { Bot, Place } from '../kill/bot.ts';
import { rows } from '../kill/journal.ts';
import { CHANNEL, STACK, inPlace, logLines, openPage, wasCutShort } from './demo.ts';
import { allSpoke, configOn, onDiscord, speechesIn } from './discord.ts';
import type { OnDiscord } from './discord.ts';
import { letThrough, until } from './network.ts';

const NOT_ACCEPTED = 'Discord does not accept DISCORD_TOKEN. Copy it again from the Bot page of your application';

describe.concurrent('a Conch on Discord', () => {
  test('starts, answers under the names of its agents, sets the receipt of a message, and ends', () =>
    onDiscord(async ({ server, start }) => {
      const bot = start();
      await bot.ready();
      const { id } = server.write('ann', server.channel, 'Build a login page with email and password');
      await until(() => allSpoke(server), 'an answer of every agent');
      const receipts = () => server.read(server.channel).find((message) => message.id === id)?.reactions ?? {};
      await until(() => receipts()['✅']?.includes(server.botUser) === true, 'the receipt');
      expect(speechesIn(server).map((speech) => speech.split(':', 1)[0])).toEqual(['pm', 'dev', 'qa']);
      expect(bot.out()).not.toContain(server.token);
      expect(bot.out()).not.toMatch(/"level":"(error|fatal)"/);
      expect(await bot.end('SIGTERM')).toMatchObject({ code: EXIT_CODES.ok });
      expect(bot.err()).toBe('');
    }));

  test('row 30: logs that Discord cannot be reached, serves its page meanwhile, and connects later', () =>
    onDiscord(async ({ server, start }) => {
      const port = await freePort();
      const bot = start({ DISCORD_API_URL: `http://127.0.0.1:${port}/api` });
      const trying = () => logLines(bot).find(({ message }) => message === 'connecting to Discord failed; retried');
      await until(() => trying() !== undefined, 'a line of the log');
      expect(trying()).toMatchObject({ level: 'warn', why: expect.stringContaining('ECONNREFUSED') });
      const page = await openPage(bot);
      await page.say(CHANNEL, 'Hello everybody!');
      await page.until(() => page.texts('agent').length > 0, 'an answer on the page');

      const close = await letThrough(port, server.port);
      await bot.ready();
      server.write('ann', server.channel, 'pm: Hello!');
      await until(() => speechesIn(server).length > 0, 'an answer on Discord');
      await bot.end('SIGTERM');
      await close();
    }));

  test('row 37: whose token is revoked while it runs ends with the code platformRefused and says what to do', () =>
    onDiscord(async ({ server, start }) => {
      const bot = start();
      await bot.ready();
      server.revokeToken();
      expect(await bot.ended).toMatchObject({ code: EXIT_CODES.platformRefused });
      expect(bot.err()).toContain(NOT_ACCEPTED);
      expect(bot.err()).not.toMatch(STACK);
    }));

  test('with a wrong token ends with the same code and text', () =>
    onDiscord(async ({ place, env }) => {
      const { code, err } = await runConch(place, { env: { ...env, DISCORD_TOKEN: `MTIz.wrong${process.pid}.token` } });
      expect(code).toBe(EXIT_CODES.platformRefused);
      expect(err).toContain(NOT_ACCEPTED);
      expect(err).not.toMatch(STACK);
    }));

  test('without the Message Content intent ends and names the intent', () =>
    onDiscord(
      async ({ place, env }) => {
        const { code, err } = await runConch(place, { env });
        expect(code).toBe(EXIT_CODES.platformRefused);
        expect(err).toContain('Switch on "Message Content Intent"');
      },
      { discord: { messageContent: false } },
    ));

  test('refuses to start while another Conch uses the same token, and says why', () =>
    onDiscord(async ({ server, env, start }) => {
      const first = start();
      await first.ready();
      await inPlace(configOn(server), async (other) => {
        const { code, err } = await runConch(other, { env });
        expect(code).toBe(EXIT_CODES.platformRefused);
        expect(err).toContain('Another Conch on this machine uses the same DISCORD_TOKEN');
        expect(err).not.toMatch(STACK);
      });
      expect(server.identifies).toHaveLength(1);
      expect(first.child.exitCode).toBe(null);
    }));
});

describe.concurrent('row 3: SIGTERM during the request of a post', () => {
  /** Switches drafts off, so that every request to a webhook is a post. */
  const withoutDrafts = { config: { adapters: { discord: { streaming: false } } } };
  /** Ends a program with SIGTERM while it waits for the answer to a post. */
  const endDuring = async (fault: Fault, { server, start }: OnDiscord): Promise<Bot> => {
    const bot = start();
    await bot.ready();
    server.fail('POST /webhooks/**', fault);
    server.write('ann', server.channel, 'pm: Hello!');
    await until(() => server.requests.some((request) => request.fault === fault.kind), 'a post');
    const { code } = await bot.end('SIGTERM');
    if (code !== EXIT_CODES.ok || bot.err() !== '') throw new Error(`it ended with ${code}: ${bot.err()}`);
    return bot;
  };
  const states = ({ dataDir }: Place): readonly unknown[] =>
    rows(`${dataDir}/conch.db`, "SELECT state FROM outbox WHERE type = 'post'");

  test('waits for the answer to the request', () =>
    onDiscord(async (at) => {
      expect(wasCutShort(await endDuring({ kind: 'late', ms: 1_500 }, at))).toBe(false);
      expect(states(at.place)).toEqual([{ state: 'confirmed' }]);
      expect(speechesIn(at.server)).toHaveLength(1);
    }, withoutDrafts));

  test('gives up an answer that never comes; the next start finds the post and does not repeat it', () =>
    onDiscord(async (at) => {
      expect(wasCutShort(await endDuring({ kind: 'hang-after' }, at))).toBe(true);
      expect(states(at.place)).toEqual([{ state: 'owed' }]);
      await at.start().ready();
      at.server.write('ann', at.server.channel, 'dev: Hello!');
      const speeches = () => speechesIn(at.server);
      await until(() => speeches().some((speech) => speech.startsWith('dev:')), 'an answer of the next life');
      expect(speeches()[0]).toMatch(/^pm:/);
      expect(new Set(speeches()).size).toBe(speeches().length);
    }, withoutDrafts));
});

describe.concurrent('conch doctor', () => {
  const good = [
    /✓ DISCORD_TOKEN: no other Conch on this machine uses it/,
    /✓ Discord token: Discord knows the bot as conch/,
    /✓ #general: permissions: the bot has all permissions it needs/,
    /^Conch can start\.$/m,
  ];
  test('reports a good setup, and sends only GET requests', () =>
    onDiscord(async ({ server, place, env }) => {
      const { code, out, err } = await runConch(place, { env, argv: ['doctor'] });
      expect([code, err]).toEqual([EXIT_CODES.ok, '']);
      for (const line of good) expect(out).toMatch(line);
      expect(out).not.toContain(server.token);
      expect(server.requests.filter(({ method }) => method !== 'GET')).toEqual([]);
    }));

  const bad: readonly (readonly [string, (at: DiscordServer) => Readonly<Record<string, string>>, RegExp])[] = [
    [
      'a permission is missing',
      (server) => {
        server.permit(server.channel, 'ReadMessageHistory', 'deny');
        return {};
      },
      /✗ #general: permissions: the bot lacks "Read Message History"\n {4}→ Open the channel's settings, "Permissions"/,
    ],
    [
      'the token is wrong',
      () => ({ DISCORD_TOKEN: 'MTIz.wrong.doctor' }),
      /✗ Discord token: .*\n {4}→ .*"Reset Token"/,
    ],
    [
      'Discord cannot be reached',
      () => ({ DISCORD_API_URL: 'http://127.0.0.1:1/api' }),
      /✗ Discord: .*ECONNREFUSED.*\n {4}→ Check the network/,
    ],
  ];
  test.each(bad)('says what to do when %s', (_what, change, says) =>
    onDiscord(async ({ server, place, env }) => {
      const { code, out, err } = await runConch(place, { env: { ...env, ...change(server) }, argv: ['doctor'] });
      expect([code, err]).toEqual([EXIT_CODES.mustBeMended, '']);
      expect(out).toMatch(says);
      expect(out).not.toContain('Conch can start.');
    }),
  );

  test('says what to do when the Message Content intent is off', () =>
    onDiscord(
      async ({ place, env }) => {
        const { code, out } = await runConch(place, { env, argv: ['doctor'] });
        expect(code).toBe(EXIT_CODES.mustBeMended);
        expect(out).toMatch(/✗ Message Content intent: it is off.*\n {4}→ .*switch on "Message Content Intent"/);
      },
      { discord: { messageContent: false } },
    ));
});

describe.concurrent('conch discord invite', () => {
  test('prints only the link that invites this bot', () =>
    onDiscord(async ({ server, place, env }) => {
      const { code, out, err } = await runConch(place, { env, argv: ['discord', 'invite'] });
      const settings = { webhooks: true, roles: false, streaming: true, cards: true, typing: true };
      expect([code, out, err]).toEqual([EXIT_CODES.ok, `${inviteUrl(server.application, settings)}\n`, '']);
      expect(server.requests).toEqual([]);
    }));

  test('says that DISCORD_TOKEN is not set', () =>
    onDiscord(async ({ place }) => {
      const { code, err } = await runConch(place, { argv: ['discord', 'invite'] });
      expect(code).toBe(EXIT_CODES.usage);
      expect(err).toMatch(/^DISCORD_TOKEN is not set/);
    }));
});
