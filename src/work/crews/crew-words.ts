import { shortDigest } from '../../lib/digest.ts';
import { counted } from '../../turns/commands/clock-words.ts';
import { isoTime } from '../../lib/time.ts';
import { hasHidden, visible } from '../../lib/visible.ts';
import { announcementKey } from '../../turns/floor/announcement.ts';
import { withFullStop, utcSecond, utcTime } from '../../turns/text/words.ts';
import { CHOICES_FOR, MOST_PROPOSALS, approvalId, findApproval, findWorker } from './crew.ts';
import type { CrewApproval, WorkerChoice, Crew, Proposal, WorkerWait, Worker } from './crew.ts';
import type { CrewFact, CrewFactOf } from './crew-events.ts';

/**
 * A line for people about a ticket, or about the crew if `ticket` is "crew". It edits the post of the last line with
 * the same `ticket` and `about`, unless a message or another announcement came between. `goesOn` changes this in the
 * crew's channel.
 */
export type TicketLine = {
  readonly ticket: string;
  readonly thread: string;
  readonly about: string;
  readonly text: string;
  /** Where the line stands: only in `thread`, or only in the crew's channel. Absent: in both. */
  readonly only?: 'thread' | 'channel';
  /** In the crew's channel, the line is not a new message: it edits the message about the ticket's last assignment. */
  readonly goesOn?: true;
};

const GOES_ON: ReadonlySet<CrewFact['type']> = new Set([
  'stepBegun',
  'errorCounted',
  'errorExplained',
  'conflicted',
  'mergeDropped',
  'mergeAsked',
  'mergeDue',
  'pullOpened',
  'pullReturned',
  'leaving',
]);
/**
 * The `about` of lines on the course of a ticket, such as its assignment. In the crew's channel, all lines with
 * `goesOn` have it.
 */
export const COURSE = 'course';

const ONLY_THREAD = new Set(['meeting', 'agreed', 'tests', 'review', 'question', 'votes', 'proposal', 'note']);

const QUESTIONS: Readonly<Record<WorkerWait, string>> = {
  merge: 'Merge it?',
  weakened: 'The changes make tests weaker. Merge them anyway?',
  untested: 'No tests were found. Merge it untested?',
  unfinished: 'The worker’s steps are used up. What next?',
  nothing: 'Nothing was committed. What next?',
  progress: 'The worker makes no progress. What next?',
  refused: 'The merge was not made. What next?',
  budget: 'The ticket’s budget is used up. What next?',
  review: 'The review did not pass the work. What next?',
  red: 'The worker’s steps are used up. What next?',
  treeless: 'The worktree is gone, and the branch is still there. What next?',
  pull: 'The pull request needs a person. What next?',
  copy: 'Files in your own copy of the repository changed while the worker ran. What next?',
  held: 'The merge is held. What next?',
};

const CHOICE_WORDS: Readonly<Record<WorkerChoice, string>> = {
  merge: 'to merge it',
  continue: 'to let the worker go on working',
  keep: 'to keep the work and open the ticket again',
  unchanged: 'to close the ticket without a change',
};

/** The effect of a choice in words, given the question that the worker asks. */
export function choiceWords(wait: WorkerWait, choice: WorkerChoice): string {
  return wait === 'pull' && choice === 'merge' ? 'to wait for its merge' : CHOICE_WORDS[choice];
}

/**
 * Returns a worker's question to people, with the votes and the name of the person whose message became the ticket.
 * Empty for no question.
 */
export function waitWords(
  { settings, asked: requestedTickets = [] }: Crew,
  { waiting, ticket, votes = [] }: Worker,
): string {
  if (waiting === null) return '';
  const { votes: most = 1 } = settings ?? {};
  const asker = requestedTickets.find((each) => each.ticket === ticket?.id)?.asker;
  const names = votes.map(({ by }) => by).join(', ');
  const isVoted = CHOICES_FOR[waiting.for].includes('merge') && most > 1;
  const voted = isVoted ? ` ${votes.length} of ${most} want it merged${names === '' ? '' : `: ${names}`}.` : '';
  return `${asker === undefined ? '' : `${asker}: `}${QUESTIONS[waiting.for]} ${withFullStop(waiting.why)}${voted}`;
}

