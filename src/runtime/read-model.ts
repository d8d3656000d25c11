import { reachesServer } from './runs/tool-judge.ts';
import { LONGEST_TEXT } from '../adapters/console/protocol.ts';
import { adapterOf } from '../adapters/delivery/chat-adapter.ts';
import type { Capabilities, ChatAdapter, FloorQueries, Intake, Place, Speaker } from '../adapters/port.ts';
import type { SeatTaint } from '../agents/session/floor-port.ts';
import type { ToolGate } from '../agents/tools/tool-gate.ts';
import type { RunTaints } from '../work/runs/run-taints.ts';
import { mayOperate } from '../turns/commands/context.ts';
import type { OperatorSet } from '../turns/commands/context.ts';
import type { RunSeat } from '../work/runs/floor-binding.ts';
import type { Requester } from '../turns/requesters.ts';
import type { SessionSettings } from '../agents/session/session-executor.ts';
import type { SupervisorSettings } from '../agents/session/supervisor.ts';
import { isAddable } from '../config/config.ts';
import type { AgentConfig, ChannelConfig, Config } from '../config/config.ts';
import { BoundedMap, foundOnce, idIndex } from '../lib/keyed.ts';
import type { Clock } from '../lib/time.ts';
import type { FloorStore, OutboxRow } from '../turns/floor-store.ts';
import type { Floor } from '../turns/floor/floor.ts';
import { obstacles } from '../turns/floor/gate.ts';
import { parseSessionId } from '../turns/floor/seats.ts';
import type { AgentId, ChannelId, MessageId } from '../turns/floor/settings.ts';
import type { Change } from '../turns/manager.ts';
import type { FloorView, InboxRow, Line } from '../turns/view.ts';
import { holderOf, deliveryPreviewOf, turnRecords, viewOf } from '../turns/view.ts';
import { addressedIn } from '../turns/text/recognition.ts';
import { defined } from '../lib/defined.ts';

/** Reads the stored floors for the page, cards, agents and operators. */
export type ReadModel = FloorQueries & {
  /** Returns the view of a floor after a committed change. */
  committed(change: Change): FloorView;
  /** The holder; `null` when the floor is free, `undefined` when there is no floor. */
  holder(channel: ChannelId): FloorView['holder'] | undefined;
  /** The conversation lines of a channel with numbers above `after`, up to `upto`, oldest first. */
  linesBetween(channel: ChannelId, after: number, upto: number): readonly Line[];
  /** A person's or program's message in its latest wording: empty if it was deleted. `null` for an unknown id. */
  message(id: MessageId): Line | null;
  /** The agents of a channel that a person's or program's text addresses. */
  readonly addressed: (channel: ChannelId, text: string) => readonly AgentId[];
  /** The agents with an enabled seat in a channel, from the configuration or from an operator. */
  seatedIn(channel: ChannelId): readonly AgentId[];
  /** The agents with an enabled seat in a channel that are not connected to its floor. */
  missingIn(channel: ChannelId): readonly AgentId[];
  channel(channel: ChannelId): ChannelConfig | undefined;
  /** The channels in which an agent has a seat. */
  seatsOf(agent: AgentId): readonly ChannelId[];
  readonly speaker: (agent: AgentId) => NonNullable<Speaker>;
  channelName(channel: ChannelId): string;
  /**
   * The thread in which an outbox entry is posted, where threads share their channel's floor; `null`: the channel
   * itself.
   */
  readonly threadOf: (entry: Pick<OutboxRow, 'channel' | 'effect'>) => ChannelId | null;
};

/** `floor`: the present state of a floor; `null` for none. */
type Readers = {
  readonly store: Pick<FloorStore, 'id' | 'lines' | 'message' | 'thread'> & {
    readonly floors: Pick<FloorStore['floors'], 'awake' | 'journal'>;
  };
  readonly floor: (channel: ChannelId) => Floor | null;
};

/** Journal entries that are read for each turn of a list. */
const ENTRIES_PER_TURN = 40;

