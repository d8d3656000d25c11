import { ChatError } from '../../src/adapters/port.ts';
import type { ChatAdapter, History, Intake, OutgoingPost } from '../../src/adapters/port.ts';
import type { HumanMessage } from '../../src/engine/port.ts';
import type { Random } from './random.ts';
import type { Situations } from './situations.ts';
import type { Life, Timeline } from './timeline.ts';
import { Violation, must } from './violation.ts';

/** A message in a channel's history, of a person or of the bot. */
export type Posted = {
  readonly id: string;
  readonly n: number;
  readonly channel: string;
  readonly at: number;
  readonly author: string | null;
  readonly addressed: readonly string[];
  readonly ignore: string | null;
  /** True when another program wrote it. */
  readonly bot: boolean;
  text: string;
  /** `wordings`: all its texts, oldest first. `known`: the index of the last one that the bot took in. */
  readonly wordings: string[];
  known: number;
  deleted: boolean;
  isKnownDeleted: boolean;
  /** Set on posts of the bot. */
  readonly post: OutgoingPost | null;
  /** True when it reached the platform too late for the bot to know. */
  readonly late: boolean;
};

/** Probabilities of the platform's faults, from 0 to 1. */
export type Faults = {
  drop: number;
  double: number;
  delay: number;
  refuse: number;
  limit: number;
  unreachable: number;
  unclear: number;
  slow: number;
  late: number;
  blind: number;
};

export const NO_FAULTS: Faults = {
  drop: 0,
  double: 0,
  delay: 0,
  refuse: 0,
  limit: 0,
  unreachable: 0,
  unclear: 0,
  slow: 0,
  late: 0,
  blind: 0,
};

/** The ports of the platform. */
export type PlatformPorts = {
  readonly timeline: Timeline;
  readonly random: Random;
  readonly situations: Situations;
  readonly idempotent: boolean;
  readonly textLimit: number;
  /** The share of agents' texts that another program answers, from 0 to 1. */
  readonly chatty: number;
  readonly fail: (error: unknown) => void;
};

/** A request. `outboxId`: set when it posts. */
type Where = { readonly method: string; readonly channel: string; readonly outboxId?: string };

const SWEEP_MS = 240_000;

/** A draft that people saw for this long survives a crash: it was on the disk, even on a slow one. */
const SEEN_MS = 3_000;

/** A message as it was sent, and the connection that it was sent to. */
type Sent = { readonly connection: object | null; readonly message: HumanMessage };

/** A draft as people saw it. */
export type Seen = { readonly channel: string; readonly agent: string; readonly epoch: number; readonly text: string };

const NEVER = new Promise<never>(() => {});
const WORLD: Life = { alive: true };

/** A chat platform that outlives the bot. It loses, doubles, delays and reorders messages, and posts can fail. */
export class Platform {
  faults: Faults = NO_FAULTS;
  /** The time until which no message reaches the bot. */
  deafUntil = 0;
  /** True when other programs write no more. */
  isQuiet = false;
  /** The time until which every request fails. */
  downUntil = 0;
  readonly history = new Map<string, Posted[]>();
  readonly byId = new Map<string, Posted>();
  readonly receipts: string[] = [];
  /** Drafts that people had seen for a while when the program crashed. */
  readonly seen: Seen[] = [];
  /** Ids of outbox entries whose posts the platform refused for good. */
  readonly refused = new Set<string>();
  repeats = 0;
  /** Running requests of the live program, by channel. */
  readonly #flying = new Map<string, number>();
  /** The drafts that are shown, by channel: all wordings with their times. */
  readonly #drafts = new Map<string, readonly (Seen & { readonly at: number })[]>();
  readonly #ports: PlatformPorts;
  readonly #known = new Set<string>();
  /** Messages in the history that a program read. It may have crashed before it took them in. */
  readonly #caught = new Set<string>();
  readonly #searched = new Set<string>();
  readonly #highest = new Map<string, number>();
  #connection: { readonly life: Life; readonly intake: Intake } | null = null;
  #isLost = false;
  #n = 9_950;

