import { createPrivateKey, X509Certificate } from 'node:crypto';
import { resolve } from 'node:path';
import { isLoopback } from '../../lib/guarded-server.ts';
import { hasRemote } from '../config.ts';
import type { Config } from '../config.ts';
import type { Credentials } from '../environment.ts';
import { DEMO_AGENTS } from '../demo.ts';
import { below } from '../error.ts';
import type { Tell } from '../error.ts';
import type { ConfigFile } from '../schema.ts';
import { readIn } from '../world.ts';
import type { World } from '../world.ts';

/**
 * Checks the settings of the platforms and of the server for remote agents: ports, addresses, certificates, ids of
 * people and groups.
 */
export const checkPlatforms = (
  file: ConfigFile,
  { world, port }: { readonly world: World; readonly port: number | null },
  tell: Tell,
): void => {
  checkPorts(file, port, tell);
  if (hasRemote(file)) checkDoor(file.remote, world, below(tell, 'remote'));
  checkOrigins(file.remote, below(tell, 'remote', 'origins'));
  checkOperators(file, below(tell, 'operators'));
  checkGroups(file, below(tell, 'adapters', 'slack', 'userGroups'));
};

/** Checks that the environment has the variables that the channels' platforms need. */
export const checkCredentials = (
  { channels = [], adapters }: ConfigFile,
  { discord, slack }: Credentials,
  tell: Tell,
): void => {
  const events =
    adapters.slack.mode === 'socket'
      ? { SLACK_APP_TOKEN: slack.appToken }
      : { SLACK_SIGNING_SECRET: slack.signingSecret };
  const needs = { discord: { DISCORD_TOKEN: discord.token }, slack: { SLACK_BOT_TOKEN: slack.botToken, ...events } };
  for (const [adapter, variables] of Object.entries(needs)) {
    const index = channels.findIndex(({ id }) => id.startsWith(`${adapter}:`));
    for (const [name, value] of index === -1 ? [] : Object.entries(variables))
      if (value === null)
        tell(
          ['channels', index, 'id'],
          `This channel needs ${name} in the environment or in .env: docs/${adapter}.md says where to find it`,
        );
  }
};

type Remote = ConfigFile['remote'];

const has = ({ channels = [] }: Pick<ConfigFile | Config, 'channels'>, ...adapters: readonly string[]): boolean =>
  channels.some(({ id }) => adapters.some((adapter) => id.startsWith(`${adapter}:`)));

/**
 * Returns the enabled servers with a fixed port: for the page, Slack's events and remote agents. `key`: the setting of
 * the port.
 */
export const openPorts = (config: ConfigFile | Config): readonly Door[] => {
  const { console: page, slack } = config.adapters;
  return [
    { is: page.enabled, host: '127.0.0.1', port: page.port, key: 'adapters.console.port' },
    { is: slack.mode === 'http' && has(config, 'slack'), ...slack, key: 'adapters.slack.port' },
    { is: hasRemote(config), ...config.remote, key: 'remote.port' },
  ].filter(({ is, port }) => is && port !== 0);
};

type Door = { readonly host: string; readonly port: number; readonly key: string };

const checkPorts = (file: ConfigFile, consolePort: number | null, tell: Tell): void => {
  const { console: page, ...others } = file.adapters;
  const adapters = { ...others, console: { ...page, port: consolePort ?? page.port } };
  const doors = openPorts({ ...file, adapters });
  for (const { port, key } of doors) {
    const first = doors.find((each) => each.port === port);
    if (first !== undefined && first.key !== key)
      tell(key.split('.'), `${port} is the port of ${first.key} too: choose another port, or 0 for any free one`);
  }
};

