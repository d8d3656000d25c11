import { describe, expect, test } from 'vitest';
import type { RequestedCall } from '../../../src/work/runs/run-events.ts';
import {
  AT,
  RunBench,
  WAIT_MS,
  abort,
  asking,
  call,
  claim,
  complete,
  decide,
  error,
  pause,
  recover,
  request,
  resume,
  runIn,
  settle,
  start,
  step,
  tick,
} from './fixture.ts';

const stepping = (...calls: Parameters<typeof step>[1] & readonly unknown[]) =>
  new RunBench().do(start(), step(1, calls));

describe('a call that is allowed', () => {
  test('is dispatched, claimed before it starts, and settled', () => {
    const bench = stepping(call('a'));
    expect([bench.todo, bench.open]).toEqual([['dispatch a'], ['a cleared pending']]);
    expect([bench.do(claim('a')).open, bench.published]).toEqual([
      ['a cleared running'],
      ['tool:start', 'state:update'],
    ]);
    expect([bench.do(settle('a')).open, bench.published]).toEqual([[], ['tool:result', 'state:update']]);
    expect(bench.state.totals.tools).toBe(1);
  });

  test('is claimed once', () => {
    expect(stepping(call('a')).do(claim('a'), claim('a')).refusal).toBe('CALL_NOT_PENDING');
  });

  test('waits for the one before it', () => {
    const bench = stepping(call('a'), call('b'));
    expect([bench.todo, bench.do(claim('b')).refusal]).toEqual([['dispatch a'], 'CALL_NOT_PENDING']);
    expect([bench.do(claim('a')).todo, bench.do(settle('a')).todo]).toEqual([[], ['dispatch b']]);
  });

  test('does not start when it was changed, or is forbidden by now', () => {
    const changed = stepping(call('a')).do(claim('a', { digest: 'other' }));
    expect([changed.ended, changed.open]).toEqual([['a CALL_CHANGED'], []]);
    const forbidden = stepping(call('a')).do(claim('a', { verdict: 'deny' }));
    expect([forbidden.ended, forbidden.status]).toEqual([['a AGENT_TOOL_NOT_ALLOWED'], 'running']);
  });

  test('is asked for when the rules ask by now', () => {
    const bench = stepping(call('a')).do(claim('a', { verdict: 'ask' }));
    expect([bench.status, bench.todo]).toEqual(['paused', ['ask for a']]);
  });

  test('does not start while the run stands, and is dispatched anew when it goes on', () => {
    const bench = stepping(call('a')).do(pause());
    expect(bench.do(claim('a')).refusal).toBe('AGENT_NOT_RUNNING');
    expect(bench.do(resume()).todo).toEqual(['dispatch a']);
  });
});

describe('isToolAllowed', () => {
  test('a call that is not is answered, and the run goes on', () => {
    const bench = stepping(call('a', { verdict: 'deny', rule: 'Bash(curl *)' }), call('b'));
    expect([bench.status, bench.ended, bench.todo]).toEqual(['running', ['a AGENT_TOOL_NOT_ALLOWED'], ['dispatch b']]);
  });

  test('an agent that asked for one is told no', () => {
    expect(runIn('running').do(request(call('a', { verdict: 'deny' }))).todo).toEqual(['reject a']);
  });
});

