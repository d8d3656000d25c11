import { counted, excerpt } from '../../turns/commands/clock-words.ts';
import type { Answer, CrewCommands, CrewVerb, Request } from '../../turns/commands/context.ts';
import type { CrewView } from '../../turns/crew-view.ts';
import type { Line } from '../../turns/view.ts';
import { errorMessage } from '../../lib/defined.ts';
import { isoTime } from '../../lib/time.ts';
import { withFullStop, utcTime } from '../../turns/text/words.ts';
import type { StoredFact } from '../../engine/port.ts';
import type { CrewCommand, CrewFact, CrewRefusal } from './crew-events.ts';
import { dashboardText, buttonMark, commitMark, workersText } from './crew-shown.ts';
import { APPROVAL_WORDS, PROPOSALS_FULL, factLine, proposalText } from './crew-words.ts';
import { CHOICES_FOR, WORKER_CHOICES, findApproval, findProposal, findWorker } from './crew.ts';
import type { Crew, Worker } from './crew.ts';
import type { CrewRunner, QuotedMessage } from './crews.ts';
import { sessionOf } from './crews.ts';

type CrewCommandsPorts = {
  /** The crew of a channel or of a ticket's thread. A text: why the crew cannot work. `null`: there is no crew. */
  readonly crewAt: (channel: string) => CrewRunner | string | null;
  /** The last facts of a crew, oldest first. */
  readonly facts: (crew: string, limit: number) => readonly StoredFact<CrewFact>[];
  readonly view: (runner: CrewRunner) => CrewView;
  /** The message with this id, if a ticket can be made of it; otherwise the reason, in words. */
  readonly message: (id: string) => QuotedMessage | string;
  /** The last lines of a channel's conversation, oldest first. */
  readonly lines: (channel: string, limit: number) => readonly Line[];
  /** Redacts secrets. Output of tests, diffs and tickets may contain a secret that no agent has said. */
  readonly clean: (text: string) => string;
};

type Run = (runner: CrewRunner, request: Request, ports: CrewCommandsPorts) => Answer | Promise<Answer>;

const PEEK_LINES = 40;
const LOG_LINES = 1_000;
/** The most characters of each proposed ticket's text in a list. */
const LONGEST_LISTED = 500;
/** Number of a crew's newest facts that are searched for the facts of a worker or of a proposed ticket. */
const FACTS_READ = 10_000;

/** Creates the commands of the group "crew". */
export function createCrewCommands(ports: CrewCommandsPorts): CrewCommands {
  return {
    async run(verb, request) {
      const found = ports.crewAt(request.channel);
      if (found === null)
        return { ok: false, text: 'No crew works here. Crews are set up in turnConfig.json, under "crews".' };
      if (typeof found === 'string') return { ok: false, text: `The crew of this channel cannot work: ${found}` };
      if (isOld(verb, found.state(), request)) return { ok: false, text: OLD_BUTTON };
      const answered = await RUNS[verb](found, request, ports);
      return { ...answered, text: ports.clean(answered.text) };
    },
  };
}

const RUNS: Readonly<Record<CrewVerb, Run>> = {
  run: (runner, { person }) => give(runner, { type: 'RUN', by: person.name, askedBy: person.id }, 'The crew works.'),
  stop,
  spawn,
  assign,
  ps: (runner, _request, { view }) => ({ ok: true, text: workersText(view(runner)) }),
  dashboard: (runner, _request, { view }) => ({ ok: true, text: dashboardText(view(runner)) }),
  peek: (runner, request, ports) => logOf(runner, request, ports, PEEK_LINES),
  logs: (runner, request, ports) => logOf(runner, request, ports, LOG_LINES),
  export: (runner) => ({ ok: true, text: JSON.stringify({ agents: runner.state().workers.map(stateOf) }, null, 2) }),
  answer,
  merge: (runner, { values, person }) =>
    decide(runner, { type: 'MERGE', worker: values.worker ?? '', by: person.name, voter: person.id }),
  hold: aboutWorker(
    'HOLD',
    'The merge is held. /crew ps shows how to merge the work after all, or to let the worker go on.',
  ),
  retry: (runner, { values, person }) =>
    give(
      runner,
      { type: 'RETRY', worker: values.worker ?? '', by: person.name, words: values.words ?? '' },
      'The worker tries again.',
    ),
  kill: aboutWorker(
    'KILL',
    'The worker is reset. Its work is stored first, and its ticket is open again. Its worktree stays until its next ticket.',
  ),
  cleanup: aboutWorker('CLEANUP', 'The worktree is stored, then removed.'),
  accept: (runner, request) =>
    request.values.words === undefined
      ? give(runner, { type: 'ACCEPT_BASE', by: request.person.name }, BASE_ACCEPTED)
      : approve(runner, request, true),
  decline: (runner, request) => approve(runner, request, false),
  clean,
  update: (runner) => runner.work.updateCopy(),
  kept: manageStoredWork,
  doctor,
  tickets: listProposals,
  why: traceOrigin,
  admit,
  drop: (runner, { values, person }) =>
    give(runner, { type: 'DROP', proposal: values.words ?? '', by: person.name }, 'Dropped. Nothing was written.'),
};

