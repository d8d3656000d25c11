import type { Logger } from 'pino';
import type { WebClient } from '@slack/web-api';
import { pause } from '../../../lib/retry.ts';
import type { Clock, Timers } from '../../../lib/time.ts';
import { AdapterError } from '../../port.ts';
import { reasonOf } from '../../delivery/connect-retry.ts';
import type { Ack } from '../commands.ts';
import { openHttpReceiver } from './http-receiver.ts';
import type { HttpReceiver } from './http-receiver.ts';
import { Sockets } from './sockets.ts';
import { brokenBy } from '../errors.ts';

/** How Slack's events come: over sockets that Conch opens, or as signed requests. */
export type ConnectionMode =
  | { readonly mode: 'socket'; readonly connections: number }
  | { readonly mode: 'http'; readonly host: string; readonly port: number; readonly path: string };

/** What a connection needs, and whom it tells. */
export type ConnectionPorts = {
  readonly connection: ConnectionMode;
  readonly appToken: string | null;
  readonly signingSecret: string | null;
  readonly apiUrl: string | null;
  readonly web: WebClient;
  /** Ends all waiting. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
  /** Acknowledges a payload once it is durable; rejects when Slack had better send it again. */
  readonly take: (body: unknown, ack: Ack) => Promise<void>;
  /** Nothing can be heard. */
  readonly lost: () => void;
  /** Something may have been missed; it can be heard again. */
  readonly back: () => void;
  readonly broken: (error: AdapterError) => void;
};

/** Slack's events. */
export type Connection = {
  /** Resolves when events come in; rejects with an `AdapterError` when they never will. */
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Where signed requests are taken, once started. */
  readonly url: string | null;
};

/** Without a payload for so long, Slack is asked whether it still knows us. */
const QUIET_MS = 60_000;

/**
 * Hears Slack's events by Slack's own Socket Mode client or Bolt's request checks. Bolt's App acknowledges an event before
 * anything looks at it, so it has no part in this: here the acknowledgement is whatever `take` does last.
 */
export function createConnection(ports: ConnectionPorts): Connection {
  const { connection, clock, log } = ports;
  let heardAt = clock.now();
  const take = async (body: unknown, ack: Ack): Promise<void> => {
    heardAt = clock.now();
    await ports.take(body, ack);
  };
  const sockets = new Sockets({
    ...ports,
    take: (body, ack) => {
      take(body, ack).catch((error: unknown) => log.warn({ why: reasonOf(error) }, 'a payload was not acknowledged'));
    },
  });
  let receiver: HttpReceiver | null = null;
  return {
    get url() {
      return receiver?.url ?? null;
    },
    async start() {
      if (connection.mode === 'socket') await sockets.open(connection.connections);
      else
        receiver = await openHttpReceiver({
          ...ports,
          ...connection,
          signingSecret: needed(ports.signingSecret),
          take,
        });
      watch(ports, () => heardAt).catch(() => undefined);
    },
    async stop() {
      sockets.close();
      await receiver?.close();
      receiver = null;
    },
  };
}

function needed(signingSecret: string | null): string {
  if (signingSecret !== null && signingSecret !== '') return signingSecret;
  const todo = 'Copy the Signing Secret from the page "Basic Information" of your app into SLACK_SIGNING_SECRET.';
  throw new AdapterError(`Requests of Slack cannot be checked without SLACK_SIGNING_SECRET. ${todo}`, {
    adapter: 'slack',
  });
}

/** Sockets notice in seconds that they are dead; a token that was taken back only shows by silence. */
async function watch(ports: ConnectionPorts, heardAt: () => number): Promise<void> {
  for (;;) {
    await pause(QUIET_MS, ports);
    try {
      if (ports.clock.now() - heardAt() >= QUIET_MS) await ports.web.auth.test();
    } catch (error) {
      const broken = brokenBy(error, 'SLACK_BOT_TOKEN');
      if (broken !== null && !ports.signal.aborted) ports.broken(broken);
    }
  }
}
