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

/** A document that is followed step by step: its own blocks are run in a fresh folder that holds the project. */
export class Guide {
  readonly name: string;
  readonly text: string;
  /** What stands between fences in the document, in order, without the indentation of its list. */
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

  /** Sets the variables that point at the loopback platform. */
  async prepare(env: Readonly<Record<string, string>>): Promise<void> {
    const { PATH, HOME } = process.env;
    this.#env = { PATH, HOME, CONCH_PORT: String(await freePort()), ...env };
  }

  /** Where the page is. */
  get port(): number {
    return Number(this.#env['CONCH_PORT']);
  }

  /** Where its data is. */
  get dataDir(): string {
    return join(this.dir, '.conch');
  }

  /** What the running program printed since it was begun. */
  get log(): string {
    return this.#log;
  }

  /** Whether every block was used. */
  get isDone(): boolean {
    return this.#at === this.blocks.length;
  }

  /** The block that is next, of this language, which says this. */
  next(language: string, says: string): string {
    const block = this.blocks[this.#at];
    this.#at += 1;
    if (block?.language !== language || !block.text.includes(says))
      throw new Error(`Block ${this.#at} of ${this.name} is not ${language} with "${says}"`);
    return block.text;
  }

  /** A text with placeholders of the document replaced, all of which must be there. */
  filled(text: string, values: Readonly<Record<string, string>>): string {
    return Object.entries(values).reduce((whole, [placeholder, value]) => {
      if (!whole.includes(placeholder)) throw new Error(`${this.name} has no "${placeholder}" any more`);
      return whole.replaceAll(placeholder, value);
    }, text);
  }

  /** Runs a block in the folder; resolves with what it printed, rejects when it fails. */
  async run(block: string): Promise<string> {
    const { stdout } = await promisify(execFile)('sh', ['-e', '-c', block], {
      cwd: this.dir,
      env: this.#env,
      encoding: 'utf8',
    });
    return stdout;
  }

  /** Does what a block says about starting; resolves when the program is ready. */
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

  /** Ends what was begun, with all its processes. */
  async end(): Promise<void> {
    const ending = this.#running;
    this.#running = null;
    if (ending?.pid === undefined || ending.exitCode !== null) return;
    const group = -ending.pid;
    process.kill(group, 'SIGTERM');
    await until(() => !isThere(group), 'the end of all its processes');
  }

  /** Ends everything and removes the folder. */
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
