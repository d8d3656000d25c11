import { createHmac } from 'node:crypto';
import { afterEach, describe, expect, test } from 'vitest';
import { pino } from 'pino';
import { createAdapter } from '../../../src/adapters/slack/adapter.ts';
import { AdapterError } from '../../../src/adapters/port.ts';
import { systemTimers } from '../../../src/lib/time.ts';
import type { Timers } from '../../../src/lib/time.ts';
import { ODD_TARGETS, sendRaw, statusOf } from '../../lib/raw.ts';
import { adapterOptions, ears, placeOf, sights, stand, until } from './listener.ts';
import type { Stand, StandOptions } from './listener.ts';
import { startSlack } from './server.ts';
import { freePort } from '../../kill/bot.ts';

let here: Stand;

async function begin(options: StandOptions = {}): Promise<Stand> {
  here = await stand(options);
  if (options.start !== false && options.adapter?.connection?.mode !== 'http')
    await until('two sockets', () => here.slack.connections.count() === 2);
  return here;
}
afterEach(async () => {
  await here?.close();
});

/** The adapter's timeout for Slack's greeting (`hello`). `hasty` keeps this timeout, for busy machines. */
const GREETING_MS = 20_000;

/** Returns timers that wait at most `longestMs`, except for `GREETING_MS`. `waits` gets every requested wait. */
function hasty(longestMs: number, waits: number[] = []): Timers {
  return {
    after(ms, run) {
      waits.push(ms);
      return systemTimers.after(ms === GREETING_MS ? ms : Math.min(ms, longestMs), run);
    },
  };
}

function write(text: string): string {
  const { slack } = here;
  return slack.write(slack.ids.ann, slack.ids.channel, text);
}

const connections = (): number => here.slack.connections.count();

