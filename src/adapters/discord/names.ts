import type { Speaker } from '../port.ts';

type Named = NonNullable<Speaker>;

/** The longest name under which a webhook may speak, in UTF-16 units. */
const NAME_LIMIT = 80;
const EMOJI_LENGTH = 16;

/** The name under which an agent speaks: an avatar that is an emoji stands in front, and words that Discord refuses are broken up. */
export function usernameOf(speaker: Named): string {
  const name = speaker.name.replaceAll(/\s+/g, ' ').trim();
  const emoji = isEmoji(speaker.avatar) ? `${speaker.avatar} ` : '';
  const whole = `${emoji}${name === '' ? speaker.id : name}`.toWellFormed();
  const allowed = whole.replaceAll(/disc(?=ord)|cly(?=de)/gi, (word) => `${word}\u200A`);
  return allowed
    .slice(0, NAME_LIMIT)
    .replace(/[\uD800-\uDBFF]$/, '')
    .trim();
}

/** The address of an agent's picture; `null` when it has none that Discord could fetch. */
export function avatarUrlOf(speaker: Named): string | null {
  return speaker.avatar?.startsWith('https://') === true ? speaker.avatar : null;
}

/** What stands before an agent's words when the bot itself must say them. */
export function prefixOf(speaker: Named): string {
  const name = usernameOf(speaker)
    .replaceAll(/[*_~|`\\>]/g, '')
    .trim();
  return `**${name === '' ? speaker.id : name}**:`;
}

/** Whether two shown names are the same: Discord folds white space and what cannot be seen. */
export function sameName(one: string, other: string): boolean {
  return plain(one) === plain(other);
}

function isEmoji(avatar: string | null): avatar is string {
  return avatar !== null && avatar.length <= EMOJI_LENGTH && /\p{Extended_Pictographic}|\p{RI}/u.test(avatar);
}

function plain(name: string): string {
  return name.normalize('NFKC').replaceAll(/[\s\p{Cf}]+/gu, '');
}
