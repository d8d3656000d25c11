import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AbsentError } from '../../../../src/agents/backends/backend.ts';
import type { AgentSession } from '../../../../src/agents/backends/backend.ts';
import { addAgentToken, revokeAgentToken } from '../../../../src/agents/backends/remote/tokens.ts';
import { gateThat, person, prompt, recorder } from '../conversation.ts';
import { SEAT, remoteRig, speak, until } from './remote-rig.ts';
import { systemTimers } from '../../../../src/lib/time.ts';
import { backgroundSessionIdOf } from '../../../../src/turns/floor/seats.ts';
import type { Answering, RemoteRig } from './remote-rig.ts';

const END = { stopReason: 'end_turn' } as const;
const RESUMES = { sessionCapabilities: { resume: {} } };
const echo: Answering = async (text, say) => {
  await say(`Heard ${text}`);
  return END;
};

let rig: RemoteRig;
let opened: AgentSession[];
beforeEach(async () => {
  opened = [];
  rig = await remoteRig();
});
afterEach(async () => {
  await Promise.all(opened.map((session) => session.close()));
  await rig.stop();
});

const open = async (of: RemoteRig = rig, channel = SEAT.channel) => {
  const session = await of.backend.open({ ...SEAT, channel });
  opened.push(session);
  return session;
};

/** Connects an agent in this process. */
const connect = async (answering: Answering = echo, capabilities: object = {}, of: RemoteRig = rig) => {
  const before = of.host.slot('dev').link;
  const socket = of.dial({ Authorization: `Bearer ${of.token}` });
  const agent = speak(socket, answering, capabilities);
  await until(() => ![null, before].includes(of.host.slot('dev').link), 'the connection');
  return { socket, ...agent };
};

const begin = (session: AgentSession, text: string) => {
  const heard = recorder();
  const over = session.prompt(prompt({ messages: [person(1, text)], text }), heard.report);
  over.catch(() => undefined);
  const said = () => heard.messages.map((message) => message.trim()).filter((message) => message !== '');
  return { over, said };
};

/** An agent that says "First half." and waits for `go`. It answers every later prompt with "Second half." */
const halting = () => {
  const texts: string[] = [];
  const go = Promise.withResolvers<void>();
  const answering: Answering = async (text, say) => {
    texts.push(text);
    await say(texts.length === 1 ? 'First half.' : 'Second half.');
    if (texts.length === 1) await go.promise;
    return END;
  };
  return { answering, texts, go: go.resolve };
};

describe('an agent that is not connected', () => {
  test('is absent, and the error says when to retry', async () => {
    const error = await open().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(AbsentError);
    const { returns, graceMs, message, terminal } = error as AbsentError;
    expect([message, graceMs, terminal]).toEqual(['is not connected', 10_000, false]);
    await connect();
    await returns;
    await open();
  });
});