/** Reads the stored floors, with the names of the present configuration. */
export function createReadModel(
  { store: reader, floor: floorOf }: Readers,
  config: () => Config,
  clock: Clock,
): ReadModel {
  const names = namesOf(config);
  const seatsIn = (channel: ChannelId): readonly AgentId[] => floorOf(channel)?.seats.map(({ agent }) => agent) ?? [];
  const enabledIn = (channel: ChannelId): Floor['seats'] =>
    floorOf(channel)?.seats.filter(({ disabled }) => !disabled) ?? [];
  const linesBetween: ReadModel['linesBetween'] = (channel, after, upto) =>
    reader
      .lines(channel, after, upto)
      .map((line) =>
        line.author.kind === 'agent'
          ? { ...line, author: { ...line.author, name: names.agent(line.author.id)?.name ?? line.author.name } }
          : line,
      );
  return {
    ...names,
    ...threadsIn(reader, names.channel),
    awake: () => reader.floors.awake(),
    linesBetween,
    ...viewsOf(reader.id, floorOf, clock),
    deliveryPreview(channel) {
      const floor = floorOf(channel);
      return floor === null ? null : deliveryPreviewOf(floor, clock.now());
    },
    turns: (channel, limit) => turnRecords(reader.floors.journal(channel, limit * ENTRIES_PER_TURN)).slice(-limit),
    journal: (channel, limit, before) => reader.floors.journal(channel, limit, before),
    lines(channel, limit) {
      const last = floorOf(channel)?.lines ?? 0;
      return linesBetween(channel, Math.max(0, last - limit), last);
    },
    message: (id) => lineOf(reader.message(id)),
    addressed(channel, text) {
      const seated = seatsIn(channel);
      const agentIds = seated.length === 0 ? (names.channel(channel)?.agents ?? []) : seated;
      return addressedIn(
        text,
        config().agents.filter(({ id }) => agentIds.includes(id)),
      );
    },
    seatedIn: (channel) => enabledIn(channel).map(({ agent }) => agent),
    missingIn: (channel) => enabledIn(channel).flatMap(({ agent, present }) => (present ? [] : [agent])),
    seatsOf: (agent) => seatsOf(agent, config(), { awake: reader.floors.awake(), seatedIn: seatsIn }),
  };
}

/**
 * Keeps the view of each floor with a holder until the floor's next commit. Only the obstacles are computed at each
 * call.
 */
function viewsOf(
  store: string,
  floorOf: Readers['floor'],
  clock: Clock,
): Pick<ReadModel, 'committed' | 'view' | 'holder'> {
  const cachedViews = new Map<ChannelId, { readonly floor: Floor; readonly view: FloorView }>();
  return {
    committed({ channel, floor, at }) {
      const view = viewOf(floor, at, store);
      if (view.holder === null) cachedViews.delete(channel);
      else cachedViews.set(channel, { floor, view });
      return view;
    },
    view(channel) {
      const floor = floorOf(channel);
      if (floor === null) return null;
      const cached = cachedViews.get(channel);
      if (cached?.floor !== floor) return viewOf(floor, clock.now(), store);
      return { ...cached.view, obstacles: obstacles(floor, clock.now()) };
    },
    holder(channel) {
      const floor = floorOf(channel);
      if (floor === null) return undefined;
      const cached = cachedViews.get(channel);
      return cached?.floor === floor ? cached.view.holder : holderOf(floor);
    },
  };
}

function lineOf(row: InboxRow | null): Line | null {
  if (row === null) return null;
  const { id, author, text, attachments, sentAt, edited, deleted } = row;
  const change = deleted ? 'deleted' : edited ? 'edited' : null;
  const content = deleted ? { text: '', attachments: [] } : { text, attachments };
  return { line: 0, at: sentAt, author: { kind: 'person', ...author }, ...content, message: id, change };
}

function threadsIn(reader: Readers['store'], channelOf: ReadModel['channel']): Pick<ReadModel, 'thread' | 'threadOf'> {
  const sharesFloor = (channel: ChannelId): boolean => channelOf(channel)?.turnConfig.threads === 'parent';
  return {
    thread: (channel) => (sharesFloor(channel) ? reader.thread(channel, null) : null),
    threadOf({ channel, effect }) {
      if (!sharesFloor(channel)) return null;
      if (effect.type === 'receipt') return reader.message(effect.message)?.thread ?? null;
      return effect.type === 'post' ? reader.thread(channel, effect.line) : null;
    },
  };
}

