import { z } from 'zod';
import type { InterruptMode, OrderPolicy } from './policies.ts';
import type { Instant } from '../../lib/time.ts';
import type {
  AgentId,
  Approval,
  CallEnd,
  Choice,
  Feedback,
  FloorSettings,
  MessageId,
  ModelUse,
  SeatSettings,
} from './settings.ts';

/** Who did it: a platform's user id for a person, or the program itself. */
export type Actor = string;

/** What people do by writing. Text stays in the inbox; the floor needs only ids. */
type PersonCommand =
  | {
      readonly type: 'receive';
      readonly id: MessageId;
      /** Seated agents that the text addresses, in the order in which it names them. */
      readonly addressed: readonly AgentId[];
      /** The platform's sort key; digits of equal length sort as text. */
      readonly order?: string;
      /** Set when the message is not for agents: the rule that says so. It is recorded and goes no further. */
      readonly ignore?: string;
      /** A program wrote it: it goes the way of a person's message, but renews no budget and lifts no stop. */
      readonly fromProgram?: boolean;
    }
  | { readonly type: 'edit'; readonly id: MessageId }
  | { readonly type: 'delete'; readonly id: MessageId };

/** What operators do. `epoch` is the turn that a button was drawn for: an older one is refused. */
export type OperatorCommand =
  | { readonly type: 'stop'; readonly by: Actor; readonly epoch?: number }
  | { readonly type: 'start'; readonly by: Actor }
  /** `feedback`: of the person who has a failed run tried again; it stands in the prompt of the turn. */
  | { readonly type: 'grant'; readonly by: Actor; readonly agent: AgentId; readonly feedback?: Feedback }
  | { readonly type: 'skip'; readonly by: Actor; readonly agent?: AgentId; readonly epoch?: number }
  | { readonly type: 'extend'; readonly by: Actor; readonly ms: number; readonly epoch?: number }
  /** Allows or rejects the question with this number; `key`: and only if it is the question that the button was drawn for. */
  | {
      readonly type: 'decide';
      readonly by: Actor;
      /** Their name, for people. */
      readonly name?: string;
      readonly choice: Choice;
      readonly question: number;
      readonly key?: string;
      /** Why, for its agent to read. */
      readonly reason?: string;
      /** The rule by which the same is allowed from now on. */
      readonly always?: string;
    }
  /** A yes that was remembered is taken back, by whoever has that name: people are told. */
  | {
      readonly type: 'tellRevoked';
      readonly name: string;
      readonly agent: AgentId;
      readonly rule: string;
    }
  | { readonly type: 'pause'; readonly by: Actor; readonly epoch?: number }
  | { readonly type: 'resume'; readonly by: Actor; readonly epoch?: number }
  | { readonly type: 'order'; readonly by: Actor; readonly order: OrderPolicy; readonly queue?: readonly AgentId[] }
  | { readonly type: 'mode'; readonly by: Actor; readonly mode: InterruptMode }
  /** `seat` lets an agent in that the channel's configuration does not name. */
  | { readonly type: 'add'; readonly by: Actor; readonly agent: AgentId; readonly seat?: SeatSettings }
  | { readonly type: 'remove'; readonly by: Actor; readonly agent: AgentId }
  | { readonly type: 'enable'; readonly by: Actor; readonly agent: AgentId }
  | { readonly type: 'disable'; readonly by: Actor; readonly agent: AgentId };

/** Who let a run go on that stood still, or (`completes`) had it end with what is there: an id, and the name for people. */
export type DecidedBeside = { readonly by: Actor; readonly name: string; readonly completes?: true };

