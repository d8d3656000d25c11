import type { ElicitRequestParams, ElicitResult } from '@modelcontextprotocol/client';
import { z } from 'zod';
import { visible } from '../../lib/visible.ts';
import { checkForm } from '../../turns/commands/check-form.ts';
import { excerpt } from '../../turns/commands/clock-words.ts';
import type { FormField } from '../../turns/floor/settings.ts';
import { PUBLIC, exampleWords, fieldLine, listWords } from '../../turns/text/form.ts';
import type { GatedCall, ToolGate } from '../tools/tool-gate.ts';
import { defined } from '../../lib/defined.ts';

type ServerAsking = {
  readonly gate: ToolGate;
  readonly call: GatedCall;
  /** The number of the server's question within one tool call, counted from 1. */
  readonly number: number;
  readonly redact: (text: string) => string;
  readonly withdrawn: AbortSignal;
};

type ServerQuestion = Pick<GatedCall, 'detail' | 'input' | 'unaskable' | 'form' | 'showsAnswer'> & {
  readonly answer: string;
};

/**
 * Asks people a question of an MCP server in the middle of a tool call. People answer in words that fill in the
 * question's form, if any. Declines the question when people or a rule deny it, and when nobody can be asked. Cancels
 * it without an answer, for an answer that does not fit the form, and at the end of the turn. People are asked at most
 * 10 questions in one tool call. They are told why question 11 is declined. Later questions are declined silently.
 */
export async function askPeople(asked: ElicitRequestParams, asking: ServerAsking): Promise<ElicitResult> {
  const { gate, withdrawn, number } = asking;
  if (number > MOST_QUESTIONS + 1) return { action: 'decline' };
  const question = asked.mode === 'url' ? linkQuestion(asked) : formQuestion(asked, asking.redact);
  const call = callOf(question, { ...asking, title: asked.message });
  const verdict = await gate.ask(call, withdrawn);
  if (verdict.verdict === 'refused') return { action: verdict.code === 'CANCELLED' ? 'cancel' : 'decline' };
  const read = checkForm(verdict.words ?? '', question.form ?? []);
  const output = read.ok ? JSON.stringify(read.content) : read.text;
  const result = { status: read.ok ? 'complete' : 'error', code: read.ok ? null : 'TOOL_FAILED' } as const;
  await gate.settled(call, { ...result, output, durationMs: 0 });
  return read.ok ? { action: 'accept', content: read.content } : { action: 'cancel' };
}

/**
 * Returns the server's question as a tool call for the gate. Rules about the tool that is running can deny the
 * question, but never answer it.
 */
function callOf(
  { detail, ...question }: ServerQuestion,
  { call, redact, title, number }: ServerAsking & { readonly title: string },
): GatedCall {
  const server = call.tool.split('__')[1] ?? '';
  return {
    id: `${call.id}/${number}`,
    tool: call.tool,
    definition: null,
    repeatable: false,
    title: redact(`${server} asks: ${excerpt(title, LONGEST_TITLE)}`),
    detail: redact(detail),
    caution: `${server} asks this question while the call runs`,
    accounts: [{ name: call.tool, kind: null, input: call.input, locations: [] }],
    ...question,
    ...(number > MOST_QUESTIONS ? { unaskable: TOO_MANY } : {}),
    ...defined({ server: call.server }),
  };
}

function linkQuestion({ message, url }: { readonly message: string; readonly url: string }): ServerQuestion {
  const isWeb = URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
  const { host, href } = isWeb ? new URL(url) : { host: '', href: '' };
  return {
    input: { message, url },
    detail: `${message}\n\nThe server wants you to do that at ${host}:\n${href}`,
    answer: 'done',
    ...(isWeb ? {} : { unaskable: 'its link is no address of the web' }),
  };
}

function formQuestion(
  { message, requestedSchema }: Pick<ElicitRequestParams, 'message'> & { readonly requestedSchema?: unknown },
  redact: ServerAsking['redact'],
): ServerQuestion {
  const read = formSchema.safeParse(requestedSchema);
  const input = { message, requestedSchema };
  if (!read.success) return { input, detail: message, answer: '', unaskable: NOT_FLAT };
  const form = Object.entries(read.data.properties).map((field) => fieldOf(field, read.data.required));
  const unaskable = whyUnaskable(message, form, redact);
  return {
    input,
    detail: [message, '', ...form.map(fieldLine)].join('\n'),
    answer: exampleWords(form),
    ...(form.length === 0 ? {} : { form }),
    ...(read.data[PUBLIC] === true ? { showsAnswer: true } : {}),
    ...(unaskable === null ? {} : { unaskable }),
  };
}

