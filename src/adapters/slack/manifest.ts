import type { SlackSettings } from './client.ts';

/** What the app may do, and what each is for; `isVital` for those without which Conch cannot work in channels. */
export const BOT_SCOPES: readonly { readonly scope: string; readonly what: string; readonly isVital: boolean }[] = [
  { scope: 'app_mentions:read', what: 'hear mentions of the app', isVital: false },
  { scope: 'channels:history', what: 'hear what people write in public channels', isVital: true },
  { scope: 'channels:read', what: 'look channels up', isVital: true },
  { scope: 'chat:write', what: 'write messages', isVital: true },
  { scope: 'chat:write.customize', what: 'let agents speak under their own names', isVital: false },
  { scope: 'commands', what: 'take /conch', isVital: false },
  { scope: 'files:read', what: 'read attachments', isVital: false },
  { scope: 'files:write', what: 'send files', isVital: false },
  { scope: 'groups:history', what: 'hear what people write in private channels', isVital: false },
  { scope: 'groups:read', what: 'look private channels up', isVital: false },
  { scope: 'im:history', what: 'hear direct messages', isVital: false },
  { scope: 'im:read', what: 'look direct messages up', isVital: false },
  { scope: 'reactions:read', what: 'see reactions', isVital: false },
  { scope: 'reactions:write', what: 'show receipts under messages', isVital: false },
  { scope: 'usergroups:read', what: 'know mentions of user groups, and operators by their group', isVital: false },
  { scope: 'users:read', what: 'show the names of people', isVital: false },
];

/** What Slack tells the app about. */
export const BOT_EVENTS: readonly string[] = [
  'app_mention',
  'app_uninstalled',
  'channel_archive',
  'channel_deleted',
  'channel_left',
  'channel_unarchive',
  'group_archive',
  'group_deleted',
  'group_left',
  'group_unarchive',
  'member_joined_channel',
  'member_left_channel',
  'message.channels',
  'message.groups',
  'message.im',
  'tokens_revoked',
];

/** What stands in the manifest in place of an address that only its reader knows. */
export const YOUR_ADDRESS = 'https://YOUR-ADDRESS.example';

/** The JSON that Slack's "Create an app from a manifest" takes. With `http` its addresses are to be filled in. */
export function manifestText(
  settings: Pick<SlackSettings, 'agentSessions'> & { readonly path?: string },
  mode: 'socket' | 'http',
): string {
  const isAgent = settings.agentSessions;
  const url = `${YOUR_ADDRESS}${settings.path ?? '/slack/events'}`;
  const whereAt = <Key extends string>(key: Key): { readonly [Each in Key]?: string } =>
    mode === 'http' ? ({ [key]: url } as { [Each in Key]: string }) : {};
  const manifest = {
    display_information: {
      name: 'Conch',
      description: 'Turn-taking for AI agents and people: one agent at a time holds the floor.',
      background_color: '#1f3a4d',
    },
    features: {
      ...(isAgent ? { agent_view: { agent_description: 'Several agents in one channel, one at a time.' } } : {}),
      app_home: { home_tab_enabled: false, messages_tab_enabled: true, messages_tab_read_only_enabled: false },
      bot_user: { display_name: 'Conch', always_online: true },
      slash_commands: [
        {
          command: '/conch',
          ...whereAt('url'),
          description: 'See who has the floor, and operate it',
          usage_hint: 'help | floor status | floor skip | stop',
          should_escape: false,
        },
      ],
    },
    oauth_config: {
      scopes: { bot: [...BOT_SCOPES.map(({ scope }) => scope), ...(isAgent ? ['assistant:write'] : [])].toSorted() },
    },
    settings: {
      event_subscriptions: {
        ...whereAt('request_url'),
        bot_events: [...BOT_EVENTS, ...(isAgent ? ['agent_session_stopped'] : [])].toSorted(),
      },
      interactivity: { is_enabled: true, ...whereAt('request_url') },
      org_deploy_enabled: false,
      socket_mode_enabled: mode === 'socket',
      token_rotation_enabled: false,
    },
  };
  return JSON.stringify(manifest, null, 2);
}
