import type { ToolGate } from '../agents/tools/tool-gate.ts';
import type { Config } from '../config/config.ts';
import type { Clock } from '../lib/time.ts';
import type { FloorStore } from '../turns/floor-store.ts';
import type { TurnManager } from '../turns/manager.ts';
import { runOnFloor } from '../work/runs/floor-binding.ts';
import type { RunSeat } from '../work/runs/floor-binding.ts';
import type { Log } from './log.ts';
import { createRunGates } from './run-gate.ts';
import type { RunStore } from './run-gate.ts';
import { judgeCall } from './tool-judge.ts';

/** What runs need of the program. */
export type RunsPorts = {
  readonly store: Pick<FloorStore, 'host'>;
  readonly manager: Pick<TurnManager, 'apply'>;
  readonly config: () => Config;
  readonly clock: Clock;
  readonly log: Log;
  /** The text without secrets. */
  readonly clean: (text: string) => string;
};

/** The runs of all seats: hosted beside the floors, begun by the first tool of a turn. */
export class Runs {
  readonly store: RunStore;
  /** What stands between an agent and its tools while it has the floor under an epoch. */
  readonly gateFor: (seat: RunSeat, epoch: number) => ToolGate;

  /** Before the store recovers. */
  constructor({ store, config, clock, log, ...ports }: RunsPorts) {
    const runs = store.host(runOnFloor);
    this.store = runs;
    this.gateFor = createRunGates({
      ...ports,
      runs,
      clock,
      judge: (seat, call, remembered) => judgeCall(config(), seat, call, { at: clock.now(), remembered }),
      maxTurns: () => undefined,
      failed: (error) => log.error({ err: error }, 'a tool call could not be written: it is not run'),
    });
  }
}
