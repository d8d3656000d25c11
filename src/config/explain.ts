import type { z } from 'zod';
import { nearest } from '../lib/nearest.ts';
import type { PathProblem } from './error.ts';
import { configJsonSchema, turnKeys } from './schema.ts';
import type { JsonNode } from './schema.ts';
import { withoutSecrets } from './secret.ts';
import type { Secret } from './secret.ts';

/** Explains in words what the schema refuses, each problem with its path. */
export const explain = (error: z.ZodError, secrets: readonly Secret[]): readonly PathProblem[] => {
  const root = configJsonSchema();
  return error.issues.flatMap((issue): readonly PathProblem[] =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => ({ path: [...issue.path, key], message: unknown(key, issue, root) }))
      : [{ path: issue.path, message: messageOf(issue, secrets) }],
  );
};

const messageOf = (issue: z.core.$ZodIssue, secrets: readonly Secret[]): string => {
  const got = gotWords(issue.input, secrets);
  if (!issue.message.startsWith('Invalid') && !issue.message.startsWith('Too')) return `${issue.message}${got}`;
  if (issue.code === 'invalid_type' && issue.input === undefined) return 'This key is missing: add it';
  if (issue.code === 'invalid_type') return `Expected ${TYPES[issue.expected] ?? issue.expected}${got}`;
  if (issue.code === 'invalid_value')
    return `Expected ${alternatives(issue.values)}${got}${meant(issue.input, issue.values)}`;
  if (issue.code === 'too_small') return `Expected ${atLeast(issue)}${got}`;
  if (issue.code === 'too_big') return `Expected ${amount(issue.origin, issue.maximum)} at most${got}`;
  if (issue.code === 'invalid_union' && 'options' in issue && issue.options !== undefined)
    return `Expected ${alternatives(issue.options)}${meant(memberOf(issue.input, issue.path.at(-1)), issue.options)}`;
  return `${issue.message}${got}`;
};

const TYPES: Readonly<Record<string, string>> = {
  string: 'text in quotes',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list in [ ]',
  object: 'keys and values in { }',
  record: 'keys and values in { }',
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

const gotWords = (input: unknown, secrets: readonly Secret[]): string => {
  const text = JSON.stringify(input, (_, part: unknown) =>
    typeof part === 'string' ? withoutSecrets(part, secrets) : part,
  );
  if (text === undefined) return '';
  return `, got ${text.length > 60 ? `${text.slice(0, 57)}…` : text}`;
};

const meant = (value: unknown, values: readonly unknown[]): string => {
  const words = values.filter((each) => typeof each === 'string');
  const near = typeof value === 'string' ? nearest(value, words) : null;
  return near === null ? '' : `: did you mean "${near}"?`;
};

const unknown = (key: string, { path, input }: z.core.$ZodIssue, root: JsonNode): string => {
  const variable = variableFor(key, path);
  if (variable !== null)
    return `Tokens and secrets of a platform do not belong in this file: put ${variable} into the environment or .env`;
  const nodes = nodesAt(root, path, input);
  const keys = nodes.flatMap((node) => Object.keys(node.properties ?? {}));
  const home = nodes.flatMap((node) => homesIn(node, key))[0] ?? (key in turnKeys ? 'turnConfig' : undefined);
  if (home !== undefined) return `Unknown key here: it belongs in "${home}"`;
  if (root.properties?.[key] !== undefined) return `Unknown key here: it belongs at the top level of the file`;
  const near = nearest(key, keys);
  return near === null ? `Unknown key; known are ${keys.join(', ')}` : `Unknown key: did you mean "${near}"?`;
};

const variableFor = (key: string, [first, adapter]: readonly PropertyKey[]): string | null => {
  if (first !== 'adapters' || !/token|secret/i.test(key)) return null;
  if (adapter === 'discord') return 'DISCORD_TOKEN';
  if (adapter !== 'slack') return null;
  return /sign/i.test(key) ? 'SLACK_SIGNING_SECRET' : /app/i.test(key) ? 'SLACK_APP_TOKEN' : 'SLACK_BOT_TOKEN';
};

/** Returns the schema nodes at a path. Of a union by `kind`, leaves out the nodes of other kinds than the value's. */
const nodesAt = (root: JsonNode, path: readonly PropertyKey[], value: unknown): readonly JsonNode[] => {
  const nodes = path.reduce<readonly JsonNode[]>(
    (level, part) => level.flatMap((node) => childrenOf(node, part)).flatMap(branches),
    [root],
  );
  const kind = memberOf(value, 'kind');
  return nodes.filter(({ properties }) => properties?.['kind'] === undefined || properties['kind'].const === kind);
};

const homesIn = (node: JsonNode, key: string): readonly string[] =>
  Object.entries(node.properties ?? {}).flatMap(([name, child]) =>
    branches(child).some(({ properties }) => properties?.[key] !== undefined) ? [name] : [],
  );

const memberOf = (value: unknown, key: PropertyKey | undefined): unknown =>
  typeof value === 'object' && value !== null && key !== undefined ? Reflect.get(value, key) : undefined;

const childrenOf = (node: JsonNode, part: PropertyKey): readonly JsonNode[] => {
  const { additionalProperties: own } = node;
  const child =
    typeof part === 'number'
      ? node.items
      : (node.properties?.[String(part)] ?? (typeof own === 'object' ? own : undefined));
  return child === undefined ? [] : [child];
};

const branches = (node: JsonNode): readonly JsonNode[] => [node, ...(node.anyOf ?? []), ...(node.oneOf ?? [])];
