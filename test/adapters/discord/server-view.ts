import { channelPermissions } from './state-permissions.ts';
import { permissionNames } from './state-wire.ts';
import { must } from './state.ts';
import type { Channel, Json, Message, Pings, World } from './state.ts';

/** A button as a person sees it. */
export type Button = {
  readonly label: string;
  readonly customId: string | null;
  readonly disabled: boolean;
  readonly emoji: string | null;
};

/** A message as a person sees it. */
export type Shown = {
  readonly id: string;
  readonly channel: string;
  /** The shown name: the webhook's name for this message, or the member's. */
  readonly author: string;
  readonly authorId: string;
  readonly avatar: string | null;
  readonly bot: boolean;
  readonly webhook: boolean;
  readonly text: string;
  readonly edited: boolean;
  readonly replyTo: string | null;
  /** 0: message, 19: reply, others: notices of Discord. */
  readonly type: number;
  readonly at: number;
  readonly pinned: boolean;
  /** The id of the thread that was opened on the message. */
  readonly thread: string | null;
  readonly nonce: string | number | null;
  readonly embeds: readonly Json[];
  readonly buttons: readonly Button[];
  readonly components: readonly Json[];
  readonly attachments: readonly {
    readonly name: string;
    readonly type: string;
    readonly size: number;
    readonly text: string;
  }[];
  /** Ids of users with a reaction, by emoji. */
  readonly reactions: Readonly<Record<string, readonly string[]>>;
  /** Everyone whom the message or one of its edits notifies. */
  readonly pings: Pings;
};

/** Returns a message as people see it in the channel. */
export function shown(world: World, message: Message): Shown {
  return {
    id: message.id,
    channel: message.channel,
    author: authorOf(world, message),
    authorId: message.author,
    avatar: message.webhook?.avatar ?? null,
    bot: message.webhook !== null || world.users.get(message.author)?.bot === true,
    webhook: message.webhook !== null && message.author !== world.bot.id,
    text: message.content,
    edited: message.editedAt !== null,
    replyTo: message.replyTo,
    type: message.type,
    at: message.at,
    pinned: message.pinned,
    thread: message.thread,
    nonce: message.nonce,
    embeds: message.embeds,
    buttons: buttonsOf(message.components),
    components: message.components,
    attachments: message.attachments.map(({ name, type, size, content }) => ({
      name,
      type,
      size,
      text: content.toString('utf8'),
    })),
    reactions: Object.fromEntries(message.reactions),
    pings: message.pings,
  };
}

/** Returns all buttons, row by row, at any depth. */
export function buttonsOf(components: readonly Json[]): readonly Button[] {
  return components.flatMap((one) => {
    const inside = Array.isArray(one['components']) ? buttonsOf(one['components'] as Json[]) : [];
    const accessory =
      typeof one['accessory'] === 'object' && one['accessory'] !== null ? buttonsOf([one['accessory'] as Json]) : [];
    return one['type'] === 2 ? [button(one)] : [...inside, ...accessory];
  });
}

/** Returns the names of a user's permissions in a channel. */
export function permissionsIn(world: World, channel: Channel, user: string): readonly string[] {
  return permissionNames(channelPermissions(world, channel, user));
}

function button(one: Json): Button {
  const emoji = one['emoji'];
  const name = typeof emoji === 'object' && emoji !== null && 'name' in emoji ? emoji.name : null;
  return {
    label: typeof one['label'] === 'string' ? one['label'] : '',
    customId: typeof one['custom_id'] === 'string' ? one['custom_id'] : null,
    disabled: one['disabled'] === true,
    emoji: typeof name === 'string' ? name : null,
  };
}

function authorOf(world: World, message: Message): string {
  if (message.webhook !== null) return message.webhook.name;
  const guild = must(world.channels.get(message.channel), 'channel').guild;
  const nick = world.guilds.get(guild)?.members.get(message.author)?.nick;
  const user = world.users.get(message.author);
  return nick ?? user?.globalName ?? user?.name ?? 'Deleted User';
}
