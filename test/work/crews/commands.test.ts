import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { lockFile } from '../../../src/engine/lock.ts';
import { Threads } from '../../../src/runtime/thread-registry.ts';
import { until } from '../reviews/stage.ts';
import {
  CHANNEL,
  add,
  finished,
  git,
  mainTickets,
  opened,
  playedBy,
  repository,
  stage,
  stageOf,
  ticketText,
} from './stage.ts';
import type { Work } from './played.ts';

type Room = Awaited<ReturnType<typeof stage>>;

const one = () => repository({ 'c-1': ticketText('c-1') });

/** A room whose only worker is in a step until `release` is called. */
async function held(crew: object = {}, answer = 'DONE') {
  const hold = Promise.withResolvers<void>();
  const steps: string[] = [];
  const room = await stage(
    one(),
    async (folder, turn) => {
      steps.push(turn.text);
      if (steps.length === 1) await hold.promise;
      add(folder, 'one.txt', `one ${steps.length}`);
      return answer;
    },
    crew,
  );
  await room.command('/crew run');
  await until(() => steps.length === 1);
  return { room, steps, release: hold.resolve, worker: () => room.app.crews.state('web')?.workers[0] };
}

describe('/crew stop', () => {
  test('lets the step under way end', async () => {
    const { room, release, worker } = await held({}, 'One step.');
    expect(await room.command('/crew stop')).toMatchObject({ ok: true });
    expect(worker()?.step?.queued).toBeUndefined();
    release();
    await until(() => worker()?.step?.queued === true);
    expect(worker()?.stepCount).toBe(1);
  });

  test.each(['now', '--now'])('with "%s" cuts off the step, and /crew run repeats the step', async (how) => {
    const { room, steps, release, worker } = await held();
    expect(await room.command(`/crew stop ${how}`)).toMatchObject({ ok: true });
    await until(() => worker()?.step?.queued === true);
    expect(worker()).toMatchObject({ stepCount: 0, errors: 0, status: 'working' });
    release();
    await room.command('/crew run');
    await finished(room, 1);
    expect(steps).toHaveLength(2);
    expect(steps[1]).toContain('You are worker A');
  });

  test('with another word changes nothing', async () => {
    const { room, release } = await held();
    expect(await room.command('/crew stop later')).toMatchObject({ ok: false });
    expect(room.app.crews.state('web')?.running).toBe(true);
    release();
    await finished(room, 1);
  });
});

test('/crew spawn --touches adds workers that take only tickets whose files overlap', async () => {
  const touching = (id: string, glob: string) =>
    ticketText(id).replace('priority: 2', `priority: 2\ntouches: [${glob}]`);
  const by: Record<string, string> = {};
  const room = await stage(
    repository({ 'c-1': touching('c-1', 'src/**'), 'c-2': touching('c-2', 'docs/**') }),
    (folder, { channel }, _step, agent) => {
      by[channel.slice(-3)] = agent;
      add(folder, `${channel.slice(-3)}.txt`, 'x');
      return 'DONE';
    },
    { workers: 1 },
  );
  expect(await room.command('/crew spawn Docs --touches docs/*.md,notes/**')).toMatchObject({ text: 'Added Docs.' });
  expect(await room.command('/crew spawn 2 3')).toMatchObject({ ok: false });
  await room.command('/crew run');
  await finished(room, 2);
  expect(by).toEqual({ 'c-1': 'web-a', 'c-2': 'web-docs' });
});

