import { expect, test } from 'vitest';
import { measureRoom } from './rooms.ts';
import type { RoomName } from './rooms.ts';

const TICKETS = ['t-01', 't-02', 't-05', 't-06', 't-09', 't-10'];

test.each<RoomName>(['discord', 'slack', 'console'])(
  'the channel of a crew on %s has at most four messages of a ticket',
  async (room) => {
    const { mostMessages, closestEdits } = await measureRoom(room, { workers: 4, tickets: TICKETS, stepMs: 0 });
    expect(mostMessages).toBeGreaterThan(1);
    expect(mostMessages).toBeLessThanOrEqual(4);
    expect(closestEdits ?? Infinity).toBeGreaterThanOrEqual(9_500);
  },
);
