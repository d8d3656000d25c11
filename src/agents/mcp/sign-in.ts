import { randomBytes } from 'node:crypto';
import {
  InsecureTokenEndpointError,
  IssuerMismatchError,
  OAuthError,
  OAuthErrorCode,
  RegistrationRejectedError,
  checkResourceAllowed,
  computeScopeUnion,
  discoverOAuthServerInfo,
  exchangeAuthorization,
  extractWWWAuthenticateParams,
  refreshAuthorization,
  registerClient,
  resolveClientMetadata,
  resourceUrlFromServerUrl,
  startAuthorization,
  validateAuthorizationResponseIssuer,
} from '@modelcontextprotocol/client';
import type { FetchLike, OAuthServerInfo, OAuthTokens } from '@modelcontextprotocol/client';
import type { McpServerConfig } from '../../config/config.ts';
import { isLoopback } from '../../lib/guarded-server.ts';
import type { Instant } from '../../lib/time.ts';
import { LoginError, keptClient, keptMetadata } from './login-store.ts';
import type { Login } from './login-store.ts';
import { limitedFetch } from './mcp-transport.ts';
import { defined } from '../../lib/defined.ts';

type SignInOrder = {
  readonly url: string;
  readonly oauth?: NonNullable<McpServerConfig['oauth']>;
  /** The address on this machine to which the service redirects the browser. */
  readonly redirectUrl: string;
  /** The former login; `null` for none. */
  readonly earlier: Login | null;
  /** When aborted, requests under way end. */
  readonly signal?: AbortSignal;
};

/** A sign-in in a browser. */
export type SignIn = {
  /** The address to open in the browser. */
  readonly address: string;
  readonly issuer: string;
  /** True when the redirect's parameters answer this sign-in. */
  isAnswer(answer: URLSearchParams): boolean;
  /** Exchanges the answer for tokens. Rejects with a `LoginError`. */
  finish(answer: URLSearchParams, at: Instant): Promise<Login>;
};

/**
 * Discovers the server's authorization service, registers Conch there unless the configuration names a client, and
 * returns the address to open. Rejects with a `LoginError`.
 */
export async function beginSignIn(order: SignInOrder): Promise<SignIn> {
  try {
    return await begin(order);
  } catch (error) {
    throw inWords(error);
  }
}

/**
 * Renews the tokens of a login. Rejects with a `LoginError` or another error; `refusalOf` tells whether the refusal is
 * final.
 */
export async function renewed(login: Login, at: Instant): Promise<Login> {
  const { authorizationServer, metadata, client, tokens, resource, url } = login;
  if (tokens === null || tokens.refresh === null) throw new Error('impossible: there is nothing to renew it by');
  const made = await refreshAuthorization(authorizationServer, {
    ...(metadata === null ? {} : { metadata }),
    clientInformation: client,
    refreshToken: tokens.refresh,
    resource,
    fetchFn: safeFetch(url),
  });
  return { ...login, tokens: tokensOf(made, tokens.scope, at) };
}

/** Returns the service's error code for a final refusal; `null` for any other error. */
export function refusalOf(error: unknown): string | null {
  return !(error instanceof OAuthError) || PASSING.has(error.code) ? null : codeOf(error.code);
}

const PASSING: ReadonlySet<string> = new Set([
  OAuthErrorCode.ServerError,
  OAuthErrorCode.TemporarilyUnavailable,
  OAuthErrorCode.TooManyRequests,
]);

async function begin(order: SignInOrder): Promise<SignIn> {
  const { url, redirectUrl } = order;
  const fetchFn = safeFetch(url, order.signal);
  const { scope: challenged, ...where } = await challengeOf(url, fetchFn);
  const info = await discoverOAuthServerInfo(url, { ...where, fetchFn });
  const { authorizationServerUrl: authorizationServer, authorizationServerMetadata: metadata } = info;
  const issuer = issuerOf(order, info);
  const resource = resourceOf(url, info);
  const scope = scopeOf(order, info, challenged);
  const client = await clientOf(order, info, { scope, fetchFn });
  const state = randomBytes(STATE_BYTES).toString('base64url');
  const known = { ...defined({ metadata }), clientInformation: client, resource };
  const { authorizationUrl, codeVerifier } = await startAuthorization(authorizationServer, {
    ...known,
    redirectUrl,
    state,
    ...defined({ scope }),
  });
  assertSafe(authorizationUrl, url);
  const finish: SignIn['finish'] = async (answer, at) => {
    const asked = { ...known, ...codeIn(answer, metadata), codeVerifier, redirectUri: redirectUrl, fetchFn };
    const tokens = tokensOf(await exchangeAuthorization(authorizationServer, asked), scope ?? null, at);
    const made = { tokens, refused: null, wanted: null, signedInAt: at };
    const kept = metadata === undefined ? null : keptMetadata.parse(metadata);
    return { url, resource, issuer, authorizationServer, metadata: kept, client, ...made };
  };
  return {
    address: authorizationUrl.href,
    issuer,
    isAnswer: (answer) => answer.get('state') === state,
    finish: (answer, at) => finish(answer, at).catch((error: unknown) => Promise.reject(inWords(error))),
  };
}

