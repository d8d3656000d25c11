import type { MachineDecision } from '../../engine/machine.ts';
import { defined } from '../../lib/defined.ts';
import type { Instant } from '../../lib/time.ts';
import { ownLines, signalOfPrimary } from '../../turns/text/review-signals.ts';
import { withFullStop } from '../../turns/text/words.ts';
import {
  CHOICES_FOR,
  MOST_CONFLICTS,
  MOST_LOST,
  MOST_PROPOSALS,
  MOST_PULL_ROUNDS,
  MOST_UNRESUMED,
  STUCK_AT,
  budgetLeft,
  budgetUsed,
  stepBackoffMs,
  findApproval,
  findProposal,
  findWorker,
  ticketMadeOf,
  isMeeting,
  isStepping,
  isTicketBudgetUsed,
  isTransition,
  jobOf,
  meetingEnd,
} from './crew.ts';
import type {
  Crew,
  CrewSettings,
  TicketReply,
  PlannedStep,
  WorkerQuestion,
  WorkerWait,
  WorktreeState,
  Worker,
  WorkerStatus,
  WorkerStep,
} from './crew.ts';
import type { CrewCommand, CrewCommandOf, CrewFact, CrewFactOf, CrewRefusal } from './crew-events.ts';
import { evolveCrew } from './crew-evolve.ts';
import { limitIn } from '../provider-limits.ts';
import { agreedIn, agreedWords, notesIn } from './prompts.ts';
import { afterQuiet, landingOf } from './merge-window.ts';

/** The signal words of a crew. Workers signal with `done`; reviews use all three. */
export const CREW_SIGNALS = { done: 'DONE', pass: 'PASS', fail: 'FAIL' };

/** Decides a command. Returns the facts and the state after them, or a refusal that changes nothing. */
export function decideCrew(
  crew: Crew,
  command: CrewCommand,
  at: Instant,
): MachineDecision<CrewFact, CrewRefusal, Crew> {
  const decision = new CrewDecision(crew, at);
  const refusal = carryOut(command.type, command, decision);
  if (refusal !== null) return { ok: false, refusal, facts: [] };
  sendSteps(decision);
  return { ok: true, facts: decision.facts, state: decision.crew };
}

type Deciders = {
  readonly [T in CrewCommand['type']]: (decision: CrewDecision, command: CrewCommandOf<T>) => CrewRefusal | null;
};

const DECIDERS: Deciders = {
  CONFIGURE: configure,
  SPAWN: spawn,
  RUN: run,
  STOP: stop,
  BASE: (decision, { since, tip, verdict, why }) =>
    (decision.crew.base?.tip ?? null) === since
      ? decision.record({ type: 'baseTested', tip, verdict, why })
      : 'BASE_OUTDATED',
  BASE_CARRIED: (decision, { from, to }) => {
    const { base } = decision.crew;
    return base?.tip === from ? decision.record({ type: 'baseTested', ...base, tip: to }) : 'UNCHANGED';
  },
  ACCEPT_BASE: acceptBase,
  ASK: (decision, { type: _type, ...approval }) =>
    findApproval(decision.crew, approval) === undefined
      ? decision.record({ type: 'approvalAsked', ...approval })
      : 'UNCHANGED',
  APPROVE: approve,
  ASSIGN: assign,
  PREPARED: prepared,
  SEATED: seated,
  UNSTARTED: (decision, { worker, ticket, why }) =>
    decision.of(worker, (found) => (holds(found, ticket) ? decision.leave(found, 'unstarted', why) : 'UNCHANGED')),
  GRANTED: granted,
  SAID: said,
  ENDED: ended,
  SPENT: (decision, { type: _type, ...used }) =>
    decision.of(used.worker, () => decision.record({ type: 'spent', ...used })),
  CAUSE: explained,
  MEASURED: measured,
  TESTED: tested,
  REVIEWING: reviewing,
  REVIEWED: reviewed,
  MERGE_STARTED: mergeStarted,
  MERGED: merged,
  CONFLICT: conflict,
  NOTED: (decision, { worker, ticket }) =>
    decision.of(worker, (found) => {
      const isDue = holds(found, ticket) && jobOf(decision.crew, found) === 'note';
      return isDue ? endMeeting(decision, found, '') : 'UNCHANGED';
    }),
  MERGED_RED: mergedRed,
  REFUSED: refused,
  PULLED: pulled,
  PULL_RETURNED: pullReturned,
  PULL_MERGED: pullMerged,
  PULL_CLOSED: pullClosed,
  MOVED: (decision, { worker }) => decision.merging(worker, () => decision.drop(worker, 'main moved meanwhile')),
  CLEARED: cleared,
  LOST: lost,
  KILL: kill,
  CLEANUP: (decision, { worker, by }) =>
    decision.of(worker, (found) => {
      const { merging } = decision.crew;
      if (merging?.worker === found.name && merging.lands === true) return 'MERGE_UNDER_WAY';
      if (canLeave(found)) return decision.leave(found, 'removed', `its worktree was removed by ${by}`);
      if (found.left === undefined || jobOf(decision.crew, found) === 'clear') return 'UNCHANGED';
      return decision.record({ type: 'removalAsked', worker: found.name, by });
    }),
  RETRY: retry,
  MERGE: mergeNow,
  ANSWER: answer,
  HOLD: hold,
  PERSON_WROTE: personWrote,
  PAUSE: pause,
  KEPT_DROPPED: (decision, { ref }) =>
    decision.crew.kept.some((each) => each.ref === ref) ? decision.record({ type: 'keptDropped', ref }) : 'UNCHANGED',
  PROPOSE: propose,
  PROPOSE_MESSAGE: proposeMessage,
  REPLY: replied,
  REPLY_READ: replyRead,
  ADMITTED: (decision, { type: _type, ...admitted }) =>
    findProposal(decision.crew, admitted.proposal) === undefined
      ? 'NO_PROPOSAL'
      : decision.record({ type: 'proposalAdmitted', ...admitted }),
  DROP: (decision, { type: _type, ...dropped }) =>
    findProposal(decision.crew, dropped.proposal) === undefined
      ? 'NO_PROPOSAL'
      : decision.record({ type: 'proposalDropped', ...dropped }),
  NOTE: (decision, { type: _type, ...note }) => decision.record({ type: 'noted', ...note }),
  TICK: tick,
};

function carryOut<T extends CrewCommand['type']>(
  type: T,
  command: CrewCommandOf<T>,
  decision: CrewDecision,
): CrewRefusal | null {
  return DECIDERS[type](decision, command);
}

class CrewDecision {
  readonly facts: CrewFact[] = [];
  readonly at: Instant;
  crew: Crew;

