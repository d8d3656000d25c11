import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, realpathSync, statSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir, networkInterfaces } from 'node:os';
import { delimiter, dirname, join, relative, resolve, sep } from 'node:path';
import { BackendError } from '../backends/backend.ts';
import { once } from 'node:events';
import { lookup, promises } from 'node:dns';
import type { LookupAddress, LookupOptions } from 'node:dns';
import { BlockList, createServer, isIP } from 'node:net';
import { programBeside } from '../../lib/installation.ts';
import { LATE, withinMs } from '../../lib/retry.ts';
import { systemTimers } from '../../lib/time.ts';

/** What a sandboxed program can use of this machine. All paths are absolute. */
export type SandboxPlan = {
  /** The agent's own home folder, mounted over the program's home. The program can write to it. Created if missing. */
  readonly home: string;
  /** Files and folders of Conch that appear empty in the sandbox. */
  readonly hidden: readonly string[];
  /** Files and folders that stay readable although they lie in hidden folders. */
  readonly readable: readonly string[];
  /** What the program can reach over the network. `null`: nothing. */
  readonly network: SandboxNetwork | null;
};

/** One program to run. */
export type Program = {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
};

/** Facts about this machine that the sandbox arguments depend on. */
export type SandboxMachine = {
  /** Returns what is at a path, following links. `null`: nothing. */
  kindOf(path: string): 'folder' | 'file' | null;
  realPath(path: string): string;
  readonly temporary: readonly string[];
  readonly home: string;
};

/** What to do when this machine cannot start a sandbox. */
export const SANDBOX_REMEDY =
  'Install bubblewrap (apt install bubblewrap), allow user namespaces, or set "sandbox" to false.';

/** A program wrapped in a sandbox. Call `close` when the program has ended. */
type SandboxedProgram = Program & { close(): void };

/**
 * Returns the program wrapped in a sandbox. Rejects with a terminal `BackendError` that says what to do when this
 * machine cannot start a sandbox. Rejects also when the program's working folder holds a folder that a sandbox hides.
 */
export async function sandboxed(program: Program, plan: SandboxPlan): Promise<SandboxedProgram> {
  await checkSandbox();
  mkdirSync(plan.home, { recursive: true, mode: 0o700 });
  const exit = plan.network === null ? null : await openSandboxExit(plan.network, program.env);
  const close = (): void => exit?.close();
  try {
    const { prefix = [], env = {}, readable = [] } = exit ?? {};
    const shown = { ...plan, readable: [...plan.readable, ...readable] };
    const args = sandboxArgs(program, { ...shown, prefix }, thisMachine());
    return { ...program, command: bwrapPath() ?? 'bwrap', args, env: { ...program.env, ...env }, close };
  } catch (error) {
    close();
    throw error;
  }
}

/** Rejects with a terminal `BackendError` that says what to do when this machine cannot start a sandbox. */
export async function checkSandbox(): Promise<void> {
  const why = await sandboxFault();
  if (why !== null) throw new BackendError(`its sandbox cannot start: ${why}. ${SANDBOX_REMEDY}`, { terminal: true });
}

/** Starts a sandbox as a test. Resolves with the reason why it failed, or `null` when it worked. */
export async function sandboxFault(): Promise<string | null> {
  const path = bwrapPath();
  if (path === null) return 'bubblewrap (bwrap) is not installed';
  const args = [...NAMESPACES, '--unshare-net', '--ro-bind', '/', '/', ...DEVICES, '--', 'true'];
  return new Promise((done) => {
    execFile(path, args, { timeout: PROBE_MS }, (error, _out, stderr) => {
      const [line = ''] = stderr.trim().split('\n');
      done(error === null ? null : `no sandbox can be started here (${line === '' ? error.message : line})`);
    });
  });
}

const PROBE_MS = 10_000;
const NAMESPACES = ['--die-with-parent', '--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try'];
const DEVICES = ['--dev', '/dev', '--proc', '/proc'];

/**
 * Returns the arguments of `bwrap` for a program. The whole machine is readable except homes, `/run`, temporary folders
 * and `hidden`. Inside these, the folders of PATH and of the command, `/etc/resolv.conf` and `readable` stay readable.
 * Only the working folder and the agent's home keep what is written: hidden folders are empty and in memory. Mounts are
 * ordered by depth, so that an inner mount overrides the outer mount. Throws a terminal `BackendError` when the working
 * folder contains a home, `/run` or a temporary folder, or is an entry of `hidden`.
 */
