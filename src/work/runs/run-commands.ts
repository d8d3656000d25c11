import { refusalText } from '../../turns/floor/refusals.ts';
import type { Clock } from '../../lib/time.ts';
import { timeWords } from '../../turns/commands/clock-words.ts';
import type { Answer, Floors, Request, RunCommands, RunVerb } from '../../turns/commands/context.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import { requestByNumber, requestByKey } from '../../turns/floor/seats.ts';
import type { PostedDraft } from '../../turns/manager.ts';
import { DISCARDED } from '../../turns/drawn-for.ts';
import { IN_WORDS } from '../../turns/requesters.ts';
import { callWords } from '../../turns/tool-calls.ts';
import { lostWords } from './background-work.ts';
import { isBackgroundName, runKeyOf, runKeysOf, runName, seatOfRuns } from './floor-binding.ts';
import type { RunSeat } from './floor-binding.ts';
import { toolCallRows } from './call-record.ts';
import { habits, totalWords, totalsText } from './run-audit.ts';
import type { RunCommand, RunRefusal } from './run-events.ts';
import { isLastAccepted } from './run-machine.ts';
import type { RunStore } from './run-machine.ts';
import { lastNumber } from './run.ts';
import type { RunState } from './run.ts';
import { defined } from '../../lib/defined.ts';

/** Dependencies of commands about runs. */
export type RunCommandPorts = {
  readonly runs: Pick<RunStore, 'apply' | 'applyAll' | 'state' | 'keys' | 'journal'>;
  readonly floors: Pick<Floors, 'apply' | 'view' | 'turns'> & {
    /**
     * Posts the draft of the holder's turn before a person ends the turn's run. `completes`: the run is completed, and
     * the draft is posted as it is. Otherwise the run is aborted, and the draft is marked as cut off.
     */
    keep(channel: ChannelId, agent: AgentId, by: string, completes: boolean): PostedDraft;
  };
  readonly clock: Clock;
  readonly nameOf: (id: string) => string;
  /** How a request was closed; `null` when none of the newest facts closed it. */
  readonly closed: (
    channel: ChannelId,
    named: { readonly question: number } | { readonly key: string },
  ) => { readonly choice: string; readonly by: string | null } | null;
  /**
   * Who may decide an agent's requests by the configuration: these ids, or ("other") any operator but the
   * requesters; `null`: every operator.
   */
  readonly approvers: (agent: AgentId) => 'other' | readonly string[] | null;
  /** The step limit of background runs, if configured, and the time for people to decide, in milliseconds. */
  readonly work: (seat: RunSeat) => { readonly steps: number | undefined; readonly waitMs: number };
  readonly written: (seat: RunSeat) => string;
  /** The options of a run that the agent's backend supports; `null` when the agent does not exist. */
  readonly settable: (agent: AgentId) => { readonly backend: string; readonly options: readonly RunOption[] } | null;
  /** Parses a list of rules. `why`: what is wrong with the list. */
  readonly readTools: (
    text: string,
  ) => { readonly ok: true; readonly rules: readonly string[] } | { readonly ok: false; readonly why: string };
  /** Returns the ids of the people and programs that caused the seat's turn or background run. */
  readonly requesters: (seat: RunSeat) => readonly string[];
};

type RunOption = 'model' | 'steps' | 'tools';

/** Creates the commands of `/run`. */
export function createRunCommands(ports: RunCommandPorts): RunCommands {
  return {
    run(verb, agent, request) {
      const whose = agent ?? holderOf(ports, request.channel);
      if (verb === 'status' || verb === 'approvals') return listRuns(verb, agent, request, ports);
      if (verb === 'log') return { ok: true, text: logText(agent, request, ports) };
      if (verb === 'start' && agent !== null) return startRun(agent, request, ports);
      if (whose === null || verb === 'start')
        return { ok: false, text: `Nobody holds the floor. Name the agent: /run ${verb} dev` };
      return isOld(verb, keyFor(whose, request, ports), request, ports)
        ? { ok: false, text: 'That run is over: /run status shows the runs.' }
        : DO[verb](whose, request, ports);
    },
    totals: (agent) => totalsText(agent, ports.runs),
    approvers(channel, question) {
      const view = ports.floors.view(channel);
      const asking = view === null ? null : requestByNumber(view, question);
      if (asking?.question.approval === undefined) return null;
      const { agent, isBackground } = asking;
      const approvers = ports.approvers(agent);
      if (approvers !== 'other') return approvers === null ? null : { only: approvers };
      const seat: RunSeat = { channel, agent, ...(isBackground ? { isBackground: true } : {}) };
      const by = ports.runs.state(runKeyOf(seat))?.run?.requestedBy ?? null;
      return { not: [...ports.requesters(seat), ...(by === null ? [] : [by])] };
    },
    answered(channel, named) {
      const closed = ports.closed(channel, named);
      if (closed === null) return null;
      const did = { allow: 'allowed', reject: 'denied' }[closed.choice] ?? 'closed';
      return `That request is closed: already ${did}${closed.by === null ? '' : ` by ${ports.nameOf(closed.by)}`}.`;
    },
  };
}

