import { afterEach, describe, expect, test } from 'vitest';
import type { ChatError } from '../../../src/adapters/port.ts';
import { sendingRig } from './rig.ts';
import type { SendingRig } from './rig.ts';

let rig: SendingRig;

afterEach(async () => {
  await rig.outgoing.stop();
  await rig.server.close();
});

function reactions(): readonly string[] {
  return Object.keys(rig.server.read(rig.server.channel)[0]?.reactions ?? {});
}

describe('a message of a person', () => {
  test('shows only the newest receipt', async () => {
    rig = await sendingRig();
    const { id } = rig.server.write('ann', rig.server.channel, 'Hello');
    await rig.outgoing.receipt(rig.channel, id, 'held');
    expect(reactions()).toEqual(['👀']);
    await rig.outgoing.receipt(rig.channel, id, 'done');
    expect(reactions()).toEqual(['✅']);
    await rig.outgoing.receipt(rig.channel, id, 'done');
    expect(reactions()).toEqual(['✅']);
  });

  test('shows only the newest receipt after a restart, and keeps the reactions of people', async () => {
    rig = await sendingRig();
    const { id } = rig.server.write('ann', rig.server.channel, 'Hello');
    await rig.outgoing.receipt(rig.channel, id, 'held');
    rig.server.react('bob', id, '⚡');
    rig.time.advance(60_000);
    await rig.again().receipt(rig.channel, id, 'done');
    expect(reactions().toSorted()).toEqual(['⚡', '✅'].toSorted());
  });

  test('keeps the reactions of people', async () => {
    rig = await sendingRig();
    const { id } = rig.server.write('ann', rig.server.channel, 'Hello');
    rig.server.react('bob', id, '👀');
    await rig.outgoing.receipt(rig.channel, id, 'held');
    await rig.outgoing.receipt(rig.channel, id, 'injected');
    expect(reactions().toSorted()).toEqual(['↪️', '👀'].toSorted());
  });

  test('gets its receipt in a later attempt after a rate limit', async () => {
    rig = await sendingRig();
    const { id } = rig.server.write('ann', rig.server.channel, 'Hello');
    await rig.outgoing.receipt(rig.channel, id, 'held');
    rig.server.fail('DELETE /channels/**', { kind: 'rate-limit', retryAfterMs: 20, scope: 'user' });
    const limited = rig.outgoing.receipt(rig.channel, id, 'done');
    await expect(limited).rejects.toMatchObject({ fault: 'limited' });
    const again = (): Promise<string> =>
      rig.outgoing.receipt(rig.channel, id, 'done').then(
        () => 'shown',
        (error: ChatError) => error.fault,
      );
    await expect.poll(again).toBe('shown');
    expect(reactions()).toEqual(['✅']);
  });

  test('needs no receipt when it was deleted', async () => {
    rig = await sendingRig();
    const { id } = rig.server.write('ann', rig.server.channel, 'Hello');
    rig.server.remove(id);
    await rig.outgoing.receipt(rig.channel, id, 'held');
    expect(rig.requests('PUT', /reactions/).map(({ status }) => status)).toEqual([404]);
  });

  test('by a person who blocked the bot does not stop the receipts of other messages', async () => {
    rig = await sendingRig();
    const { id } = rig.server.write('ann', rig.server.channel, 'Hello');
    const blocker = rig.server.write('bob', rig.server.channel, 'Go away');
    rig.server.fail('PUT /channels/**', { kind: 'status', status: 403, code: 90_001, message: 'Reaction blocked' });
    await rig.outgoing.receipt(rig.channel, blocker.id, 'held');
    await rig.outgoing.receipt(rig.channel, id, 'done');
    expect(reactions()).toEqual(['✅']);
  });
});

describe('a channel where the bot may not react', () => {
  test('gets one attempt in ten minutes', async () => {
    rig = await sendingRig();
    rig.server.permit(rig.server.channel, 'AddReactions', 'deny');
    const { id } = rig.server.write('ann', rig.server.channel, 'Hello');
    for (const waitedMs of [0, 599_000]) {
      rig.time.advance(waitedMs);
      await expect(rig.outgoing.receipt(rig.channel, id, 'held')).rejects.toMatchObject({ fault: 'refused' });
    }
    expect(rig.requests('PUT', /reactions/)).toHaveLength(1);
    rig.time.advance(1_001);
    await expect(rig.outgoing.receipt(rig.channel, id, 'held')).rejects.toMatchObject({ fault: 'refused' });
    expect(rig.requests('PUT', /reactions/)).toHaveLength(2);
  });
});
