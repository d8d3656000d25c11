import * as fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { FILE_ABOVE, TEXT_LIMIT } from '../../../src/adapters/discord/content.ts';
import { lane } from './lane.ts';
import type { Said } from './lane.ts';
import { DEV, PM, QA, post, sendingRig, until } from './rig.ts';
import type { SendingRig } from './rig.ts';

let rig: SendingRig;

afterEach(async () => {
  await rig.outgoing.stop();
  await rig.server.close();
});

const WEBHOOK_POST = 'POST /webhooks/*/*';
const BOT_POST = 'POST /channels/*/messages';

describe('a channel with webhooks', () => {
  test('shows each agent under its own name and avatar', async () => {
    rig = await sendingRig();
    await rig.outgoing.post(rig.channel, post(PM, 'What first?'));
    await rig.outgoing.post(rig.channel, post(QA, 'The tests.'));
    await rig.outgoing.post(rig.channel, post(null, '⏱️ qa turn timed out'));
    expect(rig.conversation()).toEqual(['🧭 pm: What first?', 'qa: The tests.', 'conch: ⏱️ qa turn timed out']);
    expect(rig.server.read(rig.server.channel)[1]?.avatar).toBe('https://example.org/qa.png');
  });

  test('gets one webhook, which the next run uses again', async () => {
    rig = await sendingRig();
    await rig.outgoing.start();
    const next = rig.again();
    await next.start();
    await next.post(rig.channel, post(DEV, 'Still here.'));
    expect(rig.server.webhooks(rig.server.channel).map(({ name }) => name)).toEqual(['Floor']);
  });

  test('does not touch webhooks of other programs', async () => {
    rig = await sendingRig();
    const foreign = rig.server.foreignWebhook(rig.server.channel, 'Floor');
    await rig.outgoing.post(rig.channel, post(DEV, 'Mine.'));
    expect(rig.server.webhooks(rig.server.channel)).toHaveLength(2);
    expect(rig.outgoing.identities.isOwnWebhook(foreign)).toBe(false);
  });

  test('lets agents post in its threads by the same webhook', async () => {
    rig = await sendingRig();
    const thread = rig.thread('aside');
    await rig.outgoing.post(rig.channel, post(DEV, 'Here.'));
    await rig.outgoing.post(thread, post(DEV, 'And there.'));
    expect(rig.conversation(thread.replace('discord:', '')).at(-1)).toBe('Dev: And there.');
    expect(rig.server.webhooks(rig.server.channel)).toHaveLength(1);
  });

  test('splits "Clyde" and "Discord" in names, because Discord refuses these words', async () => {
    rig = await sendingRig();
    const odd = { id: 'odd', name: 'Clyde of Discord', avatar: null };
    await rig.outgoing.post(rig.channel, post(odd, 'Hello.'));
    expect(rig.conversation()).toEqual(['Cly\u200Ade of Disc\u200Aord: Hello.']);
  });

  test("never logs or stores a webhook's token", async () => {
    rig = await sendingRig();
    await rig.outgoing.start();
    rig.server.fail('POST /webhooks/*/*', { kind: 'status', status: 400, code: 50_035, message: 'Invalid Form Body' });
    await rig.outgoing.post(rig.channel, post(DEV, 'Hello.'));
    const [webhook] = rig.server.webhooks(rig.server.channel);
    const said = [...rig.logged, ...rig.kept.values()].join('\n');
    expect(said).not.toContain(webhook?.token);
    expect(said).not.toContain(rig.server.token);
  });
});

