import { searchClicks } from './approvers.ts';
import type { Clicking, FoundClick } from './approvers.ts';
import { BESIDE } from './beside.ts';
import { CUT, TURN, searchJoined } from './joined.ts';
import type { FoundJoined, Joined, JoinedScene } from './joined.ts';
import { loadPlanted } from './planted-source.ts';
import type { Planted } from './planted.ts';
import type { Way, Ways } from './ways.ts';

const EXECUTE = 'turns/commands/execute.ts';
const COMMANDS = 'work/runs/run-commands.ts';
const FLOORS = 'work/floor-with-work.ts';
const BINDING = 'work/runs/floor-binding.ts';
const RUN = 'work/runs/run-decide.ts';

/** Bugs between floor and run: each lets one of them go on without the other. */
export const PLANTED_JOINED: readonly Planted[] = [
  {
    name: 'runs are not told of a restart',
    file: BINDING,
    find: 'return fact.restart ? recoverCommands(floor) : [];',
    replace: 'return [];',
  },
  { name: 'a run outlives its turn', file: BINDING, find: 'return endCommands(fact);', replace: 'return [];' },
  {
    name: 'a run goes on while its turn waits',
    file: BINDING,
    find: "[{ type: 'PAUSE', reason: 'user_input', context: fact.wait.reason }]",
    replace: '[]',
  },
  {
    name: 'a run goes by the epoch before',
    file: BINDING,
    find: "{ type: 'ATTACH', session: `${fact.epoch}` },",
    replace: '',
  },
  {
    name: 'a run stands still when its turn goes on',
    file: BINDING,
    find: "{ type: 'RESUME', by: null },",
    replace: '',
  },
  {
    name: 'a run is not told what people said',
    file: BINDING,
    find: 'return hasRun(floor, fact.agent) ? decisionCommands(fact) : [];',
    replace: 'return [];',
  },
  {
    name: 'a run does not begin to work',
    file: BINDING,
    find: "{ type: 'STEP', session, turn: 1, toolCalls: [], ...defined({ output }) },",
    replace: '',
  },
  {
    name: 'what an earlier turn left in error keeps the next from beginning',
    file: BINDING,
    find: "{ type: 'ABORT', reason: 'another turn began', by: null },",
    replace: '',
  },
  {
    name: 'a turn that timed out leaves its run',
    file: BINDING,
    find: "return [abort('the turn timed out')];",
    replace: 'return [];',
  },
  {
    name: 'a turn that was stopped leaves its run',
    file: BINDING,
    find: "return [abort('the turn was ended')];",
    replace: 'return [];',
  },
  {
    name: 'a run with an open call outlives its turn',
    file: BINDING,
    find: "abort('the turn ended in the middle of a call'),",
    replace: '',
  },
  {
    name: 'a run whose agent is stopped for good may be retried',
    file: BINDING,
    find: "{ type: 'ERROR', session, error },",
    replace: "{ type: 'ERROR', session, error: { ...error, recoverable: true } },",
  },
  {
    name: 'a run that asks outlives its agent',
    file: BINDING,
    find: "{ ...abort(error.message), while: 'paused' },",
    replace: '',
  },
  {
    name: 'nobody is asked',
    file: BINDING,
    find: "return fact.reason === 'user_input' || fact.muted === true",
    replace: "return fact.reason !== 'turn_limit'",
  },
  {
    name: 'nobody is told of the limit',
    file: BINDING,
    find: "return fact.reason === 'user_input' || fact.muted === true",
    replace: "return fact.reason !== 'approval_required'",
  },
  {
    name: 'a question stays open when its run goes on',
    file: BINDING,
    find: "return { type: 'withdraw', agent, epoch, ...decidedOf(fact) };",
    replace: 'return null;',
  },
  {
    name: 'a turn outlives the run that people ended',
    file: BINDING,
    find: "return fact.by === null ? null : { type: 'skip', agent, epoch, by: fact.by };",
    replace: 'return null;',
  },
  { name: 'questions are closed unheard', file: BINDING, find: "    'questionClosed',\n", replace: '' },
  { name: 'waits are not heard', file: BINDING, find: "    'turnWaited',\n", replace: '' },
  {
    name: 'a question of an agent is over for its floor after a restart, and its run asks on',
    file: 'turns/floor/seats.ts',
    find: 'if (lasting === undefined) return { ...wait, ready: true };',
    replace: 'if (lasting !== true) return { ...wait, ready: true };',
  },
  {
    name: 'a floor does not know that a restart took who asks',
    file: 'turns/floor/seats.ts',
    find: "question: lasting === 'answer' ? requestAfterRestart(wait.question) : wait.question",
    replace: 'question: wait.question',
  },
  {
    name: 'a floor does not know that who asks beside it is gone',
    file: BINDING,
    find: "return { type: 'askAside', agent, approval: restarted, until: run.pause?.until ?? null };",
    replace: 'return null;',
  },
  {
    name: 'what is asked beside a floor is withdrawn over a restart, and its run asks on',
    file: RUN,
    find: "if (isOnFloor && !(isLasting && type === 'background')) standStill(decision);",
    replace: 'if (isOnFloor) standStill(decision);',
  },
  {
    name: 'an agent of before a restart asks, and its run takes it',
    file: RUN,
    find: "if (isOnFloor && !(isLasting && type === 'background')) standStill(decision);",
    replace: '',
  },
  {
    name: 'a question about a call of Conch is void over a restart, and its floor asks on',
    file: RUN,
    find: 'pause?.approval?.lasting !== undefined',
    replace: 'false',
  },
  {
    name: 'a run goes on with the answer to a question that outlasted a restart, before its turn does',
    file: 'work/runs/run-calls.ts',
    find: 'if (isMuted) return standStill(decision);',
    replace: '',
  },
  {
    name: 'a question about a call of Conch is over for its floor after a restart, and its run asks on',
    file: 'turns/floor/seats.ts',
    find: 'if (lasting === undefined) return { ...wait, ready: true };',
    replace: "if (lasting !== 'answer') return { ...wait, ready: true };",
  },
  {
    name: 'a turn that a restart has cut is at work once it is answered, with nobody there',
    file: 'turns/floor/seats.ts',
    find: "if (wait.reason !== 'approval' || wait.cut !== true) return null;",
    replace: "if (wait.reason !== 'human') return null;",
  },
  {
    name: 'a run asks on while its turn waits for a person',
    file: RUN,
    find: "if (command.type === 'PAUSE' && isCutOff(decision, command)) return withdrawRequest(decision);",
    replace: '',
  },
  {
    name: 'a run that failed goes on without a turn',
    file: RUN,
    find: "return run.type === 'background' && by !== null ? null : 'AGENT_EXECUTION_ERROR';",
    replace: 'return null;',
  },
  {
    name: 'a run goes on by a word while its turn waits for another',
    file: RUN,
    find: "if (by !== null && (run.pause?.reason === 'user_input' || run.pause?.muted === true)) return 'AGENT_NOT_RUNNING';",
    replace: '',
  },
  {
    name: 'a run at its limit is not asked about again after a restart',
    file: RUN,
    find: 'if (pause !== null && isForPeople(decision.run)) pauseRun(decision, pause.reason, pause.context);',
    replace: '',
  },
  {
    name: 'a question does not say what it is for',
    file: 'turns/floor/decide/background-runs.ts',
    find: '...defined({ approval: id }),',
    replace: '',
  },
  {
    name: 'the end of a turn with a run is not told',
    file: 'turns/floor/decide/decision-builder.ts',
    find: "decision.record({ type: 'runLeft', agent, epoch, outcome, ...result, ...error });",
    replace: '',
  },
  {
    name: 'a turn that waits forgets its run',
    file: 'turns/floor/evolve.ts',
    find: '      run: turn.run,\n',
    replace: '',
  },
  {
    name: 'work beside the floor outlives a stop',
    file: BINDING,
    find: "[{ type: 'ABORT', reason: stoppedWords(fact), by: fact.by }]",
    replace: '[]',
  },
  {
    name: 'a floor does not know of the work beside it',
    file: BINDING,
    find: "return { type: 'beginAside', agent, run: number, what: `starts: ${excerpt(fact.prompt, PROMPT_LENGTH)}` };",
    replace: 'return null;',
  },
  {
    name: 'a floor is not told that the work beside it was aborted',
    file: BINDING,
    find: "return { type: 'endAside', agent, what: `was aborted: ${fact.reason}` };",
    replace: 'return null;',
  },
  {
    name: 'a floor is not told that the work beside it has failed for good',
    file: BINDING,
    find: "if (status !== 'error') return { type: 'endAside', agent, what };",
    replace: "if (status !== 'error') return { type: 'tellAside', agent, run: totals.runs, failed: true, what };",
  },
  {
    name: 'a question of before a restart can be answered, beside the floor',
    file: BINDING,
    find: "return fact.muted === true || fact.reason === 'user_input'",
    replace: "return fact.reason === 'user_input' && fact.muted !== true",
  },
  {
    name: 'what people say to work beside the floor is not heard',
    file: BINDING,
    find: "    'asideAnswered',\n",
    replace: '',
  },
  {
    name: 'a question stays open when the work beside the floor goes on',
    file: BINDING,
    find: "    case 'resumed':\n      return { type: 'withdrawAside', agent, ...decidedOf(fact) };",
    replace: "    case 'resumed':\n      return null;",
  },
  {
    name: 'every line about the work of an agent beside the floor has one key',
    file: 'turns/floor/announcement.ts',
    find: "`${notice.run ?? ''}`, shortDigest(notice.what)",
    replace: '',
  },
  {
    name: 'a run that is completed at its limit is skipped on its floor',
    file: BINDING,
    find: "fact.by == null ? null : { type: 'completeTurn',",
    replace: "fact.by == null ? null : { type: 'skip',",
  },
  {
    name: 'a report is said in the middle of a turn',
    file: 'turns/floor/decide/decision-builder.ts',
    find: 'decision.floor.turn === null ? (decision.floor.reports ?? []) : []',
    replace: 'decision.floor.reports ?? []',
  },
  {
    name: 'a report waits although nobody has the floor',
    file: 'turns/floor/decide/background-runs.ts',
    find: '  reportAll(decision);\n',
    replace: '',
  },
  {
    name: 'work beside the floor outlives that its agent is switched off',
    file: 'turns/floor/decide/membership.ts',
    find: "  if (backgroundRun !== undefined) stopWithSeat(decision, backgroundRun, { by, why: 'disabled' });\n",
    replace: '',
  },
  {
    name: 'work beside the floor outlives that its agent is taken out of the channel',
    file: 'turns/floor/decide/membership.ts',
    find: "  if (backgroundRun !== undefined) stopWithSeat(decision, backgroundRun, { by, why: 'removed' });\n",
    replace: '',
  },
  {
    name: 'an agent that is switched off begins to work beside the floor',
    file: 'turns/floor/decide/background-runs.ts',
    find: 'findSeat(decision.floor, agent)?.disabled !== false',
    replace: 'false',
  },
  {
    name: 'work beside the floor goes on past its limit by itself',
    file: RUN,
    find: "return by === null && isForPeople(run) ? 'APPROVAL_OPEN' : null;",
    replace: 'return null;',
  },
];

