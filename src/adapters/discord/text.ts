/** What the marks in a text of Discord stand for; `null` for what nobody knows. */
export type Lookups = {
  /** A person or program in words: "@Ada". */
  readonly user: (id: string) => string | null;
  /** Whom a role stands for: the id of an agent. */
  readonly role: (id: string) => string | null;
  readonly channel: (id: string) => string | null;
};

const MARK =
  /<(?:@!?(?<user>\d{1,20})|@&(?<role>\d{1,20})|#(?<channel>\d{1,20})|a?:(?<emoji>\w{1,32}):\d{1,20}|t:(?<time>-?\d{1,13})(?::[a-zA-Z])?|\/(?<command>[^:<>\n]{1,100}):\d{1,20}|id:(?<place>[a-z]{1,20}))>/g;

/**
 * A text of Discord as people read it: marks for people, roles, channels, emojis, times and commands become words.
 * The same text and lookups give the same result.
 */
export function plainText(content: string, lookups: Lookups): string {
  return content.replaceAll(MARK, (mark, ...rest: unknown[]) => wordsFor(mark, marksIn(rest.at(-1)), lookups));
}

type Marks = Readonly<Partial<Record<'user' | 'role' | 'channel' | 'emoji' | 'time' | 'command' | 'place', string>>>;

function marksIn(groups: unknown): Marks {
  return typeof groups === 'object' && groups !== null ? groups : {};
}

function wordsFor(mark: string, marks: Marks, lookups: Lookups): string {
  const { user, role, channel, emoji, time, command, place } = marks;
  if (user !== undefined) return lookups.user(user) ?? '@somebody';
  if (role !== undefined) return `@${lookups.role(role) ?? 'role'}`;
  if (channel !== undefined) return `#${lookups.channel(channel) ?? 'channel'}`;
  if (emoji !== undefined) return `:${emoji}:`;
  if (time !== undefined) return timeWords(Number(time)) ?? mark;
  if (command !== undefined) return `/${command}`;
  return place === undefined ? mark : `#${place}`;
}

/** "2026-03-01 12:00 UTC", or `null` for what no calendar has. */
function timeWords(seconds: number): string | null {
  const at = new Date(seconds * 1_000);
  return Number.isNaN(at.getTime()) ? null : `${at.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}
