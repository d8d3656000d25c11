import { chmodSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { lockInstance } from '../../src/engine/lock.ts';
import { folder } from './sqlite/fixture.ts';

describe('a token', () => {
  test('is claimed by one program at a time, and never stored in clear', async () => {
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

  test.runIf(process.geteuid?.() === 0)('is refused with a way to fix it when another user owns the lock file', () => {
    using place = folder();
    lockInstance('secret-token', place.path)?.release();
    chmodSync(place.path, 0o755);
    process.seteuid?.('nobody');
    try {
      expect(() => lockInstance('secret-token', place.path)).toThrow(/belongs to another user, .* remove the file\.$/);
    } finally {
      process.seteuid?.(0);
    }
  });
});
