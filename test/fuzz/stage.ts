import { createHash } from 'node:crypto';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { WebSocket } from 'ws';
import { z } from 'zod';
import { addAgentToken } from '../../src/agents/backends/remote/tokens.ts';
import { startDiscord } from '../adapters/discord/server.ts';
import type { DiscordServer } from '../adapters/discord/server.ts';
import { startSlack } from '../adapters/slack/server.ts';
import type { SlackServer } from '../adapters/slack/server.ts';
import { configOn } from '../e2e/slack.ts';
import { clearPlace, freePort, makePlace, startBot } from '../kill/bot.ts';
import type { Bot } from '../kill/bot.ts';
import { SESSION, answerOf } from './acp.ts';
import { openPlug } from './wire.ts';
import type { Plug } from './wire.ts';

/** The port of an agent's tools, and its authorization header. */
export type Tools = { readonly port: number; readonly bearer: string };

/** The real program with every door open, a bridge, and their peers. */
export type Stage = {
  readonly consolePort: number;
  readonly remotePort: number;
  readonly slackPort: number;
  readonly channel: string;
  /** The Slack server that the program is connected to. */
  readonly slack: SlackServer;
  /** The Discord server whose gateway the program is connected to. */
  readonly discord: DiscordServer;
  /** The token of `conch ctl`, which opens the console. The cookie holds it, too. */
  readonly consoleToken: () => string;
  readonly remoteToken: string;
  /** The tools of an agent that the program started, and of one that dialled in; `null` while unknown. */
  readonly localTools: () => Tools | null;
  readonly remoteTools: () => Tools | null;
  /** The program's agent whose lines the fuzzer chooses. */
  readonly agentLines: Plug;
  /** The host of the bridge, and its agent. */
  readonly bridgeHost: Plug;
  readonly bridgeAgent: Plug;
  /** The error of the program or the bridge when one of them ended or is about to; else `null`. */
  readonly fallen: () => string | null;
  /** Logged faults that the program survived. */
  readonly faults: () => readonly string[];
  /** Restarts the program or the bridge if it ended. */
  revive(): Promise<void>;
  stop(): Promise<void>;
};

const PIPE_AGENT = new URL('fixtures/pipe-agent.ts', import.meta.url).pathname;
const BRIDGE = new URL('fixtures/bridge.ts', import.meta.url).pathname;
/** An agent whose process ended returns after a while. Until then its door is skipped. */
const LINES_WAIT_MS = 0;

/** Starts everything on free local ports. */
export async function setStage(): Promise<Stage> {
  const [slackPort, remotePort] = [await freePort(), await freePort()];
  const slack = await startSlack({ requestUrl: `http://127.0.0.1:${slackPort}/slack/events`, retryDelaysMs: [] });
  const discord = await startDiscord({ identifyLimit: Number.MAX_SAFE_INTEGER, maxConcurrency: 100 });
  const local = createKeeper();
  const toolsPlug = await openPlug(local.lines);
  const agentLines = await openPlug(createKeeper().lines, LINES_WAIT_MS);
  const bridgeAgent = await openPlug(createKeeper().lines, LINES_WAIT_MS);
  const bridgeHost = await openPlug(accepting);
  const acp = (port: number) => ({ kind: 'acp', command: process.execPath, args: [PIPE_AGENT, String(port)] });
  const ids = ['pm', 'dev', 'keeper', 'tools', 'lines'];
  const config = {
    ...configOn(slack),
    agents: [
      { id: 'pm', backend: { kind: 'scripted', script: 'pm', wordMs: 0 } },
      { id: 'dev', backend: { kind: 'remote' } },
      { id: 'keeper', backend: { kind: 'remote' } },
      { id: 'tools', backend: acp(toolsPlug.port) },
      { id: 'lines', backend: acp(agentLines.port) },
    ],
    channels: [
      { id: 'console:demo', agents: ids },
      { id: `slack:${slack.ids.channel}`, agents: ['pm', 'keeper'] },
      { id: `discord:${discord.channel}`, agents: ['pm'] },
    ],
    remote: { port: remotePort },
    adapters: { slack: { mode: 'http', port: slackPort } },
    log: { level: 'error', pretty: false },
  };
  const place = await makePlace(config);
  const tokens = ['dev', 'keeper'].map((agent) => addAgentToken(place.dataDir, agent, { at: 0 }));
  const [remoteToken = '', keeperToken = ''] = tokens;
  const env = {
    SLACK_BOT_TOKEN: slack.botToken,
    SLACK_SIGNING_SECRET: slack.signingSecret,
    SLACK_API_URL: slack.apiUrl,
    DISCORD_TOKEN: discord.token,
    DISCORD_API_URL: discord.apiUrl,
  };
  const past: string[] = [];
  let bot = startBot(place, { env });
  let bridge = startBridge(bridgeHost.port, bridgeAgent.port);
  let sessions = 0;
  const remote = createKeeper(() => `session-${(sessions += 1)}`);
  const stopKeeping = keepConnected(remotePort, keeperToken, remote);
  const stage: Stage = {
    consolePort: place.port,
    remotePort,
    slackPort,
    channel: 'console:demo',
    slack,
    discord,
    consoleToken: () => readFileSync(join(place.dataDir, 'console-token'), 'utf8').trim(),
    remoteToken,
    localTools: local.tools,
    remoteTools: remote.tools,
    agentLines,
    bridgeHost,
    bridgeAgent,
    fallen: () => endOf(bot) ?? bridge.fallen(),
    faults: () => [...past, ...faultsOf(bot), ...bridge.faults()],
    async revive() {
      if (endOf(bot) !== null) {
        past.push(...faultsOf(bot));
        await bot.end('SIGKILL');
        bot = startBot(place, { env });
        await bot.ready();
      }
      if (bridge.fallen() === null) return;
      past.push(...bridge.faults());
      bridge = startBridge(bridgeHost.port, bridgeAgent.port);
    },
    async stop() {
      stopKeeping();
      await Promise.all([bot.end('SIGKILL'), bridge.stop()]);
      for (const plug of [toolsPlug, agentLines, bridgeAgent, bridgeHost]) plug.close();
      await Promise.all([slack.close(), discord.close()]);
      clearPlace(place);
    },
  };
  try {
    await bot.ready();
    return stage;
  } catch (error) {
    await stage.stop();
    throw error;
  }
}