/** What an agent's session reports. An `epoch` that is not the holder's is refused and recorded. */
export type AgentCommand =
  | { readonly type: 'join'; readonly agent: AgentId }
  /** `error`: its session failed, by which code, and whether another one is opened by itself. */
  | {
      readonly type: 'leave';
      readonly agent: AgentId;
      readonly cause: string;
      readonly error?: { readonly code: string; readonly recoverable: boolean };
    }
  /** `workedAt`: when its agent last gave a sign of work, for Conch may say by itself what an agent left standing; now unless given. */
  | {
      readonly type: 'say';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly text: string;
      readonly mentions: readonly AgentId[];
      readonly workedAt?: Instant;
    }
  /** A sign of work: `open` is how many tool calls, permissions and streams are open now, `limitMs` when what has begun ends at the latest. */
  | {
      readonly type: 'work';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly open: number;
      readonly limitMs?: number;
    }
  /** What was used; also counted when the turn is over already, for it was spent. */
  | {
      readonly type: 'spend';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly tokens: number;
      readonly costMicros: number;
      readonly use?: ModelUse;
    }
  | {
      readonly type: 'end';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly outcome: 'completed' | 'passed';
      /** Whether the signal or the protocol's own end said so. */
      readonly signalled: boolean;
      readonly handTo?: AgentId;
    }
  /** Waits for an answer of people, or of the agent named: that one has the floor for a turn, and its turn is the answer. */
  | {
      readonly type: 'wait';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly reason: 'answer';
      readonly of?: AgentId;
    }
  /** The holder uses tools: a run goes with its turn from now on, with so many steps at most, and by this person's word. */
  | {
      readonly type: 'use';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly maxTurns?: number;
      readonly requestedBy?: Actor;
      /** The text of the messages that the turn answers. */
      readonly prompt?: string;
      /** The text of the model's first step. */
      readonly output?: string;
    }
  /**
   * A tool of the holder needs a yes; its generation stands still meanwhile. `unaskable` says why nobody can be asked:
   * the request is rejected at once then, and people are told. `key`: the random key of the question, which the store gives.
   */
  | {
      readonly type: 'request';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly approval: Approval;
      readonly unaskable?: string;
      readonly key?: string;
    }
  /** The holder no longer asks what it asks; `decided`: a person said so in another way than by answering. */
  | {
      readonly type: 'withdraw';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly decided?: DecidedBeside;
    }
  /** The truth about one injected message; `no-room`: about one to answer that did not fit into the prompt. */
  | {
      readonly type: 'injected';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly id: MessageId;
      readonly outcome: 'injected' | 'next-prompt' | 'refused' | 'no-room';
    }
  /** The interrupted generation has stopped. */
  | { readonly type: 'interrupted'; readonly agent: AgentId; readonly epoch: number }
  /** The tools of a server that its agent uses are gone, and why, or (`null`) are back: people are told. */
  | { readonly type: 'tellTools'; readonly agent: AgentId; readonly server: string; readonly why: string | null }
  /** A facilitator's answer; `null` when it named nobody. */
  | { readonly type: 'choose'; readonly agent: AgentId; readonly ask: number; readonly next: AgentId | null };

