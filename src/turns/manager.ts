import { Alarm, stoodStillMs } from '../lib/time.ts';
import { breakOf } from './floor/decide.ts';
import { draftSchema } from './floor/command.ts';
import type { Command, TurnDraft } from './floor/command.ts';
import { nextDeadline } from './floor/seats.ts';
import type { Fact } from './floor/fact.ts';
import type { Floor } from './floor/floor.ts';
import { isSign, OVERFLOW } from './floor/gate.ts';
import type { Sign } from './floor/gate.ts';
import type { AgentId, ChannelId, MessageId } from './floor/settings.ts';
import { BoundedMap } from '../lib/keyed.ts';
import type { Clock, Instant, Timers } from '../lib/time.ts';
import { isNewerEdit, isStale } from '../engine/port.ts';
import type { HumanMessage, MessageChange, StateChange } from '../engine/port.ts';
import { planWord } from './channel-plan.ts';
import type { Plans } from './channel-plan.ts';
import type { Applied, FloorStore, StoredTexts } from './floor-store.ts';
import type { InboxRow } from './view.ts';
import { defined } from '../lib/defined.ts';
import { cutOff } from './text/split.ts';

/** Parts that the manager needs. */
export type ManagerPorts = {
  readonly store: Pick<FloorStore, 'accept' | 'amend' | 'message' | 'recover'> & {
    readonly floors: Pick<FloorStore['floors'], 'apply' | 'awake' | 'due' | 'onChange' | 'resting' | 'state'>;
    readonly keyValues: Pick<StoredTexts, 'forget' | 'recall' | 'remember'>;
  };
  readonly clock: Clock;
  readonly timers: Timers;
  /** Called after a person's message that is not ignored has reached a floor whose order is "review". */
  readonly opensReview?: (message: HumanMessage) => Promise<void>;
  readonly addressed: (channel: ChannelId, text: string) => readonly AgentId[];
  /** Takes the unposted draft of the holder. Called before a command that breaks off the draft, to post the draft. */
  readonly takeDraft: (channel: ChannelId) => TurnDraft | null;
  /** Called after each durable change of a floor. A recorded refusal is no change. */
  readonly changed: (change: Change) => void;
  /** Called with errors that no caller gets, such as of a failed deadline. The deadline is tried again within 1 s. */
  readonly failed: (error: unknown) => void;
};

/** The change that the commands of one journal row made. */
export type Change = {
  readonly channel: ChannelId;
  readonly at: Instant;
  readonly facts: readonly Fact[];
  readonly floor: Floor;
};

/** The posted text of a draft, and a promise for its storage. */
export type PostedDraft = { readonly text: string; readonly durable: Promise<void> };

/** The most floors to which settings and seats are applied at once. */
const MAX_CONCURRENT = 50;

/** The longest delay before a failed deadline is tried again, in milliseconds. */
const RETRY_MS = 1_000;

/**
 * The most edits and deletions that are kept until their message arrives. Most concern messages from before Conch
 * joined.
 */
const MAX_EARLY_CHANGES = 1_000;

/** The store has a bug when it still names a channel as due after this many ticks in a row that found nothing due. */
const MAX_IDLE_TICKS = 3;

/** The entry point of all floors. Keeps one alarm for the earliest deadline of all channels. */
export class TurnManager {
  readonly #ports: ManagerPorts;
  /** The total standstill of Conch's process when the floors were last told, else at the start. In milliseconds. */
  #stoodStillMs: number;
  readonly #alarm: Alarm;
  readonly #signs: Signs;
  readonly #drafts: ShownDrafts;
  readonly #plans: KnownPlans;
  /** By floor: `restart` or `disconnect`, which must be applied before the floor's next command. */
  readonly #pendingCommands = new Map<ChannelId, 'restart' | 'disconnect'>();
  #running = true;
  #meeting = false;
  #rang = false;
  #amended: Promise<void> = Promise.resolve();
  /** The last edit or deletion of each message that has not arrived yet. */
  readonly #early = new BoundedMap<MessageId, MessageChange>(MAX_EARLY_CHANGES);

