import { EventSchema } from '@ag-ui/core/schemas';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AgUiStream } from '../../../src/work/runs/ag-ui.ts';
import { RunFeeds } from '../../../src/work/runs/run-feed.ts';
import type { FeedItem, Opening, RunMessage } from '../../../src/work/runs/run-feed.ts';
import { streamRuns } from '../../../src/work/runs/run-stream.ts';
import { openQuestion } from '../../../src/turns/floor/seats.ts';
import { folder } from '../../engine/sqlite/fixture.ts';
import type { Command } from '../../../src/turns/floor/command.ts';
import { BESIDE, Bound, HALL, SEAT, by } from './bound.ts';
import { runKeyOf } from '../../../src/work/runs/floor-binding.ts';
import { AT, WAIT_MS, call, settle, start } from './fixture.ts';

type Act = (bound: Bound, index: number) => Promise<unknown>;

const session = (bound: Bound): string => bound.state.run?.session ?? '';
const step: Act = (bound) =>
  bound.run({ type: 'STEP', session: session(bound), turn: (bound.state.run?.turn ?? 0) + 1, toolCalls: [] });
const used: Act = async (bound, index) => {
  const id = `used ${index}`;
  await bound.requests(id, { verdict: 'allow', digest: id }, session(bound));
  await bound.run({ type: 'CLAIM', call: id, digest: id, verdict: 'allow' });
  await bound.run(settle(id));
};
const asked: Act = async (bound, index) => {
  await bound.requests(`asked ${index}`, { digest: `asked ${index}` }, session(bound));
  if (openQuestion(bound.hall) !== null) await bound.answers(index % 2 === 0 ? 'allow' : 'reject');
};
/** Reports a call that the agent ran without a request; at an even index while people are asked to confirm. */
const unasked: Act = async (bound, index) => {
  if (index % 2 === 0) await bound.run({ type: 'PAUSE', reason: 'confirmation', context: 'wait' });
  const read = { ...call(`unasked ${index}`), source: 'agent', verdict: 'allow', rule: 'unasked' } as const;
  const result = { status: 'complete', output: 'read', duration: null, code: null } as const;
  await bound.run({ type: 'REPORT', session: session(bound), call: read, result });
  if (openQuestion(bound.hall) !== null) await bound.answers('allow');
};
/** Ends the turn and the next agent's turn, so that pm gets the floor again. */
const nextTurn: Act = async (bound) => {
  const apply = (command: Command) => bound.store.floors.apply(HALL, command, AT);
  const { turn } = bound.hall;
  const end = { type: 'end', outcome: 'completed', signalled: true } as const;
  if (turn !== null) await apply({ ...end, agent: turn.agent, epoch: turn.epoch });
  const other = bound.hall.turn;
  if (other !== null && other.agent !== 'pm') await apply({ ...end, agent: other.agent, epoch: other.epoch });
  await apply({ type: 'start', by });
  const again = bound.hall.turn;
  if (again?.agent === 'pm') await apply({ type: 'use', agent: 'pm', epoch: again.epoch });
};

const ACTS: readonly Act[] = [step, used, asked, unasked, nextTurn];

/** A reader of pm's runs that was connected before the first run; `all` collects its items. */
function listening(bound: Bound): { readonly feeds: RunFeeds; readonly all: FeedItem[] } {
  const feeds = new RunFeeds({ runs: bound.runs, now: () => AT });
  const all: FeedItem[] = [];
  feeds.open(SEAT, null, { durable: (item) => void all.push(item), token: () => {} });
  return { feeds, all };
}

function opened(opening: Opening): Extract<Opening, { ok: true }> {
  if (!opening.ok) throw new Error(`not opened: ${opening.why}`);
  return opening;
}

const seqs = (items: readonly { readonly seq: number }[]): readonly number[] => items.map(({ seq }) => seq);

