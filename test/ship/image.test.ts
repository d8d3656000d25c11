import { execFileSync } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { validate } from 'dockerfile-utils';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import packageJson from '../../package.json' with { type: 'json' };
import { bundle, neededPackages } from '../../ship/bundle.ts';
import { packConch } from '../../ship/packed.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { freePort, isReady } from '../kill/bot.ts';
import { build, missing, removeImage, startIn, stepsOf, volumeOwner } from './image.ts';
import type { Container, Image } from './image.ts';

const ROOT = new URL('../..', import.meta.url).pathname;
const DOCKERFILE = join(ROOT, 'ship/Dockerfile');

describe('the Dockerfile', () => {
  const steps = stepsOf(DOCKERFILE);
  const argumentsOf = (keyword: string) => steps.filter((step) => step.keyword === keyword).map(({ text }) => text);

  test('passes its linter', () => {
    expect(validate(readFileSync(DOCKERFILE, 'utf8'))).toEqual([]);
    expect(validate('FROM node\nRUNN x\n').length).toBe(1);
  });

  test('starts from the Node that the project is tested with', () => {
    expect(argumentsOf('FROM')).toEqual([`node:${packageJson.devDependencies.node}-bookworm-slim`]);
  });

  test('runs as a numeric user, in exec form, with a volume and a health check', () => {
    expect([argumentsOf('USER'), argumentsOf('VOLUME'), argumentsOf('STOPSIGNAL')]).toEqual([
      ['10001:10001'],
      ['/data'],
      ['SIGTERM'],
    ]);
    for (const keyword of ['ENTRYPOINT', 'CMD'])
      expect(argumentsOf(keyword)).toEqual([expect.stringMatching(/^\[".*"\]$/)]);
    expect(argumentsOf('HEALTHCHECK')[0]).toMatch(/CMD \["node", .*\/livez/);
  });
});

test.each(['compose.yaml', 'compose.postgres.yaml'])("%s starts Conch protected, on the machine's network", (name) => {
  const { services, volumes } = parse(readFileSync(join(ROOT, 'ship', name), 'utf8'));
  expect(services.conch).toMatchObject({ read_only: true, cap_drop: ['ALL'], network_mode: 'host', init: true });
  expect(services.conch.security_opt).toEqual(['no-new-privileges:true']);
  const named = [services.conch, services.database].flatMap((each) => each?.volumes ?? []);
  const own = named.map((each: string) => each.split(':')[0] ?? '').filter((each: string) => /^\w+$/.test(each));
  expect(own).toEqual(Object.keys(volumes));
});

describe('the packages of the image', () => {
  const none = { optionalDependencies: {}, peerDependencies: {}, peerDependenciesMeta: {} };
  const needs = (...names: readonly string[]) => ({
    ...none,
    dependencies: Object.fromEntries(names.map((each) => [each, '1'])),
  });

  test('are exactly those that Node finds from each package', () => {
    const packages = {
      'node_modules/a': needs('b'),
      'node_modules/a/node_modules/b': needs('c'),
      'node_modules/b': needs(),
      'node_modules/c': { ...needs(), optionalDependencies: { windows: '1' } },
      'node_modules/unused': needs(),
    };
    expect(neededPackages(needs('a'), { packages })).toEqual([
      'node_modules/a',
      'node_modules/a/node_modules/b',
      'node_modules/c',
    ]);
  });

  test('must all be in the lock file', () => {
    expect(() => neededPackages(needs('lost'), { packages: {} })).toThrow('has no lost for Conch. Run: npm install');
  });

  test('come with a packed file, which must exist', () => {
    expect(() => bundle('/nowhere/conch.tgz', tmpdir())).toThrow('There is no file /nowhere/conch.tgz. Make it with');
  });
});

/** A running container. */
type Running = { readonly child: ChildProcess; readonly out: () => string; readonly err: () => string };

function watched(child: ChildProcess): Running {
  const [out, err]: [string[], string[]] = [[], []];
  child.stdout?.on('data', (part: Buffer) => void out.push(part.toString()));
  child.stderr?.on('data', (part: Buffer) => void err.push(part.toString()));
  return { child, out: () => out.join(''), err: () => err.join('') };
}

async function endOf({ child }: Running): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'close');
  return child.exitCode;
}

describe.skipIf(missing() !== null)('an image, built by its steps in a clean folder without a network', () => {
  const work = mkdtempSync(join(tmpdir(), 'conch-ship-'));
  let image: Image;

  beforeAll(async () => {
    const { file } = await packConch({ out: work, version: packageJson.version, rebuilds: false });
    execFileSync('npm', ['run', '--silent', 'bundle', '--', file, join(work, 'context')], { cwd: ROOT });
    image = build(join(work, 'context'));
  }, 300_000);
  afterAll(() => {
    if (image !== undefined) removeImage(image);
    rmSync(work, { recursive: true, force: true });
  });

  const volume = (uid: number): string => {
    const data = mkdtempSync(join(work, 'volume-'));
    chmodSync(data, 0o755);
    chownSync(data, uid, uid);
    return data;
  };
  const started = (container: Container, words?: readonly string[]) => watched(startIn(image, container, words));

  test('gives a new volume only to its user', () => {
    expect(volumeOwner(image)).toEqual({ uid: 10_001, gid: 10_001, mode: 0o700 });
  });

  test('has the packages that Conch needs, and no packages for tests', () => {
    expect(existsSync(join(image.root, 'opt/conch/node_modules/better-sqlite3'))).toBe(true);
    expect(existsSync(join(image.root, 'opt/conch/node_modules/vitest'))).toBe(false);
  });

  test('starts with a read-only root, is healthy, keeps its data in the volume and ends with code 0', async () => {
    const port = await freePort();
    const container = { data: volume(10_001), env: { CONCH_PORT: String(port) } };
    expect(await endOf(started(container, image.health))).toBe(1);
    const bot = started(container);
    await expect.poll(() => isReady(port), { message: 'it is ready' }).toBe(true);
    expect(await endOf(started(container, image.health))).toBe(0);
    expect(bot.out()).toContain(`Open the page: http://127.0.0.1:${port}/?key=`);
    const opened = started(container, ['conch', 'open']);
    expect([await endOf(opened), opened.out()]).toEqual([0, expect.stringContaining(`:${port}/?key=`)]);
    // bubblewrap forwards no signals. The program in it is its only child.
    const pids = execFileSync('pgrep', ['-f', `^node .*conch start`], { encoding: 'utf8' }).split('\n').filter(Boolean);
    const own = pids.filter((pid) => readFileSync(`/proc/${pid}/environ`, 'utf8').includes(`CONCH_PORT=${port}\0`));
    for (const pid of own) process.kill(Number(pid), 'SIGTERM');
    expect([own.length, await endOf(bot)]).toEqual([1, 0]);
    expect(existsSync(join(container.data, 'conch.db'))).toBe(true);
  });

  test('ends with code 8 and the chown command when the volume belongs to root', async () => {
    const bot = started({ data: volume(0) });
    expect([await endOf(bot), bot.err()]).toEqual([
      EXIT_CODES.diskFull,
      '/data belongs to user 0, and Conch runs as user 10001, who cannot write to it. Run as root: chown -R 10001:10001 "/data"\n',
    ]);
  });
});