function aboutWorker(type: 'HOLD' | 'KILL' | 'CLEANUP', done: string): Run {
  return (runner, { values, person }) => give(runner, { type, worker: values.worker ?? '', by: person.name }, done);
}

const BASE_ACCEPTED = 'Tickets start although the tests of main are red.';
const CUT = 'The crew stops now. Steps that were cut run again later.';
const OLD_BUTTON =
  'This button is from an earlier state of the crew, so nothing was done. /crew ps shows what is open.';

/** Whether a button was made for a question, ticket or commit that is not the present one any more. */
function isOld(verb: CrewVerb, crew: Crew, { drawnFor, values }: Request): boolean {
  if (drawnFor?.of !== 'turn') return false;
  if (verb === 'accept' && values.words === undefined) return drawnFor.epoch !== commitMark(crew.base?.tip);
  if (values.worker === undefined) return false;
  const worker = findWorker(crew, values.worker);
  const of = verb === 'answer' ? 'question' : verb === 'merge' ? 'merge' : 'ticket';
  return worker === undefined || drawnFor.epoch !== buttonMark(worker, of);
}

async function give(runner: CrewRunner, command: CrewCommand, done: string): Promise<Answer> {
  const refusal = await runner.give(command);
  return refusal === null
    ? { ok: true, text: done }
    : { ok: false, text: refusedText(runner.state(), command, refusal) };
}

function stop(runner: CrewRunner, { values, person }: Request): Answer | Promise<Answer> {
  const how = values.words?.replace(/^--/, '').toLowerCase();
  if (how !== undefined && how !== 'now') return { ok: false, text: 'Expected: /crew stop, or /crew stop now' };
  return how === undefined
    ? give(runner, { type: 'STOP', by: person.name }, 'The crew stops: steps under way end as usual.')
    : give(runner, { type: 'STOP', by: person.name, now: true }, CUT);
}

async function spawn(runner: CrewRunner, { values }: Request): Promise<Answer> {
  const [head = '', patterns = ''] = (values.words ?? '').split(/(?:^|\s)--touches[ =]/);
  const wanted = head.trim() || '1';
  const isNumber = /^\d+$/.test(wanted);
  if (isNumber ? Number(wanted) < 1 || Number(wanted) > 100 : !/^[A-Za-z][\w-]{0,19}$/.test(wanted))
    return {
      ok: false,
      text: 'Expected a number from 1 to 100, or a name that begins with a letter: at most 20 letters, digits, "_" and "-".',
    };
  const before = runner.state().workers.length;
  const touches = patterns.split(/[\s,]+/).filter((glob) => glob !== '');
  const refusal = await runner.spawn(isNumber ? Number(wanted) : wanted, touches);
  if (refusal !== null) return { ok: false, text: REFUSED[refusal] };
  const names = runner
    .state()
    .workers.slice(before)
    .map(({ name }) => name);
  return { ok: true, text: `Added ${names.join(', ')}.` };
}

async function assign(runner: CrewRunner, { values }: Request): Promise<Answer> {
  const { worker = '', words: ticket = '' } = values;
  const refusal = await runner.assign(worker, ticket);
  if (refusal === null) return { ok: true, text: `${worker} takes ${ticket}.` };
  const listed = runner.seen.listed.find(({ id }) => id === ticket)?.why;
  if (refusal !== 'NO_TICKET' && (refusal !== 'TICKET_TAKEN' || listed === undefined))
    return { ok: false, text: REFUSED[refusal] };
  const why = listed ?? 'it is unknown, closed, in progress, or waits for another ticket';
  return { ok: false, text: `${ticket} cannot start: ${withFullStop(why)}` };
}

function answer(runner: CrewRunner, { values, person }: Request): Answer | Promise<Answer> {
  const { worker = '', words = '' } = values;
  const choice = WORKER_CHOICES.find((each) => each === words.trim().toLowerCase());
  if (choice === undefined) return { ok: false, text: `Expected one of ${WORKER_CHOICES.join(', ')}.` };
  return decide(runner, { type: 'ANSWER', worker, by: person.name, voter: person.id, choice });
}

