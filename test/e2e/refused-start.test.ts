import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { runConch } from '../kill/bot.ts';
import type { Place, Start } from '../kill/bot.ts';
import { CHANNEL, DEMO, STACK, inPlace, readyPage } from './demo.ts';
import { canMount, ownDisk } from './disk.ts';

/** Runs a start that must fail. Returns its exit code and the lines of its error. Fails on a stack trace. */
async function refused(place: Place, start: Start = {}) {
  const { code, err } = await runConch(place, start);
  expect(err).not.toMatch(STACK);
  return { code, lines: err.trim().split('\n') };
}

describe.concurrent('a wrong configuration', () => {
  test('is refused with all its problems, each with its line and its path', () =>
    inPlace(
      {
        ...DEMO,
        turnConfig: { defaultTimeoutSeconds: 'soon', humanInterruptMod: 'queue' },
        channels: [{ id: 'demo', agents: ['pm', 'ops'] }],
      },
      async (place) => {
        const { code, lines } = await refused(place);
        expect(code).toBe(EXIT_CODES.configuration);
        expect(lines[0]).toBe(`${place.configFile} has 4 problems:`);
        expect(lines.slice(1)).toEqual([
          expect.stringMatching(/^ {2}line 3: turnConfig\.defaultTimeoutSeconds: Expected a number, got "soon"/),
          expect.stringMatching(/^ {2}line 4: turnConfig\.humanInterruptMod: .*humanInterruptMode/),
          expect.stringMatching(/^ {2}line \d+: channels\[0\]\.id: /),
          expect.stringMatching(/^ {2}line \d+: channels\[0\]\.agents\[1\]: .*ops/),
        ]);
        expect(existsSync(place.dataDir)).toBe(false);
      },
    ));

  test('that is no JSON is refused with the line of the error', () =>
    inPlace('{\n  "turnConfig": {\n    "rounds": 2,,\n  }\n}', async (place) => {
      const { code, lines } = await refused(place);
      expect(code).toBe(EXIT_CODES.configuration);
      expect(lines.join('\n')).toMatch(/has 1 problem:\n {2}line 3: /);
    }));

  test('that does not exist is refused with what to do', () =>
    inPlace(DEMO, async (place) => {
      const { code, lines } = await refused(place, { env: { CONCH_CONFIG: join(place.dir, 'gone.json') } });
      expect(code).toBe(EXIT_CODES.configuration);
      expect(lines.join('\n')).toContain('correct CONCH_CONFIG');
    }));

  test('of an environment variable is refused with the expected value', () =>
    inPlace(DEMO, async (place) => {
      const { code, lines } = await refused(place, { env: { CONCH_PORT: 'seven' } });
      expect(code).toBe(EXIT_CODES.configuration);
      expect(lines.join('\n')).toContain('CONCH_PORT: Expected a port from 0 to 65535, got "seven"');
    }));
});

describe.concurrent('a command', () => {
  test('ends without an error when the reader of its output has ended', () =>
    inPlace(DEMO, async (_place, start) => {
      const bot = start({ argv: ['schema'] });
      bot.child.stdout?.destroy();
      expect(await bot.ended).toMatchObject({ code: EXIT_CODES.ok, signal: null });
      expect(bot.err()).toBe('');
    }));

  test('conch init writes the file of CONCH_CONFIG: an empty variable counts as unset, and .env applies', () =>
    inPlace(DEMO, async (place) => {
      const env = { CONCH_CONFIG: '' };
      const { code, err } = await runConch(place, { argv: ['init'], env });
      expect([code, err]).toEqual([EXIT_CODES.refused, expect.stringContaining(`${place.configFile} exists`)]);
      writeFileSync(join(place.dir, '.env'), 'CONCH_CONFIG=other.json\n');
      expect(await runConch(place, { argv: ['init'], env })).toMatchObject({ code: EXIT_CODES.ok });
      expect(existsSync(join(place.dir, 'other.json'))).toBe(true);
    }));
});

describe.concurrent('a database that cannot be used', () => {
  const damaged: readonly (readonly [string, (path: string) => void, RegExp])[] = [
    [
      'is no database',
      (path) => writeFileSync(path, 'no database at all, but quite long. '.repeat(300)),
      /is damaged .* restore the last backup/,
    ],
    [
      'belongs to another program',
      (path) => withDatabase(path, (db) => db.exec('CREATE TABLE notes (text)')),
      /is not a database of Conch/,
    ],
    [
      'was written by a newer Conch',
      (path) => withDatabase(path, (db) => db.exec('PRAGMA application_id = 1131376227; PRAGMA user_version = 900')),
      /newer Conch .*Update Conch/,
    ],
    [
      'was written before the first release',
      (path) => withDatabase(path, (db) => db.exec('CREATE TABLE floors (a); PRAGMA user_version = 12')),
      /before the first release .*set CONCH_DATA_DIR/,
    ],
  ];
  test.each(damaged)('because it %s is refused and left unchanged', (_why, damage, says) =>
    inPlace(DEMO, async (place) => {
      mkdirSync(place.dataDir);
      const path = join(place.dataDir, 'conch.db');
      damage(path);
      const before = readFileSync(path);
      const { code, lines } = await refused(place);
      expect(code).toBe(EXIT_CODES.databaseUnreadable);
      expect(lines).toEqual([expect.stringMatching(says)]);
      expect(lines[0]).toContain(path);
      expect(readFileSync(path).equals(before)).toBe(true);
    }),
  );

  test('because another program changed the row of an active floor is refused', () =>
    inPlace(DEMO, async (place, start) => {
      const bot = start();
      await bot.ready();
      await bot.end('SIGTERM');
      withDatabase(join(place.dataDir, 'conch.db'), (db) =>
        db.exec(`UPDATE machines SET rest = NULL, state = replace(state, '"epoch":0', '"epoch":7')`),
      );
      const { code, lines } = await refused(place);
      expect(code).toBe(EXIT_CODES.databaseUnreadable);
      expect(lines).toEqual([expect.stringMatching(/is damaged \(a stored state does not match its checksum\)/)]);
    }));
});

