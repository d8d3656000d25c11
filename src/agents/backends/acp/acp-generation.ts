import type { Timers } from '../../../lib/time.ts';
import type { Ending, Report, SeatContext, TurnPrompt } from '../backend.ts';
import type { CallResult, GateVerdict, GatedCall, ToolGate } from '../../tools/tool-gate.ts';
import { gatedCall, optionFor, outputSoFar, resultOf } from './acp-permission.ts';
import type { Permission, PermissionOption, ToolCall, Update } from './acp-wire.ts';
import { FloorTools, FLOOR_TOOLS } from '../../tools/floor-tools.ts';

type PermissionOutcome =
  | { readonly outcome: 'cancelled' }
  | { readonly outcome: 'selected'; readonly optionId: string };

/** An agent's request for permission. `isOwn`: true when the request is for a tool that Conch serves. */
export type Asked = Permission & { readonly isOwn: boolean };

/**
 * One generation of a turn. Converts the agent's updates into text, signs of work, requests for approval and an ending.
 */
export class AcpGeneration {
  readonly floorTools: FloorTools;
  readonly #report: Report;
  readonly #program: string | null;
  readonly #timers: Timers;
  readonly #over = Promise.withResolvers<void>();
  readonly #stop = new AbortController();
  /**
   * The open tool calls by id. Value: the number of calls of Conch's tools (`floorTools.calls`) when the call began.
   */
  readonly #tools = new Map<string, number>();
  /**
   * All known fields of tool calls that have not ended, by id; at most `MOST_TOOLS` calls. Later updates of a call hold
   * changed fields only.
   */
  readonly #calls = new Map<string, ToolCall>();
  #isHeld = false;
  readonly #cancel: () => void;
  /** True at the start, and when the agent wrote text since the last step. */
  #isAnswering = true;
  #stepped: Promise<boolean> = Promise.resolve(true);
  readonly #running = new Map<string, GatedCall>();
  /** Ids of tool calls for which the agent asked permission and that were not allowed. */
  readonly #stopped = new Set<string>();
  /** The open requests for approval. Key: aborts the request. Value: the id of the tool call. */
  readonly #asks = new Map<AbortController, string>();
  #asked: Promise<unknown> = Promise.resolve();
  #asking = 0;
  /** The last denied call. `written`: the length of the agent's text when the call was denied, in characters. */
  #refused: { readonly title: string; readonly written: number } | null = null;
  #message: string | null = null;
  #worked = false;
  #interrupted = false;
  #ended = false;
  #updates = 0;
  #restarts: { readonly text: string; readonly taken: (taken: boolean) => void }[] = [];
  #written = '';

  /** `program`: the agent's name and version. `cancel`: asks the agent to stop. */
  constructor(
    seat: SeatContext & { readonly program?: string | null },
    turn: TurnPrompt,
    report: Report,
    { timers, cancel }: { readonly timers: Timers; readonly cancel: () => void },
  ) {
    this.#program = seat.program ?? null;
    this.floorTools = new FloorTools(report, seat.agent, turn);
    this.#report = report;
    this.#timers = timers;
    this.#cancel = cancel;
  }

  /** True after somebody interrupted the generation. */
  get interrupted(): boolean {
    return this.#interrupted;
  }

  /** True once the generation has ended. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Aborted when the generation is interrupted or over. */
  get stopping(): AbortSignal {
    return this.#stop.signal;
  }

  /**
   * Called when the model service failed. Returns the prompt for the retry and forgets the open calls. Returns a prompt
   * to continue if the agent has written text, used one of its own tools or has an open call. Else returns `text`
   * again.
   */
  breakOff(text: string): string {
    const begun = this.#written.trim() !== '' || this.#worked || this.#tools.size > 0;
    this.#tools.clear();
    this.floorTools.apart();
    this.#report.work(this.#open, 'host');
    return begun ? GO_ON : text;
  }

  /** Returns the next prompt after people let a paused run continue. Later text starts a new message. */
  goOn(): string {
    this.floorTools.apart();
    return LET_GO_ON;
  }

  get written(): string {
    return this.#written;
  }