async function decide(
  runner: CrewRunner,
  command: Extract<CrewCommand, { readonly type: 'ANSWER' | 'MERGE' }>,
): Promise<Answer> {
  const reply = await give(runner, command, command.type === 'MERGE' ? 'The work is merged next.' : 'Decided.');
  const { workers, settings } = runner.state();
  const { waiting = null, votes = [], next = null, pull } = findWorker({ workers }, command.worker) ?? {};
  if (command.type === 'MERGE' && settings?.merge === 'pr' && waiting === null && next === 'merge')
    return { ...reply, text: `The crew waits until somebody merges ${pull?.url ?? 'its pull request'}.` };
  const { votes: most = 1 } = settings ?? {};
  if (command.type === 'MERGE' && reply.ok && waiting !== null && votes.length === 0)
    return { ok: true, text: `The work is not merged yet: people decide first. ${waiting.why}` };
  const isCounted = reply.ok && waiting !== null && votes.some(({ voter }) => voter === command.voter);
  return isCounted ? { ok: true, text: `Your vote counts: ${votes.length} of ${most}.` } : reply;
}

async function clean(runner: CrewRunner, { values, person }: Request): Promise<Answer> {
  const busy = runner
    .state()
    .workers.filter(({ status, leaving, left }) => (status !== 'idle' && leaving === null) || left !== undefined);
  if (values.words?.toLowerCase() !== 'yes') {
    const what =
      busy.length === 0
        ? 'No worker has a worktree, so this only stops the crew.'
        : `This stops the crew and resets ${busy.map(({ name }) => name).join(', ')}. Their work is stored first.`;
    return { ok: true, text: `${what} To do it: /crew clean yes` };
  }
  await runner.give({ type: 'STOP', by: person.name });
  let reset = 0;
  for (const { name } of busy)
    if ((await runner.give({ type: 'CLEANUP', worker: name, by: person.name })) === null) reset += 1;
  return {
    ok: true,
    text: `The crew is stopped, and ${counted(reset, 'worker')} reset. Stored work stays under refs/conch/kept.`,
  };
}

function approve(runner: CrewRunner, { values, person }: Request, allowed: boolean): Answer | Promise<Answer> {
  const approval = findApproval(runner.state(), values.words ?? '');
  if (approval === undefined) return { ok: false, text: REFUSED.NO_APPROVAL };
  const { about, digest } = approval;
  const { allow, deny } = APPROVAL_WORDS[about];
  const done = `Decided: ${allowed ? allow : deny}.`;
  return give(runner, { type: 'APPROVE', about, digest, allowed, by: person.name }, done);
}

function listProposals(runner: CrewRunner, { values }: Request): Answer {
  const { proposals = [] } = runner.state();
  const wanted = values.words === undefined ? null : findProposal(runner.state(), values.words);
  if (wanted === undefined) return { ok: false, text: REFUSED.NO_PROPOSAL };
  if (wanted !== null) return { ok: true, text: proposalText(wanted) };
  const all = proposals.map((each) => proposalText(each, LONGEST_LISTED)).join('\n\n');
  return { ok: true, text: all || 'No ticket is proposed.' };
}

async function admit(runner: CrewRunner, { values, person }: Request, { message }: CrewCommandsPorts): Promise<Answer> {
  const { words = '' } = values;
  const wanted = findProposal(runner.state(), words);
  // Ids of proposed tickets have this form, ids of messages do not.
  if (wanted === undefined && /^p-\d+$/i.test(words)) return { ok: false, text: REFUSED.NO_PROPOSAL };
  const source = wanted ?? message(words);
  if (typeof source === 'string') return { ok: false, text: source };
  try {
    if ('where' in source)
      return { ok: true, text: `The message is the ticket ${await runner.makeOf(source, person.name)} now.` };
    return { ok: true, text: `${source.id} is the ticket ${await runner.admit(source, person.name)} now.` };
  } catch (error) {
    const what = 'where' in source ? 'The ticket' : source.id;
    return { ok: false, text: `${what} was not written: ${errorMessage(error)}` };
  }
}

