import type { Causes, CommandFor, FactFields, Machine } from '../../engine/machine.ts';
import type { MachineStore } from '../../engine/port.ts';
import type { Command } from '../../turns/floor/command.ts';
import type { Fact } from '../../turns/floor/fact.ts';
import type { Floor } from '../../turns/floor/floor.ts';
import { isUnpriced } from '../../turns/floor/gate.ts';
import { findTurn } from '../../turns/floor/seats.ts';
import { floorMachine } from '../../turns/floor-store.ts';
import { CREW_SIGNALS, decideCrew } from './crew-decide.ts';
import { isCrewCommand, crewFactSchema } from './crew-events.ts';
import type { CrewCommand, CrewFact, CrewRefusal } from './crew-events.ts';
import { evolveCrew } from './crew-evolve.ts';
import { COURSE, mergedWords, ticketLineOf } from './crew-words.ts';
import type { TicketLine } from './crew-words.ts';
import { crewDeadline, crewSchema, emptyCrew, findWorker, jobOf, sideAgentOf } from './crew.ts';
import type { Crew, Worker } from './crew.ts';
import { reviewMachine } from '../reviews/review-binding.ts';
import type { ReviewCommand, ReviewFact } from '../reviews/review-events.ts';
import type { ReviewState } from '../reviews/review.ts';
import { promptFor, reviewTask } from './prompts.ts';

/** The store of crews, by their ids. */
export type CrewStore = MachineStore<Crew, CrewCommand, CrewFact, never, CrewRefusal>;

/** Fields of facts with texts of people and agents, or with names and ids of people. They can be erased. */
const CREW_TEXTS: FactFields = {
  runnerSet: ['by', 'askedBy'],
  baseTested: ['why'],
  workerMoved: ['trigger'],
  stepCut: ['by'],
  removalAsked: ['by'],
  noted: ['text'],
  ticketProposed: ['title', 'text'],
  messageProposed: ['title', 'text', 'asker', 'by'],
  proposalAdmitted: ['by'],
  ticketReplied: ['by'],
  replyAnswered: ['by', 'why'],
  proposalDropped: ['by'],
  approvalAsked: ['what'],
  approvalGiven: ['by'],
  ticketAssigned: ['ticket.title', 'ticket.text'],
  stepAsked: ['about'],
  stepHeard: ['broken'],
  discovered: ['text'],
  stepPutBack: ['why'],
  errorCounted: ['why'],
  errorExplained: ['why'],
  sessionRenewed: ['why'],
  paused: ['why'],
  tested: ['output'],
  reviewDue: ['question.why'],
  reviewOver: ['why'],
  reviewCut: ['by'],
  reviewBegun: ['work.diff'],
  workMeasured: ['work.subject', 'work.copy', 'work.refused'],
  pullReturned: ['about'],
  pullClosed: ['why'],
  waited: ['why', 'step.about'],
  waitOver: ['by'],
  voted: ['by', 'voter'],
  mergeHeld: ['by'],
  mergeDropped: ['why'],
  meetingCalled: ['about', 'hunks', 'conflict'],
  agreed: ['text'],
  meetingOver: ['agreed', 'why'],
  leaving: ['words'],
};

/** The machine of a crew with its workers. Its key is the id of the crew. */
export const crewMachine = {
  name: 'crew',
  channelOf: (key: string, stateOf: () => Crew | null) => stateOf()?.settings?.channel ?? key,
  version: 1,
  empty: emptyCrew,
  decide: decideCrew,
  evolve: evolveCrew,
  react: () => [],
  nextDeadline: crewDeadline,
  rest: (crew: Crew) =>
    crew.workers.some((worker) => worker.step !== null || jobOf(crew, worker) !== null) ? null : '',
  state: crewSchema,
  fact: crewFactSchema,
  texts: CREW_TEXTS,
  isCommand: isCrewCommand,
} satisfies Machine<Crew, CrewCommand, CrewFact, never, CrewRefusal>;

