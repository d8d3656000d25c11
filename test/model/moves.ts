import { INTERRUPT_MODES, ORDERS } from '../../src/turns/floor/policies.ts';
import type { AgentCommand, Command, OperatorCommand } from '../../src/turns/floor/command.ts';
import type { AgentId } from '../../src/turns/floor/settings.ts';
import type { Instant } from '../../src/lib/time.ts';
import { isAsking, outstanding, turnOf, turnsOf } from './abstraction.ts';
import type { Place } from './abstraction.ts';
import type { Channel, Family } from './channels.ts';
import { waitOf } from '../../src/turns/floor/seats.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';

/** A command that may come at a place, and its time. */
export type Move = {
  readonly command: Command;
  readonly at: Instant;
  /** The core must refuse the command: it is stale, doubled, early, or from somebody without the right. */
  readonly refused?: true;
  /** Only time passes: the next place has a later clock, whether or not the core acts. */
  readonly passes?: true;
};

const BY = { by: 'ada' } as const;
/** The key of the buttons of every question, and the key of another store's buttons. */
const KEY = 'new';
const OTHER_KEY = 'old';
/** Digests of the files in an agent's folder. */
const DIGESTS = ['a1', 'b2'] as const;
const APPROVAL = { title: 'run the tests', detail: 'npm test' };
const STRANGER: AgentId = 'eve';
/** The time limit of the work in a move, in milliseconds. */
const LIMIT_MS = 47;
/** The prefix of ids of programs' messages. The search knows programs by it, without the core. */
export const OF_PROGRAMS = 'b';

/** All commands that may come next. `next`: the core's earliest deadline of the floor. */
export function movesFrom(place: Place, channel: Channel, next: Instant | null): readonly Move[] {
  if (place.floor.configured === null) return fromNothing(place, channel);
  const commands = [
    ...people(place, channel),
    ...holders(place, channel),
    ...comings(place, channel),
    ...operators(place, channel),
    ...program(place, channel),
    ...folders(place, channel),
  ];
  return [
    ...commands.map((command): Move => ({ command, at: place.at })),
    ...[...probes(place, channel), ...folderProbes(place, channel)].map((command): Move => ({
      command,
      at: place.at,
      refused: true,
    })),
    ...time(place, channel, next),
  ];
}

/** Commands on the empty floor: its configuration, and commands before it. */
function fromNothing({ at }: Place, { settings, seats }: Channel): readonly Move[] {
  const early: readonly Command[] = [
    { type: 'tick' },
    { type: 'join', agent: 'pm' },
    { type: 'say', agent: 'pm', epoch: 0, text: 'early', mentions: [] },
    { type: 'grant', agent: 'pm', ...BY },
    { type: 'stop', ...BY },
    { type: 'start', ...BY },
    { type: 'skip', ...BY },
    { type: 'remove', agent: 'pm', ...BY },
    { type: 'catchUp' },
  ];
  return [
    { command: { type: 'configure', settings, seats }, at },
    { command: { type: 'receive', id: 'm0', addressed: [], order: '0' }, at },
    ...early.map((command): Move => ({ command, at, refused: true })),
  ];
}

function people(
  { floor, messages }: Place,
  { addressed, families, messages: most, given: mostGiven }: Channel,
): readonly Command[] {
  const waiting = outstanding(floor);
  const given = turnsOf(floor).flatMap((turn) => turn.given).length;
  const hasRoom = waiting.length < most && waiting.length + given <= mostGiven;
  const fresh = { id: `m${messages}`, order: `${messages}` };
  const authors = families.has('programs')
    ? [fresh, { ...fresh, id: `${OF_PROGRAMS}${messages}`, fromProgram: true }]
    : [fresh];
  const calls: readonly (readonly AgentId[])[] = [[], ...addressed.map((agent) => [agent])];
  const received = authors
    .flatMap((message) => calls.map((agents): Command => ({ type: 'receive', ...message, addressed: agents })))
    .filter(() => hasRoom);
  if (!families.has('amend')) return received;
  const inPrompt = turnsOf(floor).flatMap((turn) => turn.given)[0]?.id;
  const known = waiting[0] ?? inPrompt;
  return [
    ...received,
    { type: 'receive', ...fresh, addressed: [], ignore: 'a bot wrote it' },
    { type: 'edit', id: known ?? 'm-long-ago' },
    ...[known, inPrompt === known ? undefined : inPrompt].flatMap((id) =>
      id === undefined ? [] : [{ type: 'delete', id } as const],
    ),
  ];
}