describe('a call that asks', () => {
  test('pauses the run with one question, bound to the call', () => {
    const bench = stepping(asking('a'), asking('b'));
    expect([bench.status, bench.todo]).toEqual(['paused', ['ask for a']]);
    expect(bench.approval).toEqual({
      id: 'console:demo dev#1.1',
      call: 'a',
      tool: 'mcp__files__write',
      digest: 'd-a',
      requestedAt: AT,
      expiresAt: AT + WAIT_MS,
      detached: false,
      lasting: true,
    });
  });

  test('runs after approval, and the next question follows', () => {
    const bench = stepping(asking('a'), asking('b'));
    expect([bench.do(decide(bench, 'allow')).status, bench.todo]).toEqual([
      'running',
      ['question allowed', 'dispatch a'],
    ]);
    bench.do(claim('a', { verdict: 'ask' }), settle('a'));
    expect([bench.status, bench.todo, bench.approval?.id]).toEqual(['paused', ['ask for b'], 'console:demo dev#1.2']);
  });

  test('does not run after a no, and the run goes on with the words', () => {
    const bench = stepping(asking('a'), call('b'));
    bench.do(decide(bench, 'deny', { reason: 'use b.txt' }));
    expect([bench.status, bench.ended, bench.todo]).toEqual([
      'running',
      ['a DENIED'],
      ['question denied', 'dispatch b'],
    ]);
    expect(bench.facts).toContainEqual(expect.objectContaining({ type: 'resumed', feedback: 'use b.txt' }));
  });

  test('of an agent is answered', () => {
    const yes = runIn('running').do(request(asking('a')));
    expect(yes.do(decide(yes, 'allow')).todo).toEqual(['question allowed', 'allow a']);
    const no = runIn('running').do(request(asking('a')));
    expect(no.do(decide(no, 'deny')).todo).toEqual(['question denied', 'reject a']);
  });

  test('does not start after approval when it is another call by then', () => {
    const bench = stepping(asking('a'));
    bench.do(decide(bench, 'allow'), claim('a', { digest: 'other', verdict: 'ask' }));
    expect(bench.ended).toEqual(['a CALL_CHANGED']);
  });

  test('keeps the run from going on without an answer', () => {
    expect(stepping(asking('a')).do(resume()).refusal).toBe('APPROVAL_OPEN');
  });
});

