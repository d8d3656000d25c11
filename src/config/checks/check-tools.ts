import type { z } from 'zod';
import { parseRule } from '../../rules/rule.ts';
import { lintRules } from '../../rules/rule-lint.ts';
import { LABEL_LISTS, withoutMark } from '../../rules/verdict.ts';
import type { ToolLists } from '../../rules/verdict.ts';
import { nearest } from '../../lib/nearest.ts';
import { agentsAndCrews } from '../config.ts';
import { serverSchema } from '../schema.ts';
import { below } from '../error.ts';
import type { Tell } from '../error.ts';
import type { Draft } from './draft.ts';
import { checkProgram, checkVariable } from './programs.ts';
import type { Around } from './programs.ts';

/** Checks the tool rules of the file, its agents, crews and channels. */
export const checkRules = (draft: Draft, tell: Tell): void => {
  const { tools, channels = [], mcp } = draft;
  const agents = agentsAndCrews(draft);
  const ids = Object.keys(mcp);
  const kinds = agents.map(({ backend }) => backend.kind);
  // Coding and remote agents may have tool servers of their own. With such agents, or without a model, an unknown
  // server in a rule is a mistake only if its name resembles a known one.
  const isAll = kinds.includes('llm') && !kinds.some((kind) => kind === 'acp' || kind === 'remote');
  const check = (lists: ToolLists | null, isSure: boolean, at: Tell) => {
    if (lists === null) return;
    for (const { list, index, wrong, message } of lintRules(lists, lists === tools || tools === null ? [] : [tools]))
      at([list, ...(index === null ? [] : [index])], message, wrong ? undefined : 'unwise');
    checkServersOf(lists, { ids, isSure }, at);
  };
  check(tools, isAll, below(tell, 'tools'));
  for (const { tools: own, backend, place } of agents) {
    check(own, backend.kind === 'llm', below(tell, ...place, 'tools'));
    const message = WITHOUT_TOOLS[backend.kind];
    if (own !== null && message !== undefined) tell([...place, 'tools'], message, 'unwise');
  }
  for (const [index, channel] of channels.entries())
    check(channel.tools, isAll, below(tell, 'channels', index, 'tools'));
};

const WITHOUT_TOOLS: Readonly<Record<string, string>> = {
  command: 'Conch cannot ask before an agent of the kind "command" acts, so these rules have no effect: remove them',
  scripted: 'A scripted agent has no tools: remove this key',
};

const LISTS = ['allow', 'ask', 'deny', ...LABEL_LISTS] as const;

/** Ids of the configured servers. `isSure`: rules can mean no other servers. */
type Servers = { readonly ids: readonly string[]; readonly isSure: boolean };

const checkServersOf = (lists: ToolLists, { ids, isSure }: Servers, tell: Tell): void => {
  for (const list of LISTS)
    for (const [index, text] of (lists[list] ?? []).entries()) {
      const parsed = parseRule(withoutMark(text));
      if (!parsed.ok || parsed.rule.covers.by !== 'mcp') continue;
      const { covers, tool } = parsed.rule;
      const server = tool.split('__')[1] ?? '';
      const near = nearest(server, ids);
      if (ids.some((id) => covers.server(id)) || (near === null && !isSure)) continue;
      const knownIds = ids.length === 0 ? 'there are none' : `known are ${ids.join(', ')}`;
      const hint = near === null ? `; ${knownIds}` : `: did you mean "${near}"?`;
      tell([list, index], `This rule never matches: there is no server "${server}" under "mcp"${hint}`, 'unwise');
    }
};

type Server = z.output<typeof serverSchema>;

const KINDS_WITH_SERVERS: ReadonlySet<string> = new Set(['llm', 'acp', 'remote']);

