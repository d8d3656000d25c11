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
export function waitWords({ settings, asked = [] }: Crew, { waiting, ticket, votes = [] }: Worker): string {
  if (waiting === null) return '';
  const { votes: most = 1 } = settings ?? {};
  const asker = asked.find((each) => each.ticket === ticket?.id)?.asker;
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
  const isAsked = waiting !== null && about === questionAbout(worker);
  if (kind === 'no') return isAsked || about === 'merge' ? { line: `/crew hold ${name}`, mark: null } : null;
  const isQuestion = about.startsWith(QUESTION);
  return isQuestion ? { line: `/crew answer ${name} merge`, mark: isAsked ? waiting.since : 0 } : null;
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
  if (fact.type === 'worktreeCleared') return keptLine(crew, fact);
  if (worker === undefined || worker.ticket === null) return null;
  const said = wordsOf(crew, worker, fact);
  if (said === null) return null;
  const { id, thread } = worker.ticket;
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
  { settings, asked = [] }: Crew,
  { proposal, ticket, by }: CrewFactOf<'proposalAdmitted'>,
): TicketLine | null {
  const source = asked.find((each) => each.ticket === ticket);
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
  const asked = findApproval(crew, fact);
  if (settings === null || asked === undefined) return null;
  const text = asked.allowed === null ? `✋ ${approvalQuestion(asked)}` : approvalAnswer(asked);
  return { ticket: 'crew', thread: settings.channel, about: `approval ${approvalId(asked)}`, text };
}