describe('a connected agent', () => {
  test('answers a prompt', async () => {
    await connect();
    const { over, said } = begin(await open(), 'Build a bridge');
    expect(await over).toEqual({ how: 'completed' });
    expect(said()).toEqual(['Heard Build a bridge']);
  });

  test('has one connection and one handshake, with a session for each channel that gets only its own messages', async () => {
    const { calls, sessions } = await connect();
    const [one, two] = await Promise.all([open(), open(rig, 'console:other')]);
    const turns = [begin(one, 'one'), begin(two, 'two')];
    await Promise.all(turns.map(({ over }) => over));
    expect(turns.map(({ said }) => said())).toEqual([['Heard one'], ['Heard two']]);
    expect(sessions).toHaveLength(2);
    expect(calls.filter((call) => call === 'initialize')).toHaveLength(1);
  });

  test('starts a new conversation after `forget`, as for a fresh review', async () => {
    const { calls } = await connect(echo, RESUMES);
    const prompted = async () => {
      const session = await open();
      await begin(session, 'Review it').over;
      await session.close();
      return session.resumed;
    };
    expect([await prompted(), await prompted()]).toEqual([false, true]);
    rig.backend.forget?.(SEAT);
    expect(await prompted()).toBe(false);
    expect(calls.filter((call) => !call.startsWith('session/prompt'))).toEqual([
      'initialize',
      'session/new',
      'session/resume',
      'session/new',
    ]);
  });

  test('answers liveness checks', async () => {
    const { calls } = await connect();
    await (await open()).ping();
    expect(calls).toEqual(['initialize', 'session/new']);
  });

  test('is refused a channel that its token does not allow', async () => {
    rig.host.slot('qa');
    const token = addAgentToken(rig.dataDir, 'qa', { at: 0, channels: ['console:other'] });
    await rig.connected(token);
    await until(() => rig.host.slot('qa').link !== null, 'the connection');
    expect([rig.host.mayServe('qa', 'console:demo'), rig.host.mayServe('qa', 'console:other')]).toEqual([false, true]);
  });

  test('works in background runs of a channel that its token allows', async () => {
    revokeAgentToken(rig.dataDir, 'dev');
    const token = addAgentToken(rig.dataDir, 'dev', { at: 0, channels: [SEAT.channel] });
    await connect(echo, {}, { ...rig, token });
    const { over } = begin(await open(rig, backgroundSessionIdOf(SEAT.channel)), 'Build it');
    expect(await over).toEqual({ how: 'completed' });
  });

  test('loses the sessions of a channel that its new token does not allow', async () => {
    await connect(echo, RESUMES);
    const session = await open();
    revokeAgentToken(rig.dataDir, 'dev');
    const token = addAgentToken(rig.dataDir, 'dev', { at: 0, channels: ['console:other'] });
    await connect(echo, RESUMES, { ...rig, token });
    await expect(begin(session, 'Build it').over).rejects.toThrow('does not allow console:demo');
  });

  test('that does not stop when interrupted is disconnected after the grace, and prompted again after reconnecting', async () => {
    const { socket, calls } = await connect(() => new Promise(() => undefined));
    const session = await open();
    const { over } = begin(session, 'work');
    await until(() => calls.length === 3, 'the prompt');
    await session.interrupt(30);
    expect(await over).toEqual({ how: 'interrupted' });
    await until(() => socket.readyState === socket.CLOSED, 'the end of the connection');
    const next = begin(session, 'stop that');
    await connect();
    expect(await next.over).toEqual({ how: 'completed' });
    expect(next.said()).toEqual(['Heard stop that']);
  });

  test('that gives two channels the same session id is refused the second session', async () => {
    const socket = await rig.connected();
    socket.on('message', (bytes: Buffer) => {
      const { id, method } = JSON.parse(bytes.toString('utf8')) as { id?: number; method?: string };
      const result = method === 'initialize' ? { protocolVersion: 1, agentCapabilities: {} } : { sessionId: 'same' };
      if (id !== undefined) socket.send(JSON.stringify({ jsonrpc: '2.0', id, result }));
    });
    await until(() => rig.host.slot('dev').link !== null, 'the connection');
    await open();
    await expect(open(rig, 'console:other')).rejects.toThrow('the agent gave the session same twice');
  });
});

describe('a prompt that is stopped before it is sent', () => {
  test('is never sent', async () => {
    const { calls } = await connect();
    const session = await open();
    const { over } = begin(session, 'work');
    await session.interrupt(5_000);
    expect(await over).toEqual({ how: 'interrupted' });
    expect(calls).toEqual(['initialize', 'session/new']);
  });
});

