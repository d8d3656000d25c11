import { Alarm, stoodStillMs } from '../../lib/time.ts';
import type { Clock, Instant, Timers } from '../../lib/time.ts';
import { counted, excerpt } from '../../turns/commands/clock-words.ts';
import type { CommandOf } from '../../turns/floor/command.ts';
import { quietUntil } from '../../turns/floor/seats.ts';
import { decidedWords, retriedWords } from '../../turns/text/words.ts';
import { runKeyOf, runOnFloor, seatOfRuns } from './floor-binding.ts';
import type { RunSeat } from './floor-binding.ts';
import { toolCallRows } from './call-record.ts';
import { isWaiting } from './run-calls.ts';
import type { RunStore } from './run-machine.ts';
import type { RunCommand, RunFact } from './run-events.ts';
import { lastNumber } from './run.ts';
import type { Run, RunError, RunGrant, RunState } from './run.ts';
import { defined } from '../../lib/defined.ts';

/** The work of a background run, for one session of its agent. Each session of a run has another number. */
export type BackgroundTask = {
  readonly seat: RunSeat;
  readonly session: number;
  /** True before the first step of the run: its session begins without the memory of an earlier run. */
  readonly isFirst: boolean;
  /** Id of the person who wrote the prompt; `somebody` when unknown. */
  readonly by: string;
  readonly prompt: string;
  /** Model of the run. Absent: the agent's model. */
  readonly model?: string;
  /** Rules of the only tools that the run may use; `null`: all allowed tools. */
  readonly tools: readonly string[] | null;
  /**
   * The longest time without a report of work, in milliseconds. After it, the agent counts as lost, unless the run is
   * paused. While a tool call is open, its `limitMs` counts instead; without `limitMs`, the agent does not count as
   * lost.
   */
  readonly timeoutMs: number;
};

/**
 * Called by the worker of a background run. `worked`: the agent reported work. `done`: the worker ended, with its whole
 * text. `lost`: the worker failed. Nothing is called after `stop`.
 */
export type BackgroundReports = {
  worked(sign: Pick<CommandOf<'work'>, 'open' | 'limitMs'>): void;
  done(text: string): void;
  /** `final`: the agent was stopped after errors, so that a retry cannot help. */
  lost(failure: { readonly message: string; readonly code: string; readonly final: boolean }): void;
};

/**
 * The open session of a background run. `written`: its text so far. `stop` ends the session; `done` and `lost` are not
 * called afterwards.
 */
export type BackgroundWorker = { written(): string; stop(): Promise<void> };

type BackgroundRunsPorts = {
  readonly runs: Pick<RunStore, 'apply' | 'applyAll' | 'state' | 'awake' | 'newest' | 'due' | 'onChange'>;
  readonly clock: Clock;
  readonly timers: Timers;
  /** Opens a session for the work; `null` when the agent does not exist or agents cannot run now. */
  readonly open: (task: BackgroundTask, reports: BackgroundReports) => BackgroundWorker | null;
  readonly timeoutMs: (seat: RunSeat) => number;
  readonly tell: (seat: RunSeat, run: number, what: string) => void;
  readonly failed: (error: unknown) => void;
};

type AtWork = {
  readonly session: string;
  readonly worker: BackgroundWorker | null;
  finished: string | null;
  openWork: number;
  /** Instant at which the agent counts as lost; `null` for none. Does not apply while the run is paused. */
  deadlineAt: Instant | null;
  /**
   * How long Conch's process had stood still in total when `deadlineAt` was set, in milliseconds. Later standstills
   * move the deadline.
   */
  stoodStillMs: number;
};

/** Carries out background runs. Each continues until it is over, also after a restart. */
export class BackgroundRuns {
  readonly #ports: BackgroundRunsPorts;
  readonly #alarm: Alarm;
  readonly #atWork = new Map<string, AtWork>();
  /**
   * By the key of a seat's runs: the last session for which this process opened a worker. It opens no second worker for
   * a session.
   */
  readonly #lastSession = new Map<string, string>();
  #running = false;

