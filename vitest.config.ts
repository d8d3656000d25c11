import { defineConfig } from 'vitest/config';
import { keepCompiled } from './test/lib/compiled.ts';

keepCompiled();

/** Tests that leave nothing behind in their process: they share one, and load the source once. */
const TOGETHER = ['config', 'engine', 'rules', 'turns'].map((room) => `test/${room}/**/*.test.ts`);

/** Installs packages for minutes, and needs their registry: `.ci/run` runs it by itself. */
const BY_ITSELF = process.env['CONCH_TYPED'] === '1' ? [] : ['test/ship/typed.test.ts'];

export default defineConfig({
  test: {
    globalSetup: ['test/no-orphans.ts'],
    maxWorkers: 3,
    projects: [
      { extends: true, test: { name: 'alone', include: ['test/**/*.test.ts'], exclude: [...TOGETHER, ...BY_ITSELF] } },
      { extends: true, test: { name: 'together', include: TOGETHER, isolate: false } },
    ],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
  },
});
