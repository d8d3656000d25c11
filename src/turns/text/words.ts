import type { AnnouncementTexts } from '../../config/announcements.ts';
import type { Refusal } from '../floor/command.ts';
import type { Announcement, Limit } from '../floor/fact.ts';
import type { AboutCall, AgentId, DecidedRequest, Feedback, Question } from '../floor/settings.ts';
import type { Instant } from '../../lib/time.ts';
import { mixedWords } from '../../lib/visible.ts';
import { excerpt } from '../commands/clock-words.ts';

/**
 * What people are told: the template of the announcement's kind, filled in, and how often it recurred (" (×3)"), unless it
 * names all whom it is about, or is what became of a question.
 * Names in braces are filled in; one that has no value goes, with the space or the ": " before it, one that the kind does
 * not have stays as it is, and "(s)" after a word becomes "s" or nothing by the number before it. `null` when the kind is
 * switched off.
 */
export function announcementText(
  announcement: Announcement,
  templates: AnnouncementTexts,
  nameOf: (agent: AgentId) => string,
  repeat: number,
): string | null {
  const template = templateOf(announcement, templates);
  if (template === false) return null;
  const { kind } = announcement;
  const saysAll =
    kind === 'disconnect' ||
    kind === 'nobody' ||
    kind === 'answered' ||
    kind === 'approval' ||
    isAboutTrust(announcement);
  const recurred = repeat < 2 || saysAll ? '' : ` (×${repeat})`;
  const server = 'server' in announcement ? { server: announcement.server } : {};
  return filled(template, { ...valuesOf(announcement, nameOf), ...server }) + behind(announcement, nameOf) + recurred;
}

/** A question as people are asked it. */
export type AskedQuestion = Pick<Question, 'question' | 'detail' | 'about' | 'always' | 'pause' | 'gone'> & {
  readonly until?: Instant;
};

/** What people must know of what would run, a line each; backticks are turned, so that nothing opens code. */
export function factsAsked({ detail, about, gone }: AskedQuestion, agent: string): readonly string[] {
  const mixed = mixedWords(detail).slice(0, MOST_MIXED).join(', ');
  const known = about === undefined ? [] : factsAbout(about, agent, gone === true);
  return [
    ...(gone === true ? [GONE(agent)] : []),
    ...known,
    ...(mixed === '' ? [] : [`⚠ Letters of more than one alphabet in one word: ${mixed}`]),
  ].map(inline);
}

/** A run by its short id, which says whose it is: "run dev#2", or "run dev+#1" for work beside the floor. */
export function runWords(run: string): string {
  return `run ${run.slice(run.lastIndexOf(' ') + 1)}`;
}

const GONE = (agent: string): string => `⚠ ${agent} was restarted: a yes now counts for the same request, once`;

/** Whether what would run is told as changes in files. */
export function isDiff(detail: string): boolean {
  return /^@@ -\d/m.test(detail);
}

/** What each answer does, who may give it and until when, a line each. */
export function answersAsked(asked: AskedQuestion, agent: string): readonly string[] {
  const { about, always = [], until } = asked;
  if (until === undefined && about === undefined) return [];
  const rules = always.map(
    ({ words }, index) => `Always ${index + 1}: ${words}, for ${agent} in this channel, for 30 days.`,
  );
  const back =
    rules.length === 0 ? [] : [`${rules.pop() ?? ''} /run approvals takes ${always.length > 1 ? 'them' : 'it'} back.`];
  const time = until === undefined ? '' : ` Until ${utcTime(until)}; nobody’s silence is a yes.`;
  return [...yesMeans(asked, agent), ...rules, ...back, `Who decides: ${about?.who ?? 'operators'}.${time}`].map(
    inline,
  );
}

function yesMeans({ question, about, pause, gone }: AskedQuestion, agent: string): readonly string[] {
  if (pause !== undefined || gone === true) return [];
  if (about?.answer !== undefined) {
    const words = `/answer ${question} ${about.answer}`;
    const way =
      about.form === undefined
        ? `Done, or ${words}, says that it is done.`
        : `Its form answers it, or ${words}. ${formNote(about)}.`;
    return [`${way} Decline says no.`];
  }
  const { times = 1 } = about ?? {};
  const howOften = times === 1 ? 'one time' : `${times} times, for so often it is asked for now`;
  const without = times === 1 ? 'it' : 'any of them';
  if (about?.bare === true)
    return [
      `Once lets ${agent} do this, by its own account, ${howOften}. No is all that ${agent} hears of a no: what you say why is on record, and it may end its answer there.`,
    ];
  return [
    `Once runs exactly this, ${howOften}. No lets ${agent} go on without ${without}, and it reads why if you say so.`,
  ];
}

