import { setTimeout as pause } from 'node:timers/promises';
import type { RemoteDiscord } from '../adapters/discord/server-remote.ts';
import type { Random } from './random.ts';

const REQUESTS = [
  'Build a login page with email and password',
  'Postgres or SQLite?',
  'Why is the header blue?',
  '@long please tell us more',
  'dev: add a search box with filters',
  'Hello everybody!',
];
const COMMANDS = ['floor skip', 'floor skip', 'stop', 'queue', 'floor status'];

/** A person's message on Discord. */
export type Written = { readonly id: string; readonly channel: string; text: string; deleted: boolean };

/** People who write in the channels, whether the bot is there or not. No two messages are alike. */
export class DiscordCrowd {
  readonly written: Written[] = [];
  readonly #remote: RemoteDiscord;
  readonly #channels: readonly string[];
  readonly #random: Random;
  readonly #people: readonly string[];

  constructor(parts: {
    readonly remote: RemoteDiscord;
    readonly channels: readonly string[];
    readonly random: Random;
    readonly people: readonly string[];
  }) {
    this.#remote = parts.remote;
    this.#channels = parts.channels;
    this.#random = parts.random;
    this.#people = parts.people;
  }

  async act(until: AbortSignal): Promise<void> {
    while (!until.aborted) {
      if (this.#random.chance(0.12)) this.#command();
      else if (this.#random.chance(0.15)) await this.#change();
      else await this.write();
      await pause(this.#random.between(60, 350));
    }
  }

  /** Writes a message as a random person. */
  async write(channel = this.#random.pick(this.#channels)): Promise<void> {
    const text = `${this.#random.pick(REQUESTS)} (${this.written.length})`;
    const { id } = await this.#remote.write(this.#random.pick(this.#people), channel, text);
    this.written.push({ id, channel, text, deleted: false });
  }

  /** Sends a command. Ignores that a stopped bot does not answer. */
  #command(): void {
    const [person, channel] = [this.#random.pick(this.#people), this.#random.pick(this.#channels)];
    this.#remote.command(person, channel, this.#random.pick(COMMANDS)).catch(() => undefined);
  }

  async #change(): Promise<void> {
    const message = this.written.at(-this.#random.between(1, 6));
    if (message === undefined || message.deleted) return;
    if (this.#random.chance(0.3)) {
      message.deleted = true;
      await this.#remote.remove(message.id);
    } else {
      message.text = `${message.text}, edited`;
      await this.#remote.edit(message.id, message.text);
    }
  }
}
