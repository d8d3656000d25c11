import type { Act } from '../contract.ts';

type Ask = {
  readonly do: 'ask';
  readonly title: string;
  /** The kinds of the offered options, in order. */
  readonly kinds?: readonly string[];
  /** The ids of the offered options. */
  readonly ids?: readonly string[];
  /** The kind of tool. */
  readonly kind?: string;
  /** More fields of the tool call. */
  readonly call?: object;
  /** True: does not post the answer. */
  readonly silent?: boolean;
  /** `false`: continues without the answer. */
  readonly waits?: boolean;
};

/**
 * One act of the fake agent in a generation: those of every agent, and those of ACP only. "SERVER" stands for the name
 * under which it got the floor's tools.
 */
export type FakeAct =
  | Exclude<Act, { do: 'ask' }>
  | Ask
  /** Starts a tool call. An `update` can end it. */
  | { readonly do: 'tool'; readonly id: string }
  /** Withdraws its last request for permission. */
  | { readonly do: 'withdraw' }
  /** Waits for the answer to a request that it did not wait for. */
  | { readonly do: 'answer' }
  | { readonly do: 'update'; readonly body: object; readonly session?: string }
  /**
   * Creates the file named in its prompt. `tells`: reports it. `inRepository`: only if its folder is a Git repository.
   */
  | { readonly do: 'make'; readonly tells?: boolean; readonly inRepository?: boolean }
  /** Writes any bytes to its standard output. */
  | { readonly do: 'send'; readonly line: string }
  | { readonly do: 'big'; readonly bytes: number }
  | { readonly do: 'flood'; readonly messages: number }
  | { readonly do: 'stop'; readonly reason: string }
  /** Answers the prompt with an error. */
  | {
      readonly do: 'fail';
      readonly error: { readonly code: number; readonly message: string; readonly data?: unknown };
    };

/** The behaviour of the fake agent in all acts. */
export type FakeManners = {
  /** Parts of the answers to `initialize`, `session/new` and `session/prompt`. */
  readonly initialize?: object;
  readonly session?: {
    readonly modes?: object;
    readonly models?: object;
    readonly configOptions?: readonly { readonly id: string }[];
  };
  readonly result?: object;
  /** The answer to a message injected into a running turn. */
  readonly steering?: string;
  /** Errors returned instead of answers, by method. */
  readonly refuse?: Record<string, { readonly code: number; readonly message: string; readonly data?: unknown }>;
  /** The value that its options keep, whatever they are set to. */
  readonly stubborn?: string;
  /** Methods without an answer. */
  readonly mute?: readonly string[];
  /** Text that it sends after the end of a prompt. */
  readonly late?: string;
  /** Prints lines that are no messages. */
  readonly noise?: boolean;
  /** Ignores SIGTERM and the end of its input. */
  readonly deaf?: boolean;
  /** Starts a child process that ignores SIGTERM. */
  readonly child?: boolean;
  /** Exits at once, with this text on standard error. */
  readonly exit?: string;
};