  constructor(crew: Crew, at: Instant) {
    this.crew = crew;
    this.at = at;
  }

  get settings(): CrewSettings {
    const { settings, key } = this.crew;
    if (settings === null) throw new Error(`impossible: crew ${key} has no settings`);
    return settings;
  }

  record(fact: CrewFact): null {
    this.facts.push(fact);
    this.crew = evolveCrew(this.crew, fact, this.at);
    return null;
  }

  now({ name }: Pick<Worker, 'name'>): Worker {
    const worker = findWorker(this.crew, name);
    if (worker === undefined) throw new Error(`impossible: crew ${this.crew.key} lost the worker ${name}`);
    return worker;
  }

  of(name: string, then: (worker: Worker) => CrewRefusal | null): CrewRefusal | null {
    const worker = findWorker(this.crew, name);
    return worker === undefined ? 'NO_WORKER' : then(worker);
  }

  merging(name: string, then: (worker: Worker) => CrewRefusal | null): CrewRefusal | null {
    return this.of(name, (worker) => (this.crew.merging?.worker === worker.name ? then(worker) : 'NOT_MERGING'));
  }

  move(worker: Pick<Worker, 'name'>, to: WorkerStatus, trigger: string): void {
    const { name, status: from } = this.now(worker);
    if (from === to) return;
    if (!isTransition(from, to)) throw new Error(`impossible: worker ${name} moves from ${from} to ${to}`);
    this.record({ type: 'workerMoved', worker: name, from, to, trigger });
  }

  ask({ name }: Pick<Worker, 'name'>, kind: WorkerStep['kind'], about = ''): null {
    return this.record({ type: 'stepAsked', worker: name, kind, about });
  }

  wait({ name }: Pick<Worker, 'name'>, reason: WorkerWait, why: string, step?: PlannedStep): null {
    const after = this.endMeeting(name, 'people are asked') ?? step;
    return this.record({ type: 'waited', worker: name, for: reason, why, ...defined({ step: after }) });
  }

  /** Ends an open meeting. Returns the step that resolves the conflict; `undefined` without a meeting. */
  endMeeting(name: string, why: string): PlannedStep | undefined {
    const { ticket, meeting } = this.now({ name });
    if (meeting === undefined || ticket === null) return undefined;
    this.record({ type: 'meetingOver', worker: name, agreed: meeting.agreed ?? '', why });
    return { kind: 'conflict', about: `${meeting.conflict}${agreedWords(ticket, meeting)}` };
  }

  /** Lets the worker leave its ticket, and drops its merge. The worker is idle after the command `CLEARED`. */
  leave({ name }: Pick<Worker, 'name'>, why: CrewFactOf<'leaving'>['why'], words: string): null {
    if (this.crew.merging?.worker === name) this.drop(name, words);
    const id = this.now({ name }).ticket?.id;
    const times = (this.crew.lost ?? []).filter((each) => each === id).length + 1;
    const again = `. It was reset ${times} times: /crew assign ${name} ${id} starts it again`;
    const how = why === 'lost' && times >= MOST_LOST ? again : '';
    return this.record({ type: 'leaving', worker: name, why, words: `${words}${how}` });
  }

  measured({ name }: Pick<Worker, 'name'>, work: Omit<CrewFactOf<'workMeasured'>, 'type' | 'worker'>): void {
    const { votes = [] } = this.now({ name });
    this.record({ type: 'workMeasured', worker: name, ...work });
    const [vote] = votes;
    if (vote === undefined || vote.tip === work.work.tip) return;
    this.record({ type: 'votesVoided', worker: name, tip: vote.tip, votes: votes.length });
  }

  drop(worker: string, why: string): null {
    return this.record({ type: 'mergeDropped', worker, why });
  }
}

function configure(decision: CrewDecision, { settings }: CrewCommandOf<'CONFIGURE'>): CrewRefusal | null {
  if (JSON.stringify(decision.crew.settings) === JSON.stringify(settings)) return 'UNCHANGED';
  return decision.record({ type: 'crewConfigured', settings });
}

function spawn(decision: CrewDecision, { workers }: CrewCommandOf<'SPAWN'>): CrewRefusal | null {
  if (workers.some(({ name }) => findWorker(decision.crew, name) !== undefined)) return 'NAME_TAKEN';
  for (const { name, ...more } of workers) decision.record({ type: 'workerAdded', worker: name, ...more });
  return workers.length === 0 ? 'UNCHANGED' : null;
}

function run(decision: CrewDecision, { by, askedBy }: CrewCommandOf<'RUN'>): CrewRefusal | null {
  const { running, paused } = decision.crew;
  const isOutOfBudget = paused?.budget === true;
  if (running && !isOutOfBudget) return 'UNCHANGED';
  if (isOutOfBudget) decision.record({ type: 'pauseOver' });
  return decision.record({ type: 'runnerSet', running: true, by, ...(askedBy === undefined ? {} : { askedBy }) });
}

function stop(decision: CrewDecision, { by, now }: CrewCommandOf<'STOP'>): CrewRefusal | null {
  if (decision.crew.running) decision.record({ type: 'runnerSet', running: false, by });
  const cut = now === true ? decision.crew.workers.filter(isStepping) : [];
  for (const { name, step } of cut) decision.record({ type: 'stepCut', worker: name, epoch: step?.epoch ?? null, by });
  return decision.facts.length === 0 ? 'UNCHANGED' : null;
}

function sendSteps(decision: CrewDecision): void {
  const { running, paused, workers, settings } = decision.crew;
  if (!running || paused !== null || settings === null) return;
  if (workers.every(({ step }) => step?.queued !== true)) return;
  const used = budgetUsed(decision.crew, decision.at);
  if (used !== null) return stopForBudget(decision, used);
  let room = settings.maxWorkers - workers.filter(isStepping).length;
  for (const worker of workers) {
    const { name, step, retryAt } = worker;
    if (step?.queued !== true || retryAt !== null || room <= 0) continue;
    if (worker.meeting?.agreed !== undefined) {
      // The meeting has an agreement, although its last turn did not complete. No other turn is needed.
      decision.record({ type: 'stepCut', worker: name, epoch: null, by: '' });
      continue;
    }
    const left = budgetLeft(decision.crew, worker, decision.at);
    decision.record({ type: 'stepSent', worker: name, ...(left === '' ? {} : { left }) });
    room -= 1;
  }
}

function stopForBudget(decision: CrewDecision, { why, until }: NonNullable<ReturnType<typeof budgetUsed>>): void {
  const words = `${why}; /crew run allows as much again`;
  if (until !== null) return void decision.record({ type: 'paused', until, why: words, budget: true });
  decision.record({ type: 'runnerSet', running: false, by: '' });
  decision.record({ type: 'noted', text: `The crew stops: ${words}` });
}

