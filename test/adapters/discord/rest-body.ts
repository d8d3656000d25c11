import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { Refusal, invalid, refusals, tooLong } from './rest-errors.ts';
import type { Attachment, World } from './state.ts';

const MAX_FILE_BYTES = 10 * 1024 * 1024;

/** An uploaded file of a multipart body. `key`: "0" for the form field "files[0]". */
export type Upload = { readonly key: string; readonly name: string; readonly type: string; readonly content: Buffer };

/** The parsed body of a request. */
export type Body = { readonly json: unknown; readonly files: readonly Upload[] };

export const allowedMentions = z.looseObject({
  parse: z.array(z.enum(['users', 'roles', 'everyone'])).optional(),
  users: z.array(z.string()).max(100).optional(),
  roles: z.array(z.string()).max(100).optional(),
  replied_user: z.boolean().optional(),
});

const embed = z.looseObject({
  title: z.string().max(256).nullish(),
  description: z.string().max(4096).nullish(),
  fields: z
    .array(z.looseObject({ name: z.string().min(1).max(256), value: z.string().min(1).max(1024) }))
    .max(25)
    .nullish(),
  footer: z.looseObject({ text: z.string().max(2048) }).nullish(),
  author: z.looseObject({ name: z.string().max(256) }).nullish(),
});

const component = z.looseObject({
  type: z.int(),
  custom_id: z.string().min(1).max(100).optional(),
  label: z.string().max(80).nullish(),
  get components() {
    return z.array(component).max(40).optional();
  },
});

/** The body of Create Message, Edit Message, Execute Webhook and of the answer to an interaction. */
export const messageBody = z.looseObject({
  content: z.string().nullish(),
  nonce: z.union([z.string().max(25), z.int()]).nullish(),
  enforce_nonce: z.boolean().nullish(),
  embeds: z.array(embed).max(10).nullish(),
  components: z.array(component).max(40).nullish(),
  allowed_mentions: allowedMentions.nullish(),
  message_reference: z
    .looseObject({
      message_id: z.string(),
      channel_id: z.string().optional(),
      fail_if_not_exists: z.boolean().optional(),
    })
    .nullish(),
  flags: z.int().nullish(),
  attachments: z
    .array(z.looseObject({ id: z.union([z.string(), z.int()]), filename: z.string().optional() }))
    .nullish(),
  username: z.string().min(1).max(80).nullish(),
  avatar_url: z.string().nullish(),
});
export type MessageBody = z.output<typeof messageBody>;

/** Reads the whole body of a request. */
export async function readAll(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(Buffer.from(chunk as Uint8Array));
  return Buffer.concat(chunks);
}

/** Parses a body: JSON, or multipart with `payload_json` and files. */
export async function parseBody(bytes: Buffer, type: string): Promise<Body> {
  if (bytes.length === 0) return { json: {}, files: [] };
  if (!type.startsWith('multipart/form-data')) return { json: parsed(bytes.toString('utf8')), files: [] };
  const form = await new Response(new Uint8Array(bytes), { headers: { 'content-type': type } }).formData();
  const files: Upload[] = [];
  let json: unknown = {};
  for (const [key, value] of form) {
    if (typeof value === 'string') {
      if (key === 'payload_json') json = parsed(value);
      continue;
    }
    const content = Buffer.from(await value.arrayBuffer());
    files.push({ key: /\d+/u.exec(key)?.[0] ?? key, name: value.name, type: value.type, content });
  }
  return { json, files };
}

/** Parses a body by its schema. Throws Discord's refusal for an invalid body. */
export function checked<T extends z.ZodType>(schema: T, json: unknown): z.output<T> {
  const result = schema.safeParse(json);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const path = issue?.path.map(String).join('.') ?? '';
  if (issue?.code === 'too_big') throw tooLong(path, Number(issue.maximum));
  throw invalid(path === '' ? '_' : path, 'BASE_TYPE_BAD', issue?.message ?? 'invalid');
}