describe('calls that an agent asks for at once', () => {
  const same = (id: string, more: Partial<RequestedCall> = {}) => asking(id, { digest: 'same', ...more });
  const waiting = (id: string, more: Partial<RequestedCall> = {}) => same(id, { waits: true, ...more });
  const statuses = ({ state }: RunBench) =>
    state.run?.calls.map(({ id, status, waits }) => `${id} ${waits === true ? 'waits' : status}`);
  const claimed = (id: string) => claim(id, { digest: 'same', verdict: 'ask' });

  test('are all on record; one of them is asked about, and those that wait do nothing', () => {
    const bench = runIn('running').do(request(asking('a'), waiting('b'), waiting('c', { verdict: 'allow' })));
    expect([statuses(bench), bench.todo]).toEqual([['a pending', 'b waits', 'c waits'], ['ask for a']]);
    bench.do(decide(bench, 'allow'));
    expect([bench.status, bench.todo]).toEqual(['running', ['question allowed', 'allow a']]);
    expect(bench.do(claim('b', { digest: 'same' })).refusal).toBe('CALL_NOT_PENDING');
  });

  test('may come while people are asked about another, and one that does not wait may not', () => {
    const bench = runIn('running').do(request(asking('a')), request(waiting('b')));
    expect([bench.refusal, statuses(bench)]).toEqual([null, ['a pending', 'b waits']]);
    expect(bench.do(request(asking('c'))).refusal).toBe('AGENT_NOT_RUNNING');
    expect(bench.do(request(waiting('d'), asking('e'))).refusal).toBe('AGENT_NOT_RUNNING');
  });

  test('come to the front one after the other, by what the rules say then', () => {
    const bench = runIn('running').do(request(asking('a'), waiting('b'), waiting('c')));
    bench.do(decide(bench, 'deny'), request(asking('b', { verdict: 'allow' })));
    expect([bench.todo, statuses(bench)]).toEqual([['allow b'], ['c waits', 'b pending']]);
    bench.do(request(asking('c', { verdict: 'deny' })));
    expect([bench.ended, bench.todo]).toEqual([['c AGENT_TOOL_NOT_ALLOWED'], ['reject c']]);
  });

  test('are asked for once while they wait, and once more when they do not', () => {
    const bench = runIn('running').do(request(asking('a'), waiting('b')), request(waiting('b')));
    expect(bench.refusal).toBe('CALL_REPEATED');
    bench.do(decide(bench, 'deny'), request(asking('b')));
    expect(bench.approval?.call).toBe('b');
    bench.do(decide(bench, 'allow'));
    expect(bench.do(request(waiting('b'))).refusal).toBe('CALL_REPEATED');
    expect(bench.do(request(asking('x'), asking('x'))).refusal).toBe('CALL_REPEATED');
  });

  test('have one question where they are the same, whose yes counts for these very calls and for no other', () => {
    const bench = runIn('running').do(request(same('a'), waiting('b'), waiting('c')), request(waiting('late')));
    expect(bench.approval?.others).toEqual(['b', 'c']);
    bench.do(decide(bench, 'allow'), claimed('a'), request(same('late')));
    expect(bench.todo).toEqual(['ask for late']);
    bench.do(decide(bench, 'deny'), request(same('b')));
    expect(bench.todo).toEqual(['allow b']);
    bench.do(claimed('b'), request(same('c')));
    expect([bench.todo, bench.state.run?.grants]).toEqual([['allow c'], []]);
  });

  test('have one no where they are the same, in the words of whoever said it', () => {
    const bench = runIn('running').do(request(same('a'), waiting('b')));
    bench.do(decide(bench, 'deny', { reason: 'use b.txt' }), request(same('b')));
    expect([bench.ended, bench.todo]).toEqual([['b DENIED'], ['reject b']]);
    expect(bench.do(request(same('c'))).todo).toEqual(['ask for c']);
  });

  test('are asked about each by itself where one of them is', () => {
    const front = runIn('running').do(request(same('a', { alone: true }), waiting('b')));
    expect(front.approval).not.toHaveProperty('others');
    const behind = runIn('running').do(request(same('a'), waiting('b', { alone: true }), waiting('c')));
    expect(behind.approval?.others).toEqual(['c']);
    const allowed = runIn('running').do(request(same('a'), waiting('b', { verdict: 'allow' })));
    expect(allowed.approval).not.toHaveProperty('others');
  });

  test('may be taken back while they wait: no answer counts for them, and none is left over', () => {
    const bench = runIn('running').do(request(same('a'), waiting('b'), waiting('c')));
    bench.do({ type: 'WITHDRAW', call: 'b' });
    expect([bench.status, bench.ended]).toEqual(['paused', ['b LOST']]);
    bench.do(decide(bench, 'allow'), { type: 'WITHDRAW', call: 'c' });
    expect(bench.state.run?.grants).toEqual([]);
    expect(bench.do(request(same('d'))).todo).toEqual(['ask for d']);
  });

  test('are over with their turn, a no for those whose agent still waits', () => {
    const bench = runIn('running')
      .do(request(asking('a'), waiting('b')))
      .do(abort);
    expect([bench.ended, bench.todo]).toEqual([
      ['a DROPPED', 'b DROPPED'],
      ['question void', 'reject a', 'reject b'],
    ]);
    const done = runIn('running').do(request(asking('a'), waiting('b')));
    done.do(decide(done, 'deny'), complete);
    expect([done.status, done.ended]).toEqual(['completed', ['b DROPPED']]);
  });

  test('are gone with their agent; what people are asked about one of them counts once', () => {
    const cut = runIn('running').do(request(same('a'), waiting('b'), waiting('c')), recover);
    expect([cut.ended, cut.approval?.detached]).toEqual([['a LOST', 'b LOST', 'c LOST'], true]);
    cut.do(decide(cut, 'allow'), request(same('d')), claimed('d'), settle('d'));
    expect(cut.do(request(same('e'))).todo).toEqual(['ask for e']);
    const late = runIn('running').do(request(same('a'), waiting('b')));
    late.at += WAIT_MS;
    late.do(tick, start(), step(1), request(same('b')));
    expect(late.todo).toEqual(['ask for b']);
  });

  test('do not hold up the next step', () => {
    const bench = runIn('running').do(
      request(asking('a', { verdict: 'allow' }), waiting('b')),
      claim('a'),
      settle('a'),
    );
    expect([bench.do(step(2)).refusal, statuses(bench)]).toEqual([null, ['b waits']]);
  });
});

