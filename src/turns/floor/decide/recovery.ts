import { chosen, finish } from './grant.ts';
import { comeBack, goOn } from './turn-acts.ts';
import type { Refusal, SystemCommand } from '../command.ts';
import { deadlines } from '../deadline.ts';
import type { Deadline } from '../deadline.ts';
import { Deliberation, refuse } from './decision-builder.ts';
import type { Decision } from './decision-builder.ts';
import { turnOf } from '../turn.ts';
import type { Floor } from '../floor.ts';
import { remove } from './exchange.ts';
import { afterInterrupt, dispatch } from './messages.ts';
import { shown } from './questions.ts';
import { seatOf } from '../seats.ts';
import type { AgentId, FloorSettings, SeatSettings } from '../settings.ts';
import type { Instant } from '../../../lib/time.ts';

/** What the program itself asks of a floor: configuration, a restart, the passing of time. */
export function decideSystem(floor: Floor, command: SystemCommand, at: Instant): Decision {
  const d = new Deliberation(floor, at);
  const refusal = carryOut(d, command);
  return refusal === null ? d.accept() : refuse(refusal);
}

function carryOut(d: Deliberation, command: SystemCommand): Refusal | null {
  switch (command.type) {
    case 'configure':
      return configure(d, command);
    case 'restart':
      return restart(d);
    case 'loseTouch':
      if (d.floor.catchingUp) return 'already';
      d.record({ type: 'disconnected', restart: false });
      return null;
    case 'catchUp':
      return catchUp(d, command.gap ?? null);
    case 'shown':
      return shown(d, command);
    case 'undelivered':
      d.announce({ kind: 'undelivered', agent: command.agent, why: command.why });
      return null;
    case 'raiseEpoch':
      d.record({ type: 'epochRaised', by: command.by });
      return null;
    case 'tick':
      return tick(d);
  }
}

/** Applies what changed in the configuration since the last time, and leaves what operators changed meanwhile alone. */
function configure(d: Deliberation, command: Extract<SystemCommand, { type: 'configure' }>): Refusal | null {
  const { configured, settings: current, seats: seated } = d.floor;
  const configuration = { settings: command.settings, seats: command.seats };
  if (isSame(configured, configuration)) return 'already';
  const before = configured ?? { settings: null, seats: [] };
  const gone = before.seats.filter((seat) => !command.seats.some((wanted) => wanted.agent === seat.agent));
  for (const { agent } of gone) if (seated.some((seat) => seat.agent === agent)) drop(d, agent);
  const settings = before.settings === null ? command.settings : merged(current, before.settings, command.settings);
  d.record({ type: 'configured', settings, seats: command.seats, configuration });
  goOn(d);
  return null;
}

function merged(current: FloorSettings, before: FloorSettings, wanted: FloorSettings): FloorSettings {
  const changed = Object.entries(wanted).filter(([key, value]) => !isSame(value, Reflect.get(before, key)));
  return { ...current, ...Object.fromEntries(changed) };
}

/** Equality of plain JSON, whatever the order of keys: a floor that was stored comes back with them sorted. */
function isSame(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => isSame(Reflect.get(a, key), Reflect.get(b, key)));
}

function drop(d: Deliberation, agent: SeatSettings['agent']): void {
  const before = seatOf(d.floor, agent);
  if (before.status !== 'OFFLINE') {
    if (before.status !== 'IDLE' || before.assigned) remove(d, agent);
    d.record({
      type: 'seatMoved',
      agent,
      from: 'IDLE',
      to: 'OFFLINE',
      trigger: 'AGENT_STOPPED',
      cause: 'no longer configured',
    });
  }
  if (d.floor.choosing?.facilitator === agent) chosen(d, null, 'left');
  d.record({ type: 'seatDropped', agent });
}

function restart(d: Deliberation): Refusal | null {
  if (d.floor.choosing !== null) d.record({ type: 'choosingEnded', next: null, why: 'overtaken' });
  d.record({ type: 'disconnected', restart: true });
  return null;
}

/** Grants begin again: first what people wrote meanwhile is routed, then a turn that was open resumes or is forfeited. */
function catchUp(d: Deliberation, gap: string | null): Refusal | null {
  if (!d.floor.catchingUp) return 'already';
  d.record({ type: 'caughtUp', gap });
  if (gap !== null) d.announce({ kind: 'gap', why: gap });
  const { turn } = d.floor;
  if (turn?.status === 'suspended' && d.floor.settings.onRestart === 'forfeit') forfeit(d, turn.agent);
  for (const { id } of d.floor.held) {
    const message = d.floor.held.find((held) => held.id === id && held.until === 'start');
    if (message !== undefined) dispatch(d, message);
  }
  const holder = d.floor.turn?.agent;
  if (holder !== undefined && seatOf(d.floor, holder).present) comeBack(d, holder);
  goOn(d);
  return null;
}

function forfeit(d: Deliberation, agent: AgentId): void {
  finish(d, turnOf(d.floor, agent), {
    outcome: 'forfeited',
    trigger: 'CRASHED',
    to: 'OFFLINE',
    cause: 'the bot restarted',
  });
  d.announce({ kind: 'disconnect', agent, cause: 'the bot restarted' });
  if (!seatOf(d.floor, agent).present) return;
  d.record({ type: 'seatMoved', agent, from: 'OFFLINE', to: 'IDLE', trigger: 'AGENT_STARTED' });
  d.record({ type: 'seatMoved', agent, from: 'IDLE', to: 'QUEUED', trigger: 'ASSIGNED' });
}

/** How many deadlines one tick may work off; more would mean that one of them does not go away. */
const MAX_DUE = 100;

function tick(d: Deliberation): Refusal | null {
  for (let done = 0; done < MAX_DUE; done += 1) {
    const due = deadlines(d.floor)[0];
    if (due === undefined || due.at > d.at) return done === 0 ? 'nothing-due' : null;
    meet(d, due);
    goOn(d);
  }
  throw new Error(`impossible: more than ${MAX_DUE} deadlines at once in ${d.floor.channel}`);
}

function meet(d: Deliberation, due: Deadline): void {
  switch (due.kind) {
    case 'choose':
      chosen(d, null, 'no answer');
      return;
    case 'limit':
      d.record({ type: 'usageReset', why: 'midnight' });
      return;
    case 'expire':
      finish(d, turnOf(d.floor, due.agent), { outcome: 'expired', trigger: 'TIMEOUT', to: 'QUEUED' });
      d.announce({ kind: 'timeout', agent: due.agent });
      return;
    case 'lapse':
      finish(d, turnOf(d.floor, due.agent), { outcome: 'lapsed', trigger: 'SILENCE', to: 'QUEUED' });
      return;
    case 'waitOver':
      finish(d, turnOf(d.floor, due.agent), { outcome: 'expired', trigger: 'WAIT_TIMEOUT', to: 'QUEUED' });
      d.announce({ kind: 'waitTimeout', agent: due.agent });
      return;
    case 'force': {
      const turn = turnOf(d.floor, due.agent);
      d.record({ type: 'turnStopped', agent: due.agent, epoch: turn.epoch, forced: true });
      afterInterrupt(d, turnOf(d.floor, due.agent));
    }
  }
}
