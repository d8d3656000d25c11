import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { WebSocket } from 'ws';
import { createConsoleAdapter } from '../../../src/adapters/console/adapter.ts';
import type { CrewView } from '../../../src/turns/crew-view.ts';
import type { ConsoleAdapter } from '../../../src/adapters/console/adapter.ts';
import { Platform } from '../../../src/adapters/console/platform.ts';
import type { PageFrame, ServerFrame } from '../../../src/adapters/console/protocol.ts';
import { openSqliteStore, SqliteStore } from '../../../src/engine/sqlite/sqlite.ts';
import type { Clock } from '../../../src/lib/time.ts';
import type { Answer } from '../../../src/turns/commands/context.ts';
import type { Intake, FloorQueries } from '../../../src/adapters/port.ts';
import type { ChannelId } from '../../../src/turns/floor/settings.ts';
import type { HumanMessage, MessageChange } from '../../../src/engine/port.ts';
import type { AuditRow, AuditSource, OpenApproval, AlwaysAllowRule } from '../../../src/turns/tool-calls.ts';
import type {
  FloorView,
  JournalEntry,
  Line,
  DeliveryPreview,
  ReviewView,
  TurnRecord,
} from '../../../src/turns/view.ts';

export const CHANNEL = 'console:demo';
export const OTHER = 'discord:42';

/** Builds the view of a resting floor. */
export function restingView(channel: ChannelId = CHANNEL): FloorView {
  return {
    channel,
    store: 'x',
    condition: 'resting',
    mode: 'inject',
    order: 'round-robin',
    epoch: 0,
    holder: null,
    seats: ['pm', 'dev', 'qa'].map((agent) => ({ agent, status: 'QUEUED', disabled: false, waitUntil: null })),
    next: ['pm', 'dev', 'qa'],
    held: [],
    turns: null,
    obstacles: [],
  };
}

/** A FloorQueries that returns values that a test sets. */
export type FakeQueries = FloorQueries & {
  views: Map<ChannelId, FloorView>;
  outlooks: Map<ChannelId, DeliveryPreview>;
  reviews: Map<ChannelId, ReviewView>;
  crews: Map<ChannelId, CrewView>;
  turnsOf: Map<ChannelId, TurnRecord[]>;
  entries: JournalEntry[];
  spoken: Line[];
};

export function fakeQueries(): FakeQueries {
  const views = new Map([
    [CHANNEL, restingView()],
    [OTHER, restingView(OTHER)],
  ]);
  const outlooks = new Map<ChannelId, DeliveryPreview>();
  const reviews = new Map<ChannelId, ReviewView>();
  const crews = new Map<ChannelId, CrewView>();
  const turnsOf = new Map<ChannelId, TurnRecord[]>();
  const entries: JournalEntry[] = [];
  const spoken: Line[] = [];
  return {
    views,
    outlooks,
    reviews,
    crews,
    turnsOf,
    entries,
    spoken,
    channels: () => [
      { id: CHANNEL, name: 'demo', adapter: 'console', parent: null, threads: 'own', allowBots: 'off' },
      { id: OTHER, name: 'reviews', adapter: 'discord', parent: null, threads: 'own', allowBots: 'off' },
    ],
    agents: () => [
      { id: 'pm', name: 'pm', avatar: null, description: 'Writes the brief and decides what is in it' },
      { id: 'dev', name: 'dev', avatar: null, description: 'Builds it' },
      { id: 'qa', name: 'qa', avatar: null, description: 'Tries to break it' },
    ],
    awake: () => [...views.keys()],
    view: (channel) => views.get(channel) ?? null,
    deliveryPreview: (channel) => outlooks.get(channel) ?? null,
    review: (channel) => reviews.get(channel) ?? null,
    crewAsks: (channel) => {
      const asking = crews.get(channel)?.workers.filter(({ asksPeople }) => asksPeople) ?? null;
      return asking?.map(({ name, waits, ticket }) => ({ name, waits, thread: ticket?.thread ?? null })) ?? null;
    },
    crew: (channel, most) => {
      const crew = crews.get(channel);
      if (crew === undefined) return null;
      return { ...crew, groups: crew.groups.map((group) => ({ ...group, tickets: group.tickets.slice(0, most) })) };
    },
    pastThread: (channel) =>
      [...crews.values()]
        .flatMap(({ groups }) => groups)
        .flatMap(({ state, tickets }) => (state === 'merged' ? tickets : []))
        .find(({ thread }) => thread === channel)?.id ?? null,
    turns: (channel, limit) => (turnsOf.get(channel) ?? []).slice(-limit),
    journal: (channel, limit, before = Infinity) =>
      entries.filter((entry) => entry.key === channel && entry.seq < before).slice(-limit),
    lines: (channel, limit) => (channel === OTHER ? spoken.slice(-limit) : []),
    thread: () => null,
  };
}

