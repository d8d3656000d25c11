import type { SignalWords } from '../../turns/text/review-signals.ts';
import type { Instant, Timers } from '../../lib/time.ts';
import type { AgentId, ChannelId, MessageId, ModelUse } from '../../turns/floor/settings.ts';
import type { ProposedTicket } from '../../turns/proposed-ticket.ts';
import type { ToolGate } from '../tools/tool-gate.ts';
import type { Line } from '../../turns/view.ts';
import { retry } from '../../lib/retry.ts';
import type { RetryPolicy } from '../../lib/retry.ts';

/**
 * The content of one prompt. ACP agents and text commands get `text`. LLM backends send `system` and `parts`. JSON
 * commands get every field except `parts` and `longest`.
 */
export type TurnPrompt = {
  readonly channel: ChannelId;
  readonly epoch: number;
  /**
   * Why the agent is prompted. `grant`: a new turn. `resume`: the same turn after a wait, an interrupt or a restart.
   * `again`: messages that could not be injected into a running generation.
   */
  readonly reason: 'grant' | 'resume' | 'again';
  /** The lines of the conversation that the session lacks, oldest first. A new session also gets earlier lines. */
  readonly lines: readonly Line[];
  /**
   * The messages of people that this prompt must answer. `lines` leaves out those that the session already received,
   * and the order of a background run.
   */
  readonly messages: readonly Line[];
  /** The ids from `messages` that an earlier prompt of this turn held and no generation answered. */
  readonly open: readonly MessageId[];
  /** The texts that this agent has posted in this turn. */
  readonly saidSoFar: readonly string[];
  /** All agents seated at this floor, this agent included. */
  readonly roster: readonly {
    readonly id: AgentId;
    readonly name: string;
    readonly status: string;
    readonly description: string;
  }[];
  /**
   * The agent's part in the open task. `primary`, `reviewer`: its part in this turn. `member`: its part is not in this
   * turn. `other`: the agent has no part. Absent: no task is open.
   */
  readonly task?: {
    readonly role: 'primary' | 'reviewer' | 'member' | 'other';
    readonly signals: SignalWords;
    /** Set for the `primary` or `reviewer` of a task that is a ticket of a crew. */
    readonly isTicket?: true;
  };
  /**
   * The system prompt: who the agent is, the rules, and the roster. Unchanged between prompts until one of these
   * changes.
   */
  readonly system: string;
  /**
   * The new content in the order of the conversation. `own: true`: a message of this agent, only in sessions with
   * `posted` history. `own: false`: other messages, and the instructions for this prompt.
   */
  readonly parts: readonly { readonly own: boolean; readonly text: string }[];
  /** Maximum length of a whole request in characters, including the history. */
  readonly longest: number;
  /**
   * The whole prompt as one text with speakers' names. The oldest messages are cut to keep a request within `longest`.
   * Leaves `system` out when the session keeps history and received this `system` before.
   */
  readonly text: string;
};

/** Usage of one model call, or usage that an agent reports for a turn. Conch adds the person who requested it. */
export type Usage = {
  readonly tokens: number;
  /** Cost in millionths of a dollar. 0 when `use.source` is `unpriced`. */
  readonly costMicros: number;
  readonly use: Omit<ModelUse, 'requestedBy' | 'run'>;
};

/** Callbacks through which a session reports its work on one prompt. */
export type Report = {
  /** Reports a chunk of generated text. */
  text(chunk: string): void;
  /** Ends the current message. Text after it becomes a new message. */
  flush(): void;
  /**
   * Reports how many silent operations (tool calls, permission requests) are open now. A report of the agent always
   * counts as a sign of work. `host`: Conch reports its own operation, which counts only when `open` changes.
   * `limitMs`: the longest time that the operation may take; then the turn ends.
   */
  work(open: number, by?: 'host', limitMs?: number): void;
  /** Decides about the agent's tool calls and records them. */
  readonly gate: ToolGate;
  usage(usage: Usage): void;
  now(): Instant;
  /** Proposes a ticket to the crew of the floor. Resolves with the answer in words, also when there is no crew. */
  propose?(ticket: ProposedTicket): Promise<string>;
  /** Returns in milliseconds how long the turn lasts without another sign of work. `Infinity`: no deadline. */
  leftMs(): number;
};

