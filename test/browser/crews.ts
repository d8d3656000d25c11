import type { Page } from 'playwright-core';
import { TICKET_STATES } from '../../src/turns/crew-view.ts';
import type { CrewView } from '../../src/turns/crew-view.ts';
import { crewViewOf } from '../../src/work/crews/crew-shown.ts';
import { emptyCrew, idleWorker, workerName } from '../../src/work/crews/crew.ts';
import type { Crew, Worker } from '../../src/work/crews/crew.ts';
import type { Stage } from './stage.ts';

const MINUTE_MS = 60_000;

/** Builds a crew with `count` workers in all states, and 20 finished tickets per worker. 0: a crew that never ran. */
export function crewOf({ channels, queries }: Stage, count: number): CrewView {
  const [channel = ''] = channels;
  const now = Date.now();
  const workers = Array.from({ length: count }, (_, place) => workerAt(place, now));
  const finished = Array.from({ length: count * 20 }, (_, place) => ({
    id: `c-${place + 1_000}`,
    commit: place % 10 === 9 ? null : `${1e9 + place}abcdef`,
    worker: workerName(place % count),
    at: now - place * MINUTE_MS,
    title: TITLES[place % 3] ?? '',
    thread: `${place % 10 === 7 ? 'discord' : 'console'}:demo/c-${place + 1_000}`,
  }));
  const crew: Crew = { ...emptyCrew('web'), workers, finished, running: count > 0, ...(count === 0 ? {} : USED) };
  const text = 'tests red: Expected 3, got 2';
  return crewViewOf(
    {
      ...crew,
      settings: {
        channel,
        maxWorkers: 100,
        maxSteps: 20,
        patience: 3,
        merge: 'auto',
        ticketCostMicros: null,
        main: 'main',
      },
    },
    {
      store: queries.view(channel)?.store ?? '',
      problem: count > 20 ? 'the folder .tickets cannot be read: EACCES' : null,
      ready: Array.from({ length: count }, (_, place) => ({
        id: `o-${place}`,
        title: `Open ticket ${place}`,
        text: '',
      })),
      waiting: count,
      runSteps: () => (count > 0 ? 7 : null),
      listed: count === 0 ? [] : [{ id: 'x-1', why: 'it depends on c-9, which does not exist' }],
      whyHeld: (thread) => (thread.endsWith('/5') ? { words: 'web-F waits for approval.', asks: true } : null),
      facts: Array.from({ length: count * 2 }, (_, seq) => ({
        key: 'web',
        seq,
        hash: '',
        at: now - (count * 2 - seq) * 7_000,
        fact: { type: 'stepPutBack', worker: workerName(seq % Math.max(1, count)), why: text },
      })),
      clean: (words) => words,
      most: 500,
    },
  );
}

const USED: Partial<Crew> = {
  base: { tip: '1', verdict: 'green', why: '' },
  usage: { steps: 1_234, input: 5_600_000, output: 78_000, costMicros: 41_230_000 },
  counts: { green: 211, flaky: 4, red: 17, none: 0, conflicts: 3, dropped: 5 },
};

const TITLES = ['Mend the reset link', 'Limit the rate of the sign-in page', `Rename ${'a_very_long_name_'.repeat(6)}`];

function workerAt(place: number, now: number): Worker {
  const name = workerName(place);
  const since = now - (place + 1) * 17 * MINUTE_MS;
  const idle = idleWorker({ name, agent: `web-${name}`, startedAt: since });
  const ticket = {
    id: `c-${place}`,
    title: TITLES[place % 3] ?? '',
    text: '',
    session: 's',
    worktree: 'w',
    branch: 'b',
  };
  const busy = {
    ...idle,
    status: 'working' as const,
    ticket: { ...ticket, base: '0', slot: place, thread: `console:demo/${place}`, at: since },
    stepCount: (place % 20) + 1,
    maxSteps: 20,
    lastStepAt: since,
    usage: { input: 12_000 * place, output: 900, costMicros: 123_000 * place },
    step: { kind: 'step' as const, about: '', epoch: 7 },
  };
  switch (place % 12) {
    case 2:
      return {
        ...busy,
        status: 'stuck',
        step: null,
        errors: 5,
        errorAt: since,
        lastError: 'exited with code 1: ENOSPC: no space left on device',
      };
    case 3:
      return {
        ...busy,
        status: 'done',
        step: null,
        waiting: { for: 'weakened', why: 'test/limits.test.ts skips "denies the 6th try"', since },
      };
    case 4:
      return { ...busy, status: 'done', step: null, next: 'merge' };
    case 6:
      return { ...busy, status: 'ready', step: null, stepCount: 0 };
    case 7:
      return {
        ...busy,
        stepCount: 20,
        waiting: { for: 'unfinished', why: 'its steps are used up', since: since - MINUTE_MS },
      };
    case 8:
      return { ...busy, status: 'done', step: null, next: 'review' };
    case 10:
    case 11:
      return idle;
    default:
      return busy;
  }
}

/** Gives the first channel a crew, and opens its view. */
export async function openCrew(stage: Stage, page: Page, crew: CrewView): Promise<void> {
  stage.queries.crews.set(stage.channels[0] ?? '', crew);
  await page.getByTestId('crew').click();
  await page.getByTestId('crew-numbers').waitFor();
  if (crew.groups.length !== TICKET_STATES.length) throw new Error('impossible: a state of tickets is missing');
}
