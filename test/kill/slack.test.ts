import { describe, expect, test } from 'vitest';
import { runSlackKills } from './slack-loop.ts';

const NOTHING = {
  lost: [],
  twice: [],
  disordered: [],
  pings: [],
  drafts: [],
  doubleHolders: [],
  doneUnseen: [],
  other: [],
};

describe('a program on Slack that is killed again and again', () => {
  test('loses no acknowledged message, says everything once and in order, and leaves no drafts', async () => {
    const { faults, messages, atAcknowledgement, atPosting } = await runSlackKills({ cycles: 3, seed: 5 });
    expect(faults).toEqual(NOTHING);
    expect([atAcknowledgement, atPosting]).toEqual([3, 3]);
    expect(messages).toBeGreaterThan(10);
  }, 600_000);
});
