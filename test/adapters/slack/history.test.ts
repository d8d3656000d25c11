import assert from 'node:assert';
import { pino } from 'pino';
import { afterEach, describe, expect, test } from 'vitest';
import { systemTimers } from '../../../src/lib/time.ts';
import { WebClient } from '@slack/web-api';
import type { Position } from '../../../src/adapters/port.ts';
import { readHistory } from '../../../src/adapters/slack/history.ts';
import { adapterOptions, placeOf, sights, stand, until } from './listener.ts';
import type { Stand, StandOptions } from './listener.ts';

let here: Stand;
afterEach(async () => {
  await here.close();
});

/** Starts a Slack that delivers no events, so that only its history has the messages. */
async function deaf(options: StandOptions = {}): Promise<Stand> {
  here = await stand(options);
  here.slack.events.drop(1_000);
  return here;
}

function at(ts: string): Position {
  return { id: `${here.slack.ids.channel}/${ts}`, order: ts };
}

function write(text: string, thread?: string): string {
  const { slack } = here;
  return slack.write(slack.ids.ann, slack.ids.channel, text, thread === undefined ? {} : { thread });
}

const texts = (found: { readonly messages: readonly { readonly text: string }[] }): string[] =>
  found.messages.map(({ text }) => text);

describe('a channel that was never read', () => {
  test('starts at its newest message', async () => {
    const { adapter, floor } = await deaf();
    write('old');
    const last = write('newest');
    expect(await adapter.catchUp(floor, null)).toEqual({ messages: [], changes: [], gap: null, mark: at(last) });
  });

  test('starts after the newest reply, also under a message that is not the newest', async () => {
    const { adapter, floor } = await deaf();
    const root = write('root');
    write('newest in the channel');
    const reply = write('reply', root);
    expect(await adapter.catchUp(floor, null)).toMatchObject({ messages: [], mark: at(reply) });
  });

  test('later returns no reply from before it was first read', async () => {
    const { adapter, floor, ears } = await deaf();
    const root = write('root');
    write('reply', root);
    const { mark } = await adapter.catchUp(floor, null);
    assert(mark !== undefined);
    expect(await adapter.catchUp(floor, mark, mark)).toMatchObject({ messages: [], changes: [] });
    expect([ears.threads, ears.texts()]).toEqual([[], []]);
    write('a later reply', root);
    await adapter.catchUp(floor, mark, mark);
    expect(ears.texts()).toEqual(['a later reply']);
  });

  test('starts at its beginning when it is empty', async () => {
    const { adapter, floor } = await deaf();
    expect(await adapter.catchUp(floor, null)).toMatchObject({ messages: [], mark: { order: '0000000000.000000' } });
  });
});

describe('a channel that was read before', () => {
  test("row 34: returns people's later messages, oldest first, and none of Conch's", async () => {
    const { adapter, floor, slack } = await deaf();
    const known = write('known');
    for (let number = 1; number <= 250; number += 1) write(String(number));
    await adapter.post(floor, { outboxId: '1', speaker: null, text: 'own', afterId: null, epoch: null });
    slack.bot(slack.ids.channel, 'a program');
    write('!stop');
    const found = await adapter.catchUp(floor, at(known));
    expect(found.gap).toBeNull();
    expect(texts(found)).toEqual([
      'known',
      ...Array.from({ length: 250 }, (_, index) => String(index + 1)),
      'a program',
      '!stop',
    ]);
    expect(found.messages.slice(-2).map(({ ignore }) => ignore)).toEqual([
      'webhooks are ignored in this channel',
      'an operator command',
    ]);
    expect(here.ears.runs).toEqual([]);
  });

  test('row 45: returns edits with their versions', async () => {
    const { adapter, floor, slack } = await deaf();
    const known = write('known');
    const ts = write('draft');
    slack.edit(slack.ids.channel, ts, 'final');
    const found = await adapter.catchUp(floor, at(known));
    expect(found.changes).toMatchObject([{ change: 'edited', id: `${slack.ids.channel}/${ts}`, text: 'final' }]);
    expect(found.messages.at(-1)).toMatchObject({ text: 'final' });
  });

  test('opens floors for threads with new messages, and stores these', async () => {
    const { adapter, floor, ears } = await deaf();
    const root = write('root');
    write('reply one', root);
    write('reply two', root);
    const found = await adapter.catchUp(floor, at(root));
    expect(texts(found)).toEqual(['root']);
    expect(ears.threads).toMatchObject([{ id: `${floor}/${root}`, parent: floor, since: at(root) }]);
    expect(ears.texts()).toEqual(['reply one', 'reply two']);
    expect(ears.messages.every(({ channel }) => channel === `${floor}/${root}`)).toBe(true);
  });

  test("also returns people's replies to an agent's post", async () => {
    const { adapter, floor, ears } = await deaf();
    const known = write('known');
    const speaker = { id: 'dev', name: 'dev', avatar: null };
    const id = await adapter.post(floor, { outboxId: '1', speaker, text: 'done', afterId: null, epoch: 1 });
    const root = id.split('/')[1] ?? '';
    write('why?', root);
    await adapter.catchUp(floor, at(known));
    expect(ears.texts()).toEqual(['why?']);
  });

  test('returns messages of threads that share its floor, in order', async () => {
    const { adapter, floor } = await deaf({ place: { threads: 'parent' } });
    const root = write('root');
    write('reply', root);
    write('after');
    const { messages } = await adapter.catchUp(floor, at(root));
    const found = messages.map(({ text, thread }) => [text, thread ?? null]);
    expect(found).toEqual([
      ['root', null],
      ['reply', `${floor}/${root}`],
      ['after', null],
    ]);
  });

  test('returns late replies under messages that are older than the last known one', async () => {
    for (const threads of ['parent', 'own'] as const) {
      let now = Date.now() - 7_200_000;
      const { adapter, floor, ears } = await deaf({ place: { threads }, slack: { now: () => now } });
      const root = write('root');
      now += 3_600_000;
      const known = write('known');
      now += 3_600_000;
      write('late', root);
      const found = await adapter.catchUp(floor, at(known));
      expect(texts(found)).toEqual(threads === 'parent' ? ['known', 'late'] : ['known']);
      expect(ears.texts()).toEqual(threads === 'parent' ? [] : ['late']);
      if (threads === 'parent') await here.close();
    }
  });

  test('reads no threads where they are ignored', async () => {
    const { adapter, floor, slack } = await deaf({ place: { threads: 'ignore' } });
    const root = write('root');
    write('reply', root);
    expect(texts(await adapter.catchUp(floor, at(root)))).toEqual(['root']);
    expect(slack.requests.some(({ method }) => method === 'conversations.replies')).toBe(false);
  });

  test('reads a thread with its own floor separately', async () => {
    const { adapter, floor, ears } = await deaf();
    const root = write('root');
    const first = write('one', root);
    write('two', root);
    await ears.thread({ id: `${floor}/${root}`, parent: floor, name: 'x' });
    const found = await adapter.catchUp(`${floor}/${root}`, at(first));
    expect(texts(found)).toEqual(['one', 'two']);
    expect(await adapter.catchUp(`${floor}/${root}`, null)).toMatchObject({ messages: [], gap: null });
  });

  test("does not return a thread's root message when it reads the thread", async () => {
    const { adapter, floor, ears } = await deaf();
    const root = write('written before Conch was invited');
    const reply = write('reply', root);
    await ears.thread({ id: `${floor}/${root}`, parent: floor, name: 'x' });
    expect(texts(await adapter.catchUp(`${floor}/${root}`, at(reply)))).toEqual(['reply']);
    expect(ears.texts()).toEqual([]);
  });
});

