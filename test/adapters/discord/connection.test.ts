import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createClient, untilDiscord } from '../../../src/adapters/discord/client.ts';
import { Connection, createIdentifies, IDENTIFIES_A_DAY, Sessions } from '../../../src/adapters/discord/connection.ts';
import { createConnectRetry } from '../../../src/adapters/delivery/connect-retry.ts';
import { ChatError } from '../../../src/adapters/port.ts';
import { systemClock, systemTimers } from '../../../src/lib/time.ts';
import type { Timers } from '../../../src/lib/time.ts';
import { createLogbook, createMemory, mustCome } from './listening.ts';
import type { KeptMemory } from './listening.ts';
import { startDiscord } from './server.ts';
import type { DiscordOptions, DiscordServer } from './server.ts';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

async function discordOf(options: DiscordOptions = {}): Promise<DiscordServer> {
  const discord = await startDiscord(options);
  closing.push(() => discord.close());
  return discord;
}

/** Timers that run 1,000 times faster. `asked` holds the requested waits in milliseconds. */
function quick(): Timers & { readonly asked: number[] } {
  const asked: number[] = [];
  return {
    asked,
    after(ms, run) {
      asked.push(ms);
      return systemTimers.after(ms / 1_000, run);
    },
  };
}

type Heard = { readonly connection: Connection; readonly notes: string[]; readonly texts: string[] };

function connectionTo(
  discord: Pick<DiscordServer, 'token' | 'apiUrl'>,
  how: {
    readonly memory?: KeptMemory;
    readonly timers?: Timers;
    readonly lines?: ReturnType<typeof createLogbook>;
  } = {},
): Heard {
  const notes: string[] = [];
  const texts: string[] = [];
  const connection = new Connection({
    rest: createClient(discord),
    token: discord.token,
    bot: 'bot',
    memory: how.memory ?? createMemory(),
    clock: systemClock(),
    timers: how.timers ?? systemTimers,
    log: (how.lines ?? createLogbook()).log,
    dispatch: (event, payload) => {
      if (event === 'MESSAGE_CREATE') texts.push((payload as { content: string }).content);
      return null;
    },
    onLost: () => void notes.push('lost'),
    onBack: (missed) => void notes.push(`back, missed ${missed}`),
    fatal: (error) => void notes.push(`fatal: ${error.message}`),
  });
  closing.push(() => connection.stop());
  return { connection, notes, texts };
}

