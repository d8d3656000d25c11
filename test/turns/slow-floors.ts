import type { Command } from '../../src/turns/floor/command.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import type { ChannelId } from '../../src/turns/floor/settings.ts';
import type { Due, Instant } from '../../src/lib/time.ts';
import type { ManagerPorts } from '../../src/turns/manager.ts';
import { floorMachine } from '../../src/turns/floor-store.ts';
import type { Applied } from '../../src/turns/floor-store.ts';

/** A step of the store's work during which time can pass: before a read or commit, and before its answer. */
export type Moment =
  | { readonly before: 'look' | 'look is answered' }
  | { readonly before: 'commit' | 'commit is answered'; readonly channel: ChannelId; readonly command: Command };

/** One executed command, and the floor before it. */
export type Commit = {
  readonly channel: ChannelId;
  readonly command: Command;
  readonly at: Instant;
  readonly before: Floor;
  readonly applied: Applied;
};

/** Callbacks of the store. */
export type SlowPorts = {
  /** Lets time pass. If it rejects before a commit, the command is rejected and changes nothing. */
  readonly pass: (moment: Moment) => Promise<void>;
  readonly committed?: (commit: Commit) => void;
};

/** A store of floors in memory: one commit after another, each with a delay set by the test. */
export class SlowFloors implements Pick<ManagerPorts['store']['floors'], 'apply' | 'due' | 'state'> {
  readonly floors = new Map<ChannelId, Floor>();
  readonly #ports: SlowPorts;
  readonly #listeners: Parameters<ManagerPorts['store']['floors']['onChange']>[0][] = [];
  #last: Promise<unknown> = Promise.resolve();

  constructor(ports: SlowPorts) {
    this.#ports = ports;
  }

  apply(channel: ChannelId, command: Command, at: Instant): Promise<Applied> {
    const applied = this.#last.then(() => this.#commit(channel, command, at));
    this.#last = applied.catch(() => undefined);
    return applied;
  }

  async due(before: Instant): Promise<Due> {
    await this.#ports.pass({ before: 'look' });
    const set = [...this.floors]
      .map(([channel, floor]) => ({ channel, at: floorMachine.nextDeadline(floor) ?? Infinity }))
      .sort((a, b) => a.at - b.at);
    const keys = set.filter(({ at }) => at <= before).map(({ channel }) => channel);
    const next = set[keys.length]?.at ?? Infinity;
    await this.#ports.pass({ before: 'look is answered' });
    return { keys, next: next === Infinity ? null : next };
  }

  state(channel: ChannelId): Floor | null {
    return this.floors.get(channel) ?? null;
  }

  /** The store in the form that the manager needs, without messages and drafts. */
  get port(): ManagerPorts['store'] {
    const none = (): never => {
      throw new Error('no messages are taken in here');
    };
    return {
      floors: {
        apply: (channel, command, at) => this.apply(channel, command, at),
        onChange: (listener) => void this.#listeners.push(listener),
        due: (before) => this.due(before),
        state: (channel) => this.state(channel),
        awake: () => [...this.floors.keys()],
        resting: none,
      },
      keyValues: { recall: () => null, remember: none, forget: async () => undefined },
      message: none,
      accept: none,
      amend: none,
      recover: none,
    };
  }

  async #commit(channel: ChannelId, command: Command, at: Instant): Promise<Applied> {
    await this.#ports.pass({ before: 'commit', channel, command });
    const before = this.floors.get(channel) ?? floorMachine.empty(channel);
    const decision = floorMachine.decide(before, command, at);
    const applied: Applied = decision.ok
      ? { ok: true, state: decision.floor, facts: decision.facts, effects: [] }
      : { ok: false, state: before, refusal: decision.refusal };
    this.floors.set(channel, applied.state);
    this.#ports.committed?.({ channel, command, at, before, applied });
    await this.#ports.pass({ before: 'commit is answered', channel, command });
    const { state, facts } = applied.ok ? applied : { state: before, facts: [] };
    const deadline = floorMachine.nextDeadline(state);
    for (const listener of this.#listeners) listener({ key: channel, at, facts, state, effects: [], deadline });
    return applied;
  }
}
