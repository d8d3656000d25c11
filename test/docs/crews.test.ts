import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { COMMANDS } from '../../src/turns/commands/command-table.ts';
import { parseLine } from '../../src/turns/commands/parse.ts';
import { parseTicket } from '../../src/work/crews/tickets/ticket-file.ts';
import { WORKER_SYMBOLS } from '../../src/work/crews/crew.ts';
import { load } from '../config/world.ts';
import { ROOT } from './documents.ts';

const page = readFileSync(join(ROOT, 'docs/crews.md'), 'utf8');

/** The code blocks of a language, without their indentation. */
function blocks(language: string): readonly string[] {
  return Array.from(
    page.matchAll(new RegExp(`^( *)\`\`\`${language}\\n([^]*?)^ *\`\`\``, 'gm')),
    ([, indent = '', text = '']) => text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  );
}

describe('docs/crews.md', () => {
  test('shows a ticket that Conch can read', () => {
    const [ticket = ''] = blocks('markdown');
    expect(parseTicket('c-1', Buffer.from(ticket))).toMatchObject({ id: 'c-1', status: 'open', title: 'Say hello' });
  });

  test('shows a configuration that Conch can load', () => {
    const [config = '{}'] = blocks('json');
    expect(load(JSON.parse(config) as object).crews).toMatchObject([{ id: 'web', workers: 2, maxSteps: 20 }]);
  });

  test('names every crew command in a valid form', () => {
    const lines = Array.from(page.matchAll(/`(\/crew [^`]+)`/g), ([, line = '']) => line);
    for (const line of lines) expect(parseLine(line)).toMatchObject({ ok: true });
    const verbs = COMMANDS.flatMap(({ path }) => (path.startsWith('crew ') ? [`/${path}`] : []));
    expect(verbs.filter((verb) => !lines.some((line) => line.startsWith(verb)))).toEqual([]);
  });

  test('names every state with its symbol', () => {
    for (const [status, symbol] of Object.entries(WORKER_SYMBOLS)) expect(page).toContain(`| ${symbol} ${status} |`);
  });
});
