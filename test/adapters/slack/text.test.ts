import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { escaped } from '../../../src/adapters/slack/content.ts';
import { groupsIn, plainText, usersIn } from '../../../src/adapters/slack/parse-message.ts';
import type { Lookups } from '../../../src/adapters/slack/parse-message.ts';
import { mustGrowLinearly } from '../../lib/growth.ts';

const nobody: Lookups = { user: () => null, isAgent: () => false, group: () => null, channel: () => null };
const known: Lookups = {
  user: (id) => (id === 'U1' ? 'Ann' : id === 'U7' ? 'dev' : null),
  isAgent: (mention) => mention === '@dev',
  group: (id) => (id === 'S1' ? 'dev' : null),
  channel: (id) => (id === 'C1' ? 'general' : null),
};

describe('a Slack text', () => {
  test.each([
    ['hello <@U1>', 'hello @Ann'],
    ['hello <@U2>', 'hello @U2'],
    ['hello <@U7>', 'hello the person dev'],
    ['hello <@U2|bob>', 'hello @bob'],
    ['<!subteam^S1> go', '@dev go'],
    ['<!subteam^S1|@developers> go', '@dev go'],
    ['<!subteam^S2|@writers> go', '@writers go'],
    ['in <#C1>, <#C2|random> and <#C3>', 'in #general, #random and #C3'],
    ['<!here> <!channel> <!everyone|everyone>', '@here @channel @everyone'],
    ['<!date^1392734382^{date}|18 February>', '18 February'],
    ['<https://x.example/a?b=1&amp;c=2>', 'https://x.example/a?b=1&c=2'],
    ['<https://x.example|the page>', 'the page (https://x.example)'],
    ['<http://x.example|x.example>', 'x.example'],
    ['<mailto:a@x.example|a@x.example>', 'a@x.example'],
    ['1 &lt; 2 &amp;&amp; 3 &gt; 2', '1 < 2 && 3 > 2'],
    ['&amp;lt;', '&lt;'],
    ['<', '<'],
    ['a <b', 'a <b'],
  ])('%s reads as %s', (text, plain) => {
    expect(plainText(text, known)).toBe(plain);
  });

  test('gives the mentioned users and groups', () => {
    expect(usersIn('<@U1> <@U2|bob> <@U1> <!subteam^S1> @U3')).toEqual(['U1', 'U2']);
    expect(groupsIn('<!subteam^S1|@dev> <!subteam^S2> <@U1>')).toEqual(['S1', 'S2']);
  });
});

describe('a text that Conch sends', () => {
  test('row 79: mentions nobody, whatever it contains', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('<', '!', '@', '>', '&', 'channel', 'here', 'U1', 'subteam^S1', ' ') }),
        (text) => {
          expect(escaped(text)).not.toMatch(/[<>]/);
        },
      ),
    );
  });

  test('keeps its meaning when it is escaped and read back', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(plainText(escaped(text), nobody)).toBe(text);
      }),
    );
  });

  test.each(['<', '<@', '&', '<!subteam^', '<a|', '<@U'])(
    'row 88: is read in time linear in its length, even if it is hostile: %j',
    async (piece) => {
      await mustGrowLinearly((size) => {
        const text = piece.repeat(size / piece.length);
        return () => [plainText(text, nobody), usersIn(text), groupsIn(text)];
      }, 100_000);
    },
  );
});
