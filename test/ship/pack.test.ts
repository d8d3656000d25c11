import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { packConch } from '../../ship/packed.ts';
import type { PackedFile } from '../../ship/packed.ts';
import { PARTS } from '../../src/config/parts.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { CHANNEL, openPage } from '../e2e/demo.ts';
import { clearPlace, makePlace, runConch, startBot } from '../kill/bot.ts';
import type { Place } from '../kill/bot.ts';
import { manifestOf, unpack } from './unpacked.ts';

let dir: string;
let packed: PackedFile;
let folder: string;
let program: string;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'conch-packed-'));
  packed = await packConch({ out: dir, version: '7.8.9', rebuilds: false });
  folder = unpack(packed.file, dir);
  program = join(folder, 'src/conch.js');
});

afterAll(() => rmSync(dir, { recursive: true, force: true }));

describe('the package conch', () => {
  test('has exactly the program, the page and the docs', () => {
    const { files } = packed;
    for (const file of [
      'src/conch.js',
      'src/main.js',
      'src/lib/git-runner.js',
      'dist/console/index.html.br',
      'dist/console/licenses.md',
    ])
      expect(files).toContain(file);
    for (const file of ['src/engine/sqlite/migrations/001-first.sql', 'src/engine/postgres/schema.sql', 'LICENSE'])
      expect(files).toContain(file);
    expect(files).toContain('docs/discord.md');
    expect(files.filter((file) => /\.tsx?$|^test|^node_modules|\.map$|\.png$|vite|bridge/.test(file))).toEqual([]);
    expect(packed.packedKB).toBeLessThan(3_000);
  });

  test('depends on the imports of its program, without build tools and libraries of the page', () => {
    const { dependencies, peerDependencies, ...manifest } = manifestOf(folder);
    expect(manifest).toMatchObject({ name: 'conch', version: '7.8.9', bin: { conch: 'src/conch.js' } });
    const names = Object.keys(dependencies);
    expect(names).toEqual(expect.arrayContaining(['better-sqlite3', 'ws', 'zod']));
    expect(names.filter((name) => /vite|preact|marked|lowlight|highlight|discord|slack|^ai$/.test(name))).toEqual([]);
    const optional = Object.values(PARTS).flatMap(({ packages }) => packages);
    expect(Object.keys(peerDependencies)).toEqual(optional.toSorted());
  });

  test('names no file of the source at run time', () => {
    const texts = packed.files
      .filter((file) => file.endsWith('.js') && file.startsWith('src/'))
      .filter((file) => /['"`][^'"`\s]*\w\.tsx?['"`]/.test(readFileSync(join(folder, file), 'utf8')));
    expect(texts).toEqual([]);
  });
});

describe('the packed program', () => {
  test('answers with its version and its commands', async () => {
    await inEmptyPlace(async (place) => {
      expect((await runConch(place, { program, argv: ['--version'] })).out.trim()).toBe('7.8.9');
      expect((await runConch(place, { program, argv: ['init', '--help'] })).code).toBe(EXIT_CODES.ok);
    });
  });

  test('runs the demo with a tool call without any optional package', async () => {
    const place = await makePlace({ log: { pretty: false } });
    const bot = startBot(place, { program });
    try {
      await bot.ready();
      expect((await fetch(`http://127.0.0.1:${place.port}/`)).status).toBe(200);
      const page = await openPage(bot);
      const id = await page.say(CHANNEL, 'dev: read the note');
      await page.until(() => page.messages.get(id)?.receipts.includes('done') === true, 'the receipt');
      page.close();
      expect(bot.out()).toContain('Print another one with: conch open');
      expect((await bot.end('SIGTERM')).code).toBe(EXIT_CODES.ok);
      expect((await runConch(place, { program, argv: ['verify'] })).code).toBe(EXIT_CODES.ok);
      expect((await runConch(place, { program, argv: ['audit'] })).out).toMatch(/read_file.*complete/);
    } finally {
      await bot.end('SIGKILL');
      clearPlace(place);
    }
  });

  test('names the packages that a configured part needs, with the command to install them', async () => {
    await inEmptyPlace(async (place) => {
      const init = ['init', '--platform', 'discord', '--channel', '123456789012345678', '--agents', 'codex'];
      const { out } = await runConch(place, { program, argv: init });
      const command = /: (npm install .*)/.exec(out)?.[1] ?? '';
      expect(command).toBe('npm install --global discord.js@14 @discordjs/ws@1 @agentclientprotocol/sdk@2');
      const env = { DISCORD_TOKEN: 'a-token' };
      const start = await runConch(place, { program, argv: ['start'], env });
      expect(start.code).toBe(EXIT_CODES.configuration);
      expect(start.err).toContain('Discord needs discord.js, @discordjs/ws, which are not installed. Run: npm install');
      const doctor = await runConch(place, { program, argv: ['doctor'], env });
      expect(doctor.code).toBe(EXIT_CODES.configuration);
      expect(doctor.out).toContain('✗ packages: Discord needs discord.js, @discordjs/ws, not installed');
      const manifest = await runConch(place, { program, argv: ['slack', 'manifest'], env });
      expect([manifest.code, manifest.err]).toEqual([
        EXIT_CODES.configuration,
        expect.stringContaining('@slack/web-api'),
      ]);
    });
  });

  test('runs the scripted demo when the environment names a model whose packages are missing', async () => {
    await inEmptyPlace(async (place) => {
      const env = { OPENAI_API_KEY: 'a-key', CONCH_CONFIG: '' };
      const { code, err } = await runConch(place, { program, argv: ['config', 'check'], env });
      expect([code, err]).toEqual([
        EXIT_CODES.ok,
        expect.stringContaining('the agents of the demo play their scripts'),
      ]);
    });
  });
});

/** Runs `use` in a place without a configuration file. */
async function inEmptyPlace(use: (place: Place) => Promise<void>): Promise<void> {
  const place = await makePlace('');
  rmSync(place.configFile);
  try {
    await use(place);
  } finally {
    clearPlace(place);
  }
}
