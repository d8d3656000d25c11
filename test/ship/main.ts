import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { packAll, packConch } from '../../ship/packed.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { startDemo } from './demo.ts';
import { binOf, emptyProject, forgetRuns, install, installedSize } from './npm.ts';
import { unitScore } from './unit-score.ts';

/**
 * `npm run ship`: packs Conch, installs the packed files in empty folders, and uses them as people do. `--json`: prints
 * one line of JSON. `--old-node`: names a Node older than 22.18. npm's cache is filled before times are measured.
 */
const { values } = parseArgs({ options: { json: { type: 'boolean' }, 'old-node': { type: 'string' } } });
const dir = realpathSync(mkdtempSync(join(tmpdir(), 'conch-ship-')));
const VERSIONS = ['1.0.0', '1.0.1', '1.0.2'] as const;
/** The number of warm starts. Counts the fastest: other work on the machine only delays a start. */
const WARM_STARTS = 5;
/** The upper limits. */
const LIMITS = { packageKB: 3_000, installedMB: 150, coldDemoS: 20, warmDemoS: 1, unitScore: 3 } as const;

try {
  const report = await measured();
  const faults = faultsOf(report);
  if (values.json !== true) for (const [name, value] of Object.entries(report)) tell(`${name}: ${value}`);
  for (const fault of faults) process.stderr.write(`${fault}\n`);
  if (values.json === true) tell(JSON.stringify(report));
  process.exitCode = faults.length === 0 ? 0 : 1;
} finally {
  forgetRuns(dir);
  rmSync(dir, { recursive: true, force: true });
}

type Report = Awaited<ReturnType<typeof measured>>;

async function measured() {
  step('packs');
  const [first, second, third] = VERSIONS;
  const [conch, agent] = await packAll({ out: dir, version: first });
  const updates: string[] = [];
  for (const version of [second, third]) updates.push((await packConch({ out: dir, version, rebuilds: false })).file);
  step('installs for production, without scripts');
  const folder = emptyProject(join(dir, 'production'));
  const env = { NODE_ENV: 'production' };
  install(folder, [conch.file, agent.file], { flags: ['--omit=dev'], env });
  const size = installedSize(folder);
  const scriptless = emptyProject(join(dir, 'scriptless'));
  install(scriptless, [conch.file], { flags: ['--ignore-scripts', '--omit=optional'] });
  const olderNode = isOldNodeTold(folder);
  step('starts the demo cold and warm');
  const coldDemoS = await coldStart(conch.file);
  const warmDemoS = await warmStart(folder);
  step('talks with the demo');
  const production = (await works(folder, env)) && isAgentThere(folder);
  const ignoreScripts = await works(scriptless, {});
  step('updates while data is there, and while it runs');
  const updateKeepsData = await keepsData(folder, updates);
  const times = { coldDemoS, warmDemoS };
  const truths = { production, ignoreScripts, olderNode, updateKeepsData };
  return { packageKB: conch.packedKB, ...size, ...times, ...truths, unitScore: unitScore() };
}

/** Seconds until the page answers when `npx` installs the packed file from npm's cache, with nothing compiled. */
async function coldStart(file: string): Promise<number> {
  const demo = await startDemo(emptyFolder('cold'), ['npx', '--yes', '--offline', '--package', file, 'conch']);
  await demo.stop();
  return rounded(demo.answersAfterS);
}

/** Seconds until the page answers when Conch is installed and has run before. The fastest of several starts. */
async function warmStart(folder: string): Promise<number> {
  const times: number[] = [];
  for (let count = 0; count <= WARM_STARTS; count += 1) {
    const demo = await startDemo(folder, [binOf(folder)]);
    await demo.stop();
    if (count > 0) times.push(demo.answersAfterS);
  }
  return rounded(Math.min(...times));
}

/** True when the demo runs in a folder and its agents answer. */
async function works(folder: string, env: Readonly<Record<string, string>>): Promise<boolean> {
  const demo = await startDemo(folder, ['npx', 'conch'], env);
  try {
    await demo.say('pm: pass');
    return demo.out().includes('npx conch open');
  } finally {
    await demo.stop();
  }
}

function isAgentThere(folder: string): boolean {
  const { status, stdout, stderr } = spawnSync(binOf(folder, 'conch-agent'), ['--help'], { encoding: 'utf8' });
  return status === 0 && `${stdout}${stderr}`.includes('conch-agent');
}

/** True when both programs name an old Node in one line; `null` without an older Node here. */
function isOldNodeTold(folder: string): boolean | null {
  const node = oldNode();
  if (node === null) return null;
  return ['conch', 'conch-agent'].every((name) => {
    const { status, stderr, stdout } = spawnSync(node, [realpathSync(binOf(folder, name))], { encoding: 'utf8' });
    const isOneLine = stdout === '' && stderr.trim().split('\n').length === 1;
    return status === EXIT_CODES.oldNode && isOneLine && stderr.includes('needs Node 22.18 or newer');
  });
}

function oldNode(): string | null {
  const places = [values['old-node'] ?? [], '/usr/bin/node', '/usr/local/bin/node'].flat();
  return (
    places.find((path) => {
      if (!existsSync(path)) return false;
      const [major = 0, minor = 0] = spawnSync(path, ['-p', 'process.versions.node'], { encoding: 'utf8' })
        .stdout.split('.')
        .map(Number);
      return major < 22 || (major === 22 && minor < 18);
    }) ?? null
  );
}

/** True when all messages are there after an update, and after an update of a running Conch. */
async function keepsData(folder: string, [next = '', last = '']: readonly string[]): Promise<boolean> {
  const before = await startDemo(folder, [binOf(folder)]);
  await before.say('pm: pass, said before the update');
  await before.stop();
  install(folder, [next]);
  const between = await startDemo(folder, [binOf(folder)]);
  const kept = await between.texts();
  install(folder, [last]);
  await between.say('pm: pass, said after the update of files');
  await between.stop();
  const after = await startDemo(folder, [binOf(folder)]);
  const texts = await after.texts();
  await after.stop();
  const verified = spawnSync(binOf(folder), ['verify'], { cwd: folder, encoding: 'utf8' });
  const version = spawnSync(binOf(folder), ['--version'], { encoding: 'utf8' }).stdout.trim();
  const hasBoth = ['said before the update', 'said after the update of files'].every((words) =>
    texts.some((text) => text.includes(words)),
  );
  return (
    kept.some((text) => text.includes('said before')) && hasBoth && verified.status === 0 && version === VERSIONS[2]
  );
}

function faultsOf(report: Report): readonly string[] {
  const found = Object.entries(report);
  const above = found.flatMap(([name, value]) => {
    const most = Object.entries(LIMITS).find(([each]) => each === name)?.[1];
    return most !== undefined && typeof value === 'number' && value > most
      ? [`${name} is ${value}, above ${most}.`]
      : [];
  });
  return [...above, ...found.flatMap(([name, value]) => (value === false ? [`${name} is false.`] : []))];
}

function emptyFolder(name: string): string {
  return emptyProject(join(dir, name));
}

/** Prints the present step and the load of the machine, because the measured times depend on it. */
function step(words: string): void {
  process.stderr.write(`${words} (load ${(loadavg()[0] ?? 0).toFixed(1)} on ${availableParallelism()} cores)\n`);
}

function tell(line: string): void {
  process.stdout.write(`${line}\n`);
}

function rounded(seconds: number): number {
  return Math.round(seconds * 100) / 100;
}
