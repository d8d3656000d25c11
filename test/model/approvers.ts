import type { createOperators } from '../../src/turns/commands/execute.ts';
import type { CommandContext, Person } from '../../src/turns/commands/context.ts';
import { forQuestion, forTurn } from '../../src/turns/drawn-for.ts';
import { openQuestion, findBackgroundRun } from '../../src/turns/floor/seats.ts';
import { viewOf } from '../../src/turns/view.ts';
import type { createRunCommands } from '../../src/work/runs/run-commands.ts';
import { runKeyOf } from '../../src/work/runs/floor-binding.ts';
import type { RunSeat } from '../../src/work/runs/floor-binding.ts';
import { BESIDE, Bound, HALL, SEAT } from '../work/runs/bound.ts';
import { WAIT_MS } from '../work/runs/fixture.ts';
import { Violation, must } from './violation.ts';
import { isOnWay } from './ways.ts';
import type { Way } from './ways.ts';

/** The code that decides whether a click counts, or a copy of it with a bug. */
export type Clicking = {
  readonly createOperators: typeof createOperators;
  readonly createRunCommands: typeof createRunCommands;
};

/** A click that counted against the rule, or did not count although it may. */
export type FoundClick = { readonly invariant: string; readonly what: string; readonly trace: readonly string[] };

/** Operators: ann, carol and pm by id, rolf by a role. pm is an agent. One ann is a bot; mallory uses ann's name. */
const PEOPLE: readonly Person[] = [
  { id: 'ann', name: 'Ann', roles: [] },
  { id: 'bob', name: 'Bob', roles: [] },
  { id: 'carol', name: 'Carol', roles: [] },
  { id: 'rolf', name: 'Rolf', roles: ['ops'] },
  { id: 'mallory', name: 'ann', roles: [''] },
  { id: 'ann', name: 'Ann', roles: [], bot: true },
  { id: 'pm', name: 'pm', roles: [] },
];
const OPERATORS = { users: ['ann', 'carol', 'pm'], roles: ['ops'] };
const AGENTS = ['pm', 'dev'];
const ASKERS = ['carol', 'mallory'];
/** Values of the approvers in the configuration. Some name an agent, which must not count. */
const LEFT_TO = [null, 'other', ['bob'], ['bob', 'ops'], ['pm', 'carol']] as const;
const LINES = ['/allow 1', '/allow 1 always', '/reject 1 no', '/answer 1 name=Ann'];

type Scene = {
  readonly leftTo: (typeof LEFT_TO)[number];
  readonly seat: RunSeat;
  readonly asker: string;
  readonly line: string;
};

/** Lets each person click first on the question of a turn or a background run, then all others. */
export async function searchClicks(
  core: Clicking,
  { first, along }: { readonly first: boolean; readonly along?: Way },
): Promise<{ readonly clicks: number; readonly found: readonly FoundClick[] }> {
  const found: FoundClick[] = [];
  let clicks = 0;
  for (const leftTo of LEFT_TO)
    for (const seat of [SEAT, BESIDE])
      for (const asker of leftTo === 'other' ? ASKERS : ASKERS.slice(0, 1))
        for (const line of LINES)
          for (const one of PEOPLE) {
            const others = PEOPLE.filter((other) => other !== one);
            const order = [one, ...others];
            const trace = [
              `left to ${JSON.stringify(leftTo)}`,
              `asked by ${asker}`,
              ...order.map(({ id }) => `${id}: ${line}`),
            ];
            if (!trace.every((move, index) => isOnWay(along, index, move))) continue;
            try {
              clicks += await play(core, { leftTo, seat, asker, line }, order);
            } catch (error) {
              const invariant = error instanceof Violation ? error.invariant : 'throws';
              found.push({ invariant, what: String(error), trace });
              if (first) return { clicks, found };
            }
          }
  return { clicks, found };
}

/** A4: a click on a button of another store never counts, whatever the button is for. */
async function clickOnOld({ operators, bound, scene }: Clicked): Promise<void> {
  const turn = () => bound.hall.turn?.epoch;
  const before = turn();
  for (const person of PEOPLE) {
    for (const word of [forQuestion('old'), forTurn('other', before ?? 1), 'nonsense']) {
      for (const line of [scene.line, '/floor skip', '/stop', '/run abort pm', '/run abort pm+']) {
        const { ok } = await operators.run(HALL, person, line, word);
        const run = bound.runs.state(runKeyOf(scene.seat));
        must(!ok && run?.closed.length === 0, 'A4', `${person.id} decides by ${line} of ${word}`);
        must(turn() === before && run?.status === 'paused', 'A4', `${person.id} ends a turn by ${line} of ${word}`);
      }
    }
  }
}

