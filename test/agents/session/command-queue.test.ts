import { expect, test } from 'vitest';
import { CommandQueue } from '../../../src/agents/session/supervisor.ts';
import { emptyFloor } from '../../../src/turns/floor/floor.ts';
import { StoreError } from '../../../src/engine/errors.ts';
import type { AgentCommand } from '../../../src/turns/floor/command.ts';
import { createTime } from '../time.ts';

const CHANNEL = 'test:one';

function end(epoch: number): AgentCommand {
  return { type: 'end', agent: 'pm', epoch, outcome: 'completed', signalled: true };
}

/** A queue whose floors reject the first `failures` commands. `given()`: the epochs applied, grouped by task. */
function queue(failures = 0, error = new Error('disk is full')) {
  const given: number[][] = [[]];
  const log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
  let left = failures;
  const time = createTime();
  const made = new CommandQueue({
    ...time,
    channel: CHANNEL,
    log,
    floors: {
      apply: async (channel, command) => {
        given.at(-1)?.push('epoch' in command ? command.epoch : 0);
        await Promise.resolve();
        if (given.at(-1)?.length !== 0) given.push([]);
        left -= 1;
        if (left >= 0) throw error;
        return { ok: true, state: emptyFloor(channel), facts: [], effects: [] };
      },
    },
  });
  return { made, time, given: () => given.filter((each) => each.length > 0) };
}

test('commands sent in one task are passed on together, in order, so that they share a commit', async () => {
  const { made, given } = queue();
  const first = [made.send(end(1)), made.send(end(2))];
  await Promise.all(first);
  await made.send(end(3));
  expect(given()).toEqual([[1, 2], [3]]);
});

test('commands that could not be written are retried together, in order', async () => {
  const { made, time, given } = queue(2);
  const sent = Promise.all([made.send(end(1)), made.send(end(2))]);
  await time.advance(1_000);
  expect((await sent).map((applied) => applied?.ok)).toEqual([true, true]);
  expect(given()).toEqual([
    [1, 2],
    [1, 2],
  ]);
});

test('commands are retried without a limit while the store cannot be written, and for an hour after other errors', async () => {
  const full = queue(500, new StoreError('full', 'The disk is full.'));
  const kept = full.made.send(end(1));
  await full.time.advance(5 * 3_600_000);
  expect((await kept)?.ok).toBe(true);
  const wrong = queue(500);
  const dropped = wrong.made.send(end(1));
  await wrong.time.advance(3_600_000);
  expect([await dropped, wrong.given().length]).toEqual([null, 121]);
});

test('commands that wait for a retry are tried once more when the queue is closed, before later commands', async () => {
  const { made, given } = queue(1);
  const sent = [made.send(end(1))];
  while (given().length === 0) await new Promise((resolve) => void setImmediate(resolve));
  sent.push(made.send(end(2)));
  await made.close();
  expect((await Promise.all(sent)).map((applied) => applied?.ok)).toEqual([true, true]);
  expect(given()).toEqual([[1], [1], [2]]);
});

test('commands that cannot be written when the queue is closed end without a result', async () => {
  const { made, given } = queue(9);
  const sent = made.send(end(1));
  while (given().length === 0) await new Promise((resolve) => void setImmediate(resolve));
  await made.close();
  expect(await sent).toBeNull();
  expect(given()).toEqual([[1], [1]]);
});