export function sandboxArgs(
  program: Program,
  plan: Omit<SandboxPlan, 'network'> & { readonly prefix?: readonly string[] },
  machine: SandboxMachine,
): readonly string[] {
  const cwd = machine.realPath(program.cwd);
  const flags = mountsOf(program, plan, machine).flatMap(({ flags: each }) => each);
  const run = [...(plan.prefix ?? []), program.command, ...program.args];
  return [...NAMESPACES, '--unshare-net', '--ro-bind', '/', '/', ...DEVICES, ...flags, '--chdir', cwd, '--', ...run];
}

function mountsOf(
  program: Program,
  plan: Pick<SandboxPlan, 'home' | 'hidden' | 'readable'>,
  machine: SandboxMachine,
): readonly Mount[] {
  const { env } = program;
  const cwd = machine.realPath(program.cwd);
  const homes = [env['HOME'], machine.home, '/root', '/home'].filter(
    (path) => path !== undefined && machine.kindOf(path) === 'folder',
  );
  const outside = [...homes, '/run', ...machine.temporary].map((path) => machine.realPath(path ?? ''));
  const hidden = plan.hidden.map((path) => machine.realPath(path));
  const covered = [...new Set([...outside, ...hidden])];
  const over = outside.find((path) => isWithin(path, cwd)) ?? hidden.find((path) => path === cwd);
  if (over !== undefined) {
    throw new BackendError(
      `its folder ${cwd} holds ${over}, which a sandbox hides: give it a folder of its own as "cwd"`,
      { terminal: true },
    );
  }
  const [home] = homes;
  const isOpen = (path: string): boolean => !isWithin(path, cwd) && !covered.some((each) => isWithin(each, path));
  return [
    ...covered.filter((path) => machine.kindOf(path) === 'folder').map((path) => mount(path, ['--tmpfs', path])),
    ...covered
      .filter((path) => machine.kindOf(path) === 'file')
      .map((path) => mount(path, ['--ro-bind', '/dev/null', path])),
    ...(home === undefined ? [] : [mount(machine.realPath(home), ['--bind', plan.home, machine.realPath(home)], 1)]),
    ...readablePaths(program, plan, machine)
      .filter(isOpen)
      .map((path) => mount(path, ['--ro-bind', path, path], 1)),
    mount(cwd, ['--bind', cwd, cwd], 2),
  ].toSorted((one, other) => one.depth - other.depth || one.rank - other.rank);
}

type Mount = { readonly depth: number; readonly rank: number; readonly flags: readonly string[] };

function mount(path: string, flags: readonly string[], rank = 0): Mount {
  return { depth: path.split(sep).filter((part) => part !== '').length, rank, flags };
}

function readablePaths(
  { command, cwd, env }: Program,
  plan: Pick<SandboxPlan, 'readable'>,
  machine: SandboxMachine,
): readonly string[] {
  const folders = (env['PATH'] ?? '').split(delimiter).filter((path) => path.startsWith(sep));
  const named = /[\\/]/.test(command) ? [resolve(cwd, command)] : folders.map((folder) => join(folder, command));
  const programs = named.filter((path) => machine.kindOf(path) === 'file');
  const found = [...folders, ...programs.map((path) => dirname(machine.realPath(path))), '/etc/resolv.conf'];
  const wanted = [...found, ...plan.readable].filter((path) => machine.kindOf(path) !== null);
  return [...new Set(wanted.map((path) => machine.realPath(path)))];
}

function isWithin(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === '' || (way !== '..' && !way.startsWith(`..${sep}`));
}

function thisMachine(): SandboxMachine {
  const all = ['/tmp', '/var/tmp', tmpdir()].filter((path) => existsSync(path));
  return {
    kindOf(path) {
      const found = statSync(path, { throwIfNoEntry: false });
      return found === undefined ? null : found.isDirectory() ? 'folder' : 'file';
    },
    realPath: (path) => (existsSync(path) ? realpathSync(path) : path),
    home: homedir(),
    temporary: [...new Set(all.map((path) => realpathSync(path)))],
  };
}

