import { z } from 'zod';
import { parseRule } from '../../rules/rule.ts';
import { LABEL_LISTS, withoutMark } from '../../rules/verdict.ts';
import { nearest } from '../../lib/nearest.ts';
import { serverSchema } from '../backends.ts';
import type { Found } from '../error.ts';
import { folderFaults, programFaults, variableFaults } from './programs.ts';
import type { Around } from './programs.ts';
import { defined } from '../../lib/defined.ts';

/**
 * Checks the servers of tools: that each is a program that is there or an address that is safe, that some agent can use them,
 * and that rules name servers that there are. It passes over servers that the schema does not take.
 */
export const checkMcp = (file: unknown, around: Around): readonly Found[] => {
  const { mcp, agents, tools, channels } = draftSchema.parse(file);
  const ids = Object.keys(mcp);
  // Coding agents may bring servers of their own: of rules for them only what is nearly the name of a server here is a mistake.
  const models = agents.some(({ kind }) => kind === 'llm');
  const isAll = models && !agents.some(({ kind }) => kind === 'acp' || kind === 'remote');
  const strange = (given: Lists, isSure: boolean, path: Path) => strangers(given, { ids, isSure }, path);
  return [
    ...Object.entries(mcp).flatMap(([id, server]) => [...badId(id), ...serverFaults(id, server, around)]),
    ...unused(ids, agents),
    ...agents.flatMap((agent, index) => strange(agent.tools, agent.kind === 'llm', ['agents', index, 'tools'])),
    ...strange(tools, isAll, ['tools']),
    ...channels.flatMap((each, index) => strange(each.tools, isAll, ['channels', index, 'tools'])),
  ];
};

type Path = readonly PropertyKey[];
type Lists = Readonly<Record<(typeof LISTS)[number], readonly string[]>>;
type Server = z.output<typeof serverSchema>;

const LISTS = ['allow', 'ask', 'deny', ...LABEL_LISTS] as const;
const noRules = () => ({ allow: [], ask: [], deny: [], untrusted: [], private: [], outward: [], trusted: [] });

const rules = z.array(z.string().catch('')).catch([]);
const lists = z
  .object({ allow: rules, ask: rules, deny: rules, untrusted: rules, private: rules, outward: rules, trusted: rules })
  .catch(noRules);
const draftSchema = z
  .object({
    mcp: z.record(z.string(), z.unknown()).catch({}),
    tools: lists,
    agents: z
      .array(
        z
          .object({ tools: lists, backend: z.object({ kind: z.string() }).catch({ kind: '' }) })
          .catch(() => ({ tools: noRules(), backend: { kind: '' } }))
          .transform(({ tools, backend }) => ({ tools, kind: backend.kind })),
      )
      .catch([]),
    channels: z.array(z.object({ tools: lists }).catch(() => ({ tools: noRules() }))).catch([]),
  })
  .catch(() => ({ mcp: {}, tools: noRules(), agents: [], channels: [] }));

const badId = (id: string): readonly Found[] =>
  /^[a-z][a-z0-9-]{0,30}$/.test(id)
    ? []
    : [
        {
          path: ['mcp', id],
          message: `Expected an id of up to 31 small letters, digits and "-" that begins with a letter, got "${id}": rules name its tools "mcp__<id>__<tool>"`,
        },
      ];

const serverFaults = (id: string, draft: unknown, around: Around): readonly Found[] => {
  const server = serverSchema.safeParse(draft).data;
  if (server === undefined) return [];
  const found = server.url === undefined ? programOf(server, around) : addressOf(server, server.url);
  return found.map((each) => ({ ...each, path: ['mcp', id, ...each.path] }));
};

const programOf = (server: Server, around: Around): readonly Found[] => {
  const { command, args, cwd, env, headers, oauth } = server;
  if (command === undefined) {
    return [{ path: [], message: 'There is neither a program nor an address: add `command`, or `url`' }];
  }
  const started = { command, args, set: env, ...defined({ cwd }) };
  const named = Object.keys(env).map((name) => ({ name, path: ['env', name] }));
  return [
    ...programFaults(started, around),
    ...folderFaults(started, around),
    ...variableFaults(named),
    ...misplaced({ headers: Object.keys(headers).length > 0, oauth: oauth !== undefined }, '`url`'),
    ...fetching(command, args),
  ];
};

/** Programs that look for the newest version of a package at every start. */
const FETCHERS = /(?:^|\/)(?:npx|pnpx|bunx|uvx)$/;

