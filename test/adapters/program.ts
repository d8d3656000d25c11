import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Capabilities, Memory } from '../../src/adapters/port.ts';
import { BackendError } from '../../src/agents/backends/backend.ts';
import type {
  AgentBackend,
  AgentSession,
  Ending,
  InjectOutcome,
  Report,
  TurnPrompt,
} from '../../src/agents/backends/backend.ts';
import type { GatedCall } from '../../src/agents/tools/tool-gate.ts';
import { FolderTrust } from '../../src/agents/trust/folder-trust.ts';
import type { HumanMessage } from '../../src/engine/port.ts';
import { App } from '../../src/runtime/app.ts';
import { createLog } from '../../src/runtime/log.ts';
import type { AgentId, ChannelId, MessageId } from '../../src/turns/floor/settings.ts';
import { openDatabase } from '../../src/engine/sqlite/open.ts';
import type { FloorView, InboxRow, Line } from '../../src/turns/view.ts';
import { FloorStore } from '../../src/turns/floor-store.ts';
import { floorWithWork } from '../../src/work/floor-with-work.ts';
import { systemTimers } from '../../src/lib/time.ts';
import type { Clock, Timers } from '../../src/lib/time.ts';
import { viewOf } from '../../src/turns/view.ts';
import { announcementText } from '../../src/turns/text/announcement-values.ts';
import { load } from '../config/world.ts';
import type { Stage } from './rig.ts';
import { completeTexts } from '../../src/config/announcements.ts';

export const AGENTS = [
  { id: 'pm', name: 'PM' },
  { id: 'dev', name: 'Dev' },
  { id: 'qa', name: 'QA' },
] as const;

/** One step of an agent's turn. */
export type Act =
  /** Posts a separate message. */
  | { readonly say: string }
  /** Requests an approval and posts the decision. */
  | { readonly ask: string }
  /** Generates text without ending the message. */
  | { readonly write: string }
  /** Does nothing until released. Stops when interrupted. */
  | 'pause'
  | 'crash';

/** The factor by which time runs faster, because gaps and backoffs of real platforms last seconds. */
const HASTE = 10;

/** A clock and timers that run faster. */
function hastyTime(haste: number): { readonly clock: Clock; readonly timers: Timers } {
  const from = Date.now();
  return {
    clock: { now: () => from + Math.floor((Date.now() - from) * haste) },
    timers: { after: (ms, run) => systemTimers.after(ms / haste, run) },
  };
}

/** Scripted agents of one run of the program. Records what they receive. */
export class Cast {
  /** Agents that cannot open a session, and so are offline. */
  readonly absent = new Set<AgentId>();
  readonly #plays = new Map<AgentId, (readonly Act[])[]>();
  readonly #sessions = new Map<string, Actor>();
  readonly #heard = new Map<AgentId, string[]>();

  /** Adds the steps of one more turn of an agent. A turn without steps posts one text, `answer`. */
  play(agent: AgentId, ...acts: readonly Act[]): void {
    this.#plays.set(agent, [...(this.#plays.get(agent) ?? []), acts]);
  }

  /** Returns what an agent received, in order: "grant: …", "injected: …", "observed: …". */
  heard(agent: AgentId): readonly string[] {
    return this.#heard.get(agent) ?? [];
  }

  /** Resolves when the agent has reached a `pause` in this channel. */
  async paused(agent: AgentId, channel: ChannelId): Promise<void> {
    await seeEqual(() => this.#sessions.get(`${channel} ${agent}`)?.isPaused, true);
  }

  /** Ends an agent's `pause`. */
  release(agent: AgentId, channel: ChannelId): void {
    this.#sessions.get(`${channel} ${agent}`)?.release();
  }

  backend(agent: AgentId): AgentBackend {
    return {
      kind: 'actor',
      needsSignal: false,
      promisesToAsk: true,
      open: async ({ channel, name }) => {
        if (this.absent.has(agent)) throw new BackendError('not at home');
        const actor = new Actor({
          name,
          next: () => this.#plays.get(agent)?.shift() ?? null,
          hear: (what) => this.#heard.set(agent, [...this.heard(agent), what]),
        });
        this.#sessions.set(`${channel} ${agent}`, actor);
        return actor;
      },
    };
  }
}

/** Returns the text that an agent posts in a turn without steps. */
export function answer(name: string, ...asked: readonly string[]): string {
  return `${name} on ${asked.join(' and ')}`;
}

type Part = {
  readonly name: string;
  readonly next: () => readonly Act[] | null;
  readonly hear: (what: string) => void;
};

class Actor implements AgentSession {
  readonly #part: Part;
  #pause: PromiseWithResolvers<'go on' | 'stop'> | null = null;
  #stopped = false;
  #asked = 0;

  constructor(part: Part) {
    this.#part = part;
  }

  get isPaused(): boolean {
    return this.#pause !== null;
  }

