import { sessionJournal } from '../agents/session/session-journal.ts';
import type { Machine } from '../engine/machine.ts';
import { replayJournal } from '../engine/replay.ts';
import type { Fold } from '../engine/sqlite/check.ts';
import { floorMachine } from '../turns/floor-store.ts';
import type { FloorStore } from '../turns/floor-store.ts';
import { crewOnFloor } from '../work/crews/crew-binding.ts';
import { reviewOnFloor } from '../work/reviews/review-binding.ts';
import { runOnFloor } from '../work/runs/floor-binding.ts';

/** The parts of a state machine that commands on a whole database need. */
export type MachineEntry = Fold & {
  /** Adds the machine to a store. */
  readonly hostIn: (store: FloorStore) => void;
};

/** The machines besides the floor. A new machine is one line here. */
export const MACHINES_BESIDE_FLOORS: readonly MachineEntry[] = [
  entryOf(runOnFloor),
  entryOf(reviewOnFloor),
  entryOf(crewOnFloor),
  entryOf(sessionJournal),
];

/** All machines: the floor, then the others. */
export const MACHINES: readonly MachineEntry[] = [entryOf(floorMachine), ...MACHINES_BESIDE_FLOORS];

function entryOf<State, Command, Fact, Effect, Refusal extends string>(
  machine: Machine<State, Command, Fact, Effect, Refusal>,
): MachineEntry {
  return {
    name: machine.name,
    replay: (recording) => replayJournal(recording, machine),
    hostIn: (store) => void store.host(machine),
  };
}
