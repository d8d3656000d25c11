import type { McpServerConfig } from '../../config/config.ts';
import type { Instant } from '../../lib/time.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { Line } from '../../turns/view.ts';
import type { ServerTool } from './mcp-tools.ts';

/** Since when a session has read text that nobody vouches for, and where that came from. */
export type Taint = { readonly since: Instant; readonly from: string };

/**
 * Which sessions have read text that nobody vouches for. What such a session writes is such text, too: whoever reads it, also the
 * same agent in a later session, inherits that.
 */
export class Taints {
  readonly #sessions = new Map<string, Taint>();
  /** Since when what a seat writes is such text. */
  readonly #written = new Map<string, Taint>();

  /** A session begins: it has read nothing. */
  begin(channel: ChannelId, agent: AgentId): void {
    this.#sessions.delete(seat(channel, agent));
  }

  of(channel: ChannelId, agent: AgentId): Taint | null {
    return this.#sessions.get(seat(channel, agent)) ?? null;
  }

  /** The session has read something; the first time counts. */
  mark(channel: ChannelId, agent: AgentId, taint: Taint): void {
    const key = seat(channel, agent);
    if (this.#sessions.has(key)) return;
    this.#sessions.set(key, taint);
    if (!this.#written.has(key)) this.#written.set(key, taint);
  }

  /** The session is about to read these lines. */
  read(channel: ChannelId, agent: AgentId, lines: readonly Pick<Line, 'author' | 'at'>[]): void {
    for (const { author, at } of lines) {
      const written = author.kind === 'agent' ? this.#written.get(seat(channel, author.id)) : undefined;
      if (written === undefined || at < written.since) continue;
      this.mark(channel, agent, { since: at, from: `${written.from}, by way of ${author.id}` });
    }
  }
}

/** Whether nobody vouches for what a tool returns: it comes from elsewhere, or its server does not say that it does not. */
export function isUntrusted({ claims }: ServerTool, { url }: McpServerConfig): boolean {
  return url !== undefined || !claims.closedWorld;
}

/** Whether a tool changes nothing and sends nothing away: by its server's word, if that server is trusted. */
export function isHarmless({ claims }: ServerTool, { trusted }: McpServerConfig): boolean {
  return trusted && claims.readOnly;
}

function seat(channel: ChannelId, agent: AgentId): string {
  return `${channel} ${agent}`;
}
