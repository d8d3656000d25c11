import { expect, test } from 'vitest';
import { measureRoom } from './rooms.ts';
import type { RoomName } from './rooms.ts';

const TICKETS = ['t-01', 't-02', 't-05', 't-06', 't-09', 't-10'];

test.each<RoomName>(['discord', 'slack', 'console'])(
  'the channel of a crew on %s has at most four messages of a ticket',
  async (room) => {
    const { mostMessages, closestEdits } = await measureRoom(room, {
      workers: 4,
      tickets: TICKETS,
      stepMs: 0,
    });
    expect(mostMessages).toBeGreaterThan(1);
    expect(mostMessages).toBeLessThanOrEqual(4);
    expect(closestEdits ?? Infinity).toBeGreaterThanOrEqual(9_500);
  },
);

test.each<RoomName>(['discord', 'slack', 'console'])(
  'a thread on %s shows a meeting about a conflict: the lines, what both sides say under their names, and the end',
  async (room) => {
    const order = { workers: 2, tickets: ['t-05', 't-06'], stepMs: 0, shows: 'the meeting agreed' };
    const { threads } = await measureRoom(room, order);
    const at = (words: RegExp): number => threads.findIndex((text) => words.test(text));
    const places = [
      /⚔ [AB] on t-0[56] and [AB] on t-0[56] meet here.*[/!]crew answer [AB] continue\\n```\\ndiff --cc .*<<<<<<< main.*>>>>>>> t-0[56]/u,
      /My line must stay\..*"username":"shop-[AB]"|"username":"shop-[AB]".*My line must stay\./u,
      /AGREED: both lines stay/u,
      /🤝 t-0[56]: the meeting agreed: both lines stay/u,
    ].map(at);
    expect(places).not.toContain(-1);
    expect(places).toEqual(places.toSorted((a, b) => a - b));
  },
);
