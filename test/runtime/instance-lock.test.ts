import { describe, expect, test } from 'vitest';
import { claimToken } from '../../src/runtime/instance-lock.ts';
import { folder } from '../engine/sqlite/fixture.ts';

describe('a token', () => {
  test('is claimed by one program at a time, and never written down', async () => {
    using place = folder();
    const first = claimToken('secret-token', place.path);
    expect(first).not.toBeNull();
    expect(claimToken('another-token', place.path)).not.toBeNull();
    expect(claimToken('secret-token', place.path)).toBeNull();
    first?.release();
    const second = claimToken('secret-token', place.path);
    expect(second).not.toBeNull();
    second?.release();
  });
});
