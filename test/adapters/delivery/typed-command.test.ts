import { describe, expect, test } from 'vitest';
import type { Memory } from '../../../src/adapters/port.ts';
import { createFirstTime, typedCommand } from '../../../src/adapters/delivery/typed-command.ts';

function memory(): Memory {
  const kept = new Map<string, string>();
  return { get: (key) => kept.get(key) ?? null, set: async (key, value) => void kept.set(key, value) };
}

describe('a message that is a command', () => {
  test.each([
    ['!floor skip', '!floor skip'],
    ['  /stop ', '/stop'],
    ['!nice', null],
    ['!stop\nplease', '!stop\nplease'],
    ['!floor skip\nplease', null],
    ['stop', null],
  ])('%j is %j', (text, line) => {
    expect(typedCommand(text)).toBe(line);
  });

  test('is heard for the first time once, after a restart too', async () => {
    const kept = memory();
    const isFirst = createFirstTime(kept);
    expect([await isFirst('a:1', 'm1'), await isFirst('a:1', 'm1'), await isFirst('a:2', 'm1')]).toEqual([
      true,
      false,
      true,
    ]);
    expect(await createFirstTime(kept)('a:1', 'm1')).toBe(false);
  });

  test('is remembered among the last twenty of its channel, whatever the memory holds', async () => {
    const kept = memory();
    await kept.set('typed:a:1', 'not a list');
    const isFirst = createFirstTime(kept);
    for (let n = 0; n < 20; n += 1) expect(await isFirst('a:1', `m${n}`)).toBe(true);
    expect(await isFirst('a:1', 'm0')).toBe(false);
    expect(JSON.parse(kept.get('typed:a:1') ?? '')).toHaveLength(20);
  });
});
