import { Delivery } from '../src/engine/outbox-delivery.ts';
import type { Settlement } from '../src/engine/port.ts';
import { systemClock, systemTimers } from '../src/lib/time.ts';
import type { Effect } from '../src/turns/floor/react.ts';
import { openFloorStore } from '../src/turns/floor-store.ts';
import type { OutboxRow } from '../src/turns/floor-store.ts';
import { TurnManager } from '../src/turns/manager.ts';
import { floorWithWork } from '../src/work/floor-with-work.ts';
import { reviewOnFloor } from '../src/work/reviews/review-binding.ts';
import { isOpen } from '../src/work/reviews/review.ts';
import type { ReviewSettings } from '../src/work/reviews/review.ts';
import { Reviews } from '../src/work/reviews/reviews.ts';
import { answering, configOf, personSays, startProgram } from './app.ts';
import { SAID, channelsNamed, seatAll } from './floors.ts';
import type { Span } from './steady.ts';

const CONFIRMED: Settlement = { state: 'confirmed', platformId: 'p' };
const [PLAIN = '', REVIEWED = ''] = channelsNamed(2);
const ITERATIONS = 10;
const SETTINGS: ReviewSettings = {
  maxIterations: ITERATIONS,
  until: 'consensus',
  onFail: 'revise',
  signals: { done: 'DONE', pass: 'PASS', fail: 'FAIL' },
  patience: ITERATIONS,
  waitMs: 1_000_000_000,
};

const ORDER = { primary: 'dev', reviewer: 'qa', task: 'Build the login page.', by: 'ada' };

/** Agents that work in no folder. */
const NOWHERE = {
  view: () => null,
  folderOf: () => null,
  folders: () => [],
  lastCause: () => null,
  modelOf: () => null,
  env: {},
  owner: 'bench',
  dataDir: '',
  scratch: '',
};

/** The limit of delivery rounds after one hand-over. */
const MOST_ROUNDS = 1_000;

type Grant = { readonly agent: string; readonly epoch: number };

/**
 * Measures from the end of one turn until the next grant, with all posts of the hand-over delivered. Measures outside
 * and inside an open review in turn, in one program. Agents work in no repository, so no git runs. Returns medians in
 * milliseconds.
 */
export async function reviewed(
  path: string,
  _size: number,
  { warmUpMs, measuredMs }: Span,
): Promise<Readonly<Record<string, number>>> {
  const floors = await openReviewed(path);
  const tookMs = { [PLAIN]: [] as number[], [REVIEWED]: [] as number[] };
  const begunAt = performance.now();
  let answers = 0;
  for (const end = begunAt + warmUpMs + 2 * measuredMs; performance.now() < end;)
    for (const channel of [PLAIN, REVIEWED]) {
      const { agent, epoch } = await floors.granted(channel);
      const isLast = channel === REVIEWED && floors.isLast(agent);
      const from = performance.now();
      const isVerdict = channel === REVIEWED && agent === 'qa';
      const text = `${SAID} ${(answers += 1)}${isVerdict ? '\nREVISE' : ''}`;
      await Promise.all([
        floors.manager.apply(channel, { type: 'say', agent, epoch, text, mentions: [] }),
        floors.manager.apply(channel, { type: 'end', agent, epoch, outcome: 'completed', signalled: true }),
      ]);
      if (isLast) await floors.open();
      else await floors.granted(channel, epoch);
      await floors.delivered();
      if (!isLast && from - begunAt > warmUpMs) tookMs[channel]?.push(performance.now() - from);
    }
  await floors.stop();
  return {
    outsideMs: median(tookMs[PLAIN] ?? []),
    insideMs: median(tookMs[REVIEWED] ?? []),
    handOvers: tookMs[REVIEWED]?.length ?? 0,
  };
}

/** Hand-overs of a channel that are timed together: all of one review, from its first prompt to its last. */
const BLOCK = 2 * ITERATIONS - 1;

/** Delays the answers of one channel's agents until `allow` is called. */
class Prompts {
  #allowed = 0;
  #wake = (): void => {};
  #arrived = Promise.withResolvers<void>();

  /** Called with each prompt. Resolves when the agent may answer it. */
  async next(): Promise<void> {
    if (this.#allowed === 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      this.#arrived.resolve();
      await promise;
    }
    this.#allowed -= 1;
  }

  /** Resolves when a prompt waits for its answer. */
  async waits(): Promise<void> {
    await this.#arrived.promise;
  }

  /** Allows `count` answers: of the waiting prompt and of those after it. */
  allow(count: number): void {
    this.#arrived = Promise.withResolvers();
    this.#allowed = count;
    this.#wake();
  }
}

/**
 * Measures from one agent's prompt to the next agent's prompt in the whole program. Measures blocks of one review's
 * length, outside and inside an open review in turn, in one program. Returns medians of the blocks in milliseconds.
 */