function acceptBase(decision: CrewDecision, { by }: CrewCommandOf<'ACCEPT_BASE'>): CrewRefusal | null {
  const { base } = decision.crew;
  if (base === null || (base.verdict !== 'red' && base.verdict !== 'none')) return 'NOT_WAITING';
  return decision.record({ type: 'baseTested', tip: base.tip, verdict: 'accepted', why: by });
}

function approve(decision: CrewDecision, { type: _type, ...decided }: CrewCommandOf<'APPROVE'>): CrewRefusal | null {
  const approval = findApproval(decision.crew, decided);
  if (approval === undefined) return 'NO_APPROVAL';
  return approval.allowed === decided.allowed ? 'UNCHANGED' : decision.record({ type: 'approvalGiven', ...decided });
}

function assign(decision: CrewDecision, { worker, ticket, deps = [] }: CrewCommandOf<'ASSIGN'>): CrewRefusal | null {
  const { workers, finished, base, running, asked: requestedTickets = [], replies = [] } = decision.crew;
  return decision.of(worker, (found) => {
    if (found.status !== 'idle' || found.leaving !== null) return 'NOT_IDLE';
    if (!running) return 'NOT_RUNNING';
    if (base === null) return 'BASE_UNTESTED';
    if (base.verdict === 'red') return 'BASE_RED';
    if (workers.some((other) => other.ticket?.id === ticket.id || other.ticket?.slot === ticket.slot))
      return 'TICKET_TAKEN';
    if (finished.some(({ id }) => id === ticket.id)) return 'TICKET_FINISHED';
    const { message, after = [] } = requestedTickets.find((each) => each.ticket === ticket.id) ?? {};
    const hasOpenReply = message !== undefined && replies.some(({ about }) => about === message);
    if (hasOpenReply || after.some(({ id }) => !deps.includes(id))) return 'TICKET_WAITS';
    const { maxSteps } = decision.settings;
    decision.record({ type: 'ticketAssigned', worker: found.name, ticket: { ...ticket, at: decision.at }, maxSteps });
    decision.move(found, 'ready', 'a ticket was assigned');
    return null;
  });
}

function holds({ ticket, leaving }: Worker, id: string): boolean {
  return ticket?.id === id && leaving === null;
}

function prepared(decision: CrewDecision, { worker, ticket }: CrewCommandOf<'PREPARED'>): CrewRefusal | null {
  return decision.of(worker, (found) => {
    if (!holds(found, ticket) || jobOf(decision.crew, found) !== 'prepare') return 'UNCHANGED';
    return decision.record({ type: 'worktreeMade', worker: found.name });
  });
}

function seated(decision: CrewDecision, { worker, ticket }: CrewCommandOf<'SEATED'>): CrewRefusal | null {
  return decision.of(worker, (found) => {
    if (holds(found, ticket) && found.meeting !== undefined && jobOf(decision.crew, found) === 'seat')
      return nextTurn(decision, found, found.meeting);
    if (!holds(found, ticket) || found.status !== 'ready' || !found.prepared || found.step !== null) return 'UNCHANGED';
    decision.record({ type: 'workerSeated', worker: found.name });
    return next(decision, found, 'init');
  });
}

/** Queues a step. When the budget of the ticket is used up, ends an open meeting, and asks people first. */
function next(decision: CrewDecision, { name }: Pick<Worker, 'name'>, kind: WorkerStep['kind'], about = ''): null {
  const worker = decision.now({ name });
  if (!isTicketBudgetUsed(decision.crew, worker)) return decision.ask(worker, kind, about);
  if (worker.meeting !== undefined) return endMeeting(decision, worker, 'people are asked');
  return decision.wait(worker, 'budget', 'the budget of the ticket is used up', { kind, about });
}

function goOn(decision: CrewDecision, worker: Worker, about = ''): null {
  return next(decision, worker, worker.stepCount === 0 ? 'init' : 'step', about);
}

function granted(decision: CrewDecision, { worker, epoch }: CrewCommandOf<'GRANTED'>): CrewRefusal | null {
  return decision.of(worker, (found) => {
    if (!isStepping(found)) return 'NOT_ITS_STEP';
    if (found.status === 'ready') decision.move(found, 'working', 'the first step began');
    return decision.record({ type: 'stepBegun', worker: found.name, epoch });
  });
}

function isItsStep({ step }: Worker, epoch: number): boolean {
  return step !== null && step.over === undefined && step.epoch === epoch;
}

function said(decision: CrewDecision, { worker, epoch, text }: CrewCommandOf<'SAID'>): CrewRefusal | null {
  return decision.of(worker, (found) => {
    if (!isItsStep(found, epoch)) return 'NOT_ITS_STEP';
    const lines = ownLines(text);
    const isTurn = found.meeting !== undefined;
    const { signal = null, broken } = isTurn
      ? {}
      : signalOfPrimary(lines, { ...CREW_SIGNALS, fail: CREW_SIGNALS.done });
    const heard = { worker: found.name, epoch, signalled: signal !== null };
    decision.record({ type: 'stepHeard', ...heard, ...(broken === undefined ? {} : { broken }) });
    // Only the worker that resolves the conflict can write the agreement.
    const agreed = found.step?.kind === 'meet' ? agreedIn(lines) : null;
    if (agreed !== null) decision.record({ type: 'agreed', worker: found.name, text: agreed });
    if (!isTurn) for (const note of notesIn(lines)) discover(decision, found, note);
    return null;
  });
}

function discover(decision: CrewDecision, { name, ticket }: Worker, text: string): void {
  const { discoveries = [] } = decision.crew;
  if (ticket === null || discoveries.some((discovery) => discovery.ticket === ticket.id && discovery.text === text))
    return;
  decision.record({ type: 'discovered', worker: name, ticket: ticket.id, text });
}

function ended(decision: CrewDecision, { worker, ...end }: CrewCommandOf<'ENDED'>): CrewRefusal | null {
  return decision.of(worker, (found) => {
    const { epoch, how, why } = end;
    if (!isItsStep(found, epoch)) return 'NOT_ITS_STEP';
    const isGood = how === 'completed' || how === 'stopped';
    if (!isGood && found.step?.kind === 'side')
      return endMeeting(decision, found, `the turn for ${found.meeting?.ticket} failed: ${why}`);
    endStep(decision, found, end);
    return isGood ? null : giveUp(decision, decision.now(found), why);
  });
}

