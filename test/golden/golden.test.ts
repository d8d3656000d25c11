import { describe, expect, test } from 'vitest';
import { sessionJournal } from '../../src/agents/session/session-journal.ts';
import { SESSION_TRANSITIONS } from '../../src/agents/session/session-machine.ts';
import { FACTS } from '../../src/turns/floor/fact.ts';
import { floorMachine } from '../../src/turns/floor-store.ts';
import { reviewOnFloor } from '../../src/work/reviews/review-binding.ts';
import { REVIEW_FACTS } from '../../src/work/reviews/review-events.ts';
import { runOnFloor } from '../../src/work/runs/floor-binding.ts';
import { fold, goldenFiles, goldenJournals, kindsIn } from './journals.ts';
import { RUN_FACTS } from '../../src/work/runs/run-events.ts';

const typesIn = (file: string, field: 'type' | 'trigger'): readonly string[] =>
  [...new Set(goldenJournals(file).flatMap((journal) => kindsIn(journal, field)))].toSorted();

describe.each(goldenFiles())('the journals of %s', (file) => {
  test('still fold to their stored states', () => {
    for (const journal of goldenJournals(file)) {
      const { folded, stored } = fold(journal);
      expect([journal.key, folded]).toEqual([journal.key, stored]);
    }
  });
});

test("the golden journals of the floor's version have every kind of fact", () => {
  const kinds = Object.keys(FACTS).toSorted();
  expect(typesIn(`floor-${floorMachine.version}.jsonl`, 'type')).toEqual(kinds);
});

test("the golden journals of the run's version have every kind of fact", () => {
  const kinds = Object.keys(RUN_FACTS).toSorted();
  expect(typesIn(`run-${runOnFloor.version}.jsonl`, 'type')).toEqual(kinds);
});

test("the golden journals of the review's version have every kind of fact", () => {
  const kinds = Object.keys(REVIEW_FACTS).toSorted();
  expect(typesIn(`review-${reviewOnFloor.version}.jsonl`, 'type')).toEqual(kinds);
});

test("the golden journals of the session's version have every recorded trigger", () => {
  const found = typesIn(`session-${sessionJournal.version}.jsonl`, 'trigger');
  const never = ['SessionOpening', 'SessionOpened', 'SessionAbsent', 'WorktreeReady', 'PromptReady'];
  const unchanging = ['UrgentMessage', 'GraceExceeded', 'BackoffElapsed'];
  const all = new Set<string>(SESSION_TRANSITIONS.map(({ trigger }) => trigger));
  for (const each of [...never, ...unchanging]) all.delete(each);
  expect(found).toEqual([...all].toSorted());
});

describe('a fact that this version does not know', () => {
  const [journal] = goldenJournals(`floor-${floorMachine.version}.jsonl`);
  const [row] = journal?.rows ?? [];

  test.each([
    ['of another type', { type: 'danced' }],
    ['with a field that it does not have', { ...Object(row?.facts[0]), mood: 'good' }],
    ['without a field that it has', { type: 'said', agent: 'pm', epoch: 1 }],
  ])('throws when it is a fact %s', (_what, fact) => {
    if (journal === undefined) throw new Error('there is no golden journal');
    expect(() => fold({ ...journal, rows: [{ at: 1, facts: [fact] }] })).toThrow(/invalid|unrecognized/u);
  });

  test('throws when a newer version wrote it', () => {
    if (journal === undefined) throw new Error('there is no golden journal');
    expect(() => fold({ ...journal, version: floorMachine.version + 1 })).toThrow(
      'a fact cannot be read: it is of version',
    );
  });
});
