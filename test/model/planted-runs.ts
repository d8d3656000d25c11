import { loadPlanted } from './planted-source.ts';
import type { Planted } from './planted.ts';
import { searchRuns } from './runs.ts';
import type { FoundRun, RunMachine } from './runs.ts';
import type { Ways } from './ways.ts';

/** Bugs that a programmer could write into the run machine. */
export const PLANTED_RUNS: readonly Planted[] = [
  {
    name: 'a call that was cut short is repeated unasked',
    file: 'run-calls.ts',
    find: ' || (state.unknown.includes(digest) && !repeatable)',
    replace: '',
  },
  {
    name: 'a call that was cleared starts, though an equal one was cut short since',
    file: 'run-calls.ts',
    find: 'if (needsApproval(decision, call, verdict)) requestApproval',
    replace: "if (verdict === 'ask' && !call.approved) requestApproval",
  },
  {
    name: 'a click on a question of another content counts',
    file: 'run-calls.ts',
    find: "  if (approval.digest !== (command.digest ?? approval.digest)) return 'APPROVAL_CHANGED';\n",
    replace: '',
  },
  {
    name: 'a yes counts after its time',
    file: 'run-calls.ts',
    find: 'if (decision.at >= (approval.expiresAt ?? Infinity))',
    replace: 'if (decision.at > (approval.expiresAt ?? Infinity))',
  },
  {
    name: 'a call that was changed starts',
    file: 'run-calls.ts',
    find: 'if (digest === call.digest && RUN_GUARDS',
    replace: 'if (RUN_GUARDS',
  },
  {
    name: 'a call starts that is forbidden by now',
    file: 'run-calls.ts',
    find: 'if (digest === call.digest && RUN_GUARDS.isToolAllowed({ verdict })) {',
    replace: 'if (digest === call.digest) {',
  },
  {
    name: 'a call that the rules deny waits like any other',
    file: 'run-calls.ts',
    find: 'if (open === undefined || RUN_GUARDS.isToolAllowed(call)) return;',
    replace: "if (open === undefined || open.status === 'pending') return;",
  },
  {
    name: 'a call that the rules allow is refused',
    file: 'run-calls.ts',
    find: 'if (open === undefined || RUN_GUARDS.isToolAllowed(call)) return;',
    replace: 'if (open === undefined) return;',
  },
  {
    name: 'calls of one step run at once',
    file: 'run-calls.ts',
    find: " && !(call.source === 'conch' && isBusy)",
    replace: '',
  },
  {
    name: 'a no lets the call wait on',
    file: 'run-calls.ts',
    find: "if (closed === 'denied' && call !== undefined)",
    replace: "if (closed !== 'denied' && call === undefined)",
  },
  {
    name: 'a result starts nothing further',
    file: 'run-calls.ts',
    find: "  decision.record({ type: 'callSettled', call: id, tool: call.tool, ...result });\n  goOnWithRun(decision);\n",
    replace: "  decision.record({ type: 'callSettled', call: id, tool: call.tool, ...result });\n",
  },
  {
    name: 'what an agent did by itself is lost when its run stands still',
    file: 'run-calls.ts',
    find: "  if (run === null || !RUN_GUARDS.hasValidSession(run, { session })) return 'AGENT_NOT_RUNNING';\n",
    replace:
      "  if (run === null || !RUN_GUARDS.hasValidSession(run, { session }) || decision.state.status !== 'running') return 'AGENT_NOT_RUNNING';\n",
  },
  {
    name: 'what a call brings in leaves no mark',
    file: 'run-calls.ts',
    find: '  for (const label of LABELS) markSession(decision, label, brings[label]);\n',
    replace: '',
  },
  {
    name: 'what a session has read is forgotten with a new run',
    file: 'run-evolve.ts',
    find: "  if (fact.type === 'runStarted') return started(state, fact);\n",
    replace:
      "  if (fact.type === 'runStarted') {\n    const { taint: _, ...clean } = state;\n    return started(clean, fact);\n  }\n",
  },
  {
    name: 'what a session has read is forgotten with a restart',
    file: 'run-decide.ts',
    find: "  if (decision.facts.length === 0) return 'NOT_DUE';\n",
    replace:
      "  if (decision.facts.length === 0) return 'NOT_DUE';\n  if (decision.state.taint !== undefined) decision.record({ type: 'cleansed' });\n",
  },
  {
    name: 'what a session wrote is forgotten with it',
    file: 'run-evolve.ts',
    find: 'wrote: spans.reduce(withSpan, wrote)',
    replace: 'wrote',
  },
  {
    name: 'a call that waited through a pause is not dispatched again',
    file: 'run-evolve.ts',
    find: "(call.status === 'pending' ? { ...call, cleared: false } : call)",
    replace: 'call',
  },
  {
    name: 'a run that is aborted leaves its question open',
    file: 'run-decide.ts',
    find: "  closeApproval(decision, 'void');\n  dropCalls",
    replace: '  dropCalls',
  },
  {
    name: 'a run that is aborted leaves its calls pending',
    file: 'run-decide.ts',
    find: "  dropCalls(decision, 'DROPPED');\n",
    replace: '',
  },
  {
    name: 'a run completes while a call is running',
    file: 'run-decide.ts',
    find: "  if (run.calls.some(({ status }) => status === 'running')) return 'CALL_OPEN';\n",
    replace: '',
  },
  {
    name: 'a step begins while a call has no result',
    file: 'run-decide.ts',
    find: "  if (!run.calls.every(isWaiting)) return 'CALL_OPEN';\n",
    replace: '',
  },
  {
    name: 'a step that came already counts again',
    file: 'run-decide.ts',
    find: "  if (command.turn !== run.turn + 1) return 'STEP_OUT_OF_ORDER';\n",
    replace: '',
  },
  {
    name: 'the limit is looked at one step too late',
    file: 'run-table.ts',
    find: 'turn >= run.maxTurns',
    replace: 'turn > run.maxTurns',
  },
  {
    name: 'what an earlier session of the agent sends counts',
    file: 'run-table.ts',
    find: 'run.session === session',
    replace: 'run.session !== null && session !== null',
  },
  {
    name: 'a yes raises the limit',
    file: 'run-calls.ts',
    find: '  const { maxTurns } = decision.run;\n',
    replace: '  const maxTurns = decision.run.maxTurns + 1;\n',
  },
  {
    name: 'as many steps as anybody likes are added',
    file: 'run-decide.ts',
    find: "  if (more < 1 || more > MOST_TURNS) return 'AGENT_TURN_LIMIT_EXCEEDED';\n",
    replace: '',
  },
  {
    name: 'a run goes on while a question is open',
    file: 'run-decide.ts',
    find: "  if (run.pause?.approval) return 'APPROVAL_OPEN';\n",
    replace: '',
  },
  {
    name: 'a run in error waits for ever',
    file: 'run-machine.ts',
    find: 'run?.pause?.until ?? run?.errorUntil ?? null',
    replace: 'run?.pause?.until ?? null',
  },
  {
    name: 'an error that can be mended ends the run',
    file: 'run-evolve.ts',
    find: "state.status === 'starting' || error.recoverable ? 'error' : 'idle'",
    replace: "state.status === 'starting' ? 'error' : 'idle'",
  },
  {
    name: 'a restart takes a call that was running for one that never began',
    file: 'run-decide.ts',
    find: "{ code: 'RESTARTED', outcome: 'unknown' }",
    replace: "{ code: 'RESTARTED', outcome: 'known' }",
  },
  {
    name: 'an agent that is gone leaves its calls behind',
    file: 'run-calls.ts',
    find: "    else if (call.source === 'agent') endCall(decision, call, { code, outcome: 'unknown' });\n",
    replace: '',
  },
  {
    name: 'the yes of a request that is gone counts for ever',
    file: 'run-evolve.ts',
    find: 'const grants = run.grants.toSpliced(place, 1);',
    replace: 'const { grants } = run;',
  },
  {
    name: 'the yes of a request that is gone counts for another run',
    file: 'run-evolve.ts',
    find: '    grants: [],\n    asked: 0,',
    replace: '    grants: state.run?.grants ?? [],\n    asked: 0,',
  },
  {
    name: 'the yes of a request that is gone counts after its time',
    file: 'run-calls.ts',
    find: ' && at < (until ?? Infinity)',
    replace: '',
  },
  {
    name: 'the yes of a request that is gone counts for any request',
    file: 'run-calls.ts',
    find: 'grant.digest === digest && call',
    replace: 'call',
  },
  {
    name: 'the no of a request that is gone lets it through',
    file: 'run-calls.ts',
    find: "    if (choice === 'deny') {\n      endCall(decision, next,",
    replace: '    if (false) {\n      endCall(decision, next,',
  },
  {
    name: 'what people say of a request that is gone counts for nothing',
    file: 'run-evolve.ts',
    find: '[...run.grants, ...grantsBy(run, fact, approval)]',
    replace: 'run.grants',
  },
  {
    name: 'an answer counts for any call that is the same',
    file: 'run-evolve.ts',
    find: '.map((call) => ({ ...grant, call }))',
    replace: '.map(() => grant)',
  },
  {
    name: 'an answer counts for a call that was taken back meanwhile',
    file: 'run-evolve.ts',
    find: '.filter((call) => run.calls.some((each) => each.id === call))',
    replace: '',
  },
  {
    name: 'an answer outlasts the call that it was for',
    file: 'run-evolve.ts',
    find: 'run.grants.filter(({ call }) => call !== fact.call)',
    replace: 'run.grants',
  },
  {
    name: 'an answer counts for the one that was shown, and for no other that is asked with it',
    file: 'run-calls.ts',
    find: 'others.length > 0 ? { others }',
    replace: 'others.length > 9 ? { others }',
  },
  {
    name: 'an answer to what is asked by itself counts for others',
    file: 'run-calls.ts',
    find: 'const others = alone === true ? [] :',
    replace: 'const others =',
  },
  {
    name: 'an answer counts for what is asked by itself',
    file: 'run-calls.ts',
    find: '(each.alone === true ? [] : [each.id])',
    replace: '[each.id]',
  },
  {
    name: 'a call that waits goes with the others',
    file: 'run-calls.ts',
    find: ' && !isWaiting(call) && ',
    replace: ' && ',
  },
  {
    name: 'a call that waits outlasts its agent',
    file: 'run-calls.ts',
    find: "source === 'agent' || waits === true || ",
    replace: "source === 'agent' || ",
  },
  {
    name: 'a command of another machine counts as often as it comes',
    file: 'run-decide.ts',
    find: "  if (cause !== undefined && state.causes.includes(cause)) return { ok: false, refusal: 'REPEATED', facts: [] };\n",
    replace: '',
  },
  {
    name: 'a task that is done begins again',
    file: 'run-table.ts',
    find: "task !== null && (task.column === 'backlog' || task.column === 'in_progress')",
    replace: 'task !== null',
  },
  {
    name: 'an agent that asked is not answered when its run ends',
    file: 'run-calls.ts',
    find: "const refused = source === 'agent' && status === 'pending' && code !== LOST;",
    replace: "const refused = source === 'agent' && status === 'pending' && code === 'DENIED';",
  },
];

/** The depth of the search for each bug. */
const DEPTH = 7;

/** Plants each bug in its own copy of the code, and searches each copy until the first broken invariant. */
export async function catchInRuns(
  ways?: Ways,
): Promise<readonly { readonly bug: Planted; readonly found: FoundRun | null }[]> {
  const caught: { readonly bug: Planted; readonly found: FoundRun | null }[] = [];
  for (const bug of PLANTED_RUNS) {
    const edit = { ...bug, file: `work/runs/${bug.file}` };
    const copy = await loadPlanted<{ readonly runMachine: RunMachine }>([edit], 'work/runs/run-machine.ts');
    const along = ways?.get(bug.name);
    const known = along && searchRuns(copy.runMachine, { depth: along.moves.length, first: true, along }).found[0];
    const [found = null] = known ? [known] : searchRuns(copy.runMachine, { depth: DEPTH, first: true }).found;
    caught.push({ bug, found });
  }
  return caught;
}