describe('a channel without webhooks', () => {
  test("shows the agent's name in front, and logs the reason once", async () => {
    rig = await sendingRig({ discord: { permissions: ['ViewChannel', 'SendMessages', 'ReadMessageHistory'] } });
    await rig.outgoing.post(rig.channel, post(DEV, 'One.'));
    await rig.outgoing.post(rig.channel, post(PM, '```\ntwo\n```'));
    expect(rig.conversation()).toEqual(['conch: **Dev**: One.', 'conch: **🧭 pm**:\n```\ntwo\n```']);
    expect(
      rig.logged.filter((line) => line.includes('agents post as the bot, with their names in front')),
    ).toHaveLength(1);
  });

  test('is asked for its webhooks again only after 10 minutes', async () => {
    rig = await sendingRig({ discord: { permissions: ['ViewChannel', 'SendMessages'] } });
    await rig.outgoing.post(rig.channel, post(DEV, 'One.'));
    await rig.outgoing.post(rig.channel, post(DEV, 'Two.'));
    expect(rig.requests('GET', /webhooks$/)).toHaveLength(1);
    rig.time.advance(600_001);
    await rig.outgoing.post(rig.channel, post(DEV, 'Three.'));
    expect(rig.requests('GET', /webhooks$/)).toHaveLength(2);
  });

  test('is never asked for webhooks when the settings switch webhooks off', async () => {
    rig = await sendingRig({ settings: { webhooks: false } });
    await rig.outgoing.post(rig.channel, post(DEV, 'One.'));
    expect(rig.conversation()).toEqual(['conch: **Dev**: One.']);
    expect(rig.requests('GET', /webhooks$/)).toHaveLength(0);
  });
});

describe('a channel where the bot may not post', () => {
  test('still gets the posts of agents through its webhook', async () => {
    rig = await sendingRig();
    await rig.outgoing.post(rig.channel, post(DEV, 'One.'));
    rig.server.permit(rig.server.channel, 'SendMessages', 'deny');
    await expect(rig.outgoing.post(rig.channel, post(null, 'An announcement.'))).rejects.toThrow('Missing Permissions');
    await rig.outgoing.post(rig.channel, post(DEV, 'Two.'));
    expect(rig.conversation()).toEqual(['Dev: One.', 'Dev: Two.']);
  });
});

describe('a lost webhook', () => {
  test('row 43: is created again when a moderator deleted it', async () => {
    rig = await sendingRig();
    await rig.outgoing.post(rig.channel, post(DEV, 'Before.'));
    rig.server.deleteWebhook(rig.server.webhooks(rig.server.channel)[0]!.id);
    await rig.outgoing.post(rig.channel, post(DEV, 'After.'));
    expect(rig.conversation()).toEqual(['Dev: Before.', 'Dev: After.']);
  });

  test('row 43: is used again with its new token when its token was changed', async () => {
    rig = await sendingRig();
    await rig.outgoing.post(rig.channel, post(DEV, 'Before.'));
    rig.server.rotateWebhook(rig.server.webhooks(rig.server.channel)[0]!.id);
    await rig.outgoing.post(rig.channel, post(DEV, 'After.'));
    expect(rig.conversation()).toEqual(['Dev: Before.', 'Dev: After.']);
    expect(rig.server.webhooks(rig.server.channel)).toHaveLength(1);
  });

  test('is replaced when a moderator moved it, and no post stays in its new channel', async () => {
    rig = await sendingRig();
    await rig.outgoing.post(rig.channel, post(DEV, 'Before.'));
    const other = rig.server.addChannel('other');
    rig.server.moveWebhook(rig.server.webhooks(rig.server.channel)[0]!.id, other);
    await rig.outgoing.post(rig.channel, post(DEV, 'After.'));
    await rig.outgoing.post(rig.channel, post(DEV, 'Later.'));
    expect(rig.conversation()).toEqual(['Dev: Before.', 'Dev: After.', 'Dev: Later.']);
    expect(rig.conversation(other)).toEqual([]);
  });

  test('row 43: is replaced by the bot after a second loss, without further requests to webhooks', async () => {
    rig = await sendingRig();
    rig.server.fail(WEBHOOK_POST, { kind: 'status', status: 404, code: 10_015, message: 'Unknown Webhook' }, null);
    await rig.outgoing.post(rig.channel, post(DEV, 'One.'));
    await rig.outgoing.post(rig.channel, post(DEV, 'Two.'));
    expect(rig.conversation()).toEqual(['conch: **Dev**: One.', 'conch: **Dev**: Two.']);
    expect(rig.requests('POST', /^\/webhooks/)).toHaveLength(2);
  });
});

