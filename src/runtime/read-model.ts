import type { Observatory } from '../adapters/port.ts';
import type { Config } from '../config/config.ts';
import type { ChannelId } from '../turns/floor/settings.ts';
import type { FloorReader, Line } from '../turns/records.ts';
import type { Clock } from '../lib/time.ts';
import { turnRecords, viewOf } from '../turns/view.ts';

/** How much of the journal is read for a list of turns: each turn leaves a few dozen entries. */
const ENTRIES_PER_TURN = 40;

/** What the console and cards may look at: the stored floors, under the names of the configuration. */
export function createObservatory(reader: FloorReader, config: () => Config, clock: Clock): Observatory {
  return {
    channels: () =>
      config().channels.map(({ id, name, adapter, parent, turnConfig: { threads, allowBots } }) => ({
        id,
        name,
        adapter,
        parent: parent ?? null,
        threads,
        allowBots,
      })),
    agents: () => config().agents.map(({ id, name, avatar, description }) => ({ id, name, avatar, description })),
    view(channel) {
      const floor = reader.floor(channel);
      return floor === null ? null : viewOf(floor, clock.now());
    },
    turns: (channel, limit) => turnRecords(reader.journal(channel, limit * ENTRIES_PER_TURN)).slice(-limit),
    journal: (channel, limit, before) => reader.journal(channel, limit, before),
    lines(channel, limit) {
      const last = reader.floor(channel)?.lines ?? 0;
      return namedLines(reader.lines(channel, Math.max(0, last - limit), last), config());
    },
  };
}

/** Lines with the names that agents have in the configuration. */
export function namedLines(lines: readonly Line[], config: Config): readonly Line[] {
  return lines.map((line) => {
    const agent = line.author.kind === 'agent' ? config.agents.find(({ id }) => id === line.author.id) : undefined;
    return agent === undefined ? line : { ...line, author: { ...line.author, name: agent.name } };
  });
}

/** The channels that one adapter serves. */
export function channelsOf(config: Config, adapter: string): readonly ChannelId[] {
  return config.channels.filter((channel) => channel.adapter === adapter).map(({ id }) => id);
}
