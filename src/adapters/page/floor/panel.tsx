import { useSignalEffect } from '@preact/signals';
import type { JSX } from 'preact';
import { Asides, Controls, HeldMessages, Seats } from './floor-tab.tsx';
import { Icon } from '../icons.tsx';
import { Journal } from './journal.tsx';
import { drawerOpen, tab, channel, connection } from '../state.ts';
import { ask } from '../sending.ts';
import { Turns } from './turns.tsx';

const TABS = [
  { id: 'floor', title: 'Floor' },
  { id: 'turns', title: 'Turns' },
  { id: 'journal', title: 'Journal' },
] as const;

/** Beside the conversation: the floor in full, the turns, the journal. A drawer on narrow screens. */
export function Panel(): JSX.Element {
  useSignalEffect(() => {
    if (connection.value !== 'open' || channel.value === null) return;
    ask({ type: 'watch', channel: channel.value, on: tab.value === 'journal' });
  });
  return (
    <aside class="panel" aria-label="The floor in detail">
      <div class="tabs">
        <div class="tab-list" role="tablist" aria-label="Details" onKeyDown={moveTab}>
          {TABS.map(({ id, title }) => (
            <button
              key={id}
              type="button"
              role="tab"
              id={`tab-${id}`}
              aria-selected={tab.value === id}
              aria-controls="panel-body"
              tabIndex={tab.value === id ? 0 : -1}
              onClick={() => (tab.value = id)}
            >
              {title}
            </button>
          ))}
        </div>
        <button
          type="button"
          class="quiet square narrow-only"
          aria-label="Close"
          onClick={() => (drawerOpen.value = false)}
        >
          <Icon name="close" />
        </button>
      </div>
      <div class="panel-body" id="panel-body" role="tabpanel" aria-labelledby={`tab-${tab.value}`}>
        {tab.value === 'floor' && (
          <>
            <Seats />
            <Asides />
            <HeldMessages />
            <Controls />
            <Turns strip />
          </>
        )}
        {tab.value === 'turns' && <Turns />}
        {tab.value === 'journal' && <Journal />}
      </div>
    </aside>
  );
}

function moveTab(event: KeyboardEvent): void {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step === undefined) return;
  const place = TABS.findIndex(({ id }) => id === tab.value);
  tab.value = TABS[(place + step + TABS.length) % TABS.length]?.id ?? 'floor';
  document.querySelector<HTMLElement>(`#tab-${tab.value}`)?.focus();
}
