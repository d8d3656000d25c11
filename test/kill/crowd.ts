import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { ServerFrame } from '../../src/adapters/console/protocol.ts';
import { requestsOn } from '../../src/turns/floor/seats.ts';
import type { Question } from '../../src/turns/floor/settings.ts';
import type { Ledger, Sent } from './ledger.ts';
import { Page } from './page.ts';
import type { Asked, Host } from './page.ts';
import type { Random } from './random.ts';
import { TOOL_WORDS } from './tools.ts';

const REQUESTS = [
  'Build a login page with email and password',
  'Postgres or SQLite?',
  'Why is the header blue?',
  '@qa can you try it?',
  'dev: add a search box with filters',
  'Hello everybody!',
  'TURN_COMPLETE',
];
const TRICKS = [
  'dev: slow',
  'pm: ask',
  'dev: hang',
  'qa: forget',
  'pm: pass',
  'dev: refuse inject',
  'pm: hand to qa',
  'qa: crash',
];
const ANSWER = /^\/(allow|answer|reject) (\d+)/;
const MODE = '/floor mode ';
const COMMANDS = [
  ...['inject', 'queue', 'interrupt', 'parallel'].map((mode) => `${MODE}${mode}`),
  ...['round-robin', 'priority', 'mention'].map((order) => `/floor order ${order}`),
  '/floor skip',
  '/floor skip',
  '/stop',
  '/floor pause',
  '/floor resume',
  '/floor start',
  '/floor grant dev',
  '/floor remove qa',
  '/floor add qa',
  '/agent disable dev',
  '/agent enable dev',
  '/agent restart pm',
  '/floor extend 5',
  '/queue',
];

/** Orders for background runs: with tools, and without. */
const BESIDE_WORDS = ['write a note', 'write a note', 'read the note', 'look for dead links'];

/** The channel in which the agent only uses tools. */
export const TOOLS_CHANNEL = 'console:tools';

/** A frame without an answer so far, and what runs when the server answers it. */
type Open = { readonly frame: Asked; readonly answered: (ok: boolean, id: string | null) => void };

/** A person at a page. Sends frames again that the server did not acknowledge. */
export class Typist {
  readonly name: string;
  readonly channel: string;
  readonly #ledger: Ledger;
  readonly #random: Random;
  readonly #gapMs: readonly [number, number];
  readonly #open = new Map<string, Open>();
  #page: Page | null = null;

  /** `gapMs`: the shortest and the longest wait between two acts. */
  constructor(
    name: string,
    channel: string,
    parts: { readonly ledger: Ledger; readonly random: Random; readonly gapMs: readonly [number, number] },
  ) {
    this.name = name;
    this.channel = channel;
    this.#ledger = parts.ledger;
    this.#random = parts.random;
    this.#gapMs = parts.gapMs;
  }

  get page(): Page | null {
    return this.#page;
  }

  /** True when each sent frame has its answer. */
  get isDone(): boolean {
    return this.#open.size === 0;
  }

  /** Opens the page and sends unacknowledged frames again, except commands. Ignores a bot that does not answer. */
  async connect(bot: Host): Promise<void> {
    this.#page?.close();
    this.#page = await Page.open(bot, this.channel, (frame) => this.#hear(frame)).catch(() => null);
    for (const [key, { frame }] of this.#open) {
      if (frame.type === 'command') this.#open.delete(key);
      else this.#page?.send(frame);
    }
  }

  disconnect(): void {
    this.#page?.close();
    this.#page = null;
  }

