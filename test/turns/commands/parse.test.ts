import { assert, property, string } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseLine, usage, lineWords } from '../../../src/turns/commands/parse.ts';
import type { Parsed } from '../../../src/turns/commands/parse.ts';
import { COMMAND_WORDS, COMMANDS } from '../../../src/turns/commands/command-table.ts';

describe('the command table', () => {
  test.each(COMMANDS)('$path is parsed from its own example', (row) => {
    expect(parseLine(row.example)).toMatchObject({ ok: true, invocation: { path: row.path, needs: row.needs } });
  });

  test.each(COMMANDS)('$path has an example that begins with its own name', (row) => {
    expect(row.example.startsWith(`/${row.path}`)).toBe(true);
  });

  test.each(COMMANDS)('$path names every argument in its usage', (row) => {
    for (const argument of row.arguments) expect(usage(row)).toContain(argument.name);
  });

  test('lists each command once', () => {
    expect(new Set(COMMANDS.map((row) => row.path)).size).toBe(COMMANDS.length);
  });

  test('has at most one argument of each kind, except rest arguments', () => {
    const doubled = COMMANDS.filter((row) => {
      const single = row.arguments.filter((each) => !('rest' in each)).map((each) => each.kind);
      return new Set(single).size !== single.length;
    });
    expect(doubled).toEqual([]);
  });

  test('has the commands of these groups', () => {
    expect(COMMAND_WORDS).toEqual([
      'floor',
      'agent',
      'stop',
      'allow',
      'reject',
      'answer',
      'run',
      'review',
      'crew',
      'queue',
      'why',
      'whoami',
      'help',
    ]);
  });
});

test('a command is found by its alias', () => {
  expect(parseLine('/crew d')).toMatchObject({ ok: true, invocation: { path: 'crew dashboard', needs: 'read' } });
  expect(parseLine('/crew D x')).toMatchObject({ ok: false });
  expect(new Set(COMMANDS.flatMap((row) => ('alias' in row ? [row.path, row.alias] : row.path))).size).toBe(
    COMMANDS.length + 1,
  );
});

describe('a line', () => {
  test.each(['/floor skip', '!floor skip', 'floor skip', '  /FLOOR   Skip  ', '/ floor skip'])('%j is skip', (line) => {
    expect(parseLine(line)).toEqual({
      ok: true,
      invocation: { path: 'floor skip', needs: 'operate', values: {} },
    });
  });

  test.each([
    '/stop now',
    '!STOP!!',
    'stop, please',
    '!stop "that',
    '!stop\nall of you',
    `/stop ${'now '.repeat(1_000)}`,
  ])('T20 %j stops, with any text after the word', (line) => {
    expect(parseLine(line)).toEqual({ ok: true, invocation: { path: 'stop', needs: 'operate', values: {} } });
  });

  test('removes the "@" of an agent', () => {
    expect(valuesOf('/floor grant @dev')).toEqual({ agent: 'dev' });
  });

  test('keeps a quoted agent with a space together', () => {
    expect(valuesOf('/floor grant "Dev Two"')).toEqual({ agent: 'Dev Two' });
  });

  test.each([
    ['steer', 'inject'],
    ['followup', 'queue'],
    ['collect', 'queue'],
    ['concurrent', 'parallel'],
    ['INTERRUPT', 'interrupt'],
  ])('accepts the mode %s as %s', (word, mode) => {
    expect(valuesOf(`/floor mode ${word}`)).toEqual({ mode });
  });

  test.each([
    ['90', 90],
    ['90s', 90],
    ['2m', 120],
    ['1', 1],
    ['86400', 86_400],
  ])('reads %s as %d seconds', (word, seconds) => {
    expect(valuesOf(`/floor extend ${word}`)).toEqual({ seconds });
  });

  test.each(['0', '-5', '86401', 'soon', '1.5', '1e3', '99999999999999999999'])('refuses %s as seconds', (word) => {
    expect(messageOf(`/floor extend ${word}`)).toBe(
      `Expected seconds from 1 to 86400 (120, 120s or 2m), got "${word}".`,
    );
  });

  test.each([
    ['/run continue', {}],
    ['/run continue dev+', { agent: 'dev+' }],
    ['/run continue 20', { count: 20 }],
    ['/run continue 200 dev', { count: 200, agent: 'dev' }],
    ['/run log 5', { count: 5 }],
    ['/run log dev 5', { agent: 'dev', count: 5 }],
  ])('distinguishes the number from the agent in %s, even if one is missing', (line, values) => {
    expect(valuesOf(line)).toEqual(values);
  });

  test('accepts an order and any number of agents', () => {
    expect(valuesOf('/floor order priority dev @qa pm')).toEqual({ order: 'priority', agents: ['dev', 'qa', 'pm'] });
  });

  test('accepts a whole command after help', () => {
    expect(valuesOf('/help /floor skip')).toEqual({ command: 'floor skip' });
  });

  test('needs no operator when mode or order has no argument', () => {
    expect(needsOf('/floor mode')).toBe('read');
    expect(needsOf('/floor order')).toBe('read');
    expect(needsOf('/floor mode queue')).toBe('operate');
    expect(needsOf('/floor order manual')).toBe('operate');
  });
});

