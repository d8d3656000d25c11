import type { AuthProvider, InsufficientScopeError } from '@modelcontextprotocol/client';
import type { McpServerConfig } from '../../config/config.ts';
import { shownAt } from '../../lib/time.ts';
import type { Clock, Instant, Timers } from '../../lib/time.ts';
import { KnownSecrets } from '../tools/known-secrets.ts';
import type { AgentLog } from '../session/floor-port.ts';
import { LoginError } from './login-store.ts';
import type { Login, LoginStore } from './login-store.ts';

/** The words that people and models see in place of a token. */
export const TOKEN_NAME = 'the token of a login';

/** Dependencies of logins. */
export type LoginPorts = { readonly clock: Clock; readonly timers: Timers; readonly log: AgentLog };

/**
 * Thrown when a person must sign in before an MCP server can be used, or before a tool call can run. The message names
 * the command to sign in.
 */
export class LoginNeededError extends LoginError {
  /** True when the present login has too little scope for the tool call. */
  readonly isWider: boolean;

  constructor(id: string, why: string, isWider = false) {
    super(`${why}: run "conch mcp login ${id}"`);
    this.isWider = isWider;
  }
}

/** A server that needs a sign-in, and why. */
export type WaitingServer = { readonly server: string; readonly why: string };

/**
 * The logins at MCP servers, for a running Conch. All connections to a server use the same token, and one request
 * renews it for all.
 */
export class ServerLogins {
  readonly #store: LoginStore;
  readonly #ports: LoginPorts;
  /** Running renewals by server address; each resolves with the access token. */
  readonly #renewing = new Map<string, Promise<string>>();
  #known: { readonly of: readonly string[]; readonly secrets: KnownSecrets } = {
    of: [],
    secrets: new KnownSecrets([]),
  };
  /** Addresses of servers that asked for a login when none was stored. */
  readonly #wanting = new Set<string>();

  constructor(store: LoginStore, ports: LoginPorts) {
    this.#store = store;
    this.#ports = ports;
  }

  /** The newest 256 tokens and secrets seen. Returns a new array when the set changes. */
  get secrets(): readonly string[] {
    return this.#store.secrets;
  }

  /** Returns the text with the tokens and secrets replaced. */
  redact(text: string): string {
    const { secrets } = this.#store;
    if (this.#known.of !== secrets) {
      const named = secrets.map((value) => ({ name: TOKEN_NAME, value }));
      this.#known = { of: secrets, secrets: new KnownSecrets(named) };
    }
    return this.#known.secrets.redact(text);
  }

  /**
   * Returns the source of tokens for a connection to a server. `null`: the server is a program, or its configured
   * headers replace a login.
   */
  presented(id: string, config: McpServerConfig): AuthProvider | null {
    const { url, headers, oauth } = config;
    if (url === undefined || Object.keys(headers).some(isAuthorization)) return null;
    const isOther = oauth === undefined && Object.keys(headers).length > 0;
    if (isOther && seen(this.#store, url) === null) return null;
    let last: string | undefined;
    return {
      token: async () => (last = await this.#token(id, url)),
      onUnauthorized: async () => await this.#replace(id, url, last),
    };
  }

  /**
   * Stores the scope that a server wants beyond the granted scope, for the next sign-in. Returns the error to report.
   */
  widen(id: string, { url }: McpServerConfig, { requiredScope }: InsufficientScopeError): LoginNeededError {
    const scope = (requiredScope ?? '').replaceAll(/[^\x21\x23-\x5B\x5D-\x7E ]+/g, '').slice(0, LONGEST_SCOPE);
    const needed = narrow(id, scope);
    const login = url === undefined ? null : this.#store.read(url);
    if (login === null || login.wanted === scope) return needed;
    this.#keep(id, { ...login, wanted: scope });
    this.#ports.log.warn({ server: id, why: needed.message }, 'a server of tools wants another login');
    return needed;
  }

  /** True when a login is stored that has tokens and lacks no scope. */
  isReady({ url }: McpServerConfig): boolean {
    const login = seen(this.#store, url);
    return login !== null && !(login instanceof LoginError) && login.tokens !== null && login.wanted === null;
  }

  /** The servers that are known to need a sign-in. */
  waiting(servers: Servers): readonly WaitingServer[] {
    return waitingServers(this.#store, servers, this.#wanting);
  }

  async #token(id: string, url: string): Promise<string | undefined> {
    const login = this.#store.read(url);
    if (login === null) return undefined;
    if (login.tokens === null) throw over(id, login);
    const { access, refresh, expiresAt } = login.tokens;
    const leftMs = expiresAt === null ? Infinity : expiresAt - this.#now();
    if (leftMs > SOON_MS || refresh === null) return access;
    try {
      return await this.#renew(id, url, access);
    } catch (error) {
      if (error instanceof LoginNeededError || leftMs <= 0) throw error;
      return access;
    }
  }

  /** Called when the server answered 401: renews the presented token, unless the store has another token already. */
  async #replace(id: string, url: string, presented: string | undefined): Promise<void> {
    const login = this.#store.read(url);
    if (login === null) {
      this.#wanting.add(url);
      throw nobody(id);
    }
    if (login.tokens === null) throw over(id, login);
    if (login.tokens.access === presented) await this.#renew(id, url, presented);
  }

  #renew(id: string, url: string, stale: string): Promise<string> {
    const running = this.#renewing.get(url);
    if (running !== undefined) return running;
    const begun = this.#store.alone(url, this.#ports.timers, () => this.#renewAlone(id, url, stale));
    const renewing = begun.finally(() => this.#renewing.delete(url));
    this.#renewing.set(url, renewing);
    return renewing;
  }

  /** Renews a token under the lock. Reads the login again first: another process may have renewed it already. */
  async #renewAlone(id: string, url: string, stale: string): Promise<string> {
    const login = this.#store.read(url);
    if (login === null) throw nobody(id);
    if (login.tokens === null) throw over(id, login);
    if (login.tokens.access !== stale) return login.tokens.access;
    if (login.tokens.refresh === null) throw this.#refuse(id, login, 'it cannot be renewed');
    // Loads the library only now, because most installations have no login.
    const { refusalOf, renewed } = await import('./sign-in.ts');
    try {
      const next = await renewed(login, this.#now());
      this.#keep(id, next);
      return next.tokens?.access ?? stale;
    } catch (error) {
      const why = refusalOf(error);
      if (why !== null) throw this.#refuse(id, login, why);
      throw new LoginError(`${new URL(login.issuer).host}, where somebody is signed in, does not renew the login now`);
    }
  }

  /** Deletes tokens that cannot be renewed, so that they are not tried again. */
  #refuse(id: string, login: Login, why: string): LoginNeededError {
    const refused = { ...login, tokens: null, refused: why };
    this.#keep(id, refused);
    const needed = over(id, refused);
    this.#ports.log.warn({ server: id, why: needed.message }, 'a login at a server of tools is over');
    return needed;
  }

  #keep(id: string, login: Login): void {
    const unsaved = this.#store.save(login);
    if (unsaved !== null) this.#ports.log.error({ server: id, err: unsaved }, 'a login is not kept over a restart');
  }

  #now(): Instant {
    return shownAt(this.#ports.clock, this.#ports.clock.now());
  }
}