describe('a reader of runs', () => {
  test('receives a call, its result, a request and the end, each with its number', async () => {
    const bound = await new Bound().granted();
    const { all } = listening(bound);
    await bound.floor({ type: 'use', agent: 'pm', epoch: 1 });
    await used(bound, 1);
    await asked(bound, 2);
    await bound.floor({ type: 'end', agent: 'pm', epoch: 1, outcome: 'completed', signalled: true });
    const told = all.map(({ message }) => message);
    expect(told.map(({ type }) => type)).toEqual([
      'agent:starting',
      'state:update',
      'agent:step',
      'state:update',
      'tool:start',
      'state:update',
      'tool:result',
      'state:update',
      'agent:paused',
      'state:update',
      'state:update',
      'tool:result',
      'agent:completed',
      'state:update',
      'agent:cleanup',
    ]);
    expect(told[4]).toEqual({
      v: 1,
      seq: told[4]?.seq,
      at: AT,
      run: bound.state.run?.id,
      agent: 'pm',
      channel: 'console:hall',
      type: 'tool:start',
      tool: call('x').tool,
      input: call('used 1').input,
      callId: 'used 1',
    });
    expect(seqs(told)).toEqual([...new Set(seqs(told))].toSorted((one, other) => one - other));
  });

  test('that reconnects by number receives each event once, wherever it was cut off', async () => {
    const script = fc.array(fc.constantFrom(...ACTS), { minLength: 1, maxLength: 14 });
    await fc.assert(
      fc.asyncProperty(script, fc.infiniteStream(fc.boolean()), async (acts, cuts) => {
        const bound = await new Bound().granted();
        const { feeds, all } = listening(bound);
        const had: RunMessage[] = [];
        const read = () => {
          const reader = { durable: ({ message }: FeedItem) => void had.push(message), token: () => {} };
          const reading = opened(feeds.open(SEAT, had.at(-1)?.seq ?? 0, reader));
          had.push(...reading.missed.map(({ message }) => message));
          return reading;
        };
        let reading: ReturnType<typeof read> | null = read();
        await bound.floor({ type: 'use', agent: 'pm', epoch: 1 });
        for (const [index, act] of acts.entries()) {
          if (cuts.next().value === true) {
            reading?.close();
            reading = reading === null ? read() : null;
          }
          await act(bound, index);
        }
        reading ??= read();
        expect(had).toEqual(all.map(({ message }) => message));
        await bound.store.close();
      }),
      { numRuns: 100 },
    );
  });

  test('continues after a restart', async () => {
    using place = folder();
    const bound = await new Bound(`${place.path}/x.db`).granted();
    const { all } = listening(bound);
    await bound.floor({ type: 'use', agent: 'pm', epoch: 1 });
    await used(bound, 1);
    const last = all[2]?.message.seq ?? 0;
    await bound.dies();
    const after = new RunFeeds({ runs: bound.runs, now: () => AT });
    const { missed } = opened(after.open(SEAT, last, { durable: () => {}, token: () => {} }));
    expect(missed.slice(0, 3).map(({ message }) => message)).toEqual(all.slice(3, 6).map(({ message }) => message));
    await bound.store.close();
  });

  test('with a number that never existed, or is in the future, is refused', async () => {
    const bound = await new Bound().begins();
    const { feeds } = listening(bound);
    const why = (after: number) => {
      const opening = feeds.open(SEAT, after, { durable: () => {}, token: () => {} });
      return opening.ok ? null : opening.why;
    };
    expect([why(-1), why(0), why(1_000_000), why(Number.MAX_SAFE_INTEGER)]).toEqual([
      'unknown',
      null,
      'unknown',
      'unknown',
    ]);
  });

  test('with a number whose run was pruned is refused', async () => {
    const bound = await new Bound().begins();
    await used(bound, 1);
    await nextTurn(bound, 2);
    const kept = [...bound.runs.newest('console:hall pm')];
    const begin = kept.findIndex(({ fact }) => fact.type === 'runStarted');
    const runs = {
      newest: () => kept.slice(0, begin + 1),
      state: (key: string) => bound.runs.state(key),
      onChange: () => {},
    };
    const feeds = new RunFeeds({ runs, now: () => AT });
    const open = (after: number) => feeds.open(SEAT, after, { durable: () => {}, token: () => {} });
    expect(open(8)).toEqual({ ok: false, why: 'gone' });
    expect(open((kept[begin]?.seq ?? 0) * 4).ok).toBe(true);
  });

  test('reads on when a session ends whose labels are older than the run', async () => {
    const bound = await new Bound().granted();
    await bound.run({ type: 'TAINT', from: 'mcp__web__fetch', label: 'untrusted' });
    await bound.floor({ type: 'use', agent: 'pm', epoch: 1 });
    const { all } = listening(bound);
    const feeds = new RunFeeds({ runs: bound.runs, now: () => AT });
    const had: FeedItem[] = [];
    const last = [...bound.runs.newest(runKeyOf(SEAT))].find(({ fact }) => fact.type === 'runStarted')?.seq ?? 0;
    opened(feeds.open(SEAT, last * 4, { durable: (item) => void had.push(item), token: () => {} }));
    expect(await bound.run({ type: 'CLEANSE' })).toBeNull();
    await step(bound, 0);
    expect(had.map(({ message }) => message)).toEqual(all.map(({ message }) => message));
  });

  test('receives the text that an agent is writing, piece by piece, once', async () => {
    const bound = await new Bound().begins();
    const feeds = new RunFeeds({ runs: bound.runs, now: () => AT });
    const tokens: string[] = [];
    const token = (message: RunMessage) => void (message.type === 'stream:token' && tokens.push(message.text));
    const { close } = opened(feeds.open(SEAT, null, { durable: () => {}, token }));
    for (const draft of ['I', 'I read', 'I read it', null, 'And']) feeds.drafted(SEAT, draft);
    close();
    feeds.drafted(SEAT, 'And now');
    expect(tokens).toEqual(['I', ' read', ' it', 'And']);
  });
});