  /** Acts until the page loses its connection or the time is over. */
  async act(until: AbortSignal, bot: Host): Promise<void> {
    while (!until.aborted) {
      if (this.#page === null || !this.#page.isOpen) return;
      if (this.#random.chance(0.04)) await this.connect(bot);
      else this.#do();
      await pause(this.#random.between(...this.#gapMs));
    }
  }

  say(text: string, unique: boolean): void {
    const sent: Sent = { key: randomUUID(), by: this.name, channel: this.channel, text, unique, id: null };
    this.#ledger.sent.push(sent);
    this.#ask({ type: 'say', channel: this.channel, key: sent.key, text }, (ok, id) => {
      if (ok) sent.id = id;
    });
  }

  command(line: string): void {
    this.#ask({ type: 'command', channel: this.channel, key: randomUUID(), line }, (ok) => {
      const { modesSet, answered } = this.#ledger;
      const [, choice, question] = ANSWER.exec(line) ?? [];
      if (ok && question !== undefined)
        answered.push({
          channel: this.channel,
          question: Number(question),
          choice: choice === 'reject' ? 'reject' : 'allow',
        });
      if (ok && line.startsWith(MODE)) modesSet.set(this.channel, (modesSet.get(this.channel) ?? 0) + 1);
    });
  }

  /** Writes `count` messages at once while the floor is paused. */
  burst(count: number): void {
    this.command('/floor pause');
    for (let left = count; left > 0; left -= 1) this.say(`One of many (${this.#ledger.sent.length})`, true);
    this.command('/floor resume');
  }

  #do(): void {
    const random = this.#random;
    const view = this.#page?.view ?? null;
    const asked = view === null ? [] : requestsOn(view);
    if (asked.length > 0 && random.chance(0.6)) return this.#answer(random.pick(asked).question);
    if (this.channel === TOOLS_CHANNEL) return this.#useTool();
    if (random.chance(0.2)) return this.command(random.pick(COMMANDS));
    if (random.chance(0.25)) return this.say(random.pick(TRICKS), false);
    if (random.chance(0.2)) return this.#change();
    this.say(`${random.pick(REQUESTS)} (${this.#ledger.sent.length})`, true);
  }

  /** Sends one order at a time: an agent gives one combined answer to several orders. */
  #useTool(): void {
    const { condition, holder, asides } = this.#page?.view ?? {};
    if (asides === undefined && this.#random.chance(0.5))
      return this.command(`/run start dev ${this.#random.pick(BESIDE_WORDS)}`);
    if (asides !== undefined && this.#random.chance(0.03))
      return this.command(this.#random.pick(['/run complete dev+', '/run abort dev+']));
    if (condition === 'resting' && holder === null) return this.say(this.#random.pick(TOOL_WORDS), false);
    if (this.#random.chance(0.05)) this.command(this.#random.pick(['/stop', '/floor resume', '/agent restart dev']));
  }

  /** Allows once, sometimes always, or denies. Fills a form with a page, sometimes with a forbidden one. */
  #answer({ question, about }: Question): void {
    const random = this.#random;
    if (random.chance(0.3)) return this.command(`/reject ${question} not now`);
    if (about?.form !== undefined) return this.command(`/answer ${question} page=${random.between(1, 4)}`);
    this.command(`/allow ${question}${random.chance(0.1) ? ' always' : ''}`);
  }

  #change(): void {
    const own = this.#ledger.sent.filter(
      ({ id, by, unique, change }) => id !== null && by === this.name && unique && change === undefined,
    );
    const sent = own.at(-this.#random.between(1, 5));
    if (sent === undefined || sent.id === null) return;
    const { channel, id } = sent;
    const key = randomUUID();
    const text = this.#random.chance(0.6) ? `${sent.text} edited` : null;
    if ([...this.#open.values()].some(({ frame }) => 'id' in frame && frame.id === id)) return;
    const frame: Asked =
      text === null ? { type: 'delete', channel, key, id } : { type: 'edit', channel, key, id, text };
    this.#ask(frame, (ok) => {
      if (ok) sent.change = text;
    });
  }

  #ask(frame: Asked, answered: Open['answered']): void {
    this.#open.set(frame.key, { frame, answered });
    this.#page?.send(frame);
  }

  #hear(frame: ServerFrame): void {
    this.#ledger.look(this.name, frame);
    if (frame.type !== 'accepted' && frame.type !== 'answer' && frame.type !== 'refused') return;
    const open = this.#open.get(frame.key ?? '');
    if (open === undefined) return;
    if (frame.type === 'refused' && (open.frame.type === 'say' || OF_STORE.test(frame.text))) return;
    this.#open.delete(open.frame.key);
    open.answered(
      frame.type === 'accepted' || (frame.type === 'answer' && frame.ok),
      frame.type === 'accepted' ? frame.id : null,
    );
  }
}

/** Matches refusals by a program that is about to end: what it was asked can be stored, so a person asks again. */
const OF_STORE = /^This failed\. (?:This Conch was replaced|Conch's data)/u;
