import type { ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { setImmediate as pause } from 'node:timers/promises';
import type { Reply } from '../../lib/guarded-server.ts';
import { isWanted } from '../../turns/tool-calls.ts';
import type { AuditRow, AuditSource, AuditWanted } from '../../turns/tool-calls.ts';
import { auditWantedSchema } from './protocol.ts';
import type { ServerFrame, ShownCall } from './protocol.ts';

/** The most calls of one frame, and the most characters; one call beyond them comes without its texts. */
const MOST_CALLS = 100;
const MOST_CHARACTERS = 1024 * 1024;
/** How many entries of journals are read for one frame: where few calls are wanted, the page is told how far it was looked. */
const MOST_READ = 20_000;
/** What happens within this time goes out in one frame, in milliseconds. */
const GATHER_MS = 250;

type AuditFrame = Extract<ServerFrame, { readonly type: 'audit' }>;
type Reading = { readonly wanted: AuditWanted; readonly calls: Iterator<AuditRow | number, void>; isBusy: boolean };

/** The pages that look into tool calls, each from the newest back as far as it asks. */
export type AuditReaders<Client> = {
  /** Begins anew; `null`: the page is not told any more. */
  open(client: Client, wanted: AuditWanted | null): Promise<void>;
  earlier(client: Client): Promise<void>;
  stop(): void;
};

/** Reads for pages; `send` tells one of them. */
export function createAuditReaders<Client>(
  source: AuditSource,
  send: (client: Client, frame: AuditFrame) => void,
): AuditReaders<Client> {
  const readings = new Map<Client, Reading>();
  const gathered = new Map<string, AuditRow>();
  let timer: NodeJS.Timeout | null = null;
  const tell = (): void => {
    timer = null;
    const rows = [...gathered.values()];
    gathered.clear();
    const standing = source.standing();
    for (const [client, { wanted }] of readings) {
      const ofPlace = rows.filter((row) => isWanted(row, { channel: wanted.channel, agent: wanted.agent }));
      send(client, frameOf(source, 'changed', ofPlace, standing));
    }
  };
  source.onChange((changed) => {
    if (readings.size === 0) return;
    for (const row of changed()) gathered.set(keyOf(row), row);
    timer ??= setTimeout(tell, GATHER_MS);
  });
  const read = async (client: Client, reading: Reading, part: 'newest' | 'earlier'): Promise<void> => {
    if (reading.isBusy) return;
    const isStill = (): boolean => readings.get(client) === reading;
    reading.isBusy = true;
    const page = await nextPage(reading, isStill).finally(() => (reading.isBusy = false));
    if (!isStill()) return;
    const standing = part === 'newest' ? source.standing() : {};
    send(client, { ...frameOf(source, part, page.rows, standing), more: page.more, upto: page.upto });
  };
  return {
    async open(client, wanted) {
      readings.delete(client);
      if (wanted === null) return;
      const reading = { wanted, calls: source.calls(wanted), isBusy: false };
      readings.set(client, reading);
      await read(client, reading, 'newest');
    },
    async earlier(client) {
      const reading = readings.get(client);
      if (reading !== undefined) await read(client, reading, 'earlier');
    },
    stop() {
      readings.clear();
      if (timer !== null) clearTimeout(timer);
    },
  };
}

type Page = { readonly rows: readonly AuditRow[]; readonly more: boolean; readonly upto: number | null };

/** Reads on, and lets others go between. */
async function nextPage({ wanted, calls }: Reading, isStill: () => boolean): Promise<Page> {
  const rows: AuditRow[] = [];
  let [read, characters, upto] = [0, 0, Infinity];
  while (isStill()) {
    const { value: next, done } = calls.next();
    if (next === undefined || done === true) return { rows, more: false, upto: null };
    if (typeof next === 'number') {
      read += next;
      await pause();
    } else {
      upto = next.askedAt;
      if (!isWanted(next, wanted)) continue;
      rows.push(next);
      characters += lengthOf(next);
    }
    if (rows.length >= MOST_CALLS || characters >= MOST_CHARACTERS || read >= MOST_READ) break;
  }
  return { rows, more: true, upto: Number.isFinite(upto) ? upto : null };
}

function frameOf(
  source: AuditSource,
  part: AuditFrame['part'],
  rows: readonly AuditRow[],
  standing: Partial<ReturnType<AuditSource['standing']>>,
): AuditFrame {
  const people = rows.flatMap(({ requestedBy, decidedBy }) => [requestedBy, decidedBy]).concat(peopleIn(standing));
  const names = Object.fromEntries(people.flatMap((id) => (id === null ? [] : [[id, source.nameOf(id)]])));
  return { type: 'audit', part, rows: rows.map(shown), names, more: false, upto: null, ...standing };
}

function peopleIn({ remembered = [] }: Partial<ReturnType<AuditSource['standing']>>): readonly string[] {
  return remembered.map(({ by }) => by);
}

function shown(row: AuditRow): ShownCall {
  return lengthOf(row) > MOST_CHARACTERS ? { ...row, input: {}, output: null, cut: true } : row;
}

function lengthOf(row: AuditRow): number {
  return JSON.stringify(row).length;
}

function keyOf({ channel, agent, aside, seq }: AuditRow): string {
  return JSON.stringify([channel, agent, aside === true, seq]);
}

/** Answers `GET /runs/audit?…` with every call that is wanted, whole, the newest first: a line of JSON each. */
export async function exportCalls(
  { response, query }: { readonly response: ServerResponse; readonly query: string },
  source: AuditSource,
): Promise<Reply | null> {
  const parsed = auditWantedSchema.safeParse(Object.fromEntries(new URLSearchParams(query)));
  if (!parsed.success) return { status: 400, body: `Expected some of ${WANTED}, and nothing else.\n` };
  response.writeHead(200, {
    'Content-Type': 'application/x-ndjson; charset=utf-8',
    'Content-Disposition': 'attachment; filename="conch-audit.jsonl"',
    'Cache-Control': 'no-store',
  });
  await pipeline(linesOf(source, parsed.data), response).catch((error: unknown) => {
    // Who asked has gone.
    if (!response.destroyed) throw error;
  });
  return null;
}

async function* linesOf(source: AuditSource, wanted: AuditWanted): AsyncGenerator<string> {
  const calls = source.calls(wanted);
  for (let step = calls.next(); step.done !== true; step = calls.next()) {
    if (typeof step.value === 'number') await pause();
    else if (isWanted(step.value, wanted)) yield `${JSON.stringify(step.value)}\n`;
  }
}

const WANTED = Object.keys(auditWantedSchema.shape).join(', ');
