import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { InvalidArgumentError, Option } from 'commander';
import { z } from 'zod';
import type { MaintenanceOrder } from '../adapters/console/server.ts';
import { recordCheck } from '../agents/backends/check-record.ts';
import {
  addAgentToken,
  listAgentTokens,
  revokeAgentToken,
  rotateAgentToken,
} from '../agents/backends/remote/tokens.ts';
import { LoginStore } from '../agents/mcp/login-store.ts';
import { loginLine, waitingServers } from '../agents/mcp/server-logins.ts';
import { sessionJournal } from '../agents/session/session-journal.ts';
import { connectsItself } from '../config/config.ts';
import type { Config } from '../config/config.ts';
import { STARTER_AGENTS } from '../config/starter.ts';
import { MODE_NAMES, jsonSchemaText } from '../config/schema.ts';
import { readEnvironment } from '../config/environment.ts';
import { loadConfig } from '../config/load.ts';
import { thisWorld } from '../config/world.ts';
import type { Purpose } from '../config/world.ts';
import { StoreError } from '../engine/errors.ts';
import { isInstalled } from '../lib/installation.ts';
import { systemClock, systemTimers } from '../lib/time.ts';
import { databaseIn, doubtSharedFolder, moveDataFolder, openDataFolder } from '../runtime/data-folder.ts';
import { MACHINES_BESIDE_FLOORS } from '../runtime/machines.ts';
import { EXIT_CODES } from '../runtime/exit-codes.ts';
import type { ExitCode } from '../runtime/exit-codes.ts';
import { parseLine } from '../turns/commands/parse.ts';
import type { FloorStore } from '../turns/floor-store.ts';
import { COST_GROUPS, costed } from './cost.ts';
import { runCtl, watchRuns } from './ctl.ts';
import type { CtlCall, CtlWorld } from './ctl.ts';
import { audited, restored, verified } from './database.ts';
import type { Done } from './database.ts';
import type { ReviewCall } from './review-command.ts';
import type { LoginCall } from './mcp-login.ts';
import type { ServiceCall } from './service.ts';
import { FLOOR_WORDS, SESSION_WORDS, replayAll } from './replay-view.ts';

const flag = (flags: string, meaning: string) => [new Option(flags, meaning), z.boolean().default(false)] as const;
const textOption = (flags: string, meaning: string) =>
  [new Option(flags, meaning), z.string().nullable().default(null)] as const;

/**
 * The options of the program `conch`, each with the schema of its value and the default. Each command lists the options
 * that it takes.
 */
export const OPTIONS = {
  json: flag('--json', 'print JSON'),
  csv: flag('--csv', 'print CSV'),
  background: flag('--background', 'skip the replay of journals, as the running bot does'),
  dryRun: flag('--dry-run', 'count only'),
  channel: textOption('-c, --channel <id>', 'the channel'),
  from: [
    new Option('--from <number>', 'the first entry to show; all are checked').argParser(entryNumber),
    z.number().default(1),
  ],
  since: textOption('--since <time>', 'a day or a duration: 2026-11-22, 7d, 2h'),
  by: [
    new Option(`--by <${COST_GROUPS.join('|')}>`, 'what to sum by').choices(COST_GROUPS),
    z.enum(COST_GROUPS).default('agent'),
  ],
  primary: textOption('--primary <agent>', 'the agent that works'),
  reviewer: textOption('--reviewer <agent>', 'the agent that reviews'),
  maxIterations: [
    new Option('--max-iterations <number>', 'the most iterations').argParser(entryNumber),
    z.number().nullable().default(null),
  ],
  resume: textOption(
    '--resume <id>',
    'follow a review that was started before; a word decides: accept, uphold, more, cancel',
  ),
  crew: textOption('--crew <id>', 'the crew, where there are several'),
  now: flag('--now', 'with stop: cut steps under way'),
  system: flag('--system', 'a service of the machine, in place of one of your user'),
  runAs: textOption('--run-as <user>', 'with --system: an existing user, in place of one that systemd makes'),
  writable: textOption('--writable <folders>', 'folders that agents may write to, with commas'),
  allowSandbox: flag('--allow-sandbox', 'leave out protections under which "sandbox" of agents cannot work'),
  print: flag('--print', 'print the unit and change nothing'),
  platform: textOption('--platform <page|discord|slack>', 'where people and agents talk'),
  agents: textOption('--agents <kind>', `what the agents are: ${STARTER_AGENTS.join(', ')}`),
  names: textOption('--names <names>', 'the names of the agents, with commas'),
  mode: textOption('--mode <mode>', `what a message does while an agent speaks: ${MODE_NAMES.join(', ')}`),
  touches: textOption('--touches <patterns>', 'with spawn: patterns of the files of their tickets, with commas'),
} as const;

