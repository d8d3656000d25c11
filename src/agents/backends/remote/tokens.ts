import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { writePrivately } from '../../../lib/private-file.ts';
import type { AgentId, ChannelId } from '../../../turns/floor/settings.ts';
import { defined } from '../../../lib/defined.ts';

/**
 * The stored record of an agent's token. Holds a hash, never the token. `channels`: where the token is valid. Absent:
 * everywhere.
 */
export type TokenEntry = {
  readonly sha256: string;
  /** When the token was made, in ISO 8601. */
  readonly createdAt: string;
  readonly channels?: readonly ChannelId[] | undefined;
};

/** `at`: when a token is made, in milliseconds since 1970. `channels`: where the token is valid. Absent: everywhere. */
type TokenMaking = { readonly at: number; readonly channels?: readonly ChannelId[] };

/** An agent's token could not be made, changed or read. The message says why. */
export class TokenError extends Error {
  override readonly name = 'TokenError';
}

/**
 * Makes and returns the agent's token: 256 random bits, which cannot be read again later. Throws a `TokenError` when
 * the agent has a token, its id is not valid, or the file cannot be read or written.
 */
export function addAgentToken(dataDir: string, agent: AgentId, making: TokenMaking): string {
  const entries = readTokens(dataDir);
  if (Object.hasOwn(entries, agent)) {
    throw new TokenError(`${agent} has a token. To replace it: conch agent rotate ${agent}`);
  }
  return put(dataDir, agent, { entries, ...making });
}

/**
 * Replaces the agent's token, keeps its channels, and returns the new token. Throws a `TokenError` when the agent has
 * no token, or the file cannot be read or written.
 */
export function rotateAgentToken(dataDir: string, agent: AgentId, at: number): string {
  const entries = readTokens(dataDir);
  const { channels } = entryOf(entries, agent);
  return put(dataDir, agent, { entries, at, ...defined({ channels }) });
}

/**
 * Deletes the agent's token. Throws a `TokenError` when the agent has no token, or the file cannot be read or written.
 */
export function revokeAgentToken(dataDir: string, agent: AgentId): void {
  const entries = readTokens(dataDir);
  entryOf(entries, agent);
  write(dataDir, Object.fromEntries(Object.entries(entries).filter(([id]) => id !== agent)));
}

/** Returns which agents have a token, since when, and for which channels. */
export function listAgentTokens(
  dataDir: string,
): readonly ({ readonly agent: AgentId } & Omit<TokenEntry, 'sha256'>)[] {
  return Object.entries(readTokens(dataDir)).map(([agent, { createdAt, channels }]) => ({
    agent,
    createdAt,
    channels,
  }));
}

/** The tokens of a running Conch. Reads the token file again when the file changed. */
export type TokenBook = {
  /**
   * Returns the agent of a token, or `null` for an unknown token. Throws when the file cannot be read or is damaged.
   */
  holderOf(token: string): { readonly agent: AgentId; readonly entry: TokenEntry } | null;
  /** Returns the digest of an agent's present token, or `null`. Throws when the file cannot be read or is damaged. */
  digestOf(agent: AgentId): string | null;
};

/** Opens the tokens of a data folder. The file need not exist. */
export function openTokenBook(dataDir: string): TokenBook {
  let stamp: string | null = null;
  let entries: Entries = {};
  const current = (): Entries => {
    const now = stampOf(dataDir);
    if (now !== stamp) {
      entries = readTokens(dataDir);
      stamp = now;
    }
    return entries;
  };
  return {
    holderOf: (token) => {
      const digest = hash('sha256', token, 'buffer');
      const isEqual = ({ sha256 }: TokenEntry) => timingSafeEqual(Buffer.from(sha256, 'hex'), digest);
      const found = Object.entries(current()).find(([, entry]) => isEqual(entry));
      return found === undefined ? null : { agent: found[0], entry: found[1] };
    },
    digestOf: (agent) => {
      const all = current();
      return Object.hasOwn(all, agent) ? (all[agent]?.sha256 ?? null) : null;
    },
  };
}

const FILE = 'agent-tokens.json';
const TOKEN_BYTES = 32;

const entrySchema = z.strictObject({
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  createdAt: z.string(),
  channels: z.array(z.string()).exactOptional(),
});
const fileSchema = z.record(z.string(), entrySchema);

type Entries = Readonly<Record<AgentId, TokenEntry>>;

function put(dataDir: string, agent: AgentId, making: TokenMaking & { readonly entries: Entries }): string {
  if (!/^[\w-]{1,64}$/.test(agent)) {
    throw new TokenError(`"${agent}" is not a valid agent id: expected up to 64 letters, digits, "_" and "-"`);
  }
  const { at, channels, entries } = making;
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  const sha256 = hash('sha256', token);
  const createdAt = new Date(at).toISOString();
  write(dataDir, { ...entries, [agent]: { sha256, createdAt, ...defined({ channels }) } });
  return token;
}

function entryOf(entries: Entries, agent: AgentId): TokenEntry {
  const entry = Object.hasOwn(entries, agent) ? entries[agent] : undefined;
  if (entry === undefined) throw new TokenError(`${agent} has no token. To make one: conch agent add ${agent}`);
  return entry;
}

function readTokens(dataDir: string): Entries {
  const path = join(dataDir, FILE);
  let text;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw new TokenError(`${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
  try {
    return fileSchema.parse(JSON.parse(text));
  } catch (error) {
    const what = `${path} is damaged: restore it, or delete it and give every remote agent a new token`;
    throw new TokenError(what, { cause: error });
  }
}

function write(dataDir: string, entries: Entries): void {
  const path = join(dataDir, FILE);
  try {
    writePrivately(path, `${JSON.stringify(entries, null, 2)}\n`);
  } catch (error) {
    throw new TokenError(`${path} cannot be written: ${(error as Error).message}`, { cause: error });
  }
}

function stampOf(dataDir: string): string {
  const found = statSync(join(dataDir, FILE), { throwIfNoEntry: false, bigint: true });
  return found === undefined ? 'none' : `${found.ino} ${found.size} ${found.mtimeNs}`;
}
