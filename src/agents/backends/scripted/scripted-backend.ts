import type { AgentId } from '../../../turns/floor/settings.ts';
import type { Line } from '../../../turns/view.ts';
import { BackendError } from '../backend.ts';
import type { AgentBackend, AgentSession, Ending, InjectOutcome, Report, SeatContext, TurnPrompt } from '../backend.ts';
import { dev } from './dev.ts';
import { pm } from './pm.ts';
import { qa } from './qa.ts';
import { sceneOf, readWords } from './scene.ts';
import type { ScriptMemory, Persona, Scene, Step, Words } from './scene.ts';
import { perform, scenarioIn } from './scenarios.ts';
import { sessionTools } from '../../mcp/session-tools.ts';
import type { ServerTools, SessionTools } from '../../mcp/session-tools.ts';
import { TYPING } from './typing-speed.ts';
import type { TypingSpeed } from './typing-speed.ts';
import { CRASH, ScriptedGeneration } from './scripted-generation.ts';
import type { Open } from './scripted-generation.ts';
import { remainder } from './scripted-text.ts';

/** The scripts that come with Conch, by the name that a configuration gives them. */
export const SCRIPTS = { pm, dev, qa } as const satisfies Record<string, Persona>;
export type ScriptName = keyof typeof SCRIPTS;

/** Agents without a model: they answer what is said by a script, and show every state of the floor when told to. */
export function createScriptedBackend(options: {
  readonly script: Persona;
  readonly speed?: TypingSpeed;
  /** The demo's server of tools is among them, or it has none. */
  readonly serverTools?: ServerTools;
}): AgentBackend {
  return {
    kind: 'scripted',
    needsSignal: false,
    promisesToAsk: true,
    settable: ['steps', 'tools'],
    async open(seat) {
      const { serverTools, script, speed = TYPING } = options;
      const tools = serverTools?.pool.isUsed === true ? sessionTools(seat, serverTools, false) : null;
      return new ScriptedSession(seat, script, { speed, tools });
    },
  };
}

type Pace = { readonly speed: TypingSpeed; readonly tools: SessionTools | null };

class ScriptedSession implements AgentSession {
  readonly #seat: SeatContext;
  readonly #script: Persona;
  readonly #speed: TypingSpeed;
  readonly #tools: SessionTools | null;
  #memory: ScriptMemory = { request: null, openQuestion: null };
  #run: ScriptedGeneration | null = null;
  #open: Open | null = null;
  #notes: readonly string[] = [];
  #observed: readonly Line[] = [];
  #roster: TurnPrompt['roster'] = [];
  #alive = true;

  constructor(seat: SeatContext, script: Persona, { speed, tools }: Pace) {
    this.#seat = seat;
    this.#script = script;
    this.#speed = speed;
    this.#tools = tools;
  }

