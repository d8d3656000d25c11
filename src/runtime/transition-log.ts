import type { Log } from './log.ts';
import { transitionLine } from './log.ts';
import type { Fact, Outcome } from '../turns/floor/fact.ts';
import type { Change } from '../turns/manager.ts';

/** The owner's words for a turn that an agent spoke in and that neither its signal nor an end of its protocol ended. */
export const NO_SIGNAL = 'Agent completed response without TURN_COMPLETE';

/** Logs what a command changed: one line for each change of a seat's state, a warning or an error for what people should look into. */
export function tell(log: Log, change: Change, channel: string): void {
  for (const fact of change.facts) tellFact(log, fact, { at: change.at, channel });
}

function tellFact(log: Log, fact: Fact, where: { readonly at: number; readonly channel: string }): void {
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