  constructor(ports: PlatformPorts) {
    this.#ports = ports;
  }

  /** The newest wording that was handed over: an adapter hands over the edits of a message in order. */
  readonly #handedIn = new Map<string, number>();

  get intake(): Intake | null {
    return this.#connection !== null && this.#connection.life.alive ? this.#connection.intake : null;
  }

  get isHeard(): boolean {
    return !this.#isLost;
  }

  get isPosting(): boolean {
    return [...this.#flying.values()].some((count) => count > 0);
  }

  /** A person writes. The message may be lost on the way to the bot. */
  write(
    channel: string,
    message: { author: string; text: string; addressed: readonly string[]; ignore: string | null; bot?: boolean },
  ): Posted {
    const posted = this.#add({ channel, bot: false, ...message, post: null, late: false });
    this.#send(posted);
    return posted;
  }

  edit(posted: Posted, text: string): void {
    posted.text = text;
    posted.wordings.push(text);
    const { channel, id } = posted;
    const wording = posted.wordings.length;
    this.#hand('edit', async (intake) => {
      if (wording < (this.#handedIn.get(id) ?? 0)) return;
      this.#handedIn.set(id, wording);
      await intake.amend({ change: 'edited', id, channel, text });
      posted.known = Math.max(posted.known, posted.wordings.indexOf(text));
    });
  }

  remove(posted: Posted): void {
    posted.deleted = true;
    const { channel, id } = posted;
    this.#hand('delete', async (intake) => {
      await intake.amend({ change: 'deleted', id, channel });
      posted.isKnownDeleted = true;
    });
  }

  /**
   * Tells the program that it is disconnected, and `ms` milliseconds later that it is connected again. Messages from
   * between arrive as usual, or the program must read them from the history.
   */
  lose(ms: number): void {
    const connection = this.#connection;
    if (connection === null || !connection.life.alive || this.#isLost) return;
    const { random, timeline } = this.#ports;
    this.#isLost = true;
    const missed = random.chance(0.3) ? 'nothing' : 'perhaps';
    if (missed === 'perhaps') this.deafUntil = timeline.now + ms;
    connection.intake.disconnected();
    timeline.after(ms, 'contact', connection.life, () => {
      if (this.#connection !== connection) return;
      this.#isLost = false;
      connection.intake.reconnected({ missed });
      if (random.chance(0.1)) this.lose(random.between(1, 3_000));
    });
  }

  /** Called when the program crashes: its requests still arrive, their answers do not. */
  cutOff(): void {
    const { now } = this.#ports.timeline;
    for (const wordings of this.#drafts.values())
      this.seen.push(...wordings.filter(({ at }) => at + SEEN_MS <= now).slice(-1));
    this.#drafts.clear();
    this.#connection = null;
    this.#isLost = false;
    this.#flying.clear();
  }

  /** Reads the history again and hands over messages that the bot does not know. */
  sweep(): void {
    for (const list of this.history.values()) {
      for (const posted of list) {
        if (posted.author === null || posted.deleted || this.#known.has(posted.id)) continue;
        if (!this.#caught.has(posted.id)) this.#ports.situations.reach('a message lost on its way is found by a sweep');
        this.#hand('swept message', (intake) => this.#deliver(intake, posted), 0);
      }
    }
  }

  /** Returns the platform's adapter for one life of the program. */
  adapterFor(life: Life): ChatAdapter {
    const { idempotent, textLimit } = this.#ports;
    return {
      name: 'console',
      capabilities: {
        textLimit,
        idempotentPosts: idempotent,
        fileAbove: null,
      },
      start: (intake) => this.#start(life, intake),
      stop: async () => {
        if (this.#connection?.life === life) this.#connection = null;
      },
      post: (channel, post) => this.#guarded(life, channel, () => this.#post(life, channel, post)),
      find: (channel, post) => this.#guarded(life, channel, () => this.#find(life, channel, post)),
      edit: (channel, id, text) => this.#guarded(life, channel, () => this.#edit(life, id, text)),
      receipt: (channel, message, receipt) =>
        this.#request(life, { method: 'receipt', channel }, () => void this.receipts.push(`${message} ${receipt}`)),
      draft: (channel, { id: agent }, epoch, text) => {
        if (!life.alive) return;
        const before = (this.#drafts.get(channel) ?? []).filter((each) => each.epoch === epoch && each.agent === agent);
        if (text === null) this.#drafts.delete(channel);
        else this.#drafts.set(channel, [...before, { channel, agent, epoch, text, at: this.#ports.timeline.now }]);
      },
      card: (channel, view) => {
        const active = view.seats.filter(({ status }) => status === 'ACTIVE');
        if (active.length > 1) this.#ports.fail(new Violation('I1', `the card of ${channel} shows two ACTIVE seats`));
      },
      catchUp: (channel, after) => this.#catchUp(life, channel, after?.order ?? null),
    };
  }

  async #start(life: Life, intake: Intake): Promise<void> {
    await this.#pause(life, this.#ports.random.between(1, 400));
    if (this.#ports.random.chance(this.faults.unreachable)) {
      this.#ports.situations.reach('a start that fails');
      throw new ChatError('no connection', { method: 'start', channel: '', fault: 'unreachable' });
    }
    this.#connection = { life, intake };
    this.#sweepLater(life);
  }

  #sweepLater(life: Life): void {
    this.#ports.timeline.after(SWEEP_MS, 'sweep', life, () => {
      this.sweep();
      this.#sweepLater(life);
    });
  }

  #add(entry: Pick<Posted, 'channel' | 'author' | 'addressed' | 'ignore' | 'bot' | 'text' | 'post' | 'late'>): Posted {
    const n = (this.#n += this.#ports.random.between(1, 9));
    const { now } = this.#ports.timeline;
    const wordings = [entry.text];
    const posted: Posted = {
      ...entry,
      id: `m${n}`,
      n,
      at: now,
      wordings,
      known: 0,
      deleted: false,
      isKnownDeleted: false,
    };
    const list = this.history.get(entry.channel) ?? [];
    list.push(posted);
    this.history.set(entry.channel, list);
    this.byId.set(posted.id, posted);
    return posted;
  }

  #send(posted: Posted): void {
    const { random, timeline } = this.#ports;
    if (timeline.now < this.deafUntil || random.chance(this.faults.drop)) return;
    const times = random.chance(this.faults.double) ? 2 : 1;
    for (let time = 0; time < times; time += 1) {
      const ms = random.chance(this.faults.delay) ? random.between(100, 20_000) : random.between(0, 30);
      const sent = { connection: this.#connection, message: messageOf(posted) };
      this.#hand('message', (intake) => this.#deliver(intake, posted, sent), ms);
    }
  }

  /** Delivers the wording at the time of sending, even after a change. A new connection gets the present wording. */
  async #deliver(intake: Intake, posted: Posted, sent?: Sent): Promise<void> {
    const isOld = sent !== undefined && sent.connection === this.#connection;
    if (posted.deleted && !isOld) return;
    if (isOld && sent.message.text !== posted.text && !this.#known.has(posted.id))
      this.#ports.situations.reach('an edit overtakes its message');
    if (isOld && posted.deleted && !this.#known.has(posted.id))
      this.#ports.situations.reach('a deletion overtakes its message');
    const last = this.#highest.get(posted.channel) ?? 0;
    if (posted.n < last && !this.#known.has(posted.id)) this.#ports.situations.reach('messages arrive out of order');
    await intake.message(isOld ? sent.message : messageOf(posted));
    this.#known.add(posted.id);
    this.#highest.set(posted.channel, Math.max(last, posted.n));
  }

  #hand(what: string, give: (intake: Intake) => Promise<void>, ms = this.#ports.random.between(0, 40)): void {
    const { timeline, fail } = this.#ports;
    timeline.after(ms, what, WORLD, () => {
      const connection = this.#connection;
      if (connection === null || !connection.life.alive || timeline.now < this.deafUntil) return;
      give(connection.intake).catch((error: unknown) => {
        if (connection.life.alive && this.#connection === connection) fail(error);
      });
    });
  }

  async #guarded<T>(life: Life, channel: string, run: () => Promise<T>): Promise<T> {
    if (!life.alive) return NEVER;
    const flying = this.#flying.get(channel) ?? 0;
    if (flying > 0) this.#ports.fail(new Violation('I11', `two posts are under way in ${channel} at once`));
    this.#flying.set(channel, flying + 1);
    try {
      return await run();
    } finally {
      if (life.alive) this.#flying.set(channel, 0);
    }
  }

  #post(life: Life, channel: string, post: OutgoingPost): Promise<string> {
    const { random, timeline, situations, textLimit, idempotent } = this.#ports;
    must(
      'I13',
      post.text.trim() !== '' && post.text.length <= textLimit,
      () => `a post of ${post.text.length} characters`,
    );
    if (this.#searched.has(post.outboxId)) situations.reach('an uncertain post is sent again after its searches');
    if (random.chance(this.faults.late)) {
      const late = !idempotent;
      timeline.after(random.between(9_000, 20_000), 'late post', WORLD, () => void this.#keep(channel, post, late));
      situations.reach('a post that arrives long after its request failed');
      return this.#failed(life, 'post', channel, 'unclear');
    }
    return this.#request(life, { method: 'post', channel, outboxId: post.outboxId }, () =>
      this.#keep(channel, post, false),
    );
  }

  #keep(channel: string, post: OutgoingPost, late: boolean): string {
    const { idempotent, situations } = this.#ports;
    const earlier = (this.history.get(channel) ?? []).filter((posted) => posted.post?.outboxId === post.outboxId);
    const [first] = earlier;
    if (first !== undefined && idempotent) {
      situations.reach('a repeated post is taken for the first one');
      return first.id;
    }
    if (first !== undefined) {
      const conceded = late || earlier.some((posted) => posted.late);
      must('I11', conceded, () => `${post.outboxId} was posted twice in ${channel}`);
      this.repeats += 1;
    }
    const { text } = post;
    const posted = this.#add({ channel, author: null, addressed: [], ignore: null, bot: false, text, post, late });
    if (post.epoch !== null) this.#answer(channel, posted.id);
    return posted.id;
  }

  /** Another program may answer an agent's text. */
  #answer(channel: string, id: string): void {
    const { random, timeline, chatty } = this.#ports;
    if (!random.chance(chatty)) return;
    timeline.after(random.pick([50, 2_000, 90_000]), 'program', WORLD, () => {
      if (!this.isQuiet)
        this.write(channel, { author: 'ci', text: `beep ${id}`, addressed: [], ignore: null, bot: true });
    });
  }

  async #find(life: Life, channel: string, post: OutgoingPost): Promise<string | null> {
    if (this.#ports.random.chance(this.faults.blind)) {
      this.#ports.situations.reach('a search for a post fails');
      return this.#failed(life, 'find', channel, 'unreachable');
    }
    const found = await this.#request(life, { method: 'find', channel }, () => {
      const list = this.history.get(channel) ?? [];
      const after = post.afterId === null ? 0 : this.byId.get(post.afterId)?.n;
      must(
        'I11',
        after !== undefined,
        () => `${post.outboxId} is looked for after ${post.afterId}, which was never posted`,
      );
      return list.find(({ n, post: other }) => n > after && other?.outboxId === post.outboxId)?.id ?? null;
    });
    if (found === null) this.#searched.add(post.outboxId);
    else this.#ports.situations.reach('an uncertain post is found by its search');
    return found;
  }

  #edit(life: Life, id: string, text: string): Promise<'changed' | 'gone'> {
    return this.#request(life, { method: 'edit', channel: id }, () => {
      const posted = this.byId.get(id);
      must('I12', posted?.post?.epoch === null, () => `an edit of ${id}, which is no announcement`);
      if (posted.deleted) {
        this.#ports.situations.reach('an edit of a question that was deleted');
        return 'gone';
      }
      posted.text = text;
      this.#ports.situations.reach('an announcement that recurs is edited');
      return 'changed';
    });
  }

  async #catchUp(life: Life, channel: string, after: string | null): Promise<History> {
    const { random, situations } = this.#ports;
    await this.#pause(life, random.between(5, 800));
    if (random.chance(this.faults.unreachable)) return this.#failed(life, 'catchUp', channel, 'unreachable');
    const missed = (this.history.get(channel) ?? []).filter(
      ({ n, author, deleted }) => author !== null && !deleted && (after === null || n > Number(after)),
    );
    const isCut = missed.length > 3 && random.chance(this.faults.limit);
    const messages = isCut ? missed.slice(-3) : missed;
    if (messages.some(({ id }) => !this.#known.has(id))) situations.reach('messages are found by catching up');
    for (const { id } of messages) this.#caught.add(id);
    return {
      messages: messages.map(messageOf),
      changes: [],
      gap: isCut ? 'the platform shows only its newest messages' : null,
    };
  }

  /** Makes a request, which by chance is done and answered, done without an answer, or not done. */
  async #request<T>(life: Life, where: Where, act: () => T): Promise<T> {
    if (!life.alive) return NEVER;
    const { method, channel, outboxId } = where;
    const { random, situations, timeline, fail } = this.#ports;
    const { faults } = this;
    if (timeline.now < this.downUntil) {
      situations.reach('the platform is out for minutes');
      return this.#failed(life, method, channel, 'unreachable');
    }
    if (random.chance(faults.refuse) && outboxId !== undefined) {
      this.refused.add(outboxId);
      situations.reach('a post that the platform refuses');
      return this.#failed(life, method, channel, 'refused');
    }
    if (random.chance(faults.limit)) {
      situations.reach('the platform limits the rate');
      return this.#failed(life, method, channel, 'limited');
    }
    if (random.chance(faults.unreachable)) return this.#failed(life, method, channel, 'unreachable');
    if (random.chance(faults.unclear)) {
      if (random.chance(0.6)) this.#attempt(act, random.between(1, 300));
      const isOdd = random.chance(0.3);
      await this.#pause(life, random.between(300, 5_000));
      if (isOdd) throw new Error('socket hang up');
      throw new ChatError('no answer', { method, channel, fault: 'unclear' });
    }
    const { promise, resolve } = Promise.withResolvers<T>();
    const slow = random.chance(faults.slow) ? random.between(2_000, 40_000) : random.between(1, 120);
    timeline.after(random.between(1, 200), method, WORLD, () => {
      try {
        const value = act();
        if (method === 'receipt' && life.alive) resolve(value);
        else timeline.after(slow, `${method} answered`, life, () => resolve(value));
      } catch (error) {
        fail(error);
      }
    });
    return promise;
  }

  #attempt(act: () => unknown, ms: number): void {
    this.#ports.timeline.after(ms, 'unanswered request', WORLD, () => {
      try {
        act();
      } catch (error) {
        this.#ports.fail(error);
      }
    });
  }

  async #failed(life: Life, method: string, channel: string, fault: ChatError['fault']): Promise<never> {
    const { random } = this.#ports;
    await this.#pause(life, random.between(1, 900));
    const wait = fault === 'limited' ? { retryAfterMs: random.between(100, 30_000) } : {};
    throw new ChatError(`${method} failed`, { method, channel, fault, ...wait });
  }

  #pause(life: Life, ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#ports.timeline.after(ms, 'platform', life, resolve);
    return promise;
  }
}

function messageOf({ id, n, channel, author, text, at, addressed, ignore, bot }: Posted): HumanMessage {
  const skewMs = 37_000;
  return {
    id,
    channel,
    author: { id: author ?? '', name: author ?? '' },
    text,
    sentAt: at - skewMs,
    order: String(n),
    addressed,
    attachments: [],
    ...(ignore === null ? {} : { ignore }),
    ...(bot ? { bot } : {}),
  };
}
