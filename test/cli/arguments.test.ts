import { describe, expect, test } from 'vitest';
import { PROGRAM_COMMANDS, parseCall, usageText } from '../../src/cli/arguments.ts';
import { ctlCall, endSignal, operatorLine, replayed } from '../../src/cli/program-commands.ts';
import { VARIABLES } from '../../src/config/environment.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { callOf } from './call.ts';
import { lineWords, parseLine } from '../../src/turns/commands/parse.ts';

const CTL_USAGE = 'Usage: conch ctl [command...] [--channel <id>] [--json]';

describe('the command line', () => {
  test.each([
    [[], 'start', [], {}],
    [['start'], 'start', [], {}],
    [['ctl', 'floor', 'skip', '--json'], 'ctl [command...]', ['floor', 'skip'], { json: true }],
    [['replay'], 'replay [floor|session] [key]', [], { from: 1 }],
    [['replay', 'demo', '--from', '12'], 'replay [floor|session] [key]', ['demo'], { from: 12 }],
    [['backup', 'copy.db'], 'backup <file>', ['copy.db'], {}],
    [['restore', 'copy.db'], 'restore <file>', ['copy.db'], {}],
    [['verify'], 'verify [file]', [], { json: false, background: false }],
    [['verify', 'copy.db', '--json'], 'verify [file]', ['copy.db'], { json: true, background: false }],
    [['prune', '--dry-run'], 'prune', [], { dryRun: true }],
    [['erase', 'person', 'u1'], 'erase <person|message> <id>', ['person', 'u1'], {}],
    [['config', 'check'], 'config check', [], {}],
    [['schema'], 'schema', [], {}],
  ])('%j is parsed', (argv, command, words, options) => {
    expect(callOf(argv)).toMatchObject({ row: { command }, words, options });
  });

  test.each([[['--help']], [['-h']], [['help']]])('%j prints the help', (argv) => {
    expect(parseCall(argv)).toEqual({ ok: true, text: usageText() });
  });

  test('--version prints the version', () => {
    expect(parseCall(['--version'])).toEqual({ ok: true, text: expect.stringMatching(/^\d+\.\d+\.\d+/) });
  });

  test.each([
    [['ctl', 'floor', 'skip'], { line: 'floor skip', channel: null, json: false }],
    [['ctl', '/floor skip'], { line: '/floor skip', channel: null, json: false }],
    [
      ['ctl', 'floor', 'skip', '--channel', 'console:demo', '--json'],
      { line: 'floor skip', channel: 'console:demo', json: true },
    ],
    [['ctl', '--channel=a:b', 'stop'], { line: 'stop', channel: 'a:b', json: false }],
    [['ctl', 'review', 'status'], { line: 'review status', channel: null, json: false }],
    [['ctl', 'review', 'status', '--json'], { line: 'review status --json', channel: null, json: false }],
    [['ctl', 'review', 'export', '--json'], { line: 'review export', channel: null, json: true }],
    [['ctl'], { line: 'help', channel: null, json: false }],
    [['ctl', '--help'], { line: 'help', channel: null, json: false }],
  ])('%j sends a line to Conch', (argv, call) => {
    const { words, options } = callOf(argv);
    expect(ctlCall(words, options)).toEqual(call);
  });

  test.each([
    [[], { machine: 'floor', key: null }],
    [['console:demo'], { machine: 'floor', key: 'console:demo' }],
    [['floor', 'demo'], { machine: 'floor', key: 'demo' }],
    [['session', 'console:demo dev'], { machine: 'session', key: 'console:demo dev' }],
  ])('replay %j names a machine and a key', (words, journals) => {
    expect(replayed(words)).toEqual(journals);
  });

  test.each([
    [['strat'], "unknown command 'strat'\n(Did you mean start?)\nSee conch --help."],
    [['constructor'], "unknown command 'constructor'\nSee conch --help."],
    [['start', 'now'], "too many arguments for 'start'. Expected 0 arguments but got 1: now.\nUsage: conch start"],
    [['start', '--port', '1'], "unknown option '--port'\nUsage: conch start"],
    [['ctl', 'stop', '--chanel', 'a'], `unknown option '--chanel'\n(Did you mean --channel?)\n${CTL_USAGE}`],
    [['ctl', 'stop', '--channel'], `option '-c, --channel <id>' argument missing\n${CTL_USAGE}`],
    [
      ['replay', '--from', 'soon'],
      "option '--from <number>' argument 'soon' is invalid. Expected a number.\nUsage: conch replay [floor|session] [key] [--from <number>]",
    ],
    [['backup'], "missing required argument 'file'\nUsage: conch backup <file>"],
    [
      ['prune', 'all'],
      "too many arguments for 'prune'. Expected 0 arguments but got 1: all.\nUsage: conch prune [--dry-run]",
    ],
    [['erase', 'person'], "missing required argument 'id'\nUsage: conch erase <person|message> <id>"],
    [
      ['erase', 'u1', 'u2'],
      "command-argument value 'u1' is invalid for argument 'person|message'. Allowed choices are person, message.\nUsage: conch erase <person|message> <id>",
    ],
    [['config', 'chek'], "unknown command 'chek'\n(Did you mean check?)\nSee conch --help."],
  ])('%j is answered %j', (argv, message) => {
    expect(parseCall(argv)).toEqual({ ok: false, message: `error: ${message}` });
  });

  test('lists the subcommands when one is missing', () => {
    expect(parseCall(['config'])).toMatchObject({
      ok: false,
      message: expect.stringMatching(/Usage: conch config.*  check /s),
    });
    expect(parseCall(['config', '--help'])).toMatchObject({ ok: true, text: expect.stringContaining('check') });
  });

  test('explains the options of one command', () => {
    const help = { ok: true, text: expect.stringMatching(/Usage: conch verify .*\[file\].*--json  +print JSON/s) };
    expect(parseCall(['verify', '--help'])).toEqual(help);
    expect(parseCall(['help', 'verify'])).toEqual(help);
  });

  test('quotes a name with spaces in the line for Conch', () => {
    const line = operatorLine(['floor', 'grant', 'Dev Two']);
    expect(parseLine(line)).toMatchObject({ ok: true, invocation: { values: { agent: 'Dev Two' } } });
  });

  test('keeps an empty argument in the line for Conch', () => {
    expect(lineWords(operatorLine(['a', '', 'b']))).toEqual(['a', '', 'b']);
  });

  test('keeps the quotes of an argument in the line for Conch', () => {
    const line = operatorLine(['run', 'start', 'dev', 'say "one at a time" twice']);
    expect(parseLine(line)).toMatchObject({ ok: true, invocation: { values: { words: 'say "one at a time" twice' } } });
  });
});

describe('help', () => {
  test('T41 lists every command, every variable and every exit code', () => {
    const text = usageText();
    for (const { usage } of PROGRAM_COMMANDS) expect(text).toContain(`  ${usage}`);
    for (const { name } of VARIABLES) expect(text).toContain(`  ${name} `);
    for (const code of Object.values(EXIT_CODES)) expect(text).toMatch(new RegExp(`^ +${code} +\\w`, 'm'));
  });

  test('fits a terminal of 100 columns', () => {
    expect(
      usageText()
        .split('\n')
        .filter((line) => line.length > 100),
    ).toEqual([]);
  });
});

test('the first signal removes the listeners of other signals, so that a second one ends the program', () => {
  const before = process.listenerCount('SIGTERM');
  const ending = endSignal();
  process.emit('SIGINT');
  expect([ending.aborted, process.listenerCount('SIGTERM')]).toEqual([true, before]);
});
