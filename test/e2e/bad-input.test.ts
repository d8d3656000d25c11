import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { forTurn } from '../../src/turns/drawn-for.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { clearPlace, makePlace, runConch, startBot } from '../kill/bot.ts';
import type { Bot, Place } from '../kill/bot.ts';
import type { Page } from '../kill/page.ts';
import { CHANNEL, DEMO, STACK, openPage } from './demo.ts';

let place: Place;
let bot: Bot;
let page: Page;

beforeAll(async () => {
  place = await makePlace(DEMO);
  bot = startBot(place);
  await bot.ready();
  page = await openPage(bot);
});

afterAll(async () => {
  page.close();
  await bot.end('SIGKILL');
  clearPlace(place);
});

/** Sends a raw frame over a new connection. Resolves with the refusal, or with the code that closed the connection. */
async function send(raw: string | Buffer, binary = false): Promise<unknown> {
  const other = await openPage(bot);
  const closed = once(other.socket, 'close').then(([code]: unknown[]) => code);
  // Skips frames about the channel.
  const answered = new Promise((resolve) => {
    other.socket.on('message', (frame: Buffer) => {
      const told = JSON.parse(frame.toString()) as { readonly type: string };
      if (told.type === 'refused') resolve(told);
    });
  });
  other.socket.send(raw, { binary });
  const first = await Promise.race([closed, answered]);
  other.close();
  return first;
}

/** Sends bytes as a text frame, also invalid UTF-8. Resolves with the code that closed the connection. */
async function sendBytes(bytes: Buffer): Promise<unknown> {
  const other = await openPage(bot);
  const closed = once(other.socket, 'close').then(([code]: unknown[]) => code);
  other.socket.send(bytes, { binary: false });
  return closed;
}

async function works(): Promise<boolean> {
  const id = await page.say(CHANNEL, 'pm: pass');
  await page.until(() => page.messages.get(id)?.receipts.includes('done') === true, 'the receipt of a message');
  return page.isOpen;
}

describe('a command of the console', () => {
  test.each([
    ['/floor grant nobody', 'There is no agent "nobody". Agents: pm, dev, qa.'],
    ['/floor grant dve', 'There is no agent "dve". Did you mean "dev"? Agents: pm, dev, qa.'],
    ['/floor skip', 'Nobody holds the floor, so there is no turn to stop, skip or extend.'],
    ['/agent enable dev', 'Nothing changed: the command asks for what is already the case.'],
    ['/why 12345', 'This channel received no message "12345".'],
  ])('%s is refused with the reason', async (line, text) => {
    expect(await page.command(CHANNEL, line)).toEqual({ ok: false, text });
  });

  test.each(['/flor skip', '/floor', '/floor mode sideways', '/floor extend soon', '/help nothing'])(
    '%s is refused with an answer that is no stack trace',
    async (line) => {
      const { ok, text } = await page.command(CHANNEL, line);
      expect(ok).toBe(false);
      expect(text.length).toBeGreaterThan(10);
      expect(text).not.toMatch(STACK);
    },
  );

  test('for an unknown channel is refused', async () => {
    const answer = await page.ask({ type: 'command', channel: 'console:gone', key: randomUUID(), line: '/floor skip' });
    expect(answer).toMatchObject({ type: 'refused', text: 'There is no channel console:gone here.' });
  });

  test('from a button of an ended turn does not skip the present turn', async () => {
    await page.say(CHANNEL, 'dev: slow');
    await page.until(() => page.view?.holder?.agent === 'dev', 'a holder');
    const drawnFor = forTurn(page.view?.store ?? '', (page.view?.holder?.epoch ?? 0) - 1);
    const stale = await page.ask({
      type: 'command',
      channel: CHANNEL,
      key: randomUUID(),
      line: '/floor skip',
      drawnFor,
    });
    expect(stale).toMatchObject({ type: 'answer', ok: false, text: 'That turn is over.' });
    expect(page.view?.holder?.agent).toBe('dev');
    expect(await page.command(CHANNEL, '/stop')).toMatchObject({ ok: true });
  });
});

describe('conch ctl', () => {
  test('says on its error output why a command was refused', async () => {
    const { code, out, err } = await runConch(place, { argv: ['ctl', 'floor', 'grant', 'nobody'] });
    expect([code, out, err]).toEqual([EXIT_CODES.refused, '', 'There is no agent "nobody". Agents: pm, dev, qa.\n']);
  });

  test('says how to start Conch when no Conch answers', async () => {
    const { code, err } = await runConch(place, { argv: ['ctl', 'queue'], env: { CONCH_PORT: '1' } });
    expect(code).toBe(EXIT_CODES.notRunning);
    expect(err).toMatch(/^No running Conch answers at 127\.0\.0\.1:1: .* Start it with "npm start"/);
    expect(err).not.toMatch(STACK);
  });
});

describe('a message', () => {
  test('of more than 16,000 characters is refused and not stored', async () => {
    const long = { type: 'say', channel: CHANNEL, key: randomUUID(), text: 'a'.repeat(16_001) } as const;
    expect(await page.ask(long)).toMatchObject({
      type: 'refused',
      text: 'The message is longer than 16,000 characters. Nothing was sent.',
    });
    expect(await works()).toBe(true);
    expect([...page.messages.values()].some(({ key }) => key === long.key)).toBe(false);
  });

  test('of 1.1 MB ends only its own connection', async () => {
    const frame = { type: 'say', channel: CHANNEL, key: randomUUID(), text: 'a'.repeat(1_100_000) };
    expect(await send(JSON.stringify(frame))).toBe(1009);
    expect(await works()).toBe(true);
  });

  test('that is empty is refused', async () => {
    const empty = { type: 'say', channel: CHANNEL, key: randomUUID(), text: ' \n ' } as const;
    expect(await page.ask(empty)).toMatchObject({ type: 'refused', text: 'The message is empty. Nothing was sent.' });
  });

  test('with half characters and NUL is stored with replacement characters', async () => {
    const id = await page.say(CHANNEL, 'pm: pass \ud800 \u0000 \u202e');
    expect(page.messages.get(id)?.text).toBe('pm: pass \ufffd \ufffd \u202e');
  });
});

describe('a frame', () => {
  test('in invalid UTF-8 ends only its own connection', async () => {
    expect(await sendBytes(Buffer.from([0x7b, 0xff, 0xfe, 0xc3, 0x28]))).toBe(1007);
    expect(await works()).toBe(true);
  });

  test.each([
    ['no JSON', '{"type":'],
    ['of an unknown kind', '{"type":"obey"}'],
    ['with an unknown key', `{"type":"open","channel":null,"admin":true}`],
    ['a list', '[]'],
    ['deeply nested', '['.repeat(50_000)],
  ])('that is %s is refused with what to do', async (_what, raw) => {
    expect(await send(raw)).toEqual({
      type: 'refused',
      key: null,
      text: 'This page does not fit the running Conch. Reload the page.',
    });
  });

  test('of bytes is refused', async () => {
    expect(await send(Buffer.from([1, 2, 3]), true)).toMatchObject({
      type: 'refused',
      text: 'Only text frames are read here.',
    });
  });
});

test('Conch works after all bad input, logs no error and ends in good order', async () => {
  expect(await works()).toBe(true);
  expect(bot.out()).not.toMatch(/"level":"(error|fatal)"/);
  const { code } = await bot.end('SIGTERM');
  expect([code, bot.err()]).toEqual([0, '']);
});