function endStep(
  decision: CrewDecision,
  worker: Worker,
  { epoch, how, why }: Pick<CrewCommandOf<'ENDED'>, 'epoch' | 'how' | 'why'>,
): null {
  switch (how) {
    case 'completed':
      return decision.record({ type: 'stepOver', worker: worker.name, epoch });
    case 'stopped':
      return decision.record({ type: 'stepPutBack', worker: worker.name, why });
    case 'timedOut':
      return worker.timedOut ? failed(decision, worker, why) : renew(decision, worker, why);
    case 'failed':
      return failed(decision, worker, why);
  }
}

const SESSION_IN_USE = /session\b.*\b(?:in use|already)/i;
/** Matches what agents say about a session that they cannot resume. */
const SESSION_LOST =
  /\bno (?:conversation|(?:saved )?session)s?\b.*\bfound\b|\b(?:session|conversation)\b.*\b(?:not found|does not exist|(?:cannot|could not) be (?:resumed|loaded))\b/i;

function renew(decision: CrewDecision, { name }: Worker, why: string): null {
  return decision.record({ type: 'sessionRenewed', worker: name, retryAt: decision.at + RENEWAL_MS, why });
}

const RENEWAL_MS = 1_000;

function failed(decision: CrewDecision, worker: Worker, why: string): null {
  const { name } = worker;
  const errors = worker.errors + 1;
  const isStuck = errors % STUCK_AT === 0 && decision.now(worker).status === 'working';
  const retryAt = isStuck ? null : decision.at + stepBackoffMs(errors);
  decision.record({ type: 'errorCounted', worker: name, errors, retryAt, why });
  if (isStuck) decision.move(worker, 'stuck', `${errors} errors in a row: ${why}`);
  return null;
}

function explained(decision: CrewDecision, { worker, why }: CrewCommandOf<'CAUSE'>): CrewRefusal | null {
  return decision.of(worker, (found) => {
    if (found.errorAt !== decision.at) return 'UNCHANGED';
    const until = limitIn(why, { at: decision.at, limits: decision.crew.limits });
    const isLast = found.timedOut && found.status === 'stuck';
    if (until === null && (isLast || !SESSION_IN_USE.test(why))) return errorOf(decision, found, why);
    // After a replaced session, another session in use counts as an error. Until the worker is stuck, it is replaced.
    if (until !== null || !found.timedOut) forgive(decision, found);
    if (until === null) return renew(decision, decision.now(found), why);
    pause(decision, { until, why });
    return null;
  });
}

function errorOf(decision: CrewDecision, { name }: Worker, why: string): null {
  const unresumed = SESSION_LOST.test(why) ? { unresumed: true as const } : {};
  decision.record({ type: 'errorExplained', worker: name, why, ...unresumed });
  const now = decision.now({ name });
  if ((now.unresumed ?? 0) < MOST_UNRESUMED || !canLeave(now)) return null;
  return decision.leave(now, 'lost', `its session could not be resumed twice: ${why}`);
}

function pause(
  decision: CrewDecision,
  { until, why }: Pick<CrewCommandOf<'PAUSE'>, 'until' | 'why'>,
): CrewRefusal | null {
  const { paused } = decision.crew;
  if (until <= decision.at || (paused !== null && paused.until >= until)) return 'UNCHANGED';
  return decision.record({ type: 'paused', until, why });
}

function forgive(decision: CrewDecision, worker: Worker): void {
  decision.record({ type: 'errorForgiven', worker: worker.name });
  if (worker.status !== 'stuck') return;
  decision.move(worker, 'working', 'the last error was not its own');
  goOn(decision, worker);
}

function measured(decision: CrewDecision, { worker, epoch, work }: CrewCommandOf<'MEASURED'>): CrewRefusal | null {
  return decision.of(worker, (found) => {
    const { step, leaving } = found;
    if (epoch === null) return rechecked(decision, found, work);
    if (step?.over !== true || step.epoch !== epoch || leaving !== null) return 'NOT_ITS_STEP';
    const isFresh = found.work === null && work.tip === found.ticket?.base && !work.dirty;
    const isSame = isFresh || (found.work?.tree === work.tree && found.work.tip === work.tip);
    const isTurn = isMeeting(step);
    const unchanged = isTurn ? found.unchanged : isSame ? found.unchanged + 1 : 0;
    const isDone = step.signalled === true && work.unmerged.length === 0;
    const unfinished = !isDone && found.stepCount >= found.maxSteps;
    decision.measured(found, { work, unchanged, unfinished });
    return afterStep(decision, decision.now(found), step, work);
  });
}

function afterStep(decision: CrewDecision, worker: Worker, step: WorkerStep, work: WorktreeState): null {
  const isLast = worker.stepCount >= worker.maxSteps;
  if (work.copy !== undefined) return decision.wait(worker, 'copy', work.copy);
  if (worker.meeting !== undefined) return nextTurn(decision, worker, worker.meeting);
  if (work.unmerged.length > 0 && !isLast)
    return next(decision, worker, 'conflict', `Unresolved conflicts: ${work.unmerged.join(', ')}`);
  if (work.refused !== undefined) {
    const about = `When Conch committed your files, ${work.refused}\nMend the cause.`;
    return red(decision, worker, { kind: 'step', what: work.refused, about });
  }
  if (step.signalled !== true && !isLast) return notDone(decision, worker, step);
  if (work.dirty && step.kind !== 'commit' && !isLast) return next(decision, worker, 'commit');
  if (work.ahead === 0) return nothingDone(decision, worker, step, isLast);
  decision.move(worker, 'done', isLast && step.signalled !== true ? 'the last step was used' : 'DONE');
  return null;
}

function notDone(decision: CrewDecision, worker: Worker, step: WorkerStep): null {
  const { patience } = decision.settings;
  if (worker.unchanged >= patience)
    return decision.wait(worker, 'progress', `${patience} steps in a row changed no file`);
  return goOn(decision, worker, step.broken === undefined ? '' : `Not a signal: ${step.broken}.`);
}

function nothingDone(decision: CrewDecision, worker: Worker, step: WorkerStep, isLast: boolean): null {
  const how = step.signalled === true ? 'it says that it is done' : 'its steps are used up';
  if (step.kind === 'nothing' || isLast) return decision.wait(worker, 'nothing', `${how}, and nothing was committed`);
  return next(decision, worker, 'nothing');
}

