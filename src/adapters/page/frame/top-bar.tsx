import type { JSX } from 'preact';
import { notifies, questionWords, showQuestion, toggleNotifications } from './attention.tsx';
import { dialNow } from '../live-connection.ts';
import { Icon, Shell } from '../icons.tsx';
import {
  auditOpen,
  drawerOpen,
  helpOpen,
  agentOf,
  channel,
  channelName,
  channels,
  connection,
  openQuestions,
  writable,
} from '../state.ts';
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
      {!auditOpen.value && <Place />}
      <span class="spring" />
      <Waiting />
      <Connection />
      {notifies.value !== null && (
        <button
          type="button"
          class="quiet square"
          aria-label="Notify me when an agent asks"
          title="Notify me when an agent asks"
          aria-pressed={notifies.value}
          onClick={() => void toggleNotifications()}
        >
          <Icon name={notifies.value ? 'bell' : 'mute'} />
        </button>
      )}
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
      <CallsButton />
      <button
        type="button"
        class="quiet square narrow-only"
        aria-label="Floor, turns and journal"
        aria-expanded={drawerOpen.value}
        onClick={toggleDrawer}
      >
        <Icon name="panel" />
      </button>
    </header>
  );
}

/** Which channel is open, where no list says it, and that nobody can write there. */
function Place(): JSX.Element {
  return (
    <>
      {channels.value.length <= 1 && channelName.value !== '' && <span class="channel-name">#{channelName.value}</span>}
      {!writable.value && connection.value === 'open' && <span class="tag">read only</span>}
    </>
  );
}

function CallsButton(): JSX.Element {
  return (
    <button
      type="button"
      class="quiet square"
      data-testid="audit"
      aria-label="Tool calls of all agents"
      title="Tool calls of all agents (4)"
      aria-pressed={auditOpen.value}
      onClick={() => (auditOpen.value = !auditOpen.value)}
    >
      <Icon name="calls" />
    </button>
  );
}

/** The panel stands beside a channel. */
function toggleDrawer(): void {
  drawerOpen.value = auditOpen.value || !drawerOpen.value;
  auditOpen.value = false;
}

/** Who waits for people's answer; a press goes there, and the next press to the next question. */
function Waiting(): JSX.Element | null {
  const [first, ...others] = openQuestions.value;
  if (first === undefined) return null;
  const isHere = first.channel.id === channel.value && !auditOpen.value;
  return (
    <button
      type="button"
      class="waiting"
      data-testid="waiting"
      title="Go to the next question (Alt+A)"
      onClick={showQuestion}
    >
      <span aria-hidden="true">✋</span>
      <span class="asks-words">{isHere ? `${agentOf(first.agent).name} asks` : questionWords(first)}</span>
      {others.length > 0 && <span>+{others.length}</span>}
    </button>
  );
}

function Connection(): JSX.Element {
  const state = connection.value;
  return (
    <span class={`connection is-${state}`} data-testid="connection" data-state={state} role="status">
      <span class="dot" aria-hidden="true" />
      <span class="connection-words">{CONNECTION[state]}</span>
      {state === 'lost' && (
        <button type="button" class="link" onClick={dialNow}>
          Try now
        </button>
      )}
    </span>
  );
}
