import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { VARIABLES } from '../../src/config/environment.ts';
import { configJsonSchema, jsonSchemaText, turnKeys } from '../../src/config/schema.ts';
import type { JsonNode } from '../../src/config/schema.ts';
import { configTable, environmentTable } from '../docs/config-tables.ts';
import { load } from './world.ts';

const repositoryText = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');
const example: unknown = JSON.parse(repositoryText('turnConfig.example.json'));

/** Paths of settings whose keys the docs describe once, at another path with the same keys. */
const AS_ELSEWHERE = /^crews\[\]\.(?:backend|tools)\.$/;

/** Returns every key of the schema, such as `channels[].id`. Keys of turnConfig count once, not for channels again. */
const keysOf = (node: JsonNode, path = ''): readonly (readonly [string, JsonNode])[] => {
  if (AS_ELSEWHERE.test(path)) return [];
  const nodes = [node, ...(node.anyOf ?? []), ...(node.oneOf ?? [])];
  const members = nodes.flatMap((one) => Object.entries(one.properties ?? {}));
  return [
    ...members
      .filter(([key]) => !(path === 'channels[].' && key in turnKeys))
      .flatMap(([key, child]) => [[[`${path}${key}`, child] as const], keysOf(child, `${path}${key}.`)].flat()),
    ...(node.items === undefined ? [] : keysOf(node.items, `${path.slice(0, -1)}[].`)),
  ];
};

const keysIn = (value: unknown, path = ''): readonly string[] => {
  if (Array.isArray(value)) return value.flatMap((element: unknown) => keysIn(element, `${path.slice(0, -1)}[].`));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, member]) => [`${path}${key}`].concat(keysIn(member, `${path}${key}.`)));
};

describe('turnConfig.schema.json', () => {
  test('equals the schema that the code generates (node test/docs/write.ts writes it)', () => {
    expect(JSON.parse(repositoryText('turnConfig.schema.json'))).toEqual(JSON.parse(jsonSchemaText()));
  });
  test('describes every key', () => {
    const keys = keysOf(configJsonSchema());
    expect(keys.length).toBeGreaterThan(60);
    expect(keys.filter(([, node]) => (node.description ?? '') === '').map(([key]) => key)).toEqual([]);
  });
  test('has the default of every key of turnConfig, and requires none', () => {
    const node = configJsonSchema().properties?.['turnConfig'];
    const byDefault = Object.entries(node?.properties ?? {}).map(([key, child]) => [key, child.default]);
    expect(Object.fromEntries(byDefault)).toEqual(load({}).turnConfig);
    expect(node?.required ?? []).toEqual([]);
  });
});

describe('turnConfig.example.json', () => {
  test('is a configuration without a fault or a warning', () => {
    expect(load(example, { GITHUB_TOKEN: 'a token' }).warnings).toEqual([]);
  });
  test('contains every key, except those of tickets and of the store', () => {
    const named = new Set(keysIn(example));
    // The example has one kind of tickets only, and no store, because it must start without PostgreSQL.
    const missing = keysOf(configJsonSchema()).filter(
      ([key]) => !named.has(key) && !/^(crews\[\]\.tickets\.|store\b)/.test(key),
    );
    expect(missing.map(([key]) => key)).toEqual([]);
  });
});

describe('the tables of the README', () => {
  test('have a row for every key, with its default and its meaning', () => {
    const table = configTable();
    expect(table).toContain('| `turnConfig.defaultTimeoutSeconds` | `60` | Seconds without a sign');
    expect(table).toContain('| `agents[].id` | required | The id of the agent in channels');
    expect(table).toContain('| `agents[].backend.script` | required | Which');
    expect(table).toContain('| `adapters.console.port` | `7420` | The port');
    const rows = new Set(table.split('\n').map((line) => line.split('`')[1]));
    const leaves = keysOf(configJsonSchema()).filter(
      ([key, node]) => node.properties === undefined && !/^(\$schema$|channels\[\]\.budgets\.)/.test(key),
    );
    expect(leaves.map(([key]) => key).filter((key) => !rows.has(key))).toEqual([]);
  });
  test('T54 name every environment variable, as .env.example does', () => {
    const names = VARIABLES.map(({ name }) => name);
    expect(environmentTable().match(/`[A-Z]\w+`/g)).toEqual(names.map((name) => `\`${name}\``));
    expect(repositoryText('.env.example').match(/^# [A-Z_]+(?==)/gm)).toEqual(names.map((name) => `# ${name}`));
  });
});
