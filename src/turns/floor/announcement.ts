import { z } from 'zod';
import { shortDigest } from '../../lib/digest.ts';
import { taggedUnion } from '../../lib/tagged.ts';
import type { Frozen, Tagged } from '../../lib/tagged.ts';
import { BUDGETS, GAP_KEY } from './floor.ts';
import { answerSchema, callOutcomeSchema, questionSchema } from './settings.ts';
import type { FloorSettings } from './settings.ts';

const agent = z.string();
const instant = z.number();
const number = z.number();
const limit = z.strictObject({ budget: z.enum(BUDGETS), used: number, max: number });

/** A reached limit of a channel, such as the turns of an exchange: the amount used, and the maximum. */
export type Limit = Frozen<z.infer<typeof limit>>;

/** Fields of the question to people whether to trust files in an agent's folder. */
export const trustQuestionFields = { agent, id: z.string(), folder: z.string(), detail: z.string() };
/**
 * Fields of the decision whether to trust files in an agent's folder. `choice`: `left` when the files are not trusted
 * and Conch does not ask again; `null` when the question was withdrawn.
 */
export const trustAnswerFields = {
  agent,
  id: z.string(),
  choice: z.enum(['trusted', 'left']).nullable(),
  /** The name of the person who decided; `null` for nobody. */
  by: z.string().nullable(),
};

/** How a review ended. */
export const REVIEW_OUTCOMES = ['passed', 'passed with notes', 'stalled', 'limit', 'failed', 'cancelled'] as const;

/**
 * A review waits for a decision of people. `positions`: the reviewer's last verdict, and why the primary agent disputes
 * a finding (the last disputed one). Each is left out if there is none.
 */
const reviewAsks = z.strictObject({
  kind: z.literal('reviewAsks'),
  id: z.string(),
  iteration: number,
  waits: z.enum(['arbiter', 'fail']),
  why: z.string(),
  positions: z.array(z.strictObject({ agent, words: z.string() })),
  until: instant.nullable(),
});

/**
 * A line about a ticket of a crew. Edits the post of the last line with the same `id` and `about`, if no line of the
 * conversation and no other new announcement came between. With `goesOn`, edits that post in any case.
 */
const ticketLine = z.strictObject({
  kind: z.literal('ticket'),
  id: z.string(),
  about: z.string(),
  text: z.string(),
  goesOn: z.literal(true).exactOptional(),
});

/** Announcements about a review or ticket while it goes on. */
export const taskProgress = z.discriminatedUnion('kind', [reviewAsks, ticketLine]);

/**
 * The report at the end of a review. `tokens`, `costMicros`: used by the review's turns. `detail`: the iterations, the
 * open findings or the reviewer's last words, and the best commit.
 */
const reviewReport = z.strictObject({
  kind: z.literal('reviewOver'),
  id: z.string(),
  outcome: z.enum(REVIEW_OUTCOMES),
  why: z.string(),
  iterations: number,
  ms: number,
  tokens: number,
  costMicros: number,
  detail: z.string(),
});

/** Announcements at the end of a task. */
export const taskReport = z.discriminatedUnion('kind', [reviewReport, ticketLine]);

const FIELDS = {
  timeout: { agent },
  waitTimeout: { agent },
  /** An agent was lost mid-turn. `also`: agents lost before, which the edited announcement names. */
  disconnect: { agent, cause: z.string(), also: z.array(agent).exactOptional() },
  /** No agent is available. `lost`: agents that were lost mid-turn just before, and the reason. */
  nobody: { lost: z.strictObject({ agents: z.array(agent), cause: z.string() }).exactOptional() },
  /**
   * A message names no agent where one is needed, or (`named`) only agents that cannot answer. `example`: the first
   * queued agent, else the first agent of the channel.
   */
  unaddressed: { named: z.array(agent), example: agent },
  limit: { ...limit.shape },
  stopped: { agent: agent.nullable(), kept: number },
  skipped: { agent },
  recovered: { agent },
  gap: { why: z.string() },
  /** The platform refused a text of the agent for good. */
  undelivered: { agent, why: z.string() },
  /** A request for approval. `until`: deadline for the decision. */
  approval: { agent, ...questionSchema.omit({ shown: true, approval: true }).shape, until: instant.exactOptional() },
  /**
   * A request was decided or closed. Edits the request's post. `approval`: the approval's id in the run. `callOutcome`:
   * set once the outcome of the allowed tool call is known.
   */
  answered: {
    agent,
    ...answerSchema.shape,
    approval: z.string().exactOptional(),
    aside: z.literal(true).exactOptional(),
    callOutcome: callOutcomeSchema.exactOptional(),
  },
  /** A request that was denied because nobody could be asked. */
  unasked: { agent, title: z.string(), why: z.string() },
  /** A tool call that the rules deny. Announced for the first such call of a run. */
  forbidden: { agent, title: z.string(), why: z.string() },
  /** The tools of an agent's MCP server are unavailable. `toolsBack`: they are available again. */
  toolsGone: { agent, server: z.string(), why: z.string() },
  toolsBack: { agent, server: z.string() },
  /** A rule was revoked. `by`: the person's name. */
  revoked: { agent, rule: z.string(), by: z.string() },
  /** An agent is not started because of files in its folder. `detail`: the files' names, effects and beginnings. */
  trust: trustQuestionFields,
  /**
   * People decided whether to trust an agent's files, or no decision is needed any more (`choice` is `null`). Edits the
   * question's post.
   */
  trustAnswered: { ...trustAnswerFields, at: instant },
  /** The state of a background run. `failed`: true when it waits for Retry or Discard, false when it is retried. */
  aside: { agent, what: z.string(), run: z.number().exactOptional(), failed: z.boolean().exactOptional() },
  reviewAsks: reviewAsks.omit({ kind: true }).shape,
  reviewOver: reviewReport.omit({ kind: true }).shape,
  ticket: ticketLine.omit({ kind: true }).shape,
};

