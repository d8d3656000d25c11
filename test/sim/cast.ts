import { BackendError } from '../../src/agents/backends/backend.ts';
import type {
  AgentBackend,
  AgentSession,
  Ending,
  InjectOutcome,
  Report,
  SeatContext,
  TurnPrompt,
  Usage,
} from '../../src/agents/backends/backend.ts';
import type { GateVerdict, GatedCall } from '../../src/agents/tools/tool-gate.ts';
import type { AgentConfig } from '../../src/config/config.ts';
import type { Line } from '../../src/turns/view.ts';
import { Answers } from './answers.ts';
import type { Random } from './random.ts';
import type { Situations } from './situations.ts';
import type { Life, Timeline } from './timeline.ts';
import { Violation } from './violation.ts';

/** The ports of the agents. */
export type CastPorts = {
  readonly timeline: Timeline;
  readonly random: Random;
  readonly situations: Situations;
  readonly fail: (error: unknown) => void;
};

/** The behaviour of agents, from 0 (good) to 1 (bad). */
export type Temper = { trouble: number };

const SIGNAL = 'TURN_COMPLETE';
/** The number of hung turns in a row that stops an agent. */
const MOST_HANGS = 5;
/** The backoff after the first error in a row. */
const LEAST_BACKOFF_MS = 2_000;
/** The time in which a hung session must end. */
const ENDED_MS = 200;
/** The longest backoff before the fifth error, plus the longest close and open of a session. */
const REOPENED_MS = 16_000 + 5_000 + 60_000;
const NEVER = new Promise<never>(() => {});
const PLANS = {
  answer: 30,
  several: 14,
  stream: 12,
  pass: 10,
  handOver: 12,
  ask: 12,
  permission: 12,
  tool: 8,
  long: 3,
} as const;
const TROUBLES = { hang: 5, trail: 5, crash: 7, terminal: 0.3, stuckTool: 1, endless: 1, unsignalled: 4 } as const;

type Plan = keyof typeof PLANS | keyof typeof TROUBLES;

/** The last hung turn of an agent, and hung turns in a row. `jumpedMs`: jumps of the time until then. */
type Hang = {
  readonly at: number;
  readonly jumpedMs: number;
  readonly inRow: number;
  readonly isPrompted: boolean;
};

/** All agents of the simulation, with everything that they were given. */
export class Cast {
  readonly temper: Temper = { trouble: 1 };
  readonly answers = new Answers();
  /** `channel epoch` of each prompt that a session received. */
  readonly prompted = new Set<string>();
  /** `channel epoch` of each prompt after which the session gave a sign of life. */
  readonly heard = new Set<string>();
  /** People's messages that at least one agent was given, in any way. */
  readonly seen = new Set<string>();
  /** Messages by the agent that was given them: `message agent`. */
  readonly seenBy = new Set<string>();
  /** The lines that each agent was prompted with: `channel agent`. */
  readonly lines = new Map<string, Set<number>>();
  /** The first line of a new session's first prompt. The session need not know older lines. */
  readonly beginnings = new Map<string, number>();
  /** By agent: the time until which its sessions cannot be opened. */
  readonly goneUntil = new Map<string, number>();
  /** The time until which prompted agents give no sign of work. */
  hangUntil = 0;
  /** Sessions that are open in the running program. */
  sessions: SimSession[] = [];
  said = 0;
  asked = 0;
  /** Requests that operators allowed, as they saw them. Each text is used once. */
  readonly allowed = new Set<string>();
  /** By `channel agent`: the last hung turn, and hung turns in a row without a sign of life. */
  readonly #hangs = new Map<string, Hang>();
  readonly #ports: CastPorts;

  constructor(ports: CastPorts) {
    this.#ports = ports;
  }

  backendFor(agent: AgentConfig, life: Life): AgentBackend {
    return {
      kind: agent.backend.kind,
      needsSignal: agent.id === 'qa' || agent.id === 'ops',
      promisesToAsk: true,
      open: (seat) => this.#open(seat, life, agent.id === 'qa' || agent.id === 'ops'),
    };
  }

  /** Drops all sessions: they end with their program. */
  cutOff(): void {
    this.sessions = [];
    this.#hangs.clear();
  }

  /** True when an agent hung so recently that its session may still be opening. */
  isHung(channel: string, agent: string): boolean {
    const hung = this.#hangs.get(`${channel} ${agent}`);
    const { now, jumpedMs } = this.#ports.timeline;
    // A session that is being opened still waits after a jump of the time.
    return hung !== undefined && now - jumpedMs - (hung.at - hung.jumpedMs) <= REOPENED_MS;
  }

