import { isoTime } from '../../../lib/time.ts';
import type { NewTicket, Ticket } from './ticket.ts';

/** The largest ticket that is read, in bytes. */
const LARGEST = 1_048_576;

const STATUSES = ['open', 'in_progress', 'closed'] as const;

/** Whether a text can be the id of a ticket: it is safe in paths, refs and commands. */
export function isTicketId(id: string): boolean {
  return /^[A-Za-z0-9][\w.#-]{0,99}$/.test(id) && !id.includes('..') && !id.endsWith('.lock');
}

/**
 * Reads a ticket in the format of tk: one front matter at the top, then "# title" and text. Ignores unknown keys.
 * `name`: the file's name without ".md". Throws an `Error` that says what is wrong.
 */
export function parseTicket(name: string, bytes: Uint8Array): Ticket {
  const { lines, end } = frontMatterOf(textOf(bytes));
  const keys = new Map<string, string[]>();
  let open: string | null = null;
  for (const line of lines.slice(1, end)) {
    const [, key, value = ''] = /^([A-Za-z][\w-]*):[ \t]*(.*)$/.exec(line) ?? [];
    const [, item] = /^[ \t]+-[ \t]+(.*)$/.exec(line) ?? /^-[ \t]+(.*)$/.exec(line) ?? [];
    if (key !== undefined) {
      if (keys.has(key)) throw new Error(`its front matter has "${key}" twice`);
      keys.set(key, listOf(value));
      open = value.trim() === '' ? key : null;
    } else if (item !== undefined && open !== null) keys.get(open)?.push(unquoted(item));
    else if (line.trim() !== '')
      throw new Error(`its front matter has a line that cannot be read: ${JSON.stringify(line.slice(0, 60))}`);
  }
  return ticketOf(name, keys, lines.slice(end + 1));
}

/** Returns a ticket's text with another status. Only the line of the status changes, or is added when missing. */
export function withStatus(text: string, status: Ticket['status']): string {
  const { lines, end } = frontMatterOf(text);
  const at = lines.findIndex((line, index) => index > 0 && index < end && line.startsWith('status:'));
  const ending = lines[at === -1 ? 0 : at]?.endsWith('\r') === true ? '\r' : '';
  const line = `status: ${status}${ending}`;
  return (at === -1 ? lines.toSpliced(end, 0, line) : lines.with(at, line)).join('\n');
}

/**
 * Adds new notes of a branch to the text of its ticket. `before`: the ticket's text where the branch began. `after`:
 * its text at the last commit of the branch. `null`: no such file. `changesMore`: the branch changed more than notes
 * and status.
 */
export function withNotes(
  text: string,
  before: string | null,
  after: string | null,
): { readonly text: string; readonly changesMore: boolean } {
  const [old, fresh, own] = [partsOf(before ?? ''), partsOf(after ?? ''), partsOf(text)];
  const presentNotes = new Set([...old.notes, ...own.notes]);
  const added = fresh.notes.filter((note) => !presentNotes.has(note)).map(withoutRules);
  const changesMore = after === null ? before !== null : fresh.rest !== old.rest;
  if (added.length === 0) return { text, changesMore };
  const [head, tail] =
    own.end === null ? [`${text.trimEnd()}\n\n${NOTES}`, ''] : [text.slice(0, own.end), text.slice(own.end)];
  return { text: `${head.trimEnd()}\n\n${added.join('\n\n')}\n${tail === '' ? '' : `\n${tail}`}`, changesMore };
}

const NOTES = '## Notes';

/**
 * Adds a note to the text of a ticket, unless the ticket has it. `note`: a line with its time in bold, then its text.
 */
export function withNote(text: string, note: string): string {
  return withNotes(text, null, `${NOTES}\n\n${note}`).text;
}

function partsOf(text: string): {
  readonly notes: readonly string[];
  readonly rest: string;
  readonly end: number | null;
} {
  const [section] = /^## Notes[ \t\r]*$[\s\S]*?(?=^## |(?![\s\S]))/m.exec(text) ?? [];
  const start = section === undefined ? -1 : text.indexOf(section);
  const notes = (section ?? '')
    .slice(NOTES.length)
    .split(/^(?=\*\*[^*\n]+\*\*[ \t\r]*$)/m)
    .map((note) => note.trim())
    .filter((note) => note !== '');
  const rest = section === undefined ? text : text.slice(0, start) + text.slice(start + section.length);
  const end = section === undefined ? null : start + section.length;
  return { notes, rest: rest.replace(/^status:.*$/m, '').trim(), end };
}

/** Replaces lines of dashes. tk would read them as a second front matter and obey its fields. */
function withoutRules(text: string): string {
  return text.replaceAll(/^---+[ \t]*$/gm, '***');
}

/** The text of a new ticket in the format of tk. */
export function newTicketText(id: string, { key, title, text, deps, touches, at }: NewTicket): string {
  const front = [
    `id: ${id}`,
    'status: open',
    `deps: [${deps.join(', ')}]`,
    'links: []',
    `created: ${isoTime(at).replace(/\.\d+Z$/, 'Z')}`,
    'type: task',
    'priority: 2',
    ...(touches.length === 0 ? [] : [`touches: [${touches.join(', ')}]`]),
    `${PROPOSAL}: ${key}`,
  ];
  const body = withoutRules(text).trim();
  return `---\n${front.join('\n')}\n---\n# ${title.replaceAll(/\s+/g, ' ')}\n${body === '' ? '' : `\n${body}\n`}`;
}

/** Whether a ticket's file was written for the proposal with this key. False for a file without front matter. */
export function isOfProposal(text: string, key: string): boolean {
  try {
    const { lines, end } = frontMatterOf(text);
    return lines.slice(1, end).some((line) => line.trimEnd() === `${PROPOSAL}: ${key}`);
  } catch {
    return false;
  }
}

const PROPOSAL = 'proposal';

function textOf(bytes: Uint8Array): string {
  if (bytes.length > LARGEST) throw new Error('it is larger than 1 MiB');
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Error('it is not UTF-8');
  }
  if (text.includes('\0')) throw new Error('it has a NUL character');
  return text;
}

