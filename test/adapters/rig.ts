import type { Logger } from 'pino';
import type { Capabilities, ChatAdapter, Memory } from '../../src/adapters/port.ts';
import type { Receipt } from '../../src/turns/floor/react.ts';
import type { AgentId, ChannelId, MessageId } from '../../src/turns/floor/settings.ts';
import type { Clock, Timers } from '../../src/lib/time.ts';

/** The people of every platform. Where only one person can be, it is Ann. */
export type Author = 'ann' | 'bob';

/** A message as a person sees it. */
export type Seen = {
  /** The platform's id, as the program gets it from `post` or as a person's message. */
  readonly id: string;
  /** The name above it. */
  readonly author: string;
  readonly kind: 'person' | 'agent' | 'conch';
  /** What can be read, a file that comes with it included. */
  readonly text: string;
};

/** The floor as a platform shows it, and its buttons. */
export type SeenCard = {
  readonly text: string;
  readonly buttons: readonly string[];
  /** Presses a button of the card as it was drawn here; resolves with what the person is told. */
  press(author: Author, label: string): Promise<string>;
};

/** What differs between platforms for people, and in what can happen to them. */
export type Ways = {
  /** Conversations beside a channel's own. */
  readonly threads: boolean;
  /** A message can be an answer to another. */
  readonly replies: boolean;
  /** Files can come with a message. */
  readonly files: boolean;
  /** Programs beside Conch write there. */
  readonly bots: boolean;
  /** More than one person can be there. */
  readonly several: boolean;
  /** An agent can be mentioned by the platform's own means. */
  readonly mentions: boolean;
  /** Roles or groups of people, by whose id the configuration can name operators. */
  readonly roles: boolean;
  /** A command typed as a message ("!stop") is a command. */
  readonly typed: boolean;
  /** A text can notify people who did not write it. */
  readonly pings: boolean;
  /** The platform is another machine: its connection can be lost while people go on writing. */
  readonly remote: boolean;
};

/** What the program hands to an adapter in each of its lives. */
export type AdapterParts = {
  readonly memory: Memory;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
};

/** How a person writes. */
export type Writing = {
  readonly thread?: string;
  readonly replyTo?: string;
  /** The name of a file that comes with it. */
  readonly file?: string;
};

/** How many posts a fault befell so far. */
export type Suffered = () => number;

/** One platform, which outlives the program. */
export type Stage = {
  readonly channel: ChannelId;
  /** The variables that the configuration needs. */
  readonly env: Readonly<Record<string, string>>;
  /** A part of the file's `adapters`. */
  readonly settings?: object;
  /** The id of the role of `roles`. */
  readonly role?: string;
  /** A new adapter, for a new life of the program. */
  adapter(parts: AdapterParts): ChatAdapter;
  /** The program was killed: whatever it still tries is not heard. */
  sever?(): void;

  idOf(author: Author): string;
  nameOf(author: Author): string;
  /** Resolves with the message's id once people see it. */
  write(author: Author, text: string, how?: Writing): Promise<MessageId>;
  edit(author: Author, id: MessageId, text: string): Promise<void>;
  remove(author: Author, id: MessageId): Promise<void>;
  /** The platform's own way to mention an agent in a text. */
  mention?(agent: AgentId): string;
  /** Opens a thread at a message. */
  thread?(author: Author, at: MessageId): Promise<{ readonly id: string; readonly channel: ChannelId }>;
  /** Another program writes. */
  bot?(text: string): Promise<MessageId>;
  /** Gives somebody the role, or takes it away. */
  makeOperator?(author: Author, on: boolean): void;

  /** The conversation in order, without the card and without drafts. */
  read(thread?: string): Promise<readonly Seen[]>;
  receipts(id: MessageId, thread?: string): Promise<readonly Receipt[]>;
  /** Runs a command the platform's own way; resolves with what the person is told. */
  command(author: Author, line: string): Promise<string>;
  /** Types a command as a message; resolves with its id. */
  typed?(author: Author, line: string): Promise<MessageId>;
  card(): Promise<SeenCard | null>;
  /** From now on the card stays as it is: whoever looks at it sees an old one. */
  freezeCard?(): void;
  /** Texts that are shown while they are generated. */
  drafts(thread?: string): Promise<readonly { readonly author: string; readonly text: string }[]>;
  /** Which channels of the platform the program's requests were about, by their platform's ids. */
  asked?(): readonly string[];
  /** A link that lets one browser into the platform's own page. */
  page?(): string;
  /** Whom posts of the program have notified, or would have. */
  pings?(): readonly string[];

  /** The next `count` posts with these words come to stand in the channel, and the program is not told. */
  loseAnswers(count: number, words: string): Suffered;
  /** The next `count` posts with these words are not taken. */
  refuse(count: number, words: string): Suffered;
  /** Every message of a person from now on comes twice. */
  duplicate(): void;
  /** The connection is lost until `comeBack`. `forgotten`: what is missed meanwhile is told by nobody afterwards. */
  cutOff?(missed: 'remembered' | 'forgotten'): void;
  comeBack?(): void;
  close(): Promise<void>;
};

/** How far the clock of a platform goes behind the program's: the two are never compared. */
export const SKEW_MS = 90_000;

/** A platform under test. */
export type Rig = {
  readonly name: string;
  readonly capabilities: Capabilities;
  readonly ways: Ways;
  open(): Promise<Stage>;
};

/** Minutes and seconds until an instant, as "1:12 left"; "0:00 left" once it has passed. */
export function clockLeft(endsAt: number, now: number): string {
  const seconds = Math.max(0, Math.round((endsAt - now) / 1_000));
  const minutes = Math.floor(seconds / 60);
  return `${minutes}:${String(seconds % 60).padStart(2, '0')} left`;
}