describe.concurrent('a start refused by another process', () => {
  test('names the port on which another program listens', () =>
    inPlace(DEMO, async (place) => {
      const other = createServer().listen(place.port, '127.0.0.1');
      const { code, lines } = await refused(place);
      other.close();
      expect(code).toBe(EXIT_CODES.portTaken);
      expect(lines).toEqual([expect.stringMatching(new RegExp(`^Port ${place.port} is taken: .* set CONCH_PORT`))]);
    }));

  test('ends the process when its port is taken, also with an open turn and a server for remote agents', () =>
    inPlace(
      { ...DEMO, agents: [...DEMO.agents, { id: 'scout', backend: { kind: 'remote' } }], remote: { port: 0 } },
      async (place, start) => {
        const first = start();
        const page = await readyPage(first);
        await page.say(CHANNEL, 'dev: slow');
        await page.until(() => page.view?.holder?.agent === 'dev', 'dev at work');
        page.close();
        await first.end('SIGKILL');
        const other = createServer().listen(place.port, '127.0.0.1');
        const again = start();
        const end = await Promise.race([again.ended, pause(20_000, null)]);
        other.close();
        expect(end).toMatchObject({ code: EXIT_CODES.portTaken });
        expect(again.err()).toContain(`Port ${place.port} is taken`);
      },
    ));

  test('names the database that a running Conch uses, and writes nothing', () =>
    inPlace(DEMO, async (place, start) => {
      const first = start();
      await first.ready();
      const before = fingerprint(place.dataDir);
      const { code, lines } = await refused(place, { env: { CONCH_PORT: '0' } });
      expect(code).toBe(EXIT_CODES.databaseLocked);
      expect(lines).toEqual([
        expect.stringMatching(/conch\.db is in use by another process\. Stop the other Conch first/),
      ]);
      expect(fingerprint(place.dataDir)).toEqual(before);
      expect(first.child.exitCode).toBe(null);
    }));
});

describe.concurrent('a folder that cannot be written', () => {
  test('because its parent is a file is named in the error', () =>
    inPlace(DEMO, async (place) => {
      const { code, lines } = await refused(place, { env: { CONCH_DATA_DIR: join(place.configFile, 'data') } });
      expect(code).toBe(EXIT_CODES.databaseUnreadable);
      expect(lines).toEqual([
        expect.stringMatching(/turnConfig\.json\/data\/conch\.db cannot be used \(ENOTDIR.* Check the folder/),
      ]);
    }));

  test.runIf(canMount())('because its file system is read-only is named in the error', () =>
    inPlace(DEMO, async (place) => {
      const { code, lines } = await refused(place, { command: ownDisk(place, 'size=1m,ro') });
      expect(code).toBe(EXIT_CODES.diskFull);
      expect(lines).toEqual([
        expect.stringMatching(/data\/conch\.db cannot be written \(.*\)\. Give this user write access/),
      ]);
    }),
  );

  test.runIf(canMount())('because its disk is full is named in the error', () =>
    inPlace(DEMO, async (place) => {
      const { code, lines } = await refused(place, { command: ownDisk(place, 'size=16k') });
      expect(code).toBe(EXIT_CODES.diskFull);
      expect(lines).toEqual([expect.stringMatching(/The disk that holds .*conch\.db is full .* free some space/)]);
    }),
  );
});

describe.concurrent('a Node older than Conch supports', () => {
  const old = ['/usr/bin/node', '/usr/local/bin/node'].find(isOld) ?? null;
  test.runIf(old !== null)('is refused with the required version', () =>
    inPlace(DEMO, async (place) => {
      const { code, lines } = await refused(place, { command: [old ?? ''] });
      expect(code).toBe(EXIT_CODES.oldNode);
      expect(lines).toEqual([expect.stringMatching(/^Conch needs Node 22\.18 or newer, found \d+\./)]);
    }),
  );
});

function withDatabase(path: string, use: (db: Database.Database) => void): void {
  const db = new Database(path);
  use(db);
  db.close();
}

function fingerprint(dir: string): readonly string[] {
  return readdirSync(dir)
    .sort()
    .map(
      (file) =>
        `${file} ${createHash('sha256')
          .update(readFileSync(join(dir, file)))
          .digest('hex')}`,
    );
}

function isOld(node: string): boolean {
  const version = /^v(\d+)\./.exec(spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout ?? '')?.[1];
  return version !== undefined && Number(version) < 22;
}
