import { parseArgs } from 'node:util';
import { didYouMean } from '../lib/nearest.ts';
import { quoted } from '../turns/commands/parse.ts';
import { COST_GROUPS } from './cost.ts';
import type { CostGroup } from './cost.ts';
import { VERBS } from './help.ts';
import type { TrustCall } from './agent-trust.ts';
import type { LoginCall } from './mcp-login.ts';
import type { RunWatch } from './run-watch.ts';
import type { ToolTest } from './tools-test.ts';

/** What the program was asked to do. */
export type CommandLine =
  | { readonly verb: 'help' }
  | { readonly verb: 'version' }
  | { readonly verb: 'start' }
  | { readonly verb: 'ctl'; readonly line: string; readonly channel: string | null; readonly json: boolean }
  /** `from` is the first entry to show; all are checked. */
  | {
      readonly verb: 'replay';
      readonly machine: 'floor' | 'session';
      readonly key: string | null;
      readonly from: number;
    }
  | { readonly verb: 'backup'; readonly file: string }
  | { readonly verb: 'restore'; readonly file: string }
  | { readonly verb: 'prune'; readonly isDryRun: boolean }
  | { readonly verb: 'erase'; readonly what: 'person' | 'message'; readonly id: string }
  /** `background`: only what needs no fold, for the running program. */
  | { readonly verb: 'verify'; readonly file: string | null; readonly json: boolean; readonly background: boolean }
  /** `since`: a day, an instant, or how long ago ("7d", "2h"). */
  | { readonly verb: 'audit'; readonly since: string | null; readonly json: boolean }
  | {
      readonly verb: 'cost';
      readonly by: CostGroup;
      readonly since: string | null;
      readonly format: 'text' | 'json' | 'csv';
    }
  | { readonly verb: 'agent list' }
  | { readonly verb: 'agent'; readonly what: 'add' | 'rotate' | 'revoke'; readonly agent: string }
  | { readonly verb: 'agent check'; readonly agent: string; readonly json: boolean }
  | { readonly verb: 'config check' }
  | LoginCall
  | TrustCall
  | ({ readonly verb: 'tools test'; readonly json: boolean } & ToolTest)
  | ({ readonly verb: 'run watch' } & RunWatch)
  | { readonly verb: 'doctor'; readonly json: boolean }
  | { readonly verb: 'discord invite' }
  | { readonly verb: 'slack manifest' }
  | { readonly verb: 'schema' }
  | { readonly verb: 'open' };

/** A call that was understood, or one sentence that says what was expected. */
export type Understood =
  | { readonly ok: true; readonly call: CommandLine }
  | { readonly ok: false; readonly message: string };

/** Reads the command line (without node and script); no words at all mean `start`. */
export function parseCall(argv: readonly string[]): Understood {
  const [verb, ...rest] = argv;
  if (verb === undefined) return yes({ verb: 'start' });
  if (verb === '--help' || verb === '-h' || verb === 'help') return yes({ verb: 'help' });
  if (verb === '--version' || verb === '-v') return yes({ verb: 'version' });
  const read = CALLS.get(verb);
  if (read === undefined) {
    return no(`There is no command ${quoted(verb)}.${didYouMean(verb, [...CALLS.keys()])} See conch --help.`);
  }
  const given = readOptions(rest, OPTIONS[verb] ?? []);
  if (!given.ok) return no(`${given.message} Usage: conch ${usageOf(verb)}`);
  return given.help && verb !== 'ctl' ? yes({ verb: 'help' }) : read(given);
}

/** What an operator's command line is made of: words with spaces are put in quotes, one word is taken as it is, and so is what holds quotes. */
export function operatorLine(words: readonly string[]): string {
  const [only, second] = words;
  if (only !== undefined && second === undefined) return only;
  return words.map((word) => (/^[^"]*\s[^"]*$/.test(word) ? `"${word}"` : word)).join(' ');
}

type Given = {
  readonly ok: true;
  readonly words: readonly string[];
  readonly help: boolean;
  readonly json: boolean;
  readonly background: boolean;
  readonly isDryRun: boolean;
  readonly channel: string | null;
  readonly from: string | null;
  readonly since: string | null;
  readonly by: string | null;
  readonly csv: boolean;
};

const OPTIONS: Readonly<Record<string, readonly string[]>> = {
  ctl: ['channel', 'json'],
  replay: ['from'],
  agent: ['json'],
  mcp: ['json'],
  doctor: ['json'],
  verify: ['json', 'background'],
  tools: ['channel', 'json'],
  run: ['channel', 'json'],
  prune: ['dry-run'],
  audit: ['since', 'json'],
  cost: ['by', 'since', 'json', 'csv'],
};

