import type { ChannelId } from '../../turns/floor/settings.ts';
import { ChatError } from '../port.ts';
import type { Capabilities, ChatAdapter, History, Intake, FloorQueries, Position } from '../port.ts';
import type { MessageSender } from './sender.ts';

/** A platform that has told who Conch is there. */
export type OpenPlatform = {
  readonly sender: MessageSender;
  /** Resolves when messages come in; rejects with an `AdapterError` when they never will. */
  connect(): Promise<void>;
  /** Hears nothing more, and gives up what was not taken in. */
  disconnect(): Promise<void>;
  readHistory(channel: ChannelId, after: Position | null): Promise<History>;
  /** A call for a channel failed: perhaps it cannot be used any more. */
  failed(channel: ChannelId, error: unknown): void;
};

/** What makes an adapter of a platform. */
export type PlatformOptions = {
  readonly name: string;
  /** The platform's name in sentences. */
  readonly title: string;
  readonly capabilities: Capabilities;
  /** Reaches the platform, with patience. Rejects with an `AdapterError` when that will never be. */
  readonly open: (ports: {
    readonly intake: Intake;
    readonly queries: FloorQueries;
    readonly signal: AbortSignal;
  }) => Promise<OpenPlatform>;
};

/** While it connects, posts are tried again after so long, whatever the attempts of former runs were. */
const CONNECTING_MS = 1_000;

/**
 * A chat adapter of one platform: what is asked of it before it is connected, or after it was stopped, rejects as unreachable.
 */
export function createChatAdapter(options: PlatformOptions): ChatAdapter {
  const ending = new AbortController();
  const state: State = { platform: null };
  const { trying, up } = asking(options, state);
  return {
    name: options.name,
    capabilities: options.capabilities,
    async start(intake, queries) {
      try {
        const opened = await options.open({ intake, queries, signal: ending.signal });
        if (ending.signal.aborted) return;
        state.platform = opened;
        await opened.connect();
      } catch (error) {
        if (!ending.signal.aborted) throw error;
      }
    },
    async stop() {
      ending.abort();
      const { platform } = state;
      state.platform = null;
      await platform?.disconnect();
      await platform?.sender.stop();
    },
    post: (channel, post) => trying('post', channel, ({ sender }) => sender.post(channel, post)),
    find: (channel, post) => trying('find', channel, ({ sender }) => sender.find(channel, post)),
    edit: (channel, id, text) => trying('edit', channel, ({ sender }) => sender.edit(channel, id, text)),
    receipt: async (channel, message, receipt) => up('receipt', channel).sender.receipt(channel, message, receipt),
    draft: (channel, speaker, epoch, text) => state.platform?.sender.draft(channel, speaker, epoch, text),
    card: (channel, view) => state.platform?.sender.card(channel, view),
    catchUp: (channel, after) =>
      trying('catchUp', channel, async (here) => {
        const history = await here.readHistory(channel, after);
        await here.sender.tidy(channel);
        return history;
      }),
  };
}

type State = { platform: OpenPlatform | null };

function asking({ title }: PlatformOptions, state: State) {
  const up = (method: string, channel: ChannelId): OpenPlatform => {
    if (state.platform !== null) return state.platform;
    const where = { method, channel, fault: 'unreachable', retryAfterMs: CONNECTING_MS } as const;
    throw new ChatError(`${title} is not connected yet`, where);
  };
  const trying = async <T>(
    method: string,
    channel: ChannelId,
    work: (here: OpenPlatform) => Promise<T>,
  ): Promise<T> => {
    const here = up(method, channel);
    try {
      return await work(here);
    } catch (error) {
      here.failed(channel, error);
      throw error;
    }
  };
  return { up, trying };
}