  /** Resolves when the generation has ended. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  /** Resolves when no request for permission is open, or when the generation is over. */
  async answered(): Promise<void> {
    while (this.#asking > 0 && !this.#ended) await Promise.race([this.#asked, this.over]);
  }

  update(update: Update): void {
    this.#updates += 1;
    if (update.sessionUpdate === 'agent_message_chunk') this.#text(update.content.text, update.messageId ?? null);
    else if ('toolCallId' in update) this.#tool(update, update.sessionUpdate);
    else if (isThinking(update.sessionUpdate)) this.#report.work(this.#open);
  }

  /**
   * Answers the agent's request for permission. Allows a tool that Conch serves, if the agent offers to allow it once;
   * else lets the gate decide. Answers "cancelled" when the generation is over or interrupted, or the run must stop.
   * Also when the agent withdrew the request, ended the call or offers no fitting option.
   */
  async permission({ toolCall, options, isOwn }: Asked, withdrawn: AbortSignal): Promise<PermissionOutcome> {
    if (this.#ended || this.#interrupted) return CANCELLED;
    if (options.length === 0) return CANCELLED;
    const updates = [...[this.#calls.get(toolCall.toolCallId)].filter((known) => known !== undefined), toolCall];
    const unasked = isOwn ? optionFor('allow', options) : null;
    return unasked === null ? this.#gated(updates, options, withdrawn) : outcomeOf(unasked);
  }

  /**
   * Called before Conch runs an MCP server's tool for the agent. Counts the call, and a step if the agent wrote text
   * since the last step. Resolves with whether the tool may run.
   */
  async called(): Promise<boolean> {
    this.floorTools.counted();
    return !this.#ended && !this.#interrupted && (await this.#step(this.#report.gate));
  }

  /**
   * Interrupts the generation. Cancels open and later requests for permission. Resolves each pending `restartWith` with
   * false.
   */
  interrupt(): void {
    this.#interrupted = true;
    this.#stop.abort();
    for (const { taken } of this.#restarts.splice(0)) taken(false);
  }

  /**
   * Queues a message: when the prompt ends, the turn restarts with it. Resolves with true when the turn restarts, and
   * with false when the generation ends or is interrupted before.
   */
  restartWith(text: string): Promise<boolean> {
    return new Promise((taken) => void this.#restarts.push({ text, taken }));
  }

  /** Returns and removes the messages that wait for a restart, and resolves their `restartWith` with true. */
  takeRestarts(): readonly string[] {
    const taken = this.#restarts.splice(0);
    for (const each of taken) each.taken(true);
    if (taken.length > 0) this.floorTools.apart();
    return taken.map(({ text }) => text);
  }

  /**
   * Waits until no update came for `quietMs` milliseconds, at most ten times as long: updates may follow the end of a
   * prompt.
   */
  async quiet(quietMs: number): Promise<void> {
    for (let waits = 0, seen = -1; seen !== this.#updates && waits < MOST_WAITS; waits += 1) {
      seen = this.#updates;
      await new Promise<void>((resolve) => void this.#timers.after(quietMs, resolve));
    }
  }

  /**
   * Resolves with people's decision to continue or stop, when the run is paused or the agent reached its own limit of
   * steps. Resolves with `stop` when the generation is interrupted meanwhile. Returns `null` when people need not
   * decide, or when the generation was interrupted before.
   */
  held(stopReason: string): Promise<'go' | 'stop'> | null {
    const { gate } = this.#report;
    if (this.#interrupted) return null;
    const held = stopReason === 'max_turn_requests' ? gate.spent() : gate.standing();
    this.#isHeld = false;
    return held === null ? null : Promise.race([held, stopOf(this.stopping)]);
  }

  /**
   * Returns how the generation ended. `stopReason`: the agent's reason for the end of its prompt. May first post that a
   * call was denied, or why the answer has no text.
   */
  ending(stopReason: string): Ending {
    if (this.#interrupted) return { how: 'interrupted' };
    const { over, ending } = this.floorTools;
    const refused = this.#refused;
    const isSilentSince = refused !== null && this.#written.slice(refused.written).trim() === '';
    if (over || (ending.how !== 'passed' && !isSilentSince)) return ending;
    this.floorTools.apart();
    const words = refused === null ? SILENCES.get(stopReason) : `(I was not allowed to: ${refused.title})`;
    if (words !== undefined) this.floorTools.text(words);
    else if (this.#worked || this.#tools.size > 0) return { how: 'completed' };
    return this.floorTools.ending;
  }

  /**
   * Ends the generation. Records the outcome of the agent's own open calls as unknown, because they may have run.
   * Leaves out calls with a request for permission.
   */
  end(): void {
    if (!this.#ended) for (const [id, begun] of this.#tools) this.#record(id, begun, true);
    this.#ended = true;
    this.#stop.abort();
    this.#over.resolve();
    for (const { taken } of this.#restarts.splice(0)) taken(false);
  }

  get #open(): number {
    return this.#tools.size + this.#asking;
  }

  #called(updates: readonly ToolCall[], options: readonly PermissionOption[]): GatedCall {
    const call = gatedCall(titleOf(updates), updates, options);
    return this.#program === null ? call : { ...call, program: this.#program };
  }

  async #gated(
    updates: readonly ToolCall[],
    options: readonly PermissionOption[],
    withdrawn: AbortSignal,
  ): Promise<PermissionOutcome> {
    const { gate } = this.#report;
    const call = this.#called(updates, options);
    const over = new AbortController();
    this.#asks.set(over, call.id);
    this.#asking += 1;
    this.#report.work(this.#open);
    const stopped = AbortSignal.any([over.signal, withdrawn, this.#stop.signal]);
    const asked = this.#step(gate).then((goes) => (goes ? gate.ask(call, stopped) : NOT_ASKED));
    this.#asked = Promise.all([this.#asked, asked]);
    const answer = await asked;
    this.#asks.delete(over);
    this.#asking -= 1;
    this.#report.work(this.#open);
    if (answer.verdict === 'refused') this.#stopped.add(call.id);
    if (answer.verdict === 'refused') return answer.code === 'CANCELLED' ? CANCELLED : this.#refuse(updates, options);
    this.#running.set(call.id, call);
    return outcomeOf(optionFor('allow', options));
  }

  #refuse(updates: readonly ToolCall[], options: readonly PermissionOption[]): PermissionOutcome {
    this.#refused = { title: titleOf(updates), written: this.#written.length };
    return outcomeOf(optionFor('reject', options));
  }

  #text(text: string, message: string | null): void {
    if (this.#written.length > MOST_TEXT) return;
    for (const calls of this.#tools.values()) this.#tell(calls);
    if (message !== this.#message && this.#message !== null) this.floorTools.apart();
    this.#message = message;
    this.#isAnswering = true;
    this.#written += text;
    this.floorTools.text(this.#written.length > MOST_TEXT ? TOO_MUCH : text);
  }

  #tool(call: ToolCall, update: 'tool_call' | 'tool_call_update'): void {
    this.#learn(call);
    const begun = this.#tools.get(call.toolCallId);
    if (call.status === 'completed' || call.status === 'failed') {
      this.#record(call.toolCallId, begun);
      this.#close(call.toolCallId);
      if (begun !== undefined) this.#tell(begun);
    } else if ((call.status === 'in_progress' || update === 'tool_call') && begun === undefined) this.#begin(call);
    this.#report.work(this.#open);
  }

  #begin({ toolCallId }: ToolCall): void {
    this.#stopped.delete(toolCallId);
    if (this.#tools.size < MOST_TOOLS) this.#tools.set(toolCallId, this.floorTools.calls);
  }

  /**
   * Notes that the agent used one of its own tools, and makes later text a new message. `calls`: the number of calls of
   * Conch's tools when the agent's call began. Does nothing when this number has grown: then the agent's call was one
   * of Conch's tools.
   */
  #tell(calls: number): void {
    if (this.floorTools.calls !== calls) return;
    this.#worked = true;
    this.floorTools.apart();
  }

  /**
   * Records the outcome of a call that the agent itself ran, with or without a request for permission. Leaves out calls
   * of Conch's tools, and calls that were not allowed and did not complete. `isOpen`: the agent did not report the end
   * of the call.
   */
  #record(id: string, begun: number | undefined, isOpen = false): void {
    const { gate } = this.#report;
    const known = this.#calls.get(id);
    const asked = this.#running.get(id);
    if (known === undefined) return;
    if (isOpen && (asked !== undefined || [...this.#asks.values()].includes(id))) return;
    this.#running.delete(id);
    const result = isOpen ? UNTOLD : resultOf(known);
    const isStopped = this.#stopped.has(id) && known.status !== 'completed';
    const isElse = begun === this.floorTools.calls || !OF_OWN_TOOLS.has(known.kind ?? 'other');
    if (asked !== undefined) void gate.settled(asked, result);
    else if (isElse && !isStopped) {
      void this.#step(gate);
      void gate.reported(this.#called([known], []), result).then(() => this.#hold());
    }
  }

  /**
   * Asks the agent to stop when it continues although its run is paused. Does nothing while a request for permission is
   * open: the agent then waits by itself.
   */
  #hold(): void {
    if (this.#ended || this.#interrupted || this.#isHeld || this.#asking > 0) return;
    if (this.#report.gate.standing() === null) return;
    this.#isHeld = true;
    this.#cancel();
  }

  /**
   * Counts a step of the run at the first call after text, because an agent's model rounds are not visible. Resolves
   * with whether the agent may continue.
   */
  #step(gate: ToolGate): Promise<boolean> {
    if (this.#isAnswering) this.#stepped = gate.step({ text: '', checkpoint: null }).then((went) => went === 'go');
    this.#isAnswering = false;
    return this.#stepped;
  }

  #learn(call: ToolCall): void {
    const known = this.#calls.get(call.toolCallId);
    if (known === undefined && this.#calls.size >= MOST_TOOLS) return;
    const fields = Object.entries(call).filter(([, value]) => value !== undefined && value !== null);
    const rawOutput = outputSoFar(known, call);
    const output = rawOutput === null ? {} : { rawOutput };
    this.#calls.set(call.toolCallId, { ...call, ...known, ...Object.fromEntries(fields), ...output });
  }

  #close(id: string): void {
    this.#tools.delete(id);
    this.#calls.delete(id);
    for (const [over, asked] of this.#asks) if (asked === id) over.abort();
  }
}

function titleOf(updates: readonly ToolCall[]): string {
  return updates.findLast(({ title }) => title)?.title ?? 'use a tool';
}

function isThinking(update: Update['sessionUpdate']): boolean {
  return update === 'agent_thought_chunk' || update === 'plan' || update === 'plan_update';
}

/** The kinds under which agents report calls of Conch's tools. */
const OF_OWN_TOOLS: ReadonlySet<string> = new Set(['other', 'think']);
const UNTOLD: CallResult = { status: 'error', output: '', code: 'UNKNOWN', durationMs: null };
const CANCELLED: PermissionOutcome = { outcome: 'cancelled' };
const NOT_ASKED: GateVerdict = { verdict: 'refused', code: 'CANCELLED', words: '' };
const GO_ON =
  'The service of your model failed in the middle of your answer. What you have written is posted: go on from there and do not repeat it.';
const LET_GO_ON =
  'People let you go on: go on from where you stopped. What you have written is posted: do not repeat it.';
const MOST_WAITS = 10;
const MOST_TOOLS = 1_000;
const MOST_TEXT = 2_000_000;
const TOO_MUCH = '\n\n(cut off: more than two million characters in one turn)';

function stopOf(signal: AbortSignal): Promise<'stop'> {
  if (signal.aborted) return Promise.resolve('stop');
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve('stop'), { once: true }));
}

function outcomeOf(optionId: string | null): PermissionOutcome {
  return optionId === null ? CANCELLED : { outcome: 'selected', optionId };
}

/** Returns the part of a prompt that names all floor tools. `server`: the name of the tool server that has them. */
export function toolHint(server: string): string {
  const names = Object.keys(FLOOR_TOOLS).join(', ');
  return `The server "${server}" has tools with which you act on the floor: ${names}. A plain answer needs no tool.`;
}

/** Returns the text with the system prompt before it, unless the text already holds the system prompt. */
export function withSystem({ system }: TurnPrompt, text: string): string {
  return text.includes(system) ? text : `${system}\n\n${text}`;
}

/**
 * Returns the prompt with which a turn restarts. `prompt`: its first prompt. `said`: the text that the agent wrote
 * since. `messages`: the new messages, which the agent could not take mid-turn.
 */
export function begunAnew(prompt: string, said: string, messages: readonly string[]): string {
  const so =
    said.trim() === '' ? '' : `You had begun to answer; this is posted already, do not repeat it:\n\n${said.trim()}`;
  return [prompt, so, ...messages].filter((part) => part !== '').join('\n\n');
}

/** Texts to post for an answer that ended without text, by stop reason. */
const SILENCES: ReadonlyMap<string, string> = new Map([
  ['refusal', '(I decline to answer that)'],
  ['max_tokens', '(my answer was cut off: the model used up its tokens)'],
  ['max_turn_requests', '(I stopped: this took more steps than I may take in one turn)'],
  ['cancelled', '(I stopped before I had an answer)'],
]);
