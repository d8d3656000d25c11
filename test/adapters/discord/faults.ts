/** A failure of a request. "before": not executed. "after": executed, and the client gets no answer. */
export type Fault =
  | { readonly kind: 'reset-before' }
  | { readonly kind: 'reset-after' }
  | { readonly kind: 'hang-before' }
  | { readonly kind: 'hang-after' }
  | { readonly kind: 'late'; readonly ms: number }
  | {
      readonly kind: 'status';
      readonly status: number;
      /** True when the request is executed although it fails. */
      readonly executed?: boolean;
      /** Discord's error code. Without a code, the answer is an HTML page, as from a proxy before Discord. */
      readonly code?: number;
      readonly message?: string;
    }
  | { readonly kind: 'rate-limit'; readonly retryAfterMs: number; readonly scope: 'user' | 'global' | 'shared' };

/**
 * Matches requests: "POST /channels/123/messages", or only the path, without "/api/v10" and query. `*` matches one
 * part of the path, `**` any number of parts. `containing` must occur in the body.
 */
export type Match = string | { readonly path: string; readonly containing?: string };

/** A fault in force. Ends after `times` requests or by `lift`. `hits`: the requests that failed. */
export type SetFault = { readonly hits: number; lift(): void };

type Entry = {
  readonly method: string | null;
  readonly path: RegExp;
  readonly containing: string;
  readonly fault: Fault;
  left: number;
  hits: number;
};

/** Faults that wait for matching requests. The oldest matching fault is used first. */
export class Faults {
  readonly #entries: Entry[] = [];

  /** Sets up a fault for the next `times` requests that match; `Infinity`: until `lift` or `clear`. */
  add(match: Match, fault: Fault, times: number): SetFault {
    const { path: pattern, containing = '' } = typeof match === 'string' ? { path: match } : match;
    const [, method, path] = /^(?:([A-Z]+) )?(\/.*)$/u.exec(pattern) ?? [];
    if (path === undefined) throw new TypeError(`Expected a match like "POST /channels/*/messages", got "${pattern}"`);
    const entry: Entry = { method: method ?? null, path: regular(path), containing, fault, left: times, hits: 0 };
    this.#entries.push(entry);
    return {
      get hits() {
        return entry.hits;
      },
      lift: () => {
        entry.left = 0;
      },
    };
  }

  /** Lifts all faults. */
  clear(): void {
    this.#entries.length = 0;
  }

  /** Returns the fault of a request, and counts it as used. */
  take(request: { readonly method: string; readonly path: string; readonly body: string }): Fault | null {
    const entry = this.#entries.find(
      ({ method, path, containing, left }) =>
        left > 0 &&
        (method === null || method === request.method) &&
        path.test(request.path) &&
        request.body.includes(containing),
    );
    if (entry === undefined) return null;
    entry.left -= 1;
    entry.hits += 1;
    return entry.fault;
  }
}

function regular(path: string): RegExp {
  const escaped = path.replaceAll(/[.+?^${}()|[\]\\]/gu, String.raw`\$&`);
  return new RegExp(`^${escaped.replaceAll('**', '\u0000').replaceAll('*', '[^/]+').replaceAll('\u0000', '.*')}$`, 'u');
}
