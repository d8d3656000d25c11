import type { Random } from './random.ts';
import type { Timeline } from './timeline.ts';

/** The durations of commits. Nothing else runs during a commit, as in the program. */
export class Disk {
  /** Time that commits have taken so far, in milliseconds. */
  spentMs = 0;
  isSlow: boolean;
  readonly #timeline: Timeline;
  readonly #random: Random;

  /** `random`: numbers for the disk alone. Drawing from them changes no other random choice of the simulation. */
  constructor(timeline: Timeline, random: Random) {
    this.#timeline = timeline;
    this.#random = random;
    this.isSlow = random.chance(0.5);
  }

  /** Lets the time of one commit pass. */
  commit(): void {
    if (!this.isSlow) return;
    const length = this.#random.weighted({ none: 30, short: 65, long: 4.5, stall: 0.5 });
    const most = { none: 0, short: 20, long: 300, stall: 4_000 }[length];
    const ms = this.#random.between(Math.floor(most / 6), most);
    this.#timeline.jump(ms);
    this.spentMs += ms;
  }
}