test('answers redact secrets in the output of tests, in stored work and in titles', async () => {
  const secret = 'xoxb-123456789012-abcdefghijkl';
  const room = await stage(
    repository({ 'c-1': ticketText('c-1').replace('Title', secret) }),
    (folder) => {
      if (!existsSync(join(folder, 'broken'))) add(folder, 'broken', secret);
      return 'DONE';
    },
    { test: 'cat broken 2> /dev/null && exit 1; true', maxSteps: 1 },
  );
  await room.command('/crew run');
  await until(() => room.app.crews.state('web')?.workers[0]?.waiting?.for === 'red');
  const [logs, why] = [await room.command('/crew logs A'), await room.command('/crew peek A')];
  for (const { text } of [logs, why]) expect(text).toContain('[secret]');
  writeFileSync(join(room.repo, 'agents/A-c-1/half.txt'), `${secret}\n`);
  await room.command('/crew cleanup A');
  await until(() => room.app.crews.state('web')?.kept.length === 1);
  const shown = await room.command(`/crew kept show ${room.app.crews.state('web')?.kept[0]?.ref}`);
  expect(shown.text).toContain('+[secret]');
  expect(JSON.stringify([logs, why, shown, room.posts])).not.toContain(secret);
});

test('/crew kept apply puts stored work into the worktree of a worker', async () => {
  const hold = Promise.withResolvers<void>();
  let steps = 0;
  const room = await stage(one(), async (folder) => {
    if ((steps += 1) === 1) {
      writeFileSync(join(folder, 'half.txt'), 'half\n');
      return 'One step.';
    }
    await hold.promise;
    add(folder, 'one.txt', 'one');
    return 'DONE';
  });
  await room.command('/crew run');
  await until(() => steps === 2);
  await room.command('/crew kill A');
  await until(() => steps === 3);
  const ref = room.app.crews.state('web')?.kept[0]?.ref;
  expect(await room.command(`/crew kept apply ${ref}`)).toMatchObject({ ok: false });
  expect(await room.command(`/crew kept apply ${ref} B`)).toMatchObject({ ok: false });
  expect(await room.command('/crew kept apply refs/conch/kept/x/1 A')).toMatchObject({ ok: false });
  expect(await room.command(`/crew kept apply ${ref} A`)).toMatchObject({ ok: true });
  expect(readFileSync(join(room.repo, 'agents/A-c-1/half.txt'), 'utf8')).toBe('half\n');
  expect(await room.command(`/crew kept apply ${ref} A`)).toMatchObject({
    text: expect.stringContaining('does not fit'),
  });
  hold.resolve();
  await finished(room, 1);
  expect(git(room.repo, 'show', 'main:half.txt')).toBe('half');
});

test('/crew dashboard shows tickets by state, steps, tokens, tests, merges, and each worker’s last commit', async () => {
  const hold = Promise.withResolvers<void>();
  let steps = 0;
  const tickets = {
    'c-1': ticketText('c-1'),
    'c-2': ticketText('c-2', { deps: ['c-1'] }),
    'c-3': ticketText('c-3', { deps: ['x'] }),
  };
  const room = await stage(repository(tickets), async (folder, { channel }) => {
    const isFirst = (steps += 1) === 1;
    if (isFirst) add(folder, 'one.txt', 'a helper');
    else await hold.promise;
    if (channel.includes('c-2')) add(folder, 'two.txt', 'two');
    return isFirst ? 'One step.' : 'DONE';
  });
  await room.command('/crew run');
  await until(() => steps === 2);
  const { text } = await room.command('/crew dashboard');
  expect(text).toContain('● A working · c-1 Title of c-1 · step 2 of 20 · 0 tokens');
  expect(text).toContain('"Add a helper" · 1 file changed');
  expect(text).toContain(
    'Tickets: 0 ready, 1 waiting for others, 1 in work, 1 cannot start, 0 merged, 0 closed without a change',
  );
  expect(text).toContain('2 steps, 0 tokens, $0.00');
  hold.resolve();
  await finished(room, 2);
  const after = (await room.command('/crew dashboard')).text;
  expect(after).toContain('2 merged');
  expect(after).toContain('Tests of work: 2 green, 0 red, 0 flaky. Merges begun and not made: 0. Conflicts: 0');
});

