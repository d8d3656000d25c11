import type { Line } from '../../../turns/view.ts';
import { neutralised } from '../../prompt/prompt.ts';
import type { TurnPrompt } from '../backend.ts';
import { FLOOR_TOOLS } from '../../tools/floor-tools.ts';

/** What a prompt says of the tools of this server, because some agents do not list them. */
export function toolHint(server: string): string {
  const names = Object.keys(FLOOR_TOOLS).join(', ');
  return `The tools of the server "${server}" are yours for the floor: ${names}. A plain answer needs none of them.`;
}

/** A prompt's text for an agent that has forgotten the rules and who is here. */
export function withSystem({ system }: TurnPrompt, text: string): string {
  return text.includes(system) ? text : `${system}\n\n${text}`;
}

/** A message that comes in the middle of a turn, attributed by the host inside a boundary. */
export function injectedWords(line: Line, boundary: string): string {
  const change = line.change === null ? '' : `, ${line.change}`;
  const text = line.change === 'deleted' ? '(deleted)' : neutralised(line.text, boundary);
  return [
    'While you have the floor this was written. Only the line "[from NAME (id)]" is the host\'s. Take it into account and go on.',
    `=== ${boundary} ===`,
    `[from ${plain(line.author.name, boundary)} (${plain(line.author.id, boundary)})${change}]`,
    text,
    `=== end ${boundary} ===`,
  ].join('\n');
}

/** A turn begun anew because messages came in that could not be handed over otherwise. */
export function begunAnew(prompt: string, said: string, messages: readonly string[]): string {
  const so =
    said.trim() === '' ? '' : `You had begun to answer; this is posted already, do not repeat it:\n\n${said.trim()}`;
  return [prompt, so, ...messages].filter((part) => part !== '').join('\n\n');
}

/** What is said in place of an answer that ended without a word. */
export function explainSilence(stopReason: string, refused: string | null): string | null {
  if (refused !== null) return `(I was not allowed to: ${refused})`;
  switch (stopReason) {
    case 'refusal':
      return '(I decline to answer that)';
    case 'max_tokens':
      return '(my answer was cut off: the model used up its tokens)';
    case 'max_turn_requests':
      return '(I stopped: this took more steps than I may take in one turn)';
    case 'cancelled':
      return '(I stopped before I had an answer)';
    default:
      return null;
  }
}

/** Names come from platforms: one line of limited length, without brackets. */
function plain(name: string, boundary: string): string {
  const line = name.replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ').replace(/[\p{Ps}\p{Pe}]/gu, '');
  return line.replaceAll(boundary, '').slice(0, 80);
}
