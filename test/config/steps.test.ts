import { describe, expect, test } from 'vitest';
import { stepsOf } from '../../src/config/config.ts';
import { load } from './world.ts';

const SEAT = { agent: 'bot', channel: 'console:demo' };
const model = { kind: 'llm', provider: 'openai-compatible', model: 'm', baseUrl: 'http://127.0.0.1:1/v1' };

/** Returns the step limits of a turn and of a background run. Arguments: the limits set in each place. */
function steps({
  all,
  agent,
  maxSteps,
  channel,
}: {
  all?: number;
  agent?: number;
  maxSteps?: number;
  channel?: number;
}) {
  const runs = (conversational?: number) => (conversational === undefined ? {} : { runs: { conversational } });
  const backend = { ...model, ...(maxSteps === undefined ? {} : { maxSteps }) };
  const config = load({
    ...runs(all),
    agents: [{ id: 'bot', backend, ...runs(agent) }],
    channels: [{ id: SEAT.channel, agents: ['bot'], ...runs(channel) }],
  });
  return [stepsOf(config, SEAT, 'conversational'), stepsOf(config, SEAT, 'background')];
}

describe('the step limit of a turn', () => {
  test.each([
    [{ all: 10, agent: 20, maxSteps: 30, channel: 40 }, 40],
    [{ all: 10, agent: 20, maxSteps: 30 }, 20],
    [{ all: 10, maxSteps: 30 }, 30],
    [{ all: 10 }, 10],
    [{}, undefined],
  ])('comes from the narrowest place that sets it: %j', (places, most) => {
    expect(steps(places)[0]).toBe(most);
  });

  test('does not limit background runs when the model sets it', () => {
    expect(steps({ maxSteps: 30 })[1]).toBeUndefined();
  });
});
