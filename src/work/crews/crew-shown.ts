import type { StoredFact } from '../../engine/port.ts';
import { counted, excerpt } from '../../turns/commands/clock-words.ts';
import { TICKET_STATES, dollars } from '../../turns/crew-view.ts';
import type {
  CrewAsk,
  CrewButton,
  CrewView,
  CrewWorkerView,
  TicketGroup,
  TicketState,
  TicketView,
} from '../../turns/crew-view.ts';
import { utcSecond, utcTime } from '../../turns/text/words.ts';
import { shortDigest } from '../../lib/digest.ts';
import { decideCrew } from './crew-decide.ts';
import type { CrewCommand, CrewFact } from './crew-events.ts';
import { APPROVAL_WORDS, approvalQuestion, choiceWords, factLine, sizeWords, waitWords } from './crew-words.ts';
import { CHOICES_FOR, WORKER_SYMBOLS, approvalId, isStepping } from './crew.ts';
import type { CrewApproval, Crew, Worker, WorkerChoice } from './crew.ts';
import type { SeenTickets } from './crews.ts';

/** Input for the views of a crew, besides its state. */
export type CrewSurroundings = SeenTickets & {
  readonly store: string;
  /** Why the crew's last try to read tickets, test main and assign tickets failed, in words; `null` if it did not. */
  readonly problem: string | null;
  /** Returns what keeps an agent in a channel from going on with its step; `null` for nothing. */
  readonly whyHeld: (channel: string, agent: string) => Wait | null;
  /** The number of steps so far in an agent's open run in a channel; `null` for no open run. */
  readonly runSteps: (channel: string, agent: string) => number | null;
  /** The last facts of the crew, oldest first. */
  readonly facts: readonly StoredFact<CrewFact>[];
  /** Removes secrets from texts of agents and people. */
  readonly clean: (text: string) => string;
  /** The most tickets of each state in the view. For proposed tickets, this limit is at least 3. */
  readonly most: number;
};

/** Returns a crew as people see it, from its state and `around`. */
export function crewViewOf(crew: Crew, around: CrewSurroundings): CrewView {
  const { key, settings, running, paused, usage, base, counts, kept, finished } = crew;
  const merged = finished.filter(({ commit }) => commit !== null).length;
  const { conflicts = 0, dropped = 0, ...tests } = counts ?? {};
  return {
    id: key,
    channel: settings?.channel ?? '',
    store: around.store,
    running,
    problems: problemsOf(crew, around),
    paused: paused === null ? null : { until: paused.until, why: around.clean(paused.why) },
    workers: crew.workers.map((worker) => workerViewOf(crew, worker, around)).toSorted(byAttention),
    groups: groupsOf(crew, around),
    steps: usage.steps,
    tokens: usage.input + usage.output,
    costMicros: usage.costMicros,
    unpriced: crew.unpriced === true,
    base: base?.verdict ?? null,
    tests: { green: 0, flaky: 0, red: 0, none: 0, ...tests },
    merges: { merged, conflicts, dropped },
    kept: kept.map(({ ref }) => ref),
    log: around.facts.flatMap(({ at, fact }) => logLine(at, fact, around.clean)),
    buttons: crewButtons(crew),
  };
}

function problemsOf({ base, approvals = [] }: Crew, { problem, clean }: CrewSurroundings): readonly string[] {
  return [
    ...approvals.flatMap((approval) => (approval.allowed === null ? [clean(approvalQuestion(approval))] : [])),
    ...(problem === null ? [] : [`No ticket can start: ${clean(problem)}`]),
    ...(base?.verdict === 'red'
      ? [`The tests of main are red, so no ticket starts: ${clean(lastLine(base.why))}`]
      : []),
  ];
}

function lastLine(text: string): string {
  return excerpt(text.trim().split('\n').at(-1) ?? '', 200);
}

const RANKS: readonly CrewWorkerView['status'][] = ['stuck', 'done', 'working', 'ready', 'idle'];

function byAttention(a: CrewWorkerView, b: CrewWorkerView): number {
  if (a.asksPeople !== b.asksPeople) return a.asksPeople ? -1 : 1;
  if (a.asksPeople) return (a.since ?? 0) - (b.since ?? 0);
  return RANKS.indexOf(a.status) - RANKS.indexOf(b.status);
}

