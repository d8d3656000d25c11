import { z } from 'zod';
import type { Cancel, CommandResult, Debt, KnownMessage, Machine, MachineUses } from '../engine/machine.ts';
import type { OwedEffect, StoredFact, StoredMessage } from '../engine/port.ts';
import type { Command, Refusal } from './floor/command.ts';
import { nextDeadline } from './floor/seats.ts';
import { decide } from './floor/decide.ts';
import type { Effect } from './floor/react.ts';
import { evolve } from './floor/evolve.ts';
import type { Announcement, Fact, Fate } from './floor/fact.ts';
import { emptyFloor, floorSchema } from './floor/floor.ts';
import type { Floor } from './floor/floor.ts';
import { react } from './floor/react.ts';
import { formerFloor } from './former-floors.ts';
import type { ChannelId, MessageId } from './floor/settings.ts';
import { splitText } from './text/split.ts';

/** The floor as shipped. Its key is the channel. What a stored fact holds is checked where it is folded. */
export const floorMachine = {
  name: 'floor',
  version: 1,
  empty: emptyFloor,
  decide,
  evolve,
  react,
  nextDeadline,
  state: floorSchema,
  fact: z.custom<Fact>((stored) => typeof stored === 'object' && stored !== null && 'type' in stored),
  upcast: { state: formerFloor, fact: unread },
} satisfies Machine<Floor, Command, Fact, Effect, Refusal>;

/** Version 0 is what floors were before they had a version: only their states were taken over. */
function unread(_stored: unknown, version: number): never {
  throw new Error(`a floor's facts of version ${version} are not read`);
}

/** A floor as the engine hosts it; tests may plant bugs in copies of it. */
export type FloorMachine = typeof floorMachine;

/** The answer to one command for a floor. */
export type Applied = CommandResult<Floor, Fact, Effect, Refusal>;

/** A message of a person with what became of it. */
export type InboxRow = StoredMessage<Fate>;

/** One fact of a channel's journal; its key is the channel. */
export type JournalEntry = StoredFact<Fact>;

/** Something that a floor owes to its platform or to an agent: in the lane `posts`, `receipts`, `agent:<id>`, or `interrupt:<id>`, which overtakes what its agent is owed. */
export type OutboxRow = OwedEffect<Effect>;

/** How texts become posts. */
export type TextRendering = {
  /** The longest text of one post in a channel, in UTF-16 units. */
  readonly textLimit: (channel: ChannelId) => number;
  /** What an agent says or asks beyond this length stays one post, to be shown as a file; without it, or `null`, all is split. */
  readonly fileAbove?: (channel: ChannelId) => number | null;
  /** The text of an announcement; `null` when the configuration switches it off. */
  readonly words: (announcement: Announcement, channel: ChannelId, repeat: number) => string | null;
};

/** By how much a restore raises every epoch: more turns than any floor can have granted since the copy was made. */
export const RESTORE_JUMP = 1_000_000;

/** What a floor uses of its store: which messages it may be given, and what its effects owe. */
export function floorUses(rendering: TextRendering): MachineUses<Command, Fact, Effect, Refusal> {
  return {
    inbox: { refusal: refusalOf, fate: fateOf },
    outbox: { owes: (channel, effect) => owedBy(channel, effect, rendering) },
    restored: { type: 'raiseEpoch', by: RESTORE_JUMP },
  };
}

/** The messages that a fact names, each once. */
export function messagesOf(fact: Fact): readonly MessageId[] {
  const named = [
    ...('id' in fact ? [fact.id] : []),
    ...('messages' in fact ? fact.messages : []),
    ...('answered' in fact ? fact.answered : []),
  ];
  return [...new Set(named.map((message) => (typeof message === 'string' ? message : message.id)))];
}

/** The effect of a stored row, with the text that the row has. */
export function effectOf(stored: unknown, text: string | null): Effect {
  const effect = stored as Effect;
  return effect.type === 'post' ? { ...effect, text: text ?? '' } : effect;
}

/** A message can be received once, and only in the channel in which it was accepted. */
function refusalOf(channel: string, command: Command, read: (id: string) => KnownMessage | null): Refusal | null {
  if (command.type !== 'receive' && command.type !== 'edit' && command.type !== 'delete') return null;
  const message = read(command.id);
  if (message === null || message.channel !== channel) return 'unknown-message';
  return command.type === 'receive' && message.fate !== null ? 'duplicate' : null;
}

function fateOf(fact: Fact): { readonly message: string; readonly fate: unknown } | null {
  return fact.type === 'messageRouted' ? { message: fact.id, fate: fact.fate } : null;
}

function owedBy(channel: ChannelId, effect: Effect, rendering: TextRendering): readonly (Debt | Cancel)[] {
  if (effect.type === 'cancel') {
    return [
      { type: 'cancel', channel, lane: `agent:${effect.agent}`, kinds: ['prompt', 'inject'], upto: effect.epoch },
    ];
  }
  const debt: Debt = {
    type: 'owe',
    lasting: isForPlatform(effect),
    channel,
    lane: laneOf(effect),
    effect: effect.type === 'post' ? { ...effect, text: '' } : effect,
    texts: textsOf(channel, effect, rendering),
    key: effect.type === 'announce' ? effect.key : null,
    repeats: effect.type === 'announce' ? effect.repeat : 0,
    kind: effect.type,
    epoch: 'epoch' in effect ? effect.epoch : null,
  };
  return [debt];
}

type Owed = Exclude<Effect, { readonly type: 'cancel' }>;

function textsOf(channel: ChannelId, effect: Owed, rendering: TextRendering): readonly (string | null)[] {
  if (effect.type !== 'post' && effect.type !== 'announce') return [null];
  const text = effect.type === 'post' ? effect.text : rendering.words(effect.announcement, channel, effect.repeat);
  if (text === null) return [];
  const isLong = effect.type === 'post' || effect.announcement.kind === 'approval';
  const whole = isLong ? (rendering.fileAbove?.(channel) ?? null) : null;
  return whole !== null && text.length > whole ? [text] : splitText(text, rendering.textLimit(channel));
}

/** What agents are owed follows from the floor: after a start it resumes what was under way, and prompts for it. */
function isForPlatform({ type }: Owed): boolean {
  return type === 'post' || type === 'announce' || type === 'offer' || type === 'receipt';
}

function laneOf(effect: Owed): string {
  switch (effect.type) {
    case 'post':
    case 'announce':
    case 'offer':
      return 'posts';
    case 'receipt':
      return 'receipts';
    case 'interrupt':
      return `interrupt:${effect.agent}`;
    case 'prompt':
    case 'inject':
    case 'observe':
    case 'ask':
    case 'decision':
      return `agent:${effect.agent}`;
  }
}
