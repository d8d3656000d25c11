import type { InterruptMode, OrderPolicy } from './floor/policies.ts';
import type { BackgroundRun, Floor, FloorTask, TaskParts, Status, TrustQuestion } from './floor/floor.ts';
import type { AgentId, ChannelId, MessageId, Question } from './floor/settings.ts';
import type { Instant } from '../lib/time.ts';
import type { Fact, Fate, Outcome } from './floor/fact.ts';
import { endOf, findTurn, openQuestion, waitOf } from './floor/seats.ts';
import { obstacles } from './floor/gate.ts';
import { upcoming } from './floor/next-speaker.ts';
import type { Obstacle } from './floor/gate.ts';
import { decide } from './floor/decide.ts';
import type { Attachment, StoredFact, StoredMessage } from '../engine/port.ts';
import { defined } from '../lib/defined.ts';

/** How a review stands: whose turn it is, why it waits, or how it ended. */
export type ReviewStand = {
  readonly primary: AgentId;
  readonly iteration: number;
  readonly allowed: number;
  /** The agent whose turn it is; `null` between two turns, while the review waits, and after its end. */
  readonly agent: AgentId | null;
  readonly purpose: 'work' | 'review' | 'repair' | 'answers' | null;
  /** True while the work is reviewed again, because it changed during the last review. */
  readonly voided: boolean;
  /** The reason why the review waits. `asksPeople`: a person decides how it continues. */
  readonly waiting: { readonly why: string; readonly asksPeople: boolean; readonly until: Instant | null } | null;
  /** `null` while the review runs. */
  readonly outcome: { readonly kind: string; readonly why: string } | null;
  /**
   * The model of both the primary agent and the reviewer when the review started. Absent: their models differed, a
   * model is not known, or the review is of a ticket.
   */
  readonly sameModel?: string;
};

/** A review as people see it: the open one of a channel, or its last one. */
export type ReviewView = ReviewStand & {
  readonly id: string;
  readonly reviewer: AgentId;
  readonly iterations: readonly {
    readonly verdict: 'pass' | 'revise' | 'fail' | null;
    readonly opened: number;
    readonly fixed: number;
    readonly disputed: number;
    readonly reappeared: number;
    readonly hasEnded: boolean;
  }[];
  /** The open findings, at most 50. `reason`: why the primary agent last disputed the finding. */
  readonly findings: readonly {
    readonly id: string;
    readonly severity: string;
    readonly place: string | null;
    readonly title: string;
    readonly status: string;
    readonly reason: string | null;
  }[];
};

/** A floor as people see it: plain JSON for cards, the console and `/floor status`. */
export type FloorView = {
  readonly channel: ChannelId;
  /** The database's id, for buttons. */
  readonly store: string;
  readonly condition: 'resting' | 'open' | 'paused';
  readonly mode: InterruptMode;
  readonly order: OrderPolicy;
  readonly epoch: number;
  readonly holder: {
    readonly agent: AgentId;
    readonly epoch: number;
    readonly status: 'ACTIVE' | 'WAITING';
    readonly startedAt: Instant;
    /** When the turn reaches its timeout or hard end, or its wait times out. */
    readonly deadlineAt: Instant | null;
    readonly waitingFor: 'answer' | 'human' | 'approval' | null;
    readonly working: boolean;
    /** The holder's request for approval. People answer with /allow, /answer or /reject and its number. */
    readonly approval: Question | null;
  } | null;
  readonly seats: readonly {
    readonly agent: AgentId;
    readonly status: Status;
    readonly disabled: boolean;
    readonly waitUntil: Instant | null;
  }[];
  /** The next speakers in the order of grants, unless a facilitator chooses. */
  readonly next: readonly AgentId[];
  readonly held: readonly MessageId[];
  readonly asides?: readonly BackgroundRun[];
  /** Agents that are not started, with the files to decide about; absent for none. */
  readonly trust?: readonly TrustQuestion[];
  readonly task?: TaskParts;
  /** Turns that count since usage was last reset, and their limit; `null` while no exchange is open. */
  readonly turns: { readonly used: number; readonly allowed: number } | null;
  /** Obstacles to a grant now. Empty: nothing blocks a grant. */
  readonly obstacles: readonly Obstacle[];
};

/** One turn, for the time line. */
export type TurnRecord = {
  readonly epoch: number;
  readonly agent: AgentId;
  readonly startedAt: Instant;
  readonly endedAt: Instant | null;
  readonly outcome: Outcome | null;
  readonly said: number;
  readonly waits: readonly { readonly reason: string; readonly at: Instant; readonly endedAt: Instant | null }[];
};

