import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../../src/lib/time.ts';
import { openFloorStore } from '../../../src/turns/floor-store.ts';
import { crewMachine } from '../../../src/work/crews/crew-binding.ts';
import { floorWithWork } from '../../../src/work/floor-with-work.ts';
import { until } from '../reviews/stage.ts';
import { CHANNEL, add, finished, git, mainTickets, opened, repository, stage, ticketText } from './stage.ts';
import type { Work } from './played.ts';

const REVIEW = { review: { by: 'pm', maxIterations: 3 } };
const one = () => repository({ 'c-1': ticketText('c-1') });

/** A worker and a reviewer, each played by its own function. */
const pair =
  (worker: Work, reviewer: Work): Work =>
  (folder, turn, step, agent, ...more) =>
    (agent === 'pm' ? reviewer : worker)(folder, turn, step, agent, ...more);

const addsOne: Work = (folder, _turn, step) => {
  add(folder, 'one.txt', `one ${step}`);
  return 'DONE';
};

describe('a crew whose work is reviewed', () => {
  test("deletes stored work of reviews in the ticket's earlier assignments, and of no other ticket", async () => {
    const repo = one();
    const stored = (): string => git(repo, 'for-each-ref', '--format=%(refname)', 'refs/conch/review');
    let other = '';
    const room = await stage(
      repo,
      pair(addsOne, () => {
        const [, thread = ''] = /^(.*)-[0-9a-f]{8}-1\//.exec(stored()) ?? [];
        other = `${thread}-0-deadbeef-1/0`;
        for (const ref of [other, `${thread}-deadbeef-1/0`]) git(repo, 'update-ref', ref, 'main');
        return 'PASS';
      }),
      REVIEW,
    );
    await room.command('/crew run');
    await finished(room, 1);
    await expect.poll(stored).toBe(other);
  });

  test('merges work that the reviewer passes', async () => {
    const seen: string[] = [];
    const room = await stage(
      one(),
      pair(addsOne, (_folder, turn) => {
        seen.push(turn.text);
        return 'Good.\nPASS';
      }),
      REVIEW,
    );
    await room.command('/crew run');
    await finished(room, 1);
    expect(seen).toHaveLength(1);
    expect(seen[0]).toContain('Title of c-1');
    expect(git(room.repo, 'show', 'main:one.txt')).toBe('one 1');
    expect(git(room.repo, 'for-each-ref', 'refs/conch/review')).toBe('');
    expect(git(room.repo, 'worktree', 'list').split('\n')).toHaveLength(2);
  });

  test('asks about a call of the reviewer for somebody when nobody is known to have started the crew', async () => {
    const path = join(mkdtempSync(join(tmpdir(), 'conch-crew-store-')), 'conch.db');
    const clock = systemClock();
    const earlier = openFloorStore({ path, machine: floorWithWork, clock, textLimit: () => 4_000, words: () => null });
    await earlier.host(crewMachine).apply('web', { type: 'RUN', by: 'Ann' }, clock.now());
    await earlier.close();
    const reviewer: Work = async (_folder, _turn, _step, _agent, _propose, gate) => {
      const input = { command: 'npm publish' };
      const call = { id: 'q1', tool: 'Bash', input, definition: null, repeatable: false, detail: '', caution: null };
      await gate?.step({ text: '', checkpoint: null });
      await gate?.ask(call, new AbortController().signal);
      return 'PASS';
    };
    const room = await stage(one(), pair(addsOne, reviewer), REVIEW, path);
    const asked = () => room.posts.find((post) => post.includes('pm wants to run Bash'));
    await until(() => asked() !== undefined);
    expect(asked()).toContain('⚠ somebody asked for it, who is not an operator');
  });

  test('merges the work that the worker corrected in the review', async () => {
    const turns: string[] = [];
    const room = await stage(
      one(),
      pair(
        (folder, turn, step) => {
          turns.push(turn.text);
          add(folder, 'one.txt', `one ${step}`);
          // The uncommitted file is committed before the merge.
          if (step === 2) writeFileSync(join(folder, 'two.txt'), 'two\n');
          return step === 1 ? 'DONE' : 'F1: fixed\nDONE';
        },
        (_folder, _turn, step) => (step === 1 ? '[major] one.txt:1 It has one line\nREVISE' : 'PASS'),
      ),
      REVIEW,
    );
    await room.command('/crew run');
    await finished(room, 1);
    expect(turns).toHaveLength(2);
    expect(turns[1]).toContain('F1 [major] one.txt:1 It has one line');
    expect(git(room.repo, 'show', 'main:one.txt')).toBe('one 1\none 2');
    expect(git(room.repo, 'show', 'main:two.txt')).toBe('two');
    expect(mainTickets(room.repo)).toEqual(['c-1']);
  });

  test('asks people when the review did not pass, and they merge it', async () => {
    const room = await stage(
      one(),
      pair(addsOne, () => 'It cannot be mended.\nFAIL'),
      REVIEW,
    );
    await room.command('/crew run');
    await until(() => room.app.crews.state('web')?.workers[0]?.waiting?.for === 'review');
    expect(await room.command('/crew ps')).toMatchObject({
      text: expect.stringContaining('The review did not pass the work. What next? failed: It cannot be mended.'),
    });
    expect(mainTickets(room.repo)).toEqual([]);
    expect(await room.command('/crew answer A merge')).toMatchObject({ ok: true });
    await finished(room, 1);
    expect(mainTickets(room.repo)).toEqual(['c-1']);
  });

  test('asks people about work whose worktree is gone before its review', async () => {
    const work = pair(addsOne, () => 'PASS');
    const room = await stage(one(), work, { ...REVIEW, test: 'case "$PWD" in */A-c-1) rm -rf "$PWD";; esac; true' });
    await room.command('/crew run');
    await until(() => room.app.crews.state('web')?.workers[0]?.waiting?.for === 'treeless');
    expect(await room.command('/crew answer A merge')).toMatchObject({ ok: true });
    await finished(room, 1);
    expect(mainTickets(room.repo)).toEqual(['c-1']);
  });

  test('reviews the work again after people let the worker continue', async () => {
    const verdicts = ['FAIL', 'PASS'];
    const room = await stage(
      one(),
      pair(addsOne, () => verdicts.shift() ?? 'PASS'),
      REVIEW,
    );
    await room.command('/crew run');
    await until(() => room.app.crews.state('web')?.workers[0]?.waiting?.for === 'review');
    expect(await room.command('/crew answer A continue')).toMatchObject({ ok: true });
    await finished(room, 1);
    expect(verdicts).toEqual([]);
    expect(git(room.repo, 'show', 'main:one.txt')).toBe('one 1\none 2');
  });

  test('asks people about weakened tests after the review, with the same question', async () => {
    const asked: string[] = [];
    const room = await stage(
      one(),
      pair(
        (folder) => {
          add(folder, 'package.json', '{"scripts":{"test":"true"}}');
          return 'DONE';
        },
        () => (asked.push('review'), 'PASS'),
      ),
      REVIEW,
    );
    await room.command('/crew run');
    await until(() => room.app.crews.state('web')?.workers[0]?.waiting?.for === 'weakened');
    expect(asked).toEqual(['review']);
    expect(await room.command('/crew answer A merge')).toMatchObject({ ok: true });
    await finished(room, 1);
  });

  test('shows people weakened tests also when the review did not pass', async () => {
    const weakens: Work = (folder) => {
      add(folder, 'package.json', '{"scripts":{"test":"true"}}');
      return 'DONE';
    };
    const room = await stage(
      one(),
      pair(weakens, () => 'FAIL'),
      REVIEW,
    );
    await room.command('/crew run');
    await until(() => room.app.crews.state('web')?.workers[0]?.waiting?.for === 'review');
    expect(room.app.crews.state('web')?.workers[0]?.waiting?.why).toContain('+{"scripts":{"test":"true"}}');
  });

  test('merges without the review when a person says so, and cancels the review', async () => {
    const hold = Promise.withResolvers<void>();
    const room = await stage(
      one(),
      pair(addsOne, async () => {
        await hold.promise;
        return 'FAIL';
      }),
      REVIEW,
    );
    await room.command('/crew run');
    await until(() => room.app.crews.state('web')?.workers[0]?.review?.id != null);
    const thread = room.app.crews.state('web')?.workers[0]?.ticket?.thread ?? '';
    await until(() => room.app.reviews.state(thread)?.review?.turn?.epoch != null);
    expect(await room.command('/crew merge A')).toMatchObject({ ok: true });
    await finished(room, 1);
    hold.resolve();
    expect(room.app.reviews.state(thread)?.review?.outcome?.kind).toBe('cancelled');
    expect(mainTickets(room.repo)).toEqual(['c-1']);
  });

  test('cancels the review of a worker that is removed, and the ticket is open again', async () => {
    const hold = Promise.withResolvers<void>();
    let held = 0;
    const room = await stage(
      one(),
      pair(addsOne, async () => {
        if ((held += 1) === 1) await hold.promise;
        return 'PASS';
      }),
      REVIEW,
    );
    await room.command('/crew run');
    await until(() => held === 1);
    expect(await room.command('/crew cleanup A')).toMatchObject({ ok: true });
    hold.resolve();
    await finished(room, 1);
    // The next worker continues from the commit of the removed worker.
    expect(room.app.crews.state('web')?.kept).toEqual([]);
    expect(git(room.repo, 'show', 'main:one.txt').split('\n')).toHaveLength(2);
    expect(held).toBe(2);
  });

  test('continues the review after a restart without another step of the worker', async () => {
    const path = join(mkdtempSync(join(tmpdir(), 'conch-crew-store-')), 'conch.db');
    const repo = one();
    const hold = Promise.withResolvers<void>();
    let asked = 0;
    const reviews = async () => {
      if ((asked += 1) === 1) await hold.promise;
      return 'PASS';
    };
    const first = await stage(repo, pair(addsOne, reviews), REVIEW, path);
    await first.command('/crew run');
    await until(() => asked === 1);
    hold.resolve();
    await first.stop();
    opened.length = 0;
    let steps = 0;
    const works: Work = () => ((steps += 1), 'DONE');
    const second = await stage(repo, pair(works, reviews), REVIEW, path);
    await finished(second, 1);
    expect(mainTickets(repo)).toEqual(['c-1']);
    expect(steps).toBe(0);
    expect(asked).toBeLessThanOrEqual(2);
  });

  test('belongs to its crew: people start no other review in the thread of a ticket', async () => {
    const hold = Promise.withResolvers<void>();
    let begun = false;
    const room = await stage(
      one(),
      async (folder, turn, step, agent, propose) => {
        begun = true;
        await hold.promise;
        return agent === 'pm' ? 'PASS' : addsOne(folder, turn, step, agent, propose);
      },
      REVIEW,
    );
    await room.command('/crew run');
    await until(() => begun);
    const thread = room.app.crews.state('web')?.workers[0]?.ticket?.thread ?? '';
    expect(await room.command('/review start web-a pm mend it', thread)).toMatchObject({
      ok: false,
      text: expect.stringContaining('belongs to a ticket'),
    });
    hold.resolve();
    await finished(room, 1);
  });

  test('tells of tests and reviews in the thread of the ticket, not in the channel', async () => {
    const room = await stage(
      one(),
      pair(addsOne, () => 'PASS'),
      REVIEW,
    );
    await room.command('/crew run');
    await finished(room, 1);
    const inChannel = room.posts.filter((post) => post.startsWith(`${CHANNEL} `));
    expect(inChannel.filter((post) => /Tests are|review/.test(post))).toEqual([]);
    expect(room.posts.filter((post) => post.includes('The review of c-1 passed'))).not.toEqual([]);
  });
});