/** How a prompt ended. `waiting`: the agent asked a question, which is already posted, and waits for the answer. */
export type Ending =
  | { readonly how: 'completed'; readonly handTo?: AgentId }
  | { readonly how: 'passed' }
  /** Waits for an answer from people, or from the agent in `of`. */
  | { readonly how: 'waiting'; readonly reason: 'answer'; readonly of?: AgentId }
  | { readonly how: 'interrupted' };

/** One agent's seat at one floor, as passed to its backend. */
export type SeatContext = {
  readonly channel: ChannelId;
  readonly agent: AgentId;
  readonly name: string;
  readonly persona: string;
  /** The model for this session. Default: the backend's model. */
  readonly model?: string;
  /**
   * Returns whether the rules can ever allow the tool, or any tool of the server when `tool` is `null`. Absent: all
   * tools can be allowed.
   */
  readonly reaches?: (server: string, tool: string | null) => boolean;
  /** Tells people that a server's tools are unavailable and why. `null`: the tools are available again. */
  readonly tellTools?: (server: string, why: string | null) => void;
};

/** The result of injecting a message into a running turn. */
export type InjectOutcome = 'injected' | 'next-prompt' | 'refused';

/** A conversation with one agent about one floor. At most one prompt runs at a time. */
export type AgentSession = {
  /** Resolves when the generation ends. Rejects with a `BackendError` when the session failed. */
  prompt(turn: TurnPrompt, report: Report): Promise<Ending>;
  /** Injects a message into the running generation. `observed`: the message is not addressed to the agent. */
  inject(message: Line, observed: boolean): Promise<InjectOutcome>;
  /** Stops the running generation, at the latest after `graceMs` by force. Resolves when the generation has stopped. */
  interrupt(graceMs: number): Promise<void>;
  /** Passes on a message of others while this agent does not hold the floor. */
  observe?(message: Line): void;
  /** Asks the agent which candidate should speak next. Resolves with `null` when it has no preference. */
  choose?(
    candidates: readonly AgentId[],
    lines: readonly Line[],
    report: Pick<Report, 'usage' | 'now'>,
  ): Promise<AgentId | null>;
  /**
   * Liveness check. Resolves when the agent answers. Stays pending while it does not, which counts as a missed beat.
   * Rejects when the agent is known to be gone.
   */
  ping(): Promise<void>;
  close(): Promise<void>;
  /** The agent's program and version, if the agent reports them. */
  readonly program?: string | null;
  /**
   * True when the agent continues an earlier conversation and remembers what it read there. False: the conversation is
   * new. Absent: the backend does not report it.
   */
  readonly resumed?: boolean;
  /**
   * Identifies the agent's memory: a different object means that the agent has forgotten the conversation. Default:
   * the session itself.
   */
  readonly memory?: object;
  /**
   * How the session keeps history. `posted`: it stores the parts of its prompts, so only posted text. `own`: the agent
   * itself stores all that it received and answered. Absent: no history, each prompt stands alone.
   */
  readonly history?: 'posted' | 'own';
  /** Characters of a request besides the prompt. Default: 0. */
  readonly overhead?: number;
};

/** A kind of agent, for example command or ACP: opens sessions for seats. */
export type AgentBackend = {
  readonly kind: string;
  /** True when the model must print a signal at the end of its turn, because the backend has no other way to end it. */
  readonly needsSignal: boolean;
  /**
   * True when its agents ask Conch before they change anything on the machine. An ACP agent that acts without asking is
   * stopped.
   */
  readonly promisesToAsk: boolean;
  /**
   * What its agents do without asking, although Conch sets every option that makes them ask. Words that follow the
   * agent's name. Absent or `null`: nothing is known.
   */
  readonly actsUnasked?: string | null;
  /** What a background run can set: the model, a limit of steps, the only tools. Absent: nothing. */
  readonly settable?: readonly ('model' | 'steps' | 'tools')[];
  /** True when its agents connect to Conch. Idle sessions of such agents are not closed. */
  readonly connectsItself?: boolean;
  open(seat: SeatContext): Promise<AgentSession>;
  /** Makes the next session of this seat start without memory. Absent: the backend drops no memory. */
  forget?(seat: Pick<SeatContext, 'channel' | 'agent'>): void;
};

/** Details of a failure besides its message. */
type FailureParts = {
  readonly terminal?: boolean;
  readonly retryAfterMs?: number | null;
  readonly cause?: unknown;
  /** `code` of `SessionFailure`. Default: the first code in `cause` and its causes, else `EXECUTION_ERROR`. */
  readonly code?: string;
};

