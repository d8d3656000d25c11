import { VARIABLES } from '../../src/config/environment.ts';
import { configJsonSchema, turnKeys } from '../../src/config/schema.ts';
import type { JsonNode } from '../../src/config/schema.ts';

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
  [
    '`channels[].…`',
    '',
    'Any key of `turnConfig` for this channel alone, except `heartbeatSeconds`, `heartbeatTimeoutSeconds` and `reconnectGraceSeconds`.',
  ],
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

const defaultOf = (node: JsonNode): string =>
  node.default === undefined || node.properties !== undefined ? '' : `\`${JSON.stringify(node.default)}\``;

/** A Markdown table. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`)
    .join('\n');
}

/** A text in backticks. */
export function code(text: string): string {
  return `\`${text}\``;
}