describe('a line that cannot be parsed', () => {
  test.each([
    ['', 'Expected a command. /help shows them all.'],
    ['/', 'Expected a command. /help shows them all.'],
    ['/flor skip', 'There is no command "flor". Did you mean "floor"? /help shows them all.'],
    ['skip', 'There is no command "skip". Did you mean "floor skip"? /help shows them all.'],
    ['/stopp', 'There is no command "stopp". Did you mean "stop"? /help shows them all.'],
    ['/xyzzy', 'There is no command "xyzzy". /help shows them all.'],
    [
      '/floor skp',
      'Expected one of status, start, grant, skip, extend, pause, resume, order, mode, add, remove, log after /floor, got "skp". Did you mean "skip"?',
    ],
    ['/agent', 'Expected one of list, status, enable, disable, restart, trust, distrust after /agent.'],
    ['/floor grant', 'Expected an agent: /floor grant <agent>, for example /floor grant dev'],
    ['/why', 'Expected a message: /why <message>, for example /why 1234567890'],
    ['/floor mode qeue', 'Expected one of inject, queue, interrupt, parallel, got "qeue". Did you mean "queue"?'],
    [
      '/floor order rond-robin',
      'Expected one of round-robin, priority, manual, mention, facilitator, review, got "rond-robin". Did you mean "round-robin"?',
    ],
    ['/floor log 51', 'Expected a number from 1 to 50, got "51".'],
    ['/run continue 201', 'Expected a number from 1 to 200, got "201".'],
    ['/run continue dev 5', 'Expected nothing after "5": /run continue [steps] [agent]'],
    ['/floor pause 5', 'Expected nothing after "5": /floor pause'],
  ])('%j is answered %j', (line, message) => {
    expect(parseLine(line)).toEqual({ ok: false, message });
  });

  test('is quoted shortened, on one line and without mentions', () => {
    const message = messageOf(`/@everyone<!channel>\u202e${'x'.repeat(500)}`);
    expect(message).not.toMatch(/[@<>\u202e]/u);
    expect(message.length).toBeLessThan(120);
  });

  test('is refused when it is a megabyte long', () => {
    expect(messageOf('x'.repeat(1_000_000))).toBe('That line is too long: a command has at most 2000 characters.');
  });

  test('never throws, for any text', () => {
    const understood = property(string({ unit: 'binary', maxLength: 200 }), (line) => 'ok' in parseLine(line));
    expect(() => assert(understood)).not.toThrow();
  });

  test('is no command when it is a property name of objects', () => {
    expect(parseLine('/constructor').ok).toBe(false);
    expect(parseLine('/floor __proto__').ok).toBe(false);
  });
});

describe('words', () => {
  test.each([
    ['/reject 8 use  "b.txt"\nand c', 'use  "b.txt"\nand c'],
    ['/reject "8" "two words"', 'two words'],
    ['!reject 8 why', 'why'],
    ['/reject 8 "a" "b', '"a" "b'],
  ])('at the end of a line keep their white space and quotes: %s', (line, words) => {
    expect(valuesOf(line)).toEqual({ question: 8, words });
  });

  test('are separated by white space, except in quotes', () => {
    expect(lineWords('a  "b c"\td\n"e')).toEqual(['a', 'b c', 'd', 'e']);
  });
});

function valuesOf(line: string): unknown {
  return invocationOf(line).invocation.values;
}

function needsOf(line: string): unknown {
  return invocationOf(line).invocation.needs;
}

function invocationOf(line: string): Extract<Parsed, { ok: true }> {
  const parsed = parseLine(line);
  if (!parsed.ok) throw new Error(parsed.message);
  return parsed;
}

function messageOf(line: string): string {
  const parsed = parseLine(line);
  if (parsed.ok) throw new Error(`understood: ${line}`);
  return parsed.message;
}
