import type { AgentId } from '../../../turns/floor/settings.ts';
import { parseSessionId } from '../../../turns/floor/seats.ts';
import { systemTimers } from '../../../lib/time.ts';
import type { AcpPeer } from '../acp/acp-link.ts';
import { ACP_PROFILES } from '../acp/acp-profiles.ts';
import type { AcpProfile, AcpProfileName } from '../acp/acp-profiles.ts';
import type { PreviousSession } from '../acp/acp-initialize.ts';
import { AcpSession } from '../acp/acp-session.ts';
import type { AcpSettings } from '../acp/acp-session.ts';
import { AbsentError, BackendError, sessionKeyOf } from '../backend.ts';
import type { AgentBackend, SeatContext } from '../backend.ts';
import type { RemoteHost } from './remote-host.ts';
import type { RemoteLink } from './remote-link.ts';
import { offeredTools, sessionTools } from '../../mcp/session-tools.ts';
import type { SessionTools } from '../../mcp/session-tools.ts';
import { openRemoteSession } from './remote-session.ts';

/** Options of one remote agent. Durations are in milliseconds. */
export type RemoteBackendOptions = AcpSettings & {
  readonly host: RemoteHost;
  readonly agentId: AgentId;
  /** How long the agent may be disconnected before its session is lost. */
  readonly reconnectGraceMs: number;
  /** The program's ACP profile. Default: `generic`. */
  readonly profile?: AcpProfileName;
};

/**
 * Makes the backend of an agent that connects to Conch, also from another machine. The agent has one connection, and
 * one session per channel and model. While the agent is disconnected, `open` rejects with an `AbsentError`.
 */
export function createRemoteBackend(options: RemoteBackendOptions): AgentBackend {
  const { host, agentId, reconnectGraceMs: graceMs, timers = systemTimers } = options;
  const slot = host.slot(agentId);
  const sessions = new Map<string, Known>();
  return {
    kind: 'remote',
    needsSignal: false,
    connectsItself: true,
    promisesToAsk: false,
    settable: ['model', 'steps'],
    open: async (seat) => {
      const [{ link }, key] = [slot, sessionKeyOf(seat)];
      if (link === null) throw new AbsentError('is not connected', { returns: slot.arrival(), graceMs });
      const tools = options.serverTools === undefined ? null : sessionTools(seat, options.serverTools, false);
      const open = (peer: AcpPeer, over: RemoteLink) => openSession(peer, over, { seat, tools, key });
      const forget = () => void sessions.delete(key);
      const closed = async () => tools?.servers.close();
      return await openRemoteSession({ slot, timers, graceMs, open, forget, closed }, link);
    },
    forget: (seat) => void sessions.delete(sessionKeyOf(seat)),
  };

  async function openSession(peer: AcpPeer, link: RemoteLink, { seat, tools, key }: Seated) {
    const { profile = 'generic', denied = [], asked = [] } = options;
    // Checked after each reconnect: the agent may come back with another token.
    if (!host.mayServe(agentId, parseSessionId(seat.channel).channel)) {
      throw new BackendError(`the token of ${agentId} does not allow ${seat.channel}`, { terminal: true });
    }
    const known = sessions.get(key);
    const floorTools = host.openToolEndpoint(link, known?.server);
    const { asking, ...rest }: AcpProfile = ACP_PROFILES[profile];
    if (tools !== null) floorTools?.offer(() => offeredTools(tools));
    void link.closed.then(() => floorTools?.close());
    const session = await AcpSession.open(peer, {
      seat,
      kind: 'remote',
      // Conch did not start the program, so Conch cannot promise that the program asks before it acts.
      profile: { ...rest, asks: null },
      settings: options,
      cwd: SOMEWHERE,
      floorTools,
      tools,
      previous: known?.session ?? null,
      meta: asking?.({ server: floorTools?.name ?? null, folder: '', cwd: null, env: {}, denied, asked }).meta,
    });
    const first = session.resumed ? known?.token : undefined;
    if (first !== undefined) floorTools?.admit(first);
    sessions.set(key, { session: session.asPrevious, token: first ?? floorTools?.token, server: floorTools?.name });
    return session;
  }
}

type Seated = { readonly seat: SeatContext; readonly tools: SessionTools | null; readonly key: string };

/** A conversation to continue. Behind a bridge the agent keeps using the first token and name of the floor's tools. */
type Known = {
  readonly session: PreviousSession;
  readonly token: string | undefined;
  readonly server: string | undefined;
};

/** ACP requires an absolute path. A bridge replaces this path by its own working folder. */
const SOMEWHERE = '/';
