import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { addressedIn, askedAgentIn, isCommandLine, mentionsIn } from '../../../src/turns/text/recognition.ts';
import { mustGrowLinearly } from '../../lib/growth.ts';

const AGENTS = [
  { id: 'pm', name: 'Paula Manager' },
  { id: 'dev', name: 'Dev Name' },
  { id: 'dev-ops', name: 'Ops (C++)' },
  { id: 'qa', name: 'Zoë' },
  { id: 'ist', name: 'İlker' },
  { id: 'jp', name: '開発' },
];
const inPerson = (text: string) => addressedIn(text, AGENTS);
const inAgent = (text: string) => mentionsIn(text, AGENTS);

describe("a person's text", () => {
  test.each([
    ['@dev please look', ['dev']],
    ['please look, @DEV!', ['dev']],
    ['(@qa) **@pm** @dev?', ['qa', 'pm', 'dev']],
    ['@qa @dev @QA', ['qa', 'dev']],
    ["@dev's test", ['dev']],
    ['@qa/@dev', ['qa', 'dev']],
    ['thanks...@dev', ['dev']],
    ['<@dev>', ['dev']],
  ])('addresses agents by "@" and id: %j', (text, agents) => {
    expect(inPerson(text)).toEqual(agents);
  });

  test.each([
    ['@Dev Name can you?', ['dev']],
    ['@paula manager and @zoë', ['pm', 'qa']],
    ['ask @Ops (C++) now', ['dev-ops']],
    ['@ZOE\u0308 look', ['qa']],
    ['@İLKER', ['ist']],
    ['＠dev', ['dev']],
  ])('addresses agents by "@" and name, in any case and composition: %j', (text, agents) => {
    expect(inPerson(text)).toEqual(agents);
  });

  test.each([
    ['dev: stop that', ['dev']],
    ['  Dev Name, are you there?', ['dev']],
    ['qa : look', ['qa']],
    ['dev, qa: please', ['dev', 'qa']],
    ['dev, qa is broken', ['dev']],
    ['dev: tell @pm', ['dev', 'pm']],
    ['qa:\nthis', ['qa']],
  ])('addresses agents whose id or name comes first: %j', (text, agents) => {
    expect(inPerson(text)).toEqual(agents);
  });

  test('addresses the agent with the longest matching name', () => {
    expect(inPerson('@dev-ops')).toEqual(['dev-ops']);
    expect(inPerson('dev-ops: go')).toEqual(['dev-ops']);
  });

  test('addresses an agent whose name is followed by a script without spaces', () => {
    expect(inPerson('@devさん、確認@qaお願い')).toEqual(['dev', 'qa']);
    expect(inPerson('@開発お願い')).toEqual(['jp']);
  });

  test.each([
    'devops and @developer',
    '@dev_2 @dev-2 @dev2 @dév',
    'mail me@dev or me@dev.example',
    'npm i @dev/cli, see dev@qa',
    '@dev.example.com',
    'https://chat.example/@dev',
    'ask dev: he knows',
    'dev is here',
    'dev:8080 is taken',
    'dev://x',
    '@\u200Bdev',
    '@ dev',
    '@@dev',
    '',
  ])('addresses nobody: %j', (text) => {
    expect(inPerson(text)).toEqual([]);
  });

  test.each([
    '`@dev`',
    '``a ` @dev``',
    'look: ```@dev```',
    '```\n@dev\n```',
    '~~~~\n~~~\n@dev',
    '> @dev said so',
    '  > dev: x',
    '`dev`: x',
  ])('addresses nobody in code and quotes: %j', (text) => {
    expect(inPerson(text)).toEqual([]);
  });

  test.each([
    '> a quote\n@dev look',
    '> a quote\n\ndev: look',
    '```\ncode\n```\n@dev',
    'a ` alone @dev',
    'one `\n\n@dev ` two',
    '`a` @dev `b`',
  ])('addresses an agent outside of code and quotes: %j', (text) => {
    expect(inPerson(text)).toEqual(['dev']);
  });

  test('addresses nobody when there are no agents, or none with a name', () => {
    expect(addressedIn('@dev', [])).toEqual([]);
    expect(addressedIn('@ : x', [{ id: 'dev', name: ' ' }])).toEqual([]);
  });

  test('addresses the agent with the id when another agent has it as its name', () => {
    expect(addressedIn('@dev', [AGENTS[1]!, { id: 'x', name: 'dev' }])).toEqual(['dev']);
  });
});

