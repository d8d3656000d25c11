import type { CommandFor } from '../../src/engine/machine.ts';
import type { Command } from '../../src/turns/floor/command.ts';
import { PLAIN_SETTINGS } from '../../src/turns/floor/floor.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import type { CrewCommand } from '../../src/work/crews/crew-events.ts';
import {
  MEETING_MS,
  MOST_CONFLICTS,
  WORKER_CHOICES,
  crewDeadline,
  jobOf,
  sideAgentOf,
} from '../../src/work/crews/crew.ts';
import type { CrewSettings, Worker, WorktreeState } from '../../src/work/crews/crew.ts';
import {
  Broken,
  CAUSES,
  checkButtons,
  checkScene,
  checkStuck,
  messageOf,
  must,
  noteOf,
  notedCrew,
  notedFloor,
  repliesAbout,
} from './crew-onlooker.ts';
import type { CrewScene, Crewed } from './crew-onlooker.ts';
import { isOnWay } from './ways.ts';
import type { Way } from './ways.ts';
import { takenBy } from './step.ts';

/** A command to the crew, or to the floor of a ticket's thread. */
type Given =
  | { readonly to: 'crew'; readonly command: CrewCommand }
  | { readonly to: 'floor'; readonly channel: string; readonly command: Command };

/** Commands of one move, in order. */
export type CrewMove = readonly Given[];

/** A broken invariant, and the moves that lead to it. */
export type FoundCrewed = {
  readonly invariant: string;
  readonly what: string;
  readonly where: string;
  readonly trace: readonly CrewMove[];
};

/** The beginning and the depth of a search. */
export type CrewStart = {
  readonly name: string;
  readonly settings?: Partial<CrewSettings>;
  readonly opening: readonly CrewMove[];
  readonly smallDepth: number;
  readonly depth: number;
};

type World = CrewScene & { readonly trace: readonly CrewMove[] };

const CREW = 'web';
const NOON = 43_200_000;
const TICKETS = ['c-1', 'c-2'] as const;
const WORKERS = ['A', 'B'] as const;
const SETTINGS: CrewSettings = {
  channel: 'console:hall',
  maxWorkers: 2,
  maxSteps: 2,
  patience: 1,
  merge: 'auto',
  ticketCostMicros: null,
  main: 'main',
};

const threadOf = (ticket: string): string => `console:${ticket}`;
const agentOf = (worker: string): string => `web-${worker.toLowerCase()}`;
const crew = (...commands: readonly CrewCommand[]): CrewMove => commands.map((command) => ({ to: 'crew', command }));
const onFloor = (channel: string, ...commands: readonly Command[]): CrewMove =>
  commands.map((command) => ({ to: 'floor', channel, command }));

function work(tree: string, more: Partial<WorktreeState> = {}): WorktreeState {
  return { tree, tip: `tip-${tree}`, ahead: 1, dirty: false, unmerged: [], ...more };
}

/** Assigns a ticket to a worker. `deps`: the tickets that the ticket waits for. */
function assign(worker: string, id: string, slot = WORKERS.indexOf(worker as 'A'), deps?: string[]): CrewMove {
  const place = { worktree: `/w/${id}`, branch: `agent/${id}`, base: 'b0', thread: threadOf(id) };
  const ticket = { id, title: id, text: id, session: `s-${id}`, slot, ...place };
  return crew({ type: 'ASSIGN', worker, ticket, ...(deps === undefined ? {} : { deps }) });
}

/** Sets the seats of a ticket's channel: its worker's, with `side` also the other one of a meeting; `null`: none. */
function seats(ticket: string, worker: string | null, side = false): CrewMove {
  const seat = { priority: 10, timeoutMs: 600_000, rejoin: 'auto' as const };
  const agents = worker === null ? [] : [agentOf(worker), ...(side ? [sideAgentOf(agentOf(worker))] : [])];
  const all = agents.map((agent) => ({ agent, ...seat }));
  return onFloor(threadOf(ticket), { type: 'configure', settings: PLAIN_SETTINGS, seats: all });
}

function joins(ticket: string, worker: string): CrewMove {
  return onFloor(threadOf(ticket), { type: 'join', agent: agentOf(worker) });
}

