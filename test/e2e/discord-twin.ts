type Found<T> = { findMany(query?: object): Promise<readonly T[]> };
type Message = { readonly id: string; readonly content: string; readonly components?: readonly object[] };
type Interaction = { readonly id: string };

/** What somebody does in a channel. */
type Actor = {
  sendMessage(message: { readonly content: string }): Promise<Message>;
  editMessage(edit: { readonly messageId: string; readonly content: string }): Promise<unknown>;
  runSlashCommand(command: { readonly name: string; readonly options: readonly object[] }): Promise<Interaction>;
  clickButton(button: { readonly messageId: string; readonly customId: string }): Promise<Interaction>;
};

/** A Discord for tests that was made by somebody else, as far as it is used here. */
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

/** Its own types bring those of a browser with them, for the whole project: so it is loaded by name. */
const PACKAGE: string = 'discord-digital-twin';

/** Makes one with a person, ann, and a channel; it does not listen yet. */
export async function createTwin(): Promise<Twin> {
  const { DigitalDiscord } = (await import(PACKAGE)) as { readonly DigitalDiscord: new (options: object) => Twin };
  return new DigitalDiscord({
    guild: { name: 'lagoon' },
    channels: [{ name: 'general', type: 0 }],
    users: [{ username: 'ann' }],
  });
}
