import type { AnnouncementOf, Limit } from '../floor/announcement.ts';
import type { AboutCall, AgentId, DecidedRequest, Feedback, Question } from '../floor/settings.ts';
import type { Instant } from '../../lib/time.ts';
import { mixedWords } from '../../lib/visible.ts';
import { excerpt } from '../commands/clock-words.ts';

type ShownRequest = Pick<Question, 'question' | 'detail' | 'about' | 'always' | 'pause' | 'restarted'> & {
  readonly until?: Instant;
};

/** Returns the facts of a request, one line each. Backticks are replaced, so that no line opens a code block. */
export function requestFacts({ detail, about, restarted }: ShownRequest, agent: string): readonly string[] {
  const mixed = mixedWords(detail).slice(0, MOST_MIXED).join(', ');
  const callFacts = about === undefined ? [] : factsAbout(about, agent, restarted === true);
  return [
    ...(restarted === true ? [RESTARTED(agent)] : []),
    ...callFacts,
    ...(mixed === '' ? [] : [`⚠ Words with letters of more than one alphabet: ${mixed}`]),
  ].map(inline);
}

/** Returns a run's short name: "run dev#2", or "run dev+#1" for a background run. */
export function runWords(run: string): string {
  return `run ${run.slice(run.lastIndexOf(' ') + 1)}`;
}

/** Returns the name of a limit: "limit of turns", "daily limit of cost". */
export function limitName(budget: Limit['budget']): string {
  return budget.endsWith(' a day') ? `daily limit of ${budget.slice(0, -' a day'.length)}` : `limit of ${budget}`;
}

const RESTARTED = (agent: string): string =>
  `⚠ ${agent} was restarted. Your decision counts once, for the same request`;

/** Returns whether the details of a request contain a diff. */
export function isDiff(detail: string): boolean {
  return /^@@ -\d/m.test(detail);
}

/**
 * Returns how to decide about a request, in lines: commands, offered rules, who decides, the deadline. Empty for a
 * request without `until` and `about`.
 */
export function decisionHints(request: ShownRequest, agent: string): readonly string[] {
  const { about, always = [], until } = request;
  if (until === undefined && about === undefined) return [];
  const rules = always.map(({ words }, index) => `Always allow ${index + 1}: ${words}`);
  const scope = rules.length === 0 ? [] : [`Rules hold for ${agent} in this channel, for 30 days.`];
  const who = about?.who === undefined ? 'Operators decide.' : `Only these decide: ${about.who}.`;
  const time = until === undefined ? '' : ` ${silenceMeans(request)} at ${utcTime(until)} if nobody answers.`;
  return [...howToAnswer(request, agent), ...rules, ...scope, `${who}${time}`].map(inline);
}

function silenceMeans({ about, pause }: ShownRequest): string {
  if (pause !== undefined) return 'The run ends';
  return about?.answer === undefined ? 'Denied' : 'Declined';
}

function howToAnswer({ question, about, pause, restarted }: ShownRequest, agent: string): readonly string[] {
  if (pause !== undefined || restarted === true || about === undefined) return [];
  if (about.answer !== undefined) {
    const command = `/answer ${question} ${about.answer}`;
    if (about.form === undefined) return [`When it is done: ${command}. To decline: /reject ${question}`];
    return [`Answer in the form, or with ${command}. ${formNote(about)}.`];
  }
  const { times = 1 } = about;
  return [
    ...(times === 1 ? [] : [`${agent} asks ${times} times for exactly this. One decision counts for all ${times}.`]),
    ...(about.denyOnly === true
      ? [`${agent} does not read the reason of a denial, and may end its answer after one.`]
      : []),
  ];
}

/** Returns the note beside a form: whether the channel will show what a person fills in. */
export function formNote({ showsAnswer }: Pick<AboutCall, 'showsAnswer'>): string {
  return showsAnswer === true ? 'The channel will show your answer' : 'The channel will not show your answer';
}

/** Returns the label of the input field for the reason of a denial. `request`: `null` when it is closed. */
export function reasonLabel(request: ShownRequest | null): string {
  const { denyOnly, answer } = request?.about ?? {};
  // A restarted agent reads the reason in its next prompt.
  const isUnread = request?.restarted !== true && (denyOnly === true || answer !== undefined);
  return isUnread ? 'Reason (recorded, not sent to the agent)' : 'Reason (the agent reads it)';
}

function factsAbout(
  { run, step, steps, tool, folder, why, says, danger, questions }: AboutCall,
  agent: string,
  isRestarted: boolean,
): readonly string[] {
  const at = run === undefined ? 'Step' : `R${runWords(run).slice(1)}, step`;
  // The agent's other open requests were lost at its restart.
  const place = questions === undefined || isRestarted ? [] : [`request 1 of ${questions}`];
  return [
    ...(danger === true
      ? [`🟥 Danger: text from an untrusted source may be steering ${agent}. Deny unless you know why it does this`]
      : []),
    [`${at} ${step} of ${steps}`, tool, ...(folder === null ? [] : [`in ${folder}`]), ...place].join(' · '),
    `Reason: ${why}`,
    ...(says === null ? [] : [`${agent} says: “${says}”`]),
  ];
}

const MOST_MIXED = 5;

/** Returns a text as one line without backticks. */
export function inline(line: string): string {
  return line.replaceAll('`', "'").replaceAll('\n', ' ');
}

const REASON_LENGTH = 200;
/** The most characters of a title or name. */
export const HEADING_LENGTH = 100;

