import type { AnnouncementTexts } from '../../config/announcements.ts';
import { defined } from '../../lib/defined.ts';
import { counted, excerpt } from '../commands/clock-words.ts';
import type { Announcement, AnnouncementOf, Limit } from '../floor/announcement.ts';
import type { AgentId, Question } from '../floor/settings.ts';
import type { ReviewStand } from '../view.ts';
import {
  HEADING_LENGTH,
  NUMBER,
  decisionHints,
  blockOf,
  decisionDetails,
  requestFacts,
  heading,
  inline,
  limitName,
  outcomeWords,
  reason,
  trustAnswers,
  utcTime,
} from './words.ts';

type Kind = Announcement['kind'];
type NameOf = (agent: AgentId) => string;
type Values = Readonly<Record<string, string | number | null>>;

type Row<K extends Kind> = {
  /** Returns the announcement in words, for the journal. */
  readonly note: (notice: AnnouncementOf<K>, name: NameOf) => string;
  /** Returns values for names in the template, besides those of `sharedValues` or in place of them. */
  readonly values?: (notice: AnnouncementOf<K>, name: NameOf) => Values;
  /** Returns the text after the template. The configuration cannot change it. */
  readonly after?: (notice: AnnouncementOf<K>, name: NameOf) => string;
  /** True when the text gets no "(×3)" after repetitions. */
  readonly countless?: true;
};

const ROWS: { readonly [K in Kind]: Row<K> } = {
  timeout: { note: ({ agent }, name) => `${name(agent)} timed out` },
  waitTimeout: { note: ({ agent }, name) => `${name(agent)} waited too long` },
  disconnect: {
    note: ({ agent, cause }, name) => `${name(agent)} disconnected: ${cause}`,
    values: ({ agent, also = [] }, name) => ({ agent: [...also, agent].map(name).join(', ') }),
    countless: true,
  },
  nobody: {
    note: () => 'no agents available',
    after: ({ lost }, name) =>
      lost === undefined ? '' : `: ${reason(`${lost.agents.map(name).join(', ')}: ${lost.cause}`)}`,
    countless: true,
  },
  unaddressed: {
    note: ({ named }, name) =>
      named.length === 0
        ? 'a message names no agent'
        : `a message names ${named.map(name).join(', ')}, who cannot answer`,
    values: (notice, name) => ({ why: whyUnaddressed(notice, name) }),
  },
  limit: {
    note: ({ budget, used, max }) => `${limitName(budget)} reached, ${used} of ${max}`,
    values: ({ budget, used, max }) => ({ budget, used: amount(budget, used), max: amount(budget, max) }),
  },
  stopped: {
    note: ({ agent, kept }, name) =>
      `stopped${agent === null ? '' : ` ${name(agent)}`}, ${counted(kept, 'message')} kept`,
  },
  skipped: { note: ({ agent }, name) => `${name(agent)}'s turn was skipped` },
  recovered: { note: ({ agent }, name) => `${name(agent)}'s turn continues after a restart` },
  undelivered: { note: ({ agent, why }, name) => `a post of ${name(agent)} was not delivered: ${why}` },
  gap: { note: ({ why }) => `a gap in the history: ${why}` },
  approval: {
    note: ({ agent, question, title }, name) => `${name(agent)} requests approval ${question}: ${excerpt(title)}`,
    values: ({ question }) => ({ question: `${question}`, detail: null }),
    after: (request, name) => {
      const agent = name(request.agent);
      const lines = (some: readonly string[]): string => some.map((line) => `\n${line}`).join('');
      return lines(requestFacts(request, agent)) + blockOf(request.detail) + lines(decisionHints(request, agent));
    },
    countless: true,
  },
  answered: {
    note: ({ agent, choice, by, title }, name) =>
      choice === null
        ? `${name(agent)}'s request was closed: ${excerpt(title)}`
        : `${by ?? 'nobody'} ${choice === 'reject' ? 'denied' : 'allowed'} ${name(agent)}: ${excerpt(title)}`,
    values: (notice, name) => ({ answer: outcomeWords(notice, name(notice.agent)) }),
    after: decisionDetails,
    countless: true,
  },
  forbidden: { note: ({ agent, title, why }, name) => `${name(agent)} was denied ${excerpt(title)}: ${why}` },
  trust: {
    note: ({ agent, id }, name) => `operators decide about the files ${id} in ${name(agent)}'s folder`,
    after: (question) => `${blockOf(question.detail)}\n${trustAnswers(question)}`,
    countless: true,
  },
  trustAnswered: {
    note: trustNote,
    values: (notice) => ({ answer: trustWords(notice) }),
    after: ({ at }) => ` · ${utcTime(at)}`,
    countless: true,
  },
  reviewAsks: {
    note: ({ why }) => `the review waits for people: ${excerpt(why)}`,
    after: ({ positions, until }, name) =>
      positions.map(({ agent, words }) => `\n${name(agent)}: ${inline(excerpt(words, POSITION_LENGTH))}`).join('') +
      (until === null ? '' : `\nThe review ends at ${utcTime(until)} if nobody answers.`),
    countless: true,
  },
  reviewOver: {
    note: ({ outcome, iterations, why }) =>
      `the review ${outcome} after ${counted(iterations, 'iteration')}: ${excerpt(why)}`,
    values: ({ outcome, iterations, ms, tokens, costMicros }) => ({
      answer: REVIEW_ENDS[outcome],
      iterations,
      minutes: NUMBER.format(Math.round(ms / 6_000) / 10),
      tokens: NUMBER.format(tokens),
      cost: costMicros === 0 ? '' : `, ${MONEY.format(costMicros / 1_000_000)}`,
    }),
    after: ({ detail }) => blockOf(detail),
    countless: true,
  },
  ticket: { note: ({ text }) => excerpt(text), values: ({ text }) => ({ text }), countless: true },
  aside: { note: ({ agent, what }, name) => `${name(agent)}'s background run ${excerpt(what)}` },
  revoked: {
    note: ({ agent, rule, by }, name) => `${by} revoked ${name(agent)}'s rule: ${excerpt(rule)}`,
    values: ({ by }) => ({ by: inline(excerpt(by, HEADING_LENGTH)) }),
  },
  toolsGone: { note: ({ agent, server, why }, name) => `${name(agent)} lost the tools of ${server}: ${why}` },
  toolsBack: { note: ({ agent, server }, name) => `${name(agent)} has the tools of ${server} again` },
  unasked: {
    note: ({ agent, title, why }, name) =>
      `${name(agent)} was denied, nobody could be asked: ${excerpt(title)}: ${why}`,
  },
};

