import { PassThrough } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { lineStream } from '../../../../src/agents/backends/acp/acp-stream.ts';
import { createTime } from '../../time.ts';

const LINE = '{"jsonrpc":"2.0","method":"session/update"}\n';

/** Reads from an agent that may send 100 messages per second. `seen`: the number of messages read, and the error. */
function reading() {
  const time = createTime();
  const input = new PassThrough();
  const { readable } = lineStream(input, new PassThrough(), {
    limits: { messageBytes: 1_000_000, messagesPerSecond: 100 },
    now: () => time.clock.now(),
    timers: time.timers,
  });
  const seen = { messages: 0, error: null as unknown };
  const listen = async (): Promise<void> => {
    for await (const message of readable) seen.messages += Number('method' in message);
  };
  const over = listen().catch((error: unknown) => void (seen.error = error));
  const settle = async (): Promise<void> => {
    for (let round = 0; round < 20; round += 1) await time.settle();
  };
  return { time, input, seen, over, settle };
}

describe('T49 an agent that exceeds its message rate', () => {
  test('has all its messages read, at the allowed rate', async () => {
    const { time, input, seen, over, settle } = reading();
    input.end(LINE.repeat(900));
    await settle();
    expect(seen.messages).toBe(200);
    await time.advance(3_000);
    await settle();
    expect(seen.messages).toBeGreaterThan(400);
    expect(seen.messages).toBeLessThanOrEqual(501);
    for (let second = 0; second < 10; second += 1) {
      await time.advance(1_000);
      await settle();
    }
    await over;
    expect(seen).toEqual({ messages: 900, error: null });
  });

  test('is slowed down: unread messages stay in its pipe', async () => {
    const { input, settle } = reading();
    const block = LINE.repeat(400);
    let written = 0;
    while (written < 1_000 && input.write(block)) {
      written += 1;
      await settle();
    }
    expect(written).toBeLessThan(10);
  });

  test('is stopped after 30 s', async () => {
    const { time, input, seen, settle } = reading();
    const from = time.clock.now();
    while (seen.error === null && time.clock.now() - from < 120_000) {
      input.write(LINE.repeat(100));
      await time.advance(500);
      await settle();
    }
    expect(seen.error).toMatchObject({ message: 'sent more than 100 messages a second for 30 s' });
    expect(time.clock.now() - from).toBeGreaterThanOrEqual(30_000);
  });

  test('only in bursts is never stopped', async () => {
    const { time, input, seen, settle } = reading();
    for (let minute = 0; minute < 20; minute += 1) {
      input.write(LINE.repeat(250));
      for (let second = 0; second < 6; second += 1) {
        await time.advance(1_000);
        await settle();
      }
    }
    expect(seen).toEqual({ messages: 5_000, error: null });
  });
});