describe('a connection', () => {
  let discord: DiscordServer;
  let memory: KeptMemory;
  beforeEach(async () => {
    discord = await discordOf();
    memory = createMemory();
  });

  test("receives people's messages", async () => {
    const { connection, texts, notes } = connectionTo(discord);
    await connection.start();
    discord.write('ann', discord.channel, 'hello');
    await mustCome('the message', () => texts.length === 1);
    expect(texts).toEqual(['hello']);
    expect(notes).toEqual([]);
  });

  test.each([
    '{"op":10}',
    '{"op":10,"d":{"heartbeat_interval":"soon"}}',
    '{"op":9}',
    '{"op":0,"t":"READY","s":1}',
    '{"op":0,"t":"MESSAGE_CREATE","s":"x","d":null}',
    '{"op":0}',
    '{"op":11,"d":[[]]}',
    '[]',
    '"10"',
    '{"op"',
    '\0',
  ])('T1 survives the frame %s of the gateway and receives later messages', async (text) => {
    const { connection, texts } = connectionTo(discord);
    await connection.start();
    discord.raw(text);
    discord.write('ann', discord.channel, 'hello');
    await mustCome('the message', () => texts.length === 1);
    expect(texts).toEqual(['hello']);
  });

  test('T1 begins a new session when its resume URL cannot be opened', async () => {
    const { connection, texts } = connectionTo(discord);
    await connection.start();
    const ready = { session_id: 's', resume_gateway_url: 'ws://[', user: {}, guilds: [] };
    discord.raw(JSON.stringify({ op: 0, t: 'READY', s: 1, d: ready }));
    discord.dropSockets();
    await mustCome('another session', () => discord.identifies.length === 2);
    discord.write('ann', discord.channel, 'hello');
    await mustCome('the message', () => texts.includes('hello'));
  });

  test('resumes its session after a dropped socket and misses nothing', async () => {
    const { connection, texts, notes } = connectionTo(discord);
    await connection.start();
    discord.dropSockets();
    discord.write('ann', discord.channel, 'while away');
    await mustCome('the return', () => notes.length === 2);
    expect(notes).toEqual(['lost', 'back, missed nothing']);
    expect(texts).toEqual(['while away']);
    expect([discord.identifies.length, discord.resumes.length]).toEqual([1, 1]);
  });

  test('resumes its session after a restart and receives missed events', async () => {
    const first = connectionTo(discord, { memory });
    await first.connection.start();
    discord.write('ann', discord.channel, 'one');
    await mustCome('the first message', () => first.texts.length === 1);
    await first.connection.stop();
    discord.write('ann', discord.channel, 'two');
    const second = connectionTo(discord, { memory });
    await second.connection.start();
    await mustCome('the second message', () => second.texts.length === 1);
    expect(second.texts).toEqual(['two']);
    expect(discord.identifies).toHaveLength(1);
  });

  test('begins a new session when its session is unknown after a restart', async () => {
    const first = connectionTo(discord, { memory });
    await first.connection.start();
    await first.connection.stop();
    discord.forgetSessions();
    const second = connectionTo(discord, { memory });
    await second.connection.start();
    expect(discord.identifies).toHaveLength(2);
    expect(second.notes).toEqual([]);
  });

  test('begins a new session when the stored session is damaged', async () => {
    memory.kept.set('session:bot:0', '{"sessionId":"x","sequence":-1,"resumeURL":"file:///etc"}');
    const { connection } = connectionTo(discord, { memory });
    await connection.start();
    expect(discord.identifies).toHaveLength(1);
  });

  test('row 36: begins a new session after INVALID_SESSION false and reports that events may be missing', async () => {
    const { connection, notes } = connectionTo(discord);
    await connection.start();
    discord.invalidate(false);
    await mustCome('the return', () => notes.length === 2);
    expect(notes).toEqual(['lost', 'back, missed perhaps']);
    expect(discord.identifies).toHaveLength(2);
  });

  test('reconnects when Discord asks for it', async () => {
    const { connection, notes } = connectionTo(discord);
    await connection.start();
    discord.askToReconnect();
    await mustCome('the return', () => notes.length === 2);
    expect(notes).toEqual(['lost', 'back, missed nothing']);
  });

  test('retries with growing waits while the gateway cannot be reached', async () => {
    const book = createLogbook();
    const pauses = (): unknown[] => book.lines.flatMap(({ retryInMs }) => retryInMs ?? []);
    const { connection, notes } = connectionTo(discord, { timers: quick(), lines: book });
    await connection.start();
    discord.unreachable(true);
    await mustCome('three pauses', () => pauses().length >= 3);
    discord.unreachable(false);
    await mustCome('the return', () => notes.length === 2);
    expect(pauses().slice(0, 3)).toEqual([1_000, 2_000, 4_000]);
  });

  test('row 37: does not reconnect after 4004 and says what to do', async () => {
    const { connection, notes } = connectionTo(discord);
    await connection.start();
    discord.revokeToken();
    await mustCome('the end', () => notes.length === 2);
    expect(notes[0]).toBe('lost');
    expect(notes[1]).toMatch(/^fatal: Discord does not accept DISCORD_TOKEN\. Copy it again/);
    expect(discord.connected()).toBe(0);
  });

  test('leaves no connection when it is stopped while it connects', async () => {
    const { connection } = connectionTo(discord);
    const starting = connection.start();
    await mustCome('the address of the gateway', () => discord.requests.length > 0);
    await connection.stop();
    await starting;
    await mustCome('no connection', () => discord.connected() === 0);
  });
});

describe('a gateway that refuses the bot', () => {
  test('makes Conch name the missing intent', async () => {
    const discord = await discordOf({ messageContent: false });
    const { connection } = connectionTo(discord);
    await expect(connection.start()).rejects.toThrow(/Switch on "Message Content Intent"/);
    expect(discord.identifies.length).toBeLessThanOrEqual(1);
  });

  test('makes Conch say that Discord does not accept the token', async () => {
    const discord = await discordOf();
    const { connection } = connectionTo({ apiUrl: discord.apiUrl, token: 'wrong' });
    await expect(connection.start()).rejects.toThrow('Discord does not accept DISCORD_TOKEN.');
  });

  test('is asked again after a day when the daily limit of sessions is reached', async () => {
    const lines = createLogbook();
    const discord = await discordOf({ identifyLimit: 0 });
    const { connection } = connectionTo(discord, { lines });
    const starting = connection.start();
    await mustCome('the word', () => lines.lines.some(({ retryInMs }) => retryInMs === 86_400_000));
    await connection.stop();
    await starting;
    expect(discord.identifies).toHaveLength(0);
  });
});

