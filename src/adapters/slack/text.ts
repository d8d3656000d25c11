/** Names for the ids that Slack writes into texts; `null` for what is not known. */
export type Lookups = {
  readonly user: (id: string) => string | null;
  readonly group: (id: string) => string | null;
  readonly channel: (id: string) => string | null;
};

/** Slack's text as a person reads it: mentions as names, links with their labels, `& < >` as themselves. */
export function plainText(text: string, lookups: Lookups): string {
  return text.replaceAll(MARKED, (whole, inner: string | undefined, entity: string | undefined) => {
    if (entity !== undefined) return ENTITIES[entity] ?? whole;
    return inner === undefined ? whole : reading(inner, lookups);
  });
}

/** Text that Slack shows as it stands: no `<!channel>`, `<!here>`, `<!subteam^…>`, `<@U…>` or link can form in it. */
export function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** Words that address everybody, parted by a character that nobody sees, so that they address nobody. */
export function withoutBroadcasts(text: string): string {
  return text.replaceAll(/@(?=(?:channel|here|everyone|group)(?![\p{L}\p{N}_]))/giu, `@${JOINER}`);
}

/** The beginning of a text, at most so long; neither a character nor an entity is cut in two. */
export function clipped(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const whole = text.slice(0, limit - 1).replace(/&[a-z]{0,3}$/, '');
  return `${/[\uD800-\uDBFF]$/.test(whole) ? whole.slice(0, -1) : whole}…`;
}

/** Neither seen nor a place to break a line. */
export const JOINER = '\u2060';

/** The ids of the people whom Slack's text mentions. */
export function usersIn(text: string): readonly string[] {
  return [...new Set([...text.matchAll(/<@([UW][A-Z0-9]+)/g)].map((match) => match[1] ?? ''))];
}

/** The ids of the user groups that Slack's text mentions. */
export function groupsIn(text: string): readonly string[] {
  return [...new Set([...text.matchAll(/<!subteam\^([A-Z0-9]+)/g)].map((match) => match[1] ?? ''))];
}

const MARKED = /<([^<>\n]+)>|&(amp|lt|gt);/g;
const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>' };

function reading(inner: string, lookups: Lookups): string {
  const bar = inner.indexOf('|');
  const target = bar === -1 ? inner : inner.slice(0, bar);
  const label = bar === -1 ? '' : unescaped(inner.slice(bar + 1));
  const rest = target.slice(1);
  switch (target[0]) {
    case '@':
      return named('@', lookups.user(rest), label, rest);
    case '#':
      return named('#', lookups.channel(rest), label, rest);
    case '!':
      return special(rest, label, lookups);
    default:
      return link(unescaped(target), label);
  }
}

function special(what: string, label: string, lookups: Lookups): string {
  const [kind = '', id = ''] = what.split('^', 2);
  if (kind === 'subteam') return named('@', lookups.group(id), label, id);
  if (kind === 'date') return label;
  return named('@', null, label, kind);
}

function named(mark: '@' | '#', known: string | null, label: string, id: string): string {
  const name = known ?? (label === '' ? id : label);
  return name.startsWith(mark) ? name : mark + name;
}

/** A label that only repeats the address is left alone. */
function link(url: string, label: string): string {
  const address = url.replace(/^(?:https?:\/\/|mailto:|tel:)/, '');
  if (label === '') return address === url || url.startsWith('http') ? url : address;
  return label === url || label === address ? label : `${label} (${url})`;
}

function unescaped(text: string): string {
  return text.replaceAll(/&(amp|lt|gt);/g, (whole, entity: string) => ENTITIES[entity] ?? whole);
}
