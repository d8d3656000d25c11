import { z } from 'zod';
import type { AcpLink } from './acp-link.ts';
import type { AcpProfile } from './acp-profiles.ts';
import { configured } from './acp-wire.ts';
import type { PermissionOption, Update, newSession } from './acp-wire.ts';
import { BackendError } from '../backend.ts';

/** A session that was opened, as far as its modes go; `resumed`: it goes on with an earlier one. */
type ModesOf = Pick<z.output<typeof newSession>, 'sessionId' | 'modes' | 'configOptions'> & {
  readonly resumed: boolean;
};

/** What modes are set with; `limitMs` is for each request. */
type ModeParts = { readonly link: AcpLink; readonly profile: AcpProfile; readonly limitMs: number };

/** What has to stay as it is: an option of the session, or its mode (`null`). The first of its values is the one to set. */
type Hold = {
  readonly option: string | null;
  readonly isMode: boolean;
  readonly values: readonly [string, ...string[]];
};

/** Keeps one session in the modes in which its agent asks before it changes things. */
export class AskingModes {
  readonly #parts: ModeParts;
  readonly #session: ModesOf;
  readonly #holds: readonly Hold[];

  /** Throws a terminal `BackendError` when the agent offers none of its profile's modes. */
  constructor(parts: ModeParts, session: ModesOf) {
    this.#parts = parts;
    this.#session = session;
    this.#holds = [...modeHolds(parts.profile, session), ...optionHolds(parts.profile, session)];
  }

  /** Sets what has to be set. Rejects when the agent does not: it might act unasked. */
  async set(): Promise<void> {
    for (const hold of this.#holds) await this.#set(hold);
  }

  /** The value that an update tells of and that may not be; `null` when all is as it has to be. */
  drift(update: Update): string | null {
    return this.#holds.map((hold) => told(update, hold)).find((value) => value !== undefined) ?? null;
  }

  /** Whether an answer to a question about a change of mode leaves the agent asking. */
  keepsAsking({ kind, optionId }: PermissionOption): boolean {
    if (kind !== 'allow_once') return true;
    const offered = this.#session.modes?.availableModes.map(({ id }) => id) ?? [];
    const known = [...offered, ...this.#session.configOptions.filter(isMode).flatMap(({ options }) => options)];
    return !known.includes(optionId) || this.#parts.profile.modes.includes(optionId);
  }

  async #set({ option, values: [value] }: Hold): Promise<void> {
    const { link, profile, limitMs } = this.#parts;
    const { sessionId } = this.#session;
    if (option === null) {
      await link.ask({
        method: 'session/set_mode',
        params: { sessionId, modeId: value },
        answer: z.unknown(),
        limitMs,
      });
      return;
    }
    const params = { sessionId, configId: option, value };
    const answer = await link.ask({ method: 'session/set_config_option', params, answer: configured, limitMs });
    const now = answer.configOptions.find(({ id }) => id === option)?.currentValue;
    if (now === value) return;
    throw new BackendError(`${profile.name} does not keep "${option}" at "${value}": it might act unasked`, TERMINAL);
  }
}

type Option = ModesOf['configOptions'][number];

const TERMINAL = { terminal: true };

function isMode({ id, category }: Option): boolean {
  return category === 'mode' || (category === null && id === 'mode');
}

/** Options tell what they were set to, so they go before modes. A session that goes on may not say again what it has. */
function modeHolds(profile: AcpProfile, { modes, configOptions, resumed }: ModesOf): readonly Hold[] {
  if (profile.modes.length === 0) return [];
  const option = configOptions.find(isMode);
  const offered = option?.options ?? modes?.availableModes.map(({ id }) => id);
  const [first, ...others] = profile.modes.filter((mode) => offered?.includes(mode) ?? resumed);
  if (first !== undefined) return [{ option: option?.id ?? null, isMode: true, values: [first, ...others] }];
  const has = offered === undefined ? 'no modes' : `only ${offered.join(', ')}`;
  throw new BackendError(
    `${profile.name} has none of the modes in which it asks (${profile.modes.join(', ')}; it offers ${has}): take a version that has one, or the profile "generic", which promises nothing`,
    TERMINAL,
  );
}

function optionHolds({ holds = {} }: AcpProfile, { configOptions }: ModesOf): readonly Hold[] {
  const held = Object.entries(holds).filter(([id]) => configOptions.some((option) => option.id === id));
  return held.map(([option, value]) => ({ option, isMode: false, values: [value] }));
}

/** The value that is not one of those held; `undefined` when it is, or the update tells of something else. */
function told(update: Update, hold: Hold): string | undefined {
  const value = valueIn(update, hold);
  return value === undefined || hold.values.includes(value) ? undefined : value;
}

function valueIn(update: Update, hold: Hold): string | undefined {
  if ('currentModeId' in update) return hold.isMode ? update.currentModeId : undefined;
  if (!('configOptions' in update)) return undefined;
  const { configOptions } = update;
  return configOptions.find((option) => (hold.isMode ? isMode(option) : option.id === hold.option))?.currentValue;
}