test('T52 a remote agent that leaves the mode in which it asks is not prompted again', async () => {
  const own = await remoteRig({}, { profile: 'claude-code' });
  const asked: string[] = [];
  const socket = own.dial({ Authorization: `Bearer ${own.token}` });
  const send = (message: object) => socket.send(JSON.stringify({ jsonrpc: '2.0', ...message }));
  const modes = { currentModeId: 'auto', availableModes: [{ id: 'auto' }, { id: 'default' }] };
  socket.on('message', (bytes: Buffer) => {
    const { id, method } = JSON.parse(bytes.toString('utf8')) as { id?: number; method: string };
    asked.push(method);
    const update = { sessionUpdate: 'current_mode_update', currentModeId: 'auto' };
    const leave = () => send({ method: 'session/update', params: { sessionId: 's1', update } });
    if (method === 'session/prompt' || (method === 'session/set_mode' && asked.includes('session/prompt'))) leave();
    const result = method === 'initialize' ? { protocolVersion: 1 } : { sessionId: 's1', modes };
    if (id !== undefined && method !== 'session/prompt') send({ id, result });
    if (asked.filter((each) => each === 'session/set_mode').length > 1) leave();
  });
  await until(() => own.host.slot('dev').link !== null, 'the connection');
  try {
    const session = await own.backend.open(SEAT);
    const { over } = begin(session, 'Go');
    await expect(over).rejects.toMatchObject({
      message: 'went into the mode "auto", in which it may act without asking',
      terminal: true,
    });
    expect(asked.filter((method) => method === 'session/prompt')).toHaveLength(1);
    await session.close();
  } finally {
    await own.stop();
  }
});

