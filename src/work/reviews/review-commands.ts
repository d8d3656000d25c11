import { clockWords, counted, excerpt } from '../../turns/commands/clock-words.ts';
import type { Answer, ReviewCommands, Request } from '../../turns/commands/context.ts';
import { reviewLine } from '../../turns/text/announcement-values.ts';
import { defined, errorMessage } from '../../lib/defined.ts';
import type { Line, ReviewStand } from '../../turns/view.ts';
import type { AgentId } from '../../turns/floor/settings.ts';
import { reviewQuestion } from '../../turns/drawn-for.ts';
import { findingLine } from './briefs.ts';
import type { ReviewRefusal } from './review-events.ts';
import type { ReviewOrder, Reviews } from './reviews.ts';
import { MOST_ITERATIONS, RUN_STATES, asksPeople, isInvalidTransition, openFindings } from './review.ts';
import type { InvalidTransition, Review, ReviewSettings } from './review.ts';

type ReviewCommandsPorts = {
  readonly reviews: Pick<Reviews, 'start' | 'give' | 'state' | 'diff'>;
  /** Redacts secrets in texts. The work may contain a secret that no agent has said. */
  readonly clean: (text: string) => string;
  readonly nameOf: (agent: AgentId) => string;
  readonly now: () => number;
  readonly settings: (channel: string) => ReviewSettings;
  /**
   * The agents of the reviews that messages open in a channel; `null` unless the configuration names a primary agent
   * and a reviewer.
   */
  readonly agents: ReviewCommands['agents'];
  /** The newest lines of a channel with numbers above `after`, oldest first, at most `count`. */
  readonly lines: (channel: string, count: number, after: number) => readonly Line[];
};

/** Creates the commands of `/review`. */
export function createReviewCommands(ports: ReviewCommandsPorts): ReviewCommands {
  const give = async (
    { channel, drawnFor }: Request,
    command: Parameters<Reviews['give']>[1],
    done: string,
  ): Promise<Answer> => {
    const review = ports.reviews.state(channel)?.review ?? null;
    const isOver = drawnFor?.of === 'turn' && (review === null || reviewQuestion(review) !== drawnFor.epoch);
    if (isOver) return { ok: false, text: 'That question is closed. /review status shows the review.' };
    const refusal = await ports.reviews.give(channel, command);
    return refusal === null ? { ok: true, text: done } : { ok: false, text: refusalWords(refusal) };
  };
  return {
    agents: (channel) => ports.agents(channel),
    start: (request, agents) => start(request, agents, ports),
    status(request) {
      const { channel, values } = request;
      if (values.json === true) return exported(request, ports);
      const review = ports.reviews.state(channel)?.review ?? null;
      if (review === null) return { ok: true, text: 'There was no review here. To start one: /review start' };
      return { ok: true, text: reviewStatusText(review, ports) };
    },
    export: (request) => exported(request, ports),
    diff: (request) => shown(request, ports),
    cancel: (request) =>
      give(
        request,
        { type: 'CANCEL', by: request.person.id, reason: request.values.words ?? 'cancelled by a person' },
        'The review is cancelled.',
      ),
    accept: (request) => give(request, { type: 'ACCEPT', by: request.person.id }, 'The work is accepted.'),
    uphold: (request) =>
      give(request, { type: 'UPHOLD', by: request.person.id }, 'The reviewer is right: the work goes on.'),
    more: (request) => {
      const iterations = request.values.count ?? MORE_ITERATIONS;
      const done = `${counted(iterations, 'more iteration')} may be used.`;
      return give(request, { type: 'MORE', by: request.person.id, iterations }, done);
    },
  };
}

/** The most lines of an export: the newest. `linesCut` in the export says that older lines are left out. */
const MOST_LINES = 200;

async function shown({ channel }: Request, { reviews, clean }: ReviewCommandsPorts): Promise<Answer> {
  const review = reviews.state(channel)?.review ?? null;
  if (review === null) return { ok: false, text: REFUSED.NO_REVIEW };
  try {
    const diff = await reviews.diff(review);
    if (diff === null)
      return { ok: false, text: 'The work of this review is in no git repository, so no changes can be shown.' };
    const none = `Nothing changed since ${review.reviewed === null ? 'the review started' : 'the reviewer looked last'}.`;
    return { ok: true, text: clean(diff === '' ? none : diff) };
  } catch (error) {
    return { ok: false, text: clean(`git cannot show the work: ${errorMessage(error)}`) };
  }
}

function exported({ channel, values }: Request, { reviews, lines, clean }: ReviewCommandsPorts): Answer {
  const review = reviews.state(channel)?.review ?? null;
  if (review === null) return { ok: false, text: REFUSED.NO_REVIEW };
  const own = lines(channel, MOST_LINES + 1, values.count ?? 0).filter(({ at }) => at >= review.startedAt);
  const cut = own.length > MOST_LINES ? { linesCut: true } : {};
  return { ok: true, text: clean(JSON.stringify({ ...manifestOf(review, own.slice(-MOST_LINES)), ...cut })) };
}