describe('a crew that is changed in turnConfig.json while Conch runs', () => {
  test('goes on with its workers under the new settings', async () => {
    const { room, release, worker } = await held({}, 'One step.');
    await room.reload({ maxSteps: 7, patience: 50, workers: 2 });
    await until(() => room.app.crews.state('web')?.settings?.maxSteps === 7);
    release();
    await until(() => (worker()?.stepCount ?? 0) > 1);
    expect(room.app.crews.state('web')?.workers.map(({ name }) => name)).toEqual(['A', 'B']);
    expect(await room.command('/crew cleanup A')).toMatchObject({ ok: true });
    expect(room.broken).toEqual([]);
  });

  /** Starts two crews, "web" and "shop". The tests of main in "web" run until `end` is called. */
  async function testing() {
    const folder = mkdtempSync(join(tmpdir(), 'conch-crew-job-'));
    const [begun, ended] = [join(folder, 'begun'), join(folder, 'ended')];
    const backend = { kind: 'command', command: 'unused' };
    const shop = { id: 'shop', repo: repository({}), channel: 'console:shop', backend, workers: 1 };
    const room = await stageOf({
      repo: one(),
      crew: { test: `touch ${begun}; while [ ! -e ${ended} ]; do sleep 0.05; done` },
      others: [shop],
      config: { channels: [CHANNEL, 'console:shop'].map((id) => ({ id, agents: ['pm'] })) },
      backends: playedBy(() => 'DONE'),
    });
    await room.command('/crew run');
    await until(() => existsSync(begun));
    const steps = (crew: string) => room.app.crews.state(crew)?.settings?.maxSteps;
    return { room, shop, steps, end: () => writeFileSync(ended, '') };
  }

  test('does not wait for the jobs of other changed crews', async () => {
    const { room, shop, steps, end } = await testing();
    for (const maxSteps of [7, 8]) {
      await room.reload({ maxSteps: 9 }, [{ ...shop, maxSteps }]);
      await until(() => steps('shop') === maxSteps);
    }
    expect(steps('web')).toBe(20);
    end();
    await until(() => steps('web') === 9);
  });

  test('takes the repository of another crew when that one has left it', async () => {
    const { room, shop, steps, end } = await testing();
    await room.reload({ repo: '/nowhere' }, [{ ...shop, repo: room.repo, maxSteps: 7 }]);
    const hasLeft = (): boolean => {
      const lock = lockFile(join(shop.repo, '.git/conch.lock'));
      lock?.release();
      return lock !== null;
    };
    await until(hasLeft);
    end();
    await until(() => steps('shop') === 7);
    expect(await room.command('/crew ps', shop.channel)).toMatchObject({ ok: true });
  });

  test('moves to another repository, whose tickets it takes', async () => {
    const room = await stage(repository({ 'a-1': ticketText('a-1') }), (folder) => {
      add(folder, 'one.txt', 'one');
      return 'DONE';
    });
    await room.command('/crew run');
    await finished(room, 1);
    const other = repository({ 'b-1': ticketText('b-1') });
    await room.reload({ repo: other });
    await finished(room, 2);
    expect(mainTickets(other)).toEqual(['b-1']);
  });

  test('that cannot be opened says so, and is opened when the configuration is corrected', async () => {
    const { room, release } = await held();
    release();
    await finished(room, 1);
    await room.reload({ repo: '/nowhere' });
    await expect.poll(async () => (await room.command('/crew ps')).text).toContain('cannot work');
    await room.reload({});
    await expect.poll(async () => (await room.command('/crew ps')).text).toContain('A idle');
  });
});

