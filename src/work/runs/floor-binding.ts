import type { Causes, CommandFor, Machine } from '../../engine/machine.ts';
import { counted, excerpt } from '../../turns/commands/clock-words.ts';
import type { Command } from '../../turns/floor/command.ts';
import type { Fact, FactOf } from '../../turns/floor/fact.ts';
import type { Floor } from '../../turns/floor/floor.ts';
import { BACKGROUND_RUN_END_WORDS, findTurn, turnsOf } from '../../turns/floor/seats.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import { floorMachine } from '../../turns/floor-store.ts';
import type { RequestedCall, RunCommand, RunFact, RunRefusal } from './run-events.ts';
import { runMachine } from './run-machine.ts';
import { aboutOf, pauseWords, requestWords } from './run-published.ts';
import { lastNumber } from './run.ts';
import type { Run, RunState } from './run.ts';
import { defined } from '../../lib/defined.ts';

/** An agent in a channel, for the runs of its turns or, with `isBackground`, for its background runs. */
export type RunSeat = { readonly channel: ChannelId; readonly agent: AgentId; readonly isBackground?: true };

/** The key of a seat's runs. */
export function runKeyOf({ channel, ...seat }: RunSeat): string {
  return `${channel} ${runName(seat)}`;
}

/** The name of a seat's runs in commands: the agent's id, with a "+" for background runs. */
export function runName({ agent, isBackground }: Omit<RunSeat, 'channel'>): string {
  return `${agent}${isBackground === true ? BACKGROUND_SUFFIX : ''}`;
}

/** Whether a name in a command is of an agent's background run. */
export const isBackgroundName = (name = ''): boolean => name.endsWith(BACKGROUND_SUFFIX);

/** The keys of an agent's runs in a channel: of its turns, and of its background runs. */
export function runKeysOf({ channel, agent }: RunSeat): readonly [turns: string, background: string] {
  return [runKeyOf({ channel, agent }), runKeyOf({ channel, agent, isBackground: true })];
}

/** The seat of a key. Agents' ids contain no spaces and end in no "+". */
export function seatOfRuns(key: string): RunSeat {
  const at = key.lastIndexOf(' ');
  const [channel, agent] = [key.slice(0, at), key.slice(at + 1)];
  return isBackgroundName(agent)
    ? { channel, agent: agent.slice(0, -BACKGROUND_SUFFIX.length), isBackground: true }
    : { channel, agent };
}

/**
 * Facts of a floor that cause commands in runs, in the same transaction. The session of a turn's run is the turn's
 * epoch, so commands of an older generation are refused.
 */
export const RUN_CAUSES = {
  types: [
    'runBegun',
    'runLeft',
    'turnWaited',
    'turnResumed',
    'questionClosed',
    'asideAnswered',
    'asideStopped',
    'disconnected',
    'stoodStill',
  ],
  /** The commands that a fact causes in runs. `floor`: the floor after the decision. */
  commands: runCommands,
} as const satisfies Causes<Floor, Fact> & { readonly types: readonly Fact['type'][] };

/**
 * The run machine with its commands to floors. The floor asks people about a run's requests; the turn of a run on the
 * floor waits meanwhile.
 */
export const runOnFloor = { ...runMachine, causes: floorCommands } satisfies Machine<
  RunState,
  RunCommand,
  RunFact,
  never,
  RunRefusal
>;

function runCommands(fact: Fact, floor: Floor): readonly CommandFor[] {
  if (fact.type === 'disconnected') return fact.restart ? recoverCommands(floor) : [];
  if (fact.type === 'stoodStill') return delayCommands(fact, floor);
  if (fact.type === 'asideAnswered' || fact.type === 'asideStopped') return backgroundCommands(fact, floor);
  const commands = commandsOf(fact, floor);
  if (commands.length === 0 || !('agent' in fact) || typeof fact.agent !== 'string') return [];
  const key = runKeyOf({ channel: floor.channel, agent: fact.agent });
  return commands.map((command) => ({ machine: runMachine.name, key, command }));
}

/**
 * Delays the deadlines of background runs by the time for which Conch's process stood still: people could not decide
 * meanwhile.
 */
function delayCommands({ ms }: FactOf<'stoodStill'>, { channel, asides = [] }: Floor): readonly CommandFor[] {
  const command: RunCommand = { type: 'STANDSTILL', ms };
  const keys = asides.map(({ agent }) => runKeyOf({ channel, agent, isBackground: true }));
  return keys.map((key) => ({ machine: runMachine.name, key, command }));
}

function backgroundCommands(fact: FactOf<'asideAnswered' | 'asideStopped'>, { channel }: Floor): readonly CommandFor[] {
  const key = runKeyOf({ channel, agent: fact.agent, isBackground: true });
  const commands: readonly RunCommand[] =
    fact.type === 'asideAnswered'
      ? decisionCommands(fact)
      : [{ type: 'ABORT', reason: stoppedWords(fact), by: fact.by }];
  return commands.map((command) => ({ machine: runMachine.name, key, command }));
}

