import type { ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { setImmediate as pause } from 'node:timers/promises';
import type { Reply } from '../../lib/guarded-server.ts';
import { isWanted } from '../../turns/tool-calls.ts';
import type { AuditRow, AuditSource, AuditStanding, AuditWanted } from '../../turns/tool-calls.ts';
import { auditWantedSchema } from './protocol.ts';
import type { ServerFrame, ShownCall } from './protocol.ts';

const MOST_CALLS = 100;
/**
 * A frame of tool calls gets no further call when its calls have this many characters in all. A call with more
 * characters is sent without input and output.
 */
const MOST_CHARACTERS = 1024 * 1024;
/** The search for the tool calls of one frame stops after about this many journal entries. */
const MOST_READ = 20_000;
/** How long changed tool calls are gathered before the pages get them in one frame, in milliseconds. */
const GATHER_MS = 250;

type AuditFrame = Extract<ServerFrame, { readonly type: 'audit' }>;
type Reading = { readonly wanted: AuditWanted; readonly calls: Iterator<AuditRow | number, void>; isBusy: boolean };

/** Reads tool calls for pages, newest first, a frame at a time. */
export class AuditReaders<Client> {
  readonly #source: AuditSource;
  readonly #send: (client: Client, frame: AuditFrame) => void;
  readonly #readings = new Map<Client, Reading>();
  readonly #changed = new Map<string, AuditRow>();
  #timer: NodeJS.Timeout | null = null;

  constructor(source: AuditSource, send: (client: Client, frame: AuditFrame) => void) {
    this.#source = source;
    this.#send = send;
    source.onChange((changed) => {
      if (this.#readings.size === 0) return;
      for (const row of changed()) this.#changed.set(keyOf(row), row);
      this.#sendChangesLater();
    });
  }

  /** Starts reading the wanted tool calls for a page and sends the first frame. `null` ends the reading. */
  async open(client: Client, wanted: AuditWanted | null): Promise<void> {
    this.#readings.delete(client);
    if (wanted === null) return;
    this.#readings.set(client, { wanted, calls: this.#source.calls(wanted), isBusy: false });
    await this.#read(client, 'newest');
  }

  async readEarlier(client: Client): Promise<void> {
    await this.#read(client, 'earlier');
  }

  stop(): void {
    this.#readings.clear();
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #sendChangesLater(): void {
    this.#timer ??= setTimeout(() => this.#sendChanges(), GATHER_MS);
  }

  #sendChanges(): void {
    this.#timer = null;
    const rows: AuditRow[] = [];
    let characters = 0;
    for (const [key, row] of this.#changed) {
      if (isFull(rows, characters)) break;
      this.#changed.delete(key);
      rows.push(row);
      characters += lengthOf(row);
    }
    if (this.#changed.size > 0) this.#sendChangesLater();
    for (const [client, { wanted }] of this.#readings) {
      const matching = rows.filter((row) => isWanted(row, wanted));
      const removed = rows.filter((row) => !isWanted(row, wanted)).map(keyOf);
      this.#send(client, { ...this.#frame('changed', matching), removed, ...this.#standing() });
    }
  }

  async #read(client: Client, part: 'newest' | 'earlier'): Promise<void> {
    const reading = this.#readings.get(client);
    if (reading === undefined || reading.isBusy) return;
    const isStill = (): boolean => this.#readings.get(client) === reading;
    reading.isBusy = true;
    const { rows, ...rest } = await nextPage(reading, isStill).finally(() => (reading.isBusy = false));
    const standing = part === 'newest' ? this.#standing() : {};
    if (isStill()) this.#send(client, { ...this.#frame(part, rows), ...rest, ...standing });
  }

  #frame(part: AuditFrame['part'], rows: readonly AuditRow[]): AuditFrame {
    return {
      type: 'audit',
      part,
      rows: rows.map((row) => this.#toShownCall(row)),
      removed: [],
      more: false,
      upto: null,
    };
  }

  #toShownCall(row: AuditRow): ShownCall {
    const nameOf = (id: string | null): string | null => (id === null ? null : this.#source.nameOf(id));
    const names = { requestedBy: nameOf(row.requestedBy), decidedBy: nameOf(row.decidedBy) };
    const call = { ...row, ...names, key: keyOf(row) };
    return lengthOf(row) > MOST_CHARACTERS ? { ...call, input: {}, output: null, cut: true } : call;
  }

  #standing(): AuditStanding {
    const { asked, remembered } = this.#source.standing();
    return { asked, remembered: remembered.map((rule) => ({ ...rule, by: this.#source.nameOf(rule.by) })) };
  }
}

type Page = { readonly rows: readonly AuditRow[]; readonly more: boolean; readonly upto: number | null };

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
    if (isFull(rows, characters) || read >= MOST_READ) break;
  }
  return { rows, more: true, upto: Number.isFinite(upto) ? upto : null };
}

function isFull({ length }: readonly AuditRow[], characters: number): boolean {
  return length >= MOST_CALLS || characters >= MOST_CHARACTERS;
}

function lengthOf(row: AuditRow): number {
  return JSON.stringify(row).length;
}

function keyOf({ channel, agent, aside, seq }: AuditRow): string {
  return JSON.stringify([channel, agent, aside === true, seq]);
}

/** Answers `GET /runs/audit?…` with all matching tool calls in full, newest first, as JSON lines. */
export async function exportCalls(
  { response, query }: { readonly response: ServerResponse; readonly query: string },
  source: AuditSource,
): Promise<Reply | null> {
  const parsed = auditWantedSchema.safeParse(Object.fromEntries(new URLSearchParams(query)));
  if (!parsed.success) return { status: 400, body: `Expected some of ${FILTER_NAMES}, and nothing else.\n` };
  response.writeHead(200, {
    'Content-Type': 'application/x-ndjson; charset=utf-8',
    'Content-Disposition': 'attachment; filename="conch-audit.jsonl"',
    'Cache-Control': 'no-store',
  });
  const failed: unknown[] = [];
  const lines = linesOf(source, parsed.data, (error) => failed.push(error));
  // Fails also when the caller disconnected, which is no error.
  await pipeline(lines, response).catch(() => undefined);
  if (failed.length > 0) throw failed[0];
  return null;
}

/** Calls `failed` with the error of a read. */
async function* linesOf(
  source: AuditSource,
  wanted: AuditWanted,
  failed: (error: unknown) => void,
): AsyncGenerator<string> {
  try {
    const calls = source.calls(wanted);
    for (let step = calls.next(); step.done !== true; step = calls.next()) {
      if (typeof step.value === 'number') await pause();
      else if (isWanted(step.value, wanted)) yield `${JSON.stringify(step.value)}\n`;
    }
  } catch (error) {
    failed(error);
    throw error;
  }
}

const FILTER_NAMES = Object.keys(auditWantedSchema.shape).join(', ');
