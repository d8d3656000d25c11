import { excerpt } from '../../turns/commands/clock-words.ts';
import { defined } from '../../lib/defined.ts';
import type { Instant } from '../../lib/time.ts';
import {
  MOST_DISCOVERIES,
  MOST_LOST,
  MOST_HEARD,
  mayConcern,
  dayOf,
  findApproval,
  findWorker,
  idleWorker,
  isMeeting,
  isTransition,
} from './crew.ts';
import type { CrewApproval, COUNTED, Crew, Proposal, Worker, WorkerStep } from './crew.ts';
import type { CrewFact, CrewFactOf } from './crew-events.ts';

type WorkerFact = Extract<CrewFact, { readonly worker: string }>;
type CrewWideFact = Exclude<CrewFact, WorkerFact>;

/** Returns the state after a fact. Can throw "impossible: …" for a fact that does not fit the state. */
export function evolveCrew(crew: Crew, fact: CrewFact, at: Instant): Crew {
  if (!('worker' in fact)) return changed(crew, fact, at);
  if (fact.type === 'workerAdded') return added(crew, fact, at);
  const worker = findWorker(crew, fact.worker);
  if (worker === undefined) throw new Error(`impossible: ${fact.type} for ${fact.worker}, who is not in ${crew.key}`);
  const after = workerAfter(fact.type, worker, { fact, at });
  const workers = crew.workers.map((each) => (each === worker ? after : each));
  return besides({ ...crew, workers }, worker, fact, at);
}

function changed(crew: Crew, fact: CrewWideFact, at: Instant): Crew {
  switch (fact.type) {
    case 'crewConfigured':
      return { ...crew, settings: fact.settings };
    case 'runnerSet':
      return runnerSet(crew, fact, at);
    case 'baseTested':
      return { ...crew, base: { tip: fact.tip, verdict: fact.verdict, why: fact.why } };
    case 'approvalAsked': {
      const { about, digest, what } = fact;
      return { ...crew, approvals: withApproval(crew, { about, digest, what, allowed: null, by: '' }) };
    }
    case 'approvalGiven':
      return approved(crew, fact);
    case 'paused': {
      const { type: _type, ...paused } = fact;
      return { ...crew, paused, limits: crew.limits + (fact.budget ? 0 : 1) };
    }
    case 'pauseOver':
      return { ...crew, paused: null };
    case 'noted':
      return crew;
    case 'keptDropped':
      return { ...crew, kept: crew.kept.filter(({ ref }) => ref !== fact.ref) };
    case 'messageProposed':
      return messageProposed(crew, fact, at);
    case 'proposalAdmitted': {
      const { proposals = [], asked: requestedTickets = [] } = crew;
      const source = proposals.find(({ id }) => id === fact.proposal)?.source;
      const left = proposals.filter(({ id }) => id !== fact.proposal);
      return {
        ...crew,
        proposals: left,
        ...(source === undefined ? {} : { asked: [...requestedTickets, { ...source, ticket: fact.ticket }] }),
      };
    }
    case 'ticketReplied': {
      const { type: _type, ...reply } = fact;
      return { ...crew, replies: [...(crew.replies ?? []), reply] };
    }
    case 'replyAnswered':
      return replyAnswered(crew, fact);
    case 'proposalDropped':
      return { ...crew, proposals: (crew.proposals ?? []).filter(({ id }) => id !== fact.proposal) };
  }
}

function messageProposed(
  crew: Crew,
  { type: _type, message, channel, asker, by, ...proposal }: CrewFactOf<'messageProposed'>,
  at: Instant,
): Crew {
  return withProposal(crew, { ...proposal, from: '', worker: by, at, source: { message, channel, asker, by } });
}

