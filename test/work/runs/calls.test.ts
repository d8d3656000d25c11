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

describe('an allowed call', () => {
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

  test('can be claimed once', () => {
    expect(stepping(call('a')).do(claim('a'), claim('a')).refusal).toBe('CALL_NOT_PENDING');
  });

  test('waits for the call before it', () => {
    const bench = stepping(call('a'), call('b'));
    expect([bench.todo, bench.do(claim('b')).refusal]).toEqual([['dispatch a'], 'CALL_NOT_PENDING']);
    expect([bench.do(claim('a')).todo, bench.do(settle('a')).todo]).toEqual([[], ['dispatch b']]);
  });

  test('does not start when it has changed, or the rules deny it by then', () => {
    const changed = stepping(call('a')).do(claim('a', { digest: 'other' }));
    expect([changed.ended, changed.open]).toEqual([['a CALL_CHANGED'], []]);
    const forbidden = stepping(call('a')).do(claim('a', { verdict: 'deny' }));
    expect([forbidden.ended, forbidden.status]).toEqual([['a AGENT_TOOL_NOT_ALLOWED'], 'running']);
  });

  test('gets a request when the rules ask by then', () => {
    const bench = stepping(call('a')).do(claim('a', { verdict: 'ask' }));
    expect([bench.status, bench.todo]).toEqual(['paused', ['ask for a']]);
  });

  test('does not start while the run is paused, and is dispatched again when the run resumes', () => {
    const bench = stepping(call('a')).do(pause());
    expect(bench.do(claim('a')).refusal).toBe('AGENT_NOT_RUNNING');
    expect(bench.do(resume()).todo).toEqual(['dispatch a']);
  });
});

describe('isToolAllowed', () => {
  test('denies a call without a request, and the run continues', () => {
    const bench = stepping(call('a', { verdict: 'deny', rule: 'Bash(curl *)' }), call('b'));
    expect([bench.status, bench.ended, bench.todo]).toEqual(['running', ['a AGENT_TOOL_NOT_ALLOWED'], ['dispatch b']]);
  });

  test('answers the agent that requested a denied call', () => {
    expect(runIn('running').do(request(call('a', { verdict: 'deny' }))).todo).toEqual(['reject a']);
  });
});