async function traceOrigin(runner: CrewRunner, { values }: Request, ports: CrewCommandsPorts): Promise<Answer> {
  const { words = '' } = values;
  const [, file, line] = /^(?:\.\/)?(.+):(\d+)$/.exec(words) ?? [];
  if (file === undefined && !/^[0-9a-f]{7,64}$/i.test(words))
    return {
      ok: false,
      text: 'Expected a file and a line, such as src/list.js:12, or at least 7 characters of a commit.',
    };
  const place = file === undefined ? { commit: words } : { file, line: Number(line) };
  const landing = await runner.work.landing(place);
  const main = runner.state().settings?.main ?? 'main';
  if (landing === null) return { ok: false, text: `${main} has no ${words}.` };
  const { landed, subject, commit } = landing;
  const done = runner.state().finished.find((each) => each.commit === landed);
  const { id, worker } = done ?? { id: landing.ticket, worker: null };
  const by = commit === landed ? '' : `, merged as ${landed.slice(0, 10)}`;
  const head = `${words} on ${main} comes from commit ${commit.slice(0, 10)}${by}: ${subject}`;
  if (id === '') return { ok: true, text: `${head}\nNo ticket brought it: somebody committed it without a crew.` };
  const who = worker === null ? '' : `, which ${worker} worked on`;
  return { ok: true, text: `${head}\nIt is the work on the ticket ${id}${who}. ${originOf(runner, id, ports)}` };
}

function originOf(runner: CrewRunner, ticket: string, { message, facts }: CrewCommandsPorts): string {
  const { asked: requestedTickets = [] } = runner.state();
  const source = requestedTickets.find((each) => each.ticket === ticket);
  if (source !== undefined) {
    const quoted = message(source.message);
    const said = typeof quoted === 'string' ? quoted : `"${excerpt(quoted.first.text, 200)}" From ${quoted.where}.`;
    return `${source.asker} asked for it: ${said} ${source.by} made the ticket.`;
  }
  const all = facts(runner.key, FACTS_READ).map(({ fact }) => fact);
  const admitted = all.find((fact) => fact.type === 'proposalAdmitted' && fact.ticket === ticket);
  const proposal = admitted?.type === 'proposalAdmitted' ? admitted : null;
  const offer = all.find((fact) => fact.type === 'ticketProposed' && fact.id === proposal?.proposal);
  return offer?.type === 'ticketProposed' && proposal !== null
    ? `${offer.worker} proposed it while it worked on ${offer.from}, and ${proposal.by} admitted it.`
    : 'No message asked for this ticket. Its own text may say more.';
}

async function doctor(runner: CrewRunner): Promise<Answer> {
  const problems = await runner.work.check(runner.state());
  return { ok: true, text: problems.length === 0 ? 'git and the crew agree.' : problems.join('\n') };
}

async function manageStoredWork(runner: CrewRunner, { values }: Request): Promise<Answer> {
  const [verb = '', ref = '', name = ''] = (values.words ?? '').trim().split(/\s+/);
  if (verb === '' || verb === 'list') {
    const all = [...(await runner.work.listStoredWork()), ...(runner.state().branches ?? []).map(branchLine)];
    return { ok: true, text: all.length === 0 ? 'No work is stored.' : all.join('\n') };
  }
  if ((verb !== 'show' && verb !== 'drop' && verb !== 'apply') || ref === '')
    return {
      ok: false,
      text: 'Expected: /crew kept, /crew kept show REF, /crew kept drop REF or /crew kept apply REF WORKER.',
    };
  const worker = findWorker(runner.state(), name);
  if (verb === 'apply' && (worker?.ticket == null || !worker.prepared))
    return {
      ok: false,
      text: `${name === '' ? 'No worker is named' : `${name} has no worktree`}. /crew ps shows who has one.`,
    };
  const text =
    verb === 'apply' && worker?.ticket != null
      ? await runner.work.applyStoredWork(ref, worker.ticket)
      : await runner.work.showOrDropWork(ref, verb === 'drop' ? 'drop' : 'show');
  if (verb === 'drop' && text !== null) await runner.give({ type: 'KEPT_DROPPED', ref });
  return text === null ? { ok: false, text: `No work is stored as ${ref}. /crew kept lists all.` } : { ok: true, text };
}

function branchLine({ id, branch }: NonNullable<Crew['branches']>[number]): string {
  return `${branch} · the next worker of ${id} goes on from it`;
}

function refusedText(crew: Crew, command: CrewCommand, refusal: CrewRefusal): string {
  const worker = 'worker' in command ? findWorker(crew, command.worker) : undefined;
  if (refusal === 'INVALID_TRANSITION' && worker !== undefined)
    return `Not possible: ${worker.name} is ${worker.status}. ${REFUSED[refusal]}`;
  if (refusal === 'NO_SUCH_CHOICE' && worker?.waiting != null)
    return `Answer ${worker.name} with one of these: ${CHOICES_FOR[worker.waiting.for].join(', ')}.`;
  return REFUSED[refusal];
}