/** The view of a floor at an instant. `store`: the database's id. */
export function viewOf(floor: Floor, at: Instant, store: string): FloorView {
  const { settings } = floor;
  return {
    channel: floor.channel,
    store,
    condition: floor.condition,
    mode: settings.mode,
    order: settings.order,
    epoch: floor.epoch,
    holder: holderOf(floor),
    seats: floor.seats.map(({ agent, status, disabled }) => ({
      agent,
      status,
      disabled,
      waitUntil: waitOf(findTurn(floor, agent))?.deadlineAt ?? null,
    })),
    next: upcoming(floor),
    held: floor.held.map(({ id }) => id),
    ...defined({ asides: floor.asides, trust: floor.trust, task: floor.task && partsOf(floor.task) }),
    turns: floor.exchange === null ? null : { used: floor.usageSincePerson.turns, allowed: settings.maxTurns },
    obstacles: obstacles(floor, at),
  };
}

function partsOf({
  next: _next,
  held: _held,
  told: _told,
  since: _since,
  outer: _outer,
  ...parts
}: FloorTask): TaskParts {
  return parts;
}

/** The turns in a part of the journal, oldest first. Turns that began before that part are left out. */
export function turnRecords(entries: readonly Pick<JournalEntry, 'at' | 'fact'>[]): readonly TurnRecord[] {
  const records = new Map<number, TurnRecord>();
  const open = new Map<AgentId, number>();
  for (const { at, fact } of entries) {
    if (fact.type === 'turnGranted') {
      open.set(fact.agent, fact.epoch);
      const { epoch, agent } = fact;
      records.set(epoch, { epoch, agent, startedAt: at, endedAt: null, outcome: null, said: 0, waits: [] });
      continue;
    }
    if (!('agent' in fact) || typeof fact.agent !== 'string') continue;
    const epoch = open.get(fact.agent);
    const record = epoch === undefined ? undefined : records.get(epoch);
    if (record === undefined) continue;
    records.set(record.epoch, recordAfter(record, fact, at));
    if (fact.type === 'turnEnded') open.delete(fact.agent);
  }
  return [...records.values()];
}

function recordAfter(record: TurnRecord, fact: Fact, at: Instant): TurnRecord {
  switch (fact.type) {
    case 'said':
      return { ...record, said: record.said + 1 };
    case 'turnWaited':
      return { ...record, waits: [...record.waits, { reason: fact.wait.reason, at, endedAt: null }] };
    case 'turnResumed':
      return { ...record, waits: ended(record.waits, at) };
    case 'turnEnded':
      return { ...record, endedAt: at, outcome: fact.outcome, waits: ended(record.waits, at) };
    default:
      return record;
  }
}

function ended(waits: TurnRecord['waits'], at: Instant): TurnRecord['waits'] {
  return waits.map((wait) => (wait.endedAt === null ? { ...wait, endedAt: at } : wait));
}

/** The holder as people see it; `null` for none. */
export function holderOf(floor: Floor): FloorView['holder'] {
  const { turn } = floor;
  if (turn === null) return null;
  return {
    agent: turn.agent,
    epoch: turn.epoch,
    status: turn.status === 'waiting' ? 'WAITING' : 'ACTIVE',
    startedAt: turn.startedAt,
    deadlineAt: turn.status === 'waiting' ? turn.wait.deadlineAt : endOf(turn),
    waitingFor: waitOf(turn)?.reason ?? null,
    working: turn.status === 'active' && turn.openWork > 0,
    approval: openQuestion(floor),
  };
}

/**
 * The delivery preview: the fate that a person's message would have now, unaddressed or addressed to each agent.
 * `controls`: the command lines of buttons that would change something now, with labels, by the agent that they are
 * about. Commands about the floor have an empty id.
 */
export type DeliveryPreview = {
  readonly unaddressed: Fate;
  readonly addressed: Readonly<Record<AgentId, Fate>>;
  readonly controls: Readonly<Record<AgentId, readonly (readonly [line: string, label: string])[]>>;
};

/** The delivery preview of a floor. Decides imagined messages and commands; stores nothing. */
export function deliveryPreviewOf(floor: Floor, at: Instant): DeliveryPreview {
  const ids = floor.seats.map(({ agent }) => agent);
  return {
    unaddressed: fateOf(floor, [], at),
    addressed: Object.fromEntries(ids.map((agent) => [agent, fateOf(floor, [agent], at)])),
    controls: Object.fromEntries(['', ...ids].map((agent) => [agent, controlsOf(floor, agent, at)])),
  };
}

function controlsOf(floor: Floor, agent: AgentId, at: Instant): DeliveryPreview['controls'][AgentId] {
  const rows = agent === '' ? FLOOR_CONTROLS : SEAT_CONTROLS;
  return rows.flatMap(([line, label, type]) => {
    const { ok, facts } = decide(floor, { type, agent, by: '', ms: 60_000 }, at);
    return ok && facts.length > 0 ? [[`${line} ${agent}`.trim(), label] as const] : [];
  });
}

const FLOOR_CONTROLS = [
  ['/floor extend 60', 'One more minute', 'extend'],
  ['/floor start', 'Start an exchange', 'start'],
] as const;
const SEAT_CONTROLS = [
  ['/floor grant', 'Give the floor', 'grant'],
  ['/floor skip', 'Skip', 'skip'],
  ['/floor remove', 'Remove', 'remove'],
  ['/floor add', 'Add', 'add'],
  ['/agent enable', 'Enable', 'enable'],
  ['/agent disable', 'Disable', 'disable'],
] as const;

