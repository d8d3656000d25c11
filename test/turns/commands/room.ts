import type { Command } from '../../../src/turns/floor/command.ts';
import type { Refusal } from '../../../src/turns/floor/refusals.ts';
import type { Fact } from '../../../src/turns/floor/fact.ts';
import { emptyFloor } from '../../../src/turns/floor/floor.ts';
import type {
  Answer,
  Approvers,
  Audit,
  CommandContext,
  OperatorSet,
  Person,
} from '../../../src/turns/commands/context.ts';
import { createOperators } from '../../../src/turns/commands/execute.ts';
import type { FloorView, InboxRow, JournalEntry, TurnRecord } from '../../../src/turns/view.ts';

export const T0 = Date.parse('2026-02-04T21:00:30Z');
export const ANN: Person = { id: 'ann', name: 'Ann', roles: [] };
export const OLA: Person = { id: 'ola', name: 'Ola', roles: ['crew'] };

const CHANNEL = 'console:demo';
const NAMES: Readonly<Record<string, string>> = { dev: 'Developer', 'console:demo': 'demo', 'console:other': 'other' };

type Options = {
  readonly view?: FloorView | null;
  readonly facts?: readonly Fact[];
  readonly refusal?: Refusal;
  readonly operators?: OperatorSet;
  readonly seat?: NonNullable<CommandContext['seat']>;
  readonly seats?: FloorView['seats'];
  readonly why?: readonly JournalEntry[];
  readonly approvers?: Approvers;
};

/** The number of a request that bob has decided. */
export const OVER = 1;

/** A channel with pm, dev (the holder) and qa. Its floor accepts all commands, or refuses all if `refusal` is set. */
export function room(options: Options = {}) {
  const commands: { readonly channel: string; readonly command: Command }[] = [];
  const restarted: string[] = [];
  const audit: Audit[] = [];
  const context: CommandContext = {
    floors: {
      async apply(channel, command) {
        commands.push({ channel, command });
        const floor = emptyFloor(channel);
        return options.refusal === undefined
          ? { ok: true, state: floor, facts: options.facts ?? [], effects: [] }
          : { ok: false, state: floor, refusal: options.refusal };
      },
      view: () => (options.view === undefined ? view() : options.view),
      turns: () => TURNS,
      why: () => options.why ?? STEPS,
      message: (id) => MESSAGES.find((each) => each.id === id) ?? null,
    },
    roster: {
      list: () => [
        { id: 'pm', name: 'pm', backend: 'scripted', state: 'Running', channels: [CHANNEL] },
        { id: 'dev', name: 'Developer', backend: 'scripted', state: 'Running', channels: [CHANNEL, 'console:other'] },
        { id: 'qa', name: 'qa', backend: 'scripted', state: 'Stopped', channels: [CHANNEL] },
      ],
      status: (agent) => [agent, 'Running'],
      async restart(agent) {
        restarted.push(agent);
        return { ok: true, text: `${agent} restarted.` };
      },
    },
    operators: () => options.operators ?? { users: ['ola'], roles: [] },
    names: { agent: (id) => NAMES[id] ?? id, channel: (id) => NAMES[id] ?? id },
    words: { refusal: (refusal, { agent }) => `refused: ${refusal} (${agent})` },
    clock: { now: () => T0 },
    runs: {
      run: (verb, agent) => ({ ok: true, text: `${verb} ${agent}` }),
      answered: (_, named) =>
        'question' in named && named.question === OVER ? 'That request is closed: already allowed by bob.' : null,
      totals: (agent) => (agent === 'dev' ? '3 runs' : null),
      approvers: () => options.approvers ?? null,
    },
    crews: { run: (verb) => ({ ok: true, text: verb }) },
    reviews: {
      start: async ({ values }, { primary, reviewer }) => ({
        ok: true,
        text: `${primary} ${reviewer} ${values.count} ${values.words}`,
      }),
      status: ({ values }) => ({ ok: true, text: `status ${values.json}` }),
      agents: () => null,
      export: () => ({ ok: true, text: '{}' }),
      accept: async () => ({ ok: true, text: 'accept' }),
      uphold: async () => ({ ok: true, text: 'uphold' }),
      more: async ({ values }) => ({ ok: true, text: `more ${values.count}` }),
      diff: async () => ({ ok: true, text: 'diff' }),
      cancel: async ({ values }) => ({ ok: true, text: `cancel ${values.words}` }),
    },
    audit: (entry) => audit.push(entry),
    ...(options.seat === undefined ? {} : { seat: options.seat }),
  };
  const operators = createOperators(context);
  const run = (line: string, person: Person, drawnFor?: string): Promise<Answer> =>
    operators.run(CHANNEL, person, line, drawnFor);
  const refusal = (line: string, person: Person): string | null => operators.refusal(CHANNEL, person, line);
  return { run, refusal, commands, restarted, audit };
}