function replyAnswered(crew: Crew, { message, ticket, deps, why }: CrewFactOf<'replyAnswered'>): Crew {
  const replies = (crew.replies ?? []).filter((each) => each.message !== message);
  if (why !== '') return { ...crew, replies };
  const more = deps.map((id) => ({ id, message }));
  const requestedTickets = (crew.asked ?? []).map((each) =>
    each.ticket === ticket ? { ...each, after: [...(each.after ?? []), ...more] } : each,
  );
  return { ...crew, replies, asked: requestedTickets };
}

function withProposal(crew: Crew, proposal: Proposal): Crew {
  return { ...crew, proposals: [...(crew.proposals ?? []), proposal], proposed: (crew.proposed ?? 0) + 1 };
}

function withApproval({ approvals = [] }: Crew, approval: CrewApproval): readonly CrewApproval[] {
  return [...approvals.filter(({ about }) => about !== approval.about), approval];
}

/**
 * Stores an answer about the whole crew. When people allow something, forgets a red result of main, so that its tests
 * run again.
 */
function approved(crew: Crew, { about, digest, allowed, by }: CrewFactOf<'approvalGiven'>): Crew {
  const approval = findApproval(crew, { about, digest });
  if (approval === undefined) throw new Error(`impossible: nobody was asked for ${about} in ${crew.key}`);
  const base = allowed && crew.base?.verdict === 'red' ? null : crew.base;
  return { ...crew, base, approvals: withApproval(crew, { ...approval, allowed, by }) };
}

function runnerSet(crew: Crew, { running, askedBy }: CrewFactOf<'runnerSet'>, at: Instant): Crew {
  const { costMicros } = crew.usage;
  const budget = { from: costMicros, day: dayOf(at), dayFrom: costMicros };
  return { ...crew, running, ...(running ? { budget } : {}), ...(askedBy === undefined ? {} : { askedBy }) };
}

function added(crew: Crew, { worker: name, agent, touches }: CrewFactOf<'workerAdded'>, at: Instant): Crew {
  if (findWorker(crew, name) !== undefined) throw new Error(`impossible: a second worker ${name} in ${crew.key}`);
  return { ...crew, workers: [...crew.workers, idleWorker({ name, agent, startedAt: at, ...defined({ touches }) })] };
}

/**
 * Applies a fact about a worker to the rest of its crew. `worker`: before the fact. `crew`: with the worker after it.
 */
function besides(crew: Crew, worker: Worker, fact: WorkerFact, at: Instant): Crew {
  switch (fact.type) {
    case 'ticketAssigned': {
      const concerning = (crew.discoveries ?? []).filter((each) => mayConcern(each, fact.ticket)).slice(-MOST_HEARD);
      const workers = crew.workers.map((each) =>
        each.name === worker.name && concerning.length > 0 ? { ...each, heard: concerning } : each,
      );
      return { ...crew, workers, refused: crew.refused.filter(({ id }) => id !== fact.ticket.id) };
    }
    case 'discovered':
      return discovered(crew, worker, fact);
    case 'ticketProposed': {
      const { type: _type, ...proposal } = fact;
      return withProposal(crew, { ...proposal, at });
    }
    case 'worktreeMade':
      return crew.branches === undefined ? crew : { ...crew, branches: otherBranches(crew, worker.ticket?.id) };
    case 'worktreeCleared':
      return stored(crew, fact);
    case 'spent': {
      const { steps, ...usage } = crew.usage;
      const { budget = { from: 0, day: 0, dayFrom: 0 } } = crew;
      const day = budget.day === dayOf(at) ? budget : { ...budget, day: dayOf(at), dayFrom: usage.costMicros };
      const unpriced = defined({ unpriced: fact.unpriced ?? crew.unpriced });
      return { ...crew, ...unpriced, budget: day, usage: { steps, ...together(usage, fact) } };
    }
    case 'stepBegun': {
      const isNew = worker.step?.epoch === null && !isMeeting(worker.step);
      return isNew ? { ...crew, usage: { ...crew.usage, steps: crew.usage.steps + 1 } } : crew;
    }
    case 'workMeasured':
      return crew.limits === 0 ? crew : { ...crew, limits: 0 };
    case 'mergeStarted': {
      const { type: _type, ...merging } = fact;
      return { ...crew, merging: { ...merging, worker: worker.name } };
    }
    case 'mergeDropped':
      return counted({ ...crew, merging: null }, 'dropped');
    case 'tested':
      return counted(crew, fact.verdict);
    case 'conflicted':
      return counted(crew, 'conflicts');
    case 'merged':
      return { ...mergedInto(crew, fact), finished: finished(crew, worker, fact, at) };
    case 'leaving':
      return afterLeaving(crew, worker, fact, at);
    default:
      return crew;
  }
}