/** The facts of a ticket's floor that cause commands in its crew. */
export const CREW_CAUSES = {
  types: ['turnGranted', 'turnResumed', 'said', 'turnEnded', 'seatMoved', 'spent', 'messageRouted'],
  within: 'task',
  /** Returns the commands that a fact of a ticket's floor causes in its crew. `floor`: the floor after the decision. */
  commands: (fact: Fact, floor: Floor): readonly CommandFor[] => {
    const { task } = floor;
    if (task?.kind !== 'ticket') return [];
    const isOfPerson = fact.type === 'messageRouted' && fact.fromProgram !== true;
    const isOfWorker = 'agent' in fact && (fact.agent === task.primary || fact.agent === sideAgentOf(task.primary));
    if (!isOfPerson && !isOfWorker) return [];
    const command = commandOf(fact, floor, task.primary);
    return command === null ? [] : [{ machine: crewMachine.name, key: task.key, command }];
  },
} as const satisfies Causes<Floor, Fact> & { readonly types: readonly Fact['type'][] };

function commandOf(fact: Fact, floor: Floor, worker: string): CrewCommand | null {
  switch (fact.type) {
    case 'turnGranted':
    case 'turnResumed':
      return isOfTask(floor, fact.agent) ? { type: 'GRANTED', worker, epoch: fact.epoch } : null;
    case 'said':
      return isOfTask(floor, fact.agent) ? { type: 'SAID', worker, epoch: fact.epoch, text: fact.text } : null;
    case 'turnEnded':
      return { type: 'ENDED', worker, epoch: fact.epoch, ...ENDS[fact.outcome] };
    case 'messageRouted':
      return { type: 'PERSON_WROTE', worker };
    case 'seatMoved':
      return fact.cause === undefined ? null : { type: 'CAUSE', worker, why: fact.cause };
    case 'spent': {
      const { tokens, costMicros, use } = fact;
      const output = use?.output ?? 0;
      const unpriced = isUnpriced(fact) ? { unpriced: true as const } : {};
      return { type: 'SPENT', worker, input: tokens - output, output, costMicros, ...unpriced };
    }
    default:
      return null;
  }
}

type End = Pick<Extract<CrewCommand, { type: 'ENDED' }>, 'how' | 'why'>;

const ENDS: Readonly<Record<Extract<Fact, { type: 'turnEnded' }>['outcome'], End>> = {
  completed: { how: 'completed', why: '' },
  passed: { how: 'completed', why: '' },
  lapsed: { how: 'completed', why: '' },
  expired: { how: 'timedOut', why: 'the step took too long' },
  forfeited: { how: 'failed', why: 'its session ended' },
  revoked: { how: 'stopped', why: 'a person stopped it' },
};

function isOfTask(floor: Floor, agent: string): boolean {
  return findTurn(floor, agent)?.brief !== undefined;
}

/** The crew machine with the commands that its facts cause in floors, and in reviews of tickets. */
export const crewOnFloor = {
  ...crewMachine,
  causes: (fact: CrewFact, crew: Crew): readonly CommandFor[] => {
    const line = ticketLineOf(crew, fact);
    const lines = line === null ? [] : linesFor(crew, line);
    if (!('worker' in fact)) return lines;
    const worker = findWorker(crew, fact.worker);
    const channel = worker?.ticket?.thread;
    if (worker === undefined || channel === undefined) return lines;
    const commands = floorCommands(fact, crew, worker);
    return [
      ...reviewCommands(fact, crew, worker).map((command) => ({ machine: reviewMachine.name, key: channel, command })),
      ...commands.map((command) => ({ machine: floorMachine.name, key: channel, command })),
      ...lines,
    ];
  },
} satisfies Machine<Crew, CrewCommand, CrewFact, never, CrewRefusal>;

function linesFor(
  { key, settings }: Crew,
  { ticket, thread, about, text, only, goesOn }: TicketLine,
): readonly CommandFor[] {
  const announcement = { kind: 'ticket' as const, id: `${key}/${ticket}`, about, text };
  const tell = (channel: string, more: object = {}) => {
    const command = { type: 'tellTask', announcement: { ...announcement, ...more } } satisfies Command;
    return { machine: floorMachine.name, key: channel, command };
  };
  const channel = settings?.channel ?? thread;
  if (only === 'thread' || channel === thread) return [tell(thread)];
  const inChannel = tell(channel, goesOn === true ? { about: COURSE, goesOn } : {});
  return only === 'channel' ? [inChannel] : [tell(thread), inChannel];
}