/** Commands of the holder. */
function holders({ floor }: Place, { families }: Channel): readonly Command[] {
  const { turn } = floor;
  if (turn === null) return [];
  const { agent, epoch } = turn;
  const act = { agent, epoch };
  const others = floor.seats.filter((seat) => seat.agent !== agent).map((seat) => seat.agent);
  const first = others[0] ?? STRANGER;
  const last = others.at(-1) ?? STRANGER;
  const injecting = turn.injecting[0];
  const given = turn.given[0];
  const observed = floor.held.find(({ until }) => until === 'exchange');
  return [
    { type: 'say', ...act, text: 'a plain word', mentions: [] },
    { type: 'say', ...act, text: 'ask @them\nTURN_COMPLETE', mentions: [last, STRANGER] },
    { type: 'end', ...act, outcome: 'completed', signalled: true },
    { type: 'end', ...act, outcome: 'completed', signalled: false, handTo: first },
    { type: 'end', ...act, outcome: 'completed', signalled: true, handTo: last },
    { type: 'end', ...act, outcome: 'completed', signalled: true, handTo: agent },
    { type: 'end', ...act, outcome: 'passed', signalled: true },
    { type: 'interrupted', ...act },
    { type: 'completeTurn', ...act, by: 'ada' },
    ...(families.has('wait') ? waits(act) : []),
    ...(families.has('ask')
      ? [first, last].map((of): Command => ({ type: 'wait', ...act, reason: 'answer', of }))
      : []),
    ...(families.has('approval')
      ? ([
          { type: 'request', ...act, approval: APPROVAL, key: KEY },
          { type: 'request', ...act, approval: APPROVAL, key: KEY, unaskable: 'too long' },
          { type: 'withdraw', ...act },
        ] as const)
      : []),
    ...(families.has('work')
      ? ([
          { type: 'work', ...act, open: 0 },
          { type: 'work', ...act, open: 1 },
          { type: 'work', ...act, open: 1, limitMs: LIMIT_MS },
          { type: 'say', ...act, text: 'what stood there', mentions: [], workedAt: turn.startedAt },
        ] as const)
      : []),
    ...(families.has('spend') ? [{ type: 'spend', ...act, tokens: 1, costMicros: 0 } as const] : []),
    ...(injecting === undefined
      ? []
      : (['injected', 'next-prompt', 'refused'] as const).map((outcome): Command => ({
          type: 'injected',
          ...act,
          id: injecting.id,
          outcome,
        }))),
    ...(observed === undefined ? [] : [{ type: 'injected', ...act, id: observed.id, outcome: 'injected' } as const]),
    ...(given === undefined || !families.has('room')
      ? []
      : [{ type: 'injected', ...act, id: given.id, outcome: 'no-room' } as const]),
  ];
}

function waits(act: { readonly agent: AgentId; readonly epoch: number }): readonly Command[] {
  return [{ type: 'wait', ...act, reason: 'answer' }];
}

function comings({ floor }: Place, { families, seats }: Channel): readonly Command[] {
  const agents = seats.map((seat) => seat.agent);
  const asked = floor.facilitation;
  return [
    ...agents.map((agent): Command => ({ type: 'join', agent })),
    ...(families.has('crash') ? agents.map((agent): Command => ({ type: 'leave', agent, cause: 'gone' })) : []),
    ...(asked === null
      ? []
      : [...agents, STRANGER, null].map((next): Command => ({
          type: 'choose',
          agent: asked.facilitator,
          ask: asked.ask,
          next,
        }))),
  ];
}

