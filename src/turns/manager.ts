import { Alarm, stoodStillMs } from '../lib/time.ts';
import type { Command, TurnDraft } from './floor/command.ts';
import { nextDeadline } from './floor/seats.ts';
import type { Fact } from './floor/fact.ts';
import type { Floor } from './floor/floor.ts';
import { isSign } from './floor/gate.ts';
import type { Sign } from './floor/gate.ts';
import type { AgentId, ChannelId, MessageId } from './floor/settings.ts';
import { BoundedMap } from '../lib/keyed.ts';
import type { Clock, Instant, Timers } from '../lib/time.ts';
import { isNewerEdit } from '../engine/port.ts';
import type { HumanMessage, MessageChange, StateChange } from '../engine/port.ts';
import { ShownDrafts } from './shown-drafts.ts';
import { planWord } from './channel-plan.ts';
import type { Plans } from './channel-plan.ts';
import type { Applied, FloorStore, KeptTexts } from './floor-store.ts';
import { defined } from '../lib/defined.ts';

/** What the manager needs of the world. */
export type ManagerPorts = {
  readonly store: Pick<FloorStore, 'accept' | 'amend' | 'message' | 'recover'> & {
    readonly floors: Pick<FloorStore['floors'], 'apply' | 'awake' | 'due' | 'onChange' | 'resting' | 'state'>;
    readonly keyValues: Pick<KeptTexts, 'forget' | 'recall' | 'remember'>;
  };
  readonly clock: Clock;
  readonly timers: Timers;
  /** The agents that a text addresses. */
  readonly addressed: (channel: ChannelId, text: string) => readonly AgentId[];
  /** Takes what the holder has shown but not said, so that an interruption keeps it. */
  readonly takeDraft: (channel: ChannelId) => TurnDraft | null;
  /** Told after every command that changed something, once that is durable. */
  readonly changed: (change: Change) => void;
  /** A deadline could not be met: nothing was written, and it is tried again within a second. Others are met all the same. */
  readonly failed: (error: unknown) => void;
};

/** What one command changed. */
export type Change = {
  readonly channel: ChannelId;
  readonly at: Instant;
  readonly facts: readonly Fact[];
  readonly floor: Floor;
};

/** What was said of a text before its turn ended, and when that is on disk. */
export type Kept = { readonly text: string; readonly durable: Promise<void> };

/** How many floors are brought back at once: what people do comes between. */
const AT_ONCE = 50;

/** How long until a deadline that could not be met is tried again, in milliseconds. */
const AGAIN_MS = 1_000;

/** How many changes of messages that are not taken in are kept: most are of messages from before Conch came. */
const EARLY_KEPT = 1_000;

/** What comes just before a tick may put the deadline off, but not so often in one round. */
const MOST_IN_VAIN = 3;

/**
 * The one door to all floors: everything that happens in a channel is a command here, and every command is one
 * transaction of the store. Keeps the one alarm for the earliest deadline of all channels.
 */
export class TurnManager {
  readonly #ports: ManagerPorts;
  /** The standstills of the process that the floors know of. */
  #stoodStillMs: number;
  readonly #alarm: Alarm;
  readonly #signs: Signs;
  readonly #drafts: ShownDrafts;
  readonly #plans: KnownPlans;
  /** What floors that nothing was done to since are told before anything else. */
  readonly #untold = new Map<ChannelId, 'restart' | 'disconnect'>();
  #running = true;
  #meeting = false;
  #rang = false;
  #amended: Promise<void> = Promise.resolve();
  /** The last edit or deletion of each message that is not taken in yet. */
  readonly #early = new BoundedMap<MessageId, MessageChange>(EARLY_KEPT);