function discovered(crew: Crew, { name, ticket }: Worker, { text }: CrewFactOf<'discovered'>): Crew {
  if (ticket === null) throw new Error(`impossible: ${name} found something out on no ticket`);
  const found = { worker: name, ticket: ticket.id, text, ...defined({ touches: ticket.touches }) };
  const workers = crew.workers.map((each) => {
    if (each.ticket === null || each.leaving !== null || !mayConcern(found, each.ticket)) return each;
    const { heard: known = [], telling = 0 } = each;
    // The discoveries of the present prompt stay first: the first `telling` are removed at the end of the step.
    return {
      ...each,
      heard: [...known.slice(0, telling), ...[...known.slice(telling), found].slice(-MOST_HEARD)],
    };
  });
  return { ...crew, workers, discoveries: [...(crew.discoveries ?? []), found].slice(-MOST_DISCOVERIES) };
}

function stored(crew: Crew, { ticket: id, kept: ref, branch }: CrewFactOf<'worktreeCleared'>): Crew {
  const storedWork = ref === null ? crew.kept : [...crew.kept, { ticket: id, ref }];
  return {
    ...crew,
    kept: storedWork,
    ...(branch === undefined ? {} : { branches: [...otherBranches(crew, id), { id, branch }] }),
  };
}

function otherBranches({ branches = [] }: Crew, ticket: string | undefined): NonNullable<Crew['branches']> {
  return branches.filter(({ id }) => id !== ticket);
}

function counted(crew: Crew, what: (typeof COUNTED)[number]): Crew {
  return { ...crew, counts: { ...crew.counts, [what]: (crew.counts?.[what] ?? 0) + 1 } };
}

function mergedInto(crew: Crew, fact: CrewFactOf<'merged'>): Crew {
  return fact.pull === undefined ? { ...crew, merging: null, base: baseAfter(crew, fact) } : crew;
}

/** The test result of main after a merge. The merged tree was tested, so a red main is green now. */
function baseAfter({ base }: Crew, { commit }: CrewFactOf<'merged'>): Crew['base'] {
  if (base === null) return null;
  return { ...base, tip: commit, verdict: base.verdict === 'red' ? 'green' : base.verdict };
}

function finished(
  { finished: before }: Crew,
  { name: worker, ticket }: Pick<Worker, 'name' | 'ticket'>,
  { ticket: id, commit }: { readonly ticket: string; readonly commit: string | null },
  at: Instant,
): Crew['finished'] {
  if (before.some((each) => each.id === id)) throw new Error(`impossible: ticket ${id} is finished twice`);
  const title = ticket === null ? undefined : excerpt(ticket.title, 60);
  return [...before, { id, commit, worker, at, ...defined({ thread: ticket?.thread, title }) }];
}

