import { describe, expect, test } from 'vitest';
import { BackendError } from '../../../src/agents/backends/backend.ts';
import type { Line } from '../../../src/turns/view.ts';
import { person, spoken } from '../backends/conversation.ts';
import { bench, holding, puppetry } from '../bench.ts';

const QUARTER_HOUR_MS = 900_000;

describe('an idle session', () => {
  test('is closed after 15 minutes without telling the floor, and leaves no timer', async () => {
    const { time, session, floors, supervisor } = await bench();
    await time.advance(QUARTER_HOUR_MS - 1);
    expect(session().calls).toEqual([]);
    await time.advance(1);
    expect(session().calls).toEqual(['close']);
    expect(floors.told).toEqual([{ type: 'join', agent: 'dev' }]);
    expect(time.pending()).toBe(0);
    expect(supervisor.list()[0]?.state).toBe('idle (its session opens with its next turn)');
    expect(supervisor.status('dev')).toEqual([
      'Developer (dev) · puppet · writes code',
      'idle (its session opens with its next turn) in 1 of 1 channels',
    ]);
  });

  test('counts its idle time from its last turn', async () => {
    const { time, prompt, session } = await bench();
    await time.advance(QUARTER_HOUR_MS - 15_000);
    await prompt(1);
    await time.advance(QUARTER_HOUR_MS);
    expect(session().calls).toEqual(['prompt #1 grant']);
    session().ends({ how: 'completed' });
    await time.advance(QUARTER_HOUR_MS - 15_000);
    expect(session().calls).not.toContain('close');
    await time.advance(30_000);
    expect(session().calls.at(-1)).toBe('close');
  });

  test('is closed even if it misses a liveness check now and then', async () => {
    const { time, session } = await bench();
    session().pings = 'silent';
    await time.advance(15_000);
    session().pings = 'answered';
    await time.advance(QUARTER_HOUR_MS);
    expect(session().calls).toContain('close');
  });
});

describe('the taint of a session', () => {
  const taint = (told: string[]) => ({
    read: (lines: readonly Line[]) => {
      if (lines.some(({ author }) => author.kind === 'agent')) told.push(lines.map(({ author }) => author.id).join());
    },
    forget: (after: number) => void told.push(`forget after ${after}`),
  });

  test("grows with lines of agents, stays for the program's first session, and is cleared for the next session", async () => {
    const told: string[] = [];
    const { time, prompt, session, floors } = await bench({ taint: taint(told) });
    floors.lines = [person(1, 'Go')];
    await prompt(1);
    session().ends(new BackendError('exited'));
    await time.advance(2_000);
    expect(told).toEqual([]);
    floors.lines = [person(1, 'Go'), spoken(2, 'pm', 'The plan')];
    await prompt(2);
    expect(told).toEqual(['forget after 0', 'u1,pm']);
  });

  test('stays while the agent remembers the conversation: after a failure, and after an idle close', async () => {
    const resuming: string[] = [];
    const { time, prompt, session, floors } = await bench({ taint: taint(resuming), resumed: true });
    floors.lines = [person(1, 'Go')];
    await prompt(1);
    session().ends(new BackendError('exited'));
    await time.advance(2_000);
    await prompt(2);
    session().ends({ how: 'completed' });
    await time.advance(2 * QUARTER_HOUR_MS);
    expect(resuming).toEqual([]);
    const anew: string[] = [];
    const other = await bench({ taint: taint(anew), resumed: false });
    other.floors.lines = [person(1, 'Go')];
    await other.time.advance(QUARTER_HOUR_MS);
    expect(anew).toEqual([]);
    await other.prompt(1);
    expect(anew).toEqual(['forget after 0']);
  });

  test('is cleared only up to the lines that the next session reads again', async () => {
    const told: string[] = [];
    const { time, prompt, session, floors } = await bench({ taint: taint(told) });
    floors.lines = Array.from({ length: 200 }, (_, index) => person(index + 1, 'Go'));
    await prompt(1, { afterLine: 0, uptoLine: 200 });
    session().ends(new BackendError('exited'));
    await time.advance(2_000);
    await prompt(2, { afterLine: 20, uptoLine: 200 });
    session().ends({ how: 'completed' });
    await time.advance(QUARTER_HOUR_MS + 15_000);
    expect(told).toEqual(['forget after 20', 'forget after 150']);
  });

  test('grows with old messages that the next session must answer', async () => {
    const read: number[] = [];
    const noting = {
      forget: () => {},
      read: (lines: readonly Line[]) => void read.push(Math.min(...lines.map(({ line }) => line))),
    };
    const { time, prompt, session, floors } = await bench({ taint: noting });
    floors.lines = Array.from({ length: 200 }, (_, index) => person(index + 1, 'Go'));
    await prompt(1, { afterLine: 0, uptoLine: 200 });
    session().ends({ how: 'completed' });
    await time.advance(QUARTER_HOUR_MS + 15_000);
    await prompt(2, { afterLine: 200, uptoLine: 200, messages: [floors.lines[19]?.message ?? ''] });
    expect(read).toEqual([1, 20]);
  });

  test('is cleared when the session is closed as idle, not when the program ends', async () => {
    const told: string[] = [];
    const resting = await bench({ taint: taint(told) });
    await resting.time.advance(QUARTER_HOUR_MS);
    expect(told).toEqual(['forget after -50']);
    const ending = await bench({ taint: taint(told) });
    await ending.supervisor.stop();
    expect(told).toEqual(['forget after -50']);
  });
});

