import Database from 'better-sqlite3';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Bot } from '../kill/bot.ts';
import type { Page } from '../kill/page.ts';
import { cards } from './calling.ts';
import { DONE, calling } from './models.ts';
import type { Mind } from './models.ts';
import { outcome } from './scenario.ts';
import type { Outcome, Scenario, Size } from './scenario.ts';
import { CHANNEL, configOf, fixture, onStage, pageIn, questionOrRest } from './stage.ts';
import type { Parts, Stage } from './stage.ts';

/** Rows 7 and 8: programs that are killed between a request and its result. */
export const CRASHES: readonly Scenario[] = [
  { id: 7, name: 'kill -9 with an open card; restart; Yes', run: killed },
  { id: 8, name: 'same with the ACP agent', run: killedAgent },
];

/**
 * Twelve moments from a request to its result. `again`: the most questions in all. A call that may have run is not
 * repeated without a question.
 */
const POINTS = [
  { name: 'the model is asked', again: 1 },
  { name: 'the model has answered', again: 1 },
  { name: 'the run has begun', again: 1 },
  { name: 'the call is written', again: 1 },
  { name: 'the question is shown', again: 1 },
  { name: 'the question is open', again: 1 },
  { name: 'yes is clicked', again: 1 },
  { name: 'yes is written', again: 1 },
  { name: 'the call is claimed', again: 2 },
  { name: 'the server has the call', again: 2 },
  { name: 'the server has done it', again: 1 },
  { name: 'the result is written', again: 1 },
] as const;
type Point = (typeof POINTS)[number]['name'];

const SHORT = new Set<Point>(['the question is open', 'the server has the call']);

/** Faults of all cycles. Each text names the moment of the kill. */
type Faults = {
  readonly lost: string[];
  readonly doubled: string[];
  readonly unmarked: string[];
  readonly askedAgain: string[];
  readonly missed: string[];
};

async function killed(size: Size): Promise<Outcome> {
  const times = { short: 1, full: 9, long: 100 }[size];
  const rig = await startRig();
  const config = (parts: Parts) =>
    configOf(parts, {
      mcp: { effect: effectsServer(parts, rig) },
      tools: { allow: ['mcp__effect__look'], ask: ['mcp__effect__write'] },
    });
  const faults: Faults = { lost: [], doubled: [], unmarked: [], askedAgain: [], missed: [] };
  let cycles = 0;
  try {
    await onStage({ config }, async (stage) => {
      let bot = await stage.start();
      for (let time = 1; time <= times; time += 1) {
        for (const { name, again } of POINTS) {
          if (size === 'short' && !SHORT.has(name)) continue;
          cycles += 1;
          bot = await cycle({ stage, rig, bot, faults }, { name, again, task: `task ${cycles}` });
        }
      }
      await bot.end('SIGTERM');
    });
  } finally {
    await rig.close();
  }
  const count = ({ lost, doubled, unmarked, askedAgain, missed }: Faults) => ({
    lost: lost.length,
    doubled: doubled.length,
    unknownUnmarked: unmarked.length,
    askedAgain: askedAgain.length,
    momentsMissed: missed.length,
  });
  const words = Object.entries(faults).flatMap(([kind, found]) => found.map((each) => `${kind}: ${each}`));
  const counted = Object.entries(Object.groupBy(words, (each) => each)).map(
    ([text, all]) => `${all?.length} × ${text}`,
  );
  return outcome(
    {
      cycles,
      writtenOnce: cycles - new Set([...faults.lost, ...faults.doubled]).size,
      ...count(faults),
      faults: counted,
    },
    { lost: 0, doubled: 0, unknownUnmarked: 0, askedAgain: 0, momentsMissed: 0 },
  );
}

type World = { readonly stage: Stage; readonly rig: Rig; readonly bot: Bot; readonly faults: Faults };
type Cycle = { readonly name: Point; readonly again: number; readonly task: string };

