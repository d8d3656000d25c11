import { execFile, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { documents, ROOT } from '../docs/documents.ts';
import { freePort } from '../kill/bot.ts';
import { until } from './network.ts';

type Block = { readonly language: string; readonly text: string };

/** Follows a document step by step: runs its code blocks in a new folder with links to the project. */
export class Guide {
  readonly name: string;
  readonly text: string;
  /** The document's code blocks, in order, without the list's indentation. */
  readonly blocks: readonly Block[];
  readonly dir = mkdtempSync(join(tmpdir(), 'conch-docs-'));
  #env: NodeJS.ProcessEnv = {};
  #at = 0;
  #running: ChildProcess | null = null;
  #log = '';

  constructor(name: string) {
    this.name = name;
    this.text = documents().find((document) => document.name === name)?.text ?? '';
    this.blocks = Array.from(
      this.text.matchAll(/^( *)```(\w+)\n([\s\S]*?)^\1```$/gm),
      ([, indent = '', language = '', body = '']) => ({
        language,
        text: body.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
      }),
    );
    copyFileSync(`${ROOT}package.json`, join(this.dir, 'package.json'));
    for (const each of ['src', 'node_modules']) symlinkSync(`${ROOT}${each}`, join(this.dir, each));
  }

  /** Sets the environment of all blocks: PATH, HOME, a free CONCH_PORT and `env`. */
  async prepare(env: Readonly<Record<string, string>>): Promise<void> {
    const { PATH, HOME } = process.env;
    this.#env = { PATH, HOME, CONCH_PORT: String(await freePort()), ...env };
  }

  /** The port of the page. */
  get port(): number {
    return Number(this.#env['CONCH_PORT']);
  }

  /** The data folder. */
  get dataDir(): string {
    return join(this.dir, '.conch');
  }

  /** The output of the running program since its start. */
  get log(): string {
    return this.#log;
  }

  /** Whether every block was used. */
  get isDone(): boolean {
    return this.#at === this.blocks.length;
  }

  /** Returns the next block. Throws unless it has this language and contains `says`. */
  next(language: string, says: string): string {
    const block = this.blocks[this.#at];
    this.#at += 1;
    if (block?.language !== language || !block.text.includes(says))
      throw new Error(`Block ${this.#at} of ${this.name} is not ${language} with "${says}"`);
    return block.text;
  }

  /** Returns a text with its placeholders replaced. Throws when a placeholder is missing. */
  filled(text: string, values: Readonly<Record<string, string>>): string {
    return Object.entries(values).reduce((whole, [placeholder, value]) => {
      if (!whole.includes(placeholder)) throw new Error(`${this.name} has no "${placeholder}" any more`);
      return whole.replaceAll(placeholder, value);
    }, text);
  }

  /** Runs a block in the folder. Resolves with its standard output, rejects when it fails. */
  async run(block: string): Promise<string> {
    const { stdout } = await promisify(execFile)('sh', ['-e', '-c', block], {
      cwd: this.dir,
      env: this.#env,
      encoding: 'utf8',
    });
    return stdout;
  }

  /** Runs a shell block of the docs that starts Conch. Resolves when Conch is ready; rejects with its log after 60 s. */
  async begin(block: string): Promise<void> {
    this.#log = '';
    const child = spawn('sh', ['-c', block], {
      cwd: this.dir,
      env: this.#env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#running = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => (this.#log += text));
    }
    await until(() => /"?ready"?/.test(this.#log), 'a start').catch((error: unknown) => {
      throw new Error(this.#log, { cause: error });
    });
  }

  /** Ends the running program and all its processes with SIGTERM, and waits for their end. */
  async end(): Promise<void> {
    const ending = this.#running;
    this.#running = null;
    if (ending?.pid === undefined || ending.exitCode !== null) return;
    const group = -ending.pid;
    process.kill(group, 'SIGTERM');
    await until(() => !isThere(group), 'the end of all its processes');
  }

  /** Ends the running program and removes the folder. */
  async close(): Promise<void> {
    await this.end();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

function isThere(group: number): boolean {
  try {
    return process.kill(group, 0);
  } catch {
    return false;
  }
}
