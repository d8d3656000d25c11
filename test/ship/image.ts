import { execFileSync, spawn, spawnSync } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { DockerfileParser } from 'dockerfile-ast';
import type { JSONInstruction } from 'dockerfile-ast';

/** An instruction of a Dockerfile: its keyword, and its arguments as they are written. */
export type Step = { readonly keyword: string; readonly text: string; readonly words: readonly string[] };

/** The instructions of a Dockerfile. `words`: the words of an exec form, else those between blanks. */
export function stepsOf(file: string): readonly Step[] {
  const read = DockerfileParser.parse(readFileSync(file, 'utf8'));
  return read.getInstructions().map((each) => {
    const text = each.getArgumentsContent() ?? '';
    const json = 'getJSONStrings' in each ? (each as JSONInstruction).getJSONStrings() : [];
    const words = json.length > 0 ? json.map((one) => String(JSON.parse(one.getValue()))) : text.split(/\s+/);
    return { keyword: each.getKeyword(), text, words };
  });
}

/** The settings of an image for its containers. */
export type Image = {
  readonly root: string;
  readonly env: Readonly<Record<string, string>>;
  readonly folder: string;
  readonly user: string;
  readonly volume: string;
  readonly health: readonly string[];
  readonly command: readonly string[];
};

/** The reason why image steps cannot run here; `null` when they can. */
export function missing(): string | null {
  if (process.getuid?.() !== 0) return 'only root can make users';
  const tried = spawnSync('bwrap', ['--ro-bind', '/', '/', '--unshare-net', 'true']);
  return tried.status === 0 ? null : 'bubblewrap cannot make namespaces';
}

/**
 * Runs the steps of a Dockerfile in a new folder that has only the programs of this machine. The steps run as root
 * without a network, as in `docker build --network=none`. Throws when a step fails.
 */
export function build(context: string): Image {
  const root = mkdtempSync(join(tmpdir(), 'conch-image-'));
  chmodSync(root, 0o755);
  layBase(root);
  const env: Record<string, string> = {};
  let image: Image = { root, env, folder: '/', user: '0:0', volume: '', health: [], command: [] };
  for (const step of stepsOf(join(context, 'Dockerfile'))) image = carriedOut(step, image, { context, env });
  return image;
}

/** The image after a step. `env`: gets the image's variables. */
function carriedOut(
  { keyword, text, words }: Step,
  image: Image,
  { context, env }: { readonly context: string; readonly env: Record<string, string> },
): Image {
  const [first = '', second = ''] = words;
  switch (keyword) {
    case 'RUN':
      run(image, text.startsWith('[') ? words : ['sh', '-c', text]);
      return image;
    case 'ADD':
      execFileSync('tar', ['-xzf', resolve(context, first), '-C', join(image.root, second)]);
      return image;
    case 'COPY':
      cpSync(resolve(context, first), join(image.root, second), { recursive: true });
      return image;
    case 'ENV':
      for (const word of words) env[word.slice(0, word.indexOf('='))] = word.slice(word.indexOf('=') + 1);
      return image;
    case 'WORKDIR':
      mkdirSync(join(image.root, first), { recursive: true });
      return { ...image, folder: first };
    case 'USER':
      return { ...image, user: first };
    case 'VOLUME':
      return { ...image, volume: first };
    case 'HEALTHCHECK':
      return { ...image, health: execForm(text) };
    case 'ENTRYPOINT':
      return { ...image, command: words };
    case 'CMD':
      return { ...image, command: [...image.command, ...words] };
    case 'FROM':
    case 'STOPSIGNAL':
      return image;
    default:
      throw new Error(`The step ${keyword} is not known here. Add it to test/ship/image.ts.`);
  }
}

/** This machine's folders that replace those of the base image. */
const PROGRAMS = ['/bin', '/sbin', '/lib', '/lib64', '/usr/bin', '/usr/sbin', '/usr/lib'].filter((path) =>
  existsSync(path),
);

function layBase(root: string): void {
  for (const folder of ['opt', 'etc', 'tmp', 'proc', 'dev', 'usr/local/bin', ...PROGRAMS.map((path) => path.slice(1))])
    mkdirSync(join(root, folder), { recursive: true });
  const etc: Readonly<Record<string, string>> = {
    passwd: 'root:x:0:0:root:/root:/bin/sh\n',
    group: 'root:x:0:\n',
    shadow: 'root:*:1::::::\n',
    gshadow: 'root:*::\n',
    'login.defs': 'UID_MAX 60000\nGID_MAX 60000\n',
  };
  for (const [name, text] of Object.entries(etc)) writeFileSync(join(root, 'etc', name), text);
  writeFileSync(join(root, 'usr/local/bin/node'), '');
}

/** The arguments of bubblewrap for the folder of an image, with the programs of this machine and this Node. */
function inRoot({ root, env, folder }: Image, bind: '--bind' | '--ro-bind'): readonly string[] {
  const programs = PROGRAMS.flatMap((path) => ['--ro-bind', path, path]);
  const variables = { PATH: '/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin', ...env };
  const set = Object.entries(variables).flatMap(([name, value]) => ['--setenv', name, value]);
  const node = ['--ro-bind', process.execPath, '/usr/local/bin/node'];
  const own = ['--dev', '/dev', '--proc', '/proc', '--tmpfs', '/tmp', '--chmod', '1777', '/tmp', '--chdir', folder];
  const namespaces = ['--die-with-parent', '--unshare-pid', '--unshare-ipc', '--cap-add', 'ALL', '--clearenv'];
  return [...namespaces, bind, root, '/', ...programs, ...node, ...own, ...set];
}

function run(image: Image, words: readonly string[]): void {
  execFileSync('bwrap', [...inRoot(image, '--bind'), '--unshare-net', '--', ...words], { stdio: 'pipe' });
}

/** The words of the exec form at the end of a HEALTHCHECK. */
function execForm(text: string): readonly string[] {
  return (JSON.parse(text.slice(text.indexOf('CMD') + 3)) as readonly unknown[]).map(String);
}

/** The start options of a container. `data`: the folder for the volume. */
export type Container = { readonly data: string; readonly env?: Readonly<Record<string, string>> };

/**
 * Starts a program in a container of an image: as the image's user, with a read-only root, the volume and its own
 * `/tmp`, on the network of this machine.
 */
export function startIn(image: Image, { data, env = {} }: Container, words = image.command): ChildProcess {
  const [uid = '', gid = ''] = image.user.split(':');
  const own = { ...image, env: { ...image.env, ...env } };
  const as = ['setpriv', '--reuid', uid, '--regid', gid, '--clear-groups', '--no-new-privs', '--bounding-set=-all'];
  const mounts = [...inRoot(own, '--ro-bind'), '--bind', data, image.volume];
  return spawn('bwrap', [...mounts, '--', ...as, '--', ...words], { stdio: ['ignore', 'pipe', 'pipe'] });
}

/** The owner of a new volume: the owner of its folder in the image. */
export function volumeOwner({ root, volume }: Image): {
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
} {
  const { uid, gid, mode } = statSync(join(root, volume));
  return { uid, gid, mode: mode & 0o777 };
}

/** Deletes the folder of an image. */
export function removeImage({ root }: Image): void {
  rmSync(root, { recursive: true, force: true });
}
