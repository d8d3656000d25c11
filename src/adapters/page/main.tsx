import { render } from 'preact';
import { startAttention, Announcer } from './frame/attention.tsx';
import { connect } from './live-connection.ts';
import { startClock } from './now.ts';
import { startShortcuts, Help } from './frame/shortcuts.tsx';
import { startTheme } from './stored.ts';
import { useSignalEffect } from '@preact/signals';
import type { JSX } from 'preact';
import { Composer } from './composer/composer.tsx';
import { Conversation } from './conversation/conversation.tsx';
import { FloorBar } from './floor/floor-bar.tsx';
import { refusedAccess, NoAccess } from './access.tsx';
import { channel, channels, connection, drawerOpen, isPast, openView } from './state.ts';
import { useLaterViews } from './later.tsx';
import { Panel } from './floor/panel.tsx';
import { ask, hear } from './sending.ts';
import { ChannelList, TopBar } from './frame/top-bar.tsx';
import './base.css';
import './frame/frame.css';
import './floor/floor.css';
import './conversation/chat.css';

/** The whole page. */
export function Page(): JSX.Element {
  const several = channels.value.length > 1;
  const isStale = connection.value === 'lost';
  useSignalEffect(() => {
    const isUnlisted = channels.value.length > 0 && channels.value.every(({ id }) => id !== channel.peek());
    // The list lacks the open channel. The server opens it read-only if its ticket is finished, else another channel.
    if (isUnlisted) ask({ type: 'open', channel: channel.peek() });
  });
  if (refusedAccess.value !== null) return <NoAccess why={refusedAccess.value} />;
  return (
    <div
      class={`frame${several ? ' with-channels' : ''}${drawerOpen.value && !isPast.value ? ' drawer-open' : ''}${isStale ? ' is-stale' : ''}${isPast.value && openView.value === null ? ' without-panel' : ''}`}
    >
      {openView.value === null && (
        <a class="skip-link" href="#composer">
          Go to the composer
        </a>
      )}
      <TopBar />
      {several && <ChannelList />}
      {openView.value !== null ? (
        <Beside />
      ) : (
        <>
          <main class="middle">
            {!isPast.value && <FloorBar />}
            <Conversation />
            <Composer />
          </main>
          <div class="scrim" onClick={() => (drawerOpen.value = false)} />
          {!isPast.value && <Panel />}
        </>
      )}
      <Help />
      <Announcer />
    </div>
  );
}

function Beside(): JSX.Element {
  const views = useLaterViews();
  if (views !== null && views !== 'failed')
    return openView.value === 'crew' ? <views.CrewDashboard /> : <views.AuditView />;
  return (
    <main class="middle" aria-busy={views === null}>
      {views === 'failed' && <p role="alert">This view cannot be shown now: load the page again.</p>}
    </main>
  );
}

const root = document.querySelector('#app');
if (root === null) throw new Error('impossible: the page has no place to draw in');
startTheme();
startClock();
startShortcuts();
startAttention();
connect(hear);
render(<Page />, root);
