import type { Random } from '../kill/random.ts';
import { ODD_TEXTS, mutated, oddText } from './bytes.ts';

/** A value of JSON. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

const DEEP = 20_000;
const SIMPLE: readonly Json[] = [
  null,
  true,
  false,
  0,
  -0,
  -1,
  1.5,
  2 ** 53,
  -(2 ** 63),
  1e308,
  '',
  [],
  {},
  [[]],
  [null],
];

/** The text of a value: mostly of a changed value, sometimes with a broken syntax. */
export function jsonText(random: Random, value: Json): string {
  const text = JSON.stringify(random.chance(0.6) ? changed(random, value) : value);
  if (random.chance(0.85)) return text;
  switch (random.between(0, 6)) {
    case 0:
      return `${'['.repeat(DEEP)}${']'.repeat(DEEP)}`;
    case 1:
      return `${'{"a":'.repeat(DEEP)}${text}${'}'.repeat(DEEP)}`;
    case 2:
      return `[${text},${text}]`;
    case 3:
      return text.replace('{', '{"__proto__":{"x":1},"constructor":{"prototype":null},');
    case 4:
      return text.replaceAll(/\d+/g, random.pick(['1e999', '-0', '9'.repeat(400), '01', '0.'.padEnd(60, '1')]));
    case 5:
      return oddText(random);
    default:
      return mutated(random, Buffer.from(text)).toString('latin1');
  }
}

/** The value with some parts replaced, removed, added, or nested deep in others. */
function changed(random: Random, value: Json): Json {
  if (random.chance(0.08)) return oddValue(random);
  if (value === null || typeof value !== 'object') return value;
  if (isList(value)) {
    const kept = value.filter(() => random.chance(0.92)).map((each) => changed(random, each));
    return random.chance(0.1) ? [...kept, oddValue(random)] : kept;
  }
  const entries = Object.entries(value).filter(() => random.chance(0.92));
  const kept = entries.map(([key, each]): [string, Json] => [key, changed(random, each)]);
  if (random.chance(0.1)) kept.push([oddKey(random), oddValue(random)]);
  return Object.fromEntries(kept);
}

function oddValue(random: Random): Json {
  switch (random.between(0, 3)) {
    case 0:
      return oddText(random);
    case 1:
      return { [oddKey(random)]: random.pick(SIMPLE) };
    case 2:
      return deep(random.between(1, 500));
    default:
      return random.pick(SIMPLE);
  }
}

function oddKey(random: Random): string {
  return random.pick(['type', 'id', 'method', 'params', 'result', 'error', 'channel', 'ts', 'length', ...ODD_TEXTS]);
}

function deep(levels: number): Json {
  let value: Json = 1;
  for (let left = levels; left > 0; left -= 1) value = left % 2 === 0 ? [value] : { a: value };
  return value;
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}
