import { describe, expect, test, vi } from 'vitest';
import { MOST_BUTTONS, fitGroups } from '../../../src/adapters/delivery/card.ts';
import { crewCard } from '../../../src/adapters/delivery/crew-card.ts';
import { customId } from '../../../src/adapters/discord/content.ts';
import { buttonValue, wordingOf } from '../../../src/adapters/slack/content.ts';
import type { CrewCard } from '../../../src/adapters/delivery/crew-card.ts';
import type { CrewView, CrewWorkerView } from '../../../src/turns/crew-view.ts';
import { forTurn } from '../../../src/turns/drawn-for.ts';
import { blocksProblem } from '../slack/state-text.ts';
import { CHANNEL, THREAD, fakePlatform, floorView, said } from './fake-client.ts';

function asking(name: string, since: number): CrewWorkerView {
  const button = { what: 'to go on', mark: since };
  return {
    name,
    status: 'done',
    symbol: '✓',
    ticket: { id: `c-${name}`, title: 'Mend it', thread: `${THREAD}-${name}` },
    steps: 3,
    maxSteps: 20,
    toolSteps: null,
    work: '',
    tokens: 10,
    costMicros: 0,
    waits: 'Merge it anyway? it skips a test.',
    since,
    landsAt: null,
    asksPeople: true,
    isQuestion: true,
    buttons: [
      { ...button, label: 'Merge', line: `/crew answer ${name} merge`, style: 'good' },
      { ...button, label: 'Continue', line: `/crew answer ${name} continue`, style: 'plain' },
    ],
  };
}

function atWork(name: string, steps = 3): CrewWorkerView {
  const kill = { label: 'Kill', line: `/crew kill ${name}`, what: '', style: 'danger', mark: 7 } as const;
  const waits = { waits: '', since: null, asksPeople: false, isQuestion: false };
  return { ...asking(name, 0), ...waits, status: 'working', symbol: '●', steps, buttons: [kill] };
}

function crewOf(workers: readonly CrewWorkerView[], change: Partial<CrewView> = {}): CrewView {
  return {
    id: 'web',
    channel: CHANNEL,
    store: 'x',
    running: true,
    problems: [],
    paused: null,
    workers,
    groups: [],
    steps: 5,
    tokens: 10,
    costMicros: 1_200_000,
    unpriced: false,
    base: 'green',
    tests: { green: 1, flaky: 0, red: 0, none: 0 },
    merges: { merged: 4, conflicts: 0, dropped: 0 },
    kept: [],
    log: [],
    buttons: [{ label: 'Stop', line: '/crew stop', what: '', style: 'danger', mark: 0 }],
    ...change,
  };
}

function cardOf(crew: CrewView, channel: string): CrewCard {
  const card = crewCard(crew, channel);
  if (card === null) throw new Error('no card');
  return card;
}

const HEAD = '👷 crew web works · 2 of 2 workers at work · 4 merged · $1.20 · ✋ 1 worker waiting for people';
const ASKS = '✋ A · c-A · since 00:05 UTC: Merge it anyway? it skips a test.';

describe("a crew's card", () => {
  test('lists the workers with questions, each with its time, then the other workers', () => {
    const { text, asks } = cardOf(crewOf([asking('A', 300_000), atWork('B')]), CHANNEL);
    expect(text).toBe([HEAD, ASKS, '● B · c-B · step 3 of 20'].join('\n'));
    expect(asks).toEqual(['A.300000']);
  });

  test('fits into one message of Slack with 100 workers and long questions', () => {
    const workers = Array.from({ length: 100 }, (_, place) => ({
      ...asking(`W${place}`, place),
      waits: 'why '.repeat(500),
    }));
    const { text, buttons } = cardOf(crewOf(workers, { problems: ['p '.repeat(2_000)] }), CHANNEL);
    expect(text.length).toBeLessThan(1_600);
    const own = { kind: 'card', speaker: null, text, epoch: null, outboxId: null } as const;
    const ways = { isCustomized: true, hasBlocks: true, isThread: false };
    const { blocks = [] } = wordingOf({ ...own, buttons: fitGroups(buttons, MOST_BUTTONS) }, ways);
    expect(blocksProblem(JSON.parse(JSON.stringify(blocks)))).toBeNull();
    expect(text).toMatch(/… and \d+ more: \/crew ps$/);
  });

  test("names only the ticket's worker in the thread of a ticket, with the buttons of that worker", () => {
    const crew = crewOf([asking('A', 300_000), atWork('B')]);
    const { text, buttons } = cardOf(crew, `${THREAD}-B`);
    expect(text).toBe('● B · c-B · step 3 of 20');
    expect(buttons.flat()).toEqual([
      { label: 'Kill', line: '/crew kill B', style: 'danger', drawnFor: forTurn('x', 7) },
    ]);
  });

  test('is not busy for a crew that is stopped and has no ticket in work', () => {
    expect(cardOf(crewOf([], { running: false }), CHANNEL).isBusy).toBe(false);
  });
});

