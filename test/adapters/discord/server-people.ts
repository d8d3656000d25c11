import { openThread } from './rest-channels.ts';
import { addWebhook } from './rest-webhooks.ts';
import { shown } from './server-view.ts';
import type { Shown } from './server-view.ts';
import { edit, find, post, purge, react, remove, update } from './state-messages.ts';
import type { Draft } from './state-messages.ts';
import { addUser, must } from './state.ts';
import type { Attachment, Channel, Message, User, World } from './state.ts';

/** A file that a person sends. `size` and `url` replace the true values in the messages of Discord. */
export type SentFile = {
  readonly name: string;
  readonly content: string;
  readonly type?: string;
  readonly size?: number;
  readonly url?: string;
};

export type Written = {
  readonly replyTo?: string;
  readonly attachments?: readonly SentFile[];
  /** Ids of users and roles to mention in front of the text. */
  readonly mentions?: readonly string[];
  /** Embeds of another program. */
  readonly embeds?: Draft['embeds'];
  readonly type?: number;
};

/** Actions of people and other programs. Users are given by id or name. An unknown name creates a member. */
export function people(world: World) {
  const place = (id: string) => must(world.channels.get(id), `channel ${id}`);
  const say = (channel: string, author: User, text: string, more: Written = {}): Shown => {
    join(world, place(channel), author);
    return shown(
      world,
      post(world, place(channel), { author: author.id, ...written(world, place(channel), { text, more }) }),
    );
  };
  return {
    /** Returns the id of a person. A new person joins all guilds. */
    person(
      name: string,
      how: { readonly nick?: string; readonly globalName?: string; readonly roles?: readonly string[] } = {},
    ): string {
      const user = userOf(world, name, false);
      user.globalName = how.globalName ?? user.globalName;
      for (const guild of world.guilds.values()) {
        const member = guild.members.get(user.id) ?? { user: user.id, nick: null, roles: [], joinedAt: world.now() };
        member.nick = how.nick ?? member.nick;
        const roles = (how.roles ?? []).filter((id) => guild.roles.has(id));
        member.roles = [...new Set([...member.roles, ...roles])];
        guild.members.set(user.id, member);
      }
      return user.id;
    },
    write: (author: string, channel: string, text: string, more: Written = {}): Shown =>
      say(channel, userOf(world, author, false), text, more),
    /** Posts as another bot. */
    bot: (name: string, channel: string, text: string, more: Written = {}): Shown =>
      say(channel, userOf(world, name, true), text, more),
    /** Posts as another program's webhook. Creates the webhook when the channel has none with this name. */
    webhookPost(name: string, channel: string, text: string): Shown {
      const known = [...world.webhooks.values()].find(
        (one) => one.channel === channel && one.name === name && one.application === null,
      );
      const hook =
        known ??
        addWebhook(world, place(channel), {
          name,
          application: null,
          creator: must(world.guilds.get(place(channel).guild), 'guild').owner,
        });
      return shown(world, post(world, place(channel), { author: hook.id, as: { hook, name, avatar: null }, text }));
    },
    /** Edits a message as its author. */
    edit(message: string, text: string): Shown {
      const one = messageOf(world, message);
      edit(world, place(one.channel), one, { text });
      return shown(world, one);
    },
    /** Adds a link preview: an update that is not an edit. */
    unfurl(message: string): void {
      const one = messageOf(world, message);
      one.embeds = [{ type: 'link', url: 'https://example.org/', title: 'Example' }];
      update(world, place(one.channel), one);
    },
    /** Deletes a message as its author or a moderator. */
    remove(message: string): void {
      const one = messageOf(world, message);
      remove(world, place(one.channel), one);
    },
    /** Deletes several messages at once as a moderator. */
    purge(channel: string, messages: readonly string[]): void {
      purge(
        world,
        place(channel),
        messages.map((id) => messageOf(world, id)),
      );
    },
    react: (user: string, message: string, emoji: string): void =>
      react(world, messageOf(world, message), { user: userOf(world, user, false).id, emoji, on: true }),
    unreact: (user: string, message: string, emoji: string): void =>
      react(world, messageOf(world, message), { user: userOf(world, user, false).id, emoji, on: false }),
    /** Opens a thread, on a message if one is given; returns its id. */
    thread(channel: string, name: string, how: { readonly by?: string; readonly on?: string } = {}): string {
      const owner = userOf(world, how.by ?? 'ann', false);
      join(world, place(channel), owner);
      const on = how.on === undefined ? undefined : messageOf(world, how.on);
      return openThread(world, place(channel), { name, owner: owner.id, on }).id;
    },
    /** Returns the channel's messages as people see them, oldest first. */
    read: (channel: string): readonly Shown[] => place(channel).messages.map((message) => shown(world, message)),
  };
}

/** Returns a user by id or name. A new name creates a user. */
export function userOf(world: World, nameOrId: string, bot: boolean): User {
  const known = world.users.get(nameOrId) ?? [...world.users.values()].find(({ name }) => name === nameOrId);
  return known ?? addUser(world, nameOrId, bot);
}

/** Makes a user a member of the guild of a channel. */
export function join(world: World, channel: Channel, user: User): void {
  const guild = must(world.guilds.get(channel.guild), 'guild');
  if (!guild.members.has(user.id)) {
    guild.members.set(user.id, { user: user.id, nick: null, roles: [], joinedAt: world.now() });
  }
}

/** Returns the message with this id from any channel. Throws when no channel has the message. */
export function messageOf(world: World, id: string): Message {
  for (const channel of world.channels.values()) {
    const message = find(channel, id);
    if (message !== undefined) return message;
  }
  throw new Error(`no such message ${id} in the loopback Discord`);
}

function written(
  world: World,
  channel: Channel,
  said: { readonly text: string; readonly more: Written },
): Omit<Draft, 'author'> {
  const { text, more } = said;
  const names = (more.mentions ?? []).map((id) => (world.users.has(id) ? `<@${id}>` : `<@&${id}>`));
  return {
    text: [...names, text].join(' '),
    replyTo: more.replyTo ?? null,
    embeds: more.embeds ?? [],
    attachments: (more.attachments ?? []).map((file) => kept(world, channel, file)),
    ...(more.type === undefined ? {} : { type: more.type }),
  };
}

function kept(world: World, channel: Channel, file: SentFile): Attachment {
  const id = world.id();
  const content = Buffer.from(file.content);
  const attachment: Attachment = {
    id,
    name: file.name,
    type: file.type ?? 'text/plain; charset=utf-8',
    content,
    size: file.size ?? content.length,
    url: file.url ?? `${world.origin}/attachments/${channel.id}/${id}/${encodeURIComponent(file.name)}`,
  };
  world.attachments.set(id, attachment);
  return attachment;
}
