import { X509Certificate } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { BackendError, UntrustedError } from '../agents/backends/backend.ts';
import { OUTCOMES, REMEDIES, readChecks } from '../agents/backends/check-record.ts';
import { TokenError, listAgentTokens } from '../agents/backends/remote/tokens.ts';
import { LoginStore } from '../agents/mcp/login-store.ts';
import { McpServer } from '../agents/mcp/mcp-server.ts';
import { LoginNeededError, ServerLogins } from '../agents/mcp/server-logins.ts';
import { standingWords } from '../agents/trust/folder-trust.ts';
import type { FolderTrust } from '../agents/trust/folder-trust.ts';
import { SANDBOX_REMEDY, sandboxFault } from '../agents/process/sandbox.ts';
import { bad, good, warning } from '../adapters/port.ts';
import type { CheckResult } from '../adapters/port.ts';
import { openPorts } from '../config/checks/check-platforms.ts';
import { agentsAndCrews, hasRemote } from '../config/config.ts';
import type { AgentConfig, Config } from '../config/config.ts';
import { ConfigError } from '../config/error.ts';
import { PARTS, installPartCommand, missingPackages, neededParts } from '../config/parts.ts';
import { errorMessage } from '../lib/defined.ts';
import { conchCommand, isInstalled } from '../lib/installation.ts';
import { createBackends } from '../runtime/agent-factory.ts';
import type { Backends, BackendsParts } from '../runtime/agent-factory.ts';
import { EXIT_CODES } from '../runtime/exit-codes.ts';
import type { ExitCode } from '../runtime/exit-codes.ts';
import { lockFile, lockInstance, lockOf } from '../engine/lock.ts';
import { StoreError, storeError } from '../engine/errors.ts';
import { checkMark } from '../engine/sqlite/commits.ts';
import { openToRead } from '../engine/sqlite/open.ts';
import { readLastCheck } from '../runtime/background-check.ts';
import { databaseIn } from '../runtime/data-folder.ts';
import { systemClock } from '../lib/time.ts';
import { folderStanding, recallFrom, recordedTrust } from './agent-trust.ts';
import { oneLine } from '../lib/visible.ts';

type ExaminationParts = Omit<BackendsParts, 'config'>;

/**
 * The findings and the exit code: `configuration` after a fault of the configuration, its packages or certificate, a
 * sandbox, an agent or a tool server; else `mustBeMended` after another fault; else `ok`.
 */
type Examination = { readonly findings: readonly CheckResult[]; readonly code: ExitCode };

/**
 * Checks what a start of the bot needs, without starting the bot. Of the agents with a seat, opens and closes sessions
 * of programs, and sends models a short prompt. While packages are missing, checks only the configuration and the
 * database. `load` reads the configuration.
 */
