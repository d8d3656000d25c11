import type { CommandOf, Refusal } from '../command.ts';
import type { Deliberation } from './decision-builder.ts';
import { dispatch } from './messages.ts';
import { openQuestion } from '../floor.ts';
import type { Turn } from '../floor.ts';
import type { AgentId, Choice } from '../settings.ts';

/**
 * The holder asks for a yes. Whatever the channel's wait policy: the floor is kept, for the generation goes on in place
 * once somebody decides. What nobody can be asked is rejected in the same breath, and its text is not kept.
 */
export function request(d: Deliberation, command: CommandOf<'request'>, turn: Turn): null {
  const { agent, epoch } = turn;
  const { title, detail } = command.approval;
  const { unaskable } = command;
  const question = d.floor.questions + 1;
  const deadlineAt = d.at + d.floor.settings.waitTimeoutMs;
  const asked = { question, title, detail: unaskable === undefined ? detail : '', shown: false };
  d.record({ type: 'turnWaited', agent, epoch, wait: { reason: 'approval', deadlineAt, question: asked } });
  d.record({ type: 'seatMoved', agent, from: 'ACTIVE', to: 'WAITING', trigger: 'WAIT_REQUESTED' });
  if (unaskable === undefined) d.announce({ kind: 'approval', agent, question, title, detail });
  else rejectUnasked(d, unaskable);
  return null;
}

/** The holder takes its question back. */
export function withdraw(d: Deliberation, command: CommandOf<'withdraw'>): Refusal | null {
  const { turn } = d.floor;
  if (turn?.agent !== command.agent) return 'not-holder';
  if (turn.epoch !== command.epoch) return 'stale-epoch';
  const { agent, epoch, question } = command;
  if (openQuestion(d.floor)?.question !== question) return 'stale-question';
  d.record({ type: 'questionClosed', agent, epoch, question, choice: null, by: agent });
  goOnAfter(d, agent);
  return null;
}

/** All of a question stands in the channel, or never will: then nobody can know what a yes would allow. */
export function shown(d: Deliberation, command: CommandOf<'shown'>): Refusal | null {
  const { turn } = d.floor;
  const asked = openQuestion(d.floor);
  if (turn === null || asked?.question !== command.question) return 'stale-question';
  if (command.why !== undefined) rejectUnasked(d, command.why);
  else if (asked.shown) return 'already';
  else d.record({ type: 'questionShown', agent: turn.agent, epoch: turn.epoch, question: asked.question });
  return null;
}

/** An operator answers the question with this number, and no other. */
export function decideRequest(d: Deliberation, command: CommandOf<'decide'>): Refusal | null {
  const asked = openQuestion(d.floor);
  if (asked?.question !== command.question) return 'stale-question';
  if (command.choice === 'allow' && !asked.shown) return 'not-shown';
  decideQuestion(d, { choice: command.choice, by: command.by });
  return null;
}

/** Gives the open question its answer; its generation goes on, and takes up what people wrote meanwhile. */
function decideQuestion(d: Deliberation, decision: { readonly choice: Choice; readonly by: string | null }): void {
  const { turn } = d.floor;
  const asked = openQuestion(d.floor);
  if (turn === null || asked === null) throw new Error(`impossible: nothing is asked in ${d.floor.channel}`);
  const { agent, epoch } = turn;
  d.record({ type: 'questionClosed', agent, epoch, question: asked.question, ...decision });
  goOnAfter(d, agent);
}

function rejectUnasked(d: Deliberation, why: string): void {
  const agent = d.floor.turn?.agent;
  const title = openQuestion(d.floor)?.title ?? '';
  if (agent !== undefined) d.announce({ kind: 'unasked', agent, title, why });
  decideQuestion(d, { choice: 'reject', by: null });
}

function goOnAfter(d: Deliberation, agent: AgentId): void {
  d.record({ type: 'seatMoved', agent, from: 'WAITING', to: 'ACTIVE', trigger: 'WAIT_RESOLVED' });
  for (const message of d.floor.held.filter(({ until }) => until === 'prompt')) dispatch(d, message);
}