describe('a history that cannot be read', () => {
  /** Returns timers that wait at most 20 ms after a call of `connected`. */
  const hastyOnceConnected = () => {
    let longest = Infinity;
    const after = (ms: number, run: () => void) => systemTimers.after(Math.min(ms, longest), run);
    return { timers: { after }, connected: () => void (longest = 20) };
  };

  test('row 40: reports a gap with the read messages when it is limited to a page a minute', async () => {
    const { adapter, floor } = await deaf({ slack: { historyPerMinute: 1 } });
    const known = write('known');
    for (let number = 0; number < 250; number += 1) write(String(number));
    const found = await adapter.catchUp(floor, at(known));
    expect(found.gap).toBe("only 200 messages were read: Slack's rate limit was reached");
    expect(found.messages).toHaveLength(200);
  });

  test.each([
    ['channel', '', 'the newest'],
    ['thread', '/1.000001', 'the oldest'],
  ])('names which messages of a %s were read when there are too many', async (_what, thread, which) => {
    const { ears, floor, slack } = await deaf();
    const web = new WebClient();
    let ts = 2_000_000_000;
    web.apiCall = async () => ({
      ok: true,
      messages: [{ ts: `${(ts += 1)}.000000`, user: slack.ids.ann, text: 'hi' }],
      response_metadata: { next_cursor: 'more' },
    });
    const log = pino({ level: 'silent' });
    const self = { userId: slack.ids.botUser, botId: slack.ids.bot, appId: slack.ids.app };
    const people = { name: async (user: string) => user, cachedName: () => null, isBot: () => false };
    const ports = {
      ...adapterOptions(slack),
      web,
      log,
      self,
      people,
      intake: ears,
      queries: sights([placeOf(slack.ids.channel)]),
      mark: null,
    };
    const { gap } = await readHistory(ports, `${floor}${thread}`, at('1.000000'));
    expect(gap).toBe(`only ${which} 50 messages were read`);
  });

  test('row 28: is read after a short rate limit', async () => {
    const time = hastyOnceConnected();
    const { adapter, floor, slack } = await deaf({ adapter: { timers: time.timers } });
    time.connected();
    const known = write('known');
    slack.fail('conversations.history', { kind: 'ratelimited', retryAfterSeconds: 5 });
    expect(await adapter.catchUp(floor, at(known))).toMatchObject({ gap: null, messages: [{ text: 'known' }] });
  });

  test('row 27: is read again after a short failure', async () => {
    const time = hastyOnceConnected();
    const { adapter, floor, slack } = await deaf({ adapter: { timers: time.timers } });
    time.connected();
    const known = write('known');
    slack.fail({ method: 'conversations.history', times: 2 }, { kind: 'status', status: 503 });
    expect(await adapter.catchUp(floor, at(known))).toMatchObject({ gap: null, messages: [{ text: 'known' }] });
  });

  test('row 41: is refused with missing_scope as the reason', async () => {
    const { adapter, floor, slack } = await deaf();
    const known = write('known');
    slack.setScopes(['chat:write']);
    await expect(adapter.catchUp(floor, at(known))).rejects.toMatchObject({
      fault: 'refused',
      message: expect.stringContaining('missing_scope'),
    });
  });
});

describe('an event whose message was already read from the history', () => {
  test('is stored once', async () => {
    here = await stand();
    const known = write('known');
    await until('it is heard', () => here.ears.messages.length === 1);
    const found = await here.adapter.catchUp(here.floor, at(known));
    for (const message of found.messages) await here.ears.message(message);
    expect(here.ears.messages).toHaveLength(1);
  });
});
