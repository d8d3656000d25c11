import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { copyFileSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { addAgentToken } from '../../src/agents/backends/remote/tokens.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import type { TestServer } from '../engine/postgres/server.ts';
import { clearPlace, freePort, makePlace } from './bot.ts';
import type { Bot, Place } from './bot.ts';
import { DISCORD_AGENTS, discordRoom, discordWitnesses, isDiscordQuiet } from './discord-loop.ts';
import { noFaults as noDiscordFaults, verifyDiscord } from './discord-verify.ts';
import { Fleet, copyTo } from './fleet.ts';
import { readFacts } from './journal.ts';
import { witnessFolder } from './loop.ts';
import { randomOf } from './random.ts';
import type { Random } from './random.ts';
import { noFaults as noSlackFaults, slackRoom, unrestOnSlack } from './slack-loop.ts';
import type { SlackRoom } from './slack-loop.ts';
import { verifySlack } from './slack-verify.ts';
import { WITNESS_DIR, completedPrompts } from './witness.ts';

/** The plan of a run: programs on one store and one chat platform, and faults. */
export type PlatformPlan = {
  readonly platform: 'discord' | 'slack';
  readonly server: TestServer;
  readonly processes: number;
  readonly cycles: number;
  readonly seed: number;
  /** The only fault to cause. `null`: all of them. */
  readonly only: PlatformFault | null;
  readonly tell: (line: string) => void;
};

/** `end`: the leader gets SIGTERM. `freeze`: it stands still for 0.5 to 10 s. Each has its weight. */
const FAULTS = { end: 4, kill: 3, freeze: 2 } as const;
export type PlatformFault = keyof typeof FAULTS;
type Fault = PlatformFault;

/** The fault of this name; `null` for another name. */
export function faultOf(name: string): PlatformFault | null {
  return Object.hasOwn(FAULTS, name) ? (name as PlatformFault) : null;
}

/**
 * The result of a run. `resumed`, `forfeited`: counts of turns that were open when a program took over. `decided`: how many
 * requests of agents people allowed or denied.
 */
export type PlatformReport = {
  readonly faultsMade: Readonly<Record<Fault, number>>;
  readonly messages: number;
  readonly goingOnMs: readonly number[];
  readonly resumed: number;
  readonly decided: number;
  readonly forfeited: number;
  readonly faults: Readonly<Record<string, readonly string[]>>;
};

/** A chat platform with people. It outlives the programs. */
type Room = {
  readonly env: Readonly<Record<string, string>>;
  configIn(dir: string): object;
  /** True when an agent connects to the program that serves, from a process of its own. */
  readonly hasRemote: boolean;
  /** People write until the signal. */
  act(until: AbortSignal): Promise<void>;
  readonly messages: () => number;
  /** Resolves with `null` when everything is at rest; else with what still moves. */
  unrest(bot: Bot): Promise<string | null>;
  /** Compares the channels with the store in a folder. */
  verify(dataDir: string, dir: string): Promise<Readonly<Record<string, string[]>>>;
  close(): Promise<void>;
};

/** The name of a program's own copy of the store. */
const COPY = 'shared.db';

/** Starts programs on one store. Ends, kills and freezes the serving one while people write. Then checks the result. */
export async function runPlatformFleet(plan: PlatformPlan): Promise<PlatformReport> {
  const { server, processes, cycles, seed, tell } = plan;
  const random = randomOf(seed);
  const dir = witnessFolder();
  const room = await (plan.platform === 'discord' ? onDiscord(random) : onSlack(random));
  const schema = `kill_${plan.platform}_${seed}`;
  const config = { ...room.configIn(dir), store: { postgres: server.url, schema } };
  const ports = await Promise.all(Array.from({ length: processes }, freePort));
  const places = await Promise.all(ports.map((port) => makePlace({ ...config, remote: { port } })));
  const far = room.hasRemote ? startFar(places, ports, dir) : null;
  const fleet = new Fleet(places, room.env);
  const faultsMade: Record<Fault, number> = { end: 0, kill: 0, freeze: 0 };
  const [goingOnMs, other]: [number[], string[]] = [[], []];
  try {
    fleet.fill();
    for (let cycle = 1; cycle <= cycles; cycle += 1) {
      const leader = await fleet.leader();
      const over = new AbortController();
      const acting = room.act(over.signal);
      await pause(random.between(1_000, 4_000));
      const drawn = random.pick(
        Object.entries(FAULTS).flatMap(([kind, weight]) => Array<Fault>(weight).fill(kind as Fault)),
      );
      const fault = plan.only ?? drawn;
      faultsMade[fault] += 1;
      const from = performance.now();
      const why = await strike(fault, leader, random);
      if (why !== null) other.push(`cycle ${cycle}: ${why}`);
      const next = await fleet.leader();
      goingOnMs.push(Math.round(performance.now() - from));
      over.abort();
      await acting;
      tell(`cycle ${cycle}: ${fault}, ${next === leader ? 'the same' : 'another'} serves after ${goingOnMs.at(-1)} ms`);
      fleet.fill();
    }
    const leader = await fleet.leader();
    for (const bot of fleet.bots) if (bot !== leader) await bot.end('SIGTERM');
    const unrest = await room.unrest(leader);
    if (unrest !== null) other.push(`no rest: ${unrest}`);
    const { code } = await leader.end('SIGTERM');
    if (code !== 0) other.push(`the program ended with ${code}: ${leader.lastWords()}`);
    const audit = join(dir, 'audit');
    mkdirSync(audit);
    await copyTo(join(audit, 'conch.db'), { url: server.url, schema });
    const faults = await room.verify(audit, dir);
    const facts = await readFacts(join(audit, 'conch.db'), { doubleHolders: [], other: [] });
    const { resumed, forfeited } = restartsIn([...facts.values()]);
    return {
      faultsMade,
      messages: room.messages(),
      goingOnMs: goingOnMs.toSorted((one, another) => one - another),
      resumed,
      decided: [...facts.values()].flat().filter((fact) => fact.type === 'questionClosed' && fact.by !== null).length,
      forfeited,
      faults: { ...faults, other: [...(faults['other'] ?? []), ...other] },
    };
  } finally {
    far?.kill('SIGKILL');
    await fleet.endAll();
    await room.close();
    for (const place of places) clearPlace(place);
    rmSync(dir, { recursive: true, force: true });
  }
}

/** The agent that connects to the programs. */
const FAR = 'far';

/** Starts the remote agent. All programs know its token. */
function startFar([first, ...others]: readonly Place[], ports: readonly number[], dir: string): ChildProcess {
  if (first === undefined) throw new Error('There is no program.');
  for (const { dataDir } of [first, ...others]) mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const token = addAgentToken(first.dataDir, FAR, { at: Date.now() });
  for (const { dataDir } of others)
    copyFileSync(join(first.dataDir, 'agent-tokens.json'), join(dataDir, 'agent-tokens.json'));
  const addresses = ports.map((port) => `ws://127.0.0.1:${port}/agent`);
  return spawn(process.execPath, [new URL('far-agent.ts', import.meta.url).pathname, ...addresses], {
    env: { ...process.env, CONCH_AGENT_TOKEN: token, [WITNESS_DIR]: join(dir, FAR) },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

/** Causes a fault of the serving program. Resolves with an error text, or `null`. */
async function strike(fault: Fault, leader: Bot, random: Random): Promise<string | null> {
  if (fault === 'kill') {
    await leader.end('SIGKILL');
    return null;
  }
  if (fault === 'end') {
    const { code } = await leader.end('SIGTERM');
    return code === 0 ? null : `the program ended with ${code}: ${leader.lastWords()}`;
  }
  leader.child.kill('SIGSTOP');
  await pause(random.between(500, 10_000));
  leader.child.kill('SIGCONT');
  // A program that was declared dead ends within a few seconds.
  const ended = await Promise.race([leader.ended, pause(3_000, null)]);
  const { lockLost, databaseUnreached } = EXIT_CODES;
  if (ended === null || ended.code === lockLost || ended.code === databaseUnreached) return null;
  return `the frozen program ended with ${ended.code}: ${leader.lastWords()}`;
}

/**
 * Counts the turns that were open when a program took over, by what followed first: they resumed, or they were
 * forfeited. Leaves out turns that a person or the time ended, and floors whose settings forfeit such turns.
 */
function restartsIn(journals: readonly (readonly Fact[])[]): { readonly resumed: number; readonly forfeited: number } {
  const counts = { resumed: 0, forfeited: 0 };
  for (const facts of journals) {
    let holder: string | null = null;
    let [isCut, resumes] = [false, true];
    for (const fact of facts) {
      if (fact.type === 'configured' && fact.configuration?.settings !== undefined)
        resumes = fact.configuration.settings.onRestart === 'resume';
      if (fact.type === 'disconnected' && fact.restart) isCut = resumes && holder !== null;
      const ends = fact.type === 'turnEnded';
      if (fact.type === 'turnGranted' || fact.type === 'turnResumed' || ends) {
        const isLost = ends && fact.outcome === 'forfeited';
        if (isCut && fact.agent === holder && (isLost || !ends)) counts[isLost ? 'forfeited' : 'resumed'] += 1;
        isCut = false;
        holder = ends ? null : fact.agent;
      }
    }
  }
  return counts;
}

async function onDiscord(random: Random): Promise<Room> {
  const room = await discordRoom(random);
  const { crowd, env, server, channels } = room;
  return {
    env,
    configIn: (dir) => room.configIn(dir),
    hasRemote: false,
    act: (until) => crowd.act(until),
    messages: () => crowd.written.length,
    unrest: async (bot) => ((await isDiscordQuiet(room, bot, COPY)) ? null : 'the channels'),
    async verify(dataDir, dir) {
      const faults = noDiscordFaults();
      const witnesses = discordWitnesses(dir);
      const { written } = crowd;
      await verifyDiscord({ dataDir, server, channels, agents: DISCORD_AGENTS, written, witnesses }, faults);
      return faults;
    },
    close: () => server.close(),
  };
}

async function onSlack(random: Random): Promise<Room> {
  const room = await slackRoom(random);
  const { crowd, env, slack } = room;
  return {
    env,
    configIn: (dir) => withFar(room.configIn(dir), [slack.ids.ann, slack.ids.bob]),
    hasRemote: true,
    async act(until) {
      while (!until.aborted) {
        if (random.chance(0.3)) crowd.meddle();
        else crowd.speak(1);
        await pause(random.between(60, 350));
      }
    },
    messages: () => crowd.written.length,
    async unrest(bot) {
      const answering = setInterval(() => crowd.press('Allow once'), 300);
      return unrestOnSlack(room, bot, COPY).finally(() => clearInterval(answering));
    },
    async verify(dataDir, dir) {
      const faults = noSlackFaults();
      const witnesses = new Map([
        ['qa', completedPrompts(dir)],
        [FAR, completedPrompts(join(dir, FAR))],
      ]);
      await verifySlack(dataDir, { slack, crowd, faults, witnesses });
      return faults;
    },
    close: () => slack.close(),
  };
}

/** The configuration with the remote agent in every channel, and with these people as operators. */
function withFar(config: ReturnType<SlackRoom['configIn']>, users: readonly string[]): object {
  return {
    ...config,
    turnConfig: { ...config.turnConfig, waitTimeoutSeconds: 3 },
    operators: { users },
    agents: [...config.agents, { id: FAR, backend: { kind: 'remote' } }],
    channels: config.channels.map((channel) => ({ ...channel, agents: [...channel.agents, FAR] })),
  };
}
