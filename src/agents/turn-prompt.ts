import type { Effect } from '../turns/core/effect.ts';
import type { AgentId, MessageId } from '../turns/core/settings.ts';
import type { Line } from '../turns/store/port.ts';
import type { SeatContext, TurnPrompt } from './backend.ts';
import type { Floors } from './floors.ts';
import { buildPrompt } from './prompt.ts';

/** What prompts are made with, besides the floor. */
export type PromptManners = {
  readonly describe: (agent: AgentId) => { readonly name: string; readonly description: string };
  readonly signal: string | null;
  readonly contextTokens: number;
  readonly boundary: string;
  /** The session was never prompted before: it is given what an earlier one had seen, too. */
  readonly fresh: boolean;
  /** What the session was given before. */
  readonly given: Given;
};

/** What a session knows: the lines up to one, its own, and these messages. */
export type Given = { readonly upto: number; readonly messages: ReadonlySet<MessageId> };

/** Reads from the floor what a prompt effect stands for. What the agent said in this turn is what the floor recorded. */
export function turnPrompt(
  effect: Extract<Effect, { type: 'prompt' }>,
  seat: SeatContext,
  floors: Floors,
  manners: PromptManners,
): TurnPrompt {
  const { channel, agent } = seat;
  const { epoch, reason, afterLine, uptoLine } = effect;
  const view = floors.view(channel);
  const { fresh, given } = manners;
  const from = fresh ? Math.max(0, uptoLine - LINES_FOR_A_NEW_SESSION) : given.upto;
  const lines = floors
    .lines(channel, Math.min(afterLine, from), uptoLine)
    .filter((line) => fresh || line.line > afterLine || !isKnown(line, agent, given));
  const messages = effect.messages.map((id) => floors.message(id)).filter((line) => line !== null);
  const startedAt = reason === 'grant' ? Infinity : (view?.holder?.startedAt ?? Infinity);
  const saidSoFar = floors
    .recent(channel, TURN_LINES)
    .filter(({ at, author }) => at >= startedAt && author.kind === 'agent' && author.id === agent)
    .map(({ text }) => text);
  const roster = (view?.seats ?? []).map(({ agent: id, status }) => {
    const { name, description } = manners.describe(id);
    return { id, name, status, description };
  });
  const { signal, contextTokens, boundary } = manners;
  const text = buildPrompt({ seat, reason, lines, messages, saidSoFar, roster, signal, contextTokens, boundary });
  return { channel, epoch, reason, lines, messages, saidSoFar, roster, text };
}

/** Lines before `afterLine` were in prompts that were taken back before the session had them, unless it knows them in another way. */
function isKnown({ author, message }: Line, agent: AgentId, given: Given): boolean {
  return message === null ? author.id === agent : given.messages.has(message);
}

/** How many lines a session that begins in the middle of a conversation is given; `contextTokens` may cut them further. */
const LINES_FOR_A_NEW_SESSION = 50;

/** How far back the lines of one turn are looked for. */
const TURN_LINES = 500;
