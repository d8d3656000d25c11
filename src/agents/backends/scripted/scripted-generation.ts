import { BackendError } from '../backend.ts';
import { randomUUID } from 'node:crypto';
import { FloorTools } from '../../tools/floor-tools.ts';
import type { SessionTools } from '../../mcp/session-tools.ts';
import type { Ending, Report } from '../backend.ts';
import type { Step } from './scene.ts';
import type { TypingSpeed } from './typing-speed.ts';
import { interruptible } from './scripted-text.ts';

/** What a scripted session dies of when it is told to crash. */
export const CRASH = 'exited with code 137';

/** What an interrupt left open: the text that was streaming, as far as it came, and all that was to follow. */
export type Open = { readonly streamed: string; readonly steps: readonly Step[] };

/** Messages that the former generation had no time to take up, and the tools of servers; `null`: there are none. */
type Brought = { readonly notes: readonly string[]; readonly tools: SessionTools | null };

/** One generation of a scripted agent: performs steps until an end, an interrupt or a crash. */
export class ScriptedGeneration {
  readonly over: Promise<void>;
  /** Set when it was interrupted with something left to say. */
  open: Open | null = null;
  #listening = true;
  readonly #speed: TypingSpeed;
  readonly #report: Report;
  readonly #tools: SessionTools | null;
  readonly #abort = new AbortController();
  #hang = false;
  readonly #notes: string[];
  #streamed = '';
  #spent = 0;
  readonly #finish: () => void;

  constructor(speed: TypingSpeed, report: Report, { notes, tools }: Brought) {
    this.#speed = speed;
    this.#notes = [...notes];
    this.#report = report;
    this.#tools = tools;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.over = promise;
    this.#finish = resolve;
  }

  /** Whether a message handed in now is still taken up. */
  get listening(): boolean {
    return this.#listening;
  }

  /** What it was told and has not taken up. */
  get notes(): readonly string[] {
    return this.#notes;
  }

  note(text: string): void {
    this.#notes.push(text);
  }

  stop(why: 'interrupt' | 'crash' | 'hang'): void {
    if (why === 'hang') this.#hang = true;
    else this.#abort.abort(why);
  }

  async perform(steps: readonly Step[]): Promise<Ending> {
    const beganAt = this.#report.now();
    try {
      this.open = { streamed: '', steps };
      this.#listening = steps.some(({ do: what }) => what !== 'end');
      await this.#speed.sleep(THINKING_MS, this.#abort.signal);
      for (const [index, step] of steps.entries()) {
        const ending = await this.#step(step, steps.slice(index + 1));
        if (ending) return ending;
      }
      return { how: 'completed' };
    } catch (error) {
      if (!this.#abort.signal.aborted) throw error;
      if (this.#abort.signal.reason === 'crash') throw new BackendError(CRASH, { cause: error });
      return { how: 'interrupted' };
    } finally {
      this.#listening = false;
      if (this.#spent > 0) this.#tell(this.#report.now() - beganAt);
      this.#finish();
    }
  }

  /** As if a model that is free had said it. */
  #tell(ms: number): void {
    const output = Math.ceil(this.#spent / 4);
    const free = { model: null, input: null, cached: null, source: 'computed' } as const;
    const outcome = this.#abort.signal.aborted ? 'stopped' : 'answered';
    this.#report.usage({ tokens: output, costMicros: 0, use: { backend: 'scripted', ...free, output, outcome, ms } });
  }

  async #step(step: Step, rest: readonly Step[]): Promise<Ending | null> {
    this.open = { streamed: this.#streamed, steps: [step, ...rest] };
    switch (step.do) {
      case 'say':
        await this.#say(step, rest);
        return null;
      case 'flush':
        this.#flush();
        return null;
      case 'work':
        await this.#work(step.ms);
        return null;
      case 'call':
        await this.#call(step);
        return null;
      case 'deafen':
        this.#listening = false;
        return null;
      case 'crash':
        throw new BackendError(CRASH);
      case 'hang':
        return await forever(this.#abort.signal);
      case 'end':
        this.open = null;
        this.#takeUp();
        return step.ending;
    }
  }

  async #say(step: Extract<Step, { do: 'say' }>, rest: readonly Step[]): Promise<void> {
    const words = step.text.match(/\s*\S+/g) ?? [];
    for (const [index, word] of words.entries()) {
      this.open = { streamed: this.#streamed, steps: [{ ...step, text: words.slice(index).join('') }, ...rest] };
      await this.#speed.sleep(step.wordMs ?? this.#speed.wordMs, this.#abort.signal);
      this.#abort.signal.throwIfAborted();
      if (this.#hang) await forever(this.#abort.signal);
      const noted = interruptible(this.#streamed) && this.#takeUp();
      this.#emit(noted ? `\n\n${word.trimStart()}` : word);
    }
  }

  async #work(ms: number): Promise<void> {
    this.#report.work(1);
    try {
      await this.#speed.sleep(ms, this.#abort.signal);
    } finally {
      this.#report.work(0);
    }
    if (this.#hang) await forever(this.#abort.signal);
  }

  /** Through the same gate as a model's calls. */
  async #call({ tool: name, input }: Extract<Step, { do: 'call' }>): Promise<void> {
    const session = this.#tools;
    if (session === null) return this.#emit('I have no tools here.');
    const { Toolbox, unfenced } = await import('../../tools/toolbox.ts');
    const floorTools = new FloorTools(this.#report, session.seat.agent, []);
    const { signal: stopped } = this.#abort;
    const toolbox = new Toolbox({ session, floorTools, report: this.#report, stopped });
    await toolbox.offer();
    const call = { id: '1', key: randomUUID(), name, input };
    if ((await toolbox.step('', [call])) === 'stop') return;
    const results = await toolbox.run([call]);
    stopped.throwIfAborted();
    this.#emit(`${name}: ${unfenced(results)}`);
  }

  #takeUp(): boolean {
    const notes = this.#notes.splice(0);
    for (const note of notes) this.#emit(this.#streamed === '' ? note : `\n\n${note}`);
    return notes.length > 0;
  }

  #flush(): void {
    this.#report.flush();
    this.#streamed = '';
  }

  #emit(chunk: string): void {
    this.#streamed += chunk;
    this.#spent += chunk.length;
    this.#report.text(chunk);
  }
}

async function forever(signal: AbortSignal): Promise<never> {
  signal.throwIfAborted();
  return await new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error('interrupted')), { once: true });
  });
}

const THINKING_MS = 700;