type Challenge = Pick<ReturnType<typeof extractWWWAuthenticateParams>, 'resourceMetadataUrl' | 'scope'>;

async function challengeOf(url: string, fetchFn: FetchLike): Promise<Challenge> {
  const response = await fetchFn(url, { headers: { accept: 'text/event-stream' }, redirect: 'manual' });
  await response.body?.cancel();
  const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(response);
  return defined({ resourceMetadataUrl, scope });
}

function issuerOf({ oauth }: SignInOrder, info: OAuthServerInfo): string {
  const issuer = info.authorizationServerMetadata?.issuer ?? info.authorizationServerUrl;
  const wanted = oauth?.issuer ?? issuer;
  if (wanted === issuer) return issuer;
  throw new LoginError(
    `it says that ${plain(issuer)} signs people in for it, and the configuration that ${wanted} does`,
  );
}

function resourceOf(url: string, { resourceMetadata }: OAuthServerInfo): string {
  const requestedResource = resourceUrlFromServerUrl(url);
  const configuredResource = resourceMetadata?.resource ?? requestedResource.href;
  if (checkResourceAllowed({ requestedResource, configuredResource })) return configuredResource;
  throw new LoginError(`it says of itself that it is ${plain(configuredResource)}, which is another server`);
}

function scopeOf({ oauth, earlier }: SignInOrder, info: OAuthServerInfo, challenged?: string): string | undefined {
  const asked = oauth?.scopes?.join(' ') ?? challenged ?? info.resourceMetadata?.scopes_supported?.join(' ');
  const wanted = earlier?.wanted ?? null;
  const wider = wanted === null ? [] : [earlier?.tokens?.scope ?? undefined, wanted];
  const scope = computeScopeUnion(asked, ...wider);
  const mayLast = info.authorizationServerMetadata?.scopes_supported?.includes('offline_access') === true;
  return scope !== undefined && mayLast ? computeScopeUnion(scope, 'offline_access') : scope;
}

/**
 * Returns the client to sign in with. Registers a new client each time unless the configuration names a client: a
 * service that forgot an old client would only say so in the browser.
 */
async function clientOf(
  { oauth, redirectUrl }: SignInOrder,
  { authorizationServerUrl, authorizationServerMetadata: metadata }: OAuthServerInfo,
  { scope, fetchFn }: { readonly scope: string | undefined; readonly fetchFn: FetchLike },
): Promise<Login['client']> {
  if (oauth?.clientId !== undefined) {
    const { clientId, clientSecret } = oauth;
    return { client_id: clientId, ...defined({ client_secret: clientSecret }) };
  }
  if (metadata !== undefined && metadata.registration_endpoint === undefined) throw new LoginError(NOT_REGISTERED);
  const clientMetadata = resolveClientMetadata({
    redirectUrl,
    clientMetadata: {
      client_name: 'Conch',
      redirect_uris: [redirectUrl],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    },
  });
  const made = await registerClient(authorizationServerUrl, {
    ...defined({ metadata }),
    clientMetadata,
    ...defined({ scope }),
    fetchFn,
  });
  return keptClient.parse(made);
}

const NOT_REGISTERED =
  'its service registers no programs by itself: make an app of yours there, and write its id as oauth.clientId';

