import { describe, expect, test } from 'vitest';
import { COMMANDS } from '../../../src/turns/commands/command-table.ts';
import { completions, MAX_COMPLETIONS } from '../../../src/turns/commands/completions.ts';
import { parseLine } from '../../../src/turns/commands/parse.ts';

const KNOWN = {
  agents: [
    { id: 'pm', name: 'Product Manager' },
    { id: 'dev', name: 'Dev' },
    { id: 'qa one', name: 'Quality' },
  ],
  messages: [{ id: 'm2', summary: 'the second' }],
};

describe('an unfinished line', () => {
  test.each([
    [
      '/',
      [
        '/floor',
        '/agent',
        '/stop',
        '/allow',
        '/reject',
        '/answer',
        '/run',
        '/review',
        '/crew',
        '/queue',
        '/why',
        '/whoami',
        '/help',
      ],
    ],
    ['!w', ['!why', '!whoami']],
    ['fl', ['floor']],
    ['/floor s', ['/floor status', '/floor start', '/floor skip']],
    ['/floor grant ', ['/floor grant pm', '/floor grant dev', '/floor grant "qa one"']],
    ['/floor grant D', ['/floor grant dev']],
    ['/floor grant @d', ['/floor grant dev']],
    ['/floor grant prod', ['/floor grant pm']],
    ['/floor mode i', ['/floor mode inject', '/floor mode interrupt']],
    ['/floor order man', ['/floor order manual']],
    ['/floor order manual dev ', ['/floor order manual dev pm', '/floor order manual dev "qa one"']],
    ['/floor log ', ['/floor log 5', '/floor log 10', '/floor log 25', '/floor log 50']],
    ['/why ', ['/why m2']],
    ['/help fl', ['/help floor']],
    ['/help floor sk', ['/help floor skip']],
    ['/floor grant dev ', []],
    ['/xyzzy ', []],
    ['/stop ', []],
  ])('%j is completed to %j', (line, lines) => {
    expect(completions(line, KNOWN).map((each) => each.line)).toEqual(lines);
  });

  test('T7 offers the numbers and titles of open requests', () => {
    const requests = [8, 9].map((question) => ({ question: { question, title: 'rm -rf build' } }));
    expect(completions('/allow ', { ...KNOWN, requests })).toEqual([
      { value: '8', line: '/allow 8', summary: 'rm -rf build' },
      { value: '9', line: '/allow 9', summary: 'rm -rf build' },
    ]);
    expect(completions('!reject 7', { ...KNOWN, requests })).toEqual([]);
    expect(completions('/allow ', KNOWN)).toEqual([]);
  });

  test('shows at most 25 choices', () => {
    const agents = Array.from({ length: 100 }, (_, index) => ({ id: `a${index}`, name: `Agent ${index}` }));
    expect(completions('/floor grant ', { agents })).toHaveLength(MAX_COMPLETIONS);
  });

  test('completes the arguments of a command that is written by its alias', () => {
    const table = COMMANDS.map((row) => (row.path === 'floor grant' ? { ...row, alias: 'floor g' } : row));
    expect(completions('/floor g d', KNOWN, table).map(({ line }) => line)).toEqual(['/floor g dev']);
  });

  test('can be parsed after its completion', () => {
    for (const { line } of completions('/floor grant ', KNOWN)) expect(parseLine(line)).toMatchObject({ ok: true });
  });
});
