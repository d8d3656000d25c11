import { rmSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { storeError } from '../../src/engine/errors.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { CHANNEL, DEMO, STACK, inPlace, readyPage } from './demo.ts';

describe('a Conch whose lock file was deleted', () => {
  test('T85 ends with the code lockLost and says that the file was deleted', () =>
    inPlace(DEMO, async (place, start) => {
      const bot = start();
      await bot.ready();
      rmSync(join(place.dataDir, 'conch.lock'));
      const { code } = await bot.ended;
      expect(code).toBe(EXIT_CODES.lockLost);
      expect(bot.err()).toContain('conch.lock was deleted or replaced while Conch ran');
      expect(bot.err()).not.toMatch(STACK);
    }));
});

describe('a row of the journal that another process wrote first', () => {
  test("T85 ends the program before its agents post anything, and keeps the other process's row", () =>
    inPlace(DEMO, async (place, start) => {
      const bot = start();
      const page = await readyPage(bot);
      takeNextRow(join(place.dataDir, 'conch.db'));
      await page.say(CHANNEL, 'pm: hello').catch(() => null);
      const { code } = await bot.ended;
      expect(code).toBe(EXIT_CODES.lockLost);
      expect(bot.err()).toMatch(/was written by another process as well .*conch verify/u);
      expect(bot.err()).not.toMatch(STACK);
      expect([page.texts('agent'), rowsIn(join(place.dataDir, 'conch.db'))]).toEqual([[], { last: 1, said: 0 }]);
    }));

  test('T85 is a unique-key error of the database, which Conch classes as "shared"', () => {
    const db = new Database(':memory:');
    db.exec('CREATE TABLE journal (machine INTEGER, seq INTEGER, PRIMARY KEY (machine, seq)) WITHOUT ROWID');
    const write = db.prepare('INSERT INTO journal VALUES (1, 1)');
    write.run();
    let failure: unknown;
    try {
      write.run();
    } catch (error) {
      failure = error;
    }
    expect(storeError(failure, 'conch.db').code).toBe('shared');
  });
});

/** Writes the journal's next row, as a second process without the lock would. */
function takeNextRow(database: string): void {
  const db = new Database(database);
  try {
    const columns = db.prepare<[], { name: string }>("SELECT name FROM pragma_table_info('journal')").all();
    const names = columns.map(({ name }) => name);
    const next = names.map((name) => (name === 'row' ? 'row + 1' : name === 'seq' ? 'seq + 1000' : name));
    db.exec(`INSERT INTO journal (${names.join()}) SELECT ${next.join()} FROM journal ORDER BY row DESC LIMIT 1`);
  } finally {
    db.close();
  }
}

/** Counts the journal's rows with the highest row number (`last`) and those with an agent's message (`said`). */
function rowsIn(database: string): { readonly last: number; readonly said: number } {
  const db = new Database(database, { readonly: true });
  try {
    const last = db.prepare<[], number>('SELECT count(*) FROM journal WHERE row = (SELECT max(row) FROM journal)');
    const said = db.prepare<[], number>(`SELECT count(*) FROM journal WHERE facts LIKE '%"type":"said"%'`);
    return { last: last.pluck().get() ?? 0, said: said.pluck().get() ?? 0 };
  } finally {
    db.close();
  }
}
