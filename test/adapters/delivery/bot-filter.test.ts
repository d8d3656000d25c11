import { describe, expect, test } from 'vitest';
import { ignoreRule } from '../../../src/adapters/delivery/bot-filter.ts';

describe('who is heard in a channel', () => {
  test.each([
    ['person', 'off', [], null],
    ['bot', 'off', ['dev'], 'bots are not heard here'],
    ['webhook', 'off', ['dev'], 'webhooks are not heard here'],
    ['bot', 'mentions', [], 'bots are heard only when they mention an agent'],
    ['bot', 'mentions', ['dev'], null],
    ['webhook', 'all', [], null],
  ] as const)('a %s under "%s" that addresses %j: %j', (author, allowBots, addressed, rule) => {
    expect(ignoreRule(author, { allowBots }, addressed)).toBe(rule);
  });
});
