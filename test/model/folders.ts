import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { FolderTrust, FolderTrustPorts, TrustCommand } from '../../src/agents/trust/folder-trust.ts';
import type { RepositoryFile } from '../../src/agents/trust/repository-files.ts';
import type { Instant } from '../../src/lib/time.ts';
import type { Answer, Person } from '../../src/turns/commands/context.ts';
import type { createOperators } from '../../src/turns/commands/execute.ts';
import { decide } from '../../src/turns/floor/decide.ts';
import { emptyFloor } from '../../src/turns/floor/floor.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import { viewOf } from '../../src/turns/view.ts';
import { inScratch } from './plant.ts';
import { must, Violation } from './violation.ts';

/** The trust in folders and its commands, or a copy of them with a bug. */
export type Trusting = {
  readonly FolderTrust: new (ports: FolderTrustPorts) => FolderTrust;
  readonly createOperators: typeof createOperators;
};

/** A broken invariant and the shortest path to it. */
export type FoundInFolder = { readonly invariant: string; readonly what: string; readonly trace: readonly string[] };

export type FolderSearch = {
  readonly states: number;
  readonly transitions: number;
  readonly found: readonly FoundInFolder[];
};

/** The most scans of a folder before one look of the timer is over. */
const MOST_SCANS = 100;

/** The file in the folder: none, or one of two contents of equal length. */
type Version = 'none' | 'one' | 'two';
const VERSIONS: readonly Version[] = ['none', 'one', 'two'];
const CONTENTS = { one: '{ "apiKeyHelper": "./1" }', two: '{ "apiKeyHelper": "./2" }' } as const;

const FILE = 'settings.json';
const FILES: readonly RepositoryFile[] = [{ path: FILE, searched: 'folder', can: ['run'], note: 'runs apiKeyHelper' }];
const ANN: Person = { id: 'ann', name: 'Ann', roles: [] };
const MALLORY: Person = { id: 'mallory', name: 'ann', roles: [] };
const PROGRAM: Person = { ...ANN, bot: true };
/** Both agents work in the folder. dev sits in two channels. */
const SEATS = [
  { agent: 'dev', channel: 'console:a' },
  { agent: 'dev', channel: 'console:b' },
  { agent: 'qa', channel: 'console:a' },
] as const;
type ModelSeat = (typeof SEATS)[number];
const CHANNELS = ['console:a', 'console:b'] as const;

/** A named event of the search. */
type Happening = { readonly name: string; readonly act: (world: World) => Promise<void> };

const HAPPENINGS: readonly Happening[] = [
  ...VERSIONS.map((version): Happening => ({
    name: `the folder holds ${version}`,
    act: (world) => world.write(version),
  })),
  ...SEATS.map((seat): Happening => ({
    name: `a turn of ${seat.agent} begins in ${seat.channel}`,
    act: (world) => world.begins(seat),
  })),
  { name: 'heartbeat', act: (world) => world.beats() },
  { name: 'the folder is looked at', act: (world) => world.looks() },
  ...(['one', 'two'] as const).flatMap((version): readonly Happening[] => [
    { name: `ann trusts ${version}`, act: (world) => world.answers('trust', version) },
    { name: `ann leaves ${version}`, act: (world) => world.answers('distrust', version) },
  ]),
  {
    name: 'ann trusts one while it becomes two',
    act: (world) => world.answers('trust', 'one', { becomes: 'two' }),
  },
  { name: 'ann asks what there is', act: (world) => world.asksWhatThereIs() },
  { name: 'mallory trusts one', act: (world) => world.answers('trust', 'one', { by: MALLORY }) },
  { name: 'a program trusts one', act: (world) => world.answers('trust', 'one', { by: PROGRAM }) },
  { name: 'ann revokes', act: (world) => world.revokes() },
  { name: 'restart', act: (world) => world.restarts() },
];

/** The names of the events at the beginning of every path, in order. */
type Opening = readonly string[];