/** Returns why a worker needs people, such as a question or an approval; `null` when it needs nobody. */
export function crewAskOf(
  crew: Crew,
  worker: Worker,
  around: Pick<CrewSurroundings, 'whyHeld' | 'clean'>,
): CrewAsk | null {
  const wait = waitOf(crew, worker, around.whyHeld);
  if (wait?.asks !== true) return null;
  return { name: worker.name, waits: around.clean(wait.words), thread: worker.ticket?.thread ?? null };
}

/** What a worker waits for. `asks`: a person must decide. `since`: when the wait began; absent or `null`: unknown. */
type Wait = { readonly words: string; readonly asks?: true; readonly since?: number | null };

function workerViewOf(crew: Crew, worker: Worker, { whyHeld, runSteps, clean }: CrewSurroundings): CrewWorkerView {
  const { name, status, ticket, stepCount, maxSteps, usage, waiting, lastStepAt } = worker;
  const wait = waitOf(crew, worker, whyHeld);
  return {
    name,
    status,
    symbol: WORKER_SYMBOLS[status],
    ticket: ticket === null ? null : { id: ticket.id, title: clean(excerpt(ticket.title, 60)), thread: ticket.thread },
    steps: stepCount,
    maxSteps,
    toolSteps: ticket === null || !isStepping(worker) ? null : runSteps(ticket.thread, worker.agent),
    work: clean(workWords(worker)),
    tokens: usage.input + usage.output,
    costMicros: usage.costMicros,
    waits: clean(wait?.words ?? ''),
    since: wait === null ? null : (wait.since ?? lastStepAt ?? ticket?.at ?? null),
    landsAt: worker.landsAt ?? null,
    asksPeople: wait?.asks === true,
    isQuestion: waiting !== null && worker.leaving === null,
    buttons: workerButtons(crew, worker),
  };
}

function workWords({ work }: Worker): string {
  if (work?.subject === undefined) return '';
  return `"${excerpt(work.subject, 60)}" · ${sizeWords(work)}${work.dirty ? ', and files that are not committed' : ''}`;
}

const NEXT_WORDS = {
  test: 'tests run',
  review: 'is reviewed',
  recheck: 'is checked again after its review',
} as const;

function waitOf(crew: Crew, worker: Worker, whyHeld: CrewSurroundings['whyHeld']): Wait | null {
  const { ticket, leaving, left, waiting, status, retryAt, errors, errorAt, lastError, conflicts, next, step } = worker;
  if (ticket === null) return left === undefined ? null : { words: `keeps the worktree of ${left.id}` };
  if (leaving?.why === 'merged') return { words: `is merged as ${leaving.words.slice(0, 10)}, and tidies up` };
  if (leaving !== null) return { words: `leaves: ${leaving.words}` };
  if (waiting !== null) return { words: waitWords(crew, worker), asks: true, since: waiting.since };
  if (status === 'stuck' && errors === 0) return { words: `met ${conflicts} conflicts with main`, asks: true };
  if (status === 'stuck') return { words: lastError, asks: true, since: errorAt };
  if (retryAt !== null) return { words: `tries again at ${utcTime(retryAt)}: ${lastError}`, since: errorAt };
  if (next === 'merge' && worker.pull !== undefined) return { words: `waits for the merge of ${worker.pull.url}` };
  if (next !== null) return { words: next === 'merge' ? mergeWords(crew, worker) : NEXT_WORDS[next] };
  if (status === 'ready' && step === null) return { words: 'its worktree is being made', since: ticket.at };
  if (step?.queued === true) return { words: crew.running ? 'waits for its turn' : 'waits until the crew runs' };
  return isStepping(worker) ? (whyHeld(ticket.thread, worker.agent) ?? conflictWait(worker)) : null;
}

function conflictWait({ meeting, step }: Worker): Wait | null {
  if (meeting !== undefined)
    return { words: `met a conflict, and discusses it with ${meeting.otherWorker}, who wrote ${meeting.ticket}` };
  return step?.kind === 'conflict' ? { words: 'resolves a conflict with main' } : null;
}

