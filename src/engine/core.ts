import type { Command } from '../turns/floor/command.ts';
import { nextDeadline } from '../turns/floor/deadline.ts';
import { decide } from '../turns/floor/decide.ts';
import type { Decision } from '../turns/floor/decide.ts';
import type { Effect } from '../turns/floor/effect.ts';
import { evolve } from '../turns/floor/evolve.ts';
import type { Fact } from '../turns/floor/fact.ts';
import { emptyFloor } from '../turns/floor/floor.ts';
import type { Floor } from '../turns/floor/floor.ts';
import { react } from '../turns/floor/react.ts';
import type { ChannelId } from '../turns/floor/settings.ts';
import type { Instant } from '../lib/time.ts';

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
