import { INTERRUPT_MODES, ORDERS } from '../../../src/turns/floor/policies.ts';
import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { describe, test } from 'vitest';
import { nextDeadline, waitOf } from '../../../src/turns/floor/seats.ts';
import type { Command } from '../../../src/turns/floor/command.ts';
import type { FloorSettings } from '../../../src/turns/floor/settings.ts';
import { stage } from './stage.ts';
import type { Stage } from './stage.ts';

const AGENTS = ['pm', 'dev', 'qa'];
const agent = fc.constantFrom(...AGENTS, 'eve');
const addressed = fc.uniqueArray(fc.constantFrom(...AGENTS), { maxLength: 2 });
const message = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h');
const by = fc.constant('ada');
const fromProgram = fc.constant(true);

/** Epochs are relative to the floor's last epoch, so that most commands fit and some are stale or in the future. */
type Draft = Command | { readonly type: 'later'; readonly ms: number };
const behind = fc.oneof({ weight: 6, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constantFrom(1, 2, -1) });

const people: fc.Arbitrary<Draft> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ type: fc.constant('receive' as const), id: message, addressed }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('receive' as const), id: message, addressed, fromProgram }) },
  fc.record({ type: fc.constant('edit' as const), id: message }),
  fc.record({ type: fc.constant('delete' as const), id: message }),
);

const agents: fc.Arbitrary<Draft> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ type: fc.constant('join' as const), agent }) },
  fc.record({ type: fc.constant('leave' as const), agent, cause: fc.constant('gone') }),
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('say' as const),
      agent,
      epoch: behind,
      text: fc.constant('words'),
      mentions: addressed,
    }),
  },
  fc.record({ type: fc.constant('work' as const), agent, epoch: behind, open: fc.nat({ max: 2 }) }),
  fc.record({ type: fc.constant('spend' as const), agent, epoch: behind, tokens: fc.nat(40), costMicros: fc.nat(9) }),
  {
    weight: 5,
    arbitrary: fc.record(
      {
        type: fc.constant('end' as const),
        agent,
        epoch: behind,
        outcome: fc.constantFrom('completed' as const, 'passed' as const),
        signalled: fc.boolean(),
        handTo: agent,
      },
      { requiredKeys: ['type', 'agent', 'epoch', 'outcome', 'signalled'] },
    ),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('wait' as const),
      agent,
      epoch: behind,
      reason: fc.constant('answer' as const),
    }),
  },
  fc.record({
    type: fc.constant('injected' as const),
    agent,
    epoch: behind,
    id: message,
    outcome: fc.constantFrom('injected' as const, 'next-prompt' as const, 'refused' as const, 'no-room' as const),
  }),
  { weight: 2, arbitrary: fc.record({ type: fc.constant('interrupted' as const), agent, epoch: behind }) },
  fc.record({
    type: fc.constant('choose' as const),
    agent,
    ask: behind,
    next: fc.option(agent),
  }),
);

const operators: fc.Arbitrary<Draft> = fc.oneof(
  fc.record({ type: fc.constantFrom('stop' as const, 'start' as const, 'pause' as const, 'resume' as const), by }),
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constantFrom('grant' as const, 'add' as const, 'remove' as const, 'enable' as const, 'disable' as const),
      by,
      agent,
    }),
  },
  fc.record({ type: fc.constant('skip' as const), by, agent, epoch: behind }, { requiredKeys: ['type', 'by'] }),
  fc.record({ type: fc.constant('extend' as const), by, ms: fc.constantFrom(1, 60_000) }),
  fc.record({ type: fc.constant('mode' as const), by, mode: fc.constantFrom(...INTERRUPT_MODES) }),
  fc.record(
    {
      type: fc.constant('order' as const),
      by,
      order: fc.constantFrom(...ORDERS),
      queue: fc.uniqueArray(agent, { maxLength: 3 }),
    },
    { requiredKeys: ['type', 'by', 'order'] },
  ),
);

const program: fc.Arbitrary<Draft> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ type: fc.constant('tick' as const) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      type: fc.constant('later' as const),
      ms: fc.constantFrom(1, 999, 5_000, 10_000, 60_000, 600_000, 90_000_000),
    }),
  },
  fc.record({ type: fc.constant('restart' as const) }),
  fc.record({ type: fc.constant('disconnect' as const) }),
  { weight: 2, arbitrary: fc.record({ type: fc.constant('catchUp' as const) }) },
);

const draft = fc.oneof(
  { weight: 4, arbitrary: people },
  { weight: 8, arbitrary: agents },
  { weight: 2, arbitrary: operators },
  { weight: 2, arbitrary: program },
);

const settings = fc.record({
  mode: fc.constantFrom(...INTERRUPT_MODES),
  order: fc.constantFrom(...ORDERS),
  rounds: fc.constantFrom(0, 1, 2),
  maxTurns: fc.constantFrom(1, 3, 12),
  waitPolicy: fc.constantFrom('hold' as const, 'release' as const),
  interruptResponder: fc.option(fc.constantFrom(...AGENTS)),
  facilitator: fc.option(fc.constantFrom(...AGENTS)),
  defaultAgent: fc.option(fc.constantFrom(...AGENTS)),
  autoDetectTurnEnd: fc.boolean(),
  onRestart: fc.constantFrom('resume' as const, 'forfeit' as const),
  maxHeld: fc.constantFrom(1, 2, 500),
  exchangeBudget: budget({ tokens: 50, costMicros: 20, ms: 200_000 }),
  dayBudget: budget({ tokens: 90, costMicros: 40, ms: 400_000 }),
});

