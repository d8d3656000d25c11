import { expect, test } from 'vitest';
import { measureRoom } from './rooms.ts';
import type { RoomName } from './rooms.ts';

/** The second ticket waits for the first. The third and the fourth change the same lines. */
const TICKETS = ['t-01', 't-02', 't-05', 't-06', 't-09'];

test.each<RoomName>(['discord', 'slack', 'console'])(
  'a crew on %s writes at most four messages per ticket in its channel, and shows a meeting in a thread: the conflict, both speakers by name, and its end',
  async (room) => {
    const order = { workers: 4, tickets: TICKETS, stepMs: 0, shows: 'the meeting agreed' };
    const { mostMessages, closestEdits, threads } = await measureRoom(room, order);
    expect(mostMessages).toBeGreaterThan(1);
    expect(mostMessages).toBeLessThanOrEqual(4);
    expect(closestEdits ?? Infinity).toBeGreaterThanOrEqual(9_500);
    const at = (words: RegExp): number => threads.findIndex((text) => words.test(text));
    const places = [
      /⚔ [A-D] on t-0[56] and [A-D] on t-0[56] meet here.*[/!]crew answer [A-D] continue\\n```\\ndiff --cc .*<<<<<<< main.*>>>>>>> t-0[56]/u,
      /My line must stay\..*"username":"shop-[A-D]"|"username":"shop-[A-D]".*My line must stay\./u,
      /AGREED: both lines stay/u,
      /🤝 t-0[56]: the meeting agreed: both lines stay/u,
    ].map(at);
    expect(places).not.toContain(-1);
    expect(places).toEqual(places.toSorted((a, b) => a - b));
  },
);
