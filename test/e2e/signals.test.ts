import { openSync, closeSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { CHANNEL, DEMO, demoWith, inPlace, logLines, openPage, readyPage, wasCutShort } from './demo.ts';

test('SIGKILL during a draft loses no text that people saw for more than a second', () =>
  inPlace(DEMO, async (_place, start) => {
    const first = start();
    const page = await readyPage(first);
    const id = await page.say(CHANNEL, 'dev: slow');
    const written = (): string => page.drafts.get('dev') ?? '';
    await page.until(() => written().includes('I take my time'), 'the beginning of its text');
    const epoch = page.view?.holder?.epoch;
    const seen = written();
    const shownAt = performance.now();
    await page.until(() => written().length > seen.length && performance.now() - shownAt > 1_200, 'more of its text');
    await first.end('SIGKILL');

    const again = await readyPage(start());
    await again.until(() => again.messages.get(id)?.receipts.includes('done') === true, 'the end of the turn', 20_000);
    const said = [...again.messages.values()].filter(({ kind }) => kind === 'agent');
    expect(said[0]?.epoch).toBe(epoch);
    expect(said[0]?.text.startsWith(seen.trim())).toBe(true);
    const spoken = said.map(({ text }) => text).join(' ');
    expect(spoken).toMatch(/That was all of it\.$/);
    expect(spoken.match(/I take my time with this one/g)).toHaveLength(1);
  }));

describe.concurrent('SIGTERM', () => {
  test('during a turn ends Conch in good order; the turn continues after the next start without loss', () =>
    inPlace(DEMO, async (_place, start) => {
      const first = start();
      const page = await readyPage(first);
      const id = await page.say(CHANNEL, 'dev: slow');
      await page.until(() => page.view?.holder?.agent === 'dev', 'dev at work');
      const epoch = page.view?.holder?.epoch ?? 0;
      await page.until(() => page.drafts.get('dev')?.includes('the others wait') === true, 'the beginning of its text');
      const { code } = await first.end('SIGTERM');
      expect([code, first.err()]).toEqual([EXIT_CODES.ok, '']);
      expect(wasCutShort(first)).toBe(false);

      const second = start();
      const again = await readyPage(second);
      await again.until(
        () => again.messages.get(id)?.receipts.includes('done') === true,
        'the end of the turn',
        20_000,
      );
      const said = [...again.messages.values()].filter(({ kind }) => kind === 'agent');
      expect(new Set(said.map(({ speaker }) => speaker.id))).toEqual(new Set(['dev']));
      expect(said[0]?.epoch).toBe(epoch);
      expect(said.at(-1)?.epoch).toBeGreaterThan(epoch);
      const spoken = said.map(({ text }) => text).join(' ');
      expect(spoken).toMatch(/^I take my time with this one/);
      expect(spoken).toMatch(/That was all of it\.$/);
      expect(spoken.match(/Stop, which silences all of us/g)).toHaveLength(1);
      expect(again.texts('system')).toEqual(['↩️ dev continues after a restart']);
    }));

  test('followed by a second signal ends Conch at once', () =>
    inPlace(DEMO, async (_place, start) => {
      const bot = start();
      const page = await readyPage(bot);
      await page.say(CHANNEL, 'dev: slow');
      await page.until(() => page.view?.holder?.agent === 'dev', 'dev at work');
      bot.child.kill('SIGTERM');
      const { code, signal } = await bot.end('SIGINT');
      expect([code, signal]).toEqual([EXIT_CODES.ok, null]);

      const again = await readyPage(start());
      await again.until(() => goesOn(again), 'dev going on');
    }));

  test('during the start ends Conch as soon as it has started', () =>
    inPlace(DEMO, async (_place, start) => {
      const bot = start();
      await bot.line(60_000);
      expect(await bot.end('SIGTERM')).toMatchObject({ code: EXIT_CODES.ok });
    }));
});

describe.concurrent('a program that was stopped for 2.5 s', () => {
  test('announces a passed deadline once, and declares no agent lost', () =>
    inPlace(
      demoWith({ defaultTimeoutSeconds: 1, heartbeatSeconds: 0.2, heartbeatTimeoutSeconds: 0.6 }),
      async (_place, start) => {
        const bot = start();
        const page = await readyPage(bot);
        await page.say(CHANNEL, 'dev: hang');
        await page.until(() => page.view?.holder?.agent === 'dev', 'dev at work');
        bot.child.kill('SIGSTOP');
        await pause(2_500);
        bot.child.kill('SIGCONT');
        await page.until(() => page.texts('system').length > 0, 'an announcement');
        await page.until(() => page.view?.holder === null, 'a free floor');
        await pause(1_000);
        expect(page.texts('system')).toEqual(['⏱️ dev turn timed out']);
        expect(page.view?.seats.map(({ status }) => status)).toEqual(['QUEUED', 'QUEUED', 'QUEUED']);
      },
    ));
});

describe.concurrent('an unforeseen error', () => {
  const faults = [
    ['thrown', 'setImmediate(() => { throw new Error("the sky fell") })'],
    ['rejected', 'void Promise.reject(new Error("the sky fell"))'],
  ] as const;
  test.each(faults)(
    'is logged when it is %s, ends the program with the code unexpected, and leaves a valid state',
    (_how, fault) =>
      inPlace(DEMO, async (place, start) => {
        const preload = join(place.dir, 'fault.mjs');
        writeFileSync(preload, `process.on('SIGUSR2', () => { ${fault}; });`);
        const bot = start({ command: [process.execPath, '--import', preload] });
        const page = await readyPage(bot);
        const id = await page.say(CHANNEL, 'dev: slow');
        await page.until(() => page.view?.holder?.agent === 'dev', 'dev at work');
        const { code } = await bot.end('SIGUSR2');
        expect(code).toBe(EXIT_CODES.unexpected);
        const last = logLines(bot).findLast(({ level }) => level === 'fatal');
        expect(last).toMatchObject({ message: 'an unforeseen fault; ending', err: { message: 'the sky fell' } });

        const again = await readyPage(start());
        expect(again.messages.get(id)?.text).toBe('dev: slow');
        await again.until(() => goesOn(again), 'dev going on');
      }),
  );
});

describe.concurrent('a log that cannot be written', () => {
  test('loses lines, and Conch works on', () =>
    inPlace(DEMO, async (_place, start) => {
      const full = openSync('/dev/full', 'w');
      const bot = start({ stdout: full });
      closeSync(full);
      const page = await readyPage(bot);
      await page.say(CHANNEL, 'Hello everybody!');
      await page.until(() => page.texts('agent').length > 0, 'an answer');
      page.close();
      const later = await openPage(bot);
      expect(later.texts('agent')).toHaveLength(1);
      const { code } = await bot.end('SIGTERM');
      expect([code, bot.err()]).toEqual([EXIT_CODES.ok, '']);
    }));
});

/** Returns whether dev's posts or draft contain its text. On a busy machine, a pause can split the text. */
function goesOn(page: Awaited<ReturnType<typeof readyPage>>): boolean {
  const said = [...page.texts('agent'), page.drafts.get('dev') ?? ''].join(' ');
  return /I\s+take/u.test(said);
}
