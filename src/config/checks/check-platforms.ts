import { createPrivateKey, X509Certificate } from 'node:crypto';
import { resolve } from 'node:path';
import { isLoopback } from '../../lib/guarded-server.ts';
import { DEMO_AGENTS } from '../demo.ts';
import type { Found } from '../error.ts';
import type { ConfigFile } from '../schema.ts';
import { readIn, type World } from '../world.ts';

/** Checks what the platforms and the door for remote agents go by: ports, addresses, certificates, ids of people and groups. */
export const checkPlatforms = (file: ConfigFile, world: World, consolePort: number | null): readonly Found[] => [
  ...samePorts(file, consolePort),
  ...(isOpen(file) ? door(file, world) : []),
  ...origins(file),
  ...people(file),
  ...groups(file),
];

type Remote = ConfigFile['remote'];

const isOpen = ({ agents = [] }: ConfigFile): boolean => agents.some(({ backend }) => backend.kind === 'remote');

const has = ({ channels = [] }: ConfigFile, ...adapters: readonly string[]): boolean =>
  channels.some(({ id }) => adapters.some((adapter) => id.startsWith(`${adapter}:`)));

/** Two doors of this program cannot share a port. */
const samePorts = (file: ConfigFile, consolePort: number | null): readonly Found[] => {
  const { console: page, slack } = file.adapters;
  const doors = [
    { is: page.enabled, port: consolePort ?? page.port, path: ['adapters', 'console', 'port'] },
    { is: slack.mode === 'http' && has(file, 'slack'), port: slack.port, path: ['adapters', 'slack', 'port'] },
    { is: isOpen(file), port: file.remote.port, path: ['remote', 'port'] },
  ].filter(({ is, port }) => is && port !== 0);
  return doors.flatMap(({ port, path }, index) => {
    const other = doors.slice(0, index).find((each) => each.port === port);
    if (other === undefined) return [];
    return [
      { path, message: `${port} is the port of ${other.path.join('.')} too: choose another, or 0 for a free one` },
    ];
  });
};

const door = ({ remote }: ConfigFile, world: World): readonly Found[] => {
  const { host, tlsCert, tlsKey, behindProxy } = remote;
  if (!/^(?:[\w.-]+|[\da-f:]+)$/i.test(host)) {
    return [
      {
        path: ['remote', 'host'],
        message: `Expected a name or an address without port, such as "127.0.0.1", got "${host}"`,
      },
    ];
  }
  if (tlsCert === null && tlsKey === null) {
    if (behindProxy || isLoopback(host)) return [];
    const message = `Agents would reach ${host} without encryption: add tlsCert and tlsKey, or set behindProxy to true if a proxy ends TLS, or listen on 127.0.0.1`;
    return [{ path: ['remote', 'host'], message }];
  }
  if (tlsCert === null)
    return [{ path: ['remote', 'tlsCert'], message: 'tlsKey is only half of it: add the path of its certificate' }];
  if (tlsKey === null)
    return [{ path: ['remote', 'tlsKey'], message: 'tlsCert is only half of it: add the path of its private key' }];
  return certificate({ tlsCert, tlsKey }, world);
};

const certificate = (
  { tlsCert, tlsKey }: { readonly [Key in 'tlsCert' | 'tlsKey']: NonNullable<Remote[Key]> },
  world: World,
): readonly Found[] => {
  const cert = pem(tlsCert, world, (text) => new X509Certificate(text));
  const key = pem(tlsKey, world, createPrivateKey);
  const faults = [
    ...(typeof cert === 'string'
      ? [{ path: ['remote', 'tlsCert'], message: `${cert}: name a certificate chain as PEM` }]
      : []),
    ...(typeof key === 'string'
      ? [{ path: ['remote', 'tlsKey'], message: `${key}: name a private key as PEM, without a password` }]
      : []),
  ];
  if (typeof cert === 'string' || typeof key === 'string' || cert.checkPrivateKey(key)) return faults;
  return [
    {
      path: ['remote', 'tlsKey'],
      message: 'It is not the key of the certificate in tlsCert: name the one made with it',
    },
  ];
};

/** What a PEM file holds, or why it cannot be used. */
const pem = <Read>(path: string, world: World, read: (text: string) => Read): Read | string => {
  const place = resolve(world.cwd, path);
  const reading = readOrNull(world, place);
  if (reading === null) return `There is no file ${place} that can be read`;
  try {
    return read(reading);
  } catch {
    return `${place} holds something else`;
  }
};

const readOrNull = (world: World, path: string): string | null => {
  try {
    return readIn(world, path)?.text ?? null;
  } catch {
    return null;
  }
};

const origins = ({ remote }: ConfigFile): readonly Found[] =>
  remote.origins.flatMap((origin, index) => {
    if (URL.canParse(origin) && new URL(origin).origin === origin) return [];
    const found = URL.canParse(origin) ? new URL(origin).origin : 'null';
    const instead = found === 'null' ? 'such as "https://example.org"' : `"${found}"`;
    return [{ path: ['remote', 'origins', index], message: `Expected an origin, ${instead}, got "${origin}"` }];
  });

const DISCORD_ID = /^\d{15,21}$/;
const SHAPES = {
  users: { slack: /^[UW][A-Z0-9]{5,}$/, example: '"123456789012345678" (Discord) or "U0123456789" (Slack)' },
  roles: {
    slack: /^S[A-Z0-9]{5,}$/,
    example: '"123456789012345678" (a role on Discord) or "S0123456789" (a user group on Slack)',
  },
} as const;

/** Operators are told by their ids: a name could be taken by anybody. */
const people = (file: ConfigFile): readonly Found[] => {
  const isSomewhere = has(file, 'discord', 'slack');
  return (['users', 'roles'] as const).flatMap((list) => {
    const other = list === 'users' ? 'roles' : 'users';
    return file.operators[list].flatMap((id, index): readonly Found[] => {
      const path = ['operators', list, index];
      if (DISCORD_ID.test(id) || SHAPES[list].slack.test(id) || id.startsWith('console:')) return [];
      if (SHAPES[other].slack.test(id))
        return [{ path, message: `"${id}" belongs into operators.${other}: put it there` }];
      if (!isSomewhere && /^[\w-]+$/.test(id)) return [];
      const how = list === 'users' ? '/whoami shows people theirs' : 'the platform shows it to its administrators';
      return [{ path, message: `Expected an id such as ${SHAPES[list].example}, not a name, got "${id}": ${how}` }];
    });
  });
};

/** User groups of Slack that stand for agents. */
const groups = ({
  adapters,
  agents = [...DEMO_AGENTS],
}: Pick<ConfigFile, 'adapters'> & { readonly agents?: readonly { readonly id: string }[] }): readonly Found[] =>
  Object.entries(adapters.slack.userGroups).flatMap(([group, agent]): readonly Found[] => {
    const path = ['adapters', 'slack', 'userGroups', group];
    if (!SHAPES.roles.slack.test(group))
      return [
        {
          path,
          message: `Expected the id of a user group, such as "S0123456789", got "${group}": copy it from the group's menu in Slack`,
        },
      ];
    if (agents.some(({ id }) => id === agent)) return [];
    return [
      { path, message: `"${agent}" is not the id of an agent; known are ${agents.map(({ id }) => id).join(', ')}` },
    ];
  });