const QUESTION = 'question ';

function questionAbout({ work, waiting }: Pick<Worker, 'work' | 'waiting'>): string {
  return `${QUESTION}${work?.tip ?? ''} ${waiting?.since ?? ''}`;
}

/** The key of an announcement about a ticket. With an empty `about`: the prefix of all such keys of the ticket. */
export function ticketKey(crew: string, ticket: string, about = ''): string {
  return announcementKey({ kind: 'ticket', id: `${crew}/${ticket}`, about, text: '' });
}

/**
 * Returns the command that a reaction to an announcement of a worker's ticket means: 'yes' merges, 'no' holds. Returns
 * `null` for no command. `key`: the key of the announcement. `mark` of 'yes': the number of the open question; 0 when
 * the announcement is of another question. `mark` of 'no': `null`.
 */
export function reactionCommand(
  crew: string,
  worker: Worker,
  { key, kind }: { readonly key: string; readonly kind: 'yes' | 'no' },
): { readonly line: string; readonly mark: number | null } | null {
  const { name, ticket, waiting } = worker;
  if (ticket === null) return null;
  const about = key.slice(ticketKey(crew, ticket.id).length);
  const isOpenQuestion = waiting !== null && about === questionAbout(worker);
  if (kind === 'no') return isOpenQuestion || about === 'merge' ? { line: `/crew hold ${name}`, mark: null } : null;
  const isQuestion = about.startsWith(QUESTION);
  return isQuestion ? { line: `/crew answer ${name} merge`, mark: isOpenQuestion ? waiting.since : 0 } : null;
}

/** How much the branch of a worker changes; empty before its first commit. */
export function sizeWords({ files, added = 0, removed = 0 }: NonNullable<Worker['work']>): string {
  return files === undefined ? '' : `${counted(files, 'file')} changed, +${added} −${removed}`;
}

function workerQuestion(crew: Crew, worker: Worker): string {
  const { name, waiting, work } = worker;
  if (waiting === null) return '';
  const choices = CHOICES_FOR[waiting.for].map(
    (choice) => `/crew answer ${name} ${choice} ${choiceWords(waiting.for, choice)}`,
  );
  const size = work === null ? '' : sizeWords(work);
  const about = size === '' ? '' : ` ${work?.tip.slice(0, 10)}: ${size}.`;
  return `✋ ${waitWords(crew, worker)}${about} ${choices.join(' · ')}`;
}

/** The line for people about a fact; `null` for facts that they need not read. `crew`: the state after the command. */
export function ticketLineOf(crew: Crew, fact: CrewFact): TicketLine | null {
  if (fact.type === 'paused') return pausedLine(crew, fact);
  if (fact.type === 'noted') return notedLine(crew, fact);
  if (fact.type === 'proposalAdmitted') return admittedLine(crew, fact);
  if (fact.type === 'replyAnswered') return replyLine(fact);
  if (fact.type === 'approvalAsked' || fact.type === 'approvalGiven') return approvalLine(crew, fact);
  if (!('worker' in fact)) return null;
  const worker = findWorker(crew, fact.worker);
  if (fact.type === 'worktreeCleared') return storedLine(crew, fact);
  if (worker === undefined || worker.ticket === null) return null;
  const { id, thread } = worker.ticket;
  const said = wordsOf(fact.type, fact, { crew, worker, id });
  if (said === null) return null;
  const [about, text] = said;
  return {
    ticket: id,
    thread,
    about,
    text,
    ...(ONLY_THREAD.has(about.replace(/ .*/, '')) ? { only: 'thread' as const } : {}),
    ...(isKnownInThread(worker, fact) ? { only: 'channel' as const } : {}),
    ...(GOES_ON.has(fact.type) ? { goesOn: true } : {}),
  };
}