  /**
   * I26: called for each turn that ended. A hung agent's session is closed at once and its agent cools down. Five hung
   * turns in a row stop the agent.
   */
  turnEnded(
    channel: string,
    { agent, epoch, hung }: { readonly agent: string; readonly epoch: number; readonly hung?: true },
  ): void {
    if (hung !== true) return;
    const key = `${channel} ${agent}`;
    const { inRow = 0 } = this.#hangs.get(key) ?? {};
    const isPrompted = this.prompted.has(`${channel} ${epoch}`);
    const isHeard = this.heard.has(`${channel} ${epoch}`);
    const { now, jumpedMs } = this.#ports.timeline;
    this.#hangs.set(key, { at: now, jumpedMs, isPrompted, inRow: isHeard ? 1 : inRow + (isPrompted ? 1 : 0) });
    this.#ports.situations.reach('a hung agent cools down');
    const session = this.sessions.find((each) => each.channel === channel && each.epoch === epoch);
    if (session === undefined) return;
    const isOver = (): void => {
      if (!session.isClosed) this.#ports.fail(new Violation('I26', `the session of ${agent} hung and is not ended`));
    };
    this.#ports.timeline.after(ENDED_MS, 'a hung session is over', session.life, isOver);
  }

  /** Records a sign of life: the count of hung turns in a row begins again. */
  isWell(channel: string, agent: string): void {
    const hung = this.#hangs.get(`${channel} ${agent}`);
    if (hung !== undefined) this.#hangs.set(`${channel} ${agent}`, { ...hung, inRow: 0 });
  }

  /** An operator or the configuration restarts agents: counts begin again. A session may still be opening. */
  startAfresh(): void {
    for (const [key, hung] of this.#hangs) this.#hangs.set(key, { ...hung, inRow: 0, isPrompted: false });
  }

  #checkOpening({ channel, agent }: SeatContext): void {
    const hung = this.#hangs.get(`${channel} ${agent}`);
    if (hung?.isPrompted !== true) return;
    const { at, inRow } = hung;
    const { timeline, fail } = this.#ports;
    if (inRow >= MOST_HANGS) fail(new Violation('I26', `${agent} hung ${inRow} turns in a row and is not stopped`));
    if (timeline.now - at < LEAST_BACKOFF_MS) fail(new Violation('I26', `${agent} hung and does not cool down`));
  }

  isTroubled(probability: number): boolean {
    return this.#ports.random.chance(probability * this.temper.trouble);
  }

  plan(): Plan {
    const { random } = this.#ports;
    return this.isTroubled(0.25) ? random.weighted(TROUBLES) : random.weighted(PLANS);
  }

  async #open(seat: SeatContext, life: Life, signals: boolean): Promise<AgentSession> {
    if (!life.alive) return NEVER;
    this.#checkOpening(seat);
    const { random, timeline } = this.#ports;
    const { promise, resolve } = Promise.withResolvers<void>();
    timeline.after(random.chance(0.1) ? random.between(500, 9_000) : random.between(0, 50), 'open', life, resolve);
    await promise;
    const goneUntil = this.goneUntil.get(seat.agent) ?? 0;
    if (timeline.now < goneUntil || this.isTroubled(0.06)) {
      throw new BackendError('cannot be reached', { terminal: this.isTroubled(0.02) });
    }
    const session = new SimSession({ seat, life, signals, cast: this, ...this.#ports });
    this.sessions.push(session);
    return session;
  }
}

type SessionPorts = CastPorts & {
  readonly seat: SeatContext;
  readonly life: Life;
  readonly signals: boolean;
  readonly cast: Cast;
};

type Generation = {
  readonly report: Report;
  readonly turn: TurnPrompt;
  readonly end: PromiseWithResolvers<Ending>;
  open: boolean;
};

/** A session of an agent that acts by the seed. */
export class SimSession implements AgentSession {
  readonly agent: string;
  readonly channel: string;
  isClosed = false;
  isDeaf = false;
  /** The agent is gone. The next heartbeat notices it. */
  isGone = false;
  readonly #ports: SessionPorts;
  #generation: Generation | null = null;
  #isNew = true;

  constructor(ports: SessionPorts) {
    this.#ports = ports;
    this.agent = ports.seat.agent;
    this.channel = ports.seat.channel;
  }

  get generating(): boolean {
    return this.#generation !== null;
  }

