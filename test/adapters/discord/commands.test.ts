import { Routes } from 'discord.js';
import { describe, expect, test } from 'vitest';
import { createCalls, createClient } from '../../../src/adapters/discord/client.ts';
import { choicesFor, commandSet, lineOf, registerCommands } from '../../../src/adapters/discord/commands.ts';
import type { CommandData, Option } from '../../../src/adapters/discord/commands.ts';
import { parseLine } from '../../../src/turns/commands/parse.ts';
import { COMMANDS } from '../../../src/turns/commands/command-table.ts';
import { systemClock } from '../../../src/lib/time.ts';
import { startDiscord } from './server.ts';

const AGENTS = {
  agents: [
    { id: 'dev', name: 'dev' },
    { id: 'qa', name: 'QA Bot' },
  ],
};

function given(
  path: string,
  values: Readonly<Record<string, string | number | boolean>> = {},
  focused?: string,
): CommandData {
  const [name = '', second] = path.split(' ');
  const options = Object.entries(values).map(([key, value]) => ({
    name: key,
    type: 3,
    value,
    ...(key === focused ? { focused: true } : {}),
  }));
  return second === undefined ? { name, options } : { name, options: [{ name: second, type: 1, options }] };
}

describe('the slash commands', () => {
  test('cover all operator commands, with one slash command for every first word', () => {
    const set = commandSet();
    expect(set.map(({ name }) => name)).toEqual([...new Set(COMMANDS.map(({ path }) => path.split(' ')[0]))]);
    const paths = set.flatMap(({ name, options = [] }) => {
      const verbs = options.filter(({ type }) => type === 1);
      return verbs.length === 0 ? [name] : verbs.map((verb) => `${name} ${verb.name}`);
    });
    expect(paths.toSorted()).toEqual(COMMANDS.map(({ path }) => path).toSorted());
  });

  test("keep to Discord's limits for names, descriptions, options and choices", () => {
    const all = (options: readonly Option[]): readonly Option[] =>
      options.flatMap((option) => [option, ...all(option.options ?? [])]);
    for (const option of all(commandSet())) {
      expect(option.name).toMatch(/^[a-z-]{1,32}$/);
      expect(option.description.length).toBeGreaterThan(0);
      expect(option.description.length).toBeLessThanOrEqual(100);
      expect(option.options?.length ?? 0).toBeLessThanOrEqual(25);
      const required = (option.options ?? []).map((each) => each.required === true);
      expect(required).toEqual(required.toSorted((a, b) => Number(b) - Number(a)));
      for (const { name, value } of option.choices ?? [])
        expect(Math.max(name.length, value.length)).toBeLessThanOrEqual(100);
    }
    expect(commandSet().length).toBeLessThanOrEqual(100);
  });

  test('keep the number at the beginning of a task, with and without a number of iterations', () => {
    const options = [
      { name: 'agent', type: 3, value: 'dev' },
      { name: 'reviewer', type: 3, value: 'qa' },
      { name: 'task', type: 3, value: '3 bugs in "a.ts"' },
    ];
    const line = lineOf({ name: 'review', options: [{ name: 'start', type: 1, options }] });
    expect(parseLine(line)).toMatchObject({
      ok: true,
      invocation: { values: { agent: 'dev', reviewer: 'qa', words: "3 bugs in 'a.ts'" } },
    });
    const counted = [...options, { name: 'iterations', type: 4, value: 5 }];
    const other = lineOf({ name: 'review', options: [{ name: 'start', type: 1, options: counted }] });
    expect(parseLine(other)).toMatchObject({ invocation: { values: { count: 5, words: '3 bugs in "a.ts"' } } });
  });

  test('offer no number that the command refuses', () => {
    const numbers = commandSet().flatMap(({ name, options = [] }) =>
      options.flatMap((verb) =>
        (verb.options ?? []).map((option, at) => ({
          path: [name, verb.name, ...Array(at).fill('dev')].join(' '),
          option,
        })),
      ),
    );
    const bounded = numbers.filter(({ option }) => option.min_value !== undefined);
    expect(bounded.length).toBe(8);
    for (const { path, option } of bounded) {
      const line = (value: number) =>
        option.name === 'steps' && path.startsWith('run start')
          ? `/run start dev --steps ${value} look`
          : path.startsWith('review start')
            ? `/review start dev qa ${value} look`
            : `/${path} ${value}`;
      for (const value of [option.min_value ?? 0, option.max_value ?? 0]) {
        expect(parseLine(line(value)).ok).toBe(true);
      }
      expect(parseLine(line((option.max_value ?? 0) + 1)).ok).toBe(false);
    }
  });
});

