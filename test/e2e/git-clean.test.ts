import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { addAgentToken } from '../../src/agents/backends/remote/tokens.ts';
import { LoginStore } from '../../src/agents/mcp/login-store.ts';
import { ROOT } from '../docs/documents.ts';
import { freePort, startBot } from '../kill/bot.ts';
import type { Place } from '../kill/bot.ts';
import { CHANNEL, readyPage } from './demo.ts';

/** A temporary git repository. `status` lists the files that `git add -A` would add. */
class Repository {
  readonly path = mkdtempSync(join(tmpdir(), 'conch-git-'));

  git(...args: readonly string[]): string {
    return execFileSync('git', args, { cwd: this.path, encoding: 'utf8' });
  }

  get status(): string {
    return this.git('status', '--porcelain', '--untracked-files=all');
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

/** Runs the demo in a folder, with the default data folder, until a tool has answered. */
async function runDemo(dir: string, program = join(ROOT, 'src/conch.js')): Promise<void> {
  const place: Place = { dir, dataDir: '.conch', configFile: '', port: await freePort() };
  const bot = startBot(place, { program });
  try {
    const page = await readyPage(bot);
    await page.say(CHANNEL, 'dev: read the note');
    const isRead = () => page.texts('agent').some((text) => text.includes('There is no such note'));
    await page.until(isRead, 'an answer of a tool');
    page.close();
  } finally {
    await bot.end('SIGTERM');
  }
}

const EMPTY = JSON.stringify({ log: { level: 'info', pretty: false } });

describe('git status', () => {
  test.skipIf(!existsSync(join(ROOT, '.git')))('T68 is clean in a clone where the demo ran with a .env', async () => {
    using clone = new Repository();
    clone.git('clone', '--quiet', '--depth', '1', `file://${ROOT}`, '.');
    for (const each of ['node_modules', 'dist']) symlinkSync(join(ROOT, each), join(clone.path, each));
    writeFileSync(join(clone.path, '.env'), 'SLACK_SIGNING_SECRET=0123456789abcdef\n');
    writeFileSync(join(clone.path, '.env.local'), 'SLACK_SIGNING_SECRET=0123456789abcdef\n');
    await runDemo(clone.path, join(clone.path, 'src/conch.js'));
    expect(existsSync(join(clone.path, '.conch/console-token'))).toBe(true);
    expect(clone.status).toBe('');
  });

  test('T68 does not show the data folder in a repository that has no .gitignore', async () => {
    using own = new Repository();
    own.git('init', '--quiet');
    writeFileSync(join(own.path, 'turnConfig.json'), EMPTY);
    await runDemo(own.path);
    expect(existsSync(join(own.path, '.conch/console-token'))).toBe(true);
    expect(own.status).toBe('?? turnConfig.json\n');
  });

  test.each([
    ['a token of a remote agent', (dataDir: string) => void addAgentToken(dataDir, 'scout', { at: 0 })],
    [
      'a login at a server of tools',
      (dataDir: string) => {
        const tokens = { access: 'a', refresh: 'r', type: 'Bearer', expiresAt: null, scope: null };
        const login = { url: 'https://tools.example.org/mcp', tokens, client: {} } as unknown as Parameters<
          LoginStore['save']
        >[0];
        new LoginStore(dataDir).save(login);
      },
    ],
  ])('T68 does not show a data folder that was created for %s', (_, make) => {
    using own = new Repository();
    own.git('init', '--quiet');
    make(join(own.path, '.conch'));
    expect(existsSync(join(own.path, '.conch'))).toBe(true);
    expect(own.status).toBe('');
  });

  test('T68 still shows the files of a folder that existed before Conch used it as data folder', () => {
    using own = new Repository();
    own.git('init', '--quiet');
    writeFileSync(join(own.path, 'readme'), 'words');
    addAgentToken(own.path, 'scout', { at: 0 });
    expect(own.status).toContain('?? readme');
    expect(() => readFileSync(join(own.path, '.gitignore'))).toThrow('ENOENT');
  });
});
