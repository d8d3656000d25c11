import type { JSX } from 'preact';
import { notifies, questionWords, showQuestion, toggleNotifications } from './attention.tsx';
import { dialNow } from '../live-connection.ts';
import { Shell } from '../icons.tsx';
import { Button, SignButton } from '../parts.tsx';
import {
  auditOpen,
  drawerOpen,
  helpOpen,
  nameOf,
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
        <SignButton
          icon={notifies.value ? 'bell' : 'mute'}
          label="Notify me when an agent asks"
          title="Notify me when an agent asks"
          aria-pressed={notifies.value}
          onClick={() => void toggleNotifications()}
        />
      )}
      <SignButton icon="help" label="Keyboard shortcuts" kind="wide-only" onClick={() => (helpOpen.value = true)} />
      <SignButton icon="moon" label="Switch between light and dark" onClick={toggleTheme} />
      <SignButton
        icon="calls"
        label="Tool calls of all agents"
        title="Tool calls of all agents (4)"
        data-testid="audit"
        aria-pressed={auditOpen.value}
        onClick={() => (auditOpen.value = !auditOpen.value)}
      />
      <SignButton
        icon="panel"
        label="Floor, turns and journal"
        kind="narrow-only"
        aria-expanded={drawerOpen.value}
        onClick={toggleDrawer}
      />
    </header>
  );
}

/** Which channel is open, where no list says it, and that nobody can write there. */
function Place(): JSX.Element {
  return (
    <>
      {channels.value.length <= 1 && channelName.value !== '' && (
        <span class="channel-name faint cut">#{channelName.value}</span>
      )}
      {!writable.value && connection.value === 'open' && <span class="tag">read only</span>}
    </>
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
    <Button kind="waiting" data-testid="waiting" title="Go to the next question (Alt+A)" onClick={showQuestion}>
      <span aria-hidden="true">✋</span>
      <span class="asks-words cut">{isHere ? `${nameOf(first.agent)} asks` : questionWords(first)}</span>
      {others.length > 0 && <span>+{others.length}</span>}
    </Button>
  );
}

function Connection(): JSX.Element {
  const state = connection.value;
  return (
    <span class={`connection faint is-${state}`} data-testid="connection" data-state={state} role="status">
      <span class="dot" aria-hidden="true" />
      <span class="connection-words">{CONNECTION[state]}</span>
      {state === 'lost' && (
        <Button kind="link" onClick={dialNow}>
          Try now
        </Button>
      )}
    </span>
  );
}
