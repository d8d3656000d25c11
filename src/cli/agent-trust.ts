import { existsSync } from 'node:fs';
import { folderOf } from '../agents/trust/agent-folder.ts';
import { FolderTrust, standingWords } from '../agents/trust/folder-trust.ts';
import type { FolderStanding } from '../agents/trust/folder-trust.ts';
import type { TrustStore } from '../agents/trust/trust-book.ts';
import type { AgentConfig, Config } from '../config/config.ts';
import { openToRead } from '../engine/sqlite/open.ts';
import { isoTime, systemClock, systemTimers } from '../lib/time.ts';
import { databaseIn } from '../runtime/data-folder.ts';
import type { Answer } from '../turns/commands/context.ts';
import { quoted } from '../turns/commands/parse.ts';

/**
 * Returns the trust decisions recorded in a data folder, also while Conch runs. Without a database there are none.
 * Writing a decision fails.
 */
export function recordedTrust(place: Pick<Config, 'dataDir' | 'store'>): FolderTrust {
  const path = databaseIn(place);
  const store: TrustStore = {
    recall(owner, name) {
      if (!existsSync(path)) return null;
      const db = openToRead(path);
      try {
        return recallFrom(db, owner, name);
      } finally {
        db.close();
      }
    },
    remember: async () => {
      throw new Error('impossible: a decision is written to a database that is only read');
    },
  };
  return new FolderTrust({ store, clock: systemClock(), timers: systemTimers });
}

/** Reads the value stored under an owner and a name; `null` for none. */
export function recallFrom(db: ReturnType<typeof openToRead>, owner: string, name: string): string | null {
  const query = db.prepare<[string, string], string>('SELECT value FROM memory WHERE owner = ? AND name = ?');
  return query.pluck().get(owner, name) ?? null;
}

/**
 * Returns the files in an agent's folder that the agent obeys, and the trust decision about them; `null` for an agent
 * without a folder on this machine.
 */
export async function folderStanding(agent: AgentConfig, trust: FolderTrust): Promise<FolderStanding | null> {
  const folder = folderOf(agent);
  if (folder === null) return null;
  trust.gateFor(agent.id, folder);
  return await trust.standing(agent.id);
}

/** Returns a line for every agent whose folder has files that the agent obeys. */
export async function folderLines(config: Config): Promise<readonly string[]> {
  const trust = recordedTrust(config);
  const lines = await Promise.all(
    config.agents.map(async (agent) => {
      const standing = await folderStanding(agent, trust);
      return standing === null || standing.scan.digest === null
        ? []
        : [`${agent.id}: ${standingWords(agent.id, standing)}`];
    }),
  );
  return lines.flat();
}

/** Lists the files that agents obey in their folders, and the recorded trust decisions. `json`: only the decisions. */
export async function listTrust(config: Config, json: boolean): Promise<string> {
  const { book } = recordedTrust(config);
  const decisions = config.agents.flatMap(({ id }) => book.of(id).map((decision) => ({ agent: id, ...decision })));
  if (json) return JSON.stringify(decisions);
  const decisionLines = decisions.map(({ agent, choice, digest, by, at, folder, files }) => {
    const names = files.map((file) => quoted(file)).join(', ');
    return `${agent}: ${choice} ${digest.slice(0, 16)} by ${by}, ${isoTime(at)}, in ${folder}: ${names}`;
  });
  const now = await folderLines(config);
  return [
    ...(now.length === 0 ? ['No agent folder contains a file that runs before anybody is asked.'] : now),
    ...(decisionLines.length === 0 ? [] : ['', 'Decided:', ...decisionLines]),
  ].join('\n');
}

/** Revokes all trust decisions about an agent, and denies trust in the present files of the agent's folder. */
export async function revokeTrust(agent: AgentConfig, store: TrustStore): Promise<Answer> {
  const { CONSOLE_PERSON } = await import('../adapters/console/adapter.ts');
  const trust = new FolderTrust({ store, clock: systemClock(), timers: systemTimers });
  await folderStanding(agent, trust);
  return trust.distrust(agent.id, null, { channel: '', person: CONSOLE_PERSON });
}
