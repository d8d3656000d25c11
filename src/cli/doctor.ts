import { X509Certificate } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { OUTCOMES, REMEDIES, readChecks } from '../agents/backends/check-record.ts';
import { SANDBOX_REMEDY, sandboxFault } from '../agents/process/sandbox.ts';
import { checkSetup as checkDiscord } from '../adapters/discord/setup.ts';
import { bad, good, warning } from '../adapters/port.ts';
import type { CheckResult } from '../adapters/port.ts';
import { checkSetup as checkSlack } from '../adapters/slack/setup.ts';
import type { Config } from '../config/config.ts';
import { ConfigError } from '../config/error.ts';
import type { BackendsParts } from '../runtime/agent-factory.ts';
import { EXIT_CODES } from '../runtime/exit-codes.ts';
import type { ExitCode } from '../runtime/exit-codes.ts';
import { lockInstance, lockFile } from '../engine/sqlite/lock.ts';
import { storeError } from '../engine/errors.ts';
import { checkMark } from '../engine/sqlite/commits.ts';
import { lockOf, openToRead } from '../engine/sqlite/open.ts';
import { readLastCheck } from '../runtime/background-check.ts';
import { databaseIn } from '../runtime/data-folder.ts';
import { systemClock } from '../lib/time.ts';
import { tryAgents, tryServers } from './agent-start.ts';
import { recordedTrust } from './agent-trust.ts';

/** What agents are started with. */
type ExaminationParts = Omit<BackendsParts, 'config'>;

/** What was found, and what the program ends with: a fault of the configuration or of an agent goes before all others. */
type Examination = { readonly findings: readonly CheckResult[]; readonly code: ExitCode };

/**
 * Looks at everything that a start needs and says what is wrong, changing nothing: a session of each agent is opened and
 * closed, and each model is asked for one word. `load` reads the configuration.
 */
export async function examine(load: () => Config, parts: ExaminationParts): Promise<Examination> {
  const found = readConfig(load);
  if (found.config === null) return { findings: found.findings, code: EXIT_CODES.configuration };
  const { config } = found;
  const { finding, isRunning } = database(config);
  const own = [
    ...found.findings,
    ...config.warnings.map((text) => warning('configuration', text, null)),
    ...certificate(config, parts.clock.now()),
    ...checks(config),
    ...(await sandbox(config)),
    ...(await tryAgents({ ...parts, config, trust: recordedTrust(config.dataDir) })),
    ...(await tryServers({ ...parts, config })),
  ];
  const others = [
    finding,
    ...(isRunning ? [] : await ports(config)),
    ...tokens(config),
    ...(await discord(config)),
    ...(await slack(config)),
  ];
  return {
    findings: [...own, ...others],
    code: isBad(own) ? CONFIGURATION : isBad(others) ? MUST_BE_MENDED : EXIT_CODES.ok,
  };
}

/** The findings as lines for people, the gravest kept apart by its sign. */
export function reportText(findings: readonly CheckResult[]): string {
  const lines = findings.map(({ what, verdict, text, todo }) => {
    const line = `${SIGNS[verdict]} ${what}: ${text}`;
    return todo === null ? line : `${line}\n    → ${todo}`;
  });
  const faults = findings.filter(({ verdict }) => verdict === 'bad').length;
  return [...lines, '', faults === 0 ? 'Conch can start.' : `${faults} of ${findings.length} checks failed.`].join(
    '\n',
  );
}

const { configuration: CONFIGURATION, mustBeMended: MUST_BE_MENDED } = EXIT_CODES;

function isBad(findings: readonly CheckResult[]): boolean {
  return findings.some(({ verdict }) => verdict === 'bad');
}

const SIGNS = { good: '✓', warning: '!', bad: '✗' } as const;

function readConfig(load: () => Config): { readonly config: Config | null; readonly findings: readonly CheckResult[] } {
  try {
    const config = load();
    const text = `${config.file ?? 'the built-in demo'}, ${config.channels.length} channel(s), ${config.agents.length} agent(s)`;
    return { config, findings: [good('configuration', text)] };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { config: null, findings: [bad('configuration', error.message, 'Fix the problems listed and try again.')] };
  }
}

/** Whether a sandbox can be started here: tried by starting one. Said where some agent could run in it. */
async function sandbox({ agents }: Config): Promise<readonly CheckResult[]> {
  const wanting = agents.filter(
    ({ backend }) => (backend.kind === 'acp' || backend.kind === 'command') && backend.sandbox,
  );
  if (!agents.some(({ backend }) => backend.kind === 'acp') && wanting.length === 0) return [];
  const why = await sandboxFault();
  if (why === null) return [good('sandbox', 'a sandbox can be started here: "sandbox": true works')];
  const ids = wanting.map(({ id }) => id).join(', ');
  return wanting.length === 0
    ? [good('sandbox', `${why}; no agent uses one`)]
    : [bad('sandbox', `${ids}: ${why}`, SANDBOX_REMEDY)];
}

type Kept = { readonly finding: CheckResult; readonly isRunning: boolean };

/** What the last check of a database found; one that a running Conch has is looked at beside it. */
function database({ dataDir }: Config): Kept {
  const path = databaseIn(dataDir);
  if (!existsSync(path)) return { finding: folder(dataDir), isRunning: false };
  let isRunning = false;
  try {
    const lock = lockFile(lockOf(path));
    isRunning = lock === null;
    lock?.release();
    return { finding: checked(path, isRunning), isRunning };
  } catch (error) {
    const { message } = storeError(error, path);
    return { finding: bad('database', message, null), isRunning };
  }
}

