import type { Caller } from './policies.ts';
import type { Trigger } from './seats.ts';
import type { BUDGETS, Floor, Held, Status, Wait } from './floor.ts';
import type { AgentId, Choice, FloorSettings, MessageId, Question, SeatSettings } from './settings.ts';
import type { Instant } from '../../lib/time.ts';
import type { Refusal } from './command.ts';

/** How a turn ended. */
export type Outcome = 'completed' | 'passed' | 'lapsed' | 'expired' | 'forfeited' | 'revoked';

/** Why an agent is prompted now. */
export type PromptReason = 'grant' | 'resume' | 'again';

/** What became of a human message. */
export type Fate =
  /** `to` was given it: with a prompt, in the middle of a turn, or there as something for all to see. */
  | {
      readonly state: 'delivered';
      readonly to: readonly AgentId[];
      readonly via: 'prompt' | 'inject' | 'interrupt' | 'observe';
    }
  | { readonly state: 'held'; readonly until: Held['until'] }
  | { readonly state: 'unrouted'; readonly why: string }
  | { readonly state: 'ignored'; readonly rule: string };

/** Which budget ended an exchange, and its numbers. */
export type Limit = {
  readonly budget: (typeof BUDGETS)[number];
  readonly used: number;
  readonly max: number;
};

/** What people are told, as data; the words are templates of the configuration. */
export type Announcement =
  | { readonly kind: 'timeout'; readonly agent: AgentId }
  | { readonly kind: 'waitTimeout'; readonly agent: AgentId }
  | { readonly kind: 'disconnect'; readonly agent: AgentId; readonly cause: string }
  | { readonly kind: 'nobody' }
  | ({ readonly kind: 'limit' } & Limit)
  | { readonly kind: 'stopped'; readonly agent: AgentId | null; readonly kept: number }
  | { readonly kind: 'recovered'; readonly agent: AgentId }
  | { readonly kind: 'gap'; readonly why: string }
  /** Something that the agent said was refused by the platform for good. */
  | { readonly kind: 'undelivered'; readonly agent: AgentId; readonly why: string }
  | {
      readonly kind: 'approval';
      readonly agent: AgentId;
      readonly question: number;
      readonly title: string;
      readonly detail: string;
    }
  /** A tool needed a yes that nobody could be asked for, so it got a no. */
  | { readonly kind: 'unasked'; readonly agent: AgentId; readonly title: string; readonly why: string };

