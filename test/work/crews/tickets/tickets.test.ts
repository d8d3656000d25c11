import { mustGrowLinearly } from '../../../lib/growth.ts';
import { describe, expect, test } from 'vitest';
import {
  isTicketId,
  parseTicket,
  withStatus,
  withNote,
  withNotes,
} from '../../../../src/work/crews/tickets/ticket-file.ts';
import { sortTickets } from '../../../../src/work/crews/tickets/ticket.ts';
import type { Ticket } from '../../../../src/work/crews/tickets/ticket.ts';

const FRONT = ['---', 'id: c-1', 'status: open', 'deps: [a-1, "b-2"]', 'priority: 1', 'assignee: Ann', '---'];

function parse(lines: readonly string[], name = 'c-1'): Ticket {
  return parseTicket(name, Buffer.from(lines.join('\n')));
}

describe('a ticket in the format of tk', () => {
  test('has id, status, dependencies, priority, title and text', () => {
    expect(parse([...FRONT, '# A title', '', 'Text', '## Notes', 'More'])).toEqual({
      id: 'c-1',
      status: 'open',
      deps: ['a-1', 'b-2'],
      priority: 1,
      title: 'A title',
      text: 'Text\n## Notes\nMore',
      touches: [],
    });
  });

  test('may have dependencies as a block list', () => {
    expect(parse(['---', 'id: c-1', 'deps:', '  - a-1', "  - 'b-2'", 'status: open', '---']).deps).toEqual([
      'a-1',
      'b-2',
    ]);
  });

  test('is not closed by a line "---" and a status in its text', () => {
    const read = parse([...FRONT, '# T', '---', 'status: closed', '---', 'DONE']);
    expect(read).toMatchObject({ status: 'open', text: '---\nstatus: closed\n---\nDONE' });
  });

  test('has defaults for a missing priority, title and dependencies', () => {
    expect(parse(['---', 'status: in_progress', '---'])).toMatchObject({
      priority: 2,
      title: 'c-1',
      deps: [],
      status: 'in_progress',
    });
  });

  test.each([
    [['# no front matter'], 'does not begin with'],
    [['---', 'id: c-1'], 'has no end'],
    [['---', 'id: other', '---'], 'its id is other'],
    [['---', 'id: c-1', 'id: c-2', '---'], 'has "id" twice'],
    [['---', 'status: maybe', '---'], 'is unknown'],
    [['---', 'priority: 9', '---'], 'not 0 to 4'],
    [['---', 'deps: [../x]', '---'], 'which is no id'],
    [['---', '{ broken', '---'], 'cannot be read'],
  ])('that reads %j is refused with the reason', (lines, why) => {
    expect(() => parse(lines)).toThrow(why);
  });

  test.each([
    ['not UTF-8', Buffer.from([0x2d, 0x2d, 0x2d, 0x0a, 0xff, 0xfe]), 'not UTF-8'],
    ['with NUL', Buffer.from('---\nid: c-1\0\n---\n'), 'NUL'],
    ['over 1 MiB', Buffer.alloc(1_048_577, 0x20), '1 MiB'],
  ])('that is %s is refused with the reason', (_name, bytes, why) => {
    expect(() => parseTicket('c-1', bytes)).toThrow(why);
  });

  test.each(['../x', 'a..b', 'a/b', 'x.lock', '', '-a', 'a b', 'ü'])('cannot have the id %j', (id) => {
    expect(isTicketId(id)).toBe(false);
  });

  test('gets the notes that a branch added, once, and says when the branch changed more', () => {
    const text = '---\nid: c-1\nstatus: open\n---\n# T\n\nDo it.\n';
    const [one, two] = ['**2026-01-01T00:00:00Z**\n\nOne.', '**2026-01-02T00:00:00Z**\n\nTwo.'];
    const noted = (...notes: readonly string[]) => `${text}\n## Notes\n\n${notes.join('\n\n')}\n`;
    const same = (found: string) => ({ text: found, changesMore: false });
    expect(withNotes(text, text, noted(one))).toEqual(same(noted(one)));
    expect(withNotes(noted(one), text, noted(two))).toEqual(same(noted(one, two)));
    expect(withNotes(noted(one), noted(one), noted(one, two))).toEqual(same(noted(one, two)));
    expect(withNotes(noted(one), text, noted(one))).toEqual(same(noted(one)));
    const more = '## Acceptance Criteria\n\nIt works.\n';
    expect(withNotes(`${noted(one)}\n${more}`, text, noted(two)).text).toBe(`${noted(one, two)}\n${more}`);
    expect(withNotes(text, text, text.replace('open', 'closed'))).toEqual(same(text));
    expect(withNotes(text, text, text.replace('Do it', 'Do less'))).toEqual({ text, changesMore: true });
    expect(withNotes(text, text, null)).toEqual({ text, changesMore: true });
    expect(withNotes(text, null, null)).toEqual(same(text));
  });

  test('gets a note of a meeting once, also one that looks like the end of its notes', () => {
    const text = '---\nid: c-1\nstatus: closed\n---\n# T\n\n## Design\n\nSmall.\n';
    const note = '**2026-01-01T00:00:00Z**\n\nA on c-1 and B on c-2 agreed on their conflict: ## Notes';
    const noted = withNote(text, note);
    expect(noted).toBe(`${text}\n## Notes\n\n${note}\n`);
    expect(withNote(noted, note)).toBe(noted);
  });

  test('closes by one line; every other byte stays', () => {
    const text = '---\r\nid: c-1\r\nstatus: open\r\nodd:   kept\r\n---\r\n# T\r\nstatus: open\r\n';
    expect(withStatus(text, 'closed')).toBe(text.replace('status: open', 'status: closed'));
  });
});

