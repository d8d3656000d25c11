import { readFileSync, readdirSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { vi } from 'vitest';
import { createAcpBackend } from '../../../../src/agents/backends/acp/acp-backend.ts';
import type { AcpBackendOptions } from '../../../../src/agents/backends/acp/acp-backend.ts';
import { createToolServer } from '../../../../src/agents/tools/tool-server.ts';
import { compiledCode } from '../../../lib/compiled.ts';
import type { Rig } from '../contract.ts';
import type { FakeAct, FakeManners } from './fake-acp-acts.ts';

/** The reports of the fake agents, in the order of their arrival. */
export type Told = {
  readonly pids: number[];
  readonly seen: string[];
  readonly opened: string[];
  readonly modes: string[];
  readonly choices: string[];
  /** The ids of the chosen options. */
  readonly chosen: string[];
  readonly floorTools: string[];
  readonly environments: Readonly<Record<string, string>>[];
  readonly arguments: (readonly string[])[];
  /** The names of the floor's tool server, one for each opened session. */
  readonly servers: string[];
  /** `_meta` of each new session. */
  readonly metas: unknown[];
  readonly noise: string[];
};

/** The program of a fake agent. It needs the variables in the rig's `env`. */
export const FAKE_ACP = fileURLToPath(new URL('fixtures/fake-acp.ts', import.meta.url));

export type AcpRig = Omit<Rig, 'play'> & {
  play(...acts: FakeAct[]): void;
  readonly told: Told;
  readonly env: Readonly<Record<string, string>>;
};

/** Starts fake agents as processes, and a socket from which they get their acts. */
export async function acpRig(manners: FakeManners = {}, options: Partial<AcpBackendOptions> = {}): Promise<AcpRig> {
  const plays: (readonly FakeAct[])[] = [];
  const lists = { pids: [], seen: [], opened: [], modes: [], choices: [], chosen: [], floorTools: [], noise: [] };
  const told: Told = { ...lists, environments: [], arguments: [], servers: [], metas: [] };
  const sockets = new Set<Socket>();
  let arrived = Promise.withResolvers<void>();
  const send = (socket: Socket, message: unknown) => void socket.write(`${JSON.stringify(message)}\n`);
  const answer = (message: Record<string, unknown>): unknown => {
    if (typeof message['pid'] === 'number') told.pids.push(message['pid']);
    if (message['environment']) told.environments.push(message['environment'] as Record<string, string>);
    if (message['argv']) told.arguments.push(message['argv'] as string[]);
    if (typeof message['opened'] === 'string') told.opened.push(message['opened']);
    if (message['opened'] === 'session/new') told.metas.push(message['meta']);
    if (typeof message['server'] === 'string') told.servers.push(message['server']);
    if (typeof message['mode'] === 'string') told.modes.push(message['mode']);
    if (typeof message['choice'] === 'string') told.choices.push(message['choice']);
    if (typeof message['chosen'] === 'string') told.chosen.push(message['chosen']);
    if (typeof message['tool'] === 'string') told.floorTools.push(message['tool']);
    if (typeof message['seen'] === 'string') told.seen.push(message['seen']);
    if (message['paused']) arrived.resolve();
    if (typeof message['prompt'] !== 'string') return null;
    told.seen.push(message['prompt']);
    return plays.shift() ?? [{ do: 'write', text: 'Noted.' }];
  };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    const lines = createInterface({ input: socket }).on('line', (line) => {
      const message = JSON.parse(line) as Record<string, unknown>;
      send(socket, { id: message['id'], answer: answer(message) });
    });
    lines.on('error', () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const toolServer = createToolServer();
  const env = { ...compiledCode(), RIG_PORT: String(port), FAKE_MANNERS: JSON.stringify(manners) };
  const backend = createAcpBackend({
    profile: 'generic',
    ...(options.command === undefined && { command: process.execPath, args: [FAKE_ACP] }),
    quietMs: 30,
    stopGraceMs: 200,
    toolServer,
    noise: (_seat, line) => void told.noise.push(line),
    ...options,
    env: { ...env, ...options.env },
  });
  return {
    backend,
    told,
    env,
    inject: 'next-prompt',
    crash: /^exited with code 3: it burns$/,
    play: (...acts) => void plays.push(acts),
    async paused() {
      await arrived.promise;
      arrived = Promise.withResolvers();
    },
    release: () => sockets.forEach((socket) => send(socket, { release: true })),
    seen: async () => told.seen,
    async stop() {
      await toolServer.close();
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
      const left = told.pids.flatMap(livingIn);
      if (left.length > 0) throw new Error(`left behind: ${left.join(', ')}`);
    },
  };
}

/** Returns the rig of an agent that takes messages in a running turn. The rig must be started with `STEERED`. */
export function steerable(rig: AcpRig): AcpRig {
  const received = (text: string) => vi.waitUntil(() => rig.told.seen.some((seen) => seen.includes(text)), 60_000);
  return { ...rig, inject: 'injected', received: async (text) => void (await received(text)) };
}

/** The manners of an agent that takes messages in a running turn. */
export const STEERED: FakeManners = { initialize: { _meta: { steering: { supported: true } } } };

/** Returns the living processes of a group. A zombie process does not count. */
export function livingIn(group: number): readonly number[] {
  if (!(group > 0)) throw new Error(`${group} is no process group`);
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      const [state, , pgrp] = statOf(name);
      return Number(pgrp) === group && state !== 'Z' && state !== 'X';
    })
    .map(Number);
}

function statOf(pid: string): readonly string[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return [];
  }
}
