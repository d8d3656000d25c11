import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { logLines } from '../../../e2e/demo.ts';
import { CHANNEL, ended, onRemoteFloor } from './remote-floor.ts';
import type { RemoteFloor } from './remote-floor.ts';

const AGENT = new URL('fixtures/remote-agent.ts', import.meta.url).pathname;

/** Starts dev and asks dev for a slow answer. Does not wait for the answer: `drafted` waits for its first half. */
async function halfway({ page, run, url, status }: RemoteFloor, ...args: readonly string[]) {
  const child = run(process.execPath, [AGENT, url, ...args]);
  await page.until(() => status('dev') === 'QUEUED', 'dev at the floor');
  await page.say(CHANNEL, 'dev: a slow one');
  return child;
}

const drafted = ({ page }: RemoteFloor) => page.until(() => page.drafts.get('dev') !== undefined, 'half an answer');

const GONE = '⚠️ dev disconnected, skipping turn';

describe('a remote agent that holds the floor', () => {
  test.each([
    ['is frozen', 'SIGSTOP', /skipping turn: no heartbeat for 1 s$/],
    ['is killed', 'SIGKILL', /skipping turn: connection lost$/],
  ] as const)('and %s is OFFLINE, people learn why, and the next agent has the floor', async (_what, signal, words) => {
    await onRemoteFloor({}, async (floor) => {
      const { page, status, bot } = floor;
      const child = await halfway(floor);
      await drafted(floor);
      child.kill(signal);
      await page.until(() => status('dev') === 'OFFLINE', 'dev OFFLINE');
      const gone = () => page.texts('system').filter((text) => text.startsWith(GONE));
      await page.until(() => gone().length > 0, 'the announcement');
      expect(gone()).toEqual([expect.stringMatching(words)]);
      await page.until(() => page.view?.epoch === 2, 'the next turn');
      const grants = logLines(bot).filter(({ trigger }) => trigger === 'TURN_GRANTED');
      expect(grants.map(({ agentId }) => agentId).slice(0, 2)).toEqual(['dev', 'qa']);
    });
  });

  test('and reconnects within the grace period keeps its turn', async () => {
    await onRemoteFloor({ reconnectGraceSeconds: 10 }, async (floor) => {
      const { page, bot } = floor;
      await halfway(floor, 'once');
      await page.until(() => page.texts('agent').includes('Second half.'), 'the second half of the answer');
      expect(page.texts('agent').slice(0, 2)).toEqual(['First half.', 'Second half.']);
      expect(page.texts('system').some((text) => text.startsWith(GONE))).toBe(false);
      const grants = logLines(bot).filter(({ trigger, agentId }) => trigger === 'TURN_GRANTED' && agentId === 'dev');
      expect(grants).toHaveLength(1);
    });
  });
});

describe('a remote agent with a turn left open by a crash of Conch', () => {
  test('continues the turn when it reconnects within the grace period', async () => {
    await onRemoteFloor({ reconnectGraceSeconds: 10 }, async (floor) => {
      const child = await halfway(floor);
      await drafted(floor);
      const page = await floor.restart();
      await ended(child);
      floor.run(process.execPath, [AGENT, floor.url]);
      const back = '↩️ dev continues after a restart';
      await page.until(() => page.texts('system').includes(back), 'the recovery');
      await page.until(() => page.view?.holder?.agent === 'dev' && page.view.holder.epoch === 2, 'dev at it again');
      expect(page.texts('system').some((text) => text.startsWith(GONE))).toBe(false);
    });
  });

  test('loses the turn when it does not reconnect within the grace period', async () => {
    await onRemoteFloor({}, async (floor) => {
      const child = await halfway(floor);
      await drafted(floor);
      await ended(child);
      const page = await floor.restart();
      await page.until(() => page.texts('system').includes(`${GONE}: is not connected`), 'the announcement');
      expect(page.view?.seats.find(({ agent }) => agent === 'dev')?.status).toBe('OFFLINE');
    });
  });
});

describe('a remote agent that works while Conch is frozen', () => {
  test('T84 keeps its turn, and all its text is posted', async () => {
    const limits = { defaultTimeoutSeconds: 2, maxTurnSeconds: 6, reconnectGraceSeconds: 2 };
    await onRemoteFloor(limits, async ({ page, run, url, status, bot }) => {
      run(process.execPath, [AGENT, url]);
      await page.until(() => status('dev') === 'QUEUED', 'dev at the floor');
      await page.say(CHANNEL, 'dev: steady');
      await page.until(() => page.drafts.get('dev') !== undefined, 'the first word');
      bot.child.kill('SIGSTOP');
      await delay(8_000);
      bot.child.kill('SIGCONT');
      const words = Array.from({ length: 20 }, (_, index) => `word${index + 1}`).join(' ');
      await page.until(() => page.texts('agent').some((text) => text.endsWith('word20')), 'all words');
      expect(page.texts('agent')[0]).toBe(words);
      expect(page.texts('system').filter((text) => text.startsWith('⌛') || text.startsWith('⚠️'))).toEqual([]);
    });
  });
});