const DEPTHS = [2, 3, 4, 5];

/** Plants each bug in its own copy of the code. Searches deeper and deeper until the first broken invariant. */
export async function catchInJoined(
  ways?: Ways,
): Promise<readonly { readonly bug: Planted; readonly found: FoundThere | null }[]> {
  const caught: { readonly bug: Planted; readonly found: FoundThere | null }[] = [];
  for (const bug of PLANTED_JOINED) {
    const copy = await loadPlanted<Joined>([bug], FLOORS, BINDING);
    caught.push({ bug, found: firstAlong(copy, ways?.get(bug.name)) ?? firstOf(copy) });
  }
  return caught;
}

/** A broken invariant, and the scene in which the search found it. */
type FoundThere = FoundJoined & { readonly where: string };

/** The scenes by their names in known ways. */
const SCENES: Readonly<Record<string, JoinedScene>> = { turn: TURN, beside: BESIDE, cut: CUT };

/** Follows a known way. `null` when it leads to no broken invariant. */
function firstAlong(core: Joined, along: Way | undefined): FoundThere | null {
  const scene = SCENES[along?.where ?? ''];
  if (along === undefined || scene === undefined) return null;
  const [found] = searchJoined(core, { depth: along.moves.length, first: true, scene, along }).found;
  return found === undefined ? null : { ...found, where: along.where };
}

