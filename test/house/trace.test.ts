import { beforeAll, describe, expect, test } from 'vitest';
import { trace } from './trace.ts';
import type { Crossed } from './trace.ts';

describe('one message in Slack, until the answer to it is posted', () => {
  let crossed: readonly Crossed[];
  beforeAll(async () => {
    crossed = await trace();
  });
  const functionsOf = (wanted: string) => crossed.find(({ file }) => file === wanted)?.functions ?? [];

  test('crosses no more files than it does today', () => {
    expect(crossed.length).toBeLessThanOrEqual(45);
  });

  test('crosses the rooms of the floor by their own functions', () => {
    expect(functionsOf('turns/manager.ts')).toContain('receive');
    expect(functionsOf('turns/floor/decide.ts')).toContain('decide');
    expect(functionsOf('agents/prompt/prompt.ts')).toContain('buildPrompt');
  });

  test('does not cross what is done at the start, or for others', () => {
    const files = crossed.map(({ file }) => file);
    expect(files.filter((file) => /^(?:cli|config)\/|discord|llm|migrations/.test(file))).toEqual([]);
    expect(functionsOf('runtime/app.ts')).not.toContain('start');
  });
});
