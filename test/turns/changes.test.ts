import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import type { HumanMessage } from '../../src/engine/port.ts';
import type { Command } from '../../src/turns/floor/command.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import { PLAIN_SETTINGS } from '../../src/turns/floor/floor.ts';
import type { Turn } from '../../src/turns/floor/floor.ts';
import type { FloorStore } from '../../src/turns/floor-store.ts';
import { INTERRUPT_MODES } from '../../src/turns/floor/policies.ts';
import { missedBy, turnsOf, waitOf } from '../../src/turns/floor/seats.ts';
import type { AgentId, FloorSettings } from '../../src/turns/floor/settings.ts';
import { TurnManager } from '../../src/turns/manager.ts';
import { messagesGivenBy } from '../../src/turns/view.ts';
import { createTime } from '../agents/time.ts';
import { open, written } from '../engine/sqlite/fixture.ts';

const CHANNEL = 'test:one';
const AGENTS: readonly AgentId[] = ['pm', 'dev'];
const OLD = 'the first wording';
const NEW = 'the second wording';
const MESSAGE: HumanMessage = { ...written('m7', OLD), thread: 'test:thread' };

/** A floor in a real store. The test sends the commands of its agents. */
class Play {
  readonly store: FloorStore = open();
  readonly facts: Fact[] = [];
  readonly #manager: TurnManager;
  #written = 7;

  constructor() {
    const { clock, timers } = createTime();
    const failed = (error: unknown): void => assert.fail(String(error));
    this.#manager = new TurnManager({
      store: this.store,
      clock,
      timers,
      addressed: () => [],
      takeDraft: () => null,
      changed: ({ facts }) => void this.facts.push(...facts),
      failed,
    });
  }

  get floor() {
    const floor = this.store.floors.state(CHANNEL);
    assert(floor !== null);
    return floor;
  }

  get holder(): Turn {
    const { turn } = this.floor;
    assert(turn !== null, 'nobody has the floor');
    return turn;
  }

  async begin(settings: Partial<FloorSettings>): Promise<void> {
    const seats = AGENTS.map((agent) => ({ agent, priority: 5, timeoutMs: 60_000, rejoin: 'auto' as const }));
    await this.do({ type: 'configure', settings: { ...PLAIN_SETTINGS, ...settings }, seats });
    for (const agent of AGENTS) await this.do({ type: 'join', agent });
  }

  async do(...commands: readonly Command[]): Promise<void> {
    for (const command of commands) await this.#manager.apply(CHANNEL, command);
  }

  receive(message: HumanMessage = MESSAGE): Promise<void> {
    return this.#manager.receive(message);
  }

  /** Sends another message of a person. */
  writes(addressed: readonly AgentId[] = []): Promise<void> {
    this.#written += 1;
    return this.receive({ ...written(`m${this.#written}`), addressed: [...addressed] });
  }

  change(change: 'edited' | 'deleted'): Promise<void> {
    const of = { id: MESSAGE.id, channel: CHANNEL };
    return this.#manager.amend(change === 'edited' ? { ...of, change, text: NEW } : { ...of, change });
  }

  async ends(): Promise<void> {
    const { agent, epoch } = this.holder;
    await this.do(
      { type: 'say', agent, epoch, text: 'a word', mentions: [] },
      { type: 'end', agent, epoch, outcome: 'completed', signalled: true },
    );
  }

  /** Lets all agents act until the floor rests with no held messages. */
  async playOn(): Promise<void> {
    for (let left = 60; left > 0; left -= 1) {
      const { turn, catchingUp, condition, seats, held, parked } = this.floor;
      const absent = seats.filter(({ present }) => !present);
      if (catchingUp) await this.do({ type: 'catchUp' });
      else if (condition === 'paused') await this.do({ type: 'resume', by: 'ada' });
      else if (absent.length > 0) for (const { agent } of absent) await this.do({ type: 'join', agent });
      else if (turn !== null) await this.#goOn(turn);
      else if (held.length > 0 || parked.length > 0) await this.writes(parked.map(({ agent }) => agent));
      else return;
    }
    assert.fail(`the floor does not come to rest: ${JSON.stringify(this.floor)}`);
  }

  async #goOn(turn: Turn): Promise<void> {
    const { agent, epoch } = turn;
    for (const { id } of turn.injecting) await this.do({ type: 'injected', agent, epoch, id, outcome: 'injected' });
    switch (waitOf(turn)?.reason) {
      case undefined:
        return this.ends();
      case 'human':
        return this.do({ type: 'interrupted', agent, epoch });
      case 'answer':
        return this.writes([agent]);
      case 'approval':
        return this.do({ type: 'withdraw', agent, epoch });
    }
  }
}

