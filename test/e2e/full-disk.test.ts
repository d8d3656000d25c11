import { rmSync, statfsSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { z } from 'zod';
import type { Bot, Place } from '../kill/bot.ts';
import { CHANNEL, demoWith, inPlace, logLines, openPage, readyPage } from './demo.ts';
import { canMount, ownDisk } from './disk.ts';

const NO_ROOM = /This failed. The disk with Conch.s data is full. Free some space, then try again. Nothing was sent./;

/** Fills the bot's disk, through its own view of the file system. Returns a function that frees the space. */
function fill(place: Place, bot: Bot): () => void {
  const dir = `/proc/${bot.child.pid}/root${place.dataDir}`;
  const { bavail, bsize } = statfsSync(dir);
  try {
    writeFileSync(`${dir}/ballast`, Buffer.alloc(bavail * bsize));
  } catch (error) {
    // Conch wrote at the same time, so less space was left. The disk is full all the same.
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
  }
  return () => rmSync(`${dir}/ballast`);
}

/** Returns the answer of `/healthz`: the HTTP status, Conch's status and the database's status. */
async function health({ port }: Place): Promise<readonly unknown[]> {
  const response = await fetch(`http://127.0.0.1:${port}/healthz`);
  const { status, database } = healthSchema.parse(await response.json());
  return [response.status, status, database.status];
}

const healthSchema = z.looseObject({ status: z.string(), database: z.looseObject({ status: z.string() }) });

test.runIf(canMount())('T41 Conch survives a full disk without loss, and continues once space is free', () =>
  inPlace(demoWith({ defaultTimeoutSeconds: 1.5 }), async (place, start) => {
    const started = start({ command: ownDisk(place, 'size=2m') });
    // Only the bot's own process sees its data folder: /proc gives the test a path to it.
    const bot = { ...started, dataDir: `/proc/${started.child.pid}/root${place.dataDir}` };
    const page = await readyPage(bot);
    await page.say(CHANNEL, 'dev: hang');
    await page.until(() => page.view?.holder?.agent === 'dev', 'dev at work');

    const makeRoom = fill(place, bot);
    await expect(page.say(CHANNEL, 'Is anybody here?')).rejects.toThrow(NO_ROOM);
    expect(await page.command(CHANNEL, '/floor status')).toMatchObject({ ok: true });
    const full = (): boolean => logLines(bot).some(({ message }) => /is full .* free some space/.test(String(message)));
    await page.until(full, 'a line that says what to do');
    expect(page.view?.holder?.agent).toBe('dev');
    expect(await health(place)).toEqual([503, 'stuck', 'full']);

    makeRoom();
    await expect.poll(() => health(place), { timeout: 20_000 }).toEqual([200, 'ready', 'ok']);
    await page.until(() => page.texts('system').length > 0, 'the announcement of the timeout');
    await page.until(() => page.view?.condition === 'resting', 'the end of the exchange');
    await page.say(CHANNEL, 'pm: Hello!');
    await page.until(() => page.texts('agent').length > 0, 'an answer');
    const later = await openPage(bot);
    expect(later.texts('person')).toEqual(['dev: hang', 'pm: Hello!']);
    expect(later.texts('system')).toEqual(['⏱️ dev turn timed out']);
    expect(await bot.end('SIGTERM')).toMatchObject({ code: 0 });
  }),
);
