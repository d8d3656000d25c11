import { render } from 'preact';
import { startAttention, Announcer } from './frame/attention.tsx';
import { connect } from './live-connection.ts';
import { startClock } from './now.ts';
import { startShortcuts, Help } from './frame/shortcuts.tsx';
import { startTheme } from './stored.ts';
import { signal, useSignalEffect } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { FunctionComponent, JSX } from 'preact';
import { Composer } from './composer/composer.tsx';
import { Conversation } from './conversation/conversation.tsx';
import { FloorBar } from './floor/floor-bar.tsx';
import { refusedAccess, NoAccess } from './access.tsx';
import { auditOpen, drawerOpen, channel, channels, connection } from './state.ts';
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
    const isGone = channels.value.length > 0 && channels.value.every(({ id }) => id !== channel.peek());
    if (isGone) ask({ type: 'open', channel: null });
  });
  if (refusedAccess.value !== null) return <NoAccess why={refusedAccess.value} />;
  return (
    <div
      class={`frame${several ? ' with-channels' : ''}${drawerOpen.value ? ' drawer-open' : ''}${isStale ? ' is-stale' : ''}`}
    >
      {!auditOpen.value && (
        <a class="skip-link" href="#composer">
          Go to the composer
        </a>
      )}
      <TopBar />
      {several && <ChannelList />}
      {auditOpen.value ? (
        <Audit />
      ) : (
        <>
          <main class="middle">
            <FloorBar />
            <Conversation />
            <Composer />
          </main>
          <div class="scrim" onClick={() => (drawerOpen.value = false)} />
          <Panel />
        </>
      )}
      <Help />
      <Announcer />
    </div>
  );
}

/** The view of the tool calls, loaded when it is first opened. */
const auditView = signal<FunctionComponent | 'failed' | null>(null);

function Audit(): JSX.Element {
  const View = auditView.value;
  useEffect(() => {
    const load = async (): Promise<void> => {
      const view = await import('./audit/audit.tsx').then(
        ({ AuditView }) => AuditView,
        () => 'failed' as const,
      );
      auditView.value = view;
    };
    if (typeof auditView.peek() !== 'function') void load();
  }, []);
  if (typeof View === 'function') return <View />;
  return (
    <main class="middle" aria-busy={View === null}>
      {View === 'failed' && <p role="alert">The tool calls cannot be shown now: load the page again.</p>}
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