  constructor(ports: BackgroundRunsPorts) {
    this.#ports = ports;
    this.#alarm = new Alarm(ports.clock, ports.timers, () => void this.#meet().catch(ports.failed));
    ports.runs.onChange(({ key, facts, state }) => this.#changed(key, facts, state));
  }

  /** Continues the background runs that were open when Conch ended. A failed run waits for a retry by people. */
  async begin(): Promise<void> {
    this.#running = true;
    for (const key of this.#ports.runs.awake().filter(isBackgroundKey)) await this.#recover(key);
  }

  /** Ends all workers without posting reports. Their runs continue after the next start. */
  async stop(): Promise<void> {
    this.#running = false;
    this.#alarm.cancel();
    const all = [...this.#atWork.values()];
    this.#atWork.clear();
    await Promise.all(all.flatMap(({ worker }) => (worker === null ? [] : [worker.stop()])));
  }

  /** Returns the text of a seat's background run so far. The text is not posted yet. */
  written(seat: RunSeat): string {
    const { worker = null, finished = null } = this.#atWork.get(runKeyOf(seat)) ?? {};
    return finished ?? worker?.written() ?? '';
  }

  async #recover(key: string): Promise<void> {
    const { run, status } = this.#ports.runs.state(key) ?? {};
    if (!run || status === 'idle' || status === 'completed') return;
    await this.#apply(key, { type: 'RECOVER' });
    if (status !== 'error') {
      const session = `${Number(run.session) + 1}`;
      await this.#apply(key, { type: 'ATTACH', session }, { type: 'RESUME', by: null });
    }
    const after = this.#ports.runs.state(key);
    this.#arm(after);
    if (after?.status === 'starting') this.#work(key);
  }

  #changed(key: string, facts: readonly RunFact[], state: RunState): void {
    if (!this.#running || !isBackgroundKey(key)) return;
    this.#arm(state);
    if (facts.some(({ type }) => type === 'runStarted' || type === 'resumed')) this.#goOn(key, state);
    if (!facts.some(({ type }) => ENDS.has(type))) return;
    const written = this.#drop(key);
    if (!facts.some(({ type }) => type === 'runCompleted')) this.#tellLost(key, written);
  }

  #goOn(key: string, { status }: RunState): void {
    const at = this.#atWork.get(key);
    if (status !== 'running' && status !== 'starting') return;
    if (at === undefined) this.#work(key);
    else if (at.finished !== null) this.#done(key, at.finished);
    // Restarts the timeout in which the agent must report work.
    else if (at.openWork === 0 && at.deadlineAt !== null) this.#worked(key, { open: 0 });
  }

  #work(key: string): void {
    const { run } = this.#ports.runs.state(key) ?? {};
    if (!run || this.#atWork.has(key)) return;
    if (this.#lastSession.get(key) === run.session) {
      const session = `${Number(run.session) + 1}`;
      void this.#apply(key, { type: 'ATTACH', session })
        .then(() => this.#running && this.#work(key))
        .catch(this.#ports.failed);
      return;
    }
    this.#lastSession.set(key, run.session);
    const { session, turn, model, allowedTools: tools } = run;
    const seat = seatOfRuns(key);
    const isStill = (): boolean => this.#atWork.get(key)?.session === session;
    const set = { tools, ...defined({ model }), timeoutMs: this.#ports.timeoutMs(seat) };
    const task = { seat, session: Number(session), isFirst: turn === 0, ...set, ...this.#promptFor(key, run) };
    // Reports are taken only from the worker that is in the map.
    const worker: AtWork = { session, worker: null, finished: null, openWork: 0, deadlineAt: null, stoodStillMs: 0 };
    this.#atWork.set(key, worker);
    const opened = this.#ports.open(task, {
      worked: (sign) => {
        if (isStill()) this.#worked(key, sign);
      },
      done: (text) => {
        if (isStill()) this.#done(key, text);
      },
      lost: ({ message, code, final }) => {
        if (isStill()) this.#lost(key, { message, code, recoverable: !final });
      },
    });
    if (opened === null) return this.#lost(key, failed('the agent no longer exists'));
    if (isStill()) this.#atWork.set(key, { ...worker, worker: opened });
    else opened.stop().catch(this.#ports.failed);
  }

  #worked(key: string, sign: Parameters<BackgroundReports['worked']>[0]): void {
    const worker = this.#atWork.get(key);
    if (worker === undefined) return;
    const now = { at: this.#ports.clock.now(), timeoutMs: this.#ports.timeoutMs(seatOfRuns(key)) };
    worker.deadlineAt = quietUntil(worker, sign, now);
    worker.stoodStillMs = stoodStillMs(this.#ports.clock);
    worker.openWork = sign.open;
    this.#alarm.noLaterThan(worker.deadlineAt);
  }

  #loseSilent(now: Instant): void {
    const total = stoodStillMs(this.#ports.clock);
    for (const [key, { deadlineAt: quietAt, finished, stoodStillMs: before }] of this.#atWork) {
      const { status } = this.#ports.runs.state(key) ?? {};
      if (quietAt === null || finished !== null || status === 'paused') continue;
      const deadlineAt = quietAt + total - before;
      if (deadlineAt > now) this.#alarm.noLaterThan(deadlineAt);
      else this.#lost(key, failed('timed out without a sign of work'));
    }
  }

  /**
   * Called with the whole text of a worker that ended. Completes the run, or aborts it in the middle of a call. A
   * paused run waits until it continues.
   */
  #done(key: string, text: string): void {
    const { status, run } = this.#ports.runs.state(key) ?? {};
    const at = this.#atWork.get(key);
    if (!run || at === undefined) return;
    at.finished = text;
    if (status === 'paused') return;
    const begin = status === 'starting' ? [firstStep(run)] : [];
    const reason = 'its agent ended in the middle of a call';
    const over: RunCommand = { type: 'ABORT', reason, by: null, while: 'running' };
    this.#send(key, ...begin, { type: 'COMPLETE', session: run.session, result: text }, over);
  }

  #lost(key: string, error: RunError): void {
    const { status, run } = this.#ports.runs.state(key) ?? {};
    const written = this.#drop(key);
    if (!run) return;
    this.#apply(key, { type: status === 'paused' ? 'LOST' : 'ERROR', session: run.session, error })
      .then(() => this.#tellLost(key, written))
      .catch(this.#ports.failed);
  }

  #tellLost(key: string, written: string): void {
    const lost = lostWords(written);
    const state = this.#ports.runs.state(key);
    if (lost !== null && state !== null) this.#ports.tell(seatOfRuns(key), lastNumber(state), lost);
  }

  #drop(key: string): string {
    const seat = seatOfRuns(key);
    const written = this.written(seat);
    const at = this.#atWork.get(key);
    this.#atWork.delete(key);
    at?.worker?.stop().catch(this.#ports.failed);
    return written;
  }

  #promptFor(key: string, { turn, grants }: Run): Pick<BackgroundTask, 'by' | 'prompt'> {
    const entries: { seq: number; at: Instant; fact: RunFact }[] = [];
    for (const entry of this.#ports.runs.newest(key)) {
      entries.unshift(entry);
      if (entry.fact.type === 'runStarted') break;
    }
    const start = entries[0]?.fact;
    if (start?.type !== 'runStarted') throw new Error(`impossible: ${key} has a run that never began`);
    const { prompt, requestedBy = 'somebody' } = start;
    const retried = retriesIn(entries);
    if (turn === 0) return { by: requestedBy, prompt: [prompt, ...retried].join('\n\n') };
    const calls = toolCallRows(entries).slice(-MOST_CALLS);
    const did = calls.map(({ tool, input, status, outcome, startedAt }) => {
      const knownResult = startedAt === null ? 'did not run' : status;
      const result = outcome === 'unknown' ? 'outcome unknown, check before you repeat it' : knownResult;
      return `- ${tool} ${excerpt(JSON.stringify(input), INPUT_LENGTH)}: ${result}`;
    });
    const before = did.length === 0 ? 'You had used no tools.' : `Your calls so far:\n${did.join('\n')}`;
    const decided = grants.map((grant) => `\n${grantWords(grant, entries)}`);
    const cut = `(You started this before and were interrupted. ${before}${decided.join('')}\nContinue from there.)`;
    return { by: requestedBy, prompt: [prompt, cut, ...retried].join('\n\n') };
  }

  async #meet(): Promise<void> {
    const now = this.#ports.clock.now();
    const { keys, next } = await this.#ports.runs.due(now);
    for (const key of keys.filter(isBackgroundKey)) await this.#apply(key, { type: 'TICK' });
    if (!this.#running) return;
    this.#loseSilent(now);
    this.#alarm.noLaterThan(next);
  }

  #arm(state: RunState | null): void {
    if (state !== null) this.#alarm.noLaterThan(runOnFloor.nextDeadline(state));
  }

  #send(key: string, ...commands: readonly RunCommand[]): void {
    this.#apply(key, ...commands).catch(this.#ports.failed);
  }

  #apply(key: string, ...commands: readonly RunCommand[]): ReturnType<RunStore['applyAll']> {
    return this.#ports.runs.applyAll(key, commands, this.#ports.clock.now());
  }
}

