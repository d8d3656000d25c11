import type { Shown } from '../adapters/discord/server-view.ts';
import { CURSOR } from '../../src/adapters/discord/content.ts';
import { channelId } from '../../src/adapters/discord/client.ts';
import { prefixOf } from '../../src/adapters/discord/identity.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import type { Written } from './discord-crowd.ts';
import type { SpawnedDiscord } from './discord-server.ts';
import { doneUnseen } from './answers.ts';
import type { Witnesses } from './answers.ts';
import { brief, isTerminal, readFacts, rows, without } from './journal.ts';

const KINDS = ['lost', 'twice', 'disordered', 'pings', 'drafts', 'doubleHolders', 'doneUnseen', 'other'] as const;

/** The faults that a run found, as sentences. */
export type DiscordFaults = Readonly<Record<(typeof KINDS)[number], string[]>>;

/** Returns no faults, to be filled. */
export function noFaults(): DiscordFaults {
  return { lost: [], twice: [], disordered: [], pings: [], drafts: [], doubleHolders: [], doneUnseen: [], other: [] };
}

/** What the checks compare: the store, Discord's channels, and what people and witnesses did. */
export type Remains = {
  readonly dataDir: string;
  readonly server: SpawnedDiscord;
  /** The ids of the channels on Discord. */
  readonly channels: readonly string[];
  readonly agents: readonly string[];
  readonly written: readonly Written[];
  readonly witnesses: Witnesses;
};

type Received = {
  readonly id: string;
  readonly text: string;
  readonly fate: string | null;
  readonly deleted: number;
};
type Owed = {
  readonly id: string;
  readonly channel: string;
  readonly type: string;
  readonly state: string;
  readonly platform_id: string | null;
  readonly why: string | null;
};

/** Reads the channels as a person sees them, and compares them with the database of a program that ended at rest. */
export async function verifyDiscord(remains: Remains, faults: DiscordFaults): Promise<void> {
  const path = `${remains.dataDir}/conch.db`;
  const facts = await readFacts(path, faults);
  const posts = rows(path, "SELECT * FROM outbox WHERE lane = 'posts' ORDER BY n") as Owed[];
  checkReceived(remains, rows(path, 'SELECT * FROM inbox') as Received[], faults);
  checkRouted([...facts.values()].flat(), faults);
  for (const { id, channel, state, why } of posts)
    if (state !== 'confirmed') faults.lost.push(`post ${id} of ${channel} ended as ${state}: ${why}`);
  const asked = remains.written.map(({ id, text, deleted }) => ({ id, text: deleted ? null : firstWords(text) }));
  for (const [channel, all] of facts)
    faults.doneUnseen.push(...doneUnseen(channel, all, { asked, witnesses: remains.witnesses }).faults);
  const { agents, server } = remains;
  for (const channel of remains.channels) {
    const seen = await server.remote.read(channel);
    const own = posts.filter((post) => post.channel === channelId(channel));
    const expected = { facts: facts.get(channelId(channel)) ?? [], posts: own, agents, botUser: server.botUser };
    const found = checkChannel(seen, expected);
    for (const kind of KINDS) faults[kind].push(...found[kind].map((text) => `in #${channel} ${text}`));
  }
}

/** Returns the text of a message without the suffixes that edits added. */
function firstWords(text: string): string {
  return text.replace(/(?:, edited)+$/, '');
}

/** The contents that a channel should show. */
export type Expected = {
  readonly facts: readonly Fact[];
  /** The rows of the outbox for texts. */
  readonly posts: readonly Pick<Owed, 'type' | 'platform_id'>[];
  readonly agents: readonly string[];
  readonly botUser: string;
};

/** Compares a channel, as a person sees it, with its expected contents. Returns the faults. */
export function checkChannel(seen: readonly Shown[], expected: Expected): DiscordFaults {
  const faults = noFaults();
  checkSaid(seen, expected, faults);
  checkAnnounced(seen, expected, faults);
  for (const { text, pings } of seen.filter(({ bot }) => bot)) {
    if (text.trimEnd().endsWith(CURSOR)) faults.drafts.push(`a draft was left: ${brief(text)}`);
    if (pings.everyone || pings.users.length > 0 || pings.roles.length > 0)
      faults.pings.push(`this notified somebody: ${brief(text)}`);
  }
  const cards = seen.filter(({ bot, buttons }) => bot && buttons.length > 0).length;
  if (cards > 1) faults.other.push(`there are ${cards} cards`);
  return faults;
}