function tested(decision: CrewDecision, command: CrewCommandOf<'TESTED'>): CrewRefusal | null {
  const { worker, tip, verdict, output, weakened } = command;
  return decision.of(worker, (found) => {
    if (!isTestDue(found)) return 'INVALID_TRANSITION';
    if (found.work?.tip !== tip) return 'UNCHANGED';
    decision.record({ type: 'tested', worker: found.name, tip, verdict, output });
    if (verdict === 'red') return red(decision, found, { ...TESTS_RED, about: output });
    const newQuestion = questionBefore(decision, found, { verdict, weakened });
    const question = found.accepted === tip ? null : newQuestion;
    const isReviewed = decision.settings.review === undefined || found.review?.passed === found.work.tree;
    // People decide about unfinished work before a review of it.
    if (isReviewed || found.accepted === tip || question?.for === 'unfinished')
      return conclude(decision, found, question);
    return decision.record({ type: 'reviewDue', worker: found.name, question });
  });
}

function isTestDue({ status, next: due, leaving, waiting }: Worker): boolean {
  return status === 'done' && due === 'test' && leaving === null && waiting === null;
}

function conclude(decision: CrewDecision, worker: Worker, question: WorkerQuestion | null): null {
  const { held } = decision.now(worker);
  if (held !== undefined) return decision.wait(worker, 'held', heldWords(held, question?.why));
  if (question !== null) return decision.wait(worker, question.for, question.why);
  return land(decision, worker);
}

function land(decision: CrewDecision, { name }: Worker): null {
  const at = landingOf(decision.at, decision.settings.window);
  return decision.record({ type: 'mergeAsked', worker: name, ...(at === null ? {} : { at }) });
}

function heldWords(by: string, why: string | undefined): string {
  return `held by ${by}${why === undefined ? '' : `; ${why}`}`;
}

function hold(decision: CrewDecision, { worker, by }: CrewCommandOf<'HOLD'>): CrewRefusal | null {
  return decision.of(worker, (found) => {
    const { waiting, held, next: due, status, ticket, leaving, pull } = found;
    if (decision.crew.merging?.worker === found.name) return 'MERGE_UNDER_WAY';
    if (ticket === null || leaving !== null || pull !== undefined) return 'NOTHING_TO_HOLD';
    if (held !== undefined || waiting?.for === 'held') return 'UNCHANGED';
    const offersMerge = waiting !== null && CHOICES_FOR[waiting.for].includes('merge');
    if (status === 'done' && (offersMerge || (waiting === null && due === 'merge')))
      return decision.wait(found, 'held', heldWords(by, waiting?.why));
    return decision.record({ type: 'mergeHeld', worker: found.name, by });
  });
}

/** Begins an open merge window anew when a person writes in the thread of the ticket. */
function personWrote(decision: CrewDecision, { worker }: CrewCommandOf<'PERSON_WROTE'>): CrewRefusal | null {
  return decision.of(worker, (found) => (found.landsAt === undefined ? 'UNCHANGED' : land(decision, found)));
}

/**
 * Counts a person's vote for the merge of the present commit, once. Returns whether enough people have voted; without
 * `votes` in the settings, counts nothing and returns true. When a commit has enough votes and people are asked about
 * it again, one answer `merge` is enough, also from an earlier voter.
 */
function isVotedFor(decision: CrewDecision, worker: Worker, { by, voter = by }: Person): boolean {
  const { name, work, votes = [] } = worker;
  const { votes: needed = 1 } = decision.settings;
  if (needed === 1) return true;
  if (work === null) throw new Error(`impossible: ${name} has no work to vote for`);
  if (votes.some((vote) => vote.voter === voter)) return votes.length >= needed;
  decision.record({ type: 'voted', worker: name, by, voter, tip: work.tip });
  return votes.length + 1 >= needed;
}

type Person = Pick<CrewCommandOf<'ANSWER'>, 'by' | 'voter'>;

function reviewing(decision: CrewDecision, command: CrewCommandOf<'REVIEWING'>): CrewRefusal | null {
  const { worker, review, tip, work } = command;
  return decision.of(worker, (found) => {
    if (jobOf(decision.crew, found) !== 'review' || found.work?.tip !== tip) return 'INVALID_TRANSITION';
    return decision.record({ type: 'reviewBegun', worker: found.name, review, work });
  });
}

function reviewed(decision: CrewDecision, command: CrewCommandOf<'REVIEWED'>): CrewRefusal | null {
  const { worker, review, passed, why, tree } = command;
  return decision.of(worker, (found) => {
    if (found.review?.id !== review || found.leaving !== null) return 'UNCHANGED';
    // After a failed review, people also read the reason for the question that waited for the end of the review.
    const words = passed || found.review.question === null ? why : `${why}; ${found.review.question.why}`;
    return decision.record({ type: 'reviewOver', worker: found.name, passed, why: words, tree });
  });
}

function rechecked(decision: CrewDecision, worker: Worker, work: WorktreeState): CrewRefusal | null {
  const { next: due, leaving, review } = worker;
  if (due !== 'recheck' || leaving !== null) return 'NOT_ITS_STEP';
  decision.measured(worker, { work, unchanged: 0, unfinished: false });
  if (work.ahead === 0) return decision.wait(worker, 'nothing', 'the review left nothing to merge');
  if (work.unmerged.length > 0)
    return decision.wait(worker, 'review', `the review left conflicts in ${work.unmerged.join(', ')}`);
  if (work.refused !== undefined) return decision.wait(worker, 'refused', `after the review, ${work.refused}`);
  const question = review?.question ?? null;
  const isTestedAgain = question?.for !== 'review' && decision.now(worker).next === 'test';
  return isTestedAgain ? null : conclude(decision, worker, question);
}

/** The question that people decide before a merge; `null` for none. */
function questionBefore(
  { settings }: CrewDecision,
  { unfinished, stepCount, work }: Worker,
  { verdict, weakened }: { readonly verdict: string; readonly weakened: string },
): WorkerQuestion | null {
  const unmerged = work?.unmerged ?? [];
  const untested = verdict === 'none' ? 'no tests were found' : '';
  const conflicts = `its steps are used up, with unresolved conflicts in ${unmerged.join(', ')}`;
  const why = unmerged.length > 0 ? conflicts : `${stepCount} steps were used without DONE`;
  if (unfinished) return { for: 'unfinished', why: [why, weakened, untested].filter((part) => part !== '').join('; ') };
  if (weakened !== '') return { for: 'weakened', why: weakened };
  if (untested !== '') return { for: 'untested', why: untested };
  return settings.merge === 'ask' ? { for: 'merge', why: 'the tests are green' } : null;
}

/** A problem that a worker has to solve. `what`: the problem, for people. `about`: the text for the worker. */
type Problem = { readonly kind: WorkerStep['kind']; readonly what: string; readonly about: string };
const TESTS_RED = { kind: 'test', what: 'the tests are red' } as const;

