import type {
  CallResult,
  GatedCall,
  GateVerdict,
  UnfinishedSteps,
  ModelStep,
  ToolGate,
} from '../../agents/tools/tool-gate.ts';
import { KeyedQueue } from '../../lib/keyed.ts';
import type { Clock } from '../../lib/time.ts';
import type { Applied } from '../../turns/floor-store.ts';
import type { TurnManager } from '../../turns/manager.ts';
import { reported, settlement } from '../../work/runs/call-record.ts';
import { runKeyOf, runKeysOf } from '../../work/runs/floor-binding.ts';
import type { RunSeat } from '../../work/runs/floor-binding.ts';
import type { RunStore } from '../../work/runs/run-machine.ts';
import type { RequestedCall, RunCommand, RunFact } from '../../work/runs/run-events.ts';
import { CallFollower, UNDECIDED, unfinishedSteps, refusedBy } from '../../work/runs/call-outcomes.ts';
import type { OpenCall, RunState } from '../../work/runs/run.ts';
import { describeRequest, digestOf, recordedCall } from './tool-judge.ts';
import type { CallJudgement } from './tool-judge.ts';
import { defined } from '../../lib/defined.ts';

type RunGatePorts = {
  readonly runs: Pick<RunStore, 'apply' | 'applyAll' | 'state' | 'onChange' | 'newest'>;
  readonly manager: Pick<TurnManager, 'apply'>;
  readonly clock: Clock;
  readonly judge: (seat: RunSeat, call: GatedCall, remembered: RunState['remembered']) => CallJudgement;
  /** The step limit with which a run begins; `undefined`: the specification's default. */
  readonly maxTurns: (seat: RunSeat) => number | undefined;
  /**
   * Id of the person or program that caused the turn or run; `null` when an operator granted the turn without messages,
   * '' when nobody is known.
   */
  readonly requestedBy: (seat: RunSeat) => string | null;
  /** Text of the messages that the turn was given; `null` for none. */
  readonly prompt: (seat: RunSeat) => string | null;
  readonly clean: (text: string) => string;
  readonly failed: (error: unknown) => void;
  /** True while Conch ends. Requests then stay open. */
  readonly isEnding: () => boolean;
};

/**
 * Makes gates between agents and their tools. A tool call that needs the gate's verdict is recorded before it starts
 * and after it ends. A call that an agent ran without asking is recorded after it ends.
 */
export function createRunGates(ports: RunGatePorts): (seat: RunSeat, epoch: number) => ToolGate {
  const watchers = new Map<string, Set<Watcher>>();
  ports.runs.onChange(({ key, facts }) => {
    for (const watcher of watchers.get(key) ?? []) watcher(facts);
  });
  const watch = (key: string, watcher: Watcher): (() => void) => {
    const watchersOfKey = watchers.get(key) ?? new Set();
    watchers.set(key, watchersOfKey.add(watcher));
    return () => {
      watchersOfKey.delete(watcher);
      if (watchersOfKey.size === 0) watchers.delete(key);
    };
  };
  return (seat, epoch) => new RunGate({ ...ports, watch }, seat, epoch);
}

type Watcher = (facts: readonly RunFact[]) => void;
type GatePorts = RunGatePorts & { readonly watch: (key: string, watcher: Watcher) => () => void };

/**
 * The gate of one generation (an agent's answer to one prompt). Its run is the run of the seat; the run's session is
 * the epoch of the generation.
 */
class RunGate implements ToolGate {
  readonly #ports: GatePorts;
  readonly #seat: RunSeat;
  readonly #key: string;
  readonly #epoch: number;
  readonly #session: string;
  readonly #queue = new KeyedQueue<'call'>();
  /** Tool calls that wait until the calls before them are decided and the run goes on. */
  readonly #waiting = new Set<Waiting>();
  /** Tool calls that may run now: the agent's id of each call, with the call's id in the run. */
  readonly #open = new Map<string, string>();
  #calls = 0;
  /** Ids of the calls that this generation requested or continued. */
  readonly #requestedIds = new Set<string>();
  /** The text of the model's last answer. */
  #lastAnswer = '';
  /** Aborted when the generation is over. */
  readonly #over = new AbortController();

  constructor(ports: GatePorts, seat: RunSeat, epoch: number) {
    this.#ports = ports;
    this.#seat = seat;
    this.#key = runKeyOf(seat);
    this.#epoch = epoch;
    this.#session = `${epoch}`;
  }