/** Returns a title as one line without backticks, at most 100 characters. */
export function heading(title: string): string {
  return excerpt(title.replaceAll('`', "'"), HEADING_LENGTH);
}

/** Returns the commands by which operators decide about the files in an agent's folder. */
export function trustAnswers({ agent, id }: { readonly agent: AgentId; readonly id: string }): string {
  return `Operators decide. To start it with exactly these files: /agent trust ${agent} ${id}. To leave it stopped: /agent distrust ${agent} ${id}.`;
}

/** Returns in one line how a request was decided and how its tool call ended. */
export function answerText(notice: AnsweredNotice, nameOf: (agent: AgentId) => string): string {
  return outcomeWords(notice, nameOf(notice.agent)) + decisionDetails(notice);
}

/** Returns the words that tell an agent how a request from before its restart was decided. */
export function decidedWords({ title, choice, reason: why }: DecidedRequest): string {
  const opening = `Before you were restarted, you requested "${inline(heading(title))}"`;
  const words = why === undefined ? '' : `, with these words: "${inline(excerpt(why, REASON_LENGTH))}"`;
  return choice === 'allow'
    ? `${opening}. It was allowed, and has not run. Request exactly the same again: it is allowed once.`
    : `${opening}. It was denied${words}. Continue without it.`;
}

/** Returns the words that tell an agent why its failed run is retried, with the words of the person who retried it. */
export function retriedWords({ name, words }: Feedback): string {
  const said = words.replaceAll(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ').trim();
  return `Your last run failed. ${inline(excerpt(name, HEADING_LENGTH))} retries it with these words: "${said}"`;
}

type AnsweredNotice = AnnouncementOf<'answered'>;

/** Returns the decision about a request and its result: "✅ dev ran git status in 2.1 s · allowed once by ann". */
export function outcomeWords(notice: AnsweredNotice, agent: string): string {
  const { choice, by, pause, completes, inWords } = notice;
  const title = heading(notice.title);
  if (choice === 'reject' && by === null && pause === undefined && inWords !== true)
    return `⛔ Denied: ${agent} wanted to run ${title}, and nobody could be asked:`;
  if (choice === null || by === null) {
    if (pause !== undefined) return `⌛ No longer needed: a decision about ${agent}’s paused run`;
    return inWords === true
      ? `⌛ No longer needed: an answer to ${agent}: ${title}`
      : `⌛ No longer needed: ${agent}’s request to run ${title}`;
  }
  const who = inline(excerpt(by, HEADING_LENGTH));
  if (completes === true) return `✅ ${who} completed ${agent}’s run: ${title}`;
  if (pause !== undefined)
    return choice === 'allow' ? `▶️ ${who} continued ${agent}’s run` : `⏹️ ${who} ended ${agent}’s run`;
  if (inWords === true)
    return choice === 'allow' ? `✅ ${who} answered ${agent}: ${title}` : `⛔ ${who} declined ${agent}: ${title}`;
  if (choice === 'reject') return `⛔ ${who} denied ${agent}: ${title}`;
  return allowedWords(notice, { agent, who, title });
}

function allowedWords(
  { always, callOutcome }: AnsweredNotice,
  { agent, who, title }: { readonly agent: string; readonly who: string; readonly title: string },
): string {
  const how = always === undefined ? `allowed once by ${who}` : `always allowed by ${who}: ${inline(always)}`;
  const took =
    callOutcome === undefined || callOutcome.ms === null ? '' : ` in ${NUMBER.format(callOutcome.ms / 1_000)} s`;
  switch (callOutcome?.status) {
    case undefined:
      return `✅ ${agent} may run ${title} · ${how}`;
    case 'complete':
      return `✅ ${agent} ran ${title}${took} · ${how}`;
    case 'unrun':
      return `⚠️ ${agent} did not run ${title} · ${how}`;
    case 'unknown':
      return `⚠️ ${agent} started ${title}, outcome unknown · ${how}`;
    default:
      return `⚠️ ${agent}: ${title} ended with ${callOutcome?.status}${took} · ${how}`;
  }
}

/** Returns the reason and time of a decision: " “use b.txt” · 12:03 UTC". */
export function decisionDetails({ at, reason: why }: AnsweredNotice): string {
  return `${why === undefined ? '' : ` “${inline(excerpt(why, REASON_LENGTH))}”`} · ${utcTime(at)}`;
}

/** Returns words with a full stop at their end, unless they end with ".", "!", "?" or "…". */
export function withFullStop(words: string): string {
  return /[.!?…]$/.test(words) ? words : `${words}.`;
}

/** Returns the time in UTC: "14:05 UTC". */
export function utcTime(at: Instant): string {
  return `${new Date(at).toISOString().slice(11, 16)} UTC`;
}

/** Returns the time in UTC with its seconds: "14:05:09 UTC". */
export function utcSecond(at: Instant): string {
  return `${new Date(at).toISOString().slice(11, 19)} UTC`;
}

/** Returns a text as a code block. Empty for an empty text. */
export function blockOf(detail: string): string {
  const language = isDiff(detail) ? 'diff' : '';
  return detail === '' ? '' : `\n\`\`\`${language}\n${detail}\n\`\`\``;
}

/** Returns a cause as one line of at most 200 characters, or `null` for an empty cause. */
export function reason(text: string): string | null {
  return text.trim() === '' ? null : excerpt(text, REASON_LENGTH);
}

/** Formats numbers with at most one decimal. */
export const NUMBER = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 });