/** Starts pm's background run, or continues or completes a run that has started. */
const besides: Act = async (bound, index) => {
  const { status = 'idle', run = null } = bound.runs.state(runKeyOf(BESIDE)) ?? {};
  if (status === 'idle' || status === 'completed')
    return bound.beside(
      start({ runType: 'background', prompt: 'look', session: '1', waitMs: WAIT_MS, requestedBy: by }),
      { type: 'STEP', session: '1', turn: 1, toolCalls: [] },
    );
  if (index % 3 === 0) return bound.beside({ type: 'COMPLETE', session: '1', result: 'done' });
  return bound.beside({ type: 'STEP', session: '1', turn: (run?.turn ?? 0) + 1, toolCalls: [] });
};

describe('a program that reads the runs of turns and background runs', () => {
  const read = (feeds: RunFeeds, seats: Parameters<typeof streamRuns>[1], after: number | null) => {
    const had: { readonly id: number | null; readonly data: object }[] = [];
    const opening = streamRuns(feeds, seats, { after, format: 'conch', at: AT }, (event) => void had.push(event));
    return { had, opening };
  };
  const withoutNumber = (data: object): object => ({ ...data, seq: 0 });

  test('receives each event of both once, wherever it is cut off', async () => {
    const script = fc.array(fc.constantFrom(...ACTS, besides, besides), { minLength: 1, maxLength: 16 });
    await fc.assert(
      fc.asyncProperty(script, fc.infiniteStream(fc.boolean()), async (acts, cuts) => {
        const bound = await new Bound().granted();
        const feeds = new RunFeeds({ runs: bound.runs, now: () => AT });
        const whole = [SEAT, BESIDE].map((seat) => read(feeds, [seat], 0));
        const had: { readonly id: number; readonly data: object }[] = [];
        const last = () => had.at(-1)?.id ?? 0;
        let reading: ReturnType<typeof read> | null = read(feeds, [SEAT, BESIDE], 0);
        const cut = () => {
          if (reading?.opening.ok === true) reading.opening.close();
          had.push(...(reading?.had ?? []).flatMap(({ id, data }) => (id === null ? [] : [{ id, data }])));
        };
        await bound.floor({ type: 'use', agent: 'pm', epoch: 1 });
        for (const [index, act] of acts.entries()) {
          if (cuts.next().value === true) {
            cut();
            reading = reading === null ? read(feeds, [SEAT, BESIDE], last()) : null;
          }
          await act(bound, index);
        }
        cut();
        if (reading === null) {
          reading = read(feeds, [SEAT, BESIDE], last());
          cut();
        }
        const ids = had.map(({ id }) => id);
        expect(ids).toEqual([...new Set(ids)].toSorted((one, other) => one - other));
        for (const { had: all } of whole) {
          const durable = all.flatMap(({ id, data }) => (id === null ? [] : [withoutNumber(data)]));
          const runs = new Set(durable.map((each) => Reflect.get(each, 'run')));
          const mine = had.map(({ data }) => withoutNumber(data)).filter((each) => runs.has(Reflect.get(each, 'run')));
          expect(mine).toEqual(durable);
        }
        await bound.store.close();
      }),
      { numRuns: 100 },
    );
  });

  test('receives text pieces without a number, so a reader that reconnects does not skip events', async () => {
    const bound = await new Bound().begins();
    const feeds = new RunFeeds({ runs: bound.runs, now: () => AT });
    const { had } = read(feeds, [SEAT], null);
    feeds.drafted(SEAT, 'I read');
    expect(had.at(-1)).toMatchObject({ id: null, data: { type: 'stream:token', text: 'I read' } });
  });

  test('that connects in the middle receives the state of both runs, and no earlier events', async () => {
    const bound = await (await new Bound().begins()).besideAsking();
    const feeds = new RunFeeds({ runs: bound.runs, now: () => AT });
    const { had } = read(feeds, [SEAT, BESIDE], null);
    expect(had.map(({ id, data }) => [id, Reflect.get(data, 'run'), Reflect.get(data, 'type')])).toEqual([
      [null, 'console:hall pm#1', 'state:update'],
      [null, 'console:hall pm+#1', 'state:update'],
    ]);
    await bound.floor({ type: 'stop', by });
    const more = had.slice(2);
    expect(more.map(({ data }) => Reflect.get(data, 'run'))).toContain('console:hall pm+#1');
    const again = read(feeds, [SEAT, BESIDE], more[0]?.id ?? 0);
    expect(again.had.filter(({ id }) => id !== null)).toEqual(more.slice(1));
  });

  test('with a number that one of the runs never had is refused', async () => {
    const bound = await (await new Bound().begins()).besideAsking();
    const feeds = new RunFeeds({ runs: bound.runs, now: () => AT });
    expect(read(feeds, [SEAT, BESIDE], 2 ** 26 * 1_000).opening).toMatchObject({ ok: false, status: 400 });
  });
});