describe('a connection that breaks during a turn', () => {
  test('keeps the turn when the agent reconnects within the grace period: it is prompted again with the part that arrived', async () => {
    const { answering, texts } = halting();
    const { socket } = await connect(answering);
    const session = await open();
    const memory = session.memory;
    const { over, said } = begin(session, 'Write a page');
    await until(() => said().length > 0, 'the first half');
    socket.terminate();
    await until(() => rig.host.slot('dev').link === null, 'the loss');
    await session.ping();
    await connect(answering);
    expect(await over).toEqual({ how: 'completed' });
    expect(said()).toEqual(['First half.', 'Second half.']);
    expect(texts[1]).toContain('Write a page');
    expect(texts[1]).toContain('Do not repeat it; go on from there:\nFirst half.');
    expect(session.memory).not.toBe(memory);
  });

  test('T2 repeats injected messages to the agent after it reconnects', async () => {
    const { answering, texts } = halting();
    const { socket } = await connect(answering, { steering: true });
    const session = await open();
    const { over, said } = begin(session, 'Write a page');
    await until(() => said().length > 0, 'the first half');
    expect(await session.inject(person(2, 'Make it blue'), false)).toBe('injected');
    socket.terminate();
    await until(() => rig.host.slot('dev').link === null, 'the loss');
    await connect(answering, { steering: true });
    expect(await over).toEqual({ how: 'completed' });
    expect(texts[1]).toContain('Write a page');
    expect(texts[1]).toContain('\nMake it blue\n');
  });

  test('continues the session when the agent reconnects with it', async () => {
    const { answering } = halting();
    const { socket } = await connect(answering, RESUMES);
    const session = await open();
    const memory = session.memory;
    const { over, said } = begin(session, 'Write a page');
    await until(() => said().length > 0, 'the first half');
    socket.terminate();
    const back = await connect(answering, RESUMES);
    expect(await over).toEqual({ how: 'completed' });
    expect(back.calls).toEqual(['initialize', 'session/resume', expect.stringMatching('session/prompt')]);
    expect(session.memory).toBe(memory);
  });

  test('loses the session with the cause when the grace period ends', async () => {
    const other = await remoteRig({}, { reconnectGraceMs: 50 });
    try {
      const { answering } = halting();
      const { socket } = await connect(answering, {}, other);
      const session = await open(other);
      const { over, said } = begin(session, 'Write a page');
      await until(() => said().length > 0, 'the first half');
      socket.terminate();
      await expect(over).rejects.toThrow('connection lost');
      await expect(session.ping()).rejects.toThrow('connection lost');
      await expect(open(other)).rejects.toBeInstanceOf(AbsentError);
    } finally {
      await other.stop();
    }
  });

  test('T86 leaves no timer behind when the session is closed while the agent is away', async () => {
    const armed = new Set<object>();
    const timers = {
      after: (ms: number, run: () => void) => {
        const timer = systemTimers.after(ms, () => (armed.delete(timer), run()));
        armed.add(timer);
        return { cancel: () => (armed.delete(timer), timer.cancel()) };
      },
    };
    const other = await remoteRig({}, { reconnectGraceMs: 40_000, timers });
    try {
      const { answering } = halting();
      const { socket } = await connect(answering, {}, other);
      const session = await open(other);
      const { over, said } = begin(session, 'Write a page');
      await until(() => said().length > 0, 'the first half');
      const before = armed.size;
      socket.terminate();
      await until(() => armed.size > before, 'the wait for its return');
      await session.close();
      expect(await over).toEqual({ how: 'interrupted' });
      expect(armed.size).toBe(0);
    } finally {
      await other.stop();
    }
  });

  test('lets the turn be interrupted at once while the agent is away', async () => {
    const { answering } = halting();
    const { socket } = await connect(answering);
    const session = await open();
    const { over, said } = begin(session, 'Write a page');
    await until(() => said().length > 0, 'the first half');
    socket.terminate();
    await until(() => rig.host.slot('dev').link === null, 'the loss');
    expect(await session.inject(person(2, 'faster'), false)).toBe('next-prompt');
    await session.interrupt(5_000);
    expect(await over).toEqual({ how: 'interrupted' });
  });

  test('T7 while an approval is open closes the question, and the agent must ask again', async () => {
    const { socket } = await connect(async (_text, _say, ask) => {
      await ask('Delete it');
      return END;
    });
    const session = await open();
    const heard = recorder();
    const told = Promise.withResolvers<'cancelled'>();
    const asked: string[] = [];
    const withdrawn: string[] = [];
    const over = session.prompt(prompt({ text: 'Delete it' }), {
      ...heard.report,
      gate: gateThat(({ title = '' }, signal) => {
        asked.push(title);
        signal.addEventListener('abort', () => void withdrawn.push(title));
        return told.promise;
      }),
    });
    await until(() => asked.length > 0, 'the question');
    socket.terminate();
    await until(() => withdrawn.length > 0, 'the withdrawal');
    const { calls } = await connect(async (_text, say) => {
      await say('Deleted.');
      return END;
    });
    await until(() => calls.includes('session/new'), 'the session');
    await new Promise(setImmediate);
    expect(calls).toEqual(['initialize', 'session/new']);
    told.resolve('cancelled');
    expect(await over).toEqual({ how: 'completed' });
    expect(heard.messages.at(-1)).toBe('Deleted.');
  });

  test("because of the agent's misconduct has no grace period", async () => {
    await connect(async (_text, say) => {
      await say('x'.repeat(2_000_000));
      return END;
    });
    const session = await open();
    const { over } = begin(session, 'flood');
    await expect(over).rejects.toThrow('sent a message of more than 1 MiB');
    await expect(session.ping()).rejects.toThrow('sent a message of more than 1 MiB');
  });

  test('again and again has its turn prompted four times in all', async () => {
    let prompts = 0;
    const leaving = async () => {
      const leave = Promise.withResolvers<void>();
      const { socket } = await connect(() => {
        prompts += 1;
        leave.resolve();
        return new Promise(() => undefined);
      });
      void leave.promise.then(() => {
        socket.terminate();
        return prompts < 9 ? leaving() : undefined;
      });
    };
    await leaving();
    await expect(begin(await open(), 'work').over).rejects.toThrow('connection lost');
    expect(prompts).toBe(4);
  });

  test('because a newer connection replaced it has its turn continued over the newer connection', async () => {
    const { answering } = halting();
    await connect(answering);
    const { over, said } = begin(await open(), 'Write a page');
    await until(() => said().length > 0, 'the first half');
    await connect(answering);
    expect(await over).toEqual({ how: 'completed' });
    expect(said()).toEqual(['First half.', 'Second half.']);
  });
});
