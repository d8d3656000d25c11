import type { InterruptMode, OrderPolicy } from './floor/policies.ts';
import type { Aside, Floor, Status, TrustQuestion } from './floor/floor.ts';
import type { AgentId, ChannelId, MessageId, Question } from './floor/settings.ts';
import type { Instant } from '../lib/time.ts';
import type { Fact, Fate, Outcome } from './floor/fact.ts';
import { endOf, openQuestion, waitOf } from './floor/seats.ts';
import { obstacles, upcoming } from './floor/gate.ts';
import type { Obstacle } from './floor/gate.ts';
import { decide } from './floor/decide.ts';
import type { Attachment, StoredFact, StoredMessage } from '../engine/port.ts';
import { defined } from '../lib/defined.ts';

/** One floor as people see it: plain JSON for cards, the console and `/floor status`. */
export type FloorView = {
  readonly channel: ChannelId;
  /** The id of the store, which the buttons carry. */
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
    /** When it ends by itself: without a further sign of work, or in any case. */
    readonly deadlineAt: Instant | null;
    readonly waitingFor: 'answer' | 'human' | 'approval' | null;
    readonly working: boolean;
    /** What it asks a yes for; operators answer with /allow or /reject and its number. */
    readonly approval: Question | null;
  } | null;
  readonly seats: readonly {
    readonly agent: AgentId;
    readonly status: Status;
    readonly disabled: boolean;
    readonly waitUntil: Instant | null;
  }[];
  /** Who is next, in the order in which the policy would grant now. */
  readonly next: readonly AgentId[];
  readonly held: readonly MessageId[];
  /** Who works beside the floor, which run of that seat it is, and what it asks until when; absent when nobody does. */
  readonly asides?: readonly Aside[];
  /** Agents that are not started, and the files about which people are asked; absent when there are none. */
  readonly trust?: readonly TrustQuestion[];
  /** Agent turns since the last human message, of how many. */
  readonly turns: { readonly used: number; readonly allowed: number } | null;
  /** Everything for which nobody is granted the floor now, what outlasts the rest first; with nothing, whoever is next may have it. */
  readonly obstacles: readonly Obstacle[];
};

/** One turn of the past or present, for the time line. */
export type TurnRecord = {
  readonly epoch: number;
  readonly agent: AgentId;
  readonly startedAt: Instant;
  readonly endedAt: Instant | null;
  readonly outcome: Outcome | null;
  readonly said: number;
  readonly waits: readonly { readonly reason: string; readonly at: Instant; readonly endedAt: Instant | null }[];
};

/** What people see at an instant of a floor of this store. */
export function viewOf(floor: Floor, at: Instant, store: string): FloorView {
  const { turn, settings } = floor;
  const waits = new Map(
    [turn, ...floor.parked].flatMap((open) => (open?.status === 'waiting' ? [[open.agent, open.wait.deadlineAt]] : [])),
  );
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
      waitUntil: waits.get(agent) ?? null,
    })),
    next: upcoming(floor),
    held: floor.held.map(({ id }) => id),
    ...defined({ asides: floor.asides, trust: floor.trust }),
    turns: floor.exchange === null ? null : { used: floor.usageSincePerson.turns, allowed: settings.maxTurns },
    obstacles: obstacles(floor, at),
  };
}

/** The turns that a stretch of the journal tells of, oldest first; one that began before it is left out. */
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
    records.set(record.epoch, told(record, fact, at));
    if (fact.type === 'turnEnded') open.delete(fact.agent);
  }
  return [...records.values()];
}

function told(record: TurnRecord, fact: Fact, at: Instant): TurnRecord {
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

/** Who has the floor, as people see it. */
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

/** What would become of a person's message that came now: one that names nobody, and one that names a seated agent. */
export type Outlook = { readonly unaddressed: Fate; readonly addressed: Readonly<Record<AgentId, Fate>> };

/** Decides it as the message itself would be decided, and changes nothing. */
export function outlookOf(floor: Floor, at: Instant): Outlook {
  return {
    unaddressed: fateOf(floor, [], at),
    addressed: Object.fromEntries(floor.seats.map(({ agent }) => [agent, fateOf(floor, [agent], at)])),
  };
}

/** No platform gives such an id, and in every platform's order it comes last. */
const IMAGINED = '\uFFFF';

function fateOf(floor: Floor, addressed: readonly AgentId[], at: Instant): Fate {
  const decision = decide(floor, { type: 'receive', id: IMAGINED, addressed, order: IMAGINED }, at);
  const facts = decision.ok ? decision.facts : [];
  const routed = facts.findLast((fact) => fact.type === 'messageRouted' && fact.id === IMAGINED);
  if (routed?.type !== 'messageRouted') throw new Error(`impossible: a message has no fate in ${floor.channel}`);
  return routed.fate;
}

/** A message of a person with what became of it. */
export type InboxRow = StoredMessage<Fate>;

/** One fact of a channel's journal; its key is the channel. */
export type JournalEntry = StoredFact<Fact>;

/** One line of a conversation as agents are given it. */
export type Line = {
  readonly line: number;
  readonly at: Instant;
  /** It was written beside the floor. */
  readonly aside?: true;
  readonly author: { readonly kind: 'person' | 'agent'; readonly id: string; readonly name: string };
  readonly text: string;
  readonly attachments: readonly Attachment[];
  /** Set on lines of people. */
  readonly message: MessageId | null;
  readonly change: 'edited' | 'deleted' | null;
};

/** Finds a person's message in its latest wording. */
export type MessageReader<Row = InboxRow> = { message(id: MessageId): Row | null };

/**
 * The lines after one and up to another that a journal holds, with the latest wording of people's messages; `newest` is read only
 * as far back as they reach. A deleted message has no text any more. The name of an agent is its id: names belong to the configuration.
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
 * Where an agent's line belongs: in the thread of the newest message that an agent was given before it in the same exchange. Without a
 * line it is what will be said next; `null` is the channel itself.
 */
export function threadOf(
  newest: Iterable<Pick<JournalEntry, 'fact'>>,
  line: number | null,
  messages: MessageReader<Pick<InboxRow, 'thread'>>,
): ChannelId | null {
  let isBefore = line === null;
  for (const { fact } of newest) {
    if (isBefore) {
      const given = givenBy(fact).at(-1);
      if (given !== undefined) return messages.message(given)?.thread ?? null;
      if (fact.type === 'exchangeClosed' && fact.reason !== 'limit') return null;
    }
    isBefore ||= fact.type === 'said' && fact.line === line;
  }
  return null;
}

/** Whether others may sit at a floor after a fact, or have to come anew: after a start nobody is there. */
export function changesSeats(fact: Fact): boolean {
  const { type } = fact;
  if (type === 'seatMarked') return fact.mark === 'disabled';
  return type === 'configured' || type === 'seatCreated' || (type === 'disconnected' && fact.restart);
}

/** The messages that an agent is given to answer with this fact. */
export function givenBy(fact: Fact): readonly MessageId[] {
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
    const beside = fact.type === 'reported' ? { aside: true as const } : {};
    return { line: fact.line, at, author, text: fact.text, attachments: [], message: null, change: null, ...beside };
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
