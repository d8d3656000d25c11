import type { IncomingMessage, ServerResponse } from 'node:http';
import { createInterface } from 'node:readline';
import { LoginError } from '../agents/mcp/login-store.ts';
import type { Login, LoginStore } from '../agents/mcp/login-store.ts';
import { waitingServers } from '../agents/mcp/server-logins.ts';
import type { LoginPorts } from '../agents/mcp/server-logins.ts';
import type { SignIn } from '../agents/mcp/sign-in.ts';
import type { Config, McpServerConfig } from '../config/config.ts';
import { createQuietServer, guardServer, listenOn, reply, targetOf } from '../lib/guarded-server.ts';
import { didYouMean } from '../lib/nearest.ts';
import { isoTime, shownAt } from '../lib/time.ts';
import type { Instant } from '../lib/time.ts';
import { EXIT_CODES } from '../runtime/exit-codes.ts';
import type { ExitCode } from '../runtime/exit-codes.ts';
import { quoted } from '../turns/commands/parse.ts';
import { failed } from './ctl.ts';

/** A command about Conch's logins at tool servers. */
export type LoginCall =
  | { readonly verb: 'mcp login' | 'mcp logout'; readonly server: string }
  | { readonly verb: 'mcp list'; readonly json: boolean };

type LoginCallPorts = LoginPorts & {
  readonly config: Pick<Config, 'mcp'>;
  readonly store: LoginStore;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  readonly lines: AsyncIterable<string>;
  /** When aborted, a login that is not yet stored fails at once, and stores nothing. */
  readonly signal: AbortSignal;
};

/**
 * Signs Conch in or out at a tool server, or lists the logins. An unknown server, a server that takes no login, and a
 * `LoginError` are each printed as one line, and give an exit code. Rejects with other errors.
 */
export async function runLoginCall(call: LoginCall, ports: LoginCallPorts): Promise<ExitCode> {
  try {
    if (call.verb === 'mcp list') return list(call.json, ports);
    const { mcp } = ports.config;
    const config = Object.hasOwn(mcp, call.server) ? mcp[call.server] : undefined;
    if (config?.url === undefined) return failed(missing(call.server, config, mcp), EXIT_CODES.usage, ports);
    const at = { ...config, id: call.server, url: config.url };
    return call.verb === 'mcp login' ? await login(at, ports) : await logout(at, ports);
  } catch (error) {
    if (error instanceof LoginError) return failed(`Failed: ${error.message}.`, EXIT_CODES.refused, ports);
    throw error;
  }
}

/**
 * Reads lines of `input`. Reading begins when the first line is requested, and ends when `input` ends or `signal`
 * aborts.
 */
export async function* typedLines(input: NodeJS.ReadableStream, signal: AbortSignal): AsyncGenerator<string> {
  yield* createInterface({ input, signal });
}

type Place = McpServerConfig & { readonly id: string; readonly url: string };

function missing(id: string, config: McpServerConfig | undefined, mcp: Config['mcp']): string {
  if (config !== undefined) return `${id} is a program on this machine and needs no login.`;
  const ids = Object.keys(mcp);
  const there = ids.length === 0 ? 'There is none.' : `There are: ${ids.join(', ')}.`;
  return `There is no server ${quoted(id)} under "mcp" in the configuration.${didYouMean(id, ids)} ${there}`;
}

async function login(place: Place, ports: LoginCallPorts): Promise<ExitCode> {
  const { id, url, oauth, headers } = place;
  const { store, timers, out, signal } = ports;
  const header = Object.keys(headers).find((name) => name.toLowerCase() === 'authorization');
  if (header !== undefined) {
    return failed(
      `${id} has the header ${header}, which replaces a login: remove one of them.`,
      EXIT_CODES.usage,
      ports,
    );
  }
  const { beginSignIn } = await import('../agents/mcp/sign-in.ts');
  const browser = await expectBrowser(oauth?.callbackPort ?? 0, ports);
  try {
    const { redirectUrl } = browser;
    const order = { ...place, redirectUrl, earlier: earlierOf(place, store), signal };
    const signIn = await orStopped(beginSignIn(order), signal);
    out(invitation(place, signIn));
    const { answer, tell } = await firstAnswer(signIn, browser, ports);
    try {
      const newLogin = await orStopped(signIn.finish(answer, now(ports)), signal);
      const save = async () => (signal.aborted ? null : store.save(newLogin));
      const unsaved = await orStopped(store.alone(url, timers, save), signal);
      if (unsaved !== null) throw unsaved;
      tell('Conch is signed in. You can close this page.\n');
      out(`${id}: ${wordsOf(newLogin)}. A running Conch uses this login from its next call on.\n`);
      return EXIT_CODES.ok;
    } catch (error) {
      tell('The login failed. The terminal says why.\n');
      throw error;
    }
  } finally {
    browser.close();
  }
}

/** Resolves with the result of a step of the login. Rejects with a `LoginError` as soon as `signal` aborts. */
async function orStopped<T>(step: Promise<T>, signal: AbortSignal): Promise<T> {
  const stopped = Promise.withResolvers<never>();
  const end = (): void => stopped.reject(new LoginError('the login was stopped'));
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  return await Promise.race([step, stopped.promise]).finally(() => signal.removeEventListener('abort', end));
}

async function logout({ id, url }: Place, { store, timers, out }: LoginCallPorts): Promise<ExitCode> {
  const had = await store.alone(url, timers, async () => store.remove(url));
  const signedOut = `Conch is signed out of ${id}. Its tokens are deleted here; revoke them at the service, too, if it allows that.`;
  out(had ? `${signedOut}\n` : `Conch was not signed in at ${id}.\n`);
  return EXIT_CODES.ok;
}

