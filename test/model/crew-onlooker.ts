import { isDeepStrictEqual } from 'node:util';
import type { Fact } from '../../src/turns/floor/fact.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import type { CrewCommand, CrewFact, CrewFactOf } from '../../src/work/crews/crew-events.ts';
import type { crewOnFloor } from '../../src/work/crews/crew-binding.ts';
import type { floorWithWork } from '../../src/work/floor-with-work.ts';
import { deadButtonOf } from './cards.ts';
import { crewViewOf } from '../../src/work/crews/crew-shown.ts';
import {
  STUCK_AT,
  WORKER_CHOICES,
  crewDeadline,
  findWorker,
  idleWorker,
  isTransition,
  isStepping,
  jobOf,
  sideAgentOf,
} from '../../src/work/crews/crew.ts';
import type { Crew, TicketReply, Worker } from '../../src/work/crews/crew.ts';

/** The machines that are searched together. */
export type Crewed = { readonly floorWithWork: typeof floorWithWork; readonly crewOnFloor: typeof crewOnFloor };

/** The causes that end a session, by their meaning for the worker. */
export const CAUSES = { gone: 'gone', limit: 'usage limit reached', inUse: 'Session a is already in use' } as const;

/** The onlooker's notes of a worker's ticket. It reads the facts in another way than the machine. */
export type CrewNote = {
  /** True while the ticket's floor has the task. */
  readonly open: boolean;
  /** `ended`: steps that ended well. `underWay`: a step has begun. */
  readonly ended: number;
  readonly underWay: boolean;
  /** The last text of the step's present epoch. */
  readonly heard: 'done' | 'text' | null;
  /** `errors`: errors in a row. `renewed`: the session was just replaced, so the next timeout counts as an error. */
  readonly errors: number;
  readonly renewed: boolean;
  /** True when the last measured step ended with DONE and without conflicts. */
  readonly isDone: boolean;
  /** `green`: the commit with green tests. `allowed`: the commit that people allowed to merge. */
  readonly green: string | null;
  readonly allowed: string | null;
  /** `voters`: people who voted for the last measured commit. `votedFor`: the commit that the votes are for. */
  readonly voters: readonly string[];
  readonly votedFor: string | null;
  /** True while a person holds the merge. */
  readonly held: boolean;
  /** The open meeting; `null`: none. `turns`: its measured turns. `agreed`: the worker agreed to a solution. */
  readonly meeting: { readonly turns: number; readonly agreed: boolean } | null;
  /** True when the open turn belongs to a meeting. */
  readonly isMeeting: boolean;
  /** The earliest instant of the announced merge; `null`: at once. */
  readonly landsFrom: number | null;
};

/** The onlooker's notes of a reply. `waits`: its ticket waits for the tickets that the reply names. */
export type ReplyNote = { readonly reply: TicketReply; readonly state: 'open' | 'waits' | 'declined' };

/** A crew with the floors of its tickets by channel, and the onlooker's notes by worker. */
export type CrewScene = {
  readonly crew: Crew;
  readonly floors: Readonly<Record<string, Floor>>;
  readonly notes: Readonly<Record<string, CrewNote>>;
  /** The replies to the messages that tickets were made of, by the replies' ids. */
  readonly replies: Readonly<Record<string, ReplyNote>>;
  /** Turns that were granted to steps. */
  readonly turns: number;
  /** The time of the last move. */
  readonly at: number;
};

export class Broken extends Error {}

export function must(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Broken(what);
}

const NOTHING: CrewNote = {
  open: false,
  ended: 0,
  underWay: false,
  heard: null,
  errors: 0,
  renewed: false,
  isDone: false,
  green: null,
  allowed: null,
  voters: [],
  votedFor: null,
  held: false,
  landsFrom: null,
  meeting: null,
  isMeeting: false,
};

export function noteOf({ notes }: Pick<CrewScene, 'notes'>, name: string): CrewNote {
  return notes[name] ?? NOTHING;
}

