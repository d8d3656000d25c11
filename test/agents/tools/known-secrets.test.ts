import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
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
  ])('is found and taken out %s', (_, text) => {
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

  test('of seven characters does not count, because it would match ordinary words', () => {
    expect(known.namesIn('1234567')).toEqual([]);
    expect(known.redact('1234567')).toBe('1234567');
  });
});
