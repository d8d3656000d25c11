import { afterEach, describe, expect, test } from 'vitest';
import { lane } from './lane.ts';
import { DEV, PM, post, sendingRig, until } from './rig.ts';
import type { SendingRig } from './rig.ts';

let rig: SendingRig;

afterEach(async () => {
  await rig.outgoing.stop();
  await rig.server.close();
});

/** Streams a text and waits until the channel shows it. */
async function streams(text: string, outgoing = rig.outgoing, epoch = 1): Promise<void> {
  outgoing.draft(rig.channel, DEV, epoch, text);
  await until(() => {
    rig.time.advance(100);
    return rig.conversation().some((line) => line.endsWith(`${text} ▌`));
  }, `the draft "${text}"`);
}

describe('an agent that is writing', () => {
  test('shows what it has so far, with a cursor', async () => {
    rig = await sendingRig();
    await streams('The tide');
    await streams('The tide turns');
    expect(rig.conversation()).toEqual(['Dev: The tide turns ▌']);
  });

  test('is shown at most every one and a half seconds, with the newest text', async () => {
    rig = await sendingRig();
    await streams('0');
    const before = rig.requests('PATCH', /./).length;
    for (let n = 1; n <= 30; n += 1) {
      rig.outgoing.draft(rig.channel, DEV, 1, `${n}`);
      rig.time.advance(100);
    }
    await until(() => rig.conversation()[0] === 'Dev: 30 ▌' || (rig.time.advance(100), false), 'the last text');
    expect(rig.requests('PATCH', /./).length - before).toBeLessThanOrEqual(3);
  });

  test('shows the end of a long text, with its code closed', async () => {
    rig = await sendingRig();
    rig.outgoing.draft(rig.channel, DEV, 1, `\`\`\`js\n${'let a = 1;\n'.repeat(400)}let end;`);
    rig.time.advance(500);
    await until(() => rig.conversation().length === 1, 'the draft');
    const text = rig.server.read(rig.server.channel)[0]?.text ?? '';
    expect(text.length).toBeLessThan(2_000);
    expect(text.startsWith('…\n```js\nlet a')).toBe(true);
    expect(text.endsWith('let end;\n``` ▌')).toBe(true);
  });

  test('never loses its cursor, whatever it writes', async () => {
    rig = await sendingRig({ settings: { webhooks: false } });
    rig.outgoing.draft(rig.channel, { ...DEV, name: 'N'.repeat(80) }, 1, '[a.b](http://c.d)'.repeat(10_000));
    rig.time.advance(500);
    await until(() => rig.conversation().length === 1, 'the draft');
    expect(rig.server.read(rig.server.channel)[0]?.text.endsWith(' ▌')).toBe(true);
  });

  test('shows nothing when streaming is switched off', async () => {
    rig = await sendingRig({ settings: { streaming: false } });
    rig.outgoing.draft(rig.channel, DEV, 1, 'The tide');
    rig.time.advance(10_000);
    await rig.outgoing.post(rig.channel, post(DEV, 'The tide turns.'));
    expect(rig.conversation()).toEqual(['Dev: The tide turns.']);
  });

  test('shows nothing when it is quicker than half a second', async () => {
    rig = await sendingRig();
    rig.outgoing.draft(rig.channel, DEV, 1, 'Yes');
    rig.time.advance(400);
    await rig.outgoing.post(rig.channel, post(DEV, 'Yes.'));
    expect(rig.server.read(rig.server.channel).map(({ edited }) => edited)).toEqual([false]);
  });

  test('tries no draft again that a limit kept back, only the next text', async () => {
    rig = await sendingRig();
    await rig.outgoing.start();
    const limit = rig.server.fail('POST /webhooks/*/*', { kind: 'rate-limit', retryAfterMs: 1_000, scope: 'user' });
    rig.outgoing.draft(rig.channel, DEV, 1, 'one');
    rig.time.advance(500);
    await until(() => limit.hits === 1, 'the limit');
    await streams('two');
    expect(rig.conversation()).toEqual(['Dev: two ▌']);
  });
});

