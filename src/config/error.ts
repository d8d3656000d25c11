/** A problem of the configuration. */
export type Problem = {
  /** A path in the file such as `channels[0].agents[2]`, or the name of a variable; empty for the whole file. */
  readonly path: string;
  /** The line in the file, from 1; `null` when the problem is not in the file. */
  readonly line: number | null;
  readonly message: string;
};

/** A problem before its line is looked up. */
export type PathProblem = {
  readonly path: readonly PropertyKey[];
  readonly message: string;
  /**
   * `absent`: missing on this machine for now. `unwise`: allowed but probably a mistake. A problem without a weight
   * keeps Conch from starting.
   */
  readonly weight?: 'absent' | 'unwise' | undefined;
};

/** Reports a problem: its path below the checked value, the message, and the weight. */
export type Tell = (path: PathProblem['path'], message: string, weight?: PathProblem['weight']) => void;

/** Returns a function that reports problems of one part of the checked value. `place`: the path of that part. */
export const below =
  (tell: Tell, ...place: PathProblem['path']): Tell =>
  (path, message, weight) =>
    tell([...place, ...path], message, weight);

/** Thrown when the configuration cannot be used. The message lists every problem. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  /** The file that cannot be used: the configuration file or `.env`; `null` for the built-in demo. */
  readonly file: string | null;
  readonly problems: readonly Problem[];

  constructor(file: string | null, problems: readonly Problem[], options: { readonly cause?: unknown } = {}) {
    super(describe(file, problems), options);
    this.file = file;
    this.problems = problems;
  }
}

/** Formats a path: `['channels', 0, 'agents', 2]` becomes `channels[0].agents[2]`. */
export const pathText = (path: readonly PropertyKey[]): string =>
  path
    .map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`))
    .join('')
    .replace(/^\./, '');

const describe = (file: string | null, problems: readonly Problem[]): string => {
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
  return [`${file ?? 'The configuration'} has ${count}:`, ...problems.map((problem) => `  ${lineText(problem)}`)].join(
    '\n',
  );
};

/** Formats a problem: its line, its path, the message. */
export const lineText = ({ path, line, message }: Problem): string =>
  [line === null ? '' : `line ${line}: `, path === '' ? '' : `${path}: `, message].join('');
