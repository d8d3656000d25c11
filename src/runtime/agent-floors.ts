import type { ChatAdapter } from '../adapters/port.ts';
import type { Floors } from '../agents/session/floors.ts';
import type { Config } from '../config/config.ts';
import { namedLines } from './read-model.ts';
import type { AgentCommand } from '../turns/floor/command.ts';
import type { ChannelId } from '../turns/floor/settings.ts';
import type { Applied, FloorReader } from '../turns/records.ts';
import type { Clock } from '../lib/time.ts';
import { viewOf } from '../turns/view.ts';

/** What the floors are made of, for agents. */
export type FloorsPorts = {
  readonly reader: FloorReader;
  readonly config: () => Config;
  readonly clock: Clock;
  readonly adapterOf: (channel: ChannelId) => ChatAdapter | null;
  readonly apply: (channel: ChannelId, command: AgentCommand) => Promise<Applied>;
  /** Takes out what must never be shown. */
  readonly clean: (text: string) => string;
};

/** The floors as agents see them: lines carry names, drafts go to the channel's platform. */
export function createFloors({ reader, config, clock, adapterOf, apply, clean }: FloorsPorts): Floors {
  return {
    apply,
    lines: (channel, after, upto) => namedLines(reader.lines(channel, after, upto), config()),
    recent(channel, limit) {
      const last = reader.floor(channel)?.lines ?? 0;
      return namedLines(reader.lines(channel, Math.max(0, last - limit), last), config());
    },
    message(id) {
      const row = reader.message(id);
      if (row === null) return null;
      const { author, text, attachments, sentAt, edited, deleted } = row;
      const change = deleted ? 'deleted' : edited ? 'edited' : null;
      return { line: 0, at: sentAt, author: { kind: 'person', ...author }, text, attachments, message: id, change };
    },
    view(channel) {
      const floor = reader.floor(channel);
      return floor === null ? null : viewOf(floor, clock.now());
    },
    draft(channel, agent, epoch, text) {
      const known = config().agents.find(({ id }) => id === agent);
      adapterOf(channel)?.draft?.(
        channel,
        { id: agent, name: known?.name ?? agent, avatar: known?.avatar ?? null },
        epoch,
        text === null ? null : clean(text),
      );
    },
  };
}
