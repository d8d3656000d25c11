import { CREW_STARTS, searchCrew } from './crews.ts';
import type { Crewed } from './crew-onlooker.ts';
import type { FoundCrewed } from './crews.ts';
import { loadPlanted } from './planted-source.ts';
import type { Planted } from './planted.ts';
import type { Way, Ways } from './ways.ts';

const BINDING = 'work/crews/crew-binding.ts';
const DECIDE = 'work/crews/crew-decide.ts';
const EVOLVE = 'work/crews/crew-evolve.ts';

/** Bugs of crews: work done twice, an untested merge, a wrong count, or a standstill. */
export const PLANTED_CREWS: readonly Planted[] = [
  {
    name: 'tests of main that a merge has overtaken make an older commit the base',
    file: DECIDE,
    find: '(decision.crew.base?.tip ?? null) === since',
    replace: 'since !== undefined',
  },
  {
    name: 'two workers take one ticket',
    file: DECIDE,
    find: 'other.ticket?.id === ticket.id || other.ticket?.slot === ticket.slot',
    replace: 'other.ticket?.slot === ticket.slot',
  },
  {
    name: 'two workers share a slot',
    file: DECIDE,
    find: 'other.ticket?.id === ticket.id || other.ticket?.slot === ticket.slot',
    replace: 'other.ticket?.id === ticket.id',
  },
  {
    name: 'a finished ticket is given again',
    file: DECIDE,
    find: "if (finished.some(({ id }) => id === ticket.id)) return 'TICKET_FINISHED';",
    replace: '',
  },
  {
    name: 'a stopped crew gives tickets',
    file: DECIDE,
    find: "if (!running) return 'NOT_RUNNING';",
    replace: '',
  },
  {
    name: 'a worker with a ticket gets another',
    file: DECIDE,
    find: "if (found.status !== 'idle' || found.leaving !== null) return 'NOT_IDLE';",
    replace: '',
  },
  {
    name: 'more workers step than allowed',
    file: DECIDE,
    find: 'let room = settings.maxWorkers - workers.filter(isStepping).length;',
    replace: 'let room = settings.maxWorkers;',
  },
  {
    name: 'a stopped crew asks for steps',
    file: DECIDE,
    find: 'if (!running || paused !== null || settings === null) return;',
    replace: 'if (paused !== null || settings === null) return;',
  },
  {
    name: 'a paused crew asks for steps',
    file: DECIDE,
    find: 'if (!running || paused !== null || settings === null) return;',
    replace: 'if (!running || settings === null) return;',
  },
  {
    name: 'a step is asked while its error is waited out',
    file: DECIDE,
    find: 'if (step?.queued !== true || retryAt !== null || room <= 0) continue;',
    replace: 'if (step?.queued !== true || room <= 0) continue;',
  },
  {
    name: 'a late DONE counts',
    file: DECIDE,
    find: 'return step !== null && step.over === undefined && step.epoch === epoch;',
    replace: 'return step !== null && step.over === undefined && step.epoch !== null;',
  },
  {
    name: 'DONE in prose counts',
    file: DECIDE,
    find: '{ ...CREW_SIGNALS, fail: CREW_SIGNALS.done });\n',
    replace:
      "{ ...CREW_SIGNALS, fail: CREW_SIGNALS.done });\n    if (text.includes('DONE')) return decision.record({ type: 'stepHeard', worker: found.name, epoch, signalled: true });\n",
  },
  {
    name: 'a stopped step counts as an error',
    file: DECIDE,
    find: "return decision.record({ type: 'stepPutBack', worker: worker.name, why });",
    replace: 'return failed(decision, worker, why);',
  },
  {
    name: 'the second timeout counts no error',
    file: DECIDE,
    find: 'return worker.timedOut ? failed(decision, worker, why) : renew(decision, worker, why);',
    replace: 'return renew(decision, worker, why);',
  },
  {
    name: 'six errors make a worker stuck',
    file: DECIDE,
    find: 'const isStuck = errors % STUCK_AT === 0 &&',
    replace: 'const isStuck = errors % (STUCK_AT + 1) === 0 &&',
  },
  {
    name: 'a limit of the provider counts as an error',
    file: DECIDE,
    find: '    if (until !== null || !found.timedOut) forgive(decision, found);\n    if (until === null) return renew',
    replace: '    if (until === null) return renew',
  },
  {
    name: 'a good step does not reset the errors',
    file: EVOLVE,
    find: '    step: null,\n    errors: 0,\n    timedOut: false,',
    replace: '    step: null,\n    timedOut: false,',
  },
  {
    name: 'a step that was put back is counted twice',
    file: EVOLVE,
    find: 'stepCount: isCounted ? stepCount - 1 : stepCount };',
    replace: 'stepCount };',
  },
  {
    name: 'a step that goes on after a restart is counted twice',
    file: EVOLVE,
    find: 'step.epoch === null && !isMeeting(step) ? 1 : 0',
    replace: 'isMeeting(step) ? 0 : 1',
  },
  {
    name: 'the worktree of a killed worker is forgotten',
    file: EVOLVE,
    find: '    if (stays === true && ticket !== null) {',
    replace: '    if (stays !== true && ticket !== null) {',
  },
  {
    name: 'a ticket begins before the last worktree of its worker is removed',
    file: 'work/crews/crew.ts',
    find: ' || (left !== undefined && worker.ticket !== null)',
    replace: '',
  },
  {
    name: 'a worker leaves with its step',
    file: EVOLVE,
    find: '    ...worker,\n    step: null,\n    waiting: null,\n    retryAt: null,\n    next: null,\n    leaving: { why, words },',
    replace: '    ...worker,\n    waiting: null,\n    retryAt: null,\n    next: null,\n    leaving: { why, words },',
  },
  {
    name: 'the crew is not told of a step that goes on under a new epoch',
    file: BINDING,
    find: "    case 'turnGranted':\n    case 'turnResumed':",
    replace: "    case 'turnGranted':",
  },
  {
    name: 'the crew is not told that a step was stopped',
    file: BINDING,
    find: "revoked: { how: 'stopped', why: 'a person stopped it' },",
    replace: "revoked: { how: 'completed', why: '' },",
  },
  {
    name: 'the crew is not told why a session ended',
    file: BINDING,
    find: "return fact.cause === undefined ? null : { type: 'CAUSE', worker, why: fact.cause };",
    replace: 'return null;',
  },
  {
    name: 'the floor keeps the task of a worker that left',
    file: BINDING,
    find: "return [{ type: 'endTask', ",
    replace: "return why === 'killed' ? [] : [{ type: 'endTask', ",
  },
  {
    name: 'the floor is not asked for a second step',
    file: BINDING,
    find: "if (worker.step?.kind !== 'side') return [",
    replace: "if (worker.step?.kind !== 'side') return worker.stepCount > 0 ? [] : [",
  },
  {
    name: 'uncommitted work is done',
    file: DECIDE,
    find: "if (work.dirty && step.kind !== 'commit' && !isLast) return next(decision, worker, 'commit');",
    replace: '',
  },
  {
    name: 'DONE without a commit is done',
    file: DECIDE,
    find: 'if (work.ahead === 0) return nothingDone(decision, worker, step, isLast);',
    replace: '',
  },
  {
    name: 'DONE with conflicts is done',
    file: DECIDE,
    find: '  if (work.unmerged.length > 0 && !isLast)\n    return next(',
    replace: '  if (work.unmerged.length > 1 && !isLast)\n    return next(',
  },
  {
    name: 'a worker goes on after its last step',
    file: DECIDE,
    find: 'if (step.signalled !== true && !isLast) return notDone',
    replace: 'if (step.signalled !== true) return notDone',
  },
  {
    name: 'unfinished work is merged without a person',
    file: DECIDE,
    find: 'const unfinished = !isDone && found.stepCount >= found.maxSteps;',
    replace: 'const unfinished = false;',
  },
  {
    name: 'tests of an older commit count',
    file: DECIDE,
    find: "if (found.work?.tip !== tip) return 'UNCHANGED';\n    decision.record({ type: 'tested'",
    replace: "if (found.work === null) return 'UNCHANGED';\n    decision.record({ type: 'tested'",
  },
  {
    name: 'work with red tests is merged',
    file: DECIDE,
    find: "if (verdict === 'red') return red(decision, found, { ...TESTS_RED, about: output });",
    replace: '',
  },
  {
    name: 'weakened tests are merged without a person',
    file: DECIDE,
    find: "if (weakened !== '') return { for: 'weakened', why: weakened };",
    replace: '',
  },
  {
    name: 'work is merged before people say so',
    file: DECIDE,
    find: "return settings.merge === 'ask' ? { for: 'merge', why: 'the tests are green' } : null;",
    replace: 'return null;',
  },
  {
    name: 'a commit that nobody tested is merged',
    file: DECIDE,
    find: 'if (found.waiting !== null || found.landsAt !== undefined || found.work?.tip !== tip)',
    replace: 'if (found.waiting !== null || found.landsAt !== undefined)',
  },
  {
    name: 'a merge starts while people are asked',
    file: DECIDE,
    find: "if (found.status !== 'done' || found.next !== 'merge' || found.leaving !== null) return 'INVALID_TRANSITION';\n    // Only",
    replace: "if (found.status !== 'done' || found.leaving !== null) return 'INVALID_TRANSITION';\n    // Only",
  },
  {
    name: 'two merges at once',
    file: DECIDE,
    find: "if (merging !== null && merging.worker !== found.name) return 'MERGE_UNDER_WAY';",
    replace: '',
  },
  {
    name: 'a merge that did not start is recorded',
    file: DECIDE,
    find: "(this.crew.merging?.worker === worker.name ? then(worker) : 'NOT_MERGING')",
    replace: '(then(worker))',
  },
  {
    name: 'a conflict keeps the merge',
    file: DECIDE,
    find: "    if (isMerging) decision.drop(found.name, 'conflict');\n",
    replace: '',
  },
  {
    name: 'a killed worker keeps the merge',
    file: DECIDE,
    find: 'if (this.crew.merging?.worker === name) this.drop(name, words);',
    replace: '',
  },
  {
    name: 'a meeting never ends',
    file: DECIDE,
    find: 'if (turns >= (decision.settings.meetingTurns ?? 0)) return endMeeting(decision, worker, `${turns} turns are used`);',
    replace: '',
  },
  {
    name: 'a meeting whose time is over goes on',
    file: DECIDE,
    find: '  return giveUp(decision, worker, by ===',
    replace: "  return by === '' ? null : giveUp(decision, worker, by ===",
  },
  {
    name: 'a meeting goes on after it agreed',
    file: DECIDE,
    find: '  if (agreed !== undefined) return null;\n',
    replace: '',
  },
  {
    name: 'a turn of a meeting is asked twice after a crash',
    file: DECIDE,
    find: "found.meeting !== undefined && jobOf(decision.crew, found) === 'seat')",
    replace: 'found.meeting !== undefined)',
  },
  {
    name: 'a turn of a meeting counts as a step',
    file: EVOLVE,
    find: 'step.epoch === null && !isMeeting(step) ? 1 : 0',
    replace: 'step.epoch === null ? 1 : 0',
  },
  {
    name: 'DONE in a meeting is a signal',
    file: DECIDE,
    find: 'const isTurn = found.meeting !== undefined;',
    replace: 'const isTurn = false;',
  },
  {
    name: 'the turn of the other side outlives its meeting',
    file: BINDING,
    find: '[agent, sideAgentOf(agent)].map(',
    replace: '[agent].map(',
  },
  {
    name: 'nobody hears the other side of a meeting',
    file: BINDING,
    find: 'fact.agent === task.primary || fact.agent === sideAgentOf(task.primary)',
    replace: 'fact.agent === task.primary',
  },
  {
    name: 'conflicts never make a worker stuck',
    file: DECIDE,
    find: 'if (round > MOST_CONFLICTS) {',
    replace: 'if (round > MOST_CONFLICTS + 9) {',
  },
  {
    name: 'a conflict found before tests ends the merge of another worker',
    file: DECIDE,
    find: "    if (isMerging) decision.drop(found.name, 'conflict');\n",
    replace: "    decision.drop(found.name, 'conflict');\n",
  },
  {
    name: 'a conflict of an older commit sends work back',
    file: DECIDE,
    find: "    if (!isMerging && !isTestDue(found)) return 'NOT_MERGING';\n    if (found.work?.tip !== tip) return 'UNCHANGED';\n",
    replace: "    if (!isMerging && !isTestDue(found)) return 'NOT_MERGING';\n",
  },
  {
    name: 'a merged worker keeps its ticket',
    file: DECIDE,
    find: "    return decision.record({ type: 'leaving', worker: found.name, why: 'merged', words: commit });",
    replace: '    return null;',
  },
  {
    name: 'a worker that was reset is not idle',
    file: DECIDE,
    find: "    if (leaving !== null) decision.move(found, 'idle', leaving.words);\n",
    replace: '',
  },
  {
    name: 'a merge begins before its window is over',
    file: DECIDE,
    find: 'if (found.waiting !== null || found.landsAt !== undefined || found.work?.tip !== tip)',
    replace: 'if (found.waiting !== null || found.work?.tip !== tip)',
  },
  {
    name: 'a merge whose window is over never begins',
    file: EVOLVE,
    find: 'mergeDue: ({ landsAt: _landsAt, ...worker }) => worker,',
    replace: 'mergeDue: (worker) => worker,',
  },
  {
    name: 'a merge does not wait while people write',
    file: DECIDE,
    find: "(found.landsAt === undefined ? 'UNCHANGED' : land(decision, found))",
    replace: "(found.landsAt === undefined ? 'UNCHANGED' : decision.record({ type: 'mergeDue', worker }))",
  },
  {
    name: 'a hold before the merge is due is forgotten',
    file: DECIDE,
    find: "if (held !== undefined) return decision.wait(worker, 'held', heldWords(held, question?.why));",
    replace: '',
  },
  {
    name: 'a held merge goes on',
    file: DECIDE,
    find: "(offersMerge || (waiting === null && due === 'merge'))",
    replace: 'offersMerge',
  },
  {
    name: 'one person has two votes',
    file: DECIDE,
    find: 'if (votes.some((vote) => vote.voter === voter)) return votes.length >= needed;',
    replace: '',
  },
  {
    name: 'a vote for an earlier commit counts',
    file: EVOLVE,
    find: 'votesVoided: ({ votes: _votes, ...worker }) => worker,',
    replace: 'votesVoided: (worker) => worker,',
  },
  {
    name: 'a command merges before the tests are over',
    file: DECIDE,
    find: "if (found.next === 'test' || found.next === 'recheck') return 'UNTESTED';",
    replace: '',
  },
  {
    name: 'a command merges without the votes',
    file: DECIDE,
    find: "if (decision.settings.votes !== undefined) return 'NOT_WAITING';\n    if (found.next === 'test' || found.next === 'recheck') return 'UNTESTED';",
    replace: '',
  },
  {
    name: 'a retry asks for no step',
    file: DECIDE,
    find: "    return found.errors === 0 ? next(decision, found, 'conflict', words) : goOn(decision, found, words);",
    replace: '    return null;',
  },
  {
    name: 'a ticket that a person stopped cannot be resumed',
    file: 'turns/floor/decide/control.ts',
    find: 'policyOf(floor).goesRound || floor.stopped',
    replace: 'policyOf(floor).goesRound',
  },
  {
    name: 'a ticket is assigned before its reply is answered',
    file: DECIDE,
    find: 'if (hasOpenReply || after.some(({ id }) => !deps.includes(id)))',
    replace: 'if (after.some(({ id }) => !deps.includes(id)))',
  },
  {
    name: 'a ticket does not wait for the tickets that a reply names',
    file: DECIDE,
    find: 'if (hasOpenReply || after.some(({ id }) => !deps.includes(id)))',
    replace: 'if (hasOpenReply)',
  },
  {
    name: 'a reply is answered twice',
    file: EVOLVE,
    find: 'const replies = (crew.replies ?? []).filter((each) => each.message !== message);',
    replace: 'const replies = crew.replies ?? [];',
  },
  {
    name: 'the answer to one reply forgets another',
    file: EVOLVE,
    find: 'const replies = (crew.replies ?? []).filter((each) => each.message !== message);',
    replace: 'const replies: Crew["replies"] = [];',
  },
  {
    name: 'a reply counts although its ticket has a worker',
    file: DECIDE,
    find: 'worker === undefined ? why : `${worker.name} works on it already`',
    replace: 'why',
  },
  {
    name: 'a reply counts without the right to decide',
    file: DECIDE,
    find: "mayNot === true ? 'only operators decide that' : whyLate",
    replace: 'whyLate',
  },
];

