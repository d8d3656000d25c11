import type { Command } from '../core/command.ts';
import { nextDeadline } from '../core/deadline.ts';
import { decide } from '../core/decide.ts';
import type { Decision } from '../core/decide.ts';
import type { Effect } from '../core/effect.ts';
import { evolve } from '../core/evolve.ts';
import type { Fact } from '../core/fact.ts';
import { emptyFloor } from '../core/floor.ts';
import type { Floor } from '../core/floor.ts';
import { react } from '../core/react.ts';
import type { ChannelId } from '../core/settings.ts';
import type { Instant } from '../../lib/time.ts';

/** The pure functions that a store runs inside its transactions. */
export type Core = {
  emptyFloor(channel: ChannelId): Floor;
  decide(floor: Floor, command: Command, at: Instant): Decision;
  evolve(floor: Floor, fact: Fact, at: Instant): Floor;
  /** What the world must learn of a fact; `floor` is the floor after the whole decision. */
  react(fact: Fact, floor: Floor): readonly Effect[];
  nextDeadline(floor: Floor): Instant | null;
};

/** The core as shipped; tests may plant bugs in copies of it. */
export const CORE: Core = { emptyFloor, decide, evolve, react, nextDeadline };
