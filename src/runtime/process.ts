import { flushCompileCache } from 'node:module';
import { AdapterError } from '../adapters/port.ts';
import type { ChatAdapter } from '../adapters/port.ts';
import { App } from './app.ts';
import { createBackends, warnOfUnchecked } from './agent-factory.ts';
import { EXIT_CODES, STORE_CODES } from './exit-codes.ts';
import type { ExitCode } from './exit-codes.ts';
import type { Config } from '../config/config.ts';
import { loadConfigFrom } from '../config/load.ts';
import { thisWorld } from '../config/world.ts';
import { changedUntilRestart, readText, watchConfig } from '../config/watch.ts';
import { FolderTrust } from '../agents/trust/folder-trust.ts';
import { LoginStore } from '../agents/mcp/login-store.ts';
import { ServerLogins, loginLine } from '../agents/mcp/server-logins.ts';
import { createLog } from './log.ts';
import type { Log } from './log.ts';
import { createPlatforms } from './adapter-factory.ts';
import { serveStandby } from '../adapters/console/standby-server.ts';
import type { Platforms } from './adapter-factory.ts';
import { lengthsOf } from './read-model.ts';
import { StoreError } from '../engine/errors.ts';
import { lockOf, watchLock } from '../engine/lock.ts';
import { databaseIn, openDataFolder, openSharedFolder } from './data-folder.ts';
import type { OpenedStore } from './data-folder.ts';
import { StoreHealth } from '../adapters/delivery/store-health.ts';
import type { FloorStore, FloorStoreOptions } from '../turns/floor-store.ts';
import { errorMessage } from '../lib/defined.ts';
import { sendByProgram, serviceManager } from '../lib/service-manager.ts';
import type { ServiceManager } from '../lib/service-manager.ts';
import { conchCommand, watchVersion } from '../lib/installation.ts';
import { systemClock, systemTimers } from '../lib/time.ts';
import type { Clock, Timer } from '../lib/time.ts';
import { Maintenance } from './maintenance.ts';
import { announcementText } from '../turns/text/announcement-values.ts';

/** Longest duration of a shutdown, in milliseconds. */
const DRAIN_MS = 10_000;

/**
 * Longest duration of a shutdown after a failed start, and of a process that must no longer post, in milliseconds. What
 * is not posted by then is posted by another Conch, or after the next start.
 */
const REPLACED_DRAIN_MS = 1_000;

type Callbacks = {
  /** Gets the one-time link to the page. Default: prints it. */
  readonly greet?: (link: string, config: Config) => void;
  /** Called when the platforms are connected and the crews are open, or when Conch stops before that. */
  readonly onReady?: (app: App) => void;
};

/**
 * Runs the bot until it is told to stop or cannot go on. Resolves with the exit code. SIGTERM and SIGINT stop it in
 * good order; a second signal stops it at once. Can reject before the bot serves: for example with a `StoreError`, an
 * `AdapterError`, or an error with code `EADDRINUSE`.
 */
