/** Built-in templates of the announcements, by kind. Names in braces are replaced. */
export const ANNOUNCEMENT_TEXTS = {
  timeout: '⏱️ {agent} turn timed out',
  waitTimeout: '⏱️ {agent} waited too long, skipping turn',
  approval: '✋ {agent} wants to run {title}\nRequest {question}: /allow {question} or /reject {question}',
  answered: '{answer}',
  unasked: '⛔ Denied: {agent} wanted to run {title}, and nobody could be asked: {why}',
  forbidden: '⛔ {agent} may not run {title}: {why}. /run log shows all denied calls.',
  aside: '🏃 {agent}’s background run {what}',
  trust: '🔐 {agent} is not started: its folder {folder} has files that take effect before anybody is asked ({id}).',
  trustAnswered: '{answer} the files in the folder of {agent} ({id})',
  revoked: '↩️ {by} revoked {agent}’s rule: {rule}',
  toolsGone: '🔌 {agent} lost the tools of {server}: {why}. To retry: /agent restart {agent}',
  toolsBack: '🔌 {agent} has the tools of {server} again',
  disconnect: '⚠️ {agent} disconnected, skipping turn: {cause}',
  nobody: '⚠️ No agents available in this channel',
  unaddressed: '⚠️ No agent answers: {why}',
  limit: '⏸ {used} of {max} turns without a person. Write a message or run /floor resume.',
  stopped: '⏹ Stopped {agent}. {kept} message(s) kept.',
  skipped: '⏭ Skipped {agent}.',
  recovered: '↩️ {agent} continues after a restart',
  undelivered: '⚠️ A post of {agent} was not delivered: {why}',
  gap: '⚠️ Some messages could not be read: {why}',
} as const;

const EXCHANGE_END = 'since the last message. Write a message or run /floor resume.';
const DAY_END = 'today. Turns continue tomorrow (UTC), or now with /floor resume.';

/** Built-in templates of a reached limit, by budget. */
const LIMIT_TEXTS = {
  turns: ANNOUNCEMENT_TEXTS.limit,
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
  call: ANNOUNCEMENT_TEXTS.approval,
  words: '✋ {agent} asks ({question}): {title}',
  pause: '✋ {agent}’s run is paused ({question}): {title}',
};

/** Templates in the configuration file, by kind; `false` switches a kind off. */
export type OwnTexts = { readonly [Kind in keyof typeof ANNOUNCEMENT_TEXTS]?: string | false };

/** The template of each kind of announcement; `false` when the kind is switched off. Requests cannot be switched off. */
export type AnnouncementTexts = {
  readonly [Kind in Exclude<keyof typeof ANNOUNCEMENT_TEXTS, 'limit' | 'approval'>]: string | false;
} & {
  readonly approval: Readonly<Record<keyof typeof QUESTION_TEXTS, string>>;
  /** By budget. */
  readonly limit: Readonly<typeof LIMIT_TEXTS> | false;
};

/** Merges the file's texts with the built-in ones. The file's text for limits holds for every budget, its text for requests for every question. */
export function completeTexts({
  limit = ANNOUNCEMENT_TEXTS.limit,
  approval = false,
  ...own
}: OwnTexts): AnnouncementTexts {
  const isOwnQuestion = approval !== false && approval !== ANNOUNCEMENT_TEXTS.approval;
  const isOwn = limit !== ANNOUNCEMENT_TEXTS.limit;
  const limits = Object.fromEntries(Object.keys(LIMIT_TEXTS).map((budget) => [budget, limit]));
  return {
    ...ANNOUNCEMENT_TEXTS,
    ...own,
    approval: isOwnQuestion ? { call: approval, words: approval, pause: approval } : QUESTION_TEXTS,
    limit: limit === false ? false : isOwn ? { ...LIMIT_TEXTS, ...limits } : LIMIT_TEXTS,
  };
}
