/** How a request goes wrong. "before": not executed; "after": executed, but the client does not learn of it. */
export type Fault =
  | { readonly kind: 'reset-before' }
  | { readonly kind: 'reset-after' }
  | { readonly kind: 'hang-before' }
  | { readonly kind: 'hang-after' }
  | { readonly kind: 'late'; readonly ms: number }
  | {
      readonly kind: 'status';
      readonly status: number;
      /** Executed all the same. */ readonly executed?: boolean;
      /** Discord's own code and words; without them the answer is a gateway's page in HTML. */
      readonly code?: number;
      readonly message?: string;
    }
  | { readonly kind: 'rate-limit'; readonly retryAfterMs: number; readonly scope: 'user' | 'global' | 'shared' };

/**
 * Which requests: "POST /channels/123/messages", or only the path. `*` stands for one part of the path, `**` for any
 * number of them; the path is without "/api/v10" and without the query. `containing` is looked for in the body.
 */
export type Match = string | { readonly path: string; readonly containing?: string };

/** A fault that is set up; it is over after `times`, or when lifted. */
export type SetFault = { readonly hits: number; lift(): void };

type Entry = {
  readonly method: string | null;
  readonly path: RegExp;
  readonly containing: string;
  readonly fault: Fault;
  left: number;
  hits: number;
};

/** The faults that wait for their requests, first come first served. */
export class Faults {
  readonly #entries: Entry[] = [];

  /** Sets up a fault for the next `times` requests that match; `Infinity` until it is lifted. */
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

  /** The fault of a request, which is used up by asking. */
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