type Moment = { readonly settings?: Partial<FloorSettings>; readonly reach: (play: Play) => Promise<void> };

/** A message arrives while pm speaks. */
async function whilePmSpeaks(play: Play): Promise<void> {
  await play.writes(['pm']);
  await play.receive();
}

const reported =
  (outcome: 'injected' | 'next-prompt') =>
  async (play: Play): Promise<void> => {
    await whilePmSpeaks(play);
    const { agent, epoch } = play.holder;
    await play.do({ type: 'injected', agent, epoch, id: MESSAGE.id, outcome });
  };

/** States in which a message can be when its author changes it, and how the test brings it there. */
const MOMENTS: Readonly<Record<string, Moment>> = {
  'stands in a prompt': { reach: (play) => play.receive() },
  'came while an agent spoke': { reach: whilePmSpeaks },
  'was taken into a generation': { reach: reported('injected') },
  'did not get into a generation': { reach: reported('next-prompt') },
  'is held by a pause': {
    reach: async (play) => {
      await play.do({ type: 'pause', by: 'ada' });
      await play.receive();
    },
  },
  'waits for the history to be read': {
    reach: async (play) => {
      await play.do({ type: 'disconnect' });
      await play.receive();
    },
  },
  'waits for somebody to be there': {
    reach: async (play) => {
      for (const agent of AGENTS) await play.do({ type: 'leave', agent, cause: 'gone' });
      await play.receive();
    },
  },
  'is kept by a stop': {
    settings: { mode: 'queue' },
    reach: async (play) => {
      await whilePmSpeaks(play);
      await play.do({ type: 'stop', by: 'ada' });
    },
  },
  'answers an agent that waits for the floor': {
    settings: { waitPolicy: 'release' },
    reach: async (play) => {
      await play.writes(['pm']);
      const { agent, epoch } = play.holder;
      await play.do({ type: 'wait', agent, epoch, reason: 'answer' });
      await play.receive({ ...MESSAGE, addressed: ['pm'] });
    },
  },
  'came while people were asked': {
    reach: async (play) => {
      await play.writes(['pm']);
      const { agent, epoch } = play.holder;
      await play.do({ type: 'request', agent, epoch, approval: { title: 'git push', detail: 'git push' } });
      await play.receive();
    },
  },
  'stands in a turn that a restart cut': {
    reach: async (play) => {
      await play.receive();
      await play.do({ type: 'restart' });
    },
  },
  'was on its way into a turn that a restart cut': {
    reach: async (play) => {
      await whilePmSpeaks(play);
      await play.do({ type: 'restart' });
    },
  },
  'came back from an agent that was lost': {
    reach: async (play) => {
      await play.receive();
      for (const agent of ['dev', 'pm']) await play.do({ type: 'leave', agent, cause: 'gone' });
    },
  },
  'was answered, and its turn is not over': {
    reach: async (play) => {
      await play.receive();
      const { agent, epoch } = play.holder;
      await play.do({ type: 'say', agent, epoch, text: 'a word', mentions: [] });
    },
  },
  'was answered': {
    reach: async (play) => {
      await play.receive();
      await play.ends();
    },
  },
};

