import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import {
  TokenError,
  addAgentToken,
  listAgentTokens,
  revokeAgentToken,
  rotateAgentToken,
} from './agents/backends/remote/tokens.ts';
import { parseCall } from './cli/arguments.ts';
import type { CommandLine } from './cli/arguments.ts';
import { runCtl } from './cli/ctl.ts';
import type { CtlCall, CtlWorld, RunWatch } from './cli/ctl.ts';
import type { LoginCall } from './cli/mcp-login.ts';
import type { DatabaseCall } from './cli/database.ts';
import { EXIT_CODES, STORE_CODES } from './runtime/exit-codes.ts';
import type { ExitCode } from './runtime/exit-codes.ts';
import { recordCheck } from './agents/backends/check-record.ts';
import { LoginStore } from './agents/mcp/login-store.ts';
import { loginLine, waitingServers } from './agents/mcp/server-logins.ts';
import { sessionJournal } from './agents/session/session-journal.ts';
import { FLOOR_WORDS, SESSION_WORDS, replayAll } from './cli/replay-view.ts';
import { ConfigError } from './config/error.ts';
import { jsonSchemaText } from './config/json-schema.ts';
import { loadConfig } from './config/load.ts';
import { thisWorld } from './config/world.ts';
import type { Config } from './config/config.ts';
import type { UpkeepOrder } from './adapters/console/command-endpoint.ts';
import { AdapterError } from './adapters/port.ts';
import { StoreError } from './engine/errors.ts';
import { MACHINES_BESIDE_FLOORS, databaseIn, openDataFolder } from './runtime/data-folder.ts';
import type { FloorStore } from './turns/floor-store.ts';
import { systemClock, systemTimers } from './lib/time.ts';

/** Does what the command line asks; resolves with the exit code. A user's mistake is one clear line, never a stack trace. */
export async function main(argv: readonly string[]): Promise<ExitCode> {
  const understood = parseCall(argv);
  if (!understood.ok) return fail(understood.message, EXIT_CODES.usage);
  try {
    return await run(understood.call);
  } catch (error) {
    return explained(error);
  }
}

async function run(call: CommandLine): Promise<ExitCode> {
  switch (call.verb) {
    case 'help':
      return say(call.text);
    case 'version':
      return say(await version());
    case 'schema':
      return say(jsonSchemaText());
    case 'config check':
      return checkConfig(loadConfig(thisWorld(), 'check'));
    case 'agent check':
      return checkAgent(call, loadConfig(thisWorld(), 'look'));
    case 'tools test':
      return testTools(call, loadConfig(thisWorld(), 'look'));
    case 'mcp login':
    case 'mcp logout':
    case 'mcp list':
      return logins(call, loadConfig(thisWorld(), 'look'));
    case 'doctor':
      return doctor(call.json);
    case 'discord invite':
      return invite(loadConfig(thisWorld(), 'look'));
    case 'slack manifest':
      return manifest(loadConfig(thisWorld(), 'look'));
    case 'start':
      return start(loadConfig(thisWorld()));
    case 'ctl':
      return ctl(call, loadConfig(thisWorld(), 'look'));
    case 'open':
      return ctl({ line: '', channel: null, json: false, open: true }, loadConfig(thisWorld(), 'look'));
    case 'run watch':
      return follow(call, loadConfig(thisWorld(), 'look'));
    case 'replay':
      return withStore((store) => replay(store, call));
    case 'agent list':
    case 'agent trust':
      return ofAgents(call, loadConfig(thisWorld(), 'look'));
    case 'agent':
      return changeToken(call, loadConfig(thisWorld(), 'look'));
    case 'backup':
    case 'prune':
    case 'erase':
      return upkeep(call);
    case 'verify':
    case 'audit':
    case 'cost':
    case 'restore':
      return withDatabase(call);
  }
}

/** The platforms' libraries are large: only a start waits for them. */
async function start(config: Config): Promise<ExitCode> {
  const { runBot } = await import('./runtime/process.ts');
  return runBot(config);
}

async function doctor(json: boolean): Promise<ExitCode> {
  const { examine, reportText } = await import('./cli/doctor.ts');
  const { createLog } = await import('./runtime/log.ts');
  const log = createLog({ level: 'fatal', pretty: false, secrets: [], destination: process.stderr });
  const parts = { clock: systemClock(), timers: systemTimers, log };
  const { findings, code } = await examine(() => loadConfig(thisWorld(), 'look'), parts);
  say(json ? JSON.stringify(findings) : reportText(findings));
  return code;
}

