import { RequestError } from '@agentclientprotocol/sdk';
import { z } from 'zod';
import type { Line } from '../../../turns/view.ts';
import { systemTimers } from '../../../lib/time.ts';
import type { Timers } from '../../../lib/time.ts';
import type { ToolKind } from '../../../rules/rule.ts';
import { acpFailure, initialize } from './acp-initialize.ts';
import type { Handshake, HandshakeParts, PreviousSession } from './acp-initialize.ts';
import { AcpLink } from './acp-link.ts';
import type { AcpPeer } from './acp-link.ts';
import { isForOwnTool } from './acp-permission.ts';
import type { AcpPromise } from './acp-profiles.ts';
import { AcpGeneration, begunAnew, toolHint } from './acp-generation.ts';
import { permissionRequest, prompted, sessionUpdate, steered } from './acp-wire.ts';
import type { Update, ToolCall } from './acp-wire.ts';
import { retryWithinTurn, UnaskedError } from '../backend.ts';
import type { AgentSession, Ending, InjectOutcome, Report, SeatContext, TurnPrompt, Usage } from '../backend.ts';
import type { ServerTools, SessionTools } from '../../mcp/session-tools.ts';
import type { ToolCalls } from '../../tools/tool-server.ts';
import { BoundedMap } from '../../../lib/keyed.ts';
import { LATE, withinMs } from '../../../lib/retry.ts';
import { oneLine } from '../../../lib/visible.ts';
import { injectedPrompt } from '../../prompt/prompt.ts';

/** Settings of an agent's sessions. Durations are in milliseconds. */
export type AcpSettings = {
  /**
   * Handling of a message that the agent cannot read mid-turn. `queue` (default) leaves the message for the next
   * prompt. `cancel` stops the agent and restarts its prompt with the message. A message that is only information, such
   * as a correction, always waits for the next prompt.
   */
  readonly injectFallback?: 'queue' | 'cancel';
  /** Time without updates after a prompt's result before the turn counts as over. Default: 100. */
  readonly quietMs?: number;
  /** Kinds of tools that the agent may not use. Default: none. */
  readonly denied?: readonly ToolKind[];
  /** Kinds of tools that the agent must ask for each time. Default: none. */
  readonly asked?: readonly ToolKind[];
  /** Tools of MCP servers. Conch runs these tools, and the agent reaches them through the floor's tool server. */
  readonly serverTools?: ServerTools;
  readonly timers?: Timers;
};

type AcpSessionOptions = Omit<HandshakeParts, 'link' | 'model'> & {
  readonly seat: SeatContext;
  readonly settings: AcpSettings;
  /** Tools of MCP servers that Conch runs; `null` when the agent has none. */
  readonly tools: SessionTools | null;
};

/** A session with an agent over one connection. */
export class AcpSession implements AgentSession {
  readonly history = 'own';
  readonly #options: AcpSessionOptions;
  readonly #link: AcpLink;
  readonly #timers: Timers;
  #handshake: Handshake | null = null;
  #run: AcpGeneration | null = null;
  readonly #secondPrompts = new Set<Promise<unknown>>();
  #pinging = false;
  readonly #tripwire: Tripwire | null;
  #settingBack = false;
  /** The kinds of update in which the agent reported a forbidden mode or option. */
  readonly #told = new Set<string>();
  /** Why the session was ended for good: its agent acts without asking. `null` otherwise. */
  #distrusted: UnaskedError | null = null;
  /** True after a turn failed with an error of the agent: the next session must not load this one. */
  needsNewSession = false;

