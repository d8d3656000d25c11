import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openStage, until } from '../work/reviews/stage.ts';
import { endOf, played } from './courses.ts';
import type { Course } from './courses.ts';

/** The result of a course. */
export type Performed = {
  readonly name: string;
  readonly ended: string;
  readonly isAsExpected: boolean;
  readonly isFalsePass: boolean;
  readonly iterations: number;
};

/** Plays a course in a new repository. */
export async function perform(course: Course): Promise<Performed> {
  return inRepository(async (folder) => {
    const stage = await openStage(played(course, folder));
    try {
      await started(stage, course);
      await stage.settled();
      if (course.decide !== undefined) {
        await course.decide(stage);
        await stage.settled();
      }
      return performed(course, endOf(stage), stage.review.iteration);
    } finally {
      await stage.stop();
    }
  });
}

async function started(stage: Awaited<ReturnType<typeof openStage>>, { iterations }: Course): Promise<void> {
  const count = iterations === undefined ? '' : `${iterations} `;
  const answer = await stage.command(`/review start dev qa ${count}write it`);
  if (!answer.ok) throw new Error(answer.text);
}

function performed({ name, ends }: Course, ended: string, iterations: number): Performed {
  const isFalsePass = ended.startsWith('passed') && !ends.startsWith('passed');
  return { name, ended, isAsExpected: ended === ends, isFalsePass, iterations };
}

/** A review that was stopped at the fact `at`, and continued by another program. */
export type Continued = { readonly at: number; readonly ended: string; readonly repeated: number };

/**
 * Plays a course once, then again for each fact of its journal: the program ends when that fact is stored, and another
 * program continues with a copy of the database at that moment. `step`: uses only every n-th fact. `repeated`: turns
 * that were played more than once.
 */
export async function killedAtEveryFact(course: Course, step = 1): Promise<readonly Continued[]> {
  const whole = await inRepository((folder) => upTo(course, folder, Infinity));
  const results: Continued[] = [];
  for (let at = step; at < whole.facts; at += step) {
    results.push(
      await inRepository(async (folder) => {
        const cut = await upTo(course, folder, at);
        const again = played(course, folder);
        Object.assign(again.turns, cut.turns);
        const stage = await openStage({ ...again, path: cut.copy });
        try {
          await stage.settled();
          const all = again.turns.dev + again.turns.qa;
          return { at, ended: endOf(stage), repeated: all - stage.review.usage.turns };
        } finally {
          await stage.stop();
        }
      }),
    );
  }
  return results;
}

/** A review that was disturbed when the fact `at` was stored. */
type Disturbed = { readonly at: number; readonly ended: string };

/** A disturbance. Resolves with the end of the review. `prompts`: the agents' prompts so far. */
type Disturbance = (stage: Awaited<ReturnType<typeof openStage>>, prompts: readonly string[]) => Promise<string>;

/** Plays a course once for each fact, and disturbs it as soon as the fact is stored. */
export async function disturbedAtEveryFact(
  course: Course,
  disturb: Disturbance,
  step = 1,
): Promise<readonly Disturbed[]> {
  const whole = await inRepository((folder) => upTo(course, folder, Infinity));
  const results: Disturbed[] = [];
  for (let at = step; at < whole.facts; at += step)
    results.push(await inRepository((folder) => disturbedAt(course, at, { folder, disturb })));
  return results;
}

async function disturbedAt(
  course: Course,
  at: number,
  { folder, disturb }: { readonly folder: string; readonly disturb: Disturbance },
): Promise<Disturbed> {
  const script = played(course, folder);
  const stage = await openStage(script);
  const reached = Promise.withResolvers<void>();
  let count = 0;
  stage.app.reviews.onFacts((_channel, facts) => {
    if ((count += facts.length) >= at) reached.resolve();
  });
  try {
    await started(stage, course);
    await reached.promise;
    return { at, ended: await disturb(stage, script.prompts) };
  } finally {
    await stage.stop();
  }
}

/** Stops the floor and starts another review. */
export const stoppedByPerson: Disturbance = async (stage) => {
  await stage.command('/stop');
  const { outcome } = stage.review;
  const again = await stage.command('/review start dev qa write it again');
  if (!again.ok) throw new Error(again.text);
  return `${outcome?.kind ?? 'open'}, then ${(await stage.over()).outcome?.kind ?? ''}`;
};

/** Writes a message. An agent must get it. */
export const writtenTo: Disturbance = async (stage, prompts) => {
  await stage.write('Use tabs, please.');
  await stage.over();
  await until(() => prompts.some((prompt) => prompt.includes('Use tabs, please.')));
  return stage.review.outcome?.kind ?? '';
};

/** Plays a course until the review has this many facts, and copies the database at that time. */
async function upTo(course: Course, folder: string, facts: number) {
  const path = join(folder, '..', `${folder.split('/').at(-1)}.db`);
  const copy = `${path}.copy`;
  const script = played(course, folder);
  const stage = await openStage({ ...script, path });
  let count = 0;
  let turns = { ...script.turns };
  const stopped = Promise.withResolvers<void>();
  stage.app.reviews.onFacts((_channel, added) => {
    if (count >= facts) return;
    count += added.length;
    if (count < facts) return;
    for (const end of ['', '-wal']) if (existsSync(path + end)) copyFileSync(path + end, copy + end);
    turns = { ...script.turns };
    stopped.resolve();
  });
  try {
    await started(stage, course);
    await Promise.race([stopped.promise, stage.settled()]);
  } finally {
    await stage.stop();
  }
  return { facts: count, copy, turns };
}

async function inRepository<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const place = mkdtempSync(join(tmpdir(), 'conch-reviews-'));
  const folder = join(place, 'repository');
  try {
    execFileSync('git', ['init', '--quiet', folder]);
    writeFileSync(join(folder, 'work.txt'), 'begin');
    return await use(folder);
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}
