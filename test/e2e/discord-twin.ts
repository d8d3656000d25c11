type Found<T> = { findMany(query?: object): Promise<readonly T[]> };
type Message = { readonly id: string; readonly content: string; readonly components?: readonly object[] };
type Interaction = { readonly id: string };

/** The actions of a user in a channel. */
type Actor = {
  sendMessage(message: { readonly content: string }): Promise<Message>;
  editMessage(edit: { readonly messageId: string; readonly content: string }): Promise<unknown>;
  runSlashCommand(command: { readonly name: string; readonly options: readonly object[] }): Promise<Interaction>;
  clickButton(button: { readonly messageId: string; readonly customId: string }): Promise<Interaction>;
};

/** The part of the package discord-digital-twin, an independent fake Discord, that the tests use. */
export type Twin = {
  readonly restUrl: string;
  readonly botToken: string;
  readonly prisma: {
    readonly channel: Found<{ readonly id: string }>;
    readonly reaction: Found<{ readonly emoji: string }>;
  };
  start(): Promise<void>;
  stop(): Promise<void>;
  getFirstNonBotUserId(): Promise<string | null>;
  channel(id: string): {
    user(id: string): Actor;
    getMessages(): Promise<readonly Message[]>;
    getThreads(): Promise<readonly { readonly id: string }[]>;
    waitForInteractionAck(which: { readonly interactionId: string }): Promise<{ readonly type: number }>;
    getInteractionResponse(interactionId: string): Promise<{ readonly data: string | null } | null>;
  };
};

/** Loaded by name: the package's types would add browser types to the whole project. */
const PACKAGE: string = 'discord-digital-twin';

/** Creates a fake Discord with a person, ann, and a channel. It listens after `start()`. */
export async function createTwin(): Promise<Twin> {
  const { DigitalDiscord } = (await import(PACKAGE)) as { readonly DigitalDiscord: new (options: object) => Twin };
  return new DigitalDiscord({
    guild: { name: 'lagoon' },
    channels: [{ name: 'general', type: 0 }],
    users: [{ username: 'ann' }],
  });
}
