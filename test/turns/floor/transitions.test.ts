import { describe, expect, test } from 'vitest';
import { evolve } from '../../../src/turns/floor/evolve.ts';
import { isAllowed, TRANSITIONS } from '../../../src/turns/floor/seats.ts';
import { STATUSES, PLAIN_SETTINGS } from '../../../src/turns/floor/floor.ts';
import type { Trigger } from '../../../src/turns/floor/seats.ts';
import type { Status } from '../../../src/turns/floor/floor.ts';
import { announcementsIn, factsOf, movesIn, seatOf, stage, Stage } from './stage.ts';
import { flatOrNull } from './flat-turn.ts';

/** pm ACTIVE, dev and qa QUEUED. */
function taken(settings = {}): Stage {
  const play = stage({ settings });
  play.person('m1');
  return play;
}

/** pm WAITING for an answer. */
function waiting(settings = {}): Stage {
  const play = taken(settings);
  play.says('pm', 'Postgres or SQLite?');
  play.waits('pm');
  return play;
}

type Row = `${Status}>${Status} ${Trigger}`;

/** Commands that take pm along each row of the table. pm's last move is the row's. */
const WAYS: Readonly<Partial<Record<Row, () => Stage>>> = {
  'OFFLINE>IDLE AGENT_STARTED': () => {
    const play = stage();
    play.leaves('pm');
    play.joins('pm');
    return play;
  },
  'IDLE>QUEUED ASSIGNED': () => {
    const play = stage();
    play.operator({ type: 'remove', agent: 'pm' });
    play.operator({ type: 'add', agent: 'pm' });
    return play;
  },
  'IDLE>OFFLINE AGENT_STOPPED': () => {
    const play = stage();
    play.operator({ type: 'remove', agent: 'pm' });
    play.leaves('pm');
    return play;
  },
  'QUEUED>ACTIVE TURN_GRANTED': () => taken(),
  'QUEUED>IDLE REMOVED': () => {
    const play = stage();
    play.operator({ type: 'remove', agent: 'pm' });
    return play;
  },
  'QUEUED>OFFLINE DISCONNECTED': () => {
    const play = stage();
    play.leaves('pm');
    return play;
  },
  'ACTIVE>QUEUED TURN_COMPLETE': () => {
    const play = taken();
    play.speaks('pm');
    return play;
  },
  'ACTIVE>QUEUED TIMEOUT': () => {
    const play = taken();
    play.later(60_000);
    return play;
  },
  'ACTIVE>WAITING WAIT_REQUESTED': () => waiting(),
  'ACTIVE>OFFLINE CRASHED': () => {
    const play = taken();
    play.leaves('pm', 'exited with code 137');
    return play;
  },
  'WAITING>ACTIVE WAIT_RESOLVED': () => {
    const play = waiting();
    play.person('m2', 'pm');
    return play;
  },
  'WAITING>QUEUED WAIT_TIMEOUT': () => {
    const play = waiting();
    play.later(600_000);
    return play;
  },
  'WAITING>OFFLINE DISCONNECTED': () => {
    const play = waiting();
    play.leaves('pm');
    return play;
  },
  'ACTIVE>IDLE TURN_COMPLETE': () => {
    const play = stage({ agents: ['pm'] });
    play.person('m1');
    play.speaks('pm');
    return play;
  },
  'IDLE>QUEUED RECALLED': () => {
    const play = stage({ agents: ['pm'] });
    play.person('m1');
    play.speaks('pm');
    play.person('m2');
    return play;
  },
  'ACTIVE>QUEUED SILENCE': () => {
    const play = taken({ autoDetectTurnEnd: true });
    play.says('pm');
    play.later(10_000);
    return play;
  },
  'ACTIVE>IDLE REMOVED': () => {
    const play = taken();
    play.operator({ type: 'remove', agent: 'pm' });
    return play;
  },
  'WAITING>IDLE REMOVED': () => {
    const play = waiting();
    play.operator({ type: 'remove', agent: 'pm' });
    return play;
  },
  'ACTIVE>WAITING PREEMPTED': () => {
    const play = taken({ mode: 'interrupt' });
    play.person('m2');
    return play;
  },
  'WAITING>QUEUED HUMAN_OVERRIDE': () => {
    const play = waiting();
    play.operator({ type: 'grant', agent: 'qa' });
    return play;
  },
  'WAITING>ACTIVE HUMAN_OVERRIDE': () => {
    const play = waiting();
    play.operator({ type: 'grant', agent: 'pm' });
    return play;
  },
  'ACTIVE>QUEUED SKIPPED': () => {
    const play = taken();
    play.operator({ type: 'skip' });
    return play;
  },
  'WAITING>QUEUED SKIPPED': () => {
    const play = waiting();
    play.operator({ type: 'skip' });
    return play;
  },
  'ACTIVE>QUEUED STOPPED': () => {
    const play = taken();
    play.operator({ type: 'stop' });
    return play;
  },
  'WAITING>QUEUED STOPPED': () => {
    const play = waiting();
    play.operator({ type: 'stop' });
    return play;
  },
  'IDLE>OFFLINE DISABLED': () => {
    const play = stage();
    play.operator({ type: 'remove', agent: 'pm' });
    play.operator({ type: 'disable', agent: 'pm' });
    return play;
  },
  'QUEUED>OFFLINE DISABLED': () => {
    const play = stage();
    play.operator({ type: 'disable', agent: 'pm' });
    return play;
  },
  'ACTIVE>OFFLINE DISABLED': () => {
    const play = taken();
    play.operator({ type: 'disable', agent: 'pm' });
    return play;
  },
  'WAITING>OFFLINE DISABLED': () => {
    const play = waiting();
    play.operator({ type: 'disable', agent: 'pm' });
    return play;
  },
  'OFFLINE>IDLE ENABLED': () => {
    const play = stage();
    play.operator({ type: 'disable', agent: 'pm' });
    play.operator({ type: 'enable', agent: 'pm' });
    return play;
  },
};