function whyUnaskable(message: string, form: readonly FormField[], redact: ServerAsking['redact']): string | null {
  const isSecret = form.some(({ kind, options, name, label, hint }) => {
    const isNumber = kind === 'number' || kind === 'integer';
    const isFree = isNumber || kind === 'text' || (kind === 'some' && options.length === 0);
    const pattern = isNumber ? SECRET_NUMBER : SECRET;
    return isFree && [message, name, label, hint].some((text) => pattern.test(text));
  });
  if (isSecret) return FOR_SECRETS;
  const named = form.flatMap(({ name, options }) => [name, ...options.map(({ value }) => value)]);
  return named.every((text) => visible(redact(text)) === text) ? null : HIDDEN;
}

const option = z.object({ const: z.string(), title: z.string() });
const fieldSchema = z.object({
  type: z.enum(['string', 'number', 'integer', 'boolean', 'array']),
  title: z.string().default(''),
  description: z.string().default(''),
  enum: z.array(z.string()).exactOptional(),
  oneOf: z.array(option).exactOptional(),
  items: z
    .object({ enum: z.array(z.string()).exactOptional(), anyOf: z.array(option).exactOptional() })
    .exactOptional(),
  minLength: z.number().exactOptional(),
  maxLength: z.number().exactOptional(),
  minimum: z.number().exactOptional(),
  maximum: z.number().exactOptional(),
  minItems: z.number().exactOptional(),
  maxItems: z.number().exactOptional(),
  format: z.enum(['email', 'uri', 'date', 'date-time']).optional().catch(undefined),
  default: z.union([z.string(), z.number(), z.boolean(), z.array(z.string())]).exactOptional(),
});
const formSchema = z.object({
  type: z.literal('object'),
  properties: z.record(z.string().min(1).max(100), fieldSchema),
  required: z.array(z.string()).default([]),
  [PUBLIC]: z.boolean().optional().catch(undefined),
});

type Field = z.output<typeof fieldSchema>;

function fieldOf([name, field]: readonly [string, Field], required: readonly string[]): FormField {
  const { type, title, description: hint, format, default: initial } = field;
  const options = optionsOf(field);
  const [least, most] = limitsOf(field);
  return {
    name,
    label: title === '' ? name : title,
    hint,
    kind: type === 'array' ? 'some' : type !== 'string' ? type : options.length > 0 ? 'one' : 'text',
    required: required.includes(name),
    options,
    ...defined({ least, most }),
    ...(format === undefined || type !== 'string' ? {} : { format }),
    ...(initial === undefined ? {} : { initial: initialWords(initial) }),
  };
}

function optionsOf({ type, enum: values, oneOf, items }: Field): FormField['options'] {
  if (type !== 'string' && type !== 'array') return [];
  const titled =
    oneOf ?? items?.anyOf ?? (values ?? items?.enum ?? []).map((value) => ({ const: value, title: value }));
  return titled.map(({ const: value, title: label }) => ({ value, label }));
}

function limitsOf(field: Field): readonly [number | undefined, number | undefined] {
  if (field.type === 'array') return [field.minItems, field.maxItems];
  return field.type === 'string' ? [field.minLength, field.maxLength] : [field.minimum, field.maximum];
}

function initialWords(initial: Field['default'] & {}): string {
  if (typeof initial === 'boolean') return initial ? 'yes' : 'no';
  return typeof initial === 'object' ? listWords(initial) : String(initial);
}

const SECRET =
  /passw|passphrase|passcode|secret|token|credential|api[-_ ]?key|private[-_ ]?key|access[-_ ]?key|\bpin\b|\botp\b|\bcvv?\b/i;
/** Finds names of number fields that hold secrets. Leaves out "token": a number of tokens is no secret. */
const SECRET_NUMBER = /passw|passcode|secret|\bpin\b|\botp\b|\bcvv?\b/i;
const FOR_SECRETS = 'it asks for what looks like a secret, and nobody should write one into a channel';
const NOT_FLAT = 'its form has other fields than texts, numbers, yes or no, and choices';
const HIDDEN = 'its form has names or choices with invisible characters or secrets';
/** Most questions that one tool call may put to people. */
const MOST_QUESTIONS = 10;
const TOO_MANY = `its server has asked ${MOST_QUESTIONS} questions in this call`;
/** Longest title of a question, in characters. */
const LONGEST_TITLE = 80;