describe("an agent's text", () => {
  test('mentions only with "@"', () => {
    expect(inAgent('done, @pm please check')).toEqual(['pm']);
    expect(inAgent('dev: I did that. qa, look')).toEqual([]);
  });
});

describe('any text', () => {
  test('names known agents, each once', () => {
    const pieces = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('@', 'dev', 'Dev Name', ':', '`', '```\n', '\n'),
    );
    fc.assert(
      fc.property(fc.array(pieces, { size: 'max', maxLength: 30 }), (parts) => {
        const found = inPerson(parts.join(''));
        assert.equal(new Set(found).size, found.length);
        assert(found.every((id) => AGENTS.some((agent) => agent.id === id)));
        assert(inAgent(parts.join('')).every((id) => found.includes(id)));
      }),
    );
  });

  test.each(['@', ' @', '@dev', '@dev ', '` ', '`', '``` ', 'dev, ', ' ', '.', '@a.', 'http://', '\n', '~~~\n'])(
    'is read in time linear in its length, when it repeats %j',
    async (piece) => {
      const many = Array.from({ length: 200 }, (_, index) => ({
        id: `a${index}`,
        name: `${'n'.repeat(index % 50)} x`,
      }));
      await mustGrowLinearly((size) => {
        const text = piece.repeat(size / piece.length);
        return () => addressedIn(text, [...AGENTS, ...many]);
      }, 300_000);
    },
  );
});

describe('a command', () => {
  const known = ['floor', 'agent', 'stop'];

  test('is a known word after "/" or "!"', () => {
    expect(['/floor', '!floor skip', ' /Agent list\n'].filter((text) => !isCommandLine(text, known))).toEqual([]);
  });

  test('T20 is "stop" with any text after it', () => {
    const texts = [
      '!stop',
      '/STOP!!',
      '!stop now',
      '!stop!! please',
      '!stop\nyou are all wrong',
      '/stop, all of you\n\nnow',
    ];
    expect(texts.filter((text) => !isCommandLine(text, ['floor', 'stop']))).toEqual([]);
    expect(['!stopgap', '/stop-the-presses', 'stop'].filter((text) => isCommandLine(text, ['floor', 'stop']))).toEqual(
      [],
    );
  });

  test('is no other text', () => {
    const texts = ['!nice', '/floors', 'floor skip', '//floor', '/ floor', 'so /floor', '/floor\nskip', '!', ''];
    expect(texts.filter((text) => isCommandLine(text, known))).toEqual([]);
  });
});

describe('a text in which an agent asks or mentions another', () => {
  const agents = ['dev', 'qa', 'bob'].map((id) => ({ id, name: id }));

  test.each([
    ['Done. @qa, does it pass?', 'qa'],
    ['@bob, can you check the login?', 'bob'],
    ['What do you think, @dev?', 'dev'],
    ['**@qa, does it pass?**', 'qa'],
    ['Here it is.\n\n@qa: does “it” pass?', 'qa'],
    ['@qa, please try to break it.', null],
    ['@qa, does it pass? I will wait here.', null],
    ['Does it pass, @qa or @bob?', null],
    ['Does it pass?', null],
    ['`@qa does it pass?`', null],
    ['Is this right? @qa', null],
  ])('T15 %j asks %s', (text, asked) => {
    expect(askedAgentIn(text, agents)).toBe(asked);
  });

  test.each([
    ['Thanks @qa, nice work.', []],
    ['Well done, @qa! @dev, over to you.', ['dev']],
    ['Thank you, @bob. The rest is fine.', []],
    ['@qa found it, good catch', []],
    ['@qa, please try to break it.', ['qa']],
  ])('T15 %j mentions %j', (text, called) => {
    expect(mentionsIn(text, agents)).toEqual(called);
  });
});