function isOld(verb: RunVerb, key: string, { channel, drawnFor, values }: Request, ports: RunCommandPorts): boolean {
  if (drawnFor === undefined || verb === 'log' || verb === 'revoke') return false;
  const { agent, isBackground = false } = seatOfRuns(key);
  if (drawnFor.of === 'question') {
    const view = ports.floors.view(channel);
    const asking = view === null ? null : requestByKey(view, drawnFor.key);
    return asking?.agent !== agent || asking.isBackground !== isBackground;
  }
  const state = ports.runs.state(key);
  // A run keeps its number when it is retried, so an old Discard button would end the retried run.
  if (verb === 'abort' && values.words === DISCARDED && state?.status !== 'error') return true;
  const number = state === null ? null : lastNumber(state);
  return isBackground ? number !== drawnFor.epoch : state?.run?.session !== `${drawnFor.epoch}`;
}

type Verb = Exclude<RunVerb, 'start' | 'status' | 'approvals' | 'log'>;
type Doing = (agent: AgentId, request: Request, ports: RunCommandPorts) => Answer | Promise<Answer>;

const DO: Readonly<Record<Verb, Doing>> = {
  revoke: async (agent, request, ports) => {
    const { words = '' } = request.values;
    // A button names its rule by the end of the rule's id, because list numbers change.
    const key = keyNamed(agent, request);
    const { remembered = [] } = ports.runs.state(key) ?? {};
    const stored = remembered.find(({ id }, index) => words === `${index + 1}` || `${key}${words}` === id);
    if (stored === undefined)
      return { ok: false, text: `${ports.nameOf(agent)} has no such rule: /run approvals shows them.` };
    const command = { type: 'REVOKE', id: stored.id, by: request.person.id, name: request.person.name } as const;
    const revoked = await ports.runs.apply(key, command, ports.clock.now());
    if (!revoked.ok) return refused(revoked.refusal, agent, ports);
    return { ok: true, text: `Revoked: ${stored.rule}. Such calls need approval again.` };
  },
  pause: (agent, request, ports) => {
    const context = IN_WORDS.paused(request.person.name);
    const command = { type: 'PAUSE', reason: 'confirmation', context } as const;
    return apply(agent, request, { commands: [command], did: 'The run pauses before its next tool call.' }, ports);
  },
  resume: goOn,
  continue: goOn,
  complete: async (agent, request, ports) => {
    const key = keyFor(agent, request, ports);
    const { status, run } = ports.runs.state(key) ?? {};
    const by = request.person.id;
    const isBackground = seatOfRuns(key).isBackground === true;
    const written = ports.written(seatOfRuns(key));
    const decider = { name: request.person.name, completes: true } as const;
    const commands = (last: string): readonly RunCommand[] => {
      const result = [written, last].filter((text) => text !== '').join('\n\n');
      const complete = { type: 'COMPLETE', session: run?.session ?? '', result, by } as const;
      return status === 'paused' ? [{ type: 'RESUME', by, told: decider }, complete] : [complete];
    };
    const did =
      isBackground && written.trim() === ''
        ? 'The run is completed without a report.'
        : 'The run is completed with the result so far.';
    return end(agent, request, { commands, did, completes: true }, ports);
  },
  abort: async (agent, request, ports) => {
    const key = keyFor(agent, request, ports);
    const why = request.values.words ?? IN_WORDS.aborted(request.person.name);
    const lost = seatOfRuns(key).isBackground === true ? lostWords(ports.written(seatOfRuns(key))) : null;
    const command = { type: 'ABORT', reason: why, by: request.person.id } as const;
    const did = lost === null ? 'Aborted.' : `Aborted; ${lost}.`;
    return end(agent, request, { commands: () => [command], did }, ports);
  },
  retry: async (agent, request, ports) => {
    const key = keyFor(agent, request, ports);
    const state = ports.runs.state(key);
    if (state?.status !== 'error') return refused('AGENT_NOT_RUNNING', agent, ports);
    const { words = '' } = request.values;
    const feedback = words.trim() === '' ? null : { name: request.person.name, words };
    if (seatOfRuns(key).isBackground === true) {
      const said = feedback === null ? {} : { feedback: feedback.words };
      const by = { by: request.person.id, told: { name: request.person.name } };
      const command = { type: 'RESUME', ...by, ...said } as const;
      return apply(agent, request, { commands: [command], did: 'The run is retried.' }, ports);
    }
    const grant = { type: 'grant', by: request.person.id, agent, ...(feedback && { feedback }) } as const;
    const granted = await ports.floors.apply(request.channel, grant);
    if (!granted.ok) return { ok: false, text: refusalText(granted.refusal, { agent: ports.nameOf(agent) }) };
    const said =
      feedback === null
        ? 'Messages that you write before that turn begins are in its prompt.'
        : 'Your words are in its prompt.';
    return { ok: true, text: `${ports.nameOf(agent)} gets the next turn. ${said}` };
  },
};