const SCHEMAS = Object.fromEntries(Object.entries(OPTIONS).map(([name, [, schema]]) => [name, schema])) as {
  readonly [Name in keyof typeof OPTIONS]: (typeof OPTIONS)[Name][1];
};

/** The options typed in one command line of `conch`, with defaults for the rest. */
export const optionsSchema = z.object({ ...SCHEMAS, help: z.boolean().default(false) });
export type Options = z.output<typeof optionsSchema>;

/**
 * A command of `conch`: its words and arguments (for `<a|b>`, a person types `a` or `b`), its options, and what it
 * does.
 */
export type Row = {
  readonly command: string;
  readonly summary: string;
  readonly options?: readonly (keyof typeof OPTIONS)[];
  /** Carries out the command with its arguments. Required arguments are present. */
  readonly run: (words: readonly string[], options: Options) => ExitCode | Promise<ExitCode>;
};

/** Every command of the program `conch`, in the order of `--help`. */
export const ROWS: readonly Row[] = [
  { command: 'start', summary: 'run the bot and its console page (the default)', run: start },
  {
    command: 'init',
    summary: 'write a first turnConfig.json, by questions or by options',
    options: ['platform', 'channel', 'agents', 'names', 'mode'],
    run: (_, options) => init(options),
  },
  {
    command: 'open',
    summary: 'print a one-time link to the page of the running bot',
    run: () => ctl({ line: '', channel: null, json: false, open: true }),
  },
  {
    command: 'ctl [command...]',
    summary: 'give the running bot a command: "conch ctl floor skip"',
    options: ['channel', 'json'],
    run: (words, options) => ctl(ctlCall(words, options)),
  },
  {
    command: 'replay [floor|session] [key]',
    summary: 'replay and check the journal of a channel or session',
    options: ['from'],
    run: (words, { from }) => withStore((store) => replay(store, { ...replayed(words), from })),
  },
  { command: 'backup <file>', summary: 'write a consistent copy of the database', run: ([file = '']) => backup(file) },
  {
    command: 'restore <file>',
    summary: 'replace the database by a backup; the old one is kept',
    run: ([file = '']) => restore(file),
  },
  {
    command: 'verify [file]',
    summary: 'check the database or a backup, even while Conch runs',
    options: ['json', 'background'],
    run: ([file], options) => printDone(verified(file === undefined ? database() : resolve(file), options)),
  },
  {
    command: 'workers',
    summary: 'list the processes that share a store in PostgreSQL',
    options: ['json'],
    run: workers,
  },
  { command: 'move', summary: 'move the store from its file to PostgreSQL', run: move },
  {
    command: 'restored',
    summary: 'after PostgreSQL lost commits: number turns anew',
    run: doubt,
  },
  {
    command: 'prune',
    summary: 'delete what is older than retention.days',
    options: ['dryRun'],
    run: (_, { dryRun }) => maintenance({ act: 'prune', isDryRun: dryRun }),
  },
  {
    command: 'erase <person|message> <id>',
    summary: "erase a person's texts, or one message, for good",
    run: ([what, id = '']) => maintenance({ act: 'erase', what: what === 'person' ? what : 'message', id }),
  },
  {
    command: 'audit',
    summary: 'print all tool calls: who allowed them, their outcome',
    options: ['since', 'json'],
    run: (_, options) => printDone(audited(database(), options, systemClock().now())),
  },
  {
    command: 'cost',
    summary: 'print tokens and cost of model calls',
    options: ['by', 'since', 'json', 'csv'],
    run: (_, options) => printDone(costed(database(), options, systemClock().now())),
  },
  {
    command: 'agent add <id>',
    summary: 'make a token for a remote agent',
    run: ([agent = '']) => giveToken(agent, (dataDir, at) => addAgentToken(dataDir, agent, { at })),
  },
  {
    command: 'agent rotate <id>',
    summary: "replace an agent's token",
    run: ([agent = '']) => giveToken(agent, (dataDir, at) => rotateAgentToken(dataDir, agent, at)),
  },
  {
    command: 'agent revoke <id>',
    summary: "revoke an agent's token",
    run: ([agent = '']) => {
      revokeAgentToken(look().dataDir, agent);
      return printLine(`The token of ${agent} is revoked.`);
    },
  },
  { command: 'agent list', summary: 'list the agents that have a token', run: listTokens },
  {
    command: 'agent check <id>',
    summary: 'check that a coding agent asks before it acts',
    options: ['json'],
    run: ([agent = ''], { json }) => checkAgent(agent, json),
  },
  {
    command: 'agent trust list',
    summary: "list which files of agents' folders are trusted",
    options: ['json'],
    run: async (_, { json }) => printLine(await (await import('./agent-trust.ts')).listTrust(look(), json)),
  },
  {
    command: 'agent trust revoke <id>',
    summary: "revoke the trust in the files of an agent's folder",
    run: ([agent = '']) => revokeTrust(agent),
  },
  {
    command: 'mcp login <server>',
    summary: 'sign Conch in to an MCP server',
    run: ([server = '']) => logins({ verb: 'mcp login', server }),
  },
  {
    command: 'mcp logout <server>',
    summary: 'sign Conch out of an MCP server',
    run: ([server = '']) => logins({ verb: 'mcp logout', server }),
  },
  {
    command: 'mcp list',
    summary: 'list the MCP servers and their logins',
    options: ['json'],
    run: (_, { json }) => logins({ verb: 'mcp list', json }),
  },
  {
    command: 'doctor',
    summary: 'test agents, tokens, permissions, ports, database',
    options: ['json'],
    run: (_, { json }) => doctor(json),
  },
  { command: 'discord invite', summary: 'print the link that invites the bot to a Discord server', run: invite },
  {
    command: 'slack manifest',
    summary: 'print the manifest from which Slack creates the app',
    run: async () => {
      const { slack } = look().adapters;
      return printLine((await import('../adapters/slack/setup.ts')).manifestText(slack, slack.mode));
    },
  },
  { command: 'config check', summary: 'check turnConfig.json and the environment', run: checkConfig },
  {
    command: 'tools test <agent> <tool> <input>',
    summary: 'say which rule decides about a tool call (input as JSON)',
    options: ['channel', 'json'],
    run: async ([agent = '', tool = '', input = ''], { channel, json }) => {
      const result = (await import('./tools-test.ts')).testTool({ agent, tool, input, channel }, look());
      if (!result.ok) return printError(result.message);
      const { verdict, by, rule } = result.verdict;
      return printLine(json ? JSON.stringify({ verdict, by, rule: rule?.text ?? null }) : result.text);
    },
  },
  {
    command: 'run watch <agent>',
    summary: 'follow what an agent does with its tools',
    options: ['channel', 'json'],
    run: ([agent = ''], { channel, json }) => watchRuns({ agent, channel, json }, worldOf(look()), endSignal()),
  },
  {
    command: 'review [task...]',
    summary: 'have one agent work and another review until the work passes',
    options: ['primary', 'reviewer', 'maxIterations', 'channel', 'resume', 'json'],
    run: (words, { maxIterations: iterations, ...options }) =>
      review({ task: words.length === 0 ? null : words.join(' '), iterations, ...options }),
  },
  {
    command: 'crew [command...]',
    summary: 'give a crew of the running bot a command: "conch crew ps"',
    options: ['crew', 'json', 'now', 'touches'],
    run: async (words, { crew, json, now, touches }) => {
      const config = look();
      const { runCrew } = await import('./crew-command.ts');
      const isTerminal = process.stdout.isTTY;
      const more = [...(now ? ['--now'] : []), ...(touches === null ? [] : ['--touches', touches])];
      return runCrew({ words: [...words, ...more], crew, json }, config, {
        ...worldOf(config),
        signal: endSignal(),
        sleep: wait,
        isTerminal,
      });
    },
  },
  {
    command: 'service install',
    summary: 'run Conch as a systemd service, from this folder',
    options: ['system', 'runAs', 'writable', 'allowSandbox', 'print'],
    run: (_, options) => service('install', options),
  },
  {
    command: 'service status',
    summary: 'show how the service is, and how it ended',
    options: ['system'],
    run: (_, options) => service('status', options),
  },
  {
    command: 'service uninstall',
    summary: 'stop and remove the service; the data stays',
    options: ['system'],
    run: (_, options) => service('uninstall', options),
  },
  {
    command: 'schema',
    summary: 'print the JSON Schema of turnConfig.json for editors',
    run: () => printLine(jsonSchemaText()),
  },
];

