import { z } from 'zod';
import type { AcpLink } from './acp-link.ts';
import type { AcpProfile } from './acp-profiles.ts';
import { configured, initialized, newSession, oldSession } from './acp-wire.ts';
import type { NewSession, PermissionOption, Update, PromptUsage } from './acp-wire.ts';
import { BackendError } from '../backend.ts';
import type { ToolEndpoint } from '../../tools/tool-server.ts';
import { RequestError } from '@agentclientprotocol/sdk';
import { waitIn } from '../../../lib/retry.ts';
import type { Instant } from '../../../lib/time.ts';
import type { Report, Usage } from '../backend.ts';

/** Result of the handshake: the opened session, and what its agent can do. */
export type Handshake = {
  readonly sessionId: string;
  /** True when the previous session was loaded, with its memory. */
  readonly resumed: boolean;
  /** True when the agent accepts messages in a running turn by the method `_session/steering`. */
  readonly steering: boolean;
  /** The agent's name and version; `null` when it does not report them. */
  readonly program: string | null;
  /** True when the agent was given the floor's tools. */
  readonly hasFloorTools: boolean;
  /** Keeps the agent in a mode in which it asks before it changes things. */
  readonly modes: AskingModes;
  readonly usage: AcpUsage;
};

/** A session to continue: its id, and the usage that was reported for it so far. */
export type PreviousSession = Pick<Handshake, 'sessionId' | 'usage'>;

/** Input of the handshake. */
export type HandshakeParts = {
  readonly link: AcpLink;
  readonly profile: AcpProfile;
  readonly kind: string;
  /** The agent's working folder, as an absolute path. */
  readonly cwd: string;
  /** Address of the floor's tools; `null` when the agent cannot reach them. */
  readonly floorTools: ToolEndpoint | null;
  /** An earlier session, which is loaded if the agent can; `null` for a new session. */
  readonly previous: PreviousSession | null;
  readonly meta?: object | undefined;
  /** The model to use; `null` for the agent's default. */
  readonly model: string | null;
};

/**
 * Agrees on the protocol version, loads the previous session or opens a new one, selects the model, and sets the mode
 * in which the agent asks. Opens a new session when loading fails. Rejects with a terminal `BackendError` for another
 * protocol version, a missing model or a missing mode.
 */
export async function initialize(parts: HandshakeParts): Promise<Handshake> {
  const { link, profile } = parts;
  const params = { protocolVersion: VERSION, clientCapabilities: {}, clientInfo: { name: 'conch', version: '1' } };
  const agent = await link.ask({ method: 'initialize', params, answer: initialized });
  if (agent.protocolVersion !== VERSION) {
    const words = `${profile.name} speaks version ${agent.protocolVersion} of the Agent Client Protocol; this program speaks ${VERSION}`;
    throw new BackendError(words, { terminal: true });
  }
  const hasFloorTools = parts.floorTools !== null && agent.agentCapabilities.mcpCapabilities.http;
  const mcpServers = hasFloorTools ? serversOf(parts.floorTools) : [];
  const common = { cwd: parts.cwd, mcpServers, ...(parts.meta !== undefined && { _meta: parts.meta }) };
  const old = await again(parts, agent, common);
  const opened = old ?? (await signedIn(parts, agent, () => fresh(parts, common)));
  const resumed = old !== null;
  const session = parts.model === null ? opened : await withModel(parts, opened, parts.model);
  const modes = new AskingModes(parts, { ...session, resumed });
  await modes.set();
  const { sessionId } = session;
  const usage = (resumed ? parts.previous?.usage : undefined) ?? new AcpUsage(parts.kind);
  usage.opened(session);
  const { agentInfo: program, _meta } = agent;
  return { sessionId, usage, resumed, program, steering: _meta.steering.supported, hasFloorTools, modes };
}

const VERSION = 1;

type Agent = z.output<typeof initialized>;
type Common = { readonly cwd: string; readonly mcpServers: readonly object[]; readonly _meta?: object };

async function fresh({ link }: HandshakeParts, common: Common): Promise<NewSession> {
  return await link.ask({ method: 'session/new', params: common, answer: newSession });
}

