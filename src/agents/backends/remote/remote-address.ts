import type { IncomingMessage } from 'node:http';
import { TOOL_PATH } from '../../tools/tool-server.ts';

/** How callers reach this program. */
type Ingress = {
  /** Connections are encrypted by this program itself. */
  readonly tls?: object;
  /** A proxy in front ends TLS and says so in X-Forwarded-Proto; its X-Forwarded-For names the caller. */
  readonly behindProxy?: boolean;
};

type Headers = Pick<IncomingMessage, 'headers'>;

/** Whether nobody on the way to a proxy could read this request; without a proxy that is settled when listening begins. */
export function isEncrypted({ headers }: Headers, { behindProxy }: Ingress): boolean {
  return behindProxy !== true || headers['x-forwarded-proto'] === 'https';
}

/** The address that a request comes from. */
export function callerOf({ headers, socket }: IncomingMessage, { behindProxy }: Ingress): string {
  const forwarded = behindProxy === true ? headers['x-forwarded-for'] : undefined;
  return lastOf(forwarded) ?? socket.remoteAddress ?? 'unknown';
}

/**
 * Where the sender of a request reaches the floor's tools: the host and port that it has dialled itself. `null` when it does
 * not tell them in a form that can stand in an address. A wrong one misleads nobody but the sender.
 */
export function toolsUrlOf({ headers }: Headers, { tls, behindProxy }: Ingress): string | null {
  const forwarded = behindProxy === true ? lastOf(headers['x-forwarded-host']) : undefined;
  const host = forwarded ?? headers.host ?? '';
  const url = `${tls !== undefined || behindProxy === true ? 'https' : 'http'}://${host}${TOOL_PATH}`;
  return HOST.test(host) && URL.canParse(url) ? url : null;
}

/** A name or an address, and a port if it is not the usual one. */
const HOST = /^(?:[\w.-]+|\[[\da-f:.]+\])(?::\d{1,5})?$/i;

/** What the nearest proxy has added to a header. */
function lastOf(header: string | string[] | undefined): string | undefined {
  return [header].flat().at(-1)?.split(',').at(-1)?.trim();
}
