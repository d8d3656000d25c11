import { z } from 'zod';
import type { Receipt } from '../../turns/floor/react.ts';
import type { Announcement } from '../../turns/floor/announcement.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { OpenRequest } from '../../turns/floor/seats.ts';
import type { Instant } from '../../lib/time.ts';
import { CALL_ENDINGS, isDecision } from '../../turns/tool-calls.ts';
import type { Answer } from '../../turns/commands/context.ts';
import type { AuditRow, AuditStanding, CallDecision } from '../../turns/tool-calls.ts';
import type { FloorView, JournalEntry, Outlook, TurnRecord } from '../../turns/view.ts';

/** The longest text of one message, in UTF-16 units. */
export const LONGEST_TEXT = 16_000;
/** The longest command line, in UTF-16 units. */
export const LINE_LIMIT = 2_000;

const channel = z.string().min(1).max(200);
const key = z.uuid();
const id = z.string().min(1).max(200);
const text = z
  .string()
  .max(LONGEST_TEXT, `The message is longer than ${LONGEST_TEXT.toLocaleString('en')} characters. Nothing was sent.`)
  .refine((value) => value.trim() !== '', 'The message is empty. Nothing was sent.');

const decision = z.custom<CallDecision | 'people'>(
  (value) => value === 'people' || (typeof value === 'string' && isDecision(value)),
);

/** Which tool calls somebody wants to see; what is left out is not asked about. */
export const auditWantedSchema = z.strictObject({
  channel: channel.optional(),
  agent: id.optional(),
  decision: decision.optional(),
  outcome: z.enum(CALL_ENDINGS).optional(),
  tool: z.string().min(1).max(200).optional(),
  since: z.coerce.number().optional(),
});

/** What a page may send. `key` is made by the page: a second frame with the same key is the first one. */
export const pageFrameSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('open'), channel: channel.nullable() }),
  z.strictObject({ type: z.literal('say'), channel, key, text, replyTo: id.nullish() }),
  z.strictObject({ type: z.literal('edit'), channel, key, id, text }),
  z.strictObject({ type: z.literal('delete'), channel, key, id }),
  z.strictObject({
    type: z.literal('command'),
    channel,
    key,
    line: z.string().min(1).max(LINE_LIMIT, 'The command is too long.'),
    /** The word that a button carries. */
    drawnFor: z.string().max(100).optional(),
  }),
  /** What came before or after a message; `after: 0` is the beginning. */
  z.strictObject({ type: z.literal('history'), channel, before: z.int().optional(), after: z.int().min(0).optional() }),
  z.strictObject({ type: z.literal('watch'), channel, on: z.boolean() }),
  z.strictObject({ type: z.literal('journal'), channel, before: z.int() }),
  /** The newest tool calls that are wanted, and to be told of others; `null`: no more. */
  z.strictObject({ type: z.literal('audit'), wanted: auditWantedSchema.nullable() }),
  /** Further back from where the reading stands. */
  z.strictObject({ type: z.literal('audit-earlier') }),
]);

/** One frame from a page. */
export type PageFrame = z.infer<typeof pageFrameSchema>;

/** One message as the page shows it. */
export type ChatMessage = {
  readonly id: string;
  /** Grows from message to message of one channel. */
  readonly seq: number;
  readonly kind: 'person' | 'agent' | 'system';
  readonly speaker: { readonly id: string; readonly name: string; readonly avatar: string | null };
  readonly text: string;
  /** The turn in which an agent said it. */
  readonly epoch: number | null;
  readonly sentAt: Instant;
  readonly edited: boolean;
  readonly deleted: boolean;
  readonly receipts: readonly Receipt[];
  readonly replyTo: string | null;
  /** Which question it is, or a part of it, also when that is answered: `approval:3`; `null` for all else. */
  readonly asks: string | null;
  /** The key that the page sent it with; `null` for what others said. */
  readonly key: string | null;
};

/** Text that an agent is still generating. */
export type ShownDraft = {
  readonly agent: AgentId;
  readonly name: string;
  readonly epoch: number;
  readonly text: string;
};