/** Why a session was lost, in one line. `final`: no session is reopened automatically. */
export type SessionFailure = {
  readonly message: string;
  /** A status such as "HTTP_401", a system error such as "ENOENT", else "AGENT_EXECUTION_ERROR". */
  readonly code: string;
  readonly final: boolean;
};

/**
 * An agent or its service failed. `terminal`: a retry will not help, for example after a rejected key or with a
 * missing binary.
 */
export class BackendError extends Error {
  override readonly name = 'BackendError';
  readonly terminal: boolean;
  /**
   * The service is busy or unreachable: a retry after this many milliseconds may succeed. `null`: no retry is
   * suggested.
   */
  readonly retryAfterMs: number | null;
  readonly code: string;

  constructor(message: string, { terminal = false, retryAfterMs = null, cause, code }: FailureParts = {}) {
    super(message, { cause });
    this.terminal = terminal;
    this.retryAfterMs = retryAfterMs;
    this.code = code ?? codeIn(cause);
  }
}

/** Returns the code of a failure, for programs that read Conch's output. Default: `EXECUTION_ERROR`. */
export function codeOf(error: unknown): string {
  return error instanceof BackendError ? error.code : codeIn(error);
}

/** Returns the first code in an error and its causes, up to five errors deep. Default: `EXECUTION_ERROR`. */
function codeIn(error: unknown): string {
  let inner = error;
  for (let depth = 0; depth < DEEPEST && typeof inner === 'object' && inner !== null; depth += 1) {
    if ('statusCode' in inner && typeof inner.statusCode === 'number') return `HTTP_${inner.statusCode}`;
    if ('code' in inner && typeof inner.code === 'string' && /^[A-Z][A-Z0-9_]+$/u.test(inner.code)) return inner.code;
    inner = 'cause' in inner ? inner.cause : null;
  }
  return EXECUTION_ERROR;
}

/** The specification's code for a failure without a code of its own. */
export const EXECUTION_ERROR = 'AGENT_EXECUTION_ERROR';
const DEEPEST = 5;

/** The agent acted, or may act from now on, without the permission that it promises to ask for. The session ends. */
export class UnaskedError extends BackendError {}

/**
 * Conch cannot start the agent now: the agent must connect itself, or a person must trust its folder. Does not count as
 * a failure. The session is opened again when `returns` settles. After `graceMs` milliseconds the floor treats the
 * agent as gone.
 */
export class AbsentError extends BackendError {
  readonly returns: Promise<unknown>;
  readonly graceMs: number;

  constructor(message: string, absence: { readonly returns: Promise<unknown>; readonly graceMs: number }) {
    super(message);
    this.returns = absence.returns;
    this.graceMs = absence.graceMs;
  }
}

/**
 * The agent is not started or prompted: its folder holds files that act before anybody is asked, and no operator trusts
 * these files.
 */
export class UntrustedError extends AbsentError {}

/** Dependencies of `retryWithinTurn`, besides the work. */
type RetryPorts = {
  readonly report: Pick<Report, 'leftMs'>;
  readonly timers: Timers;
  /** Aborted when somebody stops the generation. */
  readonly signal: AbortSignal;
  readonly failureOf: (error: unknown) => BackendError;
  /** Called before each wait. Not called after the failure that is final. */
  readonly failed: () => void;
};

/**
 * Calls a service and retries temporary failures (`retryAfterMs`) within the turn. Waits at least as long as the
 * service asks. Gives up after ten attempts, or when the wait would outlast the turn. Rejects with the last failure, or
 * with the signal's reason.
 */
export async function retryWithinTurn<T>(work: () => Promise<T>, ports: RetryPorts): Promise<T> {
  const { report, failureOf, failed } = ports;
  return await retry(work, POLICY, {
    ...ports,
    judge({ error, waitMs }) {
      const { retryAfterMs } = failureOf(error);
      const isFinal = retryAfterMs === null || Math.max(waitMs, retryAfterMs) >= report.leftMs();
      return isFinal ? 'give-up' : { notBeforeMs: retryAfterMs };
    },
    waiting: failed,
  });
}

const POLICY: RetryPolicy = { firstMs: 1_000, longestMs: 15_000, attempts: 10 };