/** Seats the other side of a meeting. */
function sits(ticket: string, worker: string): CrewMove {
  const join = onFloor(threadOf(ticket), { type: 'join', agent: sideAgentOf(agentOf(worker)) });
  return [...seats(ticket, worker, true), ...join, ...crew({ type: 'SEATED', worker, ticket })];
}

/** The moves until the first step of a worker is granted. */
function begins(worker: string, ticket: string): readonly CrewMove[] {
  return [
    assign(worker, ticket),
    crew({ type: 'PREPARED', worker, ticket }),
    [...seats(ticket, worker), ...joins(ticket, worker), ...crew({ type: 'SEATED', worker, ticket })],
  ];
}

/** The worker ends its first step with DONE. `epoch`: the epoch of its turn. */
function says(worker: string, ticket: string, epoch: number, left: WorktreeState = work('a')): readonly CrewMove[] {
  const turn = { agent: agentOf(worker), epoch };
  return [
    onFloor(threadOf(ticket), { type: 'say', ...turn, text: 'It works.\nDONE', mentions: [] }),
    onFloor(threadOf(ticket), { type: 'end', ...turn, outcome: 'completed', signalled: true }),
    crew({ type: 'MEASURED', worker, epoch, work: left }),
  ];
}

function tested(worker: string, verdict: 'green' | 'red', more: { tip?: string; weakened?: string } = {}): CrewMove {
  const { tip = 'tip-a', weakened = '' } = more;
  return crew({ type: 'TESTED', worker, tip, verdict, output: '', weakened });
}

/** A step fails, the wait after its error ends, and the agent comes back. */
function fails(worker: string, ticket: string): readonly CrewMove[] {
  return [
    onFloor(threadOf(ticket), { type: 'leave', agent: agentOf(worker), cause: CAUSES.gone }),
    crew({ type: 'TICK' }),
    joins(ticket, worker),
  ];
}

const MERGE = { tip: 'tip-a', main: 'b0' } as const;
const CONFLICT = { tip: 'tip-a', files: ['list.js'], landed: [], sides: [{ ticket: 'c-2', about: '' }] };

/** B has merged c-2, A's work on c-1 conflicts with it, and the first turn of their meeting is over. */
function meets(): readonly CrewMove[] {
  const other = { agent: sideAgentOf(agentOf('A')), epoch: 2 };
  return [
    ...begins('A', 'c-1'),
    ...begins('B', 'c-2'),
    ...says('B', 'c-2', 1, work('b')),
    tested('B', 'green', { tip: 'tip-b' }),
    crew({ type: 'MERGE_STARTED', worker: 'B', tip: 'tip-b', main: 'b0' }),
    crew({ type: 'MERGED', worker: 'B', ticket: 'c-2', commit: 'm1' }),
    [...seats('c-2', null), ...crew({ type: 'CLEARED', worker: 'B', ticket: 'c-2', kept: null })],
    ...says('A', 'c-1', 1),
    tested('A', 'green'),
    crew({ type: 'MERGE_STARTED', worker: 'A', tip: 'tip-a', main: 'm1' }),
    crew({ type: 'CONFLICT', worker: 'A', ...CONFLICT }),
    sits('c-1', 'A'),
    onFloor(threadOf('c-1'), { type: 'end', ...other, outcome: 'completed', signalled: true }),
    crew({ type: 'MEASURED', worker: 'A', epoch: 2, work: work('a') }),
  ];
}

function conflicts(rounds: number): readonly CrewMove[] {
  return Array.from({ length: rounds }, (_, round) => [
    crew({ type: 'MERGE_STARTED', worker: 'A', ...MERGE }),
    crew({ type: 'CONFLICT', worker: 'A', ...CONFLICT }),
    ...says('A', 'c-1', round + 2),
    tested('A', 'green'),
  ]).flat();
}

const ASKED = { channel: SETTINGS.channel, asker: 'ann', by: 'ann' } as const;