/** Whether the ticket's thread has another line about the fact: the report of a merge, or the call to a meeting. */
function isKnownInThread({ meeting }: Worker, fact: CrewFact): boolean {
  if (fact.type === 'stepBegun') return meeting !== undefined;
  return fact.type === 'merged' || (fact.type === 'leaving' && fact.why === 'merged');
}

function notedLine({ settings, workers }: Crew, { text, ticket }: CrewFactOf<'noted'>): TicketLine | null {
  if (settings === null) return null;
  const line = { about: shortDigest(text), text: `· ${text}` };
  const thread = workers.find((worker) => worker.ticket?.id === ticket)?.ticket?.thread;
  return ticket === undefined || thread === undefined
    ? { ticket: 'crew', thread: settings.channel, ...line }
    : { ticket, thread, only: 'thread', ...line };
}

function admittedLine(
  { settings, asked: requestedTickets = [] }: Crew,
  { proposal, ticket, by }: CrewFactOf<'proposalAdmitted'>,
): TicketLine | null {
  const source = requestedTickets.find((each) => each.ticket === ticket);
  const text =
    source === undefined
      ? `✎ ${by} admitted ${proposal}: it is the ticket ${ticket} now`
      : `🎫 ${source.by} made the ticket ${ticket} of a message of ${source.asker}`;
  return settings === null ? null : { ticket: 'crew', thread: settings.channel, about: `proposal ${proposal}`, text };
}

function replyLine({ message, channel, ticket, deps, by, why }: CrewFactOf<'replyAnswered'>): TicketLine {
  const wanted = `for ${deps.join(', ')}`;
  const text =
    why === ''
      ? `🎫 ${ticket} waits ${wanted}, as ${by} wants`
      : `🎫 ${by} wants ${ticket || 'the ticket'} to wait ${wanted}. It does not: ${why}`;
  return { ticket: 'crew', thread: channel, only: 'thread', about: `reply ${message}`, text };
}

function approvalLine(crew: Crew, fact: CrewFactOf<'approvalAsked' | 'approvalGiven'>): TicketLine | null {
  const { settings } = crew;
  const approval = findApproval(crew, fact);
  if (settings === null || approval === undefined) return null;
  const text = approval.allowed === null ? `✋ ${approvalQuestion(approval)}` : approvalAnswer(approval);
  return { ticket: 'crew', thread: settings.channel, about: `approval ${approvalId(approval)}`, text };
}

/** The text of a question about the whole crew, with the commands that answer it. */
export function approvalQuestion(approval: CrewApproval): string {
  const id = approvalId(approval);
  const { allow, deny } = APPROVAL_WORDS[approval.about];
  return `${approval.what} /crew accept ${id} ${allow} · /crew decline ${id} ${deny}`;
}

/** The effects of allowing and of denying a request about the whole crew, in words. */
export const APPROVAL_WORDS: Readonly<
  Record<CrewApproval['about'], { readonly allow: string; readonly deny: string }>
> = {
  setup: { allow: 'to run them', deny: 'to work without them' },
  runner: { allow: 'to use only this command', deny: 'to start no ticket until "test" is set' },
};

function approvalAnswer({ about, allowed, by }: CrewApproval): string {
  const words = about === 'setup' ? 'the setup commands' : 'the test runner';
  return allowed === true ? `✓ ${by} allowed ${words}` : `✗ ${by} declined ${words}`;
}

function pausedLine({ settings }: Crew, { until, why }: CrewFactOf<'paused'>): TicketLine | null {
  if (settings === null) return null;
  const text = `⏸ The crew waits until ${utcTime(until)}: ${why}`;
  return { ticket: 'crew', thread: settings.channel, about: 'limit', text };
}

