/** The words of one command, the program first. */
export type Argv = readonly string[];

/** The safe options of a program, or of one of its verbs. Any other option may start, write or send something. */
type Known = {
  /** Letters of options that take no value, or take it from the next word. They may be joined (`-la`). */
  readonly flags?: string;
  /** Letters of options whose value is the rest of the word; if the rest is empty, the next word. */
  readonly valued?: string;
  /** Long options without their dashes, with or without a value. Abbreviations are not accepted. */
  readonly long?: ReadonlySet<string>;
  /** Accepts further words that begin with a dash, such as `-5`. */
  readonly dashed?: RegExp;
  /** The pattern that each argument without a leading dash must match. Default: every text matches. */
  readonly operand?: RegExp;
  /** Refuses a word that matches, also one that another pattern accepts. */
  readonly never?: RegExp;
  /**
   * True when no option of the program starts, writes or sends anything. A shell pattern such as `*` is then accepted,
   * although the shell may replace it by the name of a file that the program reads as an option.
   */
  readonly plain?: true;
  /** The safe verbs of the program, each with its own options. The program's options may stand before the verb. */
  readonly verbs?: Readonly<Record<string, Known>>;
};

/**
 * True when a command starts no other program, writes nothing and sends nothing: its program, its verb and every option
 * are on the list of safe ones. Programs in git's configuration (`core.fsmonitor`, `diff.external`) are not checked
 * here, because a change of `.git` needs approval.
 */
export function isSafe(words: Argv): boolean {
  return words.length > 0 && isSafeBeginning(words);
}

/** True when some safe command begins with these words, and for an empty list. */
export function isSafeBeginning([program, ...given]: Argv): boolean {
  if (program === undefined) return true;
  const known = knownOf(program);
  if (known === undefined) return false;
  if (known.verbs === undefined) return given.every((word) => isKnown(word, known));
  const at = given.findIndex((word) => !word.startsWith('-'));
  const [before, verb, after] = at === -1 ? [given, null, []] : [given.slice(0, at), given[at], given.slice(at + 1)];
  if (!before.every((word) => word !== '--' && isKnown(word, known))) return false;
  if (verb === null || verb === undefined) return true;
  const knownVerb = Object.hasOwn(known.verbs, verb) ? known.verbs[verb] : undefined;
  return knownVerb !== undefined && after.every((word) => isKnown(word, knownVerb));
}

/** False for programs marked `plain`: none of their options starts, writes or sends anything. True for all others. */
export function heedsOptions(program: string): boolean {
  return knownOf(program)?.plain !== true;
}

/** Returns the safe verbs of a program; `null` for a program without verbs and one that is not listed. */
export function safeVerbs(program: string): readonly string[] | null {
  const verbs = knownOf(program)?.verbs;
  return verbs === undefined ? null : Object.keys(verbs);
}