describe('a network that loses requests or answers', () => {
  const both: readonly Said[] = [
    { by: 'dev', text: 'An answer.' },
    { by: null, text: '⏱️ dev turn timed out' },
  ];
  const twice = ['Dev: An answer.', 'conch: ⏱️ dev turn timed out'];

  test('row 24: a connection reset before the post leads to one post', async () => {
    rig = await sendingRig();
    rig.server.fail(WEBHOOK_POST, { kind: 'reset-before' });
    rig.server.fail(BOT_POST, { kind: 'reset-before' });
    await lane(rig, both).finish();
    expect(rig.conversation()).toEqual(twice);
  });

  test('row 25: an answer lost after the post leads to one post', async () => {
    rig = await sendingRig();
    const webhook = rig.server.fail(WEBHOOK_POST, { kind: 'reset-after' });
    const bot = rig.server.fail(BOT_POST, { kind: 'reset-after' });
    await lane(rig, both).finish();
    expect(rig.conversation()).toEqual(twice);
    expect([webhook.hits, bot.hits]).toEqual([1, 1]);
  });

  test('row 25: the same text twice leads to two posts, even when the answers are lost', async () => {
    rig = await sendingRig();
    rig.server.fail(WEBHOOK_POST, { kind: 'reset-after' }, 2);
    await lane(rig, [both[0]!, both[0]!]).finish();
    expect(rig.conversation()).toEqual(['Dev: An answer.', 'Dev: An answer.']);
  });

  test('row 26: an answer after the timeout leads to one post', async () => {
    rig = await sendingRig({ timeoutMs: 150 });
    rig.server.fail(WEBHOOK_POST, { kind: 'late', ms: 400 });
    rig.server.fail(BOT_POST, { kind: 'hang-after' });
    await lane(rig, both).finish();
    expect(rig.conversation()).toEqual(twice);
  });

  test("a 403 without Discord's error code loses no post", async () => {
    rig = await sendingRig({ settings: { webhooks: false } });
    rig.server.fail(BOT_POST, { kind: 'status', status: 403 }, 3);
    const queue = lane(rig, [{ by: 'dev', text: 'Hello.' }]);
    await queue.finish();
    expect([queue.done(), rig.conversation()]).toEqual([1, ['conch: **Dev**: Hello.']]);
  });

  test('a bot token that Discord refuses loses no post', async () => {
    rig = await sendingRig();
    rig.server.revokeToken();
    const queue = lane(rig, both);
    queue.start();
    await until(() => {
      rig.time.advance(500);
      return queue.waits.length > 3;
    }, 'refusals');
    await queue.stop();
    expect(queue.failed()).toBe(0);
  });

  test('row 27: ten minutes of 502 and 503 delay the queue and keep its order', async () => {
    rig = await sendingRig();
    rig.server.fail('/**', { kind: 'status', status: 502 }, null);
    const said = ['one', 'two', 'three'].map((text) => ({ by: 'dev', text }) as const);
    const queue = lane(rig, said);
    queue.start();
    const end = rig.time.now() + 600_000;
    while (rig.time.now() < end) {
      rig.time.advance(5_000);
      await new Promise((resolve) => {
        setTimeout(resolve, 2);
      });
    }
    expect(queue.done()).toBe(0);
    rig.server.heal();
    await queue.finish();
    expect(rig.conversation()).toEqual(['Dev: one', 'Dev: two', 'Dev: three']);
  });

  test.each(['user', 'global', 'shared'] as const)(
    'row 28: a %s rate limit delays posts and drops none',
    async (scope) => {
      rig = await sendingRig();
      await rig.outgoing.start();
      rig.server.fail(WEBHOOK_POST, { kind: 'rate-limit', retryAfterMs: 400, scope });
      const queue = lane(rig, [
        { by: 'dev', text: 'One.' },
        { by: 'dev', text: 'Two.' },
      ]);
      await queue.finish();
      expect(queue.waits[0]).toBeGreaterThanOrEqual(400);
      expect(rig.conversation()).toEqual(['Dev: One.', 'Dev: Two.']);
    },
  );

  test('a post to a server that cannot be reached fails as unreachable', async () => {
    rig = await sendingRig();
    await rig.server.close();
    await expect(rig.outgoing.post(rig.channel, post(null, 'Hello?'))).rejects.toMatchObject({ fault: 'unreachable' });
    rig = await sendingRig();
  });
});