describe('a click', () => {
  test('that comes second is told that it is decided', () => {
    const bench = stepping(asking('a'));
    const [allow, deny] = [decide(bench, 'allow'), decide(bench, 'deny', { by: 'bob' })];
    expect([bench.do(allow).refusal, bench.do(deny).refusal, bench.do(allow).refusal]).toEqual([
      null,
      'APPROVAL_DECIDED',
      'APPROVAL_DECIDED',
    ]);
    expect(bench.state.closed).toEqual([{ id: 'console:demo dev#1.1', state: 'allowed', by: 'ann' }]);
  });

  test('on an older question decides nothing about a newer one', () => {
    const bench = stepping(asking('a'), asking('b'));
    const first = decide(bench, 'allow');
    bench.do(first, claim('a', { verdict: 'ask' }), settle('a'));
    expect([bench.do(first).refusal, bench.status]).toEqual(['APPROVAL_DECIDED', 'paused']);
  });

  test('on a question that never was, or about another content, decides nothing', () => {
    const bench = stepping(asking('a'));
    expect(bench.do(decide(bench, 'allow', { approval: 'console:demo dev#1.9' })).refusal).toBe('APPROVAL_UNKNOWN');
    expect(bench.do(decide(bench, 'allow', { digest: 'd-b' })).refusal).toBe('APPROVAL_CHANGED');
    expect(bench.status).toBe('paused');
  });

  test('is no yes at the end of the time, and is one a millisecond before', () => {
    const bench = stepping(asking('a'));
    bench.at += WAIT_MS;
    expect(bench.do(decide(bench, 'allow')).refusal).toBe('APPROVAL_EXPIRED');
    bench.at -= 1;
    expect(bench.do(decide(bench, 'allow')).refusal).toBeNull();
  });
});

describe('a question without an answer', () => {
  test('expires with its run, and the agent that asked is told no', () => {
    const bench = runIn('running').do(request(asking('a')));
    bench.at += WAIT_MS;
    bench.do(tick);
    expect([bench.status, bench.todo]).toEqual(['idle', ['question expired', 'reject a']]);
    expect(bench.do(decide(bench, 'allow', { approval: 'console:demo dev#1.1' })).refusal).toBe('APPROVAL_DECIDED');
  });

  test('is void when the run is aborted', () => {
    const bench = stepping(asking('a')).do(abort);
    expect([bench.todo, bench.ended, bench.state.closed.at(-1)?.state]).toEqual([
      ['question void'],
      ['a DROPPED'],
      'void',
    ]);
  });
});

describe('the third equal call in a row', () => {
  test('pauses for a confirmation, and runs after it', () => {
    const equal = (id: string) => call(id, { digest: 'same' });
    const once = (bench: RunBench, turn: number) =>
      bench.do(step(turn, [equal(`a${turn}`)]), claim(`a${turn}`, { digest: 'same' }), settle(`a${turn}`));
    const bench = once(once(new RunBench().do(start()), 1), 2).do(step(3, [equal('a3')]));
    expect([bench.status, bench.state.run?.pause?.reason, bench.open]).toEqual([
      'paused',
      'confirmation',
      ['a3 pending'],
    ]);
    expect([bench.do(resume()).status, bench.todo]).toEqual(['running', ['dispatch a3']]);
  });

  test('is not third with another in between, and a refused one counts', () => {
    const bench = new RunBench().do(start());
    for (const turn of [1, 2, 3, 4]) {
      const digest = turn === 2 ? 'other' : 'same';
      bench.do(step(turn, [call(`a${turn}`, { digest, verdict: 'deny' })]));
    }
    expect(bench.status).toBe('running');
    bench.do(step(5, [call('a5', { digest: 'same', verdict: 'deny' })]));
    expect(bench.state.run?.pause?.reason).toBe('confirmation');
  });
});

