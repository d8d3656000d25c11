import { writeFileSync } from 'node:fs';
import { argv } from 'node:process';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { fileSchema, turnKeys } from './schema.ts';
import { VARIABLES } from './environment.ts';

/** What the code reads of a JSON Schema; the rest of it is for editors. */
export type JsonNode = {
  readonly description?: string;
  readonly default?: unknown;
  readonly const?: unknown;
  readonly properties?: Readonly<Record<string, JsonNode>>;
  /** What stands under keys of one's own. */
  readonly additionalProperties?: JsonNode | boolean;
  readonly required?: readonly string[];
  readonly items?: JsonNode;
  readonly anyOf?: readonly JsonNode[];
  readonly oneOf?: readonly JsonNode[];
};

/** The JSON Schema of `turnConfig.json`, as people write that file. */
export const configJsonSchema = (): JsonNode => (made ??= makeSchema());

/** `turnConfig.schema.json`, as it stands in the repository. */
export const jsonSchemaText = (): string =>
  `${JSON.stringify({ title: 'turnConfig.json', ...configJsonSchema() }, null, 2)}\n`;

let made: JsonNode | null = null;
const makeSchema = () => z.toJSONSchema(fileSchema, { io: 'input', target: 'draft-07' }) as JsonNode;

if (argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(new URL('../../turnConfig.schema.json', import.meta.url), jsonSchemaText());
}

/** The table of every key of `turnConfig.json`, from the schema, as Markdown. */
export const configTable = (): string => table(['Key', 'Default', 'Meaning'], rowsOf(configJsonSchema(), ''));

/** The table of the environment variables, as Markdown. */
export const environmentTable = (): string =>
  table(
    ['Variable', 'Default', 'Meaning'],
    VARIABLES.map(({ name, byDefault, meaning }) => [
      code(name),
      byDefault.split(' or ').filter(Boolean).map(code).join(' or '),
      meaning,
    ]),
  );

type Row = readonly [key: string, byDefault: string, meaning: string];

const OVERRIDES: readonly Row[] = [
  ['`channels[].budgets`', '', 'The keys of `budgets`, for this channel alone.'],
  ['`channels[].…`', '', 'Any key of `turnConfig`, for this channel alone.'],
];

const rowsOf = (node: JsonNode, path: string): readonly Row[] => {
  const members = Object.entries(node.properties ?? {}).filter(
    ([key]) => key !== '$schema' && !(path === 'channels[].' && (key === 'budgets' || key in turnKeys)),
  );
  const rows = members.flatMap(([key, child]) =>
    rowsOfKey(child, `${path}${key}`, node.required?.includes(key) ?? false),
  );
  return path === 'channels[].' ? [...rows, ...OVERRIDES] : rows;
};

const rowsOfKey = (node: JsonNode, key: string, required: boolean): readonly Row[] => {
  const row: Row = [`\`${key}\``, required ? 'required' : defaultOf(node), node.description ?? ''];
  const below = [
    ...rowsOf(node, `${key}.`),
    ...(node.oneOf ?? []).flatMap((branch) => rowsOf(branch, `${key}.`)),
    ...rowsOf(node.items ?? {}, `${key}[].`),
    ...(typeof node.additionalProperties === 'object' ? rowsOf(node.additionalProperties, `${key}.….`) : []),
  ];
  return below.length > 0 && node.items === undefined && row[1] === '' ? below : [row, ...below];
};

const code = (text: string): string => `\`${text}\``;

const defaultOf = (node: JsonNode): string =>
  node.default === undefined || node.properties !== undefined ? '' : `\`${JSON.stringify(node.default)}\``;

const table = (head: readonly string[], rows: readonly Row[]): string =>
  [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');

const line = (cells: readonly string[]): string =>
  `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
