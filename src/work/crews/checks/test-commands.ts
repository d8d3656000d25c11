/** A way to run the tests of a repository. `file`: the file at the root of main by which Conch found it. */
type TestRunner = { readonly name: string; readonly file: string; readonly command: string };

type ReadAtMain = (path: string) => string | null;

const PLACEHOLDER = /no test specified/i;
const LOCKS = [
  ['pnpm-lock.yaml', 'pnpm test'],
  ['yarn.lock', 'yarn test'],
] as const;

type Rule = {
  readonly name: string;
  readonly file: string;
  readonly command: string;
  /**
   * Matches the file's text when the repository has tests for this runner. Absent: the existence of the file is enough.
   */
  readonly shows?: RegExp;
};

/** The test runners besides package.json, in the order in which Conch looks for them. */
const RULES: readonly Rule[] = [
  { name: 'pytest', file: 'pytest.ini', command: 'python3 -m pytest' },
  { name: 'pytest', file: 'pyproject.toml', command: 'python3 -m pytest', shows: /pytest/ },
  { name: 'pytest', file: 'setup.cfg', command: 'python3 -m pytest', shows: /pytest/ },
  { name: 'cargo', file: 'Cargo.toml', command: 'cargo test' },
  { name: 'go', file: 'go.mod', command: 'go test ./...' },
  { name: 'make', file: 'Makefile', command: 'make test', shows: /^test\s*:(?!=)/m },
  { name: 'gradle', file: 'gradlew', command: './gradlew test' },
  { name: 'gradle', file: 'build.gradle', command: 'gradle test' },
  { name: 'gradle', file: 'build.gradle.kts', command: 'gradle test' },
  { name: 'maven', file: 'pom.xml', command: 'mvn -q test' },
  { name: 'dotnet', file: 'global.json', command: 'dotnet test' },
];

/** The files at the root of main that `findRunners` reads. */
export const RUNNER_FILES: readonly string[] = [
  'package.json',
  ...LOCKS.map(([file]) => file),
  ...RULES.map(({ file }) => file),
];

/**
 * Returns the test runners that Conch recognizes by files at the root of main, each name once. Some files must mention
 * tests in their text, such as the target `test` in a Makefile.
 */
export function findRunners(read: ReadAtMain): readonly TestRunner[] {
  const found: TestRunner[] = [];
  const script = packageScript(read);
  if (script !== null) found.push(script);
  for (const { name, file, command, shows } of RULES) {
    if (found.some((each) => each.name === name)) continue;
    const text = read(file);
    if (text !== null && (shows === undefined || shows.test(text))) found.push({ name, file, command });
  }
  return found;
}

function packageScript(read: ReadAtMain): TestRunner | null {
  const file = 'package.json';
  const text = read(file);
  if (text === null) return null;
  const script = testScriptOf(text);
  if (script === null || PLACEHOLDER.test(script)) return null;
  for (const [lock, command] of LOCKS) if (read(lock) !== null) return { name: 'package.json', file, command };
  return { name: 'package.json', file, command: 'npm test --silent' };
}

function testScriptOf(text: string): string | null {
  try {
    const parsed = JSON.parse(text) as { readonly scripts?: { readonly test?: unknown } } | null;
    const script = parsed?.scripts?.test;
    return typeof script === 'string' && script.trim() !== '' ? script : null;
  } catch {
    return null;
  }
}

const COUNTS: readonly RegExp[] = [
  /^[#ℹ] tests (\d+)$/gm,
  /^\s*Tests:?\s.*?(\d+) total/gm,
  /^\s*Tests\s.*\((\d+)\)\s*$/gm,
  /^=+ .*?(\d+) passed/gm,
  /^test result: .*? (\d+) passed/gm,
  /^\s*(\d+) passing/gm,
];

/** The sum of the numbers of tests, or of passed tests, in a known runner's summaries; `null` for no such summary. */
export function countTests(output: string): number | null {
  for (const pattern of COUNTS) {
    const found = [...output.matchAll(pattern)];
    if (found.length > 0) return found.reduce((sum, [, count]) => sum + Number(count), 0);
  }
  return null;
}
