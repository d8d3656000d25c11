import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { readJournals } from '../../src/engine/sqlite/check.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import { runOnFloor, seatOfRuns } from '../../src/work/runs/floor-binding.ts';
import { brief, without } from './journal.ts';
import { toolCallRows } from '../../src/work/runs/call-record.ts';
import type { ToolCallRow } from '../../src/turns/tool-calls.ts';
import type { RunFact } from '../../src/work/runs/run-events.ts';
import type { Ledger } from './ledger.ts';

/** Messages that make an agent use tools. */
export const TOOL_WORDS = ['dev: write a note', 'dev: write a note', 'dev: read the note', 'dev: delete the note'];

/** Returns the parts of a configuration with the demo's tools. Their calls are counted in `file`. */
export function countedTools(file: string): object {
  const server = fileURLToPath(new URL('counting-server.ts', import.meta.url));
  return {
    mcp: { scratch: { command: process.execPath, args: [server, file], trusted: true, elicitation: true } },
    tools: {
      allow: ['mcp__scratch__read_file'],
      ask: ['mcp__scratch__write_file'],
      deny: ['mcp__scratch__delete_file'],
    },
  };
}

/** A call that reached its server, or a filled form. `conch/call`: Conch's id of the call. */
type Effect = { readonly tool: string; readonly 'conch/call'?: string; readonly page?: number };

/** The stored facts and call rows of one seat's runs. */
type Seat = { readonly key: string; readonly facts: readonly RunFact[]; readonly rows: readonly ToolCallRow[] };

/** Compares the calls that reached servers with the stored calls. Adds faults to the ledger. */
export function verifyTools(database: string, file: string, ledger: Ledger): void {
  const seats = [...readJournals(database, runOnFloor)].map(([key, entries]) => ({
    key,
    facts: entries.map(({ fact }) => fact),
    rows: toolCallRows(entries),
  }));
  const effects = effectsIn(file);
  const isForm = ({ tool }: Effect): boolean => tool === 'form';
  const calls = effects.filter((effect) => !isForm(effect));
  ledger.calls += calls.length;
  checkEffects(seats, calls, ledger);
  checkForms(seats, effects.filter(isForm), ledger);
  for (const seat of seats) {
    checkMarked(seat, ledger);
    checkQuestions(seat, ledger);
  }
}

/** Each answer that the server confirmed is stored on its floor. */
export function verifyAnswers(facts: ReadonlyMap<string, readonly Fact[]>, { answered, faults }: Ledger): void {
  for (const { channel, question, choice } of answered) {
    const closed = facts
      .get(channel)
      ?.some(
        (fact) =>
          (fact.type === 'questionClosed' || fact.type === 'asideAnswered') &&
          fact.question === question &&
          fact.choice === choice,
      );
    if (closed !== true) faults.approvalsLost.push(`${choice} to question ${question} of ${channel} is not on record`);
  }
}

/** Each report of a background run is said once on its floor, and no other report is said. */
export function verifyReports(
  ended: ReadonlyMap<string, readonly string[]>,
  facts: ReadonlyMap<string, readonly Fact[]>,
  ledger: Ledger,
): void {
  const { lost, twice } = ledger.faults;
  for (const [channel, all] of facts) {
    const due = all.flatMap((fact) => (fact.type === 'asideEnded' && fact.report !== undefined ? [fact.report] : []));
    const said = all.flatMap((fact) => (fact.type === 'reported' ? [fact.text] : []));
    ledger.reports += said.length;
    const isOf = `in ${channel} a report`;
    lost.push(
      ...without(ended.get(channel) ?? [], due).map((text) => `${isOf} never came to its floor: ${brief(text)}`),
    );
    lost.push(...without(due, said).map((text) => `${isOf} was not said: ${brief(text)}`));
    twice.push(...without(said, due).map((text) => `${isOf} was said that nobody gave: ${brief(text)}`));
  }
}

