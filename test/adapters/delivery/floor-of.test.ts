import { describe, expect, test } from 'vitest';
import { floorOf } from '../../../src/adapters/delivery/floor-of.ts';
import type { Place } from '../../../src/adapters/port.ts';

const CHANNEL: Place = {
  id: 'chat:1',
  name: 'general',
  adapter: 'chat',
  parent: null,
  threads: 'own',
  allowBots: 'off',
};

function where(threads: Place['threads'], channel: string, parent: string | null, more: readonly Place[] = []) {
  return floorOf({ channels: () => [{ ...CHANNEL, threads }, ...more] }, channel, parent);
}

describe('a message in a channel', () => {
  test('belongs to it if it is configured, and nowhere else', () => {
    expect(where('own', 'chat:1', null)).toMatchObject({ channel: 'chat:1', opens: null });
    expect(where('own', 'chat:2', null)).toBeNull();
  });
});

describe('a message in a thread', () => {
  test('belongs to the thread, to its channel or nowhere, as the channel says', () => {
    expect(where('own', 'chat:7', 'chat:1')).toMatchObject({ channel: 'chat:7', opens: { id: 'chat:1' } });
    expect(where('parent', 'chat:7', 'chat:1')).toMatchObject({ channel: 'chat:1', opens: null });
    expect(where('ignore', 'chat:7', 'chat:1')).toBeNull();
    expect(where('own', 'chat:7', 'chat:2')).toBeNull();
  });

  test('that has a floor already opens none, even if nobody says whose thread it is', () => {
    const thread = { ...CHANNEL, id: 'chat:7', parent: 'chat:1' };
    expect(where('own', 'chat:7', null, [thread])).toMatchObject({ channel: 'chat:7', place: thread, opens: null });
  });

  test('that is configured as a channel belongs to itself, whatever its channel says', () => {
    const own = { ...CHANNEL, id: 'chat:7' };
    expect(where('ignore', 'chat:7', 'chat:1', [own])).toMatchObject({ channel: 'chat:7', opens: null });
  });
});
