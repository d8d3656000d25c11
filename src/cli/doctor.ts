import { accessSync, constants, existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { OUTCOMES, REMEDIES, readChecks } from './check-record.ts';
import { checkSetup as checkDiscord } from '../adapters/discord/setup.ts';
import type { Finding } from '../adapters/delivery/finding.ts';
import { checkSetup as checkSlack } from '../adapters/slack/setup.ts';
import type { Config } from '../config/config.ts';
import { ConfigError } from '../config/error.ts';
import { lockInstance } from '../runtime/instance-lock.ts';
import { StoreError } from '../engine/errors.ts';
import { openFloorStore } from '../turns/floor-store.ts';
import { systemClock } from '../lib/time.ts';

/** Looks at everything that a start needs and says what is wrong, changing nothing. `load` reads the configuration. */
export async function examine(load: () => Config): Promise<readonly Finding[]> {
  const found = readConfig(load);
  if (found.config === null) return found.findings;
  const { config } = found;
  return [
    ...found.findings,
    ...config.warnings.map((text) => warning('configuration', text, null)),
    await database(config),
    ...tokens(config),
    ...agents(config),
    ...(await discord(config)),
    ...(await slack(config)),
  ];
}

/** The findings as lines for people, the gravest kept apart by its sign. */
export function reportText(findings: readonly Finding[]): string {
  const lines = findings.map(({ what, verdict, text, todo }) => {
    const line = `${SIGNS[verdict]} ${what}: ${text}`;
    return todo === null ? line : `${line}\n    → ${todo}`;
  });
  const faults = findings.filter(({ verdict }) => verdict === 'bad').length;
  return [...lines, '', faults === 0 ? 'Conch can start.' : `${faults} of ${findings.length} must be mended.`].join(
    '\n',
  );
}

const SIGNS = { good: '✓', warning: '!', bad: '✗' } as const;

function readConfig(load: () => Config): { readonly config: Config | null; readonly findings: readonly Finding[] } {
  try {
    const config = load();
    const text = `${config.file ?? 'the built-in demo'}, ${config.channels.length} channel(s), ${config.agents.length} agent(s)`;
    return { config, findings: [good('configuration', text)] };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { config: null, findings: [bad('configuration', error.message, 'Mend what is listed and try again.')] };
  }
}

/** A database that a running Conch has is in order: that one checked it when it started. */
async function database({ dataDir }: Config): Promise<Finding> {
  const path = `${dataDir}/conch.db`;
  if (!existsSync(path)) return folder(dataDir);
  try {
    const store = openFloorStore({
      path,
      clock: systemClock(),
      textLimit: () => Number.MAX_SAFE_INTEGER,
      words: () => null,
    });
    await store.close();
    return good('database', `${path} is in order`);
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    if (error.code === 'locked') return good('database', `${path} is used by a Conch that runs now`);
    return bad('database', error.message, null);
  }
}

function folder(dataDir: string): Finding {
  let existing = dataDir;
  while (!existsSync(existing) && dirname(existing) !== existing) existing = dirname(existing);
  try {
    accessSync(existing, constants.W_OK);
    return good('database', `${dataDir}/conch.db will be made at the first start`);
  } catch {
    return bad(
      'database',
      `${existing} cannot be written to`,
      'Change its owner, or set CONCH_DATA_DIR to a folder of yours.',
    );
  }
}

function tokens({ credentials, channels }: Config): readonly Finding[] {
  const { discord: forDiscord, slack: forSlack } = credentials;
  const all = [
    ['discord', 'DISCORD_TOKEN', forDiscord.token],
    ['slack', 'Slack app', forSlack.appToken ?? forSlack.botToken],
  ] as const;
  return all.flatMap(([adapter, what, token]) => {
    if (token === null || !channels.some((channel) => channel.adapter === adapter)) return [];
    const claim = lockInstance(token.reveal());
    claim?.release();
    if (claim !== null) return [good(what, 'no other Conch on this machine uses it')];
    return [warning(what, 'a Conch that runs now on this machine uses it', 'Start no second one with the same token.')];
  });
}

/** What the newest check of each coding agent showed. None hinders a start. */
function agents({ agents: all, dataDir }: Config): readonly Finding[] {
  const checks = readChecks(dataDir);
  return all.flatMap(({ id, backend }) => {
    if (backend.kind !== 'acp') return [];
    const newest = checks.findLast(({ agent, profile }) => agent === id && profile === backend.profile);
    const again = `Run: conch agent check ${id}`;
    if (newest === undefined) return [warning(id, 'not checked whether it asks before it acts', again)];
    const text = `${OUTCOMES[newest.verdict]} (${newest.program}, checked at ${newest.at})`;
    const todo = REMEDIES[newest.verdict];
    return [todo === null ? good(id, text) : warning(id, text, `${todo} ${again}`)];
  });
}

async function discord({ channels, credentials, adapters }: Config): Promise<readonly Finding[]> {
  const own = channels.filter(({ adapter }) => adapter === 'discord');
  const { token, apiUrl } = credentials.discord;
  if (own.length === 0) return [];
  if (token === null) return [missing('DISCORD_TOKEN', 'docs/discord.md')];
  return checkDiscord({
    token: token.reveal(),
    apiUrl,
    clock: systemClock(),
    channels: own,
    settings: adapters.discord,
  });
}

async function slack({ channels, credentials, adapters }: Config): Promise<readonly Finding[]> {
  const own = channels.filter(({ adapter }) => adapter === 'slack');
  const { botToken, appToken, signingSecret, apiUrl } = credentials.slack;
  if (own.length === 0) return [];
  if (botToken === null) return [missing('SLACK_BOT_TOKEN', 'docs/slack.md')];
  return checkSlack({
    botToken: botToken.reveal(),
    appToken: appToken?.reveal() ?? null,
    signingSecret: signingSecret?.reveal() ?? null,
    apiUrl,
    mode: adapters.slack.mode,
    clock: systemClock(),
    channels: own,
    settings: adapters.slack,
    userGroups: adapters.slack.userGroups,
  });
}

function missing(name: string, page: string): Finding {
  return bad(name, 'it is not set', `Put it into the environment or into .env; ${page} says where to find it.`);
}

function good(what: string, text: string): Finding {
  return { what, verdict: 'good', text, todo: null };
}

function warning(what: string, text: string, todo: string | null): Finding {
  return { what, verdict: 'warning', text, todo };
}

function bad(what: string, text: string, todo: string | null): Finding {
  return { what, verdict: 'bad', text, todo };
}
