import { askedIn, beginsPassWord, createSignalScanner, isPassWord, mentionsIn } from '../../turns/text/recognition.ts';
import type { AgentCommand, TurnDraft } from '../../turns/floor/command.ts';
import type { AgentId } from '../../turns/floor/settings.ts';
import type { SignalScanner } from '../../turns/text/recognition.ts';
import { cutOff } from '../../turns/text/split.ts';
import type { Clock, Instant, Timer, Timers } from '../../lib/time.ts';
import type { ToolGate } from '../tools/tool-gate.ts';
import type { AgentSession, Ending, Report, TurnPrompt, Usage, InjectOutcome } from '../backends/backend.ts';
import type { AgentLog, CommandSender } from './floor-port.ts';
import { defined } from '../../lib/defined.ts';
import type { Line } from '../../turns/view.ts';

/** What one generation reports to. */
type GenerationPorts = {
  readonly agent: AgentId;
  readonly epoch: number;
  readonly roster: TurnPrompt['roster'];
  /** What ends a turn at the very end of its output; taken out of what is shown. */
  readonly signal: string;
  /** A message that is only one of these is not posted; when nothing else is said, the turn is a pass. */
  readonly passWords: readonly string[];
  /** Nothing else says that the turn is over: its protocol has no end of its own. */
  readonly needsSignal: boolean;
  /** The session that generates: messages that come meanwhile are handed to it, a burst of this time in one go. */
  readonly session: AgentSession;
  readonly coalesceMs: number;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: AgentLog;
  readonly commands: Pick<CommandSender, 'send'>;
  /** The text that is written and not yet said. */
  readonly drafted: (epoch: number, text: string | null) => void;
  /** The first sign of life. */
  readonly started: () => void;
  /** How long the turn may last without a further one, in milliseconds. */
  readonly leftMs: (epoch: number) => number;
  /** Makes what stands between the agent and its tools. */
  readonly gate: () => ToolGate;
};

/** One generation of one turn: what the session streams becomes a draft, signs of work, and messages for the floor. */
export class Generation {
  readonly epoch: number;
  readonly report: Report;
  readonly #ports: GenerationPorts;
  /** Resolves when nothing more comes of it. */
  readonly done: Promise<void>;
  readonly #close: () => void;
  #generating = true;
  #muted = false;
  #whole = false;
  #text = '';
  /** The text is more than white space. */
  #visible = false;
  #scanner: SignalScanner;
  /** Something was handed out to be said. */
  #said = false;
  /** What the end of the last message said. */
  #signalled = false;
  #argument: string | null = null;
  /** Whom the last message asks. */
  #asks: AgentId | null = null;
  /** The last message was a word that is a pass. */
  #passed = false;
  #open = 0;
  /** How many calls wait until it is decided whether they may run. */
  #asking = 0;
  /** Called when nobody need wait for its run any more. */
  #unheld: (() => void) | null = null;
  /** Aborted when nothing more is to be done. Made with the gate: most generations ask for nothing. */
  #over: AbortController | null = null;
  /** Made for the first tool. */
  #gate: ToolGate | null = null;
  /** Made for the first message that comes meanwhile. */
  #injections: Injections | null = null;
  #beatAt = -Infinity;
  /** From one told sign of work to the next; short for an agent that is given little time. */
  #beatMs: number | null = null;
  /** A sign without text is to be told yet. */
  #isUntold = false;
  /** The last sign of the agent's own work. */
  #workedAt: Instant;
  #textAt = 0;
  #quiet: Timer | null = null;

