import { cardOf } from '../../src/adapters/delivery/card.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import type { FloorMachine } from '../../src/turns/floor-store.ts';
import type { Instant } from '../../src/lib/time.ts';
import { viewOf } from '../../src/turns/view.ts';

/** The commands of the buttons on a floor's card, without answers to questions. */
const BUTTONS = {
  '/floor skip': 'skip',
  '/stop': 'stop',
  '/floor pause': 'pause',
  '/floor resume': 'resume',
} as const;

/** The first button of a floor's card that the floor refuses or that changes nothing; `null`: none. */
export function deadButtonOf({ decide }: Pick<FloorMachine, 'decide'>, floor: Floor, at: Instant): string | null {
  const card = cardOf(
    viewOf(floor, at, ''),
    (id) => id,
    () => '',
  );
  for (const [line, type] of Object.entries(BUTTONS)) {
    if (!card.buttons.some((button) => button.line === line)) continue;
    const { ok, facts } = decide(floor, { type, by: 'eve' }, at);
    if (!ok || facts.length === 0) return line;
  }
  return null;
}