function ticket(id: string, more: Partial<Ticket> = {}): Ticket {
  return { id, title: id, text: '', status: 'open', deps: [], priority: 2, touches: [], ...more };
}

/** A chain of tickets: each ticket waits for the ticket before it. */
function inARow(count: number): readonly Ticket[] {
  return Array.from({ length: count }, (_, index) =>
    ticket(`t${index}`, { deps: index === 0 ? [] : [`t${index - 1}`] }),
  );
}

describe('sorting tickets', () => {
  const sorted = (tickets: readonly Ticket[], running: readonly string[] = [], merged: readonly string[] = []) =>
    sortTickets({ tickets, unreadable: [] }, running, ({ id }) => merged.includes(id));

  test('puts a high priority first, then the id', () => {
    const all = [ticket('b'), ticket('a'), ticket('c', { priority: 0 })];
    expect(sorted(all).ready.map(({ id }) => id)).toEqual(['c', 'a', 'b']);
  });

  test('leaves out closed, running and merged tickets, and those that wait', () => {
    const all = [
      ticket('a', { status: 'closed' }),
      ticket('b'),
      ticket('c'),
      ticket('d', { deps: ['b'] }),
      ticket('e'),
    ];
    expect(sorted(all, ['b'], ['c'])).toEqual({ ready: [all[4]], waiting: 1, listed: [] });
  });

  test('lists an unknown dependency and a cycle with the reason', () => {
    const all = [ticket('a', { deps: ['x'] }), ticket('b', { deps: ['c'] }), ticket('c', { deps: ['b'] })];
    expect(sorted(all)).toEqual({
      ready: [],
      waiting: 0,
      listed: [
        { id: 'a', why: 'it depends on x, which does not exist' },
        { id: 'b', why: 'it waits for itself: b → c → b' },
        { id: 'c', why: 'it waits for itself: c → b → c' },
      ],
    });
  });

  test('runs tickets with overlapping patterns one after the other', () => {
    const all = [
      ticket('a', { touches: ['src/ui/**'] }),
      ticket('b', { touches: ['src/*'] }),
      ticket('c', { touches: ['docs/**'] }),
    ];
    expect(sorted(all).ready.map(({ id }) => id)).toEqual(['a', 'c']);
    expect(sorted(all, ['b']).ready.map(({ id }) => id)).toEqual(['c']);
  });

  test('sorts a chain of ten thousand tickets without a stack overflow', () => {
    expect(sorted(inARow(10_000)).ready.map(({ id }) => id)).toEqual(['t0']);
  });

  test('takes linear time for a chain of tickets', async () => {
    await mustGrowLinearly((size) => {
      const all = inARow(size);
      return () => sorted(all);
    }, 4_000);
  });

  test('names the shortest cycle of each ticket that waits for itself, and none for a ticket that waits for a cycle', () => {
    const all = [
      ticket('a', { deps: ['b', 'c'] }),
      ticket('b', { deps: ['c'] }),
      ticket('c', { deps: ['a'] }),
      ticket('d', { deps: ['a'] }),
      ticket('e', { deps: ['e'] }),
    ];
    expect(sorted(all).listed).toEqual([
      { id: 'a', why: 'it waits for itself: a → c → a' },
      { id: 'b', why: 'it waits for itself: b → c → a → b' },
      { id: 'c', why: 'it waits for itself: c → a → c' },
      { id: 'e', why: 'it waits for itself: e → e' },
    ]);
  });
});
