import { configJsonSchema, type JsonNode } from './json-schema.ts';
import { turnKeys } from './turn-config.ts';

/** The README's table of every key of `turnConfig.json`, from the schema, as Markdown. */
export const configTable = (): string => table(['Key', 'Default', 'Meaning'], rowsOf(configJsonSchema(), ''));

/** The README's table of the environment variables, as Markdown. */
export const environmentTable = (): string => table(['Variable', 'Default', 'Meaning'], VARIABLES);

type Row = readonly [key: string, byDefault: string, meaning: string];

const VARIABLES: readonly Row[] = [
  ['`CONCH_CONFIG`', '`turnConfig.json`', 'The configuration file. Without one, the demo.'],
  ['`CONCH_DATA_DIR`', '`.conch`', 'Where the database is.'],
  ['`CONCH_PORT`', '`7420`', 'The port of the page; goes before the file.'],
  [
    '`OPENAI_API_KEY`, `ANTHROPIC_API_KEY`',
    '',
    "With one of them the demo's agents speak through that provider's model.",
  ],
  ['`OPENAI_BASE_URL`', '', "The same, through any endpoint that speaks OpenAI's API."],
  ['`CONCH_MODEL`', '`gpt-5-mini` or `claude-sonnet-4-5`', "Which model the demo's agents speak through."],
  ['`DISCORD_TOKEN`', '', "The bot's token, for channels on Discord (docs/discord.md)."],
  ['`DISCORD_API_URL`', '', 'Another server in place of Discord, for tests.'],
  ['`SLACK_BOT_TOKEN`', '', "The app's bot token (xoxb-…), for channels on Slack (docs/slack.md)."],
  ['`SLACK_APP_TOKEN`', '', 'The app-level token (xapp-…), for events over sockets.'],
  ['`SLACK_SIGNING_SECRET`', '', 'The signing secret, for events as signed requests.'],
  ['`SLACK_API_URL`', '', 'Another server in place of Slack, for tests; ends in /api/.'],
  ['`CONCH_LOG_LEVEL`', '`info`', 'fatal, error, warn, info, debug or trace; goes before the file.'],
];

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
  ];
  return below.length > 0 && node.items === undefined && row[1] === '' ? below : [row, ...below];
};

const defaultOf = (node: JsonNode): string =>
  node.default === undefined || node.properties !== undefined ? '' : `\`${JSON.stringify(node.default)}\``;

const table = (head: readonly string[], rows: readonly Row[]): string =>
  [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');

const line = (cells: readonly string[]): string =>
  `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
