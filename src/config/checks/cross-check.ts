import { nearest } from '../../lib/nearest.ts';
import { DEMO_AGENTS, DEMO_CHANNEL } from '../demo.ts';
import { below } from '../error.ts';
import type { Tell } from '../error.ts';
import { ANNOUNCEMENTS } from '../announcements.ts';
import { ADAPTERS, turnConfigSchema } from '../schema.ts';
import type { TurnConfig } from '../schema.ts';
import type { AgentDraft, ChannelDraft, Draft, TurnConfigDraft } from './draft.ts';

type Id = string | null | undefined;

type Site = { readonly channel: ChannelDraft; readonly general: TurnConfigDraft; readonly agents: readonly Id[] };

/** Checks relations between keys: names exist and are unique, times fit together. */
export const crossCheck = (draft: Draft, tell: Tell): void => {
  const { turnConfig: general, announcements, adapters } = draft;
  const agents = (draft.agents ?? DEMO_AGENTS).map(({ id }) => id);
  const channels: readonly ChannelDraft[] = draft.channels ?? [{ id: DEMO_CHANNEL.id, agents }];
  checkIds(draft.agents ?? [], 'agents', tell);
  checkNames(draft.agents ?? [], tell);
  checkIds(channels, 'channels', tell);
  checkTimes(general, {}, below(tell, 'turnConfig'));
  checkCrews(draft, { channels, agents }, tell);
  for (const [kind, wording] of Object.entries(announcements)) checkWording(kind, wording, tell);
  for (const [index, channel] of channels.entries()) {
    const site = { channel, general, agents };
    const at = below(tell, 'channels', index);
    checkPlace(channel, adapters.console.enabled === false, at);
    checkSeats(site, at);
    for (const role of ROLES) checkRole(site, role, tell, at);
    checkFacilitator(site, tell, at);
    checkReview(site, at);
    checkTimes(general, channel, at);
    const isOfCrew = draft.crews?.some((crew) => crew.channel === channel.id) === true;
    if (channel.agents.length === 0 && !isOfCrew)
      at(['agents'], 'No agent would answer here: add agents, or use /floor add', 'unwise');
  }
};

const checkCrews = (
  { crews = [], operators }: Draft,
  { channels, agents }: { readonly channels: readonly ChannelDraft[]; readonly agents: readonly Id[] },
  tell: Tell,
): void => {
  checkIds(crews, 'crews', tell);
  for (const [index, { channel, repo, merge, votes, review }] of crews.entries()) {
    const by = review?.by;
    if (typeof by === 'string' && !agents.includes(by))
      tell(['crews', index, 'review', 'by'], `"${by}" is not the id of an agent${meantOr(by, agents)}`);
    if (typeof votes === 'number' && votes > 1 && merge !== 'ask')
      tell(
        ['crews', index, 'votes'],
        'Without "merge": "ask" nobody is asked before a merge, so nobody can vote: set "merge" to "ask"',
      );
    const { users, roles } = operators ?? {};
    // Counts the user of the console as one voter: that user may operate every channel.
    const voters = channel?.startsWith('console:') === true ? 1 : roles?.length ? Infinity : (users?.length ?? 0) + 1;
    if (typeof votes === 'number' && votes > Math.max(1, voters))
      tell(['crews', index, 'votes'], `No merge gets ${votes} votes: ${votersText(voters)}`, 'unwise');
    const ids = channels.map(({ id }) => id);
    if (typeof channel === 'string' && !ids.includes(channel))
      tell(['crews', index, 'channel'], `"${channel}" is not the id of a channel${meantOr(channel, ids)}`);
    const same = crews.findIndex((crew) => typeof channel === 'string' && crew.channel === channel);
    if (same !== -1 && same !== index)
      tell(['crews', index, 'channel'], `crews[${same}] has this channel already: give each crew a channel of its own`);
    const first = crews.findIndex((crew) => typeof repo === 'string' && crew.repo === repo);
    if (first !== -1 && first !== index)
      tell(['crews', index, 'repo'], `crews[${first}] works in "${repo}" already: a repository has one crew`);
  }
};

const votersText = (voters: number): string =>
  voters === 1
    ? 'only the person at the console can vote here. Set "votes" to 1, or use a channel of Discord or Slack with operators'
    : `only ${voters} people can vote, the person at the console among them. Name more under "operators"`;

