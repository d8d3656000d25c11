import type { PostButton } from '../port.ts';
import type { AgentId, FormField } from '../../turns/floor/settings.ts';
import type { Instant } from '../../lib/time.ts';
import { DISCARDED, forQuestion, forTurn, reviewQuestion } from '../../turns/drawn-for.ts';
import { requestsOn } from '../../turns/floor/seats.ts';
import type { FloorQuestion } from '../../turns/floor/seats.ts';
import { isDiff, reasonLabel } from '../../turns/text/words.ts';
import { excerpt } from '../../turns/commands/clock-words.ts';
import { canResume, obstacleWords } from '../../turns/commands/read.ts';
import type { AnnouncementOf } from '../../turns/floor/announcement.ts';
import type { Effect } from '../../turns/floor/react.ts';
import type { TrustQuestion } from '../../turns/floor/floor.ts';
import type { FloorView } from '../../turns/view.ts';
import { defined } from '../../lib/defined.ts';
import { parseList } from '../../turns/text/form.ts';

/** One button: its label, its command line, and the question or turn that it was drawn for (`drawn-for.ts`). */
export type CardButton = PostButton & {
  /**
   * What a press of the button shows. Absent, or when no form can be shown: a press runs the button's command line. A
   * platform may leave out a button with `opens`.
   */
  readonly opens?: ButtonOpens;
};

/**
 * What a button opens. `rules`: a choice of command lines. `form`: fields; the filled-in values complete the command
 * line. `reason`: one text field; its text completes the line. `input`: the whole input of the request, shown only to
 * the person who pressed.
 */
export type ButtonOpens =
  | { readonly what: 'rules'; readonly of: readonly { readonly words: string; readonly line: string }[] }
  | { readonly what: 'form'; readonly of: readonly FormField[] }
  | { readonly what: 'reason' }
  | { readonly what: 'input' };

type Card = {
  /**
   * The card's text, such as "🎤 dev · about 2 min left · next: qa, pm". On Discord, the time is a timestamp that
   * Discord counts down.
   */
  readonly text: string;
  /** When the turn or its wait ends if nothing else happens. `null`: the card shows no time limit. */
  readonly endsAt: Instant | null;
  readonly buttons: readonly CardButton[];
};

const NEXT_SHOWN = 5;

/**
 * Returns the card of a floor. `timeLeft` returns the remaining time in words, or as markup that counts down by itself.
 */
export function cardOf(
  view: FloorView,
  nameOf: (agent: AgentId) => string,
  timeLeft: (endsAt: Instant) => string,
): Card {
  const { holder, condition } = view;
  const endsAt = deadlineOf(view);
  const parts = [
    headline(view, nameOf),
    timeWords(view, timeLeft),
    holder !== null && condition === 'paused' ? '⏸ paused after this turn' : null,
    whyResting(view, nameOf),
    nextWords(view, nameOf),
    heldWords(view),
    backgroundWords(view, nameOf),
    trustWords(view, nameOf),
  ];
  return { text: parts.filter((part) => part !== null).join(' · '), endsAt, buttons: buttonsOf(view, nameOf) };
}

function whyResting({ condition, obstacles }: FloorView, nameOf: (agent: AgentId) => string): string | null {
  const [first] = obstacles;
  if (condition !== 'resting' || first === undefined || first.why === 'catching-up') return null;
  return obstacleWords(first, nameOf);
}

/** Returns the deadline to show; `null` for none. While a tool runs: none, because the time left would jump. */
function deadlineOf({ holder }: FloorView): Instant | null {
  return holder === null || holder.working ? null : holder.deadlineAt;
}

function timeWords(view: FloorView, timeLeft: (endsAt: Instant) => string): string | null {
  const endsAt = deadlineOf(view);
  if (endsAt !== null) return timeLeft(endsAt);
  return view.holder?.working === true ? 'at work' : null;
}

function headline(view: FloorView, nameOf: (agent: AgentId) => string): string {
  const { holder, condition } = view;
  if (holder !== null) {
    const name = nameOf(holder.agent);
    if (holder.status === 'ACTIVE') return `🎤 ${name}`;
    const isInWords = holder.approval?.about?.answer !== undefined;
    return `✋ ${name} ${isInWords ? 'asks a question' : WAITING[holder.waitingFor ?? 'answer']}`;
  }
  if (view.obstacles.some(({ why }) => why === 'catching-up')) return '🔄 reading missed messages';
  if (condition === 'paused') return '⏸ paused';
  return condition === 'open' ? '⏳ choosing the next agent' : '💤 nobody holds the floor';
}

const WAITING = {
  answer: 'waits for an answer',
  human: 'was interrupted',
  approval: 'waits for approval',
} as const;

