import type { CommandOf } from '../command.ts';
import type { Refusal } from '../refusals.ts';
import { openQuestion, seatOf, turnOf, turnsOf, waitOf } from '../seats.ts';
import type { DecisionBuilder } from './decision-builder.ts';
import { tellRequest } from './background-runs.ts';
import { announceLoss, dropFacilitation, finish, tellAnswer } from './decision-builder.ts';
import { comeBack } from './membership.ts';
import { dispatch, goOn } from './turns.ts';
import type { AgentId, Question } from '../settings.ts';
import { defined } from '../../../lib/defined.ts';

/**
 * Called when Conch has started: nothing is granted before the history is read. If the restart ended the holder's
 * request, announces that the request is no longer needed.
 */
export function restart(decision: DecisionBuilder): Refusal | null {
  dropFacilitation(decision);
  const before = openQuestion(decision.floor);
  decision.record({ type: 'disconnected', restart: true, ...defined({ leftMs: leftAtWork(decision) }) });
  if (before !== null) tellCut(decision, before);
  return null;
}

/**
 * The milliseconds from a restart to the hard end of a turn with open work: the turn's length from its start, at most
 * `maxTurnMs`; more if more is left, as after an operator's extension. `undefined` for other turns.
 */
function leftAtWork({ floor, at }: DecisionBuilder): number | undefined {
  const { turn, settings } = floor;
  if (turn?.status !== 'active' || turn.openWork === 0) return undefined;
  return Math.max(turn.hardEndAt - at, Math.min(turn.hardEndAt - turn.startedAt, settings.maxTurnMs));
}

function tellCut(decision: DecisionBuilder, before: Question): void {
  const { turn } = decision.floor;
  const wait = waitOf(turn);
  if (turn === null || wait === null) return;
  const { agent } = turn;
  const question = openQuestion(decision.floor);
  if (question === null) tellAnswer(decision, before, { agent, choice: null, by: null });
  else if (question.restarted === true && before.restarted !== true)
    tellRequest(decision, { agent, question, until: wait.deadlineAt });
}

/** Called when the platform is unreachable. Running turns continue; nothing is granted. */
export function disconnect(decision: DecisionBuilder): Refusal | null {
  if (decision.floor.catchingUp) return 'already';
  decision.record({ type: 'disconnected', restart: false });
  return null;
}

/**
 * Delays the deadlines by the `ms` for which Conch's process was suspended, because it received no messages meanwhile.
 */
export function standstill(decision: DecisionBuilder, { ms }: CommandOf<'standstill'>): Refusal | null {
  const { turn, parked, facilitation, exchange, asides: backgroundRuns = [] } = decision.floor;
  const isQuiet = turn === null && parked.length === 0 && facilitation === null;
  if (isQuiet && exchange === null && backgroundRuns.length === 0) return 'already';
  const isExtended = turnsOf(decision.floor).some(({ extendedTo }) => extendedTo !== undefined);
  decision.record({ type: 'stoodStill', ms, ...(isExtended ? { extensions: true } : {}) });
  return null;
}

/**
 * Called when the channel's history was read: routes the messages that were held until then, and allows grants again.
 */
export function catchUp(decision: DecisionBuilder, command: CommandOf<'catchUp'>): Refusal | null {
  const gap = command.gap ?? null;
  if (!decision.floor.catchingUp) return 'already';
  decision.record({ type: 'caughtUp', gap });
  if (gap !== null) decision.announce({ kind: 'gap', why: gap });
  const { turn } = decision.floor;
  if (turn?.status === 'suspended' && decision.floor.settings.onRestart === 'forfeit') forfeit(decision, turn.agent);
  for (const { id } of decision.floor.held) {
    const message = decision.floor.held.find((held) => held.id === id && held.until === 'start');
    if (message !== undefined) dispatch(decision, message);
  }
  const holder = decision.floor.turn?.agent;
  if (holder !== undefined && seatOf(decision.floor, holder).present) comeBack(decision, holder);
  goOn(decision);
  return null;
}

function forfeit(decision: DecisionBuilder, agent: AgentId): void {
  finish(decision, turnOf(decision.floor, agent), {
    outcome: 'forfeited',
    trigger: 'CRASHED',
    to: 'OFFLINE',
    cause: 'the bot restarted',
  });
  announceLoss(decision, agent, 'the bot restarted');
  if (!seatOf(decision.floor, agent).present) return;
  decision.record({ type: 'seatMoved', agent, from: 'OFFLINE', to: 'IDLE', trigger: 'AGENT_STARTED' });
  decision.record({ type: 'seatMoved', agent, from: 'IDLE', to: 'QUEUED', trigger: 'ASSIGNED' });
}

/** Announces that the platform refused a text of an agent for good. */
export function undelivered(decision: DecisionBuilder, { agent, why }: CommandOf<'undelivered'>): null {
  decision.announce({ kind: 'undelivered', agent, why });
  return null;
}

/** Raises the epoch and the number of requests after a backup was restored. */
export function raiseEpoch(decision: DecisionBuilder, { by }: CommandOf<'raiseEpoch'>): null {
  decision.record({ type: 'epochRaised', by });
  return null;
}
