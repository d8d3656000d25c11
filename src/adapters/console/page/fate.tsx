import type { JSX } from 'preact';
import type { InterruptMode } from '../../../turns/floor/settings.ts';
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
  const online = floor.seats.some((seat) => seat.status !== 'OFFLINE');
  if (!online) return 'No agent is available: the message waits for the first one that is back';
  if (floor.condition === 'paused') return 'The floor is paused: the message waits';
  if (floor.holder === null) return 'Opens an exchange: the agents answer in turn';
  const { name } = agentOf(floor.holder.agent);
  if (floor.holder.status === 'WAITING') return `${name} waits: your message can be its answer`;
  return DURING[floor.mode](name);
}