export async function examine(load: () => Config, parts: ExaminationParts): Promise<Examination> {
  const configReading = readConfig(load);
  if (configReading.config === null) return { findings: configReading.findings, code: EXIT_CODES.configuration };
  const { config } = configReading;
  const { finding, isRunning } = database(config);
  const stored = config.store === undefined ? [finding] : [finding, ...(await postgres(config.store))];
  const parted = missingParts(config);
  if (parted.length > 0) return { findings: [...configReading.findings, ...parted, ...stored], code: CONFIGURATION };
  const own = [
    ...configReading.findings,
    ...config.warnings.map((text) => warning('configuration', text, null)),
    ...certificate(config, parts.clock.now()),

    ...checks(config),
    ...(await sandbox(config)),
    ...(await tryAgents({ ...parts, config, trust: recordedTrust(config) })),
    ...(await tryServers({ ...parts, config })),
  ];
  const others = [
    ...stored,
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

/** Formats the findings, each with a sign for the verdict and a line for what to do. Ends with a summary. */
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

function missingParts(config: Config): readonly CheckResult[] {
  return neededParts(config).flatMap(({ part }) => {
    const absent = missingPackages(part, isInstalled);
    if (absent.length === 0) return [];
    const todo = `Run: ${installPartCommand([part])} Then: ${conchCommand('doctor')}`;
    return [bad('packages', `${PARTS[part].label} needs ${absent.join(', ')}, not installed`, todo)];
  });
}

async function sandbox(config: Config): Promise<readonly CheckResult[]> {
  const agents = agentsAndCrews(config);
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

type DatabaseFinding = { readonly finding: CheckResult; readonly isRunning: boolean };

function database(config: Config): DatabaseFinding {
  const path = databaseIn(config);
  if (!existsSync(path)) return { finding: dataFolder(path), isRunning: false };
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

async function postgres({ postgres: url, schema }: NonNullable<Config['store']>): Promise<readonly CheckResult[]> {
  const { examinePostgres } = await import('../engine/postgres/examine.ts');
  try {
    const { version, isTooOld, unsafe, requestMs, processes } = await examinePostgres({ url, schema });
    if (isTooOld) return [bad('PostgreSQL', `it is version ${version}`, 'Use PostgreSQL 15 or newer.')];
    const leader = processes.find(({ leads }) => leads)?.name ?? 'none';
    const text = `version ${version}, ${requestMs.toFixed(1)} ms a request, ${processes.length} process(es), leader: ${leader}`;
    const todo =
      'Turn these settings on. While they are off, a crash of the database loses messages that Conch has answered.';
    return [good('PostgreSQL', text), ...(unsafe.length === 0 ? [] : [bad('PostgreSQL', unsafe.join(', '), todo)])];
  } catch (error) {
    return [bad('PostgreSQL', storeError(error, '').message, null)];
  }
}

function checked(path: string, isRunning: boolean): CheckResult {
  const db = openToRead(path);
  try {
    if (!isRunning) checkMark(db, path);
    const last = readLastCheck({ recall: (owner, name) => recallFrom(db, owner, name) });
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

function dataFolder(path: string): CheckResult {
  let existing = dirname(path);
  while (!existsSync(existing) && dirname(existing) !== existing) existing = dirname(existing);
  try {
    rmdirSync(mkdtempSync(join(existing, '.conch-')));
    return good('database', `${path} will be created at the first start`);
  } catch {
    const todo = 'Change its owner, or set CONCH_DATA_DIR to a folder that you can write to.';
    return bad('database', `Conch cannot write to ${existing}`, todo);
  }
}

async function ports(config: Config): Promise<readonly CheckResult[]> {
  const findings: CheckResult[] = [];
  for (const { host, port, key } of openPorts(config)) {
    const why = await refusedAt(host, port);
    const subject = `port ${port}`;
    // The variable CONCH_PORT overrides this setting, the port of the page.
    const name = key === 'adapters.console.port' ? 'CONCH_PORT' : key;
    const todo = `Stop the program that uses it, or set ${name} to another port.`;
    findings.push(
      why === null ? good(subject, 'it is free') : bad(subject, `it cannot be opened on ${host} (${why})`, todo),
    );
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

const SOON_MS = 14 * 86_400_000;

function certificate(config: Config, now: number): readonly CheckResult[] {
  const { tlsCert } = config.remote;
  if (tlsCert === null || !hasRemote(config)) return [];
  const { validFrom, validTo } = new X509Certificate(readFileSync(tlsCert));
  const subject = 'certificate';
  const todo = `Put a new certificate into ${tlsCert}, and its key beside it, then restart Conch.`;
  if (Date.parse(validFrom) > now) return [bad(subject, `it is not valid before ${validFrom}`, todo)];
  if (Date.parse(validTo) < now) return [bad(subject, `it expired at ${validTo}`, todo)];
  return [
    Date.parse(validTo) < now + SOON_MS
      ? warning(subject, `it expires at ${validTo}`, todo)
      : good(subject, `it is valid until ${validTo}`),
  ];
}

function tokens({ credentials, channels }: Config): readonly CheckResult[] {
  const { discord: forDiscord, slack: forSlack } = credentials;
  const all = [
    ['discord', 'DISCORD_TOKEN', forDiscord.token],
    ['slack', 'Slack app', forSlack.appToken ?? forSlack.botToken],
  ] as const;
  return all.flatMap(([adapter, subject, token]) => {
    if (token === null || !channels.some((channel) => channel.adapter === adapter)) return [];
    return [tokenInUse(subject, token.reveal())];
  });
}

function tokenInUse(subject: string, token: string): CheckResult {
  try {
    const claim = lockInstance(token);
    claim?.release();
    if (claim !== null) return good(subject, 'no other Conch on this machine uses it');
  } catch (error) {
    return bad(subject, storeError(error, 'its lock file').message, null);
  }
  return warning(
    subject,
    'a running Conch on this machine uses it',
    'Do not start a second Conch with the same token.',
  );
}

function checks({ agents: all, dataDir }: Config): readonly CheckResult[] {
  const storedChecks = readChecks(dataDir);
  return all.flatMap(({ id, backend }) => {
    if (backend.kind !== 'acp') return [];
    const newest = storedChecks.findLast(({ agent, profile }) => agent === id && profile === backend.profile);
    const again = `Run: conch agent check ${id}`;
    if (newest === undefined) return [warning(id, 'never checked whether it asks before it acts', again)];
    const text = `${OUTCOMES[newest.verdict]} (${newest.program}, checked at ${newest.at})`;
    const todo = REMEDIES[newest.verdict];
    return [todo === null ? good(id, text) : warning(id, text, `${todo} ${again}`)];
  });
}

async function discord({ channels, crews, credentials, adapters }: Config): Promise<readonly CheckResult[]> {
  const own = channels.filter(({ adapter }) => adapter === 'discord');
  const { token, apiUrl } = credentials.discord;
  if (own.length === 0) return [];
  if (token === null) return [missing('DISCORD_TOKEN', 'docs/discord.md')];
  const { checkSetup } = await import('../adapters/discord/setup.ts');
  return checkSetup({
    token: token.reveal(),
    apiUrl,
    clock: systemClock(),
    channels: own.map(({ id, name }) => ({ id, name, hasCrew: crews.some(({ channel }) => channel === id) })),
    settings: adapters.discord,
  });
}

async function slack({ channels, credentials, adapters }: Config): Promise<readonly CheckResult[]> {
  const own = channels.filter(({ adapter }) => adapter === 'slack');
  const { botToken, appToken, signingSecret, apiUrl } = credentials.slack;
  if (own.length === 0) return [];
  if (botToken === null) return [missing('SLACK_BOT_TOKEN', 'docs/slack.md')];
  const { checkSetup } = await import('../adapters/slack/setup.ts');
  return checkSetup({
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

/**
 * Checks that agents with a seat can start. Of agents with the same backend and the same decision about the folder,
 * only the first is tried; its finding counts for all. Remote agents, and agents whose folder has untrusted files that
 * take effect, are each tried.
 */
async function tryAgents(parts: TrialParts): Promise<readonly CheckResult[]> {
  const { agents, channels } = parts.config;
  const seated = agents.filter(({ id }) => channels.some((channel) => channel.agents.includes(id)));
  const backends = await createBackends(parts);
  const triedFindings = new Map<string, CheckResult>();
  const findings: CheckResult[] = [];
  try {
    for (const agent of seated) {
      if (agent.backend.kind === 'scripted') continue;
      const tried = tryAgent(agent, parts, { backends, triedFindings });
      findings.push(...(await tried.catch((error: unknown) => [unreadable(agent, error)])));
    }
  } finally {
    await backends.stop();
  }
  return findings;
}

type TrialParts = BackendsParts & { readonly trust: FolderTrust };

/**
 * `triedFindings`: the findings of agents that were tried before. Rejects when a file in the data folder cannot be
 * read.
 */
async function tryAgent(
  agent: AgentConfig,
  parts: TrialParts,
  { backends, triedFindings }: { readonly backends: Backends; readonly triedFindings: Map<string, CheckResult> },
): Promise<readonly CheckResult[]> {
  const folder = await folderStanding(agent, parts.trust);
  const isTrusted = folder?.decision?.choice === 'trusted';
  const isOwn = agent.backend.kind === 'remote' || (folder?.scan.digest != null && !isTrusted);
  const key = isOwn ? agent.id : `${isTrusted} ${JSON.stringify(agent.backend)}`;
  const finding = triedFindings.get(key) ?? (await tryOne(agent, parts, backends));
  triedFindings.set(key, finding);
  const start = { ...finding, what: `${agent.id}: ${START}` };
  return isTrusted ? [start, good(`${agent.id}: folder`, standingWords(agent.id, folder))] : [start];
}

/** The finding about an agent whose token, or the decision about whose folder, cannot be read. Throws other errors. */
function unreadable({ id }: AgentConfig, error: unknown): CheckResult {
  if (error instanceof StoreError || error instanceof TokenError) return bad(`${id}: ${START}`, error.message, null);
  throw error;
}

/** The subject of a finding about an agent; the agent's id is put before it later. */
const START = 'start';

async function tryOne(agent: AgentConfig, parts: BackendsParts, backends: Backends): Promise<CheckResult> {
  const { backend, id, name, persona } = agent;
  if (backend.kind === 'llm') return await (await import('./model-check.ts')).checkModel(backend, parts);
  if (backend.kind === 'remote') return tokenOf(id, parts.config.dataDir);
  try {
    const session = await backends.backendFor(agent).open({ channel: 'console:doctor', agent: id, name, persona });
    await session.close();
    return started(agent, session.program, parts.config.dataDir);
  } catch (error) {
    if (!(error instanceof BackendError)) throw error;
    if (error instanceof UntrustedError)
      return bad(START, oneLine(error.message), `Review these files. An operator decides with: /agent trust ${id}`);
    const todo = `Fix it, then run: conch doctor. docs/agents.md describes each kind of agent.`;
    return bad(START, oneLine(error.message), todo);
  }
}

function started({ id, backend }: AgentConfig, program: string | null | undefined, dataDir: string): CheckResult {
  if (program === undefined) return good(START, 'its program was found');
  const text = `it starts: ${program ?? 'its release is unknown'}`;
  if (backend.kind !== 'acp' || program === null) return good(START, text);
  const own = readChecks(dataDir).filter(({ agent, profile }) => agent === id && profile === backend.profile);
  if (own.length === 0 || own.some((each) => each.program === program)) return good(START, text);
  return warning(START, `${text}, but only another release was checked`, `Run: conch agent check ${id}`);
}

function tokenOf(agent: string, dataDir: string): CheckResult {
  if (listAgentTokens(dataDir).some((entry) => entry.agent === agent))
    return good(START, 'it has a token and can connect');
  return bad(START, 'it has no token, so it cannot connect', `Run: conch agent add ${agent}`);
}

async function tryServers({ config, ...parts }: BackendsParts): Promise<readonly CheckResult[]> {
  const logins = new ServerLogins(new LoginStore(config.dataDir), parts);
  return await Promise.all(
    Object.entries(config.mcp).map(async ([id, settings]): Promise<CheckResult> => {
      const server = new McpServer(id, settings, { ...parts, logins });
      const subject = `${id}: tools`;
      try {
        const tools = await server.tools();
        const text = `it has ${tools.length}: ${namesOf(tools)}`;
        const [lack] = logins.waiting({ [id]: settings });
        if (lack === undefined) return good(subject, text);
        return warning(subject, `${text}; ${lack.why}`, `Run: conch mcp login ${id}`);
      } catch (error) {
        const isLogin = error instanceof LoginNeededError;
        const todo = isLogin ? `Run: conch mcp login ${id}` : `Fix "${id}" under "mcp", then run: conch doctor`;
        return bad(subject, oneLine(errorMessage(error)), todo);
      } finally {
        await server.close();
      }
    }),
  );
}

const SHOWN_TOOLS = 8;

function namesOf(tools: readonly { readonly name: string }[]): string {
  const names = tools.slice(0, SHOWN_TOOLS).map(({ name }) => name);
  return [...names, ...(tools.length > SHOWN_TOOLS ? ['…'] : [])].join(', ') || 'none';
}
