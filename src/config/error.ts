/** One thing that is wrong in the configuration: where, and what to do about it. */
export type Problem = {
  /** As people write it: `channels[0].agents[2]`, an environment variable's name, or empty for the file as a whole. */
  readonly path: string;
  /** Line in the file, from 1; `null` when the problem has no place there. */
  readonly line: number | null;
  readonly message: string;
};

/** A problem whose place in the file is not looked up yet. */
export type Found = {
  readonly path: readonly PropertyKey[];
  readonly message: string;
  /** `absent`: this machine lacks it for now. `unwise`: it works, and is hardly meant. Else nothing can start with it. */
  readonly weight?: 'absent' | 'unwise' | undefined;
};

/** Takes a problem: its path, below the place that is checked, and what to do about it. */
export type Tell = (path: Found['path'], message: string, weight?: Found['weight']) => void;

/** Takes problems of a place inside what is checked. */
export const below =
  (tell: Tell, ...place: Found['path']): Tell =>
  (path, message, weight) =>
    tell([...place, ...path], message, weight);

/** The configuration cannot be used. It lists every problem; the user is at fault, so nobody needs its stack. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  /** The file in question; `null` when the environment is at fault and there is no file. */
  readonly file: string | null;
  readonly problems: readonly Problem[];

  constructor(file: string | null, problems: readonly Problem[], options: { readonly cause?: unknown } = {}) {
    super(describe(file, problems), options);
    this.file = file;
    this.problems = problems;
  }
}

/** A key's path as people write it: `['channels', 0, 'agents', 2]` is `channels[0].agents[2]`. */
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

/** A problem as one line: its line in the file, its path, what to do. */
export const lineText = ({ path, line, message }: Problem): string =>
  [line === null ? '' : `line ${line}: `, path === '' ? '' : `${path}: `, message].join('');
