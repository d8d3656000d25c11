import { GatewayIntentBits } from 'discord.js';
import { join, messageOf, userOf } from './server-people.ts';
import { buttonsOf } from './server-view.ts';
import { opened } from './state-interactions.ts';
import type { Answer, Interaction } from './state-interactions.ts';
import { channelPermissions, guildOf, guildPermissions } from './state-permissions.ts';
import { wireChannel, wireMember, wireMessage, wireRole, wireUser } from './state-wire.ts';
import { must } from './state.ts';
import type { Channel, Command, CommandOption, Json, Message, User, World } from './state.ts';

/** The values of a command's options, by name. */
export type Values = Readonly<Record<string, string | number | boolean>>;

/** Longest waits in milliseconds: for a first answer, for the text after "thinking…", after a deferred update. */
const NO_ANSWER_MS = 3100;
const THINKING_MS = 20_000;
const NOTHING_MS = 1000;

/** Actions of people with commands and buttons. A returned answer changes when the program edits the answer. */
export function commands(world: World, interactions: Map<string, Interaction>) {
  const place = (id: string) => must(world.channels.get(id), `channel ${id}`);
  const start = (
    who: { readonly user: string; readonly channel: Channel; readonly source: Message | null },
    type: number,
    data: Json,
  ) => {
    const user = userOf(world, who.user, false);
    join(world, who.channel, user);
    const interaction = opened(world, { ...who, user: user.id });
    interactions.set(interaction.id, interaction);
    const wire = wired(world, interaction, { type, data, user });
    world.tell({ t: 'INTERACTION_CREATE', intent: 0, guild: who.channel.guild, render: () => wire });
    return settled(interaction);
  };
  return {
    /**
     * Runs "/floor skip" as `command('ann', channel, 'floor skip', { agent: 'dev' })`. The command must be registered.
     */
    command(user: string, channel: string, name: string, values: Values = {}): Promise<Answer> {
      const where = place(channel);
      const { command, path, options } = registered(world, where, name);
      mayUse(world, where, { user: userOf(world, user, false), command });
      const missing = options.find((one) => one.required === true && values[one.name] === undefined);
      if (missing !== undefined) throw new Error(`the command ${name} needs "${missing.name}"`);
      const given = Object.entries(values).map(([key, value]) => valueOf(options, key, value));
      const resolved = resolvedOf(world, where, given);
      const data = {
        id: command.id,
        name: command.name,
        type: 1,
        guild_id: where.guild,
        options: nested(path, given),
        ...resolved,
      };
      return start({ user, channel: where, source: null }, 2, data);
    },
    /** Returns the completions for a half-typed option. */
    async autocomplete(
      user: string,
      channel: string,
      name: string,
      typed: { readonly option: string; readonly text: string; readonly others?: Values },
    ): Promise<Answer['choices']> {
      const where = place(channel);
      const { command, path, options } = registered(world, where, name);
      const option = must(
        options.find((one) => one.name === typed.option),
        `option ${typed.option}`,
      );
      if (option.autocomplete !== true) throw new Error(`the option ${typed.option} has no autocomplete`);
      const others = Object.entries(typed.others ?? {}).map(([key, value]) => valueOf(options, key, value));
      const focused = { type: option.type, name: option.name, value: typed.text, focused: true };
      const data = {
        id: command.id,
        name: command.name,
        type: 1,
        guild_id: where.guild,
        options: nested(path, [...others, focused]),
      };
      const answer = await start({ user, channel: where, source: null }, 4, data);
      return answer.choices;
    },
    /** Returns a copy of a message, which later edits do not change. */
    copy: (message: string): Message => structuredClone(messageOf(world, message)),
    /** Presses a button, by its custom id or label. `source`: the message, or an earlier copy that a person saw. */
    press(user: string, message: string, button: string, source = messageOf(world, message)): Promise<Answer> {
      const all = buttonsOf(source.components);
      const one = must(
        all.find(({ customId, label }) => customId === button || label === button),
        `button ${button}`,
      );
      if (one.disabled) throw new Error(`the button ${button} is disabled`);
      return start({ user, channel: place(source.channel), source }, 3, { custom_id: one.customId, component_type: 2 });
    },
    /** Submits a form: a text for its only field, or values by field. Fields without a value keep their defaults. */
    submit(user: string, channel: string, form: Json | null, given: string | Filled): Promise<Answer> {
      const parts = must(form ?? undefined, 'a form')['components'] as readonly FormPart[];
      const components = parts.map((part) => {
        const { type, component, components: [only] = [] } = part;
        if (component !== undefined) return { type, component: sentField(component, given as Filled) };
        return { type, components: [{ type: 4, custom_id: must(only, 'a field').custom_id, value: given }] };
      });
      return start({ user, channel: place(channel), source: null }, 5, { custom_id: form?.['custom_id'], components });
    },
    /** Returns the commands that a channel offers, as registered. */
    registered: (channel: string): readonly Json[] => offered(world, place(channel)).map(({ wire }) => wire),
  };
}

type Filled = Readonly<Record<string, string | readonly string[]>>;
type FormField = {
  readonly type: number;
  readonly custom_id: string;
  readonly value?: string;
  readonly options?: readonly { readonly value: string; readonly default?: boolean }[];
};
type FormPart = { readonly type: number; readonly component?: FormField; readonly components?: readonly FormField[] };

/** Returns a field as Discord sends it. Throws for a value that the field's options lack. */
function sentField({ type, custom_id, value = '', options }: FormField, given: Filled): Json {
  if (options === undefined) return { type, custom_id, value: given[custom_id] ?? value };
  const before = options.flatMap((option) => (option.default === true ? [option.value] : []));
  const values = given[custom_id] === undefined ? before : [given[custom_id]].flat();
  for (const each of values)
    must(
      options.find((option) => option.value === each),
      `the choice ${each}`,
    );
  return { type, custom_id, values };
}

