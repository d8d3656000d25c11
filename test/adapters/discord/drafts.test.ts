import { afterEach, describe, expect, test } from 'vitest';
import { lane } from './lane.ts';
import { DEV, PM, post, sendingRig, until } from './rig.ts';
import type { SendingRig } from './rig.ts';

let rig: SendingRig;

afterEach(async () => {
  await rig.outgoing.stop();
  await rig.server.close();
});

/** Streams a text and waits until the channel shows the draft. */
async function streams(text: string, outgoing = rig.outgoing, epoch = 1): Promise<void> {
  outgoing.draft(rig.channel, DEV, epoch, text);
  await until(() => {
    rig.time.advance(100);
    return rig.conversation().some((line) => line.endsWith(`${text} ▌`));
  }, `the draft "${text}"`);
}

describe('an agent that generates a text', () => {
  test('shows the text so far, with a cursor', async () => {
    rig = await sendingRig();
    await streams('The tide');
    await streams('The tide turns');
    expect(rig.conversation()).toEqual(['Dev: The tide turns ▌']);
  });

  test('shows the end of a long text, with its code block closed', async () => {
    rig = await sendingRig();
    rig.outgoing.draft(rig.channel, DEV, 1, `\`\`\`js\n${'let a = 1;\n'.repeat(400)}let end;`);
    rig.time.advance(500);
    await until(() => rig.conversation().length === 1, 'the draft');
    const text = rig.server.read(rig.server.channel)[0]?.text ?? '';
    expect(text.length).toBeLessThan(2_000);
    expect(text.startsWith('…\n```js\nlet a')).toBe(true);
    expect(text.endsWith('let end;\n``` ▌')).toBe(true);
  });

  test('shows its cursor also after a very long text under a long name', async () => {
    rig = await sendingRig({ settings: { webhooks: false } });
    rig.outgoing.draft(rig.channel, { ...DEV, name: 'N'.repeat(80) }, 1, '[a.b](http://c.d)'.repeat(10_000));
    rig.time.advance(500);
    await until(() => rig.conversation().length === 1, 'the draft');
    expect(rig.server.read(rig.server.channel)[0]?.text.endsWith(' ▌')).toBe(true);
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

  test('of the current turn stays when the post of the previous turn arrives late', async () => {
    rig = await sendingRig();
    await streams('New', rig.outgoing, 2);
    await rig.outgoing.post(rig.channel, post(PM, 'Late.', { epoch: 1 }));
    expect(rig.conversation()).toEqual(['Dev: New ▌', '🧭 pm: Late.']);
    await rig.outgoing.post(rig.channel, post(DEV, 'New.', { epoch: 2 }));
    expect(rig.conversation()).toEqual(['🧭 pm: Late.', 'Dev: New.']);
  });

  test('that a moderator deleted is not shown again, and its post is shown', async () => {
    rig = await sendingRig();
    await streams('The tide');
    rig.server.remove(rig.server.read(rig.server.channel)[0]!.id);
    rig.outgoing.draft(rig.channel, DEV, 1, 'The tide turns');
    rig.time.advance(1_500);
    await until(() => rig.requests('PATCH', /./).length === 1, 'the edit');
    await rig.outgoing.post(rig.channel, post(DEV, 'The tide turns.'));
    expect(rig.conversation()).toEqual(['Dev: The tide turns.']);
  });

  test('T88 is deleted by the bot when its webhook was deleted, and only its post remains', async () => {
    rig = await sendingRig();
    await streams('The tide');
    rig.server.deleteWebhook(rig.server.webhooks(rig.server.channel)[0]!.id);
    await rig.outgoing.post(rig.channel, post(DEV, 'The tide turns.'));
    expect(rig.conversation()).toEqual(['Dev: The tide turns.']);
  });

  test('is replaced by a post with a file when the text is long', async () => {
    rig = await sendingRig();
    await streams('A long');
    await rig.outgoing.post(rig.channel, post(DEV, 'A long text. '.repeat(1_000)));
    const [only, ...more] = rig.server.read(rig.server.channel);
    expect(more).toEqual([]);
    expect(only?.attachments).toHaveLength(1);
  });

  test('is shown by the bot in a channel without a webhook', async () => {
    rig = await sendingRig({ settings: { webhooks: false } });
    await streams('The tide');
    await rig.outgoing.post(rig.channel, post(DEV, 'The tide turns.'));
    expect(rig.conversation()).toEqual(['conch: **Dev**: The tide turns.']);
  });

  test('makes its post wait for the pending request that sends the draft', async () => {
    rig = await sendingRig();
    await rig.outgoing.start();
    rig.server.fail('POST /webhooks/*/*', { kind: 'late', ms: 100 });
    rig.outgoing.draft(rig.channel, DEV, 1, 'The tide');
    rig.time.advance(500);
    await rig.outgoing.post(rig.channel, post(DEV, 'The tide turns.'));
    expect(rig.conversation()).toEqual(['Dev: The tide turns.']);
    expect(rig.requests('POST', /^\/webhooks/)).toHaveLength(1);
  });
});

describe('a post that replaces its draft', () => {
  test.each(['reset-before', 'reset-after', 'hang-after'] as const)(
    "rows 24 to 26: appears once when Discord's answer is lost (%s)",
    async (kind) => {
      rig = await sendingRig({ timeoutMs: 200 });
      await streams('The tide');
      rig.server.fail('PATCH /webhooks/**', { kind });
      await lane(rig, [{ by: 'dev', text: 'The tide turns.' }]).finish();
      expect(rig.conversation()).toEqual(['Dev: The tide turns.']);
    },
  );

  test.each(['reset-before', 'reset-after'] as const)('row 1: appears once after a kill (%s)', async (kind) => {
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

  test('is not taken for a draft when it ends with the cursor character', async () => {
    rig = await sendingRig();
    const sent = post(DEV, 'A block: ▌');
    const id = await rig.outgoing.post(rig.channel, sent);
    const next = rig.again();
    await next.tidy(rig.channel);
    expect(await next.find(rig.channel, sent)).toBe(id);
  });
});

describe('a channel after Conch was killed', () => {
  test('loses its drafts and keeps posts and the messages of people', async () => {
    rig = await sendingRig();
    rig.server.write('ann', rig.server.channel, 'My cursor ▌');
    await rig.outgoing.post(rig.channel, post(DEV, 'Said.'));
    await streams('Half');
    const next = rig.again();
    await next.tidy(rig.channel);
    expect(rig.conversation()).toEqual(['ann: My cursor ▌', 'Dev: Said.']);
  });

  test('loses a draft that is followed by 120 messages', async () => {
    rig = await sendingRig();
    await streams('Half');
    for (let count = 0; count < 120; count += 1) rig.server.write('ann', rig.server.channel, `word ${count}`);
    await rig.again().tidy(rig.channel);
    expect(rig.conversation().filter((line) => line.endsWith('▌'))).toEqual([]);
  });
});
