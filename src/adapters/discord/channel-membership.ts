import type { Logger } from 'pino';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { pause } from '../../lib/retry.ts';
import type { Timers } from '../../lib/time.ts';
import { ChatError } from '../port.ts';
import type { Intake, FloorQueries, Place } from '../port.ts';
import { CODES, rejectionOf, wordsOf } from './errors.ts';
import { channelId, platformChannel } from './ids.ts';
import type { PermissionName } from './permissions.ts';
import { describe } from './places.ts';
import type { ChannelPayload, Places } from './places.ts';
import type { Reader } from './calls.ts';

/** What watching over membership in channels needs. */
export type ChannelMembershipPorts = {
  readonly read: Reader;
  readonly places: Places;
  readonly queries: FloorQueries;
  readonly intake: Pick<Intake, 'suspend' | 'restore'>;
  /** The permissions that Conch needs in a channel and does not have. Rejects with a `ChatError`. */
  readonly missing: (channel: string) => Promise<readonly PermissionName[]>;
  /** The channel can be used again: what was refused there may be tried again. */
  readonly reopened: (channel: ChannelId) => void;
  readonly timers: Timers;
  readonly signal: AbortSignal;
  readonly log: Logger;
};

/** Where in Discord something changed. */
export type Whereat = { readonly guild: string } | { readonly channel: string };

/** Knows which channels the bot can use. One that it cannot use is suspended until that changes. */
export type ChannelMembership = {
  /** Looks at every channel with a floor: whether it is there, and what the bot lacks. Never rejects. */
  check(): Promise<void>;
  /** Suspends the channels that a test names, and says why. */
  close(is: (channel: ChannelId, parent: ChannelId | null) => boolean, why: string): void;
  /** A call for the channel failed: if that means that it is closed to the bot, it is suspended. */
  failed(channel: ChannelId, error: unknown): void;
  /** What the bot may do there may have changed: channels that are suspended are looked at again. */
  changed(at: Whereat): void;
};

/** Changes of permissions are not always told: a channel that refused the bot is looked at again after so long. */
export const LOOK_AGAIN_MS = 660_000;

const MISSING_ACCESS = 50_001;
const MISSING_PERMISSIONS = 50_013;
const CLOSED: ReadonlyMap<number, string> = new Map([
  [CODES.unknownChannel, 'the channel is not there'],
  [MISSING_ACCESS, 'the bot may not see this channel'],
  [MISSING_PERMISSIONS, 'the bot may not write in this channel'],
]);
/** Without these there is no floor; without others there is a lesser one. */
const NEEDED: ReadonlySet<PermissionName> = new Set<PermissionName>(['View Channels', 'Send Messages']);

/** Without these agents speak as the bot, or cannot be mentioned with @. */
const OPTIONAL: ReadonlySet<PermissionName> = new Set<PermissionName>(['Manage Webhooks', 'Manage Roles']);

/** Watches over the configured channels and their threads. */
export function createChannelMembership(ports: ChannelMembershipPorts): ChannelMembership {
  return new Gate(ports);
}

class Gate implements ChannelMembership {
  readonly #ports: ChannelMembershipPorts;
  readonly #closed = new Set<ChannelId>();
  /** Channels that are looked at again after a while. */
  readonly #awaited = new Set<ChannelId>();

  constructor(ports: ChannelMembershipPorts) {
    this.#ports = ports;
  }

  async check(): Promise<void> {
    for (const { id } of this.#floors()) await this.#look(id);
  }

  close(is: Parameters<ChannelMembership['close']>[0], why: string): void {
    for (const { id, parent } of this.#floors()) if (is(id, parent)) this.#suspend(id, why);
  }

  failed(channel: ChannelId, error: unknown): void {
    const why = whyClosed(error);
    if (why === null) return;
    this.#suspend(channel, why);
    this.#lookLater(channel);
  }

  changed(at: Whereat): void {
    for (const floor of this.#floors()) {
      if (this.#closed.has(floor.id) && isAt(at, floor, this.#ports.places)) void this.#look(floor.id);
    }
  }

  #floors(): readonly Place[] {
    return this.#ports.queries.channels();
  }

  #suspend(channel: ChannelId, why: string): void {
    this.#closed.add(channel);
    this.#ports.intake.suspend(channel, why);
  }

  async #look(channel: ChannelId): Promise<void> {
    const { read, places, missing, reopened, intake, log } = this.#ports;
    try {
      const found = await describe(read, platformChannel(channel));
      places.learn(found);
      const lacks = await missing(platformChannel(channel));
      if (lacks.length > 0) {
        const level = lacks.every((name) => OPTIONAL.has(name)) ? 'warn' : 'error';
        log[level]({ channel, missing: lacks }, 'the bot lacks permissions in this channel');
      }
      const why = isClosedThread(found) ? 'the thread was closed' : whyWithout(lacks);
      if (why === null) {
        if (this.#closed.delete(channel)) reopened(channel);
        return intake.restore(channel);
      }
      this.#suspend(channel, why);
    } catch (error) {
      this.failed(channel, error);
      log.warn({ channel, why: wordsOf(error) }, 'a channel could not be looked at');
    }
    this.#lookLater(channel);
  }

  #lookLater(channel: ChannelId): void {
    if (this.#awaited.has(channel)) return;
    this.#awaited.add(channel);
    const again = async (): Promise<void> => {
      await pause(LOOK_AGAIN_MS, this.#ports);
      this.#awaited.delete(channel);
      if (this.#closed.has(channel)) await this.#look(channel);
    };
    again().catch(() => this.#awaited.delete(channel));
  }
}

function isAt(
  at: Whereat,
  { id, parent }: { readonly id: ChannelId; readonly parent: ChannelId | null },
  places: Places,
): boolean {
  if ('guild' in at) return places.guildOf(platformChannel(parent ?? id)) === at.guild;
  return [id, parent].includes(channelId(at.channel));
}

function whyClosed(error: unknown): string | null {
  if (!(error instanceof ChatError) || error.fault !== 'refused') return null;
  return CLOSED.get(rejectionOf(error)?.code ?? 0) ?? null;
}

function whyWithout(missing: readonly PermissionName[]): string | null {
  const lacks = missing.filter((name) => NEEDED.has(name));
  return lacks.length === 0 ? null : `the bot lacks the permission ${lacks.map((name) => `"${name}"`).join(' and ')}`;
}

function isClosedThread({ thread_metadata: state }: ChannelPayload): boolean {
  return state?.archived === true && state.locked;
}