/** Checks a message body against Discord's limits. `text`: trimmed content; `undefined` without `content`. */
export function checkedMessage(body: Body): MessageBody & { readonly text: string | undefined } {
  const message = checked(messageBody, body.json);
  const content = message.content ?? undefined;
  if (content !== undefined && content.length > 2000) throw tooLong('content', 2000);
  const inEmbeds = (message.embeds ?? []).reduce((sum, one) => sum + embedLength(one), 0);
  if (inEmbeds > 6000) throw invalid('embeds', 'MAX_EMBED_SIZE_EXCEEDED', 'Embed size exceeds maximum size of 6000');
  checkComponents(message.components ?? []);
  checkMentions(message.allowed_mentions ?? undefined);
  if (body.files.some(({ content: bytes }) => bytes.length > MAX_FILE_BYTES)) throw refusals.tooLarge();
  const text = content?.trim() ?? (message.content === null ? '' : undefined);
  return { ...message, text };
}

/** Returns whether a message has nothing to show. */
export function isEmpty(message: MessageBody, files: number): boolean {
  const some = [message.embeds, message.components].some((list) => (list?.length ?? 0) > 0);
  return (message.content ?? '').trim() === '' && !some && files === 0;
}

/** Stores uploaded files for `GET /attachments/…`. */
export function store(world: World, channel: string, files: readonly Upload[]): readonly Attachment[] {
  return files.map(({ name, type, content }) => {
    const id = world.id();
    const url = `${world.origin}/attachments/${channel}/${id}/${encodeURIComponent(name)}`;
    const attachment: Attachment = { id, name, type, content, size: content.length, url };
    world.attachments.set(id, attachment);
    return attachment;
  });
}

function parsed(text: string): unknown {
  // JSON.stringify escapes only unpaired surrogates. Discord answers them with 500: discord-api-docs issue 6561.
  if (/\\ud[89a-f]/i.test(text)) throw new Refusal(500, 0, '500: Internal Server Error');
  try {
    return JSON.parse(text);
  } catch {
    throw new Refusal(400, 50_109, 'The request body contains invalid JSON.');
  }
}

function embedLength(one: z.output<typeof embed>): number {
  const fields = (one.fields ?? []).reduce((sum, { name, value }) => sum + name.length + value.length, 0);
  const texts = [one.title, one.description, one.footer?.text, one.author?.name];
  return texts.reduce((sum, text) => sum + (text?.length ?? 0), fields);
}

const ACTION_ROW = 1;
const BUTTON = 2;

function checkComponents(rows: readonly z.output<typeof component>[]): void {
  const inside = rows.flatMap((row) => [row, ...(row.components ?? [])]);
  const ids = inside.flatMap(({ custom_id: id }) => (id === undefined ? [] : [id]));
  if (new Set(ids).size !== ids.length) {
    throw invalid('components', 'COMPONENT_CUSTOM_ID_DUPLICATED', 'Component custom id cannot be duplicated');
  }
  if (rows.filter(({ type }) => type === ACTION_ROW).length > 5) throw tooLong('components', 5);
  const full = rows.findIndex(({ type, components }) => type === ACTION_ROW && (components?.length ?? 0) > 5);
  if (full !== -1) throw tooLong(`components.${full}.components`, 5);
  const bare = inside.some((one) => one.type === BUTTON && one.custom_id === undefined && !('url' in one));
  if (bare) throw invalid('components', 'BASE_TYPE_REQUIRED', 'A button needs a custom id or a url');
}

function checkMentions(allowed: z.output<typeof allowedMentions> | undefined): void {
  for (const kind of ['users', 'roles'] as const) {
    if ((allowed?.parse?.includes(kind) ?? false) && (allowed?.[kind]?.length ?? 0) > 0) {
      throw invalid(
        'allowed_mentions',
        'MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE',
        `parse:["${kind}"] and ${kind}: [ids...] are mutually exclusive.`,
      );
    }
  }
}