/** Plays every order of events, breadth first. Equal states are followed once. */
export async function searchFolders(
  core: Trusting,
  { depth, first, opening = [] }: { readonly depth: number; readonly first: boolean; readonly opening?: Opening },
): Promise<FolderSearch> {
  return await inScratch(async (folder) => {
    const found: FoundInFolder[] = [];
    const seen = new Set<string>();
    let transitions = 0;
    const begun = opening.flatMap((name) => HAPPENINGS.filter((happening) => happening.name === name));
    let frontier: readonly (readonly Happening[])[] = [begun];
    for (let at = 0; at <= depth && frontier.length > 0; at += 1) {
      const next: (readonly Happening[])[] = [];
      for (const path of frontier) {
        transitions += 1;
        const key = await play(core, folder, path).catch((error: unknown) => error);
        if (typeof key === 'string') {
          if (!seen.has(key)) next.push(...HAPPENINGS.map((happening) => [...path, happening]));
          seen.add(key);
          continue;
        }
        const invariant = key instanceof Violation ? key.invariant : 'throws';
        found.push({ invariant, what: String(key), trace: path.map(({ name }) => name) });
        if (first) return { states: seen.size, transitions, found };
      }
      frontier = next;
    }
    return { states: seen.size, transitions, found };
  });
}

async function play(core: Trusting, folder: string, path: readonly Happening[]): Promise<string> {
  const world = new World(core, folder);
  await world.write('none');
  world.begin();
  for (const { act } of path) {
    await act(world);
    world.checkQuestions();
  }
  return world.key();
}

/** A folder on the disk, its agents and two channels. Records the operators' real decisions. */
class World {
  readonly #core: Trusting;
  readonly #folder: string;
  readonly #kept = new Map<string, string>();
  readonly #floors = new Map<string, Floor>(CHANNELS.map((channel) => [channel, emptyFloor(channel)]));
  readonly #open = new Set<ModelSeat>();
  /** Seats that were refused. `isWoken`: the seat was told to try again. */
  #waiting = new Map<ModelSeat, { isWoken: boolean }>();
  /** The operators' decisions about dev's folder, recorded without the product's code. */
  readonly #decided = new Map<Version, 'trusted' | 'left'>();
  /** The ids of the two contents, as people saw them. */
  readonly #ids = new Map<Version, string>();
  readonly #timers = new Set<() => void>();
  #version: Version = 'none';
  #becomes: Version | null = null;
  #at: Instant = 1;
  #trust: FolderTrust | null = null;
  #gates = new Map<string, ReturnType<FolderTrust['gateFor']>>();

  constructor(core: Trusting, folder: string) {
    this.#core = core;
    this.#folder = folder;
  }

  begin(): void {
    const after = (_ms: number, run: () => void) => {
      this.#timers.add(run);
      return { cancel: () => void this.#timers.delete(run) };
    };
    const store: FolderTrustPorts['store'] = {
      recall: (owner, name) => this.#kept.get(`${owner} ${name}`) ?? null,
      remember: async (owner, name, text) => {
        if (this.#becomes !== null) await this.write(this.#becomes);
        this.#becomes = null;
        this.#kept.set(`${owner} ${name}`, text);
      },
    };
    this.#trust = new this.#core.FolderTrust({ store, clock: this.#clock, timers: { after } });
    this.#trust.connect({
      tell: (channel, command) => this.#tell(channel, command),
      channelsOf: (agent) => SEATS.filter((seat) => seat.agent === agent).map(({ channel }) => channel),
      clean: (text) => text,
    });
    for (const agent of ['dev', 'qa'])
      this.#gates.set(agent, this.#trust.gateFor(agent, { cwd: this.#folder, files: FILES, home: '/nowhere' }));
  }

