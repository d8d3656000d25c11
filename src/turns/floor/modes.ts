import type { TurnConfig } from '../../config/turn-config.ts';

/** What a human message does to a turn that is under way: one of the configuration's modes. */
export type InterruptMode = TurnConfig['humanInterruptMode'];

/** What each mode does with a message that comes during a turn, and the names under which others know it. */
export const MODES: Readonly<Record<InterruptMode, { readonly summary: string; readonly aliases: readonly string[] }>> =
  {
    inject: { summary: 'the holder gets messages at once', aliases: ['steer'] },
    queue: { summary: 'messages wait for the end of the turn', aliases: ['followup', 'collect'] },
    interrupt: { summary: 'a message stops the holder and is answered first', aliases: [] },
    parallel: { summary: 'all agents see messages at once, the turn goes on', aliases: ['concurrent'] },
  };

/** The names of the modes. */
export const INTERRUPT_MODES: readonly InterruptMode[] = Object.keys(MODES).filter(
  (name): name is InterruptMode => name in MODES,
);
