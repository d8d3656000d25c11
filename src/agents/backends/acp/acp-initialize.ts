import { z } from 'zod';
import { wantsSignIn } from './acp-errors.ts';
import type { AcpLink } from './acp-link.ts';
import { AskingModes } from './acp-modes.ts';
import type { AcpProfile } from './acp-profiles.ts';
import { AcpUsage } from './acp-usage.ts';
import { configured, initialized, newSession, oldSession } from './acp-wire.ts';
import type { NewSession } from './acp-wire.ts';
import { BackendError } from '../backend.ts';
import type { ToolEndpoint } from '../../tools/tool-server.ts';

/** What both sides agreed on. */
export type Handshake = {
  readonly sessionId: string;
  /** It is the previous session, with all that was said in it. */
  readonly resumed: boolean;
  /** The agent takes messages into a running turn when asked to. */
  readonly steering: boolean;
  /** The agent's name and version, as it tells them; `null` when it does not. */
  readonly program: string | null;
  /** The agent was given the floor's tools. */
  readonly hasFloorTools: boolean;
  /** What keeps it asking. */
  readonly modes: AskingModes;
  readonly usage: AcpUsage;
};

/** What a handshake needs; `limitMs` is for each of its requests. */
type HandshakeParts = {
  readonly link: AcpLink;
  readonly profile: AcpProfile;
  readonly kind: string;
  readonly cwd: string;
  readonly floorTools: ToolEndpoint | null;
  readonly previous: string | null;
  /** `_meta` of the requests that open the session. */
  readonly meta?: object | undefined;
  /** The model that is to do the work; `null`: that of the agent. */
  readonly model: string | null;
  readonly limitMs: number;
};

/**
 * Agrees on the version, opens the previous session again or a new one, and sets the mode in which it asks. Agents that cannot open an old
 * session, whatever they say, get a new one. Another version of the protocol is a terminal `BackendError`.
 */
export async function initialize(parts: HandshakeParts): Promise<Handshake> {
  const { link, profile, limitMs } = parts;
  const params = { protocolVersion: VERSION, clientCapabilities: {}, clientInfo: { name: 'conch', version: '1' } };
  const agent = await link.ask({ method: 'initialize', params, answer: initialized, limitMs });
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
  const program =
    agent.agentInfo === null || agent.agentInfo.name === ''
      ? null
      : `${agent.agentInfo.name} ${agent.agentInfo.version}`.trim();
  const usage = new AcpUsage(parts.kind, session);
  return { sessionId, usage, resumed, program, steering: agent._meta.steering.supported, hasFloorTools, modes };
}

const VERSION = 1;

type Agent = z.output<typeof initialized>;
type Common = { readonly cwd: string; readonly mcpServers: readonly object[]; readonly _meta?: object };

async function fresh({ link, limitMs }: HandshakeParts, common: Common): Promise<NewSession> {
  return await link.ask({ method: 'session/new', params: common, answer: newSession, limitMs });
}

async function again(parts: HandshakeParts, agent: Agent, common: Common): Promise<NewSession | null> {
  const { link, limitMs, previous } = parts;
  const { loadSession, sessionCapabilities } = agent.agentCapabilities;
  const method = sessionCapabilities.resume ? 'session/resume' : loadSession ? 'session/load' : null;
  if (previous === null || method === null) return null;
  try {
    const params = { sessionId: previous, ...common };
    const old = await link.ask({ method, params, answer: oldSession, limitMs });
    return { sessionId: previous, ...old };
  } catch {
    return null;
  }
}

/** Signs in by the profile's method when the agent asks for it and there is something to sign in with. */
async function signedIn(parts: HandshakeParts, agent: Agent, open: () => Promise<NewSession>): Promise<NewSession> {
  try {
    return await open();
  } catch (error) {
    const method = parts.profile.signIn?.method;
    if (!wantsSignIn(error) || !agent.authMethods.some(({ id }) => id === method)) throw error;
    const { link, limitMs } = parts;
    await link.ask({ method: 'authenticate', params: { methodId: method }, answer: z.unknown(), limitMs });
    return await open();
  }
}

/** Has the session use a model that its agent offers. Rejects with a terminal `BackendError` when it does not. */
async function withModel(
  { link, profile, limitMs }: HandshakeParts,
  session: NewSession,
  model: string,
): Promise<NewSession> {
  const { sessionId, models, configOptions } = session;
  const option = configOptions.find(({ category }) => category === 'model');
  const offered = option?.options ?? models?.availableModels.map(({ modelId }) => modelId) ?? [];
  if (!offered.includes(model)) {
    const has = offered.length === 0 ? 'lets nobody choose its model' : `offers ${offered.join(', ')}`;
    throw new BackendError(`${profile.name} has no model "${model}": it ${has}`, TERMINAL);
  }
  if (option === undefined) {
    const params = { sessionId, modelId: model };
    await link.ask({ method: 'session/set_model', params, answer: z.unknown(), limitMs });
    return { ...session, models: models && { ...models, currentModelId: model } };
  }
  const params = { sessionId, configId: option.id, value: model };
  const answer = await link.ask({ method: 'session/set_config_option', params, answer: configured, limitMs });
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
