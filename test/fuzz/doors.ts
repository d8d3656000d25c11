import { createHmac } from 'node:crypto';
import { WebSocket } from 'ws';
import { pageSession } from '../../src/adapters/console/access.ts';
import type { Random } from '../kill/random.ts';
import { AGENT_MESSAGES, HOST_MESSAGES } from './acp.ts';
import { leaving, oddText, travelling } from './bytes.ts';
import type { Input } from './bytes.ts';
import { frameBytes, textFrame, textsIn } from './frames.ts';
import { plain, requestBytes, upgrade } from './http.ts';
import type { Request } from './http.ts';
import { jsonText } from './json.ts';
import type { Json } from './json.ts';
import { DISPATCHES, GATEWAY_FRAMES, PAGE_FRAMES, SLACK_BODIES, TOOL_CALLS, commandIn, filled } from './samples.ts';
import type { Stage, Tools } from './stage.ts';
import { ANSWER_MS, deliver } from './wire.ts';
import type { Outcome } from './wire.ts';

/** An entry point of the program or of the bridge. */
export type Door = {
  readonly name: string;
  /** Makes an input from random numbers. */
  readonly input: (random: Random, stage: Stage) => Input;
  readonly send: (stage: Stage, input: Input, random: Random) => Promise<Outcome>;
  /** True when the entry point answers a well-formed request. */
  readonly answers: (stage: Stage) => Promise<boolean>;
  /** The longest allowed silence in a request, in milliseconds, and the port that limits it. */
  readonly silence?: { readonly ms: number; readonly port: (stage: Stage) => number | null };
};

/** Time limits of the servers, each with the interval of their checks. */
const REMOTE_SILENCE_MS = 5_000 + 1_000;
const TOOLS_SILENCE_MS = 5_000 + 30_000;
const USUAL_SILENCE_MS = 60_000 + 30_000;

/** All doors. */
export const DOORS: readonly Door[] = [
  {
    name: 'console http',
    input: (random, stage) => travelling(random, requestBytes(random, consoleRequest(random, stage))),
    send: (stage, input) => deliver(stage.consolePort, null, input),
    answers: (stage) => isStatus(stage.consolePort, '/healthz', 200),
    silence: { ms: USUAL_SILENCE_MS, port: ({ consolePort }) => consolePort },
  },
  {
    name: 'console websocket',
    input: (random, stage) => talk(random, pageHandshake(stage), texts(random, filled(PAGE_FRAMES, stage))),
    send: (stage, input) => deliver(stage.consolePort, null, input),
    answers: (stage) => isOpened(stage.consolePort, '/socket', headersOf(pageHandshake(stage)), protocolsOf(stage)),
  },
  {
    name: 'remote agents http',
    input: (random, stage) => {
      const right: Request = { method: 'GET', target: '/agent', headers: [host(stage.remotePort), bearer(stage)] };
      return travelling(random, requestBytes(random, right));
    },
    send: toRemote,
    answers: (stage) => isStatus(stage.remotePort, '/', 426),
    silence: { ms: REMOTE_SILENCE_MS, port: ({ remotePort }) => remotePort },
  },
  {
    name: 'remote agents upgrade',
    input: (random, stage) => travelling(random, requestBytes(random, agentHandshake(stage))),
    send: toRemote,
    answers: isAgentLetIn,
  },
  {
    name: 'remote agents websocket',
    input: (random, stage) => talk(random, agentHandshake(stage), texts(random, AGENT_MESSAGES)),
    send: toRemote,
    answers: isAgentLetIn,
  },
  {
    name: 'tools over loopback',
    input: (random, stage) => travelling(random, requestBytes(random, toolCall(random, stage.localTools()))),
    send: (stage, input) => toTools(stage.localTools(), input),
    answers: (stage) => areListed(stage.localTools()),
    silence: { ms: TOOLS_SILENCE_MS, port: (stage) => stage.localTools()?.port ?? null },
  },
  {
    name: 'tools over the remote host',
    input: (random, stage) => travelling(random, requestBytes(random, toolCall(random, stage.remoteTools()))),
    send: (stage, input) => toTools(stage.remoteTools(), input),
    answers: (stage) => areListed(stage.remoteTools()),
  },
  {
    name: 'slack http',
    input: (random, stage) => travelling(random, requestBytes(random, slackRequest(random, stage))),
    send: (stage, input) => deliver(stage.slackPort, null, input),
    answers: async (stage) => {
      const { method, target, headers, body = '' } = signed(stage, '{"type":"url_verification","challenge":"x"}');
      const answer = await ask(`http://127.0.0.1:${stage.slackPort}${target}`, { method, headers: [...headers], body });
      return answer?.status === 200;
    },
    silence: { ms: USUAL_SILENCE_MS, port: ({ slackPort }) => slackPort },
  },
  {
    name: 'discord gateway',
    input: (random, stage) => {
      const [text = ''] = texts(random, random.chance(0.7) ? filled(DISPATCHES, stage) : filled(GATEWAY_FRAMES, stage));
      return { pieces: [Buffer.from(text)], end: 'stay' };
    },
    send: async ({ discord }, { pieces }) => {
      if (discord.connected() === 0) return 'absent';
      for (const piece of pieces) discord.raw(piece.toString('utf8'));
      return 'done';
    },
    answers: (stage) => isStatus(stage.consolePort, '/healthz', 200),
  },
  {
    name: 'agent lines',
    input: (random) => lines(random, AGENT_MESSAGES),
    send: (stage, input) => stage.agentLines.send(input),
    answers: (stage) => isStatus(stage.consolePort, '/healthz', 200),
  },
  {
    name: 'bridge host',
    input: (random) => {
      const frames = texts(random, HOST_MESSAGES).map((text) => frameBytes(random, 'server', text));
      return { pieces: frames, end: random.chance(0.8) ? 'stay' : leaving(random) };
    },
    send: (stage, input) => stage.bridgeHost.send(input),
    answers: isBridged,
  },
  {
    name: 'bridge agent lines',
    input: (random) => lines(random, AGENT_MESSAGES),
    send: (stage, input) => stage.bridgeAgent.send(input),
    answers: isBridged,
  },
];

