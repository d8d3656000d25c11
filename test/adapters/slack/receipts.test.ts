import { describe, expect, test } from 'vitest';
import { RECEIPTS } from '../../../src/turns/floor/react.ts';
import type { Receipt } from '../../../src/turns/floor/react.ts';
import { emojiName } from '../../../src/adapters/slack/content.ts';
import { deliver, speaking } from './speaking.ts';

describe('a message of a person', () => {
  test('shows only the newest receipt', async () => {
    const { outgoing, channel, slack } = await speaking();
    const ts = slack.write(slack.ids.ann, slack.ids.channel, 'hello');
    const message = `${slack.ids.channel}/${ts}`;
    await outgoing.receipt(channel, message, 'held');
    expect(slack.read(slack.ids.channel)[0]?.reactions).toEqual({ eyes: [slack.ids.botUser] });
    await outgoing.receipt(channel, message, 'done');
    expect(slack.read(slack.ids.channel)[0]?.reactions).toEqual({ white_check_mark: [slack.ids.botUser] });
  });

  test("shows only one receipt after a restart, and keeps people's reactions", async () => {
    const { outgoing, again, channel, slack } = await speaking({ server: { now: () => 900_000 } });
    const ts = slack.write(slack.ids.ann, slack.ids.channel, 'hello');
    const message = `${slack.ids.channel}/${ts}`;
    await outgoing.receipt(channel, message, 'held');
    slack.react(slack.ids.bob, slack.ids.channel, ts, 'zap');
    await again().receipt(channel, message, 'done');
    expect(slack.read(slack.ids.channel)[0]?.reactions).toEqual({
      zap: [slack.ids.bob],
      white_check_mark: [slack.ids.botUser],
    });
  });

  test.each(Object.keys(RECEIPTS) as Receipt[])(
    'can carry the receipt %s under a name that Slack knows',
    async (receipt) => {
      const { outgoing, channel, slack } = await speaking();
      const ts = slack.write(slack.ids.ann, slack.ids.channel, 'hello');
      await outgoing.receipt(channel, `${slack.ids.channel}/${ts}`, receipt);
      expect(Object.keys(slack.read(slack.ids.channel)[0]?.reactions ?? {})).toEqual([emojiName(RECEIPTS[receipt])]);
    },
  );

  test('shows its receipt once when the answer is lost', async () => {
    const world = await speaking();
    const { channel, slack } = world;
    const ts = slack.write(slack.ids.ann, slack.ids.channel, 'hello');
    slack.fail('reactions.add', { kind: 'reset-after' });
    const effect = { type: 'receipt', message: `${slack.ids.channel}/${ts}`, receipt: 'done' } as const;
    const settlements = await deliver(world, { channel, lane: 'receipts', effect });
    expect(settlements.at(-1)).toMatchObject({ state: 'confirmed' });
    expect(slack.read(slack.ids.channel)[0]?.reactions).toEqual({ white_check_mark: [slack.ids.botUser] });
  });

  test('gets no receipt and no error when it was deleted', async () => {
    const { outgoing, channel, slack } = await speaking();
    await expect(outgoing.receipt(channel, `${slack.ids.channel}/1.000000`, 'done')).resolves.toBeUndefined();
  });

  test('gets no receipt in an archived channel, without a retry', async () => {
    const { outgoing, channel, slack } = await speaking();
    const ts = slack.write(slack.ids.ann, slack.ids.channel, 'hello');
    slack.archive(slack.ids.channel);
    const receipt = outgoing.receipt(channel, `${slack.ids.channel}/${ts}`, 'done');
    await expect(receipt).rejects.toMatchObject({ fault: 'refused' });
  });
});
