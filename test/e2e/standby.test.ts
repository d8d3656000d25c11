import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { DEAD_MS } from '../../src/engine/shared/heartbeat.ts';
import { testServer } from '../engine/postgres/server.ts';
import { clearPlace, makePlace, runConch, startBot } from '../kill/bot.ts';
import type { Bot, Place } from '../kill/bot.ts';
import { randomOf } from '../kill/random.ts';
import { wireTo } from '../kill/wire.ts';
import { CHANNEL, DEMO, readyPage, spokenIn } from './demo.ts';

const server = await testServer();
afterAll(() => server?.stop());

let schemas = 0;

/** Makes two places with one store. `start(0)` and `start(1)` start a Conch in the first and the second. */
async function withTwo(
  run: (start: (which: 0 | 1) => Bot, places: readonly Place[]) => Promise<void>,
  firstUrl = server?.url,
): Promise<void> {
  schemas += 1;
  const configOf = (postgres = server?.url) => ({ ...DEMO, store: { postgres, schema: `standby_${schemas}` } });
  const places = [await makePlace(configOf(firstUrl)), await makePlace(configOf())];
  const bots: Bot[] = [];
  const start = (which: 0 | 1): Bot => {
    const place = places[which];
    if (place === undefined) throw new Error('impossible: no such place');
    const bot = startBot(place);
    bots.push(bot);
    return bot;
  };
  try {
    await run(start, places);
  } finally {
    for (const bot of bots) await bot.end('SIGKILL');
    for (const place of places) clearPlace(place);
  }
}

async function untilSays(bot: Bot, words: string): Promise<void> {
  for (let look = 0; look < 2_400 && !bot.out().includes(words); look += 1) await pause(50);
  expect(bot.out()).toContain(words);
}

describe.skipIf(server === null)('two Conches on a store in PostgreSQL', () => {
  test('where the leader is killed: the other Conch continues its turn without loss or repetition', async () => {
    await withTwo(async (start, places) => {
      const first = start(0);
      const page = await readyPage(first);
      const second = start(1);
      await untilSays(second, 'stands by');
      const ask = (path: string): Promise<Response> => fetch(`http://127.0.0.1:${second.port}/${path}`);
      await expect.poll(() => ask('livez').catch(() => null)).toMatchObject({ status: 200 });
      const answers = await Promise.all(['livez?probe=1', 'healthz', ''].map(ask));
      expect(answers.map(({ status }) => status)).toEqual([200, 503, 503]);
      expect(await answers[2]?.text()).toMatch(/^This Conch stands by/);
      const told = await runConch(places[1] as Place, { argv: ['workers'] });
      expect(told.out).toMatch(new RegExp(`:${first.child.pid}  leads.*\\n.*:${second.child.pid}  stands by`));
      const checked = await runConch(places[1] as Place, { argv: ['doctor'] });
      expect(checked.out).toMatch(/✓ PostgreSQL: version \d.*, 2 process\(es\), leader: \S+/);
      const id = await page.say(CHANNEL, 'dev: slow');
      const written = (): string => page.drafts.get('dev') ?? '';
      await page.until(() => written().includes('I take my time'), 'the beginning of its text');
      const seen = written();
      await page.until(() => written().length > seen.length, 'more of its text');
      const { configFile } = places[1] as Place;
      writeFileSync(configFile, readFileSync(configFile, 'utf8').replace('"log"', '"announcements": {},\n"log"'));
      await first.end('SIGKILL');

      const again = await readyPage(second);
      await untilSays(second, 'configuration reloaded');
      await again.until(
        () => again.messages.get(id)?.receipts.includes('done') === true,
        'the end of the turn',
        30_000,
      );
      await again.until(() => spokenIn(again).endsWith('That was all of it.'), 'the end of the text');
      expect(spokenIn(again).match(/I take my time with this one/g)).toHaveLength(1);

      const third = start(0);
      await untilSays(third, 'stands by');
      // A standby that ends in good order removes itself from the list of workers.
      expect((await third.end('SIGTERM')).code).toBe(EXIT_CODES.ok);
      const left = await runConch(places[0] as Place, { argv: ['workers'] });
      expect(left.out).not.toContain(`:${third.child.pid}`);
      const fourth = start(0);
      await untilSays(fourth, 'stands by');
      const more = await again.say(CHANNEL, 'pm: are you there?');
      await again.until(() => again.messages.get(more)?.receipts.includes('done') === true, 'an answer', 60_000);
      expect((await second.end('SIGTERM')).code).toBe(EXIT_CODES.ok);
      const last = await readyPage(fourth);
      expect(last.messages.get(more)?.receipts).toContain('done');
    });
  }, 120_000);

  test('where only the leader loses PostgreSQL: the leader ends, and the standby takes over', async () => {
    const wire = await wireTo(server?.url ?? '', randomOf(1));
    await withTwo(async (start) => {
      const first = start(0);
      await first.ready();
      const second = start(1);
      await untilSays(second, 'stands by');
      await wire.close();
      const { code } = await first.ended;
      expect([code, first.err()]).toEqual([
        EXIT_CODES.databaseUnreached,
        expect.stringContaining('another Conch may have taken over'),
      ]);
      await readyPage(second);
    }, wire.url);
  }, 120_000);

  test('where the standby was stopped and declared dead: the standby ends when it wakes', async () => {
    await withTwo(async (start) => {
      await start(0).ready();
      const second = start(1);
      await untilSays(second, 'stands by');
      second.child.kill('SIGSTOP');
      await pause(2 * DEAD_MS);
      second.child.kill('SIGCONT');
      const { code } = await second.ended;
      expect([code, second.err()]).toEqual([EXIT_CODES.lockLost, expect.stringContaining('declared this one dead')]);
    });
  }, 120_000);

  test('where the leader was stopped and declared dead: the leader ends when it wakes, and posts nothing more', async () => {
    await withTwo(async (start) => {
      const first = start(0);
      const page = await readyPage(first);
      const second = start(1);
      await untilSays(second, 'stands by');
      await page.say(CHANNEL, 'dev: slow');
      await page.until(() => page.drafts.get('dev') !== undefined, 'the beginning of its text');
      first.child.kill('SIGSTOP');
      const again = await readyPage(second);
      first.child.kill('SIGCONT');
      const { code } = await first.ended;
      expect([code, first.err()]).toEqual([EXIT_CODES.lockLost, expect.stringContaining('declared this one dead')]);
      const holders = (): unknown => again.view?.holder?.agent ?? null;
      await again.until(() => holders() === null, 'the end of the turn', 60_000);
      await again.until(() => spokenIn(again) !== '', 'the text');
      expect(spokenIn(again).match(/I take my time with this one/g)).toHaveLength(1);
    });
  }, 120_000);
});