/** Who sees what is filled into a form, for people to read before they send it. */
export function formNote({ showsAnswer }: Pick<AboutCall, 'showsAnswer'>): string {
  return showsAnswer === true ? 'The channel will show your answer' : 'The channel will not show your answer';
}

/** What becomes of the words of a no, in at most 45 letters; `asked`: what is answered, if that is still asked. */
export function reasonLabel(asked: AskedQuestion | null): string {
  const { bare, answer } = asked?.about ?? {};
  // Whoever is gone is prompted with them when it is back.
  const isUnread = asked?.gone !== true && (bare === true || answer !== undefined);
  return isUnread ? 'Why not? On record: whoever asks hears a no' : 'Why not? Its agent reads it';
}

function factsAbout(
  { run, step, steps, tool, folder, why, says, danger, questions }: AboutCall,
  agent: string,
  isGone: boolean,
): readonly string[] {
  const at = run === undefined ? 'Step' : `R${runWords(run).slice(1)}, step`;
  // What stood behind it is gone with whoever asked.
  const place = questions === undefined || isGone ? [] : [`question 1 of ${questions}`];
  return [
    ...(danger === true
      ? [`🟥 Danger: somebody else’s text may be speaking through ${agent}. Say no unless you know why it does this`]
      : []),
    [`${at} ${step} of ${steps}`, tool, ...(folder === null ? [] : [`in ${folder}`]), ...place].join(' · '),
    `Asked because ${why}`,
    ...(says === null ? [] : [`${agent} says: “${says}”`]),
  ];
}

const MOST_MIXED = 5;

function inline(line: string): string {
  return line.replaceAll('`', "'").replaceAll('\n', ' ');
}

/** Why a command was refused, and what can be done, in one sentence. `agent` is the name of whom it was about. */
export function refusalText(refusal: Refusal, context: { readonly agent?: string }): string {
  const { agent } = context;
  return REFUSALS[refusal](agent ?? 'that agent', agent === undefined ? ' <agent>' : ` ${argument(agent)}`);
}

const REFUSALS: Readonly<Record<Refusal, (agent: string, argument: string) => string>> = {
  duplicate: () => 'That message was taken in before: nothing was changed.',
  'not-holder': (agent) => `The floor is not with ${agent}: /floor status shows who has it.`,
  'stale-epoch': () => 'That turn is over: /floor status shows whose turn it is now.',
  'not-waiting': (agent) => `Nothing to resolve: ${agent} is not waiting.`,
  'asks-back': (agent) => `Not now: ${agent} waits for your answer.`,
  'asks-too-deep': () => 'Not now: too many agents wait for one another’s answers.',
  'not-seated': (agent) => `There is no seat for ${agent} in this channel: add it to the channel's configuration.`,
  'not-queued': (agent, name) => `The queue does not have ${agent}: /floor add${name} puts it there.`,
  offline: (agent, name) => `Not now: ${agent} is offline; /agent restart${name} starts it again.`,
  disabled: (agent, name) => `Not now: ${agent} is disabled; /agent enable${name} lets it back in.`,
  already: () => 'That is so already: nothing was changed.',
  'still-stopping': (agent) => `Not yet: ${agent} is still stopping; try again in a moment.`,
  'nothing-to-stop': () => 'Nobody has the floor: there is nothing to stop, skip or extend.',
  'nothing-to-resume': () => 'Nothing is paused here: write a message or run /floor start to let the agents speak.',
  'nothing-due': () => 'No time has run out yet: nothing was changed.',
  paused: () => 'The floor is paused: run /floor resume first.',
  'catching-up': () => 'This channel is still reading what it missed: try again in a moment.',
  'nobody-available': () => 'No agents are available in this channel: /agent list shows why.',
  'not-asked': (agent) => `Nobody asked ${agent} who is next: /floor grant gives the floor to an agent.`,
  'unknown-message': () => 'There is no such message in this channel: copy its id from the message itself.',
  'needs-decision': (agent) => `Not now: ${agent} waits for a yes; /allow shows what it asks and how to answer.`,
  'stale-question': () => 'That question is over.',
  'not-shown': () => 'Not yet: the question does not stand in the channel as a whole.',
  'bad-queue': () => 'Every name must be in the queue, and only once: /queue shows who is in it.',
  'day-limit': () => 'A budget is used up: run /floor resume to let the agents go on.',
};

type Values = Readonly<Record<string, string | number | null>>;

