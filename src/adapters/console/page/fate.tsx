import type { InterruptMode } from '../../../turns/floor/modes.ts';
import type { JSX } from 'preact';
import { firstFor } from '../../../turns/floor/gate.ts';
import type { FloorView } from '../../../turns/view.ts';
import { agentOf, view, writable } from './state.ts';

const DURING: Readonly<Record<InterruptMode, (name: string) => string>> = {
  inject: (name) => `${name} sees it at once and goes on`,
  queue: (name) => `held until ${name}'s turn ends`,
  interrupt: (name) => `interrupts ${name}`,
  parallel: (name) => `everybody sees it, ${name} goes on`,
};

/** Says beforehand what will become of what is being written. */
export function Fate(props: { readonly line: boolean }): JSX.Element {
  return <span class="fate">{words(props.line)}</span>;
}

function words(line: boolean): string {
  if (line) return 'A command: the answer is only for you';
  if (!writable.value) return 'Write in this channel on its own platform';
  const floor = view.value;
  if (floor === null) return '';
  if (floor.holder === null) return onFreeFloor(floor);
  const { name } = agentOf(floor.holder.agent);
  if (floor.holder.status === 'WAITING') return `${name} waits: your message can be its answer`;
  return DURING[floor.mode](name);
}

function onFreeFloor(floor: FloorView): string {
  switch (firstFor('person', floor.obstacles)?.why) {
    case 'catching-up':
      return 'The history is being read: the message waits';
    case 'paused':
      return 'The floor is paused: the message waits';
    case 'day-limit':
      return 'A budget of the day is used up: the message waits';
    case 'nobody-available':
      return 'No agent is available: the message waits for the first one that is back';
    case 'taken':
    case undefined:
      return 'Opens an exchange: the agents answer in turn';
  }
}