  async prompt(turn: TurnPrompt, report: Report): Promise<Ending> {
    await this.ping();
    if (this.#run) throw new Error(`impossible: ${this.#seat.agent} is prompted twice at a time`);
    this.#roster = turn.roster;
    const scene = sceneOf(turn, this.#seat.agent, this.#memory);
    const steps = [...this.#recalled(), ...this.#plan(turn, scene)];
    this.#open = null;
    this.#memory = { request: scene.request ?? this.#memory.request, openQuestion: null };
    const run = new ScriptedGeneration(this.#speed, report, { notes: this.#notes, tools: this.#tools });
    this.#notes = [];
    this.#run = run;
    try {
      const ending = await run.perform(steps);
      if (ending.how === 'waiting') this.#memory = { ...this.#memory, openQuestion: questionOf(scene, this.#memory) };
      return ending;
    } catch (error) {
      if (error instanceof BackendError) this.#alive = false;
      throw error;
    } finally {
      this.#open = run.open;
      this.#notes = run.notes;
      this.#run = null;
    }
  }

  async inject(message: Line, observed: boolean): Promise<InjectOutcome> {
    const words = readWords(message, this.#roster);
    const run = this.#run;
    if (!run?.listening) return 'next-prompt';
    if (message.change === 'deleted') return 'injected';
    const scenario = scenarioIn(words.text)?.word;
    const forMe = words.to.length === 0 || words.to.includes(this.#seat.agent);
    if (forMe && scenario === 'crash') run.stop('crash');
    else if (forMe && scenario === 'hang') run.stop('hang');
    else if (forMe && !(observed && message.change === null && words.to.length === 0))
      run.note(this.#script.note(words));
    return 'injected';
  }

  async interrupt(): Promise<void> {
    this.#run?.stop('interrupt');
    await this.#run?.over;
  }

  observe(message: Line): void {
    this.#observed = [...this.#observed, message].slice(-OBSERVED);
  }

  async choose(candidates: readonly AgentId[], lines: readonly Line[]): Promise<AgentId | null> {
    const last = lines.at(-1)?.author;
    const after = last?.kind === 'agent' ? CHAIN[CHAIN.indexOf(last.id) + 1] : CHAIN[0];
    const sensible = [after, ...CHAIN].find((id) => id !== undefined && id !== last?.id && candidates.includes(id));
    return sensible ?? candidates.find((id) => id !== last?.id) ?? candidates[0] ?? null;
  }

  async ping(): Promise<void> {
    if (!this.#alive) throw new BackendError(CRASH);
  }

  async close(): Promise<void> {
    this.#alive = false;
    await this.interrupt();
    await this.#tools?.servers.close();
  }

  #plan(turn: TurnPrompt, scene: Scene): readonly Step[] {
    if (turn.reason === 'grant') return this.#reply(turn, scene);
    if (turn.reason === 'again' && turn.saidSoFar.length === 0) return this.#reply(turn, scene);
    if (this.#memory.openQuestion) return this.#reply(turn, scene);
    const left = turn.reason === 'resume' ? this.#left(turn, scene) : COMPLETED;
    if (!scene.asked) return left;
    const scenario = scenarioIn(scene.asked.text);
    if (scenario) return perform(scenario, scene);
    const first: Step = { do: 'say', text: this.#script.answer(scene.asked) };
    if (DROP.test(scene.asked.text)) return [first, ...COMPLETED];
    return left.some((step) => step.do === 'say') ? [first, { do: 'flush' }, ...left] : [first, ...COMPLETED];
  }

  #reply(turn: TurnPrompt, scene: Scene): readonly Step[] {
    // What it asked back about is not asked of it anew.
    const { openQuestion } = this.#memory;
    const fresh = turn.messages.filter(({ message }) => openQuestion === null || !isOpen(turn, message));
    const words = fresh.map((line) => readWords(line, turn.roster));
    const mine = words.filter(({ to }) => to.length === 0 || to.includes(this.#seat.agent));
    const scenario = mine.map(({ text }) => scenarioIn(text)).find((found) => found !== null);
    if (scenario) return perform(scenario, scene);
    const isDemo = openQuestion !== null && scenarioIn(openQuestion.text) !== null;
    return isDemo ? answered(scene) : this.#script.reply(scene);
  }

  /** What is left of the turn: after an interrupt from memory, after a restart by writing the reply again. */
  #left(turn: TurnPrompt, scene: Scene): readonly Step[] {
    if (this.#open) return remainder(this.#open.steps, this.#open.streamed, turn.saidSoFar);
    const request = scene.request ?? this.#memory.request;
    const scenario = request && scenarioIn(request.text);
    const before: Scene = { ...scene, asked: scene.asked ?? request, reason: 'grant' };
    const again = scenario ? perform(scenario, before) : this.#script.reply(before);
    return turn.saidSoFar.length === 0 ? again : remainder(again, '', turn.saidSoFar);
  }

  #recalled(): readonly Step[] {
    const words = this.#observed.map((line) => readWords(line, this.#roster));
    const seen = words.filter(({ to }) => to.includes(this.#seat.agent));
    this.#observed = [];
    const last = seen.at(-1);
    return last === undefined
      ? []
      : [{ do: 'say', text: `I saw what ${last.by} wrote: ${last.topic.title}.` }, { do: 'flush' }];
  }
}

function isOpen({ open }: TurnPrompt, message: Line['message']): boolean {
  return message !== null && open.includes(message);
}

/** Goes on with the answer to the question that the demo word had it ask. */
function answered({ asked }: Scene): readonly Step[] {
  const text = asked === null ? 'Nobody said; I go on without.' : `Then I call it: ${asked.text} I go on with that.`;
  return [{ do: 'say', text }, ...COMPLETED];
}

function questionOf(scene: Scene, memory: ScriptMemory): Words | null {
  const scenario = scene.asked && scenarioIn(scene.asked.text);
  return scenario ? memory.request : (scene.asked ?? memory.request);
}

const CHAIN: readonly AgentId[] = ['pm', 'dev', 'qa'];
const COMPLETED: readonly Step[] = [{ do: 'end', ending: { how: 'completed' } }];
const DROP = /^(?:stop|cancel|never mind|forget it|drop it|enough)\b/i;
const OBSERVED = 20;
