import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sessionOf } from '../adapters/console/fakes.ts';
import { clearPlace, makePlace, runConch, startBot } from '../kill/bot.ts';
import { DEMO, inPlace } from './demo.ts';

/** A module for `--import`: writes the URL of every loaded module into a file. */
const WATCH = `import { appendFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
registerHooks({
  load(url, context, next) {
    appendFileSync(process.env.CONCH_TEST_LOADED, url + '\\n');
    return next(url, context);
  },
});`;

/** Returns the packages that a run loads, from its start to its end right after it is ready. */
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
  test('loads no libraries of models, coding agents or platforms that the configuration does not use', async () => {
    const loaded = await loadedBy(DEMO);
    expect(loaded).toContain('better-sqlite3');
    expect(
      loaded.filter((name) => /^@?(?:ai|ai-sdk|agentclientprotocol|modelcontextprotocol|slack|discord)/.test(name)),
    ).toEqual([]);
  });

  test('loads the library of a configured agent, and no other', async () => {
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

  test('T78 prints a link that gives one browser access, and conch open prints another', async () => {
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