/** Returns the warning about a waiting server, for the list of warnings about a configuration. */
export function loginLine({ server, why }: WaitingServer): string {
  return `mcp.${server}: ${why}`;
}

/**
 * Returns the MCP servers that need a sign-in, by the configuration and the stored logins. `wanting`: addresses of
 * servers that asked for a login.
 */
export function waitingServers(
  store: LoginStore,
  servers: Servers,
  wanting: ReadonlySet<string> = new Set(),
): readonly WaitingServer[] {
  return Object.entries(servers).flatMap(([server, config]) => {
    const why = lackOf(server, config, { login: seen(store, config.url), wanting });
    return why === null ? [] : [{ server, why: why.message }];
  });
}

type Seen = { readonly login: Login | LoginError | null; readonly wanting: ReadonlySet<string> };

function lackOf(id: string, { url, oauth, headers }: McpServerConfig, { login, wanting }: Seen): LoginError | null {
  if (login instanceof LoginError) return login;
  if (login?.tokens === null) return over(id, login);
  if (login !== null) return login.wanted === null ? null : narrow(id, login.wanted);
  const isWanted = oauth !== undefined || (url !== undefined && wanting.has(url));
  return isWanted && !Object.keys(headers).some(isAuthorization) ? nobody(id) : null;
}

function seen(store: LoginStore, url: string | undefined): Login | LoginError | null {
  try {
    return url === undefined ? null : store.read(url);
  } catch (error) {
    if (error instanceof LoginError) return error;
    throw error;
  }
}

type Servers = Readonly<Record<string, McpServerConfig>>;

/** A token that ends within this time, in milliseconds, is renewed before use if it has a refresh token. */
const SOON_MS = 30_000;
const LONGEST_SCOPE = 500;

function nobody(id: string): LoginNeededError {
  return new LoginNeededError(id, 'nobody is signed in at it');
}

function narrow(id: string, scope: string): LoginNeededError {
  return new LoginNeededError(id, `it wants more than was granted (${scope})`, true);
}

function over(id: string, { refused }: Login): LoginNeededError {
  return new LoginNeededError(id, `its login has ended (${refused ?? 'it cannot be renewed'})`);
}

function isAuthorization(header: string): boolean {
  return header.toLowerCase() === 'authorization';
}
