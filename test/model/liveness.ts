import type { Command } from '../../src/turns/floor/command.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import type { Instant } from '../../src/lib/time.ts';
import type { FloorMachine } from '../../src/turns/floor-store.ts';
import { turnsOf } from './abstraction.ts';
import type { Place } from './abstraction.ts';
import type { Channel } from './channels.ts';
import { must } from './violation.ts';

const BY = { by: 'ada' } as const;

/** The limit of alarms. Every floor of the model comes to rest sooner. */
const MAX_RINGS = 60;

/** I23: when nobody acts, the clock alone brings the floor to rest. No deadline remains then. */
export function checkSilence(core: FloorMachine, { floor, at }: Place): void {
  let now = at;
  let quiet = settled(core, floor, at);
  for (let rings = 0; ; rings += 1) {
    const next = core.nextDeadline(quiet);
    if (next === null) break;
    must(rings < MAX_RINGS, 'I23', 'the alarm rings for ever');
    now = Math.max(now, next);
    const decision = core.decide(quiet, { type: 'tick' }, now);
    must(decision.ok, 'I23', 'a deadline is refused');
    quiet = decision.floor;
  }
  must(turnsOf(quiet).length === 0 && quiet.facilitation === null, 'I23', 'a turn outlives every deadline');
}

/** The floor after the catch-up, with absent agents taken for gone and an operator's pause lifted. */
function settled(core: FloorMachine, floor: Floor, at: Instant): Floor {
  const absent = floor.seats.filter((seat) => !seat.present && seat.status !== 'OFFLINE');
  const commands: readonly Command[] = [
    ...(floor.catchingUp ? [{ type: 'catchUp' } as const] : []),
    ...absent.map(({ agent }): Command => ({ type: 'leave', agent, cause: 'did not come back' })),
    ...(floor.condition === 'paused' ? [{ type: 'resume', ...BY } as const] : []),
  ];
  return commands.reduce((before, command) => {
    const decision = core.decide(before, command, at);
    must(decision.ok || command.type === 'leave', 'I23', `a ${command.type} is refused when things settle`);
    return decision.ok ? decision.floor : before;
  }, floor);
}

/** True when the floor comes to rest, without held messages, after everybody did all they can. */
export function heals(core: FloorMachine, { floor, at }: Place, channel: Channel): boolean {
  let sick = floor;
  for (let steps = 0; steps < MAX_RINGS; steps += 1) {
    const cures = curesOf(sick, channel);
    if (cures.length === 0) return true;
    const decisions = cures.map((cure) => core.decide(sick, cure, at));
    const taken = decisions.find((decision) => decision.ok);
    if (taken === undefined || !taken.ok) return false;
    sick = taken.floor;
  }
  return false;
}

function curesOf(floor: Floor, { seats, settings }: Channel): readonly Command[] {
  if (floor.configured === null) return [{ type: 'configure', settings, seats }];
  if (floor.catchingUp) return [{ type: 'catchUp' }];
  const [turn] = turnsOf(floor);
  if (turn !== undefined) {
    const { agent, epoch } = turn;
    return [
      { type: 'end', agent, epoch, outcome: 'completed', signalled: true },
      { type: 'skip', agent, ...BY },
    ];
  }
  if (floor.held.length === 0) return [];
  const absent = floor.seats.filter((seat) => !seat.present || seat.disabled);
  return [
    ...absent.flatMap(({ agent }): readonly Command[] => [
      { type: 'enable', agent, ...BY },
      { type: 'join', agent },
    ]),
    ...(floor.condition === 'paused' ? [{ type: 'resume', ...BY } as const] : []),
    ...floor.seats.flatMap(({ agent }): readonly Command[] => [
      { type: 'add', agent, ...BY },
      { type: 'grant', agent, ...BY },
    ]),
  ];
}