async function again(parts: HandshakeParts, agent: Agent, common: Common): Promise<NewSession | null> {
  const { link, previous } = parts;
  const { loadSession, sessionCapabilities } = agent.agentCapabilities;
  const method = sessionCapabilities.resume ? 'session/resume' : loadSession ? 'session/load' : null;
  if (previous === null || method === null) return null;
  try {
    const { sessionId } = previous;
    const params = { sessionId, ...common };
    const old = await link.ask({ method, params, answer: oldSession });
    return { sessionId, ...old };
  } catch {
    return null;
  }
}

async function signedIn(parts: HandshakeParts, agent: Agent, open: () => Promise<NewSession>): Promise<NewSession> {
  try {
    return await open();
  } catch (error) {
    const method = parts.profile.signIn?.method;
    if (!wantsSignIn(error) || !agent.authMethods.some(({ id }) => id === method)) throw error;
    const { link } = parts;
    await link.ask({ method: 'authenticate', params: { methodId: method }, answer: z.unknown() });
    return await open();
  }
}

async function withModel({ link, profile }: HandshakeParts, session: NewSession, model: string): Promise<NewSession> {
  const { sessionId, models, configOptions } = session;
  const option = configOptions.find(({ category }) => category === 'model');
  const offered = option?.options ?? models?.availableModels.map(({ modelId }) => modelId) ?? [];
  if (!offered.includes(model)) {
    const has = offered.length === 0 ? 'lets nobody choose its model' : `offers ${offered.join(', ')}`;
    throw new BackendError(`${profile.name} has no model "${model}": it ${has}`, TERMINAL);
  }
  if (option === undefined) {
    const params = { sessionId, modelId: model };
    await link.ask({ method: 'session/set_model', params, answer: z.unknown() });
    return { ...session, models: models && { ...models, currentModelId: model } };
  }
  const params = { sessionId, configId: option.id, value: model };
  const answer = await link.ask({ method: 'session/set_config_option', params, answer: configured });
  const now = answer.configOptions.find(({ id }) => id === option.id)?.currentValue;
  if (now !== model) throw new BackendError(`${profile.name} does not take the model "${model}"`, TERMINAL);
  return { ...session, configOptions: answer.configOptions };
}

const TERMINAL = { terminal: true };

function serversOf(floorTools: ToolEndpoint | null): readonly object[] {
  if (floorTools === null) return [];
  const headers = [{ name: 'Authorization', value: `Bearer ${floorTools.token}` }];
  return [{ type: 'http', name: floorTools.name, url: floorTools.url, headers }];
}

type ModesOf = Pick<z.output<typeof newSession>, 'sessionId' | 'modes' | 'configOptions'> & {
  readonly resumed: boolean;
};

type ModeParts = Pick<HandshakeParts, 'link' | 'profile'>;

/**
 * A setting of a session that must keep one of `values`; Conch sets the first. `option`: the id of the session's
 * option. `null`: the mode of a session that has no option for its mode.
 */
type Hold = {
  readonly option: string | null;
  readonly isMode: boolean;
  readonly values: readonly [string, ...string[]];
};

/**
 * Keeps a session in modes in which its agent asks before it changes things, and its options at the profile's values.
 */
class AskingModes {
  readonly #parts: ModeParts;
  readonly #session: ModesOf;
  readonly #holds: readonly Hold[];

  /** Throws a terminal `BackendError` when the agent offers none of its profile's modes. */
  constructor(parts: ModeParts, session: ModesOf) {
    this.#parts = parts;
    this.#session = session;
    this.#holds = [...modeHolds(parts.profile, session), ...optionHolds(parts.profile, session)];
  }

