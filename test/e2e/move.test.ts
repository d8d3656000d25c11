import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, describe, expect, test } from 'vitest';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { testServer } from '../engine/postgres/server.ts';
import { configure, runConch } from '../kill/bot.ts';
import type { Place } from '../kill/bot.ts';
import { CHANNEL, DEMO, inPlace, readyPage, spokenIn } from './demo.ts';

const server = await testServer();
afterAll(() => server?.stop());

let schemas = 0;

/** Returns `DEMO` with a store in PostgreSQL, in a new schema. */
function inPostgres(): typeof DEMO & {
  readonly store: { readonly postgres: string | undefined; readonly schema: string };
} {
  schemas += 1;
  return { ...DEMO, store: { postgres: server?.url, schema: `moved_${schemas}` } };
}

const move = (place: Place): ReturnType<typeof runConch> => runConch(place, { argv: ['move'] });
const { databaseUnreadable, databaseLocked, ok, usage } = EXIT_CODES;

describe.skipIf(server === null)('conch move', () => {
  test('moves the store of a Conch that was killed mid-turn; the turn continues without loss or repetition', async () => {
    await inPlace(DEMO, async (place, start) => {
      const first = start();
      const page = await readyPage(first);
      const before = await page.say(CHANNEL, 'pm: are you there?');
      await page.until(() => page.messages.get(before)?.receipts.includes('done') === true, 'an answer', 60_000);
      const id = await page.say(CHANNEL, 'dev: slow');
      const written = (): string => page.drafts.get('dev') ?? '';
      await page.until(() => written().includes('I take my time'), 'the beginning of its text');
      await first.end('SIGKILL');
      const known = [...page.messages.keys()];

      configure(place, inPostgres());
      const early = await runConch(place);
      expect([early.code, early.err]).toEqual([databaseUnreadable, expect.stringContaining('conch move')]);
      const moved = await move(place);
      expect([moved.code, moved.out]).toEqual([ok, expect.stringMatching(/^All \d+ rows are in PostgreSQL/)]);
      expect((await move(place)).out).toMatch(/^The store is in PostgreSQL already/);

      const second = start();
      const again = await readyPage(second);
      const receipts = (): readonly string[] => again.messages.get(id)?.receipts ?? [];
      await again.until(() => receipts().includes('done'), 'the end of the turn', 60_000);
      expect([...again.messages.keys()]).toEqual(expect.arrayContaining(known));
      await again.until(() => spokenIn(again).endsWith('That was all of it.'), 'the end of the text');
      expect(spokenIn(again).match(/I take my time with this one/g)).toHaveLength(1);
      await second.end('SIGTERM');

      configure(place, DEMO);
      const late = await runConch(place);
      expect([late.code, late.err]).toEqual([
        databaseUnreadable,
        expect.stringMatching(/was moved to PostgreSQL at 127/),
      ]);
    });
  }, 120_000);

  test('a backup of a store in PostgreSQL can be restored into a file, and moved into another schema', async () => {
    await inPlace(inPostgres(), async (place, start) => {
      const first = start();
      const page = await readyPage(first);
      const id = await page.say(CHANNEL, 'pm: are you there?');
      await page.until(() => page.messages.get(id)?.receipts.includes('done') === true, 'an answer', 60_000);
      const backup = join(place.dir, 'kept.db');
      expect((await runConch(place, { argv: ['backup', backup] })).code).toBe(ok);
      await first.end('SIGTERM');

      configure(place, DEMO);
      expect((await runConch(place, { argv: ['restore', backup] })).code).toBe(ok);
      const second = start();
      expect((await readyPage(second)).messages.get(id)?.receipts).toContain('done');
      await second.end('SIGTERM');
      expect((await runConch(place, { argv: ['verify'] })).out).toMatch(/is intact/);

      configure(place, inPostgres());
      const restored = await runConch(place, { argv: ['restore', backup] });
      expect([restored.code, restored.out]).toEqual([ok, expect.stringContaining('conch move')]);
      expect((await move(place)).code).toBe(ok);
      const third = await readyPage(start());
      expect(third.messages.get(id)?.receipts).toContain('done');
      const more = await third.say(CHANNEL, 'dev: are you there?');
      await third.until(() => third.messages.get(more)?.receipts.includes('done') === true, 'an answer', 60_000);
    });
  }, 120_000);

  test('refuses to move without a target, without a source, while Conch runs, to a foreign store, or twice', async () => {
    await inPlace(DEMO, async (place, start) => {
      const nowhere = await move(place);
      expect([nowhere.code, nowhere.err]).toEqual([usage, expect.stringMatching(/^Set "store"/)]);
      const target = inPostgres();
      configure(place, target);
      expect((await move(place)).err).toMatch(/^There is no store in a file to move/);

      configure(place, DEMO);
      const running = start();
      await running.ready();
      configure(place, target);
      expect((await move(place)).code).toBe(databaseLocked);
      await running.end('SIGTERM');

      await inPlace(target, async (_, startOther) => {
        const other = startOther();
        await other.ready();
        expect((await move(place)).err).toMatch(/is in use by .*Stop that Conch first/);
        await other.end('SIGTERM');
        expect((await move(place)).err).toMatch(/holds another store already/);
      });

      configure(place, inPostgres());
      expect((await move(place)).code).toBe(ok);
      configure(place, inPostgres());
      expect((await move(place)).err).toMatch(/was moved to PostgreSQL at .* already/);
    });
  }, 120_000);

  test('conch restored: grants no turn number twice after the database lost its last commits', async () => {
    const config = inPostgres();
    await inPlace(config, async (place, start) => {
      const client = new Client({ connectionString: server?.url });
      await client.connect();
      const run = (sql: string): Promise<unknown> => client.query(sql.replaceAll('$', config.store.schema));
      let whileInUse: Pick<Awaited<ReturnType<typeof runConch>>, 'code' | 'err'> | null = null;
      const askedAndAnswered = async (text: string): Promise<number> => {
        const bot = start();
        const page = await readyPage(bot);
        const id = await page.say(CHANNEL, text);
        await page.until(() => page.messages.get(id)?.receipts.includes('done') === true, 'an answer', 60_000);
        const epoch = page.view?.epoch ?? 0;
        whileInUse ??= await runConch(place, { argv: ['restored'] });
        await bot.end('SIGTERM');
        return epoch;
      };
      await askedAndAnswered('pm: are you there?');
      expect(whileInUse).toMatchObject({ code: databaseLocked, err: expect.stringContaining('Stop that Conch first') });
      await run('CREATE TABLE $.kept AS TABLE $.rows; CREATE TABLE $.reached AS TABLE $.log');
      const lost = await askedAndAnswered('dev: are you there?');
      await run('TRUNCATE $.rows; INSERT INTO $.rows SELECT * FROM $.kept');
      await run('UPDATE $.log SET position = reached.position FROM $.reached');
      await client.end();
      expect((await runConch(place, { argv: ['restored'] })).out).toMatch(/^Turn numbers jump ahead/);
      expect(await askedAndAnswered('qa: are you there?')).toBeGreaterThan(lost + 1_000);
    });
  }, 120_000);
});