  constructor(ports: GenerationPorts) {
    this.#ports = ports;
    this.epoch = ports.epoch;
    ({ promise: this.done, resolve: this.#close } = Promise.withResolvers<void>());
    this.#workedAt = ports.clock.now();
    this.#scanner = createSignalScanner(ports);
    this.report = {
      text: (chunk) => this.#hear(chunk),
      flush: () => void this.#endMessage(),
      work: (open, by, limitMs) => this.#work(open, { by, limitMs }),
      usage: (usage) => this.#spend(usage),
      now: () => ports.clock.now(),
      leftMs: () => ports.leftMs(ports.epoch),
      gate: this.#gated(ports.gate),
    };
  }

  /** Whether the session is still at it. */
  get generating(): boolean {
    return this.#generating;
  }

  /** Whether its output is no longer wanted. */
  get muted(): boolean {
    return this.#muted;
  }

  /** Whether it ended by itself, and all that it said was told. */
  get whole(): boolean {
    return this.#whole;
  }

  /** What was streamed and not yet said. */
  get draft(): TurnDraft | null {
    const text = closed(this.#text.trim());
    if (this.#muted || text === '' || this.#isPassWord) return null;
    const { agent, epoch } = this.#ports;
    return { agent, epoch, text, mentions: mentionsIn(text, this.#others), workedAt: this.#workedAt };
  }

  /** Takes it, so that whoever calls can have it said. */
  takeDraft(): TurnDraft | null {
    const { draft } = this;
    if (this.#isPassWord) return null;
    this.#text = '';
    this.#visible = false;
    if (draft === null) return null;
    this.#said = true;
    this.#asks = askedIn(draft.text, this.#others);
    return draft;
  }

  /** Drops all output from here on. */
  mute(): void {
    if (!this.#muted) this.#ports.drafted(this.epoch, null);
    this.#muted = true;
    this.#unheld?.();
    this.#quiet?.cancel();
    this.#over?.abort();
  }

  /** Hands a message over in the middle of it; what came of it is reported before the end. */
  inject(injection: Injection): void {
    if (!this.#generating) return injection.report('next-prompt');
    this.#injections ??= new Injections(this.#ports);
    this.#injections.add(injection);
  }

  /** The session has stopped generating. */
  generated(): void {
    this.#generating = false;
    this.#quiet?.cancel();
    this.#over?.abort();
  }

  /** Says what is left and tells the floor how it ended, in one commit. A pass says nothing; the signal and nothing else is one, too. */
  async finish(ending: Ending): Promise<void> {
    await this.#injections?.close();
    await this.#stands();
    await this.#gate?.close();
    if (this.#muted) return;
    const { agent, epoch, commands, drafted } = this.#ports;
    if (ending.how === 'passed') this.#text = '';
    const said = ending.how === 'passed' ? null : this.#endMessage();
    drafted(epoch, null);
    const closing = this.#closing(ending);
    const [told] = await Promise.all([commands.send({ agent, epoch, ...closing }), said]);
    if (closing.type === 'wait' && closing.of !== undefined && told?.ok === false)
      await commands.send({ agent, epoch, type: 'end', ...this.#endOf({ how: 'completed' }) });
    this.#whole = ending.how !== 'interrupted';
  }

  /** What ends while its run stands still ends when people have decided: no floor would hear of it before. */
  async #stands(): Promise<void> {
    const standing = this.#gate?.standing() ?? null;
    if (standing === null || this.#muted) return;
    const muted = Promise.withResolvers<void>();
    this.#unheld = muted.resolve;
    await Promise.race([standing, muted.promise]);
  }

  /** The session is gone: says what people have seen, and nothing more; `cut` when its turn does not go on. */
  abandon(cut: 'cut' | null = null): void {
    this.generated();
    void this.#say(cut);
    this.mute();
  }

  /** Nothing more comes of it. */
  close(): void {
    this.mute();
    this.generated();
    this.#injections?.abandon();
    this.#close();
  }

  /** What was written before a call stands before it in the channel; what comes while people are asked is said after that. */
  #gated(make: () => ToolGate): ToolGate {
    const made = (): ToolGate => (this.#gate ??= make());
    const waiting = async <Answer>(ask: () => Promise<Answer>): Promise<Answer> => {
      await this.#endMessage();
      return await holding(ask);
    };
    const holding = async <Answer>(ask: () => Promise<Answer>): Promise<Answer> => {
      this.#asking += 1;
      try {
        return await ask();
      } finally {
        this.#asking -= 1;
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
      left: () => made().left(),
      ask: (call, stopped) => waiting(() => made().ask(call, AbortSignal.any([stopped, this.#untilOver()]))),
      settled: (call, result) => made().settled(call, result),
      reported: (call, result) => made().reported(call, result),
      close: async () => this.#gate?.close(),
    };
  }

  /** Aborted as soon as nobody waits for a yes any more. */
  #untilOver(): AbortSignal {
    const over = (this.#over ??= new AbortController());
    if (this.#muted || !this.#generating) over.abort();
    return over.signal;
  }

  #hear(chunk: string): void {
    if (this.#muted || !this.#generating || chunk === '') return;
    this.#ports.started();
    this.#text += this.#scanner.push(chunk);
    this.#textAt = this.#ports.clock.now();
    this.#workedAt = this.#textAt;
    this.#quiet ??= this.#ports.timers.after(QUIET_MS, () => this.#afterQuiet());
    this.#visible ||= /\S/.test(this.#text);
    if (this.#visible && !beginsPassWord(this.#text, this.#ports.passWords))
      this.#ports.drafted(this.epoch, this.#text);
    this.#beat();
  }

  /** What only the host says counts when something has begun or ended. */
  #work(
    open: number,
    { by, limitMs }: { readonly by: 'host' | undefined; readonly limitMs: number | undefined },
  ): void {
    if (this.#muted || !this.#generating || (by === 'host' && open === this.#open)) return;
    if (by !== 'host') this.#ports.started();
    this.#workedAt = this.#ports.clock.now();
    if (open !== this.#open) this.#beatAt = -Infinity;
    this.#open = open;
    if (!this.#beat(limitMs)) this.#tellSoon();
  }

  /** What only says that there is nothing to say is a pass. */
  #spend({ use, ...spent }: Usage): void {
    const { agent, epoch, commands } = this.#ports;
    const isPass = use.outcome === 'answered' && this.#isPassWord;
    void commands.send({ type: 'spend', agent, epoch, ...spent, use: isPass ? { ...use, outcome: 'passed' } : use });
  }

  /** A sign of work, at most one a second; whether it was told. What text says of it is known without. */
  #beat(limitMs?: number): boolean {
    const { agent, epoch, clock, leftMs, commands } = this.#ports;
    const now = clock.now();
    this.#beatMs ??= Math.min(BEAT_MS, (leftMs(epoch) || Infinity) / BEATS_LEAST);
    if (this.#asking > 0 || now - this.#beatAt < this.#beatMs) return false;
    this.#beatAt = now;
    void commands.send({ type: 'work', agent, epoch, open: this.#open, ...defined({ limitMs }) });
    return true;
  }

  #tellSoon(): void {
    if (this.#isUntold) return;
    this.#isUntold = true;
    this.#ports.timers.after(this.#beatMs ?? 0, () => {
      this.#isUntold = false;
      const isNews = this.#workedAt > this.#beatAt && this.#asking === 0;
      if (isNews && this.#generating && !this.#muted && !this.#beat()) this.#tellSoon();
    });
  }

  /** Text that nothing follows for a while is a message: an agent that falls silent has spoken. */
  #afterQuiet(): void {
    this.#quiet = null;
    const left = this.#textAt + QUIET_MS - this.#ports.clock.now();
    if (left > 0) this.#quiet = this.#ports.timers.after(left, () => this.#afterQuiet());
    else void this.#say();
  }

  /** The signal is taken out at the end of every message; it counts if nothing follows. */
  async #endMessage(): Promise<void> {
    const { text, signalled, argument } = this.#scanner.end();
    this.#scanner = createSignalScanner(this.#ports);
    this.#text += text;
    if (signalled || this.#text.trim() !== '') {
      this.#signalled = signalled;
      this.#argument = argument;
      this.#passed = this.#isPassWord;
    }
    if (this.#passed) this.#text = '';
    await this.#say();
  }

  get #others(): TurnPrompt['roster'] {
    return this.#ports.roster.filter(({ id }) => id !== this.#ports.agent);
  }

  get #isPassWord(): boolean {
    return isPassWord(this.#text, this.#ports.passWords);
  }

  /** While people are asked what comes meanwhile waits, but not for ever: it may be the last. */
  async #say(cut: 'cut' | null = null): Promise<void> {
    if (this.#asking > 0 && this.#generating) return;
    const draft = this.takeDraft();
    if (draft === null) return;
    await this.#ports.commands.send({ type: 'say', ...draft, ...(cut === null ? {} : { text: cutOff(draft.text) }) });
    if (!this.#muted && this.#text === '') this.#ports.drafted(this.epoch, null);
  }

  #closing(ending: Ending): ClosingOf<'wait'> | ClosingOf<'end'> {
    if (ending.how === 'waiting') return { type: 'wait', ...ofAnswer(ending.of) };
    if (ending.how === 'passed') return { type: 'end', outcome: 'passed', signalled: true };
    const end = this.#endOf(ending);
    const isAsking = this.#asks !== null && end.outcome === 'completed' && end.handTo === undefined;
    return isAsking ? { type: 'wait', ...ofAnswer(this.#asks ?? undefined) } : { type: 'end', ...end };
  }

  #endOf(ending: Ending): Pick<Extract<AgentCommand, { type: 'end' }>, 'outcome' | 'signalled' | 'handTo'> {
    const { agent, roster, needsSignal } = this.#ports;
    const signalled = this.#signalled || !needsSignal;
    const named = this.#argument?.toLowerCase();
    const others = roster.filter(({ id }) => id !== agent);
    const meant = others.find(({ id, name }) => [id, name].some((word) => word.toLowerCase() === named));
    const handTo = ending.how === 'completed' && ending.handTo !== undefined ? ending.handTo : meant?.id;
    if (handTo !== undefined) return { outcome: 'completed', signalled, handTo };
    return { outcome: (this.#signalled || this.#passed) && !this.#said ? 'passed' : 'completed', signalled };
  }
}

type ClosingOf<Type extends 'wait' | 'end'> = Omit<Extract<AgentCommand, { type: Type }>, 'agent' | 'epoch'>;

function ofAnswer(of: AgentId | undefined): Pick<Extract<AgentCommand, { type: 'wait' }>, 'reason' | 'of'> {
  return { reason: 'answer', ...defined({ of }) };
}

const BEAT_MS = 1_000;
/** So many signs of work at least are told in the time that an agent is given. */
const BEATS_LEAST = 10;
const QUIET_MS = 5_000;

/** The text with a code block closed that was cut, or without it if nothing stands in it yet. */
function closed(text: string): string {
  const fences = [...text.matchAll(/^(?:```|~~~)/gm)];
  const last = fences.at(-1);
  if (last === undefined || fences.length % 2 === 0) return text;
  const isEmpty = !text.slice(last.index).includes('\n');
  return isEmpty ? text.slice(0, last.index).trimEnd() : `${text}\n${last[0]}`;
}

/** A message on its way into a turn; `report` is told its outcome, once. */
export type Injection = {
  readonly line: Line;
  readonly observed: boolean;
  readonly report: (outcome: InjectOutcome) => void;
};

/** What hands messages over to one generation. */
type InjectionPorts = {
  readonly session: AgentSession;
  readonly timers: Timers;
  readonly log: AgentLog;
  readonly coalesceMs: number;
};

/** The messages that come in the middle of one generation: a burst is handed over in one go, in order. */
export class Injections {
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
    this.#batch = [...this.#batch.flatMap((waiting) => amended(waiting, injection.line)), injection];
    this.#timer ??= this.#ports.timers.after(this.#ports.coalesceMs, () => this.#handOver());
  }

  /**
   * The generation is over: what was not handed over comes with the next prompt. Resolves when every outcome is reported;
   * one that the session does not tell in time counts as not taken.
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

  /** Nobody wants to know any more. */
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

/** An injection that waits to be handed over, when its message changes. A deleted message is not handed over, and its floor expects no outcome. */
function amended(waiting: Injection, { message, change, text, attachments }: Line): readonly Injection[] {
  if (change === null || waiting.line.message !== message) return [waiting];
  if (change === 'edited') return [{ ...waiting, line: { ...waiting.line, text, attachments } }];
  return [];
}

/** How long after a generation's end its session may still tell what became of a message. */
const OUTCOME_MS = 5_000;
