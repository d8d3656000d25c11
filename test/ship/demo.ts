import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort, isReady } from '../kill/bot.ts';
import { Page } from '../kill/page.ts';

/** A running demo, started by a command as a person types it. */
export type Demo = {
  readonly port: number;
  /** Seconds from the command to the first answer of the page. */
  readonly answersAfterS: number;
  /** The output so far. */
  readonly out: () => string;
  /** Writes a message. Resolves when an agent has answered it. */
  readonly say: (text: string) => Promise<void>;
  /** The texts of the channel. */
  readonly texts: () => Promise<readonly string[]>;
  /** Stops it as Ctrl+C does. */
  readonly stop: () => Promise<void>;
};

const CHANNEL = 'console:demo';
const LIMIT_MS = 120_000;
const POLL_MS = 10;

/** Starts the demo by a command and waits for its page. Rejects when the command ends first. */
export async function startDemo(
  folder: string,
  [program, ...args]: readonly [string, ...string[]],
  env: Readonly<Record<string, string>> = {},
): Promise<Demo> {
  const port = await freePort();
  const { PATH = '', HOME = '' } = process.env;
  const startedAt = performance.now();
  const stdio = ['ignore', 'pipe', 'pipe'] as const;
  // A new process group: a terminal sends Ctrl+C to npm and to the program.
  const options = {
    cwd: folder,
    env: { PATH, HOME, CONCH_PORT: String(port), ...env },
    stdio: [...stdio],
    detached: true,
  };
  const child = spawn(program, args, options);
  let out = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (text: Buffer) => (out += text.toString()));
  const ended = new Promise<void>((end) => child.once('close', () => end()));
  const stop = async (): Promise<void> => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGINT');
    await ended;
  };
  const dataDir = join(folder, '.conch');
  try {
    await until(
      () => answers(port),
      () => child.exitCode !== null,
      () => out,
    );
    const answersAfterS = (performance.now() - startedAt) / 1_000;
    await until(
      () => isReady(port),
      () => child.exitCode !== null,
      () => out,
    );
    return { port, answersAfterS, out: () => out, stop, ...talkTo({ port, dataDir }) };
  } catch (error) {
    await stop();
    throw error;
  }
}

function talkTo(host: { readonly port: number; readonly dataDir: string }): Pick<Demo, 'say' | 'texts'> {
  return {
    async say(text) {
      const page = await Page.open(host, CHANNEL);
      const id = await page.say(CHANNEL, text);
      await page.until(() => page.messages.get(id)?.receipts.includes('done') === true, 'the receipt');
      page.close();
    },
    async texts() {
      const page = await Page.open(host, CHANNEL);
      await page.until(() => page.view !== null, 'the first picture');
      const texts = [...page.messages.values()].map(({ text }) => text);
      page.close();
      return texts;
    },
  };
}

async function answers(port: number): Promise<boolean> {
  try {
    return (await fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(1_000) })).ok;
  } catch {
    return false;
  }
}

async function until(isTrue: () => Promise<boolean>, isOver: () => boolean, out: () => string): Promise<void> {
  const startedAt = performance.now();
  while (!(await isTrue())) {
    if (isOver() || performance.now() - startedAt > LIMIT_MS) throw new Error(`The demo did not start:\n${out()}`);
    await pause(POLL_MS);
  }
}
