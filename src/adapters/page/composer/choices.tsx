import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { completions } from '../../../turns/commands/completions.ts';
import type { Completion } from '../../../turns/commands/completions.ts';
import { askedOn } from '../../../turns/floor/seats.ts';
import { agents, messages, view } from '../state.ts';

/** How the line in the composer may go on. */
export const offered = signal<readonly Completion[]>([]);
/** Which of them is marked. */
export const chosen = signal(0);

/** Offers what fits what has been typed: words of commands, or agents after "@". */
export function offer(line: string): void {
  chosen.value = 0;
  offered.value = choicesFor(line);
}

/** Moves the mark or closes the list; true when the key was for the list. */
export function pressInChoices(event: KeyboardEvent): boolean {
  const count = offered.value.length;
  if (count === 0) return false;
  if (event.key === 'ArrowDown') chosen.value = (chosen.value + 1) % count;
  else if (event.key === 'ArrowUp') chosen.value = (chosen.value + count - 1) % count;
  else if (event.key === 'Escape') offered.value = [];
  else return false;
  event.preventDefault();
  event.stopPropagation();
  return true;
}

/** The list over the composer. */
export function Choices(props: { readonly take: (line: string) => void }): JSX.Element | null {
  if (offered.value.length === 0) return null;
  return (
    <ul class="choices" id="choices" role="listbox" aria-label="Completions">
      {offered.value.map((choice, place) => (
        <li
          key={choice.line}
          id={`choice-${place}`}
          role="option"
          class="choice"
          aria-selected={place === chosen.value}
          onMouseDown={(event) => {
            event.preventDefault();
            props.take(choice.line);
          }}
        >
          <span class="choice-word">{choice.value}</span>
          <span class="faint cut">{choice.summary}</span>
        </li>
      ))}
    </ul>
  );
}

function choicesFor(line: string): readonly Completion[] {
  if (/^[/!]\S*/.test(line) && !line.includes('\n')) {
    const newest = messages.peek().filter((message) => message.kind === 'person');
    const known = newest.slice(-10).toReversed();
    const floor = view.peek();
    return completions(line, {
      agents: agents.peek(),
      messages: known.map(({ id, text }) => ({ id, summary: text.slice(0, 60) })),
      asked: floor === null ? [] : askedOn(floor),
    }).slice(0, 8);
  }
  const [whole, front = '', typed] = /^([\s\S]*(?:^|\s))@([\p{L}\p{N}_-]*)$/u.exec(line) ?? [];
  if (whole === undefined || typed === undefined) return [];
  return agents
    .peek()
    .filter(({ id, name }) => [id, name].some((word) => word.toLowerCase().startsWith(typed.toLowerCase())))
    .map(({ id, name }) => ({ value: `@${id}`, summary: name, line: `${front}@${id}` }));
}