/** Returns an announcement in words, for the journal. */
export function announcementNote(announcement: Announcement, name: NameOf): string {
  return noteFor(announcement.kind, announcement, name);
}

function noteFor<K extends Kind>(kind: K, notice: AnnouncementOf<K>, name: NameOf): string {
  return ROWS[kind].note(notice, name);
}

/**
 * Returns the text of an announcement: its kind's template with names in braces replaced, and of most kinds " (×3)"
 * after repetitions. A name without a value is removed with the space or ": " before it. An unknown name stays. "(s)"
 * becomes "s" or nothing, by the last `{kept}` or `{iterations}` before it. Returns `null` when the configuration
 * switches the kind off.
 */
export function announcementText(
  announcement: Announcement,
  templates: AnnouncementTexts,
  nameOf: (agent: AgentId) => string,
  repeat: number,
): string | null {
  const template = templateOf(announcement, templates);
  return template === false ? null : textFor(announcement.kind, announcement, { template, nameOf, repeat });
}

function textFor<K extends Kind>(
  kind: K,
  notice: AnnouncementOf<K>,
  { template, nameOf, repeat }: { readonly template: string; readonly nameOf: NameOf; readonly repeat: number },
): string {
  const { values, after, countless } = ROWS[kind];
  const recurred = repeat < 2 || countless === true ? '' : ` (×${repeat})`;
  const all = { ...sharedValues(notice, nameOf), ...values?.(notice, nameOf) };
  return filled(template, all) + (after?.(notice, nameOf) ?? '') + recurred;
}

type Shared = {
  readonly kind: Kind;
  readonly agent?: AgentId | null;
  readonly server?: string;
  readonly kept?: number;
  readonly id?: string;
} & { readonly [Text in 'why' | 'cause' | 'title' | 'rule' | 'what' | 'folder']?: string };

