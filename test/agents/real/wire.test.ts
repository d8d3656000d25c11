import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { expect, test } from 'vitest';
import { answersIn, changed, digests } from './wire.ts';

const options = [
  { optionId: 'once', kind: 'allow_once' },
  { optionId: 'session', kind: 'allow_always' },
  { optionId: 'no', kind: 'reject_once' },
];
const asked = (id: number) => JSON.stringify({ id, method: 'session/request_permission', params: { options } });
const answered = (id: number, optionId?: string) =>
  JSON.stringify({ id, result: { outcome: { outcome: optionId === undefined ? 'cancelled' : 'selected', optionId } } });

test('the recorded answer to a request is the kind of the chosen option, whatever the option is named', () => {
  const folder = mkdtempSync(`${tmpdir()}/conch-test-`);
  writeFileSync(`${folder}/wire.heard`, ['no message', asked(1), asked(2), asked(3), ''].join('\n'));
  writeFileSync(`${folder}/wire.sent`, [answered(1, 'once'), answered(2, 'session'), answered(3)].join('\n'));
  expect(answersIn(`${folder}/wire`)).toEqual(['allow_once', 'allow_always', 'cancelled']);
  rmSync(folder, { recursive: true });
});

test('the comparison of two sets of digests returns the paths of new, deleted and changed files', () => {
  const folder = mkdtempSync(`${tmpdir()}/conch-test-`);
  const write = (files: Readonly<Record<string, string>>) =>
    Object.entries(files).forEach(([name, text]) => writeFileSync(`${folder}/${name}`, text));
  write({ same: '1', other: '1', gone: '1' });
  const before = digests(folder);
  write({ same: '1', other: '2', fresh: '1' });
  rmSync(`${folder}/gone`);
  expect(changed(before, digests(folder))).toEqual(['fresh', 'gone', 'other']);
  expect(changed(digests(folder, ['same', 'absent']), digests(folder, ['same']))).toEqual([]);
  rmSync(folder, { recursive: true });
});