/** An id and sort key that no platform uses. It sorts last: longer keys come later. */
const IMAGINED = '\uFFFF'.repeat(100);

function fateOf(floor: Floor, addressed: readonly AgentId[], at: Instant): Fate {
  const decision = decide(floor, { type: 'receive', id: IMAGINED, addressed, order: IMAGINED }, at);
  const facts = decision.ok ? decision.facts : [];
  const routed = facts.findLast((fact) => fact.type === 'messageRouted' && fact.id === IMAGINED);
  if (routed?.type !== 'messageRouted') throw new Error(`impossible: a message has no fate in ${floor.channel}`);
  return routed.fate;
}

/** A message of a person or a program, with its fate. */
export type InboxRow = StoredMessage<Fate>;

/** One fact of a channel's journal. The key is the channel. */
export type JournalEntry = StoredFact<Fact>;

/** One line of a conversation in prompts. */
export type Line = {
  readonly line: number;
  readonly at: Instant;
  /** Set for a line of a background run. */
  readonly aside?: true;
  readonly author: { readonly kind: 'person' | 'agent'; readonly id: string; readonly name: string };
  readonly text: string;
  readonly attachments: readonly Attachment[];
  /** The id of the message; `null` on lines of agents. */
  readonly message: MessageId | null;
  readonly change: 'edited' | 'deleted' | null;
};

type MessageReader<Row = InboxRow> = { message(id: MessageId): Row | null };

/**
 * The lines with numbers above `after`, up to `upto`, oldest first, with the latest texts of messages. Deleted messages
 * are empty. An agent's name is its id. `newest`: facts of the floor, newest first; read only as far as needed.
 */
export function linesOf(
  newest: Iterable<JournalEntry>,
  { after, upto }: { readonly after: number; readonly upto: number },
  messages: MessageReader,
): readonly Line[] {
  const found: Line[] = [];
  for (const entry of newest) {
    const { fact } = entry;
    const number = 'line' in fact ? fact.line : null;
    if (number !== null && number <= after) break;
    const line = number === null || number > upto ? null : lineOf(entry, messages);
    if (line !== null) found.push(line);
    if (number === after + 1) break;
  }
  return found.toReversed();
}

/**
 * The thread of an agent's line: that of the newest message given to agents before the line. For the line `null`, the
 * thread of the next text. Returns `null` for the channel itself, also when an exchange closed between message and
 * line, except at a limit.
 */
export function threadOf(
  newest: Iterable<Pick<JournalEntry, 'fact'>>,
  line: number | null,
  messages: MessageReader<Pick<InboxRow, 'thread'>>,
): ChannelId | null {
  let isBefore = line === null;
  for (const { fact } of newest) {
    if (isBefore) {
      const messageId = messagesGivenBy(fact).at(-1);
      if (messageId !== undefined) return messages.message(messageId)?.thread ?? null;
      if (fact.type === 'exchangeClosed' && fact.reason !== 'limit') return null;
    }
    isBefore ||= fact.type === 'said' && fact.line === line;
  }
  return null;
}

/** Whether the agents that need a session in the channel may have changed with a fact. */
export function changesSeats(fact: Fact): boolean {
  const { type } = fact;
  if (type === 'seatMarked') return fact.mark === 'disabled';
  return type === 'configured' || type === 'seatCreated' || (type === 'disconnected' && fact.restart);
}

/** The messages that a fact gives to an agent to answer. */
export function messagesGivenBy(fact: Fact): readonly MessageId[] {
  switch (fact.type) {
    case 'turnGranted':
    case 'turnResumed':
    case 'turnContinued':
      return fact.messages;
    case 'messageRouted':
      return fact.fate.state === 'delivered' && fact.fate.via === 'inject' ? [fact.id] : [];
    default:
      return [];
  }
}

function lineOf({ fact, at }: JournalEntry, messages: MessageReader): Line | null {
  if (fact.type === 'said' || fact.type === 'reported') {
    const author = { kind: 'agent', id: fact.agent, name: fact.agent } as const;
    const mark = fact.type === 'reported' ? { aside: true as const } : {};
    return { line: fact.line, at, author, text: fact.text, attachments: [], message: null, change: null, ...mark };
  }
  if (fact.type !== 'messageRouted' && fact.type !== 'messageAmended') return null;
  const message = messages.message(fact.id);
  if (message === null || fact.line === null) return null;
  const { author, deleted, text, attachments } = message;
  return {
    line: fact.line,
    at: fact.type === 'messageRouted' ? message.sentAt : at,
    author: { kind: 'person', ...author },
    text: deleted ? '' : text,
    attachments: deleted ? [] : attachments,
    message: fact.id,
    change: deleted ? 'deleted' : fact.type === 'messageAmended' ? fact.change : null,
  };
}