function stoppedWords({ why }: FactOf<'asideStopped'>): string {
  return why === undefined ? 'it was stopped' : BACKGROUND_RUN_END_WORDS[why];
}

function recoverCommands(floor: Floor): readonly CommandFor[] {
  const cut = turnsOf(floor).filter(({ run }) => run === true);
  const command: RunCommand = { type: 'RECOVER' };
  const keys = cut.map(({ agent }) => runKeyOf({ channel: floor.channel, agent }));
  return keys.map((key) => ({ machine: runMachine.name, key, command }));
}

function commandsOf(fact: Fact, floor: Floor): readonly RunCommand[] {
  switch (fact.type) {
    case 'runBegun':
      return beginCommands(fact, floor);
    case 'runLeft':
      return endCommands(fact);
    case 'turnWaited':
      return hasRun(floor, fact.agent) && fact.wait.reason !== 'approval'
        ? [{ type: 'PAUSE', reason: 'user_input', context: fact.wait.reason }]
        : [];
    case 'turnResumed':
      return hasRun(floor, fact.agent)
        ? [
            { type: 'ATTACH', session: `${fact.epoch}` },
            { type: 'RESUME', by: null },
          ]
        : [];
    case 'questionClosed':
      return hasRun(floor, fact.agent) ? decisionCommands(fact) : [];
    default:
      return [];
  }
}

function hasRun(floor: Floor, agent: AgentId): boolean {
  return findTurn(floor, agent)?.run === true;
}

/**
 * Returns the commands that begin the run of a turn. A run of an earlier turn that is failed or still open is aborted
 * first.
 */
function beginCommands(fact: FactOf<'runBegun'>, floor: Floor): readonly RunCommand[] {
  const { epoch, agent, maxTurns, requestedBy, prompt, output } = fact;
  const turn = `turn #${epoch} of ${agent} in ${floor.channel}`;
  const isOfReview = floor.task?.kind === 'review' && findTurn(floor, agent)?.brief !== undefined;
  const session = `${fact.epoch}`;
  const startFields = { runType: 'conversational', prompt: prompt ?? turn, session, by: null, waitMs: null } as const;
  const optionalFields = { ...defined({ maxTurns, requestedBy }) };
  const task = { id: isOfReview ? floor.task.id : turn, column: 'in_progress' };
  return [
    { type: 'ABORT', reason: 'another turn began', by: null },
    { type: 'START', ...startFields, ...optionalFields, allowedTools: null, task },
    { type: 'STEP', session, turn: 1, toolCalls: [], ...defined({ output }) },
  ];
}

/**
 * Returns the commands that end the run of a turn. A run with a running call cannot complete, so it is aborted. A
 * paused run cannot fail by the specification's table, so it is aborted, too.
 */
function endCommands(fact: FactOf<'runLeft'>): readonly RunCommand[] {
  const session = `${fact.epoch}`;
  const abort = (reason: string) => ({ type: 'ABORT', reason, by: null }) as const;
  switch (fact.outcome) {
    case 'completed':
    case 'passed':
    case 'lapsed':
      return [
        { type: 'COMPLETE', session, result: fact.result ?? '' },
        abort('the turn ended in the middle of a call'),
      ];
    case 'forfeited': {
      const { error = { code: 'AGENT_EXECUTION_ERROR', message: 'the agent was lost', recoverable: true } } = fact;
      return [
        { type: 'ERROR', session, error },
        { ...abort(error.message), while: 'paused' },
      ];
    }
    case 'expired':
      return [abort('the turn timed out')];
    case 'revoked':
      return [abort('the turn was ended')];
  }
}

function decisionCommands(fact: FactOf<'questionClosed' | 'asideAnswered'>): readonly RunCommand[] {
  const { choice, by, approval, reason, always, until } = fact;
  if (choice === null) return [];
  if (approval !== undefined) {
    const words = defined({ reason, always });
    const more = { ...words, ...defined({ until }) };
    return [{ type: 'DECIDE', approval, choice: choice === 'allow' ? 'allow' : 'deny', by, via: 'floor', ...more }];
  }
  const who = by ?? 'Conch';
  return choice === 'allow'
    ? [{ type: 'RESUME', by: who }]
    : [{ type: 'ABORT', reason: reason ?? 'denied by a person', by: who }];
}

function floorCommands(fact: RunFact, state: RunState): readonly CommandFor[] {
  const command = floorCommand(fact, state);
  return command === null ? [] : [{ machine: floorMachine.name, key: seatOfRuns(state.key).channel, command }];
}

function floorCommand(fact: RunFact, state: RunState): Command | null {
  const { key, run } = state;
  const { agent } = seatOfRuns(key);
  // The channel is told of a revoked rule in the same transaction.
  if (fact.type === 'ruleRevoked') return fact.told === undefined ? null : { type: 'tellRevoked', agent, ...fact.told };
  if (run?.type === 'background') return backgroundRunCommand(fact, state, run);
  return run?.type === 'conversational' ? turnRunCommand(fact, state, run) : null;
}

