import type { Instant, Timers } from '../../lib/time.ts';
import type { AgentId, ChannelId, MessageId, ModelUse } from '../../turns/floor/settings.ts';
import type { ToolGate } from '../tools/tool-gate.ts';
import type { Line } from '../../turns/view.ts';
import { retry } from '../../lib/retry.ts';
import type { RetryPolicy } from '../../lib/retry.ts';

/** What one prompt holds. Backends that talk to models send `text`; scripts look at the parts. */
export type TurnPrompt = {
  readonly channel: ChannelId;
  readonly epoch: number;
  /** `grant`: a new turn; `resume`: the same turn after a wait, an interrupt or a restart; `again`: messages that could not be injected. */
  readonly reason: 'grant' | 'resume' | 'again';
  /** What was said since this agent's last prompt, oldest first. */
  readonly lines: readonly Line[];
  /** The human messages that this prompt answers; they also stand in `lines` unless seen before. */
  readonly messages: readonly Line[];
  /** Of these, the ones that an earlier prompt of this turn held, and no generation has answered. */
  readonly open: readonly MessageId[];
  /** What this agent had already said in this turn. */
  readonly saidSoFar: readonly string[];
  /** Who sits at this floor, this agent included. */
  readonly roster: readonly {
    readonly id: AgentId;
    readonly name: string;
    readonly status: string;
    readonly description: string;
  }[];
  /** Who the agent is, the rules, who is here: the same in every prompt until one of them changes. */
  readonly system: string;
  /** What is new, in the order in which it came about: what the agent itself posted, and what others wrote and what is to be done. */
  readonly parts: readonly { readonly own: boolean; readonly text: string }[];
  /** How long a whole request may be, with all that was said before, in characters. */
  readonly longest: number;
  /** All of it as one text, attributed and bounded; `system` stands in it unless the session has heard it. */
  readonly text: string;
};

/** What a call of a model has used, or what an agent tells of a turn; who asked for it, the program adds. */
export type Usage = {
  readonly tokens: number;
  /** Nothing when it is `unpriced`. */
  readonly costMicros: number;
  readonly use: Omit<ModelUse, 'requestedBy' | 'run'>;
};

/** What a session tells while it works. Everything carries the turn's epoch by belonging to one prompt. */
export type Report = {
  /** A piece of text as it is generated. */
  text(chunk: string): void;
  /** Ends the message under way, so that what follows is a message of its own. */
  flush(): void;
  /**
   * A tool call, permission or other silent work began or ended: how many are open now. A sign of work even if unchanged.
   * `host`: the agent itself has given no sign of life by it. `limitMs`: what has begun takes no longer, the turn ends then.
   */
  work(open: number, by?: 'host', limitMs?: number): void;
  /** What stands between the agent and its tools. */
  readonly gate: ToolGate;
  usage(usage: Usage): void;
  now(): Instant;
  /** How long the turn may last if nothing more is heard of its agent, in milliseconds. */
  leftMs(): number;
};

/** How a prompt ended. `waiting`: the agent asked a question (already said) and waits for the answer. */
export type Ending =
  | { readonly how: 'completed'; readonly handTo?: AgentId }
  | { readonly how: 'passed' }
  /** For an answer of people, or (`of`) of another agent. */
  | { readonly how: 'waiting'; readonly reason: 'answer'; readonly of?: AgentId }
  | { readonly how: 'interrupted' };

/** One agent's place at one floor, as its backend sees it. */
export type SeatContext = {
  readonly channel: ChannelId;
  readonly agent: AgentId;
  readonly name: string;
  readonly persona: string;
  /** The model that is to do it, if not that of the backend. */
  readonly model?: string;
  /** Whether the rules let any tool of a server, or this one, ever be used; without it they do. */
  readonly reaches?: (server: string, tool: string | null) => boolean;
  /** Tells people that the tools of a server are gone, and why, or (`null`) are back. */
  readonly tellTools?: (server: string, why: string | null) => void;
};

/** What became of a message handed in in the middle of a turn. */
export type InjectOutcome = 'injected' | 'next-prompt' | 'refused';

/** A conversation with one agent about one floor. At most one prompt is under way at a time. */
export type AgentSession = {
  /** Resolves when the generation is over; rejects with a `BackendError` when the session failed. */
  prompt(turn: TurnPrompt, report: Report): Promise<Ending>;
  /** Hands a message to the generation under way and says what truly happened. */
  inject(message: Line, observed: boolean): Promise<InjectOutcome>;
  /** Stops the generation under way; resolves when it has stopped, at the latest after the grace, by force then. */
  interrupt(graceMs: number): Promise<void>;
  /** Passes on what others said while this agent does not hold the floor. */
  observe?(message: Line): void;
  /** Asks who should be next; `null` when no opinion. */
  choose?(
    candidates: readonly AgentId[],
    lines: readonly Line[],
    report: Pick<Report, 'usage' | 'now'>,
  ): Promise<AgentId | null>;
  /** Resolves as soon as the agent answers, stays open while it does not (a missed beat), rejects when it is known to be gone. */
  ping(): Promise<void>;
  close(): Promise<void>;
  /** The agent's program and its version, when it tells them. */
  readonly program?: string | null;
  /** Whether its agent goes on with an earlier conversation, and knows all that it read there; absent: it never does. */
  readonly resumed?: boolean;
  /** Another object than before when the agent has forgotten the conversation. The session itself unless given. */
  readonly memory?: object;
  /**
   * What the session keeps of the conversation: what was posted, by the parts of its prompts (`posted`), or by itself what it
   * was told and has answered (`own`). Absent: nothing, every prompt stands alone.
   */
  readonly history?: 'posted' | 'own';
  /** How many characters a request has besides what the prompt holds; none unless given. */
  readonly overhead?: number;
};

