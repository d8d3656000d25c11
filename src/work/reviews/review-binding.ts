import type { Causes, CommandFor, FactFields, Machine } from '../../engine/machine.ts';
import type { MachineStore } from '../../engine/port.ts';
import type { Instant } from '../../lib/time.ts';
import { defined } from '../../lib/defined.ts';
import { counted } from '../../turns/commands/clock-words.ts';
import type { AnnouncementOf } from '../../turns/floor/announcement.ts';
import type { Command } from '../../turns/floor/command.ts';
import type { Fact } from '../../turns/floor/fact.ts';
import type { Floor, FloorTask } from '../../turns/floor/floor.ts';
import { isUnpriced } from '../../turns/floor/gate.ts';
import { findSeat, findTurn } from '../../turns/floor/seats.ts';
import { limitName } from '../../turns/text/words.ts';
import { floorMachine } from '../../turns/floor-store.ts';
import { findingLine } from './briefs.ts';
import { decideReview } from './review-decide.ts';
import { isReviewCommand, reviewFactSchema } from './review-events.ts';
import type { ReviewCommand, ReviewFact, ReviewFactOf, ReviewRefusal } from './review-events.ts';
import { evolveReview } from './review-evolve.ts';
import { emptyReviews, isMember, isOpen, openFindings, reviewStateSchema } from './review.ts';
import type { Review, ReviewState } from './review.ts';

/** The reviews of every channel. */
export type ReviewStore = MachineStore<ReviewState, ReviewCommand, ReviewFact, never, ReviewRefusal>;

const FINDING_TEXTS = ['title', 'detail', 'reason'].map((field) => `findings.${field}`);

/** Fields of facts with texts of people or agents, or with ids of people, for erasing. */
const REVIEW_TEXTS: FactFields = {
  reviewStarted: ['task', 'by', 'work.diff'],
  turnHeard: ['reason', 'broken', ...FINDING_TEXTS, 'answers.reason'],
  turnAsked: ['fault'],
  workMeasured: ['work.diff'],
  verdictGiven: ['reason'],
  findingsKept: FINDING_TEXTS,
  waited: ['why'],
  waitOver: ['by'],
  iterationsAdded: ['by'],
  reviewerReplaced: ['why'],
  reviewEnded: ['why', 'by'],
};

/** The review machine. Its key is a channel, and a channel has at most one open review. */
export const reviewMachine = {
  name: 'review',
  channelOf: (key: string) => key,
  version: 1,
  empty: emptyReviews,
  decide: decideReview,
  evolve: evolveReview,
  react: () => [],
  nextDeadline: ({ review }: ReviewState): Instant | null => review?.waiting?.until ?? null,
  rest: ({ review }: ReviewState) => (isOpen(review) ? null : ''),
  state: reviewStateSchema,
  fact: reviewFactSchema,
  texts: REVIEW_TEXTS,
  isCommand: isReviewCommand,
} satisfies Machine<ReviewState, ReviewCommand, ReviewFact, never, ReviewRefusal>;

/** The facts of a floor that become commands of the channel's review. */
export const REVIEW_CAUSES = {
  types: [
    'taskBegun',
    'taskTurnAsked',
    'reviewerSet',
    'seatMoved',
    'seatMarked',
    'turnGranted',
    'turnResumed',
    'said',
    'turnEnded',
    'spent',
    'exchangeClosed',
    'exchangeOpened',
    'disconnected',
  ],
  within: 'task',
  commands: (fact: Fact, floor: Floor): readonly CommandFor[] => {
    const { task, channel } = floor;
    if (task?.kind !== 'review' || task.reviewer === undefined) return [];
    const review = { ...task, reviewer: task.reviewer };
    return commandsOf(fact, floor, review).map((command) => ({ machine: reviewMachine.name, key: channel, command }));
  },
} as const satisfies Causes<Floor, Fact> & { readonly types: readonly Fact['type'][] };

type ReviewTask = FloorTask & { readonly reviewer: string };

