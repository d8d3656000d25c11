import { createConsoleAdapter } from '../../src/adapters/console/adapter.ts';
import type { ConsoleAdapter } from '../../src/adapters/console/adapter.ts';
import type { Place } from '../../src/adapters/port.ts';
import type { ChannelId } from '../../src/turns/floor/settings.ts';
import type { DeliveryPreview, FloorView } from '../../src/turns/view.ts';
import {
  fakeAudit,
  fakeIntake,
  fakeQueries,
  newFolder,
  ownMessages,
  restingView,
  silent,
  wallClock,
} from '../adapters/console/fakes.ts';
import type { FakeAudit, FakeIntake, FakeQueries } from '../adapters/console/fakes.ts';

/** The contents of a stage. */
export type Scenery = {
  readonly agents?: number;
  /** The number of console channels. With `discord`, a Discord channel follows them. */
  readonly channels?: number;
  readonly discord?: boolean;
  /** True: agents and channels have long names. */
  readonly longNames?: boolean;
};

/** The built page, on a console with floors that only the test changes. */
export type Stage = {
  readonly url: string;
  readonly adapter: ConsoleAdapter;
  /** Returns a new link that gives one browser access. */
  link(): string;
  readonly intake: FakeIntake;
  readonly queries: FakeQueries;
  readonly audit: FakeAudit;
  readonly agents: readonly string[];
  readonly channels: readonly ChannelId[];
  /** Changes a floor and its delivery preview, and sends the floor to the page. */
  show(channel: ChannelId, change: Partial<FloorView>, outlook?: DeliveryPreview): void;
  /** Makes an agent the holder of the floor. */
  hold(channel: ChannelId, agent: string, change?: Partial<NonNullable<FloorView['holder']>>): void;
  /** Posts a message of an agent (`null`: of Conch). `asks`: the id of the request that the message shows. */
  post(channel: ChannelId, agent: string | null, text: string, asks?: string): Promise<string>;
  /** Adds a console channel, as a reload of the configuration does. Returns its id. */
  addChannel(name: string): ChannelId;
  removeChannel(channel: ChannelId): void;
  /** Advances the console's clock. */
  pass(ms: number): void;
  close(): Promise<void>;
};

/** Opens a stage on a free port. */
export async function openStage(scenery: Scenery = {}): Promise<Stage> {
  const intake = fakeIntake();
  const { agents, places, queries } = furnish(scenery);
  let passed = 0;
  const clock = { now: () => wallClock.now() + passed };
  const { platform } = ownMessages(':memory:', clock);
  const adapter = createConsoleAdapter({ dataDir: newFolder(), platform, port: 0, clock, log: silent });
  const audit = fakeAudit();
  adapter.setRuns({ events: () => ({ ok: false, status: 404, text: '' }), audit });
  await adapter.start(intake, queries);
  adapter.setReady();
  const show: Stage['show'] = (channel, change, outlook) => {
    const view = { ...viewFor(channel, agents), ...queries.view(channel), ...change };
    queries.views.set(channel, view);
    const foreseen = outlook ?? (view.holder === null ? null : givenTo(view.holder.agent));
    if (foreseen !== null) queries.outlooks.set(channel, foreseen);
    adapter.card?.(channel, view);
  };
  return {
    url: `${adapter.url ?? ''}/`,
    link: () => adapter.accessLink() ?? '',
    adapter,
    intake,
    queries,
    audit,
    agents,
    channels: places.map(({ id }) => id),
    show,
    hold: (channel, agent, change = {}) => show(channel, held(channel, agents, { agent, ...change })),
    post: (channel, agent, text, asks) => {
      const speaker = queries.agents().find(({ id }) => id === agent) ?? null;
      const epoch = queries.view(channel)?.epoch ?? 0;
      const question = asks === undefined ? {} : { asks };
      return adapter.post(channel, { outboxId: crypto.randomUUID(), speaker, text, afterId: null, epoch, ...question });
    },
    addChannel(name) {
      places.push(placeOf('console', name));
      const id = `console:${name}`;
      queries.views.set(id, viewFor(id, agents));
      return id;
    },
    removeChannel: (channel) => {
      const place = places.findIndex(({ id }) => id === channel);
      places.splice(place, 1);
    },
    pass: (ms) => {
      passed += ms;
    },
    close: async () => adapter.stop(),
  };
}

function furnish({ agents: count = 3, channels = 1, discord = false, longNames = false }: Scenery): {
  readonly agents: readonly string[];
  readonly places: Place[];
  readonly queries: FakeQueries;
} {
  const agents = Array.from({ length: count }, (_, place) => agentId(place));
  const places = [
    ...Array.from({ length: channels }, (_, place) => placeOf('console', channelName(place, longNames))),
    ...(discord ? [placeOf('discord', 'reviews')] : []),
  ];
  const fake = fakeQueries();
  for (const { id } of places) fake.views.set(id, viewFor(id, agents));
  const known = agents.map((id, place) => ({
    id,
    name: longNames ? `${id} of the Department for ${'Very '.repeat(3)}Long Names` : id,
    avatar: place % 5 === 4 ? '🦊' : null,
    description: `Does what ${id} does`,
  }));
  const spokenIn: FakeQueries['lines'] = (channel, limit) =>
    channel.startsWith('discord:') ? fake.spoken.slice(-limit) : [];
  return { agents, places, queries: { ...fake, agents: () => known, channels: () => places, lines: spokenIn } };
}

function agentId(place: number): string {
  return ['pm', 'dev', 'qa', 'security', 'architect'][place] ?? `agent-${place + 1}`;
}

function channelName(place: number, long: boolean): string {
  const name = place === 0 ? 'demo' : `channel-${place + 1}`;
  return long && place > 0 ? `${name}-with-a-name-that-does-not-end` : name;
}

function placeOf(adapter: string, name: string): Place {
  return { id: `${adapter}:${name}`, name, adapter, parent: null, threads: 'own', allowBots: 'off' };
}

function viewFor(channel: ChannelId, agents: readonly string[]): FloorView {
  const seats = agents.map((agent) => ({ agent, status: 'QUEUED' as const, disabled: false, waitUntil: null }));
  return { ...restingView(channel), seats, next: agents };
}

/** Builds the delivery preview of the mode `inject`: a message reaches the holder mid-turn. */
function givenTo(agent: string): DeliveryPreview {
  const controls = {
    [agent]: [[`/floor skip ${agent}`, 'Skip'] as const, [`/floor remove ${agent}`, 'Remove'] as const],
  };
  return { unaddressed: { state: 'delivered', to: [agent], via: 'inject' }, addressed: {}, controls };
}

type Holding = { readonly agent: string } & Partial<NonNullable<FloorView['holder']>>;

function held(channel: ChannelId, agents: readonly string[], holding: Holding): Partial<FloorView> {
  const { seats } = viewFor(channel, agents);
  const status = holding.status ?? (holding.waitingFor == null ? 'ACTIVE' : 'WAITING');
  const deadlineAt = Date.now() + 83_000;
  return {
    condition: 'open',
    epoch: holding.epoch ?? 7,
    holder: {
      epoch: 7,
      startedAt: Date.now() - 41_000,
      deadlineAt,
      waitingFor: null,
      working: status === 'ACTIVE',
      approval: null,
      ...holding,
      status,
    },
    seats: seats.map((seat) => (seat.agent === holding.agent ? { ...seat, status } : seat)),
    next: agents.filter((agent) => agent !== holding.agent),
    turns: { used: 3, allowed: 12 },
  };
}
