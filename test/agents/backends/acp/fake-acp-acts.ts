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
  /** True: writes neither "allowed" nor "rejected" after the answer. */
  readonly silent?: boolean;
  /** `false`: continues without waiting for the answer. */
  readonly waits?: boolean;
};

/**
 * One act of the fake agent in a generation: the acts of the contract, and acts of ACP only. "SERVER" in an act stands
 * for the name of the floor's tool server.
 */
export type FakeAct =
  | Exclude<Act, { do: 'ask' }>
  | Ask
  /** Starts a tool call. An `update` can end it. */
  | { readonly do: 'tool'; readonly id: string }
  /** Withdraws its last request for permission. */
  | { readonly do: 'withdraw' }
  /** Waits for the answer to its last `ask` with `waits: false`. */
  | { readonly do: 'answer' }
  | { readonly do: 'update'; readonly body: object; readonly session?: string }
  /**
   * Creates the file named in its prompt. `tells`: reports the edit. `inRepository`: acts only in a Git repository.
   */
  | { readonly do: 'make'; readonly tells?: boolean; readonly inRepository?: boolean }
  /** Writes `line` to its standard output. */
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
  /** `initialize`, `session`, `result`: parts of the answers to `initialize`, `session/new` and `session/prompt`. */
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
  /** The value that its options keep when the host sets another value. */
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
