import { useSignalEffect } from '@preact/signals';
import type { JSX } from 'preact';
import { Button, SignButton } from '../parts.tsx';
import { ask } from '../sending.ts';
import { channel, connection, drawerOpen, tab } from '../state.ts';
import { FloorTab } from './floor-tab.tsx';
import { Journal } from './journal.tsx';
import { Turns } from './turns.tsx';

const TABS = ['floor', 'turns', 'journal'] as const;

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
          {TABS.map((id) => (
            <Button
              key={id}
              role="tab"
              id={`tab-${id}`}
              aria-selected={tab.value === id}
              aria-controls="panel-body"
              tabIndex={tab.value === id ? 0 : -1}
              onClick={() => (tab.value = id)}
            >
              {`${id.charAt(0).toUpperCase()}${id.slice(1)}`}
            </Button>
          ))}
        </div>
        <SignButton icon="close" label="Close" kind="narrow-only" onClick={() => (drawerOpen.value = false)} />
      </div>
      <div class="panel-body" id="panel-body" role="tabpanel" aria-labelledby={`tab-${tab.value}`}>
        {tab.value === 'floor' && <FloorTab />}
        {tab.value === 'journal' ? <Journal /> : <Turns isStrip={tab.value === 'floor'} />}
      </div>
    </aside>
  );
}

function moveTab(event: KeyboardEvent): void {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step === undefined) return;
  tab.value = TABS[(TABS.indexOf(tab.value) + step + TABS.length) % TABS.length] ?? 'floor';
  document.querySelector<HTMLElement>(`#tab-${tab.value}`)?.focus();
}
