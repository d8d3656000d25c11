import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join, parse, resolve } from 'node:path';
import { z } from 'zod';
import { makePrivateFolder } from '../lib/private-file.ts';
import { EXIT_CODES, exitMeanings } from '../runtime/exit-codes.ts';
import type { Done } from './database.ts';
import { SYSTEMCTL_LIMIT_MS, SYSTEM_DATA_DIR, commandLine, dataDirIn, unitText } from './service-unit.ts';
import type { UnitPlan } from './service-unit.ts';

/** A typed command line of `conch service`: the verb, the scope and the options. */
export type ServiceCall = {
  readonly verb: 'install' | 'status' | 'uninstall';
  readonly scope: UnitPlan['scope'];
  readonly runAs: string | null;
  readonly writable: readonly string[];
  readonly allowsSandbox: boolean;
  /** Prints the unit and changes nothing. */
  readonly printsOnly: boolean;
};

/** The machine that `conch service` works on. */
export type ServiceWorld = {
  readonly uid: number;
  /** Node, the launcher that runs this command, and the argument `start`. */
  readonly command: readonly string[];
  /** The folder in which the command was typed. */
  readonly cwd: string;
  /** The data folder of a service of this user. */
  readonly dataDir: string;
  /** Folders of the units of the machine and of this user. */
  readonly unitFolders: Readonly<Record<UnitPlan['scope'], string>>;
  readonly isSystemd: boolean;
  /** Runs `systemctl`. Resolves with its output and `code`: 0, or 1 after any failure. Never rejects. */
  readonly systemctl: (args: readonly string[]) => Promise<{ readonly code: number; readonly text: string }>;
};

/** Installs, shows or removes the service. Returns the reason when this is not possible. */
export async function runService(call: ServiceCall, world: ServiceWorld): Promise<Done> {
  const refusal = refusalOf(call, world);
  if (refusal !== null) return refuse(refusal);
  if (call.verb === 'install') return install(call, world);
  return call.verb === 'status' ? status(call, world) : uninstall(call, world);
}

const NAME = 'conch.service';

function unitPath({ scope }: Pick<ServiceCall, 'scope'>, { unitFolders }: ServiceWorld): string {
  return join(unitFolders[scope], NAME);
}

function succeed(text: string): Done {
  return { ok: true, text, code: EXIT_CODES.ok };
}

function refuse(text: string): Done {
  return { ok: false, text, code: EXIT_CODES.refused };
}

function refusalOf(call: ServiceCall, world: ServiceWorld): string | null {
  if (call.printsOnly) return problemOfPlan(call, world);
  if (!world.isSystemd)
    return 'systemd does not manage this machine, so there is no service to work on. Use docs/install.md, "Image", or your own service manager: conch service install --print shows the unit.';
  if (call.verb === 'status') return null;
  if (call.scope === 'system' && world.uid !== 0)
    return 'Only root may install or remove a service of the machine. Run the same command with sudo, or without --system for your user.';
  const otherProgram = otherInstallation(unitPath(call, world), world);
  if (otherProgram !== null)
    return `${unitPath(call, world)} starts another Conch (${otherProgram}). Uninstall that one with its own "conch service uninstall", or remove the file.`;
  return call.verb === 'install' ? problemOfPlan(call, world) : null;
}

function otherInstallation(path: string, world: ServiceWorld): string | null {
  if (!existsSync(path)) return null;
  const line = /^ExecStart=.*$/m.exec(readFileSync(path, 'utf8'))?.[0] ?? '';
  return line === commandLine(world) ? null : line.replace('ExecStart=', '') || 'no program';
}

