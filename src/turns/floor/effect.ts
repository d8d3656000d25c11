import type { Announcement, PromptReason } from './fact.ts';
import type { AgentId, MessageId, Choice } from './settings.ts';

/** The reactions that tell a person what became of a message. */
export const RECEIPTS = {
  injected: '↪️',
  held: '👀',
  preempted: '⚡',
  observed: '👁️',
  done: '✅',
  unrouted: '⚠️',
} as const;
export type Receipt = keyof typeof RECEIPTS;

/** What the world must learn. Each becomes a row of the outbox, owed until it is done. */
export type Effect =
  /** Prompt the holder with the lines after `afterLine` up to `uptoLine`, and with these messages. */
  | {
      readonly type: 'prompt';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly reason: PromptReason;
      readonly afterLine: number;
      readonly uptoLine: number;
      readonly messages: readonly MessageId[];
      /** Of these, the ones that an earlier prompt of the turn held and no generation has answered. */
      readonly open: readonly MessageId[];
    }
  | {
      readonly type: 'inject';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly message: MessageId;
      readonly observed: boolean;
      readonly change?: 'edited' | 'deleted';
    }
  /** A message passed to an online agent that does not hold the floor. */
  | { readonly type: 'observe'; readonly agent: AgentId; readonly message: MessageId }
  /** Stop what this epoch generates; `graceMs` 0 is by force. */
  | { readonly type: 'interrupt'; readonly agent: AgentId; readonly epoch: number; readonly graceMs: number }
  /** The answer to the question with this number, which the holder asked under this epoch. */
  | {
      readonly type: 'decision';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly question: number;
      readonly choice: Choice;
    }
  /** Stands behind a question's text in the same lane: once it is reached, all of the text stands in the channel. */
  | { readonly type: 'offer'; readonly question: number }
  /** Ask the facilitator who is next. */
  | { readonly type: 'ask'; readonly agent: AgentId; readonly ask: number; readonly candidates: readonly AgentId[] }
  /** Prompts, injections of this agent with this epoch or an older one that are still owed must not be sent any more. */
  | { readonly type: 'cancel'; readonly agent: AgentId; readonly epoch: number }
  | {
      readonly type: 'post';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly line: number;
      readonly text: string;
    }
  /** `repeat` 2 and more: edit the announcement with this key, which stands last in the channel. */
  | { readonly type: 'announce'; readonly announcement: Announcement; readonly key: string; readonly repeat: number }
  | { readonly type: 'receipt'; readonly message: MessageId; readonly receipt: Receipt };
