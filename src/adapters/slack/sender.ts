import type { WebClient } from '@slack/web-api';
import type { Logger } from 'pino';
import type { Clock, Timers } from '../../lib/time.ts';
import { createMessageSender } from '../delivery/chat-adapter.ts';
import type { MessageSender } from '../delivery/chat-adapter.ts';
import type { Memory, FloorQueries } from '../port.ts';
import type { Self, SlackSettings } from './client.ts';
import { createMessageClient } from './message-client.ts';
import { Statuses } from './status.ts';

/** What speaking on Slack needs. `web` is a client from `createClient`. */
export type SenderPorts = {
  readonly web: WebClient;
  readonly self: () => Self;
  readonly queries: FloorQueries;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
  readonly memory: Memory;
  readonly settings: SlackSettings;
};

/** Everything that Conch says and shows on Slack. */
export type Sender = MessageSender & {
  /** Learns what speaking needs. Never rejects. */
  start(): Promise<void>;
};

/** Speaks on Slack. */
export function createSender(ports: SenderPorts): Sender {
  const { queries, settings } = ports;
  const statuses = new Statuses({
    ...ports,
    ...settings,
    speakerOf: (agent) => queries.agents().find(({ id }) => id === agent) ?? { id: agent, name: agent, avatar: null },
  });
  const client = createMessageClient({ ...ports, posted: (channel) => statuses.posted(channel) });
  const sender = createMessageSender({ ...ports, client });
  return {
    ...sender,
    start: () => client.start(),
    receipt(channel, message, receipt) {
      statuses.anchor(channel, message);
      return sender.receipt(channel, message, receipt);
    },
    card(channel, view) {
      sender.card(channel, view);
      statuses.show(channel, view);
    },
    async stop() {
      await Promise.all([sender.stop(), statuses.stop()]);
    },
  };
}