const ways = INTERRUPT_MODES.flatMap((mode) =>
  Object.entries(MOMENTS).flatMap(([moment, { settings, reach }]) =>
    (['edited', 'deleted'] as const).flatMap((change) =>
      [false, true].map((restarts) => ({ mode, moment, change, restarts, settings, reach })),
    ),
  ),
);

/** Returns all texts of the message that agents can read. */
function texts({ store, floor }: Play): readonly string[] {
  const lines = store.lines(CHANNEL, 0, floor.lines).filter(({ message }) => message === MESSAGE.id);
  return lines.map(({ text }) => text);
}

function assertChanged(play: Play, change: 'edited' | 'deleted', after: readonly Fact[]): void {
  const row = play.store.message(MESSAGE.id);
  const given = after.filter((fact) => messagesGivenBy(fact).includes(MESSAGE.id)).map(({ type }) => type);
  const { floor } = play;
  const kept = [...floor.held, ...turnsOf(floor).flatMap((turn) => [...turn.given, ...missedBy(turn)])];
  assert(!kept.some(({ id }) => id === MESSAGE.id), 'it is kept for ever');
  assert(
    texts(play).every((text) => text === (change === 'edited' ? NEW : '')),
    `agents read ${texts(play).join()}`,
  );
  assert.equal(play.store.verify().join(), '');
  if (change === 'deleted') {
    assert.equal(row?.deleted, true);
    assert.deepEqual(given, [], 'a deleted message was given to be answered');
    return;
  }
  assert.equal(row?.text, NEW);
  const line = play.store.lines(CHANNEL, 0, floor.lines).findLast(({ message }) => message === MESSAGE.id);
  assert(line !== undefined, 'no agent will ever read it');
  const unread = floor.seats.filter(({ seenLine }) => seenLine < line.line).map(({ agent }) => agent);
  assert(unread.length < AGENTS.length || line.change === 'edited', 'nobody has read it');
}

describe('a message that its author changes', () => {
  test.each(ways)(
    'T55 in mode $mode, $change when it $moment (restart: $restarts): no agent can read the old text',
    async ({ mode, change, restarts, settings, reach }) => {
      const play = new Play();
      await play.begin({ mode, ...settings });
      await reach(play);
      const before = play.facts.length;
      await play.change(change);
      if (restarts) await play.do({ type: 'restart' });
      await play.playOn();
      assertChanged(play, change, play.facts.slice(before));
    },
  );

  test.each(INTERRUPT_MODES)(
    'T55 in mode %s, has its new text when it was edited before its old text arrived with the history',
    async (mode) => {
      const play = new Play();
      await play.begin({ mode });
      await play.change('edited');
      await play.receive();
      await play.playOn();
      assert.deepEqual(texts(play), [NEW]);
      assert.equal(play.store.message(MESSAGE.id)?.text, NEW);
    },
  );

  test.each(INTERRUPT_MODES)(
    'T55 in mode %s, is ignored when it was deleted before it arrived with the history',
    async (mode) => {
      const play = new Play();
      await play.begin({ mode });
      await play.change('deleted');
      await play.receive();
      assert.equal(play.store.message(MESSAGE.id), null);
      assert.equal(play.floor.turn, null);
    },
  );

  test('is deleted without a line in the conversation when there was no room to hold it', async () => {
    const play = new Play();
    await play.begin({ mode: 'queue', maxHeld: 1 });
    await play.writes();
    await play.writes();
    await play.receive();
    assert.equal(play.store.message(MESSAGE.id)?.fate?.state, 'unrouted');
    const { lines } = play.floor;
    await play.change('deleted');
    assert.deepEqual([play.store.message(MESSAGE.id)?.deleted, play.floor.lines], [true, lines]);
  });

  test('T55 stays deleted when an edit arrives after the deletion', async () => {
    const play = new Play();
    await play.begin({});
    await play.receive();
    await play.change('deleted');
    await play.change('edited');
    await play.playOn();
    assert.deepEqual(new Set(texts(play)), new Set(['']));
  });
});