/** Runs a task, kills the program at one moment, and allows everything afterwards. Returns the running bot. */
async function cycle({ stage, rig, bot, faults }: World, { name, again, task }: Cycle): Promise<Bot> {
  const { models, place } = stage;
  const page = await pageIn(bot);
  const kill = new Kill(bot, name);
  const mark = cards(stage);
  const rowsBefore = stage.rows().length;
  models.think(mindOf(task, kill));
  rig.hear = (when) => kill.at(when === 'before' ? 'the server has the call' : 'the server has done it');
  const watching = watch(join(place.dataDir, 'conch.db'), kill);
  // The program may be killed before it answers.
  await page.say(CHANNEL, `Write ${task}.`).catch(() => undefined);
  await Promise.race([
    kill.done,
    answerAll(page, kill)
      .catch(() => undefined)
      .then(() => pause(2_000)),
  ]);
  if (!kill.isDone) faults.missed.push(name);
  await kill.now();
  await watching;
  page.close();
  rig.hear = () => undefined;
  models.think(mindOf(task, null));
  const next = await stage.start();
  const nextPage = await pageIn(next);
  await answerAll(nextPage, null).catch((error: unknown) =>
    faults.lost.push(`${name}: ${String(error).slice(0, 200)}`),
  );
  nextPage.close();
  const effects = effectsIn(stage).filter((each) => each.task === task).length;
  if (effects === 0) faults.lost.push(name);
  if (effects > 1) faults.doubled.push(name);
  const rows = stage.rows().slice(rowsBefore);
  const unmarked = rows.filter(
    ({ status, startedAt, outcome: known, code }) =>
      status === 'running' ||
      status === 'pending' ||
      (startedAt !== null && status === 'error' && known === 'known' && code !== 'TOOL_FAILED'),
  );
  if (unmarked.length > 0) faults.unmarked.push(name);
  if (cards(stage) - mark > again) faults.askedAgain.push(name);
  return next;
}

/** The mind of a careful model: looks first, and again after an unknown outcome. */
function mindOf(task: string, kill: Kill | null): Mind {
  return async ({ results }) => {
    const last = results.at(-1);
    if (last === undefined) {
      await kill?.at('the model is asked');
      return calling('effect__look', { task });
    }
    if (last.includes('It is not written.')) {
      setImmediate(() => void kill?.at('the model has answered'));
      return calling('effect__write', { task });
    }
    return /nobody knows|unknown|not run/i.test(last) ? calling('effect__look', { task }) : DONE;
  };
}

/** Allows every request until the floor rests. */
async function answerAll(page: Page, kill: Kill | null): Promise<void> {
  await page
    .until(() => page.view?.condition !== 'resting' || page.view.holder !== null, 'a turn', 5_000)
    .catch(() => undefined);
  for (let time = 0; time < MOST_QUESTIONS; time += 1) {
    const asked = await questionOrRest(page);
    if (asked === null) return;
    if (kill?.point === 'the question is open') {
      await pause(300);
      return await kill.at('the question is open');
    }
    const told = page.command(CHANNEL, `/allow ${asked}`).catch(() => undefined);
    await kill?.at('yes is clicked');
    await told;
    await page.until(() => page.view?.holder?.approval?.question !== asked, 'the end of the question');
  }
  throw new Error(`it was asked ${MOST_QUESTIONS} times`);
}

const MOST_QUESTIONS = 6;

/** A planned kill of a program at one moment. */
class Kill {
  readonly point: Point;
  readonly done: Promise<void>;
  isDone = false;
  readonly #bot: Bot;
  readonly #resolve: () => void;

  constructor(bot: Bot, point: Point) {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#bot = bot;
    this.point = point;
    this.done = promise;
    this.#resolve = resolve;
  }

  /** Kills the program if `point` is its moment. */
  async at(point: Point): Promise<void> {
    if (point !== this.point || this.isDone) return;
    this.isDone = true;
    await this.now();
  }

  async now(): Promise<void> {
    await this.#bot.end('SIGKILL');
    this.#resolve();
  }
}

/** Reads the journal as it grows, and kills at the first fact of the moment. */
async function watch(path: string, kill: Kill): Promise<void> {
  const db = new Database(path, { readonly: true });
  try {
    const read = db.prepare<[number], { row: number; facts: string }>(
      'SELECT row, facts FROM journal WHERE row > ? ORDER BY row',
    );
    let last = db.prepare<[], number>('SELECT coalesce(max(row), 0) FROM journal').pluck().get() ?? 0;
    let call = '';
    const over = { is: false };
    void kill.done.then(() => (over.is = true));
    while (!over.is) {
      for (const { row, facts } of read.all(last)) {
        last = row;
        call = /"tool":"mcp__effect__write"/.test(facts) ? (/"id":"([^"]*)"/.exec(facts)?.[1] ?? call) : call;
        const moment = momentOf(facts, call);
        if (moment !== null) await kill.at(moment);
      }
      await pause(1);
    }
  } finally {
    db.close();
  }
}

function momentOf(facts: string, call: string): Point | null {
  const has = (type: string) => facts.includes(`"type":"${type}"`);
  if (has('approvalClosed')) return 'yes is written';
  if (has('questionShown')) return 'the question is shown';
  if (call !== '' && facts.includes(`"${call}"`)) {
    if (has('callSettled')) return 'the result is written';
    if (has('callClaimed')) return 'the call is claimed';
    if (has('callRequested')) return 'the call is written';
  }
  return has('runStarted') ? 'the run has begun' : null;
}