describe('a dead connection', () => {
  test('row 29: is detected by missed heartbeats, and missed events are replayed', { timeout: 150_000 }, async () => {
    const discord = await discordOf({ heartbeatMs: 300 });
    const { connection, notes, texts } = connectionTo(discord);
    await connection.start();
    discord.silence();
    await mustCome('the loss', () => notes.length === 1);
    discord.write('ann', discord.channel, 'anybody there?');
    await mustCome('the return', () => notes.length === 2, 120_000);
    expect([notes, texts]).toEqual([['lost', 'back, missed nothing'], ['anybody there?']]);
  });
});

describe('Discord out of reach at the start', () => {
  test('row 30: is retried after 1 s, doubling to 60 s, with a log line each time', async () => {
    const timers = quick();
    const { log, lines } = createLogbook();
    const server = createServer().listen(0, '127.0.0.1');
    await mustCome('a port', () => server.listening);
    const { port } = server.address() as AddressInfo;
    server.close();
    const rest = createClient({ token: 'x', apiUrl: `http://127.0.0.1:${port}/api` });
    const ending = new AbortController();
    const reached = createConnectRetry('Discord', { timers, log, signal: ending.signal });
    const trying = reached(() => rest.get('/gateway/bot'), untilDiscord);
    await mustCome('eight attempts', () => lines.length >= 8);
    ending.abort();
    await expect(trying).rejects.toThrow('aborted');
    expect(timers.asked.slice(0, 8)).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    expect(lines[0]).toMatchObject({
      failures: 1,
      retryInMs: 1_000,
      message: 'connecting to Discord failed; retried',
    });
    expect(lines[0]?.['why']).toContain('ECONNREFUSED');
  });

  test('is not retried after a refusal', async () => {
    const { log } = createLogbook();
    const refused = new ChatError('no', { method: 'x', channel: 'discord', fault: 'refused' });
    const ports = { timers: quick(), log, signal: new AbortController().signal };
    const reached = createConnectRetry('Discord', ports);
    await expect(reached(() => Promise.reject(refused), untilDiscord)).rejects.toBe(refused);
  });
});

describe('new sessions', () => {
  function counting(memory = createMemory()) {
    const clock = { at: 1_800_000_000_000, now: () => clock.at };
    const asked: number[] = [];
    const timers: Timers = {
      after(ms, run) {
        asked.push(ms);
        clock.at += ms;
        queueMicrotask(run);
        return { cancel: () => undefined };
      },
    };
    const { log, lines } = createLogbook();
    return { clock, asked, lines, identifies: createIdentifies({ bot: 'bot', memory, clock, timers, log }) };
  }

  test('are counted over restarts, and wait at the daily limit until the oldest are a day old', async () => {
    const memory = createMemory();
    const { signal } = new AbortController();
    const { identifies, asked } = counting(memory);
    for (let taken = 0; taken < IDENTIFIES_A_DAY; taken += 1) await identifies.take(signal);
    expect(asked).toEqual([]);
    const later = counting(memory);
    await later.identifies.take(signal);
    expect(later.asked).toHaveLength(1);
    expect(later.asked[0]).toBeGreaterThan(86_400_000 - 3_600_000);
    expect(later.lines[0]).toMatchObject({
      message: 'waiting before a new session with Discord',
      waitMs: later.asked[0],
    });
    expect(memory.kept.get('identifies:bot')?.length).toBeLessThan(2_000);
  });
});

describe('a stored session', () => {
  test('never has a sequence above the events that are stored', async () => {
    const memory = createMemory();
    const sessions = new Sessions({ bot: 'bot', memory, timers: systemTimers, log: createLogbook().log });
    const session = { sessionId: 's', sequence: 1, resumeURL: 'ws://127.0.0.1:1', shardCount: 1, shardId: 0 };
    sessions.set(0, session);
    const taken = Promise.withResolvers<void>();
    sessions.recordEvent(0, 2, null);
    sessions.recordEvent(0, 3, taken.promise);
    sessions.recordEvent(0, 4, null);
    await sessions.stop();
    const reread = (): number | undefined =>
      new Sessions({ bot: 'bot', memory, timers: systemTimers, log: createLogbook().log }).get(0)?.sequence;
    expect(reread()).toBe(2);
    taken.resolve();
    await taken.promise;
    await sessions.stop();
    expect(reread()).toBe(4);
  });
});