/** What happened, in the past tense. Folding a channel's facts gives its floor. */
export type Fact =
  | {
      readonly type: 'configured';
      /** What the floor goes by from now on. */
      readonly settings: FloorSettings;
      readonly seats: readonly SeatSettings[];
      /** What the configuration said, kept to find the next one's differences. */
      readonly configuration: { readonly settings: FloorSettings; readonly seats: readonly SeatSettings[] };
    }
  | {
      readonly type: 'settingsChanged';
      readonly settings: FloorSettings;
      /** The queue, if it was ordered. */
      readonly queue?: readonly AgentId[];
      readonly by: string;
    }
  | {
      readonly type: 'seatMoved';
      readonly agent: AgentId;
      readonly from: Status;
      readonly to: Status;
      readonly trigger: Trigger;
      readonly place?: number;
      readonly cause?: string;
    }
  /** Assigned to the channel, disabled by an operator, present: or no longer. */
  | {
      readonly type: 'seatMarked';
      readonly agent: AgentId;
      readonly mark: 'assigned' | 'disabled' | 'present';
      readonly on: boolean;
      readonly by?: string;
    }
  | { readonly type: 'seatDropped'; readonly agent: AgentId }
  /** An operator let in an agent that the configuration does not name here. */
  | { readonly type: 'seatCreated'; readonly seat: SeatSettings; readonly by: string }
  /** Everybody's rounds begin, or begin anew while an exchange is open. */
  | { readonly type: 'exchangeOpened' }
  /**
   * What agents may use without a person is theirs again: a `person` wrote, an `operator` gave the floor, or one allowed
   * `more` after a limit, of the day's budget too if that was it. At `midnight` the limit of a day is over, and nothing else.
   */
  | { readonly type: 'usageReset'; readonly why: 'person' | 'operator' | 'more' | 'midnight'; readonly by?: string }
  | {
      readonly type: 'exchangeClosed';
      readonly reason: 'done' | 'silent' | 'limit' | 'stopped';
      readonly until?: Instant | null;
      readonly budget?: Limit['budget'];
    }
  /** Nothing further is granted, or (`on` is false) it is again. */
  | { readonly type: 'floorPaused'; readonly on: boolean; readonly by: string }
  /** `message` is what called it, to be answered in the turn that it earns. */
  | {
      readonly type: 'prioritised';
      readonly agent: AgentId;
      readonly by: Caller;
      readonly message?: MessageId;
    }
  | {
      readonly type: 'facilitatorAsked';
      readonly facilitator: AgentId;
      readonly ask: number;
      readonly deadlineAt: Instant;
      readonly candidates: readonly AgentId[];
    }
  | {
      readonly type: 'facilitatorAnswered';
      readonly next: AgentId | null;
      readonly why: 'answered' | 'named nobody queued' | 'no answer' | 'left' | 'overtaken';
    }
  | {
      readonly type: 'turnGranted';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly afterLine: number;
      readonly uptoLine: number;
      readonly messages: readonly MessageId[];
      readonly keepsPlace: boolean;
    }
  | {
      readonly type: 'turnContinued';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly afterLine: number;
      readonly uptoLine: number;
      readonly messages: readonly MessageId[];
    }
  | {
      readonly type: 'turnWaited';
      readonly agent: AgentId;
      readonly epoch: number;
      /** What it waits for, and until when; a generation that is interrupted has until `graceEndAt` to stop. */
      readonly wait:
        | { readonly reason: 'answer'; readonly deadlineAt: Instant }
        | { readonly reason: 'human'; readonly deadlineAt: Instant; readonly graceEndAt: Instant }
        | { readonly reason: 'approval'; readonly deadlineAt: Instant; readonly question: Question };
      /** It gives the floor to others meanwhile, and waits without it. */
      readonly parked?: true;
    }
  /** All of the question stands in the channel: from now on it may be allowed. */
  | {
      readonly type: 'questionShown';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly question: number;
    }
  /**
   * Somebody said yes or no, or (`by` is `null`) nobody could be asked, or (`choice` is) the agent no longer asks: the
   * generation goes on, under the same epoch.
   */
  | {
      readonly type: 'questionClosed';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly question: number;
      readonly choice: Choice | null;
      readonly by: string | null;
    }
  /** The generation that was interrupted is over: by itself, or by force. */
  | { readonly type: 'turnStopped'; readonly agent: AgentId; readonly epoch: number; readonly forced: boolean }
  | {
      readonly type: 'waitAnswered';
      readonly agent: AgentId;
      readonly messages: Wait['answers'];
      readonly ready: boolean;
      readonly parked?: true;
    }
  /** It has so much longer for its work, or to wait. */
  | { readonly type: 'turnExtended'; readonly agent: AgentId; readonly ms: number; readonly by: string }
  | {
      readonly type: 'turnResumed';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly afterLine: number;
      readonly uptoLine: number;
      readonly messages: readonly MessageId[];
      /** Of these, the ones that an earlier prompt of this turn held and no generation has answered. */
      readonly open: readonly MessageId[];
      readonly why: 'answered' | 'interrupt' | 'restart' | 'operator';
      /** It goes on with nothing but programs' messages, and so counts as one more turn without a person. */
      readonly fromProgram?: true;
    }
  | {
      readonly type: 'turnEnded';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly outcome: Outcome;
      readonly signalled: boolean;
      readonly said: boolean;
      /** What stood in a prompt whose generation ended by itself: done. */
      readonly answered: readonly MessageId[];
      /** What it was given and said nothing to since: the next one gets it. */
      readonly returned: readonly MessageId[];
      /** What it had begun to answer. */
      readonly cut?: readonly MessageId[];
    }
  | {
      readonly type: 'said';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly line: number;
      readonly text: string;
      readonly mentions: readonly AgentId[];
    }
  | { readonly type: 'worked'; readonly agent: AgentId; readonly epoch: number; readonly open: number }
  | {
      readonly type: 'spent';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly tokens: number;
      readonly costMicros: number;
    }
  /** A message's fate changed; `line` is set when it became part of the conversation with this fact. */
  | {
      readonly type: 'messageRouted';
      readonly id: MessageId;
      readonly fate: Fate;
      readonly line: number | null;
      readonly addressed: readonly AgentId[];
      readonly order: string;
      /** A program wrote it. */
      readonly fromProgram?: true;
      /** Who held the floor, ACTIVE, when it was routed. */
      readonly holder: { readonly agent: AgentId; readonly epoch: number } | null;
    }
  | {
      readonly type: 'injectReported';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly id: MessageId;
      readonly outcome: 'injected' | 'next-prompt' | 'refused' | 'no-room';
    }
  | {
      readonly type: 'messageAmended';
      readonly id: MessageId;
      readonly change: 'edited' | 'deleted';
      readonly line: number | null;
      readonly holder: AgentId | null;
      readonly epoch: number;
    }
  | {
      readonly type: 'announced';
      readonly announcement: Announcement;
      readonly key: string;
      readonly repeat: number;
      readonly shown: boolean;
    }
  /** Epochs jump, so that none is used twice after a backup was restored. */
  | { readonly type: 'epochRaised'; readonly by: number }
  /** The platform cannot be heard, or nothing was for a while: the program started anew, and cut the turn that was open. */
  | { readonly type: 'disconnected'; readonly restart: boolean }
  | { readonly type: 'caughtUp'; readonly gap: string | null }
  /** An agent's act that had no effect, kept for whoever asks why. */
  | {
      readonly type: 'actRefused';
      readonly act: string;
      readonly agent: AgentId;
      readonly epoch: number | null;
      readonly refusal: Refusal;
      /** What was refused, when it was text. */
      readonly text?: string;
    };

/** The facts of some types. */
export type FactOf<T extends Fact['type']> = Extract<Fact, { readonly type: T }>;

/** What becomes of a floor with each fact. */
export type Evolution = {
  readonly [T in Fact['type']]: (floor: Floor, fact: FactOf<T>, at: Instant) => Floor;
};
