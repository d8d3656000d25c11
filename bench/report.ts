import { readFileSync, writeFileSync } from 'node:fs';

/** The figures of one process, by name. */
export type Found = Readonly<Record<string, number>>;

/** One measurement of one round. `found`: `null` when it failed. */
export type Row = {
  readonly what: string;
  readonly size: number;
  readonly round: number;
  readonly found: Found | null;
};

/** The figures in the last line: counts, and ratios of measurements of the same rounds. `null`: not measured. */
export type Figures = {
  readonly ratios: Readonly<Record<string, number | null>>;
  readonly idleBytesPerChannel: number | null;
  readonly perHandover: Readonly<Record<string, number | null>>;
  readonly timers: Readonly<Record<string, number | null>>;
  readonly loopDelayP99Ms: Readonly<Record<string, number | null>>;
  readonly firstTextP50Ms: number | null;
  readonly fanIn: Readonly<Record<string, number | null>>;
};

/** A report: the table of hand-overs, its picture, and the figures. */
export type Report = { readonly table: string; readonly picture: string; readonly figures: Figures };

/** The names of the contestants in the table and picture, in their order. */
const NAMES: Readonly<Record<string, string>> = {
  limit: 'bare group commit of the same bytes',
  core: 'the floor alone, no disk',
  conch: 'Conch: manager, store, delivery',
  app: 'Conch: the whole program',
  xstate: 'XState 5, a snapshot per transition',
  'xstate-groups': 'XState 5 in our group commit',
  langgraph: 'LangGraph.js, SQLite checkpointer',
  'chat-sdk': 'Vercel Chat SDK, state on PostgreSQL',
};
const SIZES = [1, 100, 1_000];
const DURABLE = ['xstate', 'langgraph', 'chat-sdk'];

/** Makes the report of all measurements. */
export function report(rows: readonly Row[]): Report {
  const figures = figuresOf(rows);
  return { table: tableOf(rows, figures), picture: pictureOf(rows), figures };
}

/** Writes a report into `docs/performance.md` and its picture file. */
export function write({ table, picture }: Report): void {
  const page = new URL('../docs/performance.md', import.meta.url);
  const before = readFileSync(page, 'utf8');
  const begin = '<!-- bench: begin -->';
  const end = '<!-- bench: end -->';
  const [head, tail] = [before.slice(0, before.indexOf(begin)), before.slice(before.indexOf(end))];
  writeFileSync(page, `${head}${begin}\n${table}\n${tail}`);
  writeFileSync(new URL('../docs/performance.svg', import.meta.url), picture);
}

function figuresOf(rows: readonly Row[]): Figures {
  const at = (what: string, size: number, name: string): number | null => median(valuesOf(rows, { what, size, name }));
  const over = (what: string, size: number, other: string, name = 'perSecond'): number | null =>
    ratio(valuesOf(rows, { what, size, name }), valuesOf(rows, { what: other, size, name }));
  const best = (what: string, size: number): number | null => {
    const peer = DURABLE.map((each) => at(each, size, 'perSecond') ?? 0).toSorted((one, other) => other - one)[0] ?? 0;
    const own = at(what, size, 'perSecond');
    return own === null || peer === 0 ? null : own / peer;
  };
  const known = Math.max(...rows.filter(({ what }) => what === 'standing').map(({ size }) => size));
  const most = Math.max(...rows.filter(({ what }) => what === 'growth').map(({ size }) => size));
  return {
    ratios: rounded({
      handover1: over('conch', 1, 'limit'),
      handover100: over('conch', 100, 'limit'),
      handover1000: over('conch', 1_000, 'limit'),
      handoverToBestDurablePeer: best('conch', 1_000),
      handoverToBestDurablePeer100: best('conch', 100),
      handoverToXStateInGroups: over('conch', 1_000, 'xstate-groups'),
      appToBestDurablePeer: best('app', 1_000),
      inboundToLimit: over('inbound', 1_000, 'inbound-limit'),
      inboundP99ToLimit: over('inbound-paced', 1_000, 'inbound-limit-paced', 'p99Ms'),
      reviewToPlain: reviewToPlain(rows, 'review-app'),
      reviewToPlainInCore: reviewToPlain(rows, 'review'),
      restartToBareOpen: ratio(
        valuesOf(rows, { what: 'standing', size: known, name: 'readyMs' }),
        valuesOf(rows, { what: 'bare-open', size: known, name: 'ms' }),
      ),
      growth: quotient(at('growth', most, `after${most}`), at('growth', most, 'after10000')),
    }),
    idleBytesPerChannel: idle(at, known),
    perHandover: rounded({
      bytes1: at('work', 1, 'bytes'),
      bytes100: at('work', 100, 'bytes'),
      bytes1000: at('work', 1_000, 'bytes'),
      statements: at('work', 1_000, 'statements'),
      cpuMicros: at('conch', 100, 'cpuMicros'),
    }),
    timers: rounded({
      early: at('deadlines', 10_000, 'early'),
      p99LateMs: at('deadlines', 10_000, 'p99LateMs'),
      maxLateMs: at('deadlines', 10_000, 'maxLateMs'),
      lost: at('deadlines', 10_000, 'lost'),
    }),
    loopDelayP99Ms: rounded({ at1: at('slow-disk', 1, 'p99Ms'), at100: at('slow-disk', 100, 'p99Ms') }),
    firstTextP50Ms: rounded({ ms: at('first-text', 1, 'p50Ms') }).ms,
    fanIn: rounded({ taken: at('fan-in', 50, 'taken'), p99LateMs: at('fan-in', 50, 'p99LateMs') }),
  };
}