/**
 * Parses an announcement. Earlier versions announced each turn of a review; such an announcement is read as an empty
 * ticket line, which does not change the floor.
 */
export const announcementSchema = z.preprocess(
  (read) =>
    read instanceof Object && Reflect.get(read, 'kind') === 'review'
      ? { kind: 'ticket', id: '', about: 'review', text: '', goesOn: true }
      : read,
  taggedUnion('kind', FIELDS),
);

/** An announcement as data. Its words are in `turns/text` and in the configuration's templates. */
export type Announcement = Tagged<'kind', typeof FIELDS>;

type Kind = Announcement['kind'];

/** The announcements of the kinds `K`. */
export type AnnouncementOf<K extends Kind> = Extract<Announcement, { readonly kind: K }>;

type Switch = { [S in keyof FloorSettings]: FloorSettings[S] extends boolean ? S : never }[keyof FloorSettings];

/**
 * `key` returns the announcement's key; a list is joined after the kind. Default: the kind and the agent. `shownIf`:
 * the setting that must be on to show the announcement. Default: always shown.
 */
type Rule<K extends Kind> = {
  readonly key?: (announcement: AnnouncementOf<K>) => string | readonly string[];
  readonly shownIf?: Switch;
};

/** The key of announcements about lost agents, and about no agent being available. */
export const OUTAGE = 'outage';

/**
 * The key and the setting of each kind of announcement. Announcements with the same key are about one event or its
 * repetition, so that the later can edit the earlier. Texts of people and agents appear in a key as a digest, because
 * an erasure does not reach keys.
 */
const RULES: { readonly [K in Kind]: Rule<K> } = {
  timeout: { shownIf: 'announceTimeouts' },
  waitTimeout: { shownIf: 'announceTimeouts' },
  disconnect: { key: () => OUTAGE, shownIf: 'announceDisconnects' },
  nobody: { key: () => OUTAGE, shownIf: 'announceNobody' },
  unaddressed: { key: ({ named }) => [shortDigest(...named)], shownIf: 'announceNobody' },
  limit: { key: ({ budget }) => [budget], shownIf: 'announceLimits' },
  stopped: { key: (stopped) => [stopped.agent ?? ''] },
  skipped: {},
  recovered: { shownIf: 'announceRecovery' },
  gap: { key: () => GAP_KEY, shownIf: 'announceRecovery' },
  undelivered: { key: (refused) => [refused.agent, shortDigest(refused.why)] },
  approval: { key: ({ question }) => `approval:${question}` },
  answered: { key: ({ question }) => `approval:${question}` },
  unasked: { key: (denied) => [denied.agent, shortDigest(denied.title, denied.why)] },
  forbidden: { key: (denied) => [denied.agent, shortDigest(denied.title, denied.why)] },
  toolsGone: { key: (lost) => [lost.agent, lost.server, shortDigest(lost.why)] },
  toolsBack: { key: (back) => [back.agent, back.server] },
  revoked: { key: (revoked) => [revoked.agent, shortDigest(revoked.rule, revoked.by)] },
  trust: { key: (question) => `trust:${question.agent}:${question.id}` },
  trustAnswered: { key: (question) => `trust:${question.agent}:${question.id}` },
  aside: { key: (notice) => [notice.agent, `${notice.run ?? ''}`, shortDigest(notice.what)] },
  reviewAsks: { key: ({ id, iteration, waits }) => `review:${id}:${iteration}:${waits}` },
  reviewOver: { key: ({ id }) => `review:${id}:over` },
  ticket: { key: ({ id, about }) => `ticket:${id}:${about}` },
};

/** The key of an announcement. Announcements with the same key are about one event or its repetition. */
export function announcementKey(announcement: Announcement): string {
  return keyBy(announcement.kind, announcement);
}

function keyBy<K extends Kind>(kind: K, announcement: AnnouncementOf<K>): string {
  const key = RULES[kind].key?.(announcement) ?? ('agent' in announcement ? [String(announcement.agent)] : []);
  return typeof key === 'string' ? key : [kind, ...key].join(':');
}

/** Whether the channel's settings show an announcement. */
export function isAnnounced({ kind }: Announcement, settings: FloorSettings): boolean {
  const { shownIf } = RULES[kind];
  return shownIf === undefined || settings[shownIf];
}
