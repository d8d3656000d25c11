import { askedAgentIn, beginsPassWord, isPassWord, mentionsIn, SignalScanner } from '../../turns/text/recognition.ts';
import type { AgentCommand, TurnDraft } from '../../turns/floor/command.ts';
import type { AgentId } from '../../turns/floor/settings.ts';
import { cutOff } from '../../turns/text/split.ts';
import type { Clock, Instant, Timer, Timers } from '../../lib/time.ts';
import type { ToolGate } from '../tools/tool-gate.ts';
import type { AgentSession, Ending, Report, TurnPrompt, Usage, InjectOutcome } from '../backends/backend.ts';
import type { AgentLog, CommandSender } from './floor-port.ts';
import type { ProposedTicket } from '../../turns/proposed-ticket.ts';
import { defined } from '../../lib/defined.ts';
import type { Line } from '../../turns/view.ts';

type GenerationPorts = {
  readonly agent: AgentId;
  readonly epoch: number;
  readonly roster: TurnPrompt['roster'];
  readonly signal: string;
  readonly passWords: readonly string[];
  /** True when the agent must write the turn-complete signal, because the backend cannot report the end of a turn. */
  readonly needsSignal: boolean;
  /** The session that generates. Messages that arrive within `coalesceMs` milliseconds are injected together. */
  readonly session: AgentSession;
  readonly coalesceMs: number;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: AgentLog;
  readonly commands: Pick<CommandSender, 'send'>;
  readonly drafted: (epoch: number, text: string | null) => void;
  readonly started: () => void;
  /**
   * Returns the time until the turn times out without a sign of work, in milliseconds. For a background run: its
   * timeout.
   */
  readonly leftMs: (epoch: number) => number;
  readonly gate: () => ToolGate;
  readonly propose?: (agent: AgentId, ticket: ProposedTicket) => Promise<string>;
};

/**
 * One generation: the agent's answer to one prompt of a turn. Converts the session's stream into a draft, signs of
 * work, and messages for the floor.
 */
export class Generation {
  readonly epoch: number;
  readonly report: Report;
  readonly #ports: GenerationPorts;
  readonly #others: TurnPrompt['roster'];
  /** Resolves when the generation is closed: after its last report, or at once when its session is dropped. */
  readonly done: Promise<void>;
  readonly #close: () => void;
  #generating = true;
  #muted = false;
  #whole = false;
  #isLost = false;
  #text = '';
  #visible = false;
  #scanner: SignalScanner;
  #hasPosted = false;
  #isShown = false;
  /**
   * True when the last message ended with the turn-complete signal. `#argument`: the word behind the signal; `null` for
   * none.
   */
  #signalled = false;
  #argument: string | null = null;
  #askedAgent: AgentId | null = null;
  #isPass = false;
  #open = 0;
  /** The number of requests to the gate without an answer: calls, steps, used-up step limits and paused runs. */
  #openRequests = 0;
  #endPauseWait: (() => void) | null = null;
  #over: AbortController | null = null;
  #gate: ToolGate | null = null;
  #injections: Injections | null = null;
  /**
   * The time limit of the open operation, in milliseconds. `undefined` for none, and once the limit was reported to the
   * floor.
   */
  #limitMs: number | undefined;
  #beatAt = -Infinity;
  /**
   * The least time between two signs of work that are reported to the floor, in milliseconds: the smaller of 1,000 and
   * a tenth of the time that the turn had left at the first sign. A change of the number of open calls does not wait
   * for this time. `null` before the first sign.
   */
  #beatMs: number | null = null;
  #isReportPending = false;
  /** When the last sign of work came, or the gate last answered; at first, when the generation began. */
  #workedAt: Instant;
  #textAt = 0;
  #quiet: Timer | null = null;