function templateOf(announcement: Announcement, templates: AnnouncementTexts): string | false {
  if (announcement.kind === 'approval')
    return templates.approval[announcement.about?.answer === undefined ? 'yes' : 'words'];
  if (announcement.kind !== 'limit') return templates[announcement.kind];
  return templates.limit === false ? false : templates.limit[announcement.budget];
}

function valuesOf(announcement: Announcement, nameOf: (agent: AgentId) => string): Values {
  switch (announcement.kind) {
    case 'timeout':
    case 'waitTimeout':
    case 'recovered':
    case 'skipped':
    case 'toolsBack':
      return { agent: nameOf(announcement.agent) };
    case 'disconnect':
      return {
        agent: [...(announcement.also ?? []), announcement.agent].map(nameOf).join(', '),
        cause: reason(announcement.cause),
      };
    case 'nobody':
      return {};
    case 'unaddressed': {
      const { named, example } = announcement;
      const names = named.map(nameOf).join(', ');
      return {
        why: names === '' ? `it names no agent. Begin with a name: "@${nameOf(example)} …"` : `${names} cannot now`,
      };
    }
    case 'limit': {
      const { budget, used, max } = announcement;
      return { budget, used: amount(budget, used), max: amount(budget, max) };
    }
    case 'stopped':
      return { agent: announcement.agent === null ? null : nameOf(announcement.agent), kept: announcement.kept };
    case 'undelivered':
    case 'toolsGone':
      return { agent: nameOf(announcement.agent), why: reason(announcement.why) };
    case 'gap':
      return { why: reason(announcement.why) };
    case 'trust':
      return { agent: nameOf(announcement.agent), folder: inline(announcement.folder), id: announcement.id };
    case 'trustAnswered': {
      const { agent, id } = announcement;
      return { agent: nameOf(agent), id, answer: trustWords(announcement) };
    }
    case 'aside':
      return { agent: nameOf(announcement.agent), what: excerpt(announcement.what, REPORT_LENGTH) };
    case 'approval':
    case 'answered':
    case 'forbidden':
    case 'unasked':
    case 'revoked':
      return valuesOfTools(announcement, nameOf(announcement.agent));
  }
}

type AboutTools = Extract<Announcement, { kind: 'approval' | 'answered' | 'forbidden' | 'unasked' | 'revoked' }>;

function valuesOfTools(announcement: AboutTools, agent: string): Values {
  switch (announcement.kind) {
    case 'approval':
      return { agent, question: `${announcement.question}`, title: heading(announcement.title), detail: null };
    case 'answered':
      return { agent, answer: answerWords(announcement), title: heading(announcement.title) };
    case 'forbidden':
    case 'unasked':
      return { agent, title: heading(announcement.title), why: reason(announcement.why) };
    case 'revoked':
      return { agent, rule: heading(announcement.rule), by: inline(excerpt(announcement.by, HEADING_LENGTH)) };
  }
}

const REASON_LENGTH = 200;
const REPORT_LENGTH = 400;
const HEADING_LENGTH = 100;

/** A title on one line that opens no code. */
function heading(title: string): string {
  return excerpt(title.replaceAll('`', "'"), HEADING_LENGTH);
}

/** What is told whatever a text of the configuration says. */
function behind(announcement: Announcement, nameOf: (agent: AgentId) => string): string {
  if (announcement.kind === 'approval') {
    const name = nameOf(announcement.agent);
    const lines = (some: readonly string[]): string => some.map((line) => `\n${line}`).join('');
    const facts = lines(factsAsked(announcement, name));
    return facts + blockOf(announcement.detail) + lines(answersAsked(announcement, name));
  }
  if (announcement.kind === 'answered') return cameWords(announcement);
  if (announcement.kind === 'trust') return `${blockOf(announcement.detail)}\n${trustAnswers(announcement)}`;
  if (announcement.kind === 'trustAnswered') return ` · ${utcTime(announcement.at)}`;
  if (announcement.kind !== 'nobody' || announcement.lost === undefined) return '';
  const { agents, cause } = announcement.lost;
  return `: ${reason(`${agents.map(nameOf).join(', ')}: ${cause}`)}`;
}

/** What can be said to a question about the files in an agent's folder. */
export function trustAnswers({ agent, id }: { readonly agent: AgentId; readonly id: string }): string {
  return `Operators decide. /agent trust ${agent} ${id} starts it with exactly these files; /agent distrust ${agent} ${id} leaves it stopped.`;
}