function checked(path: string, isRunning: boolean): CheckResult {
  const db = openToRead(path);
  try {
    const recall = (owner: string, name: string): string | null =>
      db
        .prepare<[string, string], string>('SELECT value FROM memory WHERE owner = ? AND name = ?')
        .pluck()
        .get(owner, name) ?? null;
    if (!isRunning) checkMark(db, path);
    const last = readLastCheck({ recall });
    const use = isRunning ? 'is in use by a running Conch' : 'can be opened';
    if (last === null) return good('database', `${path} ${use}; it was never checked in full. Run: conch verify`);
    const at = new Date(last.at).toISOString();
    const [problem] = last.problems;
    if (problem === undefined) return good('database', `${path} ${use}; it was intact at ${at}`);
    const todo = 'Stop Conch and restore the last backup: conch restore <file>';
    return bad('database', `${path} was found damaged at ${at}: ${problem}`, todo);
  } finally {
    db.close();
  }
}

/** Whether a folder for the database can be made: tried by making another one beside it and taking it away. */
function folder(dataDir: string): CheckResult {
  let existing = dataDir;
  while (!existsSync(existing) && dirname(existing) !== existing) existing = dirname(existing);
  try {
    rmdirSync(mkdtempSync(join(existing, '.conch-')));
    return good('database', `${dataDir}/conch.db will be created at the first start`);
  } catch {
    const todo = 'Change its owner, or set CONCH_DATA_DIR to a folder that you can write to.';
    return bad('database', `Conch cannot write to ${existing}`, todo);
  }
}

/** Whether the doors can be opened, as long as no running Conch has them. */
async function ports({ adapters, channels, agents, remote }: Config): Promise<readonly CheckResult[]> {
  const { console: page, slack: events } = adapters;
  const isSigned = events.mode === 'http' && channels.some(({ adapter }) => adapter === 'slack');
  const doors = [
    { is: page.enabled, host: '127.0.0.1', port: page.port, key: 'CONCH_PORT' },
    { is: isSigned, host: events.host, port: events.port, key: 'adapters.slack.port' },
    { is: hasRemote({ agents }), host: remote.host, port: remote.port, key: 'remote.port' },
  ];
  const findings: CheckResult[] = [];
  for (const { is, host, port, key } of doors) {
    if (!is || port === 0) continue;
    const why = await refusedAt(host, port);
    const what = `port ${port}`;
    const todo = `Stop the program that uses it, or set ${key} to another port.`;
    findings.push(why === null ? good(what, 'it is free') : bad(what, `it cannot be opened on ${host} (${why})`, todo));
  }
  return findings;
}

function refusedAt(host: string, port: number): Promise<string | null> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen(port, host, () => server.close(() => resolve(null)));
  });
}

function hasRemote({ agents }: Pick<Config, 'agents'>): boolean {
  return agents.some(({ backend }) => backend.kind === 'remote');
}

const SOON_MS = 14 * 86_400_000;

/** How long the certificate of the door for remote agents holds. */
function certificate(config: Config, now: number): readonly CheckResult[] {
  const { tlsCert } = config.remote;
  if (tlsCert === null || !hasRemote(config)) return [];
  const { validFrom, validTo } = new X509Certificate(readFileSync(tlsCert));
  const what = 'certificate';
  const todo = `Put a new one into ${tlsCert}, and its key beside it, then restart Conch.`;
  if (Date.parse(validFrom) > now) return [bad(what, `it is not valid before ${validFrom}`, todo)];
  if (Date.parse(validTo) < now) return [bad(what, `it expired at ${validTo}`, todo)];
  return [
    Date.parse(validTo) < now + SOON_MS
      ? warning(what, `it expires at ${validTo}`, todo)
      : good(what, `it is valid until ${validTo}`),
  ];
}

function tokens({ credentials, channels }: Config): readonly CheckResult[] {
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
    return [
      warning(what, 'a running Conch on this machine uses it', 'Do not start a second Conch with the same token.'),
    ];
  });
}

/** What the newest check of each coding agent showed. None hinders a start. */
function checks({ agents: all, dataDir }: Config): readonly CheckResult[] {
  const known = readChecks(dataDir);
  return all.flatMap(({ id, backend }) => {
    if (backend.kind !== 'acp') return [];
    const newest = known.findLast(({ agent, profile }) => agent === id && profile === backend.profile);
    const again = `Run: conch agent check ${id}`;
    if (newest === undefined) return [warning(id, 'never checked whether it asks before it acts', again)];
    const text = `${OUTCOMES[newest.verdict]} (${newest.program}, checked at ${newest.at})`;
    const todo = REMEDIES[newest.verdict];
    return [todo === null ? good(id, text) : warning(id, text, `${todo} ${again}`)];
  });
}

async function discord({ channels, credentials, adapters }: Config): Promise<readonly CheckResult[]> {
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

async function slack({ channels, credentials, adapters }: Config): Promise<readonly CheckResult[]> {
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

function missing(name: string, page: string): CheckResult {
  return bad(name, 'it is not set', `Set it in the environment or in .env; ${page} says where to find it.`);
}
