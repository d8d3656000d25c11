import assert from 'node:assert/strict';
import { describe, expect, test } from 'vitest';
import { floorMachine } from '../../src/turns/floor-store.ts';
import type { FloorMachine } from '../../src/turns/floor-store.ts';
import { SITUATIONS } from './situations.ts';
import { runSeed } from './world.ts';
import { openQuestion } from '../../src/turns/floor/seats.ts';

const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8];
/** The number of seeds in which a planted bug is searched. */
const MOST_SEEDS = 60;
const EVENTS = 600;
/** The number of events for rare situations. */
const MANY_EVENTS = 2_000;

describe('the simulation', () => {
  test('keeps every rule under faults, and comes to rest after them', { timeout: 300_000 }, async () => {
    const met = new Set<string>();
    for (const seed of SEEDS) {
      const { broken, counts } = await runSeed(seed, 800);
      assert(broken === null, `seed ${seed}: ${broken?.rule} ${broken?.text}\n${broken?.trail.join('\n')}`);
      for (const [situation] of counts) met.add(situation);
    }
    expect(met.size).toBeGreaterThan(SITUATIONS.length / 2);
  });

  test('repeats a run for the same seed, and makes another run for another seed', async () => {
    const [one, again, other] = [await runSeed(11, 400), await runSeed(11, 400), await runSeed(12, 400)];
    expect(again).toEqual(one);
    expect(other.trace).not.toBe(one.trace);
  });
});

describe('the simulation finds the bug of a core', () => {
  test('that forgets a post', async () => {
    let posts = 0;
    const react: FloorMachine['react'] = (fact, floor) => {
      posts += fact.type === 'said' ? 1 : 0;
      return fact.type === 'said' && posts === 9 ? [] : floorMachine.react(fact, floor);
    };
    expect(await ruleBroken({ ...floorMachine, react })).toBe('I11');
  });

  test('that posts twice', async () => {
    const react: FloorMachine['react'] = (fact, floor) => {
      const effects = floorMachine.react(fact, floor);
      return fact.type === 'said' ? [...effects, ...effects] : effects;
    };
    expect(await ruleBroken({ ...floorMachine, react })).toBe('I11');
  });

  test('that sets no alarm', async () => {
    expect(await ruleBroken({ ...floorMachine, nextDeadline: () => null })).toMatch(/^I(?:14|23)$/u);
  });

  test('that takes every deadline as due a third of a second late', async () => {
    const nextDeadline: FloorMachine['nextDeadline'] = (floor) => {
      const at = floorMachine.nextDeadline(floor);
      return at === null ? null : at + 333;
    };
    expect(await ruleBroken({ ...floorMachine, nextDeadline })).toBe('I14');
  });

  test('T84 that counts a standstill of the program against the holder', async () => {
    const decide: FloorMachine['decide'] = (floor, command, at) =>
      floorMachine.decide(floor, command.type === 'standstill' ? { ...command, ms: 0 } : command, at);
    expect(await ruleBroken({ ...floorMachine, decide }, MANY_EVENTS)).toBe('I14');
  });

  test('that accepts a text of an agent without the floor', async () => {
    const decide: FloorMachine['decide'] = (floor, command, at) => {
      const { turn } = floor;
      const isLate = command.type === 'say' && turn !== null && turn.epoch !== command.epoch;
      return floorMachine.decide(floor, isLate ? { ...command, agent: turn.agent, epoch: turn.epoch } : command, at);
    };
    expect(await ruleBroken({ ...floorMachine, decide })).toBe('I2');
  });

  test('that loses a message', async () => {
    const decide: FloorMachine['decide'] = (floor, command, at) => {
      const isLost = command.type === 'receive' && command.ignore === undefined && floor.settings.mode === 'queue';
      return floorMachine.decide(floor, isLost ? { ...command, ignore: 'lost' } : command, at);
    };
    expect(await ruleBroken({ ...floorMachine, decide })).toBe('I8');
  });

  test("that grants the floor while it still reads a channel's history", async () => {
    const decide: FloorMachine['decide'] = (floor, command, at) =>
      floorMachine.decide(command.type === 'receive' ? { ...floor, catchingUp: false } : floor, command, at);
    expect(await ruleBroken({ ...floorMachine, decide })).toMatch(/^I(?:8|10|16)$/u);
  });

  test('that grants the floor while the platform is disconnected', async () => {
    const decide: FloorMachine['decide'] = (floor, command, at) =>
      floorMachine.decide(command.type === 'end' ? { ...floor, catchingUp: false } : floor, command, at);
    expect(await ruleBroken({ ...floorMachine, decide })).toMatch(/^I(?:10|16)$/u);
  });

  test('T2 that prompts an interrupted agent only with new messages', async () => {
    const react: FloorMachine['react'] = (fact, floor) =>
      floorMachine
        .react(fact, floor)
        .map((effect) =>
          effect.type === 'prompt'
            ? { ...effect, messages: effect.messages.filter((id) => !effect.open.includes(id)) }
            : effect,
        );
    expect(await ruleBroken({ ...floorMachine, react })).toBe('I25');
  });

  test('T3 that prompts with at most one message to answer', async () => {
    const react: FloorMachine['react'] = (fact, floor) =>
      floorMachine
        .react(fact, floor)
        .map((effect) => (effect.type === 'prompt' ? { ...effect, messages: effect.messages.slice(-1) } : effect));
    expect(await ruleBroken({ ...floorMachine, react })).toBe('I25');
  });

  test('T2 that marks a message as done as soon as the agent said something', async () => {
    const decide: FloorMachine['decide'] = (floor, command, at) => {
      const decision = floorMachine.decide(floor, command, at);
      const facts = decision.facts.map((fact) => {
        const given = floor.turn?.given.map(({ id }) => id) ?? [];
        return fact.type === 'turnEnded' && fact.said ? { ...fact, answered: [...fact.answered, ...given] } : fact;
      });
      return { ...decision, facts };
    };
    expect(await ruleBroken({ ...floorMachine, decide })).toBe('I25');
  });

  test('T7 that counts an answer for the question that is open when it arrives', async () => {
    const decide: FloorMachine['decide'] = (floor, command, at) => {
      const question = openQuestion(floor)?.question;
      const isAnswer = command.type === 'decide' && question !== undefined;
      return floorMachine.decide(floor, isAnswer ? { ...command, question } : command, at);
    };
    expect(await ruleBroken({ ...floorMachine, decide }, MANY_EVENTS)).toBe('I18');
  });

  test('T59 that only interrupts the session of a hung agent', async () => {
    const react: FloorMachine['react'] = (fact, floor) =>
      floorMachine
        .react(fact, floor)
        .map((effect) => (effect.type === 'interrupt' ? { ...effect, hung: false } : effect));
    expect(await ruleBroken({ ...floorMachine, react })).toMatch(/^I(?:6|26)$/u);
  });

  test("that takes a program's message for a person's", async () => {
    const decide: FloorMachine['decide'] = (floor, command, at) =>
      floorMachine.decide(floor, command.type === 'receive' ? { ...command, fromProgram: false } : command, at);
    expect(await ruleBroken({ ...floorMachine, decide })).toBe('I20');
  });
});

async function ruleBroken(core: FloorMachine, events = EVENTS): Promise<string | null> {
  for (let seed = 1; seed <= MOST_SEEDS; seed += 1) {
    const { broken } = await runSeed(seed, events, core);
    if (broken !== null) return broken.rule;
  }
  return null;
}
