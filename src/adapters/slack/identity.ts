import type { AgentId } from '../../turns/floor/settings.ts';
import type { Speaker } from '../port.ts';
import { emojiName } from './emoji.ts';
import { clipped, withoutBroadcasts } from './text.ts';

/** How a message, a status or a session names its author. */
export type Identity = {
  readonly username: string;
  readonly icon_emoji?: string;
  readonly icon_url?: string;
};

/** The name and the picture under which an agent speaks. An emoji for which Slack has no name goes before the name. */
export function identityOf(speaker: NonNullable<Speaker>): Identity {
  const username = shownName(speaker);
  const avatar = speaker.avatar?.trim() ?? '';
  if (/^https:\/\/\S+$/.test(avatar)) return { username, icon_url: avatar };
  if (/^:[\w+-]{1,100}:$/.test(avatar)) return { username, icon_emoji: avatar };
  const emoji = emojiName(avatar);
  if (emoji !== null) return { username, icon_emoji: `:${emoji}:` };
  const isPicture = avatar !== '' && /^\P{ASCII}{1,16}$/u.test(avatar);
  return { username: isPicture ? `${avatar} ${username}` : username };
}

/** An agent's name as text that mentions nobody and that Slack takes for a name. */
export function shownName({ id, name }: { readonly id: AgentId; readonly name: string }): string {
  const plain = name.replaceAll(/[<>\p{Cc}]/gu, '').trim();
  return withoutBroadcasts(clipped(plain === '' ? id : plain, MOST_LETTERS));
}

/** An agent's text as Conch itself says it, for apps that may not speak under other names. */
export function prefixed(speaker: NonNullable<Speaker>, text: string): string {
  const name = shownName(speaker).replaceAll(/([*_~`\\[\]])/g, '\\$1');
  const isBlock = /^(?:\s{0,3}(?:[#>|+-]|\* |\d+[.)]|`{3}|~{3})| {4})/.test(text);
  return `**${name}**:${isBlock ? '\n\n' : ' '}${text}`;
}

/** Slack takes no longer names. */
const MOST_LETTERS = 80;
