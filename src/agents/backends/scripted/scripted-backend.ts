import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AgentId } from '../../../turns/floor/settings.ts';
import type { Line } from '../../../turns/view.ts';
import { sessionTools } from '../../mcp/session-tools.ts';
import type { ServerTools, SessionTools } from '../../mcp/session-tools.ts';
import { FloorTools } from '../../tools/floor-tools.ts';
import { BackendError } from '../backend.ts';
import type { AgentBackend, AgentSession, Ending, InjectOutcome, Report, SeatContext, TurnPrompt } from '../backend.ts';
import { reviewSteps } from './demo-reviews.ts';
import { DONE, demoSteps } from './demo-words.ts';
import type { Step } from './demo-words.ts';
import { isFor, readRequest, sceneOf } from './personas.ts';
import type { Persona, Scene, ScriptMemory } from './personas.ts';

/** How fast a scripted agent types and waits. */
export type TypingSpeed = {
  /** Resolves after `ms` milliseconds, scaled by the speed. Rejects at once when the signal is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** Pause before each word in milliseconds, which `sleep` scales. */
  readonly wordMs: number;
};

/** Returns a speed of one word every `wordMs` (default 75 ms). All other pauses scale in proportion. */
export function typingSpeed(wordMs = TYPIST_WORD_MS): TypingSpeed {
  return {
    sleep: async (ms, signal) => await sleep((ms * wordMs) / TYPIST_WORD_MS, undefined, { signal }),
    wordMs: TYPIST_WORD_MS,
  };
}

type Options = { readonly script: Persona; readonly speed?: TypingSpeed; readonly serverTools?: ServerTools };

/**
 * Runs agents without a model. Each agent answers by a script, and shows a state of the floor when a message is a demo
 * word.
 */
export function createScriptedBackend(options: Options): AgentBackend {
  return {
    kind: 'scripted',
    needsSignal: false,
    promisesToAsk: true,
    settable: ['steps', 'tools'],
    open: async (seat) => new ScriptedSession(seat, options),
  };
}

class ScriptedSession implements AgentSession {
  readonly #seat: SeatContext;
  readonly #script: Persona;
  readonly #speed: TypingSpeed;
  readonly #tools: SessionTools | null;
  #memory: ScriptMemory = { request: null, question: null };
  #generation: Generation | null = null;
  #open: readonly Step[] | null = null;
  #notes: readonly string[] = [];
  /**
   * The steps of the agent's turn as primary agent or reviewer of the floor's open task (a review or a ticket). `null`
   * for other turns.
   */
  #review: readonly Step[] | null = null;
  #observed: readonly Line[] = [];
  #roster: TurnPrompt['roster'] = [];
  #isAlive = true;

  constructor(seat: SeatContext, { script, speed = typingSpeed(), serverTools }: Options) {
    this.#seat = seat;
    this.#script = script;
    this.#speed = speed;
    this.#tools = serverTools?.pool.isUsed === true ? sessionTools(seat, serverTools, false) : null;
  }

