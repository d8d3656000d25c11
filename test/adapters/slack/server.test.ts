import { createServer } from 'node:http';
import type { IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { verifySlackRequest } from '@slack/bolt';
import { describe, expect, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import { spawnSlack } from './server-process.ts';
import { atEnd, caller, listener, rawSocket, slackServer } from './server-rig.ts';

describe('a connected client', () => {
  test("receives a person's message once and acknowledges it", async () => {
    const slack = await slackServer();
    const { heard } = await listener(slack);
    const ts = slack.write(slack.ids.ann, slack.ids.channel, 'good morning');
    await slack.events.settled();
    const event = { type: 'message', ts, user: slack.ids.ann, channel: slack.ids.channel, channel_type: 'channel' };
    expect(heard).toMatchObject([{ text: 'good morning', event, retry: 0 }]);
    expect(slack.attempts).toMatchObject([{ acked: true, attempt: 0, event: 'message' }]);
  });

  test('posts under its own name, and receives that post as well', async () => {
    const slack = await slackServer();
    const { heard } = await listener(slack);
    const metadata = { event_type: 'note', event_payload: { id: '1' } };
    const args = { channel: slack.ids.channel, text: 'hello', username: 'dev', icon_emoji: ':shell:', metadata };
    const { ts } = await caller(slack)('chat.postMessage', args);
    await slack.events.settled();
    const seen = { ts, author: 'dev', icon: ':shell:', text: 'hello', own: true, metadata, pings: [] };
    expect(slack.read(slack.ids.channel)).toMatchObject([seen]);
    const event = { subtype: 'bot_message', username: 'dev', bot_id: slack.ids.bot, app_id: slack.ids.app };
    expect(heard).toMatchObject([{ text: 'hello', event }]);
    expect(heard[0]?.event).not.toHaveProperty('user');
  });

  test('receives a mention of the bot twice: as a message and as a mention', async () => {
    const slack = await slackServer();
    const { heard } = await listener(slack);
    slack.write(slack.ids.ann, slack.ids.channel, `<@${slack.ids.botUser}> hello`);
    await slack.events.settled();
    expect(new Set(heard.map(({ event }) => event['type']))).toEqual(new Set(['app_mention', 'message']));
    expect(new Set(heard.map(({ event }) => event['ts'])).size).toBe(1);
  });

  test('receives edits and deletions with the earlier message', async () => {
    const slack = await slackServer();
    const { heard } = await listener(slack);
    const { ann, channel } = slack.ids;
    const ts = slack.write(ann, channel, 'one');
    slack.edit(channel, ts, 'two');
    slack.remove(channel, ts);
    await slack.events.settled();
    const changes = heard.map(({ event }) => event).filter(({ subtype }) => subtype !== undefined);
    expect(changes).toMatchObject([
      {
        subtype: 'message_changed',
        message: { text: 'two', edited: { user: ann } },
        previous_message: { text: 'one' },
      },
      { subtype: 'message_deleted', deleted_ts: ts, previous_message: { text: 'two' } },
    ]);
    expect(slack.read(channel)).toEqual([]);
  });
});

describe('an event that is not acknowledged', () => {
  test('is repeated with its number until it is acknowledged', async () => {
    const slack = await slackServer();
    const { heard } = await listener(slack, (all) => all.length === 3);
    slack.write(slack.ids.ann, slack.ids.channel, 'anybody?');
    await slack.events.settled();
    expect(heard.map(({ text, retry }) => ({ text, retry }))).toEqual(
      [0, 1, 2].map((retry) => ({ text: 'anybody?', retry })),
    );
    expect(new Set(slack.attempts.map(({ envelopeId }) => envelopeId)).size).toBe(1);
    expect(slack.lost).toEqual([]);
  });

  test('is dropped after the third repetition', async () => {
    const slack = await slackServer();
    const { heard } = await listener(slack, () => false);
    slack.write(slack.ids.ann, slack.ids.channel, 'anybody?');
    await slack.events.settled();
    expect(heard.map(({ retry }) => retry)).toEqual([0, 1, 2, 3]);
    expect(slack.lost).toMatchObject([{ event: { text: 'anybody?' } }]);
  });

  test('may be acknowledged over another connection', async () => {
    const slack = await slackServer();
    const [one, two] = [await rawSocket(slack), await rawSocket(slack)];
    slack.write(slack.ids.ann, slack.ids.channel, 'hello');
    await vi.waitFor(() => expect(one.frames.length + two.frames.length).toBe(3), { timeout: 60_000 });
    const [hearer, other] = one.frames.length === 2 ? [one, two] : [two, one];
    other.ack(hearer.frames[1]);
    await slack.events.settled();
    expect(slack.attempts).toMatchObject([{ attempt: 0, acked: true }]);
  });

  test('written while no socket was open arrives only as a repetition', async () => {
    const slack = await slackServer({ retryDelaysMs: [0, 400] });
    slack.write(slack.ids.ann, slack.ids.channel, 'early');
    const { heard } = await listener(slack);
    await slack.events.settled();
    expect(heard).toMatchObject([{ text: 'early', retry: 2 }]);
  });
});

describe('a stream of messages', () => {
  test('survives twenty refreshes with two connections', async () => {
    const slack = await slackServer({ retryDelaysMs: [0, 100, 200] });
    const all = [await rawSocket(slack), await rawSocket(slack)];
    const texts = new Set<string>();
    const hear = ({ socket, ack }: (typeof all)[number]) =>
      socket.on('message', (raw: Buffer) => {
        const frame = JSON.parse(raw.toString('utf8'));
        if (frame.type === 'events_api') texts.add(frame.payload.event.text);
        if (frame.type === 'events_api') ack(frame);
      });
    all.forEach(hear);
    for (let round = 0; round < 20; round += 1) {
      slack.connections.refresh({ which: 0, afterMs: 5 });
      for (let each = 0; each < 3; each += 1) slack.write(slack.ids.ann, slack.ids.channel, `${round}.${each}`);
      const next = await rawSocket(slack);
      hear(next);
      all.push(next);
    }
    await slack.events.settled();
    expect(texts.size).toBe(60);
    expect(slack.lost).toEqual([]);
    expect(slack.connections.opened()).toBe(22);
  });

  test("reaches Slack's own client after a refresh of its only connection", async () => {
    const slack = await slackServer({ retryDelaysMs: [0, 300, 600] });
    const { heard } = await listener(slack);
    slack.connections.refresh();
    await vi.waitFor(() => expect(slack.connections.count()).toBe(0), { timeout: 60_000 });
    slack.write(slack.ids.ann, slack.ids.channel, 'in the hole');
    await slack.events.settled();
    expect(heard.map(({ text }) => text)).toEqual(['in the hole']);
    expect(slack.connections.opened()).toBe(2);
  });

  test('continues after a half-open socket is detected', async () => {
    const slack = await slackServer({ retryDelaysMs: [0, 1_500] });
    const { heard } = await listener(slack);
    slack.connections.silence();
    slack.write(slack.ids.ann, slack.ids.channel, 'into the void');
    await slack.events.settled();
    expect(heard).toMatchObject([{ text: 'into the void', retry: 2 }]);
  });

  test('can have duplicates, losses and a wrong order', async () => {
    const slack = await slackServer();
    const { heard } = await listener(slack);
    const write = (text: string) => slack.write(slack.ids.ann, slack.ids.channel, text);
    slack.events.duplicate();
    write('twice');
    slack.events.drop();
    write('never');
    slack.events.reorder();
    write('later');
    write('sooner');
    await vi.waitFor(() => expect(heard.map(({ text }) => text)).toEqual(['twice', 'twice', 'sooner', 'later']), {
      timeout: 60_000,
    });
    expect(slack.lost).toMatchObject([{ event: { text: 'never' } }]);
  });
});

describe('a Socket Mode connection', () => {
  test('is opened by a ticket that works once', async () => {
    const slack = await slackServer();
    const { url } = await rawSocket(slack);
    const again = new WebSocket(url);
    const error = await new Promise<Error>((resolve) => void again.on('error', resolve));
    expect(error.message).toContain('400');
  });

  test('is refused beyond the tenth', async () => {
    const slack = await slackServer();
    for (let count = 0; count < 10; count += 1) await rawSocket(slack);
    const { url } = await caller(slack, slack.appToken)('apps.connections.open');
    const frames: string[] = [];
    const socket = new WebSocket(String(url));
    socket.on('message', (raw: Buffer) => void frames.push(raw.toString('utf8')));
    await new Promise((resolve) => void socket.on('close', resolve));
    expect(frames.map((frame) => JSON.parse(frame))).toMatchObject([
      { type: 'disconnect', reason: 'too_many_websockets' },
    ]);
    expect(slack.connections.count()).toBe(10);
  });

  test('needs the token of the app, and Socket Mode switched on', async () => {
    const slack = await slackServer();
    expect(await caller(slack)('apps.connections.open')).toMatchObject({ error: 'not_allowed_token_type' });
    const { frames } = await rawSocket(slack);
    slack.connections.disable();
    await vi.waitFor(() => expect(frames.at(-1)).toMatchObject({ type: 'disconnect', reason: 'link_disabled' }), {
      timeout: 60_000,
    });
    expect(await caller(slack, slack.appToken)('apps.connections.open')).toMatchObject({ ok: false });
  });

  test('delivers invalid payloads that a test sends', async () => {
    const slack = await slackServer();
    const { frames } = await rawSocket(slack);
    slack.events.rateLimited();
    slack.events.odd({ event: { type: 'message', text: null } });
    await vi.waitFor(() => expect(frames.length).toBeGreaterThanOrEqual(3), { timeout: 60_000 });
    expect(frames.slice(1, 3)).toMatchObject([
      { type: 'events_api', payload: { type: 'app_rate_limited', team_id: slack.ids.team } },
      { type: 'events_api', payload: { event: { text: null } } },
    ]);
  });
});

describe('signed requests', () => {
  test('carry a signature that Bolt accepts, and are repeated after a 500', async () => {
    const slack = await slackServer();
    const taken: { headers: IncomingHttpHeaders; body: string }[] = [];
    const app = createServer((request, response) => {
      let body = '';
      request.on('data', (part: Buffer) => (body += part.toString('utf8')));
      request.on('end', () => {
        taken.push({ headers: request.headers, body });
        response.writeHead(taken.length === 1 ? 500 : 200).end();
      });
    });
    await new Promise<void>((resolve) => void app.listen(0, '127.0.0.1', resolve));
    atEnd(() => new Promise((resolve) => void app.close(resolve)));
    slack.events.useHttp(`http://127.0.0.1:${(app.address() as AddressInfo).port}/slack/events`);
    slack.write(slack.ids.ann, slack.ids.channel, 'over HTTP');
    await slack.events.settled();
    expect(taken.map(({ headers }) => headers['x-slack-retry-num'])).toEqual([undefined, '1']);
    expect(taken[1]?.headers['x-slack-retry-reason']).toBe('http_error');
    for (const { headers, body } of taken) {
      const stamp = Number(headers['x-slack-request-timestamp']);
      const signed = { 'x-slack-signature': String(headers['x-slack-signature']), 'x-slack-request-timestamp': stamp };
      verifySlackRequest({ signingSecret: slack.signingSecret, body, headers: signed });
      expect(() => verifySlackRequest({ signingSecret: 'another', body, headers: signed })).toThrow('signature');
    }
    const shown = await slack.command(slack.ids.ann, slack.ids.channel, 'help', { waitMs: 0 });
    expect(shown).toMatchObject({ acked: true, answers: [] });
    expect(new URLSearchParams(taken[2]?.body).get('command')).toBe('/conch');
  });
});

describe('a fake Slack in its own process', () => {
  test('prints its URLs, takes control requests, and ends when asked', async () => {
    const slack = await spawnSlack({ ackMs: 50 });
    const call = caller(slack);
    expect(await call('auth.test')).toMatchObject({ ok: true, bot_id: slack.ids.bot });
    const ts = await slack.control('write', slack.ids.ann, slack.ids.channel, 'hello');
    await slack.control('fail', 'auth.test', { kind: 'error', error: 'internal_error' });
    expect(await call('auth.test')).toMatchObject({ error: 'internal_error' });
    expect(await slack.control('read', slack.ids.channel)).toMatchObject([{ ts, author: 'Ann' }]);
    expect(await slack.control('requests')).toMatchObject([{ method: 'auth.test' }, { outcome: 'internal_error' }]);
    await expect(slack.control('world')).rejects.toThrow('not for control');
    await slack.close();
    expect(() => process.kill(slack.pid, 0)).toThrow('ESRCH');
  });
});