export async function runBot(first: Config, { greet = printLink, onReady }: Callbacks = {}): Promise<ExitCode> {
  let config = first;
  const [text, clock] = [readText(first.file), systemClock()];
  const current = () => config;
  const { log, service, ...secretStores } = openLog(current, clock);
  const [end, stopping] = [Promise.withResolvers<ExitCode>(), new AbortController()];
  let createdPlatforms: Platforms | null = null;
  const adapters = (): readonly ChatAdapter[] => createdPlatforms?.adapters ?? [];
  const health = new StoreHealth({ timers: systemTimers, log, adapters, channels: () => config.channels });
  // Reports the first failure only: it ends Conch, and mostly causes the later ones.
  const { promise: failure, resolve: onBroken } = Promise.withResolvers<unknown>();
  void failure.then((error) => end.resolve(broken(error, log)));
  const opened = await openStore({ current, clock, adapters, log, health, lost: onBroken, stopping, service });
  if (opened === null) return EXIT_CODES.ok;
  const shared = { ...secretStores, ...opened, clock, timers: systemTimers, log, texts: opened.store.keyValues };
  const maintenance = new Maintenance({ ...shared, config: current });
  const database = () => (opened.mayAct() && !opened.isRefused() ? (health.fault ?? maintenance.state) : 'unreached');
  const waiting = () => secretStores.logins.waiting(config.mcp);
  const trust = new FolderTrust({ ...shared, store: opened.store.keyValues });
  const parts = { ...shared, trust, config: first, current, database, waiting, service };
  const platforms = (createdPlatforms = await createPlatforms(parts));
  const backends = await createBackends({ ...parts, opened: warnOfUnchecked(parts) });
  const app = new App({ ...parts, ...platforms, backendFor: backends.backendFor, onBroken });
  platforms.page?.setRuns(app.runs);
  for (const warning of [...first.warnings, ...waiting().map(loginLine)]) log.warn(warning);
  const unlisten = listen({ log, end: end.resolve, lock: lockOf(databaseIn(first)) });
  const stop = stopper([service, maintenance, health, trust, app, backends, { stop: () => platforms.release() }]);
  try {
    platforms.claim();
    await backends.start();
    await app.start();
    service.ready('serving');
  } catch (error) {
    unlisten();
    stopping.abort();
    return failedStart(error, await stopWithin(REPLACED_DRAIN_MS, stop, log));
  }
  if (platforms.page !== null) greet(platforms.page.accessLink() ?? '', first);
  const load = async (next: Config): Promise<void> => {
    await backends.load(next);
    config = next;
  };
  const watching = watch({ config: first, text, log, load, apply: (next) => app.reload(next) });
  app.connect().then(() => ready(platforms, () => onReady?.(app)), onBroken);
  maintenance.start();
  flushCompileCache();
  const code = await end.promise;
  stopping.abort();
  watching?.cancel();
  return ended(code, await stopWithin(opened.mayAct() ? DRAIN_MS : REPLACED_DRAIN_MS, stop, log), unlisten);
}

function ended(code: ExitCode, inOrder: boolean, unlisten: () => void): ExitCode {
  unlisten();
  return inOrder ? code : process.exit(code);
}

/** Work that was not stopped in order would keep this process alive. The caller first prints and sets the exit code. */
function failedStart(error: unknown, inOrder: boolean): never {
  if (!inOrder) setImmediate(() => process.exit());
  throw error;
}

function ready({ page }: Platforms, tell: () => void): void {
  page?.setReady();
  tell();
}

function serviceOf(log: Log): ServiceManager {
  const { env, pid } = process;
  return serviceManager({
    env,
    pid,
    timers: systemTimers,
    send: sendByProgram(env),
    failed: (error) => log.warn({ err: error }, 'the service manager gets no reports from Conch'),
  });
}

type OpenedLog = {
  readonly log: Log;
  readonly service: ServiceManager;
  readonly logins: ServerLogins;
  /** Secrets to redact from log lines and texts. Returns a new array when the set changes. */
  readonly secrets: () => readonly string[];
};

function openLog(current: () => Config, clock: Clock): OpenedLog {
  const store = new LoginStore(current().dataDir);
  const secrets = secretsOf(current, store);
  const log = createLog({ ...current().log, secrets });
  const logins = new ServerLogins(store, { clock, timers: systemTimers, log });
  return { log, secrets, logins, service: serviceOf(log) };
}

/** The secrets of each configuration since the start, and the tokens of the logins. */
function secretsOf(current: () => Config, logins: LoginStore): OpenedLog['secrets'] {
  const own = new Set<string>();
  let [config, tokens]: [Config | null, readonly string[]] = [null, []];
  let all: readonly string[] = [];
  return () => {
    if (config === current() && tokens === logins.secrets) return all;
    [config, tokens] = [current(), logins.secrets];
    for (const secret of config.secrets) own.add(secret.reveal());
    all = [...own, ...tokens];
    return all;
  };
}

function stopper(parts: readonly { stop(): void | Promise<void> }[]): () => Promise<void> {
  return async () => {
    for (const part of parts) await part.stop();
  };
}

