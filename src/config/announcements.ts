/**
 * Every kind of announcement that the configuration can change: its built-in template, and when it is posted. Names in
 * braces are replaced.
 */
export const ANNOUNCEMENTS = {
  timeout: { text: '⏱️ {agent} turn timed out', when: 'a turn times out' },
  waitTimeout: { text: '⏱️ {agent} waited too long, skipping turn', when: 'the wait of an agent times out' },
  approval: {
    text: '✋ {agent} wants to run {title}\nRequest {question}: /allow {question} or /reject {question}',
    when: 'a tool needs an approval',
  },
  answered: { text: '{answer}', when: 'a request was answered or timed out; it replaces the request' },
  unasked: {
    text: '⛔ Denied: {agent} wanted to run {title}, and nobody could be asked: {why}',
    when: 'a tool needs an approval and nobody can be asked',
  },
  forbidden: {
    text: '⛔ {agent} may not run {title}: {why}. /run log shows all denied calls.',
    when: 'the rules deny a tool for the first time in a run',
  },
  aside: { text: '🏃 {agent}’s background run {what}', when: 'a background run starts or ends' },
  reviewAsks: { text: '✋ The review waits for you: {why}', when: 'a review needs a decision of people' },
  reviewOver: {
    text: '{answer} after {iterations} iteration(s), {minutes} minutes, {tokens} tokens{cost}: {why}',
    when: 'a review ends',
  },
  ticket: { text: '{text}', when: 'something happens to a ticket of a crew' },
  revoked: { text: '↩️ {by} revoked {agent}’s rule: {rule}', when: 'an always-allow rule is revoked' },
  toolsGone: {
    text: '🔌 {agent} lost the tools of {server}: {why}. To retry: /agent restart {agent}',
    when: 'an agent loses the tools of a server',
  },
  toolsBack: { text: '🔌 {agent} has the tools of {server} again', when: 'an agent has the tools of a server again' },
  disconnect: { text: '⚠️ {agent} disconnected, skipping turn: {cause}', when: 'an agent disconnects in its turn' },
  nobody: { text: '⚠️ No agents available in this channel', when: 'a message comes and every agent is OFFLINE' },
  unaddressed: {
    text: '⚠️ No agent answers: {why}',
    when: 'a message names no agent that can answer, in a channel where it must name one',
  },
  limit: {
    text: '⏸ {used} of {max} turns without a person. Write a message or run /floor resume.',
    when: 'a budget is used up; your own text can name the budget with {budget}',
  },
  stopped: { text: '⏹ Stopped {agent}. {kept} message(s) kept.', when: 'a person stops the exchange' },
  skipped: { text: '⏭ Skipped {agent}.', when: 'an operator ends a turn' },
  recovered: { text: '↩️ {agent} continues after a restart', when: 'a turn continues after a restart of Conch' },
  undelivered: {
    text: '⚠️ A post of {agent} was not delivered: {why}',
    when: 'the platform refuses what an agent said',
  },
  gap: { text: '⚠️ Some messages could not be read: {why}', when: 'history is missing after a restart' },
} as const;

const FIXED_TEXTS = {
  trust: '🔐 {agent} is not started: its folder {folder} has files that take effect before anybody is asked ({id}).',
  trustAnswered: '{answer} the files in the folder of {agent} ({id})',
} as const;

type ChangeableKind = keyof typeof ANNOUNCEMENTS;
type Kind = ChangeableKind | keyof typeof FIXED_TEXTS;

const LIMIT = ANNOUNCEMENTS.limit.text;
const APPROVAL = ANNOUNCEMENTS.approval.text;

const EXCHANGE_END = 'since the last message. Write a message or run /floor resume.';
const DAY_END = 'today. Turns continue tomorrow (UTC), or now with /floor resume.';

const LIMIT_TEXTS = {
  turns: LIMIT,
  tokens: `⏸ {used} of {max} tokens ${EXCHANGE_END}`,
  cost: `⏸ {used} of {max} spent ${EXCHANGE_END}`,
  minutes: `⏸ {used} of {max} minutes ${EXCHANGE_END}`,
  'tokens a day': `⏸ {used} of {max} tokens ${DAY_END}`,
  'cost a day': `⏸ {used} of {max} spent ${DAY_END}`,
  'minutes a day': `⏸ {used} of {max} minutes ${DAY_END}`,
  'held messages':
    '⏸ {used} of {max} messages are held. Later messages do not reach the agents until these are answered. /floor status shows what they wait for.',
};

/** The built-in texts of a question, by its kind: a tool call, a form or link of a tool server, a paused run. */
const QUESTION_TEXTS = {
  call: APPROVAL,
  words: '✋ {agent} asks ({question}): {title}',
  pause: '✋ {agent}’s run is paused ({question}): {title}',
};

/** Templates of the configuration file, by kind of announcement. `false` switches a kind off; `approval` stays on. */
export type OwnTexts = { readonly [Changed in ChangeableKind]?: string | false };

/** The template of each kind of announcement; `false` for a kind that is off. Requests cannot be switched off. */
export type AnnouncementTexts = {
  readonly [Other in Exclude<Kind, 'limit' | 'approval'>]: string | false;
} & {
  readonly approval: Readonly<Record<keyof typeof QUESTION_TEXTS, string>>;
  /** Texts for a reached limit, by the limit's name; `false`: none is posted. */
  readonly limit: Readonly<typeof LIMIT_TEXTS> | false;
};

/**
 * Merges the file's texts with the built-in ones. A `limit` text of the file's own replaces the texts of all limits.
 * An `approval` text of its own replaces the texts of all kinds of request.
 */
export function completeTexts({ limit = LIMIT, approval = false, ...own }: OwnTexts): AnnouncementTexts {
  const isOwnQuestion = approval !== false && approval !== APPROVAL;
  const isOwn = limit !== LIMIT;
  const limits = Object.fromEntries(Object.keys(LIMIT_TEXTS).map((budget) => [budget, limit]));
  const builtIn = Object.fromEntries(Object.entries(ANNOUNCEMENTS).map(([kind, { text }]) => [kind, text]));
  return {
    ...(builtIn as Readonly<Record<ChangeableKind, string>>),
    ...FIXED_TEXTS,
    ...own,
    approval: isOwnQuestion ? { call: approval, words: approval, pause: approval } : QUESTION_TEXTS,
    limit: limit === false ? false : isOwn ? { ...LIMIT_TEXTS, ...limits } : LIMIT_TEXTS,
  };
}
