import { describe, expect, test } from 'vitest';
import { AbsentError, BackendError } from '../../../../src/agents/backends/backend.ts';
import { bench, holding } from '../../bench.ts';

const absence = () => {
  const { promise: returns, resolve: comes } = Promise.withResolvers<void>();
  return { error: new AbsentError('is not connected', { returns, graceMs: 10_000 }), comes };
};

describe('a remote agent that is not connected at the start', () => {
  test('logs nothing and counts no error, however long it is away', async () => {
    const { time, supervisor, sessions, logged } = await bench({ failures: [absence().error] });
    await time.advance(3_600_000);
    expect(sessions).toHaveLength(0);
    expect(supervisor.status('dev')?.[1]).toBe(
      'console:demo: Initializing (connecting), session 1, 0 errors in a row, 0 in all; last: is not connected',
    );
    expect(logged).toEqual([]);
  });

  test('joins when it connects', async () => {
    const { error, comes } = absence();
    const { time, floors } = await bench({ failures: [error] });
    comes();
    await time.settle();
    expect(floors.told).toEqual([{ type: 'join', agent: 'dev' }]);
  });

  test('T28 loses a turn left open by a restart when it is not back 10,000 ms after the start, not 9,999', async () => {
    const { time, floors } = await bench({ failures: [absence().error] });
    await time.advance(9_999);
    expect(floors.told).toEqual([]);
    await time.advance(1);
    expect(floors.told).toEqual([{ type: 'leave', agent: 'dev', cause: 'is not connected' }]);
  });

  test('joins only once, even if an operator restarted it before it connected', async () => {
    const [first, second] = [absence(), absence()];
    const { time, supervisor, sessions } = await bench({ failures: [first.error, second.error] });
    expect(await supervisor.restart('dev')).toEqual({ ok: true, text: 'dev is restarted.' });
    first.comes();
    second.comes();
    await time.settle();
    expect(sessions).toHaveLength(1);
  });
});

describe('a remote agent that disconnects in its turn', () => {
  test('is OFFLINE with the cause, and joins again when it reconnects, with one error counted', async () => {
    const { error, comes } = absence();
    const { time, floors, failures, prompt, session, supervisor } = await bench();
    floors.view = holding('dev', 1);
    await prompt(1);
    failures.push(error);
    session().ends(new BackendError('connection lost'));
    await time.settle();
    const failure = { code: 'AGENT_EXECUTION_ERROR', recoverable: true };
    expect(floors.told.at(-1)).toEqual({ type: 'leave', agent: 'dev', cause: 'connection lost', error: failure });
    await time.advance(600_000);
    comes();
    await time.settle();
    expect(floors.told.at(-1)).toEqual({ type: 'join', agent: 'dev' });
    expect(supervisor.status('dev')?.[1]).toContain('1 errors in a row, 1 in all; last: connection lost');
  });
});

describe('a remote agent that forgot the conversation within its session', () => {
  test('gets the earlier conversation again', async () => {
    const { floors, prompt, session } = await bench();
    const author = { kind: 'person', id: 'u1', name: 'Anna' } as const;
    const line = (n: number, text: string) => ({
      line: n,
      at: 0,
      author,
      text,
      attachments: [],
      message: `m${n}`,
      change: null,
    });
    floors.lines = [line(1, 'Build a clock'), line(2, 'Make it tick')];
    Object.assign(session(), { memory: {} });
    floors.view = holding('dev', 1);
    await prompt(1, { uptoLine: 1 });
    session().ends({ how: 'completed' });
    floors.view = holding('dev', 2);
    await prompt(2, { afterLine: 1, uptoLine: 2 });
    expect(session().turn?.text).not.toContain('Build a clock');
    session().ends({ how: 'completed' });
    Object.assign(session(), { memory: {} });
    floors.view = holding('dev', 3);
    await prompt(3, { afterLine: 2, uptoLine: 2 });
    expect(session().turn?.text).toContain('Build a clock');
  });
});