/**
 * Gives a problem back to the worker. Asks people when the worker's steps or the ticket's budget are used up, or the
 * worker makes no progress.
 */
function red(decision: CrewDecision, worker: Worker, { kind, what, about }: Problem): null {
  const { stepCount, maxSteps, unchanged } = decision.now(worker);
  const step = { kind, about };
  if (unchanged >= decision.settings.patience)
    return decision.wait(worker, 'progress', `${unchanged} steps in a row changed no file, and ${what}`, step);
  if (stepCount >= maxSteps) return decision.wait(worker, 'red', `${stepCount} steps are used, and ${what}`, step);
  decision.move(worker, 'working', what);
  return next(decision, worker, kind, about);
}

function mergeStarted(decision: CrewDecision, command: CrewCommandOf<'MERGE_STARTED'>): CrewRefusal | null {
  const { type: _type, worker, ...merge } = command;
  const { tip, main, lands } = merge;
  return decision.of(worker, (found) => {
    const { merging } = decision.crew;
    if (merging !== null && merging.worker !== found.name) return 'MERGE_UNDER_WAY';
    if (found.status !== 'done' || found.next !== 'merge' || found.leaving !== null) return 'INVALID_TRANSITION';
    // Only the commit that was measured last is merged.
    if (found.waiting !== null || found.landsAt !== undefined || found.work?.tip !== tip) return 'INVALID_TRANSITION';
    if (merging?.tip === tip && merging.main === main && merging.lands === lands) return 'UNCHANGED';
    return decision.record({ type: 'mergeStarted', worker: found.name, ...merge });
  });
}

function merged(decision: CrewDecision, { worker, ticket, commit }: CrewCommandOf<'MERGED'>): CrewRefusal | null {
  return decision.merging(worker, (found) => {
    if (found.ticket?.id !== ticket) return 'INVALID_TRANSITION';
    decision.record({ type: 'merged', worker: found.name, ticket, commit });
    return decision.record({ type: 'leaving', worker: found.name, why: 'merged', words: commit });
  });
}

function conflict(decision: CrewDecision, command: CrewCommandOf<'CONFLICT'>): CrewRefusal | null {
  const { worker, tip, files, landed, hunks = '' } = command;
  return decision.of(worker, (found) => {
    const isMerging = decision.crew.merging?.worker === found.name;
    if (!isMerging && !isTestDue(found)) return 'NOT_MERGING';
    if (found.work?.tip !== tip) return 'UNCHANGED';
    const round = found.conflicts + 1;
    if (isMerging) decision.drop(found.name, 'conflict');
    decision.record({ type: 'conflicted', worker: found.name, round, files });
    const about = conflictWords(decision.crew, found, { files, landed });
    if (round > MOST_CONFLICTS) {
      decision.move(found, 'stuck', `${MOST_CONFLICTS} rounds of conflicts: ${about}`);
      return null;
    }
    allowStep(decision, found);
    decision.move(found, 'working', 'the merge met a conflict');
    const side = sideIn(decision.crew, found, command);
    if (side === null) return next(decision, found, 'conflict', about);
    return decision.record({ type: 'meetingCalled', worker: found.name, ...side, hunks, conflict: about });
  });
}

/**
 * Returns the first merged ticket in `sides` that another worker worked on and that had no meeting about the worker's
 * present ticket. `null` for none, or when the crew holds no meetings.
 */
function sideIn({ settings, finished }: Crew, { name, met = [] }: Worker, { sides = [] }: CrewCommandOf<'CONFLICT'>) {
  for (const side of settings?.meetingTurns === undefined ? [] : sides) {
    const by = finished.find(({ id }) => id === side.ticket)?.worker ?? name;
    if (by !== name && !met.some(({ ticket }) => ticket === side.ticket)) return { ...side, otherWorker: by };
  }
  return null;
}

function nextTurn(decision: CrewDecision, worker: Worker, { turns, agreed }: NonNullable<Worker['meeting']>): null {
  if (agreed !== undefined) return null;
  if (turns >= (decision.settings.meetingTurns ?? 0)) return endMeeting(decision, worker, `${turns} turns are used`);
  return next(decision, worker, turns % 2 === 0 ? 'side' : 'meet');
}

function endMeeting(decision: CrewDecision, { name }: Worker, why: string): null {
  const step = decision.endMeeting(name, why);
  return step === undefined ? null : next(decision, { name }, step.kind, step.about);
}

/** Ends a meeting that has no agreement. A meeting with an agreement stays open for the command `NOTED`. */
function giveUp(decision: CrewDecision, worker: Worker, why: string): null {
  return worker.meeting?.agreed === undefined ? endMeeting(decision, worker, why) : null;
}

/**
 * Ends a meeting's turn under way, and the meeting if it has no agreement. `by`: the person who ends the meeting; empty
 * when its time is over.
 */
function closeMeeting(decision: CrewDecision, worker: Worker, by: string): null {
  const { name, step } = worker;
  if (isStepping(worker)) decision.record({ type: 'stepCut', worker: name, epoch: step?.epoch ?? null, by });
  return giveUp(decision, worker, by === '' ? 'its time is over' : `${by} ended it`);
}

/** Allows one more step when all steps are used: a conflict or a pull request needs it, and not the worker. */
function allowStep(decision: CrewDecision, { name, stepCount, maxSteps }: Worker): void {
  if (stepCount >= maxSteps) decision.record({ type: 'stepsAdded', worker: name, maxSteps: stepCount + 1 });
}

function conflictWords(
  crew: Crew,
  { name, ticket }: Worker,
  { files, landed }: { readonly files: readonly string[]; readonly landed: readonly string[] },
): string {
  const own = ticket === null ? '' : `\nYour side: ${ticket.id} ${JSON.stringify(ticket.title)} by ${name}.`;
  const others =
    landed.length === 0 ? '' : `\nThe other side, merged since your branch began: ${sidesOf(crew, landed)}.`;
  return `Files in conflict: ${files.join(', ')}.${own}${others}`;
}

/** Describes commits of main, with the worker of each commit's ticket. Titles are data, so they are quoted. */
function sidesOf({ finished }: Crew, landed: readonly string[]): string {
  return landed
    .map((line) => {
      const [id = '', ...words] = line.split(' ');
      const by = finished.find((each) => each.id === id)?.worker;
      if (by === undefined) return JSON.stringify(line);
      return `${id} ${JSON.stringify(words.join(' ').replace(`Merge ${id}: `, ''))} by ${by}`;
    })
    .join('; ');
}

