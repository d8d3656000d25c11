/** The built-in texts of the announcements, by kind. Names in braces are filled in. */
export const ANNOUNCEMENT_TEXTS = {
  timeout: '⏱️ {agent} turn timed out',
  waitTimeout: '⏱️ {agent} waited too long, skipping turn',
  approval:
    '✋ {agent} asks for a yes ({question}): {title}\nAn operator answers with /allow {question} or /reject {question}.',
  answered: '{answer} what {agent} asked: {title}',
  unasked: '⛔ {agent} got a no, for nobody could be asked about "{title}": {why}',
  forbidden: '⛔ {agent} may not use {title}: {why}. It was told so; /run log shows what else is refused.',
  aside: '🏃 {agent}, beside the floor: {what}',
  trust: '🔐 {agent} is not started: files in its folder {folder} act before anybody is asked ({id}).',
  trustAnswered: '{answer} the files in the folder of {agent} ({id})',
  revoked: '↩️ {by} took back that {agent} need not ask: {rule}',
  toolsGone: '🔌 {agent} is without the tools of {server}: {why}. /agent restart {agent} tries it again.',
  toolsBack: '🔌 {agent} has the tools of {server} again',
  disconnect: '⚠️ {agent} disconnected, skipping turn: {cause}',
  nobody: '⚠️ No agents available in this channel',
  unaddressed: '⚠️ Nobody answers that: {why}',
  limit: '⏸ {used} of {max} turns without a person. Write a message or run /floor resume.',
  stopped: '⏹ Stopped {agent}. {kept} message(s) kept.',
  skipped: '⏭ Skipped {agent}.',
  recovered: '↩️ {agent} goes on after a restart',
  undelivered: '⚠️ Something that {agent} said could not be posted: {why}',
  gap: '⚠️ Some messages could not be read: {why}',
} as const;

const EXCHANGE_END = 'since the last message. Write a message or run /floor resume.';
const DAY_END = 'today. It goes on tomorrow (UTC), or now with /floor resume.';

/** The built-in texts of a limit, by the budget that is used up. */
const LIMIT_TEXTS = {
  turns: ANNOUNCEMENT_TEXTS.limit,
  tokens: `⏸ {used} of {max} tokens ${EXCHANGE_END}`,
  cost: `⏸ {used} of {max} spent ${EXCHANGE_END}`,
  minutes: `⏸ {used} of {max} minutes ${EXCHANGE_END}`,
  'tokens a day': `⏸ {used} of {max} tokens ${DAY_END}`,
  'cost a day': `⏸ {used} of {max} spent ${DAY_END}`,
  'minutes a day': `⏸ {used} of {max} minutes ${DAY_END}`,
  'held messages':
    '⏸ {used} of {max} messages are held. Further ones do not reach the agents until these are answered; /floor status shows what they wait for.',
};

/** The built-in texts of a question, by whether a yes answers it or words do. */
const QUESTION_TEXTS = { yes: ANNOUNCEMENT_TEXTS.approval, words: '✋ {agent} asks ({question}): {title}' };

/** The texts that a file may give, by kind; `false` switches one off. */
export type OwnTexts = { readonly [Kind in keyof typeof ANNOUNCEMENT_TEXTS]?: string | false };

/** What people are told: a template for every kind, `false` where one is switched off; what asks for a yes never is. */
export type AnnouncementTexts = {
  readonly [Kind in Exclude<keyof typeof ANNOUNCEMENT_TEXTS, 'limit' | 'approval'>]: string | false;
} & {
  readonly approval: Readonly<Record<keyof typeof QUESTION_TEXTS, string>>;
  /** By the budget that is used up. */
  readonly limit: Readonly<typeof LIMIT_TEXTS> | false;
};

/** A file's texts with the built-in ones where it gives none. A limit's own text stands for every budget, a question's for every question. */
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
    approval: isOwnQuestion ? { yes: approval, words: approval } : QUESTION_TEXTS,
    limit: limit === false ? false : isOwn ? { ...LIMIT_TEXTS, ...limits } : LIMIT_TEXTS,
  };
}