/** A way to run agents. */
export type AgentBackend = {
  readonly kind: string;
  /** What a model must print at the end of its turn, for backends without an end of their own. */
  readonly needsSignal: boolean;
  /** Its agents ask people before they change things on the machine, and are stopped when they do not. */
  readonly promisesToAsk: boolean;
  /** What its agents do without asking although Conch sets all that would make them ask, in words that follow a name; absent or `null`: nothing that is known. */
  readonly actsUnasked?: string | null;
  /** What can be set for one background run: the model, a limit of steps, the only tools; absent: nothing. */
  readonly settable?: readonly ('model' | 'steps' | 'tools')[];
  /** Its agents connect by themselves: their sessions are not closed for want of work. */
  readonly comesByItself?: boolean;
  open(seat: SeatContext): Promise<AgentSession>;
};

/** What is known of a failure besides its words. */
type FailureParts = {
  readonly terminal?: boolean;
  readonly retryAfterMs?: number | null;
  readonly cause?: unknown;
  /** As in `SessionFailure`; found in the cause unless given. */
  readonly code?: string;
};

/** Why a session was lost, in one line. `final`: no other session is opened by itself. */
export type SessionFailure = {
  readonly message: string;
  /** "HTTP_401" when a service said no, the system's own name ("ENOENT") when that did, else "AGENT_EXECUTION_ERROR". */
  readonly code: string;
  readonly final: boolean;
};

/** An agent or its service failed. `terminal`: trying again will not help (a rejected key, a missing binary). */
export class BackendError extends Error {
  override readonly name = 'BackendError';
  readonly terminal: boolean;
  /** A service that is busy or out of reach: the same may succeed after so many milliseconds; `null` when nothing says so. */
  readonly retryAfterMs: number | null;
  readonly code: string;

  constructor(message: string, { terminal = false, retryAfterMs = null, cause, code }: FailureParts = {}) {
    super(message, { cause });
    this.terminal = terminal;
    this.retryAfterMs = retryAfterMs;
    this.code = code ?? codeIn(cause);
  }
}

/** The code of a failure for programs that read along. */
export function codeOf(error: unknown): string {
  return error instanceof BackendError ? error.code : codeIn(error);
}

/** The first code in an error and its causes. */
function codeIn(error: unknown): string {
  let inner = error;
  for (let depth = 0; depth < DEEPEST && typeof inner === 'object' && inner !== null; depth += 1) {
    if ('statusCode' in inner && typeof inner.statusCode === 'number') return `HTTP_${inner.statusCode}`;
    if ('code' in inner && typeof inner.code === 'string' && /^[A-Z][A-Z0-9_]+$/u.test(inner.code)) return inner.code;
    inner = 'cause' in inner ? inner.cause : null;
  }
  return EXECUTION_ERROR;
}

/** What the specification calls a failure that has no code of its own. */
export const EXECUTION_ERROR = 'AGENT_EXECUTION_ERROR';
const DEEPEST = 5;

/** The agent acted, or may act from now on, without the yes that it promises to ask for; the session is over. */
export class UnaskedError extends BackendError {}

/**
 * The agent is not there and cannot be fetched: it comes to us. Not an error to be counted; opening is tried again when
 * `returns` resolves. After `graceMs` (milliseconds) without it the floor learns that it is gone.
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

/** The agent is not started, or not gone on with: its folder holds files that act before anybody is asked, and nobody trusts them. */
export class UntrustedError extends AbsentError {}

/** What prompting again needs. */
type InsistPorts = {
  readonly report: Pick<Report, 'leftMs'>;
  readonly timers: Timers;
  /** Somebody stopped the generation. */
  readonly signal: AbortSignal;
  readonly failureOf: (error: unknown) => BackendError;
  /** It failed and is tried again after a wait. */
  readonly failed: () => void;
};

/**
 * Does work that asks a service; what failed for a while (`retryAfterMs`) is tried again within the turn, after the wait
 * that the service asks for, as long as the turn lasts longer than the wait. Rejects with the last failure, or with the
 * signal's reason.
 */
export async function insist<T>(work: () => Promise<T>, ports: InsistPorts): Promise<T> {
  const { report, failureOf, failed } = ports;
  return await retry(work, POLICY, {
    ...ports,
    judge({ error, waitMs }) {
      const { retryAfterMs } = failureOf(error);
      if (retryAfterMs === null || Math.max(waitMs, retryAfterMs) >= report.leftMs()) return 'give-up';
      failed();
      return { notBeforeMs: retryAfterMs };
    },
  });
}

const POLICY: RetryPolicy = { firstMs: 1_000, longestMs: 15_000, attempts: 10 };