/** Each person's message is in the inbox in its last wording, with a final state. A deleted message may be missing. */
function checkReceived({ written }: Remains, inbox: readonly Received[], { lost, twice }: DiscordFaults): void {
  const byId = Map.groupBy(inbox, ({ id }) => id);
  for (const { id, channel, text, deleted } of written) {
    const [received, ...others] = byId.get(id) ?? [];
    const what = `${brief(text)} (${id} in ${channel})`;
    if (others.length > 0) twice.push(`${what} is in the inbox twice`);
    if (received === undefined) {
      if (!deleted) lost.push(`${what} is not in the inbox`);
      continue;
    }
    if (!isTerminal(received.fate)) lost.push(`${what} is left as ${received.fate}`);
    if (!deleted && received.text !== text) lost.push(`${what} is in the inbox as ${brief(received.text)}`);
  }
}

/** Each message is in the conversation at most once. */
function checkRouted(facts: readonly Fact[], { twice }: DiscordFaults): void {
  const lines = facts.flatMap((fact) => (fact.type === 'messageRouted' && fact.line !== null ? [fact.id] : []));
  for (const [id, all] of Map.groupBy(lines, (line) => line))
    if (all.length > 1) twice.push(`message ${id} is in the conversation ${all.length} times`);
}

/** The channel shows each line of the agents once and in order. A file's content counts as its message's text. */
function checkSaid(seen: readonly Shown[], expected: Expected, faults: DiscordFaults): void {
  const said = expected.facts.flatMap((fact) => (fact.type === 'said' ? linesOf(fact.agent, fact.text) : []));
  const shown = seen.flatMap((message) => {
    const speech = speechOf(message, expected);
    return speech === null ? [] : linesOf(speech.agent, speech.text);
  });
  const [lost, twice] = [without(said, shown), without(shown, said)];
  faults.lost.push(...lost.map((line) => `this was said and is not there: ${brief(line)}`));
  faults.twice.push(...twice.map((line) => `this stands more often than it was said: ${brief(line)}`));
  if (lost.length > 0 || twice.length > 0) return;
  const at = said.findIndex((line, index) => line !== shown[index]);
  if (at !== -1) faults.disordered.push(`this does not stand where it was said: ${brief(said[at] ?? '')}`);
}

/** The channel shows each announcement once, and no other message of the bot. */
function checkAnnounced(seen: readonly Shown[], expected: Expected, { lost, twice }: DiscordFaults): void {
  const announcements = seen.filter(
    (each) => each.bot && each.buttons.length === 0 && speechOf(each, expected) === null,
  );
  const owed = new Set(expected.posts.filter(({ type }) => type === 'announce').map(({ platform_id: id }) => id));
  for (const { id, text } of announcements) if (!owed.has(id)) twice.push(`this was not announced: ${brief(text)}`);
  for (const id of owed)
    if (id !== null && !announcements.some((each) => each.id === id)) lost.push(`the announcement ${id} is not there`);
}

/** Finds the agent and text of a message: by its webhook, or by the agent's name before the bot's text. */
function speechOf(
  message: Shown,
  { agents, botUser }: Expected,
): { readonly agent: string; readonly text: string } | null {
  const { author, authorId, webhook, bot, buttons, attachments } = message;
  if (!bot || buttons.length > 0) return null;
  const prefixed = agents.find((id) => message.text.startsWith(prefixOf({ id, name: id, avatar: null })));
  const agent = webhook ? author : prefixed;
  if (agent === undefined || (!webhook && authorId !== botUser)) return null;
  const text = webhook ? message.text : message.text.slice(prefixOf({ id: agent, name: agent, avatar: null }).length);
  return { agent, text: attachments[0]?.text ?? text };
}

function linesOf(agent: string, text: string): readonly string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .map((line) => `${agent}: ${line}`);
}
