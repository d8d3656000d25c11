import type { AgentId } from '../../../turns/floor/settings.ts';
import { systemTimers } from '../../../lib/time.ts';
import type { AcpPeer } from '../acp/acp-link.ts';
import { ACP_PROFILES } from '../acp/acp-profiles.ts';
import type { AcpProfile, AcpProfileName } from '../acp/acp-profiles.ts';
import { AcpSession } from '../acp/acp-session.ts';
import type { AcpSettings } from '../acp/acp-session.ts';
import { AbsentError, BackendError } from '../backend.ts';
import type { AgentBackend, SeatContext } from '../backend.ts';
import type { RemoteHost } from './remote-host.ts';
import type { RemoteLink } from './remote-link.ts';
import { offeredTools, sessionTools } from '../../mcp/session-tools.ts';
import type { SessionTools } from '../../mcp/session-tools.ts';
import { openRemoteSession } from './remote-session.ts';

/** Which agent dials out to us; durations in milliseconds. */
export type RemoteBackendOptions = AcpSettings & {
  readonly host: RemoteHost;
  readonly agentId: AgentId;
  /** How long the agent may be away before its session is lost. */
  readonly reconnectGraceMs: number;
  /** What is particular about it; `generic` unless given. */
  readonly profile?: AcpProfileName;
};

/**
 * Runs agents that run elsewhere and dial out to us: one connection an agent, one session a channel. While the agent is not
 * connected `open` rejects with an `AbsentError`, which counts as no error and says when to try again.
 */
export function createRemoteBackend(options: RemoteBackendOptions): AgentBackend {
  const { host, agentId, reconnectGraceMs: graceMs, timers = systemTimers } = options;
  const slot = host.slot(agentId);
  const sessions = new Map<string, Known>();
  return {
    kind: 'remote',
    needsSignal: false,
    comesByItself: true,
    promisesToAsk: false,
    settable: ['model', 'steps'],
    open: async (seat) => {
      const [{ link }, key] = [slot, sessionKeyOf(seat)];
      if (link === null) throw new AbsentError('is not connected', { returns: slot.arrival(), graceMs });
      if (!host.mayServe(agentId, seat.channel)) {
        throw new BackendError(`the token of ${agentId} does not reach ${seat.channel}`, { terminal: true });
      }
      const tools = options.serverTools === undefined ? null : sessionTools(seat, options.serverTools, false);
      const open = (peer: AcpPeer, over: RemoteLink) => openSession(peer, over, { seat, tools, key });
      const forget = () => void sessions.delete(key);
      const closed = async () => tools?.servers.close();
      return await openRemoteSession({ slot, timers, graceMs, open, forget, closed }, link);
    },
  };

  async function openSession(peer: AcpPeer, link: RemoteLink, { seat, tools, key }: Seated) {
    const { profile = 'generic', denied = [], asked = [] } = options;
    const known = sessions.get(key);
    const floorTools = host.openToolEndpoint(link, known?.server);
    const { asking, ...rest }: AcpProfile = ACP_PROFILES[profile];
    if (tools !== null) floorTools?.offer(() => offeredTools(tools));
    void link.closed.then(() => floorTools?.close());
    const session = await AcpSession.open(peer, {
      seat,
      kind: 'remote',
      // How it was started is not known here, so nothing is promised in its name.
      profile: { ...rest, asks: null },
      settings: options,
      cwd: SOMEWHERE,
      floorTools,
      tools,
      previous: known?.sessionId ?? null,
      meta: asking?.({ server: floorTools?.name ?? null, folder: '', cwd: null, env: {}, denied, asked }).meta,
    });
    const first = session.resumed ? known?.token : undefined;
    if (first !== undefined) floorTools?.admit(first);
    sessions.set(key, { sessionId: session.sessionId, token: first ?? floorTools?.token, server: floorTools?.name });
    return session;
  }
}

/** A seat, and the tools of servers that its agent has over all its connections. */
type Seated = { readonly seat: SeatContext; readonly tools: SessionTools | null; readonly key: string };

/** A conversation to go on with. Behind a bridge the agent only hears of its first token and name for the floor tools. */
type Known = {
  readonly sessionId: string;
  readonly token: string | undefined;
  readonly server: string | undefined;
};

/** A session keeps its model: one with another model is another conversation. */
function sessionKeyOf({ channel, model = '' }: SeatContext): string {
  return `${channel}\n${model}`;
}

/** The protocol wants an absolute path; which folder an agent elsewhere works in is its own matter. */
const SOMEWHERE = '/';