/**
 * Returns the path of `bwrap`, or `null`. Searches Conch's PATH, never the agent's: an agent could replace the
 * program.
 */
function bwrapPath(): string | null {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((path) => path.startsWith(sep));
  return folders.map((folder) => join(folder, 'bwrap')).find((path) => existsSync(path)) ?? null;
}

/** What a sandboxed program can reach over the network. */
export type SandboxNetwork = {
  /**
   * Allowed hosts: a name, `*.name` for subdomains, or an IPv4 address, each with an optional `:port`. `null`: every
   * host. Addresses of this machine are refused, also loopback, link-local, multicast and other special addresses
   * (`LINKS`). Exceptions: `ports` on 127.0.0.1, and an IP address listed with its port.
   */
  readonly hosts: readonly string[] | null;
  /** Ports on 127.0.0.1 that are reachable. */
  readonly ports: readonly number[];
};

type SandboxExit = {
  /** The command of the relay, put before the program and its arguments. */
  readonly prefix: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly readable: readonly string[];
  close(): void;
};

/** Opens a proxy for one sandboxed program, on a socket that only this user can access. */
async function openSandboxExit(network: SandboxNetwork, env: Readonly<Record<string, string>>): Promise<SandboxExit> {
  const folder = openPrivateFolder();
  const socket = `${folder.path}/proxy`;
  const { RequestError, Server } = await import('proxy-chain');
  const upstream = upstreamOf(env);
  const refusal = (text: string): Error => new RequestError(`Conch: ${text}`, FORBIDDEN);
  const proxy = new Server({ prepareRequestFunction: (request) => permit(request, network, { upstream, refusal }) });
  const relayServer = createServer((from) => {
    // proxy-chain refuses a connection without a remote address, and a Unix socket has none.
    Object.defineProperty(from, 'remoteAddress', { value: '127.0.0.1' });
    proxy.server.emit('connection', from);
  });
  await once(relayServer.listen(socket), 'listening');
  const here = [...new Set([...network.ports, ...localPorts(network)])];
  const url = `http://127.0.0.1:${PROXY_PORT}`;
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY'].flatMap((name) => [name, name.toLowerCase()]);
  return {
    prefix: [process.execPath, RELAY, socket, `${PROXY_PORT}`, here.join(',')],
    env: {
      ...Object.fromEntries(names.map((name) => [name, url])),
      NO_PROXY: LOCAL,
      no_proxy: LOCAL,
      NODE_USE_ENV_PROXY: '1',
    },
    readable: [folder.path, RELAY, process.execPath],
    close() {
      relayServer.close();
      proxy.closeConnections();
      folder.remove();
    },
  };
}

type Request = { readonly hostname: string; readonly port: number };

/** `upstream`: the proxy in the program's environment, or `null`. `refusal` makes the error that refuses a request. */
type Exit = { readonly upstream: string | null; readonly refusal: (text: string) => Error };

/**
 * Rejects with a refusal when the host is not allowed. Rejects also when the host resolves to an address of this
 * machine, or to a loopback, link-local, multicast or other special address (`LINKS`). Exceptions: `ports` on
 * 127.0.0.1, and an IP address listed with its port. Resolves with connection options: direct for the exceptions, else
 * through `upstream` if there is one.
 */
async function permit(request: Request, { hosts, ports }: SandboxNetwork, { upstream, refusal }: Exit) {
  const host = request.hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  const { port } = request;
  if (host === '127.0.0.1' && ports.includes(port)) return {};
  const isNamed = hosts?.some((named) => isNamedBy(named, host, port)) ?? true;
  if (!isNamed) throw refusal(`${host}:${port} is not an allowed host of this sandbox`);
  // An address with its port in the list was allowed on purpose, even if it is this machine.
  if (hosts?.includes(`${host}:${port}`) === true && isIP(host) !== 0) return {};
  // A name that does not resolve here within 1 s may resolve at the upstream proxy.
  const looked = await withinMs(
    1_000,
    promises.lookup(host, { all: true }).catch(() => []),
    systemTimers,
  );
  const found = looked === LATE ? [] : looked;
  if (found.some(({ address }) => isOfThisMachine(address)))
    throw refusal(`${host} is this machine, which a sandbox cannot reach`);
  if (upstream !== null) return { upstreamProxyUrl: upstream };
  return { dnsLookup: foreignLookup as typeof lookup };
}