describe('a post whose outcome is unknown', () => {
  test('is found among the messages of others', async () => {
    rig = await sendingRig();
    const first = await rig.outgoing.post(rig.channel, post(DEV, 'First.'));
    for (let n = 0; n < 150; n += 1) rig.server.write('ann', rig.server.channel, `chat ${n}`);
    const sent = post(DEV, 'Second.', { afterId: first });
    const id = await rig.outgoing.post(rig.channel, sent);
    expect(await rig.again().find(rig.channel, sent)).toBe(id);
    expect(await rig.again().find(rig.channel, { ...sent, text: 'Third.' })).toBeNull();
    expect(await rig.again().find(rig.channel, { ...sent, speaker: PM })).toBeNull();
  });

  test('is not confused with a message of a person or another webhook', async () => {
    rig = await sendingRig();
    rig.server.write('ann', rig.server.channel, 'Hello.');
    rig.server.webhookPost('Dev', rig.server.channel, 'Hello.');
    expect(await rig.outgoing.find(rig.channel, post(DEV, 'Hello.'))).toBeNull();
    expect(await rig.outgoing.find(rig.channel, post(null, 'Hello.'))).toBeNull();
  });

  test('is found when it was sent by the bot with the name in front', async () => {
    rig = await sendingRig({ settings: { webhooks: false } });
    const sent = post(DEV, 'Hello.');
    const id = await rig.outgoing.post(rig.channel, sent);
    expect(await rig.again().find(rig.channel, sent)).toBe(id);
  });

  test('is found when a link in it was written out because its label names another host', async () => {
    rig = await sendingRig();
    const sent = post(DEV, 'See [docs.example.com](https://example.com/docs).');
    const id = await rig.outgoing.post(rig.channel, sent);
    expect(rig.conversation()).toEqual(['Dev: See docs.example.com (<https://example.com/docs>).']);
    expect(await rig.again().find(rig.channel, sent)).toBe(id);
  });

  test('is found with or without the marks of a late and repeated post, also when it is a file', async () => {
    rig = await sendingRig();
    const late = '\n(said at 11:20 UTC, when this channel took no messages)';
    for (const text of ['Hello.', 'A long text. '.repeat(600)]) {
      for (const marks of [late, '\n(possible repeat)', `${late}\n(possible repeat)`]) {
        const sent = post(DEV, text);
        const marked = { ...sent, text: `${text}${marks}` };
        const id = await rig.outgoing.post(rig.channel, marked);
        expect(await rig.again().find(rig.channel, sent)).toBe(id);
        rig.server.remove(id);
        const plain = await rig.outgoing.post(rig.channel, sent);
        expect(await rig.again().find(rig.channel, marked)).toBe(plain);
        rig.server.remove(plain);
      }
    }
  });

  test('cannot be searched where the history is hidden', async () => {
    rig = await sendingRig();
    const sent = post(DEV, 'Hello.');
    await rig.outgoing.post(rig.channel, sent);
    rig.server.hideHistory(rig.server.channel);
    await expect(rig.outgoing.find(rig.channel, sent)).rejects.toMatchObject({ fault: 'refused' });
  });

  test('is not found in an empty channel', async () => {
    rig = await sendingRig();
    expect(await rig.outgoing.find(rig.channel, post(DEV, 'Hello.'))).toBeNull();
  });
});

describe('a message that a moderator deleted', () => {
  test('row 44: counts as delivered when it is posted again with its nonce', async () => {
    rig = await sendingRig();
    rig.server.fail(BOT_POST, { kind: 'reset-after' });
    const sent = post(null, 'An announcement.', { afterId: '7' });
    await expect(rig.outgoing.post(rig.channel, sent)).rejects.toMatchObject({ fault: 'unclear' });
    rig.server.remove(rig.server.read(rig.server.channel)[0]!.id);
    await expect(rig.outgoing.post(rig.channel, sent)).resolves.toBe('0');
    expect(rig.conversation()).toEqual([]);
  });

  test('row 44: stays deleted when it is edited', async () => {
    rig = await sendingRig();
    const id = await rig.outgoing.post(rig.channel, post(null, 'An announcement.'));
    await rig.outgoing.edit(rig.channel, id, 'An announcement. (×2)');
    expect(rig.conversation()).toEqual(['conch: An announcement. (×2)']);
    rig.server.remove(id);
    await rig.outgoing.edit(rig.channel, id, 'An announcement. (×3)');
    expect(rig.conversation()).toEqual([]);
  });
});