/** The channels in which an agent has a seat. A floor at rest has the agents of its configuration. */
function seatsOf(
  agent: AgentId,
  { channels }: Config,
  floors: { readonly awake: readonly ChannelId[]; readonly seatedIn: (channel: ChannelId) => readonly AgentId[] },
): readonly ChannelId[] {
  const awake = new Set(floors.awake);
  const resting = channels.filter(({ id, agents }) => !awake.has(id) && agents.includes(agent));
  return [...resting.map(({ id }) => id), ...floors.awake.filter((id) => floors.seatedIn(id).includes(agent))];
}

/** The channels of one adapter. */
export function channelsOf(config: Config, adapter: string): readonly ChannelId[] {
  return config.channels.filter((channel) => channel.adapter === adapter).map(({ id }) => id);
}

const channelsById = idIndex<ChannelConfig>();
const agentsById = idIndex<AgentConfig>();

/** Number of channels, and of channels' background runs, whose session settings are cached. */
const MOST_SETTINGS = 5_000;

const UNKNOWN: Pick<Capabilities, 'textLimit' | 'fileAbove' | 'questionLimit'> = {
  textLimit: LONGEST_TEXT,
  fileAbove: null,
};

/** The text limits of a channel's platform; those of the page when the platform has no adapter. */
export function lengthsOf(
  channel: ChannelId,
  adapters: readonly ChatAdapter[],
): Required<Pick<Capabilities, 'textLimit' | 'fileAbove' | 'questionLimit'>> {
  const { textLimit, fileAbove, questionLimit } = adapterOf(adapters, channel)?.capabilities ?? UNKNOWN;
  return { textLimit, fileAbove, questionLimit: questionLimit ?? textLimit };
}

/**
 * Returns the settings of all sessions. The result's function `channel` returns the settings of the sessions in one
 * channel, or of the channel's background runs.
 */
export function sessionSettingsOf(
  config: () => Config,
  { gateFor, taints }: { readonly gateFor: (seat: RunSeat, epoch: number) => ToolGate; readonly taints: RunTaints },
  crews: Required<Pick<SessionSettings, 'beforePrompt' | 'propose'>>,
): SupervisorSettings {
  const { heartbeatSeconds, heartbeatTimeoutSeconds, interruptGraceSeconds } = config().turnConfig;
  const settingsCacheOf = foundOnce((_config: Config) => new BoundedMap<ChannelId, SessionSettings>(MOST_SETTINGS));
  return {
    heartbeatMs: heartbeatSeconds * 1_000,
    heartbeatTimeoutMs: heartbeatTimeoutSeconds * 1_000,
    interruptGraceMs: interruptGraceSeconds * 1_000,
    channel: (place) => {
      const cache = settingsCacheOf(config());
      const cached = cache.get(place);
      if (cached !== undefined) return cached;
      const { channel: id, aside: isBackground } = parseSessionId(place);
      const seat = { channel: id, ...defined({ isBackground }) };
      const channelConfig = channelsById(config().channels).get(id);
      const rules = channelConfig?.turnConfig ?? config().turnConfig;
      const { turnCompleteSignal: signal, passWords, coalesceMs, contextTokens } = rules;
      const { maxConsecutiveErrors, maxTotalErrors } = rules;
      const about = { name: channelConfig?.name ?? id, topic: channelConfig?.topic ?? '' };
      const settings: SessionSettings = {
        coalesceMs,
        contextTokens,
        signal,
        passWords,
        place: about,
        thresholds: { maxConsecutiveErrors, maxTotalErrors },
        beforePrompt: (agent) => crews.beforePrompt(agent),
        propose: (agent, ticket) => crews.propose(agent, ticket),
        gate: (agent, epoch) => gateFor({ agent, ...seat }, epoch),
        taint: (agent) => taintOf(taints, { agent, ...seat }),
        reaches: (agent, server, tool) => reachesServer(config(), { agent, channel: id }, server, tool),
      };
      cache.set(place, settings);
      return settings;
    },
  };
}

