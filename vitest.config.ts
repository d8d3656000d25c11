import { defineConfig } from 'vitest/config';
import { keepCompiled } from './test/lib/compiled.ts';

keepCompiled();

/** Tests that leave nothing behind in their process: they share one, and load the source once. */
const TOGETHER = ['config', 'engine', 'rules', 'turns'].map((room) => `test/${room}/**/*.test.ts`);

export default defineConfig({
  test: {
    globalSetup: ['test/no-orphans.ts'],
    maxWorkers: 3,
    projects: [
      { extends: true, test: { name: 'alone', include: ['test/**/*.test.ts'], exclude: TOGETHER } },
      { extends: true, test: { name: 'together', include: TOGETHER, isolate: false } },
    ],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
  },
});
