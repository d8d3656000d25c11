import { COMMANDS } from '../../src/turns/commands/command-table.ts';
import type { CommandRow } from '../../src/turns/commands/command-table.ts';

/** Splits a command line into its command and its arguments by name, like a slash command. Throws when unknown. */
export function filledIn(line: string): { readonly path: string; readonly values: Readonly<Record<string, string>> } {
  const words = line.replace(/^\//, '').split(' ');
  const fits = (row: CommandRow) => row.path.split(' ').every((word, index) => word === words[index]);
  const row: CommandRow | undefined = COMMANDS.find(fits);
  if (row === undefined) throw new Error(`there is no command ${line}`);
  const given = words.slice(row.path.split(' ').length);
  const values = row.arguments.flatMap(({ name, rest }, index) => {
    const value = rest === true ? given.slice(index).join(' ') : given[index];
    return value === undefined || value === '' ? [] : [[name, value] as const];
  });
  return { path: row.path, values: Object.fromEntries(values) };
}
