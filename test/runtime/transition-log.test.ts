import { expect, test } from 'vitest';
import { z } from 'zod';
import { ChangeLog, createLog, NO_SIGNAL } from '../../src/runtime/log.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import { emptyFloor } from '../../src/turns/floor/floor.ts';

const lineSchema = z.looseObject({ level: z.string(), message: z.string().default('') });

/** The log lines at `level` and above for a fact. */
function logged(level: 'info' | 'warn', fact: Fact): readonly z.infer<typeof lineSchema>[] {
  const lines: string[] = [];
  const log = createLog({ level, pretty: false, secrets: [], destination: { write: (line) => lines.push(line) } });
  const changes = new ChangeLog(log);
  changes.started();
  changes.add({ channel: 'console:demo', at: 0, floor: emptyFloor('console:demo'), facts: [fact] }, 'demo');
  return lines.map((line) => lineSchema.parse(JSON.parse(line)));
}

/** The messages of the log lines at "warn" and above for a turn that ended in this way. */
function warned(how: Pick<Extract<Fact, { type: 'turnEnded' }>, 'outcome' | 'said' | 'signalled'>): readonly string[] {
  const fact: Fact = { type: 'turnEnded', agent: 'dev', epoch: 2, answered: [], returned: [], ...how };
  return logged('warn', fact).map(({ message }) => message);
}

test.each(['completed', 'expired', 'lapsed'] as const)(
  'T14 warns of a turn with text that was %s without its done signal',
  (outcome) => {
    expect(warned({ outcome, said: true, signalled: false })).toEqual([NO_SIGNAL]);
  },
);

test.each([
  { outcome: 'completed', said: true, signalled: true },
  { outcome: 'passed', said: false, signalled: true },
  { outcome: 'expired', said: false, signalled: false },
  { outcome: 'forfeited', said: true, signalled: false },
  { outcome: 'revoked', said: true, signalled: false },
] as const)('T14 warns of no turn that needed no done signal: %j', (how) => {
  expect(warned(how)).toEqual([]);
});

test.each([
  ['ACTIVE', 'OFFLINE', 'CRASHED', 'error'],
  ['QUEUED', 'ACTIVE', 'TURN_GRANTED', 'info'],
] as const)('T19 logs a seat that goes from %s to %s by %s at the level %s', (from, to, trigger, level) => {
  const moved: Fact = { type: 'seatMoved', agent: 'dev', from, to, trigger };
  expect(logged('info', moved)).toMatchObject([{ level, from, to, trigger, event: 'state_transition' }]);
});