  get epoch(): number | null {
    return this.#generation?.turn.epoch ?? null;
  }

  prompt(turn: TurnPrompt, report: Report): Promise<Ending> {
    const { cast, fail, life } = this.#ports;
    if (!life.alive) return NEVER;
    if (this.#generation !== null) fail(new Violation('I1', `${this.agent} was prompted while it generates`));
    if (this.isClosed) fail(new Violation('I21', `${this.agent} was prompted after its session was closed`));
    if (turn.epoch < 1) fail(new Violation('I2', `${this.agent} was prompted with epoch ${turn.epoch}`));
    cast.prompted.add(`${this.channel} ${turn.epoch}`);
    this.#check(() => cast.answers.prompted(this.agent, turn));
    this.#see([...turn.lines, ...turn.messages]);
    this.#checkLines(turn.lines);
    const key = `${this.channel} ${this.agent}`;
    const lines = cast.lines.get(key) ?? new Set();
    for (const { line } of turn.lines) lines.add(line);
    cast.lines.set(key, lines);
    if (this.#isNew) cast.beginnings.set(key, turn.lines[0]?.line ?? 0);
    this.#isNew = false;
    const end = Promise.withResolvers<Ending>();
    const generation: Generation = { report: this.#heardBy(report, turn.epoch), turn, end, open: true };
    this.#generation = generation;
    if (this.#ports.timeline.now >= cast.hangUntil) this.#act(generation, cast.plan());
    return end.promise;
  }

  get life(): Life {
    return this.#ports.life;
  }

  #heardBy(report: Report, epoch: number): Report {
    const heard = (): void => {
      this.#ports.cast.isWell(this.channel, this.agent);
      this.#ports.cast.heard.add(`${this.channel} ${epoch}`);
    };
    return {
      ...report,
      text: (chunk) => (heard(), report.text(chunk)),
      work: (...sign) => (heard(), report.work(...sign)),
    };
  }

  /** Makes the agent work again. */
  recover(): void {
    this.isDeaf = false;
    this.isGone = false;
  }

  /** Completes the running generation now. */
  complete(): void {
    if (this.#generation !== null) this.#end(this.#generation, { how: 'completed' });
  }

  crash(): void {
    if (this.#generation !== null) this.#break(this.#generation, new BackendError('exited with code 137'));
  }

  async inject(message: Line, observed: boolean): Promise<InjectOutcome> {
    const { cast, random, timeline, life } = this.#ports;
    const { channel, agent, epoch } = this;
    if (!life.alive) return NEVER;
    const outcome = random.weighted({
      injected: 60,
      'next-prompt': 20,
      refused: 8,
      throws: 4 * cast.temper.trouble,
      never: 2 * cast.temper.trouble,
    });
    if (outcome === 'never') return NEVER;
    const isTaken = outcome === 'injected' && !observed;
    if (isTaken && message.message !== null && epoch !== null)
      cast.answers.injected({ channel, agent, epoch }, message.message);
    const { promise, resolve } = Promise.withResolvers<void>();
    timeline.after(random.between(0, 300), 'inject', life, resolve);
    await promise;
    if (outcome === 'throws') throw new BackendError('did not take it');
    if (outcome === 'injected' || observed) this.#see([message]);
    return outcome;
  }

  async interrupt(graceMs: number): Promise<void> {
    const { cast, random, timeline, life } = this.#ports;
    const generation = this.#generation;
    if (!life.alive || generation === null) return;
    const way = random.weighted({ soon: 60, late: 20, deaf: 12 * cast.temper.trouble, finishes: 6 });
    if (way === 'deaf') return NEVER;
    const ms = way === 'late' ? graceMs : Math.min(graceMs, random.between(0, 800));
    const { promise, resolve } = Promise.withResolvers<void>();
    timeline.after(ms, 'interrupted', life, () => {
      if (cast.isTroubled(0.2)) generation.report.text('and another thing: ');
      this.#end(generation, way === 'finishes' ? { how: 'completed' } : { how: 'interrupted' });
      if (cast.isTroubled(0.2)) this.#speak(generation);
      resolve();
    });
    return promise;
  }

  observe(message: Line): void {
    this.#see([message]);
  }

  async choose(candidates: readonly string[]): Promise<string | null> {
    const { cast, random, timeline, life } = this.#ports;
    if (!life.alive) return NEVER;
    const { promise, resolve } = Promise.withResolvers<void>();
    timeline.after(random.between(0, 4_000), 'choose', life, resolve);
    await promise;
    const way = random.weighted({
      names: 60,
      nobody: 8,
      stranger: 12,
      never: 12 * cast.temper.trouble,
      throws: 4 * cast.temper.trouble,
    });
    if (way === 'never') return NEVER;
    if (way === 'throws') throw new BackendError('has no opinion');
    if (way === 'nobody') return null;
    return way === 'stranger' ? 'nobody-at-all' : random.pick(candidates);
  }

  async ping(): Promise<void> {
    if (this.isDeaf || !this.#ports.life.alive) return NEVER;
    if (this.isGone || this.#ports.cast.isTroubled(0.004)) throw new BackendError('connection is gone');
  }

  async close(): Promise<void> {
    const { cast } = this.#ports;
    this.isClosed = true;
    cast.sessions = cast.sessions.filter((session) => session !== this);
    const generation = this.#generation;
    if (generation === null) return;
    if (cast.isTroubled(0.5)) this.#speak(generation);
    this.#end(generation, { how: 'interrupted' });
    if (cast.isTroubled(0.05)) throw new BackendError('does not close');
  }

  #see(lines: readonly Line[]): void {
    for (const { message } of lines) {
      if (message === null) continue;
      this.#ports.cast.seen.add(message);
      this.#ports.cast.seenBy.add(`${message} ${this.agent}`);
    }
  }

  #checkLines(lines: readonly Line[]): void {
    const numbers = lines.map(({ line }) => line);
    const isRising = numbers.every((line, index) => index === 0 || line > (numbers[index - 1] ?? 0));
    if (!isRising) this.#ports.fail(new Violation('I9', `${this.agent} was given the lines ${numbers.join(', ')}`));
  }

  #check(rule: () => void): void {
    try {
      rule();
    } catch (error) {
      this.#ports.fail(error);
    }
  }

  #act(generation: Generation, plan: Plan): void {
    const { random } = this.#ports;
    const pace = random.pick([40, 300, 1_500, 6_000]);
    let at = 0;
    const step = (run: () => void, ms: number = random.between(1, pace)): void => {
      at += ms;
      this.#later(at, generation, run);
    };
    const speak = (): void => step(() => this.#speak(generation));
    const finish = (ending: Ending): void => step(() => this.#finish(generation, ending));
    if (random.chance(0.4)) step(() => generation.report.work(0));
    if (random.chance(0.5)) step(() => generation.report.usage(usageOf(random)));
    switch (plan) {
      case 'answer':
        speak();
        return finish({ how: 'completed' });
      case 'several':
        for (let part = random.between(2, 4); part > 0; part -= 1) {
          speak();
          step(() => generation.report.flush());
        }
        return finish({ how: 'completed' });
      case 'stream':
      case 'long':
        for (let chunk = plan === 'long' ? 40 : random.between(3, 9); chunk > 0; chunk -= 1) {
          step(
            () => generation.report.text(` word${chunk}`),
            plan === 'long' ? random.between(1_000, 40_000) : undefined,
          );
        }
        return finish({ how: 'completed' });
      case 'pass':
        return finish({ how: 'passed' });
      case 'handOver':
        speak();
        return finish({ how: 'completed', handTo: random.pick(generation.turn.roster.map(({ id }) => id)) });
      case 'ask':
        speak();
        return finish({ how: 'waiting', reason: 'answer' });
      case 'permission':
        return step(() => this.#ask(generation));
      case 'tool':
        step(() => generation.report.work(1));
        if (random.chance(0.3)) step(() => generation.report.work(2), random.between(1_000, 200_000));
        step(() => generation.report.work(0), random.between(100, 90_000));
        speak();
        return finish({ how: 'completed' });
      case 'stuckTool':
        return step(() => generation.report.work(1));
      case 'endless':
        for (let beat = 0; beat < 200; beat += 1)
          step(() => generation.report.text(' and'), random.between(5_000, 20_000));
        return;
      case 'hang':
        return;
      case 'trail':
        return speak();
      case 'unsignalled':
        speak();
        return step(() => this.#end(generation, { how: 'completed' }));
      case 'crash':
      case 'terminal':
        if (random.chance(0.5)) speak();
        return step(() =>
          this.#break(generation, new BackendError('exited with code 1', { terminal: plan === 'terminal' })),
        );
    }
  }

  /** Asks for an approval, and perhaps withdraws it and asks again, or ends without waiting for the answer. */
  #ask(generation: Generation): void {
    const { cast, random, fail, situations, life } = this.#ports;
    cast.asked += 1;
    const title = `run command ${cast.asked}`;
    const withdrawn = new AbortController();
    const { gate } = generation.report;
    const call = commandCall(title, random.chance(0.5));
    const answered = (verdict: GateVerdict): void => {
      if (!life.alive) return;
      const code = verdict.verdict === 'go' ? 'allowed' : verdict.code;
      if (code === 'allowed' && !cast.allowed.has(title))
        fail(new Violation('I18', `nobody allowed ${this.agent} to ${title}`));
      if (code === 'allowed') situations.reach('a question is allowed');
      if (!generation.open) return;
      if (code === 'CANCELLED' && random.chance(0.7)) return this.#ask(generation);
      generation.report.text(`I was told: ${code} (${title}).`);
      const finish = (): void =>
        this.#later(random.between(1, 2_000), generation, () => this.#finish(generation, { how: 'completed' }));
      if (code !== 'allowed' || cast.isTroubled(0.1)) return finish();
      const result = { status: 'complete', output: title, code: null, durationMs: null } as const;
      this.#later(random.between(1, 5_000), generation, () => void gate.settled(call, result).then(finish, fail));
    };
    gate.ask(call, withdrawn.signal).then(answered, fail);
    if (random.chance(0.4)) {
      this.#later(random.between(1, 20_000), generation, () => {
        situations.reach('an agent takes a question back');
        withdrawn.abort();
      });
    } else if (random.chance(0.1)) {
      this.#later(random.between(1, 5_000), generation, () => this.#end(generation, { how: 'completed' }));
    }
  }

  #later(ms: number, generation: Generation, run: () => void): void {
    this.#ports.timeline.after(ms, `${this.agent} acts`, this.#ports.life, () => {
      if (generation.open || this.#ports.cast.isTroubled(0.05)) run();
    });
  }

  #speak(generation: Generation): void {
    const { cast, random } = this.#ports;
    cast.said += 1;
    const other = random.pick(generation.turn.roster.map(({ id }) => id));
    const text = random.weighted({ short: 60, long: 10, mention: 12, signal: 3, blank: 3 });
    const { report } = generation;
    if (text === 'short') report.text(`Word ${cast.said}.`);
    if (text === 'long')
      report.text(`Number ${cast.said}.\n\n${`A long paragraph about ${cast.said}. `.repeat(random.between(3, 20))}`);
    if (text === 'mention') report.text(`Number ${cast.said}, what do you think, @${other}?`);
    if (text === 'signal') report.text(`They said "${SIGNAL}" in ${cast.said}.`);
    if (text === 'blank') report.text('  \n');
  }

  #finish(generation: Generation, ending: Ending): void {
    const { signals, random, cast } = this.#ports;
    if (signals && ending.how === 'completed' && !cast.isTroubled(0.1)) {
      generation.report.text('\nTURN_');
      generation.report.text(random.chance(0.2) ? 'COMPLETE @dev' : 'COMPLETE\n');
    }
    this.#end(generation, ending);
  }

