import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { askProgram } from '../../../../src/runtime/crews/ticket-sources.ts';
import { beadsTickets, readIssues } from '../../../../src/work/crews/tickets/beads-tickets.ts';
import { sortTickets } from '../../../../src/work/crews/tickets/ticket.ts';
import type { Ticket, TicketSource } from '../../../../src/work/crews/tickets/ticket.ts';
import { tkTickets } from '../../../../src/work/crews/tickets/tk-tickets.ts';

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'conch-tickets-'));
  folders.push(folder);
  return folder;
}

const NOW = Date.UTC(2026, 0, 2);

function issue(id: string, more: object = {}): string {
  return JSON.stringify({ id, title: `Title of ${id}`, status: 'open', priority: 2, ...more });
}

function blocks(id: string, on: string, type = 'blocks'): object {
  return { dependencies: [{ issue_id: id, depends_on_id: on, type, created_at: '' }] };
}

describe('issues of beads', () => {
  test('are tickets with their texts, priority and blockers', () => {
    const lines = [issue('bd-1', { description: 'Do it', design: 'So', notes: 'N', priority: 0 }), issue('bd-2')];
    const { tickets } = readIssues([...lines, issue('bd-3', blocks('bd-3', 'bd-1'))].join('\n'), NOW);
    expect(tickets[0]).toMatchObject({ text: 'Do it\n\n## Design\nSo\n\n## Notes\nN', priority: 0, deps: [] });
    expect(tickets[2]?.deps).toEqual(['bd-1']);
  });

  test.each([
    ['blocks', ['bd-1']],
    ['conditional-blocks', ['bd-1']],
    ['waits-for', ['bd-1']],
    ['related', []],
    ['discovered-from', []],
    ['parent-child', []],
  ])('with a dependency of the type %s wait for %j', (type, deps) => {
    const lines = [issue('bd-1'), issue('bd-2', blocks('bd-2', 'bd-1', type))];
    expect(readIssues(lines.join('\n'), NOW).tickets[1]?.deps).toEqual(deps);
  });

  test('wait for the blockers of their parent issue', () => {
    const parent = issue('bd-2', blocks('bd-2', 'bd-1'));
    const child = issue('bd-3', blocks('bd-3', 'bd-2', 'parent-child'));
    expect(readIssues([issue('bd-1'), parent, child].join('\n'), NOW).tickets[2]?.deps).toEqual(['bd-1']);
  });

  test.each([
    ['in_progress', {}],
    ['blocked', {}],
    ['deferred', {}],
    ['hooked', {}],
    ['pinned', {}],
    ['open', { defer_until: '2026-01-03T00:00:00Z' }],
    ['closed', {}],
  ])('that are %s with %j are not started', (status, more) => {
    const listed = readIssues(issue('bd-1', { status, ...more }), NOW);
    expect(sortTickets(listed, [], () => false).ready).toEqual([]);
  });

  test('start when their time "defer_until" has passed', () => {
    const listed = readIssues(issue('bd-1', { defer_until: '2026-01-01T00:00:00Z' }), NOW);
    expect(sortTickets(listed, [], () => false).ready.map(({ id }) => id)).toEqual(['bd-1']);
  });

  test('that cannot be read are listed with their lines, and the others are read', () => {
    const { tickets, unreadable } = readIssues(['{', issue('../x'), issue('bd-1'), '{"id":"bd-2"}'].join('\n'), NOW);
    expect(tickets.map(({ id }) => id)).toEqual(['bd-1']);
    expect(unreadable.map(({ id }) => id)).toEqual(['line 1', 'line 2', 'line 4']);
    expect(unreadable[1]?.why).toBe('its id cannot be the name of a branch');
  });

  test('in a missing file are an error that names the file', async () => {
    const path = join(newFolder(), 'issues.jsonl');
    await expect(beadsTickets(path, () => NOW).list()).rejects.toThrow(path);
  });
});

describe('tickets of tk', () => {
  const ticket = (id: string, more: Partial<Ticket> = {}): Ticket => ({
    id,
    title: id,
    text: '',
    status: 'open',
    deps: [],
    priority: 2,
    touches: [],
    ...more,
  });
  const files: TicketSource = {
    list: async () => ({ tickets: [ticket('c-1'), ticket('c-2'), ticket('c-3', { deps: ['c-1'] })], unreadable: [] }),
    closingFile: async () => null,
    closed: async () => {},
  };

  /** Tickets of tk, whose program is this shell script. */
  function tk(script: string, limitMs?: number, isClosed = true): TicketSource {
    const folder = newFolder();
    const command = join(folder, 'tk');
    writeFileSync(command, `#!/bin/sh\n${script}\n`);
    chmodSync(command, 0o755);
    return tkTickets(
      files,
      (args) => askProgram(command, args, folder, limitMs),
      async () => isClosed,
    );
  }

  test('start only when tk lists them as open and ready', async () => {
    const source = tk(`[ "$1" = ready ] && printf 'c-1  [P2][open] - One\nc-2  [P2][in_progress] - Two\n'`);
    const { tickets } = await source.list();
    expect(tickets.map(({ id, status }) => `${id} ${status}`)).toEqual(['c-1 open', 'c-2 in_progress', 'c-3 open']);
  });

  test.each([
    ['answers wrongly', 'echo what', 'a line that cannot be read: "what"'],
    ['fails', 'echo "no tickets here" >&2; exit 3', 'no tickets here'],
  ])('of a program that %s are an error with the output of the program', async (_how, script, why) => {
    await expect(tk(script).list()).rejects.toThrow(why);
  });

  test('that are finished are closed by the program when their file in the working copy says closed', async () => {
    const closes = '[ "$1 $2" = "close c-1" ] || exit 4';
    expect(await tk(closes).finish?.('c-1')).toBe(true);
    await expect(tk(closes).finish?.('c-2')).rejects.toThrow('failed');
    expect(await tk(closes, 1_000, false).finish?.('c-2')).toBe(false);
  });

  test('of a program that does not answer are an error', async () => {
    await expect(tk('exec sleep 60', 200).list()).rejects.toThrow('took longer than 0.2 s');
  });

  test('without the program are an error that names the program', async () => {
    const source = tkTickets(
      files,
      (args) => askProgram('no-such-tk', args, tmpdir()),
      async () => true,
    );
    await expect(source.list()).rejects.toThrow('there is no program "no-such-tk"');
  });
});
