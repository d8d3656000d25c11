type WeakenedPart = { readonly file: string; readonly reason: string; readonly hunk: string };

const TEST_FILE =
  /(?:^|\/)(?:tests?|__tests__|spec|specs)\/|[._-](?:test|spec)\.[cm]?[jt]sx?$|(?:^|\/)test_[^/]+\.py$|_test\.(?:py|go|rs|rb)$|Tests?\.(?:java|kt|cs|swift|scala)$/i;
/** Matches files of programs that can also have tests. */
const MIXED_FILE = /\.rs$/i;
const RUNNER_FILE =
  /(?:^|\/)(?:(?:vite|vitest|jest|karma|playwright|cypress|ava)\.conf(?:ig)?\.(?:[cm]?[jt]s|json)|\.mocharc\.\w+|pytest\.ini|tox\.ini|setup\.cfg|conftest\.py)$|^\.github\/workflows\/|^\.gitlab-ci\.yml$|^\.circleci\//;
const SKIP =
  /\b(?:it|test|describe|context|suite)\.(?:skip|todo|only)\b|\b(?:xit|xdescribe|xtest|fit|fdescribe)\s*\(|\b(?:skip|todo|only):\s*(?:true|['"`])|@unittest\.(?:skip|expectedFailure)|@pytest\.mark\.(?:skip|xfail)|\bpytest\.skip\(|#\[ignore\b|\bt\.Skip(?:f|Now)?\(|@(?:Disabled|Ignore)\b|\[Ignore\]|\[Fact\(Skip/;
const CASE =
  /\b(?:it|test)(?:\.\w+)*\s*\(|^\s*(?:async )?def test_|^\s*func Test[A-Z]|#\[[\w:]*test\b|@Test\b|\[Fact\]/;
const CHECK = /\bassert\b|\bassert\w*[.(!]|\bexpect\s*\(|\bshould\b|t\.(?:Error|Fatal)f?\(/;
/** Matches lines that say how tests are run, in package.json, pyproject.toml and Makefiles. */
const SCRIPT = /"(?:pre|post)?test(?::\w+)?"\s*:|"(?:jest|mocha|ava|vitest)"\s*:|^\.?\w*tests?\s*:(?!=)|pytest/i;
const SCRIPT_FILE = /(?:^|\/)(?:package\.json|pyproject\.toml)$/;
const MAKEFILE = /(?:^|\/)(?:GNU)?makefile$/i;

/**
 * The parts of a diff that make tests weaker: deleted tests, skipped tests, removed checks, and changes of how tests
 * are run. `diff`: the text of `git diff --no-renames` between base and work.
 */
export function weakenedParts(diff: string): readonly WeakenedPart[] {
  return filesOf(diff).flatMap(({ file, isDeleted, hunks }) => {
    if (RUNNER_FILE.test(file)) return hunks.map((hunk) => ({ file, reason: 'changes how tests are run', hunk }));
    if (SCRIPT_FILE.test(file) || MAKEFILE.test(file))
      return hunks
        .filter((hunk) => changesCommand(file, hunk))
        .map((hunk) => ({ file, reason: 'changes the test command', hunk }));
    const hasTests = TEST_FILE.test(file);
    if (!hasTests && !MIXED_FILE.test(file)) return [];
    if (isDeleted && !hasTests && !hunks.some((hunk) => CASE.test(hunk))) return [];
    if (isDeleted) return [{ file, reason: 'deletes a file of tests', hunk: hunks.join('\n') }];
    return hunks.flatMap((hunk) => {
      const reason = reasonOf(hunk);
      return reason === null ? [] : [{ file, reason, hunk }];
    });
  });
}

function changesCommand(file: string, hunk: string): boolean {
  if ([...changed(hunk, '-'), ...changed(hunk, '+')].some((line) => SCRIPT.test(line))) return true;
  if (!MAKEFILE.test(file)) return false;
  return /^[ +-]?\w*tests?\s*:(?!=)[^]*^[+-]\t/im.test(hunk) || /^@@[^\n]*@@ \w*tests?\s*:(?!=)/i.test(hunk);
}

function reasonOf(hunk: string): string | null {
  const [less, more] = [changed(hunk, '-'), changed(hunk, '+')];
  const count = (lines: readonly string[], pattern: RegExp): number =>
    lines.filter((line) => pattern.test(line)).length;
  if (count(more, SKIP) > count(less, SKIP)) return 'skips a test';
  if (count(less, CASE) > count(more, CASE)) return 'deletes a test';
  return count(less, CHECK) > count(more, CHECK) ? 'removes a check from a test' : null;
}

function changed(hunk: string, sign: '-' | '+'): readonly string[] {
  return hunk
    .split('\n')
    .filter((line) => line.startsWith(sign))
    .map((line) => line.slice(1));
}

type FileDiff = { readonly file: string; readonly isDeleted: boolean; readonly hunks: readonly string[] };

function filesOf(diff: string): readonly FileDiff[] {
  return diff
    .split(/^(?=diff --git )/m)
    .filter((part) => part.startsWith('diff --git '))
    .map((part) => {
      const [head = '', ...hunks] = part.split(/^(?=@@ )/m);
      const isDeleted = /^deleted file mode/m.test(head);
      const [, file = ''] =
        /^--- "?a\/(.*)$/m.exec(head) ??
        /^\+\+\+ "?b\/(.*)$/m.exec(head) ??
        /^diff --git "?a\/(.*?)"? "?b\//m.exec(head) ??
        [];
      return { file: file.trimEnd().replace(/"$/, ''), isDeleted, hunks: hunks.map((hunk) => hunk.trimEnd()) };
    });
}