describe('the Agent User Interaction protocol', () => {
  test('is written in valid order for every sequence of events of a run', async () => {
    const script = fc.array(fc.constantFrom(...ACTS, besides), { minLength: 1, maxLength: 14 });
    await fc.assert(
      fc.asyncProperty(script, fc.boolean(), async (acts, drafts) => {
        const bound = await new Bound().granted();
        const feeds = new RunFeeds({ runs: bound.runs, now: () => AT });
        const events: object[] = [];
        const anew = { after: null, format: 'ag-ui', at: AT } as const;
        const beside: object[] = [];
        streamRuns(feeds, [SEAT], anew, ({ data }) => void events.push(data));
        streamRuns(feeds, [BESIDE], anew, ({ data }) => void beside.push(data));
        await bound.floor({ type: 'use', agent: 'pm', epoch: 1 });
        for (const [index, act] of acts.entries()) {
          if (drafts) feeds.drafted(SEAT, 'x'.repeat(index + 1));
          await act(bound, index);
        }
        expect([...events, ...beside].flatMap((event) => faultsOf(event))).toEqual([]);
        expect([disorderIn(events), disorderIn(beside)]).toEqual([null, null]);
        await bound.store.close();
      }),
      { numRuns: 60 },
    );
  });

  test('has a request as an interrupt, and continues after the decision as another run', async () => {
    const bound = await new Bound().granted();
    const { all } = listening(bound);
    await bound.floor({ type: 'use', agent: 'pm', epoch: 1 });
    await bound.requests('a', { words: { title: 'run the tests', detail: 'npm test' } });
    await bound.answers('allow');
    const stream = new AgUiStream();
    const told = all.flatMap((item) => stream.tell(item));
    const run = bound.state.run?.id;
    expect(told.filter(({ type }) => type === 'RUN_STARTED').map(({ runId }) => runId)).toEqual([run, `${run}.2`]);
    expect(told.find(({ type }) => type === 'RUN_FINISHED')).toMatchObject({
      outcome: {
        type: 'interrupt',
        interrupts: [{ reason: 'approval_required', message: 'run the tests', toolCallId: 'a' }],
      },
    });
  });

  test('has one run from a decision to the end, also when the run had paused twice', async () => {
    const bound = await new Bound().granted();
    const { all } = listening(bound);
    await bound.floor({ type: 'use', agent: 'pm', epoch: 1 });
    await bound.run({ type: 'PAUSE', reason: 'confirmation', context: 'wait' });
    await bound.run({ type: 'ATTACH', session: '1' });
    await bound.answers('allow');
    await used(bound, 1);
    const stream = new AgUiStream();
    const types = all.flatMap((item) => stream.tell(item)).map(({ type }) => type);
    expect(types.filter((type) => type.startsWith('RUN_'))).toEqual(['RUN_STARTED', 'RUN_FINISHED', 'RUN_STARTED']);
  });

  test('begins with the run, its state and its step for a reader that connects in the middle', async () => {
    const bound = await new Bound().begins();
    const feeds = new RunFeeds({ runs: bound.runs, now: () => AT });
    const names: string[] = [];
    streamRuns(feeds, [SEAT], { after: null, format: 'ag-ui', at: AT }, ({ name }) => void names.push(name));
    expect(names).toEqual(['RUN_STARTED', 'STATE_SNAPSHOT', 'STEP_STARTED']);
  });
});

