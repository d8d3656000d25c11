import type { ToolRequest } from '../../rules/tool-use.ts';
import type { AskedField } from '../../turns/floor/settings.ts';

/** A tool call that Conch would carry out for a model, or that an agent asks to carry out itself. */
export type GatedCall = {
  /** Unlike that of any other open call of the turn. */
  readonly id: string;
  /** As rules and people know the tool: `mcp__files__write_file`, or its kind. */
  readonly tool: string;
  readonly input: Readonly<Record<string, unknown>>;
  /** Digest of the definition that the model was shown; `null` for tools without one. */
  readonly definition: string | null;
  /** It changes nothing, by the word of somebody who is trusted. */
  readonly repeatable: boolean;
  /** What people call it; the tool unless given. */
  readonly title?: string;
  /**
   * Of the tool's server: whether an operator vouches for it, whether it says that the tool destroys something, and whether what
   * it does may reach beyond that server.
   */
  readonly server?: { readonly trusted: boolean; readonly destructive: boolean; readonly open: boolean };
  /** Everything that would be sent, for people, secrets spelled by their names. */
  readonly detail: string;
  /** Why people are asked even if a rule allows it; `null`: nothing beside the rules. */
  readonly caution: string | null;
  /** How its agent tells of a call that it carries out itself: rules look at each account, and the strictest verdict counts. */
  readonly accounts?: readonly ToolRequest[];
  /** The program that carries it out, by the name and version that it gives itself. */
  readonly program?: string;
  /** Why people cannot be asked: it is refused then. */
  readonly unaskable?: string;
  /** It is a question that people answer in words, such as these. */
  readonly answer?: string;
  /** What such words have to fill in: an answer that does not is never taken. */
  readonly form?: readonly AskedField[];
  /** The channel is shown what people fill in. */
  readonly showsAnswer?: true;
};

/** One answer of the model: its text, and what its agent needs to go on from here after a restart; `null`: it could not. */
export type ModelStep = { readonly text: string; readonly kept: KeptStep | null };

/** What was said since the step before, and the calls that this one asks for, in the agent's own form. */
type KeptStep = { readonly said: string; readonly calls: string };

/** What a generation of this turn that a restart has cut left: its steps, and what came of calls by their ids, in words for the agent. */
export type LeftSteps = {
  readonly steps: readonly KeptStep[];
  readonly results: ReadonlyMap<string, LeftResult>;
};

/** `isOutput`: the words are what came back from outside. */
type LeftResult = { readonly words: string; readonly failed: boolean; readonly isOutput: boolean };

/** Whether a call may begin, at once. `words`: what people said with their yes; or what the model is told when it may not. */
export type GateVerdict =
  | { readonly verdict: 'go'; readonly words?: string }
  | { readonly verdict: 'refused'; readonly code: RefusalCode; readonly words: string };

/** Rules refuse it, people do, or nobody decided before the generation ended. */
type RefusalCode = 'AGENT_TOOL_NOT_ALLOWED' | 'DENIED' | 'CANCELLED';

/** What came of a call that was let through. */
export type CallResult = {
  readonly status: 'complete' | 'error';
  /** Everything that came back, as text. */
  readonly output: string;
  /** `UNKNOWN`: nobody knows what it did. */
  readonly code: 'TOOL_FAILED' | 'TIMEOUT' | 'UNKNOWN' | null;
  /** In milliseconds, without the time that people took; `null`: not known. */
  readonly durationMs: number | null;
};

/** What stands between an agent and its tools, for one generation. */
export type ToolGate = {
  /** Told of every answer of the model before its calls are looked at; `stop`: the generation ends here. */
  step(step: ModelStep): Promise<'go' | 'stop'>;
  /** Its agent may do no more by its own settings: resolves once people have decided whether it goes on. */
  spent(): Promise<'go' | 'stop'>;
  /** Resolves once people have decided whether it goes on, at its limit or with the same call again; `null`: nothing keeps it. */
  standing(): Promise<'go' | 'stop'> | null;
  /** What a restart has cut; its calls without a result are asked for again, under the same ids, and are the same calls. */
  left(): Promise<LeftSteps | null>;
  /** Resolves when it is decided; a call that may go is carried out once, right after. One at a time, in order. Never rejects. */
  ask(call: GatedCall, stopped: AbortSignal): Promise<GateVerdict>;
  /** Told of what came of a call that was let through, before the model hears of it. */
  settled(call: GatedCall, result: CallResult): Promise<void>;
  /** Told of a call that an agent carried out without asking: it is on record, and changes nothing. */
  reported(call: GatedCall, result: CallResult): Promise<void>;
  /** The generation is over: nobody knows what came of calls that are still open. */
  close(): Promise<void>;
};