function operators({ floor }: Place, { families, seats }: Channel): readonly Command[] {
  const agents = seats.map((seat) => seat.agent);
  const each = (type: 'grant' | 'add' | 'remove' | 'enable' | 'disable'): readonly OperatorCommand[] =>
    agents.map((agent) => ({ type, agent, ...BY }));
  const given = (family: Family, commands: readonly OperatorCommand[]): readonly OperatorCommand[] =>
    families.has(family) ? commands : [];
  return [
    { type: 'start', ...BY },
    { type: 'resume', ...BY },
    { type: 'skip', ...BY },
    ...turnsOf(floor).map(({ agent, epoch }): Command => ({ type: 'skip', agent, epoch, ...BY })),
    ...given('stop', [{ type: 'stop', ...BY }]),
    ...given('pause', [{ type: 'pause', ...BY }]),
    ...given('grant', each('grant')),
    ...each('add'),
    ...given('members', each('remove')),
    ...given('switch', [...each('enable'), ...each('disable')]),
    ...given('approval', [
      { type: 'decide', choice: 'allow', question: floor.questions, ...BY },
      { type: 'decide', choice: 'reject', question: floor.questions, key: KEY, ...BY },
    ]),
    ...given('extend', [{ type: 'extend', ms: 5, ...BY }]),
    ...given(
      'modes',
      INTERRUPT_MODES.map((mode) => ({ type: 'mode', mode, ...BY })),
    ),
    ...given(
      'orders',
      ORDERS.flatMap((order): readonly OperatorCommand[] => [
        { type: 'order', order, ...BY },
        { type: 'order', order, queue: floor.queue.toReversed(), ...BY },
      ]),
    ),
  ];
}

/** Answers to the last but one question and to the next one, and reports that such a question was shown. */
function answersToOthers(last: number): readonly Command[] {
  return [last - 1, last + 1].flatMap((question): readonly Command[] => [
    { type: 'decide', choice: 'allow', question, ...BY },
    { type: 'decide', choice: 'reject', question, ...BY },
    { type: 'shown', question },
    { type: 'shown', question, why: 'refused' },
  ]);
}

/** Answers by buttons of another store whose question has the same number, and a report that it was shown. */
function fromElsewhere(question: number): readonly Command[] {
  return [
    { type: 'decide', choice: 'allow', question, key: OTHER_KEY, ...BY },
    { type: 'decide', choice: 'reject', question, key: OTHER_KEY, ...BY },
    { type: 'shown', question, key: OTHER_KEY },
  ];
}

/** Clicks on buttons that were drawn before the open exchange began. */
function ofFormerExchange(floor: Floor): readonly Command[] {
  const { since: epoch = floor.epoch } = floor.exchange ?? {};
  if (epoch === floor.epoch || turnsOf(floor).some((turn) => turn.epoch === epoch)) return [];
  return (['stop', 'pause', 'resume'] as const).map((type) => ({ type, epoch, ...BY }));
}

function program({ floor }: Place, { families, seats, settings }: Channel): readonly Command[] {
  const { configured } = floor;
  const fewer = seats.slice(1);
  const isWhole = configured?.seats.length === seats.length;
  return [
    ...(families.has('restart') ? ([{ type: 'restart' }, { type: 'catchUp', gap: 'too far back' }] as const) : []),
    { type: 'catchUp' },
    ...(families.has('approval')
      ? ([
          { type: 'shown', question: floor.questions },
          { type: 'shown', question: floor.questions, why: 'refused' },
        ] as const)
      : []),
    ...(families.has('touch') ? [{ type: 'disconnect' } as const] : []),
    ...(families.has('extend') ? [{ type: 'standstill', ms: 5 } as const] : []),
    ...(families.has('reconfigure') ? [{ type: 'configure', settings, seats: isWhole ? fewer : seats } as const] : []),
    ...(families.has('reconfigure') && !families.has('touch') && floor.catchingUp
      ? [{ type: 'raiseEpoch', by: 9 } as const]
      : []),
  ];
}