function broken(error: unknown, log: Log): ExitCode {
  if (error instanceof AdapterError) {
    log.fatal({ adapter: error.adapter }, error.message);
    process.stderr.write(`${error.message}\n`);
    return EXIT_CODES.platformRefused;
  }
  log.fatal({ err: error }, 'Conch cannot go on; ending');
  if (!(error instanceof StoreError)) return EXIT_CODES.unexpected;
  process.stderr.write(`${error.message}\n`);
  return STORE_CODES[error.code];
}

const ONE_BROWSER = `The link works once, within an hour. Print another one with: ${conchCommand('open')}`;

const UPDATED =
  'another version of Conch was installed while this one runs. Restart Conch: until then, a part that was not used yet may fail to load. Nothing is lost.';

/** Prints the link to the page. Errors of standard output (a full disk, a closed pipe) are ignored. */
function printLink(link: string, { demoModel }: Config): void {
  const who =
    demoModel === null
      ? ''
      : `The demo's agents speak through ${demoModel.model} (${demoModel.baseUrl ?? demoModel.provider}).\n`;
  process.stdout.on('error', () => undefined).write(`${who}Open the page: ${link}\n${ONE_BROWSER}\n`);
}

function lockLost(path: string, log: Log): ExitCode {
  const words = `${path} was deleted or replaced while Conch ran. Conch ends, so that no second one writes to the same database. Leave that file alone, and start Conch again.`;
  log.fatal({ file: path }, words);
  process.stderr.write(`${words}\n`);
  return EXIT_CODES.lockLost;
}

type StoreParts = {
  readonly current: () => Config;
  readonly clock: Clock;
  readonly adapters: () => readonly ChatAdapter[];
  readonly log: Log;
  readonly health: StoreHealth;
  /** Called when the database can no longer be used. */
  readonly lost: (error: unknown) => void;
  readonly stopping: AbortController;
  readonly service: Pick<ServiceManager, 'ready' | 'watch' | 'stop'>;
};

/** Opens the store. Where it is shared, resolves when this process leads; with `null` when it is stopped before. */
async function openStore(parts: StoreParts): Promise<OpenedStore | null> {
  const { current, clock, adapters, log, health, lost, stopping, service } = parts;
  const { dataDir, store: place } = current();
  const options = {
    clock,
    failed: (error: unknown) => health.failed(error),
    lost,
    say: (line: string) => log.warn({ file: databaseIn(current()) }, line),
    textLimit: (channel) => lengthsOf(channel, adapters()).textLimit,
    fileAbove: (channel) => lengthsOf(channel, adapters()).fileAbove,
    questionLimit: (channel) => lengthsOf(channel, adapters()).questionLimit,
    words: (announcement, _channel, repeat) => {
      const nameOf = (agent: string): string => current().agents.find(({ id }) => id === agent)?.name ?? agent;
      return announcementText(announcement, current().announcements, nameOf, repeat);
    },
  } satisfies Partial<FloorStoreOptions>;
  const { waits, served } = standby({ current, log, service, stopping });
  const whenShared = { dataDir, timers: systemTimers, log, waits, stopping: stopping.signal };
  // After a failure, the standby server and the reports must end: they would keep this process alive.
  const opened =
    place === undefined
      ? alone(openDataFolder({ ...options, dataDir }))
      : await openSharedFolder(place, { ...options, ...whenShared }).catch(async (error: unknown) => {
          await served();
          service.stop();
          throw error;
        });
  await served();
  if (opened === null) {
    service.stop();
    return null;
  }
  const { keyValues } = opened.store;
  // The watchdog only reads: a write fails on a full disk, which a restart does not free.
  service.watch(() => void keyValues.recall('runtime', 'room'));
  health.watch(keyValues);
  return opened;
}

/**
 * Serves health checks and browsers over HTTP while this Conch stands by, where the page is enabled. Ends this Conch
 * when another process has the port: it could not serve the page after a take-over.
 */
function standby({ current, log, service, stopping }: Pick<StoreParts, 'current' | 'log' | 'service' | 'stopping'>) {
  let close: Promise<() => Promise<void>> | null = null;
  const portTaken = (error: unknown): never => {
    process.stderr.write(`${errorMessage(error)}\n`);
    return process.exit(EXIT_CODES.portTaken);
  };
  const { enabled, port } = current().adapters.console;
  const onStop = (): void => stopping.abort();
  const waits = (): void => {
    for (const event of STOPS) process.once(event, onStop);
    service.ready('standing by');
    if (enabled) close = serveStandby(port, log).catch(portTaken);
  };
  const served = async (): Promise<void> => {
    for (const event of STOPS) process.off(event, onStop);
    await (
      await close
    )?.();
  };
  return { waits, served };
}