function mergedRed(
  decision: CrewDecision,
  { worker, output, landed }: CrewCommandOf<'MERGED_RED'>,
): CrewRefusal | null {
  return decision.merging(worker, (found) => {
    const what = 'the setup or the tests of the merged tree failed';
    decision.drop(found.name, what);
    const others = landed.length === 0 ? '' : `Merged since your branch began: ${sidesOf(decision.crew, landed)}.\n`;
    const about = `After a merge with main, the setup or the tests fail. ${others}${output}`;
    return red(decision, found, { kind: 'test', what, about });
  });
}

function refused(decision: CrewDecision, { worker, why, weakened }: CrewCommandOf<'REFUSED'>): CrewRefusal | null {
  return decision.of(worker, (found) => {
    if (found.status !== 'done' || found.leaving !== null) return 'INVALID_TRANSITION';
    if (decision.crew.merging?.worker === found.name) decision.drop(found.name, why);
    return decision.wait(found, weakened === true ? 'weakened' : 'refused', why);
  });
}

/** Whether the results of a pull request count for a worker: its merge is due, and people are not asked. */
function isPulled({ status, next: due, leaving, waiting }: Worker): boolean {
  return status === 'done' && due === 'merge' && leaving === null && waiting === null;
}

function pulled(decision: CrewDecision, command: CrewCommandOf<'PULLED'>): CrewRefusal | null {
  const { type: _type, ...request } = command;
  return decision.of(command.worker, (found) => {
    if (!isPulled(found) || found.work?.tip !== command.tip) return 'INVALID_TRANSITION';
    if (found.pull?.number === command.number && found.pull.tip === command.tip) return 'UNCHANGED';
    return decision.record({ type: 'pullOpened', ...request, worker: found.name });
  });
}

function pullReturned(decision: CrewDecision, command: CrewCommandOf<'PULL_RETURNED'>): CrewRefusal | null {
  const { worker, number, kind, told, about } = command;
  return decision.of(worker, (found) => {
    const { pull } = found;
    if (!isPulled(found) || pull?.number !== number) return 'INVALID_TRANSITION';
    if (told.every((id) => pull.told.includes(id))) return 'UNCHANGED';
    const round = pull.rounds + 1;
    decision.record({ type: 'pullReturned', worker: found.name, number, round, told, about });
    if (round > MOST_PULL_ROUNDS)
      return decision.wait(found, 'pull', `${MOST_PULL_ROUNDS} rounds did not end what is asked of it. ${about}`);
    allowStep(decision, found);
    decision.move(found, 'working', 'its pull request needs more');
    return next(decision, found, kind, about);
  });
}

function pullMerged(decision: CrewDecision, command: CrewCommandOf<'PULL_MERGED'>): CrewRefusal | null {
  const { worker, ticket, number, commit } = command;
  return decision.of(worker, (found) => {
    if (!isPulled(found) || found.ticket?.id !== ticket || found.pull?.number !== number) return 'INVALID_TRANSITION';
    decision.record({ type: 'merged', worker: found.name, ticket, commit, pull: number });
    return decision.leave(found, 'merged', commit);
  });
}

function pullClosed(decision: CrewDecision, { worker, number, why }: CrewCommandOf<'PULL_CLOSED'>): CrewRefusal | null {
  return decision.of(worker, (found) => {
    if (!isPulled(found) || found.pull?.number !== number) return 'INVALID_TRANSITION';
    decision.record({ type: 'pullClosed', worker: found.name, number, why });
    return decision.wait(found, 'refused', why);
  });
}

function cleared(decision: CrewDecision, command: CrewCommandOf<'CLEARED'>): CrewRefusal | null {
  const { worker, ticket, kept: storedRef, branch } = command;
  return decision.of(worker, (found) => {
    const { leaving, left } = found;
    const id = leaving === null ? left?.id : found.ticket?.id;
    if (jobOf(decision.crew, found) !== 'clear' || id !== ticket) return 'UNCHANGED';
    const isRecorded = decision.crew.kept.some(({ ref }) => ref === storedRef);
    const more = { kept: isRecorded ? null : storedRef, ...defined({ branch }) };
    const stays = leaving?.why === 'killed' ? { stays: true as const } : {};
    decision.record({ type: 'worktreeCleared', worker: found.name, ticket, ...more, ...stays });
    if (leaving !== null) decision.move(found, 'idle', leaving.words);
    return null;
  });
}

function canLeave({ status, leaving }: Worker): boolean {
  return leaving === null && status !== 'idle';
}

/**
 * Resets a worker whose worktree is gone or whose ticket was closed. Does not reset a worker that is done, because its
 * work is on its branch. Such a worker asks people when tests, a review or a recheck are due.
 */
function lost(decision: CrewDecision, { worker, why }: CrewCommandOf<'LOST'>): CrewRefusal | null {
  return decision.of(worker, (found) => {
    if (!canLeave(found)) return 'INVALID_TRANSITION';
    if (found.status !== 'done') return decision.leave(found, 'lost', why);
    const job = jobOf(decision.crew, found);
    if (job !== 'test' && job !== 'review' && job !== 'measure') return 'UNCHANGED';
    const { question = null } = (job === 'test' ? undefined : found.review) ?? {};
    return decision.wait(found, 'treeless', question === null ? why : `${why}; ${question.why}`);
  });
}

function kill(decision: CrewDecision, { worker, by }: CrewCommandOf<'KILL'>): CrewRefusal | null {
  return decision.of(worker, (found) => {
    if (found.status !== 'working' && found.status !== 'stuck') return 'INVALID_TRANSITION';
    return found.leaving === null ? decision.leave(found, 'killed', `reset by ${by}`) : 'UNCHANGED';
  });
}

function retry(decision: CrewDecision, { worker, words }: CrewCommandOf<'RETRY'>): CrewRefusal | null {
  return decision.of(worker, (found) => {
    if (found.status !== 'stuck' || found.leaving !== null) return 'INVALID_TRANSITION';
    decision.move(found, 'working', 'a person asked for another try');
    // Without errors, too many conflicts made the worker stuck.
    return found.errors === 0 ? next(decision, found, 'conflict', words) : goOn(decision, found, words);
  });
}