function budget(spending: FloorSettings['dayBudget']): fc.Arbitrary<FloorSettings['dayBudget']> {
  return fc.constantFrom({ tokens: null, costMicros: null, ms: null }, spending);
}

const cast = fc.tuple(
  ...AGENTS.map((name) =>
    fc.record({
      agent: fc.constant(name),
      priority: fc.constantFrom(1, 10),
      timeoutMs: fc.constantFrom(5_000, 60_000),
      rejoin: fc.constantFrom('manual' as const, 'auto' as const),
    }),
  ),
);

const story = fc.record({ settings, agents: cast, drafts: fc.array(draft, { maxLength: 60, size: 'max' }) });
type Story = typeof story extends fc.Arbitrary<infer T> ? T : never;

function perform({ settings: chosen, agents: seats, drafts }: Story): Stage {
  const play = stage({ settings: chosen, agents: seats });
  const seen = new Set<string>();
  for (const one of drafts) {
    if (one.type === 'later') {
      play.at += one.ms;
      play.tick();
    } else if (one.type !== 'receive' || !seen.has(one.id)) {
      // The inbox drops a repeated message; the floor need not.
      if (one.type === 'receive') seen.add(one.id);
      play.attempt(aimed(one, play));
    }
  }
  return play;
}

/** Replaces relative epochs and relative numbers of facilitator questions with real ones. */
function aimed(command: Command, play: Stage): Command {
  if (command.type === 'injected' && command.outcome === 'no-room' && play.floor.turn !== null) {
    const { agent: holder, epoch, given } = play.floor.turn;
    return { ...command, agent: holder, epoch, id: given[0]?.id ?? command.id };
  }
  if (command.type === 'choose') return { ...command, ask: (play.floor.facilitation?.ask ?? 0) - command.ask };
  return 'epoch' in command && command.epoch !== undefined
    ? { ...command, epoch: play.floor.epoch - command.epoch }
    : command;
}

function lines(story_: Story): string {
  return story_.drafts.map((one) => JSON.stringify(one)).join('\n');
}

const RUNS = { numRuns: 1_000 };

describe('any events in any order', () => {
  test('nothing throws, the invariants hold and the journal gives the floor', () => {
    fc.assert(
      fc.property(story, (it) => {
        const play = perform(it);
        assert.deepStrictEqual(play.replay(), play.floor, lines(it));
      }),
      RUNS,
    );
  });

  test('no message is lost: each was given to an agent, waits for one, or is recorded as undelivered', () => {
    fc.assert(
      fc.property(story, (it) => {
        const play = perform(it);
        const { turn, parked, held } = play.floor;
        const waits = [turn, ...parked].flatMap((one) => waitOf(one)?.answers ?? []);
        const waiting = new Set([...held, ...waits].map(({ id }) => id));
        const given = new Set(
          play.effects.flatMap((effect) => {
            if (effect.type === 'prompt') return effect.messages;
            return effect.type === 'inject' || effect.type === 'observe' ? [effect.message] : [];
          }),
        );
        const deleted = new Set(
          play.journal.flatMap(({ fact }) =>
            fact.type === 'messageAmended' && fact.change === 'deleted' ? [fact.id] : [],
          ),
        );
        const naming = new Set<string>();
        for (const { fact } of play.journal) {
          if (fact.type !== 'messageRouted') continue;
          if (fact.addressed.length > 0) naming.add(fact.id);
          const isNameless = fact.fate.state === 'unrouted' && fact.fate.why === 'nobody addressed';
          assert(!isNameless || !naming.has(fact.id), `${fact.id} named an agent`);
          const fate = play.fate(fact.id);
          const isTold = fate?.state === 'ignored' || fate?.state === 'unrouted' || deleted.has(fact.id);
          assert(isTold || waiting.has(fact.id) || given.has(fact.id), `${fact.id} is lost`);
          assert(fate?.state !== 'held' || waiting.has(fact.id), `${fact.id} is held by nobody`);
          assert(fate?.state !== 'ignored' || !waiting.has(fact.id), `${fact.id} is held and ignored`);
        }
      }),
      RUNS,
    );
  });

  test('when every agent leaves and time passes, nobody holds the floor', () => {
    fc.assert(
      fc.property(story, (it) => {
        const play = perform(it);
        if (play.floor.catchingUp) play.attempt({ type: 'catchUp' });
        for (const name of AGENTS) play.attempt({ type: 'leave', agent: name, cause: 'gone' });
        play.later(3_600_000);
        assert.equal(play.floor.turn, null);
        assert.deepStrictEqual(play.floor.parked, []);
        assert.equal(play.floor.facilitation, null);
        assert(play.floor.seats.every((seat) => seat.status === 'OFFLINE'));
      }),
      RUNS,
    );
  });

  test('when everybody is silent, the floor comes to rest and no alarm is set', () => {
    fc.assert(
      fc.property(story, (it) => {
        const play = perform(it);
        if (play.floor.catchingUp) play.attempt({ type: 'catchUp' });
        if (play.floor.condition === 'paused') play.act({ type: 'resume', by: 'ada' });
        for (const name of AGENTS) play.attempt({ type: 'join', agent: name });
        play.later(200_000_000);
        assert.equal(play.floor.turn, null);
        assert.deepStrictEqual(play.floor.parked, []);
        assert.equal(nextDeadline(play.floor), null);
      }),
      RUNS,
    );
  });
});
