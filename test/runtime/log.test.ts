import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { existsSync, openSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { text as readText } from 'node:stream/consumers';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createLog, redactor, textCleaner, transitionLine } from '../../src/runtime/log.ts';
import type { LogOptions } from '../../src/runtime/log.ts';
import { mustGrowLinearly } from '../lib/growth.ts';

const AT = Date.parse('2026-02-04T21:00:00Z');
const MOVED = { type: 'seatMoved', agent: 'pm', from: 'ACTIVE', to: 'QUEUED', trigger: 'TURN_COMPLETE' } as const;
const SECRET = 'h?nter2/ü "x" +y';

function open(options: Partial<LogOptions> = {}) {
  const lines: string[] = [];
  const log = createLog({
    level: 'info',
    pretty: false,
    secrets: [SECRET],
    destination: { write: (line) => lines.push(line) },
    clock: { now: () => AT },
    ...options,
  });
  return { log, lines, last: () => JSON.parse(lines.at(-1) ?? '') as Record<string, unknown> };
}

describe('a secret that is added later', () => {
  test('is redacted in every later line and text', () => {
    let secrets: readonly string[] = ['access-one'];
    const known = () => secrets;
    const { log, last } = open({ secrets: known });
    const clean = textCleaner({ config: { secrets: [] }, secrets: known });
    log.info('access-one and access-two');
    expect(last()['message']).toBe('[secret] and access-two');
    secrets = [...secrets, 'access-two'];
    log.info('access-one and access-two');
    expect(last()['message']).toBe('[secret] and [secret]');
    expect(clean('access-two')).toBe('[secret]');
  });
});

describe('the line of a transition', () => {
  const example = {
    timestamp: '2026-02-04T21:00:00Z',
    event: 'state_transition',
    agentId: 'pm',
    from: 'ACTIVE',
    to: 'QUEUED',
    trigger: 'TURN_COMPLETE',
    channel: 'reviews',
  };

  test("has the fields of the specification's example, in their order and with their values", () => {
    const line = transitionLine(MOVED, AT, 'reviews');
    expect(Object.keys(line)).toEqual(Object.keys(example));
    expect({ ...line, timestamp: Date.parse(line.timestamp) }).toEqual({ ...example, timestamp: AT });
    expect(line.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });

  test('has the cause when there is one', () => {
    const crashed = { ...MOVED, to: 'OFFLINE', trigger: 'CRASHED', cause: 'exited with code 137' } as const;
    expect(transitionLine(crashed, AT, 'reviews')).toMatchObject({ trigger: 'CRASHED', cause: 'exited with code 137' });
    expect(transitionLine(MOVED, AT, 'reviews')).not.toHaveProperty('cause');
  });

  test('is one line of JSON with the time of the transition, written once', () => {
    const { log, lines, last } = open({ clock: { now: () => AT + 5_000 } });
    log.info(transitionLine(MOVED, AT, 'reviews'));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^[^\n]*\n$/);
    expect(lines[0]?.match(/"timestamp"/g)).toHaveLength(1);
    expect(last()).toEqual({ level: 'info', ...transitionLine(MOVED, AT, 'reviews') });
  });
});

describe('a log line', () => {
  test('has its level, its time and its message', () => {
    const { log, last } = open();
    log.warn({ channel: 'reviews' }, 'Agent completed response without TURN_COMPLETE');
    expect(last()).toEqual({
      level: 'warn',
      timestamp: '2026-02-04T21:00:00.000Z',
      channel: 'reviews',
      message: 'Agent completed response without TURN_COMPLETE',
    });
  });

  test('is dropped when its level is below the configured one', () => {
    const { log, lines } = open({ level: 'warn' });
    log.info('unimportant');
    expect(lines).toEqual([]);
  });

  test('in pretty mode says what happened in words', () => {
    const { log, lines } = open({ pretty: true });
    log.info(transitionLine(MOVED, AT, 'reviews'));
    log.warn({ channel: 'reviews', token: SECRET }, 'careful');
    expect(lines[0]).toMatch(/INFO.*: pm ACTIVE → QUEUED \(TURN_COMPLETE\).*reviews/);
    expect(lines[1]).toMatch(/WARN.*: careful .*\[secret\]/);
  });
});

