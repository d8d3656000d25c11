import { channelId, messageId } from '../../src/adapters/slack/client.ts';
import type { SlackServer } from '../adapters/slack/server.ts';
import type { Random } from './random.ts';

/** A person's message. */
export type Written = {
  /** Its id in the inbox. */
  readonly id: string;
  /** The id of its floor. */
  readonly floor: string;
  readonly text: string;
  /** The ids of the envelopes that carry the message. */
  readonly envelopes: readonly string[];
};

/** How a channel of the run treats its threads. */
export type Spot = { readonly channel: string; readonly threads: 'own' | 'parent' | 'ignore' };

const REQUESTS = [
  'Build a login page with email and password',
  'Postgres or SQLite?',
  '@qa can you try it?',
  'dev: add a search box with filters',
  'Hello <!channel>!',
  'TURN_COMPLETE',
];
const MOST_THREADS = 3;
const COMMANDS = ['floor skip', 'floor status', 'stop', 'queue'];
/** The beginnings of the labels of buttons that people press. */
const BUTTONS = ['Allow once', 'Deny', 'Skip', 'Stop'];

/** People who write on Slack, whether the bot is there or not. No two messages are alike. */
export class SlackCrowd {
  readonly written: Written[] = [];
  readonly #slack: SlackServer;
  readonly #random: Random;
  readonly #spots: readonly Spot[];
  readonly #threads = new Map<string, string[]>();

  constructor(slack: SlackServer, random: Random, spots: readonly Spot[]) {
    this.#slack = slack;
    this.#random = random;
    this.#spots = spots;
  }

  /** Floors, with the threads that show their messages. `null`: the channel itself. */
  places(): readonly {
    readonly channel: string;
    readonly threads: readonly (string | null)[];
    readonly floor: string;
  }[] {
    return this.#spots.flatMap(({ channel, threads }) => {
      const own = threads === 'own' ? this.#threadsIn(channel) : [];
      const shared = threads === 'parent' ? this.#threadsIn(channel) : [];
      return [
        { channel, threads: [null, ...shared], floor: channelId(channel) },
        ...own.map((thread) => ({ channel, threads: [thread], floor: channelId(channel, thread) })),
      ];
    });
  }

  /** Writes `count` messages of random people, each in a random channel or thread. Returns them. */
  speak(count: number): readonly Written[] {
    return Array.from({ length: count }, () => this.#one());
  }

  /**
   * Types a command, or presses a button of a message, mostly the answer to a request. Ignores that a stopped bot does
   * not answer.
   */
  meddle(): void {
    const { ann, bob } = this.#slack.ids;
    const [person, { channel }] = [this.#random.pick([ann, bob]), this.#random.pick(this.#spots)];
    if (this.#random.chance(0.3)) {
      this.#slack.command(person, channel, this.#random.pick(COMMANDS)).catch(() => undefined);
    } else this.press(this.#random.pick(['Allow once', ...BUTTONS]));
  }

  /** Presses the newest button whose label begins so, in each place. */
  press(label: string): void {
    for (const { channel, threads } of this.places()) {
      for (const thread of threads) {
        const shown = this.#slack.read(channel, thread ?? undefined).toReversed();
        const found = shown.find(({ own, buttons }) => own && buttons.some((each) => each.text.startsWith(label)));
        const button = found?.buttons.find((each) => each.text.startsWith(label));
        if (found === undefined || button === undefined) continue;
        this.#slack.press(this.#slack.ids.ann, channel, found.ts, button.text).catch(() => undefined);
      }
    }
  }

  #one(): Written {
    const { channel, threads } = this.#random.pick(this.#spots);
    const thread = threads !== 'ignore' && this.#random.chance(0.35) ? this.#thread(channel) : null;
    const text = `${this.#random.pick(REQUESTS)} (number ${this.written.length + 1})`;
    const before = this.#slack.attempts.length;
    const { ann, bob } = this.#slack.ids;
    const author = this.#random.pick([ann, bob]);
    const ts = this.#slack.write(author, channel, text, thread === null ? {} : { thread });
    const envelopes = this.#slack.attempts.slice(before).map(({ envelopeId }) => envelopeId);
    const floor = threads === 'own' ? channelId(channel, thread) : channelId(channel);
    const written = { id: messageId(channel, ts), floor, text, envelopes };
    this.written.push(written);
    return written;
  }

  /** Picks a known thread, or starts one at the newest message of a person. */
  #thread(channel: string): string | null {
    const known = this.#threadsIn(channel);
    if (known.length > 0 && (known.length >= MOST_THREADS || this.#random.chance(0.7))) return this.#random.pick(known);
    const root = this.#slack.read(channel).findLast(({ own, thread }) => !own && thread === null);
    if (root === undefined) return null;
    if (!known.includes(root.ts)) this.#threads.set(channel, [...known, root.ts]);
    return root.ts;
  }

  #threadsIn(channel: string): readonly string[] {
    return this.#threads.get(channel) ?? [];
  }
}
