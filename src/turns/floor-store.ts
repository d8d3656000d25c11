import { randomBytes } from 'node:crypto';
import type { CommandResult, Machine } from '../engine/machine.ts';
import type { Cancel, NewEntry, LedgerEntry, MachineUses, KnownMessages } from '../engine/machine-uses.ts';
import type { Lease, OutboxEntry } from '../engine/port.ts';
import type { Keeper } from '../engine/sqlite/keeper.ts';
import type { openDatabase } from '../engine/sqlite/open.ts';
import { openSqliteStore, SqliteStore } from '../engine/sqlite/sqlite.ts';
import type { StoreOptions } from '../engine/sqlite/sqlite.ts';
import type { Instant } from '../lib/time.ts';
import { isFloorCommand } from './floor/command.ts';
import type { Command } from './floor/command.ts';
import type { Refusal } from './floor/refusals.ts';
import { decide } from './floor/decide.ts';
import type { Decision } from './floor/decide.ts';
import { evolve } from './floor/evolve.ts';
import { factSchema } from './floor/fact.ts';
import type { Fact } from './floor/fact.ts';
import { emptyFloor, floorSchema } from './floor/floor.ts';
import type { Floor } from './floor/floor.ts';
import { react } from './floor/react.ts';
import type { Effect } from './floor/react.ts';
import { nextDeadline } from './floor/seats.ts';
import { pricedMicros } from './floor/gate.ts';
import type { ChannelId, MessageId, ModelUse } from './floor/settings.ts';
import { restOf } from './channel-plan.ts';
import { FLOOR_TEXTS } from './requesters.ts';
import { postTextsOf } from './text/split.ts';
import type { TextRendering } from './text/split.ts';
import { linesOf, threadOf } from './view.ts';
import type { InboxRow, JournalEntry, Line } from './view.ts';

/**
 * How far epochs and request numbers rise when a backup is restored. A floor is assumed to use fewer between the backup
 * and the restore.
 */
export const RESTORE_JUMP = 1_000_000;

/** The state machine of floors. Its key is the channel. */
export const floorMachine = {
  name: 'floor',
  channelOf: (key: string) => key,
  version: 1,
  empty: emptyFloor,
  decide: decideFloor,
  evolve,
  react,
  nextDeadline,
  rest: restOf,
  state: floorSchema,
  fact: factSchema,
  isCommand: isFloorCommand,
  texts: FLOOR_TEXTS,
  restored: { type: 'raiseEpoch', by: RESTORE_JUMP },
  ledger: ledgerEntryOf,
  configs: {
    state: ['settings', 'configured.settings', 'configured.seats'],
    facts: {
      configured: ['settings', 'seats', 'configuration.settings', 'configuration.seats'],
      settingsChanged: ['settings'],
    },
  },
} satisfies Machine<Floor, Command, Fact, Effect, Refusal>;

/** The type of the floor machine. Tests use copies with planted bugs. */
export type FloorMachine = typeof floorMachine;

/** The result of a command to a floor. */
export type Applied = CommandResult<Floor, Fact, Effect, Refusal>;

/**
 * An outbox entry of a floor. Its lane is `posts`, `receipts`, `after:posts`, `agent:<id>`, or `interrupt:<id>`, which
 * overtakes the agent's lane.
 */
export type OutboxRow = OutboxEntry<Effect>;

type FloorUsesOptions = TextRendering & { readonly questionKeys?: () => string };

function newQuestionKey(): string {
  return randomBytes(QUESTION_KEY_BYTES).toString('base64url');
}

/** Bytes of a question's key. With a command of 80 letters it fits into a Discord button id of 100 characters. */
const QUESTION_KEY_BYTES = 8;

/** Returns how the floor machine uses the inbox and the outbox. */
export function floorUses({
  questionKeys = newQuestionKey,
  ...rendering
}: FloorUsesOptions): MachineUses<Command, Fact, Effect, Refusal> {
  return {
    stamp: (command) => {
      const asks = command.type === 'request' || command.type === 'askAside';
      return asks && command.key === undefined ? { ...command, key: questionKeys() } : command;
    },
    inbox: { refusal: refusalOf, fate: fateOf },
    outbox: { entries: (channel, effect) => outboxEntriesOf(channel, effect, rendering) },
  };
}

function messagesOf(fact: Fact): readonly MessageId[] {
  switch (fact.type) {
    case 'messageRouted':
    case 'messageAmended':
    case 'injectReported':
      return [fact.id];
    case 'prioritised':
      return fact.message === undefined ? [] : [fact.message];
    case 'turnEnded':
      return [...fact.answered, ...fact.returned, ...(fact.cut ?? [])];
    case 'waitAnswered':
      return fact.messages.map(({ id }) => id);
    default:
      return 'messages' in fact ? fact.messages : [];
  }
}

/** Returns the effect of a stored outbox entry. A post gets the entry's text. */
export function effectOf(stored: unknown, text: string | null): Effect {
  const effect = stored as Effect;
  return effect.type === 'post' ? { ...effect, text: text ?? '' } : effect;
}

/** Options of a store with floors. `machine`: default is the floor machine. */
export type FloorStoreOptions = StoreOptions & FloorUsesOptions & { readonly machine?: FloorMachine };

/**
 * Opens the store and locks its file for this process. Throws a `StoreError` that says what to do, such as
 * when another process has the file, or its schema is newer. A newer schema is refused before any write.
 */
export function openFloorStore(options: FloorStoreOptions): FloorStore {
  return openSqliteStore(options, (db) => new FloorStore(db, options));
}

