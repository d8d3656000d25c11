import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { childEnvironment } from '../../agents/process/process-group.ts';
import type { CrewConfig } from '../../config/config.ts';
import type { Clock } from '../../lib/time.ts';
import type { Repository } from '../../work/crews/git/repository.ts';
import { beadsTickets } from '../../work/crews/tickets/beads-tickets.ts';
import { filesTickets } from '../../work/crews/tickets/files-tickets.ts';
import type { TicketSource } from '../../work/crews/tickets/ticket.ts';
import { tkTickets } from '../../work/crews/tickets/tk-tickets.ts';

/** The tickets of a crew, by its configuration. Throws for a kind that cannot be read. */
export function ticketsOf({ id, tickets }: CrewConfig, repository: Repository, clock: Clock): TicketSource {
  switch (tickets.kind) {
    case 'files':
      return filesTickets(repository, tickets.dir);
    case 'tk':
      return tkTickets(filesTickets(repository, tickets.dir), (args) =>
        askProgram(tickets.command, args, repository.root),
      );
    case 'beads':
      return beadsTickets(join(repository.root, tickets.file), () => clock.now());
    case 'github':
      throw new Error(`crew ${id}: tickets of the kind "github" cannot be read yet: use "files", "tk" or "beads"`);
  }
}

/** The longest that the program of tickets may take, in milliseconds, and the most that it may write, in bytes. */
const LONGEST_MS = 30_000;
const MOST_OUTPUT = 16_777_216;

/** Runs the program of tickets in the repository, without a shell and without secrets of Conch. */
export function askProgram(
  command: string,
  args: readonly string[],
  cwd: string,
  limitMs = LONGEST_MS,
): Promise<string> {
  const env = childEnvironment({ from: process.env });
  return new Promise((resolve, reject) => {
    const child = execFile(
      command,
      [...args],
      { cwd, env, timeout: limitMs, killSignal: 'SIGKILL', maxBuffer: MOST_OUTPUT, encoding: 'utf8' },
      (error, output, told) => {
        const line = [command, ...args].join(' ');
        if (error === null) resolve(output);
        else if (error.code === 'ENOENT') reject(new Error(`there is no program "${command}" to read tickets with`));
        else if (error.killed === true)
          reject(new Error(`"${line}" took longer than ${limitMs / 1_000} s or wrote too much`));
        else reject(new Error(`"${line}" failed: ${told.trim().slice(-500) || error.message}`));
      },
    );
    child.stdin?.end();
  });
}
