import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CAPABILITIES } from '../../src/adapters/slack/adapter.ts';
import { messageId } from '../../src/adapters/slack/client.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import { splitText } from '../../src/turns/text/split.ts';
import type { Seen } from '../adapters/slack/server-people.ts';
import type { SlackServer } from '../adapters/slack/server.ts';
import { objects, pingsIn, words } from '../adapters/slack/state-text.ts';
import { doneUnseen } from './answers.ts';
import type { Witnesses } from './answers.ts';
import { brief, isTerminal, readFacts, rows, without } from './journal.ts';
import type { SlackCrowd, Written } from './slack-crowd.ts';

/** The faults that a run found, as sentences. */
export type SlackFaults = {
  /** Messages of people and texts of agents that are missing. */
  readonly lost: string[];
  readonly twice: string[];
  readonly disordered: string[];
  /** Calls that would have notified somebody. */
  readonly pings: string[];
  /** Drafts that were never deleted. */
  readonly drafts: string[];
  readonly doubleHolders: string[];
  /** Messages marked as done although no completed generation was prompted with them. */
  readonly doneUnseen: string[];
  readonly other: string[];
};

type Received = { readonly id: string; readonly channel: string; readonly text: string; readonly fate: string | null };
type Owed = {
  readonly id: string;
  readonly channel: string;
  readonly type: string;
  readonly text: string | null;
  readonly state: string;
  readonly platform_id: string | null;
  readonly attempts: number;
};

/** What people see of a floor in its channel and threads. */
type Place = {
  readonly floor: string;
  readonly agents: readonly Seen[];
  readonly notices: readonly Seen[];
  readonly channel: string;
};

