import type { Readable } from 'node:stream';
import type { Timers } from '../../../lib/time.ts';
import { BackendError } from '../backend.ts';
import type { Ending, Report } from '../backend.ts';
import { startProcessGroup } from '../../process/process-group.ts';
import type { ProcessEnd, ProcessGroup } from '../../process/process-group.ts';
import type { SandboxPlan } from '../../process/sandbox.ts';
import type { FloorTools } from '../../tools/floor-tools.ts';
import { stripVTControlCharacters } from 'node:util';
import { z } from 'zod';

/** One process for one prompt. */
type CommandCall = {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** What it reads from its standard input. */
  readonly stdin: string;
  readonly output: OutputFormat;
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
  readonly timers: Timers;
  readonly sandbox?: SandboxPlan | undefined;
  /** Told of the end of its standard error when it failed. */
  readonly lastWords: (stderr: string) => void;
};

/** A command that answers one prompt: its output is the answer, its exit is the end. */
export class CommandGeneration {
  readonly #call: CommandCall;
  readonly #floorTools: FloorTools;
  readonly #report: Report;
  readonly #reader: OutputReader;
  readonly #over = Promise.withResolvers<void>();
  #group: ProcessGroup | null = null;
  #bytes = 0;
  /** Set when it is to end early; what it still writes is not heard. */
  #stopped: { readonly why: 'interrupted' | BackendError; readonly graceMs: number } | null = null;

  constructor(call: CommandCall, floorTools: FloorTools, report: Report) {
    this.#call = call;
    this.#floorTools = floorTools;
    this.#report = report;
    this.#reader = readerOf(call.output, floorTools);
  }

  /** Resolves when the process and all that it started are gone. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  /** Ends the process within the grace. */
  stop(graceMs: number): void {
    this.#end('interrupted', graceMs);
  }

  /** Rejects with a `BackendError` when the command fails or writes too much. One that takes too long is interrupted by the floor. */
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
        error instanceof BackendError ? error : new BackendError('the answer could not be taken', { cause: error }),
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
  await new Promise<void>((resolve) => {
    stream.once('close', resolve);
    stream.once('error', () => resolve());
  });
}

const GRACE_MS = 2_000;
/** How long after the end of a process its output may still come. */
const DRAIN_MS = 1_000;

/** How a command writes its answer: plain text, one JSON object, or one JSON object on each line. */
export type OutputFormat = 'text' | 'json' | 'jsonl';

/** Takes what a command writes, piece by piece, and says it. Both throw a `BackendError` when it is not in its format. */
export type OutputReader = { push(piece: string): void; end(): void };

/** A reader for this format, speaking by these floor tools. */
export function readerOf(format: OutputFormat, floorTools: FloorTools): OutputReader {
  switch (format) {
    case 'text':
      return { push: (piece) => floorTools.text(stripVTControlCharacters(piece)), end: () => {} };
    case 'json':
      return jsonReader(floorTools);
    case 'jsonl':
      return linesReader(floorTools);
  }
}

const answer = z.object({
  text: z.string().nullish(),
  pass: z.boolean().nullish(),
  hand_to: z.string().nullish(),
  wait_for: z.string().nullish(),
  ask: z.object({ agent: z.string(), question: z.string() }).nullish(),
});

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
  const parsed = answer.safeParse(parse(json));
  if (!parsed.success) throw new BackendError(`wrote something else than an answer in JSON: ${start(json)}`);
  const { text, pass, hand_to, wait_for, ask } = parsed.data;
  if (pass === true) return void floorTools.apply('pass', {});
  if (text && !floorTools.over) floorTools.say(text);
  if (wait_for) floorTools.apply('wait_for', { question: wait_for });
  else if (ask) floorTools.apply('ask', ask);
  else if (hand_to) floorTools.apply('hand_to', { agent: hand_to });
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return null;
  }
}

function start(text: string): string {
  const line = stripVTControlCharacters(text).replace(/\s+/g, ' ').trim();
  return line.length > SHOWN ? `${line.slice(0, SHOWN)}…` : line;
}

const SHOWN = 80;
