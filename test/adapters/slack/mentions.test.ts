import { strict as assert } from 'node:assert';
import { describe, expect, test } from 'vitest';
import { identityOf, inertMarkdown, withPrefix, wordingOf } from '../../../src/adapters/slack/content.ts';
import { clip } from '../../../src/adapters/slack/content.ts';
import { mustGrowLinearly } from '../../lib/growth.ts';
import { DEV, holding, said, speaking, viewOf } from './speaking.ts';
import { ALL_SCOPES } from './server.ts';

import * as fc from 'fast-check';

const HOSTILE = [
  '<!channel>',
  '<!here>',
  '<!everyone>',
  '<!here|x>',
  '<@U0ANN>',
  '<@W0ANN|ann>',
  '<!subteam^S0DEVS>',
  '<#C0GENERAL>',
  '@channel',
  '@here',
  '@everyone',
  '@HERE',
  '<',
  '>',
  '!',
  '@',
  '|',
  '&lt;!here&gt;',
  '&#60;!here>',
  '<<!here>>',

  '`',
  '``',
  '```',
  '\n```\n',
  '~~~\n',
  '\n\n',
  '\n> ',
  '[',
  '](',
  ')',
  ' ',
  'x',
  '\\',
  '\u2060',
  '<!',
  'here>',
  '<@',
  'U0ANN>',

  '[https://good.example](https://evil.example)',
  '<https://evil.example|https://good.example>',
  '<!date^1^{date}|x>',
];

const hostileText = fc
  .array(fc.constantFrom(...HOSTILE), { minLength: 1, maxLength: 12 })
  .map((parts) => parts.join(''));
/** A text of only white space is neither shown as a draft nor posted. */
const sayable = hostileText.filter((text) => text.trim() !== '');

/** Returns every text of a request, at any depth. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (Array.isArray(value)) return value.flatMap(textsIn);
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

/**
 * Matches a mention in Slack's markup, also in code. `EVERYBODY` matches plain @channel, @here and @everyone, which
 * mention only outside of code.
 */
