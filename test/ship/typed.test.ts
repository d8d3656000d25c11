import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { packAll, packConch } from '../../ship/packed.ts';
import { ROOT } from '../../ship/stage.ts';
import { PARTS } from '../../src/config/parts.ts';
import { installCommand } from '../../src/lib/installation.ts';
import { freePort } from '../kill/bot.ts';
import { startDemo } from './demo.ts';
import { emptyProject, forgetRuns } from './npm.ts';

/** Installing packages takes minutes on a slow network. */
const LIMIT_MS = 900_000;
/** Commands for a clone. The tests make the packages as `npm run pack` does. */
const IN_A_CLONE = ['npm install', 'npm run pack'];
/** Lines that start Conch and run until it is stopped. */
const STARTS = /(?:npx|\.tgz) conch$/;

let dir: string;
let files: readonly string[];

beforeAll(async () => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'conch-typed-')));
  const [conch, agent] = await packAll({ out: dir, version: '0.1.0', rebuilds: false });
  const next = await packConch({ out: dir, version: '0.1.1', rebuilds: false });
  files = [conch.file, agent.file, next.file];
});

afterAll(() => {
  forgetRuns(dir);
  rmSync(dir, { recursive: true, force: true });
});

/** The tests need a registry with the dependencies. */
const hasRegistry = spawnSync('npm', ['view', 'zod', 'version'], { timeout: LIMIT_MS }).status === 0;
if (!hasRegistry) process.stderr.write('What the docs tell to type is not typed: no registry of packages answers.\n');

describe.skipIf(!hasRegistry)('a person who types the commands of the docs', { timeout: LIMIT_MS }, () => {
  test('gets the demo, an installation and an update from the Start of the README', async () => {
    const lines = linesOf(sectionOf('README.md', 'Start'));
    expect(lines).toHaveLength(3);
    await typeAll(lines, 'readme');
  });

  test('succeeds with every command about the package in docs/install.md', async () => {
    const text = ['Package', 'Update', 'Behind a proxy'].map((title) => sectionOf('docs/install.md', title)).join('\n');
    const lines = linesOf(text);
    expect(lines.slice(0, 2)).toEqual(IN_A_CLONE);
    expect(lines.length).toBeGreaterThan(9);
    await typeAll(lines.slice(2), 'install');
  });
});

test('docs/install.md names the packages of every part', () => {
  const text = sectionOf('docs/install.md', 'Package');
  const here = { folder: ROOT, kind: 'project' } as const;
  for (const { packages } of Object.values(PARTS)) {
    const typed = /`(npm install [^`]+)`/g;
    const commands = [...text.matchAll(typed)].map(([, command = '']) => command);
    const names = commands.find((command) => command.includes(`${packages[0]}@`))?.replaceAll(/(\w)@\d+/g, '$1');
    expect(names).toBe(installCommand(packages, here));
  }
});

/** Environment variables through which npm reaches its registry on this machine. */
const NETWORK = [
  'NODE_EXTRA_CA_CERTS',
  'HTTPS_PROXY',
  'HTTP_PROXY',
  'NO_PROXY',
  'https_proxy',
  'http_proxy',
  'no_proxy',
];

/** Runs lines in a folder with the packed files, one after the other. Stops a line that starts Conch by Ctrl+C. */
async function typeAll(lines: readonly string[], name: string): Promise<void> {
  const folder = emptyProject(join(dir, name));
  for (const file of files) copyFileSync(file, join(folder, basename(file)));
  const network = Object.fromEntries(NETWORK.flatMap((key) => (process.env[key] ? [[key, process.env[key]]] : [])));
  const env = { npm_config_prefer_offline: 'true', npm_config_yes: 'true', CI: '1', ...network };
  for (const line of lines) {
    if (line.includes('conch init --')) rmSync(join(folder, 'turnConfig.json'), { force: true });
    if (STARTS.test(line)) {
      const demo = await startDemo(folder, ['sh', '-c', line], env);
      await demo.stop();
      continue;
    }
    const { PATH = '', HOME = '' } = process.env;
    const options = { cwd: folder, env: { PATH, HOME, CONCH_PORT: String(await freePort()), ...env } };
    const { status, stdout, stderr } = spawnSync('sh', ['-c', line], {
      ...options,
      encoding: 'utf8',
      timeout: LIMIT_MS,
    });
    expect(status, `${line}\n${stdout}\n${stderr}`).toBe(0);
    // A configuration for Discord cannot start without a token.
    if (line.includes('conch init --')) rmSync(join(folder, 'turnConfig.json'));
  }
}

/** The text of a section of a page, up to the next section of its level. */
function sectionOf(page: string, title: string): string {
  const text = readFileSync(join(ROOT, page), 'utf8');
  const found = text.split(/^## /m).find((section) => section.startsWith(`${title}\n`));
  if (found === undefined) throw new Error(`${page} has no section "${title}"`);
  return found;
}

/** The commands of the shell blocks of a text, without comments. */
function linesOf(text: string): readonly string[] {
  return Array.from(text.matchAll(/^```sh\n([\s\S]*?)^```/gm), ([, body = '']) => body.split('\n'))
    .flat()
    .map((line) => line.replace(/\s+#.*$/, '').trim())
    .filter((line) => line !== '');
}