const fetching = (command: string, args: readonly string[]): readonly Found[] =>
  FETCHERS.test(command) && args.length > 0
    ? [
        {
          path: ['command'],
          weight: 'unwise',
          message: `It may take another version at every start, and runs beside the server for as long: install the package, and name its own program`,
        },
      ]
    : [];

const addressOf = ({ command, args, cwd, env, headers, oauth }: Server, text: string): readonly Found[] => {
  const { username, password } = new URL(text);
  const path = ['url'];
  if (command !== undefined)
    return [{ path, message: 'A server is a program or an address: take `url` or `command` away' }];
  const open: Found = { path, message: 'What is sent could be read on the way: write "https://", or use a tunnel' };
  const named: Found = {
    path,
    message: 'Names and passwords do not stand in the address: write a header "Authorization"',
  };
  return [
    ...(isReadable(text) ? [open] : []),
    ...(username !== '' || password !== '' ? [named] : []),
    ...misplaced({ args: args.length > 0, cwd: cwd !== undefined, env: Object.keys(env).length > 0 }, '`command`'),
    ...Object.entries(headers).flatMap(headerFaults),
    ...(oauth === undefined ? [] : loginFaults(oauth, headers)),
  ];
};

/** Whether others could read along on the way to an address. */
const isReadable = (text: string): boolean => {
  const { protocol, hostname } = new URL(text);
  return protocol === 'http:' && !/^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname);
};

const loginFaults = (oauth: NonNullable<Server['oauth']>, headers: Server['headers']): readonly Found[] => {
  const { clientId, clientSecret, issuer } = oauth;
  const header = Object.keys(headers).find((name) => name.toLowerCase() === 'authorization');
  const secret = ['oauth', 'clientSecret'];
  return [
    ...(header === undefined
      ? []
      : [{ path: ['headers', header], message: 'It stands in place of a login: take it away, or `oauth`' }]),
    ...(clientSecret !== undefined && clientId === undefined
      ? [{ path: secret, message: "It is an app's secret: write the app's `clientId` beside it" }]
      : []),
    ...(clientSecret !== undefined && issuer === undefined
      ? [{ path: secret, message: 'Nobody says to whom it may be sent: write the `issuer` of the app beside it' }]
      : []),
    ...(issuer !== undefined && isReadable(issuer)
      ? [{ path: ['oauth', 'issuer'], message: 'What is sent could be read on the way: write "https://"' }]
      : []),
  ];
};

const misplaced = (given: Readonly<Record<string, boolean>>, goesWith: string): readonly Found[] =>
  Object.entries(given).flatMap(([key, isGiven]) =>
    isGiven ? [{ path: [key], message: `It goes with ${goesWith}, which this server has not: take it away` }] : [],
  );

const headerFaults = ([name, value]: readonly [string, string]): readonly Found[] => {
  const path = ['headers', name];
  if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name)) return [{ path, message: 'Expected the name of a header' }];
  return /^[\t\x20-\x7E\x80-\xFF]*$/.test(value)
    ? []
    : [{ path, message: 'It holds a line feed or another character that no header can' }];
};

/** Agents that are given tools of servers. */
const GIVEN_TOOLS: ReadonlySet<string> = new Set(['llm', 'acp', 'remote']);

const unused = (ids: readonly string[], agents: readonly { readonly kind: string }[]): readonly Found[] =>
  ids.length === 0 || agents.length === 0 || agents.some(({ kind }) => GIVEN_TOOLS.has(kind))
    ? []
    : [
        {
          path: ['mcp'],
          weight: 'unwise',
          message: 'Nobody uses it: only agents of the kinds "llm", "acp" and "remote" are given its tools',
        },
      ];

/** The servers there are, and whether rules can mean no others. */
type Servers = { readonly ids: readonly string[]; readonly isSure: boolean };

/** Rules for tools of servers that there are none of. */
const strangers = (given: Lists, { ids, isSure }: Servers, path: Path): readonly Found[] =>
  LISTS.flatMap((list) =>
    given[list].flatMap((text, index): readonly Found[] => {
      const read = parseRule(withoutMark(text));
      if (!read.ok || read.rule.covers.by !== 'mcp') return [];
      const { covers, tool } = read.rule;
      if (ids.some((id) => covers.server(id))) return [];
      const server = tool.split('__')[1] ?? '';
      const near = nearest(server, ids);
      if (near === null && !isSure) return [];
      const known = ids.length === 0 ? 'there are none' : `known are ${ids.join(', ')}`;
      const what = near === null ? `; ${known}` : `: did you mean "${near}"?`;
      const message = `It never fits: there is no server "${server}" under "mcp"${what}`;
      return [{ path: [...path, list, index], weight: 'unwise', message }];
    }),
  );