const checkIds = (entries: readonly { readonly id?: Id }[], list: string, tell: Tell): void => {
  const first = new Map<string, number>();
  for (const [index, { id }] of entries.entries()) {
    if (typeof id !== 'string') continue;
    const firstIndex = first.get(id.toLowerCase());
    if (firstIndex === undefined) first.set(id.toLowerCase(), index);
    else tell([list, index, 'id'], `"${id}" is the id of ${list}[${firstIndex}] already: choose another id`);
  }
};

const checkNames = (agents: readonly AgentDraft[], tell: Tell): void => {
  for (const [index, { name }] of agents.entries()) {
    const first = agents.findIndex(
      (agent, at) => at !== index && (equalIds(agent.id, name) || (at < index && equalIds(agent.name, name))),
    );
    const message = `agents[${first}] is called "${name}" too: people could address neither, give it another`;
    if (first !== -1) tell(['agents', index, 'name'], message);
  }
};

const checkPlace = ({ id }: ChannelDraft, consoleOff: boolean, tell: Tell): void => {
  const adapter = id?.match(/^([a-z]+):/)?.[1];
  const shape = SHAPES[adapter ?? ''];
  if (typeof id !== 'string' || adapter === undefined) return;
  if (!ADAPTERS.some((name) => name === adapter))
    tell(['id'], `There is no adapter "${adapter}"${meantOr(adapter, ADAPTERS)}`);
  else if (shape?.is.test(id) === false) tell(['id'], shape.message);
  else if (adapter === 'console' && consoleOff)
    tell(['id'], `The adapter of this channel is off: set adapters.${adapter}.enabled to true`);
};

const SHAPES: Readonly<Record<string, { readonly is: RegExp; readonly message: string }>> = {
  discord: {
    is: /^discord:\d{15,21}$/,
    message:
      'Expected "discord:" and the id of a channel, a long number: switch on Developer Mode in Discord, then "Copy Channel ID" in the channel\'s menu',
  },
  slack: {
    is: /^slack:[CDG][A-Z0-9]{5,}$/,
    message:
      'Expected "slack:" and the id of a channel, such as "slack:C0123456789": it stands at the end of the channel\'s details in Slack',
  },
};

const checkSeats = ({ channel, agents }: Site, tell: Tell): void => {
  for (const [index, agent] of channel.agents.entries()) {
    if (typeof agent !== 'string') continue;
    if (!agents.includes(agent))
      tell(['agents', index], `"${agent}" is not the id of an agent${meantOr(agent, agents)}`);
    else if (channel.agents.indexOf(agent) !== index)
      tell(['agents', index], `"${agent}" already has a seat in this channel: remove this entry`);
  }
};

const ROLES = ['facilitator', 'interruptResponder', 'defaultAgent'] as const;

const settingOf = <Key extends keyof TurnConfigDraft>({ channel, general }: Site, key: Key): TurnConfigDraft[Key] =>
  channel[key] === undefined ? general[key] : channel[key];

const checkRole = (site: Site, role: (typeof ROLES)[number], tell: Tell, at: Tell): void => {
  const { channel } = site;
  const agent = settingOf(site, role);
  if (typeof agent !== 'string' || channel.agents.includes(agent)) return;
  if (channel[role] !== undefined)
    return at([role], `"${agent}" is not an agent of this channel${meantOr(agent, channel.agents)}`);
  const where = channel.id ?? 'the channel';
  const message = `"${agent}" is not an agent of ${where}: give it a seat there, or set ${role} of that channel to null`;
  tell(['turnConfig', role], message);
};

const checkFacilitator = (site: Site, tell: Tell, at: Tell): void => {
  const { channel, general } = site;
  const isMissing =
    (channel.order ?? general.order) === 'facilitator' && typeof settingOf(site, 'facilitator') !== 'string';
  const where = channel.id ?? 'the channel';
  const report = channel.order === undefined ? below(tell, 'turnConfig') : at;
  if (isMissing) report(['order'], `"facilitator" needs the key facilitator, with the id of an agent of ${where}`);
};

const checkReview = ({ channel, general }: Site, tell: Tell): void => {
  const { review, agents, id = 'the channel' } = channel;
  for (const role of ['primary', 'reviewer', 'fallback'] as const) {
    const agent = review?.[role];
    if (typeof agent === 'string' && !agents.includes(agent))
      tell(['review', role], `"${agent}" is not an agent of this channel${meantOr(agent, agents)}`);
  }
  if (typeof review?.primary === 'string' && review.primary === review.reviewer)
    tell(['review', 'reviewer'], 'One agent cannot review its own work: name two agents');
  const isMissing = typeof review?.primary !== 'string' || typeof review.reviewer !== 'string';
  if ((channel.order ?? general.order) === 'review' && isMissing)
    tell(
      ['review'],
      `The order "review" needs review.primary and review.reviewer, with the ids of two agents of ${id}`,
    );
};

