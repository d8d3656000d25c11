import { Routes } from 'discord.js';
import type { Logger } from 'pino';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Intake, Memory } from '../port.ts';
import { COMMAND_RULE, createFirstTime, typedCommand } from '../delivery/typed-command.ts';
import { answerBody } from './content.ts';
import type { Calls } from './calls.ts';
import { wordsOf } from './errors.ts';
import { authorOf, humanMessage, nameOf } from './parse-message.ts';
import type { MessagePayload, MessageContext } from './parse-message.ts';
import type { Places } from './places.ts';

/** What commands that are typed as messages need. */
export type TypedPorts = {
  readonly calls: Calls;
  readonly intake: Pick<Intake, 'command'>;
  readonly places: Pick<Places, 'resolve'>;
  readonly context: MessageContext;
  readonly memory: Memory;
  readonly log: Logger;
};

/** Runs commands that are typed as messages: "!floor skip". */
export type Typed = {
  /** Runs it if it is one, once even if it is heard again after a restart, and replies. Never rejects. */
  hear(message: MessagePayload): Promise<void>;
};

/** Listens for them. */
export function createTyped(ports: TypedPorts): Typed {
  const isFirst = createFirstTime(ports.memory);
  return {
    async hear(message) {
      const line = typedCommand(message.content);
      if (line === null) return;
      try {
        const where = await ports.places.resolve(message.channel_id);
        if (where === null || humanMessage(message, where, ports.context).ignore !== COMMAND_RULE) return;
        if (await isFirst(where.channel, message.id)) await run(ports, { message, line, channel: where.channel });
      } catch (error) {
        ports.log.error({ message: message.id, why: wordsOf(error) }, 'a typed command failed');
      }
    },
  };
}

type Order = { readonly message: MessagePayload; readonly line: string; readonly channel: ChannelId };

/** Programs are refused without an answer: two of them would talk for ever. */
async function run(ports: TypedPorts, { message, line, channel }: Order): Promise<void> {
  const isProgram = authorOf(message) !== 'person';
  const roles = message.member?.roles ?? [];
  const by = { id: message.author.id, name: nameOf(message), roles, ...(isProgram ? { bot: true } : {}) };
  const answer = await ports.intake.command(channel, by, line);
  if (isProgram) return;
  const reply = { message_reference: { message_id: message.id, fail_if_not_exists: false } };
  const body = { ...answerBody(answer.text, { ephemeral: false }), ...reply };
  const route = Routes.channelMessages(message.channel_id);
  await ports.calls.tell({ method: 'post', route, channel, what: 'answer', body });
}
