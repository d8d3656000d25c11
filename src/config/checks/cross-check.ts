import { z } from 'zod';
import { nearest } from '../../lib/nearest.ts';
import { DEMO_AGENTS, DEMO_CHANNEL } from '../demo.ts';
import type { Found } from '../error.ts';
import { ANNOUNCEMENT_TEXTS } from '../announcements.ts';
import { ADAPTERS } from '../schema.ts';
import { turnConfigSchema, type TurnConfig } from '../turn-config.ts';

type Path = readonly PropertyKey[];
type Id = string | null | undefined;

const text = z.string().nullish().catch(null);
const number = z.number().positive().optional().catch(undefined);
const flag = z.boolean().optional().catch(undefined);

const turnDraft = z.object({
  order: text,
  facilitator: text,
  interruptResponder: text,
  defaultAgent: text,
  heartbeatSeconds: number,
  heartbeatTimeoutSeconds: number,
  defaultTimeoutSeconds: number,
  autoDetectTurnEnd: flag,
  autoDetectSilenceSeconds: number,
  coalesceMs: number,
});

const agentDraft = z.object({ id: text, name: text });
const channelDraft = turnDraft.extend({ id: text, agents: z.array(text).catch([]) });

const draftSchema = z.object({
  turnConfig: turnDraft.prefault({}).catch({}),
  agents: z.array(agentDraft.catch({})).optional().catch([]),
  channels: z
    .array(channelDraft.catch({ agents: [] }))
    .optional()
    .catch([]),
  announcements: z.record(z.string(), z.unknown()).optional().catch(undefined),
  adapters: z
    .object({ console: z.object({ enabled: z.boolean().optional() }).optional() })
    .optional()
    .catch(undefined),
});

type TurnDraft = z.output<typeof turnDraft>;
type AgentDraft = z.output<typeof agentDraft>;

/** A channel with its place in the file, the general settings it inherits and the agents that there are. */
type Site = {
  readonly channel: z.output<typeof channelDraft>;
  readonly path: Path;
  readonly general: TurnDraft;
  readonly agents: readonly Id[];
};

/**
 * Checks what holds between the keys: names that must exist, and only once; times that must fit together. It reads
 * whatever it can, so that a file with other faults is told about these too.
 */
export const crossCheck = (file: unknown): readonly Found[] => {
  const draft = draftSchema.safeParse(file);
  if (!draft.success) return [];
  const { turnConfig: general, announcements = {}, adapters } = draft.data;
  const agents = draft.data.agents?.map((agent) => agent.id) ?? DEMO_AGENTS.map((agent) => agent.id);
  const channels = draft.data.channels ?? [{ id: DEMO_CHANNEL.id, agents: [...agents] }];
  const consoleOff = adapters?.console?.enabled === false;
  return [
    ...sameIds(draft.data.agents ?? [], 'agents'),
    ...sameNames(draft.data.agents ?? []),
    ...sameIds(channels, 'channels'),
    ...badTimes(general, {}, ['turnConfig']),
    ...Object.entries(announcements).flatMap(unknownNames),
    ...channels.flatMap((channel, index) => {
      const site = { channel, path: ['channels', index], general, agents };
      return [
        unknownAdapter(site, consoleOff),
        unknownAgents(site),
        ROLES.flatMap((role) => roleOutside(site, role)),
        nobodyFacilitates(site),
        badTimes(general, channel, site.path),
        nobodySeated(site),
      ].flat();
    }),
  ];
};

const sameIds = (entries: readonly { readonly id?: Id }[], list: string): readonly Found[] => {
  const first = new Map<string, number>();
  return entries.flatMap(({ id }, index) => {
    if (typeof id !== 'string') return [];
    const known = first.get(id.toLowerCase());
    if (known === undefined) first.set(id.toLowerCase(), index);
    if (known === undefined) return [];
    return [{ path: [list, index, 'id'], message: `"${id}" is the id of ${list}[${known}] already: give it another` }];
  });
};

const sameNames = (agents: readonly AgentDraft[]): readonly Found[] =>
  agents.flatMap(({ name }, index) => {
    const first = agents.findIndex(
      (other, at) => at !== index && (same(other.id, name) || (at < index && same(other.name, name))),
    );
    if (first === -1) return [];
    const message = `agents[${first}] is called "${name}" too: people could address neither, give it another`;
    return [{ path: ['agents', index, 'name'], message }];
  });

