import { decideAgent } from './decide/turn-acts.ts';
import type { Command } from './command.ts';
import type { Decision } from './decide/decision-builder.ts';
import type { Floor } from './floor.ts';
import { assertFloor } from './invariants.ts';
import { decideOperator } from './decide/exchange.ts';
import { decidePerson } from './decide/messages.ts';
import type { Instant } from '../../lib/time.ts';
import { decideSystem } from './decide/recovery.ts';

export type { Decision } from './decide/decision-builder.ts';

/**
 * What a command does to a floor: facts and the floor after them, or a refusal that changes nothing.
 * Throws "impossible: …" rather than return a floor that breaks a rule. Pure: the same floor, command and instant always give the same decision.
 */
export function decide(floor: Floor, command: Command, at: Instant): Decision {
  const decision = dispatch(floor, command, at);
  if (decision.ok) assertFloor(floor, decision.floor, at);
  return decision;
}

function dispatch(floor: Floor, command: Command, at: Instant): Decision {
  switch (command.type) {
    case 'receive':
    case 'edit':
    case 'delete':
      return decidePerson(floor, command, at);
    case 'stop':
    case 'start':
    case 'grant':
    case 'skip':
    case 'extend':
    case 'decide':
    case 'pause':
    case 'resume':
    case 'order':
    case 'mode':
    case 'add':
    case 'remove':
    case 'enable':
    case 'disable':
      return decideOperator(floor, command, at);
    case 'join':
    case 'leave':
    case 'say':
    case 'work':
    case 'spend':
    case 'end':
    case 'wait':
    case 'request':
    case 'withdraw':
    case 'injected':
    case 'interrupted':
    case 'choose':
      return decideAgent(floor, command, at);
    case 'configure':
    case 'restart':
    case 'loseTouch':
    case 'catchUp':
    case 'shown':
    case 'undelivered':
    case 'raiseEpoch':
    case 'tick':
      return decideSystem(floor, command, at);
  }
}