function codeIn(
  answer: URLSearchParams,
  metadata: OAuthServerInfo['authorizationServerMetadata'],
): { readonly authorizationCode: string; readonly iss?: string } {
  const iss = answer.get('iss') ?? undefined;
  const issParameterSupported = metadata?.authorization_response_iss_parameter_supported === true;
  validateAuthorizationResponseIssuer({ iss, expectedIssuer: metadata?.issuer, issParameterSupported });
  const error = answer.get('error');
  if (error !== null) throw new LoginError(`it was refused there (${codeOf(error)})`);
  const authorizationCode = answer.get('code');
  if (authorizationCode === null) throw new LoginError('the address holds no code: copy all of it');
  return { authorizationCode, ...defined({ iss }) };
}

/**
 * Returns the tokens in a service's answer. `asked`: the requested scope; a service names the granted scope only if it
 * differs.
 */
function tokensOf(made: OAuthTokens, asked: string | null, at: Instant): NonNullable<Login['tokens']> {
  const { access_token: access, refresh_token: refresh = null, expires_in, scope = asked, token_type } = made;
  if (token_type.toLowerCase() !== 'bearer') {
    throw new LoginError(`its tokens are of a kind that Conch cannot use (${plain(token_type)})`);
  }
  return { access, refresh, expiresAt: expires_in === undefined ? null : at + expires_in * SECOND_MS, scope };
}

/**
 * Returns a `fetch` with a timeout of 30 s for TLS addresses of other machines. For a server on this machine, addresses
 * of this machine are allowed too, with or without TLS. Rejects with a `LoginError` for other addresses.
 */
function safeFetch(server: string, ends?: AbortSignal): FetchLike {
  return async (url, init) => {
    assertSafe(new URL(url), server);
    const limit = AbortSignal.timeout(LIMIT_MS);
    const signal = AbortSignal.any([limit, init?.signal ?? limit, ends ?? limit]);
    return await limitedFetch(url, { ...init, signal });
  };
}

function assertSafe(url: URL, server: string): void {
  const { protocol, host, hostname } = url;
  const isHere = isLoopback(hostname);
  if (isHere && !isLoopback(new URL(server).hostname)) {
    throw new LoginError(`it sends Conch to this machine (${host}), although the server is elsewhere`);
  }
  if (protocol === 'https:' || (protocol === 'http:' && isHere)) return;
  throw new LoginError(`it sends Conch to ${protocol}//${host}, where others could read along`);
}

/**
 * Returns an error in words for people. Keeps only short codes of a service's text, because the text could hold secrets
 * or a whole page.
 */
function inWords(error: unknown): LoginError {
  if (error instanceof LoginError) return error;
  if (error instanceof IssuerMismatchError) return new LoginError(OTHER_ISSUER[error.kind]);
  if (error instanceof InsecureTokenEndpointError) return new LoginError('its service takes tokens without TLS');
  if (error instanceof RegistrationRejectedError) return new LoginError(`${NOT_REGISTERED} (${error.status})`);
  if (error instanceof OAuthError) {
    const code = refusalOf(error);
    return new LoginError(code === null ? UNREADABLE : `its service refused (${code})`);
  }
  if (!(error instanceof Error)) return new LoginError(UNREADABLE);
  const { message, cause, name } = error;
  if (message === 'fetch failed' && cause instanceof Error)
    return new LoginError(`it cannot be reached: ${cause.message}`);
  if (name === 'TimeoutError') return new LoginError(`it does not answer within ${LIMIT_MS / SECOND_MS} s`);
  return new LoginError(/^(?:HTTP \d+ trying|Incompatible auth server)/.test(message) ? plain(message) : UNREADABLE);
}

const UNREADABLE = 'its service answered something that cannot be understood';
const OTHER_ISSUER = {
  metadata: 'its service says of itself that it is another one',
  authorization_response: 'the answer comes from another service than the one that was asked: nothing was sent to it',
} as const;

/** Returns a code of at most 40 characters. Replaces any other text, because codes are shown in channels. */
function codeOf(text: string): string {
  return /^[\w.-]{1,40}$/.test(text) ? text : 'for a reason of its own';
}

/** Returns a text of a service in printable ASCII, cut to 200 characters. */
function plain(text: string): string {
  return text.replaceAll(/[^\x20-\x7E]+/g, ' ').slice(0, LONGEST_WORDS);
}

const STATE_BYTES = 32;
const SECOND_MS = 1_000;
const LIMIT_MS = 30_000;
const LONGEST_WORDS = 200;