/** Plants each bug in its own copy of the code, and searches each copy until the first broken invariant. */
export async function catchInCrews(
  ways?: Ways,
): Promise<readonly { readonly bug: Planted; readonly found: FoundCrewed | null }[]> {
  const caught: { bug: Planted; found: FoundCrewed | null }[] = [];
  for (const bug of PLANTED_CREWS) {
    const core = await loadPlanted<Crewed>([bug], 'work/floor-with-work.ts', BINDING);
    caught.push({ bug, found: firstAlong(core, ways?.get(bug.name)) ?? firstFound(core) });
  }
  return caught;
}

/** Follows a known way. `null` when it leads to no broken invariant. */
function firstAlong(core: Crewed, along: Way | undefined): FoundCrewed | null {
  const start = CREW_STARTS.find(({ name }) => name === along?.where);
  if (along === undefined || start === undefined) return null;
  return searchCrew(core, start, { depth: along.moves.length, first: true, along }).found[0] ?? null;
}

/** Searches every start, deeper each time. */
function firstFound(core: Crewed): FoundCrewed | null {
  for (const less of [3, 1, 0])
    for (const start of CREW_STARTS) {
      const [found] = searchCrew(core, start, { depth: start.smallDepth - less, first: true }).found;
      if (found !== undefined) return found;
    }
  return null;
}