function commandsOf(fact: Fact, floor: Floor, review: ReviewTask): readonly ReviewCommand[] {
  switch (fact.type) {
    case 'taskBegun':
    case 'reviewerSet':
      return attendance(floor, review);
    case 'seatMoved':
    case 'seatMarked':
      return isMember(review, fact.agent) ? attendance(floor, review, fact) : [];
    case 'taskTurnAsked':
      // The floor does not make a fallback without a seat the reviewer, but the review has asked for the fallback's
      // turn. So the review is told that the fallback is away.
      return lost(floor, isMember(review, fact.agent) ? review : { ...review, reviewer: fact.agent });
    case 'disconnected':
      return fact.restart ? lost(floor, review, 'Conch was restarted') : [];
    case 'turnGranted':
    case 'turnResumed':
      return isItsTurn(floor, fact.agent) ? [{ type: 'GRANTED', agent: fact.agent, epoch: fact.epoch }] : [];
    case 'said':
      return [{ type: 'SAID', agent: fact.agent, epoch: fact.epoch, text: fact.text }];
    case 'turnEnded':
      return isMember(review, fact.agent) ? [ended(fact)] : [];
    case 'spent': {
      const { agent, tokens, costMicros } = fact;
      const unpriced = isUnpriced(fact) ? { unpriced: true as const } : {};
      return isMember(review, agent) ? [{ type: 'SPENT', tokens, costMicros, ...unpriced }] : [];
    }
    case 'exchangeClosed':
      if (fact.reason === 'stopped') return [{ type: 'CANCEL', by: fact.by ?? '', reason: 'the floor was stopped' }];
      return fact.reason === 'limit'
        ? [{ type: 'BUDGET', why: `the ${limitName(fact.budget ?? 'turns')} is reached` }]
        : [];
    case 'exchangeOpened':
      return review.told > 0 && review.held === undefined ? [{ type: 'RAISED' }] : [];
    default:
      return [];
  }
}

function ended({ agent, epoch, outcome }: Extract<Fact, { type: 'turnEnded' }>): ReviewCommand {
  const completed = outcome === 'completed' || outcome === 'passed' || outcome === 'lapsed';
  return { type: 'ENDED', agent, epoch, completed };
}

function isItsTurn(floor: Floor, agent: string): boolean {
  return findTurn(floor, agent)?.brief !== undefined;
}

/**
 * Returns the command that tells a review whether its agents are available: READY, BACK or LOST. Returns none when the
 * change of a seat does not matter. `fact`: how a seat changed, if one did.
 */
function attendance(
  floor: Floor,
  review: ReviewTask,
  fact?: Extract<Fact, { type: 'seatMoved' | 'seatMarked' }>,
): readonly ReviewCommand[] {
  const isBegun = review.told > 0;
  const isOfTurn = fact?.type === 'seatMoved' && (fact.to === 'ACTIVE' || fact.to === 'WAITING');
  const isFromTurn = fact?.type === 'seatMoved' && (fact.from === 'ACTIVE' || fact.from === 'WAITING');
  if (isOfTurn || (isBegun && isFromTurn && fact?.to === 'QUEUED')) return [];
  const members = [review.primary, review.reviewer];
  const isThere = (agent: string): boolean => {
    const seat = findSeat(floor, agent);
    return seat?.present === true && seat.status !== 'OFFLINE' && seat.status !== 'IDLE';
  };
  if (!members.every(isThere)) return lost(floor, review, fact?.type === 'seatMoved' ? fact.cause : undefined);
  if (isBegun) return [{ type: 'BACK' }];
  const busy = members.find((agent) => findSeat(floor, agent)?.status !== 'QUEUED');
  return busy === undefined ? [{ type: 'READY' }] : [{ type: 'LOST', agent: busy, why: 'its turn goes on' }];
}

function lost(floor: Floor, { primary, reviewer, told }: ReviewTask, why?: string): readonly ReviewCommand[] {
  const away = [primary, reviewer].find((agent) => {
    const { status, present = false } = findSeat(floor, agent) ?? {};
    return status === undefined || status === 'OFFLINE' || status === 'IDLE' || (told === 0 && !present);
  });
  return away === undefined ? [] : [{ type: 'LOST', agent: away, why: why ?? absenceOf(floor, away) }];
}

function absenceOf(floor: Floor, agent: string): string {
  const seat = findSeat(floor, agent);
  if (seat === undefined) return 'it has no seat here';
  if (seat.disabled) return 'it is disabled';
  return seat.status === 'OFFLINE' || !seat.present ? 'it is offline' : 'it is not in the queue';
}

/**
 * The review machine with its commands to floors. The floor grants the turns of a review, and tells people its state.
 */
export const reviewOnFloor = {
  ...reviewMachine,
  causes: (fact: ReviewFact, { channel, review }: ReviewState): readonly CommandFor[] =>
    review === null
      ? []
      : floorCommands(fact, channel, review).map((command) => ({ machine: floorMachine.name, key: channel, command })),
  causing: new Set<ReviewFact['type']>(['reviewStarted', 'reviewerReplaced', 'turnAsked', 'waited', 'reviewEnded']),
} satisfies Machine<ReviewState, ReviewCommand, ReviewFact, never, ReviewRefusal>;