function storedLine(
  crew: Crew,
  { ticket, kept: storedRef, worker, branch }: CrewFactOf<'worktreeCleared'>,
): TicketLine | null {
  const { settings } = crew;
  if ((storedRef === null && branch === undefined) || settings === null) return null;
  const { left } = findWorker(crew, worker) ?? {};
  const place = left?.id === ticket ? `. Its worktree stays until the next ticket of ${worker}: ${left.worktree}` : '';
  const where = [
    ...(storedRef === null ? [] : [`is kept as ${storedRef}`]),
    ...(branch === undefined ? [] : [`stays on the branch ${branch}, from which its next worker goes on`]),
  ].join(', and ');
  return { ticket, thread: settings.channel, about: 'kept', text: `The work of ${ticket} ${where}${place}` };
}

/** A line about a worker's ticket: its `about` in `TicketLine`, and its text. */
type Words = readonly [about: string, text: string];
/** `id`: the id of the worker's ticket. */
type Subject = { readonly crew: Crew; readonly worker: Worker; readonly id: string };
type WordsOfFacts = { readonly [T in CrewFact['type']]?: (fact: CrewFactOf<T>, subject: Subject) => Words | null };

function wordsOf<T extends CrewFact['type']>(type: T, fact: CrewFactOf<T>, subject: Subject): Words | null {
  return WORDS[type]?.(fact, subject) ?? null;
}

const WORDS: WordsOfFacts = {
  ticketAssigned: ({ ticket }, { worker, id }) => [COURSE, `◐ ${worker.name} takes ${id}: ${ticket.title}`],
  stepBegun: (_fact, { worker: { name, meeting, stepCount, maxSteps }, id }) => {
    if (meeting === undefined) return [COURSE, `● ${name} works on ${id}, step ${stepCount} of ${maxSteps}`];
    return [COURSE, `⚔ ${name} on ${id} meets ${meeting.otherWorker} on ${meeting.ticket}`];
  },
  errorExplained: ({ why }, { worker, id }) => [
    COURSE,
    `● ${worker.name} on ${id}, error ${worker.errors} in a row: ${why}`,
  ],
  errorCounted: ({ retryAt, errors, why }, { worker, id }) => [
    COURSE,
    `${retryAt === null ? '!' : '●'} ${worker.name} on ${id}: error ${errors} in a row: ${why}`,
  ],
  tested: ({ verdict }, { id }) => ['tests', `${VERDICTS[verdict]} for ${id}`],
  reviewBegun: (_fact, { id }) => ['review', `🔁 The work of ${id} is reviewed`],
  reviewOver: ({ passed, why }, { id }) => [
    'review',
    `${passed ? '✓' : '✗'} The review of ${id} ${passed ? 'passed' : why}`,
  ],
  reviewCut: ({ by }, { id }) => ['review', `⏭ ${id} is to be merged without its review, as ${by} decided`],
  discovered: ({ text }, { worker, id }) => [
    `note ${shortDigest(text)}`,
    `💡 ${worker.name} on ${id} found out: ${text}`,
  ],
  ticketProposed: (fact, { worker }) => [`proposal ${fact.id}`, proposalText({ ...fact, worker: worker.name })],
  waited: (_fact, subject) => questionWords(subject),
  voted: (_fact, subject) => questionWords(subject),
  workerMoved: ({ to, trigger }, { worker: { name }, id }) =>
    to === 'stuck'
      ? [
          'stuck',
          `! ${name} is stuck on ${id}: ${withFullStop(trigger)} /crew retry ${name} tries again, /crew kill ${name} resets it`,
        ]
      : null,
  votesVoided: ({ tip, votes }, { id }) => [
    `votes ${tip}`,
    `${id}: there is a new commit, so ${counted(votes, 'vote')} for ${tip.slice(0, 10)} no longer ${votes === 1 ? 'counts' : 'count'}`,
  ],
  mergeAsked: ({ at }, { worker: { name, work }, id }) =>
    at === undefined || work === null
      ? null
      : [
          'merge',
          `⏳ ${id} is merged at ${utcSecond(at)}: ${sizeWords(work)}. /crew hold ${name} to hold it · /crew merge ${name} to merge it now`,
        ],
  mergeDue: (_fact, { id }) => ['merge', `✓ The merge of ${id} begins: nobody held it`],
  mergeHeld: ({ by }, { id }) => ['merge', `✋ The merge of ${id} is held by ${by}`],
  conflicted: ({ files, round }, { worker: { name, status }, id }) => [
    'merge',
    `⚔ ${id} conflicts with main in ${files.join(', ')}${status === 'stuck' ? '' : `; ${name} resolves it`} (round ${round})`,
  ],
  meetingCalled: ({ ticket: other, otherWorker, hunks }, { worker: { name }, id }) => {
    const who = `${name} on ${id} and ${otherWorker} on ${other}`;
    const how = `Write here to take part. To end it: /crew answer ${name} continue`;
    const code = `\`\`\`\n${hunks.replaceAll('```', "'''")}\n\`\`\``;
    return [`meeting ${other}`, `⚔ ${who} meet here about the conflict. ${how}\n${code}`];
  },
  meetingOver: ({ agreed, why }, { worker: { met }, id }) => {
    const about = `agreed ${met?.at(-1)?.ticket ?? ''}`;
    if (agreed === '') return [about, `⚔ The meeting about ${id} ended without an agreement: ${why}`];
    return [about, `🤝 ${id}: the meeting agreed: ${agreed}`];
  },
  mergeDropped: ({ why }, { id }) => ['merge', `↩ ${id} was not merged: ${why}`],
  merged: ({ commit }, { worker }) => ['merge', mergedWords(worker, commit)],
  pullOpened: ({ url }, { id }) => ['merge', `⇄ ${id} waits in the pull request ${url}`],
  pullReturned: ({ round }, { worker: { pull }, id }) => [
    'merge',
    `↩ The pull request of ${id} needs more (round ${round}): ${pull?.url ?? ''}`,
  ],
  leaving: ({ why, words }, { worker: { name, pull }, id }) => {
    const open = pull === undefined ? '' : `. Its pull request stays open: ${pull.url}`;
    if (why === 'merged') return [COURSE, `✓ ${name} has finished ${id}`];
    return [COURSE, `${why === 'unchanged' ? '✓' : '○'} ${name} leaves ${id}: ${words}${open}`];
  },
};