/** Two replies about c-1, the second from a person without the right to decide, and their answers. */
function replyMoves({ replies }: World): readonly CrewMove[] {
  return ['r-1', 'r-2'].flatMap((message) => {
    const may = message === 'r-1' ? {} : { refused: true as const };
    const reply = { message, channel: SETTINGS.channel, about: messageOf('c-1'), deps: ['c-2'], by: 'bob', ...may };
    if (replies[message] === undefined) return [crew({ type: 'REPLY', ...reply })];
    return ['', 'no'].map((why) => crew({ type: 'REPLY_READ', message, why }));
  });
}

/** The states from which crews are searched. */
export const CREW_STARTS: readonly CrewStart[] = [
  { name: 'a crew without tickets', opening: [], smallDepth: 5, depth: 8 },
  {
    name: 'two workers, of whom one may step',
    settings: { maxWorkers: 1, maxSteps: 3 },
    opening: [...begins('A', 'c-1'), ...begins('B', 'c-2')],
    smallDepth: 4,
    depth: 6,
  },
  {
    name: 'four errors in a row',
    settings: { maxSteps: 3 },
    opening: [...begins('A', 'c-1'), ...[1, 2, 3, 4].flatMap(() => fails('A', 'c-1'))],
    smallDepth: 4,
    depth: 7,
  },
  {
    name: 'two workers that are done',
    settings: { maxSteps: 3 },
    opening: [...begins('A', 'c-1'), ...says('A', 'c-1', 1), ...begins('B', 'c-2'), ...says('B', 'c-2', 1, work('b'))],
    smallDepth: 4,
    depth: 7,
  },
  {
    name: 'a fourth round of conflicts',
    settings: { maxSteps: 9 },
    opening: [...begins('A', 'c-1'), ...says('A', 'c-1', 1), tested('A', 'green'), ...conflicts(3)],
    smallDepth: 5,
    depth: 8,
  },
  {
    name: 'a meeting about a conflict',
    settings: { maxSteps: 3, meetingTurns: 3 },
    opening: meets(),
    smallDepth: 4,
    depth: 7,
  },
  {
    name: 'merges that people decide',
    settings: { maxSteps: 2, merge: 'ask' },
    opening: [...begins('A', 'c-1'), ...says('A', 'c-1', 1)],
    smallDepth: 5,
    depth: 8,
  },
  {
    name: 'merges with a window',
    settings: { maxSteps: 2, window: { ms: 60_000 } },
    opening: [...begins('A', 'c-1'), ...says('A', 'c-1', 1), tested('A', 'green')],
    smallDepth: 5,
    depth: 8,
  },
  {
    name: 'merges that need two votes',
    settings: { maxSteps: 3, merge: 'ask', votes: 2 },
    opening: [
      ...begins('A', 'c-1'),
      ...says('A', 'c-1', 1),
      tested('A', 'green'),
      crew({ type: 'ANSWER', worker: 'A', by: 'ann', choice: 'merge' }),
      crew({ type: 'ANSWER', worker: 'A', by: 'ann', choice: 'continue' }),
      ...says('A', 'c-1', 2, work('b')),
    ],
    smallDepth: 5,
    depth: 8,
  },
  {
    name: 'a killed worker',
    opening: [
      ...begins('A', 'c-1'),
      crew({ type: 'KILL', worker: 'A', by: 'ann' }),
      [...seats('c-1', null), ...crew({ type: 'CLEARED', worker: 'A', ticket: 'c-1', kept: null })],
    ],
    smallDepth: 5,
    depth: 7,
  },
  {
    name: 'replies about a ticket of a message',
    opening: [
      crew(
        { type: 'PROPOSE_MESSAGE', message: messageOf('c-1'), ...ASKED, title: '', text: '', deps: [], touches: [] },
        { type: 'ADMITTED', proposal: 'p-1', by: 'ann', ticket: 'c-1' },
      ),
      ...begins('B', 'c-2'),
      ...says('B', 'c-2', 1),
      tested('B', 'green'),
    ],
    smallDepth: 4,
    depth: 6,
  },
  {
    name: 'the last step',
    settings: { maxSteps: 1 },
    opening: begins('A', 'c-1'),
    smallDepth: 5,
    depth: 8,
  },
];

