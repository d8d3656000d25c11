import type { Logger } from 'pino';
import { LogLevel, SocketModeClient } from '@slack/socket-mode';
import { z } from 'zod';
import type { Timers } from '../../../lib/time.ts';
import type { Ack } from '../commands.ts';

/** What a socket needs. */
export type SocketPorts = {
  readonly appToken: string;
  readonly apiUrl: string | null;
  readonly timers: Timers;
  readonly log: Logger;
  /** A payload as it came, to be acknowledged once it is safe. */
  readonly take: (body: unknown, ack: Ack) => void;
};

/** How a socket ended: Slack asked for a new one, switched Socket Mode off, or it was lost. */
export type End = 'refresh' | 'disabled' | 'lost';

/** One Socket Mode connection that Slack has greeted. */
export type Socket = {
  /** After `refresh` it may still bring something until it is closed. */
  readonly ended: Promise<End>;
  close(): void;
};

const HELLO_WITHIN_MS = 20_000;
const CALL_TIMEOUT_MS = 15_000;

/** Opens one connection. Rejects with the error of `apps.connections.open`, or when Slack does not greet in time. */
export async function openSocket(ports: SocketPorts): Promise<Socket> {
  const client = new Client(ports);
  client.on('slack_event', (event: { readonly body: unknown; readonly ack: Ack }) =>
    ports.take(event.body, async (reply) => event.ack(reply ?? {})),
  );
  const ended = new Promise<End>((resolve) => {
    client.on('told', resolve);
    client.on('disconnected', () => resolve('lost'));
  });
  const close = (): void => void client.disconnect().catch(() => undefined);
  const late = Promise.withResolvers<never>();
  const timer = ports.timers.after(HELLO_WITHIN_MS, () => {
    late.reject(new Error(`no greeting from Slack within ${HELLO_WITHIN_MS / 1_000} s`));
    close();
  });
  try {
    const end = await Promise.race([client.start().then(() => null), late.promise, ended]);
    if (end === null || end === 'disabled') return { ended, close };
    throw UNGREETED;
  } catch (error) {
    throw error instanceof Error ? error : UNGREETED;
  } finally {
    timer.cancel();
  }
}

const UNGREETED = new Error('the connection closed before Slack greeted');
const frameSchema = z.looseObject({ type: z.string(), reason: z.string().nullish(), payload: z.unknown().optional() });
const ENDS: Readonly<Record<string, End>> = { link_disabled: 'disabled', too_many_websockets: 'lost' };
const limitedSchema = z.looseObject({ type: z.literal('app_rate_limited') });

/**
 * Slack's client for one connection; whoever opened it opens the next one. A payload that the client does not expect would
 * end the program, and it would close before another connection is there: this one looks at each frame first.
 */
class Client extends SocketModeClient {
  readonly #ports: SocketPorts;

  constructor(ports: SocketPorts) {
    super({
      appToken: ports.appToken,
      autoReconnectEnabled: false,
      logger: quietLogger(ports.log),
      clientOptions: {
        ...(ports.apiUrl === null ? {} : { slackApiUrl: ports.apiUrl }),
        retryConfig: { retries: 0 },
        rejectRateLimitedCalls: true,
        timeout: CALL_TIMEOUT_MS,
      },
    });
    this.#ports = ports;
  }

  protected override async onWebSocketMessage(raw: string | ArrayBuffer, isBinary: boolean): Promise<void> {
    const frame = frameIn(raw, isBinary);
    if (frame === null) return this.#ports.log.warn('a frame of Slack was not understood');
    if (frame.type === 'disconnect') {
      this.emit('told', ENDS[frame.reason ?? ''] ?? 'refresh');
      return;
    }
    if (limitedSchema.safeParse(frame.payload).success) return this.#ports.take(frame.payload, async () => undefined);
    try {
      await super.onWebSocketMessage(raw, isBinary);
    } catch {
      this.#ports.log.warn({ type: frame.type }, 'a payload of Slack was not understood');
    }
  }
}

function frameIn(raw: string | ArrayBuffer, isBinary: boolean): z.output<typeof frameSchema> | null {
  if (isBinary || typeof raw !== 'string') return null;
  try {
    return frameSchema.safeParse(JSON.parse(raw)).data ?? null;
  } catch {
    return null;
  }
}

/** The client's own words go to the debug log; its debug words hold whole payloads and go nowhere. */
function quietLogger(log: Logger): NonNullable<ConstructorParameters<typeof SocketModeClient>[0]>['logger'] & object {
  const tell = (words: unknown): void => log.debug({ words: String(words).slice(0, 300) }, "Slack's client");
  return {
    debug: () => undefined,
    info: tell,
    warn: tell,
    error: tell,
    setLevel: () => undefined,
    getLevel: () => LogLevel.INFO,
    setName: () => undefined,
  };
}