type Header = readonly [name: string, value: string];

function host(port: number): Header {
  return ['Host', `127.0.0.1:${port}`];
}

function bearer({ remoteToken }: Stage): Header {
  return ['Authorization', `Bearer ${remoteToken}`];
}

function headersOf({ headers }: Request): Record<string, string> {
  return Object.fromEntries(headers.filter(([name]) => /^(?:cookie|origin|authorization)$/i.test(name)));
}

function consoleRequest(random: Random, stage: Stage): Request {
  const headers = [host(stage.consolePort)];
  if (random.chance(0.5)) return { method: 'GET', target: random.pick(['/', '/index.html', '/healthz']), headers };
  const line = commandIn(random);
  const body = jsonText(random, random.chance(0.7) ? { channel: stage.channel, line } : { line });
  return {
    method: 'POST',
    target: '/ctl',
    headers: [...headers, ['Authorization', `Bearer ${stage.consoleToken()}`]],
    body,
  };
}

function protocolsOf(stage: Stage): string[] {
  return ['conch', pageSession(stage.consoleToken(), 0).part];
}

function pageHandshake(stage: Stage): Request {
  const port = stage.consolePort;
  const { cookie: value } = pageSession(stage.consoleToken(), Date.now());
  const cookie: Header = ['Cookie', `conch_${port}=${value}`];
  const part: Header = ['Sec-WebSocket-Protocol', protocolsOf(stage).join(', ')];
  return upgrade('/socket', [host(port), ['Origin', `http://127.0.0.1:${port}`], cookie, part]);
}

function agentHandshake(stage: Stage): Request {
  return upgrade('/agent', [host(stage.remotePort), bearer(stage)]);
}

function toolCall(random: Random, tools: Tools | null): Request {
  const headers: readonly Header[] = [
    host(tools?.port ?? 0),
    ['Authorization', tools?.bearer ?? ''],
    ['Content-Type', 'application/json'],
    ['Accept', 'application/json, text/event-stream'],
  ];
  return { method: 'POST', target: '/mcp', headers, body: jsonText(random, random.pick(TOOL_CALLS)) };
}

function slackRequest(random: Random, stage: Stage): Request {
  const { form, value } = random.pick(filled(SLACK_BODIES, stage)) as { form: string; value: { [key: string]: Json } };
  const text = form === 'fields' ? fields(random, value) : jsonText(random, value);
  const body = form === 'payload' ? `payload=${encodeURIComponent(text.toWellFormed())}` : text;
  return signed(stage, random.chance(0.05) ? `${body}${oddText(random)}` : body, form === 'json');
}

function fields(random: Random, value: { readonly [key: string]: Json }): string {
  const given = Object.entries(value).map(([key, each]): [string, string] => [
    key,
    random.chance(0.1) ? oddText(random) : typeof each === 'string' ? each : JSON.stringify(each),
  ]);
  return new URLSearchParams(given).toString();
}