const TOKEN = /<(?:!(?:channel|here|everyone|group|subteam\^)|@[UW]|#[A-Z\d])/iu;
const EVERYBODY = /(?<![\p{L}\p{N}])@(?:channel|here|everyone)\b/iu;

function isActive(text: string): boolean {
  return TOKEN.test(text) || (!/[`~]/.test(text) && EVERYBODY.test(text));
}

/** Slack returns these fields to the app only; people never see them. */
const HIDDEN = new Set(['metadata', 'value', 'action_id', 'outbox_id']);

function visible(args: Readonly<Record<string, unknown>>): string[] {
  return textsIn(JSON.parse(JSON.stringify(args, (key, value: unknown) => (HIDDEN.has(key) ? undefined : value))));
}

describe('everything that Conch sends to Slack', () => {
  test.each([
    ['under the names of agents', ALL_SCOPES],
    ['under the name of the app', ALL_SCOPES.filter((scope) => scope !== 'chat:write.customize')],
  ])('row 79: mentions nobody, whatever an agent writes or is called, %s', async (_how, botScopes) => {
    const world = await speaking({ server: { botScopes } });
    const { outgoing, slack, channel } = world;
    const root = slack.write(slack.ids.ann, slack.ids.channel, 'a thread');
    const thread = `${channel}/${root}`;
    let epoch = 0;
    await fc.assert(
      fc.asyncProperty(sayable, hostileText, async (text, name) => {
        epoch += 1;
        const speaker = { id: 'dev', name, avatar: null };
        outgoing.draft(thread, speaker, epoch, text);
        await world.until(() => world.texts(slack.ids.channel).length > 0 && drafted(world.calls, epoch));
        await world.over(outgoing.post(thread, said(text, { speaker, epoch })));
        const id = await world.over(outgoing.post(channel, said(text, { speaker: null, epoch: null })));
        await world.over(outgoing.edit(channel, id, text));
        slack.fail('chat.postMessage', { kind: 'error', error: 'invalid_blocks' });
        await world.over(outgoing.post(channel, said(text, { speaker, epoch: null })));
      }),
      { numRuns: 40 },
    );
    assertNobodyIsMentioned(world);
  });

  test("row 79: mentions nobody in cards and status lines, whatever the agents' names are", async () => {
    const names = ['<!channel>', '@here', '<@U0ANN>', '&lt;!here&gt;', 'a <!subteam^S0DEVS> b'];
    for (const name of names) {
      const world = await speaking();
      const { outgoing, slack, channel } = world;
      const root = slack.write(slack.ids.ann, slack.ids.channel, 'a thread');
      const floor = `${channel}/${root}`;
      outgoing.card(floor, viewOf(floor, { holder: holding(name), next: [name] }));
      await world.until(() => slack.world.statuses.size === 1 && slack.read(slack.ids.channel, root).length === 2);
      assertNobodyIsMentioned(world);
    }
  });

  test('row 79: the check of this test finds a mention', () => {
    for (const text of ['<!channel>', '<@U0ANN>', 'x @here y', '<!subteam^S0DEVS>']) {
      expect(visible({ blocks: [{ text: { text } }] }).some(isActive)).toBe(true);
    }
  });
});

describe('Markdown converted for Slack', () => {
  test.each([
    ['**bold** and `code`', '**bold** and `code`'],
    ['a < b && c > d', 'a &lt; b && c > d'],
    ['`a < b`, `Array<string>` and `<div>`', '`a < b`, `Array<string>` and `<div>`'],
    ['```html\n<!DOCTYPE html>\n<a href="x">\n```', '```html\n<!DOCTYPE html>\n<a href="x">\n```'],
    ['> a quote', '> a quote'],
    ['see <https://example.org/?a=1&b=2>', 'see https://example.org/?a=1&b=2'],
    ['[the docs](https://example.org/a_(b)?x=1&y=2)', '[the docs](https://example.org/a_(b)?x=1&y=2)'],
    ['T37 mail ann@here.example or a@channel.io', 'T37 mail ann@here.example or a@channel.io'],
    ['T37 `List<@NonNull String>`', 'T37 `List<@NonNull String>`'],
    ['T37 `@here`, ``a ` @channel`` and `ping @everyone`', 'T37 `@here`, ``a ` @channel`` and `ping @everyone`'],
    ['T37\n```sh\nnotify @here @channel\n```\n', 'T37\n```sh\nnotify @here @channel\n```\n'],
    [
      'T37 https://example.org/@here/1, or (https://x.example/a@channel)',
      'T37 https://example.org/@here/1, or (https://x.example/a@channel)',
    ],
    ['T37 [the page](https://example.org/@channel?to=@here)', 'T37 [the page](https://example.org/@channel?to=@here)'],
    ['T37 <https://example.org/@here>', 'T37 https://example.org/@here'],
    [
      'T37 `code` and @here, https://example.org/x @here',
      'T37 `code` and @\u2060here, https://example.org/x @\u2060here',
    ],
    ['write (@channel)', 'write (@\u2060channel)'],
  ])('reads the same: %s', (text, shown) => {
    expect(inertMarkdown(text)).toBe(shown);
  });

  test.each([
    ['[https://good.example](https://evil.example)', 'https://good.example (https://evil.example)'],
    ['[www.good.example/login](https://evil.example/x)', 'www.good.example/login (https://evil.example/x)'],
    ['[`good.example`](https://evil.example)', '`good.example` (https://evil.example)'],
    ['[**good.example**](<https://evil.example>)', '**good.example** (https://evil.example)'],
    ['[[good.example]](https://evil.example/(a))', '[good.example] (https://evil.example/(a))'],
    ['[gооd.example](https://good.example)', 'gооd.example (https://good.example)'],
    ['[good.example](https://good.example@evil.example/)', 'good.example (https://good.example@evil.example/)'],
    ['[good.example](https://www.good.example/x)', '[good.example](https://www.good.example/x)'],
    ['[Read more.](https://example.org)', '[Read more.](https://example.org)'],
  ])('shows the address of a link whose text looks like another address: %s', (text, shown) => {
    expect(inertMarkdown(text)).toBe(shown);
  });

  test.each([true, false])(
    'T37 keeps code as it was written in the plain text that notifications show, with blocks: %s',
    (hasBlocks) => {
      const text = 'see `@here`:\n```\n@channel\n```';
      const options = { isCustomized: true, hasBlocks, isThread: false };
      const content = { kind: 'post', speaker: DEV, text, buttons: [], epoch: 1, outboxId: null } as const;
      expect(wordingOf(content, options).text).toBe(text);
    },
  );

  test('row 79: holds no mention markup of Slack in any text', () => {
    fc.assert(
      fc.property(fc.oneof(hostileText, fc.string({ unit: 'binary', maxLength: 200 })), (text) => {
        const shown = inertMarkdown(text);
        assert(!isActive(shown), shown);
        assert.doesNotMatch(shown, /<https?:[^>\n]*\|/);
      }),
      { numRuns: 3_000 },
    );
  });

  test('keeps every letter of a text without links and mentions', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('a', 'b', '<', '>', '&', '`', '~', '*', '_', ' ', '\n'), maxLength: 60 }),
        (text) => {
          assert.equal(inertMarkdown(text).replaceAll('&lt;', '<').replaceAll('\u2060', ''), text);
        },
      ),
      { numRuns: 3_000 },
    );
  });

  test.each(['[', '[a](', '`', '`a``b```', '<https://x', '@', '[[a]', '](', '(', '[x](https://y.example('])(
    'row 88: takes time linear in the length of a hostile text: %j',
    async (unit) => {
      await mustGrowLinearly((size) => {
        const text = unit.repeat(size / unit.length);
        return () => inertMarkdown(text);
      }, 20_000);
    },
  );
});