async function end(
  agent: AgentId,
  request: Request,
  { commands, did, completes }: Ending,
  ports: RunCommandPorts,
): Promise<Answer> {
  const key = keyFor(agent, request, ports);
  const hasDraft =
    seatOfRuns(key).isBackground !== true && isLastAccepted(ports.runs.state(key), commands(''), ports.clock.now());
  const postedDraft = hasDraft
    ? ports.floors.keep(request.channel, agent, request.person.id, completes === true)
    : null;
  const answer = await apply(agent, request, { commands: commands(postedDraft?.text ?? ''), did }, ports);
  await postedDraft?.durable;
  return answer;
}

async function goOn(agent: AgentId, request: Request, ports: RunCommandPorts): Promise<Answer> {
  const by = request.person.id;
  const key = keyFor(agent, request, ports);
  const state = ports.runs.state(key);
  if (state?.run?.pause?.reason === 'user_input' && seatOfRuns(key).isBackground !== true) {
    const granted = await ports.floors.apply(request.channel, { type: 'grant', by, agent });
    return granted.ok
      ? { ok: true, text: 'The run continues.' }
      : { ok: false, text: refusalText(granted.refusal, { agent: ports.nameOf(agent) }) };
  }
  const decider = { name: request.person.name };
  const command = { type: 'RESUME', by, told: decider, ...defined({ more: request.values.count }) } as const;
  const answer = await apply(agent, request, { commands: [command], did: 'The run continues.' }, ports);
  const after = ports.runs.state(key)?.run;
  return answer.ok && after
    ? { ok: true, text: `The run continues: step ${after.turn} of ${after.maxTurns}.` }
    : answer;
}

type Carried = { readonly commands: readonly RunCommand[]; readonly did: string };

type Ending = Pick<Carried, 'did'> & {
  /** Returns the commands that end the run. `last`: the draft that is posted first; empty for none. */
  readonly commands: (last: string) => readonly RunCommand[];
  /** Set when the posted draft counts as the whole answer. */
  readonly completes?: true;
};

async function apply(
  agent: AgentId,
  request: Request,
  { commands, did }: Carried,
  ports: RunCommandPorts,
): Promise<Answer> {
  const results = await ports.runs.applyAll(keyFor(agent, request, ports), commands, ports.clock.now());
  const last = results.at(-1);
  if (last === undefined || last.ok) return { ok: true, text: did };
  const first = results.find((result) => !result.ok);
  return refused(first?.ok === false ? first.refusal : last.refusal, agent, ports);
}

async function startRun(agent: AgentId, { channel, person, values }: Request, ports: RunCommandPorts): Promise<Answer> {
  const floorSeat = ports.floors.view(channel)?.seats.find((seat) => seat.agent === agent);
  const name = ports.nameOf(agent);
  if (floorSeat === undefined) return { ok: false, text: `${name} has no seat here. To add it: /floor add ${agent}` };
  if (floorSeat.disabled) return { ok: false, text: `${name} is disabled. To enable it: /agent enable ${agent}` };
  const wanted = optionsFor(agent, values, ports);
  if (!wanted.ok) return wanted;
  const seat: RunSeat = { channel, agent, isBackground: true };
  const { steps: configured, waitMs } = ports.work(seat);
  const { steps = configured, tools, model } = wanted;
  const order = { prompt: values.words ?? '', by: person.id, requestedBy: person.id };
  const before = ports.runs.state(runKeyOf(seat));
  const times = before === null ? 0 : lastNumber(before);
  const task = { id: `task #${times + 1} of ${agent}+ in ${channel}`, column: 'in_progress' };
  const allowedTools = tools === null ? null : [...tools];
  const startFields = { ...order, task, session: '1', waitMs, allowedTools, ...(model && { model }) };
  const limit = defined({ maxTurns: steps });
  const start = { type: 'START', runType: 'background', ...startFields, ...limit } as const;
  const started = await ports.runs.apply(runKeyOf(seat), start, ports.clock.now());
  if (!started.ok) return refused(started.refusal, agent, ports);
  return {
    ok: true,
    text: `${name} starts a background run and reports here at the end. Progress: /run status ${agent}+`,
  };
}