test.skipIf(server === null || process.env['CONCH_TEST_PG'] !== undefined)(
  'healthz reports a frozen PostgreSQL until it answers; Conch can end while it is frozen',
  async () => {
    await withTwo(async (start) => {
      const bot = start(0);
      await bot.ready();
      const seen = async (): Promise<unknown> => {
        const answer = await fetch(`http://127.0.0.1:${bot.port}/healthz`);
        const { database } = (await answer.json()) as { readonly database: { readonly status: string } };
        return [answer.status, database.status];
      };
      await expect.poll(seen).toEqual([200, 'ok']);
      const frozen = server?.freeze(4_300);
      await expect.poll(seen).toEqual([503, 'unreached']);
      await frozen;
      await expect.poll(seen).toEqual([200, 'ok']);

      const again = server?.freeze(12_000).then(() => 'answers again');
      await expect.poll(seen).toEqual([503, 'unreached']);
      const ended = bot.end('SIGTERM').then(() => 'ended');
      expect(await Promise.race([ended, again])).toBe('ended');
      await again;
    });
  },
  120_000,
);

test.skipIf(server === null)(
  'a standby whose port is taken ends with one line',
  async () => {
    await withTwo(async (start, places) => {
      const first = start(0);
      await first.ready();
      const env = { CONCH_PORT: String(first.port) };
      const { code, err } = await runConch(places[1] as Place, { argv: ['start'], env });
      expect([code, err]).toEqual([EXIT_CODES.portTaken, expect.stringMatching(/^Port \d+ is taken/)]);
    });
  },
  120_000,
);

test('a start with an unreachable store fails with one line without the password', async () => {
  const place = await makePlace({ ...DEMO, store: { postgres: 'postgres://conch:hunter2hunter2@127.0.0.1:1/db' } });
  try {
    const { code, err } = await runConch(place, { argv: ['start'] });
    expect([code, err]).toEqual([EXIT_CODES.databaseUnreached, expect.stringMatching(/^PostgreSQL at 127\.0\.0\.1:1/)]);
    expect(err).not.toContain('hunter2');
    expect(err.trim().split('\n')).toHaveLength(1);
    const restored = await runConch(place, { argv: ['restore', 'x.db'] });
    expect([restored.code, restored.err]).toEqual([
      EXIT_CODES.databaseUnreadable,
      expect.stringMatching(/^There is no file .*x\.db/),
    ]);
    expect((await runConch(place, { argv: ['workers'] })).err).toMatch(/^PostgreSQL at 127\.0\.0\.1:1/);
  } finally {
    clearPlace(place);
  }
});
