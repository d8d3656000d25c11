import { VARIABLES } from '../config/environment.ts';
import { EXIT_CODES, EXIT_MEANINGS } from '../runtime/exit-codes.ts';

/** One thing that the program does when it is run. */
type Verb = { readonly usage: string; readonly summary: string };

/** What can be run, by its first word. */
export const VERBS = {
  start: { usage: 'start', summary: 'run the bot and its console page (the default)' },
  open: { usage: 'open', summary: 'print a link that opens the page of the running bot, once' },
  ctl: {
    usage: 'ctl <command…> [--channel id] [--json]',
    summary: 'give the running bot a command: "conch ctl floor skip"',
  },
  replay: {
    usage: 'replay [floor|session] [key] [--from seq]',
    summary: 'show a channel or a session from its journal, and check it',
  },
  backup: { usage: 'backup <file>', summary: 'write a consistent copy of the database' },
  verify: {
    usage: 'verify [file] [--json]',
    summary: 'check the database or a backup whole; Conch may be running',
  },
  prune: { usage: 'prune [--dry-run]', summary: 'take away what is older than retention.days; or only count it' },
  erase: { usage: 'erase <person|message> <id>', summary: "take a person's words, or one message, out for good" },
  audit: {
    usage: 'audit [--since 7d] [--json]',
    summary: 'print all tool calls: who allowed them, what came of them',
  },
  cost: {
    usage: 'cost [--by agent|channel|person|model] [--since 7d] [--json|--csv]',
    summary: 'print what calls of models have used and cost',
  },
  restore: { usage: 'restore <file>', summary: 'put a backup in the place of the database, which is kept aside' },
  agent: {
    usage: 'agent <add|rotate|revoke|list> [id]',
    summary: 'tokens of agents that connect by themselves',
  },
  'agent check': {
    usage: 'agent check <id> [--json]',
    summary: 'see whether a coding agent asks before it acts',
  },
  'agent trust': {
    usage: 'agent trust <list|revoke> [id]',
    summary: "list which files of agents' folders are trusted, or forget it",
  },
  mcp: {
    usage: 'mcp <login|logout|list> [server]',
    summary: 'sign Conch in at a server of tools, or out, or list where it is',
  },
  doctor: {
    usage: 'doctor [--json]',
    summary: 'try agents, tokens, permissions, ports, database; say what to do',
  },
  discord: { usage: 'discord invite', summary: 'print the address that invites the bot to a Discord server' },
  slack: { usage: 'slack manifest', summary: 'print the manifest from which Slack makes the app' },
  config: { usage: 'config check', summary: 'check turnConfig.json and the environment; list every problem' },
  tools: {
    usage: 'tools test <agent> <tool> <json> [--channel id] [--json]',
    summary: 'say which rule decides about a tool call, and how',
  },
  run: {
    usage: 'run watch <agent> [--channel id] [--json]',
    summary: 'show what an agent does with its tools, as it happens',
  },
  schema: { usage: 'schema', summary: 'print the JSON Schema of turnConfig.json for editors' },
} as const satisfies Readonly<Record<string, Verb>>;

const LEFT_WIDTH = 30;
const TEXT_WIDTH = 66;

/** What `conch --help` prints. */
export function usageText(): string {
  const codes = Object.entries(EXIT_CODES).map(([name, code]) => [String(code), meaningOf(name)] as const);
  return [
    'Conch: AI agents and people share one chat channel, and whoever holds the conch may speak.',
    '',
    'Usage: conch [command]',
    '',
    ...columns(Object.values(VERBS).map((verb) => [verb.usage, verb.summary])),
    ...columns([
      ['--help', 'show this'],
      ['--version', 'show the version'],
    ]),
    '',
    'Environment (also read from .env):',
    ...columns(ENVIRONMENT),
    '',
    'Exit codes:',
    ...columns(codes),
    '',
    'Commands for the running bot: conch ctl help',
  ].join('\n');
}

/** A variable's meaning, with its default if the line has room for it. */
const ENVIRONMENT = VARIABLES.map(({ name, byDefault, meaning }) => {
  const whole = byDefault === '' ? meaning : `${meaning} (${byDefault})`;
  return [name, whole.length > TEXT_WIDTH ? meaning : whole] as const;
});

function columns(rows: readonly (readonly [string, string])[]): readonly string[] {
  return rows.map(([left, right]) =>
    left.length > LEFT_WIDTH
      ? `  ${left}\n  ${' '.repeat(LEFT_WIDTH)}  ${right}`
      : `  ${left.padEnd(LEFT_WIDTH)}  ${right}`,
  );
}

function meaningOf(name: string): string {
  return Object.entries(EXIT_MEANINGS).find(([each]) => each === name)?.[1] ?? '';
}