function changed<S extends CrewScene>(scene: S, name: string, change: Partial<CrewNote>): S {
  return { ...scene, notes: { ...scene.notes, [name]: { ...noteOf(scene, name), ...change } } };
}

/** Notes the facts of one decision of a ticket's floor. */
export function notedFloor<S extends CrewScene>(scene: S, channel: string, facts: readonly Fact[]): S {
  const worker = scene.crew.workers.find(({ name, ticket }) => ticket?.thread === channel && noteOf(scene, name).open);
  if (worker === undefined) return scene;
  const { name, agent } = worker;
  const cause = facts.find((fact) => fact.type === 'seatMoved' && fact.agent === agent && fact.cause !== undefined);
  const why = cause?.type === 'seatMoved' ? (cause.cause ?? '') : '';
  let after = scene;
  for (const fact of facts) {
    const isOther = 'agent' in fact && fact.agent === sideAgentOf(agent);
    if (!('agent' in fact) || (fact.agent !== agent && !isOther)) continue;
    const note = noteOf(after, name);
    if (fact.type === 'turnGranted' && fact.forTask === true) {
      const isMeeting = note.meeting !== null;
      const turns = after.turns + (isMeeting ? 0 : 1);
      after = changed({ ...after, turns }, name, { underWay: true, heard: null, isMeeting });
    }
    if (!note.underWay) continue;
    if (note.isMeeting) {
      after = changed(after, name, talkNote(note, fact, { isOther, why }));
      continue;
    }
    if (fact.type === 'turnResumed') after = changed(after, name, { heard: null });
    if (fact.type === 'said') after = changed(after, name, { heard: /(^|\n)DONE$/.test(fact.text) ? 'done' : 'text' });
    if (fact.type === 'turnEnded') after = changed(after, name, overNote(note, fact.outcome, why));
  }
  return after;
}

/** Notes a turn of a meeting, which is no step. Only the worker's own failures count as errors; only it can agree. */
function talkNote(
  note: CrewNote,
  fact: Fact,
  { isOther, why }: { readonly isOther: boolean; readonly why: string },
): Partial<CrewNote> {
  const { meeting, ended } = note;
  if (fact.type === 'said' && !isOther && fact.text.startsWith('AGREED:') && meeting !== null)
    return { meeting: { ...meeting, agreed: true } };
  if (fact.type !== 'turnEnded') return {};
  const over = isOther ? { underWay: false } : overNote(note, fact.outcome, why);
  return { ...over, ended, heard: null, isMeeting: false };
}

function overNote(
  { ended, errors, renewed }: CrewNote,
  outcome: Extract<Fact, { type: 'turnEnded' }>['outcome'],
  why: string,
): Partial<CrewNote> {
  const over = { underWay: false };
  switch (outcome) {
    case 'expired':
      return renewed ? { ...over, errors: errors + 1 } : { ...over, renewed: true };
    case 'forfeited':
      if (why === CAUSES.limit) return over;
      // A session in use is replaced. The error counts when the session was replaced just before.
      return why === CAUSES.inUse && !renewed ? { ...over, renewed: true } : { ...over, errors: errors + 1 };
    case 'revoked':
      return over;
    default:
      return { ...over, ended: ended + 1 };
  }
}

/** Checks a fact of the crew before it is applied, then notes it. `given`: the command of the move. */
export function notedCrew<S extends CrewScene>(scene: S, fact: CrewFact, given: CrewCommand | null): S {
  if (fact.type === 'ticketReplied') {
    const { type: _type, ...reply } = fact;
    return { ...scene, replies: { ...scene.replies, [reply.message]: { reply, state: 'open' } } };
  }
  if (fact.type === 'replyAnswered') return notedAnswer(scene, fact, given);
  if (!('worker' in fact) || fact.type === 'workerAdded') return scene;
  const worker = findWorker(scene.crew, fact.worker);
  if (worker === undefined) throw new Broken(`${fact.type} of a worker that is not there`);
  const note = noteOf(scene, worker.name);
  checkFact(scene, worker, fact, given);
  return byPeople(byMachine(scene, { worker, note, fact, given }), { worker, fact, given });
}

