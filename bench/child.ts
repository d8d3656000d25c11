import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import type { atPace } from './inbound.ts';
import type { Measured, Span } from './steady.ts';

/** A measurement: takes the path of a file, a size and a time span, and returns figures by name. */
type Way = (path: string, size: number, span: Span) => Promise<Readonly<Record<string, number>>>;

/** Bytes that Conch writes for one hand-over: its facts, its outbox entry, and the outcome of that entry. */
const HAND_OVER = 1_000;
/** Bytes that Conch writes for one message that reaches an agent in the middle of its turn. */
const MESSAGE = 900;

const WAYS: Readonly<Record<string, () => Promise<Way>>> = {
  limit: async () => (path, size, span) => limit(path, span, { lanes: size, bytes: HAND_OVER }),
  core: async () => {
    const { coreAlone } = await import('./floors.ts');
    return (_path, size, span) => coreAlone(size, span);
  },
  conch: async () => (await import('./floors.ts')).managed,
  work: async () => {
    const { countedSoFar } = await import('./counting.ts');
    const { managed } = await import('./floors.ts');
    return (path, size, span) => managed(path, size, span, countedSoFar);
  },
  app: async () => (await import('./app.ts')).handOversInApp,
  shared: async () => {
    const { openShared } = await import('./shared-floors.ts');
    const { managed } = await import('./floors.ts');
    return (path, size, span) => managed(path, size, span, undefined, openShared);
  },
  'shared-app': async () => {
    const { openShared } = await import('./shared-floors.ts');
    const { handOversInApp } = await import('./app.ts');
    return (path, size, span) => handOversInApp(path, size, span, openShared);
  },
  'stand-by': async () => (await import('./shared-floors.ts')).standBy,
  review: async () => (await import('./reviews.ts')).reviewed,
  'review-app': async () => (await import('./reviews.ts')).reviewedInApp,
  'first-text': async () => (await import('./app.ts')).firstTexts,
  langgraph: async () => (await contestant('langgraph')).handOvers,
  xstate: async () => (await contestant('xstate')).handOvers,
  'xstate-groups': async () => (await contestant('xstate')).handOversInGroups,
  'chat-sdk': async () => (await contestant('chat-sdk')).handOvers,
  inbound: async () => (await import('./inbound.ts')).inbound,
  'inbound-paced': async () => (await import('./inbound.ts')).pacedInbound,
  'inbound-limit': async () => (path, size, span) => limit(path, span, { lanes: size, bytes: MESSAGE }),
  'inbound-limit-paced': async () => {
    const { atPace: drive } = await import('./inbound.ts');
    return (path, size, span) => limit(path, span, { lanes: size, bytes: MESSAGE, drive });
  },
  deadlines: async () => (await import('./deadlines.ts')).deadlines,
  'slow-disk': async () => {
    await import('./slow-disk.ts');
    return (await import('./deadlines.ts')).loopDelay;
  },
  make: async () => (await import('./standing.ts')).makeFolder,
  standing: async () => (await import('./standing.ts')).standing,
  'bare-open': async () => (await import('./standing.ts')).bareOpen,
  growth: async () => (await import('./growth.ts')).growth,
  'fan-in': async () => (await import('./fan-in.ts')).fanIn,
};

const OTHERS = /limit|langgraph|xstate|chat-sdk|bare-open/u;

const [what = '', size = '1', warmUpMs = '1000', measuredMs = '1000', kept = ''] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'conch-bench-'));
try {
  const load = WAYS[what];
  if (load === undefined) throw new Error(`nothing is called ${what}`);
  // Conch's launcher sets this flag, too. The other contestants run as Node starts them.
  if (!OTHERS.test(what)) setFlagsFromString('--no-allocation-site-pretenuring');
  const way = await load();
  const span = { warmUpMs: Number(warmUpMs), measuredMs: Number(measuredMs) };
  const found = await way(kept === '' ? join(folder, 'bench.db') : kept, Number(size), span);
  process.stdout.write(`${JSON.stringify(found)}\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
// Ends the process although a measured program still works: it never ends by itself.
process.exit();

type Limit = { readonly lanes: number; readonly bytes: number; readonly drive?: typeof atPace };

async function limit(path: string, span: Span, { lanes, bytes, drive }: Limit): Promise<Measured> {
  const { openGroupCommit } = await import('./group-commit.ts');
  const { inLanes } = await import('./steady.ts');
  const file = openGroupCommit(path);
  const text = 'x'.repeat(bytes);
  const found = await (drive ?? inLanes)(lanes, span, (lane) => file.write(lane, text));
  file.close();
  return found;
}

async function contestant(name: string): Promise<Readonly<Record<'handOvers' | 'handOversInGroups', Way>>> {
  return (await import(`./contestants/${name}.ts`)) as Readonly<Record<'handOvers' | 'handOversInGroups', Way>>;
}
