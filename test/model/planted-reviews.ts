import { loadPlanted } from './planted-source.ts';
import type { Planted } from './planted.ts';
import type { Way, Ways } from './ways.ts';
import { searchReviewed } from './reviews.ts';
import type { FoundReviewed, Reviewed } from './reviews.ts';

const BINDING = 'work/reviews/review-binding.ts';
const DECIDE = 'work/reviews/review-decide.ts';
const EVOLVE = 'work/reviews/review-evolve.ts';
const SIGNALS = 'turns/text/review-signals.ts';
const FLOOR = 'turns/floor/evolve.ts';
const NEXT_SPEAKER = 'turns/floor/next-speaker.ts';
const TURNS = 'turns/floor/decide/task-turns.ts';

/** Bugs of reviews: a pass that nobody gave, the wrong agent asked, a wrong count, or a standstill. */
export const PLANTED_REVIEWS: readonly Planted[] = [
  {
    name: 'a bare PASS is taken for silence',
    file: SIGNALS,
    find: "{ [pass]: 'pass', [fail]: 'fail', [REVISE]: 'revise' }",
    replace: "{ [fail]: 'fail', [REVISE]: 'revise', [pass]: null }",
  },
  {
    name: 'PASS in prose passes the work',
    file: SIGNALS,
    find: '  if (word === undefined) return',
    replace:
      "  if (/PASS/.test(lines.at(-1) ?? '') && 'PASS' in words) return { signal: 'pass' };\n  if (word === undefined) return",
  },
  {
    name: 'a verdict of an older turn counts',
    file: DECIDE,
    find: 'turn?.agent === agent && turn.epoch === epoch && turn.ended === undefined ? turn : null',
    replace: 'turn?.agent === agent && turn.ended === undefined ? turn : null',
  },
  {
    name: 'a verdict for an older tree counts',
    file: DECIDE,
    find: '  if (work.tree !== tree) {',
    replace: '  if (work.tree !== tree && tree === null) {',
  },
  {
    name: 'the count restarts after a crash',
    file: EVOLVE,
    find: '  return { ...review, turn: { ...turn, epoch } };',
    replace: '  return { ...review, iteration: epoch > 1 ? 1 : review.iteration, turn: { ...turn, epoch } };',
  },
  {
    name: 'the reviewer works',
    file: DECIDE,
    find: "  decision.ask(primary, 'work');",
    replace: "  decision.ask(iteration > 0 ? decision.review.reviewer : primary, 'work');",
  },
  {
    name: 'the review is not told that its turn goes on under a new epoch',
    file: BINDING,
    find: "    case 'turnGranted':\n    case 'turnResumed':",
    replace: "    case 'turnGranted':",
  },
  {
    name: 'a resumed turn forgets that it is of the review',
    file: FLOOR,
    find: '      brief: turn.brief,\n',
    replace: '',
  },
  {
    name: 'turns of a review count as turns of the exchange',
    file: FLOOR,
    find: '  const counted = fact.forTask === true ? 0 : 1;',
    replace: '  const counted = 1;',
  },
  {
    name: 'nobody is granted the turn that the review asks for',
    file: NEXT_SPEAKER,
    find: "    return agent !== undefined && isGrantable(floor, agent) ? { kind: 'agent', agent } : { kind: 'later' };",
    replace: "    return { kind: 'later' };",
  },
  {
    name: 'a hand-over calls an agent in a review',
    file: 'turns/floor/policies.ts',
    find: "    forAgents: 'A review chooses who is next, so naming another agent calls nobody.',\n    heeds: ['operator', 'person'],",
    replace: "  forAgents: '',\n  heeds: EVERYBODY,",
  },
  {
    name: 'the turn of a review outlives it',
    file: TURNS,
    find: '    if (turn.brief !== undefined) finish(',
    replace: '    if (turn.brief === null) finish(',
  },
  {
    name: 'a stop leaves the review open',
    file: BINDING,
    find: "if (fact.reason === 'stopped') return",
    replace: "if (fact.reason === 'done') return",
  },
  {
    name: 'the floor keeps a review that has ended',
    file: BINDING,
    find: "      return [{ type: 'endTask', report: { kind: 'reviewOver', ...reportOf(review) } }];",
    replace: '',
  },
  {
    name: 'DONE passes the work although only PASS should',
    file: DECIDE,
    find: "if (review.settings.until === 'signal') return pass",
    replace: "if (review.settings.until !== 'consensus') return pass",
  },
  {
    name: 'no verdict passes the work',
    file: DECIDE,
    find: "signal === 'done' ? 'revise' : signal;",
    replace: "signal === 'done' ? 'pass' : signal;",
  },
  {
    name: 'an iteration more than allowed',
    file: DECIDE,
    find: '  if (iteration >= settings.maxIterations) {',
    replace: '  if (iteration > settings.maxIterations) {',
  },
  {
    name: 'a lost agent is waited for without a deadline',
    file: DECIDE,
    find: "  return decision.wait('agent', `${agent}: ${why}`, decision.at + settings.waitMs);",
    replace: "  return decision.wait('agent', `${agent}: ${why}`, settings.waitMs > 0 ? null : decision.at);",
  },
  {
    name: 'what the agent says is not heard',
    file: BINDING,
    find: "      return [{ type: 'SAID', agent: fact.agent, epoch: fact.epoch, text: fact.text }];",
    replace: '      return [];',
  },
];

/** Plants each bug in its own copy of the code, and searches each copy until the first broken invariant. */
export async function catchInReviews(
  ways?: Ways,
): Promise<readonly { readonly bug: Planted; readonly found: FoundReviewed | null }[]> {
  const caught: { bug: Planted; found: FoundReviewed | null }[] = [];
  for (const bug of PLANTED_REVIEWS) {
    const core = await loadPlanted<Reviewed>([bug], 'work/floor-with-work.ts', BINDING);
    caught.push({ bug, found: firstAlong(core, ways?.get(bug.name)) ?? firstFound(core) });
  }
  return caught;
}

/** Follows a known way. `null` when it leads to no broken invariant. */
function firstAlong(core: Reviewed, along: Way | undefined): FoundReviewed | null {
  if (along === undefined) return null;
  return searchReviewed(core, { depth: along.moves.length, first: true, along }).found[0] ?? null;
}

function firstFound(core: Reviewed): FoundReviewed | null {
  for (const depth of [4, 7, 9]) {
    const [found] = searchReviewed(core, { depth, first: true }).found;
    if (found !== undefined) return found;
  }
  return null;
}