const ROWS: readonly Row[] = TRANSITIONS.flatMap((row) =>
  row.from.map((from): Row => `${from}>${row.to} ${row.trigger}`),
);
const TRIGGERS = [...new Set(TRANSITIONS.map((row) => row.trigger))];
const REFUSED: readonly Row[] = STATUSES.flatMap((from) =>
  STATUSES.flatMap((to) => TRIGGERS.map((trigger): Row => `${from}>${to} ${trigger}`)),
).filter((row) => !ROWS.includes(row));

describe('the transition table', () => {
  test.each(ROWS)('%s is reached by commands', (row) => {
    const play = WAYS[row]?.();
    // An enabled agent that is connected joins the queue at once.
    expect(movesIn(play?.last.facts ?? []).filter((move) => move.startsWith('pm '))).toContain(`pm ${row}`);
  });

  test("begins with the specification's thirteen rows, in the words of logs", () => {
    expect(ROWS.slice(0, 13)).toEqual([
      'OFFLINE>IDLE AGENT_STARTED',
      'IDLE>QUEUED ASSIGNED',
      'IDLE>OFFLINE AGENT_STOPPED',
      'QUEUED>ACTIVE TURN_GRANTED',
      'QUEUED>IDLE REMOVED',
      'QUEUED>OFFLINE DISCONNECTED',
      'ACTIVE>QUEUED TURN_COMPLETE',
      'ACTIVE>QUEUED TIMEOUT',
      'ACTIVE>WAITING WAIT_REQUESTED',
      'ACTIVE>OFFLINE CRASHED',
      'WAITING>ACTIVE WAIT_RESOLVED',
      'WAITING>QUEUED WAIT_TIMEOUT',
      'WAITING>OFFLINE DISCONNECTED',
    ]);
  });

  test('has thirty rows in total, one for each pair that the design adds', () => {
    expect(ROWS.slice(13).toSorted()).toEqual(
      [
        'ACTIVE>IDLE TURN_COMPLETE',
        'IDLE>QUEUED RECALLED',
        'ACTIVE>QUEUED SILENCE',
        'ACTIVE>IDLE REMOVED',
        'WAITING>IDLE REMOVED',
        'ACTIVE>WAITING PREEMPTED',
        'WAITING>QUEUED HUMAN_OVERRIDE',
        'WAITING>ACTIVE HUMAN_OVERRIDE',
        'ACTIVE>QUEUED SKIPPED',
        'WAITING>QUEUED SKIPPED',
        'ACTIVE>QUEUED STOPPED',
        'WAITING>QUEUED STOPPED',
        'IDLE>OFFLINE DISABLED',
        'QUEUED>OFFLINE DISABLED',
        'ACTIVE>OFFLINE DISABLED',
        'WAITING>OFFLINE DISABLED',
        'OFFLINE>IDLE ENABLED',
      ].toSorted(),
    );
  });
});