type Options =
  | { readonly ok: true; readonly model?: string; readonly steps?: number; readonly tools: readonly string[] | null }
  | { readonly ok: false; readonly text: string };

function optionsFor(agent: AgentId, { model, steps, tools }: Request['values'], ports: RunCommandPorts): Options {
  const values = { model, steps, tools };
  const { backend = '', options = [] } = ports.settable(agent) ?? {};
  const cannot = RUN_OPTIONS.find((option) => values[option] !== undefined && !options.includes(option));
  if (cannot !== undefined) {
    const name = ports.nameOf(agent);
    return { ok: false, text: `${name} (${backend}) ${CANNOT[cannot]} Leave out --${cannot}, or ${INSTEAD[cannot]}.` };
  }
  const read = tools === undefined ? null : ports.readTools(tools);
  if (read?.ok === false) return { ok: false, text: `${read.why} Write rules as in --tools "Read, Bash(npm test)".` };
  return { ok: true, ...(model && { model }), ...(steps && { steps }), tools: read?.rules ?? null };
}

const RUN_OPTIONS = ['model', 'steps', 'tools'] as const satisfies readonly RunOption[];
const CANNOT: Readonly<Record<RunOption, string>> = {
  model: 'cannot use another model for one run.',
  steps: 'does not report its steps, so they cannot be limited.',
  tools: 'does not promise to ask before it uses a tool, so its tools cannot be limited.',
};
const INSTEAD: Readonly<Record<RunOption, string>> = {
  model: 'set the model where its backend is configured in turnConfig.json',
  steps: 'end it with /run abort when it takes too long',
  tools: 'use an agent that asks: /agent list marks those that do not with ⚠',
};

/**
 * Returns the key of the runs that a command means: of background runs for a name with "+", else of turns. While no run
 * of a turn is open, an open background run is meant; also a closed one, if no turn had a run.
 */
function keyFor(agent: AgentId, request: Request, { runs }: RunCommandPorts): string {
  const [named, background] = [
    keyNamed(agent, request),
    runKeyOf({ channel: request.channel, agent, isBackground: true }),
  ];
  const [turnState, backgroundState] = [runs.state(named), runs.state(background)];
  return !isOpen(turnState) && (isOpen(backgroundState) || (!turnState?.run && backgroundState?.run))
    ? background
    : named;
}

function keyNamed(agent: AgentId, { channel, values }: Request): string {
  return runKeyOf({ channel, agent, ...(isBackgroundName(values.agent) ? { isBackground: true } : {}) });
}

function isOpen(state: RunState | null): boolean {
  return state !== null && state.status !== 'idle' && state.status !== 'completed';
}

function holderOf({ floors }: RunCommandPorts, channel: ChannelId): AgentId | null {
  return floors.view(channel)?.holder?.agent ?? floors.turns(channel, 1).at(-1)?.agent ?? null;
}

function logText(agent: AgentId | null, request: Request, ports: RunCommandPorts): string {
  const { clock, nameOf, runs } = ports;
  const ofChannel = (key: string): boolean => seatOfRuns(key).channel === request.channel;
  const keys = agent === null ? runs.keys().filter(ofChannel) : [keyFor(agent, request, ports)];
  const all = keys.flatMap((key) =>
    toolCallRows(runs.journal(key, LOG_FACTS)).map((row) => ({ row, by: seatOfRuns(key).agent })),
  );
  const rows = all.toSorted((one, other) => one.row.askedAt - other.row.askedAt);
  const lines = rows.slice(-(request.values.count ?? LOG_COUNT)).map(({ row, by }) => {
    const whose = agent === null ? `${nameOf(by)}: ` : '';
    return `${timeWords(row.askedAt, clock.now())}  ${whose}${callWords(row, INPUT_LENGTH, nameOf)}`;
  });
  return (
    lines.join('\n') ||
    `${agent === null ? 'No agent' : nameOf(agent)} has made ${agent === null ? 'a tool call' : 'no tool calls'} here.`
  );
}

