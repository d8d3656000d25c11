import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:net';
import { describe, expect, test } from 'vitest';
import { BASE_SLOTS, FIRST_BASE_SLOT, TakenSlots, slotEnvironment } from '../../../../src/work/crews/checks/slots.ts';
import { countTests, findRunners } from '../../../../src/work/crews/checks/test-commands.ts';
import { weakenedParts } from '../../../../src/work/crews/checks/weakened.ts';

const NPM = { 'package.json': '{"scripts":{"test":"node --test"}}' };

describe('the test runner of a repository', () => {
  const found = (files: Readonly<Record<string, string>>) =>
    findRunners((path) => files[path] ?? null).map(({ command }) => command);

  test.each([
    [NPM, ['npm test --silent']],
    [{ ...NPM, 'pnpm-lock.yaml': '' }, ['pnpm test']],
    [{ ...NPM, 'yarn.lock': '' }, ['yarn test']],
    [{ 'package.json': '{"scripts":{"test":"echo \\"Error: no test specified\\" && exit 1"}}' }, []],
    [{ 'package.json': '{}' }, []],
    [{ 'package.json': 'broken' }, []],
    [{ 'pytest.ini': '' }, ['python3 -m pytest']],
    [{ 'pyproject.toml': '[tool.pytest.ini_options]' }, ['python3 -m pytest']],
    [{ 'pyproject.toml': '[project]' }, []],
    [{ 'Cargo.toml': '' }, ['cargo test']],
    [{ 'go.mod': '' }, ['go test ./...']],
    [{ Makefile: 'all:\n\ntest: all\n' }, ['make test']],
    [{ Makefile: 'all:\n' }, []],
    [{ Makefile: 'test := 1\n' }, []],
    [{ gradlew: '' }, ['./gradlew test']],
    [{ 'pom.xml': '' }, ['mvn -q test']],
    [{ 'global.json': '' }, ['dotnet test']],
    [{ ...NPM, 'Cargo.toml': '' }, ['npm test --silent', 'cargo test']],
  ])('with %j is %j', (files, commands) => {
    expect(found(files)).toEqual(commands);
  });

  test.each([
    ['# tests 12\n# pass 12', 12],
    ['ℹ tests 3', 3],
    ['Tests:       1 failed, 4 passed, 5 total', 5],
    ['      Tests  4 passed (4)', 4],
    ['===== 7 passed in 0.1s =====', 7],
    ['test result: ok. 9 passed; 0 failed', 9],
    ['  8 passing (3ms)', 8],
    ['test result: ok. 9 passed; 0 failed\n\ntest result: ok. 2 passed; 0 failed', 11],
    ['all good', null],
  ])('that printed %j ran %j tests', (output, count) => {
    expect(countTests(output)).toBe(count);
  });
});

function diff(file: string, lines: readonly string[], head = ''): string {
  return `diff --git a/${file} b/${file}\n${head}--- a/${file}\n+++ b/${file}\n@@ -1,3 +1,3 @@\n${lines.join('\n')}\n`;
}