async function service(verb: ServiceCall['verb'], options: Options): Promise<ExitCode> {
  // Only an installation reads the configuration: a broken one must not hide why the service ended.
  const dataDir = verb === 'install' ? look().dataDir : '';
  const { foldersOf, runService, thisMachine } = await import('./service.ts');
  const { runAs, allowSandbox: allowsSandbox, print: printsOnly } = options;
  const writable = foldersOf(options.writable ?? '', process.cwd());
  const scope = options.system ? 'system' : 'user';
  const call = { verb, scope, runAs, writable, allowsSandbox, printsOnly } satisfies ServiceCall;
  return printDone(await runService(call, thisMachine(dataDir)));
}

/** Runs `conch init`. Asks questions only on a terminal; elsewhere, flags and defaults answer them. */
async function init({ platform, channel, agents, names, mode }: Options): Promise<ExitCode> {
  const { runInit, newFile, typedAnswers } = await import('./init.ts');
  const cwd = process.cwd();
  const typed = process.stdin.isTTY && process.stdout.isTTY ? typedAnswers() : null;
  try {
    return await runInit(
      { platform, channel, agents, names, mode },
      {
        cwd,
        file: resolve(cwd, readEnvironment(thisWorld()).env['CONCH_CONFIG'] ?? 'turnConfig.json'),
        ask: typed?.ask ?? null,
        create: newFile,
        isFile: existsSync,
        isInstalled,
        out: (text) => process.stdout.write(text),
        err: (text) => process.stderr.write(text),
      },
    );
  } finally {
    typed?.close();
  }
}