describe('a draft', () => {
  test('becomes its post by an edit', async () => {
    rig = await sendingRig();
    await streams('The tide');
    const [draft] = rig.server.read(rig.server.channel);
    expect(await rig.outgoing.post(rig.channel, post(DEV, 'The tide turns.'))).toBe(draft?.id);
    expect(rig.conversation()).toEqual(['Dev: The tide turns.']);
  });

  test('takes only the first part of what is said', async () => {
    rig = await sendingRig();
    await streams('One');
    await rig.outgoing.post(rig.channel, post(DEV, 'One.'));
    await rig.outgoing.post(rig.channel, post(DEV, 'Two.'));
    expect(rig.conversation()).toEqual(['Dev: One.', 'Dev: Two.']);
  });

  test('waits for its post when the text ends', async () => {
    rig = await sendingRig();
    await streams('The tide');
    rig.outgoing.draft(rig.channel, DEV, 1, null);
    rig.time.advance(2_900);
    await rig.outgoing.post(rig.channel, post(DEV, 'The tide turns.'));
    expect(rig.server.read(rig.server.channel).map(({ edited }) => edited)).toEqual([true]);
  });

  test('goes away when nothing is said of it', async () => {
    rig = await sendingRig();
    await streams('Hm');
    rig.outgoing.draft(rig.channel, DEV, 1, null);
    rig.time.advance(3_000);
    await until(() => rig.conversation().length === 0, 'the draft to go');
    expect(rig.conversation()).toEqual([]);
  });

  test('goes away when an announcement stands below it, and its post comes after that', async () => {
    rig = await sendingRig();
    await streams('The tide');
    await rig.outgoing.post(rig.channel, post(null, '↩️ Dev goes on'));
    await rig.outgoing.post(rig.channel, post(DEV, 'The tide turns.'));
    expect(rig.conversation()).toEqual(['conch: ↩️ Dev goes on', 'Dev: The tide turns.']);
  });

  test('of a turn that is over goes away when the next one begins', async () => {
    rig = await sendingRig();
    await streams('Old');
    rig.outgoing.draft(rig.channel, PM, 2, 'New');
    rig.time.advance(600);
    await until(() => rig.conversation().length === 1 && rig.conversation()[0] !== 'Dev: Old ▌', 'the new draft alone');
    expect(rig.conversation()).toEqual(['🧭 pm: New ▌']);
  });

  test('of the turn under way outlives a late post of the turn before', async () => {
    rig = await sendingRig();
    await streams('New', rig.outgoing, 2);
    await rig.outgoing.post(rig.channel, post(PM, 'Late.', { epoch: 1 }));
    expect(rig.conversation()).toEqual(['Dev: New ▌', '🧭 pm: Late.']);
    await rig.outgoing.post(rig.channel, post(DEV, 'New.', { epoch: 2 }));
    expect(rig.conversation()).toEqual(['🧭 pm: Late.', 'Dev: New.']);
  });

  test('that a moderator deleted does not come back, and its post does', async () => {
    rig = await sendingRig();
    await streams('The tide');
    rig.server.remove(rig.server.read(rig.server.channel)[0]!.id);
    rig.outgoing.draft(rig.channel, DEV, 1, 'The tide turns');
    rig.time.advance(1_500);
    await until(() => rig.requests('PATCH', /./).length === 1, 'the edit');
    await rig.outgoing.post(rig.channel, post(DEV, 'The tide turns.'));
    expect(rig.conversation()).toEqual(['Dev: The tide turns.']);
  });

  test('gives way to a file when the text is long', async () => {
    rig = await sendingRig();
    await streams('A long');
    await rig.outgoing.post(rig.channel, post(DEV, 'A long text. '.repeat(1_000)));
    const [only, ...more] = rig.server.read(rig.server.channel);
    expect(more).toEqual([]);
    expect(only?.attachments).toHaveLength(1);
  });

  test('is shown by the bot where there is no webhook', async () => {
    rig = await sendingRig({ settings: { webhooks: false } });
    await streams('The tide');
    await rig.outgoing.post(rig.channel, post(DEV, 'The tide turns.'));
    expect(rig.conversation()).toEqual(['conch: **Dev**: The tide turns.']);
  });

  test('whose own answer is on its way is waited for by the post', async () => {
    rig = await sendingRig();
    await rig.outgoing.start();
    rig.server.fail('POST /webhooks/*/*', { kind: 'late', ms: 100 });
    rig.outgoing.draft(rig.channel, DEV, 1, 'The tide');
    rig.time.advance(500);
    await rig.outgoing.post(rig.channel, post(DEV, 'The tide turns.'));
    expect(rig.conversation()).toEqual(['Dev: The tide turns.']);
    expect(rig.requests('POST', /^\/webhooks/)).toHaveLength(1);
  });

  test('whose own answer was lost is tidied away', async () => {
    rig = await sendingRig();
    await rig.outgoing.start();
    const lost = rig.server.fail('POST /webhooks/*/*', { kind: 'reset-after' });
    rig.outgoing.draft(rig.channel, DEV, 1, 'The tide');
    rig.time.advance(500);
    await until(() => lost.hits === 1, 'the draft');
    await rig.outgoing.post(rig.channel, post(DEV, 'The tide turns.'));
    rig.time.advance(5_000);
    await until(() => rig.conversation().length === 1, 'the lost draft to go');
    expect(rig.conversation()).toEqual(['Dev: The tide turns.']);
  });

  test('that could not be taken away is tidied away later', async () => {
    rig = await sendingRig();
    await streams('Hm');
    rig.server.fail('DELETE /webhooks/**', { kind: 'status', status: 502 }, 2);
    rig.outgoing.draft(rig.channel, DEV, 1, null);
    await until(() => {
      rig.time.advance(1_000);
      return rig.conversation().length === 0;
    }, 'the draft to go');
    expect(rig.requests('DELETE', /./).map(({ status }) => status)).toEqual([502, 502, 204]);
  });

  test('goes away when Conch stops', async () => {
    rig = await sendingRig();
    await streams('The tide');
    await rig.outgoing.stop();
    expect(rig.conversation()).toEqual([]);
  });
});

