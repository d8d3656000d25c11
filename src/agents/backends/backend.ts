import type { SignalWords } from '../../turns/text/review-signals.ts';
import type { Instant, Timers } from '../../lib/time.ts';
import type { AgentId, ChannelId, MessageId, ModelUse } from '../../turns/floor/settings.ts';
import type { ProposedTicket } from '../../turns/proposed-ticket.ts';
import type { ToolGate } from '../tools/tool-gate.ts';
import type { Line } from '../../turns/view.ts';
import { retry } from '../../lib/retry.ts';
import type { RetryPolicy } from '../../lib/retry.ts';

/** The content of one prompt. */
export type TurnPrompt = {
  readonly channel: ChannelId;
  readonly epoch: number;
  /**
   * Why the agent is prompted. `grant`: a new turn, or a background run. `resume`: the same turn after a wait, an
   * interrupt or a restart. `again`: the same turn, with messages that the agent may lack.
   */
  readonly reason: 'grant' | 'resume' | 'again';
  /** Lines of the conversation that the session may lack, oldest first. */
  readonly lines: readonly Line[];
  /**
   * The messages that this prompt must answer, unless they are deleted. `lines` may lack some of them, such as the
   * message that started a background run.
   */
  readonly messages: readonly Line[];
  /** The ids from `messages` that the agent was given earlier in this turn and that no complete generation answered. */
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
   * The agent's part in the open task. `primary` or `reviewer`: the agent acts as this in this turn. `member`: the
   * agent is the primary agent or the reviewer, but not in this turn. `other`: the agent is neither. Absent: no task is
   * open.
   */
  readonly task?: {
    readonly role: 'primary' | 'reviewer' | 'member' | 'other';
    readonly signals: SignalWords;
    /** Set for the `primary` or `reviewer` of a task that is a ticket of a crew. */
    readonly isTicket?: true;
  };
  /** The system prompt: who the agent is, the rules, and the roster. */
  readonly system: string;
  /**
   * The prompt without `system`, in the order of the conversation, with the instructions last. `own: true`: messages of
   * this agent, only in sessions with `posted` history. `own: false`: everything else.
   */
  readonly parts: readonly { readonly own: boolean; readonly text: string }[];
  /** Maximum length of a whole request in characters, including the session's history. */
  readonly longest: number;
  /**
   * The whole prompt as one text. Leaves `system` out when the session remembers that its last prompt had this
   * `system`.
   */
  readonly text: string;
};

/**
 * The tokens and the cost of one model call or of one generation. `use.input` includes cached tokens. `use.output`
 * includes the tokens of thoughts.
 */
export type Usage = {
  readonly tokens: number;
  /** Cost in millionths of a dollar. 0 when `use.source` is `unpriced`. */
  readonly costMicros: number;
  readonly use: Omit<ModelUse, 'requestedBy' | 'run'>;
};

/** Callbacks through which a session reports its work on one prompt. */
export type Report = {
  text(chunk: string): void;
  /**
   * Ends the current message: later text is a new message. While a request to `gate` is open, later text stays in the
   * same message.
   */
  flush(): void;
  /**
   * Reports how many silent operations (tool calls, permission requests) are open now. The report is a sign of work.
   * `host`: an operation of Conch, a sign of work only when `open` changes. `limitMs`: the turn times out when the
   * operation takes longer.
   */
  work(open: number, by?: 'host', limitMs?: number): void;
  readonly gate: ToolGate;
  usage(usage: Usage): void;
  now(): Instant;
  /** Proposes a ticket to the agent's crew. Resolves with the answer in words, also when the agent is in no crew. */
  propose?(ticket: ProposedTicket): Promise<string>;
  /**
   * Returns in milliseconds how long the turn lasts without another sign of work. For a background run: its timeout.
   * `Infinity`: no deadline. 0 or less: the turn is over or times out now.
   */
  leftMs(): number;
};

/** How a prompt ended. `waiting`: the agent asked a question, which was reported as text, and waits for the answer. */
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
   * Returns whether the rules, and in a background run its limits, can allow the tool. `tool: null`: whether they can
   * allow any tool of the server. Absent: all tools can be allowed.
   */
  readonly reaches?: (server: string, tool: string | null) => boolean;
  /** Tells people that a server's tools are unavailable and why. `null`: the tools are available again. */
  readonly tellTools?: (server: string, why: string | null) => void;
};

/**
 * The result of injecting a message into a running turn. `next-prompt`: the generation did not confirm that it received
 * the message. `refused`: the message is not stored any more.
 */
export type InjectOutcome = 'injected' | 'next-prompt' | 'refused';

