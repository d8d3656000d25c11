import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { differences, pictureOf } from '../../../../src/work/crews/git/guard.ts';
import type { Repository } from '../../../../src/work/crews/git/repository.ts';
import { storeWork } from '../../../../src/work/crews/git/kept.ts';
import { addWorktree } from '../../../../src/work/crews/git/worktrees.ts';
import { scene } from './scene.ts';
import type { Scene } from './scene.ts';

/** The differences between the snapshots before and after an action. */
async function seen(act: (one: Scene, repository: Repository) => unknown, one = scene()): Promise<readonly string[]> {
  const repository = await one.open();
  const before = await pictureOf(repository);
  await act(one, repository);
  const after = await pictureOf(repository);
  repository.release();
  return differences(before, after);
}

describe("the snapshot of the user's copy", () => {
  test('stays equal after reading, and after the work of Conch and its workers in their own folders', async () => {
    const one = scene();
    one.write('a.txt', 'dirty\n');
    const found = await seen(async ({ git, root, commit }, repository) => {
      git('status');
      const folder = join(root, 'agents/A');
      await addWorktree(repository, { folder, branch: 'agent/A', base: git('rev-parse', 'HEAD') });
      commit('w.txt', 'w', folder);
      one.write('agents/A/new.txt', '');
      git('config', 'branch.agent/A.remote', 'origin');
      await storeWork(repository, folder, 'refs/conch/kept/A-c');
    }, one);
    expect(found).toEqual([]);
  });

  test.each<readonly [string, (one: Scene) => unknown, readonly (string | RegExp)[]]>([
    [
      'a commit',
      ({ commit }) => commit('a.txt', 'x\n'),
      [/^HEAD moved from \w{10} to \w{10}\.$/, /^refs\/heads\/main moved/, 'The index changed.'],
    ],
    [
      'another branch',
      ({ git }) => git('checkout', '--quiet', '-b', 'x'),
      ['The branch changed from main to x.', 'refs/heads/x was added.'],
    ],
    [
      'a detached HEAD',
      ({ git }) => git('checkout', '--quiet', '--detach'),
      ['The branch changed from main to no branch.'],
    ],
    ['a tag', ({ git }) => git('tag', 'v1'), ['refs/tags/v1 was added.']],
    ['a changed file', ({ write }) => write('a.txt', 'x\n'), ['The file a.txt changed.']],
    ['a new file', ({ write }) => write('new ü.txt', 'x\n'), ['The file new ü.txt changed.']],
    [
      'a staged file',
      ({ write, git }) => [write('a.txt', 'x\n'), git('add', 'a.txt')],
      ['The index changed.', 'The file a.txt changed.'],
    ],
    ['a flag of the index', ({ git }) => git('update-index', '--assume-unchanged', 'a.txt'), ['The index changed.']],
    ['a setting', ({ git }) => git('config', 'core.hooksPath', '/x'), ['The setting core.hookspath was added.']],
    ['a hook', ({ root }) => writeFileSync(join(root, '.git/hooks/pre-push'), 'x'), ['The hook pre-push was added.']],
  ])('differs after %s', async (_, act, expected) => {
    const found = await seen(act);
    expect(found).toHaveLength(expected.length);
    for (const [at, one] of expected.entries())
      expect(found[at]).toMatch(typeof one === 'string' ? new RegExp(`^${one}$`) : one);
  });

  test('differs after a second change of a changed file, a stash, a setting or a hook', async () => {
    const one = scene();
    one.write('a.txt', 'stashed\n');
    one.git('stash');
    one.write('a.txt', 'dirty\n');
    one.git('config', 'user.token', 'canary');
    one.git('config', 'core.hooksPath', 'own hooks');
    one.write('own hooks/pre-commit', 'x');
    const found = await seen(({ git, write, root }) => {
      write('a.txt', 'other\n');
      git('stash', 'drop', '--quiet');
      git('config', 'user.token', 'other');
      chmodSync(join(root, 'own hooks/pre-commit'), 0o755);
    }, one);
    expect(found).toEqual([
      'The file a.txt changed.',
      'The file own hooks/pre-commit changed.',
      'The stash changed.',
      'The setting user.token changed.',
      'The hook pre-commit changed.',
    ]);
    const repository = await one.open();
    const picture = await pictureOf(repository);
    expect(JSON.stringify(Object.values(picture).map((part) => [...part]))).not.toContain('other');
  });

  test('differs after a change of a file in a conflict, of an older stash, and of a hook in the home folder', async () => {
    const one = scene();
    for (const text of ['first\n', 'second\n']) {
      one.write('a.txt', text);
      one.git('stash');
    }
    one.commit('a.txt', 'here\n');
    expect(() => one.git('stash', 'apply')).toThrow('Command failed');
    one.git('config', 'core.hooksPath', '~/own hooks');
    one.write('../own hooks/pre-commit', 'x');
    const found = await seen(({ git, write }) => {
      write('a.txt', 'resolved\n');
      git('stash', 'drop', '--quiet', 'stash@{1}');
      write('../own hooks/pre-commit', 'y');
    }, one);
    expect(found).toEqual(['The file a.txt changed.', 'The stash changed.', 'The hook pre-commit changed.']);
  });
});