describe("the buttons of a crew's card", () => {
  test('name the worker of each question, and have unique ids within the limits of Discord and Slack', () => {
    const long = 'a'.repeat(20);
    const { buttons } = cardOf(
      crewOf([asking('A', 300_000), asking(long, Date.now())], { store: 'k3v9x2q8' }),
      CHANNEL,
    );
    expect(buttons.map((group) => group.map(({ label }) => label))).toEqual([
      ['Merge (A)', 'Continue (A)'],
      [`Merge (${long})`, `Continue (${long})`],
      ['Stop crew'],
    ]);
    for (const button of buttons.flat()) {
      expect(customId(button).length).toBeLessThanOrEqual(100);
      expect(buttonValue(button).length).toBeLessThanOrEqual(2_000);
    }
    expect(new Set(buttons.flat().map((button) => customId(button))).size).toBe(5);
  });
});

test('the card of a crew lists proposed tickets, the first three with buttons', () => {
  const ticket = (id: string) => {
    const button = (label: string, line: string) => ({ label, line, what: '', style: 'plain', mark: 0 }) as const;
    const buttons = [button(`Admit ${id}`, `/crew admit ${id}`), button(`Drop ${id}`, `/crew drop ${id}`)];
    return { id, words: `Mend ${id}`, at: 1, buttons };
  };
  const tickets = ['p-1', 'p-2', 'p-3', 'p-4'].map(ticket);
  const crew = crewOf([atWork('A')], { groups: [{ state: 'proposed', count: 4, tickets }] });
  const { text, buttons } = cardOf(crew, CHANNEL);
  expect(text).toContain('✎ p-1 is proposed: Mend p-1');
  expect(buttons.map((group) => group.map(({ line }) => line))).toEqual([
    ['/crew admit p-1', '/crew drop p-1'],
    ['/crew admit p-2', '/crew drop p-2'],
    ['/crew admit p-3', '/crew drop p-3'],
    ['/crew stop'],
  ]);
  expect(cardOf(crew, `${THREAD}-A`).text).not.toContain('proposed');
});