  #end(generation: Generation, ending: Ending): void {
    if (!generation.open) return;
    this.#over(generation);
    const { channel, agent } = this;
    if (ending.how === 'completed' || ending.how === 'passed')
      this.#ports.cast.answers.ended({ channel, agent, epoch: generation.turn.epoch });
    generation.end.resolve(ending);
  }

  #break(generation: Generation, error: BackendError): void {
    if (!generation.open) return;
    this.#over(generation);
    generation.end.reject(error);
  }

  #over(generation: Generation): void {
    generation.open = false;
    if (this.#generation === generation) this.#generation = null;
  }
}

/** A call for approval. `isConchs`: Conch itself would run it, so its question survives a restart. */
function commandCall(title: string, isConchs: boolean): GatedCall {
  const call = { id: title, tool: 'execute', title, input: { command: title }, detail: title };
  const whose = isConchs ? {} : { accounts: [] };
  return { ...call, definition: null, repeatable: false, caution: null, ...whose };
}

/** Returns the usage of a model with or without a price. */
function usageOf(random: Random): Usage {
  const tokens = random.between(1, 900);
  const costMicros = random.between(0, 9_000);
  const source = costMicros === 0 ? 'unpriced' : 'computed';
  const use = {
    backend: 'sim',
    model: 'm-1',
    input: tokens,
    output: 0,
    cached: null,
    source,
    outcome: 'answered',
    ms: 7,
  } as const;
  return { tokens, costMicros, use };
}