async function review(call: ReviewCall): Promise<ExitCode> {
  const config = look();
  const { runReview } = await import('./review-command.ts');
  return runReview(call, { ...worldOf(config), file: config.file, signal: endSignal(), sleep: wait });
}

function entryNumber(text: string): number {
  const number = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(number)) return number;
  throw new InvalidArgumentError('Expected a number.');
}

/** Prints a line; returns the exit code of success. */
export function printLine(text: string): ExitCode {
  process.stdout.write(`${text}\n`);
  return EXIT_CODES.ok;
}

/** Prints a line to standard error; returns `code`, by default that of a wrong command line. */
export function printError(text: string, code: ExitCode = EXIT_CODES.usage): ExitCode {
  process.stderr.write(`${text}\n`);
  return code;
}

function printDone({ ok, text, code }: Done): ExitCode {
  if (!ok) return printError(text, code);
  // No rows as JSON lines: an empty line would be no JSON.
  if (text !== '') printLine(text);
  return code;
}

function look(purpose: Purpose = 'look'): Config {
  return loadConfig(thisWorld(), purpose);
}

function database(): string {
  return resolve(databaseIn(look()));
}

/** Returns a signal that aborts at SIGINT, SIGTERM or SIGHUP. The next of these signals ends the program at once. */
export function endSignal(): AbortSignal {
  const ending = new AbortController();
  const end = () => {
    for (const signal of ENDING) process.off(signal, end);
    ending.abort();
  };
  for (const signal of ENDING) process.on(signal, end);
  return ending.signal;
}

