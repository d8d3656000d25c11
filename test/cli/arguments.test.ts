import { describe, expect, test } from 'vitest';
import { operatorLine, parseCall } from '../../src/cli/arguments.ts';
import { VARIABLES } from '../../src/config/environment.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { usageText, VERBS } from '../../src/cli/help.ts';
import { parseLine } from '../../src/turns/commands/parse.ts';

describe('the command line', () => {
  test.each([
    [[], { verb: 'start' }],
    [['start'], { verb: 'start' }],
    [['--help'], { verb: 'help' }],
    [['-h'], { verb: 'help' }],
    [['start', '--help'], { verb: 'help' }],
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
    [['strat'], 'There is no command "strat". Did you mean "start"? See conch --help.'],
    [['constructor'], 'There is no command "constructor". See conch --help.'],
    [['start', 'now'], 'Expected nothing after "now". Usage: conch start'],
    [['start', '--port', '1'], 'There is no option "--port" here. Usage: conch start'],
    [
      ['ctl', 'stop', '--chanel', 'a'],
      'There is no option "--chanel" here. Did you mean "--channel"? Usage: conch ctl <command…> [--channel id] [--json]',
    ],
    [
      ['ctl', 'stop', '--channel'],
      'Expected a value after --channel. Usage: conch ctl <command…> [--channel id] [--json]',
    ],
    [
      ['replay', '--from', 'soon'],
      'Expected a number after --from, got "soon". Usage: conch replay [floor|session] [key] [--from seq]',
    ],
    [['backup'], 'Expected a file. Usage: conch backup <file>'],
    [['prune', 'all'], 'Expected nothing after "all". Usage: conch prune [--dry-run]'],
    [['erase', 'u1'], 'Expected whose words, and an id. Usage: conch erase <person|message> <id>'],
    [['config'], 'Expected "check" after config. Usage: conch config check'],
    [['config', 'chek'], 'Expected "check" after config. Usage: conch config check'],
  ])('%j is answered %j', (argv, message) => {
    expect(parseCall(argv)).toEqual({ ok: false, message });
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
    for (const verb of Object.values(VERBS)) expect(text).toContain(verb.usage);
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