  /** Sets the required modes and options. Rejects when the agent refuses, because it might act without asking. */
  async set(): Promise<void> {
    for (const hold of this.#holds) await this.#set(hold);
  }

  /** Returns the forbidden value of a mode or option in an agent's update; `null` when the update has none. */
  drift(update: Update): string | null {
    const values = this.#holds.map((hold) => ({ hold, value: valueIn(update, hold) }));
    return values.find(({ hold, value }) => value !== undefined && !hold.values.includes(value))?.value ?? null;
  }

  /**
   * Returns whether the agent still asks before it acts when Conch answers its request to change the mode with this
   * option.
   */
  keepsAsking({ kind, optionId }: PermissionOption): boolean {
    if (kind !== 'allow_once') return true;
    const offered = this.#session.modes?.availableModes.map(({ id }) => id) ?? [];
    const known = [...offered, ...this.#session.configOptions.filter(isMode).flatMap(({ options }) => options)];
    return !known.includes(optionId) || this.#parts.profile.modes.includes(optionId);
  }

  async #set({ option, values: [value] }: Hold): Promise<void> {
    const { link, profile } = this.#parts;
    const { sessionId } = this.#session;
    if (option === null) {
      const params = { sessionId, modeId: value };
      return void (await link.ask({ method: 'session/set_mode', params, answer: z.unknown() }));
    }
    const params = { sessionId, configId: option, value };
    const answer = await link.ask({ method: 'session/set_config_option', params, answer: configured });
    const now = answer.configOptions.find(({ id }) => id === option)?.currentValue;
    if (now === value) return;
    throw new BackendError(
      `${profile.name} does not keep "${option}" at "${value}": it might act without asking`,
      TERMINAL,
    );
  }
}

type Option = ModesOf['configOptions'][number];

function isMode({ id, category }: Option): boolean {
  return category === 'mode' || (category === null && id === 'mode');
}

/**
 * Returns the modes of the profile that the session offers, as one hold; none for a profile without modes. Uses the
 * session's mode option if it has one, because the agent confirms a changed option with its value. A loaded session may
 * list no modes: all modes of the profile then count as offered.
 */
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

function valueIn(update: Update, hold: Hold): string | undefined {
  if ('currentModeId' in update) return hold.isMode ? update.currentModeId : undefined;
  if (!('configOptions' in update)) return undefined;
  const { configOptions } = update;
  return configOptions.find((option) => (hold.isMode ? isMode(option) : option.id === hold.option))?.currentValue;
}

function wantsSignIn(error: unknown): boolean {
  return error instanceof RequestError && error.code === SIGN_IN;
}

/**
 * Returns an agent's error as a `BackendError` with the reason. Terminal: a missing login, a rejected key or account,
 * used-up credit.
 */
export function acpFailure(error: unknown, profile: AcpProfile): BackendError {
  if (error instanceof BackendError) return error;
  if (!(error instanceof RequestError)) return new BackendError(String(error), { cause: error });
  if (error.code === SIGN_IN) {
    const way = profile.signIn === undefined ? '' : `, or set ${profile.signIn.when.join(' or ')}`;
    const words = `${profile.name} is not signed in: sign in with its own program${way}`;
    return new BackendError(words, { terminal: true, cause: error });
  }
  const words = reasonOf(error);
  const terminal = REJECTED.test(words);
  return new BackendError(words, { terminal, retryAfterMs: terminal ? null : waitOf(words), cause: error });
}

/**
 * Returns the wait before a retry, in milliseconds, from an error's words: agents quote their model service. Returns 0
 * when the words name no time, and `null` when they name no temporary failure.
 */
function waitOf(words: string): number | null {
  return BUSY.test(words) ? (waitIn(words) ?? 0) : null;
}

const SIGN_IN = -32_000;
const BUSY =
  /\b429\b|\b5(?:0[0234]|29)\b|too many requests|rate.?limit|overloaded|unavailable|ECONN|ETIMEDOUT|socket|fetch failed|connection (?:error|closed|reset|refused)|network error/i;
const REJECTED =
  /\b401\b|\b403\b|invalid.{0,12}(?:api.?key|x-api-key|token)|api.?key.{0,24}(?:invalid|not valid|rejected)|unauthori[sz]ed|authentication.{0,12}(?:failed|error)|insufficient.{0,12}(?:quota|credit)|credit balance/i;

const reasons = z.union([
  z.string(),
  z.object({ details: z.string() }).transform(({ details }) => details),
  z.object({ message: z.string() }).transform(({ message }) => message),
  z.object({ error: z.string() }).transform(({ error }) => error),
]);

/** The reason of an error. Agents put the reason in `data` beside the message "Internal error". */
function reasonOf(error: RequestError): string {
  const reason = reasons.safeParse(error.data);
  if (!reason.success || error.message.includes(reason.data)) return error.message;
  return `${error.message}: ${reason.data}`;
}

class AcpUsage {
  readonly #backend: string;
  #model: string | null = null;
  #counted: CountedTokens | null = null;
  /** The session's cost so far in US dollars, as the agent reports it; `null` when none was reported. */
  #cost: number | null = null;
  #costBefore = 0;
  #used = 0;
  #usedBefore = 0;
  #beganAt: Instant = 0;