function firstOf(core: Joined): FoundThere | null {
  for (const depth of DEPTHS) {
    for (const [where, scene] of Object.entries(SCENES)) {
      const [found] = searchJoined(core, { depth, first: true, scene }).found;
      if (found !== undefined) return { ...found, where };
    }
  }
  return null;
}

/** Bugs in the rule who may answer an agent's request. The search of clicks must find each. */
export const PLANTED_CLICKS: readonly Planted[] = [
  {
    name: 'whoever is no approver decides when he operates',
    file: EXECUTE,
    find: 'return operates(person, context, named)\n',
    replace: 'return operates(person, context) || operates(person, context, named)\n',
  },
  {
    name: 'an agent that is named among the approvers decides',
    file: EXECUTE,
    find: 'return operates(person, context, named)\n',
    replace: 'return mayOperate(person, named, [])\n',
  },
  {
    name: 'a no counts, whoever says it',
    file: EXECUTE,
    find: "(path === 'allow' || path === 'answer' || path === 'reject') && values.question !== undefined",
    replace: "(path === 'allow' || path === 'answer') && values.question !== undefined",
  },
  {
    name: 'an answer in words counts, whoever says it',
    file: EXECUTE,
    find: "(path === 'allow' || path === 'answer' || path === 'reject') && values.question !== undefined",
    replace: "(path === 'allow' || path === 'reject') && values.question !== undefined",
  },
  {
    name: 'whoever asked for the work decides',
    file: EXECUTE,
    find: 'return approvers?.not.includes(person.id) === true',
    replace: 'return approvers?.not.includes(person.name) === true',
  },
  {
    name: 'whoever asked for work beside the floor decides',
    file: COMMANDS,
    find: '{ channel, agent, ...(isBackground ? { isBackground: true } : {}) };',
    replace: '{ channel, agent };',
  },
  {
    name: 'a question of work beside the floor is left to nobody',
    file: COMMANDS,
    find: 'if (asking?.question.approval === undefined) return null;',
    replace: 'if (asking?.question.approval === undefined || asking.isBackground) return null;',
  },
  {
    name: 'a button of another store counts',
    file: EXECUTE,
    find: 'return drawnFor.store === view.store ? null : OUTDATED.turn;',
    replace: 'return null;',
  },
  {
    name: 'a button that cannot be read counts as typed',
    file: EXECUTE,
    find: 'drawnFor === null ? OUTDATED.turn : outdatedAnswer(request, context)',
    replace: 'outdatedAnswer(request, context)',
  },
  {
    name: 'a program that goes by the name of an operator decides',
    file: 'turns/commands/context.ts',
    find: "person.bot === true || person.id === ''",
    replace: "person.id === ''",
  },
];

/** Plants each bug in its own copy of the code, and lets everybody click. */
export async function catchInClicks(
  ways?: Ways,
): Promise<readonly { readonly bug: Planted; readonly found: FoundClick | null }[]> {
  const caught: { readonly bug: Planted; readonly found: FoundClick | null }[] = [];
  for (const bug of PLANTED_CLICKS) {
    const copy = await loadPlanted<Clicking>([bug], EXECUTE, COMMANDS);
    const along = ways?.get(bug.name);
    const known = along && (await searchClicks(copy, { first: true, along })).found[0];
    const [found = null] = known ? [known] : (await searchClicks(copy, { first: true })).found;
    caught.push({ bug, found });
  }
  return caught;
}
