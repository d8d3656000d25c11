import { describe, expect, test } from 'vitest';
import type { CardButton } from '../../../src/adapters/delivery/card.ts';
import { buttonValue, readButtonValue, roughlyLeft, wordingOf } from '../../../src/adapters/slack/content.ts';
import type { FloorView } from '../../../src/turns/view.ts';
import { holding, said, speaking, viewOf } from './speaking.ts';
import type { Speaking } from './speaking.ts';
import { ALL_SCOPES } from './server.ts';
import { blocksProblem, unescaped } from './state-text.ts';
import type { Json } from './state.ts';

/** Returns the channel's cards as people see them. */
function cardsIn(world: Speaking, thread?: string) {
  const { slack } = world;
  return slack
    .read(slack.ids.channel, thread)
    .filter(({ metadata }) => JSON.stringify(metadata ?? null).includes('conch_card'));
}

async function drawn(world: Speaking, view: FloorView): Promise<void> {
  world.outgoing.card(world.channel, view);
  await world.until(() => cardsIn(world).length === 1 && world.memories.size === 1, 'a card that is known');
}

describe('a floor in an exchange', () => {
  test('has one card with the holder, and buttons for the turn', async () => {
    const world = await speaking();
    const deadlineAt = world.time.clock.now() + 72_000;
    await drawn(world, viewOf(world.channel, { holder: holding('dev', { deadlineAt }) }));
    const [card] = cardsIn(world);
    expect(card?.author).toBe('Conch');
    expect(card?.text).toContain('🎤 Dev · about 1 min left · next: QA');
    expect(card?.buttons).toEqual([
      { actionId: 'conch:0', text: 'Skip', value: '{"line":"/floor skip","drawnFor":"tx.7"}', style: null },
      { actionId: 'conch:1', text: 'Stop', value: '{"line":"/stop","drawnFor":"tx.7"}', style: 'danger' },
      { actionId: 'conch:2', text: 'Pause', value: '{"line":"/floor pause","drawnFor":"tx.7"}', style: null },
      { actionId: 'conch:settings', text: 'Settings', value: '{"line":"/settings","drawnFor":""}', style: null },
    ]);
  });

  test('has its time left updated while an agent holds it', async () => {
    const world = await speaking();
    const deadlineAt = world.time.clock.now() + 150_000;
    await drawn(world, viewOf(world.channel, { holder: holding('dev', { deadlineAt }) }));
    expect(cardsIn(world)[0]?.text).toContain('about 3 min left');
    await world.until(() => cardsIn(world)[0]?.text.includes('less than a minute left') === true, 'the end', 250);
    expect(world.calls('chat.update').length).toBeLessThanOrEqual(6);
  });
});