async function settled(interaction: Interaction): Promise<Answer> {
  const { answer } = interaction;
  let changes = 0;
  let limit: NodeJS.Timeout | null = null;
  await new Promise<void>((resolve) => {
    const waitFor = (ms: number) => {
      if (limit !== null) clearTimeout(limit);
      limit = setTimeout(resolve, ms);
    };
    interaction.changed = () => {
      changes += 1;
      if (interaction.ack === 6 && changes === 1) waitFor(NOTHING_MS);
      else if (answer.state === 'thinking') waitFor(THINKING_MS);
      else resolve();
    };
    waitFor(NO_ANSWER_MS);
  });
  if (limit !== null) clearTimeout(limit);
  interaction.changed = () => undefined;
  if (answer.state === 'waiting') answer.state = 'failed';
  return answer;
}

function offered(world: World, channel: Channel): readonly Command[] {
  return [...guildOf(world, channel).commands, ...world.globalCommands];
}

function registered(
  world: World,
  channel: Channel,
  name: string,
): { readonly command: Command; readonly path: readonly CommandOption[]; readonly options: readonly CommandOption[] } {
  const [first, ...rest] = name.split(' ');
  const command = must(
    offered(world, channel).find((one) => one.name === first),
    `command ${name}`,
  );
  const path: CommandOption[] = [];
  let options = command.options;
  for (const word of rest) {
    const next = must(
      options.find((one) => one.name === word && one.type <= 2),
      `command ${name}`,
    );
    path.push(next);
    options = next.options ?? [];
  }
  if (options.some(({ type }) => type <= 2)) throw new Error(`the command ${name} is not complete`);
  return { command, path, options };
}

function mayUse(world: World, channel: Channel, who: { readonly user: User; readonly command: Command }): void {
  const needed = who.command.wire['default_member_permissions'];
  if (typeof needed !== 'string') return;
  join(world, channel, who.user);
  const has = guildPermissions(guildOf(world, channel), who.user.id);
  if ((has & BigInt(needed)) !== BigInt(needed) || (needed === '0' && (has & 8n) === 0n)) {
    throw new Error(`${who.user.name} does not see the command ${who.command.name}`);
  }
}

function valueOf(
  options: readonly CommandOption[],
  name: string,
  value: string | number | boolean,
): { type: number; name: string; value: unknown } {
  const option = must(
    options.find((one) => one.name === name),
    `option ${name}`,
  );
  const choices = option.choices ?? [];
  if (choices.length > 0 && !choices.some((choice) => choice.value === value))
    throw new Error(`no such choice ${String(value)} for ${name}`);
  return { type: option.type, name, value };
}

function nested(path: readonly CommandOption[], given: readonly unknown[]): readonly unknown[] {
  return path.toReversed().reduce<readonly unknown[]>((options, { type, name }) => [{ type, name, options }], given);
}

const USER = 6;
const CHANNEL = 7;
const ROLE = 8;

function resolvedOf(
  world: World,
  channel: Channel,
  given: readonly { readonly type: number; readonly value: unknown }[],
): Json {
  const guild = guildOf(world, channel);
  const of = (type: number) =>
    given.flatMap((one) => (one.type === type && typeof one.value === 'string' ? [one.value] : []));
  if (given.every(({ type }) => ![USER, CHANNEL, ROLE].includes(type))) return {};
  const users = of(USER).flatMap((id) => world.users.get(id) ?? []);
  const members = of(USER).flatMap((id) => guild.members.get(id) ?? []);
  const channels = of(CHANNEL).flatMap((id) => world.channels.get(id) ?? []);
  const roles = of(ROLE).flatMap((id) => guild.roles.get(id) ?? []);
  return {
    resolved: {
      users: Object.fromEntries(users.map((user) => [user.id, wireUser(user)])),
      members: Object.fromEntries(members.map((member) => [member.user, wireMember(world, member, false)])),
      channels: Object.fromEntries(channels.map((one) => [one.id, { ...wireChannel(one), permissions: '0' }])),
      roles: Object.fromEntries(roles.map((role) => [role.id, wireRole(role)])),
    },
  };
}

function wired(
  world: World,
  interaction: Interaction,
  what: { readonly type: number; readonly data: Json; readonly user: User },
): Json {
  const { channel, source } = interaction;
  const { type, data, user } = what;
  const member = must(guildOf(world, channel).members.get(user.id), 'member');
  const permissions = channelPermissions(world, channel, user.id).toString();
  return {
    id: interaction.id,
    application_id: world.application,
    type,
    data,
    guild_id: channel.guild,
    guild: { id: channel.guild, locale: 'en-US', features: [] },
    channel_id: channel.id,
    channel: { ...wireChannel(channel), permissions },
    member: { ...wireMember(world, member), permissions },
    token: interaction.token,
    version: 1,
    app_permissions: channelPermissions(world, channel, world.bot.id).toString(),
    locale: 'en-US',
    guild_locale: 'en-US',
    entitlements: [],
    authorizing_integration_owners: { 0: channel.guild },
    context: 0,
    attachment_size_limit: 10_485_760,
    ...(source === null ? {} : { message: wireMessage(world, source, { content: true }) }),
  };
}

/** Returns the names of requested intents. */
export function intentNames(intents: number): readonly string[] {
  return Object.entries(GatewayIntentBits).flatMap(([name, bit]) =>
    typeof bit === 'number' && (intents & bit) !== 0 ? [name] : [],
  );
}
