import { COURSES } from './courses.ts';
import { disturbedAtEveryFact, killedAtEveryFact, perform, stoppedByPerson, writtenTo } from './perform.ts';

// npm run reviews: plays every course of reviews, then one course killed at each of its facts. `--json`: prints one line.

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
// The last facts are stored together with the end. Nothing can stop the review after them.
const ways = [
  { what: 'stopped', disturb: stoppedByPerson, ends: ['cancelled, then passed', 'passed, then passed'] },
  { what: 'met by a message', disturb: writtenTo, ends: ['passed'] },
] as const;
/** Disturbs only at every third fact, because each disturbance takes two reviews. */
const DISTURBED_STEP = 3;
const disturbed = [];
for (const { what, disturb, ends } of course === undefined ? [] : ways)
  for (const { at, ended } of course === undefined ? [] : await disturbedAtEveryFact(course, disturb, DISTURBED_STEP)) {
    const isAsExpected = ends.some((each) => each === ended);
    say(`${isAsExpected ? 'ok  ' : 'FAIL'} ${what} at fact ${at}: ${ended}`);
    disturbed.push({ isAsExpected });
  }
const all = [...results, ...disturbed];
const summary = {
  cases: all.length + continued.length,
  asExpected:
    all.filter(({ isAsExpected }) => isAsExpected).length +
    continued.filter(({ ended }) => ended === course?.ends).length,
  falsePass: results.filter(({ isFalsePass }) => isFalsePass).length,
  repeatedTurnsAfterKill: Math.max(0, ...continued.map(({ repeated }) => repeated)),
  iterations: results.reduce((sum, { iterations }) => sum + iterations, 0),
};
process.stdout.write(`${JSON.stringify(summary)}\n`);
const isRight = summary.cases === summary.asExpected && summary.falsePass === 0 && summary.repeatedTurnsAfterKill <= 1;
process.exit(isRight ? 0 : 1);