function earlierOf({ url }: Place, store: LoginStore): Login | null {
  try {
    return store.read(url);
  } catch {
    return null;
  }
}

function invitation({ id, url }: Place, { address, issuer }: SignIn): string {
  return [
    `Signing in lends Conch an account at ${new URL(issuer).host}. All agents that use "${id}" (${url}) act`,
    'as this account, for everybody who asks them. Use an account made for that.',
    '',
    'Open this address in a browser:',
    '',
    `  ${address}`,
    '',
    'If the browser is on another machine, the login ends at a page that does not load. Paste the address of that page here.',
    '',
    '',
  ].join('\n');
}

type Answer = { readonly answer: URLSearchParams; readonly tell: (text: string) => void };

async function firstAnswer(signIn: SignIn, browser: Browser, ports: LoginCallPorts): Promise<Answer> {
  const { timers, signal, lines, err } = ports;
  const browserAnswer = Promise.withResolvers<Answer>();
  const refuse = (why: string): void => browserAnswer.reject(new LoginError(why));
  const timer = timers.after(LIMIT_MS, () =>
    refuse(`the browser did not return within ${LIMIT_MS / MINUTE_MS} minutes`),
  );
  const end = (): void => refuse('the login was stopped');
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  browser.listen((offered) => {
    if (!signIn.isAnswer(offered.answer)) return false;
    browserAnswer.resolve(offered);
    return true;
  });
  const readLines = async (): Promise<void> => {
    for await (const line of lines) {
      const answer = URL.parse(line.trim())?.searchParams;
      if (answer !== undefined && signIn.isAnswer(answer))
        return browserAnswer.resolve({ answer, tell: () => undefined });
      if (line.trim() !== '') err(answer?.has('state') === true ? OTHER_SIGN_IN : NO_ADDRESS);
    }
  };
  readLines().catch(() => undefined);
  try {
    return await browserAnswer.promise;
  } finally {
    timer.cancel();
    signal.removeEventListener('abort', end);
  }
}

const MINUTE_MS = 60_000;
const LIMIT_MS = 10 * MINUTE_MS;
const NO_ADDRESS = 'Wrong address: it begins with "http://127.0.0.1" and contains "state=". Copy all of it.\n';
const OTHER_SIGN_IN =
  'That address belongs to another sign-in. Open the address above, and paste the address at which it ends.\n';

type Browser = {
  readonly redirectUrl: string;
  /** Offers each redirect of the browser to `take`, until `take` returns true. */
  listen(take: (offered: Answer) => boolean): void;
  close(): void;
};

async function expectBrowser(port: number, { log }: LoginCallPorts): Promise<Browser> {
  const server = createQuietServer();
  let take: ((offered: Answer) => boolean) | null = null;
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    const target = targetOf(request);
    if (request.method !== 'GET' || target?.path !== CALLBACK) return finish(response, 404, 'Not found.\n');
    const tell = (text: string): void => finish(response, 200, text);
    const isTaken = take?.({ answer: new URLSearchParams(target.query), tell }) ?? false;
    if (isTaken) take = null;
    else
      finish(
        response,
        400,
        'This page is not the end of the login. The terminal in which you started the login says what to do.\n',
      );
  };
  guardServer(server, { request: answer }, log);
  const listened = await listenOn(server, { host: '127.0.0.1', port }).catch(({ message }: Error) => {
    throw new LoginError(`the browser cannot come back: ${message}`);
  });
  return {
    redirectUrl: `http://127.0.0.1:${listened}${CALLBACK}`,
    listen: (taker) => void (take = taker),
    close: () => void server.close(),
  };
}

const CALLBACK = '/callback';

function finish(response: ServerResponse, status: number, text: string): void {
  reply(response, { status, body: text, headers: { Connection: 'close' } });
}

function list(json: boolean, { config, store, out }: LoginCallPorts): ExitCode {
  const waiting = new Map(waitingServers(store, config.mcp).map(({ server, why }) => [server, why]));
  const rows = Object.entries(config.mcp).map(([server, each]) => {
    const { url = null } = each;
    const why = waiting.get(server) ?? null;
    const stored = url === null || why !== null ? null : store.read(url);
    const state = why !== null ? 'waits' : stored === null ? 'none' : 'signed in';
    const since = stored === null ? null : isoTime(stored.signedInAt);
    const { issuer = null, tokens = null } = stored ?? {};
    const row = { server, url, state, why, issuer, scope: tokens?.scope ?? null, since };
    const words = why ?? (stored === null ? noLogin(each) : wordsOf(stored));
    return { row, line: `${server}${url === null ? '' : ` (${url})`}: ${words}` };
  });
  if (json) return say(JSON.stringify(rows.map(({ row }) => row)), out);
  return say(rows.map(({ line }) => line).join('\n') || 'There is no server under "mcp" in the configuration.', out);
}

function noLogin({ url, headers }: McpServerConfig): string {
  if (url === undefined) return 'a program on this machine, without a login';
  return Object.keys(headers).length > 0 ? 'no login; it uses headers' : 'no login';
}

function wordsOf({ issuer, tokens, signedInAt }: Login): string {
  const scope = tokens?.scope == null ? '' : ` (${tokens.scope})`;
  const ends = tokens?.expiresAt == null ? 'expiry unknown' : `expires at ${isoTime(tokens.expiresAt)}`;
  const how = tokens?.refresh == null ? ends : 'renewed automatically';
  return `signed in by ${issuer} since ${isoTime(signedInAt)}${scope}, ${how}`;
}

function now({ clock }: LoginCallPorts): Instant {
  return shownAt(clock, clock.now());
}

function say(text: string, out: (text: string) => void): ExitCode {
  out(`${text}\n`);
  return EXIT_CODES.ok;
}
