import { AdapterError } from './adapters/port.ts';
import { TokenError } from './agents/backends/remote/tokens.ts';
import { parseCall } from './cli/arguments.ts';
import { printError, printLine } from './cli/program-commands.ts';
import { ConfigError } from './config/error.ts';
import { missingPartText } from './config/parts.ts';
import { StoreError } from './engine/errors.ts';
import { EXIT_CODES, STORE_CODES } from './runtime/exit-codes.ts';
import type { ExitCode } from './runtime/exit-codes.ts';

/** Runs a command line and resolves with the exit code. Prints the message of a known error; rejects with any other. */
export async function main(argv: readonly string[]): Promise<ExitCode> {
  const understood = parseCall(argv);
  if (!understood.ok) return printError(understood.message);
  if ('text' in understood) return printLine(understood.text);
  const { row, words, options } = understood.call;
  if (row.command !== 'start') endWithReader();
  try {
    return await row.run(words, options);
  } catch (error) {
    const missing = missingPartText(error);
    if (missing !== null) return printError(missing, EXIT_CODES.configuration);
    const code = codeOf(error);
    if (code === null || !(error instanceof Error)) throw error;
    // The message of a StoreError already says what to do.
    const isOfFile = code === EXIT_CODES.diskFull && !(error instanceof StoreError);
    return printError(isOfFile ? `${error.message}: ${MAKE_ROOM}` : error.message, code);
  }
}

/** Ends the program with exit code 0 when the reader of its output has ended, as "head" does after some lines. */
function endWithReader(): void {
  process.stdout.on('error', (error) => {
    if ('code' in error && error.code === 'EPIPE') process.exit(EXIT_CODES.ok);
    throw error;
  });
}

function codeOf(error: unknown): ExitCode | null {
  if (error instanceof ConfigError) return EXIT_CODES.configuration;
  if (error instanceof AdapterError) return EXIT_CODES.platformRefused;
  if (error instanceof TokenError) return EXIT_CODES.refused;
  if (error instanceof StoreError) return STORE_CODES[error.code];
  if (error instanceof Error && isAboutListening(error)) return EXIT_CODES.portTaken;
  const isNotWritten = error instanceof Error && 'code' in error && NOT_WRITTEN.has(String(error.code));
  return isNotWritten ? EXIT_CODES.diskFull : null;
}

const MAKE_ROOM = 'free disk space, or set CONCH_DATA_DIR to a folder that you can write to.';
const NOT_WRITTEN: ReadonlySet<string> = new Set(['EACCES', 'EDQUOT', 'EISDIR', 'ENOSPC', 'ENOTDIR', 'EPERM', 'EROFS']);

/** True when a server could not listen, for example because its port is taken. */
function isAboutListening(error: Error): boolean {
  return [error, error.cause].some((each) => each instanceof Error && 'syscall' in each && each.syscall === 'listen');
}