describe('two sockets', () => {
  test('deliver a message once, acknowledged after it is durable', async () => {
    const { slack, ears: own, floor } = await begin();
    own.isFull = true;
    const ts = write('hello');
    await until('a second attempt', () => slack.attempts.length >= 2);
    expect(slack.attempts.every(({ acked }) => !acked)).toBe(true);
    own.isFull = false;
    await slack.events.settled();
    expect(own.messages).toMatchObject([
      {
        id: `${slack.ids.channel}/${ts}`,
        channel: floor,
        text: 'hello',
        order: ts,
        author: { id: slack.ids.ann, name: 'Ann' },
      },
    ]);
    expect(slack.lost).toEqual([]);
  });

  test('row 33: deliver one message for a duplicate event, over one connection or two', async () => {
    const { slack, ears: own } = await begin();
    slack.events.duplicate('same');
    write('one');
    await slack.events.settled();
    slack.events.duplicate('other');
    write('two');
    await slack.events.settled();
    await until('both', () => own.messages.length === 2);
    expect([...own.handed.values()]).toEqual([1, 1]);
  });

  test('row 33: deliver one message for a mention, which comes as two events', async () => {
    const { slack, ears: own } = await begin();
    write(`<@${slack.ids.botUser}> hello`);
    await slack.events.settled();
    expect(own.texts()).toEqual(['hello']);
  });

  test("row 35: keep the platform's order in the keys of reordered events", async () => {
    const { slack, ears: own } = await begin();
    slack.events.reorder();
    const first = write('first');
    const second = write('second');
    await slack.events.settled();
    expect(own.messages.toSorted((a, b) => (a.order < b.order ? -1 : 1)).map(({ order }) => order)).toEqual([
      first,
      second,
    ]);
  });

  test('row 38: deliver an event once that was sent while no socket was open', async () => {
    const { slack, ears: own } = await begin({ start: false, slack: { retryDelaysMs: [0, 300, 600] } });
    write('while nobody listened');
    await until('it comes', () => own.messages.length === 1);
    await slack.events.settled();
    expect(
      slack.attempts
        .filter(({ event }) => event === 'message')
        .map(({ acked }) => acked)
        .at(-1),
    ).toBe(true);
    expect([...own.handed.values()]).toEqual([1]);
  });

  test('row 39: lose and duplicate nothing in twenty refreshes under a stream of messages', async () => {
    const { slack, ears: own } = await begin();
    const written: string[] = [];
    for (let refresh = 0; refresh < 20; refresh += 1) {
      written.push(write(`before ${refresh}`));
      const opened = slack.connections.opened();
      slack.connections.refresh({
        which: refresh % 2,
        // Slack's own value is about 10 s. The new socket must get its greeting before the old one is closed.
        afterMs: 3_000,
        reason: refresh % 3 === 0 ? 'warning' : 'refresh_requested',
      });
      written.push(write(`after ${refresh}`));
      await until('a new socket', () => slack.connections.opened() > opened && connections() === 2);
    }
    await slack.events.settled();
    expect(own.messages.map(({ order }) => order).sort()).toEqual(written);
    expect([...own.handed.values()].every((times) => times === 1)).toBe(true);
    expect(slack.lost).toEqual([]);
    expect(own.told).toEqual([]);
  });

  test('report a lost connection and perhaps missed events when all refresh at once', async () => {
    const { slack, ears: own } = await begin();
    slack.connections.refresh({ afterMs: 20 });
    await until('they are back', () => connections() === 2 && own.told.length === 2);
    expect(own.told).toEqual(['lost', 'back perhaps']);
  });

  test('are opened again after a break, and report a lost connection and perhaps missed events', async () => {
    const { slack, ears: own } = await begin({ adapter: { timers: hasty(500) } });
    slack.connections.drop();
    await until('they are back', () => connections() === 2 && own.told.at(-1) === 'back perhaps');
    expect(own.told.slice(-2)).toEqual(['lost', 'back perhaps']);
    write('hello again');
    await until('it comes', () => own.messages.length === 1);
  });

  test('are closed when Slack refuses one before its greeting', async () => {
    const connection = { mode: 'socket', connections: 11 } as const;
    const { slack } = (here = await stand({ adapter: { connection, timers: hasty(300) } }));
    await until('three more attempts', () => slack.connections.opened() >= 14);
    expect(slack.connections.abandoned()).toBe(0);
  });

  test('row 29: detect a half-open socket within seconds, read the history, and continue on the other socket', async () => {
    const { slack, ears: own } = await begin({ slack: { ackMs: 300, retryDelaysMs: [0, 100, 200] } });
    const opened = slack.connections.opened();
    slack.connections.silence(0);
    await until('a new socket', () => slack.connections.opened() > opened);
    await until('the history is read', () => own.told.includes('back perhaps'));
    expect(own.told).toEqual(['back perhaps']);
    write('still heard');
    await until('it comes', () => own.messages.length === 1);
  });
});

describe('payloads that are no events', () => {
  test('row 46: a notice about dropped events makes Conch read the history a minute later', async () => {
    const waits: number[] = [];
    const { slack, ears: own } = await begin({ adapter: { timers: hasty(50, waits) } });
    slack.events.rateLimited();
    await until('the history is read', () => own.told.includes('back perhaps'));
    expect(waits).toContain(60_000);
  });

  test('row 46: unknown and invalid payloads are dropped, and the next message is delivered', async () => {
    const { slack, ears: own, logged } = await begin();
    for (const payload of [
      {},
      { type: 'event_callback' },
      { event: { type: 'message' } },
      { type: 'event_callback', event_id: 'Ev1', event: {} },
    ]) {
      slack.events.odd(payload);
    }
    slack.events.emit({ type: 'message', channel: slack.ids.channel, ts: 7, text: 'secret words' });
    slack.events.emit({ type: 'constructor' });
    write('hello');
    await until('it comes', () => own.messages.length === 1);
    expect(logged.join('')).not.toContain('secret words');
    expect(own.breaks).toEqual([]);
  });
});

