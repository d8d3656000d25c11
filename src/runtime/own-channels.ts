import { adapterOf } from '../adapters/port.ts';
import type { ChatAdapter, Intake, FloorQueries } from '../adapters/port.ts';
import type { ChannelId } from '../turns/floor/settings.ts';

/** Whether an adapter is told of a channel: of its own, or of any if it oversees them. */
export function concerns(adapter: ChatAdapter, channel: ChannelId): boolean {
  return adapter.capabilities.oversees === true || isOwn(adapter, channel);
}

/** What an adapter may look at. */
export function queriesFor(adapter: ChatAdapter, all: FloorQueries): FloorQueries {
  const at = <T>(channel: ChannelId, look: () => T, nothing: T): T => (concerns(adapter, channel) ? look() : nothing);
  return {
    channels: () => all.channels().filter(({ id }) => concerns(adapter, id)),
    agents: () => all.agents(),
    view: (channel) => at(channel, () => all.view(channel), null),
    outlook: (channel) => at(channel, () => all.outlook(channel), null),
    turns: (channel, limit) => at(channel, () => all.turns(channel, limit), []),
    journal: (channel, limit, before) => at(channel, () => all.journal(channel, limit, before), []),
    lines: (channel, limit) => at(channel, () => all.lines(channel, limit), []),
  };
}

/** The intake for one adapter: takes reports of its own channels, and commands for all that concern it. */
export function intakeFor(adapter: ChatAdapter, intake: Intake): Intake {
  const mine = (channel: ChannelId, what: string, allowed = isOwn(adapter, channel)): void => {
    if (!allowed) throw new Error(`impossible: ${adapter.name} reports ${what} of ${channel}`);
  };
  return {
    ...intake,
    async message(message) {
      mine(message.channel, 'a message');
      await intake.message(message);
    },
    async amend(change) {
      mine(change.channel, 'a change');
      await intake.amend(change);
    },
    async command(channel, by, line, epoch) {
      mine(channel, 'a command', concerns(adapter, channel));
      return await intake.command(channel, by, line, epoch);
    },
    async thread(thread) {
      mine(thread.id, 'a thread');
      mine(thread.parent, 'a thread');
      await intake.thread(thread);
    },
    suspend(channel, why) {
      mine(channel, 'the end');
      intake.suspend(channel, why);
    },
    restore(channel) {
      mine(channel, 'the return');
      intake.restore(channel);
    },
  };
}

function isOwn(adapter: ChatAdapter, channel: ChannelId): boolean {
  return adapterOf([adapter], channel) !== null;
}