const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

async function logTo({ level, pretty }: Config['log'], secrets: readonly string[] = []) {
  const { createLog } = await import('../runtime/log.ts');
  return createLog({ level, pretty, secrets, destination: process.stderr });
}

const QUIET: Config['log'] = { level: 'fatal', pretty: false };

async function start(): Promise<ExitCode> {
  const config = look('start');
  const { runBot } = await import('../runtime/process.ts');
  return runBot(config);
}

/** Returns the command to send to the running bot. Without words or with `--help`, it is `help`. */
export function ctlCall(words: readonly string[], { channel, json, help }: Options): CtlCall {
  if (help || words.length === 0) return { line: 'help', channel: null, json };
  const line = operatorLine(words);
  // A command of the bot with an option `--json` answers in JSON, which is printed unchanged.
  const own = parseLine(`${line} --json`);
  const hasOwn = json && own.ok && own.invocation.values.json === true;
  return hasOwn ? { line: `${line} --json`, channel, json: false } : { line, channel, json };
}

/**
 * Joins words into one command line. An empty word, and a word with spaces, are quoted. A single word, and a word with
 * quotes, are not changed.
 */
export function operatorLine(words: readonly string[]): string {
  const [only, second] = words;
  if (only !== undefined && second === undefined) return only;
  return words.map((word) => (/^$|^[^"]*\s[^"]*$/.test(word) ? `"${word}"` : word)).join(' ');
}

