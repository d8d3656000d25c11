import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readJournals } from '../../src/engine/sqlite/check.ts';
import { runOnFloor } from '../../src/work/runs/floor-binding.ts';
import { toolCallRows } from '../../src/work/runs/call-record.ts';
import type { Place } from '../kill/bot.ts';
import type { Page } from '../kill/page.ts';
import { CHANNEL, inPlace, readyPage } from './demo.ts';

const AGENT = new URL('fixtures/several-agent.ts', import.meta.url).pathname;

/** Configures a coder that asks for the commands `first` at once, and for the commands `again` after a restart. */
function configOf(first: string, again = ''): object {
  return {
    agents: [
      { id: 'coder', backend: { kind: 'acp', command: process.execPath, args: [AGENT, '${EFFECTS}', first, again] } },
    ],
    channels: [{ id: CHANNEL, agents: ['coder'] }],
    log: { level: 'info', pretty: false },
  };
}

/** Runs the real program in a new place. Passes functions to start it, to see the coder's effects and to kill it. */
async function withCoder(
  config: object,
  use: (start: () => Promise<Page>, seen: Seen, kill: () => Promise<void>) => Promise<void>,
): Promise<void> {
  await inPlace(config, async (place, start) => {
    const file = join(place.dir, 'effects');
    let bot: ReturnType<typeof start> | null = null;
    const begin = async (): Promise<Page> => {
      bot = start({ env: { EFFECTS: file } });
      return await readyPage(bot);
    };
    const kill = async (): Promise<void> => {
      await bot?.end('SIGKILL');
    };
    await use(begin, seenIn(place, file), kill);
  });
}

/** `effects`: the commands that were run. `rows`: the recorded tool calls as "command decision code-or-status". */
type Seen = { effects(): readonly string[]; rows(): readonly string[] };

function seenIn({ dataDir }: Place, file: string): Seen {
  return {
    effects: () => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []),
    rows: () =>
      [...readJournals(join(dataDir, 'conch.db'), runOnFloor)].flatMap(([, entries]) =>
        toolCallRows(entries).map(
          ({ input, decision, status, code }) => `${String(input['command'])} ${decision} ${code ?? status}`,
        ),
      ),
  };
}

/** Waits until people can answer the request. Returns its title, its open requests and its identical calls. */
async function asked(page: Page, question: number) {
  const open = () => page.view?.holder?.approval;
  await page.until(() => open()?.question === question && open()?.shown === true, `question ${question}`);
  const { title = '', about } = open() ?? {};
  return `${title}: 1 of ${about?.questions ?? 1}, ${about?.times ?? 1} times`;
}

describe('a coding agent that asks for several calls at once', () => {
  test('has one request at a time, and one decision allows all identical calls', async () => {
    await withCoder(configOf('make a,make b,make a,make c'), async (start, seen) => {
      const page = await start();
      await page.say(CHANNEL, 'Please build it all');
      expect(await asked(page, 1)).toBe('run make a: 1 of 3, 2 times');
      expect(page.texts('system').join('\n')).toContain('coder does not read the reason of a denial');
      expect(seen.rows()).toEqual([
        'make a open pending',
        'make b open pending',
        'make a open pending',
        'make c open pending',
      ]);
      await page.command(CHANNEL, '/allow 1');
      expect(await asked(page, 2)).toBe('run make b: 1 of 2, 1 times');
      await page.command(CHANNEL, '/reject 2 not yet');
      expect(await asked(page, 3)).toBe('run make c: 1 of 1, 1 times');
      await page.command(CHANNEL, '/allow 3');
      await page.until(() => page.texts('agent').join('\n').includes('It came to: yes, no, yes, yes.'), 'the end');
      await page.until(() => page.view?.condition === 'resting', 'the floor at rest');
      expect(seen.effects().toSorted()).toEqual(['make a', 'make a', 'make c']);
      expect(seen.rows()).toEqual([
        'make a once complete',
        'make b denied-person DENIED',
        'make a grant complete',
        'make c once complete',
      ]);
    });
  });

  test('has its open requests on record after SIGKILL, and a late decision counts for one repeated call', async () => {
    await withCoder(configOf('make a,make a,make b,make c', 'make b,make c,make b'), async (start, seen, kill) => {
      const page = await start();
      await page.say(CHANNEL, 'Please build it all');
      expect(await asked(page, 1)).toBe('run make a: 1 of 3, 2 times');
      await page.command(CHANNEL, '/allow 1');
      expect(await asked(page, 2)).toBe('run make b: 1 of 2, 1 times');
      await page.until(() => seen.effects().length === 2, 'what was allowed');
      await kill();
      expect(seen.rows().slice(2)).toEqual(['make b open pending', 'make c open pending']);

      const again = await start();
      const gone = () =>
        again.texts('system').find((text) => text.includes('Your decision counts once, for the same request'));
      await again.until(() => gone() !== undefined, 'that its agent is gone');
      expect(gone()).not.toContain('1 of 2');
      await asked(again, 2);
      expect(seen.rows().slice(2)).toEqual(['make b open LOST', 'make c void LOST']);
      await again.command(CHANNEL, '/allow 2');
      // The decision of before allows one of the two identical calls. The other call needs its own decision.
      expect(await asked(again, 3)).toBe('run make c: 1 of 2, 1 times');
      await again.command(CHANNEL, '/reject 3');
      expect(await asked(again, 4)).toBe('run make b: 1 of 1, 1 times');
      await again.command(CHANNEL, '/reject 4');
      await again.until(() => again.texts('agent').join('\n').includes('It came to: yes, no, no.'), 'the end');
      expect(seen.effects()).toEqual(['make a', 'make a', 'make b']);
      expect(seen.rows().slice(4)).toEqual([
        'make b grant complete',
        'make c denied-person DENIED',
        'make b denied-person DENIED',
      ]);
    });
  });
});
