import type { FloorQueries } from '../adapters/port.ts';
import { channelIn, isAddable, seatSettingsOf } from '../config/config.ts';
import type { WaitingServer } from '../agents/mcp/server-logins.ts';
import type { Config } from '../config/config.ts';
import type { Log } from './log.ts';
import type { AgentId, ChannelId, SeatSettings } from '../turns/floor/settings.ts';
import type { TurnManager } from '../turns/manager.ts';
import type {
  CommandContext,
  CrewCommands,
  ReviewCommands,
  Roster,
  RunCommands,
  TrustCommands,
} from '../turns/commands/context.ts';
import type { FloorStore } from '../turns/floor-store.ts';
import type { Clock } from '../lib/time.ts';
import type { KnownPeople } from './read-model.ts';
import { refusalText } from '../turns/floor/refusals.ts';

/** Dependencies of operators' commands. */
export type CommandContextPorts = {
  readonly manager: Pick<TurnManager, 'apply'>;
  readonly roster: Roster;
  readonly floors: Pick<FloorQueries, 'view' | 'turns'>;
  readonly store: Pick<FloorStore, 'why' | 'message'>;
  readonly config: () => Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly people: Pick<KnownPeople, 'operators' | 'nameOf'>;
  readonly suspended: (channel: ChannelId) => string | null;
  readonly runs: RunCommands;
  readonly reviews: ReviewCommands;
  readonly crews: CrewCommands;
  /** The MCP servers that need a login. */
  readonly waiting?: () => readonly WaitingServer[];
  readonly trust?: TrustCommands;
};

/** Creates the context of operators' commands: floors, agents, and the names and roles of the present configuration. */
export function createCommandContext(ports: CommandContextPorts): CommandContext {
  const { manager, roster, floors, store, config, clock, log, people, suspended, runs, waiting = () => [] } = ports;
  return {
    floors: {
      apply: (channel, command) => manager.apply(channel, command),
      view: (channel) => floors.view(channel),
      turns: (channel, limit) => floors.turns(channel, limit),
      why: (message) => store.why(message),
      message: (id) => store.message(id),
    },
    roster: {
      list: () => roster.list(),
      status: (agent) =>
        roster.status(agent)?.concat(waiting().map(({ server, why }) => `⚠ ${server}: ${why}`)) ?? null,
      restart: (agent) => roster.restart(agent),
    },
    operators: () => people.operators(),
    names: {
      agent: (id) => config().agents.find((agent) => agent.id === id)?.name ?? people.nameOf(id),
      channel: (id) => channelIn(config(), id)?.name ?? id,
    },
    words: { refusal: refusalText },
    clock,
    suspended,
    runs,
    reviews: ports.reviews,
    crews: ports.crews,
    ...(ports.trust !== undefined && { trust: ports.trust }),
    seat: (channel, agent) => seatFor(config(), channel, agent),
    audit: (entry) => log.info(entry, 'operator command'),
  };
}

function seatFor(config: Config, channel: ChannelId, agent: AgentId): SeatSettings | null {
  const place = channelIn(config, channel);
  const agentConfig = config.agents.find(({ id }) => id === agent);
  if (place === undefined || agentConfig === undefined || !isAddable(agentConfig)) return null;
  const { priority, timeoutSeconds, rejoin } = seatSettingsOf(agentConfig, place.turnConfig);
  return { agent, priority, timeoutMs: timeoutSeconds * 1_000, rejoin };
}
