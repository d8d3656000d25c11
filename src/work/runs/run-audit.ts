import type { MachineStore, StoredFact } from '../../engine/port.ts';
import type { Instant } from '../../lib/time.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type {
  AuditRow,
  AuditSource,
  AuditStanding,
  OpenApproval,
  AlwaysAllowRule,
  ToolCallRow,
} from '../../turns/tool-calls.ts';
import { counted } from '../../turns/commands/clock-words.ts';
import { requestByApproval } from '../../turns/floor/seats.ts';
import type { FloorView } from '../../turns/view.ts';
import { toolCallRows } from './call-record.ts';
import { runKeysOf, runName, seatOfRuns } from './floor-binding.ts';
import type { RunCommand, RunFact } from './run-events.ts';
import type { RunState } from './run.ts';
import { defined } from '../../lib/defined.ts';

type Entry = Pick<StoredFact<RunFact>, 'seq' | 'at' | 'fact'>;
type AuditPorts = {
  readonly runs: Pick<
    MachineStore<RunState, RunCommand, RunFact, unknown, string>,
    'keys' | 'awake' | 'newest' | 'state' | 'onChange'
  >;
  readonly view: (channel: ChannelId) => FloorView | null;
  readonly nameOf: (id: AgentId) => string;
};

/** Reads the tool calls, open requests and always-allow rules of all seats. */
export function createAudit({ runs, view, nameOf }: AuditPorts): AuditSource {
  const standing = new Map<string, AuditStanding>();
  const standingOf = (key: string): AuditStanding => {
    const cached = standing.get(key) ?? standsIn(key, { runs, view });
    standing.set(key, cached);
    return cached;
  };
  runs.onChange(({ key, facts }) => {
    if (facts.some(({ type }) => MOVES.has(type))) for (const each of runKeysOf(seatOfRuns(key))) standing.delete(each);
  });
  return {
    nameOf,
    calls({ channel, agent, since }) {
      const keys = runs.keys().filter((key) => {
        const seat = seatOfRuns(key);
        return (channel ?? seat.channel) === seat.channel && (agent ?? seat.agent) === seat.agent;
      });
      return newestCalls(keys, (key) => runs.newest(key), since);
    },
    standing() {
      const all = runs.awake().map(standingOf);
      return { asked: all.flatMap(({ asked }) => asked), remembered: all.flatMap(({ remembered }) => remembered) };
    },
    onChange(listener) {
      runs.onChange(({ key, facts }) => {
        const calls = new Set(facts.flatMap(callsNamed));
        if (calls.size > 0 || facts.some(({ type }) => MOVES.has(type)))
          listener(() => (calls.size === 0 ? [] : callsWith(key, calls, runs.newest(key))));
      });
    },
  };
}

/** Facts that change open requests, always-allow rules, or their use. */
const MOVES: ReadonlySet<RunFact['type']> = new Set([
  'paused',
  'resumed',
  'aborted',
  'approvalClosed',
  'ruleRevoked',
  'callRequested',
]);

function callsNamed(fact: RunFact): readonly string[] {
  if (fact.type === 'callRequested') return [fact.call.id];
  return 'call' in fact ? [fact.call] : [];
}

function standsIn(key: string, { runs, view }: Pick<AuditPorts, 'runs' | 'view'>): AuditStanding {
  const { run = null, remembered = [] } = runs.state(key) ?? {};
  const seat = seatOfRuns(key);
  const { channel, agent } = seat;
  const approval = run?.pause?.approval ?? null;
  const floor = approval === null ? null : view(channel);
  const openApprovals = (approval === null ? [] : [approval]).map(
    ({ id, tool, requestedAt, expiresAt }): OpenApproval => ({
      channel,
      agent,
      tool,
      askedAt: requestedAt,
      until: expiresAt,
      question: floor === null ? null : (requestByApproval(floor, id)?.question ?? null),
    }),
  );
  const journals = () => runKeysOf({ channel, agent }).map((each) => runs.newest(each));
  const rules = remembered.map(({ id, rule, by, at, until }): AlwaysAllowRule => {
    const revoke = `/run revoke ${runName(seat)} ${id.slice(id.lastIndexOf('#'))}`;
    return { channel, agent, rule, by, at, until, revoke, ...usesOf(id, journals(), at) };
  });
  return { asked: openApprovals, remembered: rules };
}

/**
 * The tool calls of these seats, newest first. Reads run by run, and only as far as the caller reads. Between calls,
 * yields counts of the journal entries read. Calls requested before `since` are left out.
 */
export function* newestCalls(
  keys: readonly string[],
  newest: (key: string) => Iterable<Entry>,
  since = -Infinity,
): Generator<AuditRow | number, void> {
  type Reading = { readonly key: string; readonly steps: Iterator<Step, void>; at: Instant; row: ToolCallRow | null };
  let open = keys.map((key): Reading => ({ key, steps: callsBack(newest(key)), at: Infinity, row: null }));
  while (open.length > 0) {
    const next = open.reduce((latest, each) => (each.at > latest.at ? each : latest));
    if (next.at < since) return;
    if (next.row !== null) yield auditRow(next.key, next.row);
    const step = next.steps.next();
    if (step.done === true) {
      open = open.filter((each) => each !== next);
      continue;
    }
    Object.assign(next, { at: step.value.at, row: step.value.row });
    if (step.value.read > 0) yield step.value.read;
  }
}