/** A store in a file, which no other process can take over. */
function alone(store: FloorStore): OpenedStore {
  return { store, mayAct: () => true, isRefused: () => false };
}

type WatchParts = {
  readonly config: Config;
  /** The text of the configuration file at the start; `null` for none. */
  readonly text: string | null;
  readonly log: Log;
  /** Imports the code of the configured backends, then makes the configuration the current one. */
  readonly load: (next: Config) => Promise<void>;
  /** Applies the configuration to floors, agents and crews. */
  readonly apply: (next: Config) => Promise<void>;
};

function watch({ config, text, log, load, apply }: WatchParts): Timer | null {
  const path = config.file;
  if (path === null) return null;
  const failed = (error: unknown): void => log.error({ err: error }, 'the configuration could not be applied');
  const applied = (next: Config): Promise<void> =>
    apply(next).then(() => tellReload(log, path, changedUntilRestart(config, next)), failed);
  return watchConfig({
    read: () => readText(path),
    text,
    load: () => loadConfigFrom(thisWorld(), path),
    timers: systemTimers,
    onChange: async (next) => {
      for (const warning of next.warnings) log.warn(warning);
      try {
        await load(next);
        void applied(next);
      } catch (error) {
        failed(error);
      }
    },
    onInvalid: (error) => log.error({ file: path }, `${error.message}\nNothing was changed.`),
  });
}

function tellReload(log: Log, file: string, atStart: readonly string[]): void {
  if (atStart.length === 0) log.info({ file }, 'configuration reloaded');
  else
    log.warn(
      { file, atStart },
      `configuration reloaded, except ${atStart.join(', ')}: restart Conch to apply the rest`,
    );
}

/** Events that stop Conch: two signals, and the end of a parent process that started Conch with an IPC channel. */
const STOPS = ['SIGTERM', 'SIGINT', 'disconnect'] as const;

function listen(ports: {
  readonly log: Log;
  readonly end: (code: ExitCode) => void;
  readonly lock: string;
}): () => void {
  const { log, end, lock } = ports;
  const watchingLock = watchLock(lock, { timers: systemTimers, lost: () => end(lockLost(lock, log)) });
  const version = watchVersion({ timers: systemTimers, told: (from, to) => log.warn({ from, to }, UPDATED) });
  let isStopRequested = false;
  const onSignal = (signal: string): void => {
    if (isStopRequested) process.exit(EXIT_CODES.ok);
    isStopRequested = true;
    log.info({ signal }, 'ending');
    end(EXIT_CODES.ok);
  };
  const onFault = (error: unknown): void => {
    log.fatal({ err: error }, 'an unforeseen fault; ending');
    end(EXIT_CODES.unexpected);
  };
  const onAlone = (): void => onSignal('the program that started it has ended');
  process.on('SIGTERM', onSignal).on('SIGINT', onSignal).on('disconnect', onAlone);
  process.on('uncaughtException', onFault).on('unhandledRejection', onFault);
  return () => {
    watchingLock.cancel();
    version.cancel();
    process.off('SIGTERM', onSignal).off('SIGINT', onSignal).off('disconnect', onAlone);
    process.off('uncaughtException', onFault).off('unhandledRejection', onFault);
  };
}

/** Resolves with whether `stop` succeeded in time. */
async function stopWithin(ms: number, stop: () => Promise<void>, log: Log): Promise<boolean> {
  const late = Promise.withResolvers<false>();
  const timer = systemTimers.after(ms, () => {
    log.warn({ ms }, 'some work was still under way; it goes on after the next start');
    late.resolve(false);
  });
  const stopping = stop().then(
    () => true,
    (error: unknown) => {
      log.error({ err: error }, 'could not end in good order');
      return false;
    },
  );
  const inOrder = await Promise.race([stopping, late.promise]);
  timer.cancel();
  return inOrder;
}