function mergeNow(decision: CrewDecision, { worker, ...person }: CrewCommandOf<'MERGE'>): CrewRefusal | null {
  return decision.of(worker, (found) => {
    if (found.status !== 'done' || found.leaving !== null) return 'INVALID_TRANSITION';
    if (found.waiting !== null) return answer(decision, { ...person, type: 'ANSWER', worker, choice: 'merge' });
    if (decision.settings.votes !== undefined) return 'NOT_WAITING';
    if (found.next === 'test' || found.next === 'recheck') return 'UNTESTED';
    const { id: review = null, question = null } = (found.next === 'review' ? found.review : undefined) ?? {};
    if (review !== null) decision.record({ type: 'reviewCut', worker: found.name, review, by: person.by });
    // Before the review ends, the command answers only the question `merge`. People have not seen any other one.
    if (question !== null && question.for !== 'merge') return decision.wait(found, question.for, question.why);
    const isDue = found.next === 'merge' && found.landsAt === undefined;
    return isDue ? 'UNCHANGED' : decision.record({ type: 'mergeAsked', worker: found.name });
  });
}

function answer(decision: CrewDecision, { worker, ...decided }: CrewCommandOf<'ANSWER'>): CrewRefusal | null {
  return decision.of(worker, (found) => {
    if (found.meeting !== undefined && decided.choice === 'continue') return closeMeeting(decision, found, decided.by);
    if (found.waiting === null) return 'NOT_WAITING';
    return CHOICES_FOR[found.waiting.for].includes(decided.choice)
      ? answered(decision, found, decided)
      : 'NO_SUCH_CHOICE';
  });
}

function answered(
  decision: CrewDecision,
  worker: Worker,
  { choice, by, ...more }: Omit<CrewCommandOf<'ANSWER'>, 'type' | 'worker'>,
): CrewRefusal | null {
  const { name, waiting, stepCount, maxSteps } = worker;
  if (choice === 'merge' && !isVotedFor(decision, worker, { by, ...more }))
    return decision.facts.length === 0 ? 'UNCHANGED' : null;
  const isOther = choice === 'merge' && waiting?.for !== 'weakened';
  decision.record({ type: 'waitOver', worker: name, by, choice, ...(isOther ? { unaccepted: true } : {}) });
  switch (choice) {
    case 'merge':
      return decision.record({ type: 'mergeAsked', worker: name });
    case 'keep':
      return decision.leave(worker, 'kept', `kept by ${by}`);
    case 'unchanged':
      return decision.leave(worker, 'unchanged', `no change is needed, says ${by}`);
    case 'continue':
      if (stepCount >= maxSteps)
        decision.record({ type: 'stepsAdded', worker: name, maxSteps: maxSteps + decision.settings.maxSteps });
      if (worker.status === 'done') decision.move(worker, 'working', 'a person asked for more');
      return waiting === null ? decision.ask(worker, 'step') : goOnAfter(decision, worker, waiting);
  }
}

function goOnAfter(decision: CrewDecision, worker: Worker, waiting: NonNullable<Worker['waiting']>): null {
  const { why, step: { kind, about } = { kind: 'step', about: '' } } = waiting;
  const words =
    waiting.for === 'budget' ? 'People extended the budget. Go on.' : `People want you to go on: ${withFullStop(why)}`;
  return decision.ask(worker, kind, about === '' ? words : `${words}\n${about}`);
}

function propose(decision: CrewDecision, { type: _type, ...wanted }: CrewCommandOf<'PROPOSE'>): CrewRefusal | null {
  return decision.of(wanted.worker, (found) => {
    const { proposals = [], proposed = 0 } = decision.crew;
    if (found.ticket === null || !isStepping(found)) return 'NOT_ITS_STEP';
    const isKnown = proposals.some(
      ({ worker, title, text }) => worker === found.name && title === wanted.title && text === wanted.text,
    );
    if (isKnown) return 'UNCHANGED';
    if (proposals.length >= MOST_PROPOSALS) return 'TOO_MANY_PROPOSALS';
    const id = `p-${proposed + 1}`;
    return decision.record({ type: 'ticketProposed', ...wanted, worker: found.name, id, from: found.ticket.id });
  });
}

function proposeMessage(
  decision: CrewDecision,
  { type: _type, ...wanted }: CrewCommandOf<'PROPOSE_MESSAGE'>,
): CrewRefusal | null {
  const { proposals = [], proposed = 0 } = decision.crew;
  if (ticketMadeOf(decision.crew, wanted.message) !== undefined) return 'UNCHANGED';
  if (proposals.length >= MOST_PROPOSALS) return 'TOO_MANY_PROPOSALS';
  return decision.record({ type: 'messageProposed', ...wanted, id: `p-${proposed + 1}` });
}

function replied(decision: CrewDecision, { type: _type, ...reply }: CrewCommandOf<'REPLY'>): CrewRefusal | null {
  const { replies = [] } = decision.crew;
  if (replies.length < MOST_PROPOSALS) return decision.record({ type: 'ticketReplied', ...reply });
  return answerReply(decision, reply, REPLIES_FULL);
}

const REPLIES_FULL = `Conch has not answered ${MOST_PROPOSALS} earlier replies about tickets yet. Reply again later; /crew ps shows what is wrong`;

function replyRead(decision: CrewDecision, { message, why }: CrewCommandOf<'REPLY_READ'>): CrewRefusal | null {
  const reply = decision.crew.replies?.find((each) => each.message === message);
  return reply === undefined ? 'UNCHANGED' : answerReply(decision, reply, why);
}

function answerReply(decision: CrewDecision, reply: TicketReply, why: string): null {
  const { workers, finished } = decision.crew;
  const { about, refused: mayNot, ...read } = reply;
  const ticket = ticketMadeOf(decision.crew, about) ?? '';
  const worker = workers.find((each) => each.ticket?.id === ticket);
  const whyTaken = worker === undefined ? why : `${worker.name} works on it already`;
  const whyLate = finished.some(({ id }) => id === ticket) ? 'it is finished' : whyTaken;
  const refusal = mayNot === true ? 'only operators decide that' : whyLate;
  return decision.record({ type: 'replyAnswered', ...read, ticket, why: refusal });
}

function endWindow(decision: CrewDecision, { name }: Worker): void {
  const at = afterQuiet(decision.at, decision.settings.window?.quiet);
  if (at > decision.at) decision.record({ type: 'mergeAsked', worker: name, at });
  else decision.record({ type: 'mergeDue', worker: name });
}

function tick(decision: CrewDecision): CrewRefusal | null {
  const { paused, workers } = decision.crew;
  if (paused !== null && paused.until <= decision.at) decision.record({ type: 'pauseOver' });
  for (const worker of workers) {
    if (worker.retryAt !== null && worker.retryAt <= decision.at)
      decision.record({ type: 'retryDue', worker: worker.name });
    if (worker.landsAt !== undefined && worker.landsAt <= decision.at) endWindow(decision, worker);
    const ends = meetingEnd(worker);
    if (ends !== null && ends <= decision.at) closeMeeting(decision, worker, '');
  }
  return decision.facts.length === 0 ? 'NOT_DUE' : null;
}
