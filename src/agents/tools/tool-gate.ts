import type { ToolRequest } from '../../rules/tool-use.ts';
import type { FormField } from '../../turns/floor/settings.ts';

/** A tool call that Conch would carry out for a model, or that an agent carries out itself. */
export type GatedCall = {
  /** Unique among the open calls of the turn. */
  readonly id: string;
  /**
   * The tool's name in rules, such as `mcp__files__write_file`. For an agent's own tool without a known name: its kind.
   */
  readonly tool: string;
  readonly input: Readonly<Record<string, unknown>>;
  /**
   * Digest of the tool's definition that the model was shown. `null` for a server's question to people, and for an
   * agent's own tools.
   */
  readonly definition: string | null;
  /** True when the tool's server says that the tool changes nothing, and an operator vouches for the server. */
  readonly repeatable: boolean;
  /** The call in words for people. Default: the tool's name. */
  readonly title?: string;
  /**
   * The tool's server. `trusted`: an operator vouches for it. `destructive`: the tool can destroy something; assumed
   * unless the server denies it. `open`: the tool can reach more than its server; assumed for a server with a URL, and
   * unless the server denies it.
   */
  readonly server?: { readonly trusted: boolean; readonly destructive: boolean; readonly open: boolean };
  /** Everything that would be sent, in words for people. In an agent's own call: all that the agent shows. */
  readonly detail: string;
  /** Why the call needs approval even if a rule allows it; `null` when only the rules decide. */
  readonly caution: string | null;
  /**
   * The uses of tools that rules judge; the strictest verdict counts. For a call that an agent carries out itself: each
   * description that the agent gave. Default: the use of `tool` with `input`.
   */
  readonly accounts?: readonly ToolRequest[];
  /** The program that carries out the call, by the name and version that the program gives itself. */
  readonly program?: string;
  /** Why people cannot be asked. A call that needs approval is then refused. */
  readonly unaskable?: string;
  /** An example answer. Present when the call is a question that people answer in words. */
  readonly answer?: string;
  /** The form that an answer must fill in. Other answers are refused. */
  readonly form?: readonly FormField[];
  /** Set when the channel shows what a person fills into the form. Default: the channel does not show it. */
  readonly showsAnswer?: true;
};

/**
 * One step of an agent. `text`: the language model's answer; '' for other agents. `checkpoint` is stored, so that a restart
 * resumes the turn at this step; `null`: the turn cannot resume there.
 */
export type ModelStep = { readonly text: string; readonly checkpoint: Checkpoint | null };

/** The conversation since the step before, and the calls of this step, in the backend's own form. */
type Checkpoint = { readonly said: string; readonly calls: string };

/** The steps and call outcomes of a turn that a restart interrupted. */
export type UnfinishedSteps = {
  readonly steps: readonly Checkpoint[];
  readonly results: ReadonlyMap<string, StoredResult>;
};

/** `isOutput`: `words` is output of the tool, so untrusted text. */
type StoredResult = { readonly words: string; readonly failed: boolean; readonly isOutput: boolean };

/** Whether a call may start now. `words`: what people wrote with their approval, or the refusal for the model. */
export type GateVerdict =
  | { readonly verdict: 'go'; readonly words?: string }
  | { readonly verdict: 'refused'; readonly code: RefusalCode; readonly words: string };

/**
 * Why a call was refused. `AGENT_TOOL_NOT_ALLOWED`: by the rules. `DENIED`: by people, or because nobody could be
 * asked. `CANCELLED`: nobody decided, for example because the generation ended.
 */
type RefusalCode = 'AGENT_TOOL_NOT_ALLOWED' | 'DENIED' | 'CANCELLED';

/** The outcome of a call that was allowed, or that the agent ran without asking Conch. */
export type CallResult = {
  readonly status: 'complete' | 'error';
  /** The whole output, as text; of an agent's own call, as the agent reported it. */
  readonly output: string;
  /** `UNKNOWN`: the effect of the call is unknown. */
  readonly code: 'TOOL_FAILED' | 'TIMEOUT' | 'UNKNOWN' | null;
  /** In milliseconds, without the time of approvals; `null` when unknown. */
  readonly durationMs: number | null;
};

/** The gate between an agent and its tools, for one generation: the agent's answer to one prompt. */
export type ToolGate = {
  /** Called for each step. `stop`: the generation must end. */
  step(step: ModelStep): Promise<'go' | 'stop'>;
  /** Called when the agent reached its own limit of steps. Resolves with people's decision: to continue, or to stop. */
  spent(): Promise<'go' | 'stop'>;
  /**
   * Resolves with people's decision on a run that is paused at its step limit or for a confirmation; `null` for any
   * other run.
   */
  standing(): Promise<'go' | 'stop'> | null;
  /**
   * Resolves with the work that a restart interrupted, or `null`. Calls without a result must be requested again under
   * the same ids.
   */
  unfinished(): Promise<UnfinishedSteps | null>;
  /**
   * Resolves with the verdict on a tool call. The caller must run an allowed call at once, and only once. Never
   * rejects.
   */
  ask(call: GatedCall, stopped: AbortSignal): Promise<GateVerdict>;
  /**
   * Stores the outcome of an allowed call. If Conch runs the call, the model gets the outcome afterwards. If the agent
   * runs the call itself, its model may know the outcome already. Never rejects.
   */
  settled(call: GatedCall, result: CallResult): Promise<void>;
  /** Stores a call that an agent ran without asking Conch. Does nothing after `close`. */
  reported(call: GatedCall, result: CallResult): Promise<void>;
  /**
   * Called when the generation is over, unless its session was lost or closed. Allowed calls without an outcome get the
   * outcome `UNKNOWN`.
   */
  close(): Promise<void>;
};