/** Returns a tool call with its seat. `key`: the key of the seat's runs. */
export function auditRow(key: string, row: ToolCallRow): AuditRow {
  const { channel, agent, isBackground } = seatOfRuns(key);
  return { channel, agent, ...defined({ aside: isBackground }), ...row };
}

function callsWith(key: string, ids: ReadonlySet<string>, newest: Iterable<Entry>): readonly AuditRow[] {
  const found = new Map<string, AuditRow>();
  for (const { row } of callsBack(newest)) {
    if (row === null) continue;
    if (ids.has(row.call) && !found.has(row.call)) found.set(row.call, auditRow(key, row));
    if (found.size === ids.size) break;
  }
  return [...found.values()];
}

/**
 * One step of reading a journal backwards. `row`: a call; `null` while its run is being read. No call later than `at`
 * follows. `read`: journal entries read since the step before.
 */
type Step = { readonly at: Instant; readonly row: ToolCallRow | null; readonly read: number };

/**
 * Yields the calls of a journal, newest first. Reads each run whole before its calls: the journal has the start of the
 * run before a call, and the outcome after it.
 */
function* callsBack(newest: Iterable<Entry>): Generator<Step, void> {
  let run: Entry[] = [];
  let read = 0;
  for (const entry of newest) {
    run.push(entry);
    read += 1;
    if (run.length === 1 || read === STRETCH) {
      yield { at: run[0]?.at ?? entry.at, row: null, read };
      read = 0;
    }
    if (entry.fact.type !== 'runStarted') continue;
    yield* stepsOf(run, read);
    [run, read] = [[], 0];
  }
  yield* stepsOf(run, read);
}

function* stepsOf(run: readonly Entry[], read: number): Generator<Step, void> {
  for (const [index, row] of toolCallRows(run.toReversed()).toReversed().entries())
    yield { at: row.askedAt, row, read: index === 0 ? read : 0 };
}

/** The most journal entries that are read between two yields. */
const STRETCH = 200;

/** Number of newest entries of a journal in which uses of a rule are counted. */
const LOOKED_AT = 2_000;

function usesOf(ruleId: string, journals: readonly Iterable<Entry>[], since: Instant): Uses {
  const used: Instant[] = [];
  for (const newest of journals) {
    let read = 0;
    for (const { fact, at } of newest) {
      read += 1;
      if (at < since || read > LOOKED_AT) break;
      if (fact.type === 'callRequested' && fact.call.remembered === ruleId) used.push(at);
    }
  }
  return { uses: used.length, usedAt: used.length === 0 ? null : Math.max(...used) };
}

type Uses = Pick<AlwaysAllowRule, 'uses' | 'usedAt'>;

/**
 * Returns the narrowest rules on offer for requests that people allowed at least three times, with the counts. Rules
 * that are stored already are left out.
 */
export function habits(
  entries: readonly Entry[],
  remembered: readonly { readonly rule: string }[],
): readonly (readonly [rule: string, times: number])[] {
  const offered = new Map<string, string>();
  const times = new Map<string, number>();
  let pausedCall = '';
  for (const { fact } of entries) {
    if (fact.type === 'callRequested') offered.set(fact.call.id, fact.call.words?.offers?.[0]?.rule ?? '');
    if (fact.type === 'paused') pausedCall = fact.approval?.call ?? '';
    const rule = offered.get(pausedCall) ?? '';
    if (fact.type === 'approvalClosed' && fact.state === 'allowed' && rule !== '')
      times.set(rule, (times.get(rule) ?? 0) + 1);
  }
  return [...times].filter(([rule, count]) => count >= HABIT && !remembered.some((stored) => stored.rule === rule));
}

const HABIT = 3;

/** Returns the totals of runs in words. */
export function totalWords({ runs, completed, steps, tools }: RunState['totals']): string {
  return `${counted(runs, 'run')}, ${completed} completed, ${counted(steps, 'step')}, ${counted(tools, 'tool call')}`;
}

/** The totals of all runs of an agent in words; `null` when it had none. */
export function totalsText(agent: AgentId, runs: Pick<AuditPorts['runs'], 'keys' | 'state'>): string | null {
  const keys = runs.keys().filter((key) => seatOfRuns(key).agent === agent);
  const all = keys.flatMap((key) => runs.state(key)?.totals ?? []);
  const sum = (of: keyof RunState['totals']): number => all.reduce((count, each) => count + each[of], 0);
  const totals = { runs: sum('runs'), completed: sum('completed'), steps: sum('steps'), tools: sum('tools') };
  return totals.runs === 0 ? null : `${totalWords(totals)} in all; conch cost --by agent shows tokens and money`;
}

/** One run with its facts, newest first, its requester and its sessions. A session of a turn is the turn's epoch. */
type RecordedRun = {
  readonly requestedBy: string | null;
  readonly sessions: readonly string[];
  readonly entries: readonly Entry[];
};

/** The runs of a seat's journal, newest first. A run whose beginning was pruned is left out. */
export function* runsBack(newest: Iterable<Entry>): Generator<RecordedRun> {
  let entries: Entry[] = [];
  for (const { seq, at, fact } of newest) {
    entries.push({ seq, at, fact });
    if (fact.type !== 'runStarted') continue;
    const attached = entries.flatMap((entry) => (entry.fact.type === 'attached' ? [entry.fact.session] : []));
    yield { requestedBy: fact.requestedBy ?? null, sessions: [...attached, fact.session], entries };
    entries = [];
  }
}
