import type { Instant } from '../lib/time.ts';
import type { Log } from './log.ts';
import type { Fact, Outcome } from '../turns/floor/fact.ts';
import type { Change } from '../turns/manager.ts';

/** The owner's words for a turn that an agent spoke in and that neither its signal nor an end of its protocol ended. */
export const NO_SIGNAL = 'Agent completed response without TURN_COMPLETE';

/** One line of the owner's log format: a seat's change of state. */
export type TransitionLine = {
  readonly timestamp: string;
  readonly event: 'state_transition';
  readonly agentId: string;
  readonly from: string;
  readonly to: string;
  readonly trigger: string;
  readonly channel: string;
  readonly cause?: string;
};

/** Logs what a command changed: one line for each change of a seat's state, a warning or an error for what people should look into. */
export function logChange(log: Log, change: Change, channel: string): void {
  for (const fact of change.facts) logFact(log, fact, { at: change.at, channel });
}

/** The line of a transition that happened `at` in the channel of this name (without its adapter). */
export function transitionLine(
  fact: Extract<Fact, { readonly type: 'seatMoved' }>,
  at: Instant,
  channel: string,
): TransitionLine {
  const { agent, from, to, trigger, cause } = fact;
  return {
    timestamp: new Date(at).toISOString(),
    event: 'state_transition',
    agentId: agent,
    from,
    to,
    trigger,
    channel,
    ...(cause === undefined ? {} : { cause }),
  };
}

function logFact(log: Log, fact: Fact, where: { readonly at: number; readonly channel: string }): void {
  const { channel } = where;
  switch (fact.type) {
    case 'seatMoved':
      log[fact.trigger === 'CRASHED' ? 'error' : 'info'](transitionLine(fact, where.at, channel));
      return;
    case 'turnEnded':
      if (UNSIGNALLED.has(fact.outcome) && fact.said && !fact.signalled) {
        log.warn({ channel, agentId: fact.agent, epoch: fact.epoch, outcome: fact.outcome }, NO_SIGNAL);
      }
      return;
    case 'actRefused':
      log.warn(
        { channel, agentId: fact.agent, act: fact.act, epoch: fact.epoch, refusal: fact.refusal },
        'act refused',
      );
      return;
    case 'messageRouted':
      if (fact.fate.state === 'unrouted')
        log.warn({ channel, message: fact.id, why: fact.fate.why }, 'message not routed');
      return;
    case 'announced':
      log.info({ channel, announcement: fact.announcement, repeat: fact.repeat, shown: fact.shown }, 'announced');
      return;
    default:
      log.debug({ channel, fact }, 'fact');
  }
}

const UNSIGNALLED: ReadonlySet<Outcome> = new Set(['completed', 'expired', 'lapsed']);
