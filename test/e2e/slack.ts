import { channelId } from '../../src/adapters/slack/client.ts';
import type { Seen } from '../adapters/slack/server-people.ts';
import { startSlack } from '../adapters/slack/server.ts';
import type { SlackOptions, SlackServer } from '../adapters/slack/server.ts';
import type { Bot, Place } from '../kill/bot.ts';
import { CHANNEL, DEMO, inPlace } from './demo.ts';

/** A loopback Slack in this process, and a place for a Conch with its channel in the configuration. */
export type OnSlack = {
  readonly slack: SlackServer;
  readonly place: Place;
  /** Environment variables for a program that uses this Slack. */
  readonly env: Readonly<Record<string, string>>;
  readonly start: (env?: Readonly<Record<string, string>>) => Bot;
};

/** Returns `DEMO` with a Slack channel and Ann as operator added. `more` overrides keys. */
export function configOn({ ids }: Pick<SlackServer, 'ids'>, more: object = {}): object {
  const channel = { id: channelId(ids.channel), name: 'general', agents: ['pm', 'dev', 'qa'] };
  const operators = { users: [ids.ann] };
  return { ...DEMO, channels: [{ id: CHANNEL, agents: ['pm', 'dev', 'qa'] }, channel], operators, ...more };
}

/** Runs `use` with a loopback Slack and a place. Afterwards ends every program and the Slack. */
export async function onSlack(
  use: (at: OnSlack) => Promise<void>,
  how: { readonly slack?: SlackOptions; readonly config?: object } = {},
): Promise<void> {
  const slack = await startSlack(how.slack);
  const env = {
    SLACK_BOT_TOKEN: slack.botToken,
    SLACK_APP_TOKEN: slack.appToken,
    SLACK_SIGNING_SECRET: slack.signingSecret,
    SLACK_API_URL: slack.apiUrl,
  };
  try {
    await inPlace(configOn(slack, how.config), (place, start) =>
      use({ slack, place, env, start: (more = {}) => start({ env: { ...env, ...more } }) }),
    );
  } finally {
    await slack.close();
  }
}

/** Returns agents' posts under their own names in a channel or thread, without drafts. */
export function speechesIn(slack: SlackServer, thread?: string): readonly Seen[] {
  return slack
    .read(slack.ids.channel, thread)
    .filter(({ own, author, metadata }) => own && author !== 'Conch' && metadata?.['event_type'] === 'conch_post');
}

/** Returns the author of each agent's post, in order. */
export function speakersIn(slack: SlackServer, thread?: string): readonly string[] {
  return speechesIn(slack, thread).map(({ author }) => author);
}
