import { describe, expect, test } from 'vitest';
import { lockInstance } from '../../src/engine/lock.ts';
import { folder } from './sqlite/fixture.ts';

describe('a token', () => {
  test('is claimed by one program at a time, and never written down', async () => {
    using place = folder();
    const first = lockInstance('secret-token', place.path);
    expect(first).not.toBeNull();
    expect(lockInstance('another-token', place.path)).not.toBeNull();
    expect(lockInstance('secret-token', place.path)).toBeNull();
    first?.release();
    const second = lockInstance('secret-token', place.path);
    expect(second).not.toBeNull();
    second?.release();
  });
});