describe('the card of a channel with a crew or review', () => {
  test('is sent once, and edited at most once in 10 s while the crew works', async () => {
    const platform = fakePlatform();
    for (let second = 0; second < 60; second += 1) {
      platform.crews.set(CHANNEL, crewOf([atWork('B', second)]));
      platform.sender.card(CHANNEL, floorView('resting'));
      await platform.time.advance(1_000);
    }
    await platform.time.advance(20_000);
    expect(platform.calls.filter((call) => call === 'send card')).toHaveLength(1);
    expect(platform.calls.filter((call) => call === 'change card').length).toBeLessThanOrEqual(6);
    expect(platform.shown()).toEqual([expect.stringContaining('step 59 of 20\n💤 nobody holds the floor')]);
  });

  test('is edited at most once in 10 s for a crew that begins after the card was first shown', async () => {
    const platform = fakePlatform();
    platform.sender.card(CHANNEL, floorView('open'));
    await platform.time.advance(20_000);
    for (let second = 0; second < 60; second += 1) {
      platform.crews.set(CHANNEL, crewOf([atWork('B', second)]));
      platform.sender.card(CHANNEL, floorView('open'));
      await platform.time.advance(1_000);
    }
    expect(platform.calls.filter((call) => call === 'change card').length).toBeLessThanOrEqual(7);
  });

  test('is edited on the platform at most once in 10 s, also when an edit takes 3 s to arrive', async () => {
    const platform = fakePlatform();
    platform.edits.ways = [3_000, 0, 2_000, 0];
    for (let second = 0; second < 60; second += 1) {
      platform.crews.set(CHANNEL, crewOf([atWork('B', second)]));
      platform.sender.card(CHANNEL, floorView('resting'));
      await platform.time.advance(1_000);
    }
    const { at } = platform.edits;
    const gaps = at.slice(1).map((time, edit) => time - (at[edit] ?? 0));
    expect(gaps.length).toBeGreaterThanOrEqual(3);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(10_000);
  });

  test('is sent once, edited at most once in 10 s while a review is open, and shows no review after its end', async () => {
    const platform = fakePlatform();
    const review = {
      id: 'r-1',
      primary: 'dev',
      reviewer: 'qa',
      iteration: 0,
      allowed: 10,
      iterations: [],
      agent: 'dev',
      purpose: 'work' as const,
      voided: false,
      waiting: null,
      findings: [],
      outcome: null,
    };
    for (let second = 0; second < 60; second += 1) {
      platform.reviews.set(CHANNEL, { ...review, iteration: second });
      platform.sender.card(CHANNEL, floorView('open'));
      await platform.time.advance(1_000);
    }
    await platform.time.advance(20_000);
    expect(platform.calls.filter((call) => call === 'send card')).toHaveLength(1);
    expect(platform.calls.filter((call) => call === 'change card').length).toBeLessThanOrEqual(6);
    expect(platform.shown()).toEqual([expect.stringMatching(/🔁 59 of 10 · Dev works\n/)]);
    platform.reviews.set(CHANNEL, { ...review, outcome: { kind: 'passed', why: 'good' } });
    platform.sender.card(CHANNEL, floorView('resting'));
    await platform.time.advance(20_000);
    expect(platform.shown()).toEqual([expect.not.stringContaining('🔁')]);
  });

  test('says in the thread of a finished ticket that the ticket is finished, until agents have seats there again', async () => {
    const platform = fakePlatform();
    platform.crews.set(THREAD, crewOf([{ ...atWork('A'), ticket: { id: 'c-1', title: 'Mend it', thread: THREAD } }]));
    platform.sender.card(THREAD, floorView('open', { channel: THREAD }));
    await platform.time.advance(20_000);
    platform.crews.set(THREAD, crewOf([asking('A', 300_000), atWork('B')]));
    platform.past.set(THREAD, 'c-1');
    platform.sender.card(THREAD, floorView('resting', { channel: THREAD, seats: [] }));
    await platform.time.advance(20_000);
    expect(platform.shown()).toEqual(['card Conch: ✓ c-1 is finished.']);
    const seats = [{ agent: 'dev', status: 'IDLE', disabled: false, waitUntil: null }] as const;
    platform.sender.card(THREAD, floorView('open', { channel: THREAD, seats }));
    await platform.time.advance(20_000);
    expect(platform.shown()).toEqual([expect.not.stringContaining('is finished')]);
  });

  test('is updated once the store can be read again, without an unhandled error', async () => {
    const platform = fakePlatform();
    platform.sender.card(CHANNEL, floorView('open'));
    await platform.time.advance(1_000);
    const reading = vi.spyOn(platform.reviews, 'get').mockImplementation(() => {
      throw new Error('the store is closed');
    });
    platform.sender.card(CHANNEL, floorView('resting'));
    await platform.time.advance(30_000);
    expect(reading).toHaveBeenCalled();
    reading.mockRestore();
    await platform.time.advance(120_000);
    expect(platform.shown()).toEqual([expect.stringContaining('nobody holds the floor')]);
  });

  test.each(['send', 'change'] as const)(
    'shows the last state in each of ten threads after rate limits of %s',
    async (method) => {
      const platform = fakePlatform();
      const threads = Array.from({ length: 10 }, (_, place) => `${THREAD}-W${place}`);
      for (let second = 0; second < 60; second += 1) {
        if (second % 7 === 1) platform.fail(method, { fault: 'limited', retryAfterMs: 15_000, kind: 'card', times: 3 });
        for (const [place, thread] of threads.entries()) {
          platform.crews.set(thread, crewOf([atWork(`W${place}`, second)]));
          platform.sender.card(thread, floorView('open', { channel: thread }));
        }
        await platform.time.advance(1_000);
      }
      platform.heal();
      await platform.time.advance(120_000);
      for (const thread of threads) expect(platform.shown(thread)).toEqual([expect.stringContaining('step 59 of 20')]);
    },
  );

  test('moves to the end once for ten new questions', async () => {
    const platform = fakePlatform();
    platform.crews.set(CHANNEL, crewOf([atWork('B')]));
    platform.sender.card(CHANNEL, floorView('resting'));
    await platform.time.advance(10_000);
    await platform.sender.post(CHANNEL, said('news'));
    for (let place = 1; place <= 10; place += 1) {
      const names = Array.from({ length: place }, (_, each) => asking(`W${each}`, each + 1));
      platform.crews.set(CHANNEL, crewOf(names));
      platform.sender.card(CHANNEL, floorView('resting'));
    }
    await platform.time.advance(30_000);
    expect(platform.shown()).toEqual(['post Dev: news', expect.stringContaining('10 workers waiting for people')]);
    expect(platform.calls.filter((call) => call === 'send card')).toHaveLength(2);
  });
});