/** A conversation with one agent at one floor. At most one prompt runs at a time. */
export type AgentSession = {
  /** Resolves when the generation ends. Rejects when the session failed or must end. */
  prompt(turn: TurnPrompt, report: Report): Promise<Ending>;
  /** Injects a message into the running generation. `observed`: the message is information, such as a correction. */
  inject(message: Line, observed: boolean): Promise<InjectOutcome>;
  /** Stops the running generation, at the latest after `graceMs` by force. Resolves when the generation has stopped. */
  interrupt(graceMs: number): Promise<void>;
  /** Passes on a message outside a prompt, such as one written during another agent's turn. No answer is expected. */
  observe?(message: Line): void;
  /** Asks the agent which candidate should speak next. Resolves with `null` when it has no preference. */
  choose?(
    candidates: readonly AgentId[],
    lines: readonly Line[],
    report: Pick<Report, 'usage' | 'now'>,
  ): Promise<AgentId | null>;
  /**
   * Liveness check. Resolves when the agent answers, or when there is nothing to check. Rejects when the session is
   * lost or must end.
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
   * Identifies the agent's memory. Another object counts as another memory: the first prompt then has the newest lines
   * of the conversation. Default: the session itself.
   */
  readonly memory?: object;
  /**
   * How the session keeps history. `posted`: it stores the parts of its prompts, so of the agent's answers only what
   * was posted. `own`: the agent itself stores all that it received and answered. Absent: no history, each prompt
   * stands alone.
   */
  readonly history?: 'posted' | 'own';
  /** Estimated length of a request to the model in characters, without the prompt and the history. Default: 0. */
  readonly overhead?: number;
};

/** Opens the sessions of an agent. `kind`: the kind of agent, for example `command` or `acp`. */
export type AgentBackend = {
  readonly kind: string;
  /**
   * True when the model must end its turn by writing the turn-complete signal, because the backend cannot report the
   * end.
   */
  readonly needsSignal: boolean;
  /**
   * True when the backend's agents promise to ask Conch before they change anything. Exceptions are in `actsUnasked`.
   */
  readonly promisesToAsk: boolean;
  /**
   * What the backend's agents do without asking in any mode, in words that follow the agent's name. Absent or `null`:
   * no such act is known.
   */
  readonly actsUnasked?: string | null;
  /** What a background run can set: the model, a limit of steps, the tools that it may use. Absent: nothing. */
  readonly settable?: readonly ('model' | 'steps' | 'tools')[];
  /** True when the backend's agents open the connection to Conch, so that Conch cannot start them. */
  readonly connectsItself?: boolean;
  open(seat: SeatContext): Promise<AgentSession>;
  /** Makes the next session of this seat start without memory. */
  forget?(seat: Pick<SeatContext, 'channel' | 'agent' | 'model'>): void;
};

type FailureParts = {
  readonly terminal?: boolean;
  readonly retryAfterMs?: number | null;
  readonly cause?: unknown;
  readonly code?: string;
};

/** Why a session was lost or could not be opened, in one line. `final`: Conch opens no other session by itself. */
export type SessionFailure = {
  readonly message: string;
  /** A code such as "HTTP_401" or "ENOENT". Default: "AGENT_EXECUTION_ERROR". */
  readonly code: string;
  readonly final: boolean;
};

/** Returns the key of a seat's conversation. A session with another model is another conversation. */
export function sessionKeyOf({ channel, agent, model = '' }: Pick<SeatContext, 'channel' | 'agent' | 'model'>): string {
  return `${channel}\n${agent}\n${model}`;
}

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

/** The agent acted without asking, or may do so from now on, although it promises to ask. The session ends. */
export class UnaskedError extends BackendError {}

/**
 * Conch cannot start the agent now: the agent must connect itself, or a person must trust its folder. Does not count as
 * a failure. The session is opened again when `returns` settles. When `returns` is pending for `graceMs` milliseconds,
 * the floor treats the agent as gone.
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
 * The agent is not started or prompted: its folder holds files that act before anybody is asked, and these files are
 * not trusted.
 */
export class UntrustedError extends AbsentError {}

type RetryPorts = {
  readonly report: Pick<Report, 'leftMs'>;
  readonly timers: Timers;
  readonly signal: AbortSignal;
  readonly failureOf: (error: unknown) => BackendError;
  /** Called after each failure that is retried, before the wait. */
  readonly failed: () => void;
};

/**
 * Calls a service and retries temporary failures (`retryAfterMs` is not `null`) within the turn. Waits at least as long
 * as the service asks. Gives up after ten attempts, or when the wait would outlast the turn. Rejects with the last
 * error of `work`, or with the signal's reason.
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