/** The reports of completed background runs, by channel. */
export function reportsIn(database: string): ReadonlyMap<string, readonly string[]> {
  const ended = [...readJournals(database, runOnFloor)].flatMap(([key, entries]) => {
    const { channel, isBackground } = seatOfRuns(key);
    if (isBackground !== true) return [];
    return entries.flatMap(({ fact }) =>
      fact.type === 'runCompleted' && fact.result.trim() !== '' ? [{ channel, text: fact.result }] : [],
    );
  });
  const byChannel = Map.groupBy(ended, ({ channel }) => channel);
  return new Map([...byChannel].map(([channel, all]) => [channel, all.map(({ text }) => text)]));
}

/** Each call reaches its server at most once, and only after it was claimed. */
function checkEffects(seats: readonly Seat[], effects: readonly Effect[], { faults }: Ledger): void {
  const times = new Map<string, number>();
  for (const { 'conch/call': id = '' } of effects) times.set(id, (times.get(id) ?? 0) + 1);
  for (const [id, count] of times)
    if (count > 1) faults.effectsTwice.push(`the call ${id} reached its server ${count} times`);
  const rows = seats.flatMap((seat) => seat.rows).filter((row) => !isFormRow(row));
  const all = [...effects.map(({ tool }) => tool), ...rows.map(({ tool }) => tool.replace('mcp__scratch__', ''))];
  for (const tool of new Set(all)) {
    const [done, started] = [
      effects.filter((effect) => effect.tool === tool).length,
      rows.filter((row) => row.tool === `mcp__scratch__${tool}` && row.startedAt !== null).length,
    ];
    if (done > started) faults.effectsTwice.push(`${tool} was done ${done} times and claimed ${started} times`);
    const complete = rows.filter((row) => row.tool === `mcp__scratch__${tool}` && row.status === 'complete').length;
    if (complete > done)
      faults.other.push(`${tool} is complete ${complete} times on record and was done ${done} times`);
  }
}

/** Filled forms reach a server only when they are stored, as often as stored, and with a page that the form allows. */
function checkForms(seats: readonly Seat[], filled: readonly Effect[], ledger: Ledger): void {
  const rows = seats.flatMap((seat) => seat.rows).filter(isFormRow);
  ledger.forms += filled.length;
  for (const { page = 0 } of filled)
    if (!PAGES.includes(page)) ledger.faults.other.push(`a server was told of page ${page}, which is none of its form`);
  for (const page of PAGES) {
    const told = filled.filter((each) => each.page === page).length;
    const isKept = ({ output, reason }: ToolCallRow): boolean =>
      output === `{"page":${page}}` || reason === `page=${page}`;
    const kept = rows.filter(isKept).length;
    if (told > kept)
      ledger.faults.effectsTwice.push(`page ${page} was told ${told} times, and is on record ${kept} times`);
  }
}

const PAGES: readonly number[] = [1, 2, 3];

/** True for the row of a form that a server asks during a call. */
function isFormRow({ input }: ToolCallRow): boolean {
  return 'requestedSchema' in input;
}

/** At rest no call is open. A call that started without a result of its server has an unknown outcome. */
function checkMarked({ key, rows }: Seat, { faults }: Ledger): void {
  for (const { call, tool, status, startedAt, outcome, code } of rows) {
    const isOpen = status === 'running' || status === 'pending';
    const isKnown = status === 'complete' || code === 'TOOL_FAILED' || outcome === 'unknown';
    if (isOpen || (startedAt !== null && !isKnown))
      faults.unknownUnmarked.push(`${tool} ${call} of ${key} is left as ${status}, ${code}, outcome ${outcome}`);
  }
}

function checkQuestions({ key, facts }: Seat, { faults }: Ledger): void {
  const open = new Set<string>();
  for (const fact of facts) {
    if (fact.type === 'paused' && fact.approval !== null) open.add(fact.approval.id);
    if (fact.type === 'approvalClosed') open.delete(fact.id);
  }
  for (const id of open) faults.approvalsLost.push(`the question ${id} of ${key} has no end`);
}

function effectsIn(file: string): readonly Effect[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line) as Effect);
}
