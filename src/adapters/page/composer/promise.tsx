import type { JSX } from 'preact';
import { fateWords } from '../../../turns/commands/fact-words.ts';
import { whyHeld } from '../../../turns/commands/read.ts';
import { NOBODY } from '../../../turns/floor/gate.ts';
import type { Fate } from '../../../turns/floor/fact.ts';
import { addressedIn } from '../../../turns/text/recognition.ts';
import { agentOf, connection, messages, outlook, view, writable } from '../state.ts';
import { unfinished } from './unfinished.ts';

/** Says beforehand what will become of what is being written, as the floor itself decides it. */
export function MessagePromise(props: { readonly line: boolean }): JSX.Element {
  return (
    <span class="fate" data-testid="fate">
      {words(props.line)}
    </span>
  );
}

function words(line: boolean): string {
  if (connection.value === 'lost') return line ? 'Commands need a connection' : 'Will be sent when Conch is back';
  if (line) return 'A command: the answer is only for you';
  if (!writable.value) return 'Write in this channel on its own platform';
  const [first] = addressed();
  const fate = first === undefined ? outlook.value?.unaddressed : outlook.value?.addressed[first];
  if (fate === undefined) return '';
  const said = fateWords(fate, nameOf);
  const why = view.value === null || isPlain(fate) ? null : whyHeld(view.value, nameOf);
  const promise = fate.state === 'unrouted' ? `Will reach nobody: ${fate.why}` : `Will be ${said}`;
  return why === null ? promise : `${promise}. ${why}`;
}

/** Whether all is said with what becomes of it. */
function isPlain(fate: Fate): boolean {
  if (fate.state === 'held') return fate.until === 'turn' || fate.until === 'exchange';
  return fate.state !== 'unrouted' || fate.why !== NOBODY;
}

/** Whom the text names, or whose message it replies to. */
function addressed(): readonly string[] {
  const { text, replyTo } = unfinished.value;
  const seated = (view.value?.seats ?? []).map(({ agent }) => agentOf(agent));
  const repliedTo = messages.value.find(({ id, kind }) => id === replyTo?.id && kind === 'agent');
  return [...(repliedTo === undefined ? [] : [repliedTo.speaker.id]), ...addressedIn(text, seated)];
}

function nameOf(id: string): string {
  return agentOf(id).name;
}