function mergeWords({ merging }: Crew, { name, landsAt }: Worker): string {
  if (landsAt !== undefined) return `is merged at ${utcSecond(landsAt)}`;
  if (merging === null) return 'waits for its merge';
  return merging.worker === name ? 'is being merged' : `waits for the merge of ${merging.worker}`;
}

const LABELS: Readonly<Record<WorkerChoice, string>> = {
  merge: 'Merge',
  continue: 'Continue work',
  keep: 'Keep and reopen',
  unchanged: 'Close unchanged',
};
const STYLES: Partial<Readonly<Record<WorkerChoice, CrewButton['style']>>> = { merge: 'good', unchanged: 'good' };

type Offer = readonly [command: CrewCommand, button: CrewButton];

function workerButtons(crew: Crew, worker: Worker): readonly CrewButton[] {
  const { name, ticket, status, waiting, leaving } = worker;
  const { votes: most = 1 } = crew.settings ?? {};
  if (ticket === null || leaving !== null) return [];
  const order = { worker: name, by: '' };
  const button = (label: string, what: string, style: CrewButton['style']): CrewButton => {
    const mark = buttonMark(worker, label === 'Merge' ? 'merge' : 'ticket');
    return crewButton(label, what, { line: `/crew ${label.toLowerCase()} ${name}`, style, mark });
  };
  const hold: Offer = [{ type: 'HOLD', ...order }, button('Hold', 'to hold its merge', 'plain')];
  if (waiting !== null) {
    const isHoldable = most > 1 && CHOICES_FOR[waiting.for].includes('merge');
    return valid(crew, [...answersOf(crew, worker, waiting), ...(isHoldable ? [hold] : [])]);
  }
  if (status === 'done')
    return valid(crew, [[{ type: 'MERGE', ...order }, button('Merge', 'to merge it now', 'plain')], hold]);
  return valid(crew, [
    [{ type: 'RETRY', ...order, words: '' }, button('Retry', 'to let it try again', 'good')],
    [
      { type: 'KILL', ...order },
      button('Kill', 'to store its work and open the ticket again, for a worker that begins it anew', 'danger'),
    ],
  ]);
}

function answersOf(crew: Crew, worker: Worker, question: NonNullable<Worker['waiting']>): readonly Offer[] {
  const { name, stepCount, maxSteps } = worker;
  const { votes: most = 1, maxSteps: further = 0 } = crew.settings ?? {};
  const labels = {
    ...LABELS,
    ...(stepCount >= maxSteps ? { continue: `+${further} steps` } : {}),
    ...(most > 1 ? { merge: `Merge (${worker.votes?.length ?? 0} of ${most})` } : {}),
  };
  return CHOICES_FOR[question.for].map((choice) => {
    const place = { line: `/crew answer ${name} ${choice}`, mark: buttonMark(worker, 'question') };
    const more = { ...place, style: STYLES[choice] ?? ('plain' as const) };
    const button = crewButton(labels[choice], choiceWords(question.for, choice), more);
    return [{ type: 'ANSWER', worker: name, by: '', choice }, button];
  });
}

/** The buttons whose commands the crew would accept now. */
function valid(crew: Crew, offers: readonly Offer[]): readonly CrewButton[] {
  return offers.flatMap(([command, button]) => (decideCrew(crew, command, 0).ok ? [button] : []));
}

/** The subject of a worker's button. `merge`: the commit that is merged. */
type ButtonSubject = 'question' | 'ticket' | 'merge';

/**
 * The number in the buttons of a worker: the instant when its question or ticket began; 0 for none. For `merge`, a
 * number made from the commit; while people are asked, from the commit and the instant of the question.
 */
export function buttonMark({ ticket, waiting, work }: Worker, of: ButtonSubject): number {
  if (of === 'merge') return commitMark(waiting === null ? work?.tip : `${work?.tip} ${waiting.since}`);
  return (of === 'ticket' ? ticket?.at : waiting?.since) ?? 0;
}

/** The number in buttons about a commit, made from the text `commit`. */
export function commitMark(commit = ''): number {
  return Number.parseInt(shortDigest(commit).slice(0, 12), 16);
}