/** A server that counts its effects and reports before and after each one. */
export function effectsServer(parts: Parts, { url }: Rig): object {
  const env = { EFFECTS: effectsFile(parts), RIG: url };
  return { command: process.execPath, args: [fixture('effect-server.ts')], env, trusted: true };
}

const effectsFile = ({ folder }: Parts): string => join(folder, '..', 'effects');

function effectsIn({ parts }: Stage): readonly { readonly task: string }[] {
  const file = effectsFile(parts);
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as { task: string });
}

/** The receiver of the servers' reports. A server waits for the answer to each report. */
export type Rig = {
  readonly url: string;
  hear: (when: 'before' | 'after') => void | Promise<void>;
  close(): Promise<void>;
};

export async function startRig(): Promise<Rig> {
  const server = createServer((request, response) => {
    void Promise.resolve(rig.hear(request.url === '/before' ? 'before' : 'after')).then(() => response.end());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const rig: Rig = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hear: () => undefined,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return rig;
}

/** People's answers to a coding agent that a restart ended, in its turn or its background run. */
const ANSWERS = [
  { name: 'yes', line: '/allow', isAside: false },
  { name: 'no', line: '/reject', isAside: false },
  { name: 'yes, beside the floor', line: '/allow', isAside: true },
] as const;

/** An agent asks for the same twice: an answer across a restart counts once, and the second request is asked. */
async function killedAgent(size: Size): Promise<Outcome> {
  const forms = size === 'short' ? ANSWERS.slice(0, 1) : ANSWERS;
  const measured: Record<string, unknown> = {};
  for (const form of forms) Object.assign(measured, await answeredOverRestart(form));
  // One card is posted before the restart and edited after it. The second request has the other card.
  const wanted = forms.flatMap(({ name, line }) => {
    const effects = line === '/allow' ? 2 : 1;
    return Object.entries({ cards: 2, edited: 1, grants: 1, told: 1, effects, decisions: 'open, grant, once' }).map(
      ([key, value]) => [`${name}: ${key}`, value] as const,
    );
  });
  return outcome(measured, Object.fromEntries(wanted));
}

async function answeredOverRestart({ name, line, isAside }: (typeof ANSWERS)[number]) {
  const config = (parts: Parts) => ({
    ...configOf(parts),
    mcp: {},
    tools: { ask: ['execute'] },
    agents: [
      {
        id: 'dev',
        backend: { kind: 'acp', command: process.execPath, args: [fixture('asking-agent.ts')], cwd: parts.folder },
      },
    ],
  });
  return await onStage({ config }, async (stage) => {
    const bot = await stage.start();
    const page = await pageIn(bot);
    if (isAside) await page.command(CHANNEL, '/run start dev Tidy up.');
    else await page.say(CHANNEL, 'Tidy up.');
    const asked = await numberAsked(page, 0);
    await bot.end('SIGKILL');
    page.close();
    const again = await pageIn(await stage.start());
    const isEdited = (text: string): boolean => text.includes('was restarted. Your decision counts');
    await again.until(() => again.texts('system').some(isEdited), 'the edited card');
    const edited = again.texts('system').filter(isEdited).length;
    await again.command(CHANNEL, `${line} ${asked}`);
    await again.command(CHANNEL, `/allow ${await numberAsked(again, asked)}`);
    const over = () => stage.facts().some(({ type }) => type === 'runCompleted');
    await again.until(over, 'the end of the run');
    const lines = (file: string) => readFileSync(join(stage.parts.folder, file), 'utf8').trim().split('\n');
    const words = line === '/allow' ? 'It was allowed' : 'It was denied';
    return {
      [`${name}: cards`]: cards(stage),
      [`${name}: edited`]: edited,
      [`${name}: grants`]: stage.facts().filter(({ type }) => type === 'grantUsed').length,
      [`${name}: told`]: lines('prompts').filter((each) => each.includes(words)).length,
      [`${name}: effects`]: lines('effects').length,
      [`${name}: decisions`]: stage
        .rows()
        .map(({ decision }) => decision)
        .join(', '),
    };
  });
}

/** Resolves with the number of the next question after `after`, once people can answer it. */
async function numberAsked(page: Page, after: number): Promise<number> {
  const open = () =>
    [page.view?.holder?.approval, ...(page.view?.asides ?? []).map(({ question }) => question)].find(
      (each) => each?.shown === true && each.question > after,
    );
  await page.until(() => open() !== undefined, 'a question');
  return open()?.question ?? 0;
}
