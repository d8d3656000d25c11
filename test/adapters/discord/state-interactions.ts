import { randomBytes } from 'node:crypto';
import { composed, edit, post, applyChange, remove } from './state-messages.ts';
import type { Change, Draft } from './state-messages.ts';
import { must } from './state.ts';
import type { Channel, Json, Message, World } from './state.ts';

/** Milliseconds from an interaction until a first answer is too late, and until the token expires. */
const ANSWER_MS = 3000;
const TOKEN_MS = 15 * 60_000;

const EPHEMERAL = 64;
const LOADING = 128;
/** The message type of an answer to a slash command. */
const COMMAND_REPLY = 20;
const DEFERRED_MESSAGE = 5;
const DEFERRED_UPDATE = 6;

/** The answer that a person sees to a command, button or form. Changes when the program edits the answer. */
export type Answer = {
  /**
   * `failed`: "The application did not respond". `updated`: the message with the button was changed, or nothing is
   * shown.
   */
  state: 'waiting' | 'failed' | 'thinking' | 'shown' | 'updated';
  /** True when only the person sees the answer. */
  ephemeral: boolean;
  text: string;
  components: readonly Json[];
  embeds: readonly Json[];
  files: readonly { readonly name: string; readonly text: string }[];
  readonly followUps: { readonly text: string; readonly ephemeral: boolean }[];
  /** The completions for a half-typed option. */
  choices: readonly { readonly name: string; readonly value: string | number }[];
  modal: Json | null;
};

export type Interaction = {
  readonly id: string;
  readonly token: string;
  readonly at: number;
  readonly user: string;
  readonly channel: Channel;
  /** The message with the pressed button. */
  readonly source: Message | null;
  readonly answer: Answer;
  /** The type of the first answer; `null` before it. */
  ack: number | null;
  original: Message | null;
  readonly followUps: Map<string, Message>;
  /** Called after a visible change. */
  changed: () => void;
};

/** Opens an interaction. The program has 3 s from now for its first answer. */
export function opened(
  world: World,
  where: { readonly user: string; readonly channel: Channel; readonly source: Message | null },
): Interaction {
  return {
    id: world.id(),
    token: randomBytes(80).toString('base64url'),
    at: performance.now(),
    ...where,
    answer: {
      state: 'waiting',
      ephemeral: false,
      text: '',
      components: [],
      embeds: [],
      files: [],
      followUps: [],
      choices: [],
      modal: null,
    },
    ack: null,
    original: null,
    followUps: new Map(),
    changed: () => undefined,
  };
}

/** Returns whether a first answer would come too late. */
export function isTooLate(interaction: Interaction): boolean {
  return performance.now() - interaction.at > ANSWER_MS;
}

export function isExpired(interaction: Interaction): boolean {
  return performance.now() - interaction.at > TOKEN_MS;
}

/** Handles a deferred first answer: "thinking", or a later change of the message with the button. */
export function defer(
  world: World,
  interaction: Interaction,
  how: { readonly type: number; readonly flags: number },
): void {
  const { answer } = interaction;
  acknowledge(interaction, how.type);
  if (how.type === DEFERRED_UPDATE) {
    answer.state = 'updated';
    interaction.original = interaction.source;
  } else {
    answer.state = 'thinking';
    answer.ephemeral = (how.flags & EPHEMERAL) !== 0;
    interaction.original = shown(world, interaction, { text: '', flags: (how.flags & EPHEMERAL) | LOADING });
  }
  interaction.changed();
}

/** Handles a first answer that is a message. */
export function reply(world: World, interaction: Interaction, draft: Omit<Draft, 'author'>): Message {
  acknowledge(interaction, 4);
  const message = shown(world, interaction, draft);
  interaction.original = message;
  reveal(interaction, message);
  return message;
}

/** Handles a first answer that changes the message with the button. */
export function updateSource(world: World, interaction: Interaction, change: Change): Message {
  const source = must(interaction.source, 'clicked message');
  acknowledge(interaction, 7);
  interaction.original = source;
  interaction.answer.state = 'updated';
  amend(world, interaction, source, change);
  return source;
}

/** Handles a first answer that is a list of completions or a form. */
export function offer(interaction: Interaction, type: number, what: Partial<Pick<Answer, 'choices' | 'modal'>>): void {
  acknowledge(interaction, type);
  Object.assign(interaction.answer, what, { state: 'shown' });
  interaction.changed();
}

/** Adds a message to the answer. After "thinking", the first added message replaces "thinking". */
export function followUp(world: World, interaction: Interaction, draft: Omit<Draft, 'author'>): Message {
  const { original } = interaction;
  if (interaction.ack === DEFERRED_MESSAGE && original !== null && (original.flags & LOADING) !== 0) {
    amend(world, interaction, original, { ...draft, flags: original.flags });
    return original;
  }
  const message = shown(world, interaction, draft);
  interaction.followUps.set(message.id, message);
  interaction.answer.followUps.push({ text: message.content, ephemeral: (message.flags & EPHEMERAL) !== 0 });
  interaction.changed();
  return message;
}

/** Changes the answer, a follow-up or the message with the button. */
export function amend(world: World, interaction: Interaction, message: Message, change: Change): void {
  const flags = (change.flags ?? message.flags) & ~LOADING;
  if (isPublic(interaction, message)) edit(world, interaction.channel, message, { ...change, flags });
  else applyChange(world, interaction.channel, message, { ...change, flags });
  if (message === interaction.original && interaction.source !== message) reveal(interaction, message);
  else interaction.changed();
}

/** Deletes an answer. */
export function withdraw(world: World, interaction: Interaction, message: Message): void {
  if (isPublic(interaction, message)) remove(world, interaction.channel, message);
  if (message === interaction.original) {
    interaction.original = null;
    Object.assign(interaction.answer, { state: 'updated', text: '', components: [], embeds: [], files: [] });
  }
  interaction.followUps.delete(message.id);
  interaction.changed();
}

function acknowledge(interaction: Interaction, type: number): void {
  interaction.ack = type;
}

function shown(world: World, interaction: Interaction, draft: Omit<Draft, 'author'>): Message {
  const type = interaction.source === null && interaction.original === null ? COMMAND_REPLY : 0;
  const whole: Draft = { type, ...draft, author: world.bot.id, interaction: interaction.id };
  const quiet = ((draft.flags ?? 0) & EPHEMERAL) !== 0;
  return quiet ? composed(world, interaction.channel, whole) : post(world, interaction.channel, whole);
}

function reveal(interaction: Interaction, message: Message): void {
  const { answer } = interaction;
  answer.state = 'shown';
  answer.ephemeral = (message.flags & EPHEMERAL) !== 0;
  answer.text = message.content;
  answer.components = message.components;
  answer.embeds = message.embeds;
  answer.files = message.attachments.map(({ name, content }) => ({ name, text: content.toString('utf8') }));
  interaction.changed();
}

function isPublic(interaction: Interaction, message: Message): boolean {
  return interaction.channel.messages.includes(message);
}