/** An Intake that records its calls. */
export type FakeIntake = Intake & {
  readonly messages: HumanMessage[];
  readonly changes: MessageChange[];
  readonly commands: { readonly channel: ChannelId; readonly line: string; readonly drawnFor: string | undefined }[];
  /** Thrown once, at the next message. */
  failure: Error | null;
  /** The answer of every command. */
  answer: Answer;
};

export function fakeIntake(answer: Answer = { ok: true, text: 'Done.' }): FakeIntake {
  const intake: FakeIntake = {
    messages: [],
    changes: [],
    commands: [],
    failure: null,
    answer,
    message: async (message) => {
      const { failure } = intake;
      intake.failure = null;
      if (failure !== null) throw failure;
      intake.messages.push(message);
    },
    amend: async (change) => {
      intake.changes.push(change);
    },
    command: async (channel, _by, line, drawnFor) => {
      intake.commands.push({ channel, line, drawnFor });
      return intake.answer;
    },
    refusal: () => null,
    thread: async () => {},
    disconnected() {},
    reconnected() {},
    suspend() {},
    restore() {},
    broken(error) {
      throw error;
    },
  };
  return intake;
}

/** An AuditSource that returns rows that a test sets. */
export type FakeAudit = AuditSource & {
  /** Oldest first. */
  readonly rows: AuditRow[];
  asked: readonly OpenApproval[];
  remembered: readonly AlwaysAllowRule[];
  /** The number of rows read in all. */
  read: number;
  /** Adds rows, or replaces rows with the same seq, agent and channel. Notifies listeners. */
  change(...rows: readonly AuditRow[]): void;
};

export function fakeAudit(): FakeAudit {
  const listeners: Parameters<AuditSource['onChange']>[0][] = [];
  const isSame = (a: AuditRow, b: AuditRow): boolean =>
    a.seq === b.seq && a.agent === b.agent && a.channel === b.channel;
  const audit: FakeAudit = {
    rows: [],
    asked: [],
    remembered: [],
    read: 0,
    *calls() {
      yield 1;
      for (const row of audit.rows.toReversed()) {
        audit.read += 1;
        if (audit.read % 50 === 0) yield 200;
        yield row;
      }
    },
    standing: () => ({ asked: audit.asked, remembered: audit.remembered }),
    onChange: (listener) => void listeners.push(listener),
    nameOf: (id) => (id === 'u1' ? 'Ann' : id),
    change(...rows) {
      for (const row of rows) {
        const place = audit.rows.findIndex((known) => isSame(known, row));
        if (place === -1) audit.rows.push(row);
        else audit.rows[place] = row;
      }
      for (const listener of listeners) listener(() => rows);
    },
  };
  return audit;
}

/** Builds the row of a tool call. Default: dev's call was allowed once and is complete. */
export function auditRow(seq: number, more: Partial<AuditRow> = {}): AuditRow {
  const askedAt = Date.UTC(2026, 10, 22, 12) + seq * 1_000;
  return {
    channel: CHANNEL,
    agent: 'dev',
    seq,
    run: `${CHANNEL} dev#1`,
    task: `turn #1 of dev in ${CHANNEL}`,
    requestedBy: 'u1',
    step: 1,
    call: `1.1.${seq}`,
    tool: 'mcp__files__write',
    input: { path: `notes/${seq}.md`, text: 'one' },
    source: 'conch',
    program: null,
    session: '1',
    agentCall: null,
    digest: `d${seq}`,
    definition: null,
    approval: null,
    decision: 'once',
    rule: null,
    remembered: null,
    decidedBy: 'u1',
    reason: null,
    taint: null,
    status: 'complete',
    outcome: 'known',
    askedAt,
    startedAt: askedAt + 4_000,
    endedAt: askedAt + 6_100,
    waitMs: 4_000,
    durationMs: 2_100,
    output: `wrote notes/${seq}.md`,
    code: null,
    ...more,
  };
}

