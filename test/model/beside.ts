import type { Command } from '../../src/turns/floor/command.ts';
import { PLAIN_SETTINGS } from '../../src/turns/floor/floor.ts';
import { findBackgroundRun, findSeat } from '../../src/turns/floor/seats.ts';
import type { RequestedCall, RunCommand } from '../../src/work/runs/run-events.ts';
import type { RunState } from '../../src/work/runs/run.ts';
import type { Joined, JoinedMove, JoinedScene, JoinedWorld } from './joined.ts';
import { must } from './violation.ts';

const AGENT = 'pm';
const WAIT_MS = 1_000;

/** pm has the floor and works on a background run. dev is next. */
export const BESIDE: JoinedScene = {
  key: `model ${AGENT}+`,
  beginning: [
    {
      type: 'configure',
      settings: { ...PLAIN_SETTINGS, rounds: 0 },
      seats: [AGENT, 'dev'].map((agent) => ({ agent, priority: 1, timeoutMs: 60_000, rejoin: 'auto' as const })),
    },
    { type: 'join', agent: AGENT },
    { type: 'join', agent: 'dev' },
    { type: 'start', by: 'ann' },
  ],
  moves: movesOf,
  check,
};

function movesOf({ floor, run, at, calls }: JoinedWorld, core: Joined): readonly JoinedMove[] {
  const { turn } = floor;
  const agent = turn?.agent ?? AGENT;
  const question = findBackgroundRun(floor, AGENT)?.question;
  const asked: readonly Command[] =
    question === undefined
      ? []
      : [
          { type: 'shown', question: question.question },
          { type: 'shown', question: question.question, why: 'no access' },
          { type: 'decide', by: 'ann', choice: 'allow', question: question.question },
          { type: 'decide', by: 'ann', choice: 'reject', question: question.question },
        ];
  const floors: readonly Command[] = [
    { type: 'stop', by: 'ann' },
    { type: 'end', agent, epoch: turn?.epoch ?? 0, outcome: 'completed', signalled: true },
    { type: 'restart' },
    { type: 'catchUp' },
    { type: 'disable', agent: AGENT, by: 'ann' },
    { type: 'enable', agent: AGENT, by: 'ann' },
    { type: 'remove', agent: AGENT, by: 'ann' },
    { type: 'add', agent: AGENT, by: 'ann' },
    ...asked,
  ];
  const runs = runMoves(run, calls);
  const deadline = core.runOnFloor.nextDeadline(run);
  const late: readonly JoinedMove[] =
    deadline === null ? [] : [{ of: 'run', command: { type: 'TICK' }, at: Math.max(at, deadline) }];
  return [
    ...floors.map((command): JoinedMove => ({ of: 'floor', command, at })),
    ...runs.map((command): JoinedMove => ({ of: 'run', command, at })),
    ...late,
  ];
}

function runMoves({ run }: RunState, calls: number): readonly RunCommand[] {
  const given = { prompt: 'p', by: 'ann', session: '1', waitMs: WAIT_MS, allowedTools: null, maxTurns: 2 } as const;
  const task = { id: 't', column: 'in_progress' };
  const start: RunCommand = { type: 'START', runType: 'background', ...given, task };
  if (run === null) return [start];
  const { session } = run;
  const plain = { id: `c${calls}`, tool: 't', input: {}, rule: null, repeatable: false } as const;
  const call = (more: Pick<RequestedCall, 'verdict' | 'source' | 'digest'>): RunCommand => ({
    type: 'REQUEST',
    session,
    calls: [{ ...plain, ...more }],
  });
  const [open] = run.calls;
  const ofCall: readonly RunCommand[] =
    open === undefined
      ? []
      : [
          { type: 'CLAIM', call: open.id, digest: open.digest, verdict: 'allow' },
          { type: 'SETTLE', call: open.id, status: 'complete', output: null, duration: null, code: null },
          { type: 'WITHDRAW', call: open.id },
        ];
  const error = (recoverable: boolean) => ({ code: 'AGENT_EXECUTION_ERROR', message: 'x', recoverable });
  return [
    start,
    ...ofCall,
    call({ verdict: 'ask', source: 'agent', digest: 'a' }),
    call({ verdict: 'allow', source: 'conch', digest: 'b' }),
    { type: 'STEP', session, turn: run.turn + 1, toolCalls: [] },
    { type: 'PAUSE', reason: 'confirmation', context: 'ann paused it' },
    { type: 'RESUME', by: 'ann' },
    { type: 'RESUME', by: null },
    { type: 'ABORT', reason: 'x', by: 'ann' },
    { type: 'COMPLETE', session, result: 'r' },
    { type: 'ERROR', session, error: error(true) },
    { type: 'ERROR', session, error: error(false) },
    { type: 'LOST', session, error: error(true) },
    { type: 'RECOVER' },
    { type: 'ATTACH', session: `${Math.min(3, Number(session) + 1)}` },
  ];
}

/** B1 to B10: what holds of a floor and its background run. */
function check({ floor, run: { status, run } }: JoinedWorld, before: JoinedWorld, { command }: JoinedMove): void {
  const aside = findBackgroundRun(floor, AGENT);
  const isOpen = status !== 'idle' && status !== 'completed';
  must(isOpen === (aside !== undefined), 'B1', `the work is ${status}, its floor has ${aside ? 'it' : 'nothing'}`);
  const pause = status === 'paused' ? (run?.pause ?? null) : null;
  const asks = pause !== null && pause.muted !== true && pause.reason !== 'user_input';
  must(
    asks === (aside?.question !== undefined),
    'B2',
    `the work ${asks ? 'asks' : 'asks nothing'}, its floor does not`,
  );
  must(
    aside?.question?.approval === (pause?.approval?.id ?? undefined),
    'B3',
    'a floor asks for what its run does not',
  );
  must(
    (aside?.question?.restarted === true) === (pause?.approval?.detached === true),
    'B9',
    'a floor does not know that whoever asks beside it is gone, or only it does',
  );
  must((floor.reports ?? []).length === 0 || floor.turn !== null, 'B4', 'a report waits for nobody');
  must(floor.turn?.run === undefined, 'B5', 'work beside the floor is taken for that of a turn');
  checkReport(before, floor.lines, floor.turn?.epoch);
  const isOff = findSeat(floor, AGENT)?.disabled === true;
  const isRemoved = command.type === 'remove' && aside !== undefined;
  must(!isRemoved, 'B10', 'the work of an agent that is taken out of the channel goes on');
  must(!isOff || aside === undefined, 'B8', 'an agent that is switched off works beside the floor');
  const isByItself = command.type === 'RESUME' && command.by === null;
  const stood = before.run.run?.pause?.reason;
  must(!isByItself || stood === 'user_input', 'B7', `the work stood still for ${stood} and goes on by itself`);
}

/** B6: a report is said only between turns, never while a turn goes on. */
function checkReport({ floor: was }: JoinedWorld, lines: number, epoch: number | undefined): void {
  const isSame = was.turn !== null && was.turn.epoch === epoch;
  must(!isSame || lines === was.lines, 'B6', 'something was said in the middle of a turn that did not say it');
}
