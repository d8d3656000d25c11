import { failedText } from '../port.ts';
import type { Logger } from 'pino';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { HumanMessage } from '../../engine/port.ts';
import type { Clock } from '../../lib/time.ts';
import type { InboundQueue } from '../delivery/inbound.ts';
import type { Intake, FloorQueries, Principal } from '../port.ts';
import type { AuditReaders } from './audit.ts';
import type { Client, Hub } from './hub.ts';
import type { Platform } from './platform.ts';
import { pageFrameSchema } from './protocol.ts';
import type { ChatMessage, PageFrame } from './protocol.ts';
import type { Window } from './window.ts';

const TAIL = 200;
const HISTORY_PAGE = 100;

/** What a conversation with a page needs. */
export type Talk = {
  readonly person: Principal;
  readonly platform: Platform;
  readonly window: Window;
  readonly inbound: InboundQueue;
  readonly hub: Hub;
  /** `null` when there are no runs. */
  readonly audits: () => AuditReaders<Client> | null;
  readonly intake: Intake;
  readonly queries: FloorQueries;
  readonly clock: Clock;
  readonly log: Logger;
};

/** Does what one frame of a page asks; a frame that cannot be done is answered with a clear line, never thrown. */
export async function hear(talk: Talk, client: Client, raw: string): Promise<void> {
  const parsed = parseFrame(raw);
  if (!parsed.ok) return talk.hub.send(client, { type: 'refused', key: parsed.key, text: parsed.why });
  const { frame } = parsed;
  const key = 'key' in frame ? frame.key : null;
  try {
    await obey(talk, client, frame);
  } catch (error) {
    if (!(error instanceof Refused)) talk.log.error({ err: error, frame: frame.type }, 'a frame of the page failed');
    const why = error instanceof Refused ? error.message : failedText(error, 'Nothing was sent.');
    talk.hub.later(client, { type: 'refused', key, text: why });
  }
}

class Refused extends Error {}

async function obey(talk: Talk, client: Client, frame: PageFrame): Promise<void> {
  switch (frame.type) {
    case 'open':
      return open(talk, client, frame.channel);
    case 'say':
      return say(talk, client, frame);
    case 'edit':
    case 'delete':
      return amend(talk, client, frame);
    case 'command': {
      entry(talk, frame.channel);
      const answer = await talk.intake.command(frame.channel, talk.person, frame.line, frame.drawnFor);
      return talk.hub.later(client, { type: 'answer', key: frame.key, ...answer });
    }
    case 'history':
      return history(talk, client, frame);
    case 'watch':
      client.journalSeq = null;
      if (frame.on) talk.hub.journal(client, frame.channel);
      return;
    case 'journal':
      return talk.hub.journal(client, frame.channel, frame.before);
    case 'audit':
      return talk.audits()?.open(client, frame.wanted);
    case 'audit-earlier':
      return talk.audits()?.earlier(client);
  }
}

function open(talk: Talk, client: Client, wanted: ChannelId | null): void {
  const channels = talk.hub.channels();
  const chosen = channels.find((channel) => channel.id === wanted) ?? channels[0] ?? null;
  client.channel = chosen?.id ?? null;
  client.journalSeq = null;
  const messages = chosen === null ? [] : tail(talk, chosen);
  talk.hub.send(client, {
    type: 'state',
    now: talk.clock.now(),
    person: { id: talk.person.id, name: talk.person.name },
    channels,
    agents: talk.queries.agents(),
    channel: client.channel,
    messages,
    more: chosen?.writable === true && hasEarlier(talk, chosen.id, messages),
    drafts: chosen === null ? [] : talk.hub.drafts(chosen.id),
    ...(chosen === null ? { view: null, outlook: null, turns: [], answered: [] } : talk.hub.floor(chosen.id)),
  });
}

function tail(talk: Talk, channel: { readonly id: ChannelId; readonly writable: boolean }): readonly ChatMessage[] {
  return channel.writable ? talk.platform.before(channel.id, TAIL) : talk.window.tail(channel.id);
}

function hasEarlier(talk: Talk, channel: ChannelId, messages: readonly ChatMessage[]): boolean {
  const first = messages[0];
  return first !== undefined && talk.platform.before(channel, 1, first.seq).length > 0;
}

async function say(talk: Talk, client: Client, frame: Extract<PageFrame, { type: 'say' }>): Promise<void> {
  const { channel, key } = frame;
  writable(talk, channel);
  if (!talk.inbound.hasRoom(channel)) {
    throw new Refused('Conch cannot keep up with this channel. Wait a moment, then send it again.');
  }
  const replyTo = frame.replyTo ?? null;
  const { message, fresh } = await talk.platform.add({
    channel,
    kind: 'person',
    speaker: { id: talk.person.id, name: talk.person.name, avatar: null },
    text: clean(frame.text),
    epoch: null,
    replyTo,
    nonce: key,
  });
  if (fresh) {
    talk.hub.message(channel, message);
    const human = toHuman(talk.platform, channel, message);
    void talk.inbound.push(channel, () => talk.intake.message(human));
  }
  talk.hub.later(client, { type: 'accepted', key, id: message.id });
}

