import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import type { Answer } from '../../turns/commands/context.ts';
import { LINE_LIMIT } from './protocol.ts';
import { sameSecret } from './token.ts';

const BODY_LIMIT = 64 * 1024;
const bodySchema = z.union([
  z.strictObject({ channel: z.string().min(1).max(200).nullish(), line: z.string().min(1).max(LINE_LIMIT) }),
  z.strictObject({ open: z.literal(true) }),
  z.strictObject({
    upkeep: z.discriminatedUnion('act', [
      z.strictObject({ act: z.literal('backup'), file: z.string().startsWith('/').max(4_096) }),
      z.strictObject({ act: z.literal('prune'), isDryRun: z.boolean() }),
      z.strictObject({ act: z.literal('erase'), what: z.enum(['person', 'message']), id: z.string().min(1).max(200) }),
    ]),
  }),
]);

/** What is asked of the database that only this process may write to. */
export type UpkeepOrder = Extract<z.infer<typeof bodySchema>, { readonly upkeep: unknown }>['upkeep'];

type CtlParts = {
  readonly token: string;
  readonly command: (channel: string | null, line: string) => Promise<Answer>;
  readonly upkeep: (order: UpkeepOrder) => Promise<Answer>;
  /** A new address of the page that lets one browser in. */
  readonly link: () => string;
};

/** Answers `POST /ctl`: a JSON body `{ channel?, line }`, `{ open: true }` or `{ upkeep: order }` under `Authorization: Bearer <the console's token>`. */
export async function ctlAnswer(
  request: IncomingMessage,
  parts: CtlParts,
): Promise<{ readonly status: number; readonly answer: Answer }> {
  if (request.method !== 'POST') return no(405, 'Commands come by POST.');
  if (request.headers.origin !== undefined) return no(403, 'Commands do not come from web pages.');
  if (!hasToken(request, parts.token)) return no(401, 'The token is not the one of this Conch.');
  const body = await readBody(request);
  if (body === null) return no(413, 'The command is too long.');
  const parsed = bodySchema.safeParse(parseJson(body));
  if (!parsed.success) return no(400, 'Expected a JSON body with "line" and, optionally, "channel".');
  const asked = parsed.data;
  if ('open' in asked) return { status: 200, answer: { ok: true, text: parts.link() } };
  try {
    const answer = 'upkeep' in asked ? parts.upkeep(asked.upkeep) : parts.command(asked.channel ?? null, asked.line);
    return { status: 200, answer: await answer };
  } catch (error) {
    return no(500, `The command failed: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Whether a request shows the console's token, as programs on this machine do that may read it. */
export function hasToken(request: IncomingMessage, token: string): boolean {
  const shown = /^Bearer (\S+)$/.exec(request.headers.authorization ?? '')?.[1];
  return shown !== undefined && sameSecret(shown, token);
}

function no(status: number, text: string): { readonly status: number; readonly answer: Answer } {
  return { status, answer: { ok: false, text } };
}

async function readBody(request: IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > BODY_LIMIT) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** The JSON of a body; `null` when it is none or too long. */
export async function readJsonBody(request: IncomingMessage): Promise<unknown> {
  return parseJson((await readBody(request)) ?? '');
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
