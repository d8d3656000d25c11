import * as fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { answerBody, safeText } from '../../../src/adapters/discord/content.ts';
import { ALL_ON, heldView, post, sendingRig, until } from './rig.ts';
import type { SendingRig } from './rig.ts';
import { mustGrowLinearly } from '../../lib/growth.ts';

let rig: SendingRig | null = null;

afterEach(async () => {
  await rig?.outgoing.stop();
  await rig?.server.close();
  rig = null;
});

const HOSTILE = ['@everyone', '@here', '<@&1>', '<@1>', '<@!1>', '@​everyone', '[a.com](http://b.com)', '```', '▌'];

const hostile = fc
  .array(fc.oneof(fc.constantFrom(...HOSTILE), fc.string({ maxLength: 12 })), { minLength: 1, maxLength: 8 })
  .map((words) => words.join(' '))
  .filter((text) => text.trim() !== '');

/** Sends the text and the name in every kind of message: draft, post, file, announcement, edit and card. */
async function sayEverywhere(at: SendingRig, said: { readonly text: string; readonly name: string }): Promise<void> {
  const { outgoing, channel, time } = at;
  const speaker = { id: 'odd', name: said.name, avatar: null };
  const before = at.server.requests.length;
  const epoch = at.time.now();
  outgoing.draft(channel, speaker, epoch, said.text);
  time.advance(600);
  await until(() => at.server.requests.length > before, 'the draft');
  outgoing.draft(channel, speaker, epoch, `${said.text} more`);
  time.advance(1_600);
  await outgoing.post(channel, post(speaker, said.text, { epoch }));
  await outgoing.post(channel, post(speaker, `${said.text} `.repeat(8_000 / said.text.length + 1), { epoch }));
  const id = await outgoing.post(channel, post(null, said.text));
  await outgoing.edit(channel, id, `${said.text}!`);
  outgoing.card(channel, heldView(channel, { next: [said.name], held: [said.text] }));
  time.advance(10_000);
  await outgoing.tidy(channel);
}

function bodies(at: SendingRig): readonly { readonly content?: unknown; readonly allowed_mentions?: unknown }[] {
  return at.server.requests
    .filter(({ method, path }) => (method === 'POST' || method === 'PATCH') && !/(?:webhooks|roles|typing)$/.test(path))
    .map(({ body }) => body as object);
}

describe('hostile texts and names', () => {
  test.each([true, false])('row 79: ping nobody in any outgoing message (webhooks: %s)', async (webhooks) => {
    const at = await sendingRig({ settings: { webhooks, roles: false } });
    rig = at;
    await at.outgoing.start();
    await fc.assert(
      fc.asyncProperty(hostile, hostile, async (text, name) => sayEverywhere(at, { text, name })),
      { numRuns: 25 },
    );
    const sent = bodies(at);
    expect(sent.length).toBeGreaterThan(100);
    expect(sent.filter(({ content }) => typeof content !== 'string')).toEqual([]);
    expect(new Set(sent.map(({ allowed_mentions: allowed }) => JSON.stringify(allowed)))).toEqual(
      new Set(['{"parse":[]}']),
    );
    const pinged = at.server
      .read(at.server.channel)
      .filter(({ pings }) => pings.everyone || pings.users.length > 0 || pings.roles.length > 0);
    expect(pinged).toEqual([]);
  });

  test('row 79: an agent called @everyone can post under that name', async () => {
    rig = await sendingRig();
    await rig.outgoing.post(rig.channel, post({ id: 'odd', name: '@everyone', avatar: null }, 'Hello.'));
    expect(rig.conversation()).toEqual(['@everyone: Hello.']);
  });

  test('row 79: ping nobody in the answer to a command', () => {
    fc.assert(
      fc.property(hostile, fc.boolean(), (text, ephemeral) => {
        const { allowed_mentions: allowed } = answerBody(text, { ephemeral });
        expect(allowed).toEqual({ parse: [] });
      }),
    );
  });
});

describe('links', () => {
  test.each([
    ['[docs](https://evil.org)', '[docs](https://evil.org)'],
    ['[bank.com](https://bank.com/login)', '[bank.com](https://bank.com/login)'],
    ['[www.bank.com](https://bank.com)', '[www.bank.com](https://bank.com)'],
    ['[bank.com](https://evil.org)', 'bank.com (<https://evil.org>)'],
    ['[https://bank.com/a](https://evil.org/b)', 'https://bank.com/a (<https://evil.org/b>)'],
    ['[**bank**.com](<https://evil.org>)', '**bank**.com (<https://evil.org>)'],
    ['[ｂank.com](https://evil.org "bank.com")', 'ｂank.com (<https://evil.org> "bank.com")'],
    ['[[bank.com]](https://evil.org)', '[[bank.com]] (<https://evil.org>)'],
    ['[bank.com](https://bank.com@evil.org)', 'bank.com (<https://bank.com@evil.org>)'],
    ['[go to bank.com now](https://evil.org)', 'go to bank.com now (<https://evil.org>)'],
    ['[1] and [bank.com]( https://evil.org )', '[1] and [bank.com] (<https://evil.org> )'],
    ['Yes?\n```\n[bank.com](https://evil.org)\n```', 'Yes?\n```\n[bank.com](https://evil.org)\n```'],
    ['```\na\n```\n[bank.com](https://evil.org)', '```\na\n```\nbank.com (<https://evil.org>)'],
    ['~~~\n[bank.com](https://evil.org)\n~~~', '~~~\nbank.com (<https://evil.org>)\n~~~'],
    ['`\n```\n` [bank.com](https://evil.org)\n```', '`\n```\n` bank.com (<https://evil.org>)\n```'],
    ['```\na ``` [bank.com](https://evil.org)\n```', '```\na ``` bank.com (<https://evil.org>)\n```'],
  ])('stay when their label shows no other host, and are written out otherwise: %s', (text, safe) => {
    expect(safeText(text)).toBe(safe);
  });

  test('are written out in linear time', async () => {
    await mustGrowLinearly((size) => {
      const text = '[a.b]('.repeat(size / 6);
      return () => answerBody(text, { ephemeral: false });
    }, 120_000);
  });
});

test('ALL_ON switches every setting on', () => {
  expect(Object.values(ALL_ON)).not.toContain(false);
});