describe('an error', () => {
  const failure = () =>
    Object.assign(new TypeError('no route', { cause: new Error('refused', { cause: 'because' }) }), {
      code: 'EHOST',
      request: { headers: { authorization: 'Bearer abcdefgh12345678' } },
    });

  test('is logged with type, message, code and causes, without a stack', () => {
    const { log, last } = open();
    log.error({ err: failure() }, 'failed');
    const cause = { type: 'Error', message: 'refused', cause: 'because' };
    expect(last()['err']).toEqual({ type: 'TypeError', message: 'no route', code: 'EHOST', cause });
  });

  test("becomes the line's message when the line has none", () => {
    const { log, last } = open();
    log.error(failure());
    expect(last()).toMatchObject({ message: 'no route', err: { type: 'TypeError' } });
  });

  test('has its stack at the level debug', () => {
    const { log, last } = open({ level: 'debug' });
    log.error({ problem: failure() }, 'failed');
    expect(last()['problem']).toMatchObject({ stack: expect.stringContaining('log.test.ts') as string });
  });

  test('that is its own cause is logged once', () => {
    const { log, last } = open();
    const round = new Error('round');
    round.cause = round;
    log.error(round);
    expect(last()['message']).toBe('round');
  });
});

describe('a secret', () => {
  test.each<[string, unknown]>([
    ['plain', SECRET],
    ['in a nested value', { a: [{ b: `x${SECRET}x` }] }],
    ['as a key', { [SECRET]: 1 }],
    ['in an error', new Error(`bad ${SECRET}`, { cause: new Error(`worse ${SECRET}`) })],
    ['in JSON in a string', JSON.stringify({ password: SECRET })],
    ['in JSON in JSON', JSON.stringify({ body: JSON.stringify([SECRET]) })],
    ['in a URL', `https://chat.example/x?token=${encodeURIComponent(SECRET)}&y`],
    ['in a form', new URLSearchParams({ token: SECRET }).toString()],
    ['in base64', Buffer.from(SECRET).toString('base64')],
    ['in a basic authorization', `Basic ${Buffer.from(`me:${SECRET}`).toString('base64')}`],
    ['in base64url', Buffer.from(`{"x":"${SECRET}"}`).toString('base64url')],
  ])('is redacted: %s', (_, value) => {
    const { log, lines, last } = open();
    log.info({ value }, 'look');
    const line = lines.at(-1) ?? '';
    expect(line).toContain('[secret]');
    expect(line).not.toContain('nter2');
    expect(line).not.toContain(Buffer.from(SECRET).toString('base64').slice(4, 16));
    expect(last()['message']).toBe('look');
  });

  test('inside a message is redacted', () => {
    const { log, last } = open();
    log.info(`connecting with ${SECRET}!`);
    expect(last()['message']).toBe('connecting with [secret]!');
  });

  test('of several lines is redacted where its lines are indented', () => {
    const lines = ['MIIEvQIBADANBgkqhkiG9w0BAQEFAASC', 'BKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj'];
    const clean = textCleaner({ config: { secrets: [] }, secrets: () => [`-----BEGIN KEY-----\n${lines.join('\n')}`] });
    expect(lines.filter((line) => clean(`key:\n  ${lines.join('\n  ')}`).includes(line))).toEqual([]);
  });

  test('shorter than six characters is not redacted', () => {
    const { log, last } = open({ secrets: ['abcde', ''] });
    log.info('abcde');
    expect(last()['message']).toBe('abcde');
  });

  test('that contains another secret is redacted whole', () => {
    expect(redactor(['abcdef', 'abcdefghij'])('abcdefghij abcdef')).toBe('[secret] [secret]');
  });

  test('that is a number leaves the line valid JSON', () => {
    const { log, last } = open({ secrets: ['12345678'] });
    log.info({ pin: 12_345_678, text: 'pin 12345678', other: 9 }, 'x');
    expect(last()).toMatchObject({ pin: '[secret]', text: 'pin [secret]', other: 9 });
  });

  test('with special characters is redacted in every encoding', () => {
    const secret = fc.string({ unit: 'binary', minLength: 9, maxLength: 30 }).filter((text) => /^[^[\]]+$/.test(text));
    fc.assert(
      fc.property(secret, fc.string(), (value, around) => {
        const { log, lines, last } = open({ secrets: [value], clock: { now: () => 0 } });
        const text = `${around}${value}${around}`;
        log.info({ text, json: JSON.stringify({ text }), url: encodeURIComponent(text.toWellFormed()) });
        const shown = last();
        assert(
          ['text', 'json', 'url'].every((key) => String(shown[key]).includes('[secret]')),
          lines[0],
        );
        for (const form of [value, JSON.stringify(value).slice(1, -1), encodeURIComponent(value.toWellFormed())]) {
          assert(!['text', 'json', 'url'].some((key) => String(shown[key]).includes(form)), lines[0]);
        }
      }),
    );
  });
});