/** The store with floors. A floor's key is its channel. */
export class FloorStore extends SqliteStore {
  readonly floors: Keeper<Floor, Command, Fact, Effect, Refusal>;

  /** `db` comes from `openDatabase`; the store closes it. */
  constructor(db: ReturnType<typeof openDatabase>, { machine = floorMachine, ...options }: FloorStoreOptions) {
    super(db, options);
    this.floors = this.host(machine, floorUses(options));
  }

  override async lease(limit: number, at: Instant): Promise<Lease<Effect>> {
    const { rows, next } = await super.lease(limit, at);
    return { rows: rows.map((row) => ({ ...row, effect: effectOf(row.effect, row.text) })), next };
  }

  override message(id: MessageId): InboxRow | null {
    return super.message(id) as InboxRow | null;
  }

  /** The lines with numbers above `after`, up to `upto`, oldest first. */
  lines(channel: ChannelId, after: number, upto: number): readonly Line[] {
    return linesOf(this.floors.newest(channel), { after, upto }, this);
  }

  /** The newest lines of a channel with numbers above `after`, at most `most`, oldest first. */
  lastLines(channel: ChannelId, most: number, after = 0): readonly Line[] {
    const last = this.floors.state(channel)?.lines ?? 0;
    return this.lines(channel, Math.max(after, last - most), last);
  }

  /**
   * The thread of an agent's line; for the line `null`, the thread of the agent's next text. Returns `null` for the
   * channel itself.
   */
  thread(channel: ChannelId, line: number | null): ChannelId | null {
    return threadOf(this.floors.newest(channel), line, this);
  }

  /** The facts that name a message, oldest first. */
  why(id: MessageId): readonly JournalEntry[] {
    const message = this.message(id);
    if (message === null) return [];
    const found: JournalEntry[] = [];
    for (const entry of this.floors.newest(message.channel, message.since)) {
      if (messagesOf(entry.fact).includes(id)) found.push(entry);
    }
    return found.toReversed();
  }
}

/** The store's methods for texts that other parts of Conch store by name. */
export type StoredTexts = Pick<FloorStore['keyValues'], 'remember' | 'forget' | 'recall' | 'remembered'>;

function ledgerEntryOf(fact: Fact): LedgerEntry | null {
  if (fact.type !== 'spent') return null;
  const { agent, tokens } = fact;
  const costMicros = pricedMicros(fact);
  const {
    requestedBy = null,
    run = null,
    ...usage
  } = fact.use ?? { ...UNKNOWN_USE, source: costMicros === null ? 'unpriced' : 'estimated' };
  return { agent, epoch: fact.epoch || null, tokens, costMicros, requestedBy, run, ...usage };
}

const UNKNOWN_USE: Pick<LedgerEntry, 'backend' | 'model' | 'input' | 'output' | 'cached' | 'outcome' | 'ms'> &
  Pick<ModelUse, 'requestedBy' | 'run'> = {
  backend: null,
  model: null,
  input: null,
  output: null,
  cached: null,
  outcome: null,
  ms: null,
};

function decideFloor(before: Floor, command: Command, at: Instant): Decision & { readonly state?: Floor } {
  const decision = decide(before, command, at);
  return decision.ok ? { ...decision, state: decision.floor } : decision;
}

function refusalOf(channel: string, command: Command, inbox: KnownMessages): Refusal | null {
  if (command.type !== 'receive' && command.type !== 'edit' && command.type !== 'delete') return null;
  const message = inbox.read(command.id);
  if (message === null || message.channel !== channel) return 'unknown-message';
  return command.type === 'receive' && message.fate !== null ? 'duplicate' : null;
}

function fateOf(fact: Fact): { readonly message: string; readonly fate: unknown } | null {
  return fact.type === 'messageRouted' ? { message: fact.id, fate: fact.fate } : null;
}

function outboxEntriesOf(channel: ChannelId, effect: Effect, rendering: TextRendering): readonly (NewEntry | Cancel)[] {
  if (effect.type === 'cancel') {
    return [
      { type: 'cancel', channel, lane: `agent:${effect.agent}`, kinds: ['prompt', 'inject'], upto: effect.epoch },
    ];
  }
  const entry: NewEntry = {
    type: 'add',
    lasting: isForPlatform(effect),
    channel,
    lane: laneOf(effect),
    effect: effect.type === 'post' ? { ...effect, text: '' } : effect,
    ...postTextsOf(channel, effect, rendering),
    kind: effect.type,
    epoch: 'epoch' in effect ? (effect.epoch ?? null) : null,
  };
  return [entry];
}

type OutboxEffect = Exclude<Effect, { readonly type: 'cancel' }>;

/**
 * Whether a platform delivers an effect. Effects for agents are not stored: after a start, the floor resumes its turn
 * and prompts anew.
 */
export function isForPlatform({ type }: Effect): boolean {
  return type === 'post' || type === 'announce' || type === 'offer' || type === 'offerTrust' || type === 'receipt';
}

function laneOf(effect: OutboxEffect): string {
  switch (effect.type) {
    case 'post':
    case 'announce':
    case 'offer':
    case 'offerTrust':
      return 'posts';
    case 'receipt':
      return effect.epoch === undefined ? 'receipts' : 'after:posts';
    case 'interrupt':
      return `interrupt:${effect.agent}`;
    case 'prompt':
    case 'inject':
    case 'observe':
    case 'ask':
      return `agent:${effect.agent}`;
  }
}