/** Checks that a reply is answered once, and accepted only from operators before its ticket has a worker. */
function notedAnswer<S extends CrewScene>(
  scene: S,
  { message, ticket, why }: CrewFactOf<'replyAnswered'>,
  given: CrewCommand | null,
): S {
  const known = scene.replies[message];
  must(known?.state === 'open', 'a reply is answered twice');
  const { reply } = known;
  must(ticket === ticketAbout(reply), 'the answer to a reply names another ticket');
  if (why === '') {
    const { workers, finished } = scene.crew;
    const isLate = workers.some((worker) => worker.ticket?.id === ticket) || finished.some(({ id }) => id === ticket);
    must(!isLate, 'a reply counts, and its ticket has a worker or is finished');
    must(reply.refused !== true, 'a reply counts without the right to decide');
    must(given?.type === 'REPLY_READ' && given.why === '', 'a reply counts, and its ticket cannot wait');
  }
  return { ...scene, replies: { ...scene.replies, [message]: { reply, state: why === '' ? 'waits' : 'declined' } } };
}

/** The id of the message that a ticket is made of. */
export const messageOf = (ticket: string): string => `m ${ticket}`;
const ticketAbout = ({ about }: Pick<TicketReply, 'about'>): string => about.replace('m ', '');

/** The replies about a ticket. */
export function repliesAbout({ replies }: Pick<CrewScene, 'replies'>, ticket: string): readonly ReplyNote[] {
  return Object.values(replies).filter(({ reply }) => ticketAbout(reply) === ticket);
}

type Noted = { readonly worker: Worker; readonly fact: CrewFact; readonly given: CrewCommand | null };

/** Notes what people did: holds, votes, and words in the thread of a ticket. */
function byPeople<S extends CrewScene>(scene: S, { worker, fact, given }: Noted): S {
  const { name, work } = worker;
  const { window } = scene.crew.settings ?? {};
  const note = noteOf(scene, name);
  if (fact.type === 'workMeasured' && note.votedFor !== fact.work.tip)
    return changed(scene, name, { voters: [], votedFor: fact.work.tip });
  const later = window === undefined ? null : scene.at + window.ms;
  switch (given?.type) {
    case 'HOLD':
      return changed(scene, name, { held: true });
    case 'PERSON_WROTE':
      return changed(scene, name, { landsFrom: later });
    case 'TESTED':
      return fact.type === 'tested' ? changed(scene, name, { landsFrom: later }) : scene;
    case 'ANSWER':
    case 'MERGE': {
      const isChosen = given.type === 'MERGE' || given.choice === 'merge';
      const voters = isChosen ? [...new Set([...note.voters, given.voter ?? given.by])] : note.voters;
      const isOver = fact.type === 'waitOver' || fact.type === 'mergeAsked';
      const over = isOver ? { held: false, landsFrom: null } : {};
      return changed(scene, name, { voters, votedFor: work?.tip ?? null, ...over });
    }
    default:
      return scene;
  }
}

function byMachine<S extends CrewScene>(
  scene: S,
  { worker, note, fact, given }: Noted & { readonly note: CrewNote },
): S {
  switch (fact.type) {
    case 'ticketAssigned':
      return changed(scene, worker.name, NOTHING);
    case 'workerSeated':
      return changed(scene, worker.name, { open: true });
    case 'leaving':
      return changed(scene, worker.name, { open: false, underWay: false, meeting: null, isMeeting: false });
    case 'meetingCalled':
      return changed(scene, worker.name, { meeting: { turns: 0, agreed: false } });
    case 'meetingOver':
      return changed(scene, worker.name, { meeting: null });
    case 'workMeasured': {
      const meeting = note.meeting === null ? null : { ...note.meeting, turns: note.meeting.turns + 1 };
      const isDone = note.heard === 'done' && fact.work.unmerged.length === 0;
      return changed(scene, worker.name, { errors: 0, renewed: false, green: null, isDone, meeting });
    }
    case 'workerMoved':
      if (fact.to === 'stuck') return changed(scene, worker.name, { meeting: null });
      return fact.to === 'working' ? changed(scene, worker.name, { green: null }) : scene;
    case 'tested': {
      const isGreen = given?.type === 'TESTED' && given.verdict === 'green' && given.weakened === '';
      return changed(scene, worker.name, { green: isGreen ? fact.tip : null });
    }
    case 'waitOver':
      return fact.choice === 'merge' ? changed(scene, worker.name, { allowed: worker.work?.tip ?? null }) : scene;
    default:
      return scene;
  }
}