const TIME_KEYS = [
  'heartbeatSeconds',
  'heartbeatTimeoutSeconds',
  'defaultTimeoutSeconds',
  'autoDetectSilenceSeconds',
  'coalesceMs',
] as const;

type Times = Pick<TurnConfig, (typeof TIME_KEYS)[number]>;

const RELATIONS: readonly {
  readonly keys: readonly [keyof Times, ...(keyof Times | 'autoDetectTurnEnd')[]];
  readonly fault: (times: Times, endsSilent: boolean) => string | null;
}[] = [
  {
    keys: ['heartbeatTimeoutSeconds', 'heartbeatSeconds'],
    fault: ({ heartbeatSeconds: beat, heartbeatTimeoutSeconds: limit }) =>
      limit > beat ? null : `Expected more than heartbeatSeconds (${beat}), got ${limit}`,
  },
  {
    keys: ['autoDetectSilenceSeconds', 'defaultTimeoutSeconds', 'autoDetectTurnEnd'],
    fault: ({ autoDetectSilenceSeconds: silence, defaultTimeoutSeconds: limit }, endsSilent) =>
      !endsSilent || silence < limit
        ? null
        : `Expected less than defaultTimeoutSeconds (${limit}), got ${silence}: a turn would time out before such a silence`,
  },
  {
    keys: ['coalesceMs', 'defaultTimeoutSeconds'],
    fault: ({ coalesceMs, defaultTimeoutSeconds: limit }) =>
      coalesceMs < limit * 1_000
        ? null
        : `Expected less than defaultTimeoutSeconds (${limit} s), got ${coalesceMs} ms: a turn would time out before its messages arrive`,
  },
];

const checkTimes = (general: TurnConfigDraft, own: TurnConfigDraft | ChannelDraft, tell: Tell): void => {
  const times = { ...turnConfigSchema.parse({}), ...definedTimes(general), ...definedTimes(own) };
  const endsSilent = own.autoDetectTurnEnd ?? general.autoDetectTurnEnd ?? false;
  const isChannel = 'agents' in own;
  for (const { keys, fault } of RELATIONS) {
    const message = fault(times, endsSilent);
    if (message !== null && (!isChannel || keys.some((key) => own[key] !== undefined))) tell([keys[0]], message);
  }
};

const definedTimes = (draft: TurnConfigDraft): Partial<Times> =>
  Object.fromEntries(TIME_KEYS.map((key) => [key, draft[key]]).filter(([, value]) => value !== undefined));

/** By kind of announcement: names that a template can use besides the names in its built-in text. */
const MORE_NAMES: Readonly<Record<string, readonly string[]>> = { limit: ['budget'], approval: ['detail'] };

const checkWording = (kind: string, wording: unknown, tell: Tell): void => {
  const builtIn = Object.entries(ANNOUNCEMENTS).find(([each]) => each === kind)?.[1].text;
  if (builtIn === undefined || typeof wording !== 'string') return;
  const names = [...new Set([...namesIn(builtIn), ...(MORE_NAMES[kind] ?? [])])];
  const knownNames =
    names.length === 0 ? 'this announcement has no values' : `known are ${names.map(braced).join(', ')}`;
  for (const name of namesIn(wording).filter((each) => !names.includes(each))) {
    const meant = nearest(name.trim(), names);
    const hint = meant === null ? `; ${knownNames}` : `: did you mean ${braced(meant)}?`;
    tell(['announcements', kind], `${braced(name)} is not a value of this announcement${hint}`);
  }
};

const namesIn = (wording: string): readonly string[] =>
  [...wording.matchAll(/\{(\s*\w+\s*)\}/g)].map(([, name]) => name ?? '');

const braced = (name: string): string => `{${name}}`;

const equalIds = (a: Id, b: Id): boolean =>
  typeof a === 'string' && typeof b === 'string' && a.toLowerCase() === b.toLowerCase();

const meantOr = (word: string, agents: readonly Id[]): string => {
  const names = agents.filter((agent) => typeof agent === 'string');
  const meant = nearest(word, names);
  if (meant !== null) return `: did you mean "${meant}"?`;
  return names.length === 0 ? '; there are none' : `; known are ${names.join(', ')}`;
};
