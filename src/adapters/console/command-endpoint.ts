import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import type { Answer } from '../../turns/commands/context.ts';
import { jsonOrNull, readBody } from '../../lib/guarded-server.ts';
import type { Reply } from '../../lib/guarded-server.ts';
import { hasToken } from './access.ts';
import { LINE_LIMIT } from './protocol.ts';

/** The longest body of a request, in bytes. */
export const CTL_BODY_LIMIT = 64 * 1024;
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
export async function ctlReply(request: IncomingMessage, parts: CtlParts): Promise<Reply> {
  if (request.method !== 'POST') return refused(405, 'Commands come by POST.');
  if (request.headers.origin !== undefined) return refused(403, 'Commands do not come from web pages.');
  if (!hasToken(request, parts.token)) return refused(401, 'The token is not the one of this Conch.');
  const body = await readBody(request, CTL_BODY_LIMIT);
  if (body === null) return refused(413, 'The command is too long.');
  const parsed = bodySchema.safeParse(jsonOrNull(body));
  if (!parsed.success) return refused(400, 'Expected a JSON body with "line" and, optionally, "channel".');
  try {
    return { status: 200, body: await answerTo(parsed.data, parts) };
  } catch (error) {
    return refused(500, `The command failed: ${error instanceof Error ? error.message : String(error)}`);
  }
}

async function answerTo(asked: z.infer<typeof bodySchema>, parts: CtlParts): Promise<Answer> {
  if ('open' in asked) return { ok: true, text: parts.link() };
  return 'upkeep' in asked ? parts.upkeep(asked.upkeep) : parts.command(asked.channel ?? null, asked.line);
}

function refused(status: number, text: string): Reply {
  return { status, body: { ok: false, text } satisfies Answer };
}
