import type { ChatAdapter, Intake } from '../src/adapters/port.ts';
import type { AgentBackend } from '../src/agents/backends/backend.ts';
import type { Config } from '../src/config/config.ts';
import { loadConfig } from '../src/config/load.ts';
import type { HumanMessage } from '../src/engine/port.ts';
import type { FloorStore } from '../src/turns/floor-store.ts';
import { systemClock, systemTimers } from '../src/lib/time.ts';
import { App } from '../src/runtime/app.ts';
import { createLog } from '../src/runtime/log.ts';
import { AGENTS, SAID, channelsNamed, openFloors } from './floors.ts';
import type { OpenFloors } from './floors.ts';
import { Meter, inLanes } from './steady.ts';
import type { Measured, Span } from './steady.ts';

/** The whole program without platform and models: its adapter accepts posts at once, its agents answer at once. */
export type Program = {
  readonly app: App;
  readonly store: FloorStore;
  readonly intake: Intake;
  /** Milliseconds from opening the file. `readyMs`: until messages are accepted. `backMs`: until open turns go on. */
  readonly readyMs: number;
  readonly backMs: number;
  stop(): Promise<void>;
};

/** The parts of a program that differ between measurements. */
export type ProgramParts = {
  readonly config: Config;
  readonly path: string;
  readonly backend: AgentBackend;
  readonly posted?: (channel: string, text: string) => void;
  readonly open?: OpenFloors;
};

/** A configuration with three agents in each of `channels` channels. Exchanges never end if `rounds` is 0. */
export function configOf(channels: number, { rounds }: { readonly rounds: number } = { rounds: 0 }): Config {
  const file = {
    turnConfig: { rounds },
    log: { level: 'warn' },
    agents: AGENTS.map((id) => ({ id, backend: { kind: 'scripted', script: 'dev' } })),
    channels: channelsNamed(channels).map((id) => ({ id, agents: AGENTS })),
  };
  const text = JSON.stringify(file);
  const readFile = (path: string) => (path.endsWith('turnConfig.json') ? { text, public: false } : null);
  const config = loadConfig({ env: {}, cwd: '/bench', readFile });
  const endless = { ...config.turnConfig, maxTurns: Number.MAX_SAFE_INTEGER };
  const { secrets } = config;
  return { ...config, secrets, channels: config.channels.map((channel) => ({ ...channel, turnConfig: endless })) };
}

const CAPABILITIES = {
  textLimit: 16_000,
  edits: true,
  receipts: true,
  cards: true,
  drafts: true,
  idempotentPosts: true,
  fileAbove: null,
} as const;

/** Starts the program. All its channels are at rest. */
export async function startProgram({
  config,
  path,
  backend,
  posted,
  open = openFloors,
}: ProgramParts): Promise<Program> {
  const begun = performance.now();
  const store = await open(path);
  const clock = systemClock();
  const failed = Promise.withResolvers<never>();
  let given: Intake | null = null;
  const adapter: ChatAdapter = {
    name: 'console',
    capabilities: CAPABILITIES,
    start: async (intake) => void (given = intake),
    stop: async () => {},
    post: async (channel, { text }) => {
      posted?.(channel, text);
      return 'p';
    },
    find: async () => null,
    receipt: async () => {},
    draft: () => {},
    card: () => {},
    catchUp: async () => ({ messages: [], changes: [], gap: null }),
  };
  const app = new App({
    config,
    store,
    clock,
    timers: systemTimers,
    log: createLog({ level: 'fatal', pretty: false, secrets: [], clock, destination: process.stderr }),
    adapters: [adapter],
    backendFor: () => backend,
    localOperators: ['ada'],
    onBroken: failed.reject,
  });
  await Promise.race([app.start(), failed.promise]);
  const readyMs = performance.now() - begun;
  await Promise.race([app.connect(), failed.promise]);
  const backMs = performance.now() - begun;
  if (given === null) throw new Error('impossible: the adapter was not started');
  return { app, store, intake: given, readyMs, backMs, stop: () => app.stop() };
}

/** An agent whose answer never ends. */
export function thinking(): AgentBackend {
  return {
    ...atOnce(() => {}),
    open: async () => ({
      prompt: () => new Promise(() => {}),
      inject: async () => 'next-prompt',
      interrupt: async () => {},
      ping: async () => {},
      close: async () => {},
    }),
  };
}

/** An agent that answers each prompt at once. Calls `prompted` before each answer. */
export function atOnce(prompted: (channel: string) => void): AgentBackend {
  return answering(async (channel) => {
    prompted(channel);
    return SAID;
  });
}

/** An agent that answers each prompt with one text. */
export function answering(answer: (channel: string, agent: string) => Promise<string>): AgentBackend {
  return {
    kind: 'at-once',
    needsSignal: false,
    promisesToAsk: true,
    open: async ({ channel, agent }) => ({
      prompt: async (_turn, report) => {
        report.text(await answer(channel, agent));
        return { how: 'completed' };
      },
      inject: async () => 'next-prompt',
      interrupt: async () => {},
      ping: async () => {},
      close: async () => {},
    }),
  };
}

/** Measures hand-overs in the whole program: from one agent's prompt to the next agent's prompt in the channel. */
export async function handOversInApp(
  path: string,
  channels: number,
  span: Span,
  open: OpenFloors = openFloors,
): Promise<Measured> {
  const meter = new Meter(span);
  const over = Promise.withResolvers<void>();
  const promptedAt = new Map<string, number>();
  const backend = atOnce((channel) => {
    const now = performance.now();
    const before = promptedAt.get(channel);
    promptedAt.set(channel, now);
    if (before !== undefined && !meter.did(before)) over.resolve();
  });
  const program = await startProgram({ config: configOf(channels), path, backend, open });
  await Promise.all(channelsNamed(channels).map((channel) => program.intake.message(personSays(channel, 1))));
  await over.promise;
  return meter.result;
}

/** Measures from a message to the first text of an agent in the whole program. A channel has one message at a time. */
export async function firstTexts(path: string, channels: number, span: Span): Promise<Measured> {
  const posted = new Map<string, () => void>();
  const config = configOf(channels, { rounds: 1 });
  const program = await startProgram({
    config,
    path,
    backend: atOnce(() => {}),
    posted: (channel) => posted.get(channel)?.(),
  });
  const ids = channelsNamed(channels);
  let count = 0;
  return await inLanes(channels, span, async (lane) => {
    const channel = ids[lane] ?? '';
    const there = new Promise<void>((resolve) => posted.set(channel, resolve));
    await Promise.all([program.intake.message(personSays(channel, (count += 1))), there]);
  });
}

/** Returns a message of Ada. `count`: its number in the channel. */
export function personSays(channel: string, count: number, text = 'Please begin.'): HumanMessage {
  return {
    id: `${channel}-${count}`,
    channel,
    author: { id: 'ada', name: 'Ada' },
    text,
    sentAt: systemClock().now(),
    order: String(count).padStart(12, '0'),
    addressed: [],
    attachments: [],
  };
}
