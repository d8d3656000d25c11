import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { answerBody, body, bodyOf, endsWithCursor } from '../../../src/adapters/discord/content.ts';
import { plainText } from '../../../src/adapters/discord/parse-message.ts';
import type { Lookups } from '../../../src/adapters/discord/parse-message.ts';
import { mustGrowLinearly } from '../../lib/growth.ts';

const LOOKUPS: Lookups = {
  user: (id) => (id === '1' ? '@Ada' : null),
  role: (id) => (id === '2' ? 'dev' : null),
  channel: (id) => (id === '3' ? 'general' : null),
};

/** Discord's SUPPRESS_EMBEDS. */
const NO_PREVIEWS = 1 << 2;

describe('a Discord text', () => {
  test.each([
    ['<@1> and <@!1>', '@Ada and @Ada'],
    ['<@9>', '@somebody'],
    ['<@&2>: build it', '@dev: build it'],
    ['<@&9>', '@role'],
    ['see <#3> or <#9>', 'see #general or #channel'],
    ['<:smile:123> <a:wave:456>', ':smile: :wave:'],
    ['at <t:1700000000:R>', 'at 2023-11-14 22:13 UTC'],
    ['<t:99999999999999>', '<t:99999999999999>'],
    ['<t:9999999999999>', '<t:9999999999999>'],
    ['</floor skip:123>', '/floor skip'],
    ['<id:customize>', '#customize'],
    ['1 < 2, <b>, <@>, <#x>', '1 < 2, <b>, <@>, <#x>'],
  ])('%s is read as %s', (content, plain) => {
    expect(plainText(content, LOOKUPS)).toBe(plain);
  });

  test('keeps no mention, whatever its characters', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('<', '<@9', '<@!1', '<@&9', '<#9', ':', 't', '1', '>', '/') }),
        (content) => {
          expect(plainText(content, LOOKUPS)).not.toMatch(/<(?:@!?|@&|#)\d+>/);
        },
      ),
    );
  });

  test.each(['<', '</a ', '<:a', '<@1'])('row 88: is converted in linear time: %j', async (piece) => {
    await mustGrowLinearly((size) => {
      const content = piece.repeat(size / piece.length);
      return () => plainText(content, LOOKUPS);
    }, 100_000);
  });
});

test.each([
  '`@here` and `@everyone`',
  '```\n@channel\n```',
  'a@channel.io',
  'https://example.org/@here',
  'all of @everyone',
])('T37 %j is sent unchanged, and notifies nobody', (text) => {
  expect(body(text)).toEqual({ content: text, allowed_mentions: { parse: [] }, flags: NO_PREVIEWS });
});

test('pitfall 14: T53 links get no preview, neither in posts nor in edits', () => {
  const text = 'https://evil.example/?stolen=secret';
  const post = { kind: 'post', speaker: null, text, buttons: [], epoch: null, outboxId: null } as const;
  for (const kind of ['post', 'draft', 'card'] as const)
    expect((bodyOf({ ...post, kind }, true).flags ?? 0) & NO_PREVIEWS).toBe(NO_PREVIEWS);
  expect(answerBody(text, { ephemeral: true }).flags).toBe(NO_PREVIEWS | (1 << 6));
});

test('an answer that ends like a draft is not taken for one', () => {
  const { content } = answerBody('The cursor is ▌', { ephemeral: false });
  expect([endsWithCursor('The cursor is ▌'), endsWithCursor(content)]).toEqual([true, false]);
});