const FAULT = /could not be (?:answered|accepted|taken|processed)/;

/** The reason why the program ends or ended; `null` while it runs. */
function endOf(bot: Bot): string | null {
  const out = bot.out();
  const fatal = out.indexOf('"level":"fatal"');
  if (fatal !== -1) return out.slice(out.lastIndexOf('\n', fatal) + 1).split('\n', 1)[0] ?? out;
  const { exitCode, signalCode } = bot.child;
  return exitCode === null && signalCode === null ? null : `ended with ${exitCode ?? signalCode}: ${bot.err()}`;
}

function faultsOf(bot: Bot): readonly string[] {
  return bot
    .out()
    .split('\n')
    .filter((line) => FAULT.test(line));
}

type RunningBridge = {
  readonly fallen: () => string | null;
  readonly faults: () => readonly string[];
  readonly stop: () => Promise<void>;
};

function startBridge(hostPort: number, agentPort: number): RunningBridge {
  const child: ChildProcess = spawn(process.execPath, [BRIDGE, String(hostPort), String(agentPort)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let err = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (err += text));
  const isAlive = (): boolean => child.exitCode === null && child.signalCode === null;
  return {
    fallen: () => (isAlive() ? null : `the bridge ended with ${child.exitCode ?? child.signalCode}: ${err}`),
    faults: () => err.split('\n').filter((line) => FAULT.test(line)),
    async stop() {
      if (!isAlive()) return;
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    },
  };
}

const WEBSOCKET_SALT = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

/** A host that accepts a bridge and sends nothing more. */
function accepting(bytes: Buffer, first: boolean): Buffer | null {
  const key = /sec-websocket-key: (\S+)/i.exec(bytes.toString('latin1'))?.[1];
  if (!first || key === undefined) return null;
  const accept = createHash('sha1').update(`${key}${WEBSOCKET_SALT}`).digest('base64');
  const head = `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade`;
  return Buffer.from(`${head}\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
}

type Keeper = { readonly lines: (bytes: Buffer) => Buffer | null; readonly tools: () => Tools | null };

/** A correct agent that records the tools it is told of. */
function createKeeper(session: () => string = () => SESSION): Keeper {
  let tools: Tools | null = null;
  const answer = (line: string): string => {
    const message = parsed(line);
    tools = toolsIn(message) ?? tools;
    const reply = answerOf(message, session);
    return reply === null ? '' : `${JSON.stringify(reply)}\n`;
  };
  return {
    lines: (bytes) => {
      const text = bytes.toString('utf8').split('\n').map(answer).join('');
      return text === '' ? null : Buffer.from(text);
    },
    tools: () => tools,
  };
}

function parsed(line: string): object {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}

const opening = z.looseObject({
  params: z.looseObject({
    mcpServers: z.array(z.object({ url: z.url(), headers: z.array(z.object({ value: z.string() })) })).min(1),
  }),
});

function toolsIn(message: object): Tools | null {
  const server = opening.safeParse(message).data?.params.mcpServers[0];
  return server === undefined
    ? null
    : { port: Number(new URL(server.url).port), bearer: server.headers[0]?.value ?? '' };
}

/** Keeps an agent connected. The returned function ends that. */
function keepConnected(port: number, token: string, { lines }: Keeper): () => void {
  let over = false;
  let socket: WebSocket | null = null;
  const dial = (): void => {
    if (over) return;
    socket = new WebSocket(`ws://127.0.0.1:${port}/agent`, { headers: { Authorization: `Bearer ${token}` } });
    socket.on('message', (bytes: Buffer) => {
      const answer = lines(bytes);
      if (answer !== null) socket?.send(answer.toString('utf8').trim());
    });
    socket.on('error', () => undefined).on('close', () => setTimeout(dial, REDIAL_MS).unref());
  };
  dial();
  return () => {
    over = true;
    socket?.terminate();
  };
}

const REDIAL_MS = 300;
