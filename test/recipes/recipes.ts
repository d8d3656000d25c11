/** A change of a file: lines to add after an anchor. A new file has no anchor. */
type Edit = { readonly file: string; readonly after?: string; readonly add: string };

/** A recipe of CONTRIBUTING.md with an example. `check`: statements that throw unless the example works. */
export type Recipe = { readonly name: string; readonly edits: readonly Edit[]; readonly check: string };

/** The smallest example of each recipe. */
export const RECIPES: readonly Recipe[] = [
  {
    name: 'command',
    edits: [
      {
        file: 'src/turns/commands/command-table.ts',
        after: 'export const COMMANDS = [',
        add: "shows('floor seats', 'Show how many agents have a seat'),",
      },
      {
        file: 'src/turns/commands/execute.ts',
        after: 'const RUN: Readonly<Record<CommandPath, Run>> = {',
        add: "'floor seats': shows((view) => `${view.seats.length} seats`),",
      },
    ],
    check: `
      import { parseLine } from './src/turns/commands/parse.ts';
      assert.equal(parseLine('/floor seats').ok, true);
    `,
  },
  {
    name: 'order',
    edits: [
      { file: 'src/config/schema.ts', after: 'const ORDER_NAMES = [', add: "'reverse'," },
      {
        file: 'src/turns/floor/policies.ts',
        after: 'export const POLICIES: Readonly<Record<OrderPolicy, Policy>> = {',
        add: "reverse: { ...ROUND_ROBIN, summary: 'the last agent first', rank: (one, other) => other.priority - one.priority },",
      },
    ],
    check: `
      import { POLICIES } from './src/turns/floor/policies.ts';
      import { fileSchema as ordered } from './src/config/schema.ts';
      assert.equal(ordered.parse({ turnConfig: { order: 'reverse' } }).turnConfig.order, 'reverse');
      assert.equal(POLICIES.reverse.rank({ taken: 0, priority: 1 }, { taken: 0, priority: 2 }), 1);
    `,
  },
  {
    name: 'announcement',
    edits: [
      {
        file: 'src/config/announcements.ts',
        after: 'export const ANNOUNCEMENTS = {',
        add: "applause: { text: '👏 {agent}', when: 'people applaud an agent' },",
      },
      { file: 'src/turns/floor/announcement.ts', after: 'const FIELDS = {', add: 'applause: { agent },' },
      {
        file: 'src/turns/floor/announcement.ts',
        after: 'const RULES: { readonly [K in Kind]: Rule<K> } = {',
        add: 'applause: {},',
      },
      {
        file: 'src/turns/text/announcement-values.ts',
        after: 'const ROWS: { readonly [K in Kind]: Row<K> } = {',
        add: 'applause: { note: ({ agent }, name) => `applause for ${name(agent)}` },',
      },
    ],
    check: `
      import { completeTexts } from './src/config/announcements.ts';
      import { fileSchema as worded } from './src/config/schema.ts';
      import { announcementKey } from './src/turns/floor/announcement.ts';
      import { announcementText } from './src/turns/text/announcement-values.ts';
      const applause = { kind: 'applause', agent: 'dev' };
      const texts = worded.parse({ announcements: { applause: 'Bravo, {agent}' } }).announcements;
      assert.equal(announcementKey(applause), 'applause:dev');
      assert.equal(announcementText(applause, completeTexts({}), String, 1), '👏 dev');
      assert.equal(announcementText(applause, completeTexts(texts), String, 1), 'Bravo, dev');
    `,
  },
  {
    name: 'fact',
    edits: [
      { file: 'src/turns/floor/fact.ts', after: 'export const FACTS = {', add: 'bellRung: { count: number },' },
      {
        file: 'src/turns/floor/evolve.ts',
        after: 'const EVOLUTION: Evolution = {',
        add: 'bellRung: (floor, { count }) => ({ ...floor, asks: floor.asks + count }),',
      },
      {
        file: 'src/turns/commands/fact-words.ts',
        after: 'const WORDS: Words = {',
        add: 'bellRung: ({ count }) => `the bell rang ${count} times`,',
      },
    ],
    check: `
      import { factSchema } from './src/turns/floor/fact.ts';
      import { evolve } from './src/turns/floor/evolve.ts';
      import { factWords } from './src/turns/commands/fact-words.ts';
      const rung = factSchema.parse({ type: 'bellRung', count: 2 });
      assert.equal(evolve({ asks: 1 }, rung, 0).asks, 3);
      assert.equal(factWords(rung), 'the bell rang 2 times');
    `,
  },
  {
    name: 'backend',
    edits: [
      {
        file: 'src/config/schema.ts',
        after: '/** The backend that runs an agent; its keys depend on `kind`. */',
        add: `const echo = z.strictObject({ kind: z.literal('echo').describe('"echo": repeats what it reads.') });`,
      },
      { file: 'src/config/schema.ts', after: "backendSchema = z.discriminatedUnion('kind', [", add: 'echo,' },
      {
        file: 'src/agents/backends/echo/echo-backend.ts',
        add: `
          import type { AgentBackend } from '../backend.ts';
          /** Repeats its prompt. */
          export function createEchoBackend(): AgentBackend {
            return {
              kind: 'echo',
              needsSignal: false,
              promisesToAsk: false,
              open: async () => ({
                async prompt({ text }, report) {
                  report.text(text);
                  return { how: 'completed' };
                },
                inject: async () => 'next-prompt',
                async interrupt() {},
                async ping() {},
                async close() {},
              }),
            };
          }`,
      },
      {
        file: 'src/runtime/agent-factory.ts',
        after: 'const MAKERS: Readonly<Record<Kind, LoadMaker>> = {',
        add: `
          echo: () =>
            import('../agents/backends/echo/echo-backend.ts').then((made) =>
              makerFor('echo', () => made.createEchoBackend()),
            ),`,
      },
      {
        file: 'src/cli/agent-check.ts',
        after: 'const INSTEAD = {',
        add: "echo: 'it repeats what it reads and changes nothing.',",
      },
    ],
    check: `
      import { createBackends } from './src/runtime/agent-factory.ts';
      const repeater = { id: 'echo', name: 'echo', backend: { kind: 'echo' } };
      const backends = await createBackends({ config: { agents: [repeater], crews: [] } });
      const session = await backends.backendFor(repeater).open({});
      const heard = [];
      await session.prompt({ text: 'hello' }, { text: (chunk) => heard.push(chunk) });
      assert.deepEqual(heard, ['hello']);
    `,
  },
  {
    name: 'platform',
    edits: [
      { file: 'src/config/schema.ts', after: 'export const ADAPTERS = [', add: "'matrix'," },
      {
        file: 'src/adapters/matrix/adapter.ts',
        add: `
          import type { ChatAdapter } from '../port.ts';
          /** Posts into the void. */
          export function createAdapter(): ChatAdapter {
            return {
              name: 'matrix',
              capabilities: {
                textLimit: 4_000,
                idempotentPosts: false,
                fileAbove: null,
              },
              async start() {},
              async stop() {},
              post: async () => 'm1',
              find: async () => null,
              catchUp: async () => ({ messages: [], changes: [], gap: null }),
            };
          }`,
      },
      {
        file: 'src/runtime/adapter-factory.ts',
        after: "const OPENERS: Readonly<Record<Exclude<ChannelConfig['adapter'], 'console'>, Opener>> = {",
        add: "matrix: async () => (await import('../adapters/matrix/adapter.ts')).createAdapter(),",
      },
    ],
    check: `
      import { createPlatforms } from './src/runtime/adapter-factory.ts';
      const settings = { channels: [{ adapter: 'matrix' }], adapters: { console: { enabled: false } } };
      const config = { ...settings, credentials: { discord: {}, slack: {} } };
      const { adapters } = await createPlatforms({ config });
      assert.deepEqual(adapters.map(({ name }) => name), ['matrix']);
    `,
  },
  {
    name: 'machine',
    edits: [
      {
        file: 'src/work/tally/tally-machine.ts',
        add: `
          import { z } from 'zod';
          import type { Machine } from '../../engine/machine.ts';
          type Tally = { readonly count: number };
          type Counted = { readonly type: 'counted' };
          /** Counts. */
          export const tallyMachine: Machine<Tally, Counted, Counted, never> = {
            name: 'tally',
            channelOf: (key) => key,
            version: 1,
            empty: () => ({ count: 0 }),
            decide: (_state, command) => ({ ok: true, facts: [command] }),
            evolve: ({ count }) => ({ count: count + 1 }),
            react: () => [],
            nextDeadline: () => null,
            state: z.strictObject({ count: z.number() }),
            fact: z.strictObject({ type: z.literal('counted') }),
          };`,
      },
      {
        file: 'src/runtime/machines.ts',
        after: "import { runOnFloor } from '../work/runs/floor-binding.ts';",
        add: "import { tallyMachine } from '../work/tally/tally-machine.ts';",
      },
      {
        file: 'src/runtime/machines.ts',
        after: 'export const MACHINES_BESIDE_FLOORS: readonly MachineEntry[] = [',
        add: 'entryOf(tallyMachine),',
      },
    ],
    check: `
      import { MACHINES } from './src/runtime/machines.ts';
      assert.ok(MACHINES.some(({ name }) => name === 'tally'));
    `,
  },
];