/** Channels in the middle of a turn when a measured program starts. The smaller measured file has no other channels. */
export const MID_TURN = 1_000;

type At = (what: string, size: number, name: string) => number | null;

function idle(at: At, known: number): number | null {
  const [many, few] = [at('standing', known, 'heapBytes'), at('standing', MID_TURN, 'heapBytes')];
  return many === null || few === null ? null : Math.round((many - few) / (known - MID_TURN));
}

function valuesOf(
  rows: readonly Row[],
  { what, size, name }: { readonly what: string; readonly size: number; readonly name: string },
): readonly number[] {
  return rows
    .filter((row) => row.what === what && row.size === size)
    .map(({ found }) => found?.[name])
    .filter((value) => value !== undefined);
}

/** The ratio of a hand-over's time inside an open review to its time outside. */
function reviewToPlain(rows: readonly Row[], what: 'review' | 'review-app'): number | null {
  const [inside, outside] = ['insideMs', 'outsideMs'].map((name) => valuesOf(rows, { what, size: 1, name }));
  return ratio(inside ?? [], outside ?? []);
}

/** The median of the ratios of two series. Each ratio compares values of the same round. */
function ratio(ours: readonly number[], others: readonly number[]): number | null {
  return median(ours.slice(0, others.length).map((value, round) => value / (others[round] ?? Number.NaN)));
}

function quotient(one: number | null, other: number | null): number | null {
  return one === null || other === null ? null : one / other;
}

function median(values: readonly number[]): number | null {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? null;
}

function rounded<Key extends string>(figures: Readonly<Record<Key, number | null>>): Record<Key, number | null> {
  const entries = Object.entries<number | null>(figures);
  return Object.fromEntries(
    entries.map(([key, value]) => [key, value === null ? null : Number(value.toPrecision(3))]),
  ) as Record<Key, number | null>;
}

function tableOf(rows: readonly Row[], { ratios, perHandover, timers, ...rest }: Figures): string {
  const rate = (what: string, size: number): string => {
    const found = median(valuesOf(rows, { what, size, name: 'perSecond' }));
    return found === null ? '–' : Math.round(found).toLocaleString('en');
  };
  const micros = (what: string): string => {
    const found = median(valuesOf(rows, { what, size: 1_000, name: 'cpuMicros' }));
    return found === null ? '–' : Math.round(found).toLocaleString('en');
  };
  const lines = Object.entries(NAMES).map(
    ([what, name]) => `| ${name} | ${SIZES.map((size) => rate(what, size)).join(' | ')} | ${micros(what)} |`,
  );
  const { idleBytesPerChannel, loopDelayP99Ms, firstTextP50Ms, fanIn } = rest;
  const figures = {
    ...ratios,
    ...perHandover,
    idleBytesPerChannel,
    firstTextP50Ms,
    ...named('deadlines', timers),
    ...named('slowDiskLoopDelayP99Ms', loopDelayP99Ms),
    ...named('fanIn', fanIn),
  };
  const said = Object.entries(figures).map(([name, value]) => `| ${name} | ${value ?? 'not measured'} |`);
  return [
    '| Hand-overs a second | 1 channel | 100 | 1,000 | CPU µs each, 1,000 |',
    '| --- | ---: | ---: | ---: | ---: |',
    ...lines,
    '',
    '| Figure | |',
    '| --- | ---: |',
    ...said,
  ].join('\n');
}

function named(what: string, figures: Readonly<Record<string, number | null>>): Record<string, number | null> {
  return Object.fromEntries(Object.entries(figures).map(([name, value]) => [`${what}.${name}`, value]));
}

const WIDTH = 720;
const LABEL = 250;
const LINE = 22;

/** Draws a bar for the hand-overs per second at 1,000 channels. The scale has powers of ten. */
function pictureOf(rows: readonly Row[]): string {
  const bars = Object.entries(NAMES)
    .map(([what, name]) => ({
      name,
      rate: median(valuesOf(rows, { what, size: 1_000, name: 'perSecond' })),
      own: name.startsWith('Conch'),
    }))
    .flatMap(({ rate, ...bar }) => (rate === null ? [] : [{ ...bar, rate }]));
  const most = Math.max(...bars.map(({ rate }) => rate), 10);
  const drawn = bars.map(({ name, rate, own }, index) => {
    const width = Math.max(1, (Math.log10(rate) / Math.log10(most)) * (WIDTH - LABEL - 80));
    const y = 34 + index * LINE;
    const shown = Math.round(rate).toLocaleString('en');
    return `<text x="${LABEL - 8}" y="${y + 13}" text-anchor="end">${name}</text><rect x="${LABEL}" y="${y}" width="${width.toFixed(0)}" height="16" fill="${own ? '#c2410c' : '#94a3b8'}"/><text x="${LABEL + width + 6}" y="${y + 13}">${shown}</text>`;
  });
  const height = 44 + bars.length * LINE;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="12"><rect width="${WIDTH}" height="${height}" fill="#fff"/><text x="8" y="20" font-size="14">Hand-overs a second, 1,000 channels (scale of powers of ten)</text>${drawn.join('')}</svg>\n`;
}