describe('a post that is written into its draft', () => {
  test.each(['reset-before', 'reset-after', 'hang-after'] as const)(
    'rows 24 to 26: stands once when the answer is lost (%s)',
    async (kind) => {
      rig = await sendingRig({ timeoutMs: 200 });
      await streams('The tide');
      rig.server.fail('PATCH /webhooks/**', { kind });
      await lane(rig, [{ by: 'dev', text: 'The tide turns.' }]).finish();
      expect(rig.conversation()).toEqual(['Dev: The tide turns.']);
    },
  );

  test.each(['reset-before', 'reset-after'] as const)('row 1: stands once after a kill (%s)', async (kind) => {
    rig = await sendingRig();
    await streams('The tide');
    rig.server.fail('PATCH /webhooks/**', { kind });
    const sent = post(DEV, 'The tide turns.');
    await expect(rig.outgoing.post(rig.channel, sent)).rejects.toMatchObject({ fault: 'unclear' });
    const next = rig.again();
    await next.tidy(rig.channel);
    if ((await next.find(rig.channel, sent)) === null) await next.post(rig.channel, sent);
    expect(rig.conversation()).toEqual(['Dev: The tide turns.']);
  });

  test('that ends with the cursor itself is not taken for a draft', async () => {
    rig = await sendingRig();
    const sent = post(DEV, 'A block: ▌');
    const id = await rig.outgoing.post(rig.channel, sent);
    const next = rig.again();
    await next.tidy(rig.channel);
    expect(await next.find(rig.channel, sent)).toBe(id);
  });
});

describe('a channel that a killed Conch left', () => {
  test('loses its drafts, and nothing else', async () => {
    rig = await sendingRig();
    rig.server.write('ann', rig.server.channel, 'My cursor ▌');
    await rig.outgoing.post(rig.channel, post(DEV, 'Said.'));
    await streams('Half');
    const next = rig.again();
    await next.tidy(rig.channel);
    expect(rig.conversation()).toEqual(['ann: My cursor ▌', 'Dev: Said.']);
  });

  test('loses a draft that much was written after', async () => {
    rig = await sendingRig();
    await streams('Half');
    for (let count = 0; count < 120; count += 1) rig.server.write('ann', rig.server.channel, `word ${count}`);
    await rig.again().tidy(rig.channel);
    expect(rig.conversation().filter((line) => line.endsWith('▌'))).toEqual([]);
  });

  test('loses its drafts a little later when Discord does not answer at once', async () => {
    rig = await sendingRig();
    await streams('Half');
    const next = rig.again();
    rig.server.fail('GET /channels/*/messages', { kind: 'status', status: 502 });
    await next.tidy(rig.channel);
    expect(rig.conversation()).toEqual(['Dev: Half ▌']);
    await until(() => (rig.time.advance(100), rig.conversation().length === 0), 'the draft to go');
    expect(rig.conversation()).toEqual([]);
  });

  test('keeps the draft that is being written now', async () => {
    rig = await sendingRig();
    await streams('The tide');
    await rig.outgoing.tidy(rig.channel);
    expect(rig.conversation()).toEqual(['Dev: The tide ▌']);
  });
});
