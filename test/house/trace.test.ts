import { beforeAll, describe, expect, test } from 'vitest';
import { BOUNDS } from './bounds.ts';
import { sizeOf, trace } from './trace.ts';
import type { Way } from './trace.ts';

describe('one message in Slack, until its answer is posted', () => {
  let way: Way;
  beforeAll(async () => {
    way = await trace();
  });
  const functionsOf = (wanted: string) => way.crossed.find(({ file }) => file === wanted)?.functions ?? [];

  test.each(['filesPerMessage', 'functionsPerMessage'] as const)('crosses no more than the bound of %s', (key) => {
    expect(sizeOf(way)[key]).toBeLessThanOrEqual(BOUNDS[key]);
  });

  test('calls receive, decide and buildPrompt in this order', () => {
    const order = way.inOrder.flatMap(({ functions }) => functions);
    const steps = ['receive', 'decide', 'buildPrompt'].map((name) => order.indexOf(name));
    expect(steps).toEqual(steps.toSorted((one, other) => one - other));
    expect(order.toSorted()).toEqual(way.crossed.flatMap(({ functions }) => functions).toSorted());
  });

  test('calls functions of each room of the floor', () => {
    expect(functionsOf('turns/manager.ts')).toContain('receive');
    expect(functionsOf('turns/floor/decide.ts')).toContain('decide');
    expect(functionsOf('agents/prompt/prompt.ts')).toContain('buildPrompt');
  });

  test('calls no code for starts or for other platforms and backends', () => {
    const files = way.crossed.map(({ file }) => file);
    expect(files.filter((file) => /^(?:cli|config)\/|discord|llm|migrations/.test(file))).toEqual([]);
    expect(functionsOf('runtime/app.ts')).not.toContain('start');
  });
});
