import { renameSync, writeFileSync } from 'node:fs';
import { Socket } from 'node:net';
import { join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { commandLineOf, processes } from './processes.ts';
import { scene } from '../work/crews/git/scene.ts';
import type { Scene } from '../work/crews/git/scene.ts';
import { GitObjects } from '../../src/lib/git-objects.ts';

let one: Scene;
let root = '';
const env = (): Record<string, string> => one.env;
const raw = (...args: readonly string[]): string => one.git(...args);
const opened = (): GitObjects => {
  const objects = new GitObjects(root, env());
  onTestFinished(() => objects.close());
  return objects;
};
const idOf = async (objects: GitObjects, name: string): Promise<string | null> =>
  (await objects.read([name]))[0]?.id ?? null;
const failureOf = (reading: Promise<unknown>): Promise<string> => reading.then(() => 'no failure', String);
/** Returns the ids of the git processes that read objects of this repository. */
const readers = (): readonly number[] =>
  processes().flatMap(({ pid }) => {
    const line = commandLineOf(pid) ?? '';
    return line.includes(root) && line.endsWith('cat-file --batch') ? [pid] : [];
  });
const reader = (): number => {
  const [pid] = readers();
  if (pid === undefined) throw new Error('no process reads this repository');
  return pid;
};

beforeEach(() => {
  one = scene();
  root = one.root;
});

describe('reading objects', () => {
  test('returns the object of each name in order: commits, trees, files of any bytes, and null for no object', async () => {
    const bytes = Buffer.from([0, 10, 255, 10, 0]);
    writeFileSync(join(root, 'bytes'), bytes);
    writeFileSync(join(root, 'empty'), '');
    writeFileSync(join(root, 'two words\tü'), 'text\n');
    raw('add', '--all');
    raw('commit', '--quiet', '-m', 'Add files');
    raw('tag', '-a', '-m', 'Tag', 'v1');
    const head = raw('rev-parse', 'HEAD');
    const names = ['bytes', 'empty', 'two words\tü', 'none'].map((path) => `refs/heads/main:${path}`);
    const found = await opened().read([...names, 'refs/tags/v1', 'refs/tags/v1^{commit}', `${head}^{tree}`, 'x y', '']);
    expect(found.slice(0, 4).map((each) => each?.body)).toEqual([
      bytes,
      Buffer.alloc(0),
      Buffer.from('text\n'),
      undefined,
    ]);
    expect(found.slice(4).map((each) => each?.type)).toEqual(['tag', 'commit', 'tree', undefined, undefined]);
    expect([found[5]?.id, found[6]?.id]).toEqual([head, raw('rev-parse', 'HEAD^{tree}')]);
  });

  test('returns null for a name with a newline, and goes on with the next name', async () => {
    const objects = opened();
    const found = await objects.read(['HEAD\nHEAD', 'HEAD', 'none\n']);
    expect(found.map((each) => each?.id)).toEqual([undefined, raw('rev-parse', 'HEAD'), undefined]);
    expect(await idOf(objects, 'HEAD^{tree}')).toBe(raw('rev-parse', 'HEAD^{tree}'));
  });

  test('answers concurrent callers, each with its own objects', async () => {
    const [large, small] = [Buffer.alloc(5_000_000, 'a\n'), 'small'];
    writeFileSync(join(root, 'large'), large);
    writeFileSync(join(root, 'small'), small);
    raw('add', '--all');
    raw('commit', '--quiet', '-m', 'Add files');
    const objects = opened();
    const read = Array.from({ length: 20 }, (_, at) =>
      objects.read([`HEAD:${at % 2 === 0 ? 'large' : 'small'}`, 'HEAD']),
    );
    for (const [at, [file, commit]] of (await Promise.all(read)).entries()) {
      expect(file?.body.equals(at % 2 === 0 ? large : Buffer.from(small))).toBe(true);
      expect(commit?.type).toBe('commit');
    }
    expect(await objects.read([])).toEqual([]);
    expect(readers()).toHaveLength(1);
  });

  test('sees each change of refs and objects by other processes', async () => {
    const objects = opened();
    const name = 'refs/heads/other^{commit}';
    expect(await idOf(objects, name)).toBeNull();
    raw('branch', 'other');
    expect(await idOf(objects, name)).toBe(raw('rev-parse', 'HEAD'));
    // Packed refs of equal size are written several times in the same second.
    for (const pack of [false, ...Array<boolean>(8).fill(true), false]) {
      raw('commit', '--quiet', '--allow-empty', '-m', 'More');
      raw('branch', '--force', 'other', 'HEAD');
      if (pack) raw('pack-refs', '--all', '--prune');
      if (pack) raw('gc', '--quiet', '--prune=now');
      expect(await idOf(objects, name)).toBe(raw('rev-parse', 'HEAD'));
    }
    raw('branch', '-D', 'other');
    expect(await idOf(objects, name)).toBeNull();
    await vi.waitFor(() => expect(readers()).toHaveLength(1));
  });
});

describe('the process that reads objects', () => {
  test('is replaced after it was killed, and its pending request fails', async () => {
    const objects = opened();
    const head = await idOf(objects, 'HEAD');
    const first = reader();
    process.kill(first, 'SIGSTOP');
    const written = vi.spyOn(Socket.prototype, 'write');
    onTestFinished(() => written.mockRestore());
    const failed = failureOf(objects.read(['HEAD']));
    const next = objects.read(['HEAD']);
    await vi.waitFor(() => expect(written).toHaveBeenCalledWith('HEAD\n'));
    process.kill(first, 'SIGKILL');
    expect(await failed).toBe('Error: git cat-file failed: it ended');
    expect((await next)[0]?.id).toBe(head);
    expect(readers()).not.toContain(first);
  });

  test('is replaced when the settings of git have changed', async () => {
    const objects = opened();
    await objects.read(['HEAD']);
    const [first] = readers();
    raw('config', 'filter.x.clean', 'touch clean');
    await objects.read(['HEAD']);
    await vi.waitFor(() => expect(readers()).toEqual([expect.any(Number)]));
    expect(readers()).not.toEqual([first]);
  });

  test('ends after a minute without a request, and when it is closed', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const objects = opened();
    await objects.read(['HEAD']);
    vi.advanceTimersByTime(59_999);
    await objects.read(['HEAD']);
    vi.advanceTimersByTime(59_999);
    expect(readers()).toHaveLength(1);
    vi.advanceTimersByTime(1);
    vi.useRealTimers();
    await vi.waitFor(() => expect(readers()).toEqual([]));
    await objects.read(['HEAD']);
    expect(readers()).toHaveLength(1);
    objects.close();
    await vi.waitFor(() => expect(readers()).toEqual([]));
  });

  test('says when git is missing, the repository is gone, or git does not answer in time', async () => {
    const none = new GitObjects(root, { ...env(), PATH: one.home });
    await expect(none.read(['HEAD'])).rejects.toThrow('git was not found');
    renameSync(root, `${root}.away`);
    await expect(opened().read(['HEAD'])).rejects.toThrow(`cannot change to '${root}'`);
    renameSync(`${root}.away`, root);
    const objects = opened();
    await objects.read(['HEAD']);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    process.kill(reader(), 'SIGSTOP');
    const failed = failureOf(objects.read(['HEAD']));
    await vi.waitFor(() => {
      vi.advanceTimersByTime(60_000);
      expect(readers()).toEqual([]);
    });
    expect(await failed).toBe('Error: git cat-file failed: no answer within 60 s');
  });
});
