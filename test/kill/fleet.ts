import { setTimeout as pause } from 'node:timers/promises';
import { openPostgresLog } from '../../src/engine/postgres/postgres-log.ts';
import { followerOf } from '../../src/engine/shared/lead.ts';
import { MIGRATIONS, openDatabase } from '../../src/engine/sqlite/open.ts';
import { isReady, startBot } from './bot.ts';
import type { Bot, Place } from './bot.ts';

const SERVED_WITHIN_MS = 90_000;

/** Programs that share a store. */
export class Fleet {
  readonly #places: readonly Place[];
  readonly #env: Readonly<Record<string, string>>;
  readonly #bots = new Map<Place, Bot>();

  constructor(places: readonly Place[], env: Readonly<Record<string, string>> = {}) {
    this.#places = places;
    this.#env = env;
  }

  get bots(): readonly Bot[] {
    return [...this.#bots.values()].filter(({ child }) => child.exitCode === null && child.signalCode === null);
  }

  /** Starts a program in each place where none runs. */
  fill(): void {
    for (const place of this.#places) {
      const bot = this.#bots.get(place);
      if (bot === undefined || !this.bots.includes(bot)) this.#bots.set(place, startBot(place, { env: this.#env }));
    }
  }

  /** Resolves with the program that serves people. */
  async leader(): Promise<Bot> {
    const limit = performance.now() + SERVED_WITHIN_MS;
    while (performance.now() < limit) {
      for (const bot of this.bots) if (await isReady(bot.port)) return bot;
      await pause(20);
    }
    const told = [...this.#bots.values()].map(
      (bot) => `${bot.child.pid}: ${bot.lastWords()}\n${bot.out().slice(-1_000)}`,
    );
    throw new Error(`none of ${this.bots.length} serves:\n${told.join('\n')}`);
  }

  async endAll(): Promise<void> {
    for (const bot of this.bots) bot.child.kill('SIGCONT');
    await Promise.all(this.bots.map((bot) => bot.end('SIGKILL')));
  }
}

/** Copies the store from PostgreSQL into a new SQLite file at `path`, as a program that stands by does. */
export async function copyTo(path: string, place: { readonly url: string; readonly schema: string }): Promise<void> {
  const log = await openPostgresLog(place);
  const db = openDatabase(path, MIGRATIONS, undefined, true);
  await followerOf(log, db)();
  db.close();
  await log.close();
}