  async step({ text, checkpoint }: ModelStep): Promise<'go' | 'stop'> {
    this.#lastAnswer = text;
    try {
      const begun = await this.#queue.run('call', () => this.#step(checkpoint));
      return begun ? await this.#goOrStop() : 'stop';
    } catch (error) {
      return this.#fail(error, 'stop');
    }
  }

  async spent(): Promise<'go' | 'stop'> {
    const command: RunCommand = { type: 'PAUSE', reason: 'turn_limit', context: SPENT };
    const pause = async (): Promise<boolean> => (await this.#begin()) && (await this.#apply(command)).ok;
    try {
      return (await this.#queue.run('call', pause)) && (await this.#goOrStop()) === 'go' ? 'go' : 'stop';
    } catch (error) {
      return this.#fail(error, 'stop');
    }
  }

  standing(): Promise<'go' | 'stop'> | null {
    const { pause = null, session } = this.#state?.run ?? {};
    const isForPeople = pause?.reason === 'turn_limit' || pause?.reason === 'confirmation';
    return isForPeople && session === this.#session ? this.#goOrStop() : null;
  }

  async unfinished(): Promise<UnfinishedSteps | null> {
    return this.#isOpen ? unfinishedSteps(this.#ports.runs.newest(this.#key)) : null;
  }

  async ask(call: GatedCall, withdrawn: AbortSignal): Promise<GateVerdict> {
    const stopped = AbortSignal.any([withdrawn, this.#over.signal]);
    const waitingCall: Waiting = { call, stopped, id: null };
    const cut = Promise.withResolvers<readonly [GateVerdict]>();
    const withdraw = (): void => {
      if (this.#ports.isEnding()) cut.resolve([CANCELLED]);
      else if (waitingCall.id !== null)
        void this.#apply({ type: 'WITHDRAW', call: waitingCall.id }).catch(this.#ports.failed);
    };
    this.#waiting.add(waitingCall);
    stopped.addEventListener('abort', withdraw, { once: true });
    const verdict = this.#queue.run('call', () => this.#ask(waitingCall));
    const listed = this.#requestUnlisted().catch((error: unknown) => this.#fail(error, null));
    const answered = Promise.all([verdict.catch((error: unknown) => this.#fail(error, CANCELLED)), listed]);
    const [answer] = await Promise.race([answered, cut.promise]);
    this.#waiting.delete(waitingCall);
    stopped.removeEventListener('abort', withdraw);
    return answer;
  }

  async settled({ id: agentCall, tool }: GatedCall, result: CallResult): Promise<void> {
    const id = this.#open.get(agentCall);
    if (id === undefined) return;
    this.#open.delete(agentCall);
    await this.#settle({ id, tool }, result).catch((error: unknown) => this.#fail(error, null));
  }

  async reported(call: GatedCall, result: CallResult): Promise<void> {
    if (this.#over.signal.aborted) return;
    const record = async (): Promise<void> => {
      if (this.#state?.run?.session !== this.#session && !(await this.#begin())) return;
      const { runs, clean, clock } = this.#ports;
      const judged = this.#judge(call);
      const judgement = { ...judged, verdict: 'allow', rule: 'unasked', about: null } as const;
      const common = { ...recordedCall(call, judgement, { id: this.#newId(), clean }), repeatable: true };
      const reportedCall = { session: this.#session, call: common, brings: judged.brings };
      await runs.applyAll(this.#key, reported(reportedCall, result, clean), clock.now());
    };
    // While people decide, a result is recorded at once, without the queue.
    const recorded = this.#isOpen && this.#state?.status === 'paused' ? record() : this.#queue.run('call', record);
    await recorded.catch((error: unknown) => this.#fail(error, null));
  }

  async close(): Promise<void> {
    this.#over.abort();
    await this.#queue.settled();
    const unknown = { status: 'error', output: '', code: 'UNKNOWN', durationMs: null } as const;
    const open = [...this.#open.values()];
    this.#open.clear();
    await Promise.all(open.map((id) => this.#settle({ id, tool: '' }, unknown))).catch((error: unknown) =>
      this.#fail(error, null),
    );
  }

  get #state(): RunState | null {
    return this.#ports.runs.state(this.#key);
  }

  get #isOpen(): boolean {
    const state = this.#state;
    return state?.run?.session === this.#session && (state.status === 'running' || state.status === 'paused');
  }

  #apply(command: RunCommand): ReturnType<RunStore['apply']> {
    return this.#ports.runs.apply(this.#key, command, this.#ports.clock.now());
  }

  async #step(storedStep: ModelStep['checkpoint']): Promise<boolean> {
    if (this.#over.signal.aborted) return false;
    const keepCommands = this.#keepCommands(storedStep);
    if (!this.#isOpen) {
      const isBegun = await this.#begin();
      for (const command of isBegun ? keepCommands : []) await this.#apply(command);
      return isBegun;
    }
    await this.#dropLeft();
    const turn = (this.#state?.run?.turn ?? 0) + 1;
    const step: RunCommand = { type: 'STEP', session: this.#session, turn, toolCalls: [], ...this.#output };
    await this.#ports.runs.applyAll(this.#key, [step, ...keepCommands], this.#ports.clock.now());
    return true;
  }

  get #output(): { readonly output?: string } {
    return this.#lastAnswer === '' ? {} : { output: this.#ports.clean(this.#lastAnswer) };
  }

  /** The command that stores a step, redacted. Steps that are too long, or have a secret in calls, are not stored. */
  #keepCommands(storedStep: ModelStep['checkpoint']): readonly RunCommand[] {
    if (storedStep === null) return [];
    const [said, calls] = [this.#ports.clean(storedStep.said), this.#ports.clean(storedStep.calls)];
    if (calls !== storedStep.calls || said.length + calls.length > LONGEST_STEP) return [];
    return [{ type: 'KEEP', session: this.#session, said, calls }];
  }

  /** Calls for Conch to run that an earlier generation of the turn requested and that have not started. */
  get #leftCalls(): readonly OpenCall[] {
    const calls = this.#state?.run?.calls ?? [];
    return calls.filter(
      ({ id, source, status }) => source === 'conch' && status === 'pending' && !this.#requestedIds.has(id),
    );
  }

  async #dropLeft(): Promise<void> {
    for (const { id } of this.#leftCalls) await this.#apply({ type: 'WITHDRAW', call: id });
  }

  async #begin(): Promise<boolean> {
    if (this.#isOpen) return true;
    const { channel, agent, isBackground } = this.#seat;
    if (isBackground === true) {
      await this.#apply({ type: 'STEP', session: this.#session, turn: 1, toolCalls: [], ...this.#output });
      return this.#isOpen;
    }
    const maxTurns = this.#ports.maxTurns(this.#seat);
    const requestedBy = this.#ports.requestedBy(this.#seat);
    const prompt = this.#ports.prompt(this.#seat);
    const limit = defined({ maxTurns });
    const begun: Applied = await this.#ports.manager.apply(channel, {
      type: 'use',
      agent,
      epoch: this.#epoch,
      ...limit,
      ...(requestedBy === null ? {} : { requestedBy }),
      ...(prompt === null ? {} : { prompt: this.#ports.clean(prompt) }),
      ...this.#output,
    });
    return begun.ok && this.#isOpen;
  }

  async #goOrStop(): Promise<'go' | 'stop'> {
    return (await this.#waitUntilRunning(this.#over.signal)) ? 'go' : 'stop';
  }

  /** Waits until a paused run continues. Resolves with whether it does. */
  async #waitUntilRunning(stopped: AbortSignal): Promise<boolean> {
    const changed = Promise.withResolvers<void>();
    const look = (): void => {
      if (stopped.aborted || !this.#isOpen || this.#state?.status === 'running') changed.resolve();
    };
    const unwatch = this.#ports.watch(this.#key, look);
    stopped.addEventListener('abort', look, { once: true });
    look();
    await this.#requestUnlisted();
    await changed.promise;
    stopped.removeEventListener('abort', look);
    unwatch();
    return !stopped.aborted && this.#isOpen;
  }

  async #ask(waitingCall: Waiting): Promise<GateVerdict> {
    const { call, stopped } = waitingCall;
    if (stopped.aborted || !(await this.#begin())) return CANCELLED;
    const digest = digestOf(call);
    const leftCall = call.accounts === undefined ? this.#leftCalls.find((each) => each.digest === digest) : undefined;
    if (leftCall === undefined) await this.#dropLeft();
    if (leftCall === undefined && !(await this.#waitUntilRunning(stopped))) return CANCELLED;
    this.#waiting.delete(waitingCall);
    const id = leftCall?.id ?? waitingCall.id ?? this.#newId();
    waitingCall.id = id;
    this.#requestedIds.add(id);
    const judged = this.#judge(call);
    const outcome = new CallFollower(id);
    const unwatch = this.#ports.watch(this.#key, (facts) => outcome.hear(facts));
    try {
      if (leftCall !== undefined) return await this.#goOn(call, { id, digest, outcome, words: judged.words });
      const { clean } = this.#ports;
      const byRule = judged.remembered === null ? {} : { remembered: judged.remembered };
      const words = describeRequest(call, judged, { lastAnswer: this.#lastAnswer, clean });
      const front = { ...recordedCall(call, judged, { id, clean }), ...byRule, words };
      const calls = judged.verdict === 'ask' ? [front, ...this.#unlistedCalls()] : [front];
      const requested = await this.#apply({ type: 'REQUEST', session: this.#session, calls });
      if (!requested.ok) return CANCELLED;
      if (stopped.aborted && !this.#ports.isEnding()) await this.#apply({ type: 'WITHDRAW', call: id });
      return await this.#awaitDecision(call, { id, digest, outcome, words: judged.words });
    } finally {
      unwatch();
    }
  }

  async #requestUnlisted(): Promise<void> {
    if (!this.#isOpen || this.#state?.status !== 'paused') return;
    const calls = this.#unlistedCalls();
    if (calls.length > 0) await this.#apply({ type: 'REQUEST', session: this.#session, calls });
  }

  #unlistedCalls(): RequestedCall[] {
    return [...this.#waiting].flatMap((waitingCall): RequestedCall[] => {
      if (waitingCall.id !== null || waitingCall.stopped.aborted) return [];
      const judged = this.#judge(waitingCall.call);
      // A denied call needs no decision of people. It is recorded when it is refused.
      if (judged.verdict === 'deny') return [];
      waitingCall.id = this.#newId();
      this.#requestedIds.add(waitingCall.id);
      return [
        { ...recordedCall(waitingCall.call, judged, { id: waitingCall.id, clean: this.#ports.clean }), waits: true },
      ];
    });
  }

  /**
   * Continues a call that an earlier generation requested, such as before a restart. A decision that people made in the
   * meantime counts.
   */
  async #goOn(call: GatedCall, request: CallRequest): Promise<GateVerdict> {
    const isCleared = this.#state?.run?.calls.some(({ id, cleared }) => id === request.id && cleared) === true;
    if (isCleared) request.outcome.hear([{ type: 'callCleared', call: request.id }]);
    return await this.#awaitDecision(call, request);
  }

  /**
   * Waits until the call may start, then claims it under the rules then in force. If these rules ask for one more
   * approval, waits again. Resolves when the call was claimed, or ended unclaimed.
   */
  async #awaitDecision(call: GatedCall, { id, digest, outcome, words }: CallRequest): Promise<GateVerdict> {
    for (;;) {
      await this.#requestUnlisted();
      const decision = await outcome.next();
      if (decision !== 'cleared') return { verdict: 'refused', ...refusedBy(decision, call.tool, words) };
      const { verdict, brings } = this.#judge(call);
      const claimed = await this.#apply({ type: 'CLAIM', call: id, digest, verdict, brings });
      if (claimed.ok && claimed.facts.some(({ type }) => type === 'callClaimed')) {
        this.#open.set(call.id, id);
        const { reason } = outcome.said;
        return { verdict: 'go', ...(reason === null ? {} : { words: reason }) };
      }
    }
  }

  #judge(call: GatedCall): CallJudgement {
    const { runs, judge } = this.#ports;
    const rememberedRules = runKeysOf(this.#seat).flatMap((key) => runs.state(key)?.remembered ?? []);
    return judge(this.#seat, call, rememberedRules);
  }

  #settle(call: { readonly id: string; readonly tool: string }, result: CallResult): Promise<unknown> {
    const { runs, clean, clock } = this.#ports;
    return runs.applyAll(this.#key, settlement(call, result, clean), clock.now());
  }

  #newId(): string {
    this.#calls += 1;
    return `${this.#epoch}.${this.#state?.run?.turn ?? 1}.${this.#calls}`;
  }

  #fail<Value>(error: unknown, value: Value): Value {
    this.#ports.failed(error);
    return value;
  }
}

/** A tool call that needs the gate's verdict. `id`: the call's id in the run; `null` until it is recorded. */
type Waiting = { readonly call: GatedCall; readonly stopped: AbortSignal; id: string | null };

type CallRequest = {
  readonly id: string;
  readonly digest: string;
  readonly outcome: CallFollower;
  readonly words: string;
};
const SPENT = 'used up the steps that its own settings allow';
/** The longest step that is stored, in UTF-16 units. */
const LONGEST_STEP = 524_288;
const CANCELLED: GateVerdict = { verdict: 'refused', code: 'CANCELLED', words: UNDECIDED };