export async function reviewedInApp(
  path: string,
  _size: number,
  { warmUpMs, measuredMs }: Span,
): Promise<Readonly<Record<string, number>>> {
  const [plain, inside] = [new Prompts(), new Prompts()];
  let answers = 0;
  const backend = answering(async (channel, agent) => {
    await (channel === PLAIN ? plain : inside).next();
    const isVerdict = channel === REVIEWED && agent === 'qa';
    return `${SAID} ${(answers += 1)}${isVerdict ? '\nREVISE' : ''}`;
  });
  const program = await startProgram({ config: configOf(2), path, backend });
  await program.intake.message(personSays(PLAIN, 1));
  const tookMs: Record<'outside' | 'inside', number[]> = { outside: [], inside: [] };
  const begunAt = performance.now();
  for (const end = begunAt + warmUpMs + 2 * measuredMs; performance.now() < end;) {
    const refusal = await program.app.reviews.start(REVIEWED, { ...ORDER, settings: SETTINGS });
    if (refusal !== null) throw new Error(`impossible: the review is refused: ${JSON.stringify(refusal)}`);
    const isWarm = performance.now() - begunAt > warmUpMs;
    for (const [where, prompts] of [
      ['outside', plain],
      ['inside', inside],
    ] as const) {
      const tookOne = await timeOf(prompts);
      if (isWarm) tookMs[where].push(tookOne);
    }
    const ended = new Promise<void>((resolve) => onEnd(program.app.reviews, resolve));
    inside.allow(1);
    await ended;
  }
  await program.stop();
  const { outside, inside: within } = tookMs;
  return { outsideMs: median(outside), insideMs: median(within), handOvers: BLOCK * within.length };
}

/** Returns the time per hand-over of one block, in milliseconds. */
async function timeOf(prompts: Prompts): Promise<number> {
  await prompts.waits();
  const from = performance.now();
  prompts.allow(BLOCK);
  await prompts.waits();
  return (performance.now() - from) / BLOCK;
}

function onEnd(reviews: Reviews, ended: () => void): void {
  reviews.onFacts((_channel, facts) => {
    if (facts.at(-1)?.type === 'reviewEnded') ended();
  });
}

/** Opens two channels with three agents each. `next` resolves at the next grant, or when a review ends. */
async function openChannels(path: string) {
  const wording = { textLimit: () => 16_000, words: () => 'text' };
  const ports = { clock: systemClock(), timers: systemTimers };
  const store = openFloorStore({ path, clock: ports.clock, machine: floorWithWork, ...wording });
  const broken = Promise.withResolvers<never>();
  broken.promise.catch(() => {});
  const grants = new Map<string, Grant>();
  let reached = Promise.withResolvers<void>();
  const wake = (): void => {
    reached.resolve();
    reached = Promise.withResolvers();
  };
  const reviews = new Reviews({
    ...ports,
    reviews: store.host(reviewOnFloor),
    ...NOWHERE,
    failed: broken.reject,
  });
  const manager = new TurnManager({
    ...ports,
    store,
    addressed: () => [],
    takeDraft: () => null,
    changed: () => delivery.kick(),
    failed: broken.reject,
  });
  const carry = async ({ effect, channel }: OutboxRow): Promise<Settlement> => {
    if (effect.type === 'prompt') {
      grants.set(channel, effect);
      wake();
    }
    return CONFIRMED;
  };
  const delivery = new Delivery<Effect>({ ...ports, store, carry, failed: () => {}, broken: broken.reject });
  store.floors.onChange(() => delivery.kick());
  onEnd(reviews, wake);
  await seatAll(store, 2);
  reviews.begin();
  delivery.start();
  const next = async (): Promise<void> => await Promise.race([reached.promise, broken.promise]);
  const stop = async (): Promise<void> => {
    manager.stop();
    await reviews.stop();
    await delivery.stop();
    await store.close();
  };
  const delivered = async (): Promise<void> => void (await delivery.drain(MOST_ROUNDS));
  return { manager, reviews, grants, next, stop, delivered };
}

/** Opens the two channels, with a review open in `REVIEWED`. */
async function openReviewed(path: string) {
  const { manager, reviews, grants, next, stop, delivered } = await openChannels(path);
  let count = 0;
  const floors = {
    manager,
    stop,
    delivered,
    /** Resolves with the channel's newest turn, as soon as its epoch is above `after`. */
    async granted(channel: string, after = -1): Promise<Grant> {
      for (;;) {
        const grant = grants.get(channel);
        if (grant !== undefined && grant.epoch > after) return grant;
        await next();
      }
    },
    /** Whether the open review ends with this agent's turn: the review has used its last iteration. */
    isLast(agent: string): boolean {
      const { review = null } = reviews.state(REVIEWED) ?? {};
      return agent === 'qa' && review?.iteration === SETTINGS.maxIterations;
    },
    /** Waits until no review is open, then opens one. */
    async open(): Promise<void> {
      while (isOpen(reviews.state(REVIEWED)?.review ?? null)) await next();
      const last = grants.get(REVIEWED)?.epoch ?? -1;
      const refusal = await reviews.give(REVIEWED, {
        type: 'START',
        id: `review-${(count += 1)}`,
        textOnly: true,
        ...ORDER,
        settings: SETTINGS,
      });
      if (refusal !== null) throw new Error(`impossible: the review is refused as ${refusal}`);
      await floors.granted(REVIEWED, last);
    },
  };
  await floors.open();
  await manager.apply(PLAIN, { type: 'start', by: 'bench' });
  return floors;
}

function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? Number.NaN;
}