/** A first signal ends the agent and the check in good order, a second one this program at once. */
async function checkAgent(call: Extract<CommandLine, { verb: 'agent check' }>, config: Config): Promise<ExitCode> {
  const check = await import('./cli/agent-check.ts');
  const { createLog } = await import('./runtime/log.ts');
  const found = check.checkable(call.agent, config.agents);
  if ('message' in found) return fail(found.message, EXIT_CODES.usage);
  const secrets = config.secrets.map((secret) => secret.reveal());
  const log = createLog({ ...config.log, secrets, destination: process.stderr });
  const ending = new AbortController();
  const end = () => ending.abort();
  process.once('SIGINT', end).once('SIGTERM', end).once('SIGHUP', end);
  const parts = { config, clock: systemClock(), timers: systemTimers, log, signal: ending.signal };
  const done = await check.checkAgent(found.agent, parts);
  if (done === null) return fail('The check was stopped; no result was saved.', EXIT_CODES.mustBeMended);
  const { folderLines } = await import('./cli/agent-trust.ts');
  const folder = await folderLines({ ...config, agents: [found.agent] });
  say(call.json ? JSON.stringify(done) : check.checkText(done));
  for (const line of folder) process.stderr.write(`${line}\n`);
  recordCheck(config.dataDir, done);
  return done.verdict === 'asks' ? EXIT_CODES.ok : EXIT_CODES.mustBeMended;
}

async function logins(call: LoginCall, config: Config): Promise<ExitCode> {
  const { typedLines, runLoginCall } = await import('./cli/mcp-login.ts');
  const { createLog } = await import('./runtime/log.ts');
  const store = new LoginStore(config.dataDir);
  const log = createLog({ level: 'fatal', pretty: false, secrets: [], destination: process.stderr });
  const ending = new AbortController();
  const end = () => ending.abort();
  process.once('SIGINT', end).once('SIGTERM', end).once('SIGHUP', end);
  const terminal = { ...worldOf(config), lines: typedLines(process.stdin, ending.signal), signal: ending.signal };
  try {
    return await runLoginCall(call, { ...terminal, config, store, log, clock: systemClock(), timers: systemTimers });
  } finally {
    end();
  }
}

/** What is known of agents. A running bot whose trust is revoked leaves the agent stopped; else people are asked again at the next start. */
async function ofAgents(
  call: Extract<CommandLine, { verb: 'agent list' | 'agent trust' }>,
  config: Config,
): Promise<ExitCode> {
  if (call.verb === 'agent list') return listTokens(config);
  const trust = await import('./cli/agent-trust.ts');
  if (call.what === 'list') return say(await trust.listTrust(config, call.json));
  const { agent } = call;
  if (!config.agents.some(({ id }) => id === agent))
    return fail(`There is no agent ${agent} in the configuration.`, EXIT_CODES.usage);
  try {
    return await withStore(async (store) => say(await trust.revokeTrust(agent, store.keyValues)));
  } catch (error) {
    if (!(error instanceof StoreError) || error.code !== 'locked') throw error;
    return ctl({ line: `agent distrust ${agent}`, channel: null, json: false }, config);
  }
}

async function testTools(call: Extract<CommandLine, { verb: 'tools test' }>, config: Config): Promise<ExitCode> {
  const { testTool } = await import('./cli/tools-test.ts');
  const result = testTool(call, config);
  if (!result.ok) return fail(result.message, EXIT_CODES.usage);
  const { verdict, by, rule } = result.verdict;
  return say(call.json ? JSON.stringify({ verdict, by, rule: rule?.text ?? null }) : result.text);
}

async function invite({ credentials, adapters }: Config): Promise<ExitCode> {
  const { applicationIdOf, inviteUrl } = await import('./adapters/discord/setup.ts');
  const { token } = credentials.discord;
  if (token === null) {
    return fail(
      'DISCORD_TOKEN is not set. Set it in the environment or in .env; docs/discord.md says where to find it.',
      EXIT_CODES.usage,
    );
  }
  const id = applicationIdOf(token.reveal());
  if (id === null)
    return fail(
      'DISCORD_TOKEN is not a bot token. Copy it again; docs/discord.md says where to find it.',
      EXIT_CODES.usage,
    );
  return say(inviteUrl(id, adapters.discord));
}