/** Finds a program by its plain name or its path in `/bin` or `/usr/bin`; `undefined` for `./ls`. */
function knownOf(program: string): Known | undefined {
  const name = program.replace(/^(?:\/usr)?\/bin\//, '');
  return Object.hasOwn(SAFE, name) ? SAFE[name] : undefined;
}

/**
 * True when a word is a safe option or an accepted argument. Words after `--` are checked as options, too: `--` may be
 * the value of the option before.
 */
function isKnown(word: string, known: Known): boolean {
  const { flags = '', valued = '', long, dashed, operand = /^/, never } = known;
  if (never?.test(word) === true) return false;
  if (!/^-./.test(word)) return operand.test(word);
  if (word === '--' || dashed?.test(word) === true) return true;
  if (word.startsWith('--')) return long?.has(word.slice(2).replace(/=.*$/s, '')) === true;
  for (const letter of word.slice(1)) {
    if (valued.includes(letter)) return true;
    if (!flags.includes(letter)) return false;
  }
  return true;
}

function setOf(words: string): ReadonlySet<string> {
  return new Set(words.split(' '));
}

const NO_OPERAND = /^(?!)/;
const NUMBER = /^-\d+$/;
const ANY: Known = { dashed: /^/ };

const GREP: Known = {
  flags: 'EFGPivwxcLloqsbHhnTzaIrRUuyVO',
  valued: 'mABCDdef',
  long: setOf(
    'extended-regexp fixed-strings basic-regexp perl-regexp regexp file ignore-case no-ignore-case invert-match word-regexp line-regexp count color colour files-without-match files-with-matches max-count only-matching quiet silent no-messages byte-offset with-filename no-filename label line-number initial-tab null after-context before-context context group-separator no-group-separator text binary-files devices directories exclude exclude-from exclude-dir include recursive dereference-recursive line-buffered binary null-data help version',
  ),
  dashed: NUMBER,
  plain: true,
};

const HASH: Known = {
  flags: 'bctwz',
  long: setOf('binary check tag text zero ignore-missing quiet status strict warn help version'),
  plain: true,
};

/**
 * Matches the sign of a substitution. Some shells execute a substitution in an array index, also when `test` or
 * `printf` gets the index as plain text.
 */
export const CARRIED_OUT = /[$`]/;

const TEST: Known = { dashed: /^-(?:[abcdefghknoprstuwxzGLNOS]|eq|ne|lt|le|gt|ge|nt|ot|ef)$/, never: CARRIED_OUT };

const DIFF_OPTIONS =
  'patch no-patch unified raw patch-with-raw indent-heuristic no-indent-heuristic minimal patience histogram anchored diff-algorithm stat compact-summary numstat shortstat dirstat cumulative summary patch-with-stat name-only name-status submodule color no-color color-moved no-color-moved color-moved-ws word-diff word-diff-regex color-words no-renames rename-empty no-rename-empty check ws-error-highlight full-index binary abbrev no-abbrev break-rewrites find-renames find-copies find-copies-harder irreversible-delete diff-filter pickaxe-all pickaxe-regex relative no-relative text ignore-cr-at-eol ignore-space-at-eol ignore-space-change ignore-all-space ignore-blank-lines ignore-matching-lines inter-hunk-context function-context exit-code quiet no-ext-diff no-textconv ignore-submodules src-prefix dst-prefix no-prefix default-prefix line-prefix';

/** `%G` in a format of git starts a program that checks signatures. `-`, `+` or a space may precede the letter. */
const SIGNATURE = /%[-+ ]?G/;

const LOG: Known = {
  flags: 'pusmcgzRabwWiEFPtD',
  valued: 'nULSGMCBlI',
  long: setOf(
    `${DIFF_OPTIONS} oneline graph no-graph decorate no-decorate decorate-refs decorate-refs-exclude all branches tags remotes glob exclude max-count skip since after until before author committer grep regexp-ignore-case extended-regexp fixed-strings basic-regexp perl-regexp all-match invert-grep merges no-merges min-parents max-parents no-min-parents no-max-parents first-parent not reverse date pretty format abbrev-commit no-abbrev-commit follow full-diff left-right left-only right-only cherry cherry-mark cherry-pick topo-order date-order author-date-order full-history dense sparse simplify-merges simplify-by-decoration ancestry-path show-pulls boundary parents children source notes no-notes cc diff-merges no-diff-merges combined-all-paths walk-reflogs relative-date log-size encoding expand-tabs no-expand-tabs no-mailmap mailmap use-mailmap merge`,
  ),
  dashed: NUMBER,
  never: SIGNATURE,
};

const GIT: Known = {
  flags: 'P',
  long: setOf('no-pager no-optional-locks literal-pathspecs version'),
  verbs: {
    status: {
      flags: 'sbvz',
      valued: 'uM',
      long: setOf(
        'short branch show-stash porcelain long verbose untracked-files ignore-submodules ignored column no-column ahead-behind no-ahead-behind renames no-renames find-renames',
      ),
    },
    diff: {
      flags: 'pusczRabwWtD',
      valued: 'ULSGMCBlI',
      long: setOf(`${DIFF_OPTIONS} cached staged merge-base cc combined-all-paths base ours theirs`),
      dashed: /^-[0123]$/,
    },
    log: LOG,
    show: LOG,
    blame: {
      flags: 'ltsewcbpfn',
      valued: 'LMC',
      long: setOf(
        'porcelain line-porcelain incremental root date show-name show-number show-email show-stats color-lines color-by-age since reverse first-parent abbrev score-debug minimal',
      ),
    },
    'ls-files': {
      flags: 'cdmoistukvfz',
      valued: 'x',
      long: setOf(
        'cached deleted modified others ignored stage directory no-empty-directory unmerged killed exclude exclude-standard error-unmatch full-name abbrev debug deduplicate eol sparse',
      ),
    },
    'rev-parse': {
      flags: 'q',
      long: setOf(
        'show-toplevel abbrev-ref short verify quiet git-dir absolute-git-dir git-common-dir is-inside-work-tree is-inside-git-dir is-bare-repository is-shallow-repository show-prefix show-cdup show-superproject-working-tree symbolic symbolic-full-name all branches tags remotes revs-only no-revs flags no-flags default sq not since until after before path-format show-object-format',
      ),
    },
    branch: {
      flags: 'arvq',
      long: setOf('all remotes verbose show-current list no-color color contains no-contains merged no-merged'),
      operand: NO_OPERAND,
    },
    remote: { flags: 'v', long: setOf('verbose'), operand: NO_OPERAND },
  },
};

/**
 * Programs, verbs and options that start no other program, write nothing and send nothing. Left out on purpose are the
 * programs `sed`, `awk`, `tee`, `xargs` and `less`, and `uniq` with a file. Also left out are the options `sort -o -T`,
 * `diff -l`, `tree -o -R`, `file -C -z`, `date -s`, `find -exec -delete -fprint` and `rg --pre -z`. Of `git`,
 * `--output`, `--ext-diff` and `--textconv` are left out, and `-c`, `-C` and `-p` before the verb.
 */
const SAFE: Readonly<Record<string, Known>> = {
  cat: {
    flags: 'AbeEnstTuvl',
    long: setOf('show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting help version'),
    plain: true,
  },
  ls: {
    flags: 'aAbcCdDfFgGhHikKlLmnNopPqQrRsStuUvxXZ1@',
    valued: 'ITw',
    long: setOf(
      'all almost-all author escape block-size ignore-backups color directory dired classify file-type format full-time group-directories-first no-group human-readable si dereference dereference-command-line dereference-command-line-symlink-to-dir hide hyperlink indicator-style inode ignore kibibytes numeric-uid-gid literal hide-control-chars show-control-chars quote-name quoting-style reverse recursive size sort time time-style tabsize width context zero help version',
    ),
    plain: true,
  },
  head: {
    flags: 'qvz',
    valued: 'nc',
    long: setOf('lines bytes quiet silent verbose zero-terminated'),
    dashed: NUMBER,
    plain: true,
  },
  tail: {
    flags: 'fFqvzr',
    valued: 'ncsb',
    long: setOf('lines bytes quiet silent verbose zero-terminated follow retry pid sleep-interval max-unchanged-stats'),
    dashed: NUMBER,
    plain: true,
  },
  wc: { flags: 'clmLw', long: setOf('lines words chars bytes max-line-length files0-from total'), plain: true },
  stat: { flags: 'Lft', valued: 'c', long: setOf('format printf dereference file-system terse cached') },
  file: {
    flags: 'bikLhnNrv0',
    long: setOf(
      'brief mime mime-type mime-encoding dereference no-dereference no-buffer no-pad raw print0 keep-going extension version',
    ),
  },
  grep: GREP,
  egrep: GREP,
  fgrep: GREP,
  rg: {
    flags: 'isSwxvclLnNopquUFPHIa0.',
    valued: 'ABCefgtTmMjrEd',
    long: setOf(
      'ignore-case case-sensitive smart-case word-regexp line-regexp invert-match count count-matches files files-with-matches files-without-match follow line-number no-line-number only-matching pretty quiet unrestricted multiline multiline-dotall fixed-strings pcre2 with-filename no-filename text null hidden no-hidden no-ignore no-ignore-vcs no-ignore-parent no-ignore-global no-ignore-dot after-context before-context context regexp file glob iglob type type-not type-list type-add max-count max-columns max-columns-preview max-depth max-filesize threads replace encoding color colors column no-column heading no-heading json vimgrep sort sortr stats trim passthru context-separator field-context-separator field-match-separator path-separator byte-offset crlf null-data one-file-system no-config no-messages engine auto-hybrid-regex include-zero stop-on-nonmatch binary debug version',
    ),
  },
  find: {
    dashed:
      /^-(?:i?name|i?path|i?wholename|i?regex|i?lname|x?type|size|[acm]time|[acm]min|[ac]?newer|newer[aBcm][aBcmt]|empty|perm|user|group|[ug]id|nouser|nogroup|readable|writable|executable|links|inum|samefile|fstype|maxdepth|mindepth|depth|mount|xdev|follow|daystart|regextype|ignore_readdir_race|noignore_readdir_race|warn|nowarn|noleaf|used|print0?|printf|ls|prune|quit|not|and|or|a|o|true|false|[HLPd]|O[0-3])$/,
  },
  diff: {
    flags: 'qsucneyptTNriEZbwBadv',
    valued: 'CUFIxXSWL',
    long: setOf(
      'normal brief report-identical-files context unified ed rcs side-by-side width left-column suppress-common-lines show-c-function show-function-line label expand-tabs initial-tab tabsize suppress-blank-empty recursive no-dereference new-file unidirectional-new-file ignore-file-name-case no-ignore-file-name-case exclude exclude-from starting-file from-file to-file ignore-case ignore-tab-expansion ignore-trailing-space ignore-space-change ignore-all-space ignore-blank-lines ignore-matching-lines text strip-trailing-cr minimal horizon-lines speed-large-files color palette version',
    ),
  },
  cmp: { flags: 'bls', valued: 'in', long: setOf('print-bytes ignore-initial verbose bytes quiet silent') },
  comm: { flags: '123z', long: setOf('check-order nocheck-order output-delimiter total zero-terminated') },
  cut: {
    flags: 'nsz',
    valued: 'bcdf',
    long: setOf('bytes characters delimiter fields complement only-delimited output-delimiter zero-terminated'),
  },
  sort: {
    flags: 'bdfghiMnRrVcCmsuz',
    valued: 'kt',
    long: setOf(
      'ignore-leading-blanks dictionary-order ignore-case general-numeric-sort ignore-nonprinting month-sort human-numeric-sort numeric-sort random-sort reverse sort version-sort check merge key field-separator stable unique zero-terminated parallel debug',
    ),
  },
  uniq: {
    flags: 'cdDiuz',
    valued: 'fsw',
    long: setOf(
      'count repeated all-repeated skip-fields group ignore-case skip-chars unique zero-terminated check-chars',
    ),
    operand: NO_OPERAND,
  },
  tr: { flags: 'cCdst', long: setOf('complement delete squeeze-repeats truncate-set1') },
  nl: {
    flags: 'p',
    valued: 'bdfhilnsvw',
    long: setOf('body-numbering number-format number-width number-separator starting-line-number line-increment'),
  },
  tac: { flags: 'br', valued: 's', long: setOf('before regex separator') },
  du: {
    flags: 'aAbcDHLlhkmPSsx0',
    valued: 'BdtX',
    long: setOf(
      'all apparent-size block-size bytes total dereference-args max-depth human-readable inodes count-links dereference no-dereference separate-dirs si summarize threshold time time-style exclude exclude-from one-file-system null',
    ),
  },
  df: {
    flags: 'ahHiklPTvm',
    valued: 'Btx',
    long: setOf('all block-size human-readable si inodes local output portability type exclude-type print-type total'),
  },
  pwd: { flags: 'LP', operand: NO_OPERAND },
  echo: { ...ANY, plain: true },
  true: { ...ANY, plain: true },
  false: { ...ANY, plain: true },
  // `%n` sets a variable, for example `PATH`. `*` and `?` may become a file name that contains `%n`.
  printf: { never: /[$`*?]|%[^a-zA-Z%]*[hjlLqtz]*n/ },
  test: TEST,
  '[': TEST,
  basename: { flags: 'az', valued: 's', long: setOf('multiple suffix zero') },
  dirname: { flags: 'z', long: setOf('zero') },
  realpath: {
    flags: 'emLPqsz',
    long: setOf(
      'canonicalize-existing canonicalize-missing logical physical quiet relative-to relative-base strip no-symlinks zero',
    ),
  },
  readlink: {
    flags: 'femnqsvz',
    long: setOf('canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose zero'),
  },
  md5sum: HASH,
  sha1sum: HASH,
  sha256sum: HASH,
  sha512sum: HASH,
  strings: {
    flags: 'afow',
    valued: 'nte',
    long: setOf('all print-file-name bytes radix encoding include-all-whitespace'),
    dashed: NUMBER,
  },
  jq: {
    flags: 'cCMSrRjasne',
    long: setOf(
      'compact-output color-output monochrome-output sort-keys raw-output raw-input join-output ascii-output slurp null-input exit-status tab indent arg argjson slurpfile rawfile args jsonargs stream seq unbuffered',
    ),
  },
  which: { flags: 'as' },
  type: { flags: 'afpPt' },
  date: { flags: 'uR', valued: 'I', long: setOf('utc universal rfc-email rfc-3339 iso-8601 date'), operand: /^\+/ },
  sleep: {},
  uname: {
    flags: 'asnrvmpio',
    long: setOf('all kernel-name nodename kernel-release kernel-version machine processor operating-system'),
  },
  whoami: { operand: NO_OPERAND },
  id: { flags: 'agGnruzZ', long: setOf('group groups name real user zero context') },
  tree: {
    flags: 'adlfxiqNQpugshDFvtcUrnCASJXLPI',
    long: setOf(
      'dirsfirst filesfirst gitignore noreport prune du si filelimit matchdirs ignore-case sort inodes device charset nolinks timefmt',
    ),
  },
  cd: { flags: 'LPe' },
  pushd: { flags: 'n' },
  popd: { flags: 'n' },
  git: GIT,
};
