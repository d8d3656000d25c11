import { parseArgs } from 'node:util';
import { PLATFORMS } from './channel.ts';
import { GAMES } from './games.ts';
import { play, totalOf } from './score.ts';
import type { Score } from './score.ts';

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    game: { type: 'string', default: '' },
    platform: { type: 'string', default: '' },
  },
});
const print = (line: string): void => void process.stderr.write(`${line}\n`);

const scores: Score[] = [];
for (const platform of PLATFORMS.filter((name) => name.includes(values.platform))) {
  for (const game of GAMES.filter(({ name }) => name.includes(values.game))) {
    const score = await play(game, platform);
    scores.push(score);
    const { fault, twoSpeakers, limitsTripped, historyDiffers, tokens } = score;
    const counts = `${tokens.length} requests, ${twoSpeakers} two speakers, ${limitsTripped} limits, ${historyDiffers} histories differ`;
    if (!values.json || fault !== null) print(`${platform}: ${game.name}: ${fault ?? 'in order'} (${counts})`);
  }
}
const total = totalOf(scores);
process.stdout.write(`${JSON.stringify(total)}\n`);
const isSound = total.finishedInOrder === total.games && total.stalls + total.twoSpeakers + total.historyDiffers === 0;
process.exitCode = isSound && total.limitsTripped === 0 ? 0 : 1;
