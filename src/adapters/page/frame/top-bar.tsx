import { useEffect, useRef } from 'preact/hooks';
import type { JSX } from 'preact';
import type { ChannelEntry } from '../../console/protocol.ts';
import { notifies, questionWords, showQuestion, toggleNotifications } from './attention.tsx';
import { dialNow } from '../live-connection.ts';
import { Shell } from '../icons.tsx';
import { Button, SignButton, toneOf } from '../parts.tsx';
import { ask, isUnfinished } from '../sending.ts';
import {
  activity,
  drawerOpen,
  helpOpen,
  nameOf,
  channel,
  channelName,
  channels,
  connection,
  crewAsks,
  isPast,
  openQuestions,
  openView,
  toggleView,
  writable,
} from '../state.ts';
import { toggleTheme } from '../stored.ts';

const CONNECTION = { connecting: 'Connecting…', open: 'Connected', lost: 'Reconnecting…' } as const;

/** Name, channel, open questions, connection, and the buttons of the page. */
export function TopBar(): JSX.Element {
  return (
    <header class="top-bar">
      <h1 class="brand">
        <Shell />
        <span class="brand-name">Conch</span>
      </h1>
      {openView.value === null && <Place />}
      <span class="spring" />
      <Waiting />
      <Connection />
      {notifies.value !== null && (
        <SignButton
          icon={notifies.value ? 'bell' : 'mute'}
          label="Notify me when an agent asks"
          aria-pressed={notifies.value}
          onClick={() => void toggleNotifications()}
        />
      )}
      <SignButton icon="help" label="Keyboard shortcuts" kind="wide-only" onClick={() => (helpOpen.value = true)} />
      <SignButton icon="moon" label="Switch between light and dark" onClick={toggleTheme} />
      <Crew />
      <SignButton
        icon="calls"
        label="Tool calls of all agents"
        title="Tool calls of all agents (4)"
        data-testid="audit"
        aria-pressed={openView.value === 'audit'}
        onClick={() => toggleView('audit')}
      />
      {!isPast.value && (
        <SignButton
          icon="panel"
          label="Floor, turns and journal"
          kind="narrow-only"
          aria-expanded={drawerOpen.value}
          onClick={toggleDrawer}
        />
      )}
    </header>
  );
}

function Crew(): JSX.Element | null {
  if (crewAsks.value === undefined) return null;
  const asks = crewAsks.value.length;
  return (
    <Button
      kind="quiet square crew-button"
      icon="crew"
      aria-label={`Crew of this channel${asks > 0 ? `, ${asks} waiting for people` : ''}`}
      title="Crew of this channel"
      data-testid="crew"
      aria-pressed={openView.value === 'crew'}
      onClick={() => toggleView('crew')}
    >
      {asks > 0 && <span class="count">{asks}</span>}
    </Button>
  );
}

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

function toggleDrawer(): void {
  drawerOpen.value = openView.value !== null || !drawerOpen.value;
  openView.value = null;
}

function Waiting(): JSX.Element | null {
  const [first, ...others] = openQuestions.value;
  if (first === undefined) return null;
  const isHere = first.channel.id === channel.value && openView.value === null;
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

/** The channels, each with its holder, open question and number of new messages. */
export function ChannelList(): JSX.Element {
  return (
    <nav class="channels" aria-label="Channels">
      <ul>
        {channels.value.map((entry) => (
          <Channel key={entry.id} entry={entry} />
        ))}
      </ul>
    </nav>
  );
}

function Channel({ entry }: { readonly entry: ChannelEntry }): JSX.Element {
  const { id, name, holder } = entry;
  const isOpen = id === channel.value;
  const count = activity.value[id] ?? 0;
  const asks = openQuestions.value.some((open) => open.channel.id === id);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (isOpen) button.current?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }, [isOpen]);
  return (
    <li>
      <button
        ref={button}
        type="button"
        class={`channel${asks ? ' asks' : ''}`}
        data-testid="channel"
        data-channel={id}
        aria-current={isOpen && openView.value === null ? 'page' : undefined}
        title={holder === null ? `#${name}` : `#${name}: ${nameOf(holder)} has the floor`}
        onClick={() => {
          openView.value = null;
          ask({ type: 'open', channel: id });
        }}
      >
        <span class="channel-title cut">#{name}</span>
        {!entry.writable && <span class="platform">{entry.past ? 'finished' : id.split(':', 1)[0]}</span>}
        <span class="channel-signs">
          {asks ? (
            <span class="asking">
              <span aria-hidden="true">✋</span>
              <span class="unseen">waits for an answer</span>
            </span>
          ) : (
            holder !== null && <span class={`dot ${toneOf(holder)}`} aria-hidden="true" />
          )}
          {!isOpen && isUnfinished(id) && (
            <span class="begun" title="Unsent draft">
              <span aria-hidden="true">✎</span>
              <span class="unseen">unsent draft</span>
            </span>
          )}
          {!isOpen && count > 0 && <span class="count">{count > 99 ? '99+' : count}</span>}
        </span>
      </button>
    </li>
  );
}