/** Searches every order of moves from a start to this depth. Checks each state that it reaches. */
export function searchCrew(
  core: Crewed,
  start: CrewStart,
  { depth, first, along }: { readonly depth: number; readonly first: boolean; readonly along?: Way },
) {
  const found: FoundCrewed[] = [];
  const begun = began(core, start, found);
  let [frontier, states, transitions]: [readonly World[], number, number] = [begun === null ? [] : [begun], 1, 0];
  const seen = new Set<string>();
  for (let step = 0; step < depth; step += 1) {
    const next: World[] = [];
    for (const world of frontier) {
      for (const move of movesOf(world)) {
        if (!isOnWay(along, world.trace.length, move)) continue;
        transitions += 1;
        const reached = tried(core, world, move, { found, where: start.name, seen });
        if (first && found.length > 0) return { found, states, transitions };
        if (reached === null) continue;
        states += 1;
        next.push(reached);
      }
    }
    frontier = next;
  }
  return { found, states, transitions };
}

/** Searches all starts, each to its own depth. */
export function searchCrews(core: Crewed, { small, first }: { readonly small: boolean; readonly first: boolean }) {
  const all = { found: [] as FoundCrewed[], states: 0, transitions: 0 };
  for (const start of CREW_STARTS) {
    const { found, states, transitions } = searchCrew(core, start, {
      depth: small ? start.smallDepth : start.depth,
      first,
    });
    all.found.push(...found);
    all.states += states;
    all.transitions += transitions;
    if (first && found.length > 0) break;
  }
  return all;
}

function began(core: Crewed, { name, settings, opening }: CrewStart, found: FoundCrewed[]): World | null {
  const empty: World = {
    crew: core.crewOnFloor.empty(CREW),
    floors: Object.fromEntries(TICKETS.map((id) => [threadOf(id), core.floorWithWork.empty(threadOf(id))])),
    notes: {},
    replies: {},
    turns: 0,
    at: NOON,
    trace: [],
  };
  const moves: readonly CrewMove[] = [
    crew(
      { type: 'CONFIGURE', settings: { ...SETTINGS, ...settings } },
      { type: 'SPAWN', workers: WORKERS.map((worker) => ({ name: worker, agent: agentOf(worker) })) },
      { type: 'BASE', since: null, tip: 'b0', verdict: 'green', why: '' },
      { type: 'RUN', by: 'ann' },
    ),
    ...opening,
  ];
  let world: World = empty;
  for (const move of moves) {
    const reached = tried(core, world, move, { found, where: name });
    if (reached === null) return null;
    world = reached;
  }
  return world;
}

/** Makes a move and checks the new state. Returns `null` for a refused move, a broken invariant or a known state. */
function tried(
  core: Crewed,
  world: World,
  move: CrewMove,
  { found, where, seen }: { readonly found: FoundCrewed[]; readonly where: string; readonly seen?: Set<string> },
): World | null {
  try {
    const reached = take(core, world, move);
    if (reached === null) return null;
    checkScene(reached);
    checkStuck(world, reached);
    checkMove(core, world, reached, move);
    const key = seen === undefined ? '' : keyOf(reached);
    if (seen?.has(key) === true) return null;
    seen?.add(key);
    checkButtons(reached, core);
    return reached;
  } catch (error) {
    const what = error instanceof Error ? error.message : String(error);
    const invariant = error instanceof Broken ? 'C1' : 'Error';
    if (!found.some((each) => each.what === what))
      found.push({ invariant, what, where, trace: [...world.trace, move] });
    return null;
  }
}

