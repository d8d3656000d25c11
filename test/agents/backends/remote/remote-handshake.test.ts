import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { HANDSHAKE_LIMITS, HandshakeLimiter } from '../../../../src/agents/backends/remote/remote-host.ts';
import {
  TokenError,
  addAgentToken,
  listAgentTokens,
  openTokenBook,
  revokeAgentToken,
  rotateAgentToken,
} from '../../../../src/agents/backends/remote/tokens.ts';
import { ODD_TARGETS, handshake, sendRaw, statusOf } from '../../../lib/raw.ts';
import { closing, remoteRig, speak, until } from './remote-rig.ts';
import type { RemoteRig } from './remote-rig.ts';
import { createTime } from '../../time.ts';

let rig: RemoteRig;
beforeEach(async () => void (rig = await remoteRig()));
afterEach(() => rig.stop());

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });

describe('a token', () => {
  test('is 256 random bits, of which only the SHA-256 is stored, readable by the owner alone', () => {
    const path = join(rig.dataDir, 'agent-tokens.json');
    expect(Buffer.from(rig.token, 'base64url')).toHaveLength(32);
    const sha256 = createHash('sha256').update(rig.token).digest('hex');
    expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({ dev: { sha256, createdAt: '1970-01-01T00:00:00.000Z' } });
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test('is made once for an agent; rotating and revoking require an existing token', () => {
    expect(() => addAgentToken(rig.dataDir, 'dev', { at: 0 })).toThrow(TokenError);
    expect(() => rotateAgentToken(rig.dataDir, 'qa', 0)).toThrow(/conch agent add qa/);
    expect(() => revokeAgentToken(rig.dataDir, 'qa')).toThrow(TokenError);
    expect(() => addAgentToken(rig.dataDir, '../qa', { at: 0 })).toThrow(/not a valid agent id/);
  });

  test('admits its agent; the list shows each agent that has a token, with its time and channels', async () => {
    expect(await rig.handshakeStatus(bearer(rig.token))).toBe(101);
    addAgentToken(rig.dataDir, 'qa', { at: 1_000, channels: ['console:demo'] });
    expect(listAgentTokens(rig.dataDir)).toEqual([
      { agent: 'dev', createdAt: '1970-01-01T00:00:00.000Z', channels: undefined },
      { agent: 'qa', createdAt: '1970-01-01T00:00:01.000Z', channels: ['console:demo'] },
    ]);
  });

  test.each([
    ['no header', () => ({})],
    ['a wrong token', () => bearer('x'.repeat(43))],
    ['a truncated token', (token: string) => bearer(token.slice(0, -1))],
    ['a token with something after it', (token: string) => bearer(`${token}A`)],
    ['another scheme', (token: string) => ({ Authorization: `Basic ${token}` })],
  ])('is required: %s is refused with 401 before the upgrade', async (_what, headers) => {
    expect(await rig.handshakeStatus(headers(rig.token))).toBe(401);
  });

  test('that was replaced or revoked at run time is refused, and the new one admitted', async () => {
    const next = rotateAgentToken(rig.dataDir, 'dev', 5);
    expect(await rig.handshakeStatus(bearer(rig.token))).toBe(401);
    expect(await rig.handshakeStatus(bearer(next))).toBe(101);
    revokeAgentToken(rig.dataDir, 'dev');
    expect(await rig.handshakeStatus(bearer(next))).toBe(401);
  });

  test('that is revoked closes the connection', async () => {
    const time = createTime();
    const other = await remoteRig({ timers: time.timers, clock: time.clock, heartbeatMs: 1_000 });
    try {
      const socket = await other.connected();
      const closed = closing(socket);
      revokeAgentToken(other.dataDir, 'dev');
      await time.advance(1_000);
      expect(await closed).toEqual({ code: 4401, reason: 'the token was revoked' });
    } finally {
      await other.stop();
    }
  });

  test('in the URL is refused, and so is a token of an unknown agent', async () => {
    expect(await rig.handshakeStatus({}, `${rig.url}?token=${rig.token}`)).toBe(400);
    expect(await rig.handshakeStatus(bearer(addAgentToken(rig.dataDir, 'stranger', { at: 0 })))).toBe(403);
    expect(await rig.handshakeStatus(bearer(rig.token), rig.url.replace('/agent', '/'))).toBe(404);
  });

  test('file that is damaged admits nobody until it is repaired, and the error says what to do', async () => {
    const path = join(rig.dataDir, 'agent-tokens.json');
    const whole = readFileSync(path);
    writeFileSync(path, '{"dev":{"sha256":"short"}}');
    expect(() => listAgentTokens(rig.dataDir)).toThrow(/is damaged: restore it, or delete it/);
    expect(await rig.handshakeStatus(bearer(rig.token))).toBe(503);
    writeFileSync(path, whole);
    expect(await rig.handshakeStatus(bearer(rig.token))).toBe(101);
  });

  test('is unknown in a folder without tokens, also for an agent named like a property of every object', () => {
    const book = openTokenBook(join(rig.dataDir, 'nowhere'));
    expect(book.holderOf(rig.token)).toBeNull();
    expect(book.digestOf('constructor')).toBeNull();
  });
});

describe('a handshake', () => {
  test.each(ODD_TARGETS)('T1 answers an upgrade of "%s" with 400, and the server keeps running', async (target) => {
    const port = Number(new URL(rig.url).port);
    expect(statusOf(await sendRaw(port, handshake(target)))).toBe(400);
    expect(statusOf(await sendRaw(port, `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`))).toBe(400);
    expect(await rig.handshakeStatus(bearer(rig.token))).toBe(101);
  });

  test('refuses pages in a browser unless their origin is listed', async () => {
    const headers = bearer(rig.token);
    expect(await rig.handshakeStatus({ ...headers, Origin: 'https://evil.example' })).toBe(403);
    expect(await rig.handshakeStatus({ ...headers, Origin: 'null' })).toBe(403);
    expect(await rig.handshakeStatus({ ...headers, Origin: 'https://allowed.example' })).toBe(101);
  });

  test('locks an address out for a minute after ten different wrong tokens', () => {
    const time = createTime();
    const limiter = new HandshakeLimiter(time.clock, HANDSHAKE_LIMITS);
    const guesses = Array.from({ length: 10 }, (_, n) => limiter.wrong('10.0.0.1', `guess ${n}`));
    expect(guesses.filter(Boolean)).toHaveLength(1);
    expect(guesses.at(-1)).toBe(true);
    expect([limiter.admit('10.0.0.1'), limiter.admit('10.0.0.2')]).toEqual([60, 0]);
  });

  test('is possible 60,000 ms after a lockout, not 59,999', async () => {
    const time = createTime();
    const limiter = new HandshakeLimiter(time.clock, HANDSHAKE_LIMITS);
    for (let n = 0; n < 10; n += 1) limiter.wrong('10.0.0.1', `guess ${n}`);
    await time.advance(59_999);
    expect(limiter.admit('10.0.0.1')).toBe(1);
    await time.advance(1);
    expect(limiter.admit('10.0.0.1')).toBe(0);
  });

  test('repeated with the same old token counts as one wrong token', () => {
    const limiter = new HandshakeLimiter(createTime().clock, HANDSHAKE_LIMITS);
    expect(Array.from({ length: 1_000 }, () => limiter.wrong('10.0.0.1', 'old')).some(Boolean)).toBe(false);
  });

  test('is allowed 60 times in ten seconds for one address, not 61 times', async () => {
    const time = createTime();
    const limiter = new HandshakeLimiter(time.clock, HANDSHAKE_LIMITS);
    expect(Array.from({ length: 60 }, () => limiter.admit('10.0.0.1')).every((seconds) => seconds === 0)).toBe(true);
    expect(limiter.admit('10.0.0.1')).toBe(10);
    await time.advance(10_000);
    expect(limiter.admit('10.0.0.1')).toBe(0);
  });

  test('T29 with guessed tokens is refused with one log line, while the agent at the same address is admitted', async () => {
    const statuses: number[] = [];
    for (let n = 0; n < 12; n += 1) statuses.push(await rig.handshakeStatus(bearer(`guess-${n}`)));
    statuses.push(await rig.handshakeStatus(bearer(rig.token)));
    expect(statuses).toEqual([...Array.from({ length: 10 }, () => 401), 429, 429, 101]);
    expect(rig.logged.filter((line) => line.startsWith('warn'))).toEqual([
      'warn: locked out after too many wrong tokens',
    ]);
  });

  test('is not offered without encryption beyond this machine', async () => {
    await expect(remoteRig({ host: '0.0.0.0' })).rejects.toThrow(/without encryption\. Set remote\.tls/);
  });

  test('behind a proxy requires an encrypted connection to the proxy', async () => {
    const other = await remoteRig({ behindProxy: true });
    try {
      expect(await other.handshakeStatus(bearer(other.token))).toBe(403);
      const forwarded = (scheme: string) =>
        other.handshakeStatus({ ...bearer(other.token), 'X-Forwarded-Proto': scheme });
      const schemes = ['https', 'wss', 'http, https', 'https, http', 'ws'];
      expect(await Promise.all(schemes.map(forwarded))).toEqual([101, 101, 101, 403, 403]);
    } finally {
      await other.stop();
    }
  });

  test('that is not finished in time is disconnected', async () => {
    const other = await remoteRig({ limits: { handshakeMs: 50 } });
    try {
      const socket = connect(Number(new URL(other.url).port), '127.0.0.1');
      socket.on('error', () => undefined).write('GET /agent HTTP/1.1\r\nHost: x\r\n');
      socket.resume();
      expect(await once(socket, 'close')).toHaveLength(1);
    } finally {
      await other.stop();
    }
  });

  test('with a certificate accepts encrypted connections', async ({ skip }) => {
    const folder = mkdtempSync(join(tmpdir(), 'conch-tls-'));
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
    const words = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=conch -addext subjectAltName=IP:127.0.0.1 -keyout ${key} -out ${cert}`;
    skip(spawnSync('openssl', words.split(' ')).status !== 0, 'openssl, which makes the certificate, is not installed');
    const pem = { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') };
    rmSync(folder, { recursive: true });
    const other = await remoteRig({ tls: pem });
    try {
      expect(other.url).toMatch(/^wss:/);
      const socket = new WebSocket(other.url, {
        headers: bearer(other.token),
        ca: pem.cert,
      });
      await once(socket, 'open');
      socket.terminate();
    } finally {
      await other.stop();
    }
  });

  test('whose port is taken fails with a clear error', async () => {
    const port = Number(new URL(rig.url).port);
    await expect(remoteRig({ port })).rejects.toThrow(`Port ${port} is taken`);
  });
});

describe('a connection', () => {
  test('is replaced by a newer connection of the same agent', async () => {
    const old = await rig.connected();
    const closed = closing(old);
    const next = await rig.connected();
    expect(await closed).toEqual({ code: 4409, reason: 'another connection of the same agent took its place' });
    expect(next.readyState).toBe(next.OPEN);
  });

  test('that sends 50 MB in one frame is closed, and other connections continue', async () => {
    rig.host.slot('qa');
    const other = await rig.connected(addAgentToken(rig.dataDir, 'qa', { at: 0 }));
    const socket = await rig.connected();
    const closed = closing(socket);
    socket.send('x'.repeat(50_000_000), () => undefined);
    expect([1006, 1009]).toContain((await closed).code);
    other.ping();
    await once(other, 'pong');
    expect(await rig.handshakeStatus(bearer(rig.token))).toBe(101);
  });

  test.each([
    ['what is not JSON', 'hello'],
    ['JSON that is no message', '{"jsonrpc":"1.0","method":"x"}'],
    ['a batch', '[{"jsonrpc":"2.0","method":"x"}]'],
  ])('that sends %s is closed', async (_what, frame) => {
    const socket = await rig.connected();
    const closed = closing(socket);
    socket.send(frame);
    expect((await closed).code).toBe(1007);
  });

  describe('T49 that exceeds its rate', () => {
    const MESSAGE = JSON.stringify({ jsonrpc: '2.0', method: 'session/update', params: { sessionId: 'x' } });
    const flooded = async () => {
      const time = createTime();
      const other = await remoteRig({ limits: { messagesPerSecond: 100 }, timers: time.timers, clock: time.clock });
      const socket = await other.connected();
      const told: unknown[] = [];
      socket.on('message', (bytes: Buffer) => void told.push(JSON.parse(bytes.toString('utf8'))));
      const send = (count: number): void => {
        for (let n = 0; n < count; n += 1) socket.send(MESSAGE, () => undefined);
      };
      return { time, other, socket, told, send };
    };
    const SLOW = { jsonrpc: '2.0', method: '_conch/slow', params: { messagesPerSecond: 100, waitMs: 260 } };

    test('in a burst is told to slow down, is read later, and stays open', async () => {
      const { time, other, socket, told, send } = await flooded();
      try {
        send(200);
        socket.ping();
        await once(socket, 'pong');
        expect(told).toEqual([]);
        send(1);
        await until(() => told.length > 0, 'the word');
        expect(told).toEqual([SLOW]);
        let isHeard = false;
        socket.ping();
        socket.once('pong', () => void (isHeard = true));
        await pause(50);
        expect(isHeard).toBe(false);
        await time.advance(260);
        await until(() => isHeard, 'the ping');
        await time.advance(60_000);
        send(150);
        socket.ping();
        await once(socket, 'pong');
        expect(told).toEqual([SLOW]);
      } finally {
        await other.stop();
      }
    });

    test('for 30 s is closed after it was told to slow down', async () => {
      const { time, other, socket, told, send } = await flooded();
      try {
        const closed = closing(socket);
        const from = time.clock.now();
        while (socket.readyState === WebSocket.OPEN && time.clock.now() - from < 120_000) {
          send(300);
          await pause(2);
          await time.advance(500);
        }
        expect(await closed).toEqual({ code: 1008, reason: 'sent more than 100 messages a second for 30 s' });
        expect(time.clock.now() - from).toBeGreaterThanOrEqual(30_000);
        expect(told.length).toBeGreaterThan(1);
      } finally {
        await other.stop();
      }
    });

    test('does not count as silent while nothing is read from it', async () => {
      const time = createTime();
      const heartbeat = { heartbeatMs: 100, heartbeatTimeoutMs: 100 };
      const other = await remoteRig({
        limits: { messagesPerSecond: 100 },
        timers: time.timers,
        clock: time.clock,
        ...heartbeat,
      });
      try {
        const socket = await other.connected();
        const word = once(socket, 'message');
        for (let n = 0; n < 201; n += 1) socket.send(MESSAGE);
        await word;
        await time.advance(200);
        expect(other.host.slot('dev').link?.open).toBe(true);
      } finally {
        await other.stop();
      }
    });
  });

  test('that does not read is closed when too much is queued', async () => {
    const other = await remoteRig({ limits: { unreadBytes: 1_000_000 } });
    try {
      const socket = await other.connected();
      await until(() => other.host.slot('dev').link !== null, 'the connection');
      const link = other.host.slot('dev').link!;
      speak(socket, () => Promise.resolve({ stopReason: 'end_turn' }));
      socket.pause();
      const writer = link.stream().writable.getWriter();
      const big = { jsonrpc: '2.0' as const, method: 'x', params: { text: 'x'.repeat(500_000) } };
      for (let n = 0; n < 50 && link.open; n += 1) await writer.write(big).catch(() => undefined);
      expect(await link.closed).toEqual({ why: 'does not read its messages', final: true });
    } finally {
      await other.stop();
    }
  });

  test('with unanswered pings is closed after the timeout, in which the sleep of Conch does not count', async () => {
    const time = createTime();
    const heartbeat = { heartbeatMs: 1_000, heartbeatTimeoutMs: 3_000 };
    const other = await remoteRig({ timers: time.timers, clock: time.clock, ...heartbeat });
    try {
      const socket = await other.connected();
      await until(() => other.host.slot('dev').link !== null, 'the connection');
      const link = other.host.slot('dev').link!;
      socket.pause();
      await time.oversleep(60_000);
      await time.advance(2_999);
      expect(link.open).toBe(true);
      await time.advance(1);
      expect(await link.closed).toEqual({ why: 'no heartbeat for 3 s', final: true });
    } finally {
      await other.stop();
    }
  });
});
