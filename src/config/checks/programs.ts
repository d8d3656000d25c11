import { delimiter, resolve } from 'node:path';
import { isUnsafeVariable } from '../../lib/unsafe-variables.ts';
import type { Found } from '../error.ts';
import type { Env } from '../references.ts';
import type { World } from '../world.ts';

/** What the file is checked against: the variables of the environment and of `.env`, and the machine. */
export type Around = { readonly env: Env; readonly world: World; readonly purpose: 'start' | 'check' | 'look' };

/** A program that Conch starts; `set` holds the variables that it is given with their values. */
export type Started = {
  readonly command?: string;
  readonly args?: readonly string[];
  readonly cwd?: string;
  readonly set: Readonly<Record<string, string>>;
};

const SHELL_TALK = /(?:^|\s)(?:[|<>&;]|\d?>&?\d?)|&&|\|\||\$\(|`|;\s/;
const SHELLS = /(?:^|[\\/])(?:ba|z|da|k|fi)?sh(?:\.exe)?$/;

/** What is wrong with a program and its arguments. */
export const programFaults = (started: Started, around: Around): readonly Found[] => {
  const { command, args = [] } = started;
  const path = ['command'];
  if (command === undefined) return [];
  if (SHELL_TALK.test(command)) {
    const message = `No shell is involved: put this into a script and name that, or write "sh" here and ["-c", …] into args`;
    return [{ path, message }];
  }
  if (/^[~$]/.test(command)) return [{ path, message: whole(command) }];
  const [first = '', ...words] = command.trim().split(/\s+/);
  if (words.length > 0 && !/[\\/]/.test(first))
    return [
      { path, message: `Only the program stands here: write "${first}", and ${JSON.stringify(words)} into args` },
    ];
  return [...absent(started, command, around), ...(SHELLS.test(command) ? [] : args.flatMap(shellWord))];
};

const shellWord = (word: string, index: number): readonly Found[] =>
  /^(?:\||\|\||&&|;|>>?|<|2>&1)$/.test(word)
    ? [
        {
          path: ['args', index],
          weight: 'unwise',
          message: `No shell is involved: the program is given "${word}" as a word`,
        },
      ]
    : [];

/** A program that is not there now: it may be installed while Conch runs. */
const absent = (started: Started, command: string, { env, world, purpose }: Around): readonly Found[] => {
  const { machine, cwd: own } = world;
  if (purpose === 'look' || machine === undefined) return [];
  const cwd = resolve(own, started.cwd ?? '.');
  const searched = started.set['PATH'] ?? env['PATH'] ?? '';
  const places = /[\\/]/.test(command) ? [cwd] : searched.split(delimiter).filter(Boolean);
  if (places.some((place) => machine.isProgram(resolve(cwd, place, command)))) return [];
  const where = /[\\/]/.test(command) ? ` in ${cwd}` : ' on the PATH';
  return [
    {
      path: ['command'],
      weight: 'absent',
      message: `There is no program "${command}"${where}: install it, or correct the name`,
    },
  ];
};

/** What is wrong with the folder that a program runs in. */
export const folderFaults = ({ cwd }: Started, { world, purpose }: Around): readonly Found[] => {
  const path = ['cwd'];
  if (cwd === undefined) return [];
  if (/^[~$]/.test(cwd)) return [{ path, message: whole(cwd) }];
  const place = resolve(world.cwd, cwd);
  if (purpose === 'look' || world.machine === undefined || world.machine.isFolder(place)) return [];
  return [{ path, weight: 'absent', message: `There is no folder ${place}: make it, or correct the path` }];
};

const whole = (path: string): string =>
  `No shell is involved: "${/^[~$]\w*/.exec(path)?.[0]}" stands for nothing here; write the whole path, or "\${HOME}/…"`;

/** What is wrong with the names of variables that a program is given, each with its place. */
export const variableFaults = (
  named: readonly { readonly name: string; readonly path: readonly PropertyKey[] }[],
): readonly Found[] => {
  return named.flatMap(({ name, path }): readonly Found[] => {
    if (isUnsafeVariable(name))
      return [{ path, message: `No program is given ${name}, which changes how programs run: take it away` }];
    if (/^\w+$/.test(name)) return [];
    const [, before, value] = /^\$?\{?(\w+)\}?(?:=(.*))?$/s.exec(name) ?? [];
    if (before === undefined)
      return [{ path, message: `Expected the name of a variable, got ${JSON.stringify(name)}` }];
    const instead = value === undefined ? `"${before}"` : `${JSON.stringify({ [before]: value })} into \`set\``;
    return [{ path, message: `Only the name of a variable stands here: write ${instead}` }];
  });
};
