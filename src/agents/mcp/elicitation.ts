import type { ElicitRequestParams, ElicitResult } from '@modelcontextprotocol/client';
import { z } from 'zod';
import { excerpt } from '../../turns/commands/clock-words.ts';
import type { GatedCall, ToolGate } from '../tools/tool-gate.ts';

/** What a server asks in the middle of a call, and what it is asked through. */
export type ServerAsking = {
  readonly gate: ToolGate;
  readonly call: GatedCall;
  /** The text without secrets. */
  readonly scrub: (text: string) => string;
  /** Nobody need answer any more. */
  readonly withdrawn: AbortSignal;
};

/** What people answered, as far as it can be taken. */
type Read =
  | { readonly ok: true; readonly content: NonNullable<ElicitResult['content']> }
  | { readonly ok: false; readonly why: string };

/** A question of a server: what people are shown, how they answer, and what their words mean. */
type ServerQuestion = Pick<GatedCall, 'detail' | 'input' | 'unaskable'> & {
  readonly answer: string;
  readonly read: (words: string) => Read;
};

/**
 * Asks people what a server wants to know in the middle of a call: a question of the call's run, answered in words. What does
 * not fit is asked again, with what is wrong, three times in all. A no declines; nobody's answer, or the end of the turn, cancels.
 */
export async function askPeople(asked: ElicitRequestParams, asking: ServerAsking): Promise<ElicitResult> {
  const { gate, withdrawn } = asking;
  const question = questionOf(asked);
  for (let tries = 1, wrong = ''; tries <= MOST_TRIES; tries += 1) {
    const call = callOf(question, { ...asking, title: asked.message, tries, wrong });
    const verdict = await gate.ask(call, withdrawn);
    if (verdict.verdict === 'refused') return { action: verdict.code === 'CANCELLED' ? 'cancel' : 'decline' };
    const read = question.read(verdict.words ?? '');
    const output = read.ok ? JSON.stringify(read.content) : read.why;
    const result = { status: read.ok ? 'complete' : 'error', code: read.ok ? null : 'TOOL_FAILED' } as const;
    await gate.settled(call, { ...result, output, durationMs: 0 });
    if (read.ok) return { action: 'accept', content: read.content };
    wrong = read.why;
  }
  return { action: 'cancel' };
}

type Asked = ServerAsking & { readonly title: string; readonly tries: number; readonly wrong: string };

/** It goes by the rules of the call that it is asked in, and is asked whatever they allow. */
function callOf(question: ServerQuestion, { call, scrub, title, tries, wrong }: Asked): GatedCall {
  const { detail, input, answer, unaskable } = question;
  const server = call.tool.split('__')[1] ?? '';
  return {
    id: `${call.id}/${tries}`,
    tool: call.tool,
    input,
    definition: null,
    repeatable: false,
    title: scrub(`${server} asks: ${excerpt(title, LONGEST_TITLE)}`),
    detail: scrub([...(wrong === '' ? [] : [`⚠ ${wrong}`, '']), detail].join('\n')),
    caution: `${server} asks it in the middle of this call`,
    accounts: [{ name: call.tool, kind: null, input: call.input, locations: [] }],
    answer,
    ...(call.server === undefined ? {} : { server: call.server }),
    ...(unaskable === undefined ? {} : { unaskable }),
  };
}

function questionOf(asked: ElicitRequestParams): ServerQuestion {
  return asked.mode === 'url' ? linkQuestion(asked) : formQuestion(asked);
}

/** People open the link themselves, if they want to: nothing of it is fetched. */
function linkQuestion({ message, url }: { readonly message: string; readonly url: string }): ServerQuestion {
  const isWeb = URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
  const { host, href } = isWeb ? new URL(url) : { host: '', href: '' };
  return {
    input: { message, url },
    detail: `${message}\n\nIt wants you to do that at ${host}:\n${href}`,
    answer: 'done',
    read: () => ({ ok: true, content: {} }),
    ...(isWeb ? {} : { unaskable: 'its link is no address of the web' }),
  };
}

function formQuestion(
  asked: Pick<ElicitRequestParams, 'message'> & { readonly requestedSchema?: unknown },
): ServerQuestion {
  const { message, requestedSchema } = asked;
  const read = formSchema.safeParse(requestedSchema);
  const input = { message, requestedSchema };
  if (!read.success) return { input, detail: message, answer: '', read: () => NOTHING, unaskable: NOT_FLAT };
  const { properties, required } = read.data;
  const fields = Object.entries(properties);
  const secret = [
    message,
    ...fields.filter(isFree).map(([name, { title, description }]) => `${name} ${title} ${description}`),
  ];
  const lines = fields.map((field) => fieldLine(field, required.includes(field[0])));
  return {
    input,
    detail: [message, '', ...lines].join('\n'),
    answer: fields
      .map(([name, field]) => (fields.length === 1 ? `<${name}>` : `${name}=${exampleOf(field)}`))
      .join(' '),
    read: (words) => readForm(words, read.data),
    ...(fields.some(isFree) && secret.some((text) => SECRET.test(text)) ? { unaskable: FOR_SECRETS } : {}),
  };
}

type Form = z.output<typeof formSchema>;
type Field = Form['properties'][string];

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
});

/** A text of one's own: what could be a secret. */
function isFree([, field]: readonly [string, Field]): boolean {
  return field.type === 'string' && optionsOf(field).length === 0;
}