/** Invalid commands: an epoch late or early, by another agent, repeated, or about nobody. */
function probes({ floor }: Place, { families, seats }: Channel): readonly Command[] {
  const { turn, epoch, facilitation } = floor;
  const agents = seats.map((seat) => seat.agent);
  const [someone = STRANGER] = agents;
  const holder = turn?.agent ?? someone;
  const isSpeaking = turn !== null && waitOf(turn) === null && turn.status !== 'suspended';
  const silent = [...agents.filter((agent) => !(isSpeaking && agent === holder)), STRANGER];
  const known = new Set([...outstanding(floor), ...turnsOf(floor).flatMap((one) => one.given.map(({ id }) => id))]);
  const asked = facilitation?.facilitator ?? someone;
  const last = turn?.epoch ?? epoch;
  /** A turn without the floor has this epoch. */
  const isOpenTurn = turnsOf(floor).some((one) => one.epoch === last - 1);
  return [
    ...silent
      .flatMap((agent) => unclaimed(agent, epoch))
      .filter(({ type, agent }) => !(type === 'say' && agent === turn?.agent && isAsking(floor))),
    ...silent
      .filter((agent) => turnsOf(floor).every((one) => one.agent !== agent))
      .map((agent) => injected(agent, epoch)),
    ...unclaimed(holder, last - 1),
    ...(isOpenTurn ? [] : [injected(holder, last - 1)]),
    stale(holder, last + 1),
    { type: 'interrupted', agent: holder, epoch: last - 1 },
    ...[...known].map((id): Command => ({ type: 'receive', id, addressed: [], order: '0' })),
    ...late(floor),
    { type: 'choose', agent: asked, ask: floor.asks - 1, next: someone },
    ...(facilitation === null ? [{ type: 'choose', agent: asked, ask: floor.asks, next: someone } as const] : []),
    { type: 'skip', epoch: last - 1, ...BY },
    ...(families.has('approval') ? [...answersToOthers(floor.questions), ...fromElsewhere(floor.questions)] : []),
    ...(isOpenTurn ? [] : [{ type: 'extend', ms: 5, epoch: last - 1, ...BY } as const]),
    ...ofFormerExchange(floor),
    { type: 'skip', agent: holder, epoch: (turnOf(floor, holder)?.epoch ?? epoch) - 1, ...BY },
    ...(turn === null ? [{ type: 'skip', epoch, ...BY } as const] : []),
    ...(floor.catchingUp ? premature(agents) : []),
    { type: 'join', agent: STRANGER },
    { type: 'leave', agent: STRANGER, cause: 'gone' },
    { type: 'spend', agent: STRANGER, epoch, tokens: 1, costMicros: 1 },
    ...(['grant', 'add', 'remove', 'enable', 'disable'] as const).map((type): Command => ({
      type,
      agent: STRANGER,
      ...BY,
    })),
  ];
}

/** Commands for questions about files in agents' folders: asked, shown, answered by operators, dropped on a change. */
function folders({ floor }: Place, { families, seats }: Channel): readonly Command[] {
  if (!families.has('trust')) return [];
  const asked = seats.flatMap(({ agent }) => DIGESTS.map((id) => ({ agent, id }))).filter((one) => !isOpen(floor, one));
  return [
    ...asked.map((one): Command => ({ type: 'askTrust', ...one, folder: '/work', detail: '.mcp.json' })),
    ...(floor.trust ?? []).flatMap(({ agent, id, shown }): readonly Command[] => [
      ...(shown ? [] : [{ type: 'trustShown', agent, id } as const]),
      { type: 'answerTrust', agent, id, choice: 'trusted', ...BY },
      { type: 'answerTrust', agent, id, choice: 'left', ...BY },
      { type: 'dropTrust', agent, keeps: null },
      { type: 'dropTrust', agent, keeps: 'c3' },
    ]),
  ];
}