describe('a token of a known service', () => {
  const made = (...pieces: readonly string[]): string => pieces.join('');

  test.each([
    [made('xox', 'b-123456789012-abcdefABCDEF')],
    [made('xapp', '-1-A0123-456-abcdef')],
    [made('sk', '-ant-api03-abcdefghijkl')],
    [made('MTk4NjIyNDgzNDcxOTI1MjQ4', '.Cl2FMQ.', 'ZnCjm1XVW7vRze4b7Cq4se7kKWs')],
  ])('is redacted without being configured: %#', (token) => {
    const { log, lines } = open({ secrets: [] });
    log.info({ token, text: `a ${token}\n${token}, "${token}"` }, token);
    expect(lines[0]).not.toContain(token);
    expect(lines[0]?.match(/\[secret\]/g)).toHaveLength(5);
  });

  test('in a URL or a header is redacted, and the rest stays', () => {
    const redact = redactor([]);
    expect(redact('https://discord.com/api/webhooks/1234567890/abc-DEF_ghijkl?x')).toBe(
      'https://discord.com/api/webhooks/1234567890/[secret]?x',
    );
    expect(redact('https://hooks.slack.com/services/T000/B000/XXXXXXXX ok')).toBe(
      'https://hooks.slack.com/services/[secret] ok',
    );
    expect(redact('"authorization":"Bearer abc.def-ghi_jkl="')).toBe('"authorization":"Bearer [secret]"');
    expect(redact('postgres://me:password@db/x')).toBe('postgres://me:[secret]@db/x');
  });

  test('is not found in ordinary words', () => {
    const text = 'the task-force-something on risk-management-board, at http://127.0.0.1:7420/a@b, bearer of news';
    expect(redactor([])(text)).toBe(text);
  });

  test.each(['M', 'sk-', 'a:', '://', '://a:', 'Bearer ', 'webhooks/', 'MMMMMMMMMMMMMMMMMMMMMMMM.'])(
    'is searched for in linear time: %j',
    async (piece) => {
      await mustGrowLinearly((size) => {
        const text = piece.repeat(size / piece.length);
        return () => redactor([SECRET])(text);
      }, 300_000);
    },
  );
});

describe('a log destination that fails', () => {
  test('loses only the line, whether it throws or reports its error', () => {
    const lines: string[] = [];
    const full = Object.assign(new EventEmitter(), {
      write(line: string) {
        if (lines.length === 1) throw new Error('ENOSPC');
        lines.push(line);
      },
    });
    const { log } = open({ destination: full });
    log.info('first');
    log.info('second');
    full.emit('error', new Error('EPIPE'));
    expect(lines).toHaveLength(1);
  });

  const script = `
    import { createLog } from ${JSON.stringify(new URL('../../src/runtime/log.ts', import.meta.url).href)};
    const log = createLog({ level: 'info', pretty: false, secrets: [] });
    for (let line = 0; line < 1000; line += 1) log.info('line');
    const timer = setInterval(() => log.info('later'), 5);
    setTimeout(() => { clearInterval(timer); process.stderr.write('alive'); process.exitCode = 3; }, 100);
  `;
  const run = async (stdout: number | 'pipe', use: (reader: Readable) => void = () => undefined) => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', stdout, 'pipe'],
      timeout: 60_000,
    });
    if (child.stdout !== null) use(child.stdout);
    assert(child.stderr !== null);
    const [errors, [status]] = await Promise.all([readText(child.stderr), once(child, 'close')]);
    return [errors, status] as const;
  };

  test('that is standard output receives every line when it works', async () => {
    const lines: string[] = [];
    expect(await run('pipe', (reader) => void reader.on('data', (chunk) => lines.push(String(chunk))))).toEqual([
      'alive',
      3,
    ]);
    expect(lines.join('').split('\n').length).toBeGreaterThan(1_000);
  });

  test('that is a pipe without a reader does not end the program', async () => {
    expect(await run('pipe', (reader) => reader.destroy())).toEqual(['alive', 3]);
  });

  test('that is full does not end the program', async () => {
    const refusing = existsSync('/dev/full') ? openSync('/dev/full', 'w') : openSync('/dev/null', 'r');
    expect(await run(refusing)).toEqual(['alive', 3]);
  });
});
