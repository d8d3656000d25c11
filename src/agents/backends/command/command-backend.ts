import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, resolve } from 'node:path';
import { systemTimers } from '../../../lib/time.ts';
import type { Timers } from '../../../lib/time.ts';
import { BackendError } from '../backend.ts';
import type { AgentBackend, AgentSession, Ending, InjectOutcome, Report, SeatContext, TurnPrompt } from '../backend.ts';
import type { OutputFormat } from './command-generation.ts';
import { CommandGeneration } from './command-generation.ts';
import { childEnvironment } from '../../process/process-environment.ts';
import type { SandboxPlan } from '../../process/sandbox.ts';
import { checkSandbox } from '../../process/sandbox.ts';
import { ALL_FILES } from '../../trust/repository-files.ts';
import { closedGate } from '../../trust/folder-trust.ts';
import type { FolderGate } from '../../trust/folder-trust.ts';
import { FloorTools } from '../../tools/floor-tools.ts';

/** A program that is run once for each prompt. */
export type CommandOptions = {
  /** A name on the PATH, or a path; a relative one is looked up from `cwd`. No shell is involved. */
  readonly command: string;
  readonly args: readonly string[];
  /** Absent: the folder that this program runs in. */
  readonly cwd?: string | undefined;
  /** Names of this program's environment variables that the command is given besides the ordinary ones. */
  readonly env?: readonly string[] | undefined;
  /** Environment variables with their values. */
  readonly set?: Readonly<Record<string, string>> | undefined;
  /** Where the prompt goes: to the standard input, or behind `args` as the last argument. */
  readonly input: 'stdin' | 'arg';
  /** With `text` the prompt is text, too; with `json` and `jsonl` it is one JSON object on a line. */
  readonly output: OutputFormat;
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
  /** Stands before the folder. Without it a folder with files that any known agent obeys is not opened. */
  readonly gate?: FolderGate;
  /** The variables to choose from; this program's own unless given. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  readonly timers?: Timers;
  /** The sandbox that it runs in; none unless given. */
  readonly sandbox?: SandboxPlan | undefined;
  /** Told of the end of the standard error of a command that failed. */
  readonly lastWords?: (seat: SeatContext, stderr: string) => void;
};

/**
 * Agents that are a command: a process for each prompt, whose exit with code 0 is the end of the turn. In JSON it gets the
 * parts of the prompt and answers with `{ text?, pass?, hand_to?, wait_for?, ask? }`. Messages in the middle of a turn wait for
 * the next prompt.
 */
export function createCommandBackend(options: CommandOptions): AgentBackend {
  const gate = options.gate ?? closedGate({ cwd: options.cwd ?? '.', files: ALL_FILES.files });
  return {
    kind: 'command',
    needsSignal: false,
    promisesToAsk: false,
    async open(seat) {
      await gate.admit(seat);
      const from = options.environment ?? process.env;
      const { env: pass = [], set = {}, cwd = process.cwd() } = options;
      const env = childEnvironment({ from, pass, set });
      if (!(await isRunnable(options.command, cwd, env['PATH'] ?? ''))) {
        throw new BackendError(`there is no program "${options.command}"`, { terminal: true, code: 'ENOENT' });
      }
      if (options.sandbox !== undefined) await checkSandbox();
      return new CommandSession(seat, options, { env, cwd }, gate);
    },
  };
}

type Place = { readonly env: Readonly<Record<string, string>>; readonly cwd: string };

class CommandSession implements AgentSession {
  readonly #seat: SeatContext;
  readonly #options: CommandOptions;
  readonly #place: Place;
  readonly #gate: FolderGate;
  #run: CommandGeneration | null = null;
  #isInterrupted = false;

  constructor(seat: SeatContext, options: CommandOptions, place: Place, gate: FolderGate) {
    this.#gate = gate;
    this.#seat = seat;
    this.#options = options;
    this.#place = place;
  }

  async prompt(turn: TurnPrompt, report: Report): Promise<Ending> {
    if (this.#run) throw new Error(`impossible: ${this.#seat.agent} is prompted twice at a time`);
    this.#isInterrupted = false;
    await this.#gate.admit(this.#seat);
    if (this.#isInterrupted) return { how: 'interrupted' };
    const { command, args, input, output, timeoutMs, maxOutputBytes, sandbox, timers = systemTimers } = this.#options;
    const { parts: _parts, longest: _longest, ...shown } = turn;
    const asked = output === 'text' ? turn.text : `${JSON.stringify(shown)}\n`;
    const given = input === 'stdin' ? { args, stdin: asked } : { args: [...args, argumentOf(asked)], stdin: '' };
    const floorTools = new FloorTools(report, this.#seat.agent, turn.roster);
    const lastWords = (stderr: string) => this.#options.lastWords?.(this.#seat, stderr);
    const call = { command, ...this.#place, ...given, output, timeoutMs, maxOutputBytes, sandbox, timers, lastWords };
    const run = new CommandGeneration(call, floorTools, report);
    this.#run = run;
    try {
      return await run.perform();
    } finally {
      this.#run = null;
    }
  }

  async inject(): Promise<InjectOutcome> {
    return 'next-prompt';
  }

  async interrupt(graceMs: number): Promise<void> {
    const run = this.#run;
    this.#isInterrupted = true;
    run?.stop(graceMs);
    await run?.over;
  }

  /** Between prompts only the trust in its folder could be gone; a process that hangs has its own limit. */
  async ping(): Promise<void> {
    await this.#gate.glance(this.#seat);
  }

  async close(): Promise<void> {
    await this.interrupt(CLOSE_GRACE_MS);
  }
}

/** A prompt as an argument: without NUL, which arguments cannot hold. */
function argumentOf(text: string): string {
  const plain = text.replaceAll('\0', '');
  if (Buffer.byteLength(plain) < LONGEST_ARGUMENT) return plain;
  throw new BackendError('the prompt is too long for an argument: set "input" to "stdin"');
}

async function isRunnable(command: string, cwd: string, path: string): Promise<boolean> {
  const places = /[\\/]/.test(command) ? [cwd] : path.split(delimiter).filter((folder) => folder !== '');
  for (const folder of places) {
    const file = resolve(cwd, folder, command);
    const found = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) return true;
  }
  return false;
}

const CLOSE_GRACE_MS = 2_000;
/** Linux takes up to 128 KiB in one argument. */
const LONGEST_ARGUMENT = 131_072;