const unknownAdapter = ({ channel, path }: Site, consoleOff: boolean): readonly Found[] => {
  const adapter = channel.id?.match(/^([a-z]+):/)?.[1];
  if (adapter === undefined) return [];
  if (!ADAPTERS.some((known) => known === adapter)) {
    return [{ path: [...path, 'id'], message: `There is no adapter "${adapter}"${meantOr(adapter, ADAPTERS)}` }];
  }
  const shape = SHAPES[adapter];
  if (shape !== undefined && !shape.is.test(channel.id ?? ''))
    return [{ path: [...path, 'id'], message: shape.message }];
  if (adapter !== 'console' || !consoleOff) return [];
  return [{ path: [...path, 'id'], message: `Its adapter is switched off: set adapters.${adapter}.enabled to true` }];
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

const unknownAgents = ({ channel, path, agents }: Site): readonly Found[] =>
  channel.agents.flatMap((agent, index) => {
    const place = [...path, 'agents', index];
    if (typeof agent !== 'string') return [];
    if (!agents.includes(agent))
      return [{ path: place, message: `"${agent}" is not the id of an agent${meantOr(agent, agents)}` }];
    if (channel.agents.indexOf(agent) === index) return [];
    return [{ path: place, message: `"${agent}" has a seat in this channel already: take it away` }];
  });

const ROLES = ['facilitator', 'interruptResponder', 'defaultAgent'] as const;

const roleOutside = ({ channel, path, general }: Site, role: (typeof ROLES)[number]): readonly Found[] => {
  const named = channel[role] === undefined ? general[role] : channel[role];
  if (typeof named !== 'string' || channel.agents.includes(named)) return [];
  if (channel[role] !== undefined) {
    return [
      { path: [...path, role], message: `"${named}" is not an agent of this channel${meantOr(named, channel.agents)}` },
    ];
  }
  const where = channel.id ?? 'the channel';
  const message = `"${named}" is not an agent of ${where}: give it a seat there, or set ${role} of that channel to null`;
  return [{ path: ['turnConfig', role], message }];
};

const nobodyFacilitates = ({ channel, path, general }: Site): readonly Found[] => {
  const facilitator = channel.facilitator === undefined ? general.facilitator : channel.facilitator;
  if ((channel.order ?? general.order) !== 'facilitator' || typeof facilitator === 'string') return [];
  const place = channel.order === undefined ? ['turnConfig', 'order'] : [...path, 'order'];
  return [
    {
      path: place,
      message: `"facilitator" needs a key facilitator that names an agent of ${channel.id ?? 'the channel'}`,
    },
  ];
};

const TIME_KEYS = [
  'heartbeatSeconds',
  'heartbeatTimeoutSeconds',
  'defaultTimeoutSeconds',
  'autoDetectSilenceSeconds',
  'coalesceMs',
] as const;

type Times = Pick<TurnConfig, (typeof TIME_KEYS)[number]>;

/** Times that exclude one another: the first key's fault is told when the file sets one of them at this place. */
const RELATIONS: readonly {
  readonly keys: readonly [keyof Times, ...(keyof Times)[]];
  readonly fault: (times: Times, endsSilent: boolean) => string | null;
}[] = [
  {
    keys: ['heartbeatTimeoutSeconds', 'heartbeatSeconds'],
    fault: ({ heartbeatSeconds: beat, heartbeatTimeoutSeconds: limit }) =>
      limit > beat ? null : `Expected more than heartbeatSeconds (${beat}), got ${limit}`,
  },
  {
    keys: ['autoDetectSilenceSeconds', 'defaultTimeoutSeconds'],
    fault: ({ autoDetectSilenceSeconds: silence, defaultTimeoutSeconds: limit }, endsSilent) =>
      !endsSilent || silence < limit
        ? null
        : `Expected less than defaultTimeoutSeconds (${limit}), got ${silence}: a turn is over before such a silence`,
  },
  {
    keys: ['coalesceMs', 'defaultTimeoutSeconds'],
    fault: ({ coalesceMs, defaultTimeoutSeconds: limit }) =>
      coalesceMs < limit * 1_000
        ? null
        : `Expected less than defaultTimeoutSeconds (${limit} s), got ${coalesceMs} ms: a turn would be over before`,
  },
];

const badTimes = (general: TurnDraft, own: TurnDraft, path: Path): readonly Found[] => {
  const times = { ...turnConfigSchema.parse({}), ...given(general), ...given(own) };
  const endsSilent = own.autoDetectTurnEnd ?? general.autoDetectTurnEnd ?? false;
  return RELATIONS.flatMap(({ keys, fault }) => {
    const isHere = path[0] !== 'channels' || keys.some((key) => own[key] !== undefined);
    const message = isHere ? fault(times, endsSilent) : null;
    return message === null ? [] : [{ path: [...path, keys[0]], message }];
  });
};

const given = (draft: TurnDraft): Partial<Times> =>
  Object.fromEntries(TIME_KEYS.map((key) => [key, draft[key]]).filter(([, value]) => value !== undefined));

const nobodySeated = ({ channel, path }: Site): readonly Found[] =>
  channel.agents.length > 0
    ? []
    : [
        {
          path: [...path, 'agents'],
          weight: 'unwise',
          message: 'Nobody would answer here: name agents, or use /floor add',
        },
      ];

/** What a text can hold besides the names in its built-in one. */
const MORE_NAMES: Readonly<Record<string, readonly string[]>> = { limit: ['budget'], approval: ['detail'] };

const unknownNames = ([kind, wording]: readonly [string, unknown]): readonly Found[] => {
  const builtIn = Object.entries(ANNOUNCEMENT_TEXTS).find(([each]) => each === kind)?.[1];
  if (builtIn === undefined || typeof wording !== 'string') return [];
  const names = [...new Set([...namesIn(builtIn), ...(MORE_NAMES[kind] ?? [])])];
  const faults = namesIn(wording).filter((name) => !names.includes(name));
  return faults.map((name) => {
    const meant = nearest(name.trim(), names);
    const known = names.length === 0 ? 'nothing is filled in here' : `known are ${names.map(braced).join(', ')}`;
    const message = `Nothing is filled in for ${braced(name)}${meant === null ? `; ${known}` : `: did you mean ${braced(meant)}?`}`;
    return { path: ['announcements', kind], message };
  });
};

const namesIn = (wording: string): readonly string[] =>
  [...wording.matchAll(/\{(\s*\w+\s*)\}/g)].map(([, name]) => name ?? '');

const braced = (name: string): string => `{${name}}`;

const same = (one: Id, other: Id): boolean =>
  typeof one === 'string' && typeof other === 'string' && one.toLowerCase() === other.toLowerCase();

const meantOr = (word: string, agents: readonly Id[]): string => {
  const names = agents.filter((agent) => typeof agent === 'string');
  const meant = nearest(word, names);
  if (meant !== null) return `: did you mean "${meant}"?`;
  return names.length === 0 ? '; there are none' : `; known are ${names.join(', ')}`;
};