/** Returns the words that announce the loss of a run's unfinished report; `null` for an empty report. */
export function lostWords(written: string): string | null {
  const text = written.trim();
  if (text === '') return null;
  return `its unfinished report is lost (${counted(text.length, 'character')}): “${excerpt(text, LOST_LENGTH)}”`;
}

const LOST_LENGTH = 100;
const ENDS: ReadonlySet<RunFact['type']> = new Set(['aborted', 'runCompleted', 'errored']);
const MOST_CALLS = 30;
const INPUT_LENGTH = 200;

function grantWords(
  { tool, digest, choice, reason }: RunGrant,
  entries: readonly { readonly fact: RunFact }[],
): string {
  const requestFact = entries.find(
    ({ fact }) => fact.type === 'callRequested' && !isWaiting(fact.call) && fact.call.digest === digest,
  )?.fact;
  const title = requestFact?.type === 'callRequested' ? (requestFact.call.words?.title ?? tool) : tool;
  const why = reason === null ? {} : { reason };
  return decidedWords({ title, choice: choice === 'allow' ? 'allow' : 'reject', ...why });
}

/** Returns the words of people who retried the run after a failure. Words of decisions about calls are left out. */
function retriesIn(entries: readonly { readonly fact: RunFact }[]): readonly string[] {
  let hasFailed = false;
  return entries.flatMap(({ fact }) => {
    if (fact.type === 'errored') hasFailed = true;
    if (fact.type !== 'resumed' || !hasFailed) return [];
    hasFailed = false;
    if (fact.feedback === null) return [];
    return [retriedWords({ name: fact.told?.name ?? fact.by ?? 'somebody', words: fact.feedback })];
  });
}

function failed(message: string): RunError {
  return { code: 'AGENT_EXECUTION_ERROR', message, recoverable: true };
}

function isBackgroundKey(key: string): boolean {
  return seatOfRuns(key).isBackground === true;
}

function firstStep({ session }: Run): RunCommand {
  return { type: 'STEP', session, turn: 1, toolCalls: [] };
}