export function view(changes: Partial<FloorView> = {}): FloorView {
  return {
    channel: CHANNEL,
    store: 'x',
    condition: 'open',
    mode: 'inject',
    order: 'round-robin',
    epoch: 2,
    holder: {
      agent: 'dev',
      epoch: 2,
      status: 'ACTIVE',
      startedAt: T0 - 18_000,
      deadlineAt: T0 + 71_001,
      waitingFor: null,
      working: false,
      approval: null,
    },
    seats: seats(),
    next: ['qa', 'pm'],
    held: ['1234567890'],
    turns: { used: 3, allowed: 12 },
    obstacles: [],
    ...changes,
  };
}

export function seats(): FloorView['seats'] {
  return [
    { agent: 'pm', status: 'QUEUED', disabled: false, waitUntil: null },
    { agent: 'dev', status: 'ACTIVE', disabled: false, waitUntil: null },
    { agent: 'qa', status: 'OFFLINE', disabled: true, waitUntil: null },
  ];
}

const TURNS: readonly TurnRecord[] = [
  { epoch: 1, agent: 'pm', startedAt: T0 - 30_000, endedAt: T0 - 18_000, outcome: 'completed', said: 2, waits: [] },
  {
    epoch: 2,
    agent: 'dev',
    startedAt: T0 - 18_000,
    endedAt: null,
    outcome: null,
    said: 0,
    waits: [{ reason: 'answer', at: T0 - 9_000, endedAt: null }],
  },
];

const MESSAGE: InboxRow = {
  id: '1234567890',
  channel: CHANNEL,
  author: { id: 'ann', name: 'Ann' },
  text: 'please\nwait for me',
  sentAt: T0 - 40_000,
  order: '1',
  addressed: [],
  attachments: [],
  fate: { state: 'delivered', to: ['dev'], via: 'prompt' },
  since: 0,
  edited: true,
  deleted: false,
};

const MESSAGES: readonly InboxRow[] = [
  MESSAGE,
  { ...MESSAGE, id: 'secret', channel: 'console:other' },
  { ...MESSAGE, id: 'waiting', fate: { state: 'held', until: 'prompt' } },
  { ...MESSAGE, id: 'injected', fate: { state: 'delivered', to: ['dev'], via: 'inject' } },
];

const STEPS: readonly JournalEntry[] = [
  {
    key: CHANNEL,
    seq: 1,
    at: T0 - 39_000,
    hash: '',
    fact: {
      type: 'messageRouted',
      id: '1234567890',
      fate: { state: 'held', until: 'turn' },
      line: null,
      addressed: [],
      order: '1',
      holder: { agent: 'pm', epoch: 1 },
    },
  },
  {
    key: CHANNEL,
    seq: 2,
    at: T0 - 18_000,
    hash: '',
    fact: {
      type: 'turnGranted',
      agent: 'dev',
      epoch: 2,
      afterLine: 0,
      uptoLine: 1,
      messages: ['1234567890'],
      keepsPlace: false,
    },
  },
];
