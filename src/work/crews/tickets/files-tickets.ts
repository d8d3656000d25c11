import { randomUUID } from 'node:crypto';
import { readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { zeroSeparated } from '../../../lib/git.ts';
import { mainState } from '../git/merge.ts';
import { fileIn, filesIn } from '../git/repository.ts';
import type { Repository } from '../git/repository.ts';
import { isTicketId, parseTicket, withStatus } from './ticket-file.ts';
import type { ListedTicket, Ticket, TicketSource } from './ticket.ts';

/**
 * Tickets in files of the repository, in the format of tk. A file of the user's copy is read as it is there; one that
 * only main has is read from main. Closed in either is closed. A tracked file is closed by a commit on main alone, and
 * one that is not tracked is written anew.
 */
export function filesTickets(repository: Repository, dir: string): TicketSource {
  const folder = join(repository.root, dir);
  const pathOf = (id: string): string => `${dir}/${id}.md`;
  const here = async (name: string): Promise<Uint8Array | null> => readFile(join(folder, name)).catch(() => null);
  return {
    async list() {
      const tickets: Ticket[] = [];
      const unreadable: ListedTicket[] = [];
      // Merged work that waits for the user's copy counts.
      const { tip } = await mainState(repository);
      const names = new Set([...(await namesIn(folder)), ...(await namesAt(repository, tip, dir))]);
      const paths = [...names].map((name) => `${dir}/${name}`);
      const atMain = await filesIn(repository, tip, paths);
      for (const name of [...names].toSorted()) {
        const id = name.slice(0, -'.md'.length);
        try {
          const [mine, text] = [await here(name), atMain.get(`${dir}/${name}`)];
          const main = text === undefined ? null : Buffer.from(text);
          const ticket = parseTicket(id, mine ?? main ?? new Uint8Array());
          const isClosed = mine !== null && main !== null && parseTicket(id, main).status === 'closed';
          tickets.push(isClosed ? { ...ticket, status: 'closed' } : ticket);
        } catch (error) {
          unreadable.push({ id, why: (error as Error).message });
        }
      }
      return { tickets, unreadable };
    },
    async closingFile(id, commit) {
      const path = pathOf(id);
      const text = isTicketId(id) ? await fileIn(repository, commit, path) : null;
      return text === null ? null : { path, text: withStatus(text, 'closed') };
    },
    async closed(id) {
      const bytes = await here(`${id}.md`);
      if (bytes === null || (await fileIn(repository, (await mainState(repository)).tip, pathOf(id))) !== null) return;
      await writeAnew(join(folder, `${id}.md`), withStatus(Buffer.from(bytes).toString('utf8'), 'closed'));
    },
  };
}

async function namesIn(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder).catch(() => [] as string[]);
  return names.filter((name) => name.endsWith('.md'));
}

async function namesAt({ git }: Repository, commit: string, dir: string): Promise<readonly string[]> {
  const listed = await git(['ls-tree', '-z', '--name-only', commit, '--', `${dir}/`]);
  return zeroSeparated(listed)
    .map((path) => path.slice(dir.length + 1))
    .filter((name) => name.endsWith('.md') && !name.includes('/'));
}

/** Replaces a file by a new one, so that a reader sees the old text or the new one. */
async function writeAnew(path: string, text: string): Promise<void> {
  const next = `${path}.${randomUUID()}`;
  try {
    await writeFile(next, text, { flag: 'wx' });
    await rename(next, path);
  } finally {
    await rm(next, { force: true });
  }
}
