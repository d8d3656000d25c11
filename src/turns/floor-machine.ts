import { z } from 'zod';
import type { Machine } from '../engine/machine.ts';
import type { Command, Refusal } from './floor/command.ts';
import { nextDeadline } from './floor/seats.ts';
import { decide } from './floor/decide.ts';
import type { Effect } from './floor/react.ts';
import { evolve } from './floor/evolve.ts';
import type { Fact } from './floor/fact.ts';
import { emptyFloor, floorSchema } from './floor/floor.ts';
import type { Floor } from './floor/floor.ts';
import { react } from './floor/react.ts';
import { formerFloor } from './former-floors.ts';

/** The floor as shipped. Its key is the channel. What a stored fact holds is checked where it is folded. */
export const floorMachine = {
  name: 'floor',
  version: 1,
  empty: emptyFloor,
  decide,
  evolve,
  react,
  nextDeadline,
  state: floorSchema,
  fact: z.custom<Fact>((stored) => typeof stored === 'object' && stored !== null && 'type' in stored),
  upcast: { state: formerFloor, fact: unread },
} satisfies Machine<Floor, Command, Fact, Effect, Refusal>;

/** Version 0 is what floors were before they had a version: only their states were taken over. */
function unread(_stored: unknown, version: number): never {
  throw new Error(`a floor's facts of version ${version} are not read`);
}

/** A floor as the engine hosts it; tests may plant bugs in copies of it. */
export type FloorMachine = typeof floorMachine;