describe('a filled-in slash command', () => {
  test.each([
    [given('stop'), '/stop'],
    [given('floor skip'), '/floor skip'],
    [
      given('run start', { agent: 'dev', what: '--force it', model: 'm 1', steps: 5, tools: 'Read, Edit' }),
      '/run start dev --model "m 1" --steps 5 --tools "Read, Edit" -- --force it',
    ],
    [given('run start', { agent: 'dev', what: 'look', steps: 5 }), '/run start dev --steps 5 look'],
    [given('review status', { json: true }), '/review status --json'],
    [given('review status', { json: false }), '/review status'],
    [given('floor grant', { agent: 'dev' }), '/floor grant dev'],
    [given('floor grant', { agent: 'QA  Bot' }), '/floor grant "QA Bot"'],
    [given('floor grant', { agent: 'a"b' }), '/floor grant ab'],
    [given('floor extend', { seconds: 120 }), '/floor extend 120'],
    [given('floor order', { agents: 'dev qa', policy: 'round-robin' }), '/floor order round-robin dev qa'],
    [given('help', { command: 'floor skip' }), '/help floor skip'],
    [given('gone', { x: 'y' }), '/gone'],
  ])('number %# becomes the command line %s', (filled, line) => {
    expect(lineOf(filled)).toBe(line);
  });

  test('gives the command line of every example in the table', () => {
    for (const { path, example, arguments: wanted } of COMMANDS) {
      const words = example
        .slice(path.length + 2)
        .split(' ')
        .filter((word) => word !== '');
      const values: Record<string, string> = {};
      wanted.forEach((argument, index) => {
        const isRest = 'rest' in argument && argument.rest;
        const value = isRest ? words.slice(index).join(' ') : words[index];
        if (value !== undefined && value !== '') values[argument.name] = value;
      });
      expect(lineOf(given(path, values))).toBe(example);
    }
  });
});

describe('completions while a person types', () => {
  test('offer agents by id and by name', () => {
    expect(choicesFor(given('floor grant', { agent: '' }, 'agent'), AGENTS)).toEqual([
      { value: 'dev', name: 'dev · dev' },
      { value: 'qa', name: 'qa · QA Bot' },
    ]);
    expect(choicesFor(given('floor grant', { agent: 'QA b' }, 'agent'), AGENTS).map(({ value }) => value)).toEqual([
      'qa',
    ]);
  });

  test('complete the last word of a list and keep the words before it', () => {
    const filled = given('floor order', { policy: 'round-robin', agents: 'dev q' }, 'agents');
    expect(choicesFor(filled, AGENTS)).toEqual([{ value: 'dev qa', name: 'dev qa · QA Bot' }]);
  });

  test('are at most 25, each at most 100 characters long', () => {
    const agents = Array.from({ length: 60 }, (_, index) => ({ id: `agent-${index}`, name: 'n'.repeat(200) }));
    const offered = choicesFor(given('floor add', { agent: 'agent' }, 'agent'), { agents });
    expect(offered).toHaveLength(25);
    expect(Math.max(...offered.map(({ name }) => name.length))).toBeLessThanOrEqual(100);
  });
});

describe('a server', () => {
  test('gets the slash commands once, and again only when its commands differ', async () => {
    const discord = await startDiscord();
    const { apiUrl, token, application: applicationId, guild } = discord;
    const calls = createCalls({ rest: createClient({ token, apiUrl }), clock: systemClock() });
    const at = { calls, applicationId, guild, channel: 'discord:1' };
    expect(await registerCommands(at)).toBe(true);
    expect(await registerCommands(at)).toBe(false);
    const route = Routes.applicationGuildCommands(applicationId, guild);
    await calls.tell({ method: 'put', route, channel: at.channel, what: 'commands', body: commandSet().slice(1) });
    expect(await registerCommands(at)).toBe(true);
    expect(discord.registered(discord.channel)).toHaveLength(commandSet().length);
    await discord.close();
  });
});