describe('a crew after a restart', () => {
  /** Runs the program until `isThere`, stops it and calls `between`. `start` starts it again on the same store. */
  async function again(between: (repo: string) => void, isThere: (room: Room) => boolean, crew: object, works: Work) {
    const path = join(mkdtempSync(join(tmpdir(), 'conch-crew-store-')), 'conch.db');
    const repo = one();
    const first = await stage(repo, works, crew, path);
    await first.command('/crew run');
    await until(() => isThere(first));
    await first.stop();
    opened.length = 0;
    between(repo);
    return { repo, start: () => stage(repo, works, crew, path) };
  }
  const steps = (room: Room) => room.app.crews.state('web')?.workers[0]?.stepCount ?? 0;

  test('reopens the ticket of a worker whose worktree is gone; a second start adds no worktree', async () => {
    const { repo, start } = await again(
      (folder) => rmSync(join(folder, 'agents/A-c-1'), { recursive: true }),
      (room) => steps(room) > 1,
      { patience: 100, maxSteps: 1_000 },
      () => 'One step.',
    );
    for (let time = 0; time < 2; time += 1) {
      const room = await start();
      await until(() => steps(room) > 0 && existsSync(join(repo, 'agents/A-c-1/.git')));
      expect(room.app.crews.state('web')?.workers[0]?.ticket?.id).toBe('c-1');
      await room.stop();
      opened.length = 0;
    }
    expect(
      git(repo, 'worktree', 'list')
        .split('\n')
        .filter((line) => line.includes('A-c-1')),
    ).toHaveLength(1);
  });

  test('resets a worker whose ticket was closed meanwhile, and stores its work', async () => {
    const { repo, start } = await again(
      (folder) => {
        const file = join(folder, '.tickets/c-1.md');
        writeFileSync(file, readFileSync(file, 'utf8').replace('status: open', 'status: closed'));
        git(folder, 'commit', '-qam', 'Close c-1');
      },
      (room) => steps(room) > 1,
      { patience: 100, maxSteps: 1_000 },
      (folder) => {
        if (!existsSync(join(folder, 'one.txt'))) add(folder, 'one.txt', 'one');
        writeFileSync(join(folder, 'half.txt'), 'half\n');
        return 'One step.';
      },
    );
    const room = await start();
    await until(() => room.app.crews.state('web')?.workers[0]?.status === 'idle');
    await until(() => room.posts.some((post) => post.includes('The work of c-1 is kept as')));
    // Nobody is told of a next worker, because the ticket is closed.
    expect(room.posts.join('\n')).not.toContain('next worker goes on');
    expect(git(repo, 'branch', '--list', 'agent/*')).toBe('');
    const [kept] = room.app.crews.state('web')?.kept ?? [];
    expect(git(repo, 'show', `${kept?.ref}:half.txt`)).toBe('half');
    expect(room.app.crews.state('web')?.finished).toEqual([]);
  });

  test('offers the merge of finished work whose worktree is gone', async () => {
    const gate = join(mkdtempSync(join(tmpdir(), 'conch-crew-gate-')), 'open');
    const { repo, start } = await again(
      (folder) => rmSync(join(folder, 'agents/A-c-1'), { recursive: true }),
      (room) => room.app.crews.state('web')?.workers[0]?.next === 'test',
      { test: `if test -e one.txt; then until test -e ${gate}; do sleep 0.1; test -d . || exit 1; done; fi` },
      (folder) => {
        add(folder, 'one.txt', 'one');
        setTimeout(() => writeFileSync(gate, ''), 1_500);
        return 'DONE';
      },
    );
    const room = await start();
    await until(() => room.app.crews.state('web')?.workers[0]?.waiting?.for === 'treeless');
    expect(await room.command('/crew ps')).toMatchObject({ text: expect.stringContaining('/crew answer A merge') });
    expect(await room.command('/crew merge A')).toMatchObject({ ok: true });
    await finished(room, 1);
    expect(mainTickets(repo)).toEqual(['c-1']);
    expect(room.posts.some((post) => post.startsWith(`${CHANNEL} `))).toBe(true);
  });
});