async function start(
  { channel, person, values }: Request,
  { primary, reviewer }: Parameters<ReviewCommands['start']>[1],
  ports: ReviewCommandsPorts,
): Promise<Answer> {
  const settings = ports.settings(channel);
  const order: ReviewOrder = {
    primary,
    reviewer,
    task: values.words ?? '',
    by: person.id,
    settings: { ...settings, maxIterations: values.count ?? settings.maxIterations },
  };
  const refusal = await ports.reviews.start(channel, order);
  if (refusal === null) return { ok: true, text: `${ports.nameOf(primary)} works, ${ports.nameOf(reviewer)} reviews.` };
  if (refusal === 'TICKET')
    return {
      ok: false,
      text: 'This thread belongs to a ticket, and its crew starts the reviews. To have some: set "review" of the crew in turnConfig.json.',
    };
  if (typeof refusal === 'string') return { ok: false, text: refusalWords(refusal) };
  const name = ports.nameOf(refusal.notSeated);
  return { ok: false, text: `${name} has no seat here. To add it: /floor add ${refusal.notSeated}` };
}

/**
 * Returns a review as an object for JSON, with these lines of its channel. `runState`: the specification's word for the
 * state.
 */
export function manifestOf(review: Review, lines: readonly Line[]) {
  const { status, settings, work, turn, waiting, ...rest } = review;
  return {
    ...rest,
    state: status,
    runState: RUN_STATES[status],
    settings,
    work,
    turn: turn === null ? null : { agent: turn.agent, purpose: turn.purpose },
    waiting,
    lines: lines.map(({ line, author, text }) => ({ line, author: author.name, text })),
  };
}

/** How many iterations `/review more` adds without a number. */
const MORE_ITERATIONS = 5;

function refusalWords(refusal: ReviewRefusal): string {
  if (!isInvalidTransition(refusal)) return REFUSED[refusal];
  const why = refusal.startsWith('InvalidTransition: init ')
    ? 'Not possible yet: the review waits until both agents are connected. To see it: /review status.'
    : 'The last review here is over. To start one: /review start.';
  return `${why} (${refusal})`;
}

const REFUSED: Readonly<Record<Exclude<ReviewRefusal, InvalidTransition>, string>> = {
  REVIEW_OPEN: 'A review is open here. To see it: /review status. To end it: /review cancel.',
  NO_REVIEW: 'No review is open here. To start one: /review start.',
  SAME_AGENT: 'One agent cannot review its own work. Name two agents.',
  NOT_ITS_TURN: 'Nothing changed: the review waits for another turn.',
  NOT_WAITING: 'The review does not wait for a decision: /review status shows what it waits for.',
  TOO_MANY_ITERATIONS: `A review has at most ${MOST_ITERATIONS} iterations.`,
  NOT_DUE: 'Nothing changed: no deadline has passed yet.',
  UNCHANGED: 'Nothing changed: the command asks for what is already the case.',
};

function reviewStatusText(
  review: Review,
  { nameOf, now, clean }: Pick<ReviewCommandsPorts, 'nameOf' | 'now' | 'clean'>,
): string {
  const { primary, reviewer, task, startedAt, usage, outcome, findings } = review;
  const open = openFindings({ findings });
  const lines = [
    reviewLine(reviewStand(review, clean), nameOf),
    `Task: ${excerpt(task, TASK_LENGTH)}`,
    `${nameOf(primary)} works, ${nameOf(reviewer)} reviews · ${clockWords((outcome?.at ?? now()) - startedAt)} · ${counted(usage.turns, 'turn')}, ${counted(usage.tokens, 'token')}`,
    ...review.iterations.map(
      ({ verdict, endedAt, opened, fixed, disputed }, index) =>
        `${index + 1}: ${verdict ?? (endedAt === null ? 'no verdict yet' : 'no verdict')} · ${opened} opened, ${fixed} fixed, ${disputed} disputed`,
    ),
    ...(open.length === 0 ? [] : ['Open findings:', ...open.map(findingLine)]),
  ];
  return lines.join('\n');
}

const TASK_LENGTH = 300;

/** The state of a review for people. `clean` redacts secrets in its reasons. */
export function reviewStand(review: Review, clean: (text: string) => string): ReviewStand {
  const { primary, iteration, iterations, settings, turn, waiting, outcome, sameModel } = review;
  return {
    primary,
    iteration,
    allowed: settings.maxIterations,
    agent: waiting === null ? (turn?.agent ?? null) : null,
    purpose: turn?.purpose ?? null,
    voided: turn?.purpose === 'review' && (iterations.at(-1)?.voided ?? 0) > 0,
    waiting:
      waiting === null ? null : { why: clean(waiting.why), asksPeople: asksPeople(waiting), until: waiting.until },
    outcome: outcome === null ? null : { kind: outcome.kind, why: clean(outcome.why) },
    ...defined({ sameModel }),
  };
}