/** The text of a question about the whole crew, with the commands that answer it. */
export function approvalQuestion(asked: CrewApproval): string {
  const id = approvalId(asked);
  const { allow, deny } = APPROVAL_WORDS[asked.about];
  return `${asked.what} /crew accept ${id} ${allow} · /crew decline ${id} ${deny}`;
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

function keptLine(crew: Crew, { ticket, kept, worker, branch }: CrewFactOf<'worktreeCleared'>): TicketLine | null {
  const { settings } = crew;
  if ((kept === null && branch === undefined) || settings === null) return null;
  const { left } = findWorker(crew, worker) ?? {};
  const place = left?.id === ticket ? `. Its worktree stays until the next ticket of ${worker}: ${left.worktree}` : '';
  const where = [
    ...(kept === null ? [] : [`is kept as ${kept}`]),
    ...(branch === undefined ? [] : [`stays on the branch ${branch}, from which its next worker goes on`]),
  ].join(', and ');
  return { ticket, thread: settings.channel, about: 'kept', text: `The work of ${ticket} ${where}${place}` };
}

function wordsOf(crew: Crew, worker: Worker, fact: CrewFact): readonly [about: string, text: string] | null {
  const { name, stepCount, maxSteps } = worker;
  const ticket = worker.ticket?.id ?? '';
  switch (fact.type) {
    case 'ticketAssigned':
      return [COURSE, `◐ ${name} takes ${ticket}: ${fact.ticket.title}`];
    case 'stepBegun':
      if (worker.meeting === undefined)
        return [COURSE, `● ${name} works on ${ticket}, step ${stepCount} of ${maxSteps}`];
      return [COURSE, `⚔ ${name} on ${ticket} meets ${worker.meeting.otherWorker} on ${worker.meeting.ticket}`];
    case 'errorExplained':
      return [COURSE, `● ${name} on ${ticket}, error ${worker.errors} in a row: ${fact.why}`];
    case 'errorCounted':
      return [
        COURSE,
        `${fact.retryAt === null ? '!' : '●'} ${name} on ${ticket}: error ${fact.errors} in a row: ${fact.why}`,
      ];
    case 'tested':
      return ['tests', `${VERDICTS[fact.verdict]} for ${ticket}`];
    case 'reviewBegun':
      return ['review', `🔁 The work of ${ticket} is reviewed`];
    case 'reviewOver':
      return ['review', `${fact.passed ? '✓' : '✗'} The review of ${ticket} ${fact.passed ? 'passed' : fact.why}`];
    case 'reviewCut':
      return ['review', `⏭ ${ticket} is to be merged without its review, as ${fact.by} decided`];
    case 'discovered':
      return [`note ${shortDigest(fact.text)}`, `💡 ${name} on ${ticket} found out: ${fact.text}`];
    case 'ticketProposed':
      return [`proposal ${fact.id}`, proposalText({ ...fact, worker: name })];
    case 'waited':
    case 'voted':
      // Enough votes end the question.
      if (worker.waiting === null) return null;
      return [questionAbout(worker), `${ticket}: ${workerQuestion(crew, worker)}`];
    case 'workerMoved':
      return fact.to === 'stuck'
        ? [
            'stuck',
            `! ${name} is stuck on ${ticket}: ${withFullStop(fact.trigger)} /crew retry ${name} tries again, /crew kill ${name} resets it`,
          ]
        : null;
    default:
      return mergeWords(worker, fact) ?? endWords(worker, fact);
  }
}

function mergeWords(worker: Worker, fact: CrewFact): readonly [about: string, text: string] | null {
  const { name, work } = worker;
  const ticket = worker.ticket?.id ?? '';
  switch (fact.type) {
    case 'votesVoided':
      return [
        `votes ${fact.tip}`,
        `${ticket}: there is a new commit, so ${counted(fact.votes, 'vote')} for ${fact.tip.slice(0, 10)} no longer ${fact.votes === 1 ? 'counts' : 'count'}`,
      ];
    case 'mergeAsked':
      return fact.at === undefined || work === null
        ? null
        : [
            'merge',
            `⏳ ${ticket} is merged at ${utcSecond(fact.at)}: ${sizeWords(work)}. /crew hold ${name} to hold it · /crew merge ${name} to merge it now`,
          ];
    case 'mergeDue':
      return ['merge', `✓ The merge of ${ticket} begins: nobody held it`];
    case 'mergeHeld':
      return ['merge', `✋ The merge of ${ticket} is held by ${fact.by}`];
    case 'conflicted':
      return [
        'merge',
        `⚔ ${ticket} conflicts with main in ${fact.files.join(', ')}${worker.status === 'stuck' ? '' : `; ${name} resolves it`} (round ${fact.round})`,
      ];
    case 'meetingCalled': {
      const { ticket: other, otherWorker, hunks } = fact;
      const who = `${name} on ${ticket} and ${otherWorker} on ${other}`;
      const how = `Write here to take part. To end it: /crew answer ${name} continue`;
      const code = `\`\`\`\n${hunks.replaceAll('```', "'''")}\n\`\`\``;
      return [`meeting ${other}`, `⚔ ${who} meet here about the conflict. ${how}\n${code}`];
    }
    case 'meetingOver': {
      const about = `agreed ${worker.met?.at(-1)?.ticket ?? ''}`;
      if (fact.agreed === '') return [about, `⚔ The meeting about ${ticket} ended without an agreement: ${fact.why}`];
      return [about, `🤝 ${ticket}: the meeting agreed: ${fact.agreed}`];
    }
    case 'mergeDropped':
      return ['merge', `↩ ${ticket} was not merged: ${fact.why}`];
    case 'merged':
      return ['merge', mergedWords(worker, fact.commit)];
    default:
      return null;
  }
}

/** The line that says that a worker's ticket is merged. */
export function mergedWords({ ticket, stepCount }: Pick<Worker, 'ticket' | 'stepCount'>, commit: string): string {
  return `✓ ${ticket?.id ?? ''} is merged as ${commit.slice(0, 10)} (${counted(stepCount, 'step')})`;
}

function endWords({ name, ticket, pull }: Worker, fact: CrewFact): readonly [about: string, text: string] | null {
  const id = ticket?.id ?? '';
  switch (fact.type) {
    case 'pullOpened':
      return ['merge', `⇄ ${id} waits in the pull request ${fact.url}`];
    case 'pullReturned':
      return ['merge', `↩ The pull request of ${id} needs more (round ${fact.round}): ${pull?.url ?? ''}`];
    case 'leaving': {
      const open = pull === undefined ? '' : `. Its pull request stays open: ${pull.url}`;
      if (fact.why === 'merged') return [COURSE, `✓ ${name} has finished ${id}`];
      return [COURSE, `${fact.why === 'unchanged' ? '✓' : '○'} ${name} leaves ${id}: ${fact.words}${open}`];
    }
    default:
      return null;
  }
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
  switch (fact.type) {
    case 'workerMoved':
      return `${fact.from} → ${fact.to}: ${fact.trigger}`;
    case 'stepAsked':
      return `step asked: ${fact.kind}${fact.about === '' ? '' : `\n${fact.about}`}`;
    case 'errorCounted':
      return `error ${fact.errors}: ${fact.why}`;
    case 'errorExplained':
      return fact.why;
    case 'sessionRenewed':
    case 'stepPutBack':
      return `the step is repeated: ${fact.why}`;
    case 'discovered':
      return `found out: ${fact.text}`;
    case 'tested':
      return `tests ${fact.verdict}${fact.output === '' ? '' : `\n${fact.output}`}`;
    case 'reviewBegun':
      return `review of commit ${fact.work.commit ?? fact.work.tree}`;
    case 'reviewOver':
      return `review ${fact.passed ? 'passed' : 'did not pass'}: ${fact.why}`;
    case 'reviewCut':
      return `${fact.by} did not wait for the review`;
    case 'waited':
      return `waits for people: ${fact.why}`;
    case 'waitOver':
      return `${fact.by} decided: ${fact.choice}`;
    case 'pullOpened':
      return `pull request ${fact.url} for ${fact.head.slice(0, 10)}`;
    case 'pullReturned':
      return `round ${fact.round} of the pull request\n${fact.about}`;
    case 'pullClosed':
      return fact.why;
    case 'ticketProposed':
      return `proposed ${fact.id}: ${fact.title}`;
    case 'conflicted':
      return `conflict in ${fact.files.join(', ')}, round ${fact.round}`;
    case 'meetingCalled':
      return `meeting with ${fact.otherWorker} on ${fact.ticket}`;
    case 'meetingOver':
      return fact.agreed === '' ? `meeting over: ${fact.why}` : `meeting agreed: ${fact.agreed}`;
    case 'merged':
      return `merged as ${fact.commit}`;
    default:
      return mergeLine(fact);
  }
}

function mergeLine(fact: CrewFact): string | null {
  switch (fact.type) {
    case 'voted':
      return `vote of ${fact.by} for ${fact.tip.slice(0, 10)}`;
    case 'votesVoided':
      return `${counted(fact.votes, 'vote')} for ${fact.tip.slice(0, 10)} void: there is a new commit`;
    case 'mergeAsked':
      return fact.at === undefined ? null : `merge announced for ${utcSecond(fact.at)}`;
    case 'mergeHeld':
      return `merge held by ${fact.by}`;
    case 'mergeStarted':
      return fact.lands === true ? null : `merge of ${fact.tip.slice(0, 10)} into ${fact.main.slice(0, 10)}`;
    case 'mergeDropped':
      return `not merged: ${fact.why}`;
    default:
      return null;
  }
}