function afterLeaving(crew: Crew, { name, ticket }: Worker, { why, words }: CrewFactOf<'leaving'>, at: Instant): Crew {
  if (ticket === null) throw new Error(`impossible: ${name} leaves a ticket and has none`);
  const { id } = ticket;
  if (why === 'unchanged')
    return { ...crew, finished: finished(crew, { name, ticket }, { ticket: id, commit: null }, at) };
  const lost = [...(crew.lost ?? []), ...(why === 'lost' ? [id] : [])];
  const isLostOften = why === 'lost' && lost.filter((each) => each === id).length >= MOST_LOST;
  const isRefused = isLostOften || why === 'unstarted' || why === 'kept';
  const refused = [...crew.refused.filter((each) => each.id !== id), { id, why: words }];
  return { ...crew, ...(why === 'lost' ? { lost } : {}), ...(isRefused ? { refused } : {}) };
}

type Evolution = {
  readonly [T in WorkerFact['type']]: (worker: Worker, fact: CrewFactOf<T>, at: Instant) => Worker;
};

const same = (worker: Worker): Worker => worker;

const EVOLUTION: Evolution = {
  workerAdded: same,
  ticketAssigned: (worker, { ticket, maxSteps }) => ({ ...worker, ticket, maxSteps }),
  discovered: same,
  workerMoved: moved,
  ticketProposed: same,
  worktreeMade: (worker) => ({ ...worker, prepared: true }),
  workerSeated: same,
  stepAsked: (worker, { kind, about }) => ({ ...worker, step: { kind, about, queued: true, epoch: null } }),
  stepSent: sent,
  // A turn of a meeting ends now. Any other granted turn goes on until the floor reports its end.
  stepCut: (worker, { epoch }) => {
    if (worker.step !== null && isMeeting(worker.step)) return { ...worker, step: null };
    return epoch === null ? { ...worker, ...again(worker) } : worker;
  },
  stepBegun: begun,
  stepHeard: heard,
  stepOver: over,
  stepPutBack: (worker) => ({ ...worker, ...again(worker) }),
  spent: (worker, used) => (worker.ticket === null ? worker : { ...worker, usage: together(worker.usage, used) }),
  errorCounted: (worker, { errors, retryAt, why }, at) => ({
    ...worker,
    ...again(worker),
    errors,
    errorAt: at,
    retryAt,
    lastError: why,
  }),
  errorExplained: ({ unresumed, ...worker }, { why, unresumed: isUnresumed }) => ({
    ...worker,
    lastError: why,
    ...(isUnresumed === true ? { unresumed: (unresumed ?? 0) + 1 } : {}),
  }),
  errorForgiven: (worker) => ({ ...worker, errors: worker.errors - 1, errorAt: null, retryAt: null }),
  retryDue: (worker) => ({ ...worker, retryAt: null }),
  sessionRenewed: (worker, { retryAt, why }) => ({
    ...worker,
    ...again(worker),
    retryAt,
    renewals: worker.renewals + 1,
    timedOut: true,
    lastError: why,
  }),
  workMeasured: ({ unresumed: _unresumed, ...worker }, { work, unchanged, unfinished }) => ({
    ...withoutHeard(worker),
    ...(worker.meeting === undefined ? {} : { meeting: { ...worker.meeting, turns: worker.meeting.turns + 1 } }),
    work,
    unchanged,
    unfinished,
    // Work that changed during a passed review is tested again.
    next: worker.next === 'recheck' && worker.work?.tip !== work.tip ? 'test' : null,
    step: null,
    errors: 0,
    timedOut: false,
  }),
  tested: (worker) => ({ ...worker, next: null }),
  reviewDue: (worker, { question }) => ({
    ...worker,
    next: 'review',
    review: { ...(worker.review ?? NO_REVIEW), question },
  }),
  reviewBegun: (worker, { review: id }) =>
    changeReview(worker, (review) => ({ ...review, id, number: review.number + 1 })),
  reviewOver: (worker, { passed, why, tree }) => ({
    ...changeReview(worker, (review) =>
      passed
        ? { ...review, id: null, passed: tree }
        : { ...review, id: null, question: { for: 'review' as const, why } },
    ),
    next: 'recheck',
  }),
  reviewCut: (worker) => ({ ...changeReview(worker, (review) => ({ ...review, id: null })), next: null }),
  waited: ({ landsAt: _landsAt, held, ...worker }, { for: reason, why, step }, at) => ({
    ...worker,
    ...(reason === 'held' ? {} : defined({ held })),
    waiting: { for: reason, why, since: at, ...defined({ step }) },
    step: null,
  }),
  waitOver: answered,
  stepsAdded: (worker, { maxSteps }) => ({ ...worker, maxSteps }),
  voted: (worker, { type: _type, worker: _worker, ...vote }) => ({ ...worker, votes: [...(worker.votes ?? []), vote] }),
  votesVoided: ({ votes: _votes, ...worker }) => worker,
  mergeAsked: ({ landsAt: _landsAt, held: _held, ...worker }, { at }) => ({
    ...worker,
    next: 'merge',
    ...defined({ landsAt: at }),
  }),
  mergeDue: ({ landsAt: _landsAt, ...worker }) => worker,
  mergeHeld: (worker, { by }) => ({ ...worker, held: by }),
  mergeStarted: same,
  mergeDropped: same,
  conflicted: (worker, { round }) => ({ ...worker, conflicts: round }),
  meetingCalled: (worker, { type: _type, worker: _worker, ...meeting }, at) => ({
    ...worker,
    meeting: { ...meeting, at, turns: 0 },
  }),
  agreed: ({ meeting, ...worker }, { text: agreed }) => {
    if (meeting === undefined) throw new Error(`impossible: ${worker.name} agrees in no meeting`);
    return { ...worker, meeting: { ...meeting, agreed } };
  },
  meetingOver: ({ meeting, met = [], ...worker }) => ({
    ...worker,
    step: null,
    met: meeting === undefined ? met : [...met, { ticket: meeting.ticket, otherWorker: meeting.otherWorker }],
  }),
  merged: (worker) => ({ ...worker, next: null }),
  pullOpened: ({ pull, ...worker }, { tip, head, number, url }) => {
    const before = pull?.number === number ? pull : { rounds: 0, told: [] };
    return { ...worker, pull: { rounds: before.rounds, told: before.told, number, url, tip, head } };
  },
  pullReturned: ({ pull, ...worker }, { round: rounds, told }) => {
    if (pull === undefined) throw new Error(`impossible: ${worker.name} has no pull request`);
    return { ...worker, pull: { ...pull, rounds, told: [...new Set([...pull.told, ...told])] } };
  },
  pullClosed: ({ pull: _pull, ...worker }) => worker,
  leaving: ({ landsAt: _landsAt, meeting: _meeting, ...worker }, { why, words }) => ({
    ...worker,
    step: null,
    waiting: null,
    retryAt: null,
    next: null,
    leaving: { why, words },
  }),
  removalAsked: ({ left, ...worker }) => (left === undefined ? worker : { ...worker, left: { ...left, due: true } }),
  worktreeCleared: ({ left, ...worker }, { ticket: id, stays }) => {
    const { ticket } = worker;
    if (stays === true && ticket !== null) {
      const { session, worktree, branch } = ticket;
      return { ...worker, left: { id, session, worktree, branch } };
    }
    return { ...worker, ...defined({ left: left?.id === id ? undefined : left }) };
  },
};