function checkFact(scene: CrewScene, worker: Worker, fact: CrewFact, given: CrewCommand | null): void {
  const { crew, notes, at } = scene;
  const note = noteOf({ notes }, worker.name);
  switch (fact.type) {
    case 'workerMoved': {
      const isListed = isTransition(worker.status, fact.to);
      must(isListed && fact.from === worker.status, `${worker.status} to ${fact.to}`);
      must(fact.to !== 'done' || note.heard === 'done' || worker.stepCount >= worker.maxSteps, 'done without DONE');
      return;
    }
    case 'ticketAssigned': {
      must(worker.status === 'idle' && worker.ticket === null, 'a worker gets a second ticket');
      must(!crew.workers.some(({ ticket }) => ticket?.id === fact.ticket.id), 'two workers have one ticket');
      must(!crew.finished.some(({ id }) => id === fact.ticket.id), 'a finished ticket is given again');
      for (const { reply, state } of repliesAbout(scene, fact.ticket.id)) {
        must(state !== 'open', 'a ticket is assigned before its reply is answered');
        const isDue = reply.deps.every((id) => crew.finished.some((each) => each.id === id));
        must(state !== 'waits' || isDue, 'a ticket is assigned before the tickets that its reply names');
      }
      return;
    }
    case 'stepSent':
      must(crew.running && crew.paused === null, 'a step is asked while the crew rests');
      return;
    case 'stepAsked':
      if (fact.kind !== 'side' && fact.kind !== 'meet') return;
      must(note.meeting !== null && !note.meeting.agreed, 'a meeting goes on after it agreed');
      must(note.meeting.turns < (crew.settings?.meetingTurns ?? 0), 'a meeting never ends');
      must(worker.step === null, 'a turn of a meeting is asked twice');
      return;
    case 'meetingOver':
      must(fact.agreed === '' || given?.type === 'NOTED', 'an agreement is not noted');
      return;
    case 'workMeasured':
      must(given?.type === 'MEASURED' && given.epoch === worker.step?.epoch, 'an older step is measured');
      return;
    case 'tested':
      must(worker.work?.tip === fact.tip, 'tests of another commit count');
      return;
    case 'mergeStarted':
      checkMerge(crew, worker, note, fact.tip);
      must(!note.held, 'it merges, and a person holds the merge');
      must(note.landsFrom === null || note.landsFrom <= at, 'it merges before its window is over');
      must(note.voters.length >= (crew.settings?.votes ?? 0), 'it merges with too few votes');
      return;
    case 'merged':
      must(given?.type === 'MERGED' && crew.merging?.worker === worker.name, 'merged, and no merge was made');
      must(crew.merging.tip === worker.work?.tip, 'another commit than the tested one is merged');
      must(!crew.finished.some(({ id }) => id === fact.ticket), 'a ticket is finished twice');
      return;
    default:
  }
}

function checkMerge({ merging, settings }: Crew, worker: Worker, note: CrewNote, tip: string): void {
  must(merging === null || merging.worker === worker.name, 'two merges at once');
  must(worker.status === 'done' && worker.waiting === null && worker.leaving === null, 'it merges, and is not done');
  must(worker.work?.tip === tip, 'another commit than the tested one is merged');
  const isGood = note.green === tip && note.isDone && settings?.merge === 'auto';
  must(isGood || note.allowed === tip, 'it merges without green tests, and nobody allowed it');
}