describe("an agent's name", () => {
  test('row 79: mentions nobody and is never empty', () => {
    fc.assert(
      fc.property(hostileText, (name) => {
        const { username } = identityOf({ ...DEV, name });
        assert(!isActive(username), username);
        assert(!isActive(inertMarkdown(withPrefix({ ...DEV, name }, 'hello'))), name);
        assert.ok(username.length > 0 && username.length <= 80);
      }),
    );
  });

  test("is within Slack's 80 characters, with a broken mention and a picture in front", () => {
    const name = `@here ${'x'.repeat(74)}`;
    for (const avatar of [null, '🫠']) {
      const { username } = identityOf({ ...DEV, name, avatar });
      expect(username.length).toBeLessThanOrEqual(80);
      expect(username).toContain('@\u2060here xxx');
    }
  });
});

describe('a cut text', () => {
  test('is cut neither inside a character nor inside an entity', () => {
    expect(clip('abc&lt;def', 6)).toBe('abc…');
    expect(clip('ab😀cd', 4)).toBe('ab…');
    expect(clip('abc', 3)).toBe('abc');
  });
});

function drafted(
  calls: (method: string) => readonly { readonly args: Readonly<Record<string, unknown>> }[],
  epoch: number,
) {
  return calls('chat.postMessage').some(({ args }) =>
    JSON.stringify(args['metadata'] ?? null).includes(`"epoch":${epoch}}`),
  );
}

function assertNobodyIsMentioned({ slack }: Awaited<ReturnType<typeof speaking>>): void {
  const writing = slack.requests.filter(({ method }) => /^chat\.|setStatus$/.test(method));
  assert.ok(writing.length > 0);
  for (const { args } of writing) {
    for (const text of visible(args)) assert(!isActive(text), text);
    assert.ok(args['link_names'] !== 'true' && args['parse'] !== 'full');
  }
  const channel = slack.world.channels.get(slack.ids.channel);
  for (const message of channel?.messages.values() ?? []) assert.deepEqual([...message.pings], []);
}