/** "✅ ann trusts". */
function trustWords({ choice, by }: Extract<Announcement, { kind: 'trustAnswered' }>): string {
  if (choice === null || by === null) return '⌛ No longer needed: a decision about';
  const who = inline(excerpt(by, HEADING_LENGTH));
  return choice === 'trusted' ? `✅ ${who} trusts` : `⛔ ${who} does not trust`;
}

function isAboutTrust({ kind }: Announcement): boolean {
  return kind === 'trust' || kind === 'trustAnswered';
}

/** What became of a question, in one line. */
export function answerText(notice: AnsweredNotice, nameOf: (agent: AgentId) => string): string {
  const asked = `what ${nameOf(notice.agent)} asked: ${heading(notice.title)}`;
  return `${answerWords(notice)} ${asked}${cameWords(notice)}`;
}

/** What an agent is told that had asked people for something and was gone when they answered. */
export function decidedWords({ title, choice, reason: why }: DecidedRequest): string {
  const asked = `Before you were restarted you asked for "${inline(heading(title))}"`;
  const words = why === undefined ? '' : `, with these words: "${inline(excerpt(why, REASON_LENGTH))}"`;
  return choice === 'allow'
    ? `${asked}: people said yes. It was not run: ask for exactly the same again, and it is allowed, once.`
    : `${asked}: people said no${words}. Go on without it.`;
}

/** What an agent is told whose run failed, by whoever had it tried again. */
export function retriedWords({ name, words }: Feedback): string {
  const said = words.replaceAll(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ').trim();
  return `Your last run failed, and ${inline(excerpt(name, HEADING_LENGTH))} had it tried again with these words: "${said}"`;
}

type AnsweredNotice = Extract<Announcement, { kind: 'answered' }>;

/** "✅ ann allowed once". */
function answerWords({ choice, by, always, pause, completes, inWords }: AnsweredNotice): string {
  if (choice === null || by === null) return '⌛ Nobody has to answer any more';
  const who = inline(excerpt(by, HEADING_LENGTH));
  if (completes === true) return `✅ ${who} completed`;
  if (pause !== undefined) return choice === 'allow' ? `▶️ ${who} let go on` : `⏹️ ${who} ended`;
  if (inWords === true) return choice === 'allow' ? `✅ ${who} answered` : `⛔ ${who} declined`;
  if (choice === 'reject') return `⛔ ${who} rejected`;
  return always === undefined ? `✅ ${who} allowed once` : `✅ ${who} allowed by "${inline(always)}" from now on`;
}

/** " · 12:03 UTC → complete, 2.1 s". */
function cameWords({ at, came, ...notice }: AnsweredNotice): string {
  const why = notice.reason === undefined ? '' : `: “${inline(excerpt(notice.reason, REASON_LENGTH))}”`;
  const took = came === undefined || came.ms === null ? '' : `, ${NUMBER.format(came.ms / 1_000)} s`;
  const status = came?.status === 'unknown' ? 'nobody knows what came of it' : came?.status;
  return `${why} · ${utcTime(at)}${status === undefined ? '' : ` → ${status}${took}`}`;
}

/** "14:05 UTC". */
export function utcTime(at: Instant): string {
  return `${new Date(at).toISOString().slice(11, 16)} UTC`;
}

/** What would run, whole, as a block of code whatever a text of the configuration says. */
function blockOf(detail: string): string {
  const language = isDiff(detail) ? 'diff' : '';
  return detail === '' ? '' : `\n\`\`\`${language}\n${detail}\n\`\`\``;
}

/** A cause as one line; `null` when there is none. */
function reason(text: string): string | null {
  return text.trim() === '' ? null : excerpt(text, REASON_LENGTH);
}

function amount(budget: Limit['budget'], value: number): string {
  if (budget === 'cost' || budget === 'cost a day') return MONEY.format(value / 1_000_000);
  return NUMBER.format(value);
}

const MONEY = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD', maximumFractionDigits: 4 });
const NUMBER = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 });

function filled(template: string, values: Values): string {
  let count: number | null = null;
  return template.replaceAll(
    /(:? ?)\{(\w+)\}|\(s\)/g,
    (match, before: string | undefined, name: string | undefined) => {
      if (name === undefined) return pluralEnd(count) ?? match;
      if (!Object.hasOwn(values, name)) return match;
      const value = values[name] ?? null;
      if (typeof value === 'number') count = value;
      return value === null ? '' : `${before}${value}`;
    },
  );
}

function pluralEnd(count: number | null): string | null {
  if (count === null) return null;
  return count === 1 ? '' : 's';
}

/** A name as an argument of a command line. */
function argument(name: string): string {
  return /\s/.test(name) ? `"${name}"` : name;
}
