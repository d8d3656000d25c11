import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sessionOf } from '../adapters/console/fakes.ts';
import { clearPlace, makePlace, runConch, startBot } from '../kill/bot.ts';
import { DEMO, inPlace } from './demo.ts';

/** Writes down every module that a process loads. */
const WATCH = `import { appendFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
registerHooks({
  load(url, context, next) {
    appendFileSync(process.env.CONCH_TEST_LOADED, url + '\\n');
    return next(url, context);
  },
});`;

/** The packages that a start loads before it is ready. */
async function loadedBy(config: object): Promise<readonly string[]> {
  const place = await makePlace(config);
  try {
    const [watch, list] = [join(place.dir, 'watch.mjs'), join(place.dir, 'loaded')];
    writeFileSync(watch, WATCH);
    const bot = startBot(place, {
      command: [process.execPath, '--import', watch],
      env: { CONCH_TEST_LOADED: list },
    });
    await bot.ready();
    await bot.end('SIGTERM');
    const packages = readFileSync(list, 'utf8').matchAll(/node_modules\/((?:@[^/]+\/)?[^/\n]+)/g);
    return [...new Set([...packages].map(([, name]) => name ?? ''))];
  } finally {
    clearPlace(place);
  }
}

describe('a start', () => {
  test('loads no library of models, of coding agents or of a platform that is not configured', async () => {
    const loaded = await loadedBy(DEMO);
    expect(loaded).toContain('better-sqlite3');
    expect(
      loaded.filter((name) => /^@?(?:ai|ai-sdk|agentclientprotocol|modelcontextprotocol|slack|discord)/.test(name)),
    ).toEqual([]);
  });

  test('loads the one of an agent that is', async () => {
    const [pm] = DEMO.agents;
    const command = { id: 'gem', backend: { kind: 'acp', profile: 'gemini' } };
    const loaded = await loadedBy({
      ...DEMO,
      agents: [...DEMO.agents, command],
      channels: [{ id: 'console:demo', agents: [pm?.id] }],
    });
    expect(loaded).toContain('@agentclientprotocol/sdk');
    expect(loaded).not.toContain('ai');
  });

  test('T78 prints a link that lets a browser in, and conch open prints another', async () => {
    await inPlace(DEMO, async (place, start) => {
      const bot = start();
      await bot.ready();
      const link = /^Open the page: (http:\S+)$/m.exec(bot.out())?.[1] ?? '';
      expect((await sessionOf(link)).cookie).toContain(`conch_${place.port}=`);
      expect((await sessionOf(link)).cookie).toBe('');
      const { code, out } = await runConch(place, { argv: ['open'] });
      expect([code, (await sessionOf(out.trim())).cookie === '']).toEqual([0, false]);
      await bot.end('SIGTERM');
      expect((await runConch(place, { argv: ['open'] })).err).toContain('No running Conch answers');
    });
  });
});