function faultsOf(event: object): readonly string[] {
  const parsed = EventSchema.safeParse(event);
  return parsed.success ? [] : [`${JSON.stringify(event)}: ${parsed.error.message}`];
}

type Told = { readonly type: string; readonly runId?: string; readonly stepName?: string; readonly messageId?: string };

/** Returns the first fault, or `null`: runs may not overlap, and steps and texts begin and end within a run. */
function disorderIn(events: readonly object[]): string | null {
  let run: string | null = null;
  const open = new Set<unknown>();
  for (const event of events as readonly Told[]) {
    const { type, runId, stepName, messageId } = event;
    if (type === 'RUN_STARTED') {
      if (run !== null) return `${runId} begins in ${run}`;
      run = runId ?? null;
    }
    if (type.startsWith('TOOL_CALL') && run === null) return `${type} in no run`;
    if (type === 'STEP_STARTED' || type === 'TEXT_MESSAGE_START') {
      if (run === null) return `${type} in no run`;
      open.add(stepName ?? messageId);
    }
    if ((type === 'STEP_FINISHED' || type === 'TEXT_MESSAGE_END') && !open.delete(stepName ?? messageId))
      return `${stepName ?? messageId} ends and had not begun`;
    if (type === 'RUN_FINISHED' || type === 'RUN_ERROR') {
      if (run === null || (type === 'RUN_FINISHED' && runId !== run)) return `${runId} ends in ${run}`;
      if (open.size > 0) return `${[...open].join()} is open at the end`;
      run = null;
    }
  }
  return null;
}
