import type { CommandOf, Refusal } from '../command.ts';
import { deadlines } from '../deadline.ts';
import type { Deadline } from '../deadline.ts';
import type { Deliberation } from './decision-builder.ts';
import { facilitatorAnswered, goOn } from './grant.ts';
import { comeBack } from './membership.ts';
import { afterInterrupt, dispatch } from './messages.ts';
import { finish } from './turns.ts';
import { seatOf } from '../seats.ts';
import type { AgentId } from '../settings.ts';
import { turnOf } from '../turn.ts';

/** The program started: nothing is granted before the history is read. */
export function restart(d: Deliberation): Refusal | null {
  if (d.floor.facilitation !== null) d.record({ type: 'facilitatorAnswered', next: null, why: 'overtaken' });
  d.record({ type: 'disconnected', restart: true });
  return null;
}

/** The platform cannot be heard: what runs goes on, and nothing further is granted. */
export function disconnect(d: Deliberation): Refusal | null {
  if (d.floor.catchingUp) return 'already';
  d.record({ type: 'disconnected', restart: false });
  return null;
}

/** Grants begin again: first what people wrote meanwhile is routed, then a turn that was open resumes or is forfeited. */
export function catchUp(d: Deliberation, command: CommandOf<'catchUp'>): Refusal | null {
  const gap = command.gap ?? null;
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

/** The platform refused for good what an agent said. */
export function undelivered(d: Deliberation, { agent, why }: CommandOf<'undelivered'>): null {
  d.announce({ kind: 'undelivered', agent, why });
  return null;
}

/** Epochs jump after a backup was restored. */
export function raiseEpoch(d: Deliberation, { by }: CommandOf<'raiseEpoch'>): null {
  d.record({ type: 'epochRaised', by });
  return null;
}

/** How many deadlines one tick may work off; more would mean that one of them does not go away. */
const MAX_DUE = 100;

/** Meets every deadline that has passed. */
export function tick(d: Deliberation): Refusal | null {
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
      facilitatorAnswered(d, null, 'no answer');
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
