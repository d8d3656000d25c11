import { addressedIn } from '../../turns/text/addressing.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { Attachment, HumanMessage, MessageChange } from '../../engine/port.ts';
import { ignoreRule, floorOf, COMMAND_RULE, typedCommand } from '../delivery/inbound.ts';
import type { Whereabouts } from '../delivery/inbound.ts';
import type { FloorQueries, Thread } from '../port.ts';
import { channelId, messageId } from './ids.ts';
import { sentAt } from './parse-message.ts';
import type { Said, SlackFile, Spot } from './parse-message.ts';
import type { People } from './people.ts';
import { groupsIn, plainText, usersIn } from './text.ts';

/** What it takes to read Slack's messages. */
export type MessageContext = {
  readonly queries: FloorQueries;
  readonly people: People;
  readonly userGroups: Readonly<Record<string, AgentId>>;
};

/** Where a spot belongs; `null` when it belongs to no floor. */
export function whereabouts(queries: FloorQueries, at: Spot): Whereabouts | null {
  const own = floorOf(queries, channelId(at.channel), null);
  if (at.thread === null) return own;
  const inThread = floorOf(queries, channelId(at.channel, at.thread), channelId(at.channel));
  return inThread ?? (at.broadcast ? own : null);
}

/** The thread to be opened before its message is taken in, if it has no floor yet. */
export function threadAt(at: Spot, { channel, opens }: Whereabouts): Thread | null {
  if (opens === null || at.thread === null) return null;
  const since = { id: messageId(at.channel, at.thread), order: at.thread };
  return { id: channel, parent: opens.id, name: `${opens.name} › ${at.thread}`, since };
}

/** The floor whose card or command stands in a spot: the thread's if there is one, else the channel's. */
export function floorAt(queries: FloorQueries, at: Spot): ChannelId | null {
  const found = whereabouts(queries, at);
  return found === null ? null : (found.opens?.id ?? found.channel);
}

/** A message as the port hands it in, and the command line that it is, if a person wrote one. */
export async function toHumanMessage(
  said: Said,
  { channel, place }: Whereabouts,
  reading: MessageContext,
): Promise<{ readonly human: HumanMessage; readonly line: string | null }> {
  const text = await readable(said.text, reading);
  const addressed = groupsIn(said.text).flatMap((group) => agentOf(group, reading) ?? []);
  const line = said.author === 'person' ? typedCommand(text) : null;
  const agents = said.author === 'person' ? [] : addressedIn(text, reading.queries.agents());
  const rule = line === null ? ignoreRule(said.author, place, [...addressed, ...agents]) : COMMAND_RULE;
  const human: HumanMessage = {
    id: messageId(said.channel, said.ts),
    channel,
    author: { id: said.by, name: said.name ?? (await reading.people.name(said.by)) },
    text,
    sentAt: sentAt(said.ts),
    order: said.ts,
    addressed: [...new Set(addressed)],
    attachments: said.files.map(attachmentOf),
    ...(said.editedTs === null ? {} : { version: said.editedTs }),
    ...(rule === null ? {} : { ignore: rule }),
    ...(said.author === 'person' || rule !== null ? {} : { bot: true }),
  };
  return { human, line };
}

/** An edited message as the change that it is. */
export async function toChange(said: Said, floor: ChannelId, reading: MessageContext): Promise<MessageChange> {
  return {
    change: 'edited',
    id: messageId(said.channel, said.ts),
    channel: floor,
    text: await readable(said.text, reading),
    ...(said.editedTs === null ? {} : { version: said.editedTs }),
  };
}

async function readable(text: string, reading: MessageContext): Promise<string> {
  const { people, queries } = reading;
  await Promise.all(usersIn(text).slice(0, MENTIONS_LOOKED_UP).map(people.name));
  const plain = plainText(text, {
    user: people.known,
    group: (group) => agentOf(group, reading),
    channel: (channel) => queries.channels().find(({ id }) => id === channelId(channel))?.name ?? null,
  });
  return plain.toWellFormed().replaceAll('\0', '\uFFFD');
}

/** The names of so many people in one message are looked up; the rest stay ids. */
const MENTIONS_LOOKED_UP = 20;

function agentOf(group: string, { userGroups }: MessageContext): AgentId | null {
  return Object.hasOwn(userGroups, group) ? (userGroups[group] ?? null) : null;
}

function attachmentOf(file: SlackFile): Attachment {
  return {
    name: file.name ?? file.title ?? 'file',
    url: file.url_private ?? file.permalink ?? '',
    contentType: file.mimetype ?? null,
    bytes: file.size ?? null,
  };
}