function isNamedBy(named: string, host: string, port: number): boolean {
  const [, name = '', only] = /^(.*?)(?::(\d+))?$/.exec(named.toLowerCase()) ?? [];
  if (only !== undefined && Number(only) !== port) return false;
  return name.startsWith('*.') ? host.endsWith(name.slice(1)) : host === name;
}

/**
 * Returns the ports of the `hosts` entries for 127.0.0.1. The relay listens on these ports, because programs do not use
 * the proxy for 127.0.0.1.
 */
function localPorts({ hosts }: SandboxNetwork): readonly number[] {
  return (hosts ?? []).flatMap((named) => {
    const [, port] = /^127\.0\.0\.1:(\d+)$/.exec(named) ?? [];
    return port === undefined ? [] : [Number(port)];
  });
}

/**
 * Works like `dns.lookup`, but fails for a name that resolves to this machine, or to a loopback, link-local, multicast
 * or other special address (`LINKS`). Otherwise a name could bypass the rule against these addresses.
 */
function foreignLookup(
  hostname: string,
  options: LookupOptions,
  done: (error: Error | null, found: string | LookupAddress[], family?: number) => void,
): void {
  lookup(hostname, { ...options, all: true }, (error, found) => {
    const [first] = found ?? [];
    if (error !== null || first === undefined) return done(error ?? new Error(`${hostname} has no address`), []);
    const own = found.find(({ address }) => isOfThisMachine(address));
    if (own !== undefined) return done(new Error(`${hostname} is this machine (${own.address})`), []);
    if (options.all === true) done(null, found);
    else done(null, first.address, first.family);
  });
}

/**
 * Returns whether an address is this machine's own, loopback, link-local, multicast, or another special address
 * (`LINKS`). An IPv6 address that maps an IPv4 address counts as the IPv4 address.
 */
function isOfThisMachine(address: string): boolean {
  const own = new BlockList();
  for (const each of Object.values(networkInterfaces()).flatMap((all) => all ?? []))
    own.addAddress(each.address, each.family === 'IPv6' ? 'ipv6' : 'ipv4');
  const [plain = ''] = address.split('%');
  const family = isIP(plain) === 6 ? 'ipv6' : 'ipv4';
  return LINKS.check(plain, family) || own.check(plain, family);
}

/**
 * Addresses refused like this machine's own: loopback, `0.0.0.0/8`, link-local, multicast, broadcast, `::/96`, and
 * NAT64. IPv6 addresses that map IPv4 (`::ffff:0:0/96`) are in this list only for its IPv4 ranges.
 */
const LINKS = new BlockList();
for (const [net, bits] of [
  ['127.0.0.0', 8],
  ['0.0.0.0', 8],
  ['169.254.0.0', 16],
  ['224.0.0.0', 4],
  ['255.255.255.255', 32],
] as const)
  LINKS.addSubnet(net, bits, 'ipv4');
for (const [net, bits] of [
  ['::', 96],
  ['fe80::', 10],
  ['ff00::', 8],
  ['64:ff9b::', 96],
] as const)
  LINKS.addSubnet(net, bits, 'ipv6');

function upstreamOf(env: Readonly<Record<string, string>>): string | null {
  const named = env['HTTPS_PROXY'] ?? env['https_proxy'] ?? env['HTTP_PROXY'] ?? env['http_proxy'] ?? '';
  return named === '' ? null : named;
}

const RELAY = programBeside('sandbox-relay', import.meta.url);
const PROXY_PORT = 3_128;
const LOCAL = '127.0.0.1,localhost';
const FORBIDDEN = 403;

/** A folder for the private files of one process. Only this user can read the folder. */
type PrivateFolder = {
  readonly path: string;
  /** Writes files: a text for each file name. */
  write(files: Readonly<Record<string, string>>): void;
  /** Deletes the folder with all its files. */
  remove(): void;
};

/** Creates a private folder in the system's temporary folder. */
export function openPrivateFolder(): PrivateFolder {
  const path = mkdtempSync(join(tmpdir(), 'conch-agent-'));
  return {
    path,
    write(files) {
      for (const [name, text] of Object.entries(files)) writeFileSync(join(path, name), text, { mode: 0o600 });
    },
    remove: () => rmSync(path, { recursive: true, force: true }),
  };
}