async function manifest({ adapters }: Config): Promise<ExitCode> {
  const { manifestText } = await import('./adapters/slack/setup.ts');
  return say(manifestText(adapters.slack, adapters.slack.mode));
}

function listTokens(config: Config): ExitCode {
  const tokens = listAgentTokens(config.dataDir);
  if (tokens.length === 0) return say('No agent has a token. Create one with: conch agent add <id>');
  return say(tokens.map(({ agent, createdAt }) => `${agent} since ${createdAt}`).join('\n'));
}

function changeToken(call: Extract<CommandLine, { verb: 'agent' }>, config: Config): ExitCode {
  const { what, agent } = call;
  const { dataDir, agents } = config;
  if (what === 'revoke') {
    revokeAgentToken(dataDir, agent);
    return say(`The token of ${agent} is revoked.`);
  }
  if (!agents.some(({ id, backend }) => id === agent && backend.kind === 'remote')) {
    return fail(`There is no agent ${agent} with the backend "remote" in the configuration.`, EXIT_CODES.usage);
  }
  const at = systemClock().now();
  const token = what === 'add' ? addAgentToken(dataDir, agent, { at }) : rotateAgentToken(dataDir, agent, at);
  process.stderr.write(`The token of ${agent}, shown only now:\n`);
  return say(token);
}

async function checkConfig(config: Config): Promise<ExitCode> {
  const { folderLines } = await import('./cli/agent-trust.ts');
  const { channels, agents, warnings } = config;
  for (const warning of warnings) process.stderr.write(`${warning}\n`);
  const waiting = waitingServers(new LoginStore(config.dataDir), config.mcp);
  for (const each of waiting) process.stderr.write(`${loginLine(each)}\n`);
  for (const line of await folderLines(config)) process.stderr.write(`${line}\n`);
  return say(
    `${config.file ?? 'The built-in demo'} is in order: ${channels.length} channel(s), ${agents.length} agent(s).`,
  );
}

/** Works on the database; when the running bot has it, the bot does so itself. */
async function upkeep(call: Extract<CommandLine, { verb: UpkeepOrder['act'] }>): Promise<ExitCode> {
  const { carryOut } = await import('./runtime/upkeep.ts');
  const order = orderOf(call);
  if (order.act === 'backup' && !existsSync(dirname(order.file))) {
    return fail(`There is no folder ${dirname(order.file)}: create it, or choose another file.`, EXIT_CODES.usage);
  }
  const config = loadConfig(thisWorld(), 'look');
  try {
    return await withStore(async (store) => {
      for (const machine of MACHINES_BESIDE_FLOORS) machine.hostIn(store);
      const { ok, text } = await carryOut(order, { store, config: () => config, clock: systemClock() });
      return ok ? say(text) : fail(text, EXIT_CODES.refused);
    });
  } catch (error) {
    if (!(error instanceof StoreError) || error.code !== 'locked') throw error;
    return ctl({ line: '', channel: null, json: false, upkeep: order }, config);
  }
}

function orderOf(call: Extract<CommandLine, { verb: UpkeepOrder['act'] }>): UpkeepOrder {
  switch (call.verb) {
    case 'backup':
      return { act: call.verb, file: resolve(call.file) };
    case 'prune':
      return { act: call.verb, isDryRun: call.isDryRun };
    case 'erase':
      return { act: call.verb, what: call.what, id: call.id };
  }
}

async function withDatabase(call: DatabaseCall): Promise<ExitCode> {
  const { runOnDatabase } = await import('./cli/database.ts');
  const config = loadConfig(thisWorld(), 'look');
  const { ok, text, code } = await runOnDatabase(call, config.dataDir, systemClock().now());
  return ok
    ? say([text, ...(call.verb === 'restore' ? missingAfterRestore(config) : [])].join('\n'))
    : fail(text, code);
}

/** What the configuration needs, that no backup holds, and that the data folder lacks: a line for each, with what to do. */
function missingAfterRestore({ dataDir, agents, mcp }: Config): readonly string[] {
  const known = new Set(listAgentTokens(dataDir).map(({ agent }) => agent));
  const lost = agents.filter(({ id, backend }) => backend.kind === 'remote' && !known.has(id));
  const tokens = lost.map(({ id }) => `${id} has no token (backups contain none). Run: conch agent add ${id}`);
  return [...tokens, ...waitingServers(new LoginStore(dataDir), mcp).map(loginLine)];
}