const CALLS: ReadonlyMap<string, (given: Given) => Understood> = new Map([
  ['start', (given) => nothingMore(given, { verb: 'start' }, 'start')],
  ['schema', (given) => nothingMore(given, { verb: 'schema' }, 'schema')],
  ['open', (given) => nothingMore(given, { verb: 'open' }, 'open')],
  ['ctl', readCtl],
  ['replay', readReplay],
  ['backup', (given) => readFile(given, 'backup')],
  ['restore', (given) => readFile(given, 'restore')],
  ['verify', readVerify],
  ['prune', (given) => nothingMore(given, { verb: 'prune', isDryRun: given.isDryRun }, 'prune')],
  ['erase', readErase],
  ['audit', (given) => nothingMore(given, { verb: 'audit', since: given.since, json: given.json }, 'audit')],
  ['cost', readCost],
  ['config', readConfig],
  ['agent', readAgent],
  ['mcp', readMcp],
  ['tools', readTools],
  ['run', readRun],
  ['doctor', (given) => nothingMore(given, { verb: 'doctor', json: given.json }, 'doctor')],
  ['discord', (given) => readOnly(given, { verb: 'discord invite' }, 'discord')],
  ['slack', (given) => readOnly(given, { verb: 'slack manifest' }, 'slack')],
]);

function readCtl(given: Given): Understood {
  if (given.help || given.words.length === 0)
    return yes({ verb: 'ctl', line: 'help', channel: null, json: given.json });
  return yes({ verb: 'ctl', line: operatorLine(given.words), channel: given.channel, json: given.json });
}

function readReplay(given: Given): Understood {
  const [first] = given.words;
  const isNamed = first === 'floor' || first === 'session';
  const [key = null, extra] = isNamed ? given.words.slice(1) : given.words;
  if (extra !== undefined) return unexpected(extra, 'replay');
  const from = Number(given.from ?? 1);
  if (!/^\d+$/.test(given.from ?? '1') || !Number.isSafeInteger(from)) {
    return no(`Expected a number after --from, got ${quoted(given.from ?? '')}. Usage: conch ${usageOf('replay')}`);
  }
  return yes({ verb: 'replay', machine: isNamed ? first : 'floor', key, from });
}

function readFile(given: Given, verb: 'backup' | 'restore'): Understood {
  const [file, extra] = given.words;
  if (file === undefined) return no(`Expected a file. Usage: conch ${usageOf(verb)}`);
  return extra === undefined ? yes({ verb, file }) : unexpected(extra, verb);
}

function readVerify({ words, json, background }: Given): Understood {
  const [file = null, extra] = words;
  return extra === undefined ? yes({ verb: 'verify', file, json, background }) : unexpected(extra, 'verify');
}

function readErase({ words }: Given): Understood {
  const [what, id, extra] = words;
  if ((what !== 'person' && what !== 'message') || id === undefined)
    return no(`Expected whose words, and an id. Usage: conch ${usageOf('erase')}`);
  return extra === undefined ? yes({ verb: 'erase', what, id }) : unexpected(extra, 'erase');
}

function readCost(given: Given): Understood {
  const { since, json, csv } = given;
  const by = COST_GROUPS.find((each) => each === (given.by ?? 'agent'));
  if (by === undefined)
    return no(`Expected one of ${COST_GROUPS.join(', ')} after --by, got ${quoted(given.by ?? '')}.`);
  return nothingMore(given, { verb: 'cost', by, since, format: csv ? 'csv' : json ? 'json' : 'text' }, 'cost');
}

function readConfig(given: Given): Understood {
  return readOnly(given, { verb: 'config check' }, 'config');
}

/** A verb after which only one word can follow. */
function readOnly(given: Given, call: Extract<CommandLine, { verb: `${string} ${string}` }>, verb: string): Understood {
  const [, wanted = ''] = call.verb.split(' ');
  const [word, extra] = given.words;
  if (word !== wanted) return no(`Expected "${wanted}" after ${verb}. Usage: conch ${usageOf(verb)}`);
  return extra === undefined ? yes(call) : unexpected(extra, verb);
}

function readAgent(given: Given): Understood {
  const [what, agent, extra] = given.words;
  if (what === 'trust') return readTrust(given);
  if (extra !== undefined) return unexpected(extra, 'agent');
  if (what === 'check') {
    if (agent === undefined) return no(`Expected an agent. Usage: conch ${usageOf('agent check')}`);
    return yes({ verb: 'agent check', agent, json: given.json });
  }
  if (given.json) return no(`There is no option "--json" here. Usage: conch ${usageOf('agent')}`);
  if (what === 'list' && agent === undefined) return yes({ verb: 'agent list' });
  if ((what === 'add' || what === 'rotate' || what === 'revoke') && agent !== undefined) {
    return yes({ verb: 'agent', what, agent });
  }
  return no(`Expected what to do and an agent. Usage: conch ${usageOf('agent')} or ${usageOf('agent check')}`);
}