describe('the end of a run', () => {
  test('is not complete while a call runs', () => {
    expect(stepping(call('a')).do(claim('a'), complete).refusal).toBe('CALL_OPEN');
  });

  test('drops calls that have not begun', () => {
    const bench = new RunBench().do(start({ maxTurns: 1 }), step(1, [call('a')]), resume(), complete);
    expect([bench.status, bench.ended]).toEqual(['completed', ['a DROPPED']]);
    expect(bench.do(claim('a')).refusal).toBe('AGENT_NOT_RUNNING');
  });

  test('by an abort keeps what Conch still runs, and takes its result in', () => {
    const bench = stepping(call('a'), call('b')).do(claim('a'), abort);
    expect([bench.status, bench.open, bench.ended]).toEqual(['idle', ['a cleared running'], ['b DROPPED']]);
    expect([bench.do(settle('a')).ended, bench.todo, bench.status]).toEqual([['a complete'], [], 'idle']);
  });

  test('by an error marks the calls of the agent, whose outcome nobody knows', () => {
    const bench = runIn('running').do(request(call('a')), claim('a'), request(asking('b')));
    bench.do(decide(bench, 'deny'), error(true));
    expect([bench.status, bench.ended]).toEqual(['error', ['a LOST unknown']]);
  });
});

describe('an agent that dies while its run stands', () => {
  test('keeps it standing, and the error is decided when it goes on', () => {
    const bench = runIn('paused').do(error(true, 'LOST'));
    expect(bench.status).toBe('paused');
    expect([bench.do(resume()).status, bench.published]).toEqual([
      'error',
      ['state:update', 'agent:error', 'state:update'],
    ]);
  });

  test('that cannot be mended ends it then', () => {
    expect(runIn('paused').do(error(false, 'LOST'), resume()).status).toBe('idle');
  });

  test('leaves its question open; a yes counts for the same call the next time, once', () => {
    const bench = runIn('running').do(request(asking('a')), recover);
    expect([bench.status, bench.todo, bench.ended]).toEqual(['paused', ['question detached'], ['a LOST']]);
    bench.do({ type: 'ATTACH', session: 's2' }, decide(bench, 'allow'));
    expect([bench.status, bench.todo, bench.state.run?.grants]).toMatchObject([
      'running',
      ['question allowed'],
      [{ tool: 'mcp__files__write', digest: 'd-a', choice: 'allow', by: 'ann', until: AT + WAIT_MS }],
    ]);
    const again = (id: string) =>
      bench.do({ type: 'REQUEST', session: 's2', calls: [asking(id, { digest: 'd-a', source: 'agent' })] });
    expect([again('a2').todo, bench.state.run?.grants]).toEqual([['allow a2'], []]);
    bench.do(claim('a2', { digest: 'd-a', verdict: 'ask' }), settle('a2'));
    bench.do({ type: 'REQUEST', session: 's2', calls: [call('b', { source: 'agent' })] }, claim('b'), settle('b'));
    expect(again('a3').todo).toEqual(['ask for a3']);
  });

  test('leaves a no, too: it answers the same call once, in the words of whoever said it', () => {
    const bench = runIn('running').do(request(asking('a')), recover);
    bench.do(decide(bench, 'deny', { reason: 'use b.txt' }), request(asking('a2', { digest: 'd-a' })));
    expect([bench.ended, bench.todo, bench.status]).toEqual([['a2 DENIED'], ['reject a2'], 'running']);
    expect(bench.facts.find(({ type }) => type === 'grantUsed')).toMatchObject({
      said: { choice: 'deny', by: 'ann', reason: 'use b.txt' },
    });
    expect(bench.do(request(asking('a3', { digest: 'd-a' }))).todo).toEqual(['ask for a3']);
  });

  test.each([
    ['its last millisecond', -1, 'allow a2'],
    ['its end', 0, 'ask for a2'],
  ])('leaves a yes that counts for the rest of the time of its question: at %s', (_, more, todo) => {
    const bench = runIn('running').do(request(asking('a')), recover);
    bench.do(decide(bench, 'allow'));
    bench.at = AT + WAIT_MS + more;
    expect(bench.do(request(asking('a2', { digest: 'd-a' }))).todo).toEqual([todo]);
  });

  test('leaves a yes for this call and no other', () => {
    const bench = runIn('running').do(request(asking('a')), recover);
    bench.do(decide(bench, 'allow'), request(asking('b')));
    expect([bench.todo, bench.state.run?.grants]).toMatchObject([['ask for b'], [{ digest: 'd-a' }]]);
  });

  test('leaves nothing to remember, whatever was offered', () => {
    const words = { title: 't', detail: '', offers: [{ rule: 'execute(npm test)', words: 'exactly this' }] };
    const gone = runIn('running').do(request(asking('a', { words })), recover);
    gone.do(decide(gone, 'allow', { always: 'execute(npm test)' }));
    expect([gone.refusal, gone.state.remembered]).toEqual([null, []]);
  });

  test('does not count as asking for the same once more', () => {
    const same = { digest: 'd-a' };
    const bench = runIn('running').do(request(asking('a')), recover);
    bench.do(decide(bench, 'allow'), request(asking('a2', same)), claim('a2', same), settle('a2'));
    expect(bench.do(request(asking('a3', same))).todo).toEqual(['ask for a3']);
  });

  test('leaves a yes that ends with the run', () => {
    const bench = runIn('running').do(request(asking('a')), recover);
    bench.do(decide(bench, 'allow'), complete, start(), step(1), request(asking('b', { digest: 'd-a' })));
    expect(bench.todo).toEqual(['ask for b']);
  });
});