function ctl(call: CtlCall, config: Config): Promise<ExitCode> {
  return runCtl(call, worldOf(config));
}

/** Ends with a signal; what runs goes on. */
async function follow(call: RunWatch, config: Config): Promise<ExitCode> {
  const { watchRuns } = await import('./cli/ctl.ts');
  const ending = new AbortController();
  const end = () => ending.abort();
  process.once('SIGINT', end).once('SIGTERM', end).once('SIGHUP', end);
  return watchRuns(call, worldOf(config), ending.signal);
}

function worldOf({ dataDir, adapters }: Config): CtlWorld {
  return {
    dataDir,
    port: adapters.console.port,
    readFile: (path) => readFile(path, 'utf8'),
    fetch,
    out: (text) => process.stdout.write(text),
    err: (text) => process.stderr.write(text),
  };
}

/** The database belongs to one process: a running bot must be stopped first, and the error says so. */
async function withStore(use: (store: FloorStore) => ExitCode | Promise<ExitCode>): Promise<ExitCode> {
  const config = loadConfig(thisWorld(), 'look');
  const path = resolve(databaseIn(config.dataDir));
  if (!existsSync(path)) throw new StoreError('unavailable', `There is no database ${path}. ${WHERE_DATA_IS}`);
  const store = openDataFolder({
    dataDir: config.dataDir,
    clock: systemClock(),
    say: (line) => void process.stderr.write(`${line}\n`),
    textLimit: () => Number.MAX_SAFE_INTEGER,
    words: () => null,
  });
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

const WHERE_DATA_IS = 'Set CONCH_DATA_DIR to the data folder of Conch. conch start and conch restore create it.';

function replay(store: FloorStore, call: Extract<CommandLine, { verb: 'replay' }>): ExitCode {
  const sessions = store.host(sessionJournal);
  const isWhole =
    call.machine === 'floor'
      ? replayAll(store.floors, FLOOR_WORDS, call, say)
      : replayAll(sessions, SESSION_WORDS, call, say);
  if (isWhole !== null) return isWhole ? EXIT_CODES.ok : EXIT_CODES.databaseUnreadable;
  const known = call.machine === 'floor' ? store.floors.keys() : sessions.keys();
  return fail(
    `There is no ${call.machine} ${call.key ?? ''} on record. On record: ${known.join(', ') || 'none'}`,
    EXIT_CODES.usage,
  );
}

function explained(error: unknown): ExitCode {
  if (error instanceof ConfigError) return fail(error.message, EXIT_CODES.configuration);
  if (error instanceof AdapterError) return fail(error.message, EXIT_CODES.platformRefused);
  if (error instanceof TokenError) return fail(error.message, EXIT_CODES.refused);
  if (error instanceof StoreError) return fail(error.message, STORE_CODES[error.code]);
  if (error instanceof Error && isAboutListening(error)) return fail(error.message, EXIT_CODES.portTaken);
  if (error instanceof Error && 'code' in error && NOT_WRITTEN.has(String(error.code))) {
    return fail(
      `${error.message}: free disk space, or set CONCH_DATA_DIR to a folder that you can write to.`,
      EXIT_CODES.diskFull,
    );
  }
  throw error;
}

const NOT_WRITTEN: ReadonlySet<string> = new Set(['EACCES', 'EDQUOT', 'EISDIR', 'ENOSPC', 'ENOTDIR', 'EPERM', 'EROFS']);

/** The port is taken, or this user may not use it; the error itself says which in plain words. */
function isAboutListening(error: Error): boolean {
  return [error, error.cause].some((each) => each instanceof Error && 'syscall' in each && each.syscall === 'listen');
}

async function version(): Promise<string> {
  const text = await readFile(new URL('../package.json', import.meta.url), 'utf8');
  return /"version": "([^"]+)"/.exec(text)?.[1] ?? 'unknown';
}

function say(text: string): ExitCode {
  process.stdout.write(`${text}\n`);
  return EXIT_CODES.ok;
}

function fail(text: string, code: ExitCode): ExitCode {
  process.stderr.write(`${text}\n`);
  return code;
}
