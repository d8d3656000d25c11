import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseCall } from '../../src/cli/arguments.ts';
import { loadConfig } from '../../src/config/load.ts';
import { COMMANDS } from '../../src/turns/commands/command-table.ts';
import { parseLine, usage } from '../../src/turns/commands/parse.ts';
import { BLOCKS, filled } from './blocks.ts';
import { documents, ROOT } from './documents.ts';
import packageJson from '../../package.json' with { type: 'json' };

const ALL = documents();

/** Paths and commands that are not commands of Conch, or exist only in Slack. */
const OTHERS: ReadonlySet<string> = new Set([
  '/healthz',
  '/livez',
  '/data',
  '/config',
  '/proc',
  '/var/lib/conch',
  '/conch',
  '/conch settings',
  '/invite @Conch',
]);

/** The texts of the fenced blocks of one language. */
const fenced = (text: string, language: string): readonly string[] =>
  Array.from(text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, 'gm')), ([, body = '']) => body);

const withoutFences = (text: string): string => text.replaceAll(/^```[\s\S]*?^```$/gm, '');

const inlineCode = (text: string): readonly string[] =>
  Array.from(withoutFences(text).matchAll(/`([^`\n]+)`/g), ([, body = '']) => body);

/** The anchors that GitHub gives to headings. */
const anchors = (text: string): readonly string[] =>
  Array.from(withoutFences(text).matchAll(/^#+ (.+)$/gm), ([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s-]/gu, '')
      .replaceAll(' ', '-'),
  );

const linksIn = (text: string): readonly string[] =>
  Array.from(withoutFences(text).matchAll(/\]\(([^)\s]+)\)/g), ([, target = '']) => target).filter(
    (target) => !/^https?:/.test(target),
  );

const isBroken = (from: string, link: string): boolean => {
  const [file = '', anchor] = link.split('#');
  const name = file === '' ? from : join(dirname(from), file);
  if (!existsSync(join(ROOT, name))) return true;
  if (anchor === undefined) return false;
  const target = ALL.find((document) => document.name === name);
  return target === undefined || !anchors(target.text).includes(anchor);
};

/** The most words of a page outside its generated blocks. README.md is read first, so it has fewer. */
const mostWords = (name: string): number => (name === 'README.md' ? 1_800 : 2_500);

/** Counts the words of a page outside its generated blocks, as `wc -w` does. */
const countWords = (text: string): number =>
  text.replaceAll(/<!-- begin: ([\w-]+) -->[\s\S]*?<!-- end: \1 -->/g, '').match(/\S+/g)?.length ?? 0;

/** The problems of a configuration. The variables that it names are set. */
const problemsOf = (text: string): string => {
  const env = Object.fromEntries(Array.from(text.matchAll(/\$\{(\w+)\}/g), ([, name = '']) => [name, 'a value']));
  const isFile = (path: string): boolean => path.endsWith('turnConfig.json');
  const readFile = (path: string) => (isFile(path) ? { text, public: false } : null);
  try {
    return loadConfig({ env, cwd: '/somewhere', readFile }, 'look').warnings.join('\n');
  } catch (error) {
    return String(error);
  }
};

describe.each(ALL)('$name', ({ name, text }) => {
  test('has current text in every generated block (update with node test/docs/write.ts)', () => {
    expect(text).toBe(filled(text));
  });

  test('has no more words than a page may have', () => {
    expect(countWords(text)).toBeLessThanOrEqual(mostWords(name));
  });

  test('links to files and headings that exist', () => {
    expect(linksIn(text).filter((link) => isBroken(name, link))).toEqual([]);
  });

  test('names files that exist', () => {
    const named = inlineCode(text).filter((each) => /^(?:src|test|docs)\/[\w./-]+$/.test(each));
    expect(named.filter((each) => !existsSync(join(ROOT, each)))).toEqual([]);
  });

  test('shows configurations that load without a warning', () => {
    expect(fenced(text, 'json').map(problemsOf).join('')).toBe('');
  });

  test('runs only scripts that package.json has', () => {
    const commands = [...fenced(text, 'sh'), ...inlineCode(text)].join('\n');
    const called = Array.from(commands.matchAll(/\bnpm (?:run (?:--silent )?([\w:-]+)|(start|test)\b)/g));
    const scripts = called.map(([, script, short]) => script ?? short ?? '');
    expect(scripts.filter((script) => !Object.hasOwn(packageJson.scripts, script))).toEqual([]);
  });

  test('calls the program and its commands by their right names', () => {
    const lines = [...fenced(text, 'sh').flatMap((block) => block.split('\n')), ...inlineCode(text)];
    const calls = lines.flatMap((line) => /^(?:npm run conch -- |conch )([^<[]+)$/.exec(line)?.[1] ?? []);
    const refused = calls.map((call) => parseCall(call.split(' '))).filter((call) => !call.ok);
    expect(refused).toEqual([]);
    const known = new Set<string>(COMMANDS.flatMap((row) => [usage(row), `/${row.path}`]));
    const commands = inlineCode(text)
      .filter((each) => /^\/[a-z]/.test(each) && !OTHERS.has(each))
      .map((each) => each.replace(/^\/conch /, '/'));
    expect(commands.filter((each) => !known.has(each) && !parseLine(each).ok)).toEqual([]);
  });
});

describe('all documents together', () => {
  test('have every generated block', () => {
    const all = ALL.map(({ text }) => text).join('\n');
    expect(Object.keys(BLOCKS).filter((block) => !all.includes(`<!-- begin: ${block} -->`))).toEqual([]);
  });

  test('show at least one configuration, one script and one picture', () => {
    const all = ALL.map(({ text }) => text).join('\n');
    expect(fenced(all, 'json').length).toBeGreaterThan(1);
    expect(fenced(all, 'sh').length).toBeGreaterThan(1);
    expect(linksIn(all)).toContain('docs/console.png');
  });
});

describe('a generated block', () => {
  test('throws when its name is unknown, or when it has no end', () => {
    expect(() => filled('<!-- begin: nothing -->\n<!-- end: nothing -->')).toThrow('no generated block "nothing"');
    expect(() => filled('<!-- begin: states -->\n<!-- end: orders -->')).toThrow('1 blocks begin and 0 end');
  });

  test('replaces any old text', () => {
    const stale = '<!-- begin: orders -->\nstale\n<!-- end: orders -->\n';
    expect(filled(stale)).toContain('round-robin');
    expect(filled(stale)).not.toContain('stale');
    expect(filled(filled(stale))).toBe(filled(stale));
  });
});