  async prompt(turn: TurnPrompt, report: Report): Promise<Ending> {
    await this.ping();
    if (this.#generation) throw new Error(`impossible: ${this.#seat.agent} is prompted twice at a time`);
    this.#roster = turn.roster;
    const { role } = turn.task ?? {};
    // A prompt that only asks again for a verdict or for answers has no line "Task: ". The last steps are repeated.
    this.#review = role === 'primary' || role === 'reviewer' ? (reviewSteps(turn) ?? this.#review) : null;
    const scene = sceneOf(turn, this.#seat.agent, this.#memory);
    const steps = [...this.#recalled(), ...this.#plan(turn, scene)];
    this.#memory = { request: scene.request ?? this.#memory.request, question: null };
    const generation = new Generation(this.#speed, report, this.#tools, this.#notes);
    this.#generation = generation;
    try {
      const ending = await generation.perform(steps);
      if (ending.how === 'waiting') this.#memory = { ...this.#memory, question: scene.asked ?? this.#memory.request };
      const handTo = ending.how === 'completed' ? ending.handTo : undefined;
      const isHere = turn.roster.some(({ id, status }) => id === handTo && status !== 'OFFLINE');
      return handTo === undefined || isHere ? ending : { how: 'completed' };
    } catch (error) {
      if (error instanceof BackendError) this.#isAlive = false;
      throw error;
    } finally {
      this.#open = generation.open;
      this.#notes = generation.notes;
      this.#generation = null;
    }
  }

  async inject(message: Line, observed: boolean): Promise<InjectOutcome> {
    const generation = this.#generation;
    if (!generation?.isListening) return 'next-prompt';
    const request = readRequest(message, this.#roster);
    if (message.change === 'deleted' || !isFor(request, this.#seat.agent)) return 'injected';
    const steps = demoSteps(request.text);
    if (steps?.at(-1)?.do === 'crash') generation.stop('crash');
    else if (steps?.[0]?.do === 'hang') generation.hang();
    else if (!observed || message.change !== null || request.to.length > 0)
      generation.notes.push(this.#script.note(request));
    return 'injected';
  }

  async interrupt(): Promise<void> {
    this.#generation?.stop('interrupt');
    await this.#generation?.over.promise;
  }

  observe(message: Line): void {
    this.#observed = [...this.#observed, message].slice(-20);
  }

  async choose(candidates: readonly AgentId[], lines: readonly Line[]): Promise<AgentId | null> {
    const last = lines.at(-1)?.author;
    const after = last?.kind === 'agent' ? CHAIN[CHAIN.indexOf(last.id) + 1] : CHAIN[0];
    const wanted = [after, ...CHAIN, ...candidates].filter((id) => id !== undefined && candidates.includes(id));
    return wanted.find((id) => id !== last?.id) ?? candidates[0] ?? null;
  }

  async ping(): Promise<void> {
    if (!this.#isAlive) throw new BackendError(CRASH);
  }

  async close(): Promise<void> {
    this.#isAlive = false;
    await this.interrupt();
    await this.#tools?.servers.close();
  }

  #plan(turn: TurnPrompt, scene: Scene): readonly Step[] {
    const { asked, question } = scene;
    const isNew = turn.reason === 'grant' || question !== null;
    const word =
      asked &&
      (asked.text
        .split('\n')
        .map(demoSteps)
        .find((steps) => steps !== null) ??
        demoSteps(asked.text));
    if (word) return word;
    if (this.#review !== null) return this.#planReview(this.#review, turn, asked);
    if (question && demoSteps(question.text)) {
      const text = asked === null ? 'Nobody said; I go on without.' : `The answer is: ${asked.text} I go on with that.`;
      return [{ do: 'say', text }, DONE];
    }
    const isFirst = turn.reason === 'again' && turn.saidSoFar.length === 0;
    const isMine = !asked && scene.request !== null && isFor(scene.request, scene.me);
    if (isNew || (isFirst && !isMine)) return this.#script.reply(scene);
    const left = turn.reason === 'resume' || isFirst ? this.#remaining(turn, scene) : [DONE];
    if (!asked) return left;
    const first: Step = { do: 'say', text: this.#script.answer(asked) };
    const goesOn = !DROP.test(asked.text) && left.some((step) => step.do === 'say');
    return goesOn ? [first, { do: 'flush' }, ...left] : [first, DONE];
  }

  #planReview(review: readonly Step[], { reason, saidSoFar }: TurnPrompt, asked: Scene['asked']): readonly Step[] {
    const left = reason === 'grant' ? review : remainder(review, saidSoFar);
    return asked === null ? left : [{ do: 'say', text: this.#script.answer(asked) }, { do: 'flush' }, ...left];
  }

  #remaining(turn: TurnPrompt, { request, ...scene }: Scene): readonly Step[] {
    const again = () =>
      (request && demoSteps(request.text)) ?? this.#script.reply({ ...scene, request, asked: request });
    return remainder(this.#open ?? again(), turn.saidSoFar);
  }

  #recalled(): readonly Step[] {
    const requests = this.#observed.map((line) => readRequest(line, this.#roster));
    const last = requests.findLast(({ to }) => to.includes(this.#seat.agent));
    this.#observed = [];
    return last === undefined
      ? []
      : [{ do: 'say', text: `I saw what ${last.by} wrote: ${last.title}.` }, { do: 'flush' }];
  }
}

class Generation {
  readonly over = Promise.withResolvers<void>();
  /** Written texts and remaining steps, in order. `null` before the start, and after the step `end`. */
  open: readonly Step[] | null = null;
  isListening = true;
  /** Answers to injected messages, not yet posted. */
  readonly notes: string[];
  readonly #speed: TypingSpeed;
  readonly #report: Report;
  readonly #tools: SessionTools | null;
  readonly #abort = new AbortController();
  #isHanging = false;
  #posted: readonly Step[] = [];
  #streamed = '';
  #spent = 0;

  constructor(speed: TypingSpeed, report: Report, tools: SessionTools | null, notes: readonly string[]) {
    this.#speed = speed;
    this.#report = report;
    this.#tools = tools;
    this.notes = [...notes];
  }

  stop(why: 'interrupt' | 'crash'): void {
    this.#abort.abort(why);
  }

  hang(): void {
    this.#isHanging = true;
  }

  async perform(steps: readonly Step[]): Promise<Ending> {
    const beganAt = this.#report.now();
    try {
      this.open = steps;
      this.isListening = steps.some((step) => step.do !== 'end');
      await this.#sleep(THINKING_MS);
      for (const [index, step] of steps.entries()) {
        if (step.do === 'end') {
          this.open = null;
          this.#takeUpNotes();
          return step.ending;
        }
        await this.#step(step, steps.slice(index + 1));
      }
      return { how: 'completed' };
    } catch (error) {
      if (!this.#abort.signal.aborted) throw error;
      if (this.#abort.signal.reason === 'crash') throw new BackendError(CRASH, { cause: error });
      return { how: 'interrupted' };
    } finally {
      this.isListening = false;
      if (this.#spent > 0) this.#tellUsage(this.#report.now() - beganAt);
      this.over.resolve();
    }
  }

  #tellUsage(ms: number): void {
    const output = Math.ceil(this.#spent / 4);
    const free = { model: null, input: null, cached: null, source: 'computed' } as const;
    const outcome = this.#abort.signal.aborted ? 'stopped' : 'answered';
    this.#report.usage({ tokens: output, costMicros: 0, use: { backend: 'scripted', ...free, output, outcome, ms } });
  }

  async #step(step: Exclude<Step, { do: 'end' }>, rest: readonly Step[]): Promise<void> {
    this.open = [...this.#posted, step, ...rest];
    switch (step.do) {
      case 'say':
        return await this.#say(step, rest);
      case 'flush':
        this.#report.flush();
        this.#streamed = '';
        return;
      case 'work':
        this.#report.work(1);
        await this.#sleep(step.ms).finally(() => this.#report.work(0));
        return;
      case 'call':
        return await this.#call(step);
      case 'deafen':
        this.isListening = false;
        return;
      case 'crash':
        throw new BackendError(CRASH);
      case 'hang':
        this.#isHanging = true;
        return await this.#sleep(0);
    }
  }

  async #say(step: Extract<Step, { do: 'say' }>, rest: readonly Step[]): Promise<void> {
    const words = step.text.match(/\s*\S+/g) ?? [];
    for (const [index, word] of words.entries()) {
      await this.#sleep(step.wordMs ?? this.#speed.wordMs);
      const noted = interruptible(this.#streamed) && this.#takeUpNotes();
      this.#emit(noted ? `\n\n${word.trimStart()}` : word);
      this.open = [...this.#posted, { ...step, text: words.slice(index + 1).join('') }, ...rest];
    }
  }

  async #sleep(ms: number): Promise<void> {
    const { signal } = this.#abort;
    await this.#speed.sleep(ms, signal);
    signal.throwIfAborted();
    if (!this.#isHanging) return;
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('interrupted'))));
  }

  async #call({ tool: name, input }: Extract<Step, { do: 'call' }>): Promise<void> {
    const session = this.#tools;
    if (session === null) return this.#emit('I have no tools here.');
    const { Toolbox, unfenced } = await import('../../tools/toolbox.ts');
    const floorTools = new FloorTools(this.#report, session.seat.agent, { roster: [] });
    const { signal: stopped } = this.#abort;
    const toolbox = new Toolbox({ session, floorTools, report: this.#report, stopped });
    await toolbox.offer();
    const call = { id: '1', key: randomUUID(), name, input };
    if ((await toolbox.step('', [call])) === 'stop') return;
    const results = await toolbox.run([call]);
    stopped.throwIfAborted();
    this.#emit(`${name}: ${unfenced(results)}`);
  }

  #takeUpNotes(): boolean {
    const notes = this.notes.splice(0);
    for (const note of notes) this.#emit(this.#streamed === '' ? note : `\n\n${note}`);
    return notes.length > 0;
  }

  #emit(text: string): void {
    this.#streamed += text;
    this.#posted = [...this.#posted, { do: 'say', text }];
    this.#spent += text.length;
    this.#report.text(text);
  }
}

/**
 * Returns whether a note can follow the text: at the start, or after a sentence outside a code block. The number of a
 * list item, such as "1.", ends no sentence.
 */
function interruptible(streamed: string): boolean {
  const lastLine = streamed.slice(streamed.lastIndexOf('\n') + 1);
  return streamed === '' || (!isInFence(streamed) && /[.!?:]$/.test(streamed) && !/^\d+\.$/.test(lastLine));
}

/**
 * Returns the steps without the texts already in the channel (`said`), without `work` steps, and without `flush` steps
 * before the first remaining text. Returns all steps when `said` is empty. A partly posted code block is posted again
 * from its start.
 */
export function remainder(steps: readonly Step[], said: readonly string[]): readonly Step[] {
  if (said.length === 0) return steps;
  const whole = steps.map((step) => (step.do === 'say' ? step.text : '')).join('');
  const posted = said.reduce((end, text) => end + coveredLength(whole.slice(end), text), 0);
  let skip = isInFence(whole.slice(0, posted)) ? whole.lastIndexOf('```', posted) : posted;
  let isFirst = true;
  return steps.flatMap((step): readonly Step[] => {
    if (step.do !== 'say') return step.do === 'work' || (step.do === 'flush' && isFirst) ? [] : [step];
    const rest = step.text.slice(skip);
    const text = isFirst ? rest.trimStart() : rest;
    skip = Math.max(0, skip - step.text.length);
    if (text === '') return [];
    isFirst = false;
    return [{ ...step, text }];
  });
}

/**
 * Returns how many characters of `whole` the posted text covers from the start. A cut code block may end with a
 * closing fence added when it was posted.
 */
function coveredLength(whole: string, posted: string): number {
  const start = whole.length - whole.trimStart().length;
  const text = [posted.trim(), posted.trim().replace(/\n```$/, '')].find((each) => whole.startsWith(each, start));
  return text ? start + text.length : 0;
}

function isInFence(text: string): boolean {
  return (text.match(/^```/gm)?.length ?? 0) % 2 === 1;
}

const CRASH = 'exited with code 137';
const TYPIST_WORD_MS = 75;
const THINKING_MS = 700;
const CHAIN: readonly AgentId[] = ['pm', 'dev', 'qa'];
const DROP = /^(?:stop|cancel|never mind|forget it|drop it|enough)\b/i;
