import { describe, expect, test } from 'vitest';
import { PermissionQueue, LONGEST_DETAIL } from '../../../src/agents/session/permission-queue.ts';
import type { Approval } from '../../../src/turns/floor/settings.ts';

const LS = { title: 'ls', detail: 'ls' };
const RM = { title: 'rm', detail: 'rm -rf build' };

/** A floor that numbers what it is asked, when it is told to. */
function floor() {
  const requests: { approval: Approval; why: string | null; number: (question: number | null) => void }[] = [];
  const withdrawn: number[] = [];
  const queue = new PermissionQueue({
    request: (approval, why) => new Promise((number) => void requests.push({ approval, why, number })),
    withdraw: (question) => void withdrawn.push(question),
  });
  const ask = (request: typeof LS) => {
    const over = new AbortController();
    return { over, answer: queue.ask(request, over.signal, async () => true) };
  };
  return { requests, withdrawn, queue, ask };
}

const settled = (): Promise<void> => new Promise(setImmediate);

describe('T7 a request for permission', () => {
  test('takes the answer to its own number and to no other', async () => {
    const { requests, queue, ask } = floor();
    const { answer } = ask(RM);
    await settled();
    requests[0]?.number(8);
    await settled();
    queue.decide(7, 'allow');
    queue.decide(8, 'reject');
    expect(await answer).toBe('reject');
  });

  test('takes an answer that comes before its number is known', async () => {
    const { requests, queue, ask } = floor();
    const { answer } = ask(RM);
    await settled();
    queue.decide(8, 'allow');
    requests[0]?.number(8);
    expect(await answer).toBe('allow');
  });

  test('does not take the answer to the one before it', async () => {
    const { requests, withdrawn, queue, ask } = floor();
    const first = ask(LS);
    const second = ask(RM);
    await settled();
    requests[0]?.number(7);
    await settled();
    first.over.abort();
    expect(await first.answer).toBe('cancelled');
    expect(withdrawn).toEqual([7]);
    await settled();
    queue.decide(7, 'allow');
    requests[1]?.number(8);
    await settled();
    queue.decide(8, 'reject');
    expect(await second.answer).toBe('reject');
  });

  test('that is taken back before its number is known is taken back once it is', async () => {
    const { requests, withdrawn, ask } = floor();
    const { answer, over } = ask(RM);
    await settled();
    over.abort();
    expect(await answer).toBe('cancelled');
    requests[0]?.number(8);
    await settled();
    expect(withdrawn).toEqual([8]);
  });

  test('that is taken back while another is open is never asked', async () => {
    const { requests, queue, ask } = floor();
    ask(LS);
    const second = ask(RM);
    second.over.abort();
    await settled();
    requests[0]?.number(7);
    await settled();
    queue.decide(7, 'allow');
    expect(await second.answer).toBe('cancelled');
    expect(requests).toHaveLength(1);
  });

  test('is over with the turn, and with a floor that does not take it', async () => {
    const { requests, withdrawn, queue, ask } = floor();
    const first = ask(LS);
    await settled();
    requests[0]?.number(null);
    expect(await first.answer).toBe('cancelled');
    const second = ask(RM);
    await settled();
    requests[1]?.number(8);
    await settled();
    queue.drop();
    expect(await second.answer).toBe('cancelled');
    expect(withdrawn).toEqual([]);
  });
});

describe('T53 a request for permission', () => {
  test('spells what would hide in it', async () => {
    const { requests, ask } = floor();
    ask({ title: 'rm\u200B', detail: 'rm\u00A0-rf\u202E build' });
    await settled();
    expect(requests[0]?.approval).toEqual({ title: 'rm\\u{200B}', detail: 'rm\\u{A0}-rf\\u{202E} build' });
  });

  test.each([
    [LONGEST_DETAIL, null],
    [LONGEST_DETAIL + 1, 'what would run is longer than 262,144 characters; it has to be split'],
  ])('of %i characters is asked, or not: %s', async (length, why) => {
    const { requests, ask } = floor();
    ask({ title: 'write', detail: 'x'.repeat(length) });
    await settled();
    expect(requests[0]?.why).toBe(why);
  });
});
