import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { z } from 'zod';
import { credentialsIn, missingCredentials } from './adapters.ts';
import { crossCheck } from './check.ts';
import { completeConfig, type Config, type Surround } from './config.ts';
import { demoModel } from './demo.ts';
import { ConfigError, pathText, type Problem } from './error.ts';
import { explain } from './explain.ts';
import { readJson } from './json.ts';
import { fillReferences, placed, type Env, type Filled } from './references.ts';
import { fileSchema, type ConfigFile } from './schema.ts';
import { isSecretName, Secret, withoutSecrets } from './secret.ts';

/** A file's text, and whether everybody on the machine may read it. */
export type FileReading = { readonly text: string; readonly public: boolean };

/** The part of the world that the configuration comes from. */
export type World = {
  readonly env: Env;
  /** Absolute; where `turnConfig.json`, `.env` and `.conch` are looked for. */
  readonly cwd: string;
  /** `null` when there is no such file; throws when there is one that cannot be read as UTF-8. */
  readonly readFile: (path: string) => FileReading | null;
};

/** The world of this process. */
export const thisWorld = (): World => ({ env: process.env, cwd: process.cwd(), readFile: readTextFile });

/**
 * The configuration of the file that CONCH_CONFIG names, else of `./turnConfig.json`, else the built-in demo. The real
 * environment goes before `.env`, both before the file. Throws one `ConfigError` with every problem. Tokens that channels
 * need are a problem when missing, unless only the setup is looked at (`tokens: 'optional'`).
 */
export const loadConfig = (world: World, tokens: 'needed' | 'optional' = 'needed'): Config => {
  const environment = readEnvironment(world);
  const file = findFile(world, environment.env);
  const where = file?.path ?? null;
  const json = readJson(file?.reading.text ?? '{}');
  if (!json.ok) throw new ConfigError(where, [...environment.problems, json.problem]);
  const filled = fillReferences(json.value, environment.env);
  const secrets = [...environment.secrets, ...filled.secrets, ...filled.written];
  const checked = check(filled, secrets);
  const credentials = environment.settings.credentials;
  const missing =
    checked.file === null || tokens === 'optional'
      ? []
      : missingCredentials(checked.file.channels ?? [], credentials, checked.file.adapters.slack.mode);
  const found = [...checked.problems, ...missing];
  const problems = [...json.problems, ...found.map((problem) => placed(problem, json.lineOf))];
  if (checked.file === null || problems.length + environment.problems.length > 0) {
    const all = [...environment.problems, ...inOrder(problems)];
    throw new ConfigError(
      where,
      all.map((problem) => cleared(problem, secrets)),
    );
  }
  const isOpen = file?.reading.public === true && filled.written.length > 0;
  const warnings = [...environment.warnings, ...(isOpen ? [openToAll(file.path)] : [])];
  return completeConfig(checked.file, { ...environment.settings, file: where, secrets, warnings });
};

/** The same from one given file: a file that has gone is a `ConfigError` then, never the demo. */
export const loadConfigFrom = (world: World, path: string): Config =>
  loadConfig({ ...world, env: { ...world.env, CONCH_CONFIG: path } });

type Found = Filled['problems'][number];

const check = (
  filled: Filled,
  secrets: readonly Secret[],
): { readonly file: ConfigFile | null; readonly problems: readonly Found[] } => {
  const parsed = fileSchema.safeParse(filled.value, { reportInput: true });
  const unfilled = new Set(filled.problems.map((problem) => pathText(problem.path)));
  const others = [...(parsed.success ? [] : explain(parsed.error, secrets)), ...crossCheck(filled.value)];
  return {
    file: parsed.success ? parsed.data : null,
    problems: [...filled.problems, ...others.filter((problem) => !unfilled.has(pathText(problem.path)))],
  };
};

const LEVELS = fileSchema.shape.log.unwrap().shape.level.unwrap();

const environmentSchema = z.object({
  CONCH_PORT: z
    .string()
    .regex(/^\d{1,5}$/)
    .transform(Number)
    .pipe(z.int().max(65_535))
    .optional(),
  CONCH_LOG_LEVEL: LEVELS.optional(),
});

type Environment = {
  readonly env: Env;
  readonly problems: readonly Problem[];
  readonly secrets: readonly Secret[];
  readonly warnings: readonly string[];
  readonly settings: Pick<Surround, 'dataDir' | 'port' | 'logLevel' | 'demoModel' | 'credentials'>;
};

const readEnvironment = (world: World): Environment => {
  const path = resolve(world.cwd, '.env');
  const reading = read(world, path);
  const written: Env = reading === null ? {} : parseEnv(reading.text);
  const env = withoutEmpty({ ...written, ...withoutEmpty(world.env) });
  const parsed = environmentSchema.safeParse(env);
  const isOpen = reading?.public === true && Object.keys(withoutEmpty(written)).some(isSecretName);
  return {
    env,
    problems: parsed.success ? [] : parsed.error.issues.map((issue) => environmentProblem(issue, env)),
    secrets: Object.entries(env).flatMap(([name, value]) => (isSecretName(name) && value ? [new Secret(value)] : [])),
    warnings: isOpen ? [openToAll(path)] : [],
    settings: {
      dataDir: resolve(world.cwd, env['CONCH_DATA_DIR'] ?? '.conch'),
      port: parsed.data?.CONCH_PORT ?? null,
      logLevel: parsed.data?.CONCH_LOG_LEVEL ?? null,
      demoModel: demoModel(env),
      credentials: credentialsIn(env),
    },
  };
};

/** A variable that is set to nothing is not set. */
const withoutEmpty = (env: Env): Env => Object.fromEntries(Object.entries(env).filter(([, value]) => value));

const environmentProblem = (issue: z.core.$ZodIssue, env: Env): Problem => {
  const path = issue.path.map(String).join('.');
  const expected = path === 'CONCH_PORT' ? 'a port from 0 to 65535' : `one of ${LEVELS.options.join(', ')}`;
  return { path, line: null, message: `Expected ${expected}, got "${env[path]}": change the environment or .env` };
};

const findFile = (world: World, env: Env): { readonly path: string; readonly reading: FileReading } | null => {
  const named = env['CONCH_CONFIG'];
  const path = resolve(world.cwd, named ?? 'turnConfig.json');
  const reading = read(world, path);
  if (reading !== null) return { path, reading };
  if (named === undefined) return null;
  const message = `There is no file ${path}: correct CONCH_CONFIG, or take it away to use turnConfig.json or the demo`;
  throw new ConfigError(path, [{ path: 'CONCH_CONFIG', line: null, message }]);
};

const read = (world: World, path: string): FileReading | null => {
  try {
    return world.readFile(path);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError(path, [{ path: '', line: null, message: `It cannot be read: ${reason}` }], { cause });
  }
};

const readTextFile = (path: string): FileReading | null => {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode;
  if (mode === undefined) return null;
  const isPublic = process.platform !== 'win32' && (mode & 0o004) !== 0;
  return { text: new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path)), public: isPublic };
};

const inOrder = (problems: readonly Problem[]): readonly Problem[] =>
  problems.toSorted((one, other) => (one.line ?? 0) - (other.line ?? 0));

const cleared = (problem: Problem, secrets: readonly Secret[]): Problem => ({
  ...problem,
  message: withoutSecrets(problem.message, secrets),
});

const openToAll = (path: string): string =>
  `${path} holds secrets and everybody on this machine can read it: run chmod 600 ${path}`;
