import { z } from 'zod';
import type { Credentials, Environment } from './environment.ts';
import { DEMO_AGENTS, DEMO_CHANNEL, DEMO_TOOLS, demoServers, type DemoModel } from './demo.ts';
import { completeTexts, type AnnouncementTexts } from './announcements.ts';
import { idIndex } from '../lib/keyed.ts';
import { uniteRules, type ToolLists, type ToolRules } from '../rules/verdict.ts';
import { ADAPTERS, backendSchema, reviewConfigSchema, serverSchema, turnConfigSchema, turnKeys } from './schema.ts';
import type { ConfigFile, DeepReadonly, TurnConfig } from './schema.ts';
import type { Secret } from './secret.ts';
import { defined } from '../lib/defined.ts';

type FileAgent = NonNullable<ConfigFile['agents']>[number];
type FileChannel = NonNullable<ConfigFile['channels']>[number];

/** The backend that runs an agent; its keys depend on `kind`. */
export type BackendConfig = Readonly<FileAgent['backend']>;

/** One agent of the configuration, or one worker of a crew. */
export type AgentConfig = Readonly<Omit<FileAgent, 'name' | 'backend'>> & {
  readonly name: string;
  readonly backend: BackendConfig;
  /** The id of the crew that has this agent as a worker; absent for agents of `agents[]`. */
  readonly crew?: string;
};

type SeatConfig = Readonly<ReturnType<typeof seatSettingsOf>>;

/** Limits of what agents may spend; `null` is no limit. */
export type SpendingConfig = DeepReadonly<ConfigFile['budgets']['day']>;

/** A crew of workers on a repository. */
export type CrewConfig = Readonly<ConfigFile['crews'][number]>;

/** One server of tools. */
export type McpServerConfig = Readonly<ConfigFile['mcp'][string]>;

/**
 * A channel. `turnConfig`, `budgets` and `retention` include the general settings. `tools`, `runs` and `review` are the
 * channel's own.
 */
export type ChannelConfig = DeepReadonly<Pick<FileChannel, 'id' | 'topic' | 'agents' | 'tools' | 'runs' | 'review'>> &
  DeepReadonly<Pick<ConfigFile, 'turnConfig' | 'budgets' | 'retention'>> & {
    /** The part of the channel's id before the colon. */
    readonly adapter: (typeof ADAPTERS)[number];
    readonly name: string;
    /** For a thread with its own floor: the id of the channel whose settings the thread uses. */
    readonly parent?: string;
    readonly seats: readonly SeatConfig[];
  };

type FromFile = Omit<ConfigFile, 'crews' | '$schema' | 'agents' | 'channels' | 'announcements' | 'mcp'>;

/** The checked, complete, read-only configuration. */
export type Config = DeepReadonly<FromFile> & {
  /** The path of the configuration file; `null` for the built-in demo. */
  readonly file: string | null;
  /** The data folder; an absolute path. */
  readonly dataDir: string;
  readonly agents: readonly AgentConfig[];
  readonly channels: readonly ChannelConfig[];
  readonly crews: readonly CrewConfig[];
  readonly credentials: Credentials;
  /** Servers of tools, by their ids. */
  readonly mcp: Readonly<Record<string, McpServerConfig>>;
  /** The texts of all announcements; `false` for announcements that are off. */
  readonly announcements: AnnouncementTexts;
  /** Values to redact. The field is not enumerable, so that copies of the configuration lack this list. */
  readonly secrets: readonly Secret[];
  /** The model that the demo's agents speak through; `null` when they play their scripts, or the file names agents. */
  readonly demoModel: DemoModel | null;
  /** Warnings about the configuration and the environment, in words for people. */
  readonly warnings: readonly string[];
};

type Surround = Environment['settings'] & Pick<Config, 'file' | 'secrets' | 'warnings'>;

/**
 * Completes a checked file: adds the demo's agents or channel where the file has none, applies the environment and the
 * channels' overrides, and freezes the result.
 */
export const completeConfig = (file: ConfigFile, surround: Surround): Config => {
  const { $schema: _, ...settings } = file;
  const { secrets, warnings, port, logLevel, keys, ...around } = surround;
  const demo = file.agents === undefined ? surround.demoModel : null;
  const agents = (file.agents ?? demoAgents(demo, keys)).map((agent) => completeAgent(agent, keys));
  const channels = file.channels ?? [{ ...DEMO_CHANNEL, agents: agents.map((agent) => agent.id) }];
  const complete = {
    ...settings,
    ...around,
    demoModel: demo,
    agents,
    crews: file.crews.map((crew) => ({ ...crew, backend: withKey(crew.backend, keys) })),
    channels: channelsOf(channels, { ...file, agents }),
    adapters: { ...file.adapters, console: { ...file.adapters.console, port: port ?? file.adapters.console.port } },
    ...toolsOf(file, surround.dataDir),
    announcements: completeTexts(file.announcements),
    log: { ...file.log, level: logLevel ?? file.log.level },
  };
  const unwise = [...warnings, ...complete.channels.flatMap(neverExpires)];
  return freeze(Object.defineProperty({ ...complete, secrets, warnings: unwise }, 'secrets', { enumerable: false }));
};