function crewButton(label: string, what: string, more: Partial<CrewButton> = {}): CrewButton {
  return { label, line: `/crew ${label.toLowerCase()}`, what, style: 'plain', mark: 0, ...more };
}

function crewButtons(crew: Crew): readonly CrewButton[] {
  const { base, approvals = [] } = crew;
  const runs = valid(crew, [
    [{ type: 'STOP', by: '' }, crewButton('Stop', 'to start no more steps', { style: 'danger' })],
    [{ type: 'RUN', by: '' }, crewButton('Run', 'to start it', { style: 'good' })],
  ]);
  const start = crewButton('Start anyway', 'to start tickets', { line: '/crew accept', mark: commitMark(base?.tip) });
  const decisions = approvals.flatMap((each) => (each.allowed === null ? approvalButtons(each) : []));
  return [...runs, ...decisions, ...(base?.verdict === 'red' ? [start] : [])];
}

function approvalButtons(approval: CrewApproval): readonly CrewButton[] {
  const id = approvalId(approval);
  const { allow, deny } = APPROVAL_WORDS[approval.about];
  return [
    crewButton(`Accept ${approval.about}`, allow, { line: `/crew accept ${id}`, style: 'good' }),
    crewButton(`Decline ${approval.about}`, deny, { line: `/crew decline ${id}` }),
  ];
}

function groupsOf(crew: Crew, { ready, listed, waiting, most, clean }: CrewSurroundings): readonly TicketGroup[] {
  const startedTickets = new Set([
    ...crew.workers.map(({ ticket }) => ticket?.id),
    ...[...crew.finished, ...crew.refused].map(({ id }) => id),
  ]);
  const of: Readonly<Record<TicketState, readonly TicketView[]>> = {
    proposed: (crew.proposals ?? []).map(({ id, worker, from, title, at }) => ({
      id,
      words: `${title} (by ${worker}${from === '' ? '' : ` on ${from}`})`,
      at,
      buttons: [
        crewButton(`Admit ${id}`, 'to make it a ticket', { style: 'good' }),
        crewButton(`Drop ${id}`, 'to drop it', { style: 'danger' }),
      ],
    })),
    'in work': crew.workers.flatMap(({ name, ticket }) =>
      ticket === null
        ? []
        : [{ id: ticket.id, words: `${name}: ${ticket.title}`, at: ticket.at, thread: ticket.thread }],
    ),
    ready: ready.flatMap(({ id, title }) => (startedTickets.has(id) ? [] : [{ id, words: title, at: null }])),
    'waiting for others': [],
    'cannot start': listed.flatMap(({ id, why }) => (startedTickets.has(id) ? [] : [{ id, words: why, at: null }])),
    'only by hand': crew.refused.map(({ id, why }) => ({ id, words: why, at: null })),
    merged: crew.finished
      .flatMap(({ commit, worker, title, ...ticket }) =>
        commit === null ? [] : [{ ...ticket, words: `${titled(title)}${commit.slice(0, 10)} by ${worker}` }],
      )
      .toReversed(),
    'closed without a change': crew.finished
      .flatMap(({ commit, worker, title, ...ticket }) =>
        commit === null ? [{ ...ticket, words: `${titled(title)}${worker}` }] : [],
      )
      .toReversed(),
  };
  return TICKET_STATES.map((state) => ({
    state,
    count: state === 'waiting for others' ? waiting : of[state].length,
    // Shows at least the first three proposed tickets, because they wait for people.
    tickets: of[state]
      .slice(0, state === 'proposed' ? Math.max(most, PROPOSED_SHOWN) : most)
      .map((ticket) => ({ ...ticket, words: clean(excerpt(ticket.words, 120)) })),
  }));
}

function titled(title: string | undefined): string {
  return title === undefined ? '' : `${title} · `;
}

const PROPOSED_SHOWN = 3;

function logLine(at: number, fact: CrewFact, clean: (text: string) => string): CrewView['log'] {
  if (fact.type === 'noted') return [{ at, worker: '', text: clean(excerpt(fact.text, 200)) }];
  if (!('worker' in fact)) return [];
  const words = factLine(fact);
  return words === null ? [] : [{ at, worker: fact.worker, text: clean(excerpt(words, 200)) }];
}

