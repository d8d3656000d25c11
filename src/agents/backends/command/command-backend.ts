import { once } from 'node:events';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, resolve } from 'node:path';
import { systemTimers } from '../../../lib/time.ts';
import type { Timers } from '../../../lib/time.ts';
import { BackendError } from '../backend.ts';
import type { AgentBackend, AgentSession, Ending, InjectOutcome, Report, SeatContext, TurnPrompt } from '../backend.ts';
import { childEnvironment, startProcessGroup } from '../../process/process-group.ts';
import type { SandboxPlan } from '../../process/sandbox.ts';
import { checkSandbox } from '../../process/sandbox.ts';
import { ALL_FILES } from '../../trust/repository-files.ts';
import { closedGate } from '../../trust/folder-trust.ts';
import type { FolderGate } from '../../trust/folder-trust.ts';
import { FloorTools } from '../../tools/floor-tools.ts';
import type { Readable } from 'node:stream';
import type { ProcessEnd, ProcessGroup } from '../../process/process-group.ts';
import { stripVTControlCharacters } from 'node:util';
import { z } from 'zod';
import { jsonOrNull } from '../../../lib/defined.ts';
import { oneLine } from '../../../lib/visible.ts';

/** Options of an agent that is a program, run once for each prompt. */
export type CommandOptions = {
  /** The program: a name looked up on the PATH, or a path relative to `cwd`. No shell is used. */
  readonly command: string;
  /**
   * The arguments. The session's id is the variable `CONCH_SESSION` in `set`. An argument `{session}` becomes
   * `--session-id <id>` until this backend has run a process with this id, then `--resume <id>`. With
   * `CONCH_SESSION_RESUMES` in `set`, the argument becomes `--resume <id>` from the start. Without an id the argument
   * is left out.
   */
  readonly args: readonly string[];
  /** The command's working folder. Default: the working folder of Conch. */
  readonly cwd?: string | undefined;
  /** Names of Conch's environment variables that the command inherits besides the default ones. */
  readonly env?: readonly string[] | undefined;
  /** Environment variables set for the command. */
  readonly set?: Readonly<Record<string, string>> | undefined;
  /** `stdin`: the prompt is written to standard input. `arg`: it is the last argument. */
  readonly input: 'stdin' | 'arg';
  /**
   * The format of the output and of the prompt. `text`: the prompt is text. `json` and `jsonl`: the prompt is one JSON
   * object on a line.
   */
  readonly output: keyof typeof READERS;
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
  /** Decides whether the working folder is trusted. Default: refuses a folder with files that any known agent obeys. */
  readonly gate?: FolderGate;
  readonly timers?: Timers;
  /** The sandbox of the process. Default: none. */
  readonly sandbox?: SandboxPlan | undefined;
  /** Called with the last lines of standard error, if any, when a command exits by itself with an error. */
  readonly lastWords?: (seat: SeatContext, stderr: string) => void;
};

/**
 * Runs an agent that is a command: one process for each prompt. With the output `json` or `jsonl`, the process receives
 * the fields of the prompt, except `parts` and `longest`. It answers with `{ text?, pass?, hand_to?, wait_for?, ask?
 * }`. Messages that arrive during a turn wait for the next prompt.
 */
export function createCommandBackend(options: CommandOptions): AgentBackend {
  const gate = options.gate ?? closedGate({ cwd: options.cwd ?? '.', files: ALL_FILES.files });
  const begun = new Set<string>();
  return {
    kind: 'command',
    needsSignal: false,
    promisesToAsk: false,
    async open(seat) {
      await gate.admit(seat);
      const { env: pass = [], set = {}, cwd = process.cwd() } = options;
      const env = childEnvironment({ from: process.env, pass, set });
      if (!(await isRunnable(options.command, cwd, env['PATH'] ?? ''))) {
        throw new BackendError(`there is no program "${options.command}"`, { terminal: true, code: 'ENOENT' });
      }
      if (options.sandbox !== undefined) await checkSandbox();
      return new CommandSession(seat, { ...options, gate, begun }, { env, cwd });
    },
  };
}

/** `begun`: ids of sessions with which this backend has run a process. */
type SharedOptions = CommandOptions & { readonly gate: FolderGate; readonly begun: Set<string> };

type Place = { readonly env: Readonly<Record<string, string>>; readonly cwd: string };

class CommandSession implements AgentSession {
  readonly #seat: SeatContext;
  readonly #options: SharedOptions;
  readonly #place: Place;
  #run: CommandGeneration | null = null;
  #isInterrupted = false;