/** People of all platforms, with what they may do. */
export type KnownPeople = {
  /** Called when a person or program wrote or gave a command: name, and roles if the platform sent them. */
  notePerson(person: { readonly id: string; readonly name: string; readonly roles?: readonly string[] }): void;
  /** Called when a person gave a command. The name is stored. */
  storePerson(person: Parameters<KnownPeople['notePerson']>[0]): void;
  /**
   * The name in the last call of `notePerson` or `storePerson`, if still in memory; else the stored name; else the id.
   */
  nameOf(id: string): string;
  /** Forgets the names that are not stored. */
  forgetNames(): void;
  /** The people and roles that may operate now. */
  operators(): OperatorSet;
  /**
   * Whether a person may operate, with the last roles that `notePerson` or `storePerson` got, if still in memory. Else
   * the person has no roles.
   */
  operates(person: Requester): boolean;
};

/** Number of people and programs whose names and roles stay in memory. */
const PEOPLE = 10_000;

/** Returns the known people. `localOperators`: ids of operators without an entry in the configuration. */
export function createKnownPeople(
  config: () => Config,
  localOperators: readonly string[],
  memory: { readonly get: (id: string) => string | null; readonly set: (id: string, name: string) => void },
): KnownPeople {
  const roles = new BoundedMap<string, readonly string[]>(PEOPLE);
  const names = new BoundedMap<string, string>(PEOPLE);
  const operators = (): OperatorSet => {
    const { users, roles: roleIds } = config().operators;
    return { users: [...localOperators, ...users], roles: roleIds };
  };
  const notePerson: KnownPeople['notePerson'] = ({ id, name, roles: now }) => {
    names.set(id, name);
    if (now !== undefined) roles.set(id, now);
  };
  return {
    notePerson,
    storePerson(person) {
      notePerson(person);
      const { id, name } = person;
      if (memory.get(id) !== name) memory.set(id, name);
    },
    forgetNames: () => names.clear(),
    nameOf: (id) => names.get(id) ?? memory.get(id) ?? id,
    operators,
    operates(person) {
      const agents = config().agents.map(({ id }) => id);
      return mayOperate({ ...person, roles: roles.get(person.id) ?? [] }, operators(), agents);
    },
  };
}

function taintOf(taints: RunTaints, seat: RunSeat): SeatTaint {
  return {
    read: (lines) => taints.read(seat, lines),
    forget: (after) => taints.forget(seat, after),
  };
}

/** Whether an adapter is told of a channel: its own, or any channel for an adapter that oversees all. */
export function concerns(adapter: ChatAdapter, channel: ChannelId): boolean {
  return adapter.capabilities.oversees === true || isOwn(adapter, channel);
}

/** Shows adapters each channel that changed. Of several synchronous changes of a channel, shows only the last. */
export function createShowing(
  adapters: readonly ChatAdapter[],
  { committed }: Pick<ReadModel, 'committed'>,
): (change: Change) => void {
  const last = new Map<ChannelId, Change>();
  const show = (): void => {
    const changes = [...last.values()];
    last.clear();
    for (const change of changes) {
      const { channel } = change;
      const view = committed(change);
      for (const adapter of adapters) if (concerns(adapter, channel)) adapter.card?.(channel, view);
    }
  };
  return (change) => {
    if (last.size === 0) queueMicrotask(show);
    last.set(change.channel, change);
  };
}

