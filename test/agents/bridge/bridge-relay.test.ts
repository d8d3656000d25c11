import type { AnyMessage } from '@agentclientprotocol/sdk';
import { describe, expect, test } from 'vitest';
import { BridgeRelay } from '../../../src/agents/bridge/bridge-relay.ts';
import { createTime } from '../time.ts';

/** Sends prompt 1, and `beside`. Breaks the connection during prompt 1, then sends prompt 2 over a new connection. */
function cancelledOnce(...beside: readonly AnyMessage[]) {
  const time = createTime();
  const toAgent: AnyMessage[] = [];
  const stuck: string[] = [];
  const patience = { timers: time.timers, graceMs: 10_000, stuck: () => void stuck.push('stuck') };
  const relay = new BridgeRelay((message) => void toAgent.push(message), '/tmp', patience);
  const prompt = (id: number) =>
    ({ jsonrpc: '2.0', id, method: 'session/prompt', params: { sessionId: 's1', prompt: [] } }) as const;
  relay.connect(() => undefined);
  relay.fromHost(prompt(1));
  for (const message of beside) relay.fromHost(message);
  relay.disconnect();
  const toHost: AnyMessage[] = [];
  relay.connect((message) => void toHost.push(message));
  relay.fromHost(prompt(2));
  const prompted = () => toAgent.filter((message) => 'method' in message && message.method === 'session/prompt').length;
  return { time, relay, stuck, prompted, toHost, toAgent };
}

describe('an agent whose prompt was cancelled because the connection broke', () => {
  test('gets the next prompt as soon as the cancelled prompt has ended', async () => {
    const { time, relay, stuck, prompted } = cancelledOnce();
    await time.advance(9_999);
    await relay.fromAgent({ jsonrpc: '2.0', id: 1, result: { stopReason: 'cancelled' } });
    expect(prompted()).toBe(2);
    await time.advance(60_000);
    expect(stuck).toEqual([]);
  });

  test('gets no new prompt when it answers another request of the session', async () => {
    const params = { sessionId: 's1', modeId: 'plan' };
    const { relay, prompted } = cancelledOnce({ jsonrpc: '2.0', id: 7, method: 'session/set_mode', params });
    await relay.fromAgent({ jsonrpc: '2.0', id: 2, result: {} });
    expect(prompted()).toBe(1);
    await relay.fromAgent({ jsonrpc: '2.0', id: 1, result: { stopReason: 'cancelled' } });
    expect(prompted()).toBe(2);
  });

  test('counts as stuck when the cancelled prompt does not end in time, and is restarted', async () => {
    const { time, stuck, prompted } = cancelledOnce();
    await time.advance(9_999);
    expect(stuck).toEqual([]);
    await time.advance(1);
    expect(stuck).toEqual(['stuck']);
    expect(prompted()).toBe(1);
  });

  test.each([
    ['session/cancel', { sessionId: 's1' }],
    ['$/cancel_request', { requestId: 2 }],
  ])('does not get the next prompt when %s ended it while it waited', async (method, params) => {
    const { relay, prompted, toHost } = cancelledOnce();
    relay.fromHost({ jsonrpc: '2.0', method, params });
    expect(toHost).toEqual([{ jsonrpc: '2.0', id: 2, result: { stopReason: 'cancelled' } }]);
    await relay.fromAgent({ jsonrpc: '2.0', id: 1, result: { stopReason: 'cancelled' } });
    expect(prompted()).toBe(1);
  });

  test('is not told to cancel a request that the host does not wait for: its own number means another one', () => {
    const { relay, toAgent } = cancelledOnce();
    relay.fromHost({ jsonrpc: '2.0', method: '$/cancel_request', params: { requestId: 1 } });
    expect(toAgent.filter((message) => 'method' in message && message.method === '$/cancel_request')).toEqual([]);
  });
});
