import { EventSchema } from '@ag-ui/core/schemas';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Bot } from '../kill/bot.ts';
import { randomOf } from '../kill/random.ts';
import { DONE, calling } from './models.ts';
import { outcome } from './scenario.ts';
import type { Outcome, Scenario, Size } from './scenario.ts';
import { CHANNEL, FAULTY, configOf, onStage, pageIn, rests, until } from './stage.ts';
import type { Parts, Stage } from './stage.ts';

/** Row 15: programs that read a run's events. */
export const READING_ALONG: readonly Scenario[] = [
  { id: 15, name: 'SSE: cut 100 times at random with Last-Event-ID', run: cut },
];

/** A server-sent event. */
type Event = { readonly id: string | null; readonly name: string; readonly data: unknown };

/** The longest time before a reader's connection is cut, in milliseconds. */
const STAY_MS = 120;
const LEAST_EVENTS = 20;

async function cut(size: Size): Promise<Outcome> {
  const cuts = size !== 'short' ? 100 : 12;
  const config = (parts: Parts) =>
    configOf(parts, {
      mcp: { raw: { command: process.execPath, args: [FAULTY], trusted: true } },
      tools: { allow: ['mcp__raw__echo'] },
    });
  return await onStage({ config }, async (stage) => {
    const { models } = stage;
    const bot = await stage.start();
    const page = await pageIn(bot);
    const random = randomOf(15);
    const whole = new Reader(stage, bot, '');
    const agUi = new Reader(stage, bot, '&format=ag-ui');
    const broken = new Reader(stage, bot, '');
    void whole.read(null);
    void agUi.read(null);
    await until(() => whole.events.length > 0 && agUi.events.length > 0, 'the state at the beginning');
    const over = new AbortController();
    let called = 0;
    models.think(async () => {
      await pause(random.between(0, 30));
      called += 1;
      // A turn has about forty calls, all different.
      return over.signal.aborted || called % 40 === 0 ? DONE : calling('raw__echo', { text: `call ${called}` });
    });
    const speaking = (async () => {
      while (!over.signal.aborted) {
        const epoch = page.view?.epoch ?? 0;
        await page.say(CHANNEL, 'Go on and on.');
        await rests(page, epoch, 120_000);
      }
    })();
    // Cuts the connection for the first time right after the first event.
    const first = new AbortController();
    void until(() => broken.durable.length > 0, 'an event').then(() => first.abort());
    let last = await broken.read(null, first.signal);
    for (let time = 0; time < cuts; time += 1) {
      last = await broken.read(last, AbortSignal.timeout(random.between(0, STAY_MS)));
    }
    await until(() => whole.durable.length >= LEAST_EVENTS, 'events');
    over.abort();
    await speaking;
    const newest = () => whole.durable.at(-1);
    await pause(STAY_MS);
    void broken.read(last);
    await until(() => broken.durable.at(-1) === newest(), 'the last event', 20_000).catch(() => undefined);
    for (const reader of [whole, agUi, broken]) reader.close();
    const [wanted, had] = [whole.durable, broken.durable];
    const measured = {
      cuts,
      enough: wanted.length >= LEAST_EVENTS,
      events: wanted.length,
      holes: wanted.filter((id) => Number(id) >= Number(had[0]) && !had.includes(id)).length,
      repeated: had.length - new Set(had).size,
      inOrder: had.every((id, index) => index === 0 || Number(id) > Number(had[index - 1])),
      refused: broken.refused,
      agUiEvents: agUi.events.length,
      agUiInvalid: agUi.events.filter(({ data }) => !EventSchema.safeParse(data).success).length,
    };
    return outcome(measured, { enough: true, holes: 0, repeated: 0, inOrder: true, refused: 0, agUiInvalid: 0 });
  });
}

/** A program that reads dev's events over many connections. */
class Reader {
  readonly events: Event[] = [];
  /** Connections that were refused. */
  refused = 0;
  readonly #url: string;
  readonly #token: string;
  readonly #over = new AbortController();

  constructor({ place }: Stage, bot: Bot, more: string) {
    this.#url = `http://127.0.0.1:${bot.port}/runs/events?agent=dev&channel=${encodeURIComponent(CHANNEL)}${more}`;
    this.#token = readFileSync(join(place.dataDir, 'console-token'), 'utf8').trim();
  }

  /** The ids of the replayable events, in the order of their arrival. */
  get durable(): readonly string[] {
    return this.events.flatMap(({ id }) => id ?? []);
  }

  /** Reads events after `after` until the connection is cut. Resolves with the last complete event's id. */
  async read(after: string | null, cutBy?: AbortSignal): Promise<string | null> {
    const headers = { Authorization: `Bearer ${this.#token}`, ...(after === null ? {} : { 'Last-Event-ID': after }) };
    const limit = cutBy === undefined ? [] : [cutBy];
    let last = after;
    try {
      const response = await fetch(this.#url, { headers, signal: AbortSignal.any([this.#over.signal, ...limit]) });
      if (!response.ok || response.body === null) throw new Refused();
      let rest = '';
      for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
        const blocks = `${rest}${piece}`.split('\n\n');
        rest = blocks.pop() ?? '';
        for (const event of blocks.flatMap(eventOf)) {
          this.events.push(event);
          last = event.id ?? last;
        }
      }
    } catch (error) {
      if (error instanceof Refused) this.refused += 1;
    }
    return last;
  }

  close(): void {
    this.#over.abort();
  }
}

class Refused extends Error {}

function eventOf(block: string): readonly Event[] {
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1] ?? null;
  const data = field('data');
  return data === null ? [] : [{ id: field('id'), name: field('event') ?? '', data: JSON.parse(data) as unknown }];
}