export const wallClock: Clock = { now: () => Date.now() };
export const silent = pino({ level: 'silent' });

export function newFolder(): string {
  return mkdtempSync(join(tmpdir(), 'conch-console-'));
}

/** Opens a store for a console's messages, in memory by default. */
export function ownMessages(path = ':memory:', clock: Clock = wallClock): OwnMessages {
  const store = openSqliteStore({ path }, (db) => new SqliteStore(db, { path, clock }));
  return { store, platform: new Platform(store.tables, clock) };
}

/** The messages of a console (`platform`) and their store. */
export type OwnMessages = { readonly store: SqliteStore; readonly platform: Platform };

export type Stand = {
  readonly adapter: ConsoleAdapter;
  readonly intake: FakeIntake;
  readonly queries: FakeQueries;
  readonly dataDir: string;
  readonly platform: Platform;
  readonly pageDir: string;
  readonly url: string;
};

/** Starts a console on a free port, with fakes behind it. */
export async function stand(dataDir: string = newFolder(), platform = ownMessages().platform): Promise<Stand> {
  const intake = fakeIntake();
  const queries = fakeQueries();
  const pageDir = newFolder();
  writeFileSync(join(pageDir, 'index.html'), '<!doctype html><title>Conch</title>');
  const adapter = createConsoleAdapter({ dataDir, platform, port: 0, clock: wallClock, log: silent, pageDir });
  await adapter.start(intake, queries);
  return { adapter, intake, queries, dataDir, platform, pageDir, url: adapter.url ?? '' };
}

/** A session's credentials. `part`: the secret that the page keeps beside the cookie. */
export type Session = { readonly cookie: string; readonly part: string; readonly protocols: readonly string[] };

/** Exchanges a link for a session, as the page does. Returns empty credentials for an invalid link. */
export async function sessionOf(link: string | null): Promise<Session> {
  const { origin, searchParams } = new URL(link ?? '');
  const body = JSON.stringify({ key: searchParams.get('key') });
  const response = await fetch(`${origin}/session`, { method: 'POST', headers: { origin }, body });
  const { part = '' } = response.ok ? ((await response.json()) as { part: string }) : {};
  return { cookie: response.headers.get('set-cookie')?.split(';')[0] ?? '', part, protocols: ['conch', part] };
}

/** A page's connection without a browser: sends frames and waits for frames. */
export type Page = {
  send(frame: PageFrame | string): void;
  /** Resolves with the first frame of this type that matches, received before or later. Each frame is returned once. */
  frame<T extends ServerFrame['type']>(
    type: T,
    fits?: (frame: Extract<ServerFrame, { type: T }>) => boolean,
  ): Promise<Extract<ServerFrame, { type: T }>>;
  /** The types of all received frames, in order. */
  readonly types: readonly ServerFrame['type'][];
  readonly closed: Promise<number>;
  close(): void;
};

/** Opens a page's connection with a link. */
export async function openPage(link: string | null): Promise<Page> {
  const { host, origin } = new URL(link ?? '');
  const { cookie, protocols } = await sessionOf(link);
  const socket = new WebSocket(`ws://${host}/socket`, [...protocols], { headers: { cookie, origin } });
  const come: ServerFrame[] = [];
  const types: ServerFrame['type'][] = [];
  const waiting: (() => void)[] = [];
  socket.on('message', (text: Buffer) => {
    const received = JSON.parse(text.toString()) as ServerFrame;
    types.push(received.type);
    come.push(received);
    for (const look of waiting.splice(0)) look();
  });
  const closed = new Promise<number>((resolve) => socket.on('close', resolve));
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  return {
    send: (frame) => socket.send(typeof frame === 'string' ? frame : JSON.stringify(frame)),
    async frame(type, fits = () => true) {
      for (;;) {
        const place = come.findIndex((frame) => frame.type === type && fits(frame as never));
        if (place >= 0) return come.splice(place, 1)[0] as never;
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
    },
    types,
    closed,
    close: () => socket.close(),
  };
}
