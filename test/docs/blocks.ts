import type { InterruptMode } from '../../src/turns/floor/policies.ts';
import { INTERRUPT_MODES, MODES, ORDERS, POLICIES } from '../../src/turns/floor/policies.ts';
import { code, configTable, environmentTable, table } from './config-tables.ts';
import { roomsPicture, roomsTable } from '../house/measure.ts';
import { DEMO_REVIEWS } from '../../src/agents/backends/scripted/demo-reviews.ts';
import { DEMO_WORDS } from '../../src/agents/backends/scripted/demo-words.ts';
import { exitMeanings } from '../../src/runtime/exit-codes.ts';
import { OUTCOMES } from '../../src/agents/backends/check-record.ts';
import { PROGRAM_COMMANDS } from '../../src/cli/arguments.ts';
import { createLog, transitionLine } from '../../src/runtime/log.ts';
import { RECEIPTS } from '../../src/turns/floor/react.ts';
import type { Receipt } from '../../src/turns/floor/react.ts';
import { TRANSITIONS } from '../../src/turns/floor/seats.ts';
import { usage } from '../../src/turns/commands/parse.ts';
import { ACP_PROFILES } from '../../src/agents/backends/acp/acp-profiles.ts';
import type { RepositoryFiles } from '../../src/agents/trust/repository-files.ts';
import { REAL_AGENTS } from '../agents/real/agents.ts';
import { COMMANDS } from '../../src/turns/commands/command-table.ts';
import type { CommandRow } from '../../src/turns/commands/command-table.ts';

/** By name: the generated text between `<!-- begin: name -->` and `<!-- end: name -->` in the documents. */
export const BLOCKS: Readonly<Record<string, () => string>> = {
  states: statesTable,
  'state-diagram': stateDiagram,
  modes: modesTable,
  orders: () =>
    table(
      ['Order', 'Who is next'],
      ORDERS.map((order) => [code(order), POLICIES[order].summary]),
    ),
  demo: () =>
    table(
      ['Write', 'The agent'],
      DEMO_WORDS.map(({ example, shows }) => [code(example), shows]),
    ),
  'demo-reviews': () =>
    table(
      ['Write', 'The review'],
      DEMO_REVIEWS.map(({ example, shows }) => [code(example), shows]),
    ),
  commands: commandsTable,
  verbs: () =>
    table(
      ['Command', 'What it does'],
      PROGRAM_COMMANDS.map(({ usage: typed, summary }) => [code(`conch ${typed}`), summary]),
    ),
  'exit-codes': exitCodesTable,
  config: configTable,
  environment: environmentTable,
  'log-line': logLine,
  rooms: roomsTable,
  'checked-agents': () =>
    table(
      ['Profile', 'Package', 'Release', 'The agent'],
      REAL_AGENTS.map(({ profile, package: name, version, check, why }) => [
        code(profile),
        code(name),
        version,
        why === undefined ? OUTCOMES[check] : `${OUTCOMES[check]}: ${why}`,
      ]),
    ),
  'repository-files': () =>
    table(
      ['Profile', 'Asked about', 'Switched off'],
      REAL_AGENTS.map(({ profile }) => {
        const { files }: RepositoryFiles = ACP_PROFILES[profile].repositoryFiles;
        const named = (isOff: boolean) =>
          files.filter(({ offBy }) => (offBy !== undefined) === isOff).map(({ path }) => code(path));
        return [code(profile), named(false).join(', ') || '–', named(true).join(', ') || '–'];
      }),
    ),
  'rooms-picture': () => roomsPicture(new URL('../../src', import.meta.url).pathname),
};

/** The document with all blocks generated anew. Throws for an unknown block, or one without an end. */
export function filled(text: string): string {
  const begun = text.match(/<!-- begin: /g)?.length ?? 0;
  let done = 0;
  const result = text.replaceAll(
    /<!-- begin: ([\w-]+) -->\n[\s\S]*?<!-- end: \1 -->/g,
    (_block: string, name: string) => {
      const make = BLOCKS[name];
      if (make === undefined) throw new Error(`There is no generated block "${name}"`);
      done += 1;
      return `<!-- begin: ${name} -->\n${make()}\n<!-- end: ${name} -->`;
    },
  );
  if (done !== begun) throw new Error(`${begun} blocks begin and ${done} end`);
  return result;
}

function statesTable(): string {
  return table(
    ['From', 'To', 'Trigger', 'What happens'],
    TRANSITIONS.map(({ from, to, trigger, action }) => [from.join(', '), to, code(trigger), action]),
  );
}

function stateDiagram(): string {
  const triggers = new Map<string, string[]>();
  for (const { from, to, trigger } of TRANSITIONS) {
    for (const each of from) {
      const arrow = `${each} --> ${to}`;
      triggers.set(arrow, [...(triggers.get(arrow) ?? []), trigger]);
    }
  }
  const arrows = [...triggers].map(([arrow, names]) => `  ${arrow}: ${names.join(', ')}`);
  return ['```mermaid', 'stateDiagram-v2', '  [*] --> OFFLINE', ...arrows, '```'].join('\n');
}

const RECEIPT_OF_MODE: Readonly<Record<InterruptMode, Receipt>> = {
  inject: 'injected',
  queue: 'held',
  interrupt: 'preempted',
  parallel: 'observed',
};

function modesTable(): string {
  return table(
    ['Mode', 'While an agent has the floor', 'Receipt', 'Also called'],
    INTERRUPT_MODES.map((mode) => {
      const { summary, aliases } = MODES[mode];
      return [code(mode), summary, RECEIPTS[RECEIPT_OF_MODE[mode]], aliases.map(code).join(', ')];
    }),
  );
}

function commandsTable(): string {
  return table(
    ['Command', 'What it does', 'For'],
    COMMANDS.map((row: CommandRow) => [code(usage(row)), row.summary, rights(row)]),
  );
}

function rights({ needs, withoutArguments }: CommandRow): string {
  if (needs === 'read') return 'everybody';
  return withoutArguments === 'read' ? 'everybody to show, operators to change' : 'operators';
}

function exitCodesTable(): string {
  return table(
    ['Code', 'Meaning'],
    exitMeanings().map(([each, meaning]) => [String(each), meaning]),
  );
}

function logLine(): string {
  const at = Date.UTC(2026, 1, 4, 21);
  const lines: string[] = [];
  const log = createLog({
    level: 'info',
    pretty: false,
    secrets: [],
    destination: { write: (line) => lines.push(line) },
    clock: { now: () => at },
  });
  log.info(
    transitionLine(
      { type: 'seatMoved', agent: 'pm', from: 'ACTIVE', to: 'QUEUED', trigger: 'TURN_COMPLETE' },
      at,
      'reviews',
    ),
  );
  return ['```jsonl', lines.join('').trim(), '```'].join('\n');
}
