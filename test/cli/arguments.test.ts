import { describe, expect, test } from 'vitest';
import { PROGRAM_COMMANDS, operatorLine, parseCall, usageText } from '../../src/cli/arguments.ts';
import { VARIABLES } from '../../src/config/environment.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { parseLine } from '../../src/turns/commands/parse.ts';

const CTL_USAGE = 'Usage: conch ctl [command...] [--channel <id>] [--json]';

describe('the command line', () => {
  test.each([
    [[], { verb: 'start' }],
    [['start'], { verb: 'start' }],
    [['--help'], { verb: 'help', text: usageText() }],
    [['-h'], { verb: 'help', text: usageText() }],
    [['help'], { verb: 'help', text: usageText() }],
    [['--version'], { verb: 'version' }],
    [['ctl', 'floor', 'skip'], { verb: 'ctl', line: 'floor skip', channel: null, json: false }],
    [['ctl', '/floor skip'], { verb: 'ctl', line: '/floor skip', channel: null, json: false }],
    [
      ['ctl', 'floor', 'skip', '--channel', 'console:demo', '--json'],
      { verb: 'ctl', line: 'floor skip', channel: 'console:demo', json: true },
    ],
    [['ctl', '--channel=a:b', 'stop'], { verb: 'ctl', line: 'stop', channel: 'a:b', json: false }],
    [['ctl'], { verb: 'ctl', line: 'help', channel: null, json: false }],
    [['ctl', '--help'], { verb: 'ctl', line: 'help', channel: null, json: false }],
    [['replay'], { verb: 'replay', machine: 'floor', key: null, from: 1 }],
    [['replay', 'console:demo', '--from', '12'], { verb: 'replay', machine: 'floor', key: 'console:demo', from: 12 }],
    [['replay', 'floor', 'demo'], { verb: 'replay', machine: 'floor', key: 'demo', from: 1 }],
    [
      ['replay', 'session', 'console:demo dev'],
      { verb: 'replay', machine: 'session', key: 'console:demo dev', from: 1 },
    ],
    [['backup', 'copy.db'], { verb: 'backup', file: 'copy.db' }],
    [['restore', 'copy.db'], { verb: 'restore', file: 'copy.db' }],
    [['verify'], { verb: 'verify', file: null, json: false, background: false }],
    [['verify', 'copy.db', '--json'], { verb: 'verify', file: 'copy.db', json: true, background: false }],
    [['prune', '--dry-run'], { verb: 'prune', isDryRun: true }],
    [['erase', 'person', 'u1'], { verb: 'erase', what: 'person', id: 'u1' }],
    [['config', 'check'], { verb: 'config check' }],
    [['schema'], { verb: 'schema' }],
  ])('%j is understood', (argv, call) => {
    expect(parseCall(argv)).toEqual({ ok: true, call });
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
    expect(parseCall(['config', '--help'])).toMatchObject({ ok: true, call: { verb: 'help' } });
  });

  test('explains the options of one command', () => {
    const help = { verb: 'help', text: expect.stringMatching(/Usage: conch verify .*\[file\].*--json  +print JSON/s) };
    expect(parseCall(['verify', '--help'])).toEqual({ ok: true, call: help });
    expect(parseCall(['help', 'verify'])).toEqual({ ok: true, call: help });
  });

  test('keeps a name with spaces together on its way to the bot', () => {
    const line = operatorLine(['floor', 'grant', 'Dev Two']);
    expect(parseLine(line)).toMatchObject({ ok: true, invocation: { values: { agent: 'Dev Two' } } });
  });

  test('keeps the quotes that somebody wrote on their way to the bot', () => {
    const line = operatorLine(['run', 'start', 'dev', 'say "one at a time" twice']);
    expect(parseLine(line)).toMatchObject({ ok: true, invocation: { values: { words: 'say "one at a time" twice' } } });
  });
});

describe('help', () => {
  test('T41 names every command, every variable and every exit code', () => {
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
