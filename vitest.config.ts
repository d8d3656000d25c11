import { defineConfig } from 'vitest/config';
import { keepCompiled } from './test/lib/compiled.ts';

keepCompiled();

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/no-orphans.ts'],
    maxWorkers: 3,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
  },
});