function floorCommands(fact: ReviewFact, channel: string, review: Review): readonly Command[] {
  const { id, primary, reviewer, ticket } = review;
  const { signals } = review.settings;
  const within = defined({ within: ticket?.task });
  switch (fact.type) {
    case 'reviewStarted':
      return [{ type: 'beginTask', kind: 'review', id, key: channel, primary, reviewer, signals, ...within }];
    case 'turnAsked':
      // A decision may ask for several turns, and only the last counts: `review` is the state after all facts of the
      // decision.
      if (review.turn === null || review.turn.agent !== fact.agent || review.turn.purpose !== fact.purpose) return [];
      return [{ type: 'askTaskTurn', id, agent: fact.agent, brief: '', ...promptingOf(fact, review) }];
    case 'reviewerReplaced':
      return [{ type: 'setReviewer', id, reviewer: fact.reviewer }];
    case 'waited':
      if (fact.for === 'provider') return [{ type: 'holdTask', id }];
      return fact.for === 'arbiter' || fact.for === 'fail'
        ? [{ type: 'tellTask', announcement: questionOf(review, fact, fact.for) }]
        : [];
    case 'reviewEnded':
      return [{ type: 'endTask', report: { kind: 'reviewOver', ...reportOf(review) } }];
    default:
      return [];
  }
}

/**
 * Returns how an agent is prompted. `fresh`: in a new session; never for a repair, which continues a review. `apart`:
 * without the primary agent's words. A reviewer without a commit gets these words, because they are the work.
 */
function promptingOf(
  { purpose }: ReviewFactOf<'turnAsked'>,
  { settings, work }: Review,
): { readonly fresh?: true; readonly apart?: true } {
  const isReview = purpose === 'review' || purpose === 'repair';
  return {
    ...(purpose === 'review' && settings.session === 'fresh' ? { fresh: true as const } : {}),
    ...(isReview && work?.commit != null ? { apart: true as const } : {}),
  };
}

function questionOf(
  { id, iteration, primary, reviewer, verdict, findings }: Review,
  { why, until }: ReviewFactOf<'waited'>,
  waits: 'arbiter' | 'fail',
): AnnouncementOf<'reviewAsks'> {
  const disputes = findings.flatMap(({ status, reason }) => (status === 'disputed' ? (reason ?? []) : []));
  const positions = [
    {
      agent: reviewer,
      words: [verdict?.verdict ?? '', verdict?.reason ?? ''].filter((each) => each !== '').join(': '),
    },
    { agent: primary, words: disputes.at(-1) ?? '' },
  ].filter(({ words }) => words !== '');
  return { kind: 'reviewAsks', id, iteration, waits, why, positions, until };
}

function bestOf(iterations: Review['iterations']): { readonly commit: string; readonly number: number } | null {
  const stored = iterations.flatMap(({ commit, blocking, verdict }, index) =>
    commit === null || verdict === null ? [] : [{ commit, blocking, number: index + 1 }],
  );
  const fewest = Math.min(...stored.map(({ blocking }) => blocking));
  return stored.findLast(({ blocking }) => blocking === fewest) ?? null;
}

function voidedWords(voided: number): string {
  return voided === 0 ? '' : `; ${counted(voided, 'verdict')} void, because the work changed during the review`;
}

/** The report of a review that has ended. Throws while the review is open. */
export function reportOf(review: Review): Omit<AnnouncementOf<'reviewOver'>, 'kind'> {
  const { id, outcome, iteration, startedAt, usage, iterations, reviewer, verdict: last } = review;
  if (outcome === null) throw new Error(`impossible: review ${id} is reported before its end`);
  const rows = iterations.map(
    ({ opened, fixed, disputed, reappeared, verdict, voided = 0 }, index) =>
      `${index + 1}: ${verdict ?? 'no verdict'}, findings ${opened} opened, ${fixed} fixed, ${disputed} disputed, ${reappeared} reappeared${voidedWords(voided)}`,
  );
  const open = openFindings(review);
  const left = open.length === 0 ? [] : [`${counted(open.length, 'open finding')}:`, ...open.map(findingLine)];
  const isPassed = outcome.kind.startsWith('passed');
  const words = isPassed ? '' : (last?.reason ?? '');
  const isNew = words !== '' && words !== outcome.why && open.length === 0;
  const wanted = isNew ? [`${reviewer} asked last: ${words}`] : [];
  const best = isPassed ? null : bestOf(iterations);
  const bestWork = best === null ? [] : [`Best work: commit ${best.commit} of iteration ${best.number}.`];
  return {
    id,
    outcome: outcome.kind,
    why: outcome.why,
    iterations: iteration,
    ms: outcome.at - startedAt,
    tokens: usage.tokens,
    costMicros: usage.costMicros,
    detail: [...rows, ...wanted, ...left, ...bestWork].join('\n'),
  };
}