function workerAfter<T extends WorkerFact['type']>(
  type: T,
  worker: Worker,
  { fact, at }: { readonly fact: CrewFactOf<T>; readonly at: Instant },
): Worker {
  return EVOLUTION[type](worker, fact, at);
}

function withoutHeard({ heard: known = [], telling = 0, ...worker }: Worker): Worker {
  const left = known.slice(telling);
  return left.length === 0 ? worker : { ...worker, heard: left };
}

const NO_REVIEW: NonNullable<Worker['review']> = { number: 0, id: null, passed: null, question: null };

function changeReview(
  worker: Worker,
  change: (review: NonNullable<Worker['review']>) => NonNullable<Worker['review']>,
): Worker {
  if (worker.review === undefined) throw new Error(`impossible: the work of ${worker.name} is not reviewed`);
  return { ...worker, review: change(worker.review) };
}

function answered(worker: Worker, { choice, unaccepted }: CrewFactOf<'waitOver'>): Worker {
  const { waiting, usage, work } = worker;
  return {
    ...worker,
    waiting: null,
    unchanged: 0,
    ...(waiting?.for === 'budget' ? { budgetFrom: usage.costMicros } : {}),
    ...(choice === 'merge' && unaccepted !== true && work !== null ? { accepted: work.tip } : {}),
  };
}