/** Returns the configuration with other agents or channels. */
export const withPlaces = (config: Config, places: Partial<Pick<Config, 'agents' | 'channels'>>): Config =>
  Object.freeze(
    Object.defineProperty({ ...config, ...places, secrets: config.secrets }, 'secrets', { enumerable: false }),
  );

const toolsOf = (file: ConfigFile, dataDir: string): Pick<Config, 'mcp' | 'tools'> => {
  const isDemo = file.agents === undefined && Object.keys(file.mcp).length === 0;
  const tools: ToolLists | undefined = file.tools ?? (isDemo ? DEMO_TOOLS : undefined);
  const mcp = isDemo ? z.record(z.string(), serverSchema).parse(demoServers(dataDir)) : file.mcp;
  return { mcp, ...defined({ tools }) };
};

/**
 * Returns an agent's tool rules in a channel. Without a channel: the general rules and the agent's own. `only`: limits
 * a run to these tools; `null` for no limit.
 */
export const toolRulesOf = (
  { tools }: Pick<Config, 'tools'>,
  agent: Pick<AgentConfig, 'tools'>,
  channel: Pick<ChannelConfig, 'tools'> | null,
  only: readonly string[] | null = null,
): ToolRules =>
  uniteRules(
    [
      { scope: 'bot', lists: tools },
      { scope: 'agent', lists: agent.tools },
      { scope: 'channel', lists: channel?.tools },
    ],
    only,
  );

/** Returns `tools.members` of the channel, else of the agent, else the general one, else "ask". */
export const membersOf = (
  config: Pick<Config, 'tools' | 'agents' | 'channels'>,
  seat: { readonly agent: string; readonly channel: string },
): ToolRules['members'] =>
  channelIn(config, seat.channel)?.tools?.members ??
  config.agents.find(({ id }) => id === seat.agent)?.tools?.members ??
  config.tools?.members ??
  'ask';

/** Lists the agents and the crews, each with its place in the file. */
export const agentsAndCrews = <Agent, Crew>({ agents = [], crews = [] }: Listed<Agent, Crew>) => [
  ...agents.map((agent, index) => ({ ...agent, place: ['agents', index] as const })),
  ...crews.map((crew, index) => ({ ...crew, place: ['crews', index] as const })),
];

type Listed<Agent, Crew> = {
  readonly agents?: readonly Agent[] | undefined;
  readonly crews?: readonly Crew[] | undefined;
};

/** Returns whether an agent or the workers of a crew connect to Conch from outside (kind `remote`). */
export const hasRemote = (config: Listed<Pick<AgentConfig, 'backend'>, CrewConfig>): boolean =>
  agentsAndCrews(config).some(({ backend }) => backend.kind === 'remote');

/**
 * Returns whether an agent, or a worker of a crew, connects to Conch from outside. A worker's id begins with the id of
 * its crew. An id of the file's agents is never taken for a worker's.
 */
export const connectsItself = ({ agents, crews }: Pick<Config, 'agents' | 'crews'>, agent: string): boolean => {
  const own = agents.find(({ id }) => id === agent);
  if (own !== undefined) return own.backend.kind === 'remote';
  return crews.some(({ id, backend }) => backend.kind === 'remote' && agent.startsWith(`${id}-`));
};

/**
 * Returns the step limit of an agent's run in a channel; `undefined` for none. The first that is set counts: the
 * channel's, the agent's, for a turn the `maxSteps` of the agent's model, the general one.
 */
export const stepsOf = (
  config: Pick<Config, 'runs' | 'agents' | 'channels'>,
  seat: { readonly agent: string; readonly channel: string },
  type: keyof NonNullable<Config['runs']>,
): number | undefined => {
  const { runs, backend } = config.agents.find(({ id }) => id === seat.agent) ?? {};
  const modelSteps = type === 'conversational' && backend?.kind === 'llm' ? backend.maxSteps : undefined;
  return channelIn(config, seat.channel)?.runs?.[type] ?? runs?.[type] ?? modelSteps ?? config.runs?.[type];
};

/** Returns the settings of reviews in a channel; the defaults for a channel without such settings. */
export const reviewConfigOf = (
  config: Pick<Config, 'channels'>,
  channel: string,
): DeepReadonly<z.output<typeof reviewConfigSchema>> =>
  channelIn(config, channel)?.review ?? reviewConfigSchema.parse({});

const channelsById = idIndex<ChannelConfig>();

/** Returns the channel with this id; `undefined` for none. */
export const channelIn = ({ channels }: Pick<Config, 'channels'>, id: string): ChannelConfig | undefined =>
  channelsById(channels).get(id);

