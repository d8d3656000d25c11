import { decide } from './floor/decide.ts';
import type { Fate } from './floor/fact.ts';
import type { Floor } from './floor/floor.ts';
import type { AgentId } from './floor/settings.ts';
import type { Instant } from '../lib/time.ts';

/** What would become of a person's message that came now: one that names nobody, and one that names a seated agent. */
export type Outlook = { readonly unaddressed: Fate; readonly addressed: Readonly<Record<AgentId, Fate>> };

/** Decides it as the message itself would be decided, and changes nothing. */
export function outlookOf(floor: Floor, at: Instant): Outlook {
  return {
    unaddressed: fateOf(floor, [], at),
    addressed: Object.fromEntries(floor.seats.map(({ agent }) => [agent, fateOf(floor, [agent], at)])),
  };
}

/** No platform gives such an id, and in every platform's order it comes last. */
const IMAGINED = '\uFFFF';

function fateOf(floor: Floor, addressed: readonly AgentId[], at: Instant): Fate {
  const decision = decide(floor, { type: 'receive', id: IMAGINED, addressed, order: IMAGINED }, at);
  const facts = decision.ok ? decision.facts : [];
  const routed = facts.findLast((fact) => fact.type === 'messageRouted' && fact.id === IMAGINED);
  if (routed?.type !== 'messageRouted') throw new Error(`impossible: a message has no fate in ${floor.channel}`);
  return routed.fate;
}
