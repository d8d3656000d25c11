import { z } from 'zod';
import { shortDigest } from '../../lib/digest.ts';
import { taggedUnion } from '../../lib/tagged.ts';
import type { Frozen, Tagged } from '../../lib/tagged.ts';
import { BUDGETS, GAP_KEY } from './floor.ts';
import { answerSchema, cameSchema, questionSchema } from './settings.ts';
import type { FloorSettings } from './settings.ts';

const agent = z.string();
const instant = z.number();
const number = z.number();
const limit = z.strictObject({ budget: z.enum(BUDGETS), used: number, max: number });

/** Which budget ended an exchange, and its numbers. */
export type Limit = Frozen<z.infer<typeof limit>>;

/** A question about the files in an agent's folder. */
export const trustAsked = { agent, id: z.string(), folder: z.string(), detail: z.string() };
/** Its answer. */
export const trustAnswered = {
  agent,
  id: z.string(),
  choice: z.enum(['trusted', 'left']).nullable(),
  /** The name of whoever decided; `null`: nobody. */
  by: z.string().nullable(),
};

/** The fields of each kind of announcement. */
const FIELDS = {
  timeout: { agent },
  waitTimeout: { agent },
  /** `also`: agents that were lost before, as told by the announcement that this one takes the place of. */
  disconnect: { agent, cause: z.string(), also: z.array(agent).exactOptional() },
  /** `lost`: who was the last to go in the middle of a turn, and why. */
  nobody: { lost: z.strictObject({ agents: z.array(agent), cause: z.string() }).exactOptional() },
  /** A message names no agent where one must be named, or (`named`) none that can answer; `example` could be. */
  unaddressed: { named: z.array(agent), example: agent },
  limit: { ...limit.shape },
  stopped: { agent: agent.nullable(), kept: number },
  skipped: { agent },
  recovered: { agent },
  gap: { why: z.string() },
  /** Something that the agent said was refused by the platform for good. */
  undelivered: { agent, why: z.string() },
  /** What stands in the channel of a question; `until`: when nobody's silence lets its turn go on any longer. */
  approval: { agent, ...questionSchema.omit({ shown: true, approval: true }).shape, until: instant.exactOptional() },
  /** Takes the place of a question; `approval`: what its run asked; `came`: what came of the call, once that is known. */
  answered: {
    agent,
    ...answerSchema.shape,
    approval: z.string().exactOptional(),
    /** A background run asked it. */
    aside: z.literal(true).exactOptional(),
    came: cameSchema.exactOptional(),
  },
  /** A tool needed a yes that nobody could be asked for, so it got a no. */
  unasked: { agent, title: z.string(), why: z.string() },
  /** The first tool of a run that the rules refuse. */
  forbidden: { agent, title: z.string(), why: z.string() },
  /** The tools of a server that an agent uses are gone; and are there again. */
  toolsGone: { agent, server: z.string(), why: z.string() },
  toolsBack: { agent, server: z.string() },
  /** A yes that was remembered counts no more; `by`: the name of whoever took it back. */
  revoked: { agent, rule: z.string(), by: z.string() },
  /** An agent is not started beside these files, whose names and beginnings stand in `detail`. */
  trust: trustAsked,
  /** Takes the place of that question; `choice` is `null` when nobody has to decide any more. */
  trustAnswered: { ...trustAnswered, at: instant },
  /** What became of an agent's work beside the floor; `failed`: from now on it stands still, or goes on again. */
  aside: { agent, what: z.string(), run: z.number().exactOptional(), failed: z.boolean().exactOptional() },
};

/** Reads an announcement. */
export const announcementSchema = taggedUnion('kind', FIELDS);

/** What people are told, as data. Its words are in `turns/text/announcement-words.ts` and in the templates of the configuration. */
export type Announcement = Tagged<'kind', typeof FIELDS>;

type Kind = Announcement['kind'];

/** The announcements of some kinds. */
export type AnnouncementOf<K extends Kind> = Extract<Announcement, { readonly kind: K }>;

/** A switch of the channel's settings. */
type Switch = { [S in keyof FloorSettings]: FloorSettings[S] extends boolean ? S : never }[keyof FloorSettings];

/** `key`: its kind and its agent unless told. `shownIf`: the setting that shows it; always shown without. */
type Rule<K extends Kind> = {
  readonly key?: (announcement: AnnouncementOf<K>) => string | readonly string[];
  readonly shownIf?: Switch;
};

/** The key of an outage, whoever is lost. */
export const OUTAGE = 'outage';

/**
 * Announcements with the same key tell of the same event: the later one edits the earlier one. Every question is an event of its
 * own, edited by its answer. Words of people and agents stand in a key as a digest, because an erasure does not reach keys.
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
  toolsGone: { key: (gone) => [gone.agent, gone.server, shortDigest(gone.why)] },
  toolsBack: { key: (back) => [back.agent, back.server] },
  revoked: { key: (revoked) => [revoked.agent, shortDigest(revoked.rule, revoked.by)] },
  trust: { key: (asked) => `trust:${asked.agent}:${asked.id}` },
  trustAnswered: { key: (asked) => `trust:${asked.agent}:${asked.id}` },
  aside: { key: (told) => [told.agent, `${told.run ?? ''}`, shortDigest(told.what)] },
};

/** The key of an announcement. */
export function announcementKey(announcement: Announcement): string {
  return keyBy(announcement.kind, announcement);
}

function keyBy<K extends Kind>(kind: K, announcement: AnnouncementOf<K>): string {
  const key = RULES[kind].key?.(announcement) ?? ('agent' in announcement ? [String(announcement.agent)] : []);
  return typeof key === 'string' ? key : [kind, ...key].join(':');
}

/** Whether the channel's settings let people see it. */
export function isAnnounced({ kind }: Announcement, settings: FloorSettings): boolean {
  const { shownIf } = RULES[kind];
  return shownIf === undefined || settings[shownIf];
}