describe('texts of any length', () => {
  test.each(['', ' ', '\n\n\t'])('row 56: a blank text (%j) is not posted', async (text) => {
    rig = await sendingRig();
    await expect(rig.outgoing.post(rig.channel, post(DEV, text))).rejects.toMatchObject({ fault: 'refused' });
    expect(rig.requests('POST', /./)).toHaveLength(0);
  });

  test('row 56: a text of a million characters is posted as its beginning and a file, and is found again', async () => {
    rig = await sendingRig();
    const text = `${'A paragraph.\n\n```js\nlet a = 1;\n```\n\n'.repeat(30_000)}The end.`;
    const sent = post(DEV, text, { epoch: 7 });
    const id = await rig.outgoing.post(rig.channel, sent);
    const [shown] = rig.server.read(rig.server.channel);
    expect(shown?.attachments.map(({ name }) => name)).toEqual(['dev-7.md']);
    expect(shown?.attachments[0]?.text).toBe(text);
    expect(shown?.text.split('```').length).toSatisfy((marks: number) => marks % 2 === 1);
    expect(shown?.text).toContain('the whole text (1,');
    expect(await rig.again().find(rig.channel, sent)).toBe(id);
  });

  test('row 56: every text up to the limit fits into a message, under a name of 80 characters, by webhook and by the bot', async () => {
    rig = await sendingRig();
    const bare = await sendingRig({ server: rig.server, settings: { webhooks: false } });
    const long = { id: 'long', name: 'N'.repeat(80), avatar: '🧭' };
    const text = fc.oneof(
      fc.string({ minLength: 1, maxLength: TEXT_LIMIT, unit: 'grapheme', size: 'max' }),
      fc.constantFrom('x'.repeat(TEXT_LIMIT), '[a.bc](https://d.ef)'.repeat(95), '😀'.repeat(TEXT_LIMIT / 2)),
    );
    await fc.assert(
      fc.asyncProperty(text, async (drawn) => {
        const fits = drawn.slice(0, TEXT_LIMIT);
        fc.pre(fits.trim() !== '');
        await rig.outgoing.post(rig.channel, post(long, fits));
        await bare.outgoing.post(rig.channel, post(long, fits));
      }),
      { numRuns: 30 },
    );
    expect(rig.server.read(rig.server.channel).every((shown) => shown.text.length <= 2_000)).toBe(true);
    await bare.outgoing.stop();
  });

  test('a text above the limit is posted as its beginning where the bot may not attach files, and is found again', async () => {
    rig = await sendingRig({ settings: { webhooks: false } });
    rig.server.permit(rig.server.channel, 'AttachFiles', 'deny');
    const long = post(DEV, 'word '.repeat(2_000));
    const id = await rig.outgoing.post(rig.channel, long);
    const [shown] = rig.server.read(rig.server.channel);
    expect(shown?.text).toMatch(/^\*\*Dev\*\*: word word .*lacks the permission "Attach Files"\.$/s);
    expect(shown?.attachments).toEqual([]);
    expect(await rig.outgoing.find(rig.channel, long)).toBe(id);
  });

  test('a text under a long name is shown whole without a webhook, with the notes of a late and repeated post', async () => {
    rig = await sendingRig({ settings: { webhooks: false } });
    const late = '\n(said at 12:00 UTC, when this channel took no messages)\n(possible repeat)';
    const long = { id: 'long', name: 'N'.repeat(80), avatar: null };
    await rig.outgoing.post(rig.channel, post(long, `${'x'.repeat(TEXT_LIMIT)}${late}`));
    const [shown] = rig.server.read(rig.server.channel);
    expect(shown?.text.endsWith(`x${late}`)).toBe(true);
  });

  test('a text becomes a file only above the file limit', async () => {
    rig = await sendingRig();
    await rig.outgoing.post(rig.channel, post(DEV, 'x'.repeat(TEXT_LIMIT)));
    await rig.outgoing.post(rig.channel, post(DEV, 'x'.repeat(FILE_ABOVE + 1)));
    expect(rig.server.read(rig.server.channel).map(({ attachments }) => attachments.length)).toEqual([0, 1]);
  });
});