/** Checks the direct result of one move. */
function checkMove(core: Crewed, before: World, after: World, move: CrewMove): void {
  for (const { command } of move) {
    if (command.type === 'CLEARED') {
      const was = before.crew.workers.find(({ name }) => name === command.worker);
      const now = after.crew.workers.find(({ name }) => name === command.worker);
      must(was?.leaving === null || now?.status === 'idle', 'a worker that was reset is not idle');
      const stays = was?.leaving?.why === 'killed' ? command.ticket : was?.left?.id;
      const isLast = was?.leaving?.why !== 'killed' && stays === command.ticket;
      must(now?.left?.id === (isLast ? undefined : stays), 'the worktree of a killed worker is lost');
      const replies = repliesAbout(after, command.ticket);
      const isAsked = replies.some(({ state }) => state === 'open');
      const isOpen = was?.leaving?.why === 'killed' && after.crew.running && !isAsked;
      const deps = replies.flatMap(({ reply }) => reply.deps);
      const again = isOpen ? take(core, after, assign(command.worker, command.ticket, 2, deps)) : after;
      must(again !== null, 'a ticket whose worker was killed is not given again');
    }
    if (command.type === 'CONFLICT') {
      const worker = after.crew.workers.find(({ name }) => name === command.worker);
      const isOver = (worker?.conflicts ?? 0) > MOST_CONFLICTS;
      must(!isOver || worker?.status === 'stuck', 'more rounds of conflicts than allowed');
      const was = before.crew.workers.find(({ name }) => name === command.worker);
      must(was?.work?.tip === command.tip, 'work goes back for a conflict of an older commit');
      const { merging } = before.crew;
      const isOthers = merging !== null && merging.worker !== command.worker;
      must(!isOthers || after.crew.merging?.worker === merging.worker, 'a conflict ends the merge of another worker');
    }
    if (command.type === 'ASSIGN') {
      must(before.crew.running, 'a ticket is given while the crew rests');
      const was = before.crew.workers.find(({ name }) => name === command.worker);
      must(was?.ticket === null, 'a worker with a ticket gets another');
    }
    if (command.type === 'REPLY_READ')
      must(after.replies[command.message]?.state !== 'open', 'a reply that was read has no answer');
    if (command.type === 'MEASURED') checkDone(before, after, command);
    if (command.type === 'TICK')
      for (const { landsAt = Infinity, meeting } of after.crew.workers) {
        must(landsAt > after.at, 'a merge whose window is over does not begin');
        const isOpen = meeting !== undefined && meeting.agreed === undefined;
        must(!isOpen || meeting.at + MEETING_MS > after.at, 'a meeting whose time is over goes on');
      }
  }
}

/** A worker that says DONE with a commit and a clean tree becomes done. */
function checkDone(
  before: World,
  after: World,
  { worker: name, work: left }: Extract<CrewCommand, { type: 'MEASURED' }>,
): void {
  const worker = after.crew.workers.find((each) => each.name === name);
  const isDone = noteOf(before, name).heard === 'done' && !left.dirty && left.ahead > 0 && left.unmerged.length === 0;
  if (isDone) must(worker?.status === 'done', 'DONE is not heard');
  const was = before.crew.workers.find((each) => each.name === name);
  if (worker?.status === 'done' && was?.status === 'working') {
    const isLast = worker.stepCount >= worker.maxSteps;
    must(left.ahead > 0, 'a worker is done without a commit');
    must(!left.dirty || isLast || was.step?.kind === 'commit', 'a worker is done with uncommitted work');
    must(left.unmerged.length === 0 || isLast, 'a worker is done with conflicts');
  }
  if (worker?.status === 'working')
    must(worker.step !== null || worker.waiting !== null || worker.meeting !== undefined, 'no step follows');
}

function movesOf(world: World): readonly CrewMove[] {
  const { workers, running, finished, asked = [] } = world.crew;
  const moves: CrewMove[] = [crew({ type: running ? 'STOP' : 'RUN', by: 'ann' })];
  if (asked.length > 0) moves.push(...replyMoves(world));
  if (crewDeadline(world.crew) !== null) moves.push(crew({ type: 'TICK' }));
  // Tests of main that began when the crew started.
  if (finished.length > 0) moves.push(crew({ type: 'BASE', since: 'b0', tip: 'b0', verdict: 'green', why: '' }));
  for (const worker of workers) moves.push(...movesOfWorker(world, worker));
  for (const [channel, floor] of Object.entries(world.floors)) moves.push(...movesOfFloor(channel, floor));
  const isOff = Object.values(world.floors).some(({ catchingUp }) => catchingUp);
  const type = isOff ? 'catchUp' : 'restart';
  moves.push(TICKETS.flatMap((id) => onFloor(threadOf(id), { type })));
  return moves;
}