function nextWords(view: FloorView, nameOf: (agent: AgentId) => string): string | null {
  const names = view.next.map(nameOf);
  if (names.length === 0) return null;
  const more = names.length - NEXT_SHOWN;
  return `next: ${names.slice(0, NEXT_SHOWN).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

function heldWords({ held }: FloorView): string | null {
  if (held.length === 0) return null;
  return `${held.length} ${held.length === 1 ? 'message' : 'messages'} held`;
}

function backgroundWords({ asides: runs = [] }: FloorView, nameOf: (agent: AgentId) => string): string | null {
  if (runs.length === 0) return null;
  const entries = runs.map(
    ({ agent, question, failed }) =>
      `${nameOf(agent)}${failed === true ? ' failed' : question === undefined ? '' : ` waits (${question.question})`}`,
  );
  return `🏃 background: ${entries.join(', ')}`;
}

function trustWords({ trust = [] }: FloorView, nameOf: (agent: AgentId) => string): string | null {
  if (trust.length === 0) return null;
  return `🔐 not started, folder not trusted: ${trust.map(({ agent }) => nameOf(agent)).join(', ')}`;
}

/**
 * The key on the buttons of a question that has no key. A press of these buttons is refused, except "Whole input";
 * people type the question's number.
 */
const NO_KEY = '-';

/**
 * The most buttons of a card: Slack takes 25, and one of them is Conch's Settings button. Questions and runs without a
 * button are answered and stopped by commands.
 */
export const MOST_BUTTONS = 24;

function buttonsOf(view: FloorView, nameOf: (agent: AgentId) => string): readonly CardButton[] {
  const { holder, asides: runs = [] } = view;
  const button = buttonFor(forFloor(view));
  const floor = [
    ...(holder === null ? [] : [button('Skip', '/floor skip'), button('Stop', '/stop', 'danger')]),
    canResume(view) ? button('Resume', '/floor resume', 'good') : button('Pause', '/floor pause'),
  ];
  const answers = fitGroups(shownQuestions(view).map(answerButtons), MOST_BUTTONS - floor.length);
  const trustQuestions = (view.trust ?? []).filter(({ shown }) => shown);
  const trust = fitGroups(
    trustQuestions.map((question) => trustButtons(question, nameOf(question.agent), view.store)),
    MOST_BUTTONS - floor.length - answers.length,
  );
  const stops = runs.map((run) => stopOf(run, view.store, nameOf));
  const room = MOST_BUTTONS - floor.length - answers.length - trust.length;
  return [...answers, ...trust, ...floor, ...fitGroups(stops, room)];
}

function buttonFor(drawnFor: string, suffix = '') {
  return (label: string, line: string, style: CardButton['style'] = 'plain'): CardButton => {
    return { label: `${label}${suffix}`, line, drawnFor, style };
  };
}

/**
 * Returns the buttons that trust or distrust the files in an agent's folder. Each command line holds the id of these
 * files.
 */
export function trustButtons({ agent, id }: TrustQuestion, name: string, store: string): readonly CardButton[] {
  const drawnFor = forTurn(store, 0);
  return [
    { label: `Trust this folder (${name})`, line: `/agent trust ${agent} ${id}`, drawnFor, style: 'good' },
    { label: `Do not start (${name})`, line: `/agent distrust ${agent} ${id}`, drawnFor, style: 'danger' },
  ];
}

/**
 * Returns the `drawnFor` text of buttons about the holder's turn. While nobody holds the floor, the text has the epoch
 * of the last grant or resume.
 */
export function forFloor({ store, holder, epoch }: Pick<FloorView, 'store' | 'holder' | 'epoch'>): string {
  return forTurn(store, holder?.epoch ?? epoch);
}

/**
 * Returns the buttons of a background run: Retry and Discard when the run failed, else Stop. None for a paused run: the
 * buttons of its question continue, complete or abort the run.
 */
export function stopOf(
  { agent, run, question, failed }: NonNullable<FloorView['asides']>[number],
  store: string,
  nameOf: (agent: AgentId) => string,
): readonly CardButton[] {
  if (question?.pause !== undefined) return [];
  const drawnFor = forTurn(store, run ?? 0);
  if (failed === true)
    return [
      { label: `Retry ${nameOf(agent)}+`, line: `/run retry ${agent}+`, drawnFor, style: 'good' },
      { label: `Discard ${nameOf(agent)}+`, line: `/run abort ${agent}+ ${DISCARDED}`, drawnFor, style: 'danger' },
    ];
  return [{ label: `Stop ${nameOf(agent)}+`, line: `/run abort ${agent}+`, drawnFor, style: 'danger' }];
}

/** Returns the buttons of an announcement: of a review's question, or of a failed background run; else none. */
export function noticeButtons(
  effect: Effect,
  store: string,
  nameOf: (agent: AgentId) => string,
): readonly PostButton[] {
  if (effect.type !== 'announce') return [];
  if (effect.announcement.kind === 'reviewAsks') return reviewButtons(store, effect.announcement);
  if (effect.announcement.kind !== 'aside') return [];
  const { agent, run, failed } = effect.announcement;
  return failed === true ? stopOf({ agent, failed, ...defined({ run }) }, store, nameOf) : [];
}

/** Returns the buttons with which people decide a review that waits for people. */
export function reviewButtons(
  store: string,
  review: Pick<AnnouncementOf<'reviewAsks'>, 'id' | 'iteration'>,
): readonly PostButton[] {
  const drawnFor = forTurn(store, reviewQuestion(review));
  return [
    { label: 'Accept the work', line: '/review accept', drawnFor, style: 'good' },
    { label: 'Reviewer is right', line: '/review uphold', drawnFor, style: 'plain' },
    { label: '5 more', line: '/review more 5', drawnFor, style: 'plain' },
    { label: 'Cancel', line: '/review cancel', drawnFor, style: 'danger' },
  ];
}

/**
 * Returns the buttons of the groups that fit, in order: at most `room` buttons in total. Leaves out each group that
 * does not fit whole.
 */
export function fitGroups(groups: readonly (readonly CardButton[])[], room: number): readonly CardButton[] {
  const fitted: CardButton[] = [];
  for (const group of groups) if (fitted.length + group.length <= room) fitted.push(...group);
  return fitted;
}

function shownQuestions(view: FloorView): readonly FloorQuestion[] {
  return requestsOn(view).filter(({ question }) => question.shown);
}

/**
 * Returns the buttons of an agent's question or request. The labels for a background run include the question's number.
 */
export function answerButtons({ agent, isBackground, question: request }: FloorQuestion): readonly CardButton[] {
  const { question, key = NO_KEY, always, pause, about } = request;
  const runWord = isBackground ? ` ${agent}+` : '';
  const button = buttonFor(forQuestion(key), isBackground ? ` (${question})` : '');
  if (pause !== undefined) {
    return [
      button('Continue', `/allow ${question}`, 'good'),
      button('Complete', `/run complete${runWord}`),
      button('Abort', `/reject ${question}`, 'danger'),
    ];
  }
  const rules = (always ?? []).map(({ words }, index) => ({ words, line: `/allow ${question} always ${index + 1}` }));
  const denyLine = `/reject ${question}`;
  const status = isBackground ? `/run status${runWord}` : '/floor status';
  const denyWithReason: CardButton = { ...button('Deny with reason…', denyLine), opens: { what: 'reason' } };
  const wholeInput: CardButton = { ...button('Whole input', status), opens: { what: 'input' } };
  if (about?.answer !== undefined) {
    const { form } = about;
    const [accept, decline] = about.danger === true ? (['danger', 'good'] as const) : (['good', 'danger'] as const);
    const answerButton: CardButton =
      form === undefined
        ? button('Done', `/answer ${question} ${about.answer}`, accept)
        : { ...button('Answer…', `/answer ${question}`, accept), opens: { what: 'form', of: form } };
    const declineButton = button('Decline', denyLine, decline);
    return about.danger === true
      ? [declineButton, wholeInput, answerButton]
      : [answerButton, declineButton, wholeInput];
  }
  const allowLine = `/allow ${question}`;
  if (about?.danger === true)
    return [button('Deny', denyLine, 'good'), denyWithReason, wholeInput, button('Allow once', allowLine, 'danger')];
  return [
    button('Allow once', allowLine, 'good'),
    ...(rules.length === 0
      ? []
      : [{ ...button('Always…', `/allow ${question} always`), opens: { what: 'rules', of: rules } } as const]),
    button('Deny', denyLine, 'danger'),
    denyWithReason,
    wholeInput,
  ];
}

/** What a pressed button of a question shows: a text, and buttons (rules) or a file (the whole input). */
export type OpenedQuestion = {
  readonly text: string;
  readonly buttons?: readonly CardButton[];
  readonly file?: { readonly name: string; readonly text: string };
};

/**
 * Returns the open question with the pressed button, and what the button opens. Returns `null` when no open question
 * has that button.
 */
export function openingButton(
  view: FloorView,
  pressed: Pick<CardButton, 'line' | 'drawnFor'> & { readonly opens: ButtonOpens['what'] },
): { readonly request: FloorQuestion; readonly opens: ButtonOpens } | null {
  for (const request of shownQuestions(view)) {
    const isPressed = ({ line, drawnFor, opens }: CardButton): boolean =>
      line === pressed.line && drawnFor === pressed.drawnFor && opens?.what === pressed.opens;
    const opens = answerButtons(request).find(isPressed)?.opens;
    if (opens !== undefined) return { request, opens };
  }
  return null;
}

/** Returns what a pressed `rules` or `input` button shows. Returns `null` when no open question has that button. */
export function questionOpened(...button: Parameters<typeof openingButton>): OpenedQuestion | null {
  const found = openingButton(...button);
  return found === null ? null : openedBy(found.opens, found.request);
}

/** Returns the label of the field that "Deny with reason…" opens. It says whether the agent reads the reason. */
export function reasonFieldLabel(view: FloorView | null, pressed: Pick<CardButton, 'line' | 'drawnFor'>): string {
  const found = view === null ? null : openingButton(view, { ...pressed, opens: 'reason' });
  return reasonLabel(found?.request.question ?? null);
}

function openedBy(
  opens: ButtonOpens,
  { question: { question, key = NO_KEY, detail, always = [] } }: FloorQuestion,
): OpenedQuestion {
  if (opens.what === 'rules') {
    const rules = always.map((offer, index) => `\n${index + 1}: ${ruleText(offer)}`).join('');
    const drawnFor = forQuestion(key);
    const buttons = opens.of.map(({ words, line }, index) => ({
      label: ruleLabel(words, index, LABEL_LENGTH),
      line,
      drawnFor,
      style: 'plain' as const,
    }));
    const text = `Always allow, for 30 days, for this agent in this channel. To revoke a rule: /run approvals.${rules}`;
    return { text, buttons };
  }
  const name = isDiff(detail) ? 'changes.diff' : 'input.txt';
  return { text: `Whole input of request ${question}:`, file: { name, text: detail } };
}

const LABEL_LENGTH = 80;
const RULE_LENGTH = 400;
/** The length of a shortened label before its "…", in UTF-16 units. Includes the rule's number. */
const RULE_HEAD = 20;

/**
 * Returns a rule with its number in at most `length` UTF-16 units. Cuts the middle: rules often differ only at the end.
 */
export function ruleLabel(words: string, index: number, length: number): string {
  const whole = `${index + 1}: ${words.replaceAll(/\s+/g, ' ')}`;
  if (whole.length <= length) return whole;
  const head = whole.slice(0, RULE_HEAD).toWellFormed();
  return `${head}…${whole.slice(head.length + 1 - length).toWellFormed()}`;
}

function ruleText({ rule, words }: { readonly rule: string; readonly words: string }): string {
  return excerpt(`${words} · \`${rule.replaceAll('`', "'")}\``, RULE_LENGTH);
}

