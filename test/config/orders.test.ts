import { expect, test } from 'vitest';
import { parseLine } from '../../src/turns/commands/parse.ts';
import { saidAbout } from './world.ts';

/** Returns the values that a command accepts, read from its error message. */
function takenBy(command: string): readonly string[] {
  const parsed = parseLine(`${command} sideways`);
  const [, list = ''] = /^Expected one of (.+), got "sideways"/.exec(parsed.ok ? '' : parsed.message) ?? [];
  return list.split(', ');
}

/** Returns the values that turnConfig.json accepts for a key, read from the error message. Aliases come last. */
function takenUnder(key: string): readonly string[] {
  const [said = ''] = saidAbout({ turnConfig: { [key]: 'sideways' } });
  return [...(said.split(', got ')[0] ?? '').matchAll(/"([\w-]+)"/g)].map(([, name]) => name ?? '');
}

test('T54 turnConfig.json takes the orders of /floor order, and no other', () => {
  expect(takenUnder('order')).toEqual(takenBy('/floor order'));
  expect(takenUnder('order')).toContain('round-robin');
});

test('T54 turnConfig.json takes the modes of /floor mode, and their aliases', () => {
  const modes = takenBy('/floor mode');
  expect(takenUnder('humanInterruptMode').slice(0, modes.length)).toEqual(modes);
  expect(modes).toContain('inject');
});
