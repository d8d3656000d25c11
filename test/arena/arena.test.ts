import { describe, expect, test } from 'vitest';
import { PLATFORMS } from './channel.ts';
import { GAMES } from './games.ts';
import { play } from './score.ts';

/** Measures the shares of cached prompts only on the console, where time passes fastest. */
const played = PLATFORMS.flatMap((platform) =>
  GAMES.filter(({ measured = false }) => !measured || platform === 'console').map((game) => ({ game, platform })),
);

describe.concurrent('seven agents in one channel', () => {
  test.for(played.map(({ game, platform }) => [game.name, platform, game] as const))(
    'T9 T15 T16 T23 T25 finish "%s" on %s in order, one at a time, and are prompted with the real history of the channel',
    async ([, platform, game]) => {
      const { fault, twoSpeakers, limitsTripped, historyDiffers, shares } = await play(game, platform);
      const isCached = game.measured !== true || median(shares) >= 0.9;
      expect({ fault, isCached, twoSpeakers, limitsTripped, historyDiffers }).toEqual({
        fault: null,
        isCached: true,
        twoSpeakers: 0,
        limitsTripped: 0,
        historyDiffers: 0,
      });
    },
  );
});

function median(numbers: readonly number[]): number {
  return numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)] ?? 0;
}