type FormLimits = { readonly fields: number; readonly options: number; readonly valueLength: number };

/** Returns whether a platform can draw the form. */
export function isDrawable(fields: readonly FormField[], limits: FormLimits): boolean {
  const fits = ({ options }: FormField): boolean =>
    options.length <= limits.options &&
    new Set(options.map(({ value }) => value)).size === options.length &&
    options.every(({ value }) => value !== '' && value.length <= limits.valueLength);
  return fields.length > 0 && fields.length <= limits.fields && fields.every(fits);
}

/** How a form's field is drawn: as a choice among options, or as a text or number of at most `longest` UTF-16 units. */
export type Control =
  | { readonly what: 'choice'; readonly options: FormField['options']; readonly initial: readonly string[] }
  | { readonly what: 'text' | 'number'; readonly longest: number; readonly isLong: boolean; readonly initial: string };

/**
 * The longest text that a person can enter in a form's field, in UTF-16 units. The text must fit into a command line.
 */
const LONGEST_FIELD = 1_500;
/** A text field for more characters than this has several lines, unless it has a format such as an email address. */
const SHORT_TEXT = 100;
const YES_OR_NO = [
  { value: 'yes', label: 'Yes' },
  { value: 'no', label: 'No' },
];

/** Returns how a form's field is drawn on Discord and Slack. */
export function controlOf({ kind, options, most, format, initial = '' }: FormField): Control {
  if (kind === 'boolean' || options.length > 0)
    return {
      what: 'choice',
      options: kind === 'boolean' ? YES_OR_NO : options,
      initial: kind === 'some' ? parseList(initial) : [initial],
    };
  const longest = Math.max(1, Math.min((kind === 'text' ? most : undefined) ?? LONGEST_FIELD, LONGEST_FIELD));
  const isLong = kind === 'text' && format === undefined && longest > SHORT_TEXT;
  return { what: kind === 'integer' || kind === 'number' ? 'number' : 'text', longest, isLong, initial };
}