test('/crew cleanup while a merge is tested keeps the work off main', async () => {
  const flag = join(mkdtempSync(join(tmpdir(), 'conch-crew-flag-')), 'go');
  const wait = `touch ${flag}.in; while [ ! -e ${flag} ]; do sleep 0.05; done`;
  const room = await stage(
    one(),
    (folder) => {
      add(folder, 'one.txt', 'one');
      return 'DONE';
    },
    { test: `case "$PWD" in */_main) if [ -e one.txt ]; then ${wait}; fi;; esac` },
  );
  await room.command('/crew run');
  await until(() => existsSync(`${flag}.in`));
  await room.command('/crew stop');
  expect(await room.command('/crew cleanup A')).toMatchObject({ ok: true });
  writeFileSync(flag, '');
  await until(() => room.app.crews.state('web')?.workers[0]?.status === 'idle');
  expect(mainTickets(room.repo)).toEqual([]);
  expect(git(room.repo, 'show', 'agent/A-c-1:one.txt')).toBe('one');
});

test('/crew clean asks first, then stops the crew and resets its workers, whose work is stored', async () => {
  const { room, release, worker } = await held();
  writeFileSync(join(room.repo, 'agents/A-c-1/half.txt'), 'half\n');
  expect(await room.command('/crew clean')).toMatchObject({
    text: expect.stringContaining('This stops the crew and resets A.'),
  });
  expect(worker()?.status).toBe('working');
  expect(await room.command('/crew clean yes')).toMatchObject({ text: expect.stringContaining('1 worker reset') });
  await until(() => worker()?.status === 'idle');
  release();
  expect(room.app.crews.state('web')?.running).toBe(false);
  const [kept] = room.app.crews.state('web')?.kept ?? [];
  expect(git(room.repo, 'show', `${kept?.ref}:half.txt`)).toBe('half');
});

test('a step has its own limits on the floor of its ticket: 3,600 s, and 900 s without a sign of work', async () => {
  const { room, release, worker } = await held();
  const floor = room.store.floors.state(worker()?.ticket?.thread ?? '');
  expect(floor?.settings.maxTurnMs).toBe(3_600_000);
  expect(floor?.seats.find(({ agent }) => agent === 'web-a')?.timeoutMs).toBe(900_000);
  release();
  await finished(room, 1);
});

test('messages of a ticket’s thread are kept as long as those of the crew’s channel', async () => {
  const { room, release, worker } = await held();
  const threads = new Threads(room.store);
  threads.load();
  expect(threads.parentOf(worker()?.ticket?.thread ?? '')).toBe(CHANNEL);
  release();
  await finished(room, 1);
});

test('a ticket that a person stopped goes on after /floor resume', async () => {
  const { room, release, worker } = await held();
  const thread = worker()?.ticket?.thread;
  expect(await room.command('/stop', thread)).toMatchObject({ ok: true });
  await until(() => worker()?.step?.epoch === null);
  expect((await room.command('/crew ps')).text).toContain('To continue: write a message, or /floor resume.');
  release();
  expect(await room.command('/floor resume', thread)).toMatchObject({ ok: true });
  await finished(room, 1);
});

test('refuses to add a worker to another channel than the thread of its ticket', async () => {
  const { room, release, worker } = await held();
  const refused = expect.stringContaining('unless a crew seats it.');
  for (const channel of [CHANNEL, `${CHANNEL}/web/c-2`])
    expect(await room.command('/floor add web-a', channel)).toMatchObject({ ok: false });
  expect(await room.command('/floor add web-a')).toMatchObject({ text: refused });
  expect(await room.command('/floor add pm', worker()?.ticket?.thread)).toMatchObject({ ok: true });
  release();
  await finished(room, 1);
});

test('/crew assign is refused while the crew is stopped', async () => {
  const room = await stage(one(), () => 'DONE');
  expect(await room.command('/crew assign A c-1')).toMatchObject({
    ok: false,
    text: expect.stringContaining('stopped'),
  });
  expect(room.app.crews.state('web')?.base).toBeNull();
});
