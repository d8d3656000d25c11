import type { Logger } from 'pino';
import type { Capabilities, ChatAdapter, Memory } from '../../src/adapters/port.ts';
import type { Receipt } from '../../src/turns/floor/react.ts';
import type { AgentId, ChannelId, MessageId } from '../../src/turns/floor/settings.ts';
import type { Clock, Timers } from '../../src/lib/time.ts';

/** The people of every platform. A platform for one person has only Ann. */
export type Author = 'ann' | 'bob';

/** A message as a person sees it. */
export type Seen = {
  /** The id of the message on the platform, in the form that the program stores. */
  readonly id: string;
  /** The shown name of the author. */
  readonly author: string;
  readonly kind: 'person' | 'agent' | 'conch';
  /** The readable text, with the text of an attached file. */
  readonly text: string;
};

/** The card of a floor, with its buttons. */
export type SeenCard = {
  readonly text: string;
  readonly buttons: readonly string[];
  /** Presses a button of this version of the card. Resolves with the answer that the person sees. */
  press(author: Author, label: string): Promise<string>;
};

/** What people can do on a platform, where platforms differ. */
export type Ways = {
  /** Channels have threads. */
  readonly threads: boolean;
  /** A message can reply to another. */
  readonly replies: boolean;
  /** A message can have files. */
  readonly files: boolean;
  /** Other programs can write. */
  readonly bots: boolean;
  /** More than one person can take part. */
  readonly several: boolean;
  /** Agents can be mentioned with the platform's own mentions. */
  readonly mentions: boolean;
  /** People have roles or groups, whose ids can name operators in the configuration. */
  readonly roles: boolean;
  /** Commands can be typed as messages ("!stop"). */
  readonly typed: boolean;
  /** A text can notify people other than its author. */
  readonly pings: boolean;
  /** The connection can be lost while people continue to write. */
  readonly remote: boolean;
};

/** What the program passes to an adapter in each run. */
export type AdapterParts = {
  readonly memory: Memory;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
};

/** How a person writes a message. */
export type Writing = {
  readonly thread?: string;
  readonly replyTo?: string;
  /** The name of an attached file. */
  readonly file?: string;
};

/** Returns the number of posts that the fault has hit. */
export type Suffered = () => number;

/** One platform, which is kept between runs of the program. */
export type Stage = {
  readonly channel: ChannelId;
  /** Environment variables for the configuration. */
  readonly env: Readonly<Record<string, string>>;
  /** A part of `adapters` in the configuration. */
  readonly settings?: object;
  /** The id of the operators' role. */
  readonly role?: string;
  /** Returns a new adapter for a new run of the program. */
  adapter(parts: AdapterParts): ChatAdapter;
  /** Called when the program was killed: fails its connection and all its later requests. */
  sever?(): void;

  idOf(author: Author): string;
  nameOf(author: Author): string;
  /** Writes a message. Resolves with its id once people see it. */
  write(author: Author, text: string, how?: Writing): Promise<MessageId>;
  edit(author: Author, id: MessageId, text: string): Promise<void>;
  remove(author: Author, id: MessageId): Promise<void>;
  /** Returns the platform's mention of an agent. */
  mention?(agent: AgentId): string;
  /** Opens a thread on a message. */
  thread?(author: Author, at: MessageId): Promise<{ readonly id: string; readonly channel: ChannelId }>;
  /** Posts as another program. */
  bot?(text: string): Promise<MessageId>;
  /** Gives a person the operators' role, or removes it. */
  makeOperator?(author: Author, on: boolean): void;

  /** Returns the conversation in order, without card and drafts. */
  read(thread?: string): Promise<readonly Seen[]>;
  receipts(id: MessageId, thread?: string): Promise<readonly Receipt[]>;
  /** Runs a command in the platform's own way. Resolves with the answer that the person sees. */
  command(author: Author, line: string): Promise<string>;
  /** Types a command as a message. Resolves with its id. */
  typed?(author: Author, line: string): Promise<MessageId>;
  card(): Promise<SeenCard | null>;
  /** Returns the newest message that has buttons and contains `words`. */
  question?(words: string): SeenCard | null;
  /** Stops updates of the card, so that people see an old one. */
  freezeCard?(): void;
  /** Returns the drafts that people see now. */
  drafts(thread?: string): Promise<readonly { readonly author: string; readonly text: string }[]>;
  /** Returns the platform ids of the channels in the program's requests. */
  asked?(): readonly string[];
  /** Returns a link that lets one browser into the platform's own page. */
  page?(): string;
  /** Returns the people whom the program's posts notified. */
  pings?(): readonly string[];

  /** Accepts the next `count` posts with this text, but loses the answers to them. */
  loseAnswers(count: number, words: string): Suffered;
  /** Refuses the next `count` posts with this text. */
  refuse(count: number, words: string): Suffered;
  /** Delivers every later message of a person twice. */
  duplicate(): void;
  /** Cuts the connection until `comeBack`. `forgotten`: the platform does not replay missed events. */
  cutOff?(missed: 'remembered' | 'forgotten'): void;
  comeBack?(): void;
  close(): Promise<void>;
};

/** How far the platform's clock is behind the program's. A test fails when code compares the two. */
export const SKEW_MS = 90_000;

/** A platform under test. */
export type Rig = {
  readonly name: string;
  readonly capabilities: Capabilities;
  readonly ways: Ways;
  open(): Promise<Stage>;
};

/** Returns the time until an instant as "1:12 left"; "0:00 left" after it. */
export function clockLeft(endsAt: number, now: number): string {
  const seconds = Math.max(0, Math.round((endsAt - now) / 1_000));
  const minutes = Math.floor(seconds / 60);
  return `${minutes}:${String(seconds % 60).padStart(2, '0')} left`;
}