function readTrust({ words: [, what, agent, extra], json }: Given): Understood {
  if (extra !== undefined) return unexpected(extra, 'agent trust');
  if (what === 'list' && agent === undefined) return yes({ verb: 'agent trust', what, json });
  if (what !== 'revoke' || agent === undefined)
    return no(`Expected "list", or "revoke" and an agent. Usage: conch ${usageOf('agent trust')}`);
  if (json) return no(`There is no option "--json" here. Usage: conch ${usageOf('agent trust')}`);
  return yes({ verb: 'agent trust', what, agent });
}

function readMcp({ words: [what, server, extra], json }: Given): Understood {
  if (extra !== undefined) return unexpected(server ?? '', 'mcp');
  if (what === 'list' && server === undefined) return yes({ verb: 'mcp list', json });
  if ((what !== 'login' && what !== 'logout') || server === undefined) {
    return no(`Expected what to do, and a server. Usage: conch ${usageOf('mcp')}`);
  }
  if (json) return no(`There is no option "--json" here. Usage: conch ${usageOf('mcp')}`);
  return yes({ verb: `mcp ${what}`, server });
}

function readTools(given: Given): Understood {
  const [what, agent, tool, input, extra] = given.words;
  if (extra !== undefined) return unexpected(input ?? '', 'tools');
  if (what !== 'test' || agent === undefined || tool === undefined || input === undefined) {
    return no(`Expected "test", an agent, a tool and its input. Usage: conch ${usageOf('tools')}`);
  }
  return yes({ verb: 'tools test', agent, tool, input, channel: given.channel, json: given.json });
}

function readRun({ words: [what, agent, extra], channel, json }: Given): Understood {
  if (what !== 'watch' || agent === undefined)
    return no(`Expected "watch" and an agent. Usage: conch ${usageOf('run')}`);
  return extra === undefined ? yes({ verb: 'run watch', agent, channel, json }) : unexpected(extra, 'run');
}

function nothingMore(given: Given, call: CommandLine, verb: string): Understood {
  const [extra] = given.words;
  return extra === undefined ? yes(call) : unexpected(extra, verb);
}

function readOptions(
  argv: readonly string[],
  allowed: readonly string[],
): Given | { readonly ok: false; readonly message: string } {
  const { tokens } = parseArgs({
    args: [...argv],
    options: KNOWN_OPTIONS,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const options = new Map<string, string | null>();
  const words: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value);
    if (token.kind !== 'option') continue;
    if (token.name !== 'help' && !allowed.includes(token.name)) {
      const known = allowed.map((name) => `--${name}`);
      return no(`There is no option ${quoted(token.rawName)} here.${didYouMean(token.rawName, known)}`);
    }
    if (TAKES_VALUE.has(token.name) && token.value === undefined) return no(`Expected a value after ${token.rawName}.`);
    options.set(token.name, token.value ?? null);
  }
  const text = (name: string): string | null => options.get(name) ?? null;
  return {
    ok: true,
    words,
    help: options.has('help'),
    json: options.has('json'),
    background: options.has('background'),
    isDryRun: options.has('dry-run'),
    channel: text('channel'),
    from: text('from'),
    since: text('since'),
    by: text('by'),
    csv: options.has('csv'),
  };
}

const KNOWN_OPTIONS = {
  help: { type: 'boolean', short: 'h' },
  json: { type: 'boolean' },
  background: { type: 'boolean' },
  'dry-run': { type: 'boolean' },
  channel: { type: 'string', short: 'c' },
  from: { type: 'string' },
  since: { type: 'string' },
  by: { type: 'string' },
  csv: { type: 'boolean' },
} as const;

const TAKES_VALUE: ReadonlySet<string> = new Set(['channel', 'from', 'since', 'by']);

function usageOf(verb: string): string {
  return Object.entries(VERBS).find(([each]) => each === verb)?.[1].usage ?? verb;
}

function unexpected(word: string, verb: string): Understood {
  return no(`Expected nothing after ${quoted(word)}. Usage: conch ${usageOf(verb)}`);
}

function yes(call: CommandLine): Understood {
  return { ok: true, call };
}

function no(message: string): { readonly ok: false; readonly message: string } {
  return { ok: false, message };
}
