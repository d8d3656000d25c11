import { COURSES } from './courses.ts';
import { killedAtEveryFact, perform } from './perform.ts';

// Plays every course of reviews, then one course killed at each of its facts: npm run reviews. `--json` prints one line.

const isJson = process.argv.includes('--json');
const say = (line: string): void => {
  if (!isJson) process.stdout.write(`${line}\n`);
};

const results = [];
for (const course of COURSES) {
  const result = await perform(course);
  say(`${result.isAsExpected ? 'ok  ' : 'FAIL'} ${result.name}: ${result.ended}`);
  results.push(result);
}
const course = COURSES[1];
const continued = course === undefined ? [] : await killedAtEveryFact(course);
for (const { at, ended, repeated } of continued) say(`killed at fact ${at}: ${ended}, ${repeated} turns repeated`);
const summary = {
  cases: results.length + continued.length,
  asExpected:
    results.filter(({ isAsExpected }) => isAsExpected).length +
    continued.filter(({ ended }) => ended === course?.ends).length,
  falsePass: results.filter(({ isFalsePass }) => isFalsePass).length,
  repeatedTurnsAfterKill: Math.max(0, ...continued.map(({ repeated }) => repeated)),
  iterations: results.reduce((sum, { iterations }) => sum + iterations, 0),
};
process.stdout.write(`${JSON.stringify(summary)}\n`);
const isRight = summary.cases === summary.asExpected && summary.falsePass === 0 && summary.repeatedTurnsAfterKill <= 1;
process.exit(isRight ? 0 : 1);