const REFUSED: Readonly<Record<CrewRefusal, string>> = {
  UNCHANGED: 'Nothing changed: the command asks for what is already the case.',
  NO_WORKER: 'There is no such worker. /crew ps shows them all.',
  NAME_TAKEN: 'A worker has this name already. /crew ps shows them all.',
  NOT_IDLE: 'The worker has a ticket already. /crew ps shows it.',
  NOT_RUNNING: 'The crew is stopped. To start it: /crew run',
  TICKET_TAKEN: 'Another worker has this ticket. /crew ps shows it.',
  TICKET_WAITS: 'The ticket waits for another one. /crew dashboard shows it.',
  TICKET_FINISHED: 'This ticket is finished already.',
  BASE_OUTDATED: 'Main changed during its tests. Conch tests it again.',
  BASE_RED: 'The tests of main are red, so no ticket starts. Mend main, or decide with /crew accept.',
  BASE_UNTESTED: 'Main is not tested yet. Try again when its tests have ended.',
  NOT_ITS_STEP: 'Nothing changed: the worker has begun another step. /crew ps shows it.',
  INVALID_TRANSITION:
    '/crew kill needs a working or stuck worker, /crew merge a done worker, /crew retry a stuck worker.',
  NOT_WAITING: 'The worker has no open question. /crew ps shows what it waits for.',
  NO_SUCH_CHOICE: 'The worker does not accept this answer. /crew ps shows what it waits for.',
  MERGE_UNDER_WAY: 'A merge is under way and can no longer be stopped.',
  NOTHING_TO_HOLD: 'This worker has no merge that can be held. /crew ps shows its state.',
  UNTESTED: 'The tests of the work have not ended yet. Try again later: /crew ps shows whether they still run.',
  NOT_MERGING: 'No merge of this worker is under way. /crew ps shows its state.',
  NOT_DUE: 'Nothing changed: no deadline has passed yet.',
  NO_PROPOSAL: 'No proposed ticket has this id. /crew tickets shows them all.',
  NO_APPROVAL: 'No open request has this id. /crew ps shows the open ones.',
  TOO_MANY_PROPOSALS: PROPOSALS_FULL,
};

function logOf(runner: CrewRunner, { values }: Request, ports: CrewCommandsPorts, limit: number): Answer {
  const worker = findWorker(runner.state(), values.worker ?? '');
  if (worker === undefined) return { ok: false, text: REFUSED.NO_WORKER };
  const { name } = worker;
  const own = ports.facts(runner.key, FACTS_READ).filter(({ fact }) => 'worker' in fact && fact.worker === name);
  const begin = own.findLastIndex(({ fact }) => fact.type === 'ticketAssigned');
  const assigned = own[begin]?.fact;
  const ticket = worker.ticket ?? (assigned?.type === 'ticketAssigned' ? assigned.ticket : null);
  if (ticket === null) return { ok: true, text: `${name} had no ticket yet.` };
  const done = own.slice(Math.max(0, begin)).flatMap(({ at, fact }) => {
    const words = factLine(fact);
    return words === null ? [] : [{ at, text: words }];
  });
  const said = ports
    .lines(ticket.thread, LOG_LINES)
    .filter(({ at }) => at >= ticket.at)
    .map(({ at, author, text }) => ({ at, text: `${author.name}: ${text}` }));
  const all = [...done, ...said]
    .toSorted((a, b) => a.at - b.at)
    .flatMap(({ at, text }) => text.split('\n').map((line) => `${utcTime(at)} ${line}`));
  const head = worker.ticket === null ? `${name} has no ticket now. Its last one was ${ticket.id}:\n` : '';
  return { ok: true, text: `${head}${all.slice(-limit).join('\n') || `Nothing was done for ${ticket.id} yet.`}` };
}

/** A worker in the form of the specification's state.json. */
function stateOf(worker: Worker) {
  const { name, ticket, status, stepCount, usage } = worker;
  const iso = (at: number | null): string | null => (at === null ? null : isoTime(at));
  return {
    name,
    session: sessionOf(worker),
    worktree: ticket?.worktree ?? null,
    branch: ticket?.branch ?? '',
    task: ticket?.id ?? null,
    task_assigned_at: iso(ticket?.at ?? null),
    status,
    started_at: iso(worker.startedAt),
    step_count: stepCount,
    last_step_at: iso(worker.lastStepAt),
    total_input_tokens: usage.input,
    total_output_tokens: usage.output,
    total_cost_usd: usage.costMicros / 1_000_000,
  };
}