/** The invariants of a crew and its floors, checked after each move. */
export function checkScene(scene: CrewScene): void {
  const { crew, floors, turns, replies } = scene;
  const { workers, settings } = crew;
  for (const { reply, state } of Object.values(replies)) {
    const isKept = crew.replies?.some((each) => isDeepStrictEqual(each, reply)) === true;
    must(isKept || state !== 'open', 'a reply without an answer is forgotten');
  }
  const tickets = workers.flatMap(({ ticket }) => ticket?.id ?? []);
  must(new Set(tickets).size === tickets.length, 'two workers have one ticket');
  const slots = workers.flatMap(({ ticket }) => ticket?.slot ?? []);
  must(new Set(slots).size === slots.length, 'two workers have one slot');
  const ids = crew.finished.map(({ id }) => id);
  must(new Set(ids).size === ids.length, 'a ticket is finished twice');
  const last = crew.finished.findLast(({ commit }) => commit !== null)?.commit ?? 'b0';
  must(crew.base === null || crew.base.tip === last, `the base is ${crew.base?.tip}, and main ${last}`);
  const held = Object.values(floors).filter(({ turn, task }) => turn?.brief !== undefined || task?.next != null);
  const most = settings?.maxWorkers ?? 0;
  must(Math.max(held.length, workers.filter(isStepping).length) <= most, 'more workers step than allowed');
  must(crew.usage.steps === turns, `${crew.usage.steps} steps of the crew after ${turns} turns`);
  const merger = crew.merging === null ? undefined : findWorker(crew, crew.merging.worker);
  must(crew.merging === null || (merger?.status === 'done' && merger.leaving === null), 'a merge outlives its worker');
  for (const worker of workers) checkWorker(scene, worker);
  for (const [channel, floor] of Object.entries(floors)) {
    const worker = workers.find(({ name, ticket }) => ticket?.thread === channel && noteOf(scene, name).open);
    must((floor.task === undefined) === (worker === undefined), 'floor and crew disagree whether a task is open');
    must(floor.task?.primary === worker?.agent, 'the task is of another worker');
    if (worker === undefined) must(floor.turn?.brief === undefined, 'the turn of a step outlives its task');
    else checkStep(floor, worker, noteOf(scene, worker.name));
  }
}

/** The data besides the crew that its view needs. */
const AROUND = {
  store: '',
  problem: null,
  ready: [],
  listed: [],
  waiting: 0,
  facts: [],
  most: 0,
  whyHeld: () => null,
  runSteps: () => null,
  clean: (text: string) => text,
};

/** Returns the command that a button of a crew or worker gives when eve presses it. Eve has not voted. */
function commandOf(line: string): CrewCommand {
  const [, verb = '', worker = '', word = ''] = line.split(' ');
  if (verb === 'run' || verb === 'stop') return { type: verb === 'run' ? 'RUN' : 'STOP', by: 'eve' };
  const choice = WORKER_CHOICES.find((each) => each === word);
  if (choice !== undefined) return { type: 'ANSWER', worker, by: 'eve', choice };
  const type = (['HOLD', 'MERGE', 'KILL', 'RETRY'] as const).find((each) => each === verb.toUpperCase());
  if (type === undefined) throw new Broken(`${line} is no command of a button`);
  return type === 'RETRY' ? { type, worker, by: 'eve', words: '' } : { type, worker, by: 'eve' };
}

/** The crew, or the floor of an open ticket, accepts the command of every shown button. */
export function checkButtons({ crew, floors, at }: CrewScene, core: Crewed): void {
  const { workers, buttons } = crewViewOf(crew, AROUND);
  for (const { line } of [...buttons, ...workers.flatMap((worker) => worker.buttons)])
    must(core.crewOnFloor.decide(crew, commandOf(line), at).ok, `a button is refused: ${line}`);
  for (const floor of Object.values(floors)) {
    if (floor.task === undefined) continue;
    const dead = deadButtonOf(core.floorWithWork, floor, at);
    must(dead === null, `a button of a card is refused: ${dead}`);
  }
}