function optionsOf({ enum: values, oneOf, items }: Field): readonly z.output<typeof option>[] {
  const titled = oneOf ?? items?.anyOf;
  return titled ?? (values ?? items?.enum ?? []).map((value) => ({ const: value, title: value }));
}

/** "color (required): Which one? One of red, green". */
function fieldLine([name, field]: readonly [string, Field], isRequired: boolean): string {
  const options = optionsOf(field).map(({ const: value, title }) => (value === title ? value : `${value} (${title})`));
  const limits = (['minimum', 'maximum', 'minLength', 'maxLength', 'minItems', 'maxItems'] as const).flatMap((limit) =>
    field[limit] === undefined ? [] : [`${limit} ${field[limit]}`],
  );
  const what = options.length > 0 ? `${field.type === 'array' ? 'some' : 'one'} of ${options.join(', ')}` : field.type;
  const facts = [
    isRequired ? 'required' : 'may be left out',
    field.format ?? what,
    ...limits,
    ...(field.default === undefined ? [] : [`${JSON.stringify(field.default)} if left out`]),
  ];
  const about = [field.title, field.description].filter((text) => text !== '').join(': ');
  return `${name} (${facts.join(', ')})${about === '' ? '' : `: ${about}`}`;
}

function exampleOf(field: Field): string {
  const [first] = optionsOf(field);
  if (first !== undefined) return first.const;
  return field.type === 'boolean' ? 'yes' : '…';
}

function readForm(words: string, form: Form): Read {
  const { properties, required } = form;
  const given = valuesIn(words, Object.keys(properties));
  if (given === null) return { ok: false, why: 'Each value needs the name of its field before it: name=value.' };
  const content = Object.fromEntries(
    Object.entries(properties).flatMap(([name, field]) => {
      const text = given.get(name);
      const value = text === undefined ? field.default : valueOf(text, field);
      return value === undefined ? [] : [[name, value]];
    }),
  );
  const checked = z.fromJSONSchema({ type: 'object', properties: checkedBy(properties), required }).safeParse(content);
  if (checked.success) return { ok: true, content };
  const [wrong] = checked.error.issues;
  const name = String(wrong?.path[0] ?? '');
  const why = Object.hasOwn(content, name) ? (wrong?.message ?? '') : 'it is missing';
  return { ok: false, why: `${name}: ${why}` };
}

/** Only what a value is checked by: no pattern of a server is ever run. */
function checkedBy(properties: Form['properties']): z.core.JSONSchema.JSONSchema['properties'] & object {
  return Object.fromEntries(
    Object.entries(properties).map(([name, field]) => {
      const { title: _title, description: _description, enum: _enum, oneOf: _oneOf, items: _items, ...rest } = field;
      const values = optionsOf(field).map((each) => each.const);
      const { default: _default, format, ...limits } = rest;
      const checked = { ...limits, ...(format === undefined ? {} : { format }) };
      if (field.type === 'array') return [name, { ...checked, items: { type: 'string', enum: values } }];
      return [name, values.length === 0 ? checked : { ...checked, enum: values }];
    }),
  );
}

/** The texts behind the names of fields; of a form with one field all of it is its value. `null`: one stands behind no name. */
function valuesIn(words: string, names: readonly string[]): ReadonlyMap<string, string> | null {
  const pattern = names.map((name) => name.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)).join('|');
  const found = [...words.matchAll(new RegExp(`(?<=^|[\\s,;])(${pattern})\\s*=`, 'g'))];
  const [only] = names;
  const text = words.trim();
  if (found.length === 0 && names.length === 1 && only !== undefined && text !== '') return new Map([[only, text]]);
  if (words.slice(0, found[0]?.index ?? words.length).trim() !== '') return null;
  const values = found.map((match, index): [string, string] => {
    const value = words.slice(match.index + match[0].length, found[index + 1]?.index ?? words.length);
    return [match[1] ?? '', value.trim().replace(/[,;]$/, '').replaceAll(/^"|"$/g, '')];
  });
  return new Map(values);
}

function valueOf(text: string, field: Field): string | number | boolean | string[] {
  const options = optionsOf(field);
  const chosen = (said: string): string =>
    options.find((each) => [each.const, each.title].some((word) => same(word, said)))?.const ?? said;
  switch (field.type) {
    case 'boolean':
      return YES.test(text) ? true : NO.test(text) ? false : text;
    case 'number':
    case 'integer':
      return text.trim() === '' || Number.isNaN(Number(text)) ? text : Number(text);
    case 'array':
      return text.split(',').map((each) => chosen(each.trim()));
    case 'string':
      return chosen(text);
  }
}

function same(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

const YES = /^(?:yes|y|true|on)$/i;
const NO = /^(?:no|n|false|off)$/i;
const SECRET =
  /passw|passphrase|passcode|secret|token|credential|api[-_ ]?key|private[-_ ]?key|access[-_ ]?key|\bpin\b|\botp\b|\bcvv?\b/i;
const FOR_SECRETS = 'it asks for what looks like a secret, and nobody should write one into a channel';
const NOT_FLAT = 'its form has other fields than texts, numbers, yes or no, and choices';
const NOTHING: Read = { ok: false, why: NOT_FLAT };
const MOST_TRIES = 3;
/** In characters. */
const LONGEST_TITLE = 80;