  private constructor(peer: AcpPeer, options: AcpSessionOptions) {
    this.#options = options;
    this.#tripwire = options.profile.asks === null ? null : new Tripwire(options.profile.asks);
    this.#timers = options.settings.timers ?? systemTimers;
    this.#link = new AcpLink(peer, this.#timers, {
      update: (params) => this.#update(params),
      permission: (params, withdrawn) => this.#permission(params, withdrawn),
    });
  }

  /** Opens a session. Rejects with a `BackendError` and closes the peer when that fails. */
  static async open(peer: AcpPeer, options: AcpSessionOptions): Promise<AcpSession> {
    const session = new AcpSession(peer, options);
    try {
      await session.#open();
      return session;
    } catch (error) {
      await session.close();
      throw acpFailure(error, options.profile);
    }
  }

  /** This session for `previous` of a later one. */
  get asPrevious(): PreviousSession {
    const { sessionId, usage } = this.#known;
    return { sessionId, usage };
  }

  get program(): string | null {
    return this.#known.program;
  }

  /** True when the agent loaded the previous session, with its memory. */
  get resumed(): boolean {
    return this.#known.resumed;
  }

  /** True when the session was ended for good because its agent acts without asking. */
  get isDistrusted(): boolean {
    return this.#distrusted !== null;
  }

  /** True while the connection is open. A forced interrupt closes the connection. */
  get alive(): boolean {
    return this.#link.open;
  }

  async #open(): Promise<void> {
    const { model = null } = this.#options.seat;
    this.#handshake = await initialize({ ...this.#options, link: this.#link, model });
  }

  async prompt(turn: TurnPrompt, report: Report): Promise<Ending> {
    if (this.#run) throw new Error(`impossible: ${this.#options.seat.agent} is prompted twice at a time`);
    const { seat, floorTools, profile } = this.#options;
    const cancel = (): void => void this.#link.tell('session/cancel', { sessionId: this.#known.sessionId });
    const run = new AcpGeneration({ ...seat, program: this.program }, turn, report, { timers: this.#timers, cancel });
    this.#run = run;
    floorTools?.serve(run.floorTools, this.#callsOf(run, report));
    try {
      return await this.#generate(run, turn, report);
    } catch (error) {
      if (this.#distrusted !== null) throw this.#distrusted;
      if (run.interrupted) return { how: 'interrupted' };
      this.needsNewSession ||= error instanceof RequestError;
      throw acpFailure(error, profile);
    } finally {
      run.end();
      floorTools?.serve(null);
      this.#run = null;
    }
  }

  async inject(message: Line, observed: boolean): Promise<InjectOutcome> {
    const run = this.#run;
    if (run === null) return 'next-prompt';
    await run.answered();
    if (run.ended || run.interrupted) return 'next-prompt';
    const text = injectedPrompt(message, observed);
    if (this.#known.steering) return await this.#steer(text);
    if (this.#options.profile.takesSecondPrompt) return await this.#promptBeside(run, text);
    if (this.#options.settings.injectFallback !== 'cancel' || observed) return 'next-prompt';
    const begun = run.restartWith(text);
    await this.#link.tell('session/cancel', { sessionId: this.#known.sessionId });
    return (await begun) ? 'injected' : 'next-prompt';
  }

  async interrupt(graceMs: number): Promise<void> {
    const run = this.#run;
    if (run === null) return;
    run.interrupt();
    void this.#link.tell('session/cancel', { sessionId: this.#known.sessionId });
    if ((await withinMs(graceMs, run.over, this.#timers)) === LATE)
      await this.#link.close('did not stop when it was interrupted, and was ended', 'by force');
  }

  async ping(): Promise<void> {
    this.#pinging = true;
    try {
      await this.#link.ask({ method: '_ping', params: {}, answer: z.unknown(), isPatient: true });
    } catch (error) {
      if (this.#distrusted !== null) throw this.#distrusted;
      if (!(error instanceof RequestError)) throw acpFailure(error, this.#options.profile);
    } finally {
      this.#pinging = false;
    }
  }

  /**
   * Closes the session. First cancels the prompt in progress, because the process may serve other sessions. While a
   * ping is unanswered, closes by force instead.
   */
  async close(): Promise<void> {
    if (this.#link.open && !this.#pinging) await this.interrupt(CLOSE_GRACE_MS);
    this.#options.floorTools?.close();
    await this.#options.tools?.servers.close();
    await this.#link.close('the session was closed', this.#pinging ? 'by force' : 'in order');
  }

  get #known(): Handshake {
    if (this.#handshake === null) throw new Error('impossible: a session is used before it is open');
    return this.#handshake;
  }

  async #generate(run: AcpGeneration, turn: TurnPrompt, report: Report): Promise<Ending> {
    const { floorTools, tools, settings } = this.#options;
    const { quietMs = QUIET_MS } = settings;
    const hint = floorTools !== null && this.#known.hasFloorTools ? toolHint(floorTools.name) : '';
    const first = [turn.text, hint, tools?.absences() ?? ''].filter((part) => part !== '').join('\n\n');
    let text = first;
    const told = this.#known.usage;
    let outcome: Usage['use']['outcome'] = 'failed';
    told.begin(report);
    try {
      for (;;) {
        const { stopReason, usage } = await retryWithinTurn(() => this.#ask(text), {
          report,
          timers: this.#timers,
          signal: run.stopping,
          failureOf: (error) => acpFailure(error, this.#options.profile),
          failed: () => void (text = run.breakOff(text)),
        });
        told.count(usage);
        while (this.#secondPrompts.size > 0) await Promise.all(this.#secondPrompts);
        await run.quiet(quietMs);
        const goesOn = (await run.held(stopReason)) === 'go' && stopReason !== 'end_turn';
        const messages = run.interrupted ? [] : run.takeRestarts();
        if (messages.length === 0 && !goesOn) {
          const ending = run.ending(stopReason);
          outcome = OUTCOMES[ending.how];
          return ending;
        }
        text = messages.length === 0 ? run.goOn() : begunAnew(first, run.written, messages);
      }
    } finally {
      told.tell(report, run.interrupted ? 'stopped' : outcome);
    }
  }

  #ask(text: string): Promise<z.output<typeof prompted>> {
    const params = { sessionId: this.#known.sessionId, prompt: [{ type: 'text', text }] };
    return this.#link.ask({ method: 'session/prompt', params, answer: prompted, isPatient: true });
  }

  async #steer(text: string): Promise<InjectOutcome> {
    const params = {
      sessionId: this.#known.sessionId,
      prompt: [{ type: 'text', text }],
      _meta: { steering: { idleBehavior: 'promptRequired' } },
    };
    const { outcome } = await this.#link.ask({ method: '_session/steering', params, answer: steered });
    return outcome === 'injected' || outcome === 'startedNewTurn' ? 'injected' : 'next-prompt';
  }

  async #promptBeside(run: AcpGeneration, text: string): Promise<InjectOutcome> {
    const second: Promise<InjectOutcome> = this.#ask(text)
      .then(() => 'injected' as const)
      .catch(() => 'next-prompt' as const)
      .finally(() => this.#secondPrompts.delete(second));
    this.#secondPrompts.add(second);
    const over = run.over.then(() => 'next-prompt' as const);
    const outcome = await withinMs(REFUSAL_MS, Promise.race([second, over]), this.#timers);
    return outcome === LATE ? 'injected' : outcome;
  }

  #update(params: unknown): void {
    const parsed = sessionUpdate.safeParse(params);
    if (!parsed.success || parsed.data.sessionId !== this.#handshake?.sessionId) return;
    const { update } = parsed.data;
    this.#known.usage.update(update);
    this.#watch(update);
    this.#run?.update(update);
  }

  #watch(update: Update): void {
    const ran = 'toolCallId' in update ? this.#tripwire?.seen(update, update.sessionUpdate) : null;
    if (typeof ran === 'string') this.#distrust(`ran ${quoted(ran)} without asking`);
    const mode = this.#known.modes.drift(update);
    if (mode !== null) void this.#setBack(mode, update.sessionUpdate);
  }

  /**
   * Sets a changed mode or option back, once. The session ends when the agent refuses or makes such a change again.
   * Agents may report one change in two updates.
   */
  async #setBack(mode: string, update: string): Promise<void> {
    const why = `went into the mode ${quoted(mode)}, in which it may act without asking`;
    const isKnown = this.#settingBack && !this.#told.has(update);
    const isFirst = this.#told.size === 0;
    this.#told.add(update);
    if (isKnown) return;
    if (!isFirst) return this.#distrust(why);
    this.#settingBack = true;
    await this.#known.modes.set().catch(() => this.#distrust(why));
    this.#settingBack = false;
  }

  #distrust(why: string): void {
    this.#distrusted ??= new UnaskedError(why, { terminal: true });
    void this.#link.tell('session/cancel', { sessionId: this.#known.sessionId });
    void this.#link.close(why, 'by force');
  }

  #callsOf(run: AcpGeneration, { gate }: Report): ToolCalls | undefined {
    const { tools: session } = this.#options;
    if (session === null) return undefined;
    const { stopping, floorTools } = run;
    // The agent reports open calls itself, so this report ignores them.
    const report = { gate, work() {} };
    return async (name, input, withdrawn) => {
      if (!(await run.called())) return NOT_RUN;
      const stopped = AbortSignal.any([stopping, withdrawn]);
      const { Toolbox } = await import('../../tools/toolbox.ts');
      return await new Toolbox({ session, floorTools, report, stopped }).call(name, input);
    };
  }

  async #permission(params: unknown, withdrawn: AbortSignal): Promise<object> {
    const parsed = permissionRequest.safeParse(params);
    if (!parsed.success || this.#run === null) return { outcome: { outcome: 'cancelled' } };
    const { toolCall, options } = parsed.data;
    const { floorTools } = this.#options;
    const isOwn = floorTools !== null && isForOwnTool(params, floorTools.name, floorTools.offers);
    const offered =
      toolCall.kind === 'switch_mode' ? options.filter((each) => this.#known.modes.keepsAsking(each)) : options;
    this.#tripwire?.asked(toolCall);
    const outcome = await this.#run.permission({ ...parsed.data, options: offered, isOwn }, withdrawn);
    const chosen =
      outcome.outcome === 'selected' ? options.find(({ optionId }) => optionId === outcome.optionId) : undefined;
    if (chosen?.kind.startsWith('allow')) this.#tripwire?.allow(toolCall.toolCallId);
    return { outcome };
  }
}

function quoted(text: string): string {
  return `"${oneLine(text).slice(0, LONGEST_QUOTE)}"`;
}

const OUTCOMES = { completed: 'answered', waiting: 'answered', passed: 'passed', interrupted: 'stopped' } as const;
const NOT_RUN = 'The call was not run: the turn is over.';
const LONGEST_QUOTE = 100;
const QUIET_MS = 100;
const CLOSE_GRACE_MS = 1_000;
const REFUSAL_MS = 500;

type Call = {
  kind: string;
  title: string;
  input: unknown;
  /** The commands that the agent reported for the call until its request for approval, included. */
  readonly commands: Set<string>;
  asked: boolean;
  allowed: boolean;
  ended: boolean;
};

/** Detects a tool that ran without its approval, or with another command than the approved command. */
class Tripwire {
  readonly #asks: AcpPromise;
  readonly #calls = new BoundedMap<string, Call>(MOST_CALLS);

  constructor(asks: AcpPromise) {
    this.#asks = asks;
  }

  /** Records a request for approval. Commands in later updates of the call do not count as approved. */
  asked({ toolCallId, rawInput }: Pick<ToolCall, 'toolCallId' | 'rawInput'>): void {
    const call = this.#call(toolCallId);
    for (const command of commandsIn(rawInput)) call.commands.add(command);
    call.asked = true;
  }

  allow(id: string): void {
    const call = this.#call(id);
    call.allowed = true;
    call.ended = false;
  }

  /**
   * Reads an update of a call. Returns the title or kind of a call that ran without approval, or the command that was
   * not approved. `null`: the call broke no promise.
   */
  seen(
    { toolCallId, kind, title, status, rawInput }: ToolCall,
    update: 'tool_call' | 'tool_call_update',
  ): string | null {
    const call = this.#call(toolCallId);
    // Agents reuse ids: a call that starts after another has ended does not inherit its approval.
    if (update === 'tool_call' && call.ended) {
      Object.assign(call, { asked: false, allowed: false, ended: false, input: null });
      call.commands.clear();
    }
    call.kind = kind ?? call.kind;
    call.title = title ?? call.title;
    call.input = rawInput ?? call.input;
    call.ended ||= status === 'completed' || status === 'failed';
    const commands = commandsIn(call.input);
    if (!call.asked) for (const command of commands) call.commands.add(command);
    const other = commands.find((command) => call.allowed && call.commands.size > 0 && !call.commands.has(command));
    if (other !== undefined && this.#isPromised(call)) return other;
    const ran = status === 'completed' || (status === 'in_progress' && this.#asks.ranWhen === 'in_progress');
    if (!ran || call.allowed || !this.#isPromised(call)) return null;
    return call.title === '' ? call.kind : call.title;
  }

  #isPromised({ kind, input }: Call): boolean {
    const { kinds, commandKey } = this.#asks;
    if (!kinds.includes(kind)) return false;
    const isBare = typeof input === 'object' && input !== null && commandKey !== undefined && !(commandKey in input);
    return kind !== 'execute' || !isBare;
  }

  #call(id: string): Call {
    const known = this.#calls.get(id);
    if (known !== undefined) return known;
    const call: Call = {
      kind: '',
      title: '',
      input: null,
      commands: new Set(),
      asked: false,
      allowed: false,
      ended: false,
    };
    this.#calls.set(id, call);
    return call;
  }
}

const MOST_CALLS = 1_000;

/** Returns the command in a tool's input, if any, with single spaces: agents format one command in two ways. */
function commandsIn(input: unknown): readonly string[] {
  if (typeof input !== 'object' || input === null || !('command' in input)) return [];
  const { command } = input;
  const text = Array.isArray(command) ? command.join(' ') : typeof command === 'string' ? command : '';
  return text.trim() === '' ? [] : [text.trim().replaceAll(/\s+/g, ' ')];
}
