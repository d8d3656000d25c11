import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../kill/bot.ts';

/** The timeout of a start, in milliseconds. A start takes about 1 s, and much longer while other tests run. */
const READY_WITHIN_MS = 60_000;

/** The real program in its own temporary folder. By default it has three scripted agents that write fast. */
export class Bot {
  readonly dir = mkdtempSync(join(tmpdir(), 'conch-browser-'));
  readonly #config: object;
  #process: ChildProcess | null = null;
  #port = 0;

  constructor(config: object = CONFIG) {
    this.#config = config;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/`;
  }

  /** Returns a new link, as `conch open` prints it. The link gives one browser access to the page. */
  async link(): Promise<string> {
    const token = readFileSync(join(this.dir, 'state/console-token'), 'utf8').trim();
    const headers = { authorization: `Bearer ${token}` };
    const answer = await fetch(`${this.url}ctl`, { method: 'POST', headers, body: JSON.stringify({ open: true }) });
    return ((await answer.json()) as { readonly text: string }).text;
  }

  /** Starts the program and waits until it is ready. Throws when it ends first, or at the timeout. */
  async start(): Promise<void> {
    if (this.#port === 0) this.#port = await freePort();
    const config = join(this.dir, 'turnConfig.json');
    writeFileSync(config, JSON.stringify(this.#config));
    const env = {
      ...process.env,
      CONCH_CONFIG: config,
      CONCH_DATA_DIR: join(this.dir, 'state'),
      CONCH_PORT: String(this.#port),
    };
    const started = spawn(process.execPath, ['src/conch.js', 'start'], { env, stdio: ['ignore', 'ignore', 'inherit'] });
    this.#process = started;
    const limit = performance.now() + READY_WITHIN_MS;
    while (performance.now() < limit && started.exitCode === null) {
      if (await isReady(this.url)) return;
      await new Promise((resolve) => void setTimeout(resolve, 50));
    }
    throw new Error(`the bot did not become ready (exit code ${started.exitCode})`);
  }

  /** Ends the program with SIGKILL, and waits until it has ended. */
  async kill(): Promise<void> {
    const running = this.#process;
    this.#process = null;
    if (running === null || running.exitCode !== null) return;
    running.kill('SIGKILL');
    await once(running, 'exit');
  }

  async remove(): Promise<void> {
    await this.kill();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

const agent = (id: 'pm' | 'dev' | 'qa'): object => ({ id, backend: { kind: 'scripted', script: id, wordMs: 12 } });

const CONFIG = {
  agents: [agent('pm'), agent('dev'), agent('qa')],
  channels: [{ id: 'console:demo', name: 'demo', agents: ['pm', 'dev', 'qa'] }],
  log: { level: 'fatal' },
};

async function isReady(url: string): Promise<boolean> {
  return fetch(new URL('healthz', url)).then(
    (answer) => answer.ok,
    () => false,
  );
}
