import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Alarm } from '../src/lib/time.ts';
import { toolUse } from '../src/rules/tool-use.ts';
import { decideUse, uniteRules } from '../src/rules/verdict.ts';
import { decide } from '../src/turns/floor/decide.ts';
import type { Command } from '../src/turns/floor/command.ts';
import { PLAIN_SETTINGS, emptyFloor } from '../src/turns/floor/floor.ts';
import type { Floor } from '../src/turns/floor/floor.ts';
import { openFloorStore } from '../src/turns/floor-store.ts';
import type { FloorStore } from '../src/turns/floor-store.ts';

/**
 * Ratios, each of two ways measured in turn in one run on one machine, as the median of several rounds. Absolute numbers
 * are shown for orientation only: they say as much about the machine as about the program.
 */
const ROUNDS = 7;
const AGENTS = ['pm', 'dev', 'qa'];
const SEATS = AGENTS.map((agent) => ({ agent, priority: 10, timeoutMs: 60_000, rejoin: 'auto' as const }));
const SETUP: readonly Command[] = [
  { type: 'configure', settings: { ...PLAIN_SETTINGS, rounds: 0, maxTurns: 1_000_000 }, seats: SEATS },
  ...AGENTS.map((agent): Command => ({ type: 'join', agent })),
  { type: 'start', by: 'bench' },
];

type Way = { readonly name: string; readonly perSecond: () => Promise<number> };

async function compare(title: string, first: Way, second: Way): Promise<void> {
  const pairs: (readonly [number, number])[] = [];
  for (let round = 0; round < ROUNDS; round += 1) pairs.push([await first.perSecond(), await second.perSecond()]);
  const ratio = median(pairs.map(([one, other]) => one / other));
  const rate = (values: readonly number[]): string => `${Math.round(median(values)).toLocaleString('en')}/s`;
  const [left, right] = [rate(pairs.map(([one]) => one)), rate(pairs.map(([, other]) => other))];
  process.stdout.write(`${title}: ${ratio.toFixed(2)} times (${first.name} ${left}, ${second.name} ${right})\n`);
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

async function timed(count: number, work: () => void | Promise<void>): Promise<number> {
  const start = performance.now();
  await work();
  return (count * 1_000) / (performance.now() - start);
}

/** A turn with two messages and its end: what a talkative floor does all day. */
function turnOf(floor: Floor): readonly Command[] {
  const { agent = '', epoch = 0 } = floor.turn ?? {};
  const say = { type: 'say', agent, epoch, text: 'a line of text', mentions: [] } as const;
  return [say, say, { type: 'end', agent, epoch, outcome: 'completed', signalled: true }];
}

function coreTurns(turns: number): Promise<number> {
  let floor = emptyFloor('console:bench');
  const carryOut = (command: Command): void => {
    const decision = decide(floor, command, 1_000);
    if (decision.ok) floor = decision.floor;
  };
  for (const command of SETUP) carryOut(command);
  return timed(turns * 3, () => {
    for (let turn = 0; turn < turns; turn += 1) for (const command of turnOf(floor)) carryOut(command);
  });
}

async function withStore<T>(use: (store: FloorStore) => Promise<T>): Promise<T> {
  const dir = mkdtempSync(join(tmpdir(), 'conch-bench-'));
  const wording = { textLimit: () => 16_000, words: () => 'text' };
  const store = openFloorStore({ path: join(dir, 'bench.db'), clock: { now: () => 1_000 }, ...wording });
  try {
    return await use(store);
  } finally {
    await store.close();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Commands on the disk, over so many channels, so many under way at once. */
function stored(count: number, channels: number, atOnce: number): Promise<number> {
  return withStore(async (store) => {
    const ids = Array.from({ length: channels }, (_, index) => `console:${index}`);
    await Promise.all(
      ids.map(async (id) => {
        for (const command of SETUP) await store.apply(id, command, 1_000);
      }),
    );
    const sayIn = (id: string): Promise<unknown> => {
      const { agent = '', epoch = 0 } = store.floor(id)?.turn ?? {};
      return store.apply(id, { type: 'say', agent, epoch, text: 'a line of text', mentions: [] }, 1_000);
    };
    return timed(count, async () => {
      for (let done = 0; done < count; done += atOnce) {
        await Promise.all(Array.from({ length: atOnce }, (_, index) => sayIn(ids[(done + index) % channels] ?? '')));
      }
    });
  });
}

/** Setting the one alarm for the earliest of so many deadlines. */
function alarms(channels: number, sets: number): Promise<number> {
  const timers = { after: () => ({ cancel: () => undefined }) };
  const alarm = new Alarm({ now: () => 0 }, timers, () => undefined);
  return timed(sets, () => {
    for (let set = 0; set < sets; set += 1) alarm.noLaterThan(1_000_000 - (set % channels));
  });
}

/** Taking tool calls apart and deciding about them, with so many rules of which the last one fits. */
function verdicts(rules: number, calls: number): Promise<number> {
  const others = Array.from({ length: rules - 1 }, (_, index) => `Bash(tool${index} *)`);
  const lists = { allow: [...others, 'Bash(git log *)', 'Edit(src/**)'] };
  const united = uniteRules([{ scope: 'bot', lists }]);
  const place = { folder: '/work', home: '/home/ann', realpath: (path: string) => path };
  const asked = { name: null, kind: null, locations: [] };
  const inputs = [
    { name: 'Bash', input: { command: 'git log --oneline && git log -1 | git log' } },
    { name: 'Edit', input: { file_path: 'src/a/b.ts' } },
  ];
  return timed(calls * inputs.length, () => {
    for (let call = 0; call < calls; call += 1) {
      for (const input of inputs) {
        decideUse(toolUse({ ...asked, ...input }, place), united, { at: 0, definition: null, remembered: [] });
      }
    }
  });
}

await compare(
  'group commit against one by one, 64 commands at a time',
  { name: 'together', perSecond: () => stored(6_400, 64, 64) },
  { name: 'one by one', perSecond: () => stored(640, 64, 1) },
);
await compare(
  '2,000 floors against one floor, 64 commands at a time',
  { name: '2,000 floors', perSecond: () => stored(6_400, 2_000, 64) },
  { name: 'one floor', perSecond: () => stored(6_400, 1, 64) },
);
await compare(
  'deciding alone against deciding and storing together',
  { name: 'the core', perSecond: () => coreTurns(20_000) },
  { name: 'on the disk', perSecond: () => stored(6_400, 64, 64) },
);
await compare(
  'the alarm with 10,000 floors against 10 floors',
  { name: '10,000 floors', perSecond: () => alarms(10_000, 1_000_000) },
  { name: '10 floors', perSecond: () => alarms(10, 1_000_000) },
);
await compare(
  'deciding about a tool call with 10 rules against 10,000 rules',
  { name: '10 rules', perSecond: () => verdicts(10, 5_000) },
  { name: '10,000 rules', perSecond: () => verdicts(10_000, 200) },
);
