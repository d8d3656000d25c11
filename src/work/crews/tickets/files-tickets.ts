import { randomUUID } from 'node:crypto';
import { mkdir, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { shortDigest } from '../../../lib/digest.ts';
import { rememberLast } from '../../../lib/keyed.ts';
import { zeroSeparated } from '../../../lib/git.ts';
import { mainState } from '../git/merge.ts';
import { blobsOf, fileIn, unless } from '../git/repository.ts';
import type { Repository } from '../git/repository.ts';
import { isOfProposal, isTicketId, newTicketText, parseTicket, withNote, withStatus } from './ticket-file.ts';
import type { ListedTicket, NewTicket, Ticket, TicketSource } from './ticket.ts';

/**
 * Tickets in files of the repository, in the format of tk. Reads a file from the user's copy, or from main if only main
 * has it. A ticket that is closed in either is closed. A file on main is closed by a commit on main. A file that only
 * the user's copy has is closed there, without a commit.
 */
export function filesTickets(repository: Repository, dir: string): TicketSource {
  const folder = join(repository.root, dir);
  const pathOf = (id: string): string => `${dir}/${id}.md`;
  const ticketsOf = rememberLast((commit) => ticketsAt(repository, commit, dir));
  const here = async (name: string): Promise<Buffer | null> => readFile(join(folder, name)).catch(() => null);
  return {
    async list() {
      const tickets: Ticket[] = [];
      const unreadable: ListedTicket[] = [];
      // Merged work counts as main, also while git cannot update the user's copy to it.
      const atMain = await ticketsOf((await mainState(repository)).tip);
      const names = [...new Set([...(await namesIn(folder)), ...atMain.keys()])].toSorted();
      const own = await Promise.all(names.map(here));
      for (const [index, name] of names.entries()) {
        const id = name.slice(0, -'.md'.length);
        try {
          tickets.push(ticketIn(id, own[index] ?? null, atMain.get(name)));
        } catch (error) {
          unreadable.push({ id, why: (error as Error).message });
        }
      }
      return { tickets, unreadable };
    },
    async closingFile(id, commit) {
      const text = isTicketId(id) ? (await ticketsOf(commit)).get(`${id}.md`) : undefined;
      return text === undefined ? null : { path: pathOf(id), text: withStatus(text, 'closed') };
    },
    async create(order, commit) {
      for (let attempt = 0; ; attempt += 1) {
        const id = newIdFor(order, attempt);
        const existing = (await fileIn(repository, commit, pathOf(id))) ?? (await here(`${id}.md`))?.toString() ?? null;
        if (existing !== null && !isOfProposal(existing, order.key)) continue;
        const file = { path: pathOf(id), text: existing ?? newTicketText(id, order) };
        if ((await unless(1, repository.git(['check-ignore', file.path]))) === null) return { id, file };
        await mkdir(folder, { recursive: true });
        if (existing === null) await writeAnew(join(repository.root, pathOf(id)), file.text);
        return { id, file: null };
      }
    },
    async note(id, note, commit) {
      const tracked = await fileIn(repository, commit, pathOf(id));
      if (tracked !== null) return { path: pathOf(id), text: withNote(tracked, note) };
      await changeFile(join(repository.root, pathOf(id)), (text) => withNote(text, note));
      return null;
    },
    async closed(id) {
      if (!(await ticketsOf((await mainState(repository)).tip)).has(`${id}.md`))
        await changeFile(join(repository.root, pathOf(id)), (text) => withStatus(text, 'closed'));
    },
  };
}

function ticketIn(id: string, mine: Buffer | null, text: string | undefined): Ticket {
  const main = text === undefined ? null : Buffer.from(text);
  const ticket = parseTicket(id, mine ?? main ?? new Uint8Array());
  const isClosed = mine !== null && main !== null && parseTicket(id, main).status === 'closed';
  return isClosed ? { ...ticket, status: 'closed' } : ticket;
}

async function changeFile(path: string, change: (text: string) => string): Promise<void> {
  const text = await readFile(path, 'utf8').catch(() => null);
  if (text !== null) await writeAnew(path, change(text));
}

/** Whether a ticket's file in the user's copy says closed. False for a file that cannot be read. */
export async function isClosedInCopy({ root }: Repository, dir: string, id: string): Promise<boolean> {
  try {
    return parseTicket(id, await readFile(join(root, dir, `${id}.md`))).status === 'closed';
  } catch {
    return false;
  }
}

function newIdFor({ key, from }: NewTicket, attempt: number): string {
  const [letters = 'c'] = /^[A-Za-z0-9]+(?=-)/.exec(from) ?? [];
  const number = Number.parseInt(shortDigest(key, `${attempt}`).slice(0, 10), 16) % 36 ** 4;
  return `${letters}-${number.toString(36).padStart(4, '0')}`;
}

async function namesIn(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder).catch(() => [] as string[]);
  return names.filter((name) => name.endsWith('.md'));
}

async function ticketsAt(repository: Repository, commit: string, dir: string): Promise<ReadonlyMap<string, string>> {
  const listed = zeroSeparated(await repository.git(['ls-tree', '-z', commit, '--', `${dir}/`]));
  const files = listed.flatMap((entry) => {
    const [, id = '', path = ''] = /^\d+ blob ([0-9a-f]+)\t(.*)$/s.exec(entry) ?? [];
    const name = path.slice(dir.length + 1);
    return name.endsWith('.md') && !name.includes('/') ? [[name, id] as const] : [];
  });
  const texts = await blobsOf(
    repository,
    files.map(([, id]) => id),
  );
  return new Map(files.map(([name, id]) => [name, texts.get(id) ?? '']));
}

/** Replaces a file in one step, so that readers see the old text or the new text, never a part. */
async function writeAnew(path: string, text: string): Promise<void> {
  const next = `${path}.${randomUUID()}`;
  try {
    await writeFile(next, text, { flag: 'wx' });
    await rename(next, path);
  } finally {
    await rm(next, { force: true });
  }
}