  constructor(ports: ManagerPorts) {
    this.#ports = ports;
    this.#stoodStillMs = stoodStillMs(ports.clock);
    // This clock does not tell the alarm of standstills of the process, so the alarm does not wait longer. Its ring
    // tells the floors of them.
    this.#alarm = new Alarm({ now: () => ports.clock.now() }, ports.timers, () => void this.#meetDeadlines());
    this.#signs = new Signs(ports);
    this.#drafts = new ShownDrafts(ports);
    this.#plans = new KnownPlans(ports.store);
    ports.store.floors.onChange(this.#onState);
  }

  /**
   * Carries out a command. Resolves when the result is durable; a refusal is a result. Rejects when the command was not
   * written. A sign of work that only moves a deadline is delayed to the next command, at most 5 s; the promise for the
   * sign resolves before that.
   */
  async apply(channel: ChannelId, command: Command): Promise<Applied> {
    this.#tellStandstill();
    const pending = this.#pendingCommands.get(channel);
    if (pending !== undefined) return this.#applyAfter(pending, channel, command);
    const { floors } = this.#ports.store;
    let floor = floors.state(channel);
    if (floor !== null && isSign(floor, command)) return this.#signs.keep(floor, command);
    const sign = this.#signs.take(channel, command);
    if (command.type === 'tick') {
      await sign;
      floor = floors.state(channel);
    }
    const at = this.#ports.clock.now();
    const draft = this.#drafts.take(channel, floor, command, at);
    const saying = draft === null ? null : this.#say(channel, draft, at);
    const applied = floors.apply(channel, command, at);
    const said = saying !== null || SAYING.has(command.type) ? this.#drafts.forget(channel, saying !== null) : null;
    if (saying !== null || sign !== null || said !== null) await Promise.all([applied, saying, sign, said]);
    return await applied;
  }

  /**
   * Stores a message of a person or a program, and routes the message in the same commit. A message that is known
   * changes nothing. An edit that arrived before its message is applied. A message whose deletion arrived before is
   * dropped.
   */
  async receive(message: HumanMessage): Promise<void> {
    const latest = amendedBy(this.#early.get(message.id), message);
    if (latest === null) return;
    const accepted = this.#ports.store.accept(latest);
    await Promise.all([accepted, this.route(latest)]);
    this.#early.delete(message.id);
  }

  /** Routes a stored message. In the order "review", then calls `opensReview`. */
  async route(message: HumanMessage): Promise<void> {
    const named = this.#ports.addressed(message.channel, message.text);
    const addressed = [...new Set([...message.addressed, ...named])];
    const { id, order, channel, ignore, bot } = message;
    const marks = { ...defined({ ignore }), ...(bot === true ? { fromProgram: bot } : {}) };
    const { state } = await this.apply(channel, { type: 'receive', id, order, addressed, ...marks });
    const isForReview = state.settings.order === 'review' && ignore === undefined && bot !== true;
    if (isForReview) await this.#ports.opensReview?.(message);
  }

  /** Stores an edit or a deletion with its effects. Ignores repetitions. Keeps a change of a message yet to arrive. */
  amend(change: MessageChange): Promise<void> {
    const amended = this.#amended.then(() => this.#amend(change));
    this.#amended = amended.catch(() => undefined);
    return amended;
  }

  /**
   * Prepares the floors after a start. Resolves with the channels that need `bringBack`. Nothing is granted on a floor
   * with work in progress before its `catchUp` command.
   */
  async recover(plans: Plans): Promise<readonly ChannelId[]> {
    const { store } = this.#ports;
    const unapplied = await store.recover();
    const others = await this.#plans.others(plans);
    const mayRest = (id: ChannelId): boolean =>
      store.floors.state(id) !== null && plans.mayRest(plans.of(id)?.seats ?? []);
    const awake = [...unapplied.map(({ channel }) => channel), ...store.floors.awake()];
    const channels = new Set([...awake, ...others]);
    for (const id of [...awake, ...others.filter((each) => !mayRest(each))]) this.#pendingCommands.set(id, 'restart');
    for (const { channel } of unapplied) await this.#bringBack(channel, plans);
    for (const message of unapplied) await this.route(message);
    return [...channels];
  }

  /**
   * Applies the configured settings and seats of each channel (its plan) to its floor. A floor without a plan loses its
   * configured seats. First applies `restart` or `disconnect` to a floor with a plan or seats that has not had this
   * command yet.
   */
  async bringBack(channels: readonly ChannelId[], plans: Pick<Plans, 'of'>): Promise<void> {
    for (let from = 0; from < channels.length && this.#running; from += MAX_CONCURRENT) {
      await Promise.all(channels.slice(from, from + MAX_CONCURRENT).map((channel) => this.#bringBack(channel, plans)));
    }
  }

  /**
   * Stores that all floors follow these plans, so that a start with the same plans skips the check. Does nothing
   * without the plans' hash.
   */
  async settle(plans: Plans): Promise<void> {
    if (this.#running) await this.#plans.settle(plans);
  }

  /** Applies a changed configuration to the floors. Open turns continue unless their agent was removed. */
  async configure(plans: Plans): Promise<void> {
    const others = await this.#plans.others(plans);
    await this.bringBack([...new Set([...others, ...this.#ports.store.floors.awake()])], plans);
    await this.settle(plans);
  }

  /**
   * Called when these channels' platform is unreachable, or their history is not read yet. Resting floors get
   * `disconnect` just before their next command, unless `heard` reports their history without a gap before.
   */
  async lose(channels: readonly ChannelId[]): Promise<void> {
    const awake = new Set(this.#ports.store.floors.awake());
    const others = channels.filter((channel) => !this.#pendingCommands.has(channel));
    for (const channel of others) if (!awake.has(channel)) this.#pendingCommands.set(channel, 'disconnect');
    await Promise.all(others.filter((id) => awake.has(id)).map((id) => this.apply(id, { type: 'disconnect' })));
  }

  /**
   * Called when a channel's history was read, or need not be read. `gap`: why a part of the history could not be read;
   * `null` for no gap.
   */
  async heard(channel: ChannelId, gap: string | null): Promise<void> {
    if (gap === null && this.#pendingCommands.get(channel) === 'disconnect') this.#pendingCommands.delete(channel);
    else await this.apply(channel, { type: 'catchUp', ...(gap === null ? {} : { gap }) });
  }

  /** Called when a channel shows a draft, which is stored within a second unless posted before. */
  shown(channel: ChannelId, draft: () => TurnDraft | null): void {
    this.#drafts.shown(channel, draft);
  }

  /**
   * The state of a floor; `null` for none. A floor to which `disconnect` is not yet applied is returned as catching up.
   */
  floor(channel: ChannelId): Floor | null {
    const floor = this.#ports.store.floors.state(channel);
    return floor === null || this.#pendingCommands.get(channel) !== 'disconnect'
      ? floor
      : { ...floor, catchingUp: true };
  }

  /** Stops the alarms. Delayed signs of work are dropped. */
  stop(): void {
    this.#running = false;
    for (const part of [this.#signs, this.#drafts]) part.stop();
    this.#alarm.cancel();
  }

  #tellStandstill(): void {
    const total = stoodStillMs(this.#ports.clock);
    const ms = total - this.#stoodStillMs;
    if (ms === 0) return;
    this.#stoodStillMs = total;
    for (const channel of this.#ports.store.floors.awake()) {
      if (this.#pendingCommands.has(channel)) continue;
      this.apply(channel, { type: 'standstill', ms }).catch((error: unknown) => this.#ports.failed(error));
    }
  }

  /** Edits and deletions run one after another, because each is compared with the one before. */
  async #amend(change: MessageChange): Promise<void> {
    const { store } = this.#ports;
    const { id, channel } = change;
    const command = { type: change.change === 'edited' ? 'edit' : 'delete', id } as const;
    const storedMessage = store.message(id);
    if (storedMessage === null) {
      if (isNewerThan(change, this.#early.get(id))) this.#early.set(id, change);
      const amended = await store.amend(change);
      if (amended !== 'unknown') this.#early.delete(id);
      if (amended === 'changed') await this.apply(channel, command);
      return;
    }
    const amended = store.amend(change);
    if (!isNewerEdit(change, storedMessage)) return void (await amended);
    await (isUnread(change, storedMessage) ? amended : Promise.all([amended, this.apply(channel, command)]));
  }

  async #bringBack(channel: ChannelId, plans: Pick<Plans, 'of'>): Promise<void> {
    const floor = this.#ports.store.floors.state(channel);
    const retired = floor === null || floor.seats.length === 0 ? null : { settings: floor.settings, seats: [] };
    const plan = plans.of(channel) ?? retired;
    if (plan === null) this.#pendingCommands.delete(channel);
    else await this.apply(channel, { type: 'configure', settings: plan.settings, seats: plan.seats });
  }

  async #applyAfter(type: 'restart' | 'disconnect', channel: ChannelId, command: Command): Promise<Applied> {
    this.#pendingCommands.delete(channel);
    const telling = this.apply(channel, { type });
    telling.catch(() => void this.#pendingCommands.set(channel, type));
    const [, applied] = await Promise.all([telling, this.apply(channel, command)]);
    return applied;
  }

  readonly #onState = ({
    key: channel,
    at,
    facts,
    state: floor,
    deadline,
  }: StateChange<Floor, Fact, unknown>): void => {
    if (facts.every(({ type }) => type === 'actRefused')) return;
    this.#arm(deadline);
    this.#ports.changed({ channel, at, facts, floor });
  };

  /**
   * Posts the draft of the holder's turn before a person aborts or completes the turn's run, in the same commit. `text`
   * is the posted text; '' for none.
   */
  keep(channel: ChannelId, agent: AgentId, by: string, completes = false): PostedDraft {
    const floor = this.#ports.store.floors.state(channel);
    const epoch = floor?.turn?.epoch ?? 0;
    const ending: Command = completes ? { type: 'completeTurn', agent, epoch, by } : { type: 'skip', agent, by };
    const at = this.#ports.clock.now();
    const said = this.#drafts.take(channel, floor, ending, at);
    if (said === null) return { text: '', durable: Promise.resolve() };
    const durable = Promise.all([this.#say(channel, said, at), this.#drafts.forget(channel, true)]).then(
      () => undefined,
    );
    return { text: said.text, durable };
  }

  #say(channel: ChannelId, said: TurnDraft, at: Instant): Promise<Applied> {
    return this.#ports.store.floors.apply(channel, { type: 'say', ...said }, at);
  }

  #arm(at: Instant | null): void {
    if (this.#running) this.#alarm.noLaterThan(at);
  }

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

  /** Handles passed deadlines until only failed ones are left: more can pass while commits are written. */
  async #round(): Promise<void> {
    const idleTicks = new Map<ChannelId, number>();
    for (;;) {
      const before = this.#ports.clock.now();
      const { keys: channels, next } = await this.#ports.store.floors.due(before);
      const due = channels.filter((channel) => idleTicks.get(channel) !== MAX_IDLE_TICKS);
      if (due.length === 0 || !this.#running) return this.#arm(next);
      const failures = new Set<unknown>();
      const idle: ChannelId[] = [];
      const meet = async (channel: ChannelId): Promise<void> => {
        try {
          if (!(await this.#meet(channel, before))) idle.push(channel);
        } catch (error) {
          idleTicks.set(channel, MAX_IDLE_TICKS);
          failures.add(error);
        }
      };
      await Promise.all(due.map(meet));
      const dueAgain = idle.length === 0 ? [] : (await this.#ports.store.floors.due(before)).keys;
      for (const channel of idle) {
        const times = dueAgain.includes(channel) ? (idleTicks.get(channel) ?? 0) + 1 : 0;
        idleTicks.set(channel, times);
        if (times === MAX_IDLE_TICKS) failures.add(stillDue(channel, before));
      }
      for (const failure of failures) this.#unmet(failure);
    }
  }

  /** Resolves with `false` when the tick found nothing due: another command has moved the deadline. */
  async #meet(channel: ChannelId, before: Instant): Promise<boolean> {
    const { ok, state } = await this.apply(channel, { type: 'tick' });
    const deadline = nextDeadline(state);
    if (deadline !== null && deadline <= before) throw stillDue(channel, before);
    return ok;
  }

  #unmet(error: unknown): void {
    this.#arm(this.#ports.clock.now() + RETRY_MS);
    this.#ports.failed(error);
  }
}

function stillDue(channel: ChannelId, before: Instant): Error {
  return new Error(`impossible: ${channel} is due at ${before} and stays so after its tick`);
}

const DRAFTS = 'drafts';

/** The longest time before a shown draft is stored, in milliseconds. People need longer to read it. */
const SHOWN_MS = 1_000;

/** Drafts that people have seen and that are not posted yet. Once stored, a draft survives a crash of the process. */
class ShownDrafts {
  readonly #ports: ManagerPorts;
  readonly #alarm: Alarm;
  readonly #shown = new Map<ChannelId, () => TurnDraft | null>();
  /**
   * Channels whose draft may be stored; not those with a draft from before a restart that was not read yet. Each stored
   * draft has its own object, so that the end of an earlier deletion does not remove the entry of a newer draft.
   */
  readonly #storedDrafts = new Map<ChannelId, object>();
  #running = true;

  constructor(ports: ManagerPorts) {
    this.#ports = ports;
    this.#alarm = new Alarm(ports.clock, ports.timers, () => this.#storeShown());
  }

  shown(channel: ChannelId, draft: () => TurnDraft | null): void {
    this.#shown.set(channel, draft);
    this.#alarm.noLaterThan(this.#ports.clock.now() + SHOWN_MS);
  }

  take(channel: ChannelId, floor: Floor | null, command: Command, at: Instant): TurnDraft | null {
    const broken = floor === null ? null : breakOf(floor, command, at);
    const draft = broken === null ? null : (this.#ports.takeDraft(channel) ?? this.#readStoredDraft(channel, floor));
    return draft !== null && broken === 'cut' ? { ...draft, text: cutOff(draft.text) } : draft;
  }

  /** The stored draft of the open turn, from before a restart. */
  #readStoredDraft(channel: ChannelId, floor: Floor | null): TurnDraft | null {
    const storedText = this.#storedDrafts.has(channel) ? null : this.#ports.store.keyValues.recall(DRAFTS, channel);
    if (storedText === null) return null;
    this.#storedDrafts.set(channel, {});
    const { data: draft } = draftSchema.safeParse(JSON.parse(storedText));
    return draft !== undefined && draft.agent === floor?.turn?.agent && draft.epoch === floor.turn.epoch ? draft : null;
  }

  #storeShown(): void {
    const { store, failed } = this.#ports;
    for (const [channel, draft] of this.#shown) {
      this.#shown.delete(channel);
      const shown = draft();
      if (shown === null) continue;
      this.#storedDrafts.set(channel, {});
      store.keyValues.remember(DRAFTS, channel, JSON.stringify(shown)).catch((error: unknown) => {
        failed(error);
        if (this.#running) this.shown(channel, draft);
      });
    }
  }

  /**
   * Deletes the stored draft of a channel, in the same commit as a command applied just before. Returns `null` when no
   * stored draft is known. With `byItself` (Conch has just posted a draft itself), deletes in that case, too.
   */
  forget(channel: ChannelId, byItself: boolean): Promise<unknown> | null {
    this.#shown.delete(channel);
    const storedDraft = this.#storedDrafts.get(channel) ?? (byItself ? {} : null);
    if (storedDraft === null) return null;
    // The draft stays known until it is deleted, so that no second post is made.
    this.#storedDrafts.set(channel, storedDraft);
    const dropDraft = (): unknown =>
      this.#storedDrafts.get(channel) === storedDraft && this.#storedDrafts.delete(channel);
    return this.#ports.store.keyValues.forget(DRAFTS, channel).then(dropDraft);
  }

  stop(): void {
    this.#running = false;
    this.#alarm.cancel();
  }
}

/** Longest delay of a sign of work, in milliseconds. */
const SIGN_WAITS_MS = 5_000;

/** Delayed `work` commands that only move the holder's deadline, at most one for each channel. */
class Signs {
  readonly #ports: ManagerPorts;
  readonly #alarm: Alarm;
  readonly #signs = new Map<ChannelId, { readonly command: Sign; readonly at: Instant }>();

  constructor(ports: ManagerPorts) {
    this.#ports = ports;
    this.#alarm = new Alarm(ports.clock, ports.timers, () => this.#takeAll());
  }

  keep(floor: Floor, command: Sign): Applied {
    const at = this.#ports.clock.now();
    this.#signs.set(floor.channel, { command, at });
    this.#alarm.noLaterThan(at + SIGN_WAITS_MS);
    return { ok: true, state: floor, facts: [], effects: [] };
  }

  /**
   * Carries out the delayed sign of work, unless the next command (`before`) is a text of the same turn with later
   * work. Returns `null` when no sign is carried out.
   */
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

  stop(): void {
    this.#alarm.cancel();
    this.#signs.clear();
  }
}

const PLANS = { owner: 'conch', name: 'plans' } as const;

class KnownPlans {
  readonly #store: ManagerPorts['store'];

  constructor(store: ManagerPorts['store']) {
    this.#store = store;
  }

  /**
   * Returns the channels that need `bringBack`: channels whose floor does not rest under its current plan, whose
   * plan forbids rest at a start, or whose floor rests without a plan. Returns none when the stored hash is that of the
   * plans. Deletes another stored hash.
   */
  async others(plans: Plans): Promise<readonly ChannelId[]> {
    if (this.#areStored(plans)) return [];
    await this.#store.keyValues.forget(PLANS.owner, PLANS.name);
    const resting = this.#store.floors.resting();
    const all = plans.all();
    const changed = all.filter((plan) => !plans.mayRest(plan.seats) || resting.get(plan.id) !== planWord(plan));
    const removed = [...resting.keys()].filter((channel) => plans.of(channel) === null);
    return [...changed.map(({ id }) => id), ...removed];
  }

  #areStored({ word }: Plans): boolean {
    return word !== null && this.#store.keyValues.recall(PLANS.owner, PLANS.name) === word;
  }

  async settle(plans: Plans): Promise<void> {
    if (plans.word === null || this.#areStored(plans)) return;
    await this.#store.keyValues.remember(PLANS.owner, PLANS.name, plans.word);
  }
}

/** Commands that post an agent's text, or follow when all of it is posted, so that no draft is left. */
const SAYING: ReadonlySet<Command['type']> = new Set<Command['type']>(['say', 'end', 'wait']);

function isUnread({ change }: MessageChange, { fate, edited }: InboxRow): boolean {
  if (fate?.state === 'unrouted') return fate.why === OVERFLOW && change === 'deleted' && !edited;
  return fate?.state === 'ignored';
}

function isNewerThan(change: MessageChange, earlier: MessageChange | undefined): boolean {
  if (earlier?.change !== 'edited') return earlier === undefined;
  return change.change === 'deleted' || !isStale(change, earlier);
}

function amendedBy(change: MessageChange | undefined, message: HumanMessage): HumanMessage | null {
  if (change === undefined || change.channel !== message.channel) return message;
  if (change.change === 'deleted') return null;
  const { text, version } = change;
  return isStale(change, message) ? message : { ...message, text, ...defined({ version }) };
}
