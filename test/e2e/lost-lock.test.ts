import { rmSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { storeError } from '../../src/engine/errors.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { DEMO, STACK, inPlace } from './demo.ts';

describe('a Conch whose lock file was deleted', () => {
  test('T85 ends with a code of its own and says what happened', () =>
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
  test('T85 is a fault of the database, which ends the program', () => {
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