describe('a diff', () => {
  test.each([
    ['test/a.test.ts', ["-test('a', () => {});", ' x'], 'deletes a test'],
    ['test/a.test.ts', ["-test('a', () => {", "+test.skip('a', () => {"], 'skips a test'],
    ['test/a.test.ts', ['-  expect(a).toBe(1);', '+  a;'], 'removes a check from a test'],
    ['tests/test_a.py', ['+@pytest.mark.skip', ' def test_a():'], 'skips a test'],
    ['a_test.go', ['+\tt.Skip("later")'], 'skips a test'],
    ['src/lib_test.rs', ['+#[ignore]'], 'skips a test'],
    ['package.json', ['-    "test": "node --test"', '+    "test": "true"'], 'changes the test command'],
    ['Makefile', ['-test:', '+test: # none'], 'changes the test command'],
    ['vitest.config.ts', ['-  include: []', '+  exclude: []'], 'changes how tests are run'],
    ['karma.conf.js', ['+  files: []'], 'changes how tests are run'],
    ['jest.config.json', ['+  "testMatch": []'], 'changes how tests are run'],
    ['test/a.test.ts', ["-test('a', () => {", "+test.only('a', () => {"], 'skips a test'],
    ['test/a.test.js', ["-test('a', () => {", "+test('a', { skip: 'later' }, () => {"], 'skips a test'],
    ['tests/test_a.py', ['+@unittest.skip("x")', ' def test_a(self):'], 'skips a test'],
    ['src/FooTest.java', ['-  @Test', '-  void a() {}'], 'deletes a test'],
    ['src/lib.rs', ['-#[test]', '-fn a() {}'], 'deletes a test'],
    ['package.json', ['+    "pretest": "rm -r test",'], 'changes the test command'],
    ['pyproject.toml', ['+[tool.pytest.ini_options]', '+addopts = "-k none"'], 'changes the test command'],
    ['Makefile', [' test:', '-\tnode --test', '+\ttrue'], 'changes the test command'],
    ['.github/workflows/ci.yml', ['-  run: npm test', '+  run: true'], 'changes how tests are run'],
  ])('of %s makes tests weaker: %j', (file, lines, reason) => {
    expect(weakenedParts(diff(file, lines))).toMatchObject([{ file, reason }]);
  });

  test('is also read for a file whose name git quotes', () => {
    const text = diff('test/é.test.js', ["-test('a', () => {", "+xit('a', () => {"]).replaceAll(
      /(?<= )([ab])\/(\S+)$/gm,
      '"$1/$2"',
    );
    expect(weakenedParts(text)).toMatchObject([{ file: 'test/é.test.js' }]);
  });

  test.each([
    ['test/a.test.ts', 'x', ['deletes a file of tests']],
    ['tests/a.rs', 'x', ['deletes a file of tests']],
    ['src/a.rs', '#[test]', ['deletes a file of tests']],
    ['src/a.rs', '#[tokio::test]', ['deletes a file of tests']],
    ['src/a.rs', 'assert!(x);', []],
  ])('that deletes %s with the line %s: %j', (file, line, reasons) => {
    const text = `diff --git a/${file} b/${file}\ndeleted file mode 100644\n--- a/${file}\n+++ /dev/null\n@@ -1 +0,0 @@\n-${line}\n`;
    expect(weakenedParts(text).map(({ reason }) => reason)).toEqual(reasons);
  });

  test.each([
    ['test/a.test.ts', ["+test('b', () => {", '+  expect(1).toBe(1);', '+});']],
    ['test/a.test.ts', ["-test('a', () => {", "+test('a, too', () => {"]],
    ['src/a.ts', ['-  assert(a);', '+  a;']],
    ['package.json', ['+    "left-pad": "1.0.0"']],
  ])('of %s with %j makes no test weaker', (file, lines) => {
    expect(weakenedParts(diff(file, lines))).toEqual([]);
  });
});

test('gives all slots of a crew different ports, below the ports of outgoing connections', () => {
  const slots = Array.from({ length: FIRST_BASE_SLOT + BASE_SLOTS }, (_, slot) => slot);
  for (const crew of ['web', 'shop', 'a', 'Web Shop']) {
    const firsts = slots.map((slot) => Number(slotEnvironment(crew, slot).CONCH_PORT_BASE));
    expect(new Set(firsts).size).toBe(slots.length);
    expect(Math.max(...firsts) + 19).toBeLessThan(32_768);
    expect(Math.min(...firsts)).toBeGreaterThan(1_024);
  }
});

test('takes the ports of a slot once on this machine, until the ports are given back', async () => {
  const crew = `crew-${randomUUID()}`;
  const [one, other] = [new TakenSlots(crew), new TakenSlots(crew)];
  const module = new URL('../../../../src/work/crews/checks/slots.ts', import.meta.url).href;
  const elsewhere = `import('${module}').then(async (all) => console.log(await new all.TakenSlots('${crew}').take(3)))`;
  const inProcess = () => execFileSync(process.execPath, ['-e', elsewhere], { encoding: 'utf8' }).trim();
  expect(await one.take(3)).toBe(true);
  expect([await one.take(3), await other.take(3), other.keep(3), inProcess()]).toEqual([true, false, false, 'false']);
  one.giveAllBack();
  expect(inProcess()).toBe('true');
  const server = createServer();
  const first = Number(slotEnvironment(crew, 3).CONCH_PORT_BASE);
  await new Promise<void>((resolve) => server.listen(first + 19, '127.0.0.1', resolve));
  expect([await other.take(3), one.keep(3)]).toEqual([false, true]);
  one.giveBack(3);
  await new Promise((resolve) => server.close(resolve));
  expect(await other.take(3)).toBe(true);
  other.giveAllBack();
});

test('gives each slot its own ports, database suffix and project', () => {
  const all = Array.from({ length: 10 }, (_, slot) => slotEnvironment('Web Shop', slot));
  expect(slotEnvironment('web.a', 0)['CONCH_DB_SUFFIX']).not.toBe(slotEnvironment('web-a', 0)['CONCH_DB_SUFFIX']);
  expect(new Set(all.map(({ CONCH_PORT_BASE }) => CONCH_PORT_BASE)).size).toBe(10);
  expect(all[3]).toMatchObject({
    CONCH_SLOT: '3',
    CONCH_DB_SUFFIX: expect.stringMatching(/^_web_shop_\w{4}_3$/),
    COMPOSE_PROJECT_NAME: expect.stringMatching(/^conch_web_shop_\w{4}_3$/),
  });
  const ports = all.map(({ CONCH_PORT_BASE }) => Number(CONCH_PORT_BASE)).toSorted((a, b) => a - b);
  expect(ports.every((port, index) => index === 0 || port - (ports[index - 1] ?? 0) >= 20)).toBe(true);
});
