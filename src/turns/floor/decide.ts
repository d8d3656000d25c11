import type { Command, CommandOf, Refusal } from './command.ts';
import { choose, grantTo, mode, order, pause, resumeFloor, start, stop } from './decide/control.ts';
import { DecisionBuilder } from './decide/decision-builder.ts';
import type { Decision, Refused } from './decide/decision-builder.ts';
import { add, configure, disable, enable, join, leave, remove } from './decide/membership.ts';
import { amend, receive } from './decide/messages.ts';
import { decideRequest, request, shown, withdraw } from './decide/questions.ts';
import { catchUp, disconnect, raiseEpoch, restart, tick, undelivered } from './decide/recovery.ts';
import { byHolder, end, extend, injected, interrupted, say, skip, spend, wait, work } from './decide/turn-acts.ts';
import type { Floor } from './floor.ts';
import { assertFloor } from './invariants.ts';
import type { Instant } from '../../lib/time.ts';

export type { Decision } from './decide/decision-builder.ts';

/**
 * What a command does to a floor: facts and the floor after them, or a refusal that changes nothing.
 * Throws "impossible: …" rather than return a floor that breaks a rule. Pure: the same floor, command and instant always give the same decision.
 */
export function decide(floor: Floor, command: Command, at: Instant): Decision {
  const decision = new DecisionBuilder(floor, at);
  const refusal = carryOut(command.type, command, decision);
  if (refusal !== null) return refused(command, refusal);
  const accepted = decision.accept();
  assertFloor(floor, accepted.floor, at);
  return accepted;
}

type Deciders = {
  readonly [T in Command['type']]: (decision: DecisionBuilder, command: CommandOf<T>) => Refusal | null;
};

/** What each command does. Whether an operator may give one was checked before it came here. */
const DECIDERS: Deciders = {
  receive,
  edit: amend,
  delete: amend,
  stop,
  start,
  grant: grantTo,
  skip,
  extend,
  decide: decideRequest,
  pause,
  resume: resumeFloor,
  order,
  mode,
  add,
  remove,
  enable,
  disable,
  join,
  leave,
  say: byHolder(say),
  work: byHolder(work),
  spend,
  end: byHolder(end),
  wait: byHolder(wait),
  request: byHolder(request),
  withdraw,
  injected: byHolder(injected),
  interrupted,
  choose,
  configure,
  restart,
  disconnect,
  catchUp,
  shown,
  undelivered,
  raiseEpoch,
  tick,
};

function carryOut<T extends Command['type']>(
  type: T,
  command: CommandOf<T>,
  decision: DecisionBuilder,
): Refusal | null {
  return DECIDERS[type](decision, command);
}

/** Nothing changes; of what an agent did without the floor, or under an older epoch, a record is kept. */
function refused(command: Command, refusal: Refusal): Refused {
  const isAct = command.type === 'choose' || ('epoch' in command && !('by' in command));
  if (!isAct) return { ok: false, refusal, facts: [] };
  const { type, agent } = command;
  const epoch = 'epoch' in command ? command.epoch : null;
  const text = command.type === 'say' ? { text: command.text } : {};
  return { ok: false, refusal, facts: [{ type: 'actRefused', act: type, agent, epoch, refusal, ...text }] };
}
