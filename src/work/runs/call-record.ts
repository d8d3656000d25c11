import { createHash } from 'node:crypto';
import { canonical } from '../../engine/canonical.ts';
import type { RunCommand } from './run-events.ts';

/** What a yes is bound to: the digest of everything that makes a call the very same. */
export function callDigest(parts: readonly unknown[]): string {
  const plain: unknown = JSON.parse(JSON.stringify(parts));
  return createHash('sha256').update(canonical(plain)).digest('base64url');
}

/** An input as it is put on record, without secrets; `clean` takes them out of a text. */
export function scrubbedInput(
  input: Readonly<Record<string, unknown>>,
  clean: (text: string) => string,
): Record<string, unknown> {
  return Object.fromEntries(Object.entries(input).map(([key, value]) => [key, scrub(value, clean)]));
}

function scrub(value: unknown, clean: (text: string) => string): unknown {
  if (typeof value === 'string') return clean(value);
  if (Array.isArray(value)) return value.map((each: unknown) => scrub(each, clean));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [clean(key), scrub(each, clean)]));
}

/** A call that an agent carried out by itself, and what came of it, without secrets. */
export function reported(
  told: Pick<Extract<RunCommand, { type: 'REPORT' }>, 'session' | 'call' | 'brings'>,
  result: SettledCall,
  clean: (text: string) => string,
): readonly RunCommand[] {
  const [{ type: _type, call: _call, ...settled }, ...marks] = settlement(told.call, result, clean);
  return [{ type: 'REPORT', ...told, result: settled }, ...marks];
}

/** What came of a call, without secrets; one in what came back is what should not leave. */
export function settlement(
  call: { readonly id: string; readonly tool: string },
  { output, durationMs, status, code }: SettledCall,
  clean: (text: string) => string,
): readonly [Extract<RunCommand, { type: 'SETTLE' }>, ...RunCommand[]] {
  const shown = clean(output);
  const settled = {
    type: 'SETTLE',
    call: call.id,
    status,
    output: cutOutput(shown),
    duration: durationMs,
    code,
  } as const;
  const secret: RunCommand = { type: 'TAINT', from: `a secret in what ${call.tool} returned`, label: 'private' };
  return [settled, ...(shown === output ? [] : [secret])];
}

type SettledCall = Pick<Extract<RunCommand, { type: 'SETTLE' }>, 'status' | 'code'> & {
  readonly output: string;
  readonly durationMs: number | null;
};

/** The beginning of a long output, with how long it was and its digest. */
function cutOutput(output: string): string {
  if (output.length <= LONGEST_OUTPUT) return output;
  const digest = createHash('sha256').update(output).digest('hex');
  return `${output.slice(0, LONGEST_OUTPUT)}\n… (${Buffer.byteLength(output)} bytes in all, sha256 ${digest})`;
}

const LONGEST_OUTPUT = 65_536;