function problemOfPlan(call: ServiceCall, world: ServiceWorld): string | null {
  const [node = '', launcher = ''] = world.command;
  if (call.runAs !== null && call.scope === 'user')
    return '--run-as needs --system: a service of your user runs as your user.';
  if (launcher.includes('/_npx/'))
    return 'npx runs Conch from a cache that is emptied. Install the packed file in a folder, and call it from there.';
  const paths = [...world.command, world.cwd, world.dataDir, ...call.writable];
  if (paths.some((path) => /[\n\r]/.test(path)))
    return 'A folder or file of the service has a line break in its path. Rename it.';
  const missing = call.writable.find((path) => statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true);
  if (missing !== undefined) return `There is no folder ${missing}. Create it, or correct --writable.`;
  if (call.runAs !== null && !/^[a-z_][a-z0-9_-]*$/i.test(call.runAs))
    return `"${call.runAs}" is not a valid user name. Correct --run-as.`;
  const isForNewUser = call.scope === 'system' && call.runAs === null && !call.printsOnly;
  const closed = isForNewUser ? closedTo([node, launcher, join(world.cwd, 'conch.env')]) : null;
  return closed === null
    ? null
    : `The user that systemd makes for Conch cannot enter ${closed}. Install Node and Conch where all users may read, run the command in a folder such as /etc/conch, or name a user: --run-as ann`;
}

/** Of the folders above these paths, returns the first that other users cannot enter; `null` for none. */
function closedTo(paths: readonly string[]): string | null {
  const folders = paths.flatMap((path) => foldersAbove(path));
  return folders.find((folder) => existsSync(folder) && (statSync(folder).mode & 0o001) === 0) ?? null;
}

function foldersAbove(path: string): readonly string[] {
  const above = dirname(path);
  return above === parse(path).root ? [] : [...foldersAbove(above), above];
}

function planOf(call: ServiceCall, { command, cwd, dataDir }: ServiceWorld): UnitPlan {
  const isSystem = call.scope === 'system';
  return { ...call, command, folder: cwd, dataDir: isSystem ? SYSTEM_DATA_DIR : dataDir };
}

async function install(call: ServiceCall, world: ServiceWorld): Promise<Done> {
  const plan = planOf(call, world);
  const text = `${unitText(plan)}\n`;
  if (call.printsOnly) return succeed(text.trimEnd());
  const path = unitPath(call, world);
  const closed = firstUnwritable(dirname(path));
  if (closed !== null) return refuse(`${closed} cannot be written by user ${world.uid}. Give this user write access.`);
  mkdirSync(dirname(path), { recursive: true });
  if (call.scope === 'user') makePrivateFolder(plan.dataDir);
  writeFileSync(path, text);
  for (const args of [['daemon-reload'], ['enable', NAME], ['restart', NAME]]) {
    const { code, text: errorText } = await systemctl(call, world, args);
    if (code !== 0) return refuse(`systemctl ${args.join(' ')} failed: ${errorText.trim()}. See: ${journalOf(call)}`);
  }
  return succeed(
    [`Conch runs as a service. Unit: ${path}. Data: ${plan.dataDir}.`, ...hints(call), `Log: ${journalOf(call)}`].join(
      '\n',
    ),
  );
}

function hints({ scope }: ServiceCall): readonly string[] {
  return scope === 'user' ? ['The service ends when you log out, unless you run: loginctl enable-linger'] : [];
}

function firstUnwritable(path: string): string | null {
  if (!existsSync(path)) return firstUnwritable(dirname(path));
  try {
    accessSync(path, constants.W_OK);
    return null;
  } catch {
    return path;
  }
}

function journalOf({ scope }: Pick<ServiceCall, 'scope'>): string {
  return `journalctl ${scope === 'user' ? '--user ' : ''}-u conch`;
}

function systemctl({ scope }: ServiceCall, world: ServiceWorld, args: readonly string[]) {
  return world.systemctl([...(scope === 'user' ? ['--user'] : []), ...args]);
}