  constructor(seat: SeatContext, options: SharedOptions, place: Place) {
    this.#seat = seat;
    this.#options = options;
    this.#place = place;
  }

  async prompt(turn: TurnPrompt, report: Report): Promise<Ending> {
    if (this.#run) throw new Error(`impossible: ${this.#seat.agent} is prompted twice at a time`);
    this.#isInterrupted = false;
    await this.#options.gate.admit(this.#seat);
    if (this.#isInterrupted) return { how: 'interrupted' };
    const { args, input, output, timers = systemTimers } = this.#options;
    const { parts: _parts, longest: _longest, ...shown } = turn;
    const promptText = output === 'text' ? turn.text : `${JSON.stringify(shown)}\n`;
    const named = args.flatMap((arg) => (arg === SESSION ? this.#sessionArguments() : [arg]));
    const delivery =
      input === 'stdin' ? { args: named, stdin: promptText } : { args: [...named, argumentOf(promptText)], stdin: '' };
    const floorTools = new FloorTools(report, this.#seat.agent, turn);
    const lastWords = (stderr: string) => this.#options.lastWords?.(this.#seat, stderr);
    const call = { ...this.#options, ...this.#place, ...delivery, timers, lastWords };
    const run = new CommandGeneration(call, floorTools, report);
    this.#run = run;
    try {
      return await run.perform();
    } finally {
      this.#run = null;
      const { CONCH_SESSION: id } = this.#options.set ?? {};
      if (id !== undefined && run.hasStarted) this.#options.begun.add(id);
    }
  }

  #sessionArguments(): readonly string[] {
    const { CONCH_SESSION: id, CONCH_SESSION_RESUMES: resumes } = this.#options.set ?? {};
    if (id === undefined) return [];
    const isBegun = resumes !== undefined || this.#options.begun.has(id);
    return [isBegun ? '--resume' : '--session-id', id];
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

  /**
   * Rejects when a check shows that the folder is no longer trusted. Between prompts no process runs that could fail.
   */
  async ping(): Promise<void> {
    await this.#options.gate.glance(this.#seat);
  }

  async close(): Promise<void> {
    await this.interrupt(CLOSE_GRACE_MS);
  }
}

const SESSION = '{session}';

/** Returns the prompt as an argument, without NUL, which no argument can hold. Throws when it reaches 128 KiB. */
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
/** Linux's limit for one argument: 128 KiB. */
const LONGEST_ARGUMENT = 131_072;

type CommandCall = Parameters<typeof startProcessGroup>[0] &
  Pick<CommandOptions, 'output' | 'timeoutMs' | 'maxOutputBytes'> & {
    readonly stdin: string;
    readonly lastWords: (stderr: string) => void;
  };

class CommandGeneration {
  readonly #call: CommandCall;
  readonly #floorTools: FloorTools;
  readonly #report: Report;
  readonly #reader: OutputReader;
  readonly #over = Promise.withResolvers<void>();
  #group: ProcessGroup | null = null;
  #bytes = 0;
  /** Set when the process must end early. Output after that is dropped. */
  #stopped: { readonly why: 'interrupted' | BackendError; readonly graceMs: number } | null = null;

  constructor(call: CommandCall, floorTools: FloorTools, report: Report) {
    this.#call = call;
    this.#floorTools = floorTools;
    this.#report = report;
    this.#reader = READERS[call.output](floorTools);
  }

  get hasStarted(): boolean {
    return this.#group !== null;
  }

  get over(): Promise<void> {
    return this.#over.promise;
  }

  stop(graceMs: number): void {
    this.#end('interrupted', graceMs);
  }

  async perform(): Promise<Ending> {
    try {
      const group = await startProcessGroup(this.#call);
      this.#report.work(1, 'host', this.#call.timeoutMs);
      return this.#ending(await this.#ended(group));
    } finally {
      this.#report.work(0, 'host');
      this.#over.resolve();
    }
  }

  async #ended(group: ProcessGroup): Promise<ProcessEnd> {
    this.#group = group;
    if (this.#stopped) void group.stop(this.#stopped.graceMs);
    const drained = closed(group.stdout);
    group.stdout.setEncoding('utf8').on('data', (piece: string) => this.#hear(piece));
    group.stdin.end(this.#call.stdin);
    const end = await group.exited;
    const limit = this.#call.timers.after(DRAIN_MS, () => group.stdout.destroy());
    await drained;
    limit.cancel();
    return end;
  }

  #hear(piece: string): void {
    if (this.#stopped) return;
    const { maxOutputBytes } = this.#call;
    this.#bytes += Buffer.byteLength(piece);
    if (this.#bytes > maxOutputBytes) this.#end(new BackendError(`wrote more than ${maxOutputBytes} bytes`), GRACE_MS);
    else this.#read(() => this.#reader.push(piece));
  }

  #read(step: () => void): void {
    try {
      step();
    } catch (error) {
      this.#end(
        error instanceof BackendError ? error : new BackendError('the answer could not be processed', { cause: error }),
        GRACE_MS,
      );
    }
  }

  #ending({ code, words, stderr }: ProcessEnd): Ending {
    if (this.#stopped === null && code === 0) this.#read(() => this.#reader.end());
    if (this.#stopped?.why === 'interrupted') return { how: 'interrupted' };
    if (this.#stopped !== null) throw this.#stopped.why;
    if (code === 0) return this.#floorTools.ending;
    if (stderr !== '') this.#call.lastWords(stderr);
    throw new BackendError(words);
  }
  #end(why: 'interrupted' | BackendError, graceMs: number): void {
    this.#stopped ??= { why, graceMs };
    void this.#group?.stop(graceMs);
  }
}

async function closed(stream: Readable): Promise<void> {
  await once(stream, 'close').catch(() => undefined);
}

const GRACE_MS = 2_000;
/** How long output is still read after the process ended, in milliseconds. */
const DRAIN_MS = 1_000;

/** Reads a command's output piece by piece. A reader of JSON throws a `BackendError` on a wrong format. */
type OutputReader = { push(piece: string): void; end(): void };

/** The reader of each format: plain text, one JSON object, or one JSON object per line. */
const READERS = { text: textReader, json: jsonReader, jsonl: linesReader };

const answer = z.object({
  text: z.string().nullish(),
  pass: z.boolean().nullish(),
  hand_to: z.string().nullish(),
  wait_for: z.string().nullish(),
  ask: z.object({ agent: z.string(), question: z.string() }).nullish(),
});

/**
 * Returns a reader of plain text that removes terminal codes. Removes a code that arrives in two pieces, or unfinished
 * at the end of the output, only if `OPEN_CODE` matches its first piece.
 */
function textReader(floorTools: FloorTools): OutputReader {
  let rest = '';
  return {
    push(piece) {
      const text = rest + piece;
      rest = OPEN_CODE.exec(text)?.[0] ?? '';
      floorTools.text(stripVTControlCharacters(text.slice(0, text.length - rest.length)));
    },
    end() {},
  };
}

/**
 * Matches an unfinished terminal code at the end of a text: `ESC`, `ESC` with `[`, `(`, `)` or `#` and then digits, `;`
 * or `?`, or `ESC ]` with the rest of its line, also without the last character of its end `ESC \`.
 */
// eslint-disable-next-line no-control-regex
const OPEN_CODE = /\u001B(?:[[()#][\d;?]{0,100}|\][^\n\u0007\u001B]{0,2000}\u001B?)?$/u;

function jsonReader(floorTools: FloorTools): OutputReader {
  let whole = '';
  return { push: (piece) => void (whole += piece), end: () => perform(whole, floorTools) };
}

function linesReader(floorTools: FloorTools): OutputReader {
  let rest = '';
  return {
    push(piece) {
      const lines = (rest + piece).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) perform(line, floorTools);
    },
    end: () => perform(rest, floorTools),
  };
}

function perform(json: string, floorTools: FloorTools): void {
  if (json.trim() === '') return;
  const parsed = answer.safeParse(jsonOrNull(json));
  if (!parsed.success) throw new BackendError(`wrote no valid JSON answer: ${start(json)}`);
  const { text, pass, hand_to, wait_for, ask } = parsed.data;
  if (pass === true) return void floorTools.apply('pass', {});
  if (text && !floorTools.over) floorTools.say(text);
  if (wait_for) floorTools.apply('wait_for', { question: wait_for });
  else if (ask) floorTools.apply('ask', ask);
  else if (hand_to) floorTools.apply('hand_to', { agent: hand_to });
}

function start(text: string): string {
  const line = oneLine(stripVTControlCharacters(text));
  return line.length > SHOWN ? `${line.slice(0, SHOWN)}…` : line;
}

const SHOWN = 80;
