import { expect, test } from 'vitest';
import { createCommandContext } from '../../src/runtime/command-context.ts';
import { createKnownPeople } from '../../src/runtime/read-model.ts';
import { createLog } from '../../src/runtime/log.ts';
import { load } from '../config/world.ts';

const unused = (): never => {
  throw new Error('nobody asks for this');
};

const nobody = {
  manager: { apply: unused },
  roster: { list: unused, status: unused, restart: unused },
  floors: { view: unused, turns: unused },
  store: { why: unused, message: unused },
  clock: { now: () => 0 },
  log: createLog({ level: 'fatal', pretty: false, secrets: [] }),
  people: { operators: unused, nameOf: unused },
  suspended: () => null,
  runs: { run: unused, answered: unused, approvers: unused, totals: unused },
  crews: { run: unused },
  reviews: {
    start: unused,
    status: unused,
    export: unused,
    agents: unused,
    cancel: unused,
    diff: unused,
    accept: unused,
    uphold: unused,
    more: unused,
  },
};

test.each([
  ['that connects by itself rejoins only by an operator', {}, 'manual'],
  ['whose configuration lets it back rejoins by itself', { rejoin: 'auto' }, 'auto'],
])('T19 an agent %s after /floor add, as after an entry in the configuration', (_, more, rejoin) => {
  const config = load({
    agents: [{ id: 'scout', backend: { kind: 'remote' }, timeoutSeconds: 5, ...more }],
    channels: [
      { id: 'console:a', agents: [] },
      { id: 'console:b', agents: ['scout'] },
    ],
  });
  const seat = createCommandContext({ ...nobody, config: () => config }).seat?.('console:a', 'scout');
  expect(seat).toEqual({ agent: 'scout', priority: 10, timeoutMs: 5_000, rejoin });
  expect(config.channels[1]?.seats[0]?.rejoin).toBe(rejoin);
});

test('names the tool servers of an agent that wait for a login', () => {
  const config = load({});
  const waiting = () => [{ server: 'github', why: 'nobody is: run "conch mcp login github"' }];
  const roster = { ...nobody.roster, status: (agent: string) => (agent === 'pm' ? ['pm · idle'] : null) };
  const context = createCommandContext({ ...nobody, roster, waiting, config: () => config });
  expect(context.roster.status('pm')).toEqual(['pm · idle', '⚠ github: nobody is: run "conch mcp login github"']);
  expect(context.roster.status('nobody')).toBeNull();
});

test('shows a person by the newest name seen, an agent by its configured name, and an unknown id as it is', () => {
  const config = load({
    agents: [{ id: 'pm', name: 'PM', backend: { kind: 'scripted', script: 'pm' } }],
    channels: [{ id: 'console:a', agents: ['pm'] }],
  });
  const people = createKnownPeople(() => config, [], { get: () => null, set: () => {} });
  const { names } = createCommandContext({ ...nobody, people, config: () => config });
  people.notePerson({ id: 'U7', name: 'ola', roles: [] });
  people.notePerson({ id: 'U7', name: 'Ola' });
  expect(['U7', 'pm', 'U8'].map((id) => names.agent(id))).toEqual(['Ola', 'PM', 'U8']);
});
