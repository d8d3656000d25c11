import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { documents } from '../docs/documents.ts';
import { configure, runConch } from '../kill/bot.ts';
import type { Place } from '../kill/bot.ts';
import { Page } from '../kill/page.ts';
import { inPlace } from './demo.ts';

const page = documents().find(({ name }) => name === 'docs/crews.md')?.text ?? '';
const steps = page.slice(page.indexOf('## A first crew in ten minutes'), page.indexOf('## What state is a worker in?'));
const CHANNEL = 'console:web';

/** Returns the first code block of a language in the steps, without the list's indentation. */
function block(language: string): string {
  const [, indent = '', text = ''] = new RegExp(`^( *)\`\`\`${language}\\n([^]*?)^ *\`\`\``, 'm').exec(steps) ?? [];
  return text.replaceAll(new RegExp(`^${indent}`, 'gm'), '');
}

/** Returns the text. Throws when the steps do not contain it. */
function words(text: string): string {
  if (!steps.includes(text)) throw new Error(`docs/crews.md does not say: ${text}`);
  return text;
}

function git(folder: string, ...args: readonly string[]): string {
  return execFileSync('git', ['-C', folder, ...args], { encoding: 'utf8' }).trim();
}

/** A shell script in place of `claude -p`: commits hello.txt and reports the ticket as done. */
const CLAUDE = `#!/bin/sh
cat > /dev/null
case "$*" in "-p --session-id "* | "-p --resume "*) ;; *) echo "unexpected: $*" >&2; exit 1 ;; esac
echo hello > hello.txt
git add hello.txt
git commit -q -m "Add hello.txt"
echo "I added it."
echo DONE
`;

function makeShop({ dir }: Place): string {
  const repo = join(dir, 'shop');
  mkdirSync(join(repo, '.tickets'), { recursive: true });
  git(repo, 'init', '-q', '-b', 'main');
  git(repo, 'config', 'user.name', 'Ann');
  git(repo, 'config', 'user.email', 'ann@example.org');
  writeFileSync(join(repo, 'package.json'), '{ "scripts": { "test": "test -f package.json" } }\n');
  writeFileSync(join(repo, words('.tickets/c-1.md')), block('markdown'));
  git(repo, 'add', '.');
  git(repo, 'commit', '-q', '-m', 'Begin');
  return repo;
}

function makeClaude({ dir }: Place): string {
  const bin = join(dir, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'claude'), CLAUDE);
  chmodSync(join(bin, 'claude'), 0o755);
  return `${bin}:${process.env['PATH'] ?? ''}`;
}

test('the steps for a first crew in docs/crews.md lead to a merged ticket', { timeout: 180_000 }, async () => {
  await inPlace('{}', async (place, start) => {
    const repo = makeShop(place);
    const PATH = makeClaude(place);
    const backend = words('{ "kind": "command", "command": "claude", "args": ["-p", "{session}"] }');
    const config = block('json')
      .replace('{ "kind": "acp", "profile": "claude-code" }', backend)
      .replace('../shop', repo);
    expect(config).toContain('"claude"');
    configure(place, config);
    const bot = start({ env: { PATH } });
    await bot.ready();
    const console = await Page.open(bot, CHANNEL);
    await console.until(() => console.view !== null, 'the first picture');
    expect(await console.command(CHANNEL, words('/crew run'))).toMatchObject({ ok: true });
    const texts = () => [...console.messages.values()].map(({ text }) => text).join('\n');
    await console.until(() => texts().includes('c-1 is merged'), 'the merge');
    expect(git(repo, 'log', '-1', '--format=%(trailers:key=Conch-Ticket,valueonly)', 'main')).toBe('c-1');
    expect(git(repo, 'show', 'main:hello.txt')).toBe('hello');
    // Waits: Conch removes the worktree and the branch after the merge.
    await expect
      .poll(() => runConch(place, { argv: ['crew', 'ps'] }), { timeout: 20_000 })
      .toMatchObject({ code: 0, out: expect.stringContaining('○ A') });
    console.close();
  });
});