describe('a call that needs an approval', () => {
  test('pauses the run with one request, bound to the call', () => {
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

  test('runs after an approval, and the next request follows', () => {
    const bench = stepping(asking('a'), asking('b'));
    expect([bench.do(decide(bench, 'allow')).status, bench.todo]).toEqual([
      'running',
      ['question allowed', 'dispatch a'],
    ]);
    bench.do(claim('a', { verdict: 'ask' }), settle('a'));
    expect([bench.status, bench.todo, bench.approval?.id]).toEqual(['paused', ['ask for b'], 'console:demo dev#1.2']);
  });

  test("does not run after a denial, and the run continues with the person's reason", () => {
    const bench = stepping(asking('a'), call('b'));
    bench.do(decide(bench, 'deny', { reason: 'use b.txt' }));
    expect([bench.status, bench.ended, bench.todo]).toEqual([
      'running',
      ['a DENIED'],
      ['question denied', 'dispatch b'],
    ]);
    expect(bench.facts).toContainEqual(expect.objectContaining({ type: 'resumed', feedback: 'use b.txt' }));
  });

  test('of an agent gets its answer from the decision', () => {
    const yes = runIn('running').do(request(asking('a')));
    expect(yes.do(decide(yes, 'allow')).todo).toEqual(['question allowed', 'allow a']);
    const no = runIn('running').do(request(asking('a')));
    expect(no.do(decide(no, 'deny')).todo).toEqual(['question denied', 'reject a']);
  });

  test('does not start after an approval when its content has changed', () => {
    const bench = stepping(asking('a'));
    bench.do(decide(bench, 'allow'), claim('a', { digest: 'other', verdict: 'ask' }));
    expect(bench.ended).toEqual(['a CALL_CHANGED']);
  });

  test('keeps the run paused until it is decided', () => {
    expect(stepping(asking('a')).do(resume()).refusal).toBe('APPROVAL_OPEN');
  });
});

describe('parallel calls of an agent', () => {
  const same = (id: string, more: Partial<RequestedCall> = {}) => asking(id, { digest: 'same', ...more });
  const waiting = (id: string, more: Partial<RequestedCall> = {}) => same(id, { waits: true, ...more });
  const statuses = ({ state }: RunBench) =>
    state.run?.calls.map(({ id, status, waits }) => `${id} ${waits === true ? 'waits' : status}`);
  const claimed = (id: string) => claim(id, { digest: 'same', verdict: 'ask' });

  test('are all stored; one gets a request, and the others wait', () => {
    const bench = runIn('running').do(request(asking('a'), waiting('b'), waiting('c', { verdict: 'allow' })));
    expect([statuses(bench), bench.todo]).toEqual([['a pending', 'b waits', 'c waits'], ['ask for a']]);
    bench.do(decide(bench, 'allow'));
    expect([bench.status, bench.todo]).toEqual(['running', ['question allowed', 'allow a']]);
    expect(bench.do(claim('b', { digest: 'same' })).refusal).toBe('CALL_NOT_PENDING');
  });

  test('are accepted while another request is open only if they can wait', () => {
    const bench = runIn('running').do(request(asking('a')), request(waiting('b')));
    expect([bench.refusal, statuses(bench)]).toEqual([null, ['a pending', 'b waits']]);
    expect(bench.do(request(asking('c'))).refusal).toBe('AGENT_NOT_RUNNING');
    expect(bench.do(request(waiting('d'), asking('e'))).refusal).toBe('AGENT_NOT_RUNNING');
  });

  test('become due one after the other, judged by the rules of that moment', () => {
    const bench = runIn('running').do(request(asking('a'), waiting('b'), waiting('c')));
    bench.do(decide(bench, 'deny'), request(asking('b', { verdict: 'allow' })));
    expect([bench.todo, statuses(bench)]).toEqual([['allow b'], ['c waits', 'b pending']]);
    bench.do(request(asking('c', { verdict: 'deny' })));
    expect([bench.ended, bench.todo]).toEqual([['c AGENT_TOOL_NOT_ALLOWED'], ['reject c']]);
  });

  test('are accepted once while they wait, and once more when due', () => {
    const bench = runIn('running').do(request(asking('a'), waiting('b')), request(waiting('b')));
    expect(bench.refusal).toBe('CALL_REPEATED');
    bench.do(decide(bench, 'deny'), request(asking('b')));
    expect(bench.approval?.call).toBe('b');
    bench.do(decide(bench, 'allow'));
    expect(bench.do(request(waiting('b'))).refusal).toBe('CALL_REPEATED');
    expect(bench.do(request(asking('x'), asking('x'))).refusal).toBe('CALL_REPEATED');
  });

  test('share one request when equal; its approval counts only for these calls', () => {
    const bench = runIn('running').do(request(same('a'), waiting('b'), waiting('c')), request(waiting('late')));
    expect(bench.approval?.others).toEqual(['b', 'c']);
    bench.do(decide(bench, 'allow'), claimed('a'), request(same('late')));
    expect(bench.todo).toEqual(['ask for late']);
    bench.do(decide(bench, 'deny'), request(same('b')));
    expect(bench.todo).toEqual(['allow b']);
    bench.do(claimed('b'), request(same('c')));
    expect([bench.todo, bench.state.run?.grants]).toEqual([['allow c'], []]);
  });

  test("share one denial when equal, with the person's reason", () => {
    const bench = runIn('running').do(request(same('a'), waiting('b')));
    bench.do(decide(bench, 'deny', { reason: 'use b.txt' }), request(same('b')));
    expect([bench.ended, bench.todo]).toEqual([['b DENIED'], ['reject b']]);
    expect(bench.do(request(same('c'))).todo).toEqual(['ask for c']);
  });

  test('get a request each when a call must be asked alone', () => {
    const front = runIn('running').do(request(same('a', { alone: true }), waiting('b')));
    expect(front.approval).not.toHaveProperty('others');
    const behind = runIn('running').do(request(same('a'), waiting('b', { alone: true }), waiting('c')));
    expect(behind.approval?.others).toEqual(['c']);
    const allowed = runIn('running').do(request(same('a'), waiting('b', { verdict: 'allow' })));
    expect(allowed.approval).not.toHaveProperty('others');
  });

  test('can be withdrawn while they wait, and no decision counts for them later', () => {
    const bench = runIn('running').do(request(same('a'), waiting('b'), waiting('c')));
    bench.do({ type: 'WITHDRAW', call: 'b' });
    expect([bench.status, bench.ended]).toEqual(['paused', ['b LOST']]);
    bench.do(decide(bench, 'allow'), { type: 'WITHDRAW', call: 'c' });
    expect(bench.state.run?.grants).toEqual([]);
    expect(bench.do(request(same('d'))).todo).toEqual(['ask for d']);
  });

  test('end with their turn, and agents that still wait get a denial', () => {
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

  test('end when their agent is lost; a decision about one of them counts once', () => {
    const cut = runIn('running').do(request(same('a'), waiting('b'), waiting('c')), recover);
    expect([cut.ended, cut.approval?.detached]).toEqual([['a LOST', 'b LOST', 'c LOST'], true]);
    cut.do(decide(cut, 'allow'), request(same('d')), claimed('d'), settle('d'));
    expect(cut.do(request(same('e'))).todo).toEqual(['ask for e']);
    const late = runIn('running').do(request(same('a'), waiting('b')));
    late.at += WAIT_MS;
    late.do(tick, start(), step(1), request(same('b')));
    expect(late.todo).toEqual(['ask for b']);
  });

  test('do not delay the next step', () => {
    const bench = runIn('running').do(
      request(asking('a', { verdict: 'allow' }), waiting('b')),
      claim('a'),
      settle('a'),
    );
    expect([bench.do(step(2)).refusal, statuses(bench)]).toEqual([null, ['b waits']]);
  });
});

describe('a click on a request', () => {
  test('that comes second learns that the request is decided', () => {
    const bench = stepping(asking('a'));
    const [allow, deny] = [decide(bench, 'allow'), decide(bench, 'deny', { by: 'bob' })];
    expect([bench.do(allow).refusal, bench.do(deny).refusal, bench.do(allow).refusal]).toEqual([
      null,
      'APPROVAL_DECIDED',
      'APPROVAL_DECIDED',
    ]);
    expect(bench.state.closed).toEqual([{ id: 'console:demo dev#1.1', state: 'allowed', by: 'ann' }]);
  });

  test('for an older request decides nothing about a newer one', () => {
    const bench = stepping(asking('a'), asking('b'));
    const first = decide(bench, 'allow');
    bench.do(first, claim('a', { verdict: 'ask' }), settle('a'));
    expect([bench.do(first).refusal, bench.status]).toEqual(['APPROVAL_DECIDED', 'paused']);
  });

  test('for an unknown request, or for other content, decides nothing', () => {
    const bench = stepping(asking('a'));
    expect(bench.do(decide(bench, 'allow', { approval: 'console:demo dev#1.9' })).refusal).toBe('APPROVAL_UNKNOWN');
    expect(bench.do(decide(bench, 'allow', { digest: 'd-b' })).refusal).toBe('APPROVAL_CHANGED');
    expect(bench.status).toBe('paused');
  });

  test('counts until the last millisecond before the deadline', () => {
    const bench = stepping(asking('a'));
    bench.at += WAIT_MS;
    expect(bench.do(decide(bench, 'allow')).refusal).toBe('APPROVAL_EXPIRED');
    bench.at -= 1;
    expect(bench.do(decide(bench, 'allow')).refusal).toBeNull();
  });
});

describe('a request without a decision', () => {
  test('expires with its run, and the agent that asked gets a denial', () => {
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

  test('does not count as third with another call in between; denied calls count, too', () => {
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
  test('is refused while a call runs', () => {
    expect(stepping(call('a')).do(claim('a'), complete).refusal).toBe('CALL_OPEN');
  });

  test('drops calls that have not started', () => {
    const bench = new RunBench().do(start({ maxTurns: 1 }), step(1, [call('a')]), resume(), complete);
    expect([bench.status, bench.ended]).toEqual(['completed', ['a DROPPED']]);
    expect(bench.do(claim('a')).refusal).toBe('AGENT_NOT_RUNNING');
  });

  test('by an abort keeps calls that Conch still runs, and stores their results', () => {
    const bench = stepping(call('a'), call('b')).do(claim('a'), abort);
    expect([bench.status, bench.open, bench.ended]).toEqual(['idle', ['a cleared running'], ['b DROPPED']]);
    expect([bench.do(settle('a')).ended, bench.todo, bench.status]).toEqual([['a complete'], [], 'idle']);
  });

  test("by an error gives the agent's running calls an unknown outcome", () => {
    const bench = runIn('running').do(request(call('a')), claim('a'), request(asking('b')));
    bench.do(decide(bench, 'deny'), error(true));
    expect([bench.status, bench.ended]).toEqual(['error', ['a LOST unknown']]);
  });
});

describe('an agent that is lost while its run is paused', () => {
  test('leaves the run paused; the run fails when it is resumed', () => {
    const bench = runIn('paused').do(error(true, 'LOST'));
    expect(bench.status).toBe('paused');
    expect([bench.do(resume()).status, bench.published]).toEqual([
      'error',
      ['state:update', 'agent:error', 'state:update'],
    ]);
  });

  test('ends the run on resume when the error is not recoverable', () => {
    expect(runIn('paused').do(error(false, 'LOST'), resume()).status).toBe('idle');
  });

  test('leaves its request open; an approval counts once for the next equal call', () => {
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

  test("leaves its request open; a denial answers the next equal call once, with the person's reason", () => {
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
  ])("leaves an approval that counts until the request's deadline: at %s", (_, more, todo) => {
    const bench = runIn('running').do(request(asking('a')), recover);
    bench.do(decide(bench, 'allow'));
    bench.at = AT + WAIT_MS + more;
    expect(bench.do(request(asking('a2', { digest: 'd-a' }))).todo).toEqual([todo]);
  });

  test('leaves an approval for this call only', () => {
    const bench = runIn('running').do(request(asking('a')), recover);
    bench.do(decide(bench, 'allow'), request(asking('b')));
    expect([bench.todo, bench.state.run?.grants]).toMatchObject([['ask for b'], [{ digest: 'd-a' }]]);
  });

  test('cannot leave an always-allow rule, even when a rule was offered', () => {
    const words = { title: 't', detail: '', offers: [{ rule: 'execute(npm test)', words: 'exactly this' }] };
    const gone = runIn('running').do(request(asking('a', { words })), recover);
    gone.do(decide(gone, 'allow', { always: 'execute(npm test)' }));
    expect([gone.refusal, gone.state.remembered]).toEqual([null, []]);
  });

  test('leaves a request that does not count as an equal call in a row', () => {
    const same = { digest: 'd-a' };
    const bench = runIn('running').do(request(asking('a')), recover);
    bench.do(decide(bench, 'allow'), request(asking('a2', same)), claim('a2', same), settle('a2'));
    expect(bench.do(request(asking('a3', same))).todo).toEqual(['ask for a3']);
  });

  test('leaves an approval that ends with the run', () => {
    const bench = runIn('running').do(request(asking('a')), recover);
    bench.do(decide(bench, 'allow'), complete, start(), step(1), request(asking('b', { digest: 'd-a' })));
    expect(bench.todo).toEqual(['ask for b']);
  });
});

describe('a restart of the program', () => {
  test('gives running calls an unknown outcome, never repeats them, and continues with the next call', () => {
    const bench = stepping(call('a'), call('b')).do(claim('a'), recover);
    expect([bench.ended, bench.todo]).toEqual([['a RESTARTED unknown'], ['dispatch b']]);
    expect(bench.do(claim('a')).refusal).toBe('CALL_UNKNOWN');
  });

  test('dispatches calls that were not claimed, once', () => {
    const bench = stepping(call('a')).do(recover);
    expect([bench.refusal, bench.do(claim('a')).refusal, bench.do(claim('a')).refusal]).toEqual([
      'NOT_DUE',
      null,
      'CALL_NOT_PENDING',
    ]);
  });

  test('keeps the request for a call of Conch, and an approval dispatches that call', () => {
    const bench = stepping(asking('a')).do(recover);
    expect(bench.refusal).toBe('NOT_DUE');
    expect(bench.do(decide(bench, 'allow')).todo).toEqual(['question allowed', 'dispatch a']);
  });

  test('makes the next equal call need an approval until its outcome is known, even if allowed', () => {
    const bench = stepping(call('a')).do(claim('a'), recover, step(2, [call('a2', { digest: 'd-a' })]));
    expect([bench.todo, bench.state.unknown]).toEqual([['ask for a2'], ['d-a']]);
    bench.do(decide(bench, 'allow'), claim('a2', { digest: 'd-a' }), settle('a2'));
    expect([bench.state.unknown, bench.do(step(3, [call('b')])).todo]).toEqual([[], ['dispatch b']]);
  });

  test('makes a cleared call need an approval when an equal call was cut by the restart', () => {
    const bench = stepping(call('a')).do(request(call('b', { digest: 'd-a' })), claim('b', { digest: 'd-a' }), recover);
    expect([bench.ended, bench.do(claim('a')).todo]).toEqual([['b LOST unknown'], ['ask for a']]);
  });

  test('asks for no approval of calls that change nothing', () => {
    const reading = (id: string) => call(id, { digest: 'd-a', repeatable: true });
    expect(stepping(reading('a')).do(claim('a'), recover, step(2, [reading('b')])).todo).toEqual(['dispatch b']);
  });
});

describe('the result of a call', () => {
  test('is refused when the call is unknown or has not started', () => {
    expect(stepping(call('a')).do(settle('b')).refusal).toBe('CALL_UNKNOWN');
    expect(stepping(call('a')).do(settle('a')).refusal).toBe('CALL_NOT_PENDING');
    expect(new RunBench().do(settle('a')).refusal).toBe('CALL_UNKNOWN');
  });
});
