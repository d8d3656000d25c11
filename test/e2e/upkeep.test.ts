import { existsSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { runConch } from '../kill/bot.ts';
import type { Place } from '../kill/bot.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { Bound } from '../work/runs/bound.ts';
import { CHANNEL, DEMO, STACK, inPlace, readyPage } from './demo.ts';

const KEPT = { ...DEMO, retention: { days: 1 } };

async function conch(place: Place, ...argv: readonly string[]) {
  const done = await runConch(place, { argv });
  expect(done.err).not.toMatch(STACK);
  return done;
}

/** Makes all console messages two days older. */
function age(place: Place): void {
  const db = new Database(join(place.dataDir, 'conch.db'));
  db.exec('UPDATE conversation SET sent_at = sent_at - 172800000');
  db.close();
}

describe('the database of a Conch', () => {
  test('can be verified, backed up, erased from and pruned while Conch runs, and restored after its end', () =>
    inPlace(KEPT, async (place, start) => {
      const bot = start();
      const page = await readyPage(bot);
      const id = await page.say(CHANNEL, 'pm: my number is 5551234');
      await page.until(() => page.texts('agent').length > 0, 'an answer');
      await page.until(() => page.view?.condition === 'resting', 'the end of the exchange');

      expect(await conch(place, 'verify')).toMatchObject({ code: 0, out: expect.stringMatching(/^✓ .* is intact/) });
      const copy = join(place.dir, 'copy.db');
      expect((await conch(place, 'backup', copy)).code).toBe(0);
      expect((await conch(place, 'verify', copy)).code).toBe(0);
      expect((await conch(place, 'restore', copy)).code).toBe(EXIT_CODES.databaseLocked);

      const erased = await conch(place, 'erase', 'message', id);
      expect(erased).toMatchObject({ code: 0, out: expect.stringContaining('Erased the texts of 1 messages') });
      expect(await conch(place, 'erase', 'message', 'nothing')).toMatchObject({
        code: 0,
        out: 'Nothing of nothing is on record.\n',
      });
      for (const name of ['conch.db', 'conch.db-wal'])
        expect(readFileSync(join(place.dataDir, name)).includes('my number is 5551234')).toBe(false);
      expect((await conch(place, 'prune', '--dry-run')).out).toContain('Nothing is older');
      expect(await conch(place, 'verify')).toMatchObject({ code: 0 });

      page.close();
      expect(await bot.end('SIGTERM')).toMatchObject({ code: 0 });
      expect((await conch(place, 'restore', copy)).out).toContain('turn numbers jump ahead');
      expect((await conch(place, 'verify')).code).toBe(0);
    }));

  test('that lost its last commits is refused by a start, and the command that the error names repairs it', () =>
    inPlace(DEMO, async (place, start) => {
      const bot = start();
      const page = await readyPage(bot);
      await page.say(CHANNEL, 'pm: Hello!');
      await page.until(() => page.texts('agent').length > 0, 'an answer');
      page.close();
      await bot.end('SIGKILL');
      rmSync(join(place.dataDir, 'conch.db-wal'));
      const refused = await conch(place, 'start');
      expect(refused.code).toBe(EXIT_CODES.databaseUnreadable);
      const way = /conch (restore \S+)$/.exec(refused.err.trim())?.[1] ?? '';
      expect((await conch(place, ...way.split(' '))).code).toBe(0);
      const again = start();
      await again.ready();
      expect(await again.end('SIGTERM')).toMatchObject({ code: 0 });
    }));
});

test('conch prune deletes console messages older than the retention, and keeps the inbox', () =>
  inPlace(KEPT, async (place, start) => {
    const bot = start();
    const page = await readyPage(bot);
    await page.say(CHANNEL, 'pm: Hello!');
    await page.until(() => page.texts('agent').length > 0, 'an answer');
    page.close();
    await bot.end('SIGTERM');
    // No tool was called: not even an empty line, which would be no JSON.
    expect((await conch(place, 'audit', '--json')).out).toBe('');
    age(place);
    expect((await conch(place, 'prune')).code).toBe(0);
    const db = new Database(join(place.dataDir, 'conch.db'), { readonly: true });
    expect(db.prepare('SELECT count(*) FROM conversation').pluck().get()).toBe(0);
    expect(db.prepare('SELECT count(*) FROM inbox').pluck().get()).toBe(1);
    db.close();
  }));

test('conch prune deletes old journal entries of runs and sessions while Conch does not run', () =>
  inPlace(KEPT, async (place) => {
    const path = join(place.dataDir, 'conch.db');
    const bound = new Bound(path);
    bound.at -= 10 * 86_400_000;
    await (await bound.begins()).besideAsking();
    await bound.requests('a', { verdict: 'allow' });
    await bound.store.close();
    const counts = (): readonly number[] => {
      const db = new Database(path, { readonly: true });
      const sql = 'SELECT count(*) FROM journal j JOIN machines m ON m.id = j.machine GROUP BY m.name ORDER BY m.name';
      const found = db.prepare<[], number>(sql).pluck().all();
      db.close();
      return found;
    };
    const before = counts();
    expect(before.every((count) => count > 1)).toBe(true);
    const entries = before.reduce((sum, count) => sum + count, 0) - 3;
    const counted = await conch(place, 'prune', '--dry-run');
    expect(counted.out).toContain(`${entries} entries of journals`);
    expect(counts()).toEqual(before);
    const pruned = await conch(place, 'prune');
    expect(pruned.out).toBe(counted.out.replace('Would delete', 'Deleted').replace(' Nothing was deleted.', ''));
    expect(counts()).toEqual([1, 2]);
    expect((await conch(place, 'verify')).code).toBe(0);
  }));

describe('a data folder that does not exist', () => {
  const REMOTE = {
    ...DEMO,
    agents: [...DEMO.agents, { id: 'scout', backend: { kind: 'remote' } }],
    remote: { port: 0 },
  };

  test('T83 is created by conch restore, which names the agent tokens to add again', () =>
    inPlace(REMOTE, async (place, start) => {
      expect((await conch(place, 'agent', 'add', 'scout')).code).toBe(0);
      const bot = start();
      await bot.ready();
      await bot.end('SIGTERM');
      const copy = join(place.dir, 'copy.db');
      expect((await conch(place, 'backup', copy)).code).toBe(0);
      rmSync(place.dataDir, { recursive: true });

      expect(await conch(place, 'restore', join(place.dir, 'none.db'))).toMatchObject({
        code: EXIT_CODES.databaseUnreadable,
        err: expect.stringContaining(`There is no file ${join(place.dir, 'none.db')}`),
      });
      expect(existsSync(place.dataDir)).toBe(false);
      const done = await conch(place, 'restore', copy);
      expect(done).toMatchObject({ code: 0, out: expect.stringContaining('conch agent add scout') });
      expect(statSync(place.dataDir).mode & 0o777).toBe(0o700);
      expect((await conch(place, 'verify')).code).toBe(0);
      expect((await conch(place, 'agent', 'add', 'scout')).code).toBe(0);
      expect((await conch(place, 'restore', copy)).out).not.toContain('conch agent add');

      // Tokens that cannot be read: said before the database is replaced.
      writeFileSync(join(place.dataDir, 'agent-tokens.json'), '{');
      const kept = readdirSync(place.dataDir);
      const unread = await conch(place, 'restore', copy);
      expect([unread.code, unread.err]).toEqual([
        EXIT_CODES.refused,
        expect.stringContaining('agent-tokens.json is damaged'),
      ]);
      expect(readdirSync(place.dataDir)).toEqual(kept);
    }));

  test.each([
    [['erase', 'person', '80351110224678912']],
    [['erase', 'message', 'm1']],
    [['prune']],
    [['prune', '--dry-run']],
    [['backup', 'COPY']],
    [['replay']],
    [['verify']],
    [['audit']],
    [['cost']],
  ])('T83 is refused by %j with the path of the missing database, and not created', (argv) =>
    inPlace(DEMO, async (place) => {
      const done = await conch(place, ...argv.map((word) => (word === 'COPY' ? join(place.dir, 'copy.db') : word)));
      expect(done.code).toBe(EXIT_CODES.databaseUnreadable);
      expect(`${done.err}${done.out}`).toContain(join(place.dataDir, 'conch.db'));
      expect(existsSync(place.dataDir)).toBe(false);
    }),
  );
});