  async write(version: Version): Promise<void> {
    this.#version = version;
    if (version === 'none') return await rm(join(this.#folder, FILE), { force: true });
    await writeFile(join(this.#folder, FILE), CONTENTS[version]);
  }

  /** F1: a turn starts only in a folder whose files are trusted, and always in such a folder. */
  async begins(seat: ModelSeat): Promise<void> {
    const refusal = await this.#gate(seat).admit(seat).then(nothing, asRefusal);
    if (refusal === null) {
      must(this.#isOpenTo(seat), 'F1', `a turn of ${seat.agent} begins beside files that nobody trusts`);
      this.#waiting.delete(seat);
      this.#open.add(seat);
      return;
    }
    must(!this.#isOpenTo(seat), 'F1', `no turn of ${seat.agent} begins in a folder that is trusted`);
    this.#refused(seat, refusal);
    must(this.#isDecided(seat) || this.#asked(seat.channel, seat.agent) !== null, 'F3', 'nobody is asked');
    must(!this.#isDecided(seat) || this.#asked(seat.channel, seat.agent) === null, 'F3', 'people are asked again');
  }

  /** F1: a session ends at the next heartbeat after a file appeared or changed. */
  async beats(): Promise<void> {
    this.#at += 1_000;
    for (const seat of this.#open) {
      const refusal = await this.#gate(seat).glance(seat).then(nothing, asRefusal);
      must((refusal === null) === this.#isOpenTo(seat), 'F1', `a session of ${seat.agent} goes on, or ends, wrongly`);
      if (refusal !== null) this.#refused(seat, refusal);
    }
  }

  /** F4: when files are deleted or changed, refused seats try again. */
  async looks(): Promise<void> {
    this.#at += 5_000;
    const due = [...this.#timers];
    this.#timers.clear();
    for (const run of due) run();
    // A look scans the folders of both agents. It is over after three more scans, or later on a busy disk.
    for (let scans = 0; scans < 3 || (scans < MOST_SCANS && this.#unwoken() !== null); scans += 1) {
      await this.#now.standing('dev');
      await rest();
    }
    must(this.#unwoken() === null, 'F4', `${this.#unwoken()} is not started again`);
  }

  /** F2: an answer counts only for the files that it names, while they exist. F5: only an operator's answer counts. */
  async answers(
    verb: 'trust' | 'distrust',
    version: Version,
    { by = ANN, becomes = null }: { readonly by?: Person; readonly becomes?: Version | null } = {},
  ): Promise<void> {
    const id = this.#ids.get(version);
    if (id === undefined) return;
    const isThere = this.#version === version;
    const before = this.#record();
    this.#becomes = becomes;
    const { ok } = await this.#says(by, `/agent ${verb} dev ${id}`);
    this.#becomes = null;
    const choice = verb === 'trust' ? 'trusted' : 'left';
    const isRepeat = verb === 'trust' && this.#decided.get(version) === 'trusted';
    must(ok === (by === ANN && isThere && !isRepeat), 'F2', `an answer about ${version} of ${by.id} is ${ok}`);
    if (!ok) {
      must(this.#record() === before, by === ANN ? 'F2' : 'F5', 'an answer that does not count is kept');
      return;
    }
    this.#decided.set(version, choice);
    must(choice === 'left' || this.#asksNobody(), 'F3', 'a question stays open after its answer');
    if (choice === 'left')
      must(![...this.#open].some(({ agent }) => agent === 'dev'), 'F1', 'a session outlives trust');
    await rest();
    const woken = [...this.#waiting].filter(([{ agent }]) => agent === 'dev').every(([, { isWoken }]) => isWoken);
    must(choice === 'left' || woken, 'F4', 'an agent whose folder is trusted is not started');
  }

  /** F5: asking for the files decides nothing. */
  async asksWhatThereIs(): Promise<void> {
    const before = this.#record();
    await this.#says(ANN, '/agent trust dev');
    must(this.#record() === before, 'F5', 'asking what there is decides');
  }

  async revokes(): Promise<void> {
    await this.#now.book.forget('dev');
    this.#decided.clear();
  }

  restarts(): Promise<void> {
    this.#now.stop();
    this.#timers.clear();
    this.#open.clear();
    this.#waiting = new Map();
    this.begin();
    return Promise.resolve();
  }

  /** F3: each channel has at most one open question about an agent's files. */
  checkQuestions(): void {
    for (const channel of CHANNELS)
      for (const agent of ['dev', 'qa']) {
        const open = this.#floors.get(channel)?.trust?.filter((question) => question.agent === agent) ?? [];
        must(open.length <= 1, 'F3', 'two questions about one folder are open');
      }
  }

  key(): string {
    const questions = CHANNELS.map((channel) => this.#floors.get(channel)?.trust?.map(({ agent, id }) => [agent, id]));
    const seats = SEATS.map((seat) => [this.#open.has(seat), this.#waiting.get(seat)?.isWoken ?? null]);
    return JSON.stringify([this.#version, listed(this.#decided), questions, seats, listed(this.#ids)]);
  }

  #refused(seat: ModelSeat, { returns }: Refused): void {
    // The agent's process ends, and with it its sessions in all channels.
    for (const open of this.#open) if (open.agent === seat.agent) this.#open.delete(open);
    const waiting = { isWoken: false };
    this.#waiting.set(seat, waiting);
    void returns.then(() => (waiting.isWoken = true));
    for (const channel of CHANNELS) {
      const id = this.#asked(channel, seat.agent);
      if (id === null) continue;
      const known = this.#ids.get(this.#version) ?? id;
      must(known === id, 'F3', 'people are asked about files that are not there');
      this.#ids.set(this.#version, id);
    }
    must(new Set(this.#ids.values()).size === this.#ids.size, 'F2', 'two contents have one id');
  }

  /** An agent that still waits although its folder is trusted; `null`: none. */
  #unwoken(): string | null {
    for (const [seat, { isWoken }] of this.#waiting) if (this.#isOpenTo(seat) && !isWoken) return seat.agent;
    return null;
  }

  #isOpenTo({ agent }: ModelSeat): boolean {
    return this.#version === 'none' || (agent === 'dev' && this.#decided.get(this.#version) === 'trusted');
  }

  #isDecided({ agent }: ModelSeat): boolean {
    return agent === 'dev' && this.#decided.has(this.#version);
  }

  #asked(channel: string, agent: string): string | null {
    return this.#floors.get(channel)?.trust?.find((question) => question.agent === agent)?.id ?? null;
  }

  #asksNobody(): boolean {
    return CHANNELS.every((channel) => this.#asked(channel, 'dev') === null);
  }

  #record(): string {
    return JSON.stringify(listed(this.#kept));
  }

  #tell(channel: string, command: TrustCommand): void {
    const floor = this.#floors.get(channel);
    if (floor === undefined) throw new Error(`impossible: ${channel} is told of trust`);
    const decision = decide(floor, command, this.#at);
    if (decision.ok) this.#floors.set(channel, decision.floor);
  }

  async #says(person: Person, line: string): Promise<Answer> {
    const restart = async (agent: string) => {
      for (const seat of this.#open) if (seat.agent === agent) this.#open.delete(seat);
      return { ok: true, text: '' };
    };
    const seats = ['dev', 'qa'].map((id) => ({ id, name: id, state: 'Running', backend: 'acp', channels: [] }));
    const operators = this.#core.createOperators({
      floors: {
        apply: async () => {
          throw new Error('impossible: nothing is done to a floor');
        },
        view: (channel) => viewOf(this.#floors.get(channel) ?? emptyFloor(channel), this.#at, 'store'),
        turns: () => [],
        why: () => [],
        message: () => null,
      },
      clock: this.#clock,
      roster: { list: () => seats, status: () => null, restart },
      operators: () => ({ users: ['ann'], roles: [] }),
      names: { agent: (id) => id, channel: (id) => id },
      words: { refusal: (refusal) => refusal },
      trust: this.#now,
    });
    return await operators.run('console:b', person, line);
  }

  #gate({ agent }: ModelSeat): ReturnType<FolderTrust['gateFor']> {
    const gate = this.#gates.get(agent);
    if (gate === undefined) throw new Error(`impossible: ${agent} has no folder`);
    return gate;
  }

  get #now(): FolderTrust {
    if (this.#trust === null) throw new Error('impossible: nothing has begun');
    return this.#trust;
  }

  readonly #clock = { now: () => this.#at };
}

type Refused = { readonly returns: Promise<void> };

const nothing = (): null => null;

/** The entries of a map as texts, sorted. */
function listed(map: ReadonlyMap<string, string>): readonly string[] {
  return [...map].map(([name, value]) => `${name} ${value}`).toSorted();
}

/** Returns the refusal of a seat. Throws any other error. */
function asRefusal(error: unknown): Refused {
  if (error instanceof Error && 'returns' in error && error.returns instanceof Promise)
    return { returns: error.returns };
  throw error;
}

async function rest(): Promise<void> {
  await new Promise((done) => setImmediate(done));
}