function ctl(call: CtlCall): Promise<ExitCode> {
  return runCtl(call, worldOf(look()));
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

/**
 * Returns which journals `conch replay` replays: those of sessions if the first word is `session`, else those of
 * floors. `key`: the journal that is named; `null` for all.
 */
export function replayed([first, second]: readonly string[]): {
  readonly machine: 'floor' | 'session';
  readonly key: string | null;
} {
  const isMachine = first === 'floor' || first === 'session';
  return { machine: isMachine ? first : 'floor', key: (isMachine ? second : first) ?? null };
}

function replay(store: FloorStore, plan: ReturnType<typeof replayed> & { readonly from: number }): ExitCode {
  const sessions = store.host(sessionJournal);
  const isFloor = plan.machine === 'floor';
  const isWhole = isFloor
    ? replayAll(store.floors, FLOOR_WORDS, plan, printLine)
    : replayAll(sessions, SESSION_WORDS, plan, printLine);
  if (isWhole !== null) return isWhole ? EXIT_CODES.ok : EXIT_CODES.databaseUnreadable;
  const keys = (isFloor ? store.floors : sessions).keys().join(', ') || 'none';
  return printError(`There is no ${plan.machine} ${plan.key ?? ''} on record. On record: ${keys}`);
}

async function backup(name: string): Promise<ExitCode> {
  const file = resolve(name);
  if (existsSync(dirname(file))) return maintenance({ act: 'backup', file });
  return printError(`There is no folder ${dirname(file)}: create it, or choose another file.`);
}

async function maintenance(order: MaintenanceOrder): Promise<ExitCode> {
  const { carryOut } = await import('../runtime/maintenance.ts');
  const config = look();
  return withStore(
    async (store) => {
      for (const machine of MACHINES_BESIDE_FLOORS) machine.hostIn(store);
      const { ok, text } = await carryOut(order, { store, config: () => config, clock: systemClock() });
      return ok ? printLine(text) : printError(text, EXIT_CODES.refused);
    },
    { line: '', channel: null, json: false, maintenance: order },
  );
}

/**
 * Opens the database, which one process owns, and runs `use` with it. While the running bot owns the database, or when
 * the store is in PostgreSQL, sends the command `inBot` to the bot instead. Throws a `StoreError` in these two cases
 * when `inBot` is `null`, and when there is no database.
 */
async function withStore(
  use: (store: FloorStore) => ExitCode | Promise<ExitCode>,
  inBot: CtlCall | null = null,
): Promise<ExitCode> {
  const { dataDir, store: shared } = look();
  if (shared !== undefined) {
    if (inBot !== null) return ctl(inBot);
    throw new StoreError('unavailable', IN_POSTGRES);
  }
  const path = database();
  if (!existsSync(path)) throw new StoreError('unavailable', `There is no database ${path}. ${WHERE_DATA_IS}`);
  let store: FloorStore;
  try {
    store = openDataFolder(offline(dataDir));
  } catch (error) {
    if (inBot === null || !(error instanceof StoreError) || error.code !== 'locked') throw error;
    return ctl(inBot);
  }
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

/** Returns store options for commands that run while Conch is stopped. */
function offline(dataDir: string) {
  return {
    dataDir,
    clock: systemClock(),
    say: (line: string) => void process.stderr.write(`${line}\n`),
    textLimit: () => Number.MAX_SAFE_INTEGER,
    words: () => null,
  };
}

async function move(): Promise<ExitCode> {
  const { dataDir, store } = look();
  if (store === undefined)
    return printError(
      'Set "store": { "postgres": "postgres://..." } in the configuration first: it names where to move to.',
    );
  const rows = await moveDataFolder(offline(dataDir), store);
  const outcome =
    rows === null ? 'The store is in PostgreSQL already.' : `All ${rows} rows are in PostgreSQL, and were read back.`;
  return printLine(`${outcome} The file ${databaseIn({ dataDir })} is kept, and not used any more. Start Conch.`);
}

async function doubt(): Promise<ExitCode> {
  const { dataDir, store } = look();
  if (store === undefined) return printError('The store is a file in the data folder. Use: conch restore <file>');
  await doubtSharedFolder(offline(dataDir), store);
  return printLine(
    'Turn numbers jump ahead, and pending posts are searched for in their channels before they are sent. Start Conch.',
  );
}

async function workers(_: readonly string[], { json }: Options): Promise<ExitCode> {
  const { store } = look();
  if (store === undefined) return printError('The store is a file in the data folder: one process uses it.');
  const { examinePostgres } = await import('../engine/postgres/examine.ts');
  const examination = await examinePostgres({ url: store.postgres, schema: store.schema });
  if (json) return printLine(JSON.stringify(examination.processes));
  const lines = examination.processes.map(
    ({ name, silentMs, leads }) => `${name}  ${leads ? 'leads' : 'stands by'}, last beat ${silentMs} ms ago`,
  );
  return printLine(lines.length === 0 ? 'No process uses this store.' : lines.join('\n'));
}

const IN_POSTGRES =
  'The store is in PostgreSQL, and this command works on a file. Use the tools of PostgreSQL (pg_dump, pg_restore), or make a file with conch backup.';
const THEN_MOVE =
  'Then name an empty schema in "store.schema" on each machine, and move the database there: conch move';
const WHERE_DATA_IS = 'Set CONCH_DATA_DIR to the data folder of Conch. conch start and conch restore create it.';

async function restore(file: string): Promise<ExitCode> {
  const { dataDir, agents, mcp, store } = look();
  // First, because it throws when the tokens cannot be read.
  const agentsWithToken = new Set(listAgentTokens(dataDir).map(({ agent }) => agent));
  const restoration = await restored(resolve(file), resolve(databaseIn({ dataDir })));
  const lost = agents.filter(({ id, backend }) => backend.kind === 'remote' && !agentsWithToken.has(id));
  const tokens = lost.map(({ id }) => `${id} has no token (backups contain none). Run: conch agent add ${id}`);
  const onward = store === undefined ? [] : [THEN_MOVE];
  const missing = [...onward, ...tokens, ...waitingServers(new LoginStore(dataDir), mcp).map(loginLine)];
  return printDone({ ...restoration, text: [restoration.text, ...missing].join('\n') });
}

function giveToken(agent: string, make: (dataDir: string, at: number) => string): ExitCode {
  const config = look();
  const { dataDir } = config;
  if (!connectsItself(config, agent))
    return printError(`There is no agent ${agent} with the backend "remote" in the configuration.`);
  const token = make(dataDir, systemClock().now());
  process.stderr.write(`The token of ${agent}, shown only now:\n`);
  return printLine(token);
}

function listTokens(): ExitCode {
  const tokens = listAgentTokens(look().dataDir);
  if (tokens.length === 0) return printLine('No agent has a token. Create one with: conch agent add <id>');
  return printLine(tokens.map(({ agent, createdAt }) => `${agent} since ${createdAt}`).join('\n'));
}

async function checkAgent(id: string, json: boolean): Promise<ExitCode> {
  const config = look();
  const check = await import('./agent-check.ts');
  const choice = check.checkable(id, config.agents);
  if ('message' in choice) return printError(choice.message);
  const secrets = config.secrets.map((secret) => secret.reveal());
  const log = await logTo(config.log, secrets);
  const parts = { config, clock: systemClock(), timers: systemTimers, log, signal: endSignal() };
  const result = await check.checkAgent(choice.agent, parts);
  if (result === null) return printError('The check was stopped; no result was saved.', EXIT_CODES.mustBeMended);
  const { folderLines } = await import('./agent-trust.ts');
  const folder = await folderLines({ ...config, agents: [choice.agent] });
  printLine(json ? JSON.stringify(result) : check.checkText(result));
  for (const line of folder) process.stderr.write(`${line}\n`);
  recordCheck(config.dataDir, result);
  return result.verdict === 'asks' ? EXIT_CODES.ok : EXIT_CODES.mustBeMended;
}

async function revokeTrust(id: string): Promise<ExitCode> {
  const trust = await import('./agent-trust.ts');
  const agent = look().agents.find((each) => each.id === id);
  if (agent === undefined) return printError(`There is no agent ${id} in the configuration.`);
  return withStore(
    async (store) => {
      const { ok, text } = await trust.revokeTrust(agent, store.keyValues);
      return ok ? printLine(text) : printError(text, EXIT_CODES.refused);
    },
    { line: `agent distrust ${id}`, channel: null, json: false },
  );
}

async function logins(call: LoginCall): Promise<ExitCode> {
  const config = look();
  const { typedLines, runLoginCall } = await import('./mcp-login.ts');
  const reading = new AbortController();
  const signal = AbortSignal.any([endSignal(), reading.signal]);
  const parts = { store: new LoginStore(config.dataDir), clock: systemClock(), timers: systemTimers };
  const terminal = { ...worldOf(config), lines: typedLines(process.stdin, signal), signal };
  try {
    return await runLoginCall(call, { ...terminal, ...parts, config, log: await logTo(QUIET) });
  } finally {
    reading.abort();
  }
}

async function doctor(json: boolean): Promise<ExitCode> {
  const { examine, reportText } = await import('./doctor.ts');
  const parts = { clock: systemClock(), timers: systemTimers, log: await logTo(QUIET) };
  const { findings, code } = await examine(look, parts);
  printLine(json ? JSON.stringify(findings) : reportText(findings));
  return code;
}

async function invite(): Promise<ExitCode> {
  const { credentials, adapters, crews } = look();
  const { applicationIdOf, inviteUrl } = await import('../adapters/discord/setup.ts');
  const token = credentials.discord.token?.reveal();
  const where = 'docs/discord.md says where to find it.';
  if (token === undefined)
    return printError(`DISCORD_TOKEN is not set. Set it in the environment or in .env; ${where}`);
  const id = applicationIdOf(token);
  return id === null
    ? printError(`DISCORD_TOKEN is not a bot token. Copy it again; ${where}`)
    : printLine(
        inviteUrl(id, { ...adapters.discord, crews: crews.some(({ channel }) => channel.startsWith('discord:')) }),
      );
}

async function checkConfig(): Promise<ExitCode> {
  const config = look('check');
  const { folderLines } = await import('./agent-trust.ts');
  const { file, channels, agents, warnings, dataDir, mcp } = config;
  const waiting = waitingServers(new LoginStore(dataDir), mcp).map(loginLine);
  for (const line of [...warnings, ...waiting, ...(await folderLines(config))]) process.stderr.write(`${line}\n`);
  return printLine(
    `${file ?? 'The built-in demo'} is in order: ${channels.length} channel(s), ${agents.length} agent(s).`,
  );
}