function questionWords({ crew, worker, id }: Subject): Words | null {
  // Enough votes end the question.
  return worker.waiting === null ? null : [questionAbout(worker), `${id}: ${workerQuestion(crew, worker)}`];
}

/** The line that says that a worker's ticket is merged. */
export function mergedWords({ ticket, stepCount }: Pick<Worker, 'ticket' | 'stepCount'>, commit: string): string {
  return `✓ ${ticket?.id ?? ''} is merged as ${commit.slice(0, 10)} (${counted(stepCount, 'step')})`;
}

/** The agreement of a meeting, as a note for both tickets. A repeated call gives the same text. */
export function agreementNote(
  ticket: string,
  name: string,
  { ticket: other, otherWorker, agreed = '', at }: NonNullable<Worker['meeting']>,
): string {
  const time = isoTime(at).replace(/\.\d+Z$/, 'Z');
  return `**${time}**\n\n${name} on ${ticket} and ${otherWorker} on ${other} agreed on their conflict: ${agreed}`;
}

const VERDICTS = {
  green: '✓ Tests are green',
  flaky: '✓ Tests are green at the second try (flaky)',
  red: '✗ Tests are red',
  none: '· No tests were found',
} as const;

/**
 * A proposed ticket with its text, and the commands that admit or drop it. Shows at most `most` characters of the text,
 * and says how many more there are. Invisible characters of the text are replaced by their codes.
 */
