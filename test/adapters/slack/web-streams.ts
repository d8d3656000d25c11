import { change, publish } from './events-publish.ts';
import { messageJson } from './events.ts';
import { blocksProblem } from './state-text.ts';
import type { Json, Message } from './state.ts';
import { markdownOf, metadataOf, ownMessage, ownedMessage, writable } from './web-chat.ts';
import { Refusal, joinedChannel, list, needed, text } from './web.ts';
import type { Call, Method } from './web.ts';

export const streamMethods: Readonly<Record<string, Method>> = {
  'chat.startStream': { scopes: ['chat:write'], run: startStream },
  'chat.appendStream': { scopes: ['chat:write'], run: appendStream },
  'chat.stopStream': { scopes: ['chat:write'], run: stopStream },
};

function startStream(call: Call): Json {
  const { slack, args } = call;
  const channel = writable(joinedChannel(call));
  if (channel.kind !== 'im') {
    if (text(args, 'recipient_team_id') === null) throw new Refusal('missing_recipient_team_id');
    const recipient = text(args, 'recipient_user_id');
    if (recipient === null) throw new Refusal('missing_recipient_user_id');
    if (!slack.world.users.has(recipient)) throw new Refusal('user_not_found');
  }
  const words = wordsOf(args);
  const message: Message = {
    ...ownMessage(call, channel),
    text: words,
    blocks: asBlocks(words),
    streaming: 'in_progress',
  };
  publish(slack, channel, message);
  return { channel: channel.id, ts: message.ts };
}

function appendStream(call: Call): Json {
  const { channel, message } = running(call);
  const words = wordsOf(call.args);
  if (words === '') throw new Refusal('no_text');
  message.text += words;
  message.blocks = asBlocks(message.text);
  return { channel: channel.id, ts: message.ts };
}

function stopStream(call: Call): Json {
  const { slack, args } = call;
  const { channel, message } = running(call);
  const whole = message.text + wordsOf(args);
  const blocks = [...asBlocks(whole), ...list(args, 'blocks')];
  const problem = blocksProblem(list(args, 'blocks'));
  if (problem !== null) throw new Refusal(problem);
  const metadata = metadataOf(args);
  change(slack, channel, message, {
    apply: () =>
      Object.assign(message, { text: whole, blocks, streaming: 'completed', metadata: metadata ?? message.metadata }),
  });
  return { channel: channel.id, ts: message.ts, message: messageJson(slack.world, message, 'all') };
}

function running(call: Call) {
  const channel = writable(joinedChannel(call));
  needed(call.args, 'ts');
  const message = ownedMessage(call, channel, 'message_not_owned_by_app');
  if (message.streaming !== 'in_progress') throw new Refusal('message_not_in_streaming_state');
  return { channel, message };
}

function wordsOf(args: Json): string {
  const chunks = list(args, 'chunks').map((chunk) => (typeof chunk['text'] === 'string' ? chunk['text'] : ''));
  const words = (markdownOf(args) ?? '') + chunks.join('');
  if (words.length > 12_000) throw new Refusal('msg_too_long');
  return words;
}

function asBlocks(words: string): Json[] {
  return words === '' ? [] : [{ type: 'markdown', text: words }];
}
