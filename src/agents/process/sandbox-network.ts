import { once } from 'node:events';
import { lookup } from 'node:dns';
import type { LookupAddress, LookupOptions } from 'node:dns';
import { BlockList, createServer, isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { fileURLToPath } from 'node:url';
import { RequestError, Server } from 'proxy-chain';
import { openPrivateFolder } from './private-folder.ts';

/** What a sandboxed program reaches over the network. */
export type SandboxNetwork = {
  /**
   * Hosts, each a name, `*.name` for all names below it, or an address, with `:port` if only that port counts. `null`: every host but
   * this machine. This machine is reached only at an address that stands here with its port.
   */
  readonly hosts: readonly string[] | null;
  /** Ports of Conch on 127.0.0.1: its tool server's. */
  readonly ports: readonly number[];
};

/** The way from a sandbox to the network. */
type SandboxExit = {
  /** Stands before the program and its arguments. */
  readonly prefix: readonly string[];
  /** Variables by which programs find the proxy. */
  readonly env: Readonly<Record<string, string>>;
  /** What the sandbox must show. */
  readonly readable: readonly string[];
  close(): void;
};

/** Opens a proxy of its own for one sandboxed program, on a socket that only this user reaches. */
export async function openSandboxExit(
  network: SandboxNetwork,
  env: Readonly<Record<string, string>>,
): Promise<SandboxExit> {
  const folder = openPrivateFolder();
  const socket = `${folder.path}/proxy`;
  const proxy = new Server({ prepareRequestFunction: (request) => permit(request, network, upstreamOf(env)) });
  const door = createServer((from) => {
    // The proxy takes nobody without an address, and a socket in a folder has none.
    Object.defineProperty(from, 'remoteAddress', { value: '127.0.0.1' });
    proxy.server.emit('connection', from);
  });
  await once(door.listen(socket), 'listening');
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
      door.close();
      proxy.closeConnections();
      folder.remove();
    },
  };
}

type Request = { readonly hostname: string; readonly port: number };

/** Throws a `RequestError` for a host that is not reached. */
function permit(request: Request, { hosts, ports }: SandboxNetwork, upstream: string | null) {
  const host = request.hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  const { port } = request;
  if (host === '127.0.0.1' && ports.includes(port)) return {};
  const isNamed = hosts?.some((named) => isMeant(named, host, port)) ?? true;
  if (!isNamed) throw new RequestError(`Conch: ${host}:${port} is not among the hosts of this sandbox`, FORBIDDEN);
  // An address of this machine with its port was named on purpose.
  if (hosts?.includes(`${host}:${port}`) === true && isIP(host) !== 0) return {};
  if (isIP(host) !== 0 && isOfThisMachine(host))
    throw new RequestError(`Conch: ${host} is this machine, which a sandbox does not reach`, FORBIDDEN);
  if (upstream !== null) return { upstreamProxyUrl: upstream };
  return { dnsLookup: foreignLookup as typeof lookup };
}

function isMeant(named: string, host: string, port: number): boolean {
  const [, name = '', only] = /^(.*?)(?::(\d+))?$/.exec(named.toLowerCase()) ?? [];
  if (only !== undefined && Number(only) !== port) return false;
  return name.startsWith('*.') ? host.endsWith(name.slice(1)) : host === name;
}

/** Ports of this machine that are named with an address: programs that pass over a proxy for 127.0.0.1 reach them, too. */
function localPorts({ hosts }: SandboxNetwork): readonly number[] {
  return (hosts ?? []).flatMap((named) => {
    const [, port] = /^127\.0\.0\.1:(\d+)$/.exec(named) ?? [];
    return port === undefined ? [] : [Number(port)];
  });
}

/** As `dns.lookup`, but fails for a name that leads to this machine. */
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

function isOfThisMachine(address: string): boolean {
  const own = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
  return LINKS.check(address, family) || own.some((each) => each.address === address);
}

/** Addresses that never lead to another network: of this machine and its links, and those that embed others. */
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

/** The proxy that this machine itself goes through. */
function upstreamOf(env: Readonly<Record<string, string>>): string | null {
  const named = env['HTTPS_PROXY'] ?? env['https_proxy'] ?? env['HTTP_PROXY'] ?? env['http_proxy'] ?? '';
  return named === '' ? null : named;
}

const RELAY = fileURLToPath(new URL('sandbox-relay.ts', import.meta.url));
const PROXY_PORT = 3_128;
const LOCAL = '127.0.0.1,localhost';
const FORBIDDEN = 403;