export function proposalText(
  { id, worker, from, title, text, deps, touches }: Omit<Proposal, 'at'>,
  most = Infinity,
): string {
  const about = [
    ...(deps.length === 0 ? [] : [`after ${deps.join(', ')}`]),
    ...(touches.length === 0 ? [] : [`touches ${touches.join(', ')}`]),
  ].map((words) => ` · ${words}`);
  const who = from === '' ? worker : `${worker} on ${from}`;
  const head = `✎ ${who} proposes ${id}: ${title}${about.join('')}`;
  const how = `/crew admit ${id} to make it a ticket · /crew drop ${id} to drop it`;
  const shown = hasHidden(text) ? visible(text) : text;
  const more = shown.length - most;
  const rest = more > 0 ? [`… ${counted(more, 'more character')}: /crew tickets ${id}`] : [];
  return [head, ...(text === '' ? [] : [shown.slice(0, most)]), ...rest, how].join('\n');
}

/** The refusal that people read when the list of proposed tickets is full. */
export const PROPOSALS_FULL = `${MOST_PROPOSALS} proposed tickets wait for people. Admit or drop some: /crew tickets shows them all. Then try again.`;

/** A fact about a worker as a line of its ticket's log; `null` for facts that the log leaves out. */
export function factLine(fact: CrewFact): string | null {
  return logLineOf(fact.type, fact);
}

function logLineOf<T extends CrewFact['type']>(type: T, fact: CrewFactOf<T>): string | null {
  return LOG_LINES[type]?.(fact) ?? null;
}

type LogLines = { readonly [T in CrewFact['type']]?: (fact: CrewFactOf<T>) => string | null };

const LOG_LINES: LogLines = {
  workerMoved: ({ from, to, trigger }) => `${from} → ${to}: ${trigger}`,
  stepAsked: ({ kind, about }) => `step asked: ${kind}${about === '' ? '' : `\n${about}`}`,
  errorCounted: ({ errors, why }) => `error ${errors}: ${why}`,
  errorExplained: ({ why }) => why,
  sessionRenewed: ({ why }) => `the step is repeated: ${why}`,
  stepPutBack: ({ why }) => `the step is repeated: ${why}`,
  discovered: ({ text }) => `found out: ${text}`,
  tested: ({ verdict, output }) => `tests ${verdict}${output === '' ? '' : `\n${output}`}`,
  reviewBegun: ({ work }) => `review of commit ${work.commit ?? work.tree}`,
  reviewOver: ({ passed, why }) => `review ${passed ? 'passed' : 'did not pass'}: ${why}`,
  reviewCut: ({ by }) => `${by} did not wait for the review`,
  waited: ({ why }) => `waits for people: ${why}`,
  waitOver: ({ by, choice }) => `${by} decided: ${choice}`,
  pullOpened: ({ url, head }) => `pull request ${url} for ${head.slice(0, 10)}`,
  pullReturned: ({ round, about }) => `round ${round} of the pull request\n${about}`,
  pullClosed: ({ why }) => why,
  ticketProposed: ({ id, title }) => `proposed ${id}: ${title}`,
  conflicted: ({ files, round }) => `conflict in ${files.join(', ')}, round ${round}`,
  meetingCalled: ({ otherWorker, ticket }) => `meeting with ${otherWorker} on ${ticket}`,
  meetingOver: ({ agreed, why }) => (agreed === '' ? `meeting over: ${why}` : `meeting agreed: ${agreed}`),
  merged: ({ commit }) => `merged as ${commit}`,
  voted: ({ by, tip }) => `vote of ${by} for ${tip.slice(0, 10)}`,
  votesVoided: ({ votes, tip }) => `${counted(votes, 'vote')} for ${tip.slice(0, 10)} void: there is a new commit`,
  mergeAsked: ({ at }) => (at === undefined ? null : `merge announced for ${utcSecond(at)}`),
  mergeHeld: ({ by }) => `merge held by ${by}`,
  mergeStarted: ({ lands, tip, main }) =>
    lands === true ? null : `merge of ${tip.slice(0, 10)} into ${main.slice(0, 10)}`,
  mergeDropped: ({ why }) => `not merged: ${why}`,
};
