import { expect, test } from 'vitest';
import { chatError } from '../../../src/adapters/slack/client.ts';

const WHERE = { method: 'chat.postMessage', channel: 'slack:C1' };

test.each([new TypeError("Cannot read properties of null (reading 'ts')"), new RangeError('Invalid array length')])(
  'a program error is rethrown, not classed as an error of Slack: %s',
  (bug) => {
    expect(() => chatError(bug, WHERE)).toThrow(bug);
  },
);

test.each([
  [
    new TypeError('fetch failed', { cause: Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }) }),
    'unreachable',
  ],
  [new TypeError('terminated', { cause: Object.assign(new Error('closed'), { code: 'UND_ERR_SOCKET' }) }), 'unclear'],
  [new TypeError('fetch failed'), 'unclear'],
  [new Error('socket hang up'), 'unclear'],
] as const)('a network error is classed as unreachable or unclear: %s', (error, fault) => {
  expect(chatError(error, WHERE)).toMatchObject({ fault });
});