/** Invalid commands: answers to questions that are not open, questions that are open already, and needless drops. */
function folderProbes({ floor }: Place, { families, seats }: Channel): readonly Command[] {
  if (!families.has('trust')) return [];
  return [...seats.map(({ agent }) => agent), STRANGER].flatMap((agent): readonly Command[] => [
    ...DIGESTS.map((id) => ({ agent, id })).flatMap((one): readonly Command[] =>
      isOpen(floor, one)
        ? [{ type: 'askTrust', ...one, folder: '/work', detail: '.mcp.json' }]
        : [
            { type: 'trustShown', ...one },
            { type: 'answerTrust', ...one, choice: 'trusted', ...BY },
            { type: 'answerTrust', ...one, choice: 'left', ...BY },
          ],
    ),
    ...(floor.trust ?? []).flatMap((open): readonly Command[] =>
      open.agent !== agent
        ? []
        : [
            ...(open.shown ? [{ type: 'trustShown', agent, id: open.id } as const] : []),
            { type: 'dropTrust', agent, keeps: open.id },
          ],
    ),
    ...(floor.trust?.some((open) => open.agent === agent) === true
      ? []
      : [{ type: 'dropTrust', agent, keeps: null } as const]),
  ]);
}

function isOpen(floor: Floor, { agent, id }: { readonly agent: AgentId; readonly id: string }): boolean {
  return floor.trust?.some((open) => open.agent === agent && open.id === id) === true;
}

/** Reports of an injected message that the prompt already has, and of "no room" for another one. */
function late({ turn }: Place['floor']): readonly AgentCommand[] {
  if (turn === null) return [];
  const { agent, epoch } = turn;
  const report = (id: string, outcome: 'injected' | 'next-prompt' | 'refused' | 'no-room'): AgentCommand => ({
    type: 'injected',
    agent,
    epoch,
    id,
    outcome,
  });
  return [
    ...turn.given.flatMap(({ id }) => (['injected', 'next-prompt', 'refused'] as const).map((how) => report(id, how))),
    ...turn.injecting.map(({ id }) => report(id, 'no-room')),
  ];
}

/** Commands that would grant the floor before the history is read. */
function premature(agents: readonly AgentId[]): readonly Command[] {
  return [
    { type: 'disconnect' },
    { type: 'start', ...BY },
    ...agents.map((agent): Command => ({ type: 'grant', agent, ...BY })),
  ];
}

function injected(agent: AgentId, epoch: number): AgentCommand {
  return { type: 'injected', agent, epoch, id: 'm0', outcome: 'injected' };
}

function stale(agent: AgentId, epoch: number): AgentCommand {
  return { type: 'end', agent, epoch, outcome: 'completed', signalled: true };
}

function unclaimed(agent: AgentId, epoch: number): readonly AgentCommand[] {
  return [
    { type: 'say', agent, epoch, text: 'out of turn', mentions: [] },
    stale(agent, epoch),
    { type: 'wait', agent, epoch, reason: 'answer' },
    { type: 'work', agent, epoch, open: 1 },
    { type: 'request', agent, epoch, approval: APPROVAL },
  ];
}

/** Longer than every duration of the model: all deadlines passed while the program was down. */
const LONG_MS = 1_000;

function time({ at, floor }: Place, { families }: Channel, next: Instant | null): readonly Move[] {
  const tick: Command = { type: 'tick' };
  if (next === null) {
    const early: Move = { command: tick, at, refused: true };
    return floor.catchingUp ? [early, { command: tick, at: at + LONG_MS, refused: true, passes: true }] : [early];
  }
  const brink: Move = { command: tick, at: next - 1, refused: true };
  const due: Move = { command: tick, at: Math.max(at, next) };
  if (next - 1 < at) return [due];
  return [families.has('brink') ? { ...brink, passes: true } : brink, due];
}
