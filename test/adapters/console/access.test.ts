import { describe, expect, test } from 'vitest';
import { PageAccess } from '../../../src/adapters/console/access.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

function access(token = 'a'.repeat(43)) {
  const time = { at: 1_700_000_000_000 };
  return { time, access: new PageAccess(token, { now: () => time.at }) };
}

describe('access to the page', () => {
  test.each([
    [HOUR - 1, true],
    [HOUR, false],
  ])('T78 a key that is %i ms old is valid: %s', (age, isGood) => {
    const { time, access: made } = access();
    const key = made.newKey();
    time.at += age;
    expect(made.exchange(key) !== null).toBe(isGood);
    expect(made.exchange(key)).toBeNull();
  });

  test.each([
    [30 * DAY - 1, true],
    [30 * DAY, false],
  ])('T78 a session that is %i ms old is valid: %s', (age, isGood) => {
    const { time, access: made } = access();
    const session = made.exchange(made.newKey());
    time.at += age;
    expect(session !== null && made.isLetIn(session)).toBe(isGood);
  });

  test('T78 a session of another token, or one whose time was changed, is refused', () => {
    const { access: made } = access();
    const session = made.exchange(made.newKey());
    if (session === null) throw new Error('no session');
    expect(access('b'.repeat(43)).access.isLetIn(session)).toBe(false);
    const [since = '', mac = ''] = session.cookie.split('.');
    const later = (Number.parseInt(since, 36) + DAY).toString(36);
    for (const cookie of [`${later}.${mac}`, mac, since, '', '.', `${since} .${mac}`]) {
      expect(made.isLetIn({ ...session, cookie })).toBe(false);
    }
    expect(made.isLetIn({ ...session, part: null })).toBe(false);
    expect(made.isLetIn(session)).toBe(true);
  });

  test('T78 only the newest 32 unused keys are valid', () => {
    const { access: made } = access();
    const keys = Array.from({ length: 40 }, () => made.newKey());
    expect(keys.map((key) => made.exchange(key) !== null)).toEqual(keys.map((_, place) => place >= 8));
  });
});
