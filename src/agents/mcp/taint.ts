import type { McpServerConfig } from '../../config/config.ts';
import type { Instant } from '../../lib/time.ts';
import type { Line } from '../../turns/view.ts';
import type { ServerTool } from './mcp-tools.ts';

/** What one seat's session has read that nobody vouches for; on record beside its runs. */
export type SeatTaint = {
  /** Since when, and where that came from; `null`: nothing. */
  of(): { readonly since: Instant; readonly from: string } | null;
  /** It has read text from there; the first time counts. */
  mark(from: string): void;
  /** It is about to read these lines: what was written by a session that had read such text is such text, too. */
  read(lines: readonly Pick<Line, 'author' | 'at' | 'aside'>[]): void;
  /** It is over, and what it has read is forgotten; what it wrote stays what it is. */
  forget(): void;
};

/** Why a session that has read such text is asked; `null`: it has not. */
export function taintWords(taint: SeatTaint | undefined): string | null {
  const read = taint?.of() ?? null;
  return read === null ? null : `its agent has read what nobody vouches for (${read.from})`;
}

/** Whether nobody vouches for what a tool returns: it comes from elsewhere, or its server does not say that it does not. */
export function isUntrusted({ claims }: ServerTool, { url }: McpServerConfig): boolean {
  return url !== undefined || !claims.closedWorld;
}

/** Whether a tool changes nothing and sends nothing away: by its server's word, if that server is trusted. */
export function isHarmless({ claims }: ServerTool, { trusted }: McpServerConfig): boolean {
  return trusted && claims.readOnly;
}