/** Thrown for a ticket whose file has no front matter, or one without an end. */
export class FrontMatterError extends Error {}

function frontMatterOf(text: string): { readonly lines: readonly string[]; readonly end: number } {
  const lines = text.split('\n');
  if (lines[0]?.trimEnd() !== '---') throw new FrontMatterError('it does not begin with a line "---"');
  const end = lines.findIndex((line, index) => index > 0 && line.trimEnd() === '---');
  if (end === -1) throw new FrontMatterError('its front matter has no end, a line "---"');
  return { lines, end };
}

function listOf(value: string): string[] {
  const trimmed = value.trim();
  if (trimmed === '') return [];
  const [, inline] = /^\[(.*)\]$/s.exec(trimmed) ?? [];
  if (inline === undefined) return [unquoted(trimmed)];
  return inline
    .split(',')
    .map(unquoted)
    .filter((each) => each !== '');
}

function unquoted(value: string): string {
  const trimmed = value.trim();
  return /^(['"]).*\1$/s.test(trimmed) ? trimmed.slice(1, -1) : trimmed;
}

function ticketOf(name: string, keys: ReadonlyMap<string, readonly string[]>, body: readonly string[]): Ticket {
  const one = (key: string): string | undefined => keys.get(key)?.[0];
  const id = one('id') ?? name;
  if (!isTicketId(id)) throw new Error(`its id ${JSON.stringify(id.slice(0, 60))} cannot be the name of a branch`);
  if (id !== name) throw new Error(`its id is ${id}, and its file is ${name}.md`);
  const status = STATUSES.find((each) => each === (one('status') ?? 'open'));
  if (status === undefined) throw new Error(`its status ${JSON.stringify(one('status'))} is unknown`);
  const priority = Number(one('priority') ?? 2);
  if (!Number.isInteger(priority) || priority < 0 || priority > 4) throw new Error('its priority is not 0 to 4');
  const deps = keys.get('deps') ?? [];
  const bad = deps.find((dep) => !isTicketId(dep));
  if (bad !== undefined) throw new Error(`it depends on ${JSON.stringify(bad.slice(0, 60))}, which is no id`);
  const heading = body.findIndex((line) => line.startsWith('# '));
  const title = heading === -1 ? id : (body[heading] ?? '').slice(2).trim();
  const text = body
    .filter((_, index) => index !== heading)
    .join('\n')
    .trim();
  return { id, title, text, status, deps, priority, touches: keys.get('touches') ?? [] };
}