describe('a program that Slack refuses', () => {
  async function refused(options: StandOptions): Promise<Error> {
    here = await stand({ ...options, start: false });
    const adapter = createAdapter({ ...adapterOptions(here.slack), ...options.adapter });
    const error = await adapter.start(ears(), sights([])).then(
      () => new Error('it started'),
      (reason: unknown) => reason as Error,
    );
    await adapter.stop();
    return error;
  }

  test('row 37: a revoked bot token ends the start with instructions', async () => {
    const error = await refused({ first: (slack) => slack.revokeTokens() });
    expect(error).toBeInstanceOf(AdapterError);
    expect(error.message).toContain('SLACK_BOT_TOKEN (token_revoked)');
  });

  test('row 37: the token of a person instead of a bot ends the start with instructions', async () => {
    const extra = { ok: true, user_id: 'U0LOOPBACK1' };
    const error = await refused({
      first: (slack) => void slack.fail({ method: 'auth.test', times: null }, { kind: 'error', error: '', extra }),
    });
    expect(error).toBeInstanceOf(AdapterError);
    expect(error.message).toContain('SLACK_BOT_TOKEN is the token of a person');
  });

  test('row 37: an app token without its scope ends the start with instructions', async () => {
    const error = await refused({ slack: { appScopes: [] } });
    expect(error).toBeInstanceOf(AdapterError);
    expect(error.message).toContain('connections:write');
  });

  test('row 37: a missing app token ends the start with instructions', async () => {
    const error = await refused({ adapter: { appToken: null } });
    expect(error.message).toContain('SLACK_APP_TOKEN');
  });

  test('row 37: switching Socket Mode off ends the program with instructions', async () => {
    const { slack, ears: own } = await begin();
    slack.connections.disable();
    await until('it is told', () => own.breaks.length > 0);
    expect(own.breaks).toHaveLength(1);
    expect(own.breaks[0]?.message).toContain('Socket Mode');
  });

  test('row 37: revoking tokens at run time ends the program', async () => {
    const { slack, ears: own } = await begin();
    slack.revokeTokens({ announce: true });
    await until('it is told', () => own.breaks.length > 0);
    expect(own.breaks[0]?.message).toContain('SLACK_BOT_TOKEN');
  });

  test('row 37: removing the app ends the program', async () => {
    const { slack, ears: own } = await begin();
    slack.revokeTokens({ uninstall: true });
    await until('it is told', () => own.breaks.length > 0);
    expect(own.breaks[0]?.message).toContain('removed from the workspace');
  });

  test('row 37: a token revoked without an event is detected within a minute', async () => {
    const { slack, ears: own } = await begin({ adapter: { timers: hasty(100) } });
    slack.revokeTokens();
    await until('it is told', () => own.breaks.length > 0);
    expect(own.breaks[0]?.message).toContain('SLACK_BOT_TOKEN (token_revoked)');
  });

  test('row 37: a bot token replaced by another one is detected while messages still come in', async () => {
    const now = Date.now();
    const { slack, ears: own } = await begin({ adapter: { clock: { now: () => now }, timers: hasty(100) } });
    slack.fail({ method: 'auth.test', times: null }, { kind: 'error', error: 'token_revoked' });
    slack.write(slack.ids.ann, slack.ids.channel, 'hello');
    await until('it is told', () => own.breaks.length > 0, 5_000);
    expect(own.texts()).toEqual(['hello']);
  });
});

describe('an unreachable network', () => {
  test('row 30: makes the start retry with growing waits, and logs it', async () => {
    const slack = await startSlack();
    const waits: number[] = [];
    const lines: string[] = [];
    const own = ears();
    const timers = hasty(1, waits);
    const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
    const apiUrl = 'http://127.0.0.1:9/api/';
    const adapter = createAdapter({ ...adapterOptions(slack), apiUrl, timers, log });
    const starting = adapter.start(own, sights([placeOf(slack.ids.channel)]));
    await until('nine tries', () => waits.length >= 9);
    await adapter.stop();
    await starting;
    await slack.close();
    expect(waits.slice(0, 9)).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60].map((seconds) => seconds * 1_000));
    expect(lines[0]).toContain('connecting to Slack failed; retried');
    expect(lines.join('')).not.toContain(slack.botToken);
  });

  test('row 30: lets the start continue by itself once it is reachable', async () => {
    const { slack, ears: own } = await begin({
      start: false,
      adapter: { timers: hasty(20) },
      first: (server) => server.fail({ method: 'auth.test', times: 2 }, { kind: 'reset-before' }),
    });
    await until('it is up', () => slack.connections.count() === 2);
    write('hello');
    await until('it comes', () => own.messages.length === 1);
    expect(own.breaks).toEqual([]);
  });
});