/** A channel as the list shows it; `writable` is false for windows into other platforms. */
export type ChannelEntry = {
  readonly id: ChannelId;
  readonly name: string;
  readonly writable: boolean;
  readonly holder: AgentId | null;
  /** What is asked there first, and by whom. */
  readonly question: OpenRequest | null;
};

/** An agent as the page shows it. */
export type AgentEntry = {
  readonly id: AgentId;
  readonly name: string;
  readonly avatar: string | null;
  readonly description: string;
};

/** What became of a request for permission. */
export type AnsweredQuestion = Extract<Announcement, { kind: 'answered' }>;

/**
 * A tool call as the page shows it: people by their names. `key` is unlike that of any other call. `cut`: it is too long for the
 * page, and comes without input and output.
 */
export type ShownCall = AuditRow & { readonly key: string; readonly cut?: true };

/** The floor of the open channel. */
export type FloorNow = {
  readonly view: FloorView | null;
  /** What would become of a message that is written now. */
  readonly outlook: Outlook | null;
  readonly turns: readonly TurnRecord[];
  /** The answered requests of the newest stretch of the journal, oldest first. */
  readonly answered: readonly AnsweredQuestion[];
};

/** Everything that the page shows beside lists that it pages through. A frame carries what has changed. */
export type PageState = FloorNow & {
  readonly person: { readonly id: string; readonly name: string };
  readonly channels: readonly ChannelEntry[];
  readonly agents: readonly AgentEntry[];
  /** The open channel; `null`: there is none. */
  readonly channel: ChannelId | null;
  readonly drafts: readonly ShownDraft[];
};

/** What the server sends. `now` is the server's clock: the page counts down from it. */
export type ServerFrame =
  /** Everything that the page needs for one channel; the answer to `open`. */
  | (PageState & {
      readonly type: 'state';
      readonly now: Instant;
      readonly messages: readonly ChatMessage[];
      /** Older messages exist. */
      readonly more: boolean;
    })
  /** What happened in the open channel since the last frame. */
  | (Partial<PageState> & {
      readonly type: 'batch';
      readonly now: Instant;
      readonly channel: ChannelId;
      readonly messages: readonly ChatMessage[];
      readonly changed: readonly ChatMessage[];
    })
  /** The holder or the open request of these channels changed. */
  | { readonly type: 'holders'; readonly channels: readonly ChannelEntry[] }
  /** Channels or agents were added, removed or renamed. */
  | ({ readonly type: 'channels' } & Pick<PageState, 'channels' | 'agents'>)
  /** Something was said in a channel that is not open. */
  | { readonly type: 'activity'; readonly channel: ChannelId; readonly count: number }
  | {
      readonly type: 'history';
      readonly channel: ChannelId;
      /** `beginning` replaces what the page has, `before` and `after` extend it. */
      readonly direction: 'before' | 'after' | 'beginning';
      readonly messages: readonly ChatMessage[];
      readonly more: boolean;
    }
  | {
      readonly type: 'journal';
      readonly channel: ChannelId;
      /** `newest` replaces what the page has, `later` and `earlier` extend it. */
      readonly part: 'newest' | 'later' | 'earlier';
      readonly entries: readonly JournalEntry[];
      readonly more: boolean;
    }
  | ({
      readonly type: 'audit';
      /** `newest` replaces what the page has, `earlier` extends it, `changed` replaces single calls and adds new ones. */
      readonly part: 'newest' | 'earlier' | 'changed';
      readonly rows: readonly ShownCall[];
      /** The keys of changed calls that are not wanted any more. */
      readonly gone: readonly string[];
      /** Earlier ones may exist; not said with `changed`. */
      readonly more: boolean;
      /** With all that was asked for since then the reading has been through. */
      readonly upto: Instant | null;
    } & Partial<AuditStanding>)
  /** What the page sent under this key is durable. */
  | { readonly type: 'accepted'; readonly key: string; readonly id: string }
  /** What the page sent (under this key, if it could be read) was not taken, and why. */
  | { readonly type: 'refused'; readonly key: string | null; readonly text: string }
  | ({ readonly type: 'answer'; readonly key: string } & Answer)
  /** A word to the person that is no message. */
  | { readonly type: 'notice'; readonly text: string }
  | { readonly type: 'beat'; readonly now: Instant };
