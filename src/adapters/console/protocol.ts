import { z } from 'zod';
import type { Receipt } from '../../turns/floor/react.ts';
import type { Announcement } from '../../turns/floor/announcement.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { OpenRequest } from '../../turns/floor/seats.ts';
import type { Instant } from '../../lib/time.ts';
import { CALL_ENDINGS, isDecision } from '../../turns/tool-calls.ts';
import type { CrewAsk } from '../../turns/crew-view.ts';
import type { Answer } from '../../turns/commands/context.ts';
import type { AuditRow, AuditStanding, CallDecision } from '../../turns/tool-calls.ts';
import type { FloorView, JournalEntry, DeliveryPreview, ReviewView, TurnRecord } from '../../turns/view.ts';
import type { FloorQueries } from '../port.ts';

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

/** Filters of tool calls; all are optional. */
export const auditWantedSchema = z.strictObject({
  channel: channel.optional(),
  agent: id.optional(),
  decision: decision.optional(),
  outcome: z.enum(CALL_ENDINGS).optional(),
  tool: z.string().min(1).max(200).optional(),
  since: z.coerce.number().optional(),
});

/**
 * Frames that a page can send. The server's answer repeats the frame's `key`. A second `say` with the same key adds no
 * message.
 */
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
    drawnFor: z.string().max(100).optional(),
  }),
  /** Asks for messages before or after a seq; `after: 0` asks for the channel's oldest messages. */
  z.strictObject({ type: z.literal('history'), channel, before: z.int().optional(), after: z.int().min(0).optional() }),
  z.strictObject({ type: z.literal('watch'), channel, on: z.boolean() }),
  z.strictObject({ type: z.literal('journal'), channel, before: z.int() }),
  /** Asks for the newest matching tool calls, and to be told of changes from then on; `null` ends this. */
  z.strictObject({ type: z.literal('audit'), wanted: auditWantedSchema.nullable() }),
  z.strictObject({ type: z.literal('audit-earlier') }),
]);

/** One frame from a page. */
export type PageFrame = z.infer<typeof pageFrameSchema>;

/** One message as the page shows it. */
export type ChatMessage = {
  readonly id: string;
  /** Grows within a channel. */
  readonly seq: number;
  readonly kind: 'person' | 'agent' | 'system';
  readonly speaker: { readonly id: string; readonly name: string; readonly avatar: string | null };
  readonly text: string;
  /**
   * Epoch of the turn in which an agent wrote the message; 0 for a background run. `null` for other authors, and in
   * channels of other platforms.
   */
  readonly epoch: number | null;
  readonly sentAt: Instant;
  readonly edited: boolean;
  readonly deleted: boolean;
  readonly receipts: readonly Receipt[];
  readonly replyTo: string | null;
  /** Id of the question that this message shows, open or answered: `approval:3`. `null` for other messages. */
  readonly asks: string | null;
  /** Key under which a page sent the message; `null` for messages that no page sent. */
  readonly key: string | null;
};

/** Text that an agent is still generating. */
export type ShownDraft = {
  readonly agent: AgentId;
  readonly epoch: number;
  readonly text: string;
};

/** A channel in the list of channels. `writable` is false for other platforms' channels and for finished threads. */
export type ChannelEntry = {
  readonly id: ChannelId;
  readonly name: string;
  readonly writable: boolean;
  readonly holder: AgentId | null;
  /** The first open question in the channel; `null` for none. */
  readonly question: OpenRequest | null;
  /** The workers of the channel's crew that ask people; absent for a channel without a crew. */
  readonly crew?: readonly CrewAsk[];
  /** Set for a thread whose ticket is finished. */
  readonly past?: true;
};

/** An agent as the page shows it. */
export type AgentEntry = ReturnType<FloorQueries['agents']>[number];

/** How a request was decided or closed. */
export type AnsweredQuestion = Extract<Announcement, { kind: 'answered' }>;

/**
 * A tool call as the page shows it, with people's names instead of ids. `key` is unique among calls. `cut`: input and
 * output are left out, because the call is too long.
 */
export type ShownCall = AuditRow & { readonly key: string; readonly cut?: true };

/** The floor of the channel that the page shows. */
export type FloorNow = {
  readonly view: FloorView | null;
  /** Delivery preview: where a message written now would go, and which commands would have an effect now. */
  readonly outlook: DeliveryPreview | null;
  /** The channel's open review, or else the last one; `null`: there was none. */
  readonly review: ReviewView | null;
  readonly turns: readonly TurnRecord[];
  /** The requests that were decided or closed, as far back as the newest journal entries tell. */
  readonly answered: readonly AnsweredQuestion[];
};

/** The state of a page, without messages, journal and tool calls. A `batch` frame carries only some of its keys. */
export type PageState = FloorNow & {
  readonly person: { readonly id: string };
  readonly channels: readonly ChannelEntry[];
  readonly agents: readonly AgentEntry[];
  /** The channel that the page shows; `null`: there is none. */
  readonly channel: ChannelId | null;
  readonly drafts: readonly ShownDraft[];
};

/** Frames that the server sends. `now` is the server's clock, for countdowns on the page. */
export type ServerFrame =
  /** Answer to `open`: the whole state for one channel. */
  | (PageState & {
      readonly type: 'state';
      readonly now: Instant;
      readonly messages: readonly ChatMessage[];
      readonly more: boolean;
    })
  /** Changes in the channel that the page shows, since the last frame. */
  | (Partial<PageState> & {
      readonly type: 'batch';
      readonly now: Instant;
      readonly channel: ChannelId;
      readonly messages: readonly ChatMessage[];
      readonly changed: readonly ChatMessage[];
    })
  /** The holder, the first open question or the asking workers of these channels changed. */
  | { readonly type: 'holders'; readonly channels: readonly ChannelEntry[] }
  /** All channels and agents. */
  | ({ readonly type: 'channels' } & Pick<PageState, 'channels' | 'agents'>)
  /** Number of new messages in a channel that the page does not show. */
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
      /** `newest` replaces all calls of the page, `earlier` adds older calls, `changed` replaces or adds some calls. */
      readonly part: 'newest' | 'earlier' | 'changed';
      readonly rows: readonly ShownCall[];
      /** The keys of changed calls that do not match the page's filter. */
      readonly removed: readonly string[];
      /** Whether the server may have older tool calls; always false in a `changed` frame. */
      readonly more: boolean;
      /**
       * The time of the oldest tool call read for this frame. `null` in a `changed` frame, when no older calls are
       * left, and when no call was read.
       */
      readonly upto: Instant | null;
    } & Partial<AuditStanding>)
  /** What the page sent with this key is stored. `id`: the message's id. */
  | { readonly type: 'accepted'; readonly key: string; readonly id: string }
  /** The page's frame was refused or failed; `key` is `null` for a frame without a key. */
  | { readonly type: 'refused'; readonly key: string | null; readonly text: string }
  | ({ readonly type: 'answer'; readonly key: string } & Answer)
  /** A notice to the person. It is not a message of the channel and not stored. */
  | { readonly type: 'notice'; readonly text: string }
  | { readonly type: 'beat'; readonly now: Instant };