/** Conch learns of a change before the console shows it: a crash in between leaves it unacknowledged, not half done. */
function amend(talk: Talk, client: Client, frame: Extract<PageFrame, { type: 'edit' | 'delete' }>): void {
  const { channel, id, key } = frame;
  writable(talk, channel);
  const before = talk.platform.message(channel, id);
  // Asked again by a page that never heard that it was done.
  if (before?.deleted === true && frame.type === 'delete') return talk.hub.later(client, { type: 'accepted', key, id });
  if (before === null || before.kind !== 'person' || before.deleted) {
    throw new Refused('Only a message of your own that is still there can be changed.');
  }
  const text = frame.type === 'edit' ? clean(frame.text) : null;
  void talk.inbound.push(channel, async () => {
    await talk.intake.amend(
      text === null ? { change: 'deleted', id, channel } : { change: 'edited', id, channel, text },
    );
    const after = text === null ? talk.platform.remove(channel, id) : talk.platform.edit(channel, id, text);
    talk.hub.changed(channel, (await after) ?? before);
    talk.hub.later(client, { type: 'accepted', key, id });
  });
}

function history(talk: Talk, client: Client, frame: Extract<PageFrame, { type: 'history' }>): void {
  const { channel, before, after } = frame;
  const { platform } = talk;
  if (!entry(talk, channel).writable) {
    const messages = after === undefined ? [] : talk.window.tail(channel).filter((message) => message.seq > after);
    const direction = directionOf(after);
    return talk.hub.send(client, { type: 'history', channel, direction, messages, more: false });
  }
  if (after !== undefined) {
    const messages = platform.after(channel, HISTORY_PAGE, after);
    const more = messages.length === HISTORY_PAGE;
    return talk.hub.send(client, { type: 'history', channel, direction: directionOf(after), messages, more });
  }
  const messages = platform.before(channel, HISTORY_PAGE, before);
  const more = hasEarlier(talk, channel, messages);
  talk.hub.send(client, { type: 'history', channel, direction: 'before', messages, more });
}

function directionOf(after: number | undefined): 'before' | 'after' | 'beginning' {
  if (after === undefined) return 'before';
  return after === 0 ? 'beginning' : 'after';
}

/** A person's message as the port hands it in; who replies to an agent addresses it. */
export function toHuman(platform: Platform, channel: ChannelId, message: ChatMessage): HumanMessage {
  const repliedTo = message.replyTo === null ? null : platform.message(channel, message.replyTo);
  return {
    id: message.id,
    channel,
    author: { id: message.speaker.id, name: message.speaker.name },
    text: message.text,
    sentAt: message.sentAt,
    order: message.id.padStart(16, '0'),
    addressed: repliedTo?.kind === 'agent' ? [repliedTo.speaker.id] : [],
    attachments: [],
  };
}

function entry(talk: Talk, channel: ChannelId): { readonly writable: boolean } {
  const found = talk.queries.channels().find((one) => one.id === channel);
  if (found === undefined) throw new Refused(`There is no channel ${channel} here.`);
  return { writable: found.adapter === 'console' };
}

function writable(talk: Talk, channel: ChannelId): void {
  if (!entry(talk, channel).writable) {
    throw new Refused('This channel lives on another platform: write there. Commands work here too.');
  }
}

type Parsed =
  | { readonly ok: true; readonly frame: PageFrame }
  | { readonly ok: false; readonly key: string | null; readonly why: string };

function parseFrame(raw: string): Parsed {
  let value: unknown;
  try {
    value = JSON.parse(raw);
  } catch {
    return { ok: false, key: null, why: 'That was not a frame that this console knows. Reload the page.' };
  }
  const parsed = pageFrameSchema.safeParse(value);
  if (parsed.success) return { ok: true, frame: parsed.data };
  const key =
    typeof value === 'object' && value !== null && 'key' in value && typeof value.key === 'string' ? value.key : null;
  const issue = parsed.error.issues[0];
  const own = issue !== undefined && ['text', 'line'].includes(String(issue.path[0])) && issue.path.length === 1;
  return {
    ok: false,
    key,
    why: own ? issue.message : 'That was not a frame that this console knows. Reload the page.',
  };
}

/** Text as it can be stored and sent on: no half characters, no NUL. */
function clean(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\uFFFD');
}