  constructor(backend: string) {
    this.#backend = backend;
  }

  /** Called when the session was opened, or continued. A continued session may not report its model again. */
  opened({ models, configOptions }: Pick<NewSession, 'models' | 'configOptions'>): void {
    this.#model = models?.currentModelId ?? modelIn(configOptions) ?? this.#model;
  }

  begin(report: Pick<Report, 'now'>): void {
    this.#beganAt = report.now();
    this.#counted = null;
  }

  update(update: Update): void {
    if (update.sessionUpdate === 'config_option_update' && 'configOptions' in update)
      this.#model = modelIn(update.configOptions) ?? this.#model;
    if (update.sessionUpdate !== 'usage_update' || !('used' in update)) return;
    this.#used = update.used;
    if (update.cost?.currency === 'USD') this.#cost = update.cost.amount;
  }

  /** Adds the usage that the answer to a prompt reports. A generation may have several prompts. */
  count(usage: PromptUsage | null | undefined): void {
    if (usage === null || usage === undefined) return;
    const before = this.#counted;
    const sum = (one: number | null | undefined, other: number | null | undefined): number | null =>
      one == null && other == null ? null : (one ?? 0) + (other ?? 0);
    const { input, output } = inputAndOutput(usage);
    this.#counted = {
      total: usage.totalTokens + (before?.total ?? 0),
      input: sum(input, before?.input),
      output: sum(output, before?.output),
      cached: sum(usage.cachedReadTokens, before?.cached),
    };
  }

  /**
   * Reports the usage of the finished generation, if the agent reported any. Without a number of tokens, reports the
   * growth of the context. A new process of the agent counts its cost from zero: a cost below the last one is counted whole.
   */
  tell(report: Pick<Report, 'usage' | 'now'>, outcome: Usage['use']['outcome']): void {
    const { total = 0, input = null, output = null, cached = null } = this.#counted ?? {};
    const tokens = Math.round(total > 0 ? total : Math.max(0, this.#used - this.#usedBefore));
    const cost = this.#cost ?? 0;
    const rise = cost < this.#costBefore ? cost : cost - this.#costBefore;
    const costMicros = Math.max(0, Math.round(rise * 1_000_000));
    this.#usedBefore = this.#used;
    this.#costBefore = cost;
    if (tokens === 0 && costMicros === 0) return;
    const source = this.#cost === null ? 'unpriced' : 'reported';
    const ms = report.now() - this.#beganAt;
    const use = { backend: this.#backend, model: this.#model, input, output, cached, source, outcome, ms } as const;
    report.usage({ tokens, costMicros, use });
  }
}

type CountedTokens = Pick<Usage['use'], 'input' | 'output' | 'cached'> & { readonly total: number };

/**
 * Returns the input with all cached tokens, and the output with the tokens of thoughts. Agents count these in the input
 * and the output or beside them: the total shows which.
 */
function inputAndOutput(usage: PromptUsage): Pick<CountedTokens, 'input' | 'output'> {
  const { inputTokens: input = null, outputTokens: output = null } = usage;
  if (input === null || output === null) return { input, output };
  const cached = (usage.cachedReadTokens ?? 0) + (usage.cachedWriteTokens ?? 0);
  const thought = usage.thoughtTokens ?? 0;
  const beside = usage.totalTokens - input - output;
  const isBoth = beside === cached + thought;
  return {
    input: isBoth || beside === cached ? input + cached : input,
    output: isBoth || beside === thought ? output + thought : output,
  };
}

function modelIn(options: NewSession['configOptions']): string | null {
  return options.find(({ category }) => category === 'model')?.currentValue ?? null;
}
