import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { inputWords } from '../../../src/agents/tools/input-words.ts';
import { KnownSecrets } from '../../../src/agents/tools/known-secrets.ts';

const VALUE = 'p@ss word/1+2';
const known = new KnownSecrets([
  { name: 'DB_PASSWORD', value: VALUE },
  { name: 'SHORT', value: '1234567' },
]);

describe('pitfall 15: a known secret', () => {
  test.each([
    ['as it is', `see ${VALUE}!`],
    ['in an address', `https://a.org/?q=${encodeURIComponent(VALUE)}`],
    ['in a form', `q=${encodeURIComponent(VALUE).replaceAll('%20', '+')}`],
  ])('is found and redacted %s', (_, text) => {
    expect(known.namesIn(text)).toEqual(['DB_PASSWORD']);
    expect(known.redact(text)).toContain('«DB_PASSWORD»');
    expect(known.redact(text)).not.toContain('ss');
  });

  test('is found in Base64, whatever comes before and after it', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 9 }), fc.uint8Array({ maxLength: 9 }), (before, behind) => {
        const bytes = Buffer.concat([before, Buffer.from(VALUE), behind]);
        assert.deepEqual(known.namesIn(bytes.toString('base64')), ['DB_PASSWORD']);
        assert.deepEqual(known.namesIn(bytes.toString('base64url')), ['DB_PASSWORD']);
      }),
    );
  });

  test('with quotes and line ends is found in JSON, at any depth', () => {
    const value = 'a "quoted"\\ value\nof two lines';
    const secrets = new KnownSecrets([{ name: 'ODD', value }]);
    const text = JSON.stringify({ headers: [{ key: `is ${value}` }] }, null, 1);
    expect(secrets.namesIn(text)).toEqual(['ODD']);
    expect(secrets.redact(text)).not.toContain('quoted');
  });

  test('of several lines is redacted when its lines are indented; its BEGIN line alone is no secret', () => {
    const lines = ['MIIEvQIBADANBgkqhkiG9w0BAQEFAASC', 'BKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj'];
    const value = ['-----BEGIN PRIVATE KEY-----', ...lines, '-----END PRIVATE KEY-----', ''].join('\n');
    const secrets = new KnownSecrets([{ name: 'APP_KEY', value }]);
    const shown = secrets.redact(inputWords({ text: `key:\n${value}` }));
    expect(lines.filter((line) => shown.includes(line))).toEqual([]);
    expect(secrets.redact(value.replaceAll(/^/gm, '+'))).not.toContain(lines[0]);
    expect(secrets.namesIn('-----BEGIN PRIVATE KEY-----')).toEqual([]);
  });

  test('of seven characters is not redacted, because it would match ordinary words', () => {
    expect(known.namesIn('1234567')).toEqual([]);
    expect(known.redact('1234567')).toBe('1234567');
  });
});
