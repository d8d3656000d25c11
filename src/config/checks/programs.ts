import { delimiter, isAbsolute, resolve } from 'node:path';
import { isUnsafeVariable } from '../../lib/unsafe-variables.ts';
import type { Tell } from '../error.ts';
import type { Env, Purpose, World } from '../world.ts';

/** The environment with `.env`, the machine, and the purpose of the check. */
export type Around = {
  readonly env: Env;
  readonly world: World;
  readonly purpose: Purpose;
  /** True for a program whose folder is perhaps created after this check. */
  readonly isMadeLater?: boolean;
};

type Started = {
  readonly command?: string | undefined;
  readonly args?: readonly string[] | undefined;
  readonly cwd?: string | undefined;
  readonly set: Readonly<Record<string, string>>;
};

const SHELL_TALK = /(?:^|\s)(?:[|<>&;]|\d?>&?\d?)|&&|\|\||\$\(|`|;\s/;
const SHELLS = /(?:^|[\\/])(?:ba|z|da|k|fi)?sh(?:\.exe)?$/;
const SHELL_WORD = /^(?:\||\|\||&&|;|>>?|<|2>&1)$/;

/**
 * Checks a program, its arguments and its folder. A missing program or folder is reported as `absent`, because it may
 * appear while Conch runs. For the purpose `look`, does not check that they exist.
 */
export const checkProgram = (started: Started, around: Around, tell: Tell): void => {
  const { command, cwd } = started;
  if (command !== undefined) checkCommand({ ...started, command }, around, tell);
  const { world, purpose, isMadeLater = false } = around;
  if (cwd === undefined || isMadeLater) return;
  const place = resolve(world.cwd, cwd);
  if (/^[~$]/.test(cwd)) tell(['cwd'], notExpanded(cwd));
  else if (purpose !== 'look' && world.machine?.isFolder(place) === false)
    tell(['cwd'], `There is no folder ${place}: create it, or correct the path`, 'absent');
};

const checkCommand = (started: Started & { readonly command: string }, around: Around, tell: Tell): void => {
  const { command, args = [] } = started;
  const path = ['command'];
  const [first = '', ...words] = command.trim().split(/\s+/);
  if (SHELL_TALK.test(command))
    tell(
      path,
      `Conch starts programs without a shell: put this into a script, or write "sh" here and ["-c", …] into args`,
    );
  else if (/^[~$]/.test(command)) tell(path, notExpanded(command));
  else if (words.length > 0 && !/[\\/]/.test(first))
    tell(path, `Expected only the program: write "${first}", and ${JSON.stringify(words)} into args`);
  else {
    checkPresence(started, around, tell);
    for (const [index, word] of SHELLS.test(command) ? [] : args.entries())
      if (SHELL_WORD.test(word))
        tell(
          ['args', index],
          `Conch starts programs without a shell, so the program gets "${word}" as an argument: remove it, or start a shell`,
          'unwise',
        );
  }
};

const checkPresence = (
  { command, cwd: folder = '.', set }: Started & { readonly command: string },
  { env, world, purpose, isMadeLater = false }: Around,
  tell: Tell,
): void => {
  const { machine, cwd: own } = world;
  if (purpose === 'look' || machine === undefined) return;
  const isPath = /[\\/]/.test(command);
  if (isMadeLater && isPath && !isAbsolute(command)) return;
  const cwd = resolve(own, folder);
  const places = isPath ? [cwd] : (set['PATH'] ?? env['PATH'] ?? '').split(delimiter).filter(Boolean);
  if (places.some((place) => machine.isProgram(resolve(cwd, place, command)))) return;
  const where = isPath ? ` in ${cwd}` : ' on the PATH';
  tell(['command'], `There is no program "${command}"${where}: install it, or correct the name`, 'absent');
};

const notExpanded = (path: string): string =>
  `Conch starts programs without a shell, so "${/^[~$]\w*/.exec(path)?.[0]}" is not expanded: write the full path, or "\${HOME}/…"`;

/** Checks the name of an environment variable that a program gets. */
export const checkVariable = (name: string, path: readonly PropertyKey[], tell: Tell): void => {
  if (isUnsafeVariable(name))
    return tell(
      path,
      `Conch does not pass the variable ${name} to programs, because it changes how they run: remove it`,
    );
  if (/^\w+$/.test(name)) return;
  const [, before, value] = /^\$?\{?(\w+)\}?(?:=(.*))?$/s.exec(name) ?? [];
  if (before === undefined) return tell(path, `Expected the name of a variable, got ${JSON.stringify(name)}`);
  const instead = value === undefined ? `"${before}"` : `${JSON.stringify({ [before]: value })} into \`set\``;
  tell(path, `Expected only the name of a variable: write ${instead}`);
};
