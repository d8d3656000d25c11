import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseCall } from '../../src/cli/arguments.ts';

const ROOT = new URL('../..', import.meta.url).pathname;
const PAGE = readFileSync(join(ROOT, 'docs/install.md'), 'utf8');

/** All commands of the two sections: lines of their blocks, and code in their texts. */
const COMMANDS = ['Image', 'Service'].flatMap((name) => {
  const section = PAGE.split(`\n## ${name}\n`)[1]?.split('\n## ')[0] ?? '';
  const blocks = Array.from(section.matchAll(/^```sh\n([\s\S]*?)^```/gm), ([, body = '']) => body.trim().split('\n'));
  const inline = Array.from(
    section.matchAll(/`((?:sudo |conch |docker |npm |chown |loginctl )[^`\n]+)`/g),
    ([, body = '']) => body,
  );
  return [...blocks.flat(), ...inline];
});
const SERVICE = COMMANDS.filter((command) => /^(?:sudo )?conch service /.test(command));
const DOCKER = COMMANDS.filter((command) => command.startsWith('docker '));

/** Runs a command of Conch in an empty folder. */
function typed(words: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'conch-typed-'));
  try {
    const command = [join(ROOT, 'src/conch.js'), ...words];
    const { status, stdout, stderr } = spawnSync(process.execPath, command, { cwd: folder, encoding: 'utf8' });
    return { status, stdout, stderr, files: readdirSync(folder) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test('each command of the sections is run here, in the test of the image, or in the tests of the service', () => {
  const others = COMMANDS.filter((each) => !SERVICE.includes(each) && !DOCKER.includes(each));
  expect(others).toEqual([
    'npm run pack',
    'npm run bundle -- dist/packages/conch-0.1.0.tgz',
    'chown -R 10001:10001 /srv/conch-data',
    'conch doctor',
    'loginctl enable-linger',
  ]);
  expect([SERVICE.length, DOCKER.length]).toEqual([9, 3]);
});

describe('conch service', () => {
  test.each(SERVICE)('understands "%s"', (command) => {
    expect(parseCall(command.replace('sudo ', '').split(' ').slice(1))).toMatchObject({ ok: true });
  });

  // Only prints: a test must not install anything on its machine.
  test.each(SERVICE.filter((command) => command.includes(' install')))('prints the unit of "%s"', (command) => {
    const words = command.replace('sudo ', '').replace(' --print', '').split(' ').slice(1);
    const { status, stdout, stderr, files } = typed([...words, '--print']);
    expect([status, stderr, files]).toEqual([0, '', []]);
    expect(stdout).toMatch(/^\[Service\]\nType=notify\n[\s\S]*^ExecStart=.*conch\.js start$/m);
    for (const [option, line] of Object.entries(LINES)) expect(stdout.includes(line)).toBe(words.includes(option));
  });
});

/** The lines that each option adds to the unit. */
const LINES: Readonly<Record<string, string>> = {
  '--system': '\nWantedBy=multi-user.target\n',
  '--run-as': '\nUser=daemon\n',
  '--writable': ' /srv /home\n',
  '--allow-sandbox': '\nSystemCallFilter=@system-service @mount\n',
};

describe('docker', () => {
  test('builds from the folder that npm run bundle makes', () => {
    expect(DOCKER[0]).toBe('docker build --network=none --tag conch dist/image');
  });

  test.each(DOCKER)('names existing files in "%s"', (command) => {
    const files = Array.from(command.matchAll(/--file (\S+)/g), ([, file = '']) => file);
    expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
  });

  const hasDaemon = spawnSync('docker', ['info']).status === 0;
  test.runIf(hasDaemon)('has no complaint about the Dockerfile', () => {
    const { status, stdout, stderr } = spawnSync('docker', ['build', '--check', 'ship'], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    expect([status, `${stdout}${stderr}`]).toEqual([0, expect.not.stringContaining('WARNING')]);
  });
});