/** Checks the tool servers and their ids. Of a server that the schema refuses, only the id is checked. */
export const checkServers = (draft: Draft, around: Around, tell: Tell): void => {
  const { mcp } = draft;
  const agents = agentsAndCrews(draft);
  for (const [id, value] of Object.entries(mcp)) {
    const at = below(tell, 'mcp', id);
    const server = serverSchema.safeParse(value).data;
    if (!/^[a-z][a-z0-9-]{0,30}$/.test(id)) at([], badId(id));
    if (server?.url !== undefined) checkAddress(server, server.url, at);
    else if (server?.command !== undefined) checkLocal(server, server.command, around, at);
    else if (server !== undefined) at([], 'The server has no program and no address: add `command` or `url`');
  }
  if (Object.keys(mcp).length === 0 || agents.length === 0) return;
  const message = 'No agent uses these servers: only agents of kind "llm", "acp" or "remote" get their tools';
  if (!agents.some(({ backend }) => KINDS_WITH_SERVERS.has(backend.kind))) tell(['mcp'], message, 'unwise');
};

const badId = (id: string): string =>
  `Expected an id of up to 31 small letters, digits and "-" that begins with a letter, got "${id}": rules name its tools "mcp__<id>__<tool>"`;

/** Programs that may fetch another version of a package at every start. */
const FETCHERS = /(?:^|\/)(?:npx|pnpx|bunx|uvx)$/;

const checkLocal = (server: Server, command: string, around: Around, tell: Tell): void => {
  const { args, cwd, env, headers, oauth } = server;
  checkProgram({ command, args, cwd, set: env }, around, tell);
  for (const name of Object.keys(env)) checkVariable(name, ['env', name], tell);
  checkMisplaced({ headers: Object.keys(headers).length > 0, oauth: oauth !== undefined }, '`url`', tell);
  const message = `This program may fetch another version at every start: install the package and give the path of its own program`;
  if (FETCHERS.test(command) && args.length > 0) tell(['command'], message, 'unwise');
};

const checkAddress = ({ command, args, cwd, env, headers, oauth }: Server, url: string, tell: Tell): void => {
  const { username, password } = new URL(url);
  if (command !== undefined)
    return tell(['url'], 'A server is either a program or an address: remove `url` or `command`');
  if (isReadable(url)) tell(['url'], 'Data would be sent unencrypted: use "https://" or a tunnel');
  if (username !== '' || password !== '')
    tell(['url'], 'The address must not contain a user name or password: use a header "Authorization"');
  const programKeys = { args: args.length > 0, cwd: cwd !== undefined, env: Object.keys(env).length > 0 };
  checkMisplaced(programKeys, '`command`', tell);
  for (const [name, value] of Object.entries(headers))
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name)) tell(['headers', name], 'Expected the name of a header');
    else if (!/^[\t\x20-\x7E\x80-\xFF]*$/.test(value))
      tell(
        ['headers', name],
        'The value contains a line feed or another character that is not allowed in a header: remove it',
      );
  if (oauth !== undefined) checkLogin(oauth, headers, tell);
};

/** True when the connection to an address is not encrypted and leaves this machine. */
const isReadable = (url: string): boolean => {
  const { protocol, hostname } = new URL(url);
  return protocol === 'http:' && !/^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname);
};

const checkLogin = (oauth: NonNullable<Server['oauth']>, headers: Server['headers'], tell: Tell): void => {
  const { clientId, clientSecret, issuer } = oauth;
  const header = Object.keys(headers).find((name) => name.toLowerCase() === 'authorization');
  const secret = ['oauth', 'clientSecret'];
  if (header !== undefined)
    tell(['headers', header], 'An Authorization header replaces the login: remove it or `oauth`');
  if (clientSecret !== undefined && clientId === undefined)
    tell(secret, "It is an app's secret: write the app's `clientId` beside it");
  if (clientSecret !== undefined && issuer === undefined)
    tell(secret, 'Conch does not know where to send this secret: add the `issuer` of the app');
  if (issuer !== undefined && isReadable(issuer))
    tell(['oauth', 'issuer'], 'Data would be sent unencrypted: use "https://"');
};

const checkMisplaced = (presence: Readonly<Record<string, boolean>>, goesWith: string, tell: Tell): void => {
  for (const [key, isPresent] of Object.entries(presence))
    if (isPresent) tell([key], `This key requires ${goesWith}, which this server does not have: remove it`);
};