function signed({ slack }: Stage, body: string, json = true): Request {
  const seconds = String(Math.floor(Date.now() / 1_000));
  const hash = createHmac('sha256', slack.signingSecret).update(`v0:${seconds}:${body}`).digest('hex');
  const headers: readonly Header[] = [
    ['Host', 'slack'],
    ['Content-Type', json ? 'application/json' : 'application/x-www-form-urlencoded'],
    ['X-Slack-Request-Timestamp', seconds],
    ['X-Slack-Signature', `v0=${hash}`],
  ];
  return { method: 'POST', target: '/slack/events', headers, body };
}

/** Returns 1 to 5 texts, each made from a sample. */
function texts(random: Random, samples: readonly Json[]): readonly string[] {
  return Array.from({ length: random.between(1, 5) }, () => jsonText(random, random.pick(samples)));
}

/** A handshake, mostly correct, with frames after it. */
function talk(random: Random, handshake: Request, said: readonly string[]): Input {
  const first = random.chance(0.95) ? plain(handshake) : requestBytes(random, handshake);
  const frames = said.map((text) => frameBytes(random, 'client', text));
  const pieces = random.chance(0.2) ? [Buffer.concat([first, ...frames])] : [first, ...frames];
  return { pieces, end: leaving(random) };
}

/** Lines of an agent. Mostly the agent stays connected. */
function lines(random: Random, samples: readonly Json[]): Input {
  const bytes = Buffer.from(`${texts(random, samples).join('\n')}\n`);
  const { pieces } = travelling(random, bytes);
  return { pieces, end: random.chance(0.95) ? 'stay' : leaving(random) };
}

/** Sends from a random address, so that a lockout of one address does not block other inputs. */
function toRemote(stage: Stage, input: Input, random: Random): Promise<Outcome> {
  return deliver(stage.remotePort, someAddress(random), input);
}

function someAddress(random: Random): string | null {
  const part = (): number => random.between(1, 250);
  return process.platform === 'linux' ? `127.${part()}.${part()}.${part()}` : null;
}

async function toTools(tools: Tools | null, input: Input): Promise<Outcome> {
  return tools === null ? 'absent' : await deliver(tools.port, null, input);
}

async function ask(
  url: string,
  init: { readonly method: string; readonly headers: [string, string][] | Header[]; readonly body?: string },
): Promise<Response | null> {
  try {
    const headers = init.headers
      .filter(([name]) => name !== 'Host')
      .map(([name, value]): [string, string] => [name, value]);
    const response = await fetch(url, { ...init, headers, signal: AbortSignal.timeout(ANSWER_MS) });
    await response.arrayBuffer();
    return response;
  } catch {
    return null;
  }
}

async function isStatus(port: number, path: string, status: number): Promise<boolean> {
  const answer = await ask(`http://127.0.0.1:${port}${path}`, { method: 'GET', headers: [] });
  return answer?.status === status;
}

async function areListed(tools: Tools | null): Promise<boolean> {
  if (tools === null) return false;
  const call = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
  const headers: Header[] = [
    ['Authorization', tools.bearer],
    ['Content-Type', 'application/json'],
    ['Accept', 'application/json, text/event-stream'],
  ];
  const answer = await ask(`http://127.0.0.1:${tools.port}/mcp`, { method: 'POST', headers, body: call });
  return answer?.status === 200;
}

function isAgentLetIn(stage: Stage): Promise<boolean> {
  return isOpened(stage.remotePort, '/agent', Object.fromEntries([bearer(stage)]));
}

function isOpened(
  port: number,
  path: string,
  headers: Record<string, string>,
  protocols: string[] = [],
): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, protocols, { headers, handshakeTimeout: ANSWER_MS });
    socket.on('open', () => {
      resolve(true);
      socket.close();
    });
    socket.on('error', () => resolve(false));
  });
}

/** True when a request of the host reaches the agent through the bridge, and its answer returns. */
async function isBridged({ bridgeHost }: Stage): Promise<boolean> {
  await bridgeHost.send({ pieces: [], end: 'reset' });
  const question = JSON.stringify({ jsonrpc: '2.0', id: 'check', method: '_ping', params: {} });
  const input: Input = { pieces: [textFrame('server', question)], end: 'stay' };
  const isAnswer = (bytes: Buffer): boolean => textsIn(bytes).some((text) => text.includes('"id":"check"'));
  for (const end = performance.now() + ANSWER_MS; performance.now() < end;) {
    const heard = bridgeHost.hears(isAnswer, ASK_AGAIN_MS);
    await bridgeHost.send(input);
    if (await heard) return true;
  }
  return false;
}

const ASK_AGAIN_MS = 500;