describe('signed requests', () => {
  async function listening(): Promise<Stand & { readonly url: string; readonly port: number }> {
    const port = await freePort();
    const connection = { mode: 'http', host: '127.0.0.1', port, path: '/slack/events' } as const;
    await begin({ adapter: { connection } });
    const url = `http://127.0.0.1:${port}/slack/events`;
    here.slack.events.useHttp(url);
    return { ...here, url, port };
  }

  test('deliver messages, answered once they are durable', async () => {
    const { slack, ears: own } = await listening();
    own.isFull = true;
    write('hello');
    await until('a repetition', () => slack.attempts.length >= 2);
    own.isFull = false;
    await slack.events.settled();
    expect(own.texts()).toEqual(['hello']);
    expect([...own.handed.values()]).toEqual([1]);
    expect(slack.lost).toEqual([]);
  });

  test('deliver commands, button presses and their answers', async () => {
    const { slack, ears: own } = await listening();
    const shown = await slack.command(slack.ids.ann, slack.ids.channel, 'floor status');
    expect(shown).toMatchObject({ acked: true, answers: [{ text: 'Done.' }] });
    expect(own.runs).toMatchObject([{ line: '/floor status', by: { id: slack.ids.ann } }]);
  });

  test('are refused without a signature, or with a wrong or old one', async () => {
    const { url, slack, ears: own } = await listening();
    const body = JSON.stringify({
      type: 'event_callback',
      event_id: 'Ev1',
      event: { type: 'message', channel: slack.ids.channel, ts: '1.1', user: 'U1', text: 'forged' },
    });
    const post = async (headers: Record<string, string>) =>
      (
        await fetch(url, {
          method: 'POST',
          body,
          headers: { 'content-type': 'application/json', ...headers },
        })
      ).status;
    const signed = (agoSeconds: number, secret = slack.signingSecret) => {
      const time = String(Math.floor(Date.now() / 1_000) - agoSeconds);
      const hash = createHmac('sha256', secret).update(`v0:${time}:${body}`).digest('hex');
      return { 'x-slack-request-timestamp': time, 'x-slack-signature': `v0=${hash}` };
    };
    expect(await post({})).toBe(401);
    expect(await post(signed(0, 'another secret'))).toBe(401);
    expect(await post(signed(310))).toBe(401);
    expect((await fetch(new URL('/other', url), { method: 'POST', body, headers: signed(0) })).status).toBe(404);
    expect(own.messages).toEqual([]);
    expect(await post(signed(240))).toBe(200);
  });

  test.each(ODD_TARGETS)('T1 for "%s" are answered with 400, and the next one is delivered', async (target) => {
    const { port, slack, ears: own } = await listening();
    const post = `POST ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`;
    expect(statusOf(await sendRaw(port, post))).toBe(400);
    write('hello');
    await slack.events.settled();
    expect(own.texts()).toEqual(['hello']);
  });

  test('need the signing secret', async () => {
    const slack = await startSlack();
    const connection = { mode: 'http', host: '127.0.0.1', port: 0, path: '/slack/events' } as const;
    const adapter = createAdapter({ ...adapterOptions(slack), connection, signingSecret: null });
    await expect(adapter.start(ears(), sights([]))).rejects.toThrow('SLACK_SIGNING_SECRET');
    await adapter.stop();
    await slack.close();
  });
});