describe('a move outside the table', () => {
  const settled: Readonly<Record<Status, () => Stage>> = {
    OFFLINE: () => {
      const play = stage();
      play.leaves('pm');
      return play;
    },
    IDLE: () => {
      const play = stage();
      play.operator({ type: 'remove', agent: 'pm' });
      return play;
    },
    QUEUED: () => stage(),
    ACTIVE: () => taken(),
    WAITING: () => waiting(),
  };

  test.each(REFUSED)('%s is impossible', (row) => {
    const [from, to, trigger] = row.split(/[> ]/) as [Status, Status, Trigger];
    const play = settled[from]();
    expect(play.status('pm')).toBe(from);
    expect(isAllowed(from, to, trigger)).toBe(false);
    expect(() => evolve(play.floor, { type: 'seatMoved', agent: 'pm', from, to, trigger }, play.at)).toThrow(
      /^impossible: /u,
    );
  });

  test('is impossible, too, when the seat is in another state', () => {
    const play = stage();
    const fact = { type: 'seatMoved', agent: 'pm', from: 'ACTIVE', to: 'QUEUED', trigger: 'TURN_COMPLETE' } as const;
    expect(() => evolve(play.floor, fact, play.at)).toThrow(/^impossible: /u);
  });

  test('is impossible for an agent without a seat', () => {
    const play = stage();
    const fact = { type: 'seatMoved', agent: 'eve', from: 'QUEUED', to: 'ACTIVE', trigger: 'TURN_GRANTED' } as const;
    expect(() => evolve(play.floor, fact, play.at)).toThrow(/^impossible: /u);
  });
});

describe('a configured channel', () => {
  test('seats its agents OFFLINE and queues each as it joins, in that order', () => {
    const play = new Stage();
    play.configure(PLAIN_SETTINGS, ['pm', 'dev', 'qa'].map(seatOf));
    expect(play.seats).toBe('pm OFFLINE, dev OFFLINE, qa OFFLINE');
    expect(movesIn(play.joins('dev').facts)).toEqual(['dev OFFLINE>IDLE AGENT_STARTED', 'dev IDLE>QUEUED ASSIGNED']);
    expect(play.seats).toBe('pm OFFLINE, dev QUEUED, qa OFFLINE');
    play.joins('qa');
    expect(play.floor.queue).toEqual(['dev', 'qa']);
    expect(play.floor.condition).toBe('resting');
  });

  test('changes nothing when it is configured the same way again', () => {
    const play = taken();
    const before = play.floor;
    const again = play.attempt({
      type: 'configure',
      settings: PLAIN_SETTINGS,
      seats: ['pm', 'dev', 'qa'].map(seatOf),
    });
    expect(movesIn(again.facts)).toEqual([]);
    expect(play.floor).toEqual(before);
  });

  test('ends the turn of an agent that the new configuration removes, and deletes its seat', () => {
    const play = taken();
    play.configure(PLAIN_SETTINGS, ['dev', 'qa'].map(seatOf));
    expect(play.seats).toBe('dev ACTIVE, qa QUEUED');
    expect(play.moves('pm')).toContain('pm ACTIVE>IDLE REMOVED');
    expect(factsOf('turnEnded', play.last)).toMatchObject([{ agent: 'pm', outcome: 'revoked' }]);
  });

  test('grants nothing to an agent removed together with the holder, and counts no turn for it', () => {
    const play = taken();
    const { turns } = play.floor.usageSincePerson;
    const { facts } = play.configure(PLAIN_SETTINGS, ['qa'].map(seatOf));
    expect(play.seats).toBe('qa ACTIVE');
    expect(factsOf('turnGranted', { facts, effects: [] })).toMatchObject([{ agent: 'qa' }]);
    expect(play.floor.usageSincePerson.turns).toBe(turns + 1);
  });

  test('does not touch a running turn when the time limits change', () => {
    const play = taken();
    const deadline = flatOrNull(play.floor.turn)?.deadlineAt;
    play.configure(
      { ...PLAIN_SETTINGS, maxTurns: 3 },
      ['pm', 'dev', 'qa'].map((agent) => seatOf({ agent, timeoutMs: 5_000 })),
    );
    expect(play.holder).toBe('pm #1');
    expect(flatOrNull(play.floor.turn)?.deadlineAt).toBe(deadline);
    play.speaks('pm');
    expect(flatOrNull(play.floor.turn)?.deadlineAt).toBe(play.at + 5_000);
  });

  test('announces nothing while its agents have not connected yet', () => {
    const play = new Stage();
    play.configure(PLAIN_SETTINGS, ['pm'].map(seatOf));
    expect(announcementsIn(play.effects)).toEqual([]);
  });
});