/** Returns an agent's settings for a seat on a floor with these turn settings. */
export const seatSettingsOf = (agent: AgentConfig, turnConfig: TurnConfig) => ({
  agent: agent.id,
  priority: agent.priority,
  timeoutSeconds: agent.timeoutSeconds ?? turnConfig.defaultTimeoutSeconds,
  // Default: agents that Conch restarts itself return to the queue by themselves.
  rejoin: agent.rejoin ?? turnConfig.rejoin ?? (agent.backend.kind === 'remote' ? 'manual' : 'auto'),
});

/** Whether operators may add an agent to any channel. */
export const isAddable = ({ crew }: Pick<AgentConfig, 'crew'>): boolean => crew === undefined;

const impossible = (id: string): never => {
  throw new Error(`impossible: channel ${id} was checked to have an adapter`);
};

type General = Pick<Config, 'turnConfig' | 'agents' | 'budgets' | 'retention'>;

/** Channels with the same agents and no overrides share objects, because there may be thousands of channels. */
const channelsOf = (channels: readonly FileChannel[], general: General): readonly ChannelConfig[] => {
  const seatings = new Map<string, Pick<ChannelConfig, 'agents' | 'seats'>>();
  return channels.map((channel) => {
    const overrides = Object.entries(channel).filter(([key]) => key in turnKeys);
    const { turnConfig } = general;
    if (overrides.length > 0) {
      const own = turnConfigSchema.parse({ ...turnConfig, ...Object.fromEntries(overrides) });
      return channelOf(channel, { ...general, turnConfig: own }, seatingOf(channel, general.agents, own));
    }
    const key = channel.agents.join(' ');
    const seating = seatings.get(key) ?? seatingOf(channel, general.agents, turnConfig);
    seatings.set(key, seating);
    return channelOf(channel, general, seating);
  });
};

const seatingOf = (
  { agents: ids }: FileChannel,
  agents: readonly AgentConfig[],
  turnConfig: TurnConfig,
): Pick<ChannelConfig, 'agents' | 'seats'> => {
  const seated = ids.flatMap((id) => agents.filter((agent) => agent.id === id));
  return { agents: ids, seats: seated.map((agent) => seatSettingsOf(agent, turnConfig)) };
};

const channelOf = (
  channel: FileChannel,
  { turnConfig, budgets, retention }: General,
  seating: Pick<ChannelConfig, 'agents' | 'seats'>,
): ChannelConfig => ({
  id: channel.id,
  adapter: ADAPTERS.find((name) => channel.id.startsWith(`${name}:`)) ?? impossible(channel.id),
  name: channel.name ?? channel.id.slice(channel.id.indexOf(':') + 1),
  ...seating,
  turnConfig,
  ...defined({ topic: channel.topic, tools: channel.tools, runs: channel.runs, review: channel.review }),
  budgets:
    channel.budgets === undefined
      ? budgets
      : {
          exchange: { ...budgets.exchange, ...channel.budgets.exchange },
          day: { ...budgets.day, ...channel.budgets.day },
        },
  retention: channel.retention ?? retention,
});

const completeAgent = (agent: FileAgent, keys: Surround['keys']): AgentConfig => {
  const { backend, id, name = id } = agent;
  return { ...agent, name, backend: withKey(backend, keys) };
};

const withKey = (backend: FileAgent['backend'], keys: Surround['keys']): FileAgent['backend'] => {
  if (backend.kind !== 'llm' || backend.provider === 'openai-compatible') return backend;
  const apiKey = backend.apiKey ?? keys[backend.provider];
  return apiKey === null ? backend : { ...backend, apiKey };
};

/** Returns the demo's agents. A model at OPENAI_BASE_URL gets the key in OPENAI_API_KEY, if that is set. */
const demoAgents = (demo: DemoModel | null, { openai }: Surround['keys']): readonly FileAgent[] => {
  const key = demo?.baseUrl === undefined || openai === null ? {} : { apiKey: openai };
  const backend = demo === null ? {} : { backend: backendSchema.parse({ kind: 'llm', ...demo, ...key }) };
  return DEMO_AGENTS.map((agent) => ({ priority: 10, timeoutSeconds: null, rejoin: null, ...agent, ...backend }));
};

const neverExpires = ({ id, seats, turnConfig }: ChannelConfig): readonly string[] =>
  seats
    .filter((seat) => seat.timeoutSeconds > turnConfig.maxTurnSeconds)
    .map(
      ({ agent, timeoutSeconds }) =>
        `In ${id} a turn of ${agent} ends after maxTurnSeconds (${turnConfig.maxTurnSeconds}), before its timeout (${timeoutSeconds}): raise maxTurnSeconds`,
    );

const freeze = <T extends object>(value: T): T => {
  if (Object.isFrozen(value)) return value;
  for (const member of Object.values(Object.getOwnPropertyDescriptors(value))) {
    if (typeof member.value === 'object' && member.value !== null) freeze(member.value);
  }
  return Object.freeze(value);
};