  constructor(ports: ManagerPorts) {
    this.#ports = ports;
    this.#stoodStillMs = stoodStillMs(ports.clock);
    // A standstill puts the deadlines of the floors off, and they are told of it when this rings.
    this.#alarm = new Alarm({ now: () => ports.clock.now() }, ports.timers, () => void this.#meetDeadlines());
    this.#signs = new Signs(ports);
    this.#drafts = new ShownDrafts(ports);
    this.#plans = new KnownPlans(ports.store);
    ports.store.floors.onChange((change) => this.#told(change));
  }

  /**
   * Carries out a command; resolves once what follows from it is durable. A refusal is a value; a rejection means that nothing was written.
   * A sign of work that only puts a deadline off is not waited for: it counts with what comes next, and within seconds.
   */
  async apply(channel: ChannelId, command: Command): Promise<Applied> {
    this.#tellStandstill();
    const untold = this.#untold.get(channel);
    if (untold !== undefined) return this.#applyAfter(untold, channel, command);
    const floor = this.#ports.store.floors.state(channel);
    if (floor !== null && isSign(floor, command)) return this.#signs.keep(floor, command);
    const sign = this.#signs.take(channel, command);
    if (command.type === 'tick') await sign;
    const at = this.#ports.clock.now();
    const saying = this.#keep(channel, command, at);
    const applied = this.#ports.store.floors.apply(channel, command, at);
    const said = saying !== null || SAYING.has(command.type) ? this.#drafts.forget(channel, saying !== null) : null;
    if (saying !== null || sign !== null || said !== null) await Promise.all([applied, saying, sign, said]);
    return await applied;
  }

  /**
   * Takes in what a person wrote: durable when it resolves, and given to the floor in the same commit. A second delivery changes nothing.
   * An edit or a deletion that came before the message counts: a history that was read earlier may hand in the older text.
   */
  async receive(message: HumanMessage): Promise<void> {
    const latest = amendedBy(this.#early.get(message.id), message);
    if (latest === null) return;
    const accepted = this.#ports.store.accept(latest);
    await Promise.all([accepted, this.route(latest)]);
    this.#early.delete(message.id);
  }

  /** Gives an accepted message to its floor. */
  async route(message: HumanMessage): Promise<void> {
    const named = this.#ports.addressed(message.channel, message.text);
    const addressed = [...new Set([...message.addressed, ...named])];
    const { id, order, channel, ignore, bot } = message;
    const marks = { ...defined({ ignore }), ...(bot === true ? { fromProgram: bot } : {}) };
    await this.apply(channel, { type: 'receive', id, order, addressed, ...marks });
  }

  /** Takes in an edit or a deletion, durable with what follows from it; one of an unknown message, or a second delivery, changes nothing. */
  amend(change: MessageChange): Promise<void> {
    const amended = this.#amended.then(() => this.#amend(change));
    this.#amended = amended.catch(() => undefined);
    return amended;
  }

  /**
   * Begins after a start: nothing is granted at a floor before its `catchUp` command. Resolves with the channels whose floors are to be
   * brought back, each of which is told of the restart before anything else. A floor at rest that goes by its plan is none of them:
   * it goes on as it is.
   */
  async recover(plans: Plans): Promise<readonly ChannelId[]> {
    const { store } = this.#ports;
    const { unapplied } = await store.recover();
    const others = await this.#plans.others(plans);
    const mayRest = (id: ChannelId): boolean =>
      store.floors.state(id) !== null && plans.mayRest(plans.of(id)?.seats ?? []);
    const awake = [...unapplied.map(({ channel }) => channel), ...store.floors.awake()];
    const channels = new Set([...awake, ...others]);
    for (const id of [...awake, ...others.filter((each) => !mayRest(each))]) this.#untold.set(id, 'restart');
    for (const { channel } of unapplied) await this.#bringBack(channel, plans);
    for (const message of unapplied) await this.route(message);
    return [...channels];
  }

  /** Brings floors back, some at a time, and has them go by their plans; one that has none any more loses its seats. */
  async bringBack(channels: readonly ChannelId[], plans: Pick<Plans, 'of'>): Promise<void> {
    for (let from = 0; from < channels.length && this.#running; from += AT_ONCE) {
      await Promise.all(channels.slice(from, from + AT_ONCE).map((channel) => this.#bringBack(channel, plans)));
    }
  }

  /** All floors go by these plans: the next start need not look. */
  async settle(plans: Plans): Promise<void> {
    if (this.#running) await this.#plans.settle(plans);
  }

  /** Applies what changed in the configuration to the floors; turns under way are not touched unless their agent is gone. */
  async configure(plans: Plans): Promise<void> {
    const others = await this.#plans.others(plans);
    await this.bringBack([...new Set([...others, ...this.#ports.store.floors.awake()])], plans);
    await this.settle(plans);
  }

  /** The platform of these channels cannot be heard. A floor at rest is told so when something happens there. */
  async lose(channels: readonly ChannelId[]): Promise<void> {
    const awake = new Set(this.#ports.store.floors.awake());
    const others = channels.filter((channel) => !this.#untold.has(channel));
    for (const channel of others) if (!awake.has(channel)) this.#untold.set(channel, 'disconnect');
    await Promise.all(others.filter((id) => awake.has(id)).map((id) => this.apply(id, { type: 'disconnect' })));
  }

  /** The history of a channel was read, or could not be (`gap` says why). */
  async heard(channel: ChannelId, gap: string | null): Promise<void> {
    if (gap === null && this.#untold.get(channel) === 'disconnect') this.#untold.delete(channel);
    else await this.apply(channel, { type: 'catchUp', ...(gap === null ? {} : { gap }) });
  }

  /** The draft of a channel is shown: what people see of it outlives this process, and is known to others, a second later. */
  shown(channel: ChannelId, draft: () => TurnDraft | null): void {
    this.#drafts.shown(channel, draft);
  }

  /** A floor as whatever happens next will find it; `null` when there is none. */
  floor(channel: ChannelId): Floor | null {
    const floor = this.#ports.store.floors.state(channel);
    return floor === null || this.#untold.get(channel) !== 'disconnect' ? floor : { ...floor, catchingUp: true };
  }

  /** No deadline fires any more. */
  stop(): void {
    this.#running = false;
    for (const part of [this.#signs, this.#drafts]) part.stop();
    this.#alarm.cancel();
  }

  /** After a standstill of the process each floor is told before anything else happens there. */
  #tellStandstill(): void {
    const total = stoodStillMs(this.#ports.clock);
    const ms = total - this.#stoodStillMs;
    if (ms === 0) return;
    this.#stoodStillMs = total;
    for (const channel of this.#ports.store.floors.awake()) {
      if (this.#untold.has(channel)) continue;
      this.apply(channel, { type: 'standstill', ms }).catch((error: unknown) => this.#ports.failed(error));
    }
  }

  /** One after the other: whether a wording is news is seen only once the one before it is in. */
  async #amend(change: MessageChange): Promise<void> {
    const { store } = this.#ports;
    const { id, channel } = change;
    const command = { type: change.change === 'edited' ? 'edit' : 'delete', id } as const;
    const known = store.message(id);
    if (known === null) {
      if (isNewerThan(change, this.#early.get(id))) this.#early.set(id, change);
      const amended = await store.amend(change);
      if (amended !== 'unknown') this.#early.delete(id);
      if (amended === 'changed') await this.apply(channel, command);
      return;
    }
    if (!isNewerEdit(change, known)) return;
    const amended = store.amend(change);
    await (known.fate?.state === 'ignored' ? amended : Promise.all([amended, this.apply(channel, command)]));
  }

  async #bringBack(channel: ChannelId, plans: Pick<Plans, 'of'>): Promise<void> {
    const floor = this.#ports.store.floors.state(channel);
    const retired = floor === null || floor.seats.length === 0 ? null : { settings: floor.settings, seats: [] };
    const plan = plans.of(channel) ?? retired;
    if (plan === null) this.#untold.delete(channel);
    else await this.apply(channel, { type: 'configure', settings: plan.settings, seats: plan.seats });
  }

  /** In one commit. What a floor was not told, because the disk was full, it is told the next time. */
  async #applyAfter(type: 'restart' | 'disconnect', channel: ChannelId, command: Command): Promise<Applied> {
    this.#untold.delete(channel);
    const telling = this.apply(channel, { type });
    telling.catch(() => void this.#untold.set(channel, type));
    const [, applied] = await Promise.all([telling, this.apply(channel, command)]);
    return applied;
  }

  /** What a run caused counts as what was asked of the floor itself; the record of a refusal is nothing that changed. */
  #told({ key: channel, at, facts, state: floor }: StateChange<Floor, Fact, unknown>): void {
    if (facts.every(({ type }) => type === 'actRefused')) return;
    this.#arm(nextDeadline(floor));
    this.#ports.changed({ channel, at, facts, floor });
  }

  /**
   * Says what people have seen of a text whose turn is ended from beside the floor: durable with what is done in the same task.
   * `text` is what is said, empty for nothing.
   */
  keep(channel: ChannelId, agent: AgentId, by: string, completes = false): Kept {
    const epoch = this.#ports.store.floors.state(channel)?.turn?.epoch ?? 0;
    const ending: Command = completes ? { type: 'completeTurn', agent, epoch, by } : { type: 'skip', agent, by };
    const at = this.#ports.clock.now();
    const said = this.#drafts.take(channel, ending, at);
    if (said === null) return { text: '', durable: Promise.resolve() };
    const durable = Promise.all([this.#say(channel, said, at), this.#drafts.forget(channel, true)]).then(
      () => undefined,
    );
    return { text: said.text, durable };
  }

  /** Says first what people have seen of a text whose turn the command may end. */
  #keep(channel: ChannelId, command: Command, at: Instant): Promise<Applied> | null {
    const said = this.#drafts.take(channel, command, at);
    return said === null ? null : this.#say(channel, said, at);
  }

  #say(channel: ChannelId, said: TurnDraft, at: Instant): Promise<Applied> {
    return this.#ports.store.floors.apply(channel, { type: 'say', ...said }, at);
  }

  #arm(at: Instant | null): void {
    if (this.#running) this.#alarm.noLaterThan(at);
  }

  /** One round at a time; an alarm that rings meanwhile asks for another. */
  async #meetDeadlines(): Promise<void> {
    this.#tellStandstill();
    this.#rang = true;
    if (this.#meeting) return;
    this.#meeting = true;
    while (this.#rang && this.#running) {
      this.#rang = false;
      await this.#round().catch((error: unknown) => this.#unmet(error));
    }
    this.#meeting = false;
  }

  /** Meets what is due until nothing is: time passes inside commits, and more falls due meanwhile. */
  async #round(): Promise<void> {
    const vain = new Map<ChannelId, number>();
    for (;;) {
      const before = this.#ports.clock.now();
      const { keys: channels, next } = await this.#ports.store.floors.due(before);
      const due = channels.filter((channel) => vain.get(channel) !== MOST_IN_VAIN);
      if (due.length === 0 || !this.#running) return this.#arm(next);
      const failures = new Set<unknown>();
      const meet = async (channel: ChannelId): Promise<void> => {
        try {
          vain.set(channel, await this.#meet(channel, { before, vain: vain.get(channel) ?? 0 }));
        } catch (error) {
          vain.set(channel, MOST_IN_VAIN);
          failures.add(error);
        }
      };
      await Promise.all(due.map(meet));
      for (const failure of failures) this.#unmet(failure);
    }
  }

  /** Resolves with how many ticks in a row did nothing here. A deadline that does not go away is a bug. */
  async #meet(channel: ChannelId, { before, vain }: { before: Instant; vain: number }): Promise<number> {
    const { ok, state } = await this.apply(channel, { type: 'tick' });
    const left = nextDeadline(state);
    const isLeft = (left !== null && left <= before) || (!ok && vain + 1 === MOST_IN_VAIN);
    if (isLeft) throw new Error(`impossible: ${channel} is due at ${before} and stays so after its tick`);
    return ok ? 0 : vain + 1;
  }

  #unmet(error: unknown): void {
    this.#arm(this.#ports.clock.now() + AGAIN_MS);
    this.#ports.failed(error);
  }
}

/** How long a sign of work that only puts a deadline off waits for a commit to go along with, in milliseconds. */
const SIGN_WAITS_MS = 5_000;

/** Signs of work that wait, at most one a channel. */
class Signs {
  readonly #ports: ManagerPorts;
  readonly #alarm: Alarm;
  readonly #signs = new Map<ChannelId, { readonly command: Sign; readonly at: Instant }>();

  constructor(ports: ManagerPorts) {
    this.#ports = ports;
    this.#alarm = new Alarm(ports.clock, ports.timers, () => this.#takeAll());
  }

  /** Keeps a sign of work until something else happens in its channel, at most for seconds. */
  keep(floor: Floor, command: Sign): Applied {
    const at = this.#ports.clock.now();
    this.#signs.set(floor.channel, { command, at });
    this.#alarm.noLaterThan(at + SIGN_WAITS_MS);
    return { ok: true, state: floor, facts: [], effects: [] };
  }

  /** Carries out the sign of work that waits in a channel, unless what the holder says tells of a later one. */
  take(channel: ChannelId, before: Command | null): Promise<unknown> | null {
    const sign = this.#signs.get(channel);
    if (sign === undefined) return null;
    this.#signs.delete(channel);
    const isOutdone = before?.type === 'say' && before.epoch === sign.command.epoch;
    if (isOutdone && (before.workedAt ?? sign.at) >= sign.at) return null;
    return this.#ports.store.floors
      .apply(channel, sign.command, sign.at)
      .catch((error: unknown) => this.#ports.failed(error));
  }

  #takeAll(): void {
    for (const channel of this.#signs.keys()) void this.take(channel, null);
  }

  /** Forgets the signs that wait. */
  stop(): void {
    this.#alarm.cancel();
    this.#signs.clear();
  }
}

/** Under which name the word is kept of the plans that all floors go by. */
const PLANS = { owner: 'conch', name: 'plans' } as const;

/** The plans that the floors of a store go by. */
class KnownPlans {
  readonly #store: ManagerPorts['store'];

  constructor(store: ManagerPorts['store']) {
    this.#store = store;
  }

  /** The channels of plans by which no floor at rest goes yet, and of floors at rest that have none any more. No word holds until `settle`. */
  async others(plans: Plans): Promise<readonly ChannelId[]> {
    if (this.#areKnown(plans)) return [];
    await this.#store.keyValues.forget(PLANS.owner, PLANS.name);
    const resting = this.#store.floors.resting();
    const all = plans.all();
    const changed = all.filter((plan) => !plans.mayRest(plan.seats) || resting.get(plan.id) !== planWord(plan));
    const gone = [...resting.keys()].filter((channel) => plans.of(channel) === null);
    return [...changed.map(({ id }) => id), ...gone];
  }

  /** Whether these are the plans that all floors at rest go by. */
  #areKnown({ word }: Plans): boolean {
    return word !== null && this.#store.keyValues.recall(PLANS.owner, PLANS.name) === word;
  }

  /** All floors go by these plans: the next start need not look. */
  async settle(plans: Plans): Promise<void> {
    if (plans.word === null || this.#areKnown(plans)) return;
    await this.#store.keyValues.remember(PLANS.owner, PLANS.name, plans.word);
  }
}

/** The commands with which an agent says itself what is left to say. */
const SAYING: ReadonlySet<Command['type']> = new Set<Command['type']>(['say', 'end', 'wait']);

function isNewerThan(change: MessageChange, earlier: MessageChange | undefined): boolean {
  if (earlier?.change !== 'edited') return earlier === undefined;
  return isNewerEdit(change, { ...earlier, deleted: false });
}

/** A message as it reads after a change that came before it; `null` when it was deleted. */
function amendedBy(change: MessageChange | undefined, message: HumanMessage): HumanMessage | null {
  if (change === undefined || change.channel !== message.channel) return message;
  if (change.change === 'deleted') return null;
  const { text, version } = change;
  if (!isNewerEdit(change, { ...message, deleted: false })) return message;
  return { ...message, text, ...defined({ version }) };
}
