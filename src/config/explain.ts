import type { z } from 'zod';
import { nearest } from '../lib/nearest.ts';
import { configJsonSchema, type JsonNode } from './json-schema.ts';
import { withoutSecrets, type Secret } from './secret.ts';

type Found = { readonly path: readonly PropertyKey[]; readonly message: string };

/** Says in plain words what the schema did not accept: each problem once, with its path, an unknown key with the nearest known one. */
export const explain = (error: z.ZodError, secrets: readonly Secret[]): readonly Found[] => {
  const root = configJsonSchema();
  return error.issues.flatMap((issue): readonly Found[] =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => ({ path: [...issue.path, key], message: unknown(key, keysAt(root, issue.path)) }))
      : [{ path: issue.path, message: messageOf(issue, secrets) }],
  );
};

const messageOf = (issue: z.core.$ZodIssue, secrets: readonly Secret[]): string => {
  const got = shown(issue.input, secrets);
  if (!issue.message.startsWith('Invalid') && !issue.message.startsWith('Too')) return `${issue.message}${got}`;
  if (issue.code === 'invalid_type' && issue.input === undefined) return 'This key is missing: add it';
  if (issue.code === 'invalid_type') return `Expected ${TYPES[issue.expected] ?? issue.expected}${got}`;
  if (issue.code === 'invalid_value') return `Expected ${alternatives(issue.values)}${got}`;
  if (issue.code === 'too_small') return `Expected ${atLeast(issue)}${got}`;
  if (issue.code === 'too_big') return `Expected ${amount(issue.origin, issue.maximum)} at most${got}`;
  if (issue.code === 'invalid_union' && 'options' in issue && issue.options !== undefined)
    return `Expected ${alternatives(issue.options)}`;
  return `${issue.message}${got}`;
};

const TYPES: Readonly<Record<string, string>> = {
  string: 'text in quotes',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list in [ ]',
  object: 'keys and values in { }',
};

const atLeast = (issue: z.core.$ZodIssueTooSmall): string =>
  issue.inclusive === false ? `more than ${issue.minimum}` : `${amount(issue.origin, issue.minimum)} at least`;

const amount = (origin: string, bound: number | bigint): string => {
  if (origin === 'string') return `${bound} characters`;
  return origin === 'array' ? `${bound} entries` : String(bound);
};

const alternatives = (values: readonly unknown[]): string => {
  const words = values.map((value) => JSON.stringify(value));
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
};

const shown = (input: unknown, secrets: readonly Secret[]): string => {
  const text = JSON.stringify(input, (_, part: unknown) =>
    typeof part === 'string' ? withoutSecrets(part, secrets) : part,
  );
  if (text === undefined) return '';
  return `, got ${text.length > 60 ? `${text.slice(0, 57)}…` : text}`;
};

const unknown = (key: string, known: readonly string[]): string => {
  const near = nearest(key, known);
  return near === null
    ? `There is no key of this name here; known are ${known.join(', ')}`
    : `There is no key of this name here: did you mean "${near}"?`;
};

const keysAt = (root: JsonNode, path: readonly PropertyKey[]): readonly string[] => {
  const nodes = path.reduce<readonly JsonNode[]>(
    (level, part) => level.flatMap((node) => childrenOf(node, part)).flatMap(branches),
    [root],
  );
  return nodes.flatMap((node) => Object.keys(node.properties ?? {}));
};

const childrenOf = (node: JsonNode, part: PropertyKey): readonly JsonNode[] => {
  const child = typeof part === 'number' ? node.items : node.properties?.[String(part)];
  return child === undefined ? [] : [child];
};

const branches = (node: JsonNode): readonly JsonNode[] => [node, ...(node.anyOf ?? []), ...(node.oneOf ?? [])];