function checkWorker({ crew, notes }: CrewScene, worker: Worker): void {
  const { status, ticket, step, waiting, leaving, retryAt } = worker;
  if (status === 'idle') {
    const { name, agent, startedAt, left } = worker;
    const empty = idleWorker({ name, agent, startedAt, ...(left === undefined ? {} : { left }) });
    must(isDeepStrictEqual(worker, empty), 'an idle worker keeps something');
    return;
  }
  must(ticket !== null, `a worker is ${status} without a ticket`);
  must(!worker.prepared || worker.left === undefined, 'a ticket begins before the last worktree is removed');
  must(
    step === null || ((status === 'ready' || status === 'working') && waiting === null && leaving === null),
    `a step is asked of a worker that is ${leaving !== null ? 'leaving' : waiting !== null ? 'waiting' : status}`,
  );
  const isInLine = worker.next === 'merge' && crew.merging !== null && crew.merging.worker !== worker.name;
  const isLater = worker.landsAt !== undefined && crewDeadline(crew) !== null;
  must(
    step !== null || jobOf(crew, worker) !== null || waiting !== null || status === 'stuck' || isInLine || isLater,
    `a worker that is ${status} waits for ever`,
  );
  must(worker.stepCount <= worker.maxSteps, 'more steps than allowed');
  if (leaving !== null) return;
  const note = noteOf({ notes }, worker.name);
  must(worker.errors === note.errors, `${worker.errors} errors are counted after ${note.errors} in a row`);
  const isNoting = worker.meeting?.agreed !== undefined;
  must(retryAt === null || step?.queued === true || isNoting, 'an error is waited out, and no step is asked');
  if (step?.queued !== true) return;
  const { running, paused, settings, workers } = crew;
  const isFull = workers.filter(isStepping).length >= (settings?.maxWorkers ?? 0);
  must(!running || paused !== null || retryAt !== null || isFull, 'a step stays queued for ever');
}

/** The fifth error in a row makes the worker stuck. */
export function checkStuck(before: CrewScene, after: CrewScene): void {
  for (const worker of after.crew.workers) {
    const { errors } = noteOf(after, worker.name);
    const isFifth = errors > noteOf(before, worker.name).errors && errors % STUCK_AT === 0;
    must(!isFifth || worker.status === 'stuck', `${errors} errors in a row, and it is ${worker.status}`);
    const isNew = worker.status === 'stuck' && findWorker(before.crew, worker.name)?.status === 'working';
    must(!isNew || isFifth, `stuck after ${errors} errors`);
  }
}

/** Floor and crew agree on the open step, the number of steps, and the text that was said. */
function checkStep(floor: Floor, worker: Worker, note: CrewNote): void {
  const { step, stepCount, agent } = worker;
  const { turn, task } = floor;
  const granted = turn?.brief === undefined ? null : turn;
  const isAsked = isStepping(worker) && step?.epoch === null;
  must(isAsked === (task?.next != null), 'floor and crew disagree whether a step is asked');
  const speaker = step?.kind === 'side' ? sideAgentOf(agent) : agent;
  must(granted === null || granted.agent === speaker, 'another agent has the turn of a step');
  const isGranted = isStepping(worker) && step?.epoch !== null;
  must(isGranted === (granted !== null), 'floor and crew disagree whether a step is under way');
  must(granted === null || granted.epoch === step?.epoch, 'floor and crew know other epochs');
  must(note.underWay === isGranted, 'a step began or ended, and the crew does not know');
  must(
    stepCount === note.ended + (note.underWay && !note.isMeeting ? 1 : 0),
    `step ${stepCount} after ${note.ended} steps`,
  );
  if (isGranted)
    must(
      (step?.signalled === true) === (note.heard === 'done' && !note.isMeeting),
      'DONE is heard otherwise than it was said',
    );
  if (!isAsked || turn !== null || floor.catchingUp || floor.stopped || floor.condition === 'paused') return;
  const seat = floor.seats.find((each) => each.agent === speaker);
  const isThere = seat?.present === true && seat.status === 'QUEUED';
  must(!isThere || floor.limit !== null, 'the worker is there, and nobody is granted its step');
}