const PROPERTIES = ['ActiveState', 'SubState', 'StatusText', 'MainPID', 'NRestarts', 'ExecMainStatus'];
const propertiesSchema = z.object({
  ActiveState: z.string(),
  SubState: z.string().default(''),
  StatusText: z.string().default(''),
  MainPID: z.string().default('0'),
  NRestarts: z.string().default('0'),
  ExecMainStatus: z.string().default('0'),
});

async function status(call: ServiceCall, world: ServiceWorld): Promise<Done> {
  const path = unitPath(call, world);
  if (!existsSync(path)) {
    const option = call.scope === 'system' ? ' --system' : '';
    return refuse(`There is no unit ${path}. Run: conch service install${option}`);
  }
  const { code, text } = await systemctl(call, world, ['show', NAME, `--property=${PROPERTIES.join(',')}`]);
  const rows = text.split('\n').map((line) => /^(\w+)=(.*)$/.exec(line)?.slice(1, 3) ?? []);
  const properties = propertiesSchema.safeParse(Object.fromEntries(rows.filter(({ length }) => length === 2)));
  if (code !== 0 || !properties.success) return refuse(`systemctl show failed: ${text.trim()}`);
  const { ActiveState, SubState, StatusText, MainPID, NRestarts, ExecMainStatus } = properties.data;
  const isActive = ActiveState === 'active';
  const state = `Conch is ${ActiveState} (${SubState}${StatusText === '' ? '' : `, ${StatusText}`}).`;
  const process = isActive ? `Process ${MainPID}, restarted ${NRestarts} times.` : endOf(Number(ExecMainStatus));
  const answer = [state, process, `Unit: ${path}`, `Log: ${journalOf(call)}`].join('\n');
  return isActive ? succeed(answer) : { ok: false, text: answer, code: EXIT_CODES.notRunning };
}

function endOf(code: number): string {
  const meaning = exitMeanings().find(([each]) => each === code)?.[1];
  return `The last process ended with code ${code}${meaning === undefined ? '' : ` (${meaning})`}.`;
}

async function uninstall(call: ServiceCall, world: ServiceWorld): Promise<Done> {
  const path = unitPath(call, world);
  if (!existsSync(path)) return refuse(`There is no unit ${path}. Nothing was changed.`);
  const { code, text } = await systemctl(call, world, ['disable', '--now', NAME]);
  if (code !== 0) return refuse(`systemctl disable failed: ${text.trim()}. Nothing was removed.`);
  const dataDir = dataDirIn(readFileSync(path, 'utf8'));
  rmSync(path);
  await systemctl(call, world, ['daemon-reload']);
  return succeed(`The service is removed. The data stays${dataDir === null ? '' : ` in ${dataDir}`}.`);
}

/** Returns the machine of this process. `command` starts Conch with the Node and the launcher of this process. */
export function thisMachine(dataDir: string): ServiceWorld {
  const configHome = process.env['XDG_CONFIG_HOME'] ?? '';
  const config = isAbsolute(configHome) ? configHome : join(homedir(), '.config');
  return {
    uid: process.getuid?.() ?? -1,
    command: [process.execPath, process.argv[1] ?? '', 'start'],
    cwd: process.cwd(),
    dataDir,
    unitFolders: { system: '/etc/systemd/system', user: join(config, 'systemd/user') },
    // systemd makes this folder when it starts the machine.
    isSystemd: existsSync('/run/systemd/system'),
    systemctl: (args) =>
      new Promise((answer) => {
        execFile('systemctl', args, { timeout: SYSTEMCTL_LIMIT_MS }, (error, stdout, stderr) => {
          const code = error === null ? 0 : 1;
          answer({ code, text: `${stdout}${stderr}` || (error?.message ?? '') });
        });
      }),
  };
}

/** Returns the absolute paths of a list with commas. Relative paths start at `cwd`. */
export function foldersOf(list: string, cwd: string): readonly string[] {
  return list
    .split(',')
    .map((path) => path.trim())
    .filter((path) => path !== '')
    .map((path) => resolve(cwd, path));
}