  async prompt(turn: TurnPrompt, report: Report): Promise<Ending> {
    const asked = turn.messages.map(({ text }) => text);
    this.#part.hear(`${turn.reason}: ${asked.join(' | ')}`);
    this.#stopped = false;
    const lines = turn.lines.filter(({ author }) => author.kind === 'person').map(({ text }) => text);
    const topic = asked.length > 0 ? asked : lines;
    const acts = this.#part.next() ?? [{ say: answer(this.#part.name, ...topic) }];
    for (const act of acts) {
      if (this.#stopped) return { how: 'interrupted' };
      if (act === 'crash') throw new BackendError('fell over');
      if (act === 'pause') await this.#wait();
      else if ('write' in act) report.text(act.write);
      else if ('ask' in act) report.text(`I was told: ${await this.#ask(act.ask, report)}`);
      else if (!turn.saidSoFar.includes(act.say)) {
        report.text(act.say);
        report.flush();
      }
    }
    return this.#stopped ? { how: 'interrupted' } : { how: 'completed' };
  }

  async inject(message: Line, observed: boolean): Promise<InjectOutcome> {
    const how = message.change ?? (observed ? 'observed' : 'injected');
    this.#part.hear(`${how}: ${message.text}`);
    return 'injected';
  }

  async interrupt(): Promise<void> {
    this.#stopped = true;
    this.release();
  }

  observe(message: Line): void {
    this.#part.hear(`${message.change ?? 'observed'}: ${message.text}`);
  }

  async ping(): Promise<void> {}

  async close(): Promise<void> {
    await this.interrupt();
  }

  release(): void {
    this.#pause?.resolve('go on');
  }

  async #ask(title: string, { gate }: Report): Promise<string> {
    const call = deletion(`${(this.#asked += 1)}`, title);
    const verdict = await gate.ask(call, NEVER);
    if (verdict.verdict === 'refused') return verdict.code;
    await gate.settled(call, { status: 'complete', output: '', code: null, durationMs: null });
    return 'allowed';
  }

  async #wait(): Promise<void> {
    this.#pause = Promise.withResolvers();
    await this.#pause.promise;
    this.#pause = null;
  }
}

function deletion(id: string, title: string): GatedCall {
  const input = { path: title };
  return {
    id,
    tool: 'delete',
    title,
    input,
    definition: null,
    repeatable: false,
    detail: `rm -r ${title}`,
    caution: null,
  };
}

const NEVER = new AbortController().signal;
const PATIENCE_MS = 60_000;
const LOOK_MS = 15;

/** Repeats `look` until its result equals `wanted`. Fails like `toEqual` after 60 s. */
export async function seeEqual<T>(look: () => T | Promise<T>, wanted: T): Promise<void> {
  for (const until = Date.now() + PATIENCE_MS; ; await sleep(LOOK_MS)) {
    const found = await look();
    try {
      expect(found).toEqual(wanted);
      return;
    } catch (error) {
      if (Date.now() > until) throw error;
    }
  }
}

/** Settings of the program under test. */
export type ProgramOptions = {
  /** Keys of `turnConfig`. */
  readonly turnConfig?: object;
  /** Ids of the operators. Default: Ann. */
  readonly operators?: { readonly users?: readonly string[]; readonly roles?: readonly string[] };
  readonly agents?: readonly AgentId[];
  /** Crews. A crew without a channel gets the stage's channel. */
  readonly crews?: readonly object[];
  /** More platforms of the same program. */
  readonly beside?: readonly Stage[];
  /** Returns the backend of an agent; `null`: the agent is scripted. */
  readonly backendFor?: (agent: AgentId, trust: FolderTrust) => AgentBackend | null;
  /** Called before the start to script the agents. */
  readonly cast?: (cast: Cast) => void;
  /** Called with each line of the log. */
  readonly log?: (line: string) => void;
  /** The factor by which time runs faster. Default: 10. 1 leaves time to look at drafts. */
  readonly haste?: number;
};

/** One run of the whole program. */
export type Program = {
  readonly cast: Cast;
  readonly channel: ChannelId;
  /** Errors that ended a part of the program for good. */
  readonly broken: readonly unknown[];
  view(channel?: ChannelId): FloorView;
  isCatchingUp(): boolean;
  message(id: MessageId): InboxRow | null;
  /** Hands a message of an operator to the crews, and does not store it. */
  heard(message: HumanMessage): Promise<void>;
  /** Opens a thread of the channel, as a crew does for a ticket. Resolves with its id. */
  openThread(name: string, key: string): Promise<ChannelId>;
  /** Resolves when the floor rests and no post or receipt is pending. */
  rests(channel?: ChannelId): Promise<void>;
  /** Stops the program in order. */
  stop(): Promise<void>;
  /** Ends the program as SIGKILL does: uncommitted work is lost and nothing is cleaned up. */
  kill(): Promise<void>;
};