/** What the program does by itself. */
export type SystemCommand =
  | { readonly type: 'configure'; readonly settings: FloorSettings; readonly seats: readonly SeatSettings[] }
  /** The program started: nothing is granted in this channel until `catchUp`. */
  | { readonly type: 'restart' }
  /** The platform cannot be heard: the turn under way goes on, and nothing further is granted until `catchUp`. */
  | { readonly type: 'disconnect' }
  /** This process stood still for so long: that time counts against nobody. */
  | { readonly type: 'standstill'; readonly ms: number }
  /** The platform's history was read, or could not be (`gap` says why). */
  | { readonly type: 'catchUp'; readonly gap?: string }
  /** All of a question stands in the channel, or (`why`) never will: it is rejected then. */
  | { readonly type: 'shown'; readonly question: number; readonly key?: string; readonly why?: string }
  /** The rules refused a tool to an agent: people are told. */
  | { readonly type: 'forbidden'; readonly agent: AgentId; readonly title: string; readonly why: string }
  /** What came of a call of a run that people had allowed. */
  | {
      readonly type: 'ran';
      readonly agent: AgentId;
      readonly approval: string;
      readonly came: CallEnd;
      /** Of its background run. */
      readonly aside?: true;
    }
  /** An agent begins to work beside the floor: it need not have the floor for it, and posts nothing before it has ended. */
  | { readonly type: 'beginAside'; readonly agent: AgentId; readonly run: number; readonly what: string }
  /** People are told what became of such work. */
  | {
      readonly type: 'tellAside';
      readonly agent: AgentId;
      readonly run?: number;
      readonly what: string;
      readonly failed?: true;
    }
  /** It asks people something; until then they may answer. */
  | {
      readonly type: 'askAside';
      readonly agent: AgentId;
      readonly approval: Approval;
      readonly unaskable?: string;
      readonly key?: string;
      readonly until: Instant | null;
    }
  /** It no longer asks, or no longer stands failed. */
  | { readonly type: 'withdrawAside'; readonly agent: AgentId; readonly decided?: DecidedBeside }
  /** An operator has a turn end with what is there: it is completed, and its messages are answered. */
  | { readonly type: 'completeTurn'; readonly agent: AgentId; readonly epoch: number; readonly by: Actor }
  /** It is over. `report`: what its agent says of it, as soon as nobody has the floor. */
  | { readonly type: 'endAside'; readonly agent: AgentId; readonly what: string; readonly report?: string }
  /** An agent is not started: files in its folder act before anybody is asked. People are asked whether these are trusted. */
  | {
      readonly type: 'askTrust';
      readonly agent: AgentId;
      /** Names the files with their contents: other files have another one. */
      readonly id: string;
      readonly folder: string;
      /** The names of the files, what they can do, and how they begin. */
      readonly detail: string;
    }
  /** All of that question stands in the channel. */
  | { readonly type: 'trustShown'; readonly agent: AgentId; readonly id: string }
  /** An operator, with this name, decided about these files, here or elsewhere. */
  | {
      readonly type: 'answerTrust';
      readonly agent: AgentId;
      readonly id: string;
      readonly choice: 'trusted' | 'left';
      readonly by: string;
    }
  /** Nobody has to decide any more about other files of an agent than these (`null`: about any). */
  | { readonly type: 'dropTrust'; readonly agent: AgentId; readonly keeps: string | null }
  /** The platform refused for good what an agent said. */
  | { readonly type: 'undelivered'; readonly agent: AgentId; readonly why: string }
  /** Called once after a backup was restored, so that no epoch is used twice. */
  | { readonly type: 'raiseEpoch'; readonly by: number }
  /** A deadline may have passed. */
  | { readonly type: 'tick' };

/** Everything that can be asked of a floor. */
export type Command = PersonCommand | OperatorCommand | AgentCommand | SystemCommand;

/** The commands of some types. */
export type CommandOf<T extends Command['type']> = Extract<Command, { readonly type: T }>;

/** Why a command was refused, each in one word. */
export const REFUSALS = [
  'duplicate',
  'not-holder',
  'stale-epoch',
  'not-waiting',
  'asks-back',
  'asks-too-deep',
  'not-seated',
  'not-queued',
  'offline',
  'disabled',
  'already',
  'still-stopping',
  'nothing-to-stop',
  'nothing-to-resume',
  'nothing-due',
  'paused',
  'catching-up',
  'needs-decision',
  'stale-question',
  'not-shown',
  'nobody-available',
  'not-asked',
  'unknown-message',
  'bad-queue',
  'day-limit',
] as const;

/** Why a command was refused; words for people stand in `turns/text/words.ts`. */
export type Refusal = (typeof REFUSALS)[number];

/** Text of a holder that people have seen as it was generated, and that is not yet said: a `say` says it. */
export const draftSchema = z.strictObject({
  agent: z.string(),
  epoch: z.number(),
  text: z.string(),
  mentions: z.array(z.string()).readonly(),
  /** When its agent last gave a sign of work. */
  workedAt: z.number(),
});

export type TurnDraft = Readonly<z.infer<typeof draftSchema>>;