function movesOfWorker(world: World, worker: Worker): readonly CrewMove[] {
  const { name, ticket, status, waiting, leaving, left } = worker;
  const person = { worker: name, by: 'ann' } as const;
  const over = left === undefined ? [] : [crew({ type: 'CLEARED', worker: name, ticket: left.id, kept: null })];
  const gone = left === undefined ? [] : [...over, crew({ type: 'CLEANUP', ...person })];
  if (ticket === null) {
    const deps = repliesAbout(world, 'c-1').flatMap(({ reply }) => reply.deps);
    const isDue = deps.length > 0 && deps.every((dep) => world.crew.finished.some(({ id }) => id === dep));
    const seen = isDue ? [assign(name, 'c-1', 2, deps)] : [];
    return [...gone, ...seen, ...TICKETS.flatMap((id) => WORKERS.map((_, slot) => assign(name, id, slot)))];
  }
  const { id } = ticket;
  const moves: CrewMove[] = [...jobMoves(world, worker, id), ...TICKETS.map((other) => assign(name, other, 2))];
  if (leaving === null) moves.push(...over);
  moves.push(crew({ type: 'KILL', ...person }));
  if (leaving === null && status !== 'done') moves.push(crew({ type: 'LOST', worker: name, why: 'gone' }));
  if (status === 'stuck') moves.push(crew({ type: 'RETRY', ...person, words: '' }));
  if (status === 'done') moves.push(crew({ type: 'MERGE', ...person }), crew({ type: 'CLEANUP', ...person }));
  if (worker.meeting !== undefined) moves.push(crew({ type: 'ANSWER', ...person, choice: 'continue' }));
  if (waiting !== null) for (const choice of WORKER_CHOICES) moves.push(crew({ type: 'ANSWER', ...person, choice }));
  if (leaving === null && status !== 'ready') moves.push(crew({ type: 'HOLD', worker: name, by: 'bob' }));
  if (world.crew.settings?.window !== undefined) moves.push(crew({ type: 'PERSON_WROTE', worker: name }));
  if (waiting !== null && world.crew.settings?.votes !== undefined)
    moves.push(crew({ type: 'ANSWER', worker: name, by: 'bob', choice: 'merge' }));
  return moves;
}

/** Results of jobs, including those that no worker waits for. */
function jobMoves({ crew: state }: World, worker: Worker, ticket: string): readonly CrewMove[] {
  const { name, step, status, work: known, leaving } = worker;
  const moves: CrewMove[] = [];
  if (leaving !== null) {
    const kept = leaving.why === 'merged' ? null : 'refs/conch/kept/1';
    return [[...seats(ticket, null), ...crew({ type: 'CLEARED', worker: name, ticket, kept })]];
  }
  const job = jobOf(state, worker);
  if (status === 'ready' && !worker.prepared)
    moves.push(
      crew({ type: 'PREPARED', worker: name, ticket }),
      crew({ type: 'UNSTARTED', worker: name, ticket, why: 'no' }),
    );
  if (worker.meeting !== undefined)
    moves.push(
      sits(ticket, name),
      crew({ type: 'SEATED', worker: name, ticket }),
      crew({ type: 'NOTED', worker: name, ticket }),
    );
  else if (job === 'seat') {
    const seated = crew({ type: 'SEATED', worker: name, ticket });
    moves.push([...seats(ticket, name), ...seated], [...seats(ticket, name), ...joins(ticket, name), ...seated]);
  }
  if (step !== null && step.epoch !== null) moves.push(...measures(name, step.epoch, known?.tree === 'a' ? 'b' : 'a'));
  if (status === 'done' && known !== null) {
    const { tip } = known;
    moves.push(
      tested(name, 'green', { tip }),
      tested(name, 'red', { tip }),
      tested(name, 'green', { tip, weakened: 'a test is gone' }),
      tested(name, 'green', { tip: 'tip-old' }),
      ...mergeMoves(name, ticket, tip),
    );
    if (job === 'merge') moves.push(crew({ type: 'REFUSED', worker: name, why: 'no' }));
  }
  return moves;
}

