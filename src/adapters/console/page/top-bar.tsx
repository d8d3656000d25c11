import type { JSX } from 'preact';
import { dialNow } from './connection.ts';
import { Icon, Shell } from './icons.tsx';
import { drawerOpen, helpOpen } from './layout.ts';
import { channelName, channels, connection, writable } from './state.ts';
import { toggleTheme } from './theme.ts';

const CONNECTION = { connecting: 'Connecting…', open: 'Connected', lost: 'Reconnecting…' } as const;

/** Name, channel, connection, and what belongs to the page itself. */
export function TopBar(): JSX.Element {
  return (
    <header class="top-bar">
      <h1 class="brand">
        <Shell />
        <span class="brand-name">Conch</span>
      </h1>
      {channels.value.length <= 1 && channelName.value !== '' && <span class="channel-name">#{channelName.value}</span>}
      {!writable.value && connection.value === 'open' && <span class="tag">read only</span>}
      <span class="spring" />
      <Connection />
      <button
        type="button"
        class="quiet square wide-only"
        aria-label="Keyboard shortcuts"
        onClick={() => (helpOpen.value = true)}
      >
        <Icon name="help" />
      </button>
      <button type="button" class="quiet square" aria-label="Switch between light and dark" onClick={toggleTheme}>
        <Icon name="moon" />
      </button>
      <button
        type="button"
        class="quiet square narrow-only"
        aria-label="Floor, turns and journal"
        aria-expanded={drawerOpen.value}
        onClick={() => (drawerOpen.value = !drawerOpen.value)}
      >
        <Icon name="panel" />
      </button>
    </header>
  );
}

function Connection(): JSX.Element {
  const state = connection.value;
  return (
    <span class={`connection is-${state}`} data-testid="connection" data-state={state} role="status">
      <span class="dot" aria-hidden="true" />
      {CONNECTION[state]}
      {state === 'lost' && (
        <button type="button" class="link" onClick={dialNow}>
          Try now
        </button>
      )}
    </span>
  );
}