/** The queries of one adapter. They tell nothing of channels that do not concern the adapter. */
export function queriesFor(adapter: ChatAdapter, all: FloorQueries): FloorQueries {
  const own = foundOnce((places: readonly Place[]) => places.filter(({ id }) => concerns(adapter, id)));
  return {
    channels: () => own(all.channels()),
    agents: () => all.agents(),
    awake: () => all.awake().filter((channel) => concerns(adapter, channel)),
    view: (channel) => (concerns(adapter, channel) ? all.view(channel) : null),
    deliveryPreview: (channel) => (concerns(adapter, channel) ? all.deliveryPreview(channel) : null),
    review: (channel) => (concerns(adapter, channel) ? (all.review?.(channel) ?? null) : null),
    crewAsks: (channel) => (concerns(adapter, channel) ? (all.crewAsks?.(channel) ?? null) : null),
    pastThread: (channel) => (concerns(adapter, channel) ? (all.pastThread?.(channel) ?? null) : null),
    reaction: (channel, message, kind) =>
      concerns(adapter, channel) ? (all.reaction?.(channel, message, kind) ?? null) : null,
    crew: (channel, most) => (concerns(adapter, channel) ? (all.crew?.(channel, most) ?? null) : null),
    turns: (channel, limit) => (concerns(adapter, channel) ? all.turns(channel, limit) : []),
    journal: (channel, limit, before) => (concerns(adapter, channel) ? all.journal(channel, limit, before) : []),
    lines: (channel, limit) => (concerns(adapter, channel) ? all.lines(channel, limit) : []),
    thread: (channel) => (concerns(adapter, channel) ? all.thread(channel) : null),
  };
}

/** The intake of one adapter. Throws for reports of other channels, and for commands of channels not concerning it. */
export function intakeFor(
  adapter: ChatAdapter,
  people: Pick<KnownPeople, 'notePerson' | 'storePerson'>,
  intake: Intake,
): Intake {
  const requireOwn = (channel: ChannelId, report: string, allowed = isOwn(adapter, channel)): void => {
    if (!allowed) throw new Error(`impossible: ${adapter.name} reports ${report} of ${channel}`);
  };
  return {
    ...intake,
    async message(message) {
      requireOwn(message.channel, 'a message');
      people.notePerson(message.author);
      await intake.message(message);
    },
    async amend(change) {
      requireOwn(change.channel, 'a change');
      await intake.amend(change);
    },
    async command(channel, by, line, drawnFor) {
      requireOwn(channel, 'a command', concerns(adapter, channel));
      people.storePerson(by);
      return await intake.command(channel, by, line, drawnFor);
    },
    refusal(channel, by, line, drawnFor) {
      requireOwn(channel, 'a command', concerns(adapter, channel));
      return intake.refusal(channel, by, line, drawnFor);
    },
    async thread(thread) {
      requireOwn(thread.id, 'a thread');
      requireOwn(thread.parent, 'a thread');
      await intake.thread(thread);
    },
    suspend(channel, why) {
      requireOwn(channel, 'the end');
      intake.suspend(channel, why);
    },
    restore(channel) {
      requireOwn(channel, 'the return');
      intake.restore(channel);
    },
  };
}

function isOwn(adapter: ChatAdapter, channel: ChannelId): boolean {
  return adapterOf([adapter], channel) !== null;
}

const placesIn = foundOnce(({ channels }: Config): readonly Place[] =>
  channels.map(({ id, name, adapter, parent, turnConfig: { threads, allowBots } }) => ({
    id,
    name,
    adapter,
    parent: parent ?? null,
    threads,
    allowBots,
  })),
);

const shownAgents = foundOnce(({ agents }: Config): ReturnType<FloorQueries['agents']> =>
  agents.map(({ id, name, avatar, description, ...more }) => ({
    id,
    name,
    avatar,
    description,
    fixed: !isAddable(more),
  })),
);

function namesOf(config: () => Config) {
  const agent = (wanted: AgentId) => agentsById(config().agents).get(wanted);
  const channel = (wanted: ChannelId) => channelsById(config().channels).get(wanted);
  // A text of an agent may be posted after the agent, such as a worker, has left. The configuration file names at most
  // 1,000 agents; the agents of seated workers are added to them.
  const rememberedAgents = new BoundedMap<AgentId, AgentConfig>(2_000);
  const rememberAgents = foundOnce(
    ({ agents }: Config) => agents.map((each) => rememberedAgents.set(each.id, each)).length,
  );
  return {
    agent,
    channel,
    channels: () => placesIn(config()),
    agents: () => shownAgents(config()),
    speaker(id: AgentId) {
      rememberAgents(config());
      const { name = id, avatar = null } = rememberedAgents.get(id) ?? {};
      return { id, name, avatar };
    },
    channelName: (id: ChannelId) => channel(id)?.name ?? id,
  };
}
