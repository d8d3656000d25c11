import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { REST } from 'discord.js';
import { describe, expect, test } from 'vitest';
import { remoteDiscord } from './server-remote.ts';
import { atEnd, discord, messages, refusal, restOf } from './server-rig.ts';
import type { DiscordServer } from './server.ts';

describe('a request with a fault of the fake Discord', () => {
  const body = { content: 'x' };
  const POST = 'POST /channels/*/messages';

  async function posted(fault: Parameters<DiscordServer['fail']>[1], timeout = 300) {
    const server = await discord();
    server.fail(POST, fault);
    const outcome = await refusal(restOf(server, timeout).post(messages(server.channel), { body }));
    return { outcome, stored: server.read(server.channel).length };
  }

  test('is reset before or after it was stored', async () => {
    expect(await posted({ kind: 'reset-before' })).toEqual({ outcome: 'Error', stored: 0 });
    expect(await posted({ kind: 'reset-after' })).toEqual({ outcome: 'Error', stored: 1 });
  });

  test('is never answered, before or after its message was stored', async () => {
    expect(await posted({ kind: 'hang-after' })).toEqual({ outcome: 'AbortError', stored: 1 });
    expect(await posted({ kind: 'hang-before' })).toEqual({ outcome: 'AbortError', stored: 0 });
  });

  test('is answered late', async () => {
    expect(await posted({ kind: 'late', ms: 100 }, 5000)).toEqual({ outcome: 'accepted', stored: 1 });
    expect(await posted({ kind: 'late', ms: 5000 })).toEqual({ outcome: 'AbortError', stored: 1 });
  });

  test("gets an error page, executed or not, or a refusal with Discord's error code", async () => {
    expect(await posted({ kind: 'status', status: 502 })).toEqual({ outcome: 'HTTPError', stored: 0 });
    expect(await posted({ kind: 'status', status: 503, executed: true })).toEqual({ outcome: 'HTTPError', stored: 1 });
    expect(await posted({ kind: 'status', status: 400, code: 30_046 })).toEqual({ outcome: '400 30046', stored: 0 });
  });

  test('is rate limited, and the answer says for how long', async () => {
    const server = await discord();
    server.fail(POST, { kind: 'rate-limit', retryAfterMs: 1500, scope: 'shared' });
    const request = restOf(server).post(messages(server.channel), { body });
    await expect(request).rejects.toMatchObject({
      name: expect.stringMatching(/RateLimitError/u),
      scope: 'shared',
      retryAfter: 1500,
    });
    expect(server.requests.at(-1)).toMatchObject({ method: 'POST', status: 429, fault: 'rate-limit', body });
  });

  test('fails until the fault is lifted', async () => {
    const server = await discord();
    const rest = restOf(server);
    const post = () => refusal(rest.post(messages(server.channel), { body }));
    const fault = server.fail({ path: POST, containing: '"x"' }, { kind: 'status', status: 500 }, null);
    expect([await post(), await post()]).toEqual(['HTTPError', 'HTTPError']);
    fault.lift();
    expect(await post()).toBe('accepted');
    expect(fault.hits).toBe(2);
  });

  test('is rate limited where a limit is set', async () => {
    const server = await discord({ rateLimit: { limit: 2, perMs: 60_000 } });
    const url = `${server.apiUrl}/v10${messages(server.channel)}`;
    const headers = { Authorization: `Bot ${server.token}`, 'Content-Type': 'application/json' };
    const post = () => fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
    const answers = [await post(), await post(), await post()];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(answers[0]?.headers.get('x-ratelimit-remaining')).toBe('1');
    expect(server.read(server.channel)).toHaveLength(2);
  });

  test('with a revoked token is unauthorized', async () => {
    const server = await discord();
    const rest = restOf(server);
    server.revokeToken();
    expect(await refusal(rest.get('/users/@me'))).toBe('401 0');
  });
});

describe('a fake Discord in its own process', () => {
  test('is controlled over HTTP', async () => {
    const child = spawn(process.execPath, [path.join(import.meta.dirname, 'server-main.ts')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    atEnd(async () => {
      child.kill('SIGTERM');
      if (child.exitCode === null) await once(child, 'exit');
    });
    const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
    const { apiUrl, token, channel } = JSON.parse(line) as { apiUrl: string; token: string; channel: string };
    const remote = remoteDiscord(apiUrl);
    const rest = new REST({ api: apiUrl, retries: 0 }).setToken(token);
    await remote.write('ann', channel, 'hello');
    await remote.fail('POST /channels/*/messages', { kind: 'status', status: 500 });
    expect(await refusal(rest.post(messages(channel), { body: { content: 'x' } }))).toBe('HTTPError');
    expect(await remote.read(channel)).toMatchObject([{ author: 'ann', text: 'hello' }]);
    expect(await remote.get('requests')).toMatchObject([{ method: 'POST', status: 500 }]);
    await expect(remote.edit('1', 'x')).rejects.toThrow('no such message');
  });
});