const checkDoor = ({ host, tlsCert, tlsKey, behindProxy }: Remote, world: World, tell: Tell): void => {
  if (!/^(?:[\w.-]+|[\da-f:]+)$/i.test(host))
    tell(['host'], `Expected a name or an address without port, such as "127.0.0.1", got "${host}"`);
  else if (tlsCert !== null && tlsKey !== null) checkCertificate(tlsCert, tlsKey, world, tell);
  else if (tlsKey !== null) tell(['tlsCert'], 'tlsKey needs a certificate: set tlsCert to its path');
  else if (tlsCert !== null) tell(['tlsKey'], 'tlsCert needs a private key: set tlsKey to its path');
  else if (!behindProxy && !isLoopback(host))
    tell(
      ['host'],
      `Agents would reach ${host} without encryption: add tlsCert and tlsKey, or set behindProxy to true if a proxy ends TLS, or listen on 127.0.0.1`,
    );
};

const checkCertificate = (tlsCert: string, tlsKey: string, world: World, tell: Tell): void => {
  const cert = readPem(tlsCert, world, (text) => new X509Certificate(text));
  const key = readPem(tlsKey, world, createPrivateKey);
  if (typeof cert === 'string') tell(['tlsCert'], `${cert}: give the path of a certificate chain in PEM format`);
  if (typeof key === 'string')
    tell(['tlsKey'], `${key}: give the path of a private key in PEM format, without a password`);
  if (typeof cert === 'string' || typeof key === 'string' || cert.checkPrivateKey(key)) return;
  tell(['tlsKey'], 'This key does not belong to the certificate in tlsCert: give the path of its private key');
};

const readPem = <Read>(path: string, world: World, parse: (text: string) => Read): Read | string => {
  const place = resolve(world.cwd, path);
  const reading = readOrNull(world, place);
  if (reading === null) return `There is no file ${place} that can be read`;
  try {
    return parse(reading);
  } catch {
    return `${place} is not in the expected format`;
  }
};

const readOrNull = (world: World, path: string): string | null => {
  try {
    return readIn(world, path)?.text ?? null;
  } catch {
    return null;
  }
};

const checkOrigins = ({ origins }: Remote, tell: Tell): void => {
  for (const [index, text] of origins.entries()) {
    const { origin } = URL.parse(text) ?? { origin: 'null' };
    const instead = origin === 'null' ? 'such as "https://example.org"' : `"${origin}"`;
    if (origin !== text) tell([index], `Expected an origin, ${instead}, got "${text}"`);
  }
};

const DISCORD_ID = /^\d{15,21}$/;
const SHAPES = {
  users: { slack: /^[UW][A-Z0-9]{5,}$/, example: '"123456789012345678" (Discord) or "U0123456789" (Slack)' },
  roles: {
    slack: /^S[A-Z0-9]{5,}$/,
    example: '"123456789012345678" (a role on Discord) or "S0123456789" (a user group on Slack)',
  },
} as const;

/**
 * Checks that operators are named by id, because anybody could take a name. Without a channel on Discord or Slack, a
 * name of letters, digits, `_` and `-` passes.
 */
const checkOperators = (file: ConfigFile, tell: Tell): void => {
  const isSomewhere = has(file, 'discord', 'slack');
  for (const list of ['users', 'roles'] as const) {
    const otherList = list === 'users' ? 'roles' : 'users';
    const how = list === 'users' ? '/whoami shows people theirs' : 'the platform shows it to its administrators';
    for (const [index, id] of file.operators[list].entries()) {
      if (DISCORD_ID.test(id) || SHAPES[list].slack.test(id) || id.startsWith('console:')) continue;
      if (SHAPES[otherList].slack.test(id))
        tell([list, index], `"${id}" belongs in operators.${otherList}: move it there`);
      else if (isSomewhere || !/^[\w-]+$/.test(id))
        tell([list, index], `Expected an id such as ${SHAPES[list].example}, not a name, got "${id}": ${how}`);
    }
  }
};

const checkGroups = ({ adapters, agents }: ConfigFile, tell: Tell): void => {
  const ids = (agents ?? DEMO_AGENTS).map(({ id }) => id);
  for (const [group, agent] of Object.entries(adapters.slack.userGroups))
    if (!SHAPES.roles.slack.test(group))
      tell(
        [group],
        `Expected the id of a user group, such as "S0123456789", got "${group}": copy it from the group's menu in Slack`,
      );
    else if (!ids.includes(agent)) tell([group], `"${agent}" is not the id of an agent; known are ${ids.join(', ')}`);
};