function measures(worker: string, epoch: number, other: string): readonly CrewMove[] {
  const same = other === 'a' ? 'b' : 'a';
  const trees = [
    work(other),
    work(same),
    work(other, { dirty: true }),
    work(other, { ahead: 0 }),
    work(other, { unmerged: ['list.js'] }),
  ];
  const said = { type: 'SAID', worker, epoch: epoch - 1, text: 'DONE' } as const;
  const ended = { type: 'ENDED', worker, epoch: epoch - 1, how: 'completed', why: '' } as const;
  return [
    ...trees.map((left) => crew({ type: 'MEASURED', worker, epoch, work: left })),
    crew({ type: 'MEASURED', worker, epoch: epoch - 1, work: work(other) }),
    crew(said),
    crew(ended),
  ];
}

function mergeMoves(worker: string, ticket: string, tip: string): readonly CrewMove[] {
  return [
    crew({ type: 'MERGE_STARTED', worker, tip, main: 'b0' }),
    crew({ type: 'MERGE_STARTED', worker, tip: 'tip-old', main: 'b0' }),
    crew({ type: 'MERGED', worker, ticket, commit: 'm1' }),
    crew({ type: 'CONFLICT', worker, ...CONFLICT, tip }),
    crew({ type: 'CONFLICT', worker, ...CONFLICT, tip: 'tip-old' }),
    crew({ type: 'MERGED_RED', worker, output: '', landed: [] }),
    crew({ type: 'MOVED', worker }),
  ];
}

const TEXTS = ['It works.\nDONE', 'It is not DONE'];
const AGREES = 'AGREED: so';

function movesOfFloor(channel: string, floor: Floor): readonly CrewMove[] {
  const { turn } = floor;
  const moves: Command[] = [];
  for (const { agent, present } of floor.seats) if (!present) moves.push({ type: 'join', agent });
  if (turn?.status === 'active') {
    const { agent, epoch, words = '' } = turn;
    const texts = floor.seats.length > 1 ? [...TEXTS, AGREES] : TEXTS;
    for (const text of texts) if (!words.includes(text)) moves.push({ type: 'say', agent, epoch, text, mentions: [] });
    if (words === '' && epoch > 1)
      moves.push({ type: 'say', agent, epoch: epoch - 1, text: TEXTS[0] ?? '', mentions: [] });
    moves.push({ type: 'end', agent, epoch, outcome: 'completed', signalled: true });
    for (const cause of Object.values(CAUSES)) moves.push({ type: 'leave', agent, cause });
    moves.push({ type: 'skip', by: 'ann' }, { type: 'stop', by: 'ann' });
  }
  if (turn !== null) moves.push({ type: 'tick' });
  const free = floor.seats.find(({ present, status }) => present && status === 'QUEUED');
  if (turn === null && floor.task !== undefined && free !== undefined)
    moves.push({ type: 'grant', by: 'ann', agent: free.agent });
  if (floor.stopped)
    moves.push({ type: 'receive', id: `m${floor.lines}`, order: '1'.padStart(12, '0'), addressed: [] });
  return moves.map((command) => onFloor(channel, command));
}

/** Makes a move with all its consequences. Returns `null` when all its commands are refused. */
function take(core: Crewed, world: World, move: CrewMove): World | null {
  const { crewOnFloor: machine, floorWithWork: floors } = core;
  let reached: World = { ...world, at: instantOf(core, world, move), trace: [...world.trace, move] };
  let isTaken = move.length === 0;
  for (const given of move) {
    const key = given.to === 'crew' ? CREW : given.channel;
    const name = given.to === 'crew' ? machine.name : floors.name;
    const open: CommandFor[] = [{ machine: name, key, command: given.command }];
    const own = given.to === 'crew' ? given.command : null;
    for (let count = 0; open.length > 0; count += 1) {
      must(count < 50, 'a chain of commands does not end');
      const command = open.shift();
      if (command === undefined) break;
      const [next, caused, ok] =
        command.machine === machine.name ? byCrew(core, reached, command, own) : byFloor(core, reached, command);
      if (ok && count === 0) isTaken = true;
      reached = next;
      open.push(...caused);
    }
  }
  return isTaken ? reached : null;
}

