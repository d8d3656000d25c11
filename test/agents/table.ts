import type { FloorPort, AgentLog } from '../../src/agents/session/floor-port.ts';
import { SCRIPTS } from '../../src/agents/backends/scripted/personas.ts';
import { createScriptedBackend } from '../../src/agents/backends/scripted/scripted-backend.ts';
import { Supervisor } from '../../src/agents/session/supervisor.ts';
import { addressedIn } from '../../src/turns/text/recognition.ts';
import type { Command } from '../../src/turns/floor/command.ts';
import { decide } from '../../src/turns/floor/decide.ts';
import { nextDeadline } from '../../src/turns/floor/seats.ts';
import type { Effect } from '../../src/turns/floor/react.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import type { Announcement } from '../../src/turns/floor/announcement.ts';
import { PLAIN_SETTINGS, emptyFloor } from '../../src/turns/floor/floor.ts';
import { react } from '../../src/turns/floor/react.ts';
import type { FloorSettings } from '../../src/turns/floor/settings.ts';
import type { Applied, OutboxRow } from '../../src/turns/floor-store.ts';
import type { Line } from '../../src/turns/view.ts';
import { holderOf, viewOf } from '../../src/turns/view.ts';
import { NO_JOURNAL, SETTINGS } from './bench.ts';
import { createTime } from './time.ts';

const CHANNEL = 'console:demo';
const IDS = ['pm', 'dev', 'qa'] as const;
const ENDING = new Set(['stop', 'skip', 'grant', 'remove', 'disable', 'leave', 'tick']);

/** Runs the demo: the real floor in memory, the real supervisor, scripted agents, and a test clock. */
export async function table(settings: Partial<FloorSettings> = {}) {
  const time = createTime();
  const texts = new Map<string, string>();
  const lines: Line[] = [];
  const announced: Announcement[] = [];
  const facts: Fact[] = [];
  let floor = emptyFloor(CHANNEL);
  let rows = 0;

  const commit = (command: Command): Applied => {
    const at = time.clock.now();
    const decision = decide(floor, command, at);
    if (!decision.ok) return { ok: false, state: floor, refusal: decision.refusal };
    floor = decision.floor;
    for (const fact of decision.facts) write(fact, at);
    facts.push(...decision.facts);
    const effects = decision.facts.flatMap((fact) => react(fact, decision.floor));
    for (const effect of effects) owe(effect);
    return { ok: true, state: floor, facts: decision.facts, effects };
  };
  const write = (fact: Fact, at: number) => {
    if (fact.type === 'announced') announced.push(fact.announcement);
    if (fact.type === 'said') {
      const author = { kind: 'agent', id: fact.agent, name: fact.agent } as const;
      lines.push({ line: fact.line, at, author, text: fact.text, attachments: [], message: null, change: null });
    }
    if (fact.type === 'messageRouted' && fact.line !== null) lines.push(lineOf(fact.id, fact.line));
  };
  const lineOf = (id: string, line: number): Line => {
    const author = { kind: 'person', id: 'u1', name: 'Anna' } as const;
    return {
      line,
      at: time.clock.now(),
      author,
      text: texts.get(id) ?? '',
      attachments: [],
      message: id,
      change: null,
    };
  };
  const owe = (effect: Effect) => {
    if (!('agent' in effect) || effect.type === 'post' || effect.type === 'cancel') return;
    const row = { id: `row-${(rows += 1)}`, channel: CHANNEL, lane: `agent:${effect.agent}`, effect, attempts: 1 };
    const rest = { part: 0, text: null, uncertain: false, afterId: null, editsId: null };
    setImmediate(() => void send({ ...row, ...rest }));
  };
  const send = async (row: OutboxRow): Promise<void> => {
    const settlement = await supervisor.deliver(row);
    if (settlement.state === 'retry') time.timers.after(settlement.notBefore - time.clock.now(), () => void send(row));
  };
  const apply = async (command: Command): Promise<Applied> => {
    const takes = ENDING.has(command.type) || (command.type === 'receive' && floor.settings.mode === 'interrupt');
    const draft = takes ? supervisor.takeDraft(CHANNEL) : null;
    if (draft !== null) commit({ type: 'say', ...draft });
    return commit(command);
  };
  const floors: FloorPort = {
    apply: async (_channel, command) => await apply(command),
    linesBetween: (_channel, after, upto) => lines.filter(({ line }) => line > after && line <= upto),
    lines: (_channel, limit) => lines.slice(-limit),
    message: (id) => lines.findLast(({ message }) => message === id) ?? null,
    view: () => viewOf(floor, time.clock.now(), 'x'),
    briefOf: () => '',
    seatedIn: () => IDS,
    missingIn: () => IDS,
    seatsOf: () => [CHANNEL],
    holder: () => holderOf(floor),
    draft: () => {},
  };
  const quiet = () => {};
  const log: AgentLog = { debug: quiet, info: quiet, warn: quiet, error: quiet };
  const agents = IDS.map((id) => {
    const backend = createScriptedBackend({ script: SCRIPTS[id], speed: { ...time.speed, wordMs: 75 } });
    return { id, name: id, description: '', persona: '', backend };
  });
  const supervisor = new Supervisor({
    agents,
    floors,
    log,
    journal: NO_JOURNAL,
    settings: SETTINGS,
    clock: time.clock,
    timers: time.timers,
  });
  const seats = IDS.map((agent) => ({ agent, priority: 10, timeoutMs: 60_000, rejoin: 'auto' as const }));
  commit({ type: 'configure', settings: { ...PLAIN_SETTINGS, ...settings }, seats });
  await supervisor.start();

  let written = 0;
  return {
    time,
    announced,
    facts,
    supervisor,
    floor: () => floor,
    /** Returns all posts in order: "author: text". */
    said: () => lines.map(({ author, text }) => `${author.id}: ${text}`),
    status: (agent: string) => floor.seats.find((seat) => seat.agent === agent)?.status,
    apply,
    write: async (text: string): Promise<void> => {
      const id = `m${(written += 1)}`;
      texts.set(id, text);
      const addressed = addressedIn(
        text,
        IDS.map((each) => ({ id: each, name: each })),
      );
      await apply({ type: 'receive', id, addressed, order: String(1_000 + written) });
      await time.settle();
    },
    /** Advances the clock in small steps and applies the floor's deadlines. */
    pass: async (seconds: number): Promise<void> => {
      for (let piece = 0; piece < seconds * 10; piece++) {
        await time.advance(100);
        const due = nextDeadline(floor);
        if (due !== null && due <= time.clock.now()) await apply({ type: 'tick' });
      }
      await time.settle();
    },
  };
}
