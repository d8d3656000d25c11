import { existsSync, mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { sessionJournal } from '../../../src/agents/session/session-journal.ts';
import { MIGRATIONS, formerFile, openDatabase } from '../../../src/engine/sqlite/open.ts';
import { AGENTS, AT, folder, open, turn, write } from './fixture.ts';

/** A file as the version before left it: a turn under way, a message held, one not given to its floor, posts owed. */
function former(path: string, change = ''): void {
  const db = openDatabase(path, MIGRATIONS.slice(0, 2));
  db.exec(readFileSync(new URL('fixtures/schema-2.sql', import.meta.url), 'utf8'));
  db.exec(change);
  db.close();
}

describe('a file of the schema before machines', () => {
  test('is taken over with its floors, messages, posts and what parts of the program kept', async () => {
    using place = folder();
    former(place.file());
    const store = open(place.file());
    expect(store.floor('test:one')).toMatchObject({
      epoch: 3,
      turn: { agent: 'qa', status: 'suspended' },
      held: [{ id: 'm2' }],
      lines: 3,
    });
    expect(store.floor('test:two')?.seats.map(({ status }) => status)).toEqual(['QUEUED', 'QUEUED', 'QUEUED']);
    expect(store.message('m1')).toMatchObject({ text: 'please build it', fate: { state: 'delivered' } });
    expect([...store.remembered('threads').keys()]).toEqual(['test:thread']);
    expect(store.verify()).toEqual([]);
    const { unapplied } = await store.recover();
    expect(unapplied.map(({ id }) => id)).toEqual(['m3']);
    const owed = await store.owed(100, AT);
    expect(owed.rows.filter(({ lane }) => lane === 'posts').map(({ text, uncertain }) => [text, uncertain])).toEqual([
      ['a plan', true],
    ]);
    await store.close();
  });

  test('goes on where it was: lines, entries and epochs count on, and its new journal folds', async () => {
    using place = folder();
    former(place.file());
    const store = open(place.file());
    for (const type of ['restart', 'catchUp'] as const) await store.apply('test:one', { type }, AT);
    for (const agent of AGENTS) await store.apply('test:one', { type: 'join', agent }, AT);
    expect(store.floor('test:one')).toMatchObject({ epoch: 4, turn: { agent: 'qa', status: 'active' } });
    await turn(store, 'a test');
    await write(store, 'm4', 'thanks');
    expect(store.lines('test:one', 3, 9).map(({ line, text }) => [line, text])).toEqual([
      [4, 'a test'],
      [5, 'and the docs?'],
    ]);
    expect(store.journal('test:one', 1)[0]?.seq).toBeGreaterThan(26);
    expect(store.replay('test:one')).toMatchObject({ brokenAt: null, stoppedBy: null, equal: true });
    await store.close();
    const again = open(place.file());
    expect(again.verify()).toEqual([]);
    await again.close();
  });

  test('is taken over with what was counted of its sessions, which begins their journals', async () => {
    using place = folder();
    former(place.file());
    const store = open(place.file());
    const sessions = store.host(sessionJournal);
    expect(sessions.keys()).toEqual(['test:one pm']);
    expect(sessions.state('test:one pm')).toEqual({
      phase: { name: 'Stopped', why: '5 errors in a row' },
      sessionSeq: 7,
      consecutiveErrors: 5,
      totalErrors: 9,
      lastCause: 'exited with code 1',
      trigger: null,
    });
    const restarted = {
      from: 'Stopped',
      trigger: 'OperatorRestart',
      to: { name: 'Initializing' },
      sessionSeq: 1,
    } as const;
    const move = { type: 'sessionMoved', ...restarted, consecutiveErrors: 0, totalErrors: 0, cause: null } as const;
    await sessions.apply('test:one pm', move, AT);
    expect(store.verify()).toEqual([]);
    await store.close();
    const again = open(place.file());
    expect(again.host(sessionJournal).state('test:one pm')).toMatchObject({ totalErrors: 0 });
    expect(again.verify()).toEqual([]);
    await again.close();
  });

  test('is kept beside, for its owner alone, with the journal that was', () => {
    using place = folder();
    former(place.file());
    const said: string[] = [];
    open(place.file(), { say: (line) => said.push(line) });
    const copy = formerFile(place.file(), 2);
    expect(statSync(copy).mode & 0o777).toBe(0o600);
    const db = new Database(copy, { readonly: true });
    expect(db.prepare('SELECT count(*) FROM journal').pluck().get()).toBe(36);
    expect(db.prepare("SELECT value FROM meta WHERE name = 'backup'").pluck().get()).toBe('yes');
    expect(existsSync(`${copy}.part`)).toBe(false);
    expect(said).toEqual([expect.stringContaining(`is kept in ${copy}.`)]);
    db.close();
  });

  test('is written anew, so that it gives back what is taken out and holds nothing that was taken out before', () => {
    using place = folder();
    former(place.file());
    const before = new Database(place.file());
    const change = "UPDATE inbox SET text = 'a secret of old'; UPDATE inbox SET text = 'gone'";
    before.exec(`PRAGMA auto_vacuum = NONE; PRAGMA secure_delete = OFF; VACUUM; ${change}`);
    before.close();
    expect(readFileSync(place.file()).includes('a secret of old')).toBe(true);
    const db = openDatabase(place.file());
    expect(db.pragma('auto_vacuum', { simple: true })).toBe(2);
    db.close();
    const bytes = readFileSync(place.file());
    expect(bytes.includes('a secret of old')).toBe(false);
  });

  test('is named to the program of before, which cannot read what it became', () => {
    using place = folder();
    former(place.file());
    openDatabase(place.file()).close();
    const before = MIGRATIONS.slice(0, 2);
    expect(() => openDatabase(place.file(), before)).toThrow(`conch restore ${formerFile(place.file(), 2)}`);
  });

  test('is not changed when no copy of it can be kept', () => {
    using place = folder();
    former(place.file());
    mkdirSync(`${formerFile(place.file(), 2)}.part/in the way`, { recursive: true });
    expect(() => openDatabase(place.file())).toThrow('cannot be used');
    rmSync(`${formerFile(place.file(), 2)}.part`, { recursive: true });
    const db = openDatabase(place.file(), MIGRATIONS.slice(0, 2));
    expect(db.pragma('user_version', { simple: true })).toBe(2);
    db.close();
  });

  test('whose floor was changed behind its back is refused, not taken over as if it were sound', () => {
    using place = folder();
    former(
      place.file(),
      `UPDATE floors SET floor = replace(floor, '"epoch":3', '"epoch":1') WHERE channel = 'test:one'`,
    );
    const store = open(place.file());
    expect(() => store.floor('test:one')).toThrow('a stored state is not what was written');
    expect(store.floor('test:two')).not.toBeNull();
    expect(store.verify()).not.toEqual([]);
  });
});