function instantOf({ crewOnFloor: machine, floorWithWork: floors }: Crewed, world: World, move: CrewMove): number {
  const [given] = move;
  const isTick = given?.command.type === 'TICK' || given?.command.type === 'tick';
  if (given === undefined || !isTick) return world.at + 1;
  const floor = given.to === 'floor' ? world.floors[given.channel] : undefined;
  const due = floor === undefined ? machine.nextDeadline(world.crew) : floors.nextDeadline(floor);
  return Math.max(world.at + 1, due ?? 0);
}

type Taken = readonly [world: World, caused: readonly CommandFor[], isTaken: boolean];

function byFloor({ floorWithWork: machine }: Crewed, world: World, { key, command }: CommandFor): Taken {
  const before = world.floors[key];
  if (before === undefined) return [world, [], false];
  const decision = machine.decide(before, takenBy(machine, command), world.at);
  if (!decision.ok) return [world, [], false];
  const floor = decision.facts.reduce((each, fact) => machine.evolve(each, machine.fact.parse(fact), world.at), before);
  const after = notedFloor({ ...world, floors: { ...world.floors, [key]: floor } }, key, decision.facts);
  return [after, decision.facts.flatMap((fact) => machine.causes(fact, floor)), true];
}

function byCrew(
  { crewOnFloor: machine }: Crewed,
  world: World,
  { command }: CommandFor,
  given: CrewCommand | null,
): Taken {
  const decision = machine.decide(world.crew, takenBy(machine, command), world.at);
  if (!decision.ok) return [world, [], false];
  let reached = world;
  for (const fact of decision.facts) {
    reached = notedCrew(reached, fact, given);
    reached = { ...reached, crew: machine.evolve(reached.crew, machine.fact.parse(fact), world.at) };
  }
  return [reached, decision.facts.flatMap((fact) => machine.causes(fact, reached.crew)), true];
}

function keyOf({ crew: state, floors, notes, replies, at }: World): string {
  const workers = state.workers.map((worker) =>
    workerKey(worker, worker.ticket === null ? 0 : (floors[worker.ticket.thread]?.epoch ?? 0)),
  );
  return JSON.stringify([
    workers,
    [
      state.running,
      state.merging,
      state.paused === null,
      state.finished.map(({ id }) => id),
      state.refused.map(({ id }) => id),
    ],
    Object.values(floors).map(floorKey),
    Object.entries(replies).map(([id, { state: answer }]) => [id, answer]),
    // The key only tells whether the window is over, not when.
    Object.entries(notes).map(([name, note]) => [name, { ...note, landsFrom: (note.landsFrom ?? 0) > at }]),
  ]);
}

function workerKey(worker: Worker, offset: number): unknown {
  const { status, ticket, prepared, stepCount, maxSteps, step, next, unfinished, errors, retryAt } = worker;
  const { timedOut, work: left, unchanged, conflicts: rounds, accepted, waiting, leaving } = worker;
  const asked =
    step === null
      ? null
      : [
          step.kind,
          step.queued,
          step.epoch === null ? null : step.epoch - offset,
          step.signalled,
          step.broken,
          step.over,
        ];
  return [
    [status, ticket?.id, prepared, stepCount, maxSteps, asked, next, unfinished, errors, retryAt !== null],
    [
      timedOut,
      left,
      Math.min(unchanged, 2),
      rounds,
      accepted,
      waiting?.for,
      waiting?.step?.kind,
      leaving?.why,
      worker.left,
    ],
    [worker.meeting?.turns, worker.meeting?.agreed, worker.met],
    [worker.landsAt !== undefined, worker.held, worker.votes?.map(({ voter, tip }) => [voter, tip])],
  ];
}

function floorKey({
  turn,
  task,
  seats: all,
  queue,
  catchingUp,
  condition,
  stopped,
  exchange,
  held,
  limit,
}: Floor): unknown {
  const holder = turn === null ? null : [turn.agent, turn.status, turn.words, turn.brief !== undefined];
  const seated = all.map(({ agent, status, present, taken }) => [agent, status, present, taken]);
  return [
    [holder, task === undefined ? null : [task.primary, task.next === null], seated, queue],
    [catchingUp, condition, stopped, exchange === null, held.length, limit],
  ];
}