function listRuns(
  verb: 'status' | 'approvals',
  agent: AgentId | null,
  { channel, values }: Request,
  ports: RunCommandPorts,
): Answer {
  const all = agent === null ? ports.runs.keys() : runKeysOf({ channel, agent });
  const keys = all.filter((key) => !isBackgroundName(values.agent) || seatOfRuns(key).isBackground === true);
  const states = keys
    .filter((key) => seatOfRuns(key).channel === channel)
    .flatMap((key) => [ports.runs.state(key)].filter((state) => state !== null))
    // A seat that has only read labelled text has a state, but no run.
    .filter(({ run }) => run !== null);
  const lines = states.flatMap((state) =>
    verb === 'status' ? statusLines(state, ports) : [...ruleLines(state, ports), ...habitLines(state, ports)],
  );
  const none = verb === 'status' ? 'No runs here yet.' : 'No open requests, no rules.';
  return { ok: true, text: lines.join('\n') || none };
}

function statusLines(state: RunState, { nameOf }: RunCommandPorts): readonly string[] {
  const { key, status, run, totals } = state;
  const { agent, isBackground } = seatOfRuns(key);
  const pause = run?.pause ?? null;
  const named = runName({ agent, ...defined({ isBackground }) });
  const open = (run?.calls ?? []).map(({ tool, status: at }) => `${tool} ${at}`);
  const error = status === 'error' ? run?.lastError : null;
  return [
    [
      `${nameOf(agent)}${isBackground === true ? '’s background run' : ''}: ${status}${pause === null ? '' : ` (${pause.reason})`}`,
      ...(run !== null && isOpen(state) ? [`step ${run.turn} of ${run.maxTurns}`] : []),
      ...(open.length === 0 ? [] : [`open: ${open.join(', ')}`]),
      totalWords(totals),
    ].join(' · '),
    ...(error ? [`  ${error.code}: ${error.message}. /run retry ${named} or /run abort ${named}`] : []),
    ...(pause?.reason === 'turn_limit'
      ? [
          `  AGENT_TURN_LIMIT_EXCEEDED: all steps are used. /run continue ${named}, /run complete ${named} or /run abort ${named}`,
        ]
      : []),
  ];
}

function ruleLines({ key, run, remembered }: RunState, { nameOf, clock }: RunCommandPorts): readonly string[] {
  const seat = seatOfRuns(key);
  const [name, title] = [runName(seat), runName({ ...seat, agent: nameOf(seat.agent) })];
  const approval = run?.pause?.approval ?? null;
  const now = clock.now();
  return [
    ...(approval === null ? [] : [`${title} waits for approval: ${approval.tool} (${approval.id})`]),
    ...remembered.map(
      ({ rule, by, at, until }, index) =>
        `${title} ${index + 1}. ${rule} · by ${nameOf(by)} ${timeWords(at, now)} · ${until <= now ? 'expired' : `until ${timeWords(until, now)}`} · /run revoke ${name} ${index + 1}`,
    ),
  ];
}

function habitLines({ key }: RunState, { runs, nameOf }: RunCommandPorts): readonly string[] {
  const remembered = runKeysOf(seatOfRuns(key)).flatMap((each) => runs.state(each)?.remembered ?? []);
  return habits(runs.journal(key, LOG_FACTS), remembered).map(
    ([rule, times]) =>
      `${nameOf(seatOfRuns(key).agent)} was allowed such a call ${times} times. To allow these calls without a request: "allow": ["${rule}"] in turnConfig.json, or /allow with "always" next time`,
  );
}

const LOG_FACTS = 2_000;
const LOG_COUNT = 10;
const INPUT_LENGTH = 80;

function refused(refusal: RunRefusal, agent: AgentId, { nameOf }: RunCommandPorts): Answer {
  const words = WHY[refusal] ?? 'not possible now: /run status shows the runs';
  return { ok: false, text: `${refusal}: ${nameOf(agent)}: ${words}.` };
}

const WHY: Readonly<Partial<Record<RunRefusal, string>>> = {
  AGENT_NOT_RUNNING: 'there is no run for this command: /run status shows the runs',
  AGENT_ALREADY_RUNNING: 'a run is already open: /run status shows it',
  AGENT_NO_AVAILABLE_TASK: 'there is no run to complete',
  AGENT_EXECUTION_ERROR: 'the run failed for good: write a message to start a new one',
  AGENT_TURN_LIMIT_EXCEEDED: 'from 1 to 200 steps can be added at a time',
  APPROVAL_OPEN: 'a request is open: decide it first with /allow or /reject',
  CALL_OPEN: 'a tool is running: wait, or /run abort',
  RULE_UNKNOWN: 'there is no such rule',
};
