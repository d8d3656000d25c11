import { describe, expect, test } from 'vitest';
import type { Shown } from '../adapters/discord/server-view.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import { runDiscordKillLoop } from './discord-loop.ts';
import { checkChannel, noFaults } from './discord-verify.ts';

describe('a program that is killed while it posts on Discord', () => {
  test('rows 1, 25 and 26: says everything once and in order, and loses no message of a person', async () => {
    const { faults, messages, kills } = await runDiscordKillLoop({ cycles: 3, seed: 9 });
    expect(faults).toEqual(noFaults());
    expect(messages).toBeGreaterThan(8);
    expect(kills.midPost + kills.uncertain).toBeGreaterThan(0);
  }, 300_000);
});

describe('the check of a Discord channel', () => {
  const PINGS = { everyone: false, users: [], roles: [] };
  const shown = (id: string, text: string, more: Partial<Shown> = {}): Shown => ({
    id,
    channel: '1',
    author: 'dev',
    authorId: '7',
    avatar: null,
    bot: true,
    webhook: true,
    text,
    edited: false,
    replyTo: null,
    type: 0,
    at: 0,
    pinned: false,
    thread: null,
    nonce: null,
    embeds: [],
    buttons: [],
    components: [],
    attachments: [],
    reactions: {},
    pings: PINGS,
    ...more,
  });
  const said = (text: string): Fact => ({ type: 'said', agent: 'dev', epoch: 1, line: 1, text, mentions: [] });
  const expected = {
    facts: [said('One\n\nTwo'), said('Three')],
    posts: [{ type: 'announce', platform_id: '9' }],
    agents: ['dev'],
    botUser: '5',
  };
  const own = { author: 'conch', authorId: '5', webhook: false };
  const announced = shown('9', '⏱️ dev turn timed out', own);
  const file = { name: 'dev-1.md', type: 'text/markdown', size: 8, text: 'One\n\nTwo' };

  test.each([
    ['in one message each', [shown('1', 'One\n\nTwo'), shown('2', 'Three'), announced]],
    ['in parts', [shown('1', 'One'), shown('2', 'Two'), announced, shown('3', 'Three')]],
    ['as a file', [shown('1', 'One …', { attachments: [file] }), shown('2', 'Three'), announced]],
    ['by the bot itself', [shown('1', '**dev**: One\n\nTwo', own), announced, shown('2', '**dev**: Three', own)]],
  ])('finds no fault in texts and announcements that are shown %s', (_how, seen) => {
    expect(checkChannel(seen, expected)).toEqual(noFaults());
  });

  const right = [shown('1', 'One\n\nTwo'), shown('2', 'Three'), announced];
  test.each([
    ['lost', 'a part is missing', [shown('1', 'One'), shown('2', 'Three'), announced]],
    ['lost', 'an announcement is missing', right.slice(0, 2)],
    ['twice', 'a part stands twice', [...right, shown('3', 'Two')]],
    ['twice', 'an announcement stands twice', [...right, shown('8', announced.text, own)]],
    ['disordered', 'the parts have changed places', [shown('1', 'Two'), shown('2', 'One'), ...right.slice(1)]],
    ['drafts', 'a draft is left', [shown('0', '▌'), ...right]],
    [
      'pings',
      'somebody was notified',
      [...right.slice(1), shown('1', 'One\n\nTwo', { pings: { ...PINGS, everyone: true } })],
    ],
  ] as const)('reports a fault of the kind "%s" when %s', (kind, _what, seen) => {
    expect(checkChannel(seen, expected)[kind].length).toBeGreaterThan(0);
  });
});
