import { resolve } from 'node:path';
import { checkAgents, checkPrices } from './checks/check-agents.ts';
import { checkCredentials, checkPlatforms } from './checks/check-platforms.ts';
import { checkRules, checkServers } from './checks/check-tools.ts';
import { crossCheck } from './checks/cross-check.ts';
import { draftOf } from './checks/draft.ts';
import { completeConfig } from './config.ts';
import type { Config } from './config.ts';
import { openToAll, readEnvironment } from './environment.ts';
import type { Environment } from './environment.ts';
import { ConfigError, lineText, pathText } from './error.ts';
import type { PathProblem, Problem, Tell } from './error.ts';
import { explain } from './explain.ts';
import { readJson } from './json.ts';
import { checkParts } from './parts.ts';
import { fileSchema } from './schema.ts';
import type { ConfigFile } from './schema.ts';
import { fillReferences, withoutSecrets } from './secret.ts';
import type { Filled, Secret } from './secret.ts';
import { readIn } from './world.ts';
import type { Env, FileReading, Purpose, World } from './world.ts';

/**
 * Loads the file that CONCH_CONFIG names, else `./turnConfig.json`, else the built-in demo. The environment overrides
 * `.env`. CONCH_PORT and CONCH_LOG_LEVEL override the file. Throws one `ConfigError` with all problems that are found.
 */
export const loadConfig = (world: World, purpose: Purpose = 'start'): Config => {
  const environment = readEnvironment(world);
  const file = findFile(world, environment.env);
  const where = file?.path ?? null;
  const json = readJson(file?.reading.text ?? '{}');
  if (!json.ok) throw new ConfigError(where, [...environment.problems, json.problem]);
  const filled = fillReferences(json.value, environment.env);
  const secrets = [...environment.secrets, ...filled.secrets, ...filled.written];
  const checked = check(filled, { world, environment, secrets, purpose });
  const all = checked.problems.map(({ weight, ...problem }) => ({ ...placed(problem, json.lineOf), weight }));
  const isGrave = ({ weight }: { readonly weight: PathProblem['weight'] | undefined }) =>
    weight === undefined || (weight === 'absent' && purpose === 'check');
  const isDemo = checked.file?.agents === undefined;
  const around = isDemo ? environment.demoProblems : [];
  const problems = [...environment.problems, ...around, ...inOrder([...json.problems, ...all.filter(isGrave)])];
  const cleared = (problem: Problem) => ({ ...problem, message: withoutSecrets(problem.message, secrets) });
  if (checked.file === null || problems.length > 0) throw new ConfigError(where, problems.map(cleared));
  const isOpen = file?.reading.public === true && filled.written.length > 0;
  const unwise = inOrder(all).map((problem) => lineText(cleared(problem)));
  const ofDemo = isDemo ? environment.demoWarnings : [];
  const warnings = [...environment.warnings, ...ofDemo, ...(isOpen ? [openToAll(file.path)] : []), ...unwise];
  return completeConfig(checked.file, { ...environment.settings, file: where, secrets, warnings });
};

/**
 * Loads the file at `path` for the purpose `start`. Throws a `ConfigError` when the file is missing or has problems.
 */
export const loadConfigFrom = (world: World, path: string): Config =>
  loadConfig({ ...world, env: { ...world.env, CONCH_CONFIG: path } });

const placed = (problem: PathProblem, lineOf: (path: readonly PropertyKey[]) => number): Problem => ({
  path: pathText(problem.path),
  line: lineOf(problem.path),
  message: problem.message,
});

type Around = {
  readonly world: World;
  readonly environment: Environment;
  readonly secrets: readonly Secret[];
  readonly purpose: Purpose;
};

const check = (
  filled: Filled,
  around: Around,
): { readonly file: ConfigFile | null; readonly problems: readonly PathProblem[] } => {
  const { world, environment, secrets, purpose } = around;
  const parsed = fileSchema.safeParse(filled.value, { reportInput: true });
  const file = parsed.success ? parsed.data : null;
  const problemsHere: PathProblem[] = parsed.success ? [] : [...explain(parsed.error, secrets)];
  const tell: Tell = (path, message, weight) => problemsHere.push({ path, message, weight });
  const draft = draftOf(filled.value);
  const machine = { env: environment.env, world, purpose };
  crossCheck(draft, tell);
  checkAgents(draft, machine, tell);
  checkServers(draft, machine, tell);
  checkRules(draft, tell);
  if (file !== null) checkFile(file, around, tell);
  const unfilled = new Set(filled.problems.map((problem) => pathText(problem.path)));
  const problems = [...filled.problems, ...problemsHere.filter((problem) => !unfilled.has(pathText(problem.path)))];
  return { file, problems: [...problems, ...filled.tokens] };
};

/** Runs the checks that need a file which the schema accepts. */
const checkFile = (file: ConfigFile, { world, environment, purpose }: Around, tell: Tell): void => {
  const { credentials, port } = environment.settings;
  checkPlatforms(file, { world, port }, tell);
  checkPrices(file, tell);
  if (purpose === 'look') return;
  checkCredentials(file, credentials, tell);
  checkParts(file, world, tell);
};

const findFile = (world: World, env: Env): { readonly path: string; readonly reading: FileReading } | null => {
  const configName = env['CONCH_CONFIG'];
  const path = resolve(world.cwd, configName ?? 'turnConfig.json');
  const reading = readIn(world, path);
  if (reading !== null) return { path, reading };
  if (configName === undefined) return null;
  const message = `There is no file ${path}: correct CONCH_CONFIG, or unset it to use turnConfig.json or the demo`;
  throw new ConfigError(path, [{ path: 'CONCH_CONFIG', line: null, message }]);
};

const inOrder = <Placed extends Problem>(problems: readonly Placed[]): readonly Placed[] =>
  problems.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0));
