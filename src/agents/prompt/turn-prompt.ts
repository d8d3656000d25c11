import type { Effect } from '../../turns/floor/effect.ts';
import type { AgentId, MessageId } from '../../turns/floor/settings.ts';
import type { Line } from '../../turns/records.ts';
import type { SeatContext, TurnPrompt } from '../backends/backend.ts';
import type { Floors } from '../session/floors.ts';
import { buildPrompt } from './prompt.ts';

/** What prompts are made with, besides the floor. */
export type PromptManners = {
  readonly describe: (agent: AgentId) => { readonly name: string; readonly description: string };
  readonly signal: string | null;
  readonly contextTokens: number;
  readonly boundary: string;
  /** What the session was given before. */
  readonly given: Given;
};

/** What a session knows: the lines up to one, its own, and these messages. */
export class Given {
  #memory: object | null = null;
  #fresh = true;
  #upto = 0;
  #messages = new Set<MessageId>();

  /** The session was never prompted before: it is given what an earlier one had seen, too. */
  get fresh(): boolean {
    return this.#fresh;
  }

  /** The last line that it was prompted with. */
  get upto(): number {
    return this.#upto;
  }

  /** A session with this memory is about to be prompted; another one than before knows nothing. */
  begin(memory: object): void {
    this.#fresh = this.#memory !== memory;
    this.#memory = memory;
    if (this.#fresh) this.#messages.clear();
  }

  /** It was prompted with all this, up to a line. */
  prompted({ lines, messages }: TurnPrompt, upto: number): void {
    this.#upto = upto;
    for (const { message } of [...lines, ...messages]) if (message !== null) this.#messages.add(message);
  }

  /** It was told of a message in another way. */
  told(message: MessageId): void {
    this.#messages.add(message);
  }

  has(message: MessageId): boolean {
    return this.#messages.has(message);
  }
}

/** A prompt, and the messages to answer for which it had no room. */
export type MadePrompt = { readonly turn: TurnPrompt; readonly left: readonly MessageId[] };

/** Reads from the floor what a prompt effect stands for. What the agent said in this turn is what the floor recorded. */
export function turnPrompt(
  effect: Extract<Effect, { type: 'prompt' }>,
  seat: SeatContext,
  floors: Floors,
  manners: PromptManners,
): MadePrompt {
  const { channel, agent } = seat;
  const { epoch, reason, afterLine, uptoLine, open } = effect;
  const view = floors.view(channel);
  const { given } = manners;
  const from = given.fresh ? Math.max(0, uptoLine - LINES_FOR_A_NEW_SESSION) : given.upto;
  const lines = floors
    .lines(channel, Math.min(afterLine, from), uptoLine)
    .filter((line) => given.fresh || line.line > afterLine || !isKnown(line, agent, given));
  const asked = effect.messages.map((id) => floors.message(id)).filter((line) => line !== null);
  const startedAt = reason === 'grant' ? Infinity : (view?.holder?.startedAt ?? Infinity);
  const said = floors
    .recent(channel, TURN_LINES)
    .filter(({ at, author }) => at >= startedAt && author.kind === 'agent' && author.id === agent);
  const roster = (view?.seats ?? []).map(({ agent: id, status }) => {
    const { name, description } = manners.describe(id);
    return { id, name, status, description };
  });
  const { signal, contextTokens, boundary } = manners;
  const parts = { seat, reason, messages: asked, open, lines, said, roster, signal, contextTokens, boundary };
  const { text, left } = buildPrompt(parts);
  const isIn = ({ message }: Line): boolean => message === null || !left.includes(message);
  const saidSoFar = said.map((line) => line.text);
  const shown = {
    lines: lines.filter(isIn),
    messages: asked.filter(isIn),
    open: open.filter((id) => !left.includes(id)),
  };
  return { turn: { channel, epoch, reason, ...shown, saidSoFar, roster, text }, left };
}

/** Lines before `afterLine` were in prompts that were taken back before the session had them, unless it knows them in another way. */
function isKnown({ author, message }: Line, agent: AgentId, given: Given): boolean {
  return message === null ? author.id === agent : given.has(message);
}

/** How many lines a session that begins in the middle of a conversation is given; `contextTokens` may cut them further. */
const LINES_FOR_A_NEW_SESSION = 50;

/** How far back the lines of one turn are looked for. */
const TURN_LINES = 500;