describe('an agent without an open session', () => {
  async function atRest() {
    const rig = await bench();
    await rig.time.advance(QUARTER_HOUR_MS);
    return rig;
  }

  test('gets a session with its next turn, and its liveness is checked again', async () => {
    const { time, prompt, sessions, floors } = await atRest();
    await prompt(4);
    expect(sessions).toHaveLength(2);
    expect(sessions[1]?.calls).toEqual(['prompt #4 grant']);
    if (sessions[1] !== undefined) sessions[1].pings = 'silent';
    await time.advance(60_000);
    expect(floors.told.at(-1)).toMatchObject({ type: 'leave', agent: 'dev', cause: 'no heartbeat for 45 s' });
  });

  test('gets its next session when the former session has closed, or after 5 s', async () => {
    const { time, prompt, session, sessions } = await bench();
    session().closes = false;
    await time.advance(QUARTER_HOUR_MS);
    expect(session().calls).toEqual(['close']);
    const prompted = prompt(4);
    await time.advance(4_000);
    expect(sessions).toHaveLength(1);
    await time.advance(2_000);
    await prompted;
    expect(sessions[1]?.calls).toEqual(['prompt #4 grant']);
  });

  test('leaves the floor when its session can no longer be opened', async () => {
    const { prompt, failures, floors } = await atRest();
    failures.push(new Error('connection refused'));
    floors.view = holding('dev', 4);
    const settled = await prompt(4);
    expect(floors.told.at(-1)).toMatchObject({ type: 'leave', agent: 'dev', cause: 'connection refused' });
    expect(settled).toMatchObject({ state: 'retry' });
  });

  test('gets no session for messages that it only observes', async () => {
    const { deliver, sessions } = await atRest();
    const observed = await deliver({ type: 'observe', agent: 'dev', message: 'm1' });
    expect(observed).toEqual({ state: 'confirmed', platformId: null });
    expect(sessions).toHaveLength(1);
  });

  test('stays idle when a new configuration keeps it, and leaves when it is removed', async () => {
    const { time, supervisor, sessions, floors, dev } = await atRest();
    await supervisor.configure([{ ...dev }]);
    expect(sessions).toHaveLength(1);
    floors.view = holding('dev', 4);
    await supervisor.configure([]);
    expect(floors.told.at(-1)).toEqual({ type: 'leave', agent: 'dev', cause: 'no longer has a seat here' });
    expect(time.pending()).toBe(0);
  });

  test('starts with its next turn when an operator restarts it', async () => {
    const { supervisor } = await atRest();
    expect(await supervisor.restart('dev')).toEqual({ ok: true, text: 'dev starts afresh with its next turn.' });
  });
});

test('an agent that connects by itself keeps its session while it is idle', async () => {
  const { backend } = puppetry();
  const { time, supervisor, dev, sessions } = await bench();
  await supervisor.configure([{ ...dev, backend: { ...backend, connectsItself: true } }]);
  await time.advance(2 * QUARTER_HOUR_MS);
  expect(sessions.map(({ calls }) => calls)).toEqual([['close']]);
  expect(supervisor.status('dev')?.[1]).toContain('BuildingPrompt (ready)');
});