  constructor(ports: GenerationPorts) {
    this.#ports = ports;
    this.#others = ports.roster.filter(({ id }) => id !== ports.agent);
    this.epoch = ports.epoch;
    ({ promise: this.done, resolve: this.#close } = Promise.withResolvers<void>());
    this.#workedAt = ports.clock.now();
    this.#scanner = new SignalScanner(ports.signal);
    this.report = {
      text: this.#hear,
      flush: () => void this.#endMessage(),
      work: (open, by, limitMs) => this.#work(open, { by, limitMs }),
      usage: (usage) => this.#spend(usage),
      now: () => ports.clock.now(),
      leftMs: () => ports.leftMs(ports.epoch),
      propose: async (ticket) => {
        if (this.#muted || !this.#generating) return 'Not done: the turn is over.';
        return (await ports.propose?.(ports.agent, ticket)) ?? 'Not done: no crew takes tickets here.';
      },
      gate: this.#gated(ports.gate),
    };
  }

  /** True until the session's output ends. */
  get generating(): boolean {
    return this.#generating;
  }

  /** True when further output of the session is dropped. */
  get muted(): boolean {
    return this.#muted;
  }

  /** True when a turn's generation ended by itself, and no write of its messages or its end failed. */
  get whole(): boolean {
    return this.#whole;
  }

  /** The text that is streamed and not yet posted; `null` without text, for a pass word, and when muted. */
  get draft(): TurnDraft | null {
    return this.#isPassWord ? null : this.#unposted();
  }

  #unposted(): TurnDraft | null {
    const text = closed(this.#text.trim());
    if (this.#muted || text === '') return null;
    const { agent, epoch } = this.#ports;
    return { agent, epoch, text, mentions: mentionsIn(text, this.#others), workedAt: this.#workedAt };
  }

  /** Returns the draft and removes it, so that the caller posts the draft; `null` for none and for a pass word. */
  takeDraft(): TurnDraft | null {
    if (this.#isPassWord) return null;
    const draft = this.#unposted();
    this.#text = '';
    this.#visible = false;
    if (draft === null) return null;
    this.#hasPosted = true;
    this.#askedAgent = askedAgentIn(draft.text, this.#others);
    return draft;
  }

  /** Drops all further output, removes the shown draft, and withdraws open requests for approval. */
  mute(): void {
    if (!this.#muted) this.#show(null);
    this.#muted = true;
    this.#endPauseWait?.();
    this.#quiet?.cancel();
    this.#over?.abort();
  }

  /** Injects a message into the generation. `finish` waits for the message's outcome; `close` drops the outcome. */
  inject(injection: Injection): void {
    if (!this.#generating) return injection.report('next-prompt');
    this.#injections ??= new Injections(this.#ports);
    this.#injections.add(injection);
  }

  /** Called when the session's output is over. Withdraws open requests for approval. */
  generated(): void {
    this.#generating = false;
    this.#quiet?.cancel();
    this.#over?.abort();
  }

  /**
   * Waits for the outcomes of injected messages and for the decision on a paused run. Then posts the rest of the text,
   * and reports that the turn ended or waits for an answer. The ending `passed` drops the rest of the text. Output of
   * only the signal or a pass word is also a pass. A muted generation posts and reports nothing.
   */
  async finish(ending: Ending): Promise<void> {
    await this.#injections?.close();
    await this.#stands();
    await this.#gate?.close();
    if (this.#muted) return;
    const { agent, epoch, commands } = this.#ports;
    if (ending.how === 'passed') this.#text = '';
    const endMessage = ending.how === 'passed' ? null : this.#endMessage();
    this.#show(null);
    const closing = this.#closing(ending);
    const [applied] = await Promise.all([commands.send({ agent, epoch, ...closing }), endMessage]);
    if (closing.type === 'wait' && closing.of !== undefined && applied?.ok === false)
      await commands.send({ agent, epoch, type: 'end', ...this.#endOf({ how: 'completed' }) });
    this.#whole = ending.how !== 'interrupted' && applied !== null && !this.#isLost;
  }

  /** Waits for the decision on a paused run: the floor refuses the end of a turn before that decision. */
  async #stands(): Promise<void> {
    const standing = this.#gate?.standing() ?? null;
    if (standing === null || this.#muted) return;
    const muted = Promise.withResolvers<void>();
    this.#endPauseWait = muted.resolve;
    await Promise.race([standing, muted.promise]);
  }

  /** Ends the generation early: posts the text so far and drops later output. `cut`: marks the text as cut off. */
  abandon(cut: 'cut' | null = null): void {
    this.generated();
    void this.#say(cut);
    this.mute();
  }

  /**
   * Ends the generation at once: drops output and outcomes of injected messages that are not reported yet. Resolves
   * `done`.
   */
  close(): void {
    this.mute();
    this.generated();
    this.#injections?.abandon();
    this.#close();
  }

  /**
   * Returns a gate that posts the text so far before each step, each call and each reached limit of steps. Text that is
   * written while the gate decides is posted after the decision.
   */
  #gated(make: () => ToolGate): ToolGate {
    const made = (): ToolGate => (this.#gate ??= make());
    const waiting = async <Answer>(ask: () => Promise<Answer>): Promise<Answer> => {
      await this.#endMessage();
      return await holding(ask);
    };
    const holding = async <Answer>(ask: () => Promise<Answer>): Promise<Answer> => {
      this.#openRequests += 1;
      try {
        return await ask();
      } finally {
        this.#openRequests -= 1;
        this.#workedAt = this.#ports.clock.now();
        if (this.#generating && !this.#muted) this.#beat();
      }
    };
    return {
      step: (step) => waiting(() => made().step(step)),
      spent: () => waiting(() => made().spent()),
      standing: () => {
        const standing = this.#gate?.standing() ?? null;
        return standing === null ? null : holding(() => standing);
      },
      unfinished: () => made().unfinished(),
      ask: (call, stopped) => waiting(() => made().ask(call, AbortSignal.any([stopped, this.#untilOver()]))),
      settled: (call, result) => made().settled(call, result),
      reported: (call, result) => made().reported(call, result),
      close: async () => this.#gate?.close(),
    };
  }

  #untilOver(): AbortSignal {
    const over = (this.#over ??= new AbortController());
    if (this.#muted || !this.#generating) over.abort();
    return over.signal;
  }

  readonly #hear = (chunk: string): void => {
    if (this.#muted || !this.#generating || chunk === '') return;
    this.#ports.started();
    this.#text += this.#scanner.push(chunk);
    this.#textAt = this.#ports.clock.now();
    this.#workedAt = this.#textAt;
    this.#quiet ??= this.#ports.timers.after(QUIET_MS, () => this.#afterQuiet());
    this.#visible ||= /\S/.test(this.#text);
    if (this.#visible && !beginsPassWord(this.#text, this.#ports.passWords)) this.#show(this.#text);
    this.#beat();
  };

  /** Takes a sign of work. A sign from Conch itself (`host`) counts only when the number of open calls changes. */
  #work(
    open: number,
    { by, limitMs }: { readonly by: 'host' | undefined; readonly limitMs: number | undefined },
  ): void {
    if (this.#muted || !this.#generating || (by === 'host' && open === this.#open)) return;
    if (by !== 'host') this.#ports.started();
    this.#workedAt = this.#ports.clock.now();
    if (open !== this.#open) [this.#beatAt, this.#limitMs] = [-Infinity, undefined];
    this.#open = open;
    this.#limitMs = limitMs ?? this.#limitMs;
    if (!this.#beat()) this.#tellSoon();
  }

  #spend({ use, ...spent }: Usage): void {
    const { agent, epoch, commands } = this.#ports;
    const isPass = use.outcome === 'answered' && this.#isPassWord;
    void commands.send({ type: 'spend', agent, epoch, ...spent, use: isPass ? { ...use, outcome: 'passed' } : use });
  }

  /**
   * Reports a sign of work to the floor, unless the last report was too recent or a request is open. Returns whether it
   * did.
   */
  #beat(): boolean {
    const { agent, epoch, clock, leftMs, commands } = this.#ports;
    const now = clock.now();
    this.#beatMs ??= Math.min(BEAT_MS, (leftMs(epoch) || Infinity) / BEATS_LEAST);
    if (this.#openRequests > 0 || now - this.#beatAt < this.#beatMs) return false;
    this.#beatAt = now;
    void commands.send({ type: 'work', agent, epoch, open: this.#open, ...defined({ limitMs: this.#limitMs }) });
    this.#limitMs = undefined;
    return true;
  }

  #tellSoon(): void {
    if (this.#isReportPending) return;
    this.#isReportPending = true;
    this.#ports.timers.after(this.#beatMs ?? 0, () => {
      this.#isReportPending = false;
      const isNews = this.#workedAt > this.#beatAt && this.#openRequests === 0;
      if (isNews && this.#generating && !this.#muted && !this.#beat()) this.#tellSoon();
    });
  }

  #afterQuiet(): void {
    this.#quiet = null;
    const left = this.#textAt + QUIET_MS - this.#ports.clock.now();
    if (left > 0) this.#quiet = this.#ports.timers.after(left, () => this.#afterQuiet());
    else void this.#say();
  }

  /**
   * Ends one message of the turn and posts its text; while a request is open, the text is posted later. Stores whether
   * the message ended with the turn-complete signal. A later message with text or the signal replaces this.
   */
  async #endMessage(): Promise<void> {
    const { text, signalled, argument } = this.#scanner.end();
    this.#scanner = new SignalScanner(this.#ports.signal);
    this.#text += text;
    if (signalled || this.#text.trim() !== '') {
      this.#signalled = signalled;
      this.#argument = argument;
      this.#isPass = this.#isPassWord;
    }
    if (this.#isPass) this.#text = '';
    if (this.#isHeld && /\S$/.test(this.#text)) this.#text += '\n\n';
    await this.#say();
  }

  get #isHeld(): boolean {
    return this.#openRequests > 0 && this.#generating;
  }

  get #isPassWord(): boolean {
    return isPassWord(this.#text, this.#ports.passWords);
  }

  async #say(cut: 'cut' | null = null): Promise<void> {
    if (this.#isHeld) return;
    const draft = this.takeDraft();
    if (draft === null) return;
    const text = cut === null ? draft.text : cutOff(draft.text);
    if ((await this.#ports.commands.send({ type: 'say', ...draft, text })) === null) this.#isLost = true;
    if (!this.#muted && this.#text === '') this.#show(null);
  }

  #show(text: string | null): void {
    if (text === null && !this.#isShown) return;
    this.#isShown = text !== null;
    this.#ports.drafted(this.epoch, text);
  }

  #closing(ending: Ending): ClosingOf<'wait'> | ClosingOf<'end'> {
    if (ending.how === 'waiting') return { type: 'wait', ...ofAnswer(ending.of) };
    if (ending.how === 'passed') return { type: 'end', outcome: 'passed', signalled: true };
    const end = this.#endOf(ending);
    const isAsking = this.#askedAgent !== null && end.outcome === 'completed' && end.handTo === undefined;
    return isAsking ? { type: 'wait', ...ofAnswer(this.#askedAgent ?? undefined) } : { type: 'end', ...end };
  }

  #endOf(ending: Ending): Pick<Extract<AgentCommand, { type: 'end' }>, 'outcome' | 'signalled' | 'handTo'> {
    const signalled = this.#signalled || !this.#ports.needsSignal;
    const handTo = (ending.how === 'completed' ? ending.handTo : undefined) ?? this.#named();
    if (handTo !== undefined) return { outcome: 'completed', signalled, handTo };
    return { outcome: (this.#signalled || this.#isPass) && !this.#hasPosted ? 'passed' : 'completed', signalled };
  }

  #named(): AgentId | undefined {
    const named = this.#argument?.toLowerCase() ?? null;
    if (named === null) return undefined;
    return this.#others.find(({ id, name }) => id.toLowerCase() === named || name.toLowerCase() === named)?.id;
  }
}

type ClosingOf<Type extends 'wait' | 'end'> = Omit<Extract<AgentCommand, { type: Type }>, 'agent' | 'epoch'>;

function ofAnswer(of: AgentId | undefined): Pick<Extract<AgentCommand, { type: 'wait' }>, 'reason' | 'of'> {
  return { reason: 'answer', ...defined({ of }) };
}

const BEAT_MS = 1_000;
/** The least time between two reported signs of work is at most the turn's time left, divided by this number. */
const BEATS_LEAST = 10;
const QUIET_MS = 5_000;

/** Closes a code block that is still open, or removes it when it is empty. */
function closed(text: string): string {
  const fences = [...text.matchAll(/^(?:```|~~~)/gm)];
  const last = fences.at(-1);
  if (last === undefined || fences.length % 2 === 0) return text;
  const isEmpty = !text.slice(last.index).includes('\n');
  return isEmpty ? text.slice(0, last.index).trimEnd() : `${text}\n${last[0]}`;
}

/**
 * A message to inject into a generation. `change`: set for an edit or a deletion of an earlier message. `report` is
 * called with its outcome, at most once.
 */
type Injection = {
  readonly line: Line;
  readonly observed: boolean;
  readonly change?: 'edited' | 'deleted' | undefined;
  readonly report: (outcome: InjectOutcome) => void;
};

type InjectionPorts = {
  readonly session: AgentSession;
  readonly timers: Timers;
  readonly log: AgentLog;
  readonly coalesceMs: number;
};

class Injections {
  readonly #ports: InjectionPorts;
  #batch: Injection[] = [];
  #timer: Timer | null = null;
  readonly #unanswered = new Set<Promise<void>>();
  readonly #late = Promise.withResolvers<InjectOutcome>();
  #closed = false;
  #abandoned = false;

  constructor(ports: InjectionPorts) {
    this.#ports = ports;
  }

  add(injection: Injection): void {
    if (this.#closed) {
      injection.report('next-prompt');
      return;
    }
    // When the changed message itself still waits, only its newest text is handed over, or nothing after a deletion.
    const isUnsent = this.#batch.some(
      (each) => each.change === undefined && each.line.message === injection.line.message,
    );
    const batch = this.#batch.flatMap((waiting) => amended(waiting, injection));
    this.#batch = isUnsent ? batch : [...batch, injection];
    this.#timer ??= this.#ports.timers.after(this.#ports.coalesceMs, () => this.#handOver());
  }

  /**
   * Called when the generation is over: messages not yet handed over go into the next prompt. Resolves when every
   * outcome is reported; an outcome that takes longer than 5 s counts as `next-prompt`.
   */
  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    for (const { report } of this.#batch.splice(0)) report('next-prompt');
    if (this.#unanswered.size === 0) return;
    const limit = this.#ports.timers.after(OUTCOME_MS, () => this.#late.resolve('next-prompt'));
    await Promise.all(this.#unanswered);
    limit.cancel();
  }

  abandon(): void {
    this.#closed = true;
    this.#abandoned = true;
    this.#timer?.cancel();
    this.#batch = [];
    this.#late.resolve('next-prompt');
  }

  #handOver(): void {
    this.#timer = null;
    for (const injection of this.#batch.splice(0)) {
      const answered: Promise<void> = this.#hand(injection).finally(() => this.#unanswered.delete(answered));
      this.#unanswered.add(answered);
    }
  }

  async #hand({ line, observed, report }: Injection): Promise<void> {
    const outcome = await this.#outcome(line, observed);
    if (!this.#abandoned) report(outcome);
  }

  async #outcome(line: Line, observed: boolean): Promise<InjectOutcome> {
    const { session, log } = this.#ports;
    try {
      return await Promise.race([session.inject(line, observed), this.#late.promise]);
    } catch (error) {
      log.warn({ message: line.message, err: error }, 'message could not be injected');
      return 'next-prompt';
    }
  }
}

/**
 * Returns what remains of `waiting` after a new injection: the new text if its message was edited; nothing if the new
 * injection replaces or deletes it. The floor expects no outcome for a deleted message.
 */
function amended(waiting: Injection, { line, change }: Injection): readonly Injection[] {
  if (change === undefined || waiting.line.message !== line.message) return [waiting];
  return change === 'edited' && waiting.change === undefined ? [{ ...waiting, line }] : [];
}

/** How long after the end of a generation its session may still report an outcome, in milliseconds. */
const OUTCOME_MS = 5_000;