/** Returns the worker's step as queued again, without a turn. The step is not counted any more. */
function again({ step, stepCount }: Worker): Pick<Worker, 'step' | 'stepCount'> {
  if (step === null) return { step, stepCount };
  const { kind, about, epoch } = step;
  const isCounted = epoch !== null && !isMeeting(step);
  return { step: { kind, about, queued: true, epoch: null }, stepCount: isCounted ? stepCount - 1 : stepCount };
}

const TELLS_NOTES: ReadonlySet<WorkerStep['kind']> = new Set(['init', 'step']);

function sent(worker: Worker): Worker {
  const { step } = worker;
  if (step === null) throw new Error(`impossible: ${worker.name} has no step to ask for`);
  const { queued: _queued, ...promptedStep } = step;
  // A step that was put back can have more discoveries than one prompt tells.
  const telling = TELLS_NOTES.has(step.kind) ? worker.heard?.slice(0, MOST_HEARD).length : 0;
  return { ...worker, step: promptedStep, ...defined({ telling }) };
}

function moved(worker: Worker, { from, to }: CrewFactOf<'workerMoved'>): Worker {
  if (worker.status !== from || !isTransition(from, to))
    throw new Error(`impossible: worker ${worker.name} moves from ${from} to ${to} while it is ${worker.status}`);
  switch (to) {
    case 'idle':
      return idleWorker(worker);
    case 'done':
      return { ...worker, status: to, step: null, next: 'test' };
    case 'working': {
      const { landsAt: _landsAt, ...rest } = worker;
      return { ...rest, status: to, next: null };
    }
    case 'stuck': {
      const { meeting: _meeting, ...rest } = worker;
      return { ...rest, status: to, step: null };
    }
    default:
      return { ...worker, status: to };
  }
}

function begun(worker: Worker, { epoch }: CrewFactOf<'stepBegun'>, at: Instant): Worker {
  const { step } = worker;
  if (step === null) throw new Error(`impossible: ${worker.name} begins a step that nobody asked for`);
  const { kind, about } = step;
  const stepCount = worker.stepCount + (step.epoch === null && !isMeeting(step) ? 1 : 0);
  return { ...worker, stepCount, lastStepAt: at, step: { kind, about, epoch } };
}

function heard(worker: Worker, { signalled, broken }: CrewFactOf<'stepHeard'>): Worker {
  const { step } = worker;
  if (step === null) throw new Error(`impossible: ${worker.name} says something in no step`);
  const { kind, about, epoch } = step;
  const signs = { ...(signalled ? { signalled: true as const } : {}), ...(broken === undefined ? {} : { broken }) };
  return { ...worker, step: { kind, about, epoch, ...signs } };
}

function over(worker: Worker, { epoch }: CrewFactOf<'stepOver'>): Worker {
  const { step } = worker;
  if (step === null || step.epoch !== epoch)
    throw new Error(`impossible: ${worker.name} ends a step that is not its own`);
  return { ...worker, step: { ...step, over: true } };
}

type Usage = Worker['usage'];

function together(one: Usage, other: Usage): Usage {
  return {
    input: one.input + other.input,
    output: one.output + other.output,
    costMicros: one.costMicros + other.costMicros,
  };
}