function sharedValues({ agent, server, kept, id, ...texts }: Shared, nameOf: NameOf): Values {
  const { why, cause, title, rule, what, folder } = texts;
  return defined({
    agent: agent && nameOf(agent),
    why: mapDefined(why, reason),
    cause: mapDefined(cause, reason),
    title: mapDefined(title, heading),
    rule: mapDefined(rule, heading),
    what: mapDefined(what, (text) => excerpt(text, REPORT_LENGTH)),
    folder: mapDefined(folder, inline),
    server,
    kept,
    id,
  });
}

function mapDefined<T>(text: string | undefined, words: (text: string) => T): T | undefined {
  return text === undefined ? undefined : words(text);
}

const REPORT_LENGTH = 400;

function templateOf(announcement: Announcement, templates: AnnouncementTexts): string | false {
  if (announcement.kind === 'approval') return templates.approval[questionKind(announcement)];
  if (announcement.kind !== 'limit') return templates[announcement.kind];
  return templates.limit === false ? false : templates.limit[announcement.budget];
}

function questionKind({ pause, about }: Pick<Question, 'pause' | 'about'>): keyof AnnouncementTexts['approval'] {
  if (pause !== undefined) return 'pause';
  return about?.answer === undefined ? 'call' : 'words';
}

function whyUnaddressed({ named, example }: AnnouncementOf<'unaddressed'>, nameOf: NameOf): string {
  if (named.length > 0) return `${named.map(nameOf).join(' and ')} ${named.length === 1 ? 'is' : 'are'} not available`;
  return `it names no agent. Begin with a name, such as "@${nameOf(example)} …"`;
}

/** Returns in one line how people decided whether to trust the files in an agent's folder. */
export function trustNote(
  { agent, id, choice, by }: Pick<AnnouncementOf<'trustAnswered'>, 'agent' | 'id' | 'choice' | 'by'>,
  name: NameOf,
): string {
  if (choice === null) return `the question about the files ${id} of ${name(agent)} is over`;
  return `${by ?? 'nobody'} ${choice === 'trusted' ? 'trusts' : 'does not trust'} the files ${id} of ${name(agent)}`;
}

function trustWords({ choice, by }: AnnouncementOf<'trustAnswered'>): string {
  if (choice === null || by === null) return '⌛ No longer needed: a decision about';
  const who = inline(excerpt(by, HEADING_LENGTH));
  return choice === 'trusted' ? `✅ ${who} trusts` : `⛔ ${who} does not trust`;
}

function amount(budget: Limit['budget'], value: number): string {
  if (budget === 'cost' || budget === 'cost a day') return MONEY.format(value / 1_000_000);
  return NUMBER.format(value);
}

/** The most characters of the reviewer's or the primary agent's words when a review asks people. */
const POSITION_LENGTH = 400;

const REVIEW_ENDS: Readonly<Record<AnnouncementOf<'reviewOver'>['outcome'], string>> = {
  passed: '✅ Review passed',
  'passed with notes': '✅ Review passed with notes',
  stalled: '⏹ Review stalled',
  limit: '⏹ Review reached its limit',
  failed: '⛔ Review failed',
  cancelled: '⏹ Review cancelled',
};

/** Returns the state of a review in words: "🔁 2 of 10 · qa reviews dev's work". */
export function reviewLine(
  { iteration, allowed, primary, agent, purpose, voided, waiting, outcome, sameModel }: ReviewStand,
  name: NameOf,
): string {
  const turn = (): string => {
    if (outcome !== null) return `${outcome.kind}: ${outcome.why}`;
    if (waiting?.asksPeople === true) return `waits for your decision: ${waiting.why}`;
    if (waiting !== null) return `waits: ${waiting.why}`;
    if (agent === null) return 'between two turns';
    if (purpose === 'repair') return `${name(agent)} is asked again for a verdict`;
    if (purpose === 'answers') return `${name(agent)} answers the findings`;
    if (agent === primary) return `${name(agent)} works`;
    return `${name(agent)} reviews ${name(primary)}'s work${voided ? ' again: it changed during the review' : ''}`;
  };
  const model = sameModel === undefined ? '' : ` · both use ${inline(sameModel)}`;
  return `🔁 ${iteration} of ${allowed} · ${turn()}${model}`;
}

const MONEY = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD', maximumFractionDigits: 4 });
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