/** Ids of stored messages, read from a copy: the files of the killed program stay unchanged. */
export function inboxOf(dataDir: string): ReadonlySet<string> {
  const copy = mkdtempSync(join(tmpdir(), 'conch-inbox-'));
  try {
    for (const file of ['conch.db', 'conch.db-wal']) {
      if (existsSync(join(dataDir, file))) cpSync(join(dataDir, file), join(copy, file));
    }
    const found = rows(join(copy, 'conch.db'), 'SELECT id FROM inbox') as readonly { readonly id: string }[];
    return new Set(found.map(({ id }) => id));
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

/** The number of an ended program's posts that are not confirmed. */
export function openPosts(dataDir: string): number {
  return rows(`${dataDir}/conch.db`, "SELECT 1 FROM outbox WHERE lane = 'posts' AND state IN ('owed', 'uncertain')")
    .length;
}

/** The results of a run outside the database. */
type Ended = {
  readonly slack: SlackServer;
  readonly crowd: SlackCrowd;
  readonly faults: SlackFaults;
  readonly witnesses: Witnesses;
};

/** Reads the channels as a person sees them, and compares them with the database of a program that ended at rest. */
export async function verifySlack(
  dataDir: string,
  { slack, crowd, faults, witnesses }: Ended,
): Promise<{ readonly cutShort: number }> {
  const path = `${dataDir}/conch.db`;
  const facts = await readFacts(path, faults);
  const inbox = rows(path, 'SELECT id, channel, text, fate FROM inbox') as readonly Received[];
  const outbox = rows(path, "SELECT * FROM outbox WHERE lane = 'posts' ORDER BY n") as readonly Owed[];
  const places = placesOf(slack, crowd, faults);
  checkPeople(crowd.written, { inbox, facts }, faults);
  for (const place of places) checkSpeech(place, facts.get(place.floor) ?? [], faults);
  for (const place of places) checkNotices(place, outbox, faults);
  checkOutbox(outbox, places, faults);
  checkPings(slack, faults);
  for (const [channel, all] of facts)
    faults.doneUnseen.push(...doneUnseen(channel, all, { asked: inbox, witnesses }).faults);
  return { cutShort: outbox.filter(({ attempts }) => attempts > 1).length };
}

function placesOf(slack: SlackServer, crowd: SlackCrowd, faults: SlackFaults): readonly Place[] {
  return crowd.places().map(({ channel, threads, floor }) => {
    const shown = threads
      .flatMap((thread) => slack.read(channel, thread ?? undefined))
      .filter(({ own }) => own)
      .toSorted((one, other) => (one.ts < other.ts ? -1 : 1));
    const cards = shown.filter((message) => markOf(message) === 'conch_card');
    if (cards.length > 1) faults.twice.push(`${floor} has ${cards.length} cards`);
    const drafts = shown.filter((message) => markOf(message) === 'conch_draft');
    faults.drafts.push(...drafts.map(({ author, text }) => `in ${floor} a draft of ${author} stands: ${brief(text)}`));
    const posts = shown.filter((message) => !cards.includes(message) && !drafts.includes(message));
    const isNotice = ({ author }: Seen): boolean => author === 'Conch';
    return { floor, channel, agents: posts.filter((post) => !isNotice(post)), notices: posts.filter(isNotice) };
  });
}

/** Each person's message is in the inbox on its floor, with a final state, and in one conversation once. */
function checkPeople(
  written: readonly Written[],
  { inbox, facts }: { readonly inbox: readonly Received[]; readonly facts: ReadonlyMap<string, readonly Fact[]> },
  { lost, twice, other }: SlackFaults,
): void {
  const received = new Map(inbox.map((row) => [row.id, row]));
  const lined = new Map<string, number>();
  for (const fact of [...facts.values()].flat()) {
    if (fact.type === 'messageRouted' && fact.line !== null) lined.set(fact.id, (lined.get(fact.id) ?? 0) + 1);
  }
  for (const { id, floor, text } of written) {
    const row = received.get(id);
    const what = `"${text}" (${id})`;
    if (row === undefined) lost.push(`${what} is not in the inbox`);
    else if (!isTerminal(row.fate)) lost.push(`${what} is left as ${row.fate}`);
    else if (row.channel !== floor) other.push(`${what} is in ${row.channel}, not in ${floor}`);
    if ((lined.get(id) ?? 0) > 1) twice.push(`${what} is in the conversation ${lined.get(id)} times`);
    if (row?.fate?.includes('"delivered"') === true && !lined.has(id))
      lost.push(`${what} is delivered and in no conversation`);
  }
}

/** Slack shows each part of the agents' texts once and in order. Slack changes all but letters and digits. */
function checkSpeech({ floor, agents }: Place, facts: readonly Fact[], faults: SlackFaults): void {
  const said = facts
    .flatMap((fact) => (fact.type === 'said' ? [fact] : []))
    .flatMap(({ agent, text }) => splitText(text, CAPABILITIES.textLimit).map((part) => `${agent}: ${letters(part)}`));
  const shown = agents.map(({ author, text }) => `${author}: ${letters(text)}`);
  faults.lost.push(...without(said, shown).map((one) => `in ${floor} this was said and not posted: ${brief(one)}`));
  faults.twice.push(
    ...without(shown, said).map((one) => `in ${floor} this was posted and said less often: ${brief(one)}`),
  );
  if (said.toSorted().join('\n') === shown.toSorted().join('\n') && said.join('\n') !== shown.join('\n'))
    faults.disordered.push(`in ${floor} posts are not in the order in which they were said`);
}

/** Slack shows each announcement once, in its latest wording. */
function checkNotices({ floor, channel, notices }: Place, outbox: readonly Owed[], faults: SlackFaults): void {
  const owed = new Map<string, string>();
  for (const { type, channel: where, platform_id: id, text } of outbox) {
    if (type === 'announce' && where === floor && id !== null) owed.set(id, letters(text ?? ''));
  }
  const shown = new Map(notices.map(({ ts, text }) => [messageId(channel, ts), letters(text)]));
  for (const [id, text] of owed)
    if (shown.get(id) !== text) faults.lost.push(`in ${floor} an announcement is missing: ${brief(text)}`);
  for (const [id, text] of shown)
    if (!owed.has(id)) faults.twice.push(`in ${floor} an announcement was owed less often: ${brief(text)}`);
}

function checkOutbox(outbox: readonly Owed[], places: readonly Place[], faults: SlackFaults): void {
  const posts = places.flatMap(({ agents, notices }) => [...agents, ...notices]);
  const marks = posts.map(({ metadata }) => payloadOf(metadata)['outbox_id']);
  for (const { id, channel, state } of outbox) {
    if (state !== 'confirmed') faults.lost.push(`post ${id} of ${channel} ended as ${state}`);
    if (marks.filter((mark) => mark === id).length > 1) faults.twice.push(`post ${id} of ${channel} stands twice`);
  }
}

/** No call to Slack would have notified anybody, not even for a moment. */
function checkPings({ requests }: SlackServer, faults: SlackFaults): void {
  for (const { method, args } of requests) {
    if (!method.startsWith('chat.')) continue;
    const linkNames = String(args['link_names']) === 'true' || args['parse'] === 'full';
    const found = pingsIn({ text: words(args['text']), blocks: objects(args['blocks']), linkNames });
    faults.pings.push(...[...found].map((ping) => `${method} would have notified ${ping}`));
  }
}

function markOf({ metadata }: Seen): unknown {
  return metadata?.['event_type'];
}

function payloadOf(metadata: Seen['metadata']): Readonly<Record<string, unknown>> {
  return objects([metadata?.['event_payload']])[0] ?? {};
}

function letters(text: string): string {
  return text.replaceAll(/[^\p{L}\p{N}]+/gu, '');
}
