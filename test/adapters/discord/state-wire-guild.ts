import { guildPermissions } from './state-permissions.ts';
import { isThread, wireChannel, wireMember, wireRole, wireUser } from './state-wire.ts';
import type { Guild, Json, World } from './state.ts';

/** Application flags that say which privileged intents are switched on. */
const LIMITED_MEMBERS = 1 << 15;
const LIMITED_CONTENT = 1 << 19;

export function wireApplication(world: World): Json {
  const { messageContent, membersIntent } = world.options;
  return {
    id: world.application,
    name: world.bot.name,
    icon: null,
    description: '',
    bot_public: false,
    bot_require_code_grant: false,
    verify_key: '00'.repeat(32),
    flags: (messageContent ? LIMITED_CONTENT : 0) | (membersIntent ? LIMITED_MEMBERS : 0),
    owner: null,
    team: null,
    bot: wireUser(world.bot),
    approximate_guild_count: [...world.guilds.values()].filter(({ joined }) => joined).length,
  };
}

/** Returns the guild of GUILD_CREATE, with channels, active threads and members. */
export function wireGuild(world: World, guild: Guild): Json {
  const channels = [...world.channels.values()].filter((channel) => channel.guild === guild.id);
  return {
    ...shortGuild(world, guild),
    joined_at: new Date(guild.members.get(world.bot.id)?.joinedAt ?? 0).toISOString(),
    large: false,
    unavailable: false,
    member_count: guild.members.size,
    members: [...guild.members.values()].map((member) => wireMember(world, member)),
    channels: channels.filter((channel) => !isThread(channel)).map(wireChannel),
    threads: channels.filter((channel) => isThread(channel) && !channel.archived).map(wireChannel),
    voice_states: [],
    presences: [],
    stage_instances: [],
    guild_scheduled_events: [],
    soundboard_sounds: [],
  };
}

/** Returns the guild of GET /guilds/:id. */
export function shortGuild(world: World, guild: Guild): Json {
  return {
    id: guild.id,
    name: guild.name,
    icon: null,
    splash: null,
    discovery_splash: null,
    owner_id: guild.owner,
    roles: [...guild.roles.values()].map(wireRole),
    emojis: [],
    stickers: [],
    features: [],
    afk_timeout: 300,
    afk_channel_id: null,
    verification_level: 0,
    default_message_notifications: 0,
    explicit_content_filter: 0,
    mfa_level: 0,
    nsfw_level: 0,
    premium_tier: 0,
    premium_progress_bar_enabled: false,
    preferred_locale: 'en-US',
    system_channel_id: null,
    system_channel_flags: 0,
    rules_channel_id: null,
    public_updates_channel_id: null,
    safety_alerts_channel_id: null,
    vanity_url_code: null,
    banner: null,
    description: null,
    application_id: null,
    permissions: guildPermissions(guild, world.bot.id).toString(),
  };
}