type Clicked = {
  readonly operators: ReturnType<typeof createOperators>;
  readonly bound: Bound;
  readonly scene: Scene;
};

/** Lets people click until a click counts. The answer must match the stored decision. Returns the number of clicks. */
async function play(core: Clicking, scene: Scene, order: readonly Person[]): Promise<number> {
  const bound = await asking(scene);
  const operators = core.createOperators(contextOf(core, bound, scene));
  const { key } = findBackgroundRun(bound.hall, 'pm')?.question ?? openQuestion(bound.hall) ?? {};
  try {
    await clickOnOld({ operators, bound, scene });
    for (const [index, person] of order.entries()) {
      const word = index % 2 === 0 ? undefined : forQuestion(key ?? '');
      const answer = await operators.run(HALL, person, scene.line, word);
      const closed = bound.runs.state(runKeyOf(scene.seat))?.closed.at(-1);
      const who = `${person.bot === true ? 'the program ' : ''}${person.id}`;
      const may = mayDecide(person, scene);
      if (!may) must(closed === undefined, 'A1', `${who} decides and may not`);
      else must(closed?.by === person.id && answer.ok, 'A2', `${who} may decide and does not`);
      must(answer.ok === may, 'A3', `${who} is told something else than what came of it`);
      if (may) return index + 1;
    }
    return order.length;
  } finally {
    await bound.store.close();
  }
}

/** States the rule of approvals a second time. */
function mayDecide({ id, roles, bot }: Person, { leftTo, asker }: Scene): boolean {
  if (bot === true || AGENTS.includes(id)) return false;
  const isOneOf = (names: readonly string[]): boolean =>
    names.includes(id) || roles.some((role) => names.includes(role));
  if (leftTo !== null && leftTo !== 'other') return isOneOf(leftTo);
  const operates = isOneOf([...OPERATORS.users, ...OPERATORS.roles]);
  return operates && (leftTo === null || id !== asker);
}

async function asking({ seat, asker, line }: Scene): Promise<Bound> {
  const bound = await new Bound().granted();
  const offers = [{ rule: 'execute(npm test)', words: 'exactly this command' }];
  const about = { tool: 'ask of forms', folder: null, why: 'its server asks', says: null, answer: 'name=…' };
  const asked = line.startsWith('/answer') ? { about } : { offers };
  const words = { title: 'Bash', detail: 'npm test', ...asked };
  if (seat.isBackground === true) await bound.besideAsking({ words }, asker);
  else {
    await bound.floor({ type: 'use', agent: 'pm', epoch: 1, requestedBy: asker });
    await bound.requests('a', { words });
  }
  const question = findBackgroundRun(bound.hall, 'pm')?.question ?? openQuestion(bound.hall);
  must(question?.question === 1, 'A0', 'nothing is asked');
  return bound.floor({ type: 'shown', question: 1 });
}

function contextOf({ createRunCommands: create }: Clicking, bound: Bound, { leftTo }: Scene): CommandContext {
  const clock = { now: () => bound.at };
  const floors: CommandContext['floors'] = {
    apply: (channel, command) => bound.store.floors.apply(channel, command, bound.at),
    view: () => viewOf(bound.hall, bound.at, bound.store.id),
    turns: () => [],
    why: () => [],
    message: () => null,
  };
  const unseated = { state: 'Running', backend: 'scripted', channels: [HALL] };
  return {
    floors,
    clock,
    roster: {
      list: () => AGENTS.map((id) => ({ id, name: id, ...unseated })),
      status: () => null,
      restart: async () => ({ ok: false, text: '' }),
    },
    operators: () => OPERATORS,
    names: { agent: (id) => id, channel: (id) => id },
    words: { refusal: (refusal) => refusal },
    runs: create({
      runs: bound.runs,
      floors: { ...floors, keep: () => ({ text: '', durable: Promise.resolve() }) },
      clock,
      nameOf: (id) => id,
      closed: () => null,
      approvers: () => leftTo,
      work: () => ({ steps: undefined, waitMs: WAIT_MS }),
      written: () => '',
      settable: () => ({ backend: 'llm', options: ['model', 'steps', 'tools'] }),
      readTools: (text) => ({ ok: true, rules: [text] }),
      // No asker is known here: the core must find the asker in the run's record.
      requesters: () => [],
    }),
  };
}