function reviewCommands(fact: CrewFact, crew: Crew, { ticket, agent, review }: Worker): readonly ReviewCommand[] {
  const { settings, key } = crew;
  switch (fact.type) {
    case 'reviewBegun': {
      if (ticket === null || settings?.review === undefined) return [];
      const { reviewer, settings: ways } = settings.review;
      const order = { id: fact.review, primary: agent, reviewer, task: reviewTask(ticket), by: crew.askedBy ?? '' };
      const task = { crew: key, task: `${key}/${ticket.id}` };
      return [{ type: 'START', ...order, settings: ways, ticket: task, work: fact.work }];
    }
    case 'reviewCut':
      return [{ type: 'CANCEL', by: fact.by, reason: 'people decided to merge without it' }];
    case 'leaving':
      return review?.id == null ? [] : [{ type: 'CANCEL', by: '', reason: fact.words }];
    default:
      return [];
  }
}

/** The facts of a ticket's review that cause commands in its crew: usage, and the end. */
export const TICKET_REVIEW_CAUSES = {
  types: ['spent', 'reviewEnded'],
  commands: (fact: ReviewFact, { review }: ReviewState): readonly CommandFor[] => {
    if (review?.ticket === undefined) return [];
    const { id, primary: worker, ticket, outcome, work } = review;
    const tell = (command: CrewCommand) => [{ machine: crewMachine.name, key: ticket.crew, command }];
    if (fact.type === 'spent') {
      const { type: _type, tokens: input, ...more } = fact;
      return tell({ type: 'SPENT', worker, input, output: 0, ...more });
    }
    if (fact.type !== 'reviewEnded' || outcome === null) return [];
    const passed = review.status === 'complete';
    const why = passed ? outcome.why : `${outcome.kind}: ${outcome.why}`;
    return tell({ type: 'REVIEWED', worker, review: id, passed, why, tree: work?.tree ?? null });
  },
} as const satisfies Causes<ReviewState, ReviewFact>;

function floorCommands(fact: CrewFact, crew: Crew, worker: Worker): readonly Command[] {
  const { key } = crew;
  const { ticket, agent } = worker;
  if (ticket === null) return [];
  const id = `${key}/${ticket.id}`;
  switch (fact.type) {
    case 'workerSeated':
      return [{ type: 'beginTask', kind: 'ticket', id, key, primary: agent, signals: CREW_SIGNALS }];
    case 'stepSent': {
      const brief = promptFor(worker, placeOf(crew, ticket.id, fact.left));
      if (worker.step?.kind !== 'side') return [{ type: 'askTaskTurn', id, agent, brief }];
      // The agent that speaks for the merged ticket gets a new session in the first turn of a meeting.
      const fresh = worker.meeting?.turns === 0 ? { fresh: true as const } : {};
      return [{ type: 'askTaskTurn', id, agent: sideAgentOf(agent), brief, ...fresh }];
    }
    case 'stepCut': {
      const { epoch, by } = fact;
      if (epoch === null) return [{ type: 'holdTask', id }];
      // The worker's agent or the agent of the other side has the turn. The floor refuses the skip for the other one.
      return [agent, sideAgentOf(agent)].map((each) => ({ type: 'skip', agent: each, epoch, by }));
    }
    case 'leaving': {
      const { why, words } = fact;
      // For a merged ticket, `words` holds the id of the merge commit.
      const text = why === 'merged' ? mergedWords(worker, words) : `${ticket.id}: ${words}`;
      return [{ type: 'endTask', report: { kind: 'ticket', id, about: 'end', text } }];
    }
    default:
      return [];
  }
}

function placeOf({ key, settings, kept }: Crew, ticket: string, left = '') {
  const earlier = kept.findLast((each) => each.ticket === ticket)?.ref ?? null;
  const turns = settings?.meetingTurns ?? 0;
  return { crew: key, turns, main: settings?.main ?? 'main', earlier, left, templates: settings?.prompts ?? {} };
}
