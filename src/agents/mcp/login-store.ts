import { hash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { lockFile } from '../../engine/lock.ts';
import { errorMessage } from '../../lib/defined.ts';
import { makePrivateFolder, writePrivately } from '../../lib/private-file.ts';
import { delay } from '../../lib/retry.ts';
import type { Timers } from '../../lib/time.ts';

const tokensSchema = z.strictObject({
  access: z.string().min(1),
  /** The refresh token. `null`: a person must sign in again when the access token expires. */
  refresh: z.string().min(1).nullable(),
  /** The expiry of the access token, in milliseconds since 1970 by the machine's clock; `null` when unknown. */
  expiresAt: z.number().nullable(),
  /** The scope that the service named, else the requested scope; `null` for none. */
  scope: z.string().nullable(),
});

/** The part of an OAuth service's metadata that a renewal needs. */
export const keptMetadata = z.object({
  issuer: z.string(),
  authorization_endpoint: z.string(),
  token_endpoint: z.string(),
  response_types_supported: z.array(z.string()),
  token_endpoint_auth_methods_supported: z.array(z.string()).exactOptional(),
});

/** Conch's client id and secret at an OAuth service. */
export const keptClient = z.object({
  client_id: z.string(),
  client_secret: z.string().exactOptional(),
  token_endpoint_auth_method: z.string().exactOptional(),
});

const loginSchema = z.strictObject({
  /** The address of the MCP server. */
  url: z.string(),
  /** The resource for which tokens are requested (RFC 8707). */
  resource: z.string(),
  issuer: z.string(),
  authorizationServer: z.string(),
  /** The issuer's metadata at sign-in; `null` for none. */
  metadata: keptMetadata.nullable(),
  client: keptClient,
  /**
   * The tokens. `null` once the service refused to renew them, or once the server refused tokens that cannot be
   * renewed.
   */
  tokens: tokensSchema.nullable(),
  /** Why a person must sign in again; `null` while there are `tokens`. */
  refused: z.string().nullable(),
  /** The scope that the server wants beyond the granted scope; `null` for none. */
  wanted: z.string().nullable(),
  /** Time of the sign-in, in milliseconds since 1970. */
  signedInAt: z.number(),
});

/** A login at an MCP server. */
export type Login = Readonly<z.output<typeof loginSchema>>;

/** Thrown or returned when a login could not be read, stored or made. The message says why. */
export class LoginError extends Error {
  override readonly name = 'LoginError';
}

/**
 * The logins at MCP servers, in the data folder: one file per server, readable by this user only. A running Conch and a
 * `conch` command can use the store at the same time.
 */
export class LoginStore {
  readonly #dataDir: string;
  readonly #folder: string;
  #secrets: readonly string[] = [];
  /** Logins that could not be written, by path. The file may still have tokens that are already used up. */
  readonly #unsaved = new Map<string, Login>();

  constructor(dataDir: string) {
    this.#dataDir = dataDir;
    this.#folder = join(dataDir, 'mcp-logins');
    for (const file of filesIn(this.#folder)) if (file.endsWith('.json')) this.#readFile(join(this.#folder, file));
  }

  /** The newest 256 tokens and secrets seen, the newest last. Returns a new array when the set changes. */
  get secrets(): readonly string[] {
    return this.#secrets;
  }

  /** Returns the login at a server; `null` for none. Throws a `LoginError` for an unreadable or damaged file. */
  read(url: string): Login | null {
    const path = this.#pathOf(url, 'json');
    const login = this.#readFile(path);
    if (login instanceof LoginError) throw login;
    const unsaved = this.#unsaved.get(path);
    if (unsaved === undefined) return login;
    if (login === null || login.signedInAt !== unsaved.signedInAt) {
      this.#unsaved.delete(path);
      return login;
    }
    this.save(unsaved);
    return unsaved;
  }

  /** Stores a login. Returns an error when it could not be written; this process then keeps the login in memory. */
  save(login: Login): LoginError | null {
    const path = this.#pathOf(login.url, 'json');
    this.#know(login);
    try {
      this.#makeFolder();
      writePrivately(path, `${JSON.stringify(login, null, 2)}\n`);
      this.#unsaved.delete(path);
      return null;
    } catch (error) {
      this.#unsaved.set(path, login);
      return new LoginError(`${path} cannot be written: ${errorMessage(error)}`);
    }
  }

  /** Deletes a login. Returns whether a login was stored. */
  remove(url: string): boolean {
    const path = this.#pathOf(url, 'json');
    const had = this.#unsaved.delete(path) || this.#readFile(path) !== null;
    // Also deletes temporary files of processes that were killed while writing.
    const all = filesIn(this.#folder).map((file) => join(this.#folder, file));
    for (const each of all) if (each.startsWith(path)) rmSync(each, { force: true });
    return had;
  }

  /**
   * Runs the work under a lock on one server's login, across processes. The system releases the lock of a process that
   * ends. Rejects with a `LoginError` when the lock stays taken for 40 s.
   */
  async alone<T>(url: string, timers: Timers, work: () => Promise<T>): Promise<T> {
    this.#makeFolder();
    const path = this.#pathOf(url, 'lock');
    for (let tries = 0; tries < MOST_TRIES; tries += 1) {
      const lock = lockFile(path);
      if (lock === null) await delay(TRY_AGAIN_MS, { timers });
      else {
        try {
          return await work();
        } finally {
          lock.release();
        }
      }
    }
    throw new LoginError(
      `another program has locked its login for ${(MOST_TRIES * TRY_AGAIN_MS) / 1_000} s: try again`,
    );
  }

  #makeFolder(): void {
    makePrivateFolder(this.#dataDir);
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
  }

  #pathOf(url: string, ending: 'json' | 'lock'): string {
    const name = hash('sha256', new URL(url).href).slice(0, 32);
    return join(this.#folder, `${name}.${ending}`);
  }

  #readFile(path: string): Login | LoginError | null {
    let text: string;
    try {
      text = readFileSync(path, 'utf8');
    } catch (error) {
      return isMissing(error) ? null : new LoginError(`${path} cannot be read: ${errorMessage(error)}`);
    }
    try {
      const login = loginSchema.parse(JSON.parse(text));
      this.#know(login);
      return login;
    } catch {
      return new LoginError(`${path} is damaged: delete it, and sign in again`);
    }
  }

  #know({ tokens, client }: Login): void {
    const values = [tokens?.access, tokens?.refresh, client.client_secret].flatMap((value) => value ?? []);
    const unknown = values.filter((value) => !this.#secrets.includes(value));
    if (unknown.length > 0) this.#secrets = [...this.#secrets, ...unknown].slice(-MOST_SECRETS);
  }
}

/** Most attempts to take the lock. All attempts last longer than the 30 s that a service may take to renew a token. */
const MOST_TRIES = 400;
const TRY_AGAIN_MS = 100;
/** Most secrets that are remembered. The oldest are forgotten; reading a login remembers its secrets again. */
const MOST_SECRETS = 256;

function filesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
