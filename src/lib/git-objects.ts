import { spawn } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { ChildProcessByStdio } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { gitCommand, gitFoldersOf } from './git.ts';
import type { GitCommand, GitEnvironment } from './git.ts';

type GitObject = {
  readonly id: string;
  readonly type: 'blob' | 'tree' | 'commit' | 'tag';
  readonly body: Buffer;
};

/** The longest that git may take for one request, in milliseconds. */
const LIMIT_MS = 60_000;
/** The process of git ends after this time without a request, in milliseconds. */
const REST_MS = 60_000;
const MOST_BYTES = 64 * 1_048_576;
const STDERR_TAIL = 4_096;

/**
 * Reads refs and objects of a repository through one process, `git cat-file --batch`, which answers all requests. The
 * process ends after a minute without a request, and when Conch ends. When git's arguments, its environment or the
 * packed refs have changed, the next request starts a new process.
 */
export class GitObjects {
  readonly #folder: string;
  readonly #environment: GitEnvironment;
  #process: BatchProcess | null = null;
  #last: Promise<unknown> = Promise.resolve();

  constructor(folder: string, environment: GitEnvironment) {
    this.#folder = folder;
    this.#environment = environment;
  }

  /**
   * Returns the object that each name has now, in the order of the names; `null` for a name without an object. A name
   * is an id, a full ref or `<commit>:<path>`. A name that ends with `^{commit}` follows tags. A name with a newline
   * gives `null`, because git would read two names. Rejects when git fails or does not answer within 60 s, and for an
   * object over 64 MiB. Rejects also when git's configuration names a program that cannot be switched off.
   */
  async read(names: readonly string[]): Promise<readonly (GitObject | null)[]> {
    const asked = names.filter((name) => !name.includes('\n'));
    const read = this.#last.then(() => this.#read(asked));
    this.#last = read.catch(() => undefined);
    const found = (await read).values();
    return names.map((name) => (name.includes('\n') ? null : (found.next().value ?? null)));
  }

  close(): void {
    void this.#last.then(() => this.#process?.end());
  }

  async #read(names: readonly string[]): Promise<readonly (GitObject | null)[]> {
    if (names.length === 0) return [];
    const command = await gitCommand(this.#folder, this.#environment, ['cat-file', '--batch']);
    const key = JSON.stringify([command, packedRefs(this.#folder)]);
    if (this.#process?.isFor(key) !== true) {
      this.#process?.end();
      this.#process = new BatchProcess(command, key);
    }
    return await this.#process.read(names);
  }
}

/**
 * Returns the state of the files that hold or list packed refs (inode, size and times) as a text to compare. A running
 * git compares times in whole seconds, so git can miss the second of two changes within one second.
 */
function packedRefs(folder: string): string {
  const shared = gitFoldersOf(folder)?.at(-1) ?? folder;
  const states = ['packed-refs', 'reftable/tables.list'].map((name) => {
    const found = statSync(join(shared, name), { bigint: true, throwIfNoEntry: false });
    return `${found?.ino} ${found?.size} ${found?.mtimeNs} ${found?.ctimeNs}`;
  });
  return states.join(' ');
}

class BatchProcess {
  readonly #key: string;
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  #isOver = false;
  #rest: NodeJS.Timeout | undefined;
  #stderr = '';
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** The bytes of output that must have come before the output is read again. */
  #needed = 1;
  #request: { readonly count: number; readonly found: (GitObject | null)[]; end(error?: Error): void } | null = null;

  /** `key`: a text of the command and the state of the packed refs. The process serves requests with the same key. */
  constructor(command: GitCommand, key: string) {
    this.#key = key;
    // A process group of its own: Ctrl-C in a terminal must not end git, because Conch reads objects while it stops.
    const options = { env: command.env, detached: true, stdio: ['pipe', 'pipe', 'pipe'] as ['pipe', 'pipe', 'pipe'] };
    this.#child = spawn('git', command.args, options);
    this.#child.once('error', (error) => this.#fail(error.message));
    this.#child.once('close', () => this.#fail(this.#stderr.trim() || 'it ended'));
    this.#child.stdin.on('error', () => undefined);
    this.#child.stdout.on('data', (chunk: Buffer) => this.#take(chunk));
    this.#child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_TAIL);
    });
    // Only the time limit of a request keeps Conch running.
    const { stdin, stdout, stderr } = this.#child;
    for (const handle of [this.#child, stdin, stdout, stderr]) (handle as unknown as { unref(): void }).unref();
  }

  isFor(key: string): boolean {
    return !this.#isOver && this.#key === key;
  }

  read(names: readonly string[]): Promise<readonly (GitObject | null)[]> {
    clearTimeout(this.#rest);
    return new Promise((resolve, reject) => {
      const limit = setTimeout(() => this.#fail(`no answer within ${LIMIT_MS / 1_000} s`), LIMIT_MS);
      const found: (GitObject | null)[] = [];
      const end = (error?: Error): void => {
        clearTimeout(limit);
        this.#request = null;
        if (!this.#isOver) this.#rest = setTimeout(() => this.end(), REST_MS).unref();
        if (error === undefined) resolve(found);
        else reject(error);
      };
      if (this.#isOver) return reject(new Error(`git cat-file failed: ${this.#stderr}`));
      this.#request = { count: names.length, found, end };
      this.#child.stdin.write(names.map((name) => `${name}\n`).join(''));
    });
  }

  end(): void {
    clearTimeout(this.#rest);
    this.#isOver = true;
    this.#child.stdin.end();
  }

  #fail(why: string): void {
    clearTimeout(this.#rest);
    this.#isOver = true;
    this.#child.kill('SIGKILL');
    this.#request?.end(new Error(`git cat-file failed: ${why}`));
  }

  #take(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    while (this.#request !== null && this.#bytes >= this.#needed) {
      const output = Buffer.concat(this.#chunks);
      this.#chunks = [output];
      const line = output.indexOf('\n');
      if (line === -1) return void (this.#needed = this.#bytes + 1);
      const [, id = '', type, size] =
        /^([0-9a-f]{40,64}) (blob|tree|commit|tag) (\d+)$/.exec(output.toString('latin1', 0, line)) ?? [];
      const length = size === undefined ? 0 : Number(size);
      if (length > MOST_BYTES) return this.#fail(`${id} has more than ${MOST_BYTES} bytes`);
      const end = line + 1 + (size === undefined ? 0 : length + 1);
      if (this.#bytes < end) return void (this.#needed = end);
      const body = Buffer.from(output.subarray(line + 1, line + 1 + length));
      this.#answer(type === undefined ? null : { id, type: type as GitObject['type'], body });
      this.#chunks = [output.subarray(end)];
      this.#bytes = output.length - end;
      this.#needed = 1;
    }
  }

  #answer(object: GitObject | null): void {
    const request = this.#request;
    if (request === null) return;
    request.found.push(object);
    if (request.found.length === request.count) request.end();
  }
}