describe('a restart', () => {
  test('marks calls that were running, never repeats them, and goes on with the next', () => {
    const bench = stepping(call('a'), call('b')).do(claim('a'), recover);
    expect([bench.ended, bench.todo]).toEqual([['a RESTARTED unknown'], ['dispatch b']]);
    expect(bench.do(claim('a')).refusal).toBe('CALL_UNKNOWN');
  });

  test('leaves calls that were not claimed, to be dispatched once', () => {
    const bench = stepping(call('a')).do(recover);
    expect([bench.refusal, bench.do(claim('a')).refusal, bench.do(claim('a')).refusal]).toEqual([
      'NOT_DUE',
      null,
      'CALL_NOT_PENDING',
    ]);
  });

  test('leaves a question of a call of our own open, and its yes dispatches that very call', () => {
    const bench = stepping(asking('a')).do(recover);
    expect(bench.refusal).toBe('NOT_DUE');
    expect(bench.do(decide(bench, 'allow')).todo).toEqual(['question allowed', 'dispatch a']);
  });

  test('has the same call asked for the next time, even if it is allowed, until its outcome is known', () => {
    const bench = stepping(call('a')).do(claim('a'), recover, step(2, [call('a2', { digest: 'd-a' })]));
    expect([bench.todo, bench.state.unknown]).toEqual([['ask for a2'], ['d-a']]);
    bench.do(decide(bench, 'allow'), claim('a2', { digest: 'd-a' }), settle('a2'));
    expect([bench.state.unknown, bench.do(step(3, [call('b')])).todo]).toEqual([[], ['dispatch b']]);
  });

  test('has a call asked for that was cleared before an equal one was cut short', () => {
    const bench = stepping(call('a')).do(request(call('b', { digest: 'd-a' })), claim('b', { digest: 'd-a' }), recover);
    expect([bench.ended, bench.do(claim('a')).todo]).toEqual([['b LOST unknown'], ['ask for a']]);
  });

  test('does not ask for what changes nothing', () => {
    const reading = (id: string) => call(id, { digest: 'd-a', repeatable: true });
    expect(stepping(reading('a')).do(claim('a'), recover, step(2, [reading('b')])).todo).toEqual(['dispatch b']);
  });
});

describe('a result', () => {
  test('of a call that never was, or has not begun, is refused', () => {
    expect(stepping(call('a')).do(settle('b')).refusal).toBe('CALL_UNKNOWN');
    expect(stepping(call('a')).do(settle('a')).refusal).toBe('CALL_NOT_PENDING');
    expect(new RunBench().do(settle('a')).refusal).toBe('CALL_UNKNOWN');
  });
});