function turnRunCommand(fact: RunFact, { key, unknown }: RunState, run: Run): Command | null {
  const { agent } = seatOfRuns(key);
  const epoch = Number(run.session);
  switch (fact.type) {
    case 'paused':
      return fact.reason === 'user_input' || fact.muted === true
        ? null
        : { type: 'request', agent, epoch, ...questionOf(fact, run, unknown) };
    case 'callRequested':
      return fact.call.id === run.refused ? refusalOf(agent, fact.call) : null;
    case 'resumed':
      return { type: 'withdraw', agent, epoch, ...decidedOf(fact) };
    case 'callSettled':
      return fact.approval === undefined
        ? null
        : { type: 'ran', agent, approval: fact.approval, callOutcome: callOutcomeOf(fact) };
    case 'aborted':
      return fact.by === null ? null : { type: 'skip', agent, epoch, by: fact.by };
    case 'runCompleted':
      return fact.by == null ? null : { type: 'completeTurn', agent, epoch, by: fact.by };
    default:
      return null;
  }
}

function decidedOf({ by, told: decider }: Extract<RunFact, { type: 'resumed' }>) {
  return by === null || decider === undefined ? {} : { decided: { by, ...decider } };
}

function callOutcomeOf({ status, outcome, duration, output }: Extract<RunFact, { type: 'callSettled' }>) {
  if (outcome === 'unknown') return { status: outcome, ms: duration };
  // Every call that ran has an output, if only an empty one.
  return { status: output === null ? ('unrun' as const) : status, ms: duration };
}

function backgroundRunCommand(fact: RunFact, state: RunState, run: Run): Command | null {
  const { key, status, unknown } = state;
  const { agent } = seatOfRuns(key);
  const number = lastNumber(state);
  switch (fact.type) {
    case 'runStarted':
      return { type: 'beginAside', agent, run: number, what: `starts: ${excerpt(fact.prompt, PROMPT_LENGTH)}` };
    case 'paused':
      return fact.muted === true || fact.reason === 'user_input'
        ? { type: 'withdrawAside', agent }
        : { type: 'askAside', agent, ...questionOf(fact, run, unknown), until: fact.until };
    case 'callRequested':
      return fact.call.id === run.refused ? refusalOf(agent, fact.call) : null;
    case 'approvalDetached': {
      const restarted = { title: '', detail: '', id: fact.id, restarted: true } as const;
      return { type: 'askAside', agent, approval: restarted, until: run.pause?.until ?? null };
    }
    case 'resumed':
      return { type: 'withdrawAside', agent, ...decidedOf(fact) };
    case 'callSettled':
      return fact.approval === undefined
        ? null
        : { type: 'ran', agent, approval: fact.approval, callOutcome: callOutcomeOf(fact), aside: true };
    case 'errored': {
      const what = `failed: ${fact.error.message}`;
      if (status !== 'error') return { type: 'endAside', agent, what };
      return {
        type: 'tellAside',
        agent,
        run: number,
        failed: true,
        what: `${what}. /run retry ${agent}${BACKGROUND_SUFFIX} or /run abort ${agent}${BACKGROUND_SUFFIX}`,
      };
    }
    case 'aborted':
      return { type: 'endAside', agent, what: `was aborted: ${fact.reason}` };
    case 'runCompleted': {
      const what = `completed after ${counted(fact.turnCount, 'step')}`;
      return { type: 'endAside', agent, what, ...(fact.result.trim() === '' ? {} : { report: fact.result }) };
    }
    default:
      return null;
  }
}

const BACKGROUND_SUFFIX = '+';
const PROMPT_LENGTH = 200;

function refusalOf(agent: AgentId, { tool, rule, why, words }: RequestedCall): Command {
  // Calls that an earlier version recorded have no reason.
  const reason = why ?? (rule === null ? 'no rule covers it' : `rule "${rule}"`);
  return { type: 'forbidden', agent, title: words?.title ?? tool, why: reason };
}

type Asking = Pick<Extract<Command, { type: 'request' }>, 'approval' | 'unaskable'>;

function questionOf(
  { reason, approval, context }: Extract<RunFact, { type: 'paused' }>,
  run: Run,
  unknown: RunState['unknown'],
): Asking {
  if (approval === null) {
    const pause = reason === 'turn_limit' ? reason : 'confirmation';
    return { approval: { ...pauseWords({ reason, context }, run, endsWhat(run)), pause } };
  }
  const call = run.calls.find(({ id }) => id === approval.call);
  if (call === undefined) return { approval: { title: approval.tool, detail: '', id: approval.id } };
  const { title, detail, unaskable, offers = [] } = requestWords(call);
  const always = offers.length === 0 ? {} : { always: offers };
  const lasting = defined({ lasting: approval.lasting });
  const more = { ...aboutOf(call, approval, { run, unknown }), ...lasting, ...always };
  return { approval: { title, detail, id: approval.id, ...more }, ...defined({ unaskable }) };
}

function endsWhat({ type, id }: Run): string {
  if (type !== 'background') return 'its turn; /run complete';
  return `it; /run complete ${seatOfRuns(id.slice(0, id.lastIndexOf('#'))).agent}${BACKGROUND_SUFFIX}`;
}