describe('the blocks of a card', () => {
  const button = (label: string): CardButton => ({ label, line: '/stop', drawnFor: 'tx.7', style: 'plain' });
  function blocksOf(text: string, buttons: readonly CardButton[]): Json[] {
    const content = { kind: 'card', speaker: null, text, buttons, epoch: 7, outboxId: null } as const;
    const { blocks = [] } = wordingOf(content, { isCustomized: true, hasBlocks: true, isThread: false });
    return JSON.parse(JSON.stringify(blocks));
  }

  test('are within the limits of Slack with the most buttons, the longest labels and escaped text', () => {
    const blocks = blocksOf('<'.repeat(1_500), Array(24).fill(button(`Trust this folder (${'n'.repeat(80)})`)));
    expect(blocksProblem(blocks)).toBeNull();
    expect(JSON.stringify(blocks[1])).toContain('nnn…"');
    expect(unescaped(JSON.stringify(blocks[0]))).toMatch(/<…"/);
  });

  test('have no button for the settings on the card of a finished ticket', () => {
    expect(blocksOf('✓ c-1 is finished.', []).map(({ type }) => type)).toEqual(['section']);
  });
});

test.each([
  [47 * 60, 'about 47 h left'],
  [48 * 60, 'about 2 days left'],
  [7 * 24 * 60, 'about 7 days left'],
])('the time left of %i minutes is shown as "%s"', (minutes, words) => {
  expect(roughlyLeft(minutes * 60_000)).toBe(words);
});

describe("a button's value", () => {
  test('is parsed as it was written', () => {
    const value = { line: '/floor skip', drawnFor: 'tx.7' };
    expect(readButtonValue(buttonValue(value))).toEqual(value);
  });

  test.each([
    '',
    'nonsense',
    '{}',
    '{"line":5}',
    '{"line":"rm -rf","drawnFor":"tx.1"}',
    '{"line":"/x","drawnFor":1}',
    '[]',
    'null',
  ])('is refused when it is %s', (text) => expect(readButtonValue(text)).toBeNull());
});

describe('the status line of a thread', () => {
  async function inThread(how: Parameters<typeof speaking>[0] = {}) {
    const world = await speaking({ ...how, settings: { cards: false, ...how.settings } });
    const { slack } = world;
    const root = slack.write(slack.ids.ann, slack.ids.channel, 'a thread');
    const floor = `${world.channel}/${root}`;
    const shown = () => slack.world.statuses.get(`${slack.ids.channel}/${root}`) ?? null;
    const session = () => slack.world.sessions.get(`${slack.ids.channel}/${root}`) ?? null;
    return { ...world, floor, shown, session };
  }

  test('shows the writing agent, is refreshed before it expires, and is removed at the end of the turn', async () => {
    const { outgoing, floor, shown, until, calls, time } = await inThread({ settings: { agentSessions: false } });
    outgoing.card(floor, viewOf(floor, { holder: holding('dev') }));
    await until(() => shown() !== null);
    expect(shown()).toMatchObject({ status: 'is writing…', username: 'Dev' });
    await time.advance(95_000);
    await until(() => calls('assistant.threads.setStatus').length === 2);
    outgoing.card(floor, viewOf(floor));
    await until(() => shown() === null);
  });

  test('is shown again after a post, which removes it', async () => {
    const { outgoing, floor, shown, until, over } = await inThread();
    outgoing.card(floor, viewOf(floor, { holder: holding('dev') }));
    await until(() => shown() !== null);
    await over(outgoing.post(floor, said('hello')));
    expect(shown()).toBeNull();
    await until(() => shown() !== null);
  });

  test('is removed when the program stops', async () => {
    const { outgoing, floor, shown, until } = await inThread();
    outgoing.card(floor, viewOf(floor, { holder: holding('dev') }));
    await until(() => shown() !== null);
    await outgoing.stop();
    expect(shown()).toBeNull();
  });

  test('is not set again when Slack refuses it from this app', async () => {
    const { outgoing, floor, slack, calls, pass, logged } = await inThread({ settings: { agentSessions: false } });
    slack.setScopes(ALL_SCOPES.filter((scope) => scope !== 'chat:write'));
    for (let n = 0; n < 5; n += 1) {
      outgoing.card(floor, viewOf(floor, n % 2 === 0 ? { holder: holding('dev') } : {}));
      await pass(3_000);
    }
    expect(calls('assistant.threads.setStatus')).toHaveLength(1);
    expect(logged.filter((line) => line.includes('it is not called again'))).toHaveLength(1);
  });

  test("follows the floor in Slack's session, which shows a Stop button while processing", async () => {
    const { outgoing, floor, session, until, calls } = await inThread();
    outgoing.card(floor, viewOf(floor, { holder: holding('dev') }));
    await until(() => session()?.['status'] === 'processing');
    outgoing.card(floor, viewOf(floor, { holder: holding('dev', { status: 'WAITING', waitingFor: 'answer' }) }));
    await until(() => session()?.['status'] === 'suspended');
    outgoing.card(floor, viewOf(floor, { condition: 'resting' }));
    await until(() => session()?.['status'] === 'closed');
    expect(calls('agents.sessions.setStatus')).toHaveLength(3);
  });

  test('is not set in a channel, which cannot show it', async () => {
    const { outgoing, channel, calls, pass } = await inThread();
    outgoing.card(channel, viewOf(channel, { holder: holding('dev') }));
    await pass(5_000);
    expect(calls('assistant.threads.setStatus')).toEqual([]);
  });
});

describe('the status line of a direct message', () => {
  test('stays below the newest message when an older one is done', async () => {
    const world = await speaking({ settings: { cards: false, agentSessions: false } });
    const { slack, outgoing, until } = world;
    const direct = slack.channel('D0ANN', 'im');
    const floor = `slack:${direct}`;
    const [older, newer] = ['A', 'B'].map((text) => slack.write(slack.ids.ann, direct, text));
    for (const ts of [older, newer]) await outgoing.receipt(floor, `${direct}/${ts}`, 'held');
    await outgoing.receipt(floor, `${direct}/${older}`, 'done');
    outgoing.card(floor, viewOf(floor, { holder: holding('dev') }));
    await until(() => world.calls('assistant.threads.setStatus').length > 0);
    expect(world.calls('assistant.threads.setStatus')[0]?.args['thread_ts']).toBe(newer);
  });
});
