import type { Act } from '../contract.ts';

type Ask = {
  readonly do: 'ask';
  readonly title: string;
  /** What it offers, in this order. */
  readonly kinds?: readonly string[];
  /** The ids of what it offers. */
  readonly ids?: readonly string[];
  /** The kind of tool. */
  readonly kind?: string;
  /** More about the tool call. */
  readonly call?: object;
  /** Does not write what it was answered. */
  readonly silent?: boolean;
  /** `false`: goes on without the answer. */
  readonly waits?: boolean;
};

/**
 * What the fake agent does in one generation: what every agent can, and what only this protocol has. The word SERVER in it
 * is the name under which the agent was given the floor's tools.
 */
export type FakeAct =
  | Exclude<Act, { do: 'ask' }>
  | Ask
  /** A tool call begins; `update` can end it. */
  | { readonly do: 'tool'; readonly id: string }
  /** Takes its last request for permission back. */
  | { readonly do: 'withdraw' }
  /** Waits for the answer to a request that it went on without. */
  | { readonly do: 'answer' }
  | { readonly do: 'update'; readonly body: object; readonly session?: string }
  /** Makes the file that its prompt names, with or without telling of it; perhaps only where its folder is a Git repository. */
  | { readonly do: 'make'; readonly tells?: boolean; readonly inRepository?: boolean }
  /** Any bytes on its standard output. */
  | { readonly do: 'send'; readonly line: string }
  | { readonly do: 'big'; readonly bytes: number }
  | { readonly do: 'flood'; readonly messages: number }
  | { readonly do: 'stop'; readonly reason: string }
  /** Answers the prompt with an error. */
  | {
      readonly do: 'fail';
      readonly error: { readonly code: number; readonly message: string; readonly data?: unknown };
    };

/** How the fake agent behaves in all it does. */
export type FakeManners = {
  /** Parts of the answers to `initialize`, `session/new` and `session/prompt`. */
  readonly initialize?: object;
  readonly session?: {
    readonly modes?: object;
    readonly models?: object;
    readonly configOptions?: readonly { readonly id: string }[];
  };
  readonly result?: object;
  /** What it answers to a message for a running turn. */
  readonly steering?: string;
  /** Errors in place of answers, by method. */
  readonly refuse?: Record<string, { readonly code: number; readonly message: string; readonly data?: unknown }>;
  /** What its options stay at, whatever they are set to. */
  readonly stubborn?: string;
  /** Methods that it never answers. */
  readonly mute?: readonly string[];
  /** Text that it sends after the end of a prompt. */
  readonly late?: string;
  /** Prints lines that are no messages. */
  readonly noise?: boolean;
  /** Ignores SIGTERM and the end of its input. */
  readonly deaf?: boolean;
  /** Starts a process that ignores SIGTERM. */
  readonly child?: boolean;
  /** Ends at once, with these last words. */
  readonly exit?: string;
};