/** A crew as text: whether it runs, its workers, proposed tickets and problems. */
export function workersText({ workers, running, problems, store: _store, ...crew }: CrewView): string {
  if (workers.length === 0) return 'The crew has no workers. To add some: /crew spawn 3';
  return [
    running ? 'The crew works.' : 'The crew is stopped. To start it: /crew run',
    ...workers.map(workerLine),
    ...proposedLines(crew.groups),
    ...problems.map((words) => `⚠ ${words}`),
    ...(crew.base === 'red' ? ['To start tickets nevertheless: /crew accept'] : []),
  ].join('\n');
}

function proposedLines(groups: CrewView['groups']): readonly string[] {
  const { tickets = [], count = 0 } = groups.find(({ state }) => state === 'proposed') ?? {};
  const lines = tickets.map(({ id, words, buttons = [] }) => {
    const how = buttons.map(({ line, what }) => `${line} ${what}`).join(' · ');
    return `✎ ${id} is proposed: ${words} ${how}`;
  });
  return count > tickets.length ? [...lines, `✎ and ${count - tickets.length} more: /crew tickets`] : lines;
}

function workerLine(worker: CrewWorkerView): string {
  const { name, symbol, status, ticket, steps, maxSteps, tokens, waits, isQuestion, buttons, toolSteps, work } = worker;
  const why = isQuestion || waits === '' ? '' : ` · ${waits}`;
  if (ticket === null) return `${symbol} ${name} ${status}${why}`;
  const inside = toolSteps === null ? '' : ` (${counted(toolSteps, 'tool step')} in it)`;
  const line = `${symbol} ${name} ${status} · ${ticket.id} ${ticket.title} · step ${steps} of ${maxSteps}${inside} · ${counted(tokens, 'token')}`;
  const below = work === '' ? '' : `\n  ${work}`;
  if (!isQuestion) return `${line}${why}${below}`;
  return `${line}${below}\n  ✋ ${waits} ${buttons.map(({ line: command, what }) => `${command} ${what}`).join(' · ')}`;
}

/** A crew as text: workers, problems, tickets, usage, tests, merges, pauses and stored work. */
export function dashboardText(view: CrewView): string {
  const { groups, tests, merges, base, paused, kept, steps, tokens } = view;
  const counts = groups.flatMap(({ state, count }) =>
    state === 'only by hand' || (state === 'proposed' && count === 0) ? [] : [`${count} ${state}`],
  );
  const without = tests.none === 0 ? '' : `, ${tests.none} without tests`;
  return [
    workersText(view),
    `Tickets: ${counts.join(', ')}`,
    `${counted(steps, 'step')}, ${counted(tokens, 'token')}, ${costWords(view)}`,
    `Tests of work: ${tests.green} green, ${tests.red} red, ${tests.flaky} flaky${without}. Merges begun and not made: ${merges.dropped}. Conflicts: ${merges.conflicts}`,
    ...(base === null ? [] : [`Tests of main: ${base}`]),
    ...(paused === null ? [] : [`The crew waits until ${utcTime(paused.until)}: ${paused.why}`]),
    ...groups.flatMap((group) => reasonsOf(group)),
    ...(kept.length === 0 ? [] : [`Stored work: ${kept.join(', ')}`]),
  ].join('\n');
}

function costWords({ unpriced, costMicros }: CrewView): string {
  if (!unpriced) return dollars(costMicros);
  return costMicros === 0
    ? 'no price is known, so budgets in dollars have no effect'
    : `${dollars(costMicros)} and more: some prices are not known`;
}

function reasonsOf({ state, count, tickets }: TicketGroup): readonly string[] {
  if (count === 0 || (state !== 'cannot start' && state !== 'only by hand')) return [];
  const title = state === 'cannot start' ? 'Cannot start:' : 'Started only by /crew assign:';
  const more = count - tickets.length;
  return [title, ...tickets.map(({ id, words }) => `  ${id}: ${words}`), ...(more > 0 ? [`  and ${more} more`] : [])];
}