/** The database file of all runs. Disposing deletes it. */
export type Disk = { readonly file: string; [Symbol.dispose](): void };

export function newDisk(): Disk {
  const folder = mkdtempSync(join(tmpdir(), 'conch-contract-'));
  return { file: join(folder, 'conch.db'), [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Starts the program on this platform. Resolves when it is connected. */
export async function begin(
  stage: Stage,
  disk: Disk,
  capabilities: Capabilities,
  options: ProgramOptions = {},
): Promise<Program> {
  const { clock, timers } = hastyTime(options.haste ?? HASTE);
  const { channel } = stage;
  const config = configOf(stage, options);
  const log = createLog({
    level: 'debug',
    pretty: false,
    secrets: config.secrets.map((secret) => secret.reveal()),
    clock,
    destination: { write: (line) => options.log?.(line) },
  });
  const nameOf = (agent: string) => AGENTS.find(({ id }) => id === agent)?.name ?? agent;
  const db = openDatabase(disk.file);
  const store = new FloorStore(db, {
    path: disk.file,
    machine: floorWithWork,
    clock,
    textLimit: () => capabilities.textLimit,
    fileAbove: () => capabilities.fileAbove,
    words: (announcement, _channel, repeat) => announcementText(announcement, completeTexts({}), nameOf, repeat),
  });
  const cast = new Cast();
  options.cast?.(cast);
  const broken: unknown[] = [];
  const trust = new FolderTrust({ store: store.keyValues, clock, timers });
  const backends = new Map<AgentId, AgentBackend>();
  const backendOf = (id: AgentId): AgentBackend => {
    const known = backends.get(id) ?? options.backendFor?.(id, trust) ?? cast.backend(id);
    backends.set(id, known);
    return known;
  };
  let running = true;
  const adapters = [stage, ...(options.beside ?? [])].map((each) =>
    each.adapter({ memory: memoryOf(store, each), clock, timers, log }),
  );
  const app = new App({
    config,
    store,
    clock,
    timers,
    log,
    adapters,
    backendFor: ({ id }) => backendOf(id),
    trust,
    localOperators: [],
    onBroken: (error) => void (running && broken.push(error)),
  });
  await app.start();
  await app.connect();
  const owed = db
    .prepare<[string], number>(
      `SELECT count(*) FROM outbox
       WHERE channel = ? AND lane IN ('posts', 'receipts') AND state IN ('owed', 'uncertain')`,
    )
    .pluck();
  const view = (where = channel): FloorView => {
    const floor = store.floors.state(where);
    if (floor === null) throw new Error(`there is no floor in ${where}`);
    return viewOf(floor, clock.now(), store.id);
  };
  const end = async (how: () => Promise<void>): Promise<void> => {
    if (!running) return;
    running = false;
    await how();
  };
  return {
    cast,
    channel,
    broken,
    view,
    isCatchingUp: () => view().obstacles.some(({ why }) => why === 'catching-up'),
    message: (id) => store.message(id),
    heard: (message) => app.crews.hear(message, async () => true),
    async openThread(name, key) {
      const thread = await adapters[0]?.openThread?.(channel, name, key);
      if (thread === undefined) throw new Error('the platform opens no threads');
      return thread.id;
    },
    async rests(where = channel) {
      const open = () => {
        const { holder, condition } = view(where);
        return { holder: holder?.agent ?? null, condition, owed: owed.get(where) };
      };
      await seeEqual(open, { holder: null, condition: 'resting', owed: 0 });
    },
    stop: () =>
      end(() => {
        trust.stop();
        return app.stop();
      }),
    kill: () =>
      end(async () => {
        stage.sever?.();
        db.close();
        await app.stop().catch(() => undefined);
      }),
  };
}

function configOf(
  stage: Stage,
  { turnConfig = {}, operators, agents = ['pm', 'dev', 'qa'], beside = [], crews = [] }: ProgramOptions,
) {
  const stages = [stage, ...beside];
  const file = {
    turnConfig: { coalesceMs: 0, interruptGraceSeconds: 1, ...turnConfig },
    agents: AGENTS.map(({ id, name }) => ({ id, name, backend: { kind: 'scripted', script: 'dev' } })),
    channels: stages.map(({ channel }) => ({ id: channel, agents })),
    crews: crews.map((crew) => ({ channel: stage.channel, ...crew })),
    operators: operators ?? { users: stages.map((each) => each.idOf('ann')) },
    adapters: Object.assign({}, ...stages.map(({ settings }) => settings)) as object,
  };
  return load(file, Object.assign({}, ...stages.map(({ env }) => env)) as Stage['env']);
}

function memoryOf(store: FloorStore, { channel }: Stage): Memory {
  const owner = channel.slice(0, channel.indexOf(':'));
  return {
    get: (key) => store.keyValues.recall(owner, key),
    set: (key, value) => store.keyValues.remember(owner, key, value),
  };
}