describe('a request that does not fit one message', () => {
  const code = Array.from({ length: 60 }, (_, line) => `+export const price${line} = ${line}; // of the table`);
  const end = 'Once runs exactly this, one time.\nWho decides: operators. Until 12:00 UTC; nobody’s silence is a yes.';
  const question = ['✋ dev waits for approval (1): Edit', '```diff', '@@ -0,0 +1,60 @@', ...code, '```', end].join(
    '\n',
  );

  test('is one message with its beginning, its last lines, and the whole text as a file', async () => {
    rig = await sendingRig();
    await rig.outgoing.post(rig.channel, post(null, question));
    const [shown, ...more] = rig.server.read(rig.server.channel);
    expect(more).toEqual([]);
    expect(shown?.text).toMatch(/^✋ dev waits for approval \(1\): Edit\n```diff\n@@/);
    expect(shown?.text).toMatch(
      /\n```\n\n📎 This is the beginning; the whole text \([\d,]+ characters\) is in the file\.\n/,
    );
    expect(shown?.text.endsWith(end)).toBe(true);
    expect(shown?.text.length).toBeLessThanOrEqual(TEXT_LIMIT);
    expect(shown?.attachments.map(({ name, text }) => [name, text])).toEqual([['question.md', question]]);
  });

  test('is replaced by its outcome as one message', async () => {
    rig = await sendingRig();
    const id = await rig.outgoing.post(rig.channel, post(null, question));
    await rig.outgoing.edit(rig.channel, id, '✅ ann allowed once what dev asked: Edit');
    expect(rig.server.read(rig.server.channel).map(({ text }) => text)).toEqual([
      '✅ ann allowed once what dev asked: Edit',
    ]);
  });

  test('leaves out its last lines when they do not fit', async () => {
    rig = await sendingRig();
    const long = question.replace(end, `${'Always: edit everything. '.repeat(80)}${end}`);
    await rig.outgoing.post(rig.channel, post(null, long));
    const [shown] = rig.server.read(rig.server.channel);
    expect(shown?.text.endsWith('is in the file.')).toBe(true);
    expect(shown?.attachments.map(({ text }) => text)).toEqual([long]);
  });
});

describe('a channel where the bot may not write', () => {
  test('T6 gets the delayed posts once the permission returns', async () => {
    rig = await sendingRig({ settings: { webhooks: false } });
    rig.server.fail(BOT_POST, { kind: 'status', status: 403, code: 50_013, message: 'Missing Permissions' }, null);
    const queue = lane(rig, [{ by: 'dev', text: 'Meanwhile.' }]);
    queue.start();
    await until(() => {
      rig.time.advance(500);
      return queue.waits.length > 6;
    }, 'refusals');
    expect(rig.conversation()).toEqual([]);
    rig.server.heal();
    rig.outgoing.reopened(rig.channel);
    await queue.finish();
    expect(rig.conversation()).toEqual([expect.stringMatching(/Meanwhile\.\n\(said at \d\d:\d\d UTC/)]);
  });

  test('gets no further post for ten minutes', async () => {
    rig = await sendingRig();
    rig.server.permit(rig.server.channel, 'SendMessages', 'deny');
    for (let n = 0; n < 3; n += 1) {
      await expect(rig.outgoing.post(rig.channel, post(null, 'Hello.'))).rejects.toMatchObject({ fault: 'refused' });
    }
    expect(rig.requests('POST', /messages$/)).toHaveLength(1);
    rig.time.advance(600_001);
    await expect(rig.outgoing.post(rig.channel, post(null, 'Hello.'))).rejects.toMatchObject({ fault: 'refused' });
    expect(rig.requests('POST', /messages$/)).toHaveLength(2);
  });
});
